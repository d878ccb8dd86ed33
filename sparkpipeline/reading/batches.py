"""Ranges as Arrow record batches of about a megabyte: what a task of the source yields."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import pyarrow as pa

from sparkpipeline.access import ClusterAccess
from sparkpipeline.errors import CorruptData
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.arrow import Piece, record_batch
from sparkpipeline.reading.options import ReadOptions
from sparkpipeline.reading.sets import read_many


def read_ranges(
    ranges: Sequence[OffsetRange], access: ClusterAccess, options: ReadOptions
) -> Generator[pa.RecordBatch, None, None]:
    """The messages of the ranges, one range after the other, with the columns that options name.

    A batch has options.batch_bytes of keys and values or options.batch_rows rows at most; small ranges share one.
    Raises as read_sets, and CorruptData and CodecMissing for what a set holds.  close() ends its thread.
    """
    rows = [0] * len(ranges)  # of each range so far
    held: list[Piece] = []
    size = count = 0
    sets = read_many(ranges, access, options)
    try:
        for number, message_set in sets:
            rng = ranges[number]
            columns = message_set.index(options.check_crcs)
            piece = Piece(rng, columns, 0, len(columns), rows[number]).within(rng.until)
            if columns.damage is not None and piece.until == len(columns):
                where = {"topic": rng.topic, "partition": rng.partition, "offset": columns.damage.offset}
                raise CorruptData(str(columns.damage), **where)
            rows[number] += len(piece)
            for part in piece.cut(options.batch_bytes, options.batch_rows):
                if held and (size + part.bytes > options.batch_bytes or count + len(part) > options.batch_rows):
                    yield record_batch(held, options)
                    held, size, count = [], 0, 0
                held.append(part)
                size += part.bytes
                count += len(part)
        if held:
            yield record_batch(held, options)
    finally:
        sets.close()
