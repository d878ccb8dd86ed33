"""Groups that move between offset stores: members of ours that switch or are bounced, consoles of the JVM, and what
both stores hold meanwhile."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import NamedTuple

from kazoo.exceptions import NoNodeError

import tests.integration.readers as readers
from kafkawire.model import TopicPartition
from kafkawire.znodes import v08 as znodes
from localkafka import tools
from localkafka.child import Child
from localkafka.client import ClusterClient
from localkafka.programs import ConsoleConsumer
from localkafka.waiting import wait_until
from tests.integration.groupprocess import handed, start_ours, told
from zkconsumer.offsets.modes import Mode, modes_path, read_mode
from zkconsumer.offsets.store import Committed
from zkconsumer.simple import SimpleConsumer

OPTIONS: dict[Mode, dict[str, object]] = {
    "zookeeper": {"offsets.storage": "zookeeper"},
    "dual": {"offsets.storage": "kafka", "dual.commit.enabled": True},
    "kafka": {"offsets.storage": "kafka", "dual.commit.enabled": False},
}
INTERVAL_S = 0.3
PROPERTIES = {  # of every member, ours or the JVM's
    "zookeeper.session.timeout.ms": 3000,
    "rebalance.backoff.ms": 1000,
    "rebalance.max.retries": 10,
    "auto.commit.interval.ms": 300,
}


class Handed(NamedTuple):
    at: float
    partition: int
    offset: int
    number: int  # of the message, as its producer counted: one that was sent twice has two offsets


class Ours:
    """One member of ours."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.dead_at = math.inf

    @property
    def consumer_id(self) -> str:
        lines = wait_until(lambda: told(self.child), 20, lambda: f"the member's id; {self.child.log_end()}")
        return lines[0]

    def handed(self) -> list[Handed]:
        return [Handed(at, int(p), offset, _number(value)) for at, p, offset, value in handed(self.child)]

    def switch(self, mode: Mode, timeout_s: float = 20) -> str:
        """What it answers."""
        before = len(self._answers())
        assert self.child.stdin is not None
        self.child.stdin.write(f"{mode}\n".encode())
        self.child.stdin.flush()
        wait_until(lambda: len(self._answers()) > before, timeout_s, lambda: f"an answer; {self.child.log_end()}")
        return self._answers()[-1]

    def _answers(self) -> list[str]:
        return [line for line in told(self.child) if line.startswith(("switched", "refused"))]

    def wait_killed(self, timeout_s: float = 20) -> None:
        wait_until(lambda: not self.child.running, timeout_s, "the fail point to kill it")
        assert self.child.exit_code == -9, self.child.log_end()
        self.dead_at = time.monotonic()

    def stop(self) -> None:
        assert self.child.stop(20) == 0, self.child.log_end()


def _number(value: str) -> int:
    """Of a message `topic/partition #number ...`."""
    return int(value.split(" ")[1][1:])


class MovingGroup:
    """Its members, and what the stores hold."""

    def __init__(self, cluster: ClusterClient, name: str, topic: str, partitions: int, folder: Path) -> None:
        self.cluster, self.name, self.topic = cluster, name, topic
        self.tps = [TopicPartition(topic, p) for p in range(partitions)]
        self.members: list[Ours] = []
        self.consoles: list[ConsoleConsumer] = []
        self.troubles: list[float] = []  # when one of ours was killed
        self._folder = folder
        zk, offsets = cluster.registry().zk, znodes.offsets(name, topic)
        zk.ensure_path(offsets)
        for p in range(partitions):
            zk.create(f"{offsets}/{p}", b"0")  # a console of the JVM begins at the end where nothing is committed

    def ours(self, mode: Mode, failpoints: str = "", **options: object) -> Ours:
        """options by their dotted names, with underscores."""
        values = {
            "zookeeper.connect": self.cluster.zookeeper,
            "group.id": self.name,
            "kafka.version": self.cluster.version.rpartition(".")[0],
            "auto.offset.reset": "smallest",
            **PROPERTIES,
            **OPTIONS[mode],
            **{key.replace("_", "."): value for key, value in options.items()},
        }
        self.members.append(Ours(start_ours(self._folder, self.topic, 1, values, failpoints)))
        return self.members[-1]

    def console(self, mode: Mode) -> ConsoleConsumer:
        """A JVM member, dual or kafka by its own options."""
        properties = {
            **PROPERTIES,
            **{key: str(value).lower() for key, value in OPTIONS[mode].items()},
        }
        one = tools.console_consumer(self.cluster, self.topic, self.name, from_beginning=False, config=properties)
        self.consoles.append(one)
        return one

    # what there is --------------------------------------------------------------------------------------------------

    def settle(self, timeout_s: float = 30) -> None:
        """The living members are registered, no others are, and they own all partitions evenly."""
        wait_until(self._settled, timeout_s, lambda: f"the members to settle: {self.told()}")

    def _settled(self) -> bool:
        ours = {member.consumer_id for member in self.members if member.child.running}
        count = len(ours) + sum(console.child.running for console in self.consoles)
        zk = self.cluster.registry().zk
        ids = zk.get_children(znodes.ids(self.name)) if zk.exists(znodes.ids(self.name)) else []
        owners = list(readers.owners(self.cluster, self.name, self.topic).values())
        shares = [sum(owner.startswith(f"{member}-") for owner in owners) for member in ids]
        if not ours <= set(ids) or any(m.consumer_id in ids for m in self.members if not m.child.running):
            return False
        return len(ids) == count and sum(shares) == len(self.tps) and max(shares) - min(shares) <= 1

    def told(self) -> str:
        return "\n".join([m.child.log_end(12) for m in self.members] + [c.child.log_end(6) for c in self.consoles])

    def zookeeper(self) -> dict[TopicPartition, Committed]:
        zk, folder = self.cluster.registry().zk, znodes.offsets(self.name, self.topic)
        return {tp: int(zk.get(f"{folder}/{tp.partition}")[0]) for tp in self.tps}

    def kafka(self) -> dict[TopicPartition, Committed]:
        with self.simple() as simple:
            return simple.fetch_offsets(self.name, self.tps, "kafka")

    def simple(self) -> SimpleConsumer:
        """At a broker that is registered."""
        registry = self.cluster.registry()
        broker = next(found for found in map(registry.broker, registry.brokers()) if found is not None)
        return SimpleConsumer(broker.host, broker.port, self.cluster.version.rpartition(".")[0])

    def modes(self) -> dict[str, Mode]:
        zk = self.cluster.registry().zk
        folder = modes_path(self.name)
        names = zk.get_children(folder) if zk.exists(folder) else []
        found: dict[str, Mode] = {}
        for name in names:
            try:
                found[name] = read_mode(zk.get(f"{folder}/{name}")[0]).mode
            except NoNodeError:
                continue  # it left after it was listed
        return found

    def wait_committed(self, ends: dict[TopicPartition, int], *stores: str, timeout_s: float = 20) -> None:
        wait_until(
            lambda: all(getattr(self, store)() == ends for store in stores),
            timeout_s,
            lambda: f"{ends} in {stores}: zookeeper {self.zookeeper()}, kafka {self.kafka()}; {self.told()}",
        )

    def seen(self) -> list[tuple[int, int]]:
        """(partition, number) of all that members were handed, each time."""
        found = [(row.partition, row.number) for member in self.members for row in member.handed()]
        for line in [line.decode() for one in self.consoles for line in one.lines]:
            words = line.split(" ")
            if len(words) > 1 and words[0].startswith(f"{self.topic}/"):
                found.append((int(words[0].rpartition("/")[2]), _number(line)))
        return found

    def close(self) -> None:
        for member in self.members:
            member.child.close()
        for console in self.consoles:
            console.__exit__()
