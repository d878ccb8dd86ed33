"""Virtual time for all that the product asks of its machine: clocks, threads, chance, names, sockets, signals.

    install()      replaces the clocks and the sources of chance.  Before any module of the project is imported, so that
                   what binds them at its import (defaults of arguments, `from time import monotonic`) binds these
    settle()       once the product is imported: threads run at once, connections go through the simulated network
    running(...)   a schedule has begun: chance comes from its seed

Outside of a simulated process, and with no schedule running, all of it is the real one.  A program that simulates whole
mirrors is a process of its own (python -m tests.simulation.virtual MODULE:FUNCTION), since other tests need real time.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import random
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gevent._hub_local import get_hub_if_exists

if TYPE_CHECKING:
    from tests.simulation.process import Process, Timeline

UNUSED = ("__main__", "commands", "http", "compiled", "keyloops")  # modules that no daemon needs here, or numba does
PROJECT = ("groundwork", "kafkawire", "zkconsumer", "producer", "mirrormaker", "groupadmin")
REAL = {
    name: getattr(time, name)
    for name in (
        "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "clock_gettime", "process_time", "thread_time",
        "sleep",
    )
}  # fmt: skip
HELLO = b"\x16\x03\x01\x02\x00" + bytes(512)  # the first message of a TLS handshake, by which a listener is told
_real_urandom = os.urandom
_REAL_INSTANCE: random.Random = random._inst  # of random.random and its like
_lasting: list[random.Random] = []
_chance: random.Random | None = None  # of the schedule that runs
_timeline: Timeline | None = None


def here() -> Process | None:
    """The simulated process that runs now."""
    process: Process | None = getattr(get_hub_if_exists(), "process", None)
    return process


def running(timeline: Timeline | None, chance: random.Random | None) -> None:
    """A schedule begins (None: it has ended): what is asked outside of its processes is answered from it, too."""
    global _timeline, _chance
    if time.monotonic is REAL["monotonic"]:
        raise RuntimeError("call install() before any module of the project is imported")
    _timeline, _chance = timeline, chance
    if chance is not None:
        for each in (_REAL_INSTANCE, *_lasting):  # what a module made when it was imported outlives the schedule
            each.seed(chance.getrandbits(64))


# Clocks ---------------------------------------------------------------------------------------------------------------


def _clock(name: str, offset: Callable[[Process], float] = lambda process: 0.0, unit: int = 0) -> Callable[[], Any]:
    """A clock in seconds; unit: as a whole number of so many a second."""
    real = REAL[name]

    def clock() -> Any:
        process = here()
        if process is not None:
            seconds = process.timeline.now + offset(process)
        elif _timeline is not None:
            seconds = _timeline.now
        else:
            return real()
        return int(seconds * unit) if unit else seconds

    clock.__name__ = name
    return clock


def _asleep(process: Process) -> float:
    return -process.asleep_s


def _ahead(process: Process) -> float:
    return process.ahead_s


def _clock_gettime(number: int) -> float:
    process = here()
    if process is None:
        return float(REAL["clock_gettime"](number))
    if number == time.CLOCK_REALTIME:
        return process.timeline.now + process.ahead_s
    boots = number == getattr(time, "CLOCK_BOOTTIME", None)
    return process.timeline.now - (0.0 if boots else process.asleep_s)


def _worked(name: str) -> Callable[[], float]:
    """Processor time: a simulated process needs none."""
    real = REAL[name]
    return lambda: 0.0 if here() is not None else real()


def _sleep(seconds: float) -> None:
    process = here()
    if process is None:
        REAL["sleep"](seconds)
    else:
        raise AssertionError(f"{process.name} blocks its event loop for {seconds} s")


class Chance(random.Random):
    """random.Random whose seed, where none is given, comes from the schedule."""

    def __init__(self, x: Any = None) -> None:
        super().__init__(_chance.getrandbits(64) if x is None and _chance is not None else x)
        if x is None and _chance is None:
            _lasting.append(self)


class SystemChance(Chance):
    """In the place of random.SystemRandom."""


def _urandom(size: int) -> bytes:
    return _chance.randbytes(size) if _chance is not None else _real_urandom(size)


# Files ----------------------------------------------------------------------------------------------------------------

_real_open, _real_close = os.open, os.close


class Files:
    """Descriptors of one process, which its end closes; with what they were opened on, since others may close them."""

    def __init__(self) -> None:
        self._opened: dict[int, tuple[int, int]] = {}
        self._over = False

    def opened(self, number: int) -> None:
        found = os.fstat(number)
        self._opened[number] = found.st_dev, found.st_ino

    def close(self, number: int) -> None:
        if not self._over:  # else it may be another process's by now
            self._opened.pop(number, None)
            _real_close(number)

    def end(self) -> None:
        """As the kernel does for a process that is gone: locks are free then."""
        self._over = True
        opened, self._opened = self._opened, {}
        for number, identity in opened.items():
            try:
                found = os.fstat(number)
                if (found.st_dev, found.st_ino) == identity:
                    _real_close(number)
            except OSError:
                pass  # closed by what was made of it


def _open(*args: Any, **named: Any) -> int:
    number = _real_open(*args, **named)
    files: Files | None = getattr(here(), "files", None)
    if files is not None:
        files.opened(number)
    return number


def _close(number: int) -> None:
    files: Files | None = getattr(here(), "files", None)
    if files is None:
        _real_close(number)
    else:
        files.close(number)


def install() -> None:
    """Replace clocks and chance.  Raises RuntimeError where the project is imported already."""
    if early := sorted(name for name in sys.modules if name.partition(".")[0] in PROJECT):
        raise RuntimeError(f"virtual time comes too late for {early[0]}")
    os.environ.setdefault("KAFKAWIRE_KERNELS", "python")  # the compiled form is loaded in a thread
    for name in ("NOTIFY_SOCKET", "STATE_DIRECTORY", "RUNTIME_DIRECTORY", "GROUNDWORK_FAILPOINTS"):
        os.environ.pop(name, None)
    named: Any = time
    named.monotonic = _clock("monotonic", _asleep)
    named.monotonic_ns = _clock("monotonic_ns", _asleep, 1_000_000_000)
    named.perf_counter = _clock("perf_counter", _asleep)
    named.time = _clock("time", _ahead)
    named.time_ns = _clock("time_ns", _ahead, 1_000_000_000)
    named.clock_gettime = _clock_gettime
    named.process_time, named.thread_time = _worked("process_time"), _worked("thread_time")
    named.sleep = _sleep
    assert tempfile.gettempdir()  # its names are by real chance: they are nobody's but the file system's
    next(tempfile._get_candidate_names())  # type: ignore[attr-defined]
    chance: Any = random
    chance.Random, chance.SystemRandom = Chance, SystemChance
    os.urandom = _urandom
    system: Any = os
    system.open, system.close = _open, _close
    system.fsync = system.fdatasync = lambda fd: None  # no power cut is simulated


# Threads --------------------------------------------------------------------------------------------------------------


class Disk:
    """What threads beside the event loop do in one process: at once, or slow_s later each."""

    __slots__ = ("_process", "slow_s")

    def __init__(self, process: Process) -> None:
        self.slow_s = 0.0
        self._process = process

    def run(self, fn: Callable[[], object]) -> None:
        """Call fn() once a thread has come to it."""
        if self.slow_s:
            self._process.after(self.slow_s, fn)
        else:
            fn()


def _disk() -> Disk:
    process: Any = here()
    disk: Disk = process.disk
    return disk


def _import_all() -> None:
    """Import what a daemon may import later, so that the first schedule is as the second."""
    for package in ("groundwork", "kafkawire", "zkconsumer", "producer", "mirrormaker"):
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not any(part in UNUSED for part in found.name.split(".")):
                importlib.import_module(found.name)


def settle() -> None:
    """Import the product, and let it meet the simulated machine.  Repeatable."""
    from groundwork import executor, hub, plainthreads, sockets, tasks
    from kafkawire.cluster import release
    from kafkawire.net import transport
    from tests.simulation.network import SimSocket

    if executor.ThreadExecutor._queue is _queued:
        return
    _import_all()

    def begin(self: Any, fn: Callable[[], Any], name: str = "") -> Any:
        if (call := self.named.get(name)) is not None:
            return call
        call = plainthreads.PlainCall(self, fn, name)
        if name:
            self.named[name] = call
        _disk().run(call.run)
        return call

    def refused(*_: Any) -> Any:
        raise AssertionError("a real thread in virtual time")

    def connect(
        self: Any, address: tuple[str, int], timeout: float | None = None, receive_buffer_bytes: int = 0
    ) -> Any:
        process: Any = here()
        return process.network.connect(process, address, timeout)

    real_ready = sockets.ready

    def ready(opened: Any, events: int) -> bool:
        return opened.ready(events) if isinstance(opened, SimSocket) else real_ready(opened, events)

    patched: Any
    for patched, name, value in (
        (plainthreads.PlainThreads, "begin", begin),
        (executor.ThreadExecutor, "_queue", _queued),
        (executor, "start_plain_thread", refused),
        (hub, "start_plain_thread", refused),
        (tasks.HubConnect, "__call__", connect),
        (sockets, "ready", ready),
        (transport, "ready", ready),
        (release, "_client_hello", lambda host, tls: HELLO),
    ):
        setattr(patched, name, value)


def _queued(self: Any, job: Any) -> None:
    """In the place of ThreadExecutor._queue: its thread takes one call after the other, in virtual time."""
    from groundwork.hub import HubStopped

    if self._closed:
        raise HubStopped("the thread beside the hub has ended")
    waiting: deque[Any] | None = getattr(self, "_waiting", None)
    if waiting is None:
        waiting = self._waiting = deque()
    waiting.append(job)
    if len(waiting) == 1:
        _next_job(self, _disk())


def _next_job(self: Any, disk: Disk) -> None:
    self._begun_at = time.monotonic()
    disk.run(lambda: _done_job(self, disk))


def _done_job(self: Any, disk: Disk) -> None:
    job = self._waiting[0]
    try:
        job.value = job.fn(*job.args)
    except Exception as e:
        job.error = e
    if job.done is not None:
        job.done.set()
    self._waiting.popleft()
    if self._waiting:
        _next_job(self, disk)


# A program ------------------------------------------------------------------------------------------------------------


def program(module: str, argv: list[str]) -> None:
    """Begin again with PYTHONHASHSEED=0, unless it is: the order of sets is part of a schedule."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, "-m", module, *argv], {**os.environ, "PYTHONHASHSEED": "0"})


def main(argv: list[str]) -> int:
    """MODULE:FUNCTION [ARGUMENT...]: call it in virtual time."""
    program("tests.simulation.virtual", argv)
    named, *arguments = argv
    real = importlib.import_module("tests.simulation.virtual")  # this module is __main__ here
    real.install()
    real.settle()
    module, _, function = named.partition(":")
    getattr(importlib.import_module(module), function)(*arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
