"""Target offset of each partition by the reset kinds of kafka-consumer-groups (KIP-122).

    Earliest      the start of the log             ToOffset(n)      this offset
    Latest        the end of the log               ShiftBy(n)       the committed offset plus n messages
    Current       the committed offset, or the     ToDatetime(ms)   the first message at this time or later
                  end if there is none             ByDuration(ms)   the first message since that long ago
    FromRows      the offsets in a file, deletions included

For a group with two stores the caller passes the larger committed offset.  A partition without a result gets a Problem,
which does not affect the others.  Whether an offset may be written is decided in `changes`: ToOffset and ShiftBy may
return offsets outside the log.

Look-up by time: from 0.10.1 on the leader returns the first message whose timestamp is not before the time, and none
when all are older (then the end of the log is used, with a note).  Older leaders only know when each segment file was
last written, and return the start of the last segment written before the time: up to a segment too early, never too
late. No offset means that every segment was written later: then the start of the log is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from groundwork.sentences import iso
from groupadmin.files.model import SavedRow
from kafkawire.model import TopicPartition
from zkconsumer.offsets.store import Committed, Unknown, UnreadableNode
from zkconsumer.options.arguments import WrongUsage

UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
Bounds = tuple[int, int]  # first offset of a log, and its end


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
    """--shift-by; negative to read messages again."""

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
    """--from-file and `offsets set`: offsets as given; None deletes the offset."""

    positions: Mapping[TopicPartition, int | None]


Reset = Earliest | Latest | Current | ToOffset | ShiftBy | ToDatetime | ByDuration | FromRows


@dataclass(frozen=True, slots=True)
class TimeAnswer:
    """A leader's response to a look-up by time.

    position: None: there is none.  by: precision: each message (ListOffsets v1, 0.10.1 and later) or segment files
    (v0). error: the protocol's code, 0 for success.
    """

    position: int | None
    by: Literal["message", "segment"]
    error: int = 0


Target = int | UnreadableNode | None
"""What a store will hold: an offset; None: nothing; UnreadableNode: data that an undo file restores."""


@dataclass(frozen=True, slots=True)
class TargetOffset:
    """Target offset of a partition.  note: a sentence for the operator, or empty."""

    position: Target
    note: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """Reason why a partition has no target offset; a sentence with a remedy."""

    text: str


def from_rows(rows: Iterable[SavedRow], group: str) -> FromRows:
    """Return the offsets of one group in a file; rows without a group count as its own.  Raises WrongUsage for two
    values."""
    positions: dict[TopicPartition, int | None] = {}
    for row in rows:
        if row.group in (None, group) and positions.setdefault(row.tp, row.position) != row.position:
            raise WrongUsage(f"the file has two positions for {row.tp} of group {group}: name the group of each row")
    return FromRows(positions)


def asked_time(kind: Reset, now_ms: int) -> int | None:
    """Return the time (ms since 1970) to look up at the leaders; None: no look-up by time."""
    if isinstance(kind, ToDatetime):
        return kind.ms
    if isinstance(kind, ByDuration):
        return max(0, now_ms - kind.ms)
    return None


def target_offsets(
    kind: Reset,
    tps: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, Committed],
    *,
    bounds: Mapping[TopicPartition, Bounds],
    by_time: Mapping[TopicPartition, TimeAnswer] | None = None,
    time_ms: int | None = None,
) -> dict[TopicPartition, TargetOffset | Problem]:
    """Return the target of each partition (FromRows: of the partitions that it names).

    bounds: absent when no leader answered.  by_time: the leaders' responses for time_ms, the result of asked_time().
    Raises WrongUsage for a negative offset.
    """
    found: dict[TopicPartition, TargetOffset | Problem] = {}
    for tp in tps:
        match kind:
            case ToOffset(position):
                found[tp] = TargetOffset(_not_negative(tp, position))
            case FromRows(positions):
                if tp in positions:
                    found[tp] = TargetOffset(_not_negative(tp, positions[tp]))
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


def _at_an_end(
    tp: TopicPartition, kind: Reset, committed: Committed | None, bounds: Bounds | None
) -> TargetOffset | Problem:
    if isinstance(kind, Current):
        if isinstance(committed, int):
            return TargetOffset(committed)
        if committed is None or isinstance(committed, Unknown):
            return _unreadable(tp, committed)
    if bounds is None:
        return _no_bounds(tp)
    if isinstance(kind, Current):
        return TargetOffset(bounds[1], f"{tp} has no committed position: the end of the log, {bounds[1]}, is taken")
    return TargetOffset(bounds[0] if isinstance(kind, Earliest) else bounds[1])


def _shifted(tp: TopicPartition, by: int, committed: Committed | None) -> TargetOffset | Problem:
    if committed is None or isinstance(committed, Unknown):
        return _unreadable(tp, committed)
    if not isinstance(committed, int):
        return Problem(f"{tp} has no committed position to shift; give one with --to-offset, or use --to-earliest")
    if committed + by >= 0:
        return TargetOffset(committed + by)
    return TargetOffset(
        0, f"{tp}: {committed} moved by {by} is below 0: 0 is taken"
    )  # `changes` holds it against the log


def _at_time(
    tp: TopicPartition, answer: TimeAnswer | None, bounds: Bounds | None, time_ms: int | None
) -> TargetOffset | Problem:
    when = "that time" if time_ms is None else iso(time_ms)
    if answer is None:
        return Problem(f"{tp}: no leader answered a look-up of {when}; try again when it has a leader")
    if answer.error == UNSUPPORTED_FOR_MESSAGE_FORMAT:
        return Problem(
            f"{tp}: its messages carry no timestamps (UNSUPPORTED_FOR_MESSAGE_FORMAT, format before 0.10), so {when} "
            "cannot be found; use --to-offset, --shift-by or --to-earliest"
        )
    if answer.error:
        return Problem(f"{tp}: the leader refused to look up {when} with error {answer.error}; try again")
    if answer.position is not None and answer.position >= 0:
        if answer.by == "message":
            return TargetOffset(answer.position)
        return TargetOffset(
            answer.position,
            f"{tp}: brokers before 0.10.1 know times of segment files only: {answer.position} is the start of the last "
            f"segment written before {when}, so up to one segment is read again",
        )
    if bounds is None:
        return _no_bounds(tp)
    if answer.by == "segment":
        return TargetOffset(
            bounds[0],
            f"{tp}: every segment was written after {when} (brokers before 0.10.1 know no more): the start of the log, "
            f"{bounds[0]}, is taken",
        )
    return TargetOffset(bounds[1], f"{tp}: no message at {when} or later: the end of the log, {bounds[1]}, is taken")


def _no_bounds(tp: TopicPartition) -> Problem:
    return Problem(f"{tp}: where its log begins and ends is not known, no leader answered; try again when it has one")


def _unreadable(tp: TopicPartition, committed: Unknown | None) -> Problem:
    return Problem(f"{tp}: its committed position is not known: {committed.reason if committed else 'it was not read'}")
