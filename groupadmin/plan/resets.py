"""Which position each partition is to get: the reset kinds of kafka-consumer-groups (KIP-122).

    Earliest      the start of the log             ToOffset(n)      this one
    Latest        its end                          ShiftBy(n)       the committed one moved by n messages, back if n < 0
    Current       the committed one; its end       ToDatetime(ms)   the first message at this time or later
                  where none is committed          ByDuration(ms)   the same, that long ago
    FromRows      what a file says, deletions included

The committed position of a group that keeps two stores is the larger; the caller says which.  A reset that cannot be
told for a partition is a Problem of that partition and of no other.  Whether a position may be written is not asked
here but in `changes`: ToOffset and ShiftBy hand on what was asked for, inside the log or not.

Looking up by time: from 0.10.1 on the leader answers with the first message whose timestamp is not before the time,
and with none when all are older (then: the end of the log, which is told).  Before, it only knows when each segment
file was last written, and answers with the start of the last segment written before the time, so up to a segment too
early and never too late; no answer means that every segment was written later: the start of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from groupadmin.files.model import SavedRow
from kafkawire.model import TopicPartition
from zkconsumer.offsets.store import Committed, Unknown
from zkconsumer.options.arguments import WrongUsage, iso

UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
Bounds = tuple[int, int]  # the first position of a log and the next to be written


@dataclass(frozen=True, slots=True)
class Earliest:
    """--to-earliest."""


@dataclass(frozen=True, slots=True)
class Latest:
    """--to-latest."""


@dataclass(frozen=True, slots=True)
class Current:
    """--to-current."""


@dataclass(frozen=True, slots=True)
class ToOffset:
    """--to-offset; position is 0 or more."""

    position: int


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """--shift-by; messages is negative to read some again."""

    messages: int


@dataclass(frozen=True, slots=True)
class ToDatetime:
    """--to-datetime; ms since 1970."""

    ms: int


@dataclass(frozen=True, slots=True)
class ByDuration:
    """--by-duration; that many ms before the caller's now."""

    ms: int


@dataclass(frozen=True, slots=True)
class FromRows:
    """--from-file, and `offsets set`: positions as given; None takes the position away."""

    positions: Mapping[TopicPartition, int | None]


Reset = Earliest | Latest | Current | ToOffset | ShiftBy | ToDatetime | ByDuration | FromRows


@dataclass(frozen=True, slots=True)
class TimeAnswer:
    """What a leader said to a look-up by time.

    position: None, it has none.  by: what it looks at: each message (ListOffsets v1, 0.10.1 and later) or the files of
    segments (v0).  error: the protocol's code, 0 for an answer.
    """

    position: int | None
    by: Literal["message", "segment"]
    error: int = 0


@dataclass(frozen=True, slots=True)
class Wanted:
    """The position a partition is to get; None: none any more.  note: a sentence the operator should see, or empty."""

    position: int | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why there is no such position; a sentence with what helps."""

    text: str


def from_rows(rows: Iterable[SavedRow], group: str) -> FromRows:
    """What a file says of one group; rows that name no group are taken as its own.  Raises WrongUsage on two values."""
    positions: dict[TopicPartition, int | None] = {}
    for row in rows:
        if row.group in (None, group) and positions.setdefault(row.tp, row.position) != row.position:
            raise WrongUsage(f"the file has two positions for {row.tp} of group {group}: name the group of each row")
    return FromRows(positions)


def asked_time(kind: Reset, now_ms: int) -> int | None:
    """The time (ms since 1970) the leaders have to be asked for; None: nothing is looked up by time."""
    if isinstance(kind, ToDatetime):
        return kind.ms
    if isinstance(kind, ByDuration):
        return max(0, now_ms - kind.ms)
    return None


def wanted(
    kind: Reset,
    tps: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, Committed],
    bounds: Mapping[TopicPartition, Bounds],
    by_time: Mapping[TopicPartition, TimeAnswer] | None = None,
    time_ms: int | None = None,
) -> dict[TopicPartition, Wanted | Problem]:
    """A row for each partition asked for (FromRows: of those that it names).

    bounds: absent where no leader answered.  by_time: what the leaders said to `asked_time`, which is time_ms.
    Raises WrongUsage for a negative position.
    """
    found: dict[TopicPartition, Wanted | Problem] = {}
    for tp in tps:
        match kind:
            case ToOffset(position):
                found[tp] = Wanted(_not_negative(tp, position))
            case FromRows(positions):
                if tp in positions:
                    found[tp] = Wanted(_not_negative(tp, positions[tp]))
            case ShiftBy(messages):
                found[tp] = _shifted(tp, messages, committed.get(tp))
            case ToDatetime() | ByDuration():
                found[tp] = _at_time(tp, (by_time or {}).get(tp), bounds.get(tp), time_ms)
            case _:
                found[tp] = _at_an_end(tp, kind, committed.get(tp), bounds.get(tp))
    return found


def _not_negative(tp: TopicPartition, position: int | None) -> int | None:
    if position is not None and position < 0:
        raise WrongUsage(f"{tp}: position {position} is negative, and positions are not")
    return position


def _at_an_end(tp: TopicPartition, kind: Reset, committed: Committed | None, bounds: Bounds | None) -> Wanted | Problem:
    if isinstance(kind, Current):
        if isinstance(committed, int):
            return Wanted(committed)
        if committed is None or isinstance(committed, Unknown):
            return _unreadable(tp, committed)
    if bounds is None:
        return _no_bounds(tp)
    if isinstance(kind, Current):
        return Wanted(bounds[1], f"{tp} has no committed position: the end of the log, {bounds[1]}, is taken")
    return Wanted(bounds[0] if isinstance(kind, Earliest) else bounds[1])


def _shifted(tp: TopicPartition, by: int, committed: Committed | None) -> Wanted | Problem:
    if committed is None or isinstance(committed, Unknown):
        return _unreadable(tp, committed)
    if not isinstance(committed, int):
        return Problem(f"{tp} has no committed position to shift; give one with --to-offset, or use --to-earliest")
    if committed + by >= 0:
        return Wanted(committed + by)
    return Wanted(0, f"{tp}: {committed} moved by {by} is below 0: 0 is taken")  # `changes` holds it against the log


def _at_time(
    tp: TopicPartition, answer: TimeAnswer | None, bounds: Bounds | None, time_ms: int | None
) -> Wanted | Problem:
    when = "that time" if time_ms is None else iso(time_ms)
    if answer is None:
        return Problem(f"{tp}: no leader answered where {when} is in its log; try again when it has a leader")
    if answer.error == UNSUPPORTED_FOR_MESSAGE_FORMAT:
        return Problem(
            f"{tp}: its messages carry no timestamps (UNSUPPORTED_FOR_MESSAGE_FORMAT, format before 0.10), so {when} "
            "cannot be found; use --to-offset, --shift-by or --to-earliest"
        )
    if answer.error:
        return Problem(f"{tp}: the leader refused to look up {when} with error {answer.error}; try again")
    if answer.position is not None and answer.position >= 0:
        if answer.by == "message":
            return Wanted(answer.position)
        return Wanted(
            answer.position,
            f"{tp}: brokers before 0.10.1 know times of segment files only: {answer.position} is the start of the last "
            f"segment written before {when}, so up to a segment is read again",
        )
    if bounds is None:
        return _no_bounds(tp)
    if answer.by == "segment":
        return Wanted(
            bounds[0],
            f"{tp}: every segment was written after {when} (brokers before 0.10.1 know no more): the start of the log, "
            f"{bounds[0]}, is taken",
        )
    return Wanted(bounds[1], f"{tp}: no message at {when} or later: the end of the log, {bounds[1]}, is taken")


def _no_bounds(tp: TopicPartition) -> Problem:
    return Problem(f"{tp}: where its log begins and ends is not known, no leader answered; try again when it has one")


def _unreadable(tp: TopicPartition, committed: Unknown | None) -> Problem:
    return Problem(f"{tp}: its committed position is not known: {committed.reason if committed else 'nobody read it'}")
