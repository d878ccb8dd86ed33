"""Conversion of fetched sets to parts for a partition of another cluster, cut to a range.  Pure: bytes and counts.

Whole runs pass through unchanged if the target accepts them (producer.conversion); a wrapper that crosses an end of the
range is opened, and only its wanted messages are encoded again.  All entries of 0.7 are encoded in the target's format.
Each part has its exact number of messages.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace

from kafkawire.columns import Columns
from kafkawire.columns import Part as Stretch
from kafkawire.dialects import Dialect
from kafkawire.errors import CorruptMessage, SetTooLarge
from kafkawire.model import BrokerPartition, MessageSet, Part, Run, TopicPartition
from producer.conversion import coded_sets, one_run, pass_through, transcode
from producer.reslice import Share, resliced
from producer.steps import Step
from sparkpipeline.errors import CorruptData


def indexed(fetched: MessageSet, until: int, check_crcs: bool) -> Iterator[tuple[MessageSet, Columns]]:
    """Yield a set with its columns; if it opens to more than a set may have, each entry before `until` as a separate
    set."""
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
    """Yield the messages of a set before `until` as parts, in order.  dialect: the target's.

    columns: of the whole set, with checksums verified; codec None: the source's; aligned: the set begins where another
    one ended; inside: number of messages of its first entry to leave out (0.7).  A part's resume_at is a source offset,
    or None if it was encoded again.

    Raises CorruptData for a damaged message, after the parts before it.
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
    """Convert a set of 0.7, which never reaches over the end of its range."""
    left = inside

    def behind(columns: Columns, end: int) -> Sequence[Share]:
        nonlocal left
        skipped = min(left, end)
        left -= skipped
        return _share(target, columns, skipped, end)

    try:
        for step in resliced(coded_sets(fetched, dialect, codec), behind, dialect, message_max_bytes):
            yield from step.parts
    except CorruptMessage as damage:
        raise damaged(fetched, damage) from damage


def _share(target: TopicPartition, columns: Columns, since: int, until: int) -> Sequence[Share]:
    """Return the rows from `since` to `until` as a share for the target partition."""
    return (Share(target, Stretch(columns, since, until), len(columns.data)),) if since < until else ()


def damaged(fetched: MessageSet, damage: CorruptMessage) -> CorruptData:
    """Return the error for a damaged message, which is not copied."""
    return CorruptData(
        f"{damage}; the messages before it are copied, and a second backfill can begin after it",
        topic=fetched.topic, partition=fetched.partition, offset=damage.offset,
    )  # fmt: skip


def before(columns: Columns, until: int) -> int:
    """Return how many of the messages are before an offset."""
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
    def preceding(columns: Columns, end: int) -> Sequence[Share]:
        return _share(target, columns, 0, min(end, before(columns, until)))

    whole, over = _cut(fetched, until)
    if codec is None:
        yield from pass_through(whole, target, dialect, message_max_bytes, aligned)
    else:
        yield from transcode(whole, target, dialect, message_max_bytes, codec)
    if over is not None:
        opened = one_run(fetched, over, whole.resume_at)
        yield from resliced(coded_sets(opened, dialect, codec), preceding, dialect, message_max_bytes)


def _cut(fetched: MessageSet, until: int) -> tuple[MessageSet, Run | None]:
    """Return the set up to the end of the range, and the wrapper that crosses it."""
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
