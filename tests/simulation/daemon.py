"""One mirror daemon as a simulated process: the real mirrormaker.daemon, from its start to its exit code.

What stands for something else: time, threads and connections (virtual.py, network.py); kazoo's client (zookeeper); the
signals of the operating system, which are given by hand; the log, which goes nowhere or into the story; the control
socket, whose actions are called.  A mirror in several processes: workers.py.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from gevent._hub_local import get_hub_if_exists, set_hub
from gevent.greenlet import Greenlet
from gevent.hub import GreenletExit
from greenlet import greenlet

import mirrormaker.daemon
import mirrormaker.signals
import mirrormaker.zookeeper
import producer.zookeeper
from groundwork.loopdelay import HubLag
from mirrormaker.config import Configuration
from mirrormaker.control import live
from mirrormaker.control.server import Action, Refused
from mirrormaker.happenings import Happenings
from mirrormaker.report import MirrorReport
from mirrormaker.signals import Signals
from mirrormaker.workers import supervisor
from tests.simulation import virtual
from tests.simulation.network import Network
from tests.simulation.process import Process, Timeline
from tests.simulation.virtual import Disk, Files, here
from tests.simulation.zookeeper import Link, SimClient, SimZookeeper, client_for
from zkconsumer.errors import ConsumerError
from zkconsumer.group import audit
from zkconsumer.session import zksession

CRASHED = 1  # exit code of a program that ends with an exception
Answered = Callable[[str, Exception | None], object]  # an action, and why it is refused


class MirrorProcess(Process):
    """A process with a disk, a network and a way to each ZooKeeper (by its connect string).

    mirror: whose life it is.  daemon: what runs in it, once it is made.  control: the actions that it answers, once it
    does.  ends: of sockets to other processes of its machine.  code: how it ended, -N by signal N.
    """

    def __init__(
        self, name: str, timeline: Timeline, failed: Callable[[BaseException], None], machine: Machine
    ) -> None:
        super().__init__(name, timeline, failed)
        self.disk = Disk(self)
        self.files = Files()
        self.network = machine.network
        self.machine = machine
        self.mirror: Mirror
        self.daemon: Steered | None = None
        self.control: Mapping[str, Action] | None = None
        self.ends: list[Any] = []
        self.code: int | None = None
        self.handlers: list[logging.Handler] = []  # of this process's log
        self.clients: list[SimClient] = []  # kazoo's, in the order in which they were made
        self._kept: list[greenlet] = []  # of one that is dead

    def kill(self, tells: bool = True) -> None:
        """SIGKILL; tells: its machine goes on, and ends its connections."""
        if not self.dead:
            super().kill()
            if self.code is None:
                self.code = -signal.SIGKILL
            for end in self.ends:
                end.close()
            self._kept = _greenlets_of(self._hub)  # a greenlet that nobody holds any more is ended, which runs code
            self.files.end()
            self.network.gone(self, tells)

    def dispose(self) -> None:
        """Take a process that is gone apart, after which nothing of it holds anything."""
        self.kill()
        hub: Any = self._hub
        hub.switch = hub.switch_out = _gone
        before: Any = get_hub_if_exists()
        set_hub(hub)
        try:
            for each in (*self._kept, hub):
                try:
                    each.throw(GreenletExit)
                except BaseException:
                    pass
            self._kept.clear()
            self._loop.ready.clear()
        finally:
            set_hub(before)


def _greenlets_of(hub: object) -> list[greenlet]:
    """Those that have not ended."""
    refer = gc.get_referrers(hub)  # their parent is one of what they refer to
    return [each for each in refer if isinstance(each, greenlet) and each.parent is hub and not each.dead]


class Gone(BaseException):
    """This process is gone: nothing can be waited for."""


def _gone(*_: object) -> Any:
    raise Gone


class Exited(Exception):
    """os._exit was called, as a second SIGTERM does."""

    def __init__(self, code: int) -> None:
        super().__init__(f"exit code {code}")
        self.code = code


def _exit(code: int) -> None:
    if here() is None:
        _real_exit(code)
    raise Exited(code)


_real_exit = os._exit


class Machine:
    """What processes run on.  zookeepers, links: by connect string; a link for each process, too."""

    def __init__(self, network: Network, zookeepers: Mapping[str, SimZookeeper]) -> None:
        self.network = network
        self.zookeepers = zookeepers
        self.links: dict[tuple[str, str], Link] = {}

    def link(self, process: str, connect: str) -> Link:
        """The way from one process to a ZooKeeper."""
        key = process, connect
        if key not in self.links:
            self.links[key] = Link(self.network.timeline, self.network.rng)
        return self.links[key]


def _kazoo(hosts: str, handler: object = None, **given: Any) -> SimClient:
    """In the place of KazooClient(...): one of the process that runs."""
    process: Any = here()
    machine: Machine = process.machine
    connect = hosts.partition("/")[0]
    client = client_for(process, machine.zookeepers[connect], machine.link(process.name, connect), hosts=hosts, **given)
    process.clients.append(client)
    return client


class Steered:
    """A daemon or a supervisor as the schedule steers it: it is known to its process."""

    _signals: Signals

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        process: Any = here()
        process.daemon = self

    def signal(self, number: int) -> None:
        """As the operating system would call the handler of a signal."""
        self._signals._handler(number)(number, None)

    def report(self) -> MirrorReport:
        """What `mirrormaker status` asks for."""
        raise NotImplementedError


class SimDaemon(Steered, mirrormaker.daemon.Daemon):
    """The real one."""

    def report(self) -> MirrorReport:
        return self._reporter.report()


class SimControlServer:
    """In the place of ControlServer: nobody listens, and its process knows the actions."""

    def __init__(self, tasks: object, actions: Mapping[str, Action]) -> None:
        self._actions = actions

    def start(self, path: Path, environ: object) -> Path:
        process: Any = here()
        process.control = self._actions
        return path

    def close(self) -> None:
        pass


def _attach(self: Happenings) -> None:
    process: Any = here()
    process.handlers.append(self)


def settle() -> None:
    """virtual.settle, and what only a daemon needs; looks at clocks that find nothing here are fewer.  Repeatable."""
    if mirrormaker.daemon.Daemon is SimDaemon:
        return
    virtual.settle()
    patched: Any
    for patched in (mirrormaker.daemon, supervisor):
        patched.log_in_thread = lambda: None
        patched.set_up_logging = lambda *args, **named: None
        patched.HubLag = partial(HubLag, tick_ms=1000.0)
    for patched in (live, supervisor):
        patched.own_place = lambda *args: Path("control")
        patched.ControlServer = SimControlServer
    for patched, name, value in (
        (mirrormaker.daemon, "Daemon", SimDaemon),
        (mirrormaker.daemon, "collect_garbage_rarely", lambda: None),
        (sys, "setswitchinterval", lambda seconds: None),
        (os, "_exit", _exit),
        (mirrormaker.signals, "write_now", lambda *args: None),
        (Signals, "take", lambda self: None),
        (Happenings, "attach", _attach),
        (Happenings, "detach", lambda self: None),
        (audit, "AUDIT_S", 1e6),  # it would hide a watch that was missed
        (zksession, "BEATS_PER_TIMEOUT", 6),
        (zksession, "LOOK_S", 0.5),
        (zksession, "KazooClient", _kazoo),
        (mirrormaker.zookeeper, "KazooClient", _kazoo),
        (producer.zookeeper, "KazooClient", _kazoo),
    ):
        setattr(patched, name, value)
    gc.collect()
    gc.freeze()  # what is imported is looked at by no collection, and by no search for greenlets


class Mirror:
    """One mirror by its name, in one life after the other.

    yaml: what its configuration was read from first.  ended(mirror, code): its process has ended by itself.
    """

    def __init__(
        self,
        name: str,
        configuration: Configuration,
        yaml: str,
        machine: Machine,
        *,
        failed: Callable[[Mirror, BaseException], None],
        ended: Callable[[Mirror, int], object],
    ) -> None:
        self.name = name
        self.configuration = configuration  # as its file is now: what the next start, or a reload, reads
        self.process: MirrorProcess | None = None
        self.lives: list[MirrorProcess] = []
        self.started_at = 0.0  # the last time
        self.yaml = yaml
        self._machine = machine
        self._freezes = 0
        self._failed = failed
        self._ended = ended

    @property
    def alive(self) -> bool:
        return self.process is not None and not self.process.dead

    @property
    def daemon(self) -> Steered | None:
        """What runs in its process, frozen or not."""
        return self.process.daemon if self.process is not None and not self.process.dead else None

    def start(self) -> None:
        if self.alive:
            return
        timeline = self._machine.network.timeline
        process = MirrorProcess(self.name, timeline, lambda e: self._failed(self, e), self._machine)
        process.mirror = self
        self.process = process
        self.started_at = timeline.now
        self.lives.append(process)
        process.after(0.0, self._begin, process)

    def _begin(self, process: MirrorProcess) -> None:
        Greenlet(self._run, process).start()

    def _run(self, process: MirrorProcess) -> None:
        try:
            code = self._program()
        except Exception as e:
            self._failed(self, e)
            code = CRASHED
        process.timeline.after(0.0, self._exited, process, code)

    def _program(self) -> int:
        """What runs in its process; the exit code."""
        return mirrormaker.daemon.run_daemon(self.configuration, lambda: self.configuration)

    def _exited(self, process: MirrorProcess, code: int) -> None:
        if not process.dead:
            process.code = code
            process.kill()
            self._ended(self, code)

    # what a schedule does -----------------------------------------------------------------------------------------

    def kill(self, tells: bool = True) -> None:
        """kill -9; tells: its machine goes on."""
        if self.process is not None:
            self.process.kill(tells)

    def signal(self, number: int = signal.SIGTERM) -> None:
        """A signal; before the daemon is made it ends the process, as at the real start."""
        process = self.process
        if process is None or process.dead:
            return
        if process.daemon is not None:
            process.arrive(self._signalled, process, process.daemon, number)
        elif number in (signal.SIGTERM, signal.SIGINT):
            process.code = -number
            process.kill()

    def _signalled(self, process: MirrorProcess, daemon: Steered, number: int) -> None:
        try:
            daemon.signal(number)
        except Exited as exited:
            process.timeline.after(0.0, self._exited, process, exited.code)

    def freeze(self, seconds: float, sockets_first: bool = False) -> None:
        """SIGSTOP, and SIGCONT after that."""
        process = self.process
        if process is not None and not process.frozen and not process.dead:
            process.freeze()
            process.timeline.after(seconds, self._thaw, process, self._next_freeze(), sockets_first)

    def suspend(self, seconds: float) -> None:
        """Its machine sleeps."""
        process = self.process
        if process is not None and not process.frozen and not process.dead:
            process.suspend(seconds)
            process.timeline.after(seconds, self._thaw, process, self._next_freeze(), True)

    def _next_freeze(self) -> int:
        self._freezes += 1
        return self._freezes

    def _thaw(self, process: MirrorProcess, freeze: int, sockets_first: bool) -> None:
        if process.frozen and not process.dead and freeze == self._freezes:
            process.thaw(sockets_first)

    def mend(self) -> None:
        """It runs, and its disk answers; a dead one stays dead."""
        if self.process is not None:
            self._thaw(self.process, self._freezes, False)
            self.process.disk.slow_s = 0.0

    def do(self, action: str, done: Answered = lambda action, refused: None, **arguments: Any) -> None:
        """An operator's action, such as pause.  done(action, why it is refused, or None)."""
        process = self.process
        if process is not None and not process.dead:
            process.arrive(lambda: Greenlet(_answered, process, action, arguments, done).start())

    def report(self, took: Callable[[MirrorReport], object]) -> None:
        """Ask a daemon that runs for its report; took(report)."""
        daemon, process = self.daemon, self.process
        if daemon is not None and process is not None:
            process.arrive(lambda: took(daemon.report()) if process.control is not None else None)

    def dispose(self) -> None:
        for process in self.lives:
            process.dispose()
        self.lives.clear()


def _answered(process: MirrorProcess, action: str, arguments: Mapping[str, Any], done: Answered) -> None:
    if process.control is None:
        done(action, Refused("it has not begun"))
        return
    try:
        for _ in process.control[action](arguments):
            pass
    except (Refused, ConsumerError) as reason:
        done(action, reason)
    else:
        done(action, None)


class LogRouter(logging.Handler):
    """Gives each record to the handlers of the process that runs, and the text of each to `told`."""

    def __init__(self, timeline: Timeline, told: Callable[[str], object] | None) -> None:
        super().__init__()
        self._timeline = timeline
        self._told = told

    def emit(self, record: logging.LogRecord) -> None:
        process = here()
        if self._told is not None:
            who = process.name if process is not None else "-"
            self._told(f"{self._timeline.now:9.3f} s  {who}: {record.levelname.lower()}: {record.getMessage()}")
        for handler in getattr(process, "handlers", ()):
            if record.levelno >= handler.level:
                handler.handle(record)


__all__ = ["LogRouter", "Machine", "Mirror", "MirrorProcess", "Steered", "settle"]
