"""Message sets of Kafka 0.7.  Works on bytes alone: no socket, no cluster, no offset store.

    entry = length:int32  magic:int8  [attributes:int8 in magic 1]  crc:uint32  payload
            length counts all that follows it; crc covers the payload, and nothing else
            attributes: bits 0-1 codec; there are no keys, no timestamps and no nulls

A set has no count and may be truncated anywhere: its last entry is then left for the next fetch.  Offsets are bytes of
the partition's log: a set fetched at offset p has its first byte there, and a run's resume_at is the offset of the byte
after it.  An entry with a codec is a wrapper: its decompressed payload is again a set.  All its messages have the
wrapper's own offset, and only the last one moves the offset past the wrapper (wire-protocol.md 1.6).

The formats are numbered -2 (magic 0) and -1 (magic 1): see layout.py.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace

from kafkawire.errors import CorruptMessage
from kafkawire.formats.layouts import MAX_DEPTH as MAX_DEPTH
from kafkawire.formats.layouts import OPEN_LIMIT as OPEN_LIMIT
from kafkawire.formats.layouts import middle
from kafkawire.formats.v07.borders import next_border as next_border
from kafkawire.formats.v07.columns import index as index
from kafkawire.formats.v07.columns import pieces as pieces
from kafkawire.formats.v07.columns import pieces_by as pieces_by
from kafkawire.formats.v07.layout import CODEC as CODEC
from kafkawire.formats.v07.layout import ENTRY_OVERHEAD as ENTRY_OVERHEAD
from kafkawire.formats.v07.layout import HEADS, LENGTH
from kafkawire.formats.v07.layout import LOG_APPEND_TIME as LOG_APPEND_TIME
from kafkawire.formats.v07.layout import LOG_OVERHEAD as LOG_OVERHEAD
from kafkawire.formats.v07.layout import LOWEST as LOWEST
from kafkawire.formats.v07.read import NOBODY, bad_crc, opened_messages
from kafkawire.formats.v07.read import Wrapper as Wrapper
from kafkawire.formats.v07.read import messages as messages
from kafkawire.formats.v07.read import wrapper as wrapper
from kafkawire.formats.v07.scan import Scan as Scan
from kafkawire.formats.v07.scan import before, cut, stamped
from kafkawire.formats.v07.scan import behind as behind
from kafkawire.formats.v07.scan import count as count
from kafkawire.formats.v07.scan import cut_short as cut_short
from kafkawire.formats.v07.scan import entry_at as entry_at
from kafkawire.formats.v07.scan import scan as scan
from kafkawire.formats.v07.write import Row as Row
from kafkawire.formats.v07.write import encode as encode
from kafkawire.formats.v07.write import encode_columns as encode_columns
from kafkawire.formats.v07.write import encode_lists as encode_lists
from kafkawire.formats.v07.write import may_pass as may_pass
from kafkawire.formats.v07.write import wrap as wrap
from kafkawire.model import MessageSet, Part, PartitionId, Run, SetReader
from kafkawire.primitives import Bytes


def message_set(
    topic: str,
    partition: PartitionId,
    start: int,
    buffer: memoryview,
    high_watermark: int | None,
    aborted: Sequence[tuple[int, int]] = (),  # always empty here: transactions came with record batches
) -> tuple[MessageSet, Scan]:
    """Return the complete entries of a buffer fetched at offset start as a set, and the scan that found them.

    Raises nothing.
    """
    found = scan(buffer, start)
    view = buffer[: found.end]
    return MessageSet(topic, partition, start, found.resume_at, view, high_watermark, found.runs, READER), found


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
        why = f"truncated {len(entries) - found.end} bytes after its beginning"
        return CorruptMessage(why, found.end, found.resume_at)
    return found.damage


def _check_crcs(view: memoryview, run: Run) -> None:
    at, unpack, overhead = run.begin, HEADS[run.magic].unpack_from, ENTRY_OVERHEAD[run.magic]
    while at < run.end:
        length, crc = unpack(view, at)
        after = at + LOG_OVERHEAD + length
        value = view[at + overhead : after]
        if zlib.crc32(value) != crc:
            raise bad_crc(value, crc, at, at)
        at = after


def split(part: Part, first: int | None = None) -> list[Part]:
    """Return a part as two, split near the middle of its bytes or after its `first` messages; [part] for a single
    message.

    A wrapper is decompressed, and both halves are compressed again with its codec.  If a plain part has a resume_at,
    its entries are the source's own bytes, and the first half gets the source offset after it; within a wrapper there
    is no such offset before its end.  Raises CorruptMessage for a wrapper that cannot be decompressed.
    """
    return _split_wrapper(part, first) if part.codec else _split_plain(part, first)


def _split_plain(part: Part, first: int | None) -> list[Part]:
    view = memoryview(part.entries)
    ends, at = [], 0
    while at < len(view):
        at += LOG_OVERHEAD + int(LENGTH.unpack_from(view, at)[0])
        ends.append(at)
    count = middle(ends, first)
    if not count:
        return [part]
    cut = ends[count - 1]
    reached = None if part.resume_at is None else part.resume_at - (len(view) - cut)
    return [
        replace(part, entries=part.entries[:cut], count=count, resume_at=reached),
        replace(part, entries=part.entries[cut:], count=len(ends) - count),
    ]


def _split_wrapper(part: Part, first: int | None) -> list[Part]:
    run = Run(0, len(part.entries), part.codec, part.magic, 1, len(part.entries))
    walk = replace(NOBODY, topic=part.tp.topic, partition=part.tp.partition)
    rows: list[Row] = [(0, None, message.value, None) for message in opened_messages(walk, part.entries, run)]
    ends, total = [], 0
    for _, _, value, _ in rows:
        total += ENTRY_OVERHEAD[part.magic] + len(value or b"")
        ends.append(total)
    count = middle(ends, first)
    if not count:
        return [part]
    return [
        replace(part, entries=wrap(rows[:count], part.codec, part.magic), count=count, resume_at=None),
        replace(part, entries=wrap(rows[count:], part.codec, part.magic), count=len(rows) - count),
    ]
