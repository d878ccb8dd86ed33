"""Positions into both stores: compare and set in ZooKeeper, commits of no member in Kafka; every write is read back.

    written    the store holds it now, as was read after the write
    expiring   Kafka was told to forget it and will, at its next check (offsets.retention.check.interval.ms, ten minutes
               by default); until then it is still read.  No API of these releases deletes one at once
    stale      somebody else wrote it since it was looked at: it was left alone
    failed     it is not known to be there; why says what happened

Kafka first, then ZooKeeper for what Kafka accepted, as a commit does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kafkawire.dialects import Store as StoreName
from kafkawire.model import TopicPartition
from zkconsumer.groupworld.world import Cluster, World
from zkconsumer.migration.snapshot import KafkaRow, ZkRow
from zkconsumer.offsetplan.changes import Change

State = Literal["written", "expiring", "stale", "failed"]


@dataclass(frozen=True, slots=True)
class Order:
    """One position for one store.  position None: take it away.

    node     ZooKeeper's as it was looked at: it is replaced only while it is that one; None: there must be none
    held     Kafka's as it was looked at, for a position that is taken away
    text     the metadata that goes into Kafka with the position
    """

    group: str
    tp: TopicPartition
    store: StoreName
    position: int | None
    node: ZkRow | None = None
    held: KafkaRow | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """What became of an order; why is a sentence, empty when all is well."""

    order: Order
    state: State
    why: str = ""


def orders(
    changes: Iterable[Change],
    nodes: Mapping[tuple[str, TopicPartition], ZkRow],
    kafka: Mapping[tuple[str, TopicPartition], KafkaRow],
    texts: Mapping[tuple[str, TopicPartition], str] | None = None,
) -> list[Order]:
    """The orders of a plan, in its order; nodes and kafka: what was looked at, by group and partition."""
    raise NotImplementedError


def carry_out(
    world: World,
    cluster: Cluster,
    wanted: Sequence[Order],
    retention_ms: int | None = None,
    progress: Callable[[int], object] = lambda done: None,
) -> list[Written]:
    """Write all of these; a row for each, in order.  retention_ms: how long Kafka is to keep them; None: as it does.

    An order for ZooKeeper is left ("failed") where one for Kafka of the same partition was not written.
    Raises ZooKeeperAway when nothing can be said any more about ZooKeeper.
    """
    raise NotImplementedError
