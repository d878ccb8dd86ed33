"""Shared parts of the JSON documents of both generations: bytes as text or hex, frames, and the end of a set.

Bytes come out as `name_utf8` if they are text, as `name_hex` otherwise; null stays null under the bare name.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

from kafkawire.compression import CODEC_NAMES
from kafkawire.errors import CorruptMessage, LeftOver, RemoteError, Truncated
from kafkawire.model import Run, Scan
from kafkawire.primitives import INT32, Bytes, Reader

Document = dict[str, Any]
PIECE = 1 << 20  # bytes of a file copied at a time


def text_or_hex(name: str, value: Bytes | None) -> Document:
    if value is None:
        return {name: None}
    try:
        return {f"{name}_utf8": bytes(value).decode()}
    except UnicodeDecodeError:
        return {f"{name}_hex": value.hex()}


def codec_name(codec: int) -> str:
    return CODEC_NAMES.get(codec, str(codec))


def framed_reader(data: bytes, what: str, framed: bool) -> Reader:
    """Return a reader of a frame's content, after comparing its size field with the bytes.  Raises Truncated, LeftOver,
    RemoteError."""
    reader = Reader(data, what)
    if framed:
        size = reader.integer(INT32)
        if size < 0:
            raise RemoteError(f"{what} at byte 0: a frame of {size} bytes")
        if size > reader.left:
            raise Truncated(f"{what} ends too early: a frame of {size} bytes, {reader.left} there")
        if size < reader.left:
            raise LeftOver(f"{what} at byte {reader.at + size}", reader.left - size)
    return reader


@dataclass(slots=True)
class Part:
    """Document of one entry of a set. outer: the fields of a wrapper or a batch (`kind`) that begins at byte
    `begin`."""

    messages: list[Document]
    kind: str = ""
    outer: Document | None = None
    begin: int = 0


_SEVERAL = {"wrapper": "wrappers", "batch": "batches"}
Parts = Generator[Part, None, Scan]  # yields entries, then returns the valid length and the first damage


def entries(found: Scan, plain: Callable[[Run], Iterator[Document]], fill: Callable[[Run, Part], object]) -> Parts:
    """Yield the scanned entries, up to damage inside one of them.

    plain(run): the messages of a run that is not compressed; fill(run, part): fills in the part of a wrapper.  Both
    raise CorruptMessage.
    """
    for run in found.runs:
        part = Part([], "wrapper", None, run.begin)
        try:
            if not run.codec:
                for message in plain(run):
                    yield Part([message])
                continue
            fill(run, part)
        except CorruptMessage as exc:
            if part.outer is not None:
                yield part
            return replace(found, damage=exc)
        yield part
    return found


def each(parts: Parts, take: Callable[[Part], None]) -> Scan:
    """Pass all parts to `take`; wrappers and batches get their position and the messages of the set that they contain.
    Return the scan."""
    before = 0
    while True:
        try:
            part = next(parts)
        except StopIteration as end:
            found: Scan = end.value
            return found
        if part.outer is not None:
            part.outer["position"] = part.begin
            if "control" not in part.outer:
                part.outer["holds"] = _holds(part.messages, before)
        before += len(part.messages)
        take(part)


def _holds(messages: list[Document], before: int) -> Document:
    bounds: Document = {}
    if messages and "offset" in messages[0]:
        bounds = {"first_offset": messages[0]["offset"], "last_offset": messages[-1]["offset"]}
    return {"messages": len(messages), "from": before} | bounds


def collected(parts: Parts, total: int) -> tuple[Document, CorruptMessage | None]:
    """Return the document of a set of `total` bytes, and its damage.

    wrapper, batch       if the set is exactly one of these
    wrappers, batches    otherwise, in the order of the set
    """
    taken: list[Part] = []
    found = each(parts, taken.append)
    out: Document = {}
    for part in taken:
        if part.outer is not None and len(taken) == 1:
            out[part.kind] = part.outer
        elif part.outer is not None:
            out.setdefault(_SEVERAL[part.kind], []).append(part.outer)
    messages = [message for part in taken for message in part.messages]
    return out | {"messages": messages} | ends(found, total), found.damage


def ends(found: Scan, total: int) -> Document:
    """Return how many of a set's bytes were used, and the next offset to fetch."""
    damage = found.damage
    if damage is not None:
        return {"valid_bytes": damage.position, "result": f"{damage.why.partition(',')[0]} at offset {damage.offset}"}
    out: Document = {"valid_bytes": found.end, "ignored_tail_bytes": total - found.end}
    if found.needed:
        out["needed_bytes"] = found.needed
    if found.end:
        out["next_fetch_offset"] = found.resume_at
    return out


def show_log(parts: Parts, data: bytes, base: int | None, show: Callable[[Document], None]) -> CorruptMessage | None:
    """Show the lines of a segment file, and return its damage.  base: the offset in its name, if it has one.

    Each message is a line after the line of its wrapper or batch; the last line says where the set ends.  Zeros that a
    broker preallocates after the last entry are not damage.
    """

    def take(part: Part) -> None:
        if part.outer is not None:
            show({part.kind: part.outer})
        for message in part.messages:
            show(message)

    found, empty = each(parts, take), 0
    if found.damage is not None and _zeros(data, found.damage.position):
        empty = len(data) - found.damage.position
        found = replace(found, damage=None)
    show({"base_offset": base} | ends(found, len(data) - empty) | ({"empty_tail_bytes": empty} if empty else {}))
    return found.damage


def _zeros(data: bytes, begin: int) -> bool:
    return not any(data[at : at + PIECE].strip(b"\0") for at in range(begin, len(data), PIECE))
