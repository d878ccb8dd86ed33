"""Resets: where a partition starts if its offset is unknown or outside its log (auto.offset.reset, the listener).

nothing committed   the smallest or the largest offset ("fail" only concerns offsets outside: it starts at the smallest)
inside again        at that offset: a follower that led for a moment had a shorter log
outside             the listener's choice; else by the policy: smallest, largest, or fail, which parks the partition
of a former log     like outside, even if the number is inside today's log

Sets that were fetched before the broker refused a position are still delivered, so a gap begins behind them.
"""

from __future__ import annotations

from kafkawire.model import Broker, TopicPartition
from zkconsumer.errors import FormerLog, OutOfRange
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.fetching.partitioncursor import Cursor
from zkconsumer.fetching.position import FetchPosition, Reset


def out_of_range(position: FetchPosition, earliest: int, latest: int) -> bool:
    """True if the offset that was refused or committed is outside the log, or belongs to another log."""
    if position.refused is not None:
        return not earliest <= position.refused <= latest
    wanted = position.seek.out_of_range
    return wanted is not None and (bool(position.seek.former) or not earliest <= wanted <= latest)


def apply_reset(
    cursor: Cursor,
    earliest: int,
    latest: int,
    chosen: int | None,
    broker: Broker,
    on_event: OnEvent,
    unit: str = "messages",
) -> bool:
    """Resume where the rules say.  chosen: the listener's choice; unit: what offsets count.

    Return False if the partition is parked.
    """
    tp, position = cursor.tp, cursor.partition.position
    seek, refused = position.seek, position.refused
    wanted = seek.out_of_range if refused is None else refused
    former = seek.former if refused is None else ""
    if wanted is not None and not out_of_range(position, earliest, latest):
        cursor.apply(cursor.partition.relocate, wanted)
        return True
    if wanted is not None and chosen is None and seek.reset == "fail":
        outside = OutOfRange(tp, wanted, earliest, latest, broker)
        cursor.apply(cursor.partition.park, FormerLog(tp, wanted, former) if former else outside)
        return False
    to = chosen if chosen is not None else latest if seek.reset == "largest" else earliest
    cursor.reset = Reset(to, wanted, bool(seek.former))
    who = seek.reset if chosen is None else "by the listener"
    if wanted is not None and former:
        on_event(_begins_new_log(tp, wanted, former, to, earliest, latest, who, unit))
    else:
        lost = 0
        if wanted is not None and to >= wanted:
            lost = position.count_gap(wanted, to, cursor.partition.done)
        on_event(_jump(tp, wanted, to, f"its log holds {earliest} to {latest}", who, unit, lost))
    cursor.apply(cursor.partition.relocate, to)
    return True


def not_delivered(tp: TopicPartition, lost: int) -> ConsumerEvent:
    """Return the event for messages that were fetched from a log that was cut or deleted, and cannot be fetched
    again."""
    unit = "messages" if isinstance(tp.partition, int) else "bytes"
    text = f"{tp}: {lost} {unit} were fetched and not delivered, and the log does not hold them any more"
    return ConsumerEvent("gap", text, tp, lost)


def _begins_new_log(
    tp: TopicPartition, wanted: int, former: str, to: int, earliest: int, latest: int, who: str, unit: str
) -> ConsumerEvent:
    text = f"{tp} at {wanted}: {former}, which holds {earliest} to {latest}; starting at {to}"
    if to > earliest:
        count = to - earliest
        return ConsumerEvent("gap", f"{text}, {count} {unit} before it are not read ({who})", tp, count, wanted)
    return ConsumerEvent("reset", f"{text} ({who})", tp, offset=wanted)


def _jump(tp: TopicPartition, wanted: int | None, to: int, span: str, who: str, unit: str, lost: int) -> ConsumerEvent:
    if wanted is None:
        return ConsumerEvent("start", f"{tp}: no committed offset, starting at {to} ({who}; {span})", tp, offset=to)
    if to >= wanted:
        gone = f"{lost} {unit} are missing ({who}): the log was cut before they were read"
        return ConsumerEvent(
            "gap", f"{tp} at {wanted}: out of range, {span}; going on at {to}, {gone}", tp, lost, wanted
        )
    text = f"{tp} at {wanted}: out of range, {span}; going back to {to} ({who}): the log was truncated or created again"
    return ConsumerEvent("reset", text, tp, offset=wanted)
