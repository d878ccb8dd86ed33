"""What the coordinators of one broker ask of it: its clock, its timers, its logs, its metadata cache.

One Host lives as long as the process of its broker: a broker that was killed and started again has another one, and
nothing that was due in the old one happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

from tests.simulation.coordinators.records import Batch, TopicPartition, batches
from tests.simulation.coordinators.rules import Rules

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"

Done = Callable[[int, int], object]  # code, base offset


class Hand:
    """What a schedule does to coordinators.

    load_s: what a load takes besides the time for its bytes.  cut_loads: by broker and partition of __consumer_offsets,
    how many batches its next load reads before it fails.  race_chance: of a fetch that meets an unload (1.3).
    """

    __slots__ = ("cut_loads", "load_s", "race_chance")

    def __init__(self) -> None:
        self.load_s = 0.0
        self.cut_loads: dict[tuple[int, int], int] = {}
        self.race_chance = 0.02


class Host:
    """broker: a SimBroker."""

    def __init__(self, broker: Any, rules: Rules, hand: Hand) -> None:
        self.hand = hand
        self.broker = broker
        self.cluster = broker.cluster
        self.id: int = broker.id
        self.rules = rules
        self.rng: Random = broker.cluster.rng
        self.settings: Mapping[str, str] = broker.cluster.settings.given
        self.life: int = broker.life

    @property
    def now(self) -> float:
        return float(self.cluster.timeline.now)

    @property
    def now_ms(self) -> int:
        """The time of day."""
        return int(self.cluster.now_ms())

    @property
    def dead(self) -> bool:
        """Whether the process of this broker is another one, or none."""
        return bool(self.broker.life != self.life)

    def setting(self, name: str, default: float) -> float:
        value = self.settings.get(name)
        return default if value is None else float(value)

    def after(self, seconds: float, fn: Callable[..., object], *args: Any) -> None:
        """Call fn(*args) in that many seconds, once the broker is not frozen, unless it was killed meanwhile."""
        self.broker.after(seconds, self._due, fn, args)

    def _due(self, fn: Callable[..., object], args: tuple[Any, ...]) -> None:
        if not self.dead:
            fn(*args)

    # logs ------------------------------------------------------------------------------------------------------------

    def append(self, tp: TopicPartition, data: bytes, acks: int, timeout_s: float, done: Done) -> None:
        self.broker.append(tp, data, acks, int(timeout_s * 1000), lambda code, base: self._due(done, (code, base)))

    def leads(self, tp: TopicPartition) -> int | None:
        """The leader epoch in which this broker leads a partition, in its own eyes."""
        found: int | None = self.broker.leads(tp)
        return found

    def read(self, tp: TopicPartition) -> Iterator[tuple[int, Batch]]:
        """The batches of this broker's own replica, with the bytes of each."""
        for base, data in self.broker.read(tp, 0):
            for batch in batches(data, base):
                yield len(data), batch

    def high_watermark(self, tp: TopicPartition) -> int:
        replica = self.broker.replicas.get(tp)
        return -1 if replica is None else int(replica.log.hw)

    def end(self, tp: TopicPartition) -> int:
        replica = self.broker.replicas.get(tp)
        return -1 if replica is None else int(replica.log.end)

    # the metadata cache ----------------------------------------------------------------------------------------------

    def partitions(self, topic: str) -> int | None:
        """Number of partitions that this broker has heard of; None: it does not know the topic."""
        found = self.broker.cache.topics.get(topic)
        return None if found is None else len(found)

    def leader(self, tp: TopicPartition) -> int | None:
        """The leader that this broker has heard of, if it holds that broker for alive."""
        said = self.broker.cache.topics.get(tp[0], {}).get(tp[1])
        return None if said is None or said.leader not in self.broker.cache.brokers else int(said.leader)

    def alive(self) -> list[int]:
        return list(self.broker.cache.brokers)

    # ZooKeeper -------------------------------------------------------------------------------------------------------

    def put(self, path: str, data: bytes) -> None:
        self.cluster.zookeeper.put(path, data)

    def get(self, path: str) -> bytes | None:
        node = self.cluster.zookeeper.nodes.get(path)
        return None if node is None else node.data

    # the rest of the cluster -----------------------------------------------------------------------------------------

    def address(self, broker: int) -> tuple[str, int]:
        name, port = self.cluster.address(broker)
        return str(name), int(port)

    def create_topic(self, topic: str, partitions: int, replication: int, configs: dict[str, str]) -> None:
        """Ask the controller, which a broker that is cut off does not reach."""
        self.cluster.controller.auto_create(self.broker, topic, partitions, replication, configs)

    def registered_partitions(self, topic: str) -> int | None:
        """Number of partitions as it is recorded, which a broker reads when it starts."""
        found = self.cluster.controller.topics.get(topic)
        return None if found is None else len(found.partitions)
