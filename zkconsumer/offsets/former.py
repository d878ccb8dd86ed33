"""Former offsets: committed in the log of an earlier topic of the same name, so invalid in today's log.  Pure.

A topic that is deleted and created again has a new log, and the committed offsets of groups stay.  In the new log such
an offset means nothing: if that log is longer already, everything before the offset would be skipped.

    ZooKeeper   the offset node was last written (mzxid) before the topic's node was created (czxid).  One ensemble
                numbers all its writes in their order, so no clocks are compared; a tool that writes an offset makes it
                count again, whatever the number
    Kafka       a commit of ours names in its metadata the topic that it was read from (`metadata_of`), and today's is
                another one.  For a commit without it (of a JVM member, or a tool): its time, by the broker's clock, is
                before the topic's creation, by the clock of ZooKeeper's leader

Only the creation of the node /brokers/topics/T decides: added partitions, a reassignment and a changed replication only
set its data. 0.7 has no such rule: there the node of a topic stays or goes with its brokers' registrations, whatever
happens to the logs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from groundwork.sentences import iso
from zkconsumer.offsets.store import FormerOffset

_METADATA = re.compile(r"topic-czxid=([0-9]{1,19}) topic-ctime-ms=([0-9]{1,19})", re.ASCII)


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """Creation of a topic: zxid and time (ms since 1970) of the creation of its node in ZooKeeper."""

    czxid: int
    ctime_ms: int

    def __str__(self) -> str:
        return iso(self.ctime_ms)


def written_before(mzxid: int, czxid: int | None) -> bool:
    """True if an offset node was last written before its topic was created; czxid None: unknown."""
    return czxid is not None and mzxid < czxid


def committed_before(commit_ms: int | None, ctime_ms: int | None) -> bool:
    """True if, by the clocks, an offset was committed before its topic was created; None: unknown."""
    return commit_ms is not None and ctime_ms is not None and commit_ms < ctime_ms


def metadata_of(topic: TopicCreation | None) -> str:
    """Return the metadata of a commit to Kafka, which names the topic that was read."""
    return "" if topic is None else f"topic-czxid={topic.czxid} topic-ctime-ms={topic.ctime_ms}"


def topic_in(metadata: str) -> TopicCreation | None:
    """Return the topic that a commit's metadata names, or None if the metadata is not ours."""
    found = _METADATA.fullmatch(metadata)
    return None if found is None else TopicCreation(int(found[1]), int(found[2]))


def former_node(topic: str, at: int, mtime_ms: int, today: TopicCreation) -> FormerOffset:
    """Return the result for an offset in ZooKeeper for which `written_before` is true."""
    return _former(topic, at, f"committed to ZooKeeper at {iso(mtime_ms)}", today)


def former_commit(topic: str, at: int, commit_ms: int, today: TopicCreation) -> FormerOffset:
    """Return the result for an offset in Kafka for which `committed_before` is true."""
    return _former(topic, at, f"committed to Kafka at {iso(commit_ms)}", today)


def former_read(topic: str, at: int, then: TopicCreation, today: TopicCreation) -> FormerOffset:
    """Return the result for an offset in the log of a topic whose creation time is known."""
    return _former(topic, at, f"of the topic that was created at {then}", today)


def _former(topic: str, at: int, where_from: str, today: TopicCreation) -> FormerOffset:
    return FormerOffset(
        at, f"{where_from}, and topic {topic} was created again at {today}: it is invalid in the new log"
    )
