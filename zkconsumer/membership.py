"""The group, from what was read of it.  Pure: nodes and lists of names come in, threads and topics go out.

What is watched comes down to three events:

    ids changed       the children of /consumers/G/ids: somebody joined or left
    topics changed    the topics we read are others, or one of them has other partitions
    session changed   the ZooKeeper session came back: anything may have changed meanwhile

A member whose node cannot be read leaves no group to speak of: every member would divide differently.  That is
Unreadable: try again, the node may be half made (other clients create it empty and fill it a moment later).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkawire.model import PartitionId, TopicPartition
from kafkawire.v08 import znodes
from kafkawire.v08.znodes import RegistrationError
from zkconsumer.assignor import assign_range, java_order
from zkconsumer.filters import streams_by_topic


class Event(enum.Enum):
    IDS = "ids changed"
    TOPICS = "topics changed"
    SESSION = "session changed"


@dataclass(frozen=True, slots=True)
class Group:
    """Who reads what: of every member that was registered when the group was read."""

    members: tuple[str, ...]  # consumer ids in Java's order
    threads: Mapping[str, tuple[str, ...]]  # thread ids by topic, in Java's order
    streams: Mapping[str, Mapping[str, int]]  # by member, then topic

    def topics_of(self, consumer_id: str) -> list[str]:
        """The topics a member reads, sorted."""
        return sorted(self.streams.get(consumer_id, ()))


@dataclass(frozen=True, slots=True)
class Unreadable:
    """No group: one member's node makes no sense (now)."""

    member: str
    why: str

    def __str__(self) -> str:
        return f"member {self.member}: {self.why}"


@dataclass(frozen=True, slots=True)
class Unregistered:
    """Our own id node is not there: register first."""


def read_group(
    consumer_id: str,
    nodes: Mapping[str, str | bytes | None],
    topics: Sequence[str],
    exclude_internal: bool = True,
) -> Group | Unreadable | Unregistered:
    """The group of consumer_id.

    nodes: the data of each id node, None for one that vanished after it was listed (its member is gone: the watch on
    the ids will say so too).  topics: names of all topics there are, for the members with filters.
    """
    if nodes.get(consumer_id) is None:
        return Unregistered()
    streams: dict[str, dict[str, int]] = {}
    for member in java_order(nodes):
        text = nodes[member]
        if text is None:
            continue
        try:
            streams[member] = streams_by_topic(znodes.registration(text), topics, exclude_internal)
        except (RegistrationError, ValueError) as e:
            return Unreadable(member, str(e))
    return Group(tuple(streams), _threads(streams), streams)


def _threads(streams: Mapping[str, Mapping[str, int]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for member, by_topic in streams.items():
        for topic, count in by_topic.items():
            found.setdefault(topic, []).extend(znodes.thread_ids(member, count))
    return {topic: tuple(java_order(names)) for topic, names in found.items()}


def share_of(
    consumer_id: str, group: Group, partitions_in_order: Mapping[str, Sequence[PartitionId]]
) -> dict[TopicPartition, str]:
    """What consumer_id is to own: the thread id of each partition.

    partitions_in_order: of (at least) the topics that consumer_id reads, in the dialect's order.
    """
    streams = group.streams[consumer_id]
    given = assign_range(partitions_in_order, {topic: group.threads[topic] for topic in sorted(streams)})
    ours = znodes.thread_ids(consumer_id, max(streams.values(), default=0))
    return {tp: thread for thread in ours for tp in given.get(thread, ())}
