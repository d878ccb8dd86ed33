"""What the JSON documents of both generations share: bytes as text or hex, and objects taken apart field by field.

Bytes come out as `name_utf8` where they are text and as `name_hex` where not; null stays null under the bare name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafkawire.compression import CODEC_NAMES, CODECS
from kafkawire.errors import CorruptMessage, LeftOver, LocalError, RemoteError, Truncated, WireError
from kafkawire.model import Scan
from kafkawire.primitives import INT32, Bytes, Reader, Writer

Document = dict[str, Any]

# What a set's document says about itself: it follows from the messages, and is not read back.
_DERIVED = (
    *("fetch_offset", "message_set_bytes", "valid_bytes", "ignored_tail_bytes", "needed_bytes", "next_fetch_offset"),
    *("base_offset", "empty_tail_bytes"),
)


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
    """A reader of what a frame holds; the frame's size is held against the bytes.  Truncated, LeftOver, RemoteError."""
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


def in_frame(data: bytes, framed: bool) -> bytes:
    """Bytes with their size in front, where framed."""
    if not framed:
        return data
    writer = Writer()
    writer.integer(INT32, len(data))
    writer.raw(data)
    return writer.done()


def ends(found: Scan, total: int, damage: CorruptMessage | None) -> Document:
    """How much of a set's bytes was of use, and where the next fetch goes on."""
    if damage is not None:
        return {"valid_bytes": damage.position, "result": f"{damage.why.partition(',')[0]} at offset {damage.offset}"}
    out: Document = {"valid_bytes": found.end, "ignored_tail_bytes": total - found.end}
    if found.needed:
        out["needed_bytes"] = found.needed
    if found.end:
        out["next_fetch_offset"] = found.resume_at
    return out


def log_document(
    decoded: Callable[[bytes], tuple[Document, WireError | None]], data: bytes, base: int
) -> tuple[Document, WireError | None]:
    """A segment file by what decodes a set; base: the offset in its name.  Room that a broker keeps free behind the
    last entry (zeros) is no damage."""
    document, damage = decoded(data)
    empty = 0
    if isinstance(damage, CorruptMessage) and not any(data[damage.position :]):
        empty = len(data) - damage.position
        document, damage = decoded(data[: damage.position])
    out: Document = {"base_offset": base} | document
    return (out | {"empty_tail_bytes": empty} if empty else out), damage


# ---- the way back ----------------------------------------------------------------------------------------------


class Fields:
    """One object of a document.  What is left of it at the end() was not known: a mistake, told with its place."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, Mapping):
            raise LocalError(f"{where or 'the document'}: an object is expected, not {value!r:.60}")
        self._left: Document = dict(value)
        self.where = where

    def has(self, name: str) -> bool:
        return name in self._left

    def path(self, name: str) -> str:
        return f"{self.where}.{name}" if self.where else name

    def take(self, name: str) -> Any:
        if name not in self._left:
            raise LocalError(f"{self.where or 'the document'} needs a field {name}")
        return self._left.pop(name)

    def integer(self, name: str, default: int | None = None) -> int:
        if default is not None and name not in self._left:
            return default
        value = self.take(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise LocalError(f"{self.path(name)}: a number is expected, not {value!r:.60}")
        return value

    def text(self, name: str) -> str:
        value = self.take(name)
        if not isinstance(value, str):
            raise LocalError(f"{self.path(name)}: text is expected, not {value!r:.60}")
        return value

    def items(self, name: str) -> list[Any]:
        return as_items(self.take(name), self.path(name))

    def objects(self, name: str) -> list[Fields]:
        return [Fields(item, f"{self.path(name)}[{n}]") for n, item in enumerate(self.items(name))]

    def octets(self, name: str) -> bytes | None:
        """Bytes given as NAME_utf8 or NAME_hex, or null as NAME."""
        given = [key for key in (name, f"{name}_utf8", f"{name}_hex") if key in self._left]
        if len(given) != 1:
            raise LocalError(f"{self.where or 'the document'} needs one of {name}_utf8, {name}_hex and {name}: null")
        if given[0] == name:
            if self.take(name) is not None:
                raise LocalError(f"{self.path(name)}: only null is given so; bytes are {name}_utf8 or {name}_hex")
            return None
        value = self.text(given[0])
        try:
            return bytes.fromhex(value) if given[0].endswith("_hex") else value.encode()
        except ValueError:
            raise LocalError(f"{self.path(given[0])}: {value!r:.60} is not {given[0].rpartition('_')[2]}") from None

    def codec(self, name: str) -> int:
        value = self.text(name)
        if value not in CODECS:
            raise LocalError(f"{self.path(name)}: unknown codec {value!r:.60}; known are {', '.join(CODECS)}")
        return CODECS[value]

    def drop(self, *names: str) -> None:
        """What follows from the rest is not looked at."""
        for name in names:
            self._left.pop(name, None)

    def end(self) -> None:
        if self._left:
            raise LocalError(f"{self.where or 'the document'} has no field {', '.join(sorted(map(str, self._left)))}")


def as_items(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise LocalError(f"{where}: a list is expected, not {value!r:.60}")
    return value


def set_of(fields: Fields, plain: Callable[[Fields], bytes], wrapper: Callable[[Fields, list[Fields]], bytes]) -> bytes:
    """The set of something that has one, out of its messages; one without messages is empty.

    plain: the entry of a message; wrapper: that of a wrapper and the messages it holds.
    """
    _undamaged(fields)
    fields.drop(*_DERIVED)
    messages = fields.objects("messages") if fields.has("messages") else []
    out: list[bytes] = []
    at = 0
    for outer, inside in _held(fields, len(messages)):
        out += [plain(each) for each in messages[at : inside.start]]
        out.append(wrapper(outer, messages[inside.start : inside.stop]))
        at = inside.stop
    out += [plain(each) for each in messages[at:]]
    return b"".join(out)


def _undamaged(fields: Fields) -> None:
    """LocalError for the document of damaged bytes: what was damaged is not in it."""
    if fields.has("result"):
        raise LocalError(
            f"{fields.path('result')}: the bytes this was made of were damaged, and it has not all of them"
        )


def _held(fields: Fields, count: int) -> list[tuple[Fields, range]]:
    """Each wrapper of a set's document, and which of its `count` messages it holds.

    A set that is one wrapper has it as "wrapper"; any other has "wrappers", and each says from which message on how
    many it holds.
    """
    if fields.has("wrapper"):
        return [(Fields(fields.take("wrapper"), fields.path("wrapper")), range(count))]
    found, reached = [], 0
    for each in fields.objects("wrappers") if fields.has("wrappers") else []:
        holds = Fields(each.take("holds"), each.path("holds"))
        begin, size = holds.integer("from"), holds.integer("messages")
        holds.drop("first_offset", "last_offset")
        holds.end()
        if begin < reached or size < 0 or begin + size > count:
            raise LocalError(f"{holds.where}: {size} messages from {begin} on, of {count}; {reached} are before them")
        each.drop("position")
        found.append((each, range(begin, begin + size)))
        reached = begin + size
    return found
