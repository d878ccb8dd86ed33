"""The column headers of a piece of rows: array<struct<key:string,value:binary>>, as Spark's own kafka format has it.

Headers travel as their blocks (kafkawire.headers) and are opened here, at the program's border.  Blocks of one producer
repeat from message to message, so each is opened once.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kafkawire.errors import RemoteError
from kafkawire.headers import Headers, unpacked
from sparkpipeline.errors import CorruptData
from sparkpipeline.reading.pieces import Piece

KEPT = 4096  # opened blocks; one of them may be as large as a message


def headers_of(piece: Piece, kind: Any) -> Any:
    """A pyarrow.ListArray of this type, null where a message has no headers.  Raises CorruptData."""
    columns = piece.columns
    if columns.header_at is None or columns.header_size is None:
        return pa.nulls(len(piece), kind)
    data = memoryview(columns.data)
    opened: dict[bytes, Headers] = {}
    names: list[str] = []
    values: list[bytes | None] = []
    ends: list[int | None] = []
    for row in range(piece.since, piece.until):
        at, size = columns.header_at[row], columns.header_size[row]
        block = bytes(data[at : at + size]) if size else b""
        found = opened.get(block)
        if found is None:
            found = _opened(block, piece, row)
            if len(opened) < KEPT:
                opened[block] = found
        ends.append(len(names) if found else None)  # where it begins: ListArray takes the next one for its end
        for name, value in found:
            names.append(name)
            values.append(value)
    ends.append(len(names))
    structs = pa.StructArray.from_arrays(
        [pa.array(names, pa.string()), pa.array(values, pa.binary())], fields=list(kind.value_type)
    )
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), structs).cast(kind)


def _opened(block: bytes, piece: Piece, row: int) -> Headers:
    try:
        return unpacked(block)
    except RemoteError as damaged:
        raise CorruptData(
            str(damaged),
            topic=piece.range.topic,
            partition=piece.range.partition,
            offset=piece.columns.offsets[row],
        ) from None
