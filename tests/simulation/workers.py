"""A mirror in several simulated processes: the real mirrormaker.workers, with processes and sockets that are simulated.

Supervisor   its process; it starts the workers, and whoever starts or signals one of them means it
Worker       one worker; killed or frozen alone, by its own name

The supervisor's end of a socket is closed when its process ends, as the kernel does, and the other way round.
"""

from __future__ import annotations

import json
import signal
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from groundwork.tasks import Event, TaskGroup
from mirrormaker import exits
from mirrormaker.control.server import Action
from mirrormaker.daemon import run_daemon
from mirrormaker.workers import supervisor, worker
from mirrormaker.workers.process import WorkerProcess
from tests.simulation.daemon import Answered, Mirror, MirrorProcess, Steered
from tests.simulation.virtual import here

if TYPE_CHECKING:
    from tests.simulation.mirrorworld import MirrorWorld

SOCKET_S = 0.0002  # from one process of a machine to another
NO_PID = 10**7  # and more: no process of this machine has such a number


class End:
    """One end of a socket between two processes of a machine.  gone: called in its process once the other has ended."""

    def __init__(self, process: MirrorProcess, gone: Callable[[], object] = lambda: None) -> None:
        self.other: End
        self._process = process
        self._gone = gone
        self._closed = False
        self._arrived: deque[bytes] = deque()
        self._more: Event | None = None
        process.ends.append(self)

    def sendall(self, data: bytes) -> None:
        if self._closed:
            raise OSError("closed")
        self._process.timeline.after(SOCKET_S, self.other._take, data)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._process.timeline.after(SOCKET_S, self.other._take, b"")

    def makefile(self, mode: str) -> End:
        return self

    def __enter__(self) -> End:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __iter__(self) -> Iterator[bytes]:
        """Each sendall() of the other end is a line."""
        while True:
            while not self._arrived:
                self._more = Event()
                self._more.wait()
            data = self._arrived.popleft()
            if not data:
                return
            yield data

    def _take(self, data: bytes) -> None:
        self._process.arrive(self._taken, data)

    def _taken(self, data: bytes) -> None:
        self._arrived.append(data)
        if self._more is not None:
            self._more.set()
        if not data:
            self._gone()


class SimSupervisor(Steered, supervisor.Supervisor):
    """The real one."""

    report = supervisor.Supervisor.report


class SimWorkerProcess(WorkerProcess):
    """The real one, whose process is a simulated one."""

    def _spawned(self, environ: Mapping[str, str]) -> Any:
        process: Any = here()
        child = process.mirror.workers[self.number - 1].begin()
        ours, theirs = End(process), child.end
        ours.other, theirs.other = theirs, ours
        return child, ours


class Supervisor(Mirror):
    """The supervisor of a mirror.  workers: in the order of their numbers."""

    workers: list[Worker]

    def start(self) -> None:
        if not self.alive:
            for each in self.workers:  # systemd ends what is left of a unit before it starts it again
                each.kill()
            super().start()

    def _program(self) -> int:
        return supervisor.run_supervisor(self.configuration, lambda: self.configuration)

    def suspend(self, seconds: float) -> None:
        """All of the machine sleeps."""
        for each in (super(), *(super(Worker, each) for each in self.workers)):
            each.suspend(seconds)


class Worker(Mirror):
    """One worker of a mirror.  supervisor: whom a start, a signal, a command and the sleep of the machine are for."""

    supervisor: Supervisor
    number: int

    def start(self) -> None:
        self.supervisor.start()

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.supervisor.signal(number)

    def do(self, action: str, done: Answered = lambda action, refused: None, **arguments: Any) -> None:
        self.supervisor.do(action, done, **arguments)

    def suspend(self, seconds: float) -> None:
        self.supervisor.suspend(seconds)

    def begin(self) -> Child:
        """Start its process, as the supervisor does."""
        super().start()
        process = self.process
        assert process is not None
        return Child(self, process, End(process, lambda: self._alone(process)))

    def _program(self) -> int:
        process: Any = here()
        [end] = process.ends
        first = next(iter(end), None)
        if first is None:
            return exits.TEMPORARY
        link = SimLink(self.number, end, json.loads(first)["begin"])
        return run_daemon(link.configuration, lambda: link.configuration, link)

    def _alone(self, process: MirrorProcess) -> None:
        """In the place of mirrormaker.workers.worker._end_with_supervisor."""
        super().signal(signal.SIGTERM)
        process.after(worker.ALONE_S, self._exited, process, exits.TEMPORARY)


class SimLink(worker.SupervisorLink):
    """The real one; its process knows what it may be asked."""

    def serve(self, actions: Mapping[str, Action], tasks: TaskGroup) -> None:
        process: Any = here()
        process.control = actions
        super().serve(actions, tasks)


class Child:
    """A process as its parent has it.  end: the socket that it inherits."""

    def __init__(self, mirror: Worker, process: MirrorProcess, end: End) -> None:
        self.pid = NO_PID + 1000 * mirror.number + len(mirror.lives)
        self.end = end
        self._mirror = mirror
        self._process = process

    def poll(self) -> int | None:
        return self._process.code

    def send_signal(self, number: int) -> None:
        if number == signal.SIGKILL:
            self._process.kill()
        else:
            Mirror.signal(self._mirror, number)


def supervised(world: MirrorWorld, name: str, names: Sequence[str], yaml: str) -> Supervisor:
    """A mirror of that name, whose workers are daemons of these names, in one folder; its yaml says how many."""
    head = world.mirror(name, yaml, Supervisor)
    head.workers = []
    for number, of_worker in enumerate(names, 1):
        made = world.mirror(of_worker, yaml, Worker, folder=name)
        made.supervisor, made.number = head, number
        head.workers.append(made)
    return head


def settle() -> None:
    """As daemon.settle, for mirrors in several processes.  Repeatable."""
    patched: Any
    for patched, name, value in (
        (supervisor, "Supervisor", SimSupervisor),
        (supervisor, "WorkerProcess", SimWorkerProcess),
        (worker, "adopted_socket", lambda connection: connection),
    ):
        setattr(patched, name, value)
