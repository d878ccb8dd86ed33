"""Times as bounds: where a query begins that asks for messages of a time, and where it ends.

How fine the answer is depends on the brokers.  From 0.10.1 on it is exact.  Before, a broker only knows when each of
its segment files was last written: it answers with the beginning of a file, so that a batch may begin (or end) up to
one segment early.  0.10.0 keeps a timestamp in each message and cannot look one up: there we read on to the first that
fits.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkawire.model import TopicPartition
from kafkawire.protocol import apis
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.errors import NoTimestamp
from sparkpipeline.source.offsets import LATEST

Times = Mapping[TopicPartition, int]


def starts(brokers: Brokers, times: Times, no_match: str) -> dict[TopicPartition, int]:
    """The first offset of each time (ms since 1970 UTC) or later.

    no_match  "error", or "latest": what a time does that is behind the last message; LATEST then
    Raises NoTimestamp, and what Brokers raises.
    """
    found: dict[TopicPartition, int] = {}
    for tp, offset in offsets_at(brokers, times).items():
        if offset is None and no_match == "error":
            raise NoTimestamp(
                f"no message is of {times[tp]} (ms since 1970 UTC) or later;"
                " startingOffsetsByTimestampStrategy=latest begins at the end of the log then",
                topic=tp.topic,
                partition=tp.partition,
            )
        found[tp] = LATEST if offset is None else offset
    return found


def ends(brokers: Brokers, times: Times) -> dict[TopicPartition, int]:
    """The offset behind the last message before each time; LATEST where all are before it."""
    return {tp: LATEST if at is None else at for tp, at in offsets_at(brokers, times).items()}


def offsets_at(brokers: Brokers, times: Times) -> dict[TopicPartition, int | None]:
    """The first offset of each time or later, as exactly as these brokers allow; None where there is none."""
    found = brokers.at_time(times)
    if not _can_be_refined(brokers):
        return found
    behind = brokers.latest([tp for tp, at in found.items() if at is not None])
    return {tp: None if at is None else _refined(brokers, tp, at, times[tp], behind[tp]) for tp, at in found.items()}


def _refined(brokers: Brokers, tp: TopicPartition, at: int, time_ms: int, until: int) -> int | None:
    offset = brokers.first_since(tp, at, time_ms, until)
    return None if offset >= until else offset


def _can_be_refined(brokers: Brokers) -> bool:
    """Messages carry timestamps and the brokers do not look them up: 0.10.0.  Elsewhere reading on finds nothing."""
    return brokers.dialect.magic >= 1 and brokers.dialect.speaks(apis.LIST_OFFSETS.key) < 1
