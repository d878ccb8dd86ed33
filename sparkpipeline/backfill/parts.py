"""Fetched sets on their way to the same partition of another cluster, cut to a range.  Pure: bytes and counts.

Whole runs travel as they are where the target takes them (producer.conversion); a wrapper that reaches over an end of
the range is opened and only its wanted messages are encoded again.  Entries of 0.7 are all written anew, as the target
has them.  Each part says exactly how many messages it holds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from kafkawire.columns import Columns
from kafkawire.dialects import Dialect
from kafkawire.errors import CorruptMessage, SetTooLarge
from kafkawire.model import BrokerPartition, Message, MessageSet, Part, Run, TopicPartition
from producer.conversion import Output, Step, one_run, pass_through, reencode, transcode
from sparkpipeline.errors import CorruptData


def indexed(fetched: MessageSet, until: int, check_crcs: bool) -> Iterator[tuple[MessageSet, Columns]]:
    """A set with its columns; where it opens to more than a set may, each entry before `until` as a set of its own."""
    try:
        columns = fetched.index(check_crcs)
    except SetTooLarge:
        start, last = fetched.start, fetched.runs[-1]
        for run in fetched.runs:
            if start >= until:
                return
            alone = one_run(fetched, run, start)
            if run is last:
                alone = replace(alone, resume_at=fetched.resume_at)
            columns = alone.index(check_crcs)
            yield alone, columns
            if columns.damage is not None:
                return
            start = run.resume_at
    else:
        yield fetched, columns


def parts(
    fetched: MessageSet,
    columns: Columns,
    until: int,
    target: TopicPartition,
    *,
    dialect: Dialect,
    message_max_bytes: int,
    codec: int | None = None,
    aligned: bool = False,
    inside: int = 0,
) -> Iterator[Part]:
    """The messages of a set from its start on and before `until`, in order.  dialect: the target's.

    columns: of the whole set, its checksums checked; codec None: as the source has it; aligned: the set begins where
    another ended; inside: so many messages of its first entry are left out (0.7).  A part's resume_at is a source
    offset, or None where it was encoded again.

    Raises CorruptData where a message is damaged, behind what precedes it.
    """
    if isinstance(fetched.partition, BrokerPartition):
        yield from _of_07(fetched, target, dialect, message_max_bytes, codec=codec, inside=inside)
        return
    good = until if columns.damage is None else min(until, columns.resume_at)
    at = fetched.start
    try:
        for step in _steps(
            fetched, good, target, dialect=dialect, message_max_bytes=message_max_bytes, codec=codec, aligned=aligned
        ):
            resume_at = min(step.resume_at, good)
            if len(step.parts) == 1:  # a wrapper that passes through does not say what it holds
                yield replace(step.parts[0], count=_messages(columns.offsets, at, resume_at))
            else:
                yield from step.parts
            at = resume_at
    except CorruptMessage as damage:
        raise damaged(fetched, damage) from damage
    if columns.damage is not None and good < until:
        raise damaged(fetched, columns.damage)


def _of_07(
    fetched: MessageSet,
    target: TopicPartition,
    dialect: Dialect,
    message_max_bytes: int,
    *,
    codec: int | None,
    inside: int,
) -> Iterator[Part]:
    """A set of 0.7, of which none reaches over the end of its range."""
    left = count(1)

    def behind(message: Message) -> Sequence[Output]:
        wanted = next(left) > inside
        return (Output(target, message.key, message.value, message.timestamp_ms),) if wanted else ()

    try:
        if inside:
            steps = reencode(fetched, behind, dialect, message_max_bytes, codec)
        else:
            steps = transcode(fetched, target, dialect, message_max_bytes, codec)
        for step in steps:
            yield from step.parts
    except CorruptMessage as damage:
        raise damaged(fetched, damage) from damage


def damaged(fetched: MessageSet, damage: CorruptMessage) -> CorruptData:
    """The error for a damaged message, which is not copied."""
    return CorruptData(
        f"{damage}; what precedes it is copied, and a second backfill can begin behind it",
        topic=fetched.topic, partition=fetched.partition, offset=damage.offset,
    )  # fmt: skip


def before(columns: Columns, until: int) -> int:
    """How many of the messages are before an offset."""
    return _messages(columns.offsets, 0, until)


def _messages(offsets: Sequence[int], start: int, until: int) -> int:
    return bisect_left(offsets, until) - bisect_left(offsets, start)


def _steps(
    fetched: MessageSet,
    until: int,
    target: TopicPartition,
    *,
    dialect: Dialect,
    message_max_bytes: int,
    codec: int | None,
    aligned: bool,
) -> Iterator[Step]:
    def keep(message: Message) -> Sequence[Output]:
        wanted = message.offset < until
        return (Output(target, message.key, message.value, message.timestamp_ms),) if wanted else ()

    if codec is not None:
        yield from reencode(fetched, keep, dialect, message_max_bytes, codec)
        return
    whole, over = _cut(fetched, until)
    yield from pass_through(whole, target, dialect, message_max_bytes, aligned)
    if over is not None:
        yield from reencode(one_run(fetched, over, whole.resume_at), keep, dialect, message_max_bytes)


def _cut(fetched: MessageSet, until: int) -> tuple[MessageSet, Run | None]:
    """The set up to the end of the range, and the wrapper that reaches over it."""
    kept: list[Run] = []
    over, reached = None, fetched.start
    for run in fetched.runs:
        if reached >= until:
            break
        if run.resume_at <= until:
            kept.append(run)
            reached = run.resume_at
            continue
        if run.atomic:
            over = run
        elif (piece := fetched.before(run, until)) is not None:
            kept.append(piece)
            reached = until
        break
    return replace(fetched, runs=tuple(kept), resume_at=reached), over
