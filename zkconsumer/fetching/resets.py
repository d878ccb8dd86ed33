"""Resets: where a partition starts whose position is unknown or lies outside its log (auto.offset.reset, the listener).

nothing committed   the smallest or the largest offset ("fail" is about positions outside: it starts at the smallest)
inside again        at that position: a follower that led for a moment had a shorter log
outside             where the listener says; else by the policy: smallest, largest, or fail, which parks the partition
of a former log     the same, even where the number lies inside today's log
"""

from __future__ import annotations

from kafkawire.model import Broker, TopicPartition
from zkconsumer.errors import FormerLog, OutOfRange
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.fetching.cursor import Cursor


def out_of_range(cursor: Cursor, earliest: int, latest: int) -> bool:
    """Does the position lie outside the log, or belong to another one?  False also where there is none."""
    wanted = cursor.seek.out_of_range
    return wanted is not None and (bool(cursor.seek.former) or not earliest <= wanted <= latest)


def apply_reset(
    cursor: Cursor,
    earliest: int,
    latest: int,
    chosen: int | None,
    broker: Broker,
    on_event: OnEvent,
    unit: str = "messages",
) -> bool:
    """Start where the rules say.  chosen: what the listener returned; unit: what positions count.  False: the partition
    is parked."""
    tp, seek = cursor.tp, cursor.seek
    wanted = seek.out_of_range
    if wanted is not None and not out_of_range(cursor, earliest, latest):
        cursor.reset_to(wanted)
        return True
    if wanted is not None and chosen is None and seek.reset == "fail":
        refused = OutOfRange(tp, wanted, earliest, latest, broker)
        cursor.park(FormerLog(tp, wanted, seek.former) if seek.former else refused)
        return False
    to = chosen if chosen is not None else latest if seek.reset == "largest" else earliest
    who = seek.reset if chosen is None else "by the listener"
    if wanted is not None and seek.former:
        on_event(_begins_new_log(tp, wanted, seek.former, to, earliest, latest, who, unit))
    else:
        on_event(_jump(tp, wanted, to, f"its log holds {earliest} to {latest}", who, unit))
    cursor.reset_to(to)
    return True


def _begins_new_log(
    tp: TopicPartition, wanted: int, former: str, to: int, earliest: int, latest: int, who: str, unit: str
) -> ConsumerEvent:
    text = f"{tp} at {wanted}: {former}, which holds {earliest} to {latest}; starting at {to}"
    if to > earliest:
        count = to - earliest
        return ConsumerEvent("gap", f"{text}, {count} {unit} before it are not read ({who})", tp, count, wanted)
    return ConsumerEvent("reset", f"{text} ({who})", tp, offset=wanted)


def _jump(tp: TopicPartition, wanted: int | None, to: int, span: str, who: str, unit: str) -> ConsumerEvent:
    if wanted is None:
        return ConsumerEvent("start", f"{tp}: no committed offset, starting at {to} ({who}; {span})", tp, offset=to)
    if to >= wanted:
        lost = f"{to - wanted} {unit} are missing ({who}): the log was cut before they were read"
        text = f"{tp} at {wanted}: out of range, {span}; going on at {to}, {lost}"
        return ConsumerEvent("gap", text, tp, to - wanted, wanted)
    text = f"{tp} at {wanted}: out of range, {span}; going back to {to} ({who}): the log was truncated or created again"
    return ConsumerEvent("reset", text, tp, offset=wanted)
