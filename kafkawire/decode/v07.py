"""Frames and message sets of 0.7 as plain values for JSON.

Each message has the offset where its entry starts, and safe_commit: the offset to commit once it is done.  The other
names are those of the protocol guide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from kafkawire.compression import SNAPPY, is_xerial
from kafkawire.decode.documents import Document, Part, Parts, codec_name, collected, entries, framed_reader, text_or_hex
from kafkawire.decode.tails import damaged_length07
from kafkawire.errors import CorruptMessage, LocalError, RemoteError
from kafkawire.formats.layouts import OPEN_LIMIT, OpenBudget, Walk
from kafkawire.formats.v07.layout import CODEC, HEAD, HEADS, LOG_OVERHEAD, LOWEST
from kafkawire.formats.v07.messages import message_set
from kafkawire.formats.v07.read import Wrapper, opened, opened_messages, wrapper
from kafkawire.model import MessageSet, Run
from kafkawire.primitives import INT16, INT32, INT64, Reader

ERROR_NAMES = {-1: "Unknown", 1: "OffsetOutOfRange", 2: "InvalidMessage", 3: "WrongPartition", 4: "InvalidFetchSize"}
PRODUCE, FETCH, MULTIFETCH, MULTIPRODUCE, OFFSETS = range(5)
REQUESTS = ("produce", "fetch", "multifetch", "multiproduce", "offsets")
RESPONSES = ("fetch", "multifetch", "offsets")  # the other requests have no response

Decoded = tuple[Document, RemoteError | None]


def request_document(data: bytes, framed: bool, start: int = LOWEST) -> Decoded:
    """Return the document of a request that begins with its id (with its size before it if framed), and the damage
    found in its sets.

    Raises Truncated, LeftOver, RemoteError, and LocalError for an unknown id.
    """
    reader = framed_reader(data, "request", framed)
    number = reader.integer(INT16)
    if not 0 <= number < len(REQUESTS):
        raise LocalError(f"unknown request id {number} for Kafka 0.7; known: 0 to {len(REQUESTS) - 1}")
    reader.what = f"{REQUESTS[number]} request"
    out: Document = {"request_id": number}
    damage = None
    if number in (MULTIFETCH, MULTIPRODUCE):
        count = reader.integer(INT16)
        if count < 0:
            raise RemoteError(f"{reader.what} at byte {reader.at - INT16.size}: {count} partitions")
        parts = [_part(reader, number, start) for _ in range(count)]
        out |= {"count": count, _LISTS[number]: [part for part, _ in parts]}
        damage = next((found for _, found in parts if found), None)
    else:
        part, damage = _part(reader, number, start)
        out |= part
    reader.finish()
    return out, damage


_LISTS = {MULTIFETCH: "fetches", MULTIPRODUCE: "produces"}


def _part(reader: Reader, number: int, start: int) -> Decoded:
    """Return the document of one partition of a request."""
    out: Document = {"topic": reader.text(reader.integer(INT16)), "partition": reader.integer(INT32)}
    if number in (PRODUCE, MULTIPRODUCE):
        return _with_set(out, reader.take(reader.integer(INT32)), start)
    if number == OFFSETS:
        return out | {"time": reader.integer(INT64), "max_offsets": reader.integer(INT32)}, None
    return out | {"offset": reader.integer(INT64), "max_bytes": reader.integer(INT32)}, None


def response_document(data: bytes, framed: bool, api: str, start: int = LOWEST) -> Decoded:
    """Return the document of a response to one of RESPONSES that begins with its error code, and the damage found in
    its sets."""
    reader = framed_reader(data, f"{api} response", framed)
    out = _error(reader.integer(INT16))
    read: Mapping[str, Callable[[Reader, Document, int], Decoded]] = {
        "fetch": _fetched,
        "multifetch": _sets,
        "offsets": _offsets,
    }
    decoded = read[api](reader, out, start)
    reader.finish()
    return decoded


def _error(code: int) -> Document:
    return {"error": code, "error_name": ERROR_NAMES.get(code, f"error {code}")} if code else {"error": code}


def _fetched(reader: Reader, out: Document, start: int) -> Decoded:
    return _with_set(out, reader.take(reader.left), start)


def _sets(reader: Reader, out: Document, start: int) -> Decoded:
    """Read the sets of a multifetch response.  It does not contain their offsets, so each is counted from start."""
    sets: list[Document] = []
    damage: RemoteError | None = None
    while reader.left:
        inside = Reader(reader.take(reader.integer(INT32)), f"set {len(sets)} of the {reader.what}")
        found, its_damage = _with_set(_error(inside.integer(INT16)), inside.take(inside.left), start)
        sets.append(found)
        damage = damage or (RemoteError(f"set {len(sets) - 1}: {its_damage}") if its_damage else None)
    return out | {"sets": sets}, damage


def _offsets(reader: Reader, out: Document, start: int) -> Decoded:
    count = reader.count(INT64.size)
    if count < 0:
        raise RemoteError(f"{reader.what} at byte {reader.at - INT32.size}: {count} offsets")
    return out | {"offsets": [reader.integer(INT64) for _ in range(count)]}, None


def _with_set(out: Document, data: memoryview, start: int) -> Decoded:
    document, damage = set_document(data, start)
    where = f"the set of {out['topic']}/{out['partition']}: " if "topic" in out else ""
    told = RemoteError(f"{where}{damage}") if damage else None
    return out | {"message_set_bytes": len(data)} | (document if len(data) else {}), told


# ---- message sets ----------------------------------------------------------------------------------------------


def set_document(data: bytes | memoryview, start: int = LOWEST) -> tuple[Document, CorruptMessage | None]:
    """Return the document of a set fetched at position start, up to the first damage, and that damage.  A truncated
    last entry is not damage; a wrapper that exceeds OPEN_LIMIT, together with those before it, is."""
    document, damage = collected(parts(data, start, OpenBudget(OPEN_LIMIT)), len(data))
    return {"fetch_offset": start} | document, damage


def parts(data: bytes | memoryview, start: int, budget: OpenBudget | None = None) -> Parts:
    """Yield the entries of a set.  budget: shared by all wrappers; if None, each has its own."""
    whole, scan = message_set("", 0, start, memoryview(data), None)

    def fill(run: Run, part: Part) -> None:
        wrapped = wrapper(data, run.begin, run.end, offset=start + run.begin)
        part.outer = _wrapper(wrapped, run)
        part.messages.extend(_inner(whole, run, budget or OpenBudget(OPEN_LIMIT)))
        part.outer |= _ignored_tail(wrapped)

    found = yield from entries(scan, lambda run: _plain(whole, run), fill)
    if found.damage is None:
        found = replace(found, damage=damaged_length07(memoryview(data), found.end, start + found.end))
    return found


def _plain(whole: MessageSet, run: Run) -> Iterator[Document]:
    """Yield messages one by one, with what a Message leaves out: the entry's own checksum and attributes."""
    at = run.begin
    while at < run.end:
        length, magic, attributes = HEAD.unpack_from(whole.buffer, at)
        _, crc = HEADS[run.magic].unpack_from(whole.buffer, at)
        after = at + LOG_OVERHEAD + length
        entry = Run(at, after, 0, run.magic, 1, run.resume_at - (run.end - after))
        for message in replace(whole, runs=(entry,)).messages():
            out: Document = {"start": message.offset, "next_offset": message.resume_at}
            out |= {"safe_commit": message.resume_at, "magic": magic}
            out |= {"attributes": attributes, "codec": codec_name(attributes & CODEC)} if magic else {}
            yield out | {"crc32": f"{crc:08x}"} | text_or_hex("payload", message.value)
        at = after


def _inner(whole: MessageSet, run: Run, budget: OpenBudget) -> Iterator[Document]:
    walk = Walk(whole.topic, whole.partition, whole.start, True, budget.limit)
    for message in opened_messages(walk, whole.buffer, run, budget):
        where: Document = {"start": message.offset, "safe_commit": message.resume_at}
        yield where | text_or_hex("payload", message.value)


def _wrapper(outer: Wrapper, run: Run) -> Document:
    out: Document = {"magic": 1, "attributes": outer.attributes, "codec": codec_name(outer.codec)}
    out |= {"crc32": f"{outer.crc:08x}", "entry_bytes": run.end - run.begin}
    if outer.codec == SNAPPY:
        out["framing"] = "xerial" if is_xerial(outer.value) else "raw"
    return out


def _ignored_tail(outer: Wrapper) -> Document:
    """Return how many of a wrapper's decompressed bytes belong to a truncated last entry, if there is one."""
    data, found = opened(outer, 1, OpenBudget(OPEN_LIMIT))
    return {"ignored_tail_bytes": len(data) - found.end} if found.end < len(data) else {}
