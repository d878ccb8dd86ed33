"""Ranges as Arrow record batches of about a megabyte: what a task of the source yields.

While one set is decoded the broker already sends the next (fetching.py).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from kafkawire.columns import Columns, ascending
from kafkawire.dialects import Dialect, dialect
from kafkawire.errors import CorruptMessage, LibraryMissing
from kafkawire.model import MessageSet
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.errors import CodecMissing, CorruptData
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading import forms
from sparkpipeline.reading.arrow import record_batch
from sparkpipeline.reading.options import ReadOptions
from sparkpipeline.reading.pieces import Piece
from sparkpipeline.reading.sets import read_many


def read_ranges(
    ranges: Sequence[OffsetRange], access: ClusterAccess, options: ReadOptions
) -> Generator[Any, None, None]:
    """pyarrow.RecordBatch: the messages of the ranges, one range after the other, with the columns that options name.

    A batch has options.batch_bytes of keys and values and options.batch_rows rows at most; small ranges share one.
    Raises as read_sets, and CorruptData and CodecMissing for what a set holds.
    """
    spoken = dialect(access.release)
    with closing(read_many(ranges, access, options)) as sets:
        found = _pieces(spoken, sets, ranges, options)
        if "coveredBytes" in options.columns:
            found = _covering(found)
        small = (part for piece in found for part in piece.cut(options.batch_bytes, options.batch_rows))
        for pieces in grouped(small, options.batch_bytes, options.batch_rows):
            yield record_batch(pieces, options)


def _pieces(
    spoken: Dialect, sets: Iterator[tuple[int, MessageSet]], ranges: Sequence[OffsetRange], options: ReadOptions
) -> Iterator[Piece]:
    """The rows of each set that are within its range, about a batch at a time."""
    current, rows = -1, 0
    for number, message_set in sets:
        rows = rows if number == current else 0
        current = number
        for piece in _within(spoken, ranges[number], message_set, rows, options):
            rows += len(piece)
            yield piece


def _covering(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """The same, but none without rows: what such a one covers of the log (entries that hold no message) counts as its
    neighbour's of the same range.  So all of a range is covered by its rows, if it has any, but what was skipped."""
    last: Piece | None = None  # with rows: not handed out yet; without: no row came before it
    for piece in pieces:
        follows = last is not None and last.range is piece.range and last.covered_to == piece.covered_from
        if last is None or not follows:
            if last is not None and len(last):
                yield last
            last = piece
        elif not len(piece):
            last = replace(last, covered_to=piece.covered_to)
        elif len(last):
            yield last
            last = piece
        else:
            last = replace(piece, covered_from=last.covered_from)
    if last is not None and len(last):
        yield last


def _within(
    spoken: Dialect, rng: OffsetRange, message_set: MessageSet, rows: int, options: ReadOptions
) -> Iterator[Piece]:
    """The rows of a set before the range's end, about a batch at a time: what is copied is then still in a cache.

    Raises CorruptData where damage stands before the range's end, CodecMissing.
    """
    reached = message_set.start
    for columns in _columns(spoken, rng, message_set, options):
        whole = Piece(rng, columns, 0, len(columns), rows, reached, columns.resume_at)
        if len(whole) and (columns.offsets[0] < reached or not ascending(whole.part)):
            raise CorruptData("offsets go back within a fetched set", **_where(rng, message_set.start))
        piece = whole.within(rng.until)
        yield piece
        if len(piece) < len(whole) or columns.resume_at >= rng.until:
            return
        if columns.damage is not None:
            raise _corrupt(rng, columns.damage)
        reached, rows = columns.resume_at, rows + len(piece)


def _columns(spoken: Dialect, rng: OffsetRange, message_set: MessageSet, options: ReadOptions) -> Iterator[Columns]:
    try:
        yield from forms.pieces(spoken, message_set, options.check_crcs, options.batch_bytes)
    except LibraryMissing as missing:
        helps = "install it on every executor: what --py-files carries are Python files"
        raise CodecMissing(f"{missing}; {helps}", **_where(rng, message_set.start)) from None


def _corrupt(rng: OffsetRange, damage: CorruptMessage) -> CorruptData:
    helps = "; kafka.check.crcs=false reads it all the same" if "crc mismatch" in damage.why else ""
    return CorruptData(f"{damage}{helps}", **_where(rng, damage.offset))


def _where(rng: OffsetRange, offset: int | None) -> dict[str, object]:
    return {"topic": rng.topic, "partition": rng.partition, "offset": offset}


def grouped(pieces: Iterator[Piece], most_bytes: int, most_rows: int) -> Iterator[list[Piece]]:
    """Neighbouring pieces together, as many as fit a batch; one that is larger alone."""
    held: list[Piece] = []
    size = rows = 0
    for piece in pieces:
        if held and (size + piece.bytes > most_bytes or rows + len(piece) > most_rows):
            yield held
            held, size, rows = [], 0, 0
        held.append(piece)
        size += piece.bytes
        rows += len(piece)
    if held:
        yield held
