"""A world of whole mirrors in virtual time: clusters, ZooKeepers, the network, daemons, and what happens to them.

    world = MirrorWorld(seed)
    zookeeper = world.zookeeper("source-zk:2181")
    world.cluster("source", "0.8.2.2", 1, topics={"t": 4}, zookeeper=zookeeper)
    world.mirror("m1", YAML)            a daemon; mirror.start(), kill(), signal(), freeze(), do("pause", ...)
    world.at(5.0, mirror.kill)          seconds from the begin of the world
    world.run(60.0)
    world.end()

Everything that is late, cut or lost comes from `world.rng`.  What watches the promises is an Observer.
"""

from __future__ import annotations

import gc
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from mirrormaker.config import Configuration, from_yaml
from tests.simulation import daemon as daemons
from tests.simulation import virtual, workers
from tests.simulation.brokers import SimCluster, entries
from tests.simulation.coordinators import Coordination
from tests.simulation.daemon import LogRouter, Machine, Mirror
from tests.simulation.network import Network
from tests.simulation.process import Timeline
from tests.simulation.zookeeper import SimZookeeper

BROKERS_MAKE = ("/consumers", "/brokers/ids", "/brokers/topics")  # when the first of a cluster starts
NO_LEADER = 5
PRODUCE_MS = 10_000
ROOM = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())


M = TypeVar("M", bound=Mirror)


class Observer:
    """Who watches a world.  Each call is made when it happens; the brokers' logs are the clusters' to look at."""

    def begun(self, world: MirrorWorld) -> None:
        """The world is there, and empty."""

    def happened(self, what: str) -> None:
        """Something of the schedule is about to happen."""

    def failed(self, mirror: Mirror, error: BaseException) -> None:
        """Something in a daemon's process ended with an exception that nobody caught."""

    def ended(self, mirror: Mirror, code: int) -> None:
        """A daemon has ended by itself."""

    def wrote(self, path: str, data: bytes | None, session: int, gone: bool) -> None:
        """A node of ZooKeeper was written, or is gone."""


class MirrorWorld:
    """told: gets a line of everything that is said; None: nobody says anything, which is faster."""

    def __init__(
        self,
        seed: object,
        observer: Observer | None = None,
        *,
        told: Callable[[str], object] | None = None,
        traced: bool = False,
    ) -> None:
        daemons.settle()
        workers.settle()
        self.timeline = Timeline()
        self.began = self.timeline.now
        self.rng = Random(f"world {seed}")
        virtual.running(self.timeline, Random(f"chance {seed}"))
        self.observer = observer if observer is not None else Observer()
        self.network = Network(self.timeline, self.rng, traced=traced)
        self.zookeepers: dict[str, SimZookeeper] = {}
        self.clusters: dict[str, SimCluster] = {}
        self.coordinations: dict[str, Coordination] = {}
        self.mirrors: dict[str, Mirror] = {}
        self.machine = Machine(self.network, self.zookeepers)
        self.folder = _folder()
        self._told = told
        self._log = LogRouter(self.timeline, told)
        self._collected = gc.isenabled()
        gc.disable()  # it would end greenlets of killed processes at any moment
        self._log_level = logging.root.level
        self._handlers = list(logging.root.handlers)
        logging.root.handlers[:] = [self._log]
        if told is None:
            logging.disable(logging.CRITICAL)
        else:
            logging.root.setLevel(logging.INFO)
        self.observer.begun(self)

    # what there is ------------------------------------------------------------------------------------------------

    def zookeeper(self, connect: str, servers: int = 1) -> SimZookeeper:
        """A ZooKeeper of its own, one server or an ensemble, by the connect string that mirrors have for it."""
        made = SimZookeeper(self.timeline, self.rng, self._wrote, servers)
        for path in BROKERS_MAKE:
            made.set(path, b"")
        self.zookeepers[connect] = made
        return made

    def cluster(self, name: str, release: str, brokers: int, **given: Any) -> SimCluster:
        """Brokers with their coordinators: NAME-1 and so on, at port 9092.  given: arguments of SimCluster.

        Internal topics are as small as the cluster, unless the settings say otherwise.
        """
        given["settings"] = internal_topics(brokers) | dict(given.get("settings", {}))
        made = SimCluster(self.timeline, self.rng, release, brokers, name=name, **given)
        self.clusters[name] = made
        self.coordinations[name] = Coordination(made)
        for broker in made.brokers:
            self.network.listen(made.address(broker), partial(made.open, broker))
        return made

    def mirror(self, name: str, yaml: str, kind: type[M] = Mirror, folder: str = "") -> M:  # type: ignore[assignment]
        """A daemon with a configuration, FOLDER in which is a folder of its own, or that of another one.  It does not
        start by itself."""
        of_mirror = self.folder / (folder or name)
        of_mirror.mkdir(exist_ok=True)
        yaml = yaml.replace("FOLDER", str(of_mirror))
        made = kind(name, configured(yaml, folder or name), yaml, self.machine, failed=self._failed, ended=self._ended)
        self.mirrors[name] = made
        return made

    @property
    def copying(self) -> list[Mirror]:
        """Those that own partitions: of a mirror in several processes its workers."""
        return [each for each in self.mirrors.values() if not isinstance(each, workers.Supervisor)]

    @property
    def commanded(self) -> list[Mirror]:
        """Those that operators see: of a mirror in several processes its supervisor."""
        return [each for each in self.mirrors.values() if not isinstance(each, workers.Worker)]

    def _wrote(self, path: str, data: bytes | None, session: int, gone: bool) -> None:
        self._note(f"{path} {session} {gone} ".encode() + (data or b""))
        self.observer.wrote(path, data, session, gone)

    def _note(self, event: bytes) -> None:
        if self.network.trace is not None:
            self.network.trace.update(b"%.6f " % self.timeline.now + event)

    def _failed(self, mirror: Mirror, error: BaseException) -> None:
        self.tell(f"{mirror.name}: {type(error).__name__}: {error}")
        self.observer.failed(mirror, error)

    def _ended(self, mirror: Mirror, code: int) -> None:
        self.tell(f"{mirror.name} has ended with {code}")
        self._note(f"{mirror.name} {code}".encode())
        self.observer.ended(mirror, code)

    def produce(
        self,
        cluster: str,
        tp: tuple[str, int],
        values: Sequence[bytes | None],
        done: Callable[[int, int], object] = lambda code, base: None,
    ) -> None:
        """A program of that cluster sends messages, as one set, and waits for all in-sync replicas; done(code, base
        offset), -1 without a leader."""
        made = self.clusters[cluster]
        broker = made.brokers.get(made.leader(tp))
        if broker is None or not broker.up:
            done(NO_LEADER, -1)
            return
        broker.run(broker.append, tp, message_set(made, values), -1, PRODUCE_MS, done)

    # what happens -------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Seconds since the world began."""
        return self.timeline.now - self.began

    def tell(self, sentence: str) -> None:
        if self._told is not None:
            self._told(f"{self.timeline.now:9.3f} s  {sentence}")

    def at(self, seconds: float, fn: Callable[..., object], *args: Any, what: str = "") -> None:
        """Call fn(*args) so many seconds after the begin."""
        self.timeline.at(self.began + seconds, self._happen, what, fn, args)

    def _happen(self, what: str, fn: Callable[..., object], args: tuple[Any, ...]) -> None:
        if what:
            self.tell(what)
        self.observer.happened(what)
        fn(*args)

    def mend(self) -> None:
        """The network and the processes are as they should be; a dead process stays dead, and brokers are their
        cluster's affair."""
        for path in self.network.paths.values():
            path.heal()
        for link in self.machine.links.values():
            link.slow_up_s = link.slow_down_s = 0.0
            link.silent = False
            link.heal()
        for mirror in self.mirrors.values():
            mirror.mend()

    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        self.timeline.run_until(self.timeline.now + seconds)

    def run_until(self, reached: Callable[[], bool], within_s: float, step_s: float = 0.1) -> bool:
        """Let time pass until that holds; whether it does within that time."""
        until = self.timeline.now + within_s
        while not reached():
            if self.timeline.now >= until:
                return False
            self.run(step_s)
        return True

    @property
    def trace(self) -> str:
        """A hash of all that arrived anywhere until now, and when."""
        assert self.network.trace is not None
        return self.network.trace.hexdigest()

    def end(self) -> None:
        """Take everything apart; the world cannot be used any more."""
        for mirror in self.mirrors.values():
            mirror.dispose()
        virtual.running(None, None)
        logging.disable(logging.NOTSET)
        logging.root.handlers[:] = self._handlers
        logging.root.setLevel(self._log_level)
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._collected:
            gc.enable()

    def __enter__(self) -> MirrorWorld:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def _folder() -> Path:
    """The same for each world of this process, so that a configuration is read once; empty."""
    folder = ROOM / f"simulation-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    return folder


def internal_topics(brokers: int) -> dict[str, str]:
    """Settings of the topics that coordinators keep, for so many brokers; few partitions, which load sooner."""
    copies = str(min(brokers, 3))
    return {
        "offsets.topic.num.partitions": "5",
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.num.partitions": "5",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": str(min(brokers, 2)),
    }


def message_set(cluster: SimCluster, values: Sequence[bytes | None], key: bytes = b"key") -> bytes:
    """Messages in the newest format of the cluster's release, with the time as it is now there."""
    now_ms, magic = cluster.now_ms(), cluster.rules.message_format
    if magic == 2:
        return entries.batch_of([entries.Message(n, now_ms, key, value) for n, value in enumerate(values)], 0, -1).data
    return b"".join(entries._entry(n, magic, 0, now_ms, key, value) for n, value in enumerate(values))


@lru_cache(256)
def configured(yaml: str, name: str) -> Configuration:
    """What the product reads from a file of this text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.yaml"
        path.write_text(yaml)
        return from_yaml(path)
