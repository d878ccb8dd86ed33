"""Scopes: which partitions of the sources are compared with which partitions of the target.  Pure.

by partition   partitions keep their number: a source partition with its namesake
as a whole     a topic's messages as one heap: where a key or anything else chooses the partition, and where several
               sources write to one target topic
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafkawire.model import PartitionId, TopicPartition
from mirrormaker.routes import RouteRules


class SourcePartition(NamedTuple):
    """A partition of the source of that name."""

    source: str
    tp: TopicPartition

    def __str__(self) -> str:
        return f"{self.source}:{self.tp}"


@dataclass(frozen=True, slots=True)
class SourceTopics:
    """Compared topics of one source: their partitions by topic.

    target_topic: the name of a source topic at the target; compacted: topics whose older values are deleted.
    """

    name: str
    rules: RouteRules
    partitions: Mapping[str, Sequence[PartitionId]]
    target_topic: Callable[[str], str]
    compacted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Unit of comparison.  partition None: a whole topic, for the reason why.  targets empty: they are missing.

    compacted: compared by the last message of each key.
    """

    topic: str  # of the target
    partition: PartitionId | None
    sources: tuple[SourcePartition, ...]
    targets: tuple[TopicPartition, ...]
    why: str = ""
    compacted: bool = False

    def __str__(self) -> str:
        return self.topic if self.partition is None else f"{self.topic}/{self.partition}"


def scopes(
    sources: Sequence[SourceTopics], target: Mapping[str, Sequence[PartitionId]], compacted: frozenset[str]
) -> list[Scope]:
    """Return the scopes of all topics, by target topic.  target: its partitions by topic; compacted: of its topics."""
    into: dict[str, list[tuple[SourceTopics, str]]] = {}
    for source in sources:
        for topic in source.partitions:
            into.setdefault(source.target_topic(topic), []).append((source, topic))
    found: list[Scope] = []
    for name, writers in sorted(into.items()):
        shrinks = name in compacted or any(topic in source.compacted for source, topic in writers)
        found += _of_topic(name, writers, target.get(name, ()), shrinks)
    return found


def _of_topic(
    name: str, writers: Sequence[tuple[SourceTopics, str]], target: Sequence[PartitionId], compacted: bool
) -> list[Scope]:
    source, topic = writers[0]
    partitions = source.partitions[topic]
    there = len(target) or len(partitions)
    route = source.rules.choose(topic, source.rules.numbering.total or len(partitions), there, name)
    why = ""
    if len(writers) > 1:
        why = f"it is fed by {', '.join(sorted(f'{each.name}/{t}' for each, t in writers))}"
    elif route.partitioning != "identity":
        why = f"its partitions are not the source's: {route.reason}"
    if why:
        everything = [
            SourcePartition(each.name, TopicPartition(t, p)) for each, t in writers for p in each.partitions[t]
        ]
        targets = tuple(TopicPartition(name, p) for p in target)
        return [
            Scope(topic=name, partition=None, sources=(*everything,), targets=targets, why=why, compacted=compacted)
        ]
    numbered = {p: source.rules.numbering.number(p) for p in partitions}
    return [
        Scope(
            topic=name,
            partition=number if number is not None else p,
            sources=(SourcePartition(source.name, TopicPartition(topic, p)),),
            targets=(TopicPartition(name, number),) if number is not None and number in target else (),
            compacted=compacted,
        )
        for p, number in numbered.items()
    ]
