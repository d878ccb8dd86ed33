"""Isolation: splits a part of a fetched set into single messages, to find the bad one.  Pure.

    isolated(set, begin, until)   yields what is outside begin..until as it is, and each message inside as its own set

A wrapper is opened, and each of its messages becomes a wrapper of its own, at its own offset.  An entry that cannot be
opened stays whole, with its damage.  A damaged message inside a wrapper that can be opened is also alone (0.8 and
later; if offsets are bytes, everything behind it in the wrapper stays with it).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kafkawire.dialects import Dialect
from kafkawire.errors import CorruptMessage, RemoteError
from kafkawire.headers import packed
from kafkawire.model import Message, MessageSet, Run
from mirrormaker.badmessages import BadMessage, Kind
from producer.conversion import one_run


@dataclass(frozen=True, slots=True)
class Isolated:
    """Some messages of a fetched set, in order.

    single: it is one message, or (with damage) one entry.  resume_at: the fetched set's; if `inner` is true,
    message_set has another, because other messages share its offset.  index: its position among those messages.
    """

    message_set: MessageSet
    offset: int
    resume_at: int
    single: bool = False
    damage: CorruptMessage | None = None
    index: int = 0
    inner: bool = False


def isolated(fetched: MessageSet, begin: int, until: int, dialect: Dialect) -> Iterator[Isolated]:
    """Yield all of a set, in order.  `dialect` is the source's; `until` is greater than `begin`.

    Raises LibraryMissing if a wrapper must be opened and its codec's library is not installed.
    """
    start = fetched.start
    for run in fetched.runs:
        alone = one_run(fetched, run, start)
        if run.resume_at <= begin or start >= until:
            yield Isolated(alone, start, run.resume_at)
        elif run.atomic:
            yield from _opened(alone, dialect)
        else:
            yield from _entries(alone, begin, until, dialect)
        start = run.resume_at


def _entries(alone: MessageSet, begin: int, until: int, dialect: Dialect) -> Iterator[Isolated]:
    """Yield plain entries; those from begin to until one by one."""
    (run,) = alone.runs
    at, here, entries = alone.start, 0, 0
    first = alone.before(run, begin) if begin > at else None
    if first is not None:
        yield Isolated(one_run(alone, first, at), at, first.resume_at)
        at, here, entries = first.resume_at, first.end, first.entries
    within = alone.before(run, until)
    if within is not None and within.end > here:
        behind = run.resume_at if within.end == run.end else within.resume_at
        for entry in alone.cut(replace(within, begin=here, entries=within.entries - entries, resume_at=behind), 0):
            own = dialect.messages.entry_at(alone.buffer[entry.begin : entry.end], 0, at)
            assert own is not None, f"{alone.tp} at {at}: a scanned entry cannot be read again"
            one = one_run(alone, replace(entry, resume_at=own.resume_at), at)
            yield Isolated(one, own.offset, own.resume_at, True, dialect.messages.check(one.buffer))
            at = own.resume_at
        here, entries = within.end, within.entries
    if here < run.end:
        yield Isolated(one_run(alone, replace(run, begin=here, entries=run.entries - entries), at), at, run.resume_at)


def _opened(alone: MessageSet, dialect: Dialect) -> Iterator[Isolated]:
    """Yield each message of a wrapper or a record batch as a set of its own."""
    (run,) = alone.runs
    at, index, wanted = alone.start, 0, alone
    while True:
        try:
            for message in wanted.messages():
                yield _alone(alone, run, message, index, dialect)
                shares = message.resume_at <= message.offset
                at, index = message.resume_at, index + 1 if shares else 0
            return
        except CorruptMessage as damage:
            bad = _only(alone, at, damage) if dialect.offsets.count_messages else None
            if bad is None:
                yield Isolated(replace(alone, start=at), at, run.resume_at, True, damage, index)
                return
            yield Isolated(replace(alone, start=bad, resume_at=bad + 1), bad, bad + 1, True, damage)
            at, index, wanted = bad + 1, 0, replace(alone, start=bad + 1)


def _only(alone: MessageSet, at: int, damage: CorruptMessage) -> int | None:
    """Return the offset of the single damaged message in a wrapper, or None if the wrapper itself is damaged."""
    offset = damage.offset
    if offset is None or not at <= offset < alone.resume_at:
        return None
    try:
        next(iter(replace(alone, start=offset + 1).messages()), None)
    except CorruptMessage as further:
        return offset if further.offset is not None and further.offset > offset else None
    return offset


def _alone(alone: MessageSet, run: Run, message: Message, index: int, dialect: Dialect) -> Isolated:
    """Return a message of a wrapper or a record batch as a set of its own."""
    row = (message.offset, message.key, message.value, message.timestamp_ms)
    headers = [packed(message.headers)] if message.headers else None
    data = memoryview(dialect.messages.encode([row], codec=run.codec, magic=run.magic, headers=headers))
    one, _ = dialect.messages.message_set(alone.topic, alone.partition, message.offset, data, alone.high_watermark)
    shares = message.resume_at <= message.offset or index > 0
    return Isolated(
        one,
        message.offset,
        message.resume_at,
        single=True,
        index=index,
        inner=shares or one.resume_at != message.resume_at,
    )


def bad_message(one: Isolated, kind: Kind, reason: Exception, dialect: Dialect) -> BadMessage:
    """Return what is known of a single message that cannot be copied."""
    message_set, message = one.message_set, None
    if one.damage is None:
        try:
            found = next(iter(message_set.messages(check_crcs=False)), None)
            message = None if found is None else (found.key, found.value, found.timestamp_ms, packed(found.headers))
        except RemoteError:
            pass  # only its entry is known
    counted = 1 if one.damage is None else one.resume_at - one.offset
    return BadMessage(
        tp=message_set.tp,
        offset=one.offset,
        resume_at=one.resume_at,
        kind=kind,
        reason=reason,
        entry=bytes(message_set.buffer),
        nbytes=len(message_set.buffer),
        offsets=counted if dialect.offsets.count_messages else 1 if message is not None else None,
        index=one.index,
        message=message,
    )
