"""Message sets of Kafka 0.11 and later, whose logs hold entries of formats v0 and v1 and record batches side by side.

The magic byte is at the same position in each.  A set is read in stretches of one kind, each by the module of its
format (v01, v2); nearly all sets have one kind and use that module's reader.  Entries to send are encoded, checked,
counted and split in one format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby
from typing import TYPE_CHECKING

from kafkawire.columns import Column, Columns, as_list
from kafkawire.columns import Part as Stretch
from kafkawire.errors import CorruptMessage, UnknownMagic
from kafkawire.formats.layouts import OPEN_LIMIT, OpenBudget
from kafkawire.formats.v01 import messages as v01
from kafkawire.formats.v01 import scan as entries
from kafkawire.formats.v01.messages import ENTRY_OVERHEAD as ENTRY_OVERHEAD
from kafkawire.formats.v01.messages import LOG_APPEND_TIME as LOG_APPEND_TIME
from kafkawire.formats.v01.messages import LOG_OVERHEAD as LOG_OVERHEAD
from kafkawire.formats.v01.messages import LOWEST as LOWEST
from kafkawire.formats.v01.messages import next_border as next_border
from kafkawire.formats.v01.write import Row as Row
from kafkawire.formats.v2 import columns as batches
from kafkawire.formats.v2 import scan as batchscan
from kafkawire.formats.v2 import write
from kafkawire.formats.v2.layout import MAGIC_AT
from kafkawire.kernels import compiled
from kafkawire.model import (
    PIECE_BYTES,
    RECORD_BATCH,
    Entry,
    Message,
    MessageSet,
    Part,
    PartitionId,
    Run,
    Scan,
    SetReader,
)
from kafkawire.primitives import Bytes, Encoded

if TYPE_CHECKING:
    from kafkawire.formats.compiled import Kernels


def message_set(
    topic: str,
    partition: PartitionId,
    start: int,
    buffer: memoryview,
    high_watermark: int | None,
    aborted: Sequence[tuple[int, int]] = (),
) -> tuple[MessageSet, Scan]:
    """Return the complete entries of a fetched buffer as a set, and the scan that found them.  Raises nothing.

    aborted: (producer id, first offset) of the transactions whose messages are left out, from the Fetch reply.
    """
    found = scan(buffer, start, aborted)
    view = buffer[: found.end]
    return _set(topic, partition, start, found, view, high_watermark), found


def _set(
    topic: str, partition: PartitionId, start: int, found: Scan, view: memoryview, high_watermark: int | None
) -> MessageSet:
    kinds = {run.magic >= RECORD_BATCH for run in found.runs}
    reader = READER if len(kinds) == 2 else batches.READER if True in kinds else v01.READER
    return MessageSet(topic, partition, start, found.resume_at, view, high_watermark, found.runs, reader)


# ---- scan ------------------------------------------------------------------------------------------------------


def scan(buffer: Bytes, start: int, aborted: Sequence[tuple[int, int]] = ()) -> Scan:
    """Find the complete entries of a set fetched at offset start: see the modules of the formats."""
    found = _stretch(buffer, 0, start, transactions := batchscan.AbortedTransactions(aborted))
    if not changes(buffer, found):
        return found
    runs, resume_at, left_out = list(found.runs), found.resume_at, found.left_out
    kept_back = found.kept_back
    while changes(buffer, found):
        found = _stretch(buffer, found.end, start, transactions)
        runs += found.runs
        resume_at = max(resume_at, found.resume_at)
        left_out |= found.left_out
        kept_back += found.kept_back
    if runs:
        return Scan(found.end, resume_at, tuple(runs), 0, found.damage, kept_back=kept_back)
    if left_out:
        return Scan(found.end, resume_at, (), 0, None, left_out=True, kept_back=kept_back)
    return replace(found, resume_at=resume_at)


def _stretch(buffer: Bytes, begin: int, start: int, transactions: batchscan.AbortedTransactions) -> Scan:
    """Scan the entries of one kind that begin at byte `begin`."""
    if is_batch(buffer, begin):
        return batchscan.scan(buffer, start, transactions, begin)
    return scan_older(buffer, begin, start)


def scan_older(buffer: Bytes, begin: int, start: int) -> Scan:
    """Find the complete entries of formats v0 and v1, beginning at byte `begin`."""
    found = v01.scan(memoryview(buffer)[begin:] if begin else buffer, start)
    if not begin:
        return found
    runs = tuple(replace(run, begin=begin + run.begin, end=begin + run.end) for run in found.runs)
    damage = found.damage
    if damage is not None:
        damage = type(damage)(damage.why, begin + damage.position, damage.offset)
    needed = begin + found.needed if found.needed else 0
    return replace(found, end=begin + found.end, runs=runs, needed=needed, damage=damage)


def changes(buffer: Bytes, found: Scan) -> bool:
    """True if a scan ended where an entry of the other kind begins."""
    unknown = isinstance(found.damage, UnknownMagic) and found.damage.position == found.end  # not inside a wrapper
    return unknown and buffer[found.end + MAGIC_AT] <= RECORD_BATCH


def is_batch(buffer: Bytes, begin: int = 0) -> bool:
    """True if the entry at byte `begin` is a record batch, as far as its bytes are there."""
    return len(buffer) - begin > MAGIC_AT and buffer[begin + MAGIC_AT] == RECORD_BATCH


def cut(buffer: memoryview, run: Run, limit: int) -> Iterator[Run]:
    """Yield a run as runs of at most limit bytes, in order; a larger entry is yielded alone."""
    return batchscan.cut(buffer, run, limit) if run.magic >= RECORD_BATCH else entries.cut(buffer, run, limit)


def before(buffer: memoryview, run: Run, until: int) -> Run | None:
    """Return the part of a run before position `until` as a run; None if no such part can be sent alone."""
    return batchscan.before(buffer, run, until) if run.magic >= RECORD_BATCH else entries.before(buffer, run, until)


def stamped(buffer: memoryview, run: Run) -> bool:
    """True if a broker set the timestamp of any entry of the run (LogAppendTime)."""
    return batchscan.stamped(buffer, run) if run.magic >= RECORD_BATCH else entries.stamped(buffer, run)


def entry_at(buffer: Bytes, begin: int, position: int) -> Entry | None:
    """Return the entry at byte `begin`; None if its end is unknown, because no entry follows at the end that its size
    gives."""
    return (
        batchscan.entry_at(buffer, begin, position)
        if is_batch(buffer, begin)
        else v01.entry_at(buffer, begin, position)
    )


def behind(buffer: Bytes, begin: int, position: int) -> int | None:
    """Return the offset after the entry whose header is at byte `begin`; None if the header is incomplete."""
    return batchscan.behind(buffer, begin, position) if is_batch(buffer, begin) else v01.behind(buffer, begin, position)


def cut_short(buffer: Bytes, scan: Scan, position: int, asked: int) -> CorruptMessage | None:
    """Return the damage of a first entry that declares more bytes than the broker has, though more were requested; else
    None."""
    return v01.cut_short(buffer, scan, position, asked)  # offset and size are at the same place in every format


# ---- read ------------------------------------------------------------------------------------------------------


def _stretches(message_set: MessageSet) -> Iterator[MessageSet]:
    """Yield the set as sets of one kind each."""
    groups = [tuple(runs) for _, runs in groupby(message_set.runs, lambda run: run.magic >= RECORD_BATCH)]
    for number, runs in enumerate(groups, 1):
        reader = batches.READER if runs[0].magic >= RECORD_BATCH else v01.READER
        resume_at = message_set.resume_at if number == len(groups) else runs[-1].resume_at
        yield replace(message_set, runs=runs, resume_at=resume_at, reader=reader)


def messages(message_set: MessageSet, check_crcs: bool = True) -> Iterator[Message]:
    """Yield the messages of a set from its start, lazily.  Raises CorruptMessage as the modules of the formats do."""
    return chain.from_iterable(part.messages(check_crcs) for part in _stretches(message_set))


def pieces(message_set: MessageSet, check_crcs: bool = True, most_bytes: int = PIECE_BYTES) -> Iterator[Columns]:
    """Yield the columns of a set in pieces; at least one, and some may be empty."""
    return _pieces(message_set, [part.pieces(check_crcs, most_bytes) for part in _stretches(message_set)])


def pieces_by(
    kernels: Kernels | None, message_set: MessageSet, check_crcs: bool = True, most_bytes: int = PIECE_BYTES
) -> Iterator[Columns]:
    """Yield the columns of a set in pieces, read by these kernels; None: in pure Python."""
    parts = list(_stretches(message_set)) or [message_set]
    forms = [batches.pieces_by if part.reader is batches.READER else v01.pieces_by for part in parts]
    found = [form(kernels, part, check_crcs, most_bytes) for form, part in zip(forms, parts, strict=True)]
    return _pieces(message_set, found)


def _pieces(message_set: MessageSet, parts: Sequence[Iterator[Columns]]) -> Iterator[Columns]:
    reached = message_set.start
    for found in chain.from_iterable(parts):
        reached = max(reached, found.resume_at)
        yield found if found.resume_at == reached else replace(found, resume_at=reached)
        if found.damage is not None:
            return


def index(message_set: MessageSet, check_crcs: bool = True) -> Columns:
    """Return the columns of a set of several formats, joined.  Raises SetTooLarge."""
    kernels, budget = compiled(len(message_set.buffer)), OpenBudget(OPEN_LIMIT)

    def columns(part: MessageSet) -> Iterator[Columns]:
        within = batches.index_within if part.reader is batches.READER else v01.index_within
        yield within(budget, kernels, part, check_crcs)

    return _joined(list(_pieces(message_set, [columns(part) for part in _stretches(message_set)])))


def _joined(parts: Sequence[Columns]) -> Columns:
    shifts, size = [], 0
    for part in parts:
        shifts.append(size)
        size += len(part.data)

    def places(columns: Iterable[Column | None]) -> list[int]:
        found: list[int] = []
        for part, shift, column in zip(parts, shifts, columns, strict=True):
            found += [0] * len(part) if column is None else [at + shift for at in column]
        return found

    def values(columns: Iterable[Column | None], missing: int) -> list[int]:
        found: list[int] = []
        for part, column in zip(parts, columns, strict=True):
            found += [missing] * len(part) if column is None else as_list(column)
        return found

    with_headers = any(part.header_at is not None for part in parts)
    return Columns(
        offsets=values((part.offsets for part in parts), 0),
        key_at=places(part.key_at for part in parts),
        key_size=values((part.key_size for part in parts), -1),
        value_at=places(part.value_at for part in parts),
        value_size=values((part.value_size for part in parts), -1),
        timestamps_ms=values((part.timestamps_ms for part in parts), -1),
        timestamp_types=values((part.timestamp_types for part in parts), -1),
        data=b"".join(part.data for part in parts),
        resume_at=parts[-1].resume_at,
        damage=parts[-1].damage,
        header_at=places(part.header_at for part in parts) if with_headers else None,
        header_size=values((part.header_size for part in parts), 0) if with_headers else None,
    )


READER = SetReader(messages, index, pieces, cut, before, stamped)  # of sets with both kinds of entries


# ---- write, and inspect entries to be written ---------------------------------------------------------------------


def encode(
    messages: Iterable[v01.Row], codec: int = 0, magic: int = 0, headers: Sequence[Bytes | None] | None = None
) -> bytes:
    """Encode messages as plain entries in format `magic`, one wrapper, or one record batch: see
    interfaces.MessageFormats."""
    if magic == RECORD_BATCH:
        return write.encode(messages, codec, headers)
    return v01.encode(messages, codec, magic, headers)


def encode_lists(
    keys: v01.Blobs,
    values: v01.Blobs,
    timestamps_ms: Sequence[int | None] | None,
    headers: v01.Blobs | None,
    codec: int = 0,
    magic: int = 0,
) -> Encoded:
    """Encode messages given as lists of equal length, at least one."""
    if magic == RECORD_BATCH:
        return write.encode_lists(keys, values, timestamps_ms, headers, codec)
    return v01.encode_lists(keys, values, timestamps_ms, headers, codec, magic)


def encode_columns(parts: Sequence[Stretch], codec: int = 0, magic: int = 0) -> Encoded:
    """Encode rows of columns; in format v2 without one object per message."""
    if magic == RECORD_BATCH:
        return write.encode_columns(parts, codec)
    return v01.encode_columns(parts, codec, magic)


def may_pass(entries: Bytes, begin: int, start: int) -> bool:
    """True if a broker accepts the unchanged records of a fetched batch from a producer: see v2.write.  Raises
    CorruptMessage."""
    return write.may_pass(entries, begin, start)


def check(entries: Bytes) -> CorruptMessage | None:
    """Return the first damage in complete entries of one format: a wrong checksum, or bytes that are not an entry; None
    if there is none."""
    return write.check(entries) if is_batch(entries) else v01.check(entries)


def count(entries: Bytes) -> int:
    """Return the number of messages in complete entries of one format; a wrapper counts as one."""
    return write.count(entries) if is_batch(entries) else v01.count(entries)


def split(part: Part, first: int | None = None) -> list[Part]:
    """Return a part as two, of about the same size or with `first` messages in the first one; [part] for a single
    message.  Raises CorruptMessage for entries that cannot be read."""
    return write.split(part, first) if part.magic == RECORD_BATCH else v01.split(part, first)
