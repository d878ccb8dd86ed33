"""Message sets of formats v0 and v1 (Kafka 0.8 to 0.10).  Works on bytes alone: no socket, no cluster, no offset store.

    entry = offset:int64  size:int32  crc:uint32  magic:int8  attributes:int8  [timestamp:int64 in v1]  key  value
            size counts all that follows it; crc covers magic to the end of the entry
            attributes: bits 0-2 codec, bit 3 timestamp type (v1: 0 as created, 1 as appended)
            key and value: length:int32 (-1 is null) and bytes

A set has no count and may be truncated anywhere: its last entry is then left for the next fetch.  An entry with a codec
is a wrapper: its decompressed value is again a set of the same format, and its own offset is the offset of its last
message. Inner offsets are absolute in v0; in v1 they are relative: the last of them stands for the wrapper's own
offset.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace

from kafkawire.errors import CorruptMessage, LocalError
from kafkawire.formats.layouts import MAX_DEPTH as MAX_DEPTH
from kafkawire.formats.layouts import OPEN_LIMIT as OPEN_LIMIT
from kafkawire.formats.layouts import middle
from kafkawire.formats.v01.columns import index as index
from kafkawire.formats.v01.columns import index_within as index_within
from kafkawire.formats.v01.columns import pieces as pieces
from kafkawire.formats.v01.columns import pieces_by as pieces_by
from kafkawire.formats.v01.read import CRC_FROM, NOBODY, bad_crc, opened_messages
from kafkawire.formats.v01.read import Wrapper as Wrapper
from kafkawire.formats.v01.read import messages as messages
from kafkawire.formats.v01.read import wrapper as wrapper
from kafkawire.formats.v01.scan import CODEC as CODEC
from kafkawire.formats.v01.scan import ENTRY_OVERHEAD as ENTRY_OVERHEAD
from kafkawire.formats.v01.scan import LOG_APPEND_TIME as LOG_APPEND_TIME
from kafkawire.formats.v01.scan import LOG_OVERHEAD as LOG_OVERHEAD
from kafkawire.formats.v01.scan import LOWEST as LOWEST
from kafkawire.formats.v01.scan import Scan as Scan
from kafkawire.formats.v01.scan import before, cut, stamped
from kafkawire.formats.v01.scan import behind as behind
from kafkawire.formats.v01.scan import count as count
from kafkawire.formats.v01.scan import cut_short as cut_short
from kafkawire.formats.v01.scan import entry_at as entry_at
from kafkawire.formats.v01.scan import scan as scan
from kafkawire.formats.v01.write import Blobs as Blobs
from kafkawire.formats.v01.write import Row as Row
from kafkawire.formats.v01.write import encode as encode
from kafkawire.formats.v01.write import encode_columns as encode_columns
from kafkawire.formats.v01.write import encode_lists as encode_lists
from kafkawire.formats.v01.write import may_pass as may_pass
from kafkawire.formats.v01.write import wrap
from kafkawire.model import Message, MessageSet, Part, PartitionId, Run, SetReader
from kafkawire.primitives import Bytes

_ENTRY = struct.Struct(">qiI")  # offset, size, crc


def message_set(
    topic: str,
    partition: PartitionId,
    start: int,
    buffer: memoryview,
    high_watermark: int | None,
    aborted: Sequence[tuple[int, int]] = (),  # always empty here: transactions came with record batches
) -> tuple[MessageSet, Scan]:
    """Return the complete entries of a fetched buffer as a set, and the scan that found them.  Raises nothing."""
    found = scan(buffer, start)
    view = buffer[: found.end]
    return MessageSet(topic, partition, start, found.resume_at, view, high_watermark, found.runs, READER), found


def next_border(data: Bytes, start: int = 0) -> int | None:
    """Raise LocalError: offsets count messages, so brokers look up where entries begin (interfaces.MessageFormats)."""
    raise LocalError("Kafka 0.8 and later look up where an entry begins by its offset, not by its bytes")


READER = SetReader(messages, index, pieces, cut, before, stamped)


# ---- inspect entries to be sent -----------------------------------------------------------------------------------


def check(entries: Bytes) -> CorruptMessage | None:
    """Return the first damage in complete entries: a wrong checksum, outer or inner, or bytes that are not an entry;
    None if there is none."""
    found = scan(entries, LOWEST)
    view = memoryview(entries)
    try:
        for run in found.runs:
            if run.codec:
                for _ in opened_messages(NOBODY, view, run):
                    pass
            else:
                _check_crcs(view, run)
    except CorruptMessage as exc:
        return exc
    if found.damage is None and found.end != len(entries):
        return CorruptMessage(f"truncated {len(entries) - found.end} bytes after its beginning", found.end)
    return found.damage


def _check_crcs(view: memoryview, run: Run) -> None:
    at, crc32, unpack = run.begin, zlib.crc32, _ENTRY.unpack_from
    while at < run.end:
        offset, size, crc = unpack(view, at)
        after = at + LOG_OVERHEAD + size
        if crc32(view[at + CRC_FROM : after]) != crc:
            raise bad_crc(bytes(view[at:after]), 0, after - at, at, offset, crc)
        at = after


def split(part: Part, first: int | None = None) -> list[Part]:
    """Return a part as two, split near the middle of its bytes or after its `first` messages; [part] for a single
    message.

    A wrapper is decompressed, and both halves are compressed again with its codec.  If the part has a resume_at, the
    first half gets its own last offset + 1.  Raises CorruptMessage for a wrapper that cannot be decompressed.
    """
    return _split_wrapper(part, first) if part.codec else _split_plain(part, first)


def _split_plain(part: Part, first: int | None) -> list[Part]:
    view = memoryview(part.entries)
    ends, offsets, at = [], [], 0
    while at < len(view):
        offset, size, _ = _ENTRY.unpack_from(view, at)
        at += LOG_OVERHEAD + size
        ends.append(at)
        offsets.append(offset)
    count = middle(ends, first)
    if not count:
        return [part]
    cut = ends[count - 1]
    reached = None if part.resume_at is None else offsets[count - 1] + 1
    return [
        replace(part, entries=part.entries[:cut], count=count, resume_at=reached),
        replace(part, entries=part.entries[cut:], count=len(ends) - count),
    ]


def _split_wrapper(part: Part, first: int | None) -> list[Part]:
    walk = replace(NOBODY, topic=part.tp.topic, partition=part.tp.partition)
    run = Run(0, len(part.entries), part.codec, part.magic, 1, 0)
    inner = list(opened_messages(walk, part.entries, run))
    ends, total = [], 0
    for message in inner:
        total += ENTRY_OVERHEAD[part.magic] + len(message.key or b"") + len(message.value or b"")
        ends.append(total)
    count = middle(ends, first)
    if not count:
        return [part]
    reached = None if part.resume_at is None else inner[count - 1].resume_at
    return [
        _rewrapped(part, inner[:count], reached),
        _rewrapped(part, inner[count:], part.resume_at),
    ]


def _rewrapped(part: Part, inner: list[Message], resume_at: int | None) -> Part:
    rows: list[Row] = [(m.offset, m.key, m.value, m.timestamp_ms) for m in inner]
    # Keep gaps: if offsets were counted from 0, a second split would give a message the offset of one before it.
    relative = [m.offset - inner[0].offset for m in inner]
    return replace(
        part,
        entries=wrap(rows, part.codec, part.magic, relative),
        count=len(rows),
        resume_at=resume_at,
    )
