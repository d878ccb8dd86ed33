"""Frames, message sets and record batches of 0.8 and later as plain values for JSON, named as in the protocol guide.

Bytes come out as `name_utf8` if they are text, as `name_hex` otherwise; null stays null under the bare name. A set has
messages, valid_bytes, ignored_tail_bytes, next_fetch_offset, and its wrappers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kafkawire.compression import LZ4, SNAPPY, is_xerial
from kafkawire.decode.documents import Document, Part, Parts, codec_name, collected, entries, framed_reader, text_or_hex
from kafkawire.decode.tails import damaged_size
from kafkawire.errors import CorruptMessage, RemoteError
from kafkawire.formats.layouts import OPEN_LIMIT, OpenBudget, Walk
from kafkawire.formats.mixed import changes, is_batch, scan_older
from kafkawire.formats.v01.messages import LOG_OVERHEAD, LOWEST, READER, Wrapper, wrapper
from kafkawire.formats.v01.read import opened_messages
from kafkawire.formats.v2.layout import Batch, batch_at
from kafkawire.formats.v2.read import Record, records
from kafkawire.model import Message, MessageSet, Run, Scan
from kafkawire.primitives import INT16, INT32
from kafkawire.protocol import apis
from kafkawire.protocol.apis import Api
from kafkawire.protocol.schema import nullable_string

TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
CONTROL_TYPES = {0: "abort", 1: "commit"}

_ENTRY = struct.Struct(">qiIBB")  # offset, size, crc, magic, attributes


def request_document(data: bytes, framed: bool, start: int = LOWEST) -> tuple[Document, RemoteError | None]:
    """Return the document of a request that begins with its api key (with its size before it if framed), and the damage
    found in its sets.

    Raises Truncated, LeftOver, RemoteError, and LocalError for an unknown api or version.
    """
    reader = framed_reader(data, "request", framed)
    api = apis.api(reader.integer(INT16))
    version = api.known(reader.integer(INT16))
    reader.what = f"{api.name} v{version} request"
    head: Document = {"api_key": api.key, "api_version": version, "correlation_id": reader.integer(INT32)}
    head["client_id"] = nullable_string.read(reader, version)
    fields = api.request.read(reader, version)
    reader.finish()
    return _plain(head | fields, start)


def response_document(
    data: bytes, framed: bool, api: Api, version: int, start: int = LOWEST
) -> tuple[Document, RemoteError | None]:
    """Return the document of a response that begins with its correlation id, and the damage found in its sets."""
    reader = framed_reader(data, f"{api.name} v{api.known(version)} response", framed)
    head: Document = {"correlation_id": reader.integer(INT32)}
    fields = api.reply.read(reader, version)
    reader.finish()
    return _plain(head | fields, start)


def _plain(fields: Mapping[str, Any], start: int) -> tuple[Document, RemoteError | None]:
    """Return fields with sets and bytes decoded, and the first damage met in a set."""
    out: Document = {}
    damages: list[RemoteError | None] = []
    for name, value in fields.items():
        if name == "message_set" and value is None:
            out["message_set_bytes"] = None  # beside an error
        elif name == "message_set":
            document, damage = set_document(value, start)
            out |= {"message_set_bytes": len(value)} | (document if len(value) else {})
            where = f"the set of partition {fields.get('partition')}"
            damages.append(RemoteError(f"{where}: {damage}") if damage else None)
        elif isinstance(value, dict):
            out[name], damage_below = _plain(value, start)
            damages.append(damage_below)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            rows = [_plain(row, start) for row in value]
            out[name] = [row for row, _ in rows]
            damages += [damage_below for _, damage_below in rows]
        elif isinstance(value, bytes | memoryview):
            out[f"{name}_hex"] = value.hex()
        else:
            out[name] = value
    return out, next((damage for damage in damages if damage), None)


# ---- message sets ----------------------------------------------------------------------------------------------


def set_document(data: bytes | memoryview, start: int = LOWEST) -> tuple[Document, CorruptMessage | None]:
    """Return the document of a set fetched at offset start, up to the first damage, and that damage.  A truncated last
    entry is not damage (see tails); an entry that exceeds OPEN_LIMIT, together with those before it, is."""
    return collected(parts(data, start, OpenBudget(OPEN_LIMIT)), len(data))


def parts(data: bytes | memoryview, start: int, budget: OpenBudget | None = None) -> Parts:
    """Yield the entries of a set; older entries and record batches may follow each other, as in formats.mixed.

    budget: shared by all compressed entries; if None, each has its own.
    """
    view, resume_at = memoryview(data), start
    found = Scan(0, start, (), 0, None)
    while True:
        walk = _batches if is_batch(view, found.end) else _older
        found = yield from walk(view, found.end, start, budget)
        resume_at = max(resume_at, found.resume_at)
        if changes(view, found):
            continue
        if found.damage is None:
            found = replace(found, damage=damaged_size(view, found.end, resume_at if found.end else None))
        return replace(found, resume_at=resume_at)


def _older(data: memoryview, begin: int, start: int, budget: OpenBudget | None) -> Parts:
    scan = scan_older(data, begin, start)
    whole = MessageSet("", 0, start, scan.resume_at, data[: scan.end], -1, scan.runs, READER)

    def fill(run: Run, part: Part) -> None:
        each = budget or OpenBudget(OPEN_LIMIT)
        part.outer = _wrapper(wrapper(data, run.begin, run.end))
        walk = Walk("", 0, start, True, each.limit)
        part.messages.extend(_message(message, {}) for message in opened_messages(walk, whole.buffer, run, each))

    found = yield from entries(scan, lambda run: _plain_entries(whole, run), fill)
    return replace(found, needed=0) if begin else found


def _batches(data: memoryview, begin: int, start: int, budget: OpenBudget | None) -> Parts:
    at, resume_at, damage = begin, start, None
    try:
        while (batch := batch_at(data, at)) is not None:
            if batch.last_offset >= start:
                part, damage = _shown(data, batch, start, budget or OpenBudget(OPEN_LIMIT))
                yield part
                if damage is not None:
                    break
            at, resume_at = batch.end, max(start, batch.resume_at)
    except CorruptMessage as exc:
        damage = exc
    return Scan(at, resume_at, (), _needed(data, at), damage)


def _shown(data: memoryview, batch: Batch, start: int, budget: OpenBudget) -> tuple[Part, CorruptMessage | None]:
    """Return a batch up to its first damage, and that damage."""
    found: list[Record] = []
    damage = None
    try:
        found.extend(records(data, batch, budget=budget))
    except CorruptMessage as exc:
        damage = exc
    said = _batch(batch)
    if batch.control:
        return Part([], "batch", said | {"control": [_control(record) for record in found]}, batch.begin), damage
    return Part(
        [_record(record, batch) for record in found if record.offset >= start], "batch", said, batch.begin
    ), damage


def _needed(data: memoryview, at: int) -> int:
    """Return the size of the first batch if it is truncated, else 0."""
    if at or len(data) < LOG_OVERHEAD:
        return 0
    return LOG_OVERHEAD + int.from_bytes(data[8:12], "big")


def _batch(batch: Batch) -> Document:
    out: Document = {"base_offset": batch.base_offset, "magic": 2}
    out |= {"partition_leader_epoch": batch.leader_epoch, "attributes": batch.attributes}
    out |= {"codec": codec_name(batch.codec), "crc32c": f"{batch.crc:08x}", "count": batch.count}
    out |= {"last_offset_delta": batch.last_offset_delta, "timestamp_type": TIMESTAMP_TYPES[batch.log_append_time]}
    out |= {"first_timestamp": batch.first_timestamp_ms, "max_timestamp": batch.max_timestamp_ms}
    out |= {"transactional": batch.transactional, "producer_id": batch.producer_id}
    return out | {"producer_epoch": batch.producer_epoch, "base_sequence": batch.base_sequence}


def _record(record: Record, batch: Batch) -> Document:
    out: Document = {"offset": record.offset, "timestamp": record.timestamp_ms}
    out |= {"timestamp_type": TIMESTAMP_TYPES[batch.log_append_time]}
    out |= text_or_hex("key", record.key) | text_or_hex("value", record.value)
    return out | {"headers": [[name, None if value is None else value.hex()] for name, value in record.headers]}


def _control(record: Record) -> Document:
    """Return the document of a control record.  Source: org.apache.kafka.common.record.ControlRecordType."""
    kind = int.from_bytes((record.key or b"")[2:4], "big", signed=True)
    return {"offset": record.offset, "timestamp": record.timestamp_ms, "type": CONTROL_TYPES.get(kind, str(kind))}


def _plain_entries(whole: MessageSet, run: Run) -> Iterator[Document]:
    """Yield messages one by one, with what a Message leaves out: the entry's own checksum and attributes."""
    at = run.begin
    while at < run.end:
        _, size, crc, magic, attributes = _ENTRY.unpack_from(whole.buffer, at)
        after = at + LOG_OVERHEAD + size
        entry = Run(at, after, 0, magic, 1, 0)
        extra = {"magic": magic, "attributes": attributes, "crc32": f"{crc:08x}"}
        yield from (_message(message, extra) for message in _of(whole, entry).messages())
        at = after


def _of(whole: MessageSet, run: Run) -> MessageSet:
    return MessageSet("", 0, whole.start, whole.resume_at, whole.buffer, -1, (run,), whole.reader)


def _message(message: Message, extra: Mapping[str, Any]) -> Document:
    out: Document = {"offset": message.offset, **extra}
    if message.timestamp_ms is not None:
        out["timestamp"] = message.timestamp_ms
        out["timestamp_type"] = TIMESTAMP_TYPES[message.timestamp_type or 0]
    return out | text_or_hex("key", message.key) | text_or_hex("value", message.value)


def _wrapper(outer: Wrapper) -> Document:
    out: Document = {"offset": outer.offset, "magic": outer.magic, "attributes": outer.attributes}
    out |= {"codec": codec_name(outer.codec), "crc32": f"{outer.crc:08x}"}
    if outer.timestamp is not None:
        out["timestamp"] = outer.timestamp
        out["timestamp_type"] = TIMESTAMP_TYPES[0 if outer.appended_ms is None else 1]
    if outer.codec == SNAPPY:
        out["framing"] = "xerial" if is_xerial(outer.value) else "raw"
    if outer.codec == LZ4 and len(outer.value) > 6:
        out["hc_byte"] = f"{outer.value[6]:02x}"
    return out
