"""Is a group healthy?  Pure: what ZooKeeper holds comes in, what is wrong with it goes out.

no owner         a partition that somebody reads has no owner node: nobody reads it
not registered   an owner node's thread belongs to no member: its process is gone, or registers elsewhere
not assigned     the owner is not the thread that the group's formula says
reads nothing    a member is to own partitions and owns none: registered, and dead to the group
unreadable       a member's id node makes no sense: no JVM member can read the group as long as it stays
idle             more threads than partitions: allowed, so no fault
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkawire.model import PartitionId, TopicPartition


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A group as ZooKeeper holds it (groupread.read_facts reads it).

    ids: the data of each id node by member.  owners: the text of each owner node.  partitions: of every topic there
    is, in the dialect's order.
    """

    ids: Mapping[str, bytes]
    owners: Mapping[TopicPartition, str]
    partitions: Mapping[str, Sequence[PartitionId]]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know about a group.  kind is one of the list above; fault: it has to be put right."""

    kind: str
    text: str
    tp: TopicPartition | None = None
    member: str | None = None
    fault: bool = True

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"
