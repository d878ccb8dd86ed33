"""Layouts as tables: one description of a request or reply for both reading and writing.

    REPLY = Struct(throttle_time_ms=since(1, int32), topics=Array(Struct(topic=string, partitions=Array(PARTITION))))
    REPLY.read(reader, version) -> dict        REPLY.write(writer, fields, version)

since(n, type) and until(n, type) limit a field to versions; a field that a version lacks is neither read nor written,
nor in the dict.  Null is read as None. bytes and message sets are read as views of the reader's data.

Flexible versions (KIP-482) have lengths as varints and tagged fields at the end of each structure, which are skipped:
compact_string, CompactArray, and the first argument of a Struct. flexible(n, old, new): the type before version n, and
from version n.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from groundwork.decimals import MAX_INT32
from kafkawire import primitives
from kafkawire.errors import LocalError, RemoteError, Truncated
from kafkawire.primitives import INT16, INT32, Reader, Writer, utf8

NEVER = 0x8000  # larger than any version
_PIECE = 128  # elements of an array between checks for a pause


class Type(Protocol):
    def least(self, version: int) -> int:
        """Return the minimum size of a value, with which an array's count is checked."""

    def read(self, reader: Reader, version: int) -> Any: ...

    def write(self, writer: Writer, value: Any, version: int) -> None: ...


@dataclass(frozen=True, eq=False)
class Integer:
    kind: struct.Struct

    def least(self, version: int) -> int:
        return self.kind.size

    def read(self, reader: Reader, version: int) -> int:
        return reader.integer(self.kind)

    def write(self, writer: Writer, value: int, version: int) -> None:
        writer.integer(self.kind, value)


class Boolean:
    def least(self, version: int) -> int:
        return 1

    def read(self, reader: Reader, version: int) -> bool:
        return reader.integer(primitives.INT8) != 0

    def write(self, writer: Writer, value: bool, version: int) -> None:
        writer.integer(primitives.INT8, 1 if value else 0)


@dataclass(frozen=True, eq=False)
class String:
    """String: int16 length, UTF-8; -1 is null if allowed. least_bytes: a shorter string is invalid."""

    nullable: bool = False
    least_bytes: int = 0

    def least(self, version: int) -> int:
        return INT16.size + self.least_bytes

    def read(self, reader: Reader, version: int) -> str | None:
        at = reader.at
        length = reader.integer(INT16)
        if length == -1:
            if not self.nullable:
                raise RemoteError(f"{reader.what} at byte {at}: null instead of a string")
            return None
        if 0 <= length < self.least_bytes:
            raise RemoteError(f"{reader.what} at byte {at}: an empty name")
        return reader.text(length)

    def write(self, writer: Writer, value: str | None, version: int) -> None:
        if value is None:
            if not self.nullable:
                raise LocalError("null instead of a string")
            writer.integer(INT16, -1)
            return
        data = utf8(value)
        if len(data) < self.least_bytes:
            raise LocalError("an empty name")
        if len(data) > 0x7FFF:
            raise LocalError(f"a string of {len(data)} bytes is longer than 32767")
        writer.integer(INT16, len(data))
        writer.raw(data)


@dataclass(frozen=True, eq=False)
class Blob:
    """Bytes: int32 length in bytes (never a count of messages), then the bytes; -1 is null if allowed."""

    nullable: bool = False

    def least(self, version: int) -> int:
        return INT32.size

    def read(self, reader: Reader, version: int) -> memoryview | None:
        length = reader.integer(INT32)
        if length == -1 and self.nullable:
            return None
        return reader.take(length)

    def write(self, writer: Writer, value: primitives.Bytes | None, version: int) -> None:
        if value is None:
            if not self.nullable:
                raise LocalError("null instead of bytes")
            writer.integer(INT32, -1)
            return
        writer.integer(INT32, len(value))
        writer.raw(value)


@dataclass(frozen=True, eq=False)
class Array:
    """Array: int32 count, then the elements; -1 is null in versions that allow it. limit: maximum count."""

    of: Type
    nullable_since: int = NEVER
    limit: int = MAX_INT32

    def least(self, version: int) -> int:
        return INT32.size

    def _count(self, reader: Reader, least: int) -> int:
        return reader.count(least)

    def _write_count(self, writer: Writer, count: int) -> None:
        writer.integer(INT32, count)

    def read(self, reader: Reader, version: int) -> list[Any] | None:
        at = reader.at
        count = self._count(reader, self.of.least(version))
        if count == -1:
            if version < self.nullable_since:
                raise RemoteError(f"{reader.what} at byte {at}: null instead of an array")
            return None
        if count > self.limit:
            raise RemoteError(f"{reader.what} at byte {at}: {count} elements, more than the limit of {self.limit}")
        read = self.of.read
        if count <= _PIECE:
            found = [read(reader, version) for _ in range(count)]
            reader.pause()
            return found
        found = []
        for begin in range(0, count, _PIECE):
            found += [read(reader, version) for _ in range(min(_PIECE, count - begin))]
            reader.pause()
        return found

    def write(self, writer: Writer, value: Iterable[Any] | None, version: int) -> None:
        if value is None:
            if version < self.nullable_since:
                raise LocalError("null instead of an array")
            self._write_count(writer, -1)
            return
        items = list(value)
        self._write_count(writer, len(items))
        for item in items:
            self.of.write(writer, item, version)


@dataclass(frozen=True, eq=False)
class CompactArray(Array):
    """Array of flexible versions: the number of elements + 1 as a varint; 0 is null."""

    def least(self, version: int) -> int:
        return 1

    def _count(self, reader: Reader, least: int) -> int:
        at = reader.at
        count = reader.unsigned() - 1
        if count * max(least, 1) > reader.left:
            raise Truncated(f"{reader.what} at byte {at}: {count} elements cannot fit the {reader.left} bytes left")
        return count

    def _write_count(self, writer: Writer, count: int) -> None:
        writer.unsigned(count + 1)


@dataclass(frozen=True, eq=False)
class CompactString(String):
    """String of flexible versions: its length + 1 as a varint; 0 is null."""

    def least(self, version: int) -> int:
        return 1

    def read(self, reader: Reader, version: int) -> str | None:
        at = reader.at
        length = reader.unsigned() - 1
        if length == -1 and not self.nullable:
            raise RemoteError(f"{reader.what} at byte {at}: null instead of a string")
        return None if length == -1 else reader.text(length)

    def write(self, writer: Writer, value: str | None, version: int) -> None:
        if value is None and not self.nullable:
            raise LocalError("null instead of a string")
        data = b"" if value is None else utf8(value)
        writer.unsigned(0 if value is None else len(data) + 1)
        writer.raw(data)


@dataclass(frozen=True, eq=False)
class CompactBlob(Blob):
    """Bytes of flexible versions: their length + 1 as a varint; 0 is null."""

    def least(self, version: int) -> int:
        return 1

    def read(self, reader: Reader, version: int) -> memoryview | None:
        length = reader.unsigned() - 1
        return None if length == -1 and self.nullable else reader.take(length)

    def write(self, writer: Writer, value: primitives.Bytes | None, version: int) -> None:
        if value is None and not self.nullable:
            raise LocalError("null instead of bytes")
        data = b"" if value is None else value
        writer.unsigned(0 if value is None else len(data) + 1)
        writer.raw(data)


class Uuid:
    """UUID of 16 bytes."""

    def least(self, version: int) -> int:
        return 16

    def read(self, reader: Reader, version: int) -> memoryview:
        return reader.take(16)

    def write(self, writer: Writer, value: primitives.Bytes, version: int) -> None:
        if len(value) != 16:
            raise LocalError(f"a UUID of {len(value)} bytes")
        writer.raw(value)


@dataclass(frozen=True)
class Switched:
    """One type before a version, another from that version."""

    first: int
    old: Type
    new: Type

    def of(self, version: int) -> Type:
        """Return the type of a version."""
        return self.new if version >= self.first else self.old

    def least(self, version: int) -> int:
        return self.of(version).least(version)

    def read(self, reader: Reader, version: int) -> Any:
        return self.of(version).read(reader, version)

    def write(self, writer: Writer, value: Any, version: int) -> None:
        self.of(version).write(writer, value, version)


def flexible(first: int, old: Type, new: Type) -> Switched:
    """Return a type that changes with the first flexible version."""
    return Switched(first, old, new)


@dataclass(frozen=True)
class Row:
    """Unnamed adjacent fields: a tuple."""

    of: tuple[Type, ...]

    def least(self, version: int) -> int:
        return sum(each.least(version) for each in self.of)

    def read(self, reader: Reader, version: int) -> tuple[Any, ...]:
        return tuple(each.read(reader, version) for each in self.of)

    def write(self, writer: Writer, value: Iterable[Any], version: int) -> None:
        for each, item in zip(self.of, value, strict=True):
            each.write(writer, item, version)


@dataclass(frozen=True, eq=False)
class Ranged:
    """Type of a field, and the versions that have it."""

    type: Type
    first: int = 0
    last: int = NEVER


def since(version: int, kind: Type) -> Ranged:
    return Ranged(kind, first=version)


def until(version: int, kind: Type) -> Ranged:
    """Return a field type for versions before this one."""
    return Ranged(kind, last=version - 1)


def between(first: int, last: int, kind: Type) -> Ranged:
    return Ranged(kind, first, last)


class Struct:
    """Named fields in wire order: a dict. tagged_since: the first version with tagged fields after them."""

    def __init__(self, tagged_since: int = NEVER, /, **fields: Type | Ranged) -> None:
        self._tagged_since = tagged_since
        self._fields = {name: kind if isinstance(kind, Ranged) else Ranged(kind) for name, kind in fields.items()}
        self.fields = cache(self._select)
        self.least = cache(self._least)
        self._front = cache(self._integers_in_front)

    def _select(self, version: int) -> list[tuple[str, Type]]:
        """Return (name, type) of the fields of a version, in wire order."""
        return [(name, field.type) for name, field in self._fields.items() if field.first <= version <= field.last]

    def _least(self, version: int) -> int:
        return sum(kind.least(version) for _, kind in self.fields(version)) + (version >= self._tagged_since)

    def _integers_in_front(self, version: int) -> tuple[tuple[str, ...], struct.Struct, list[tuple[str, Type]]]:
        """Return the names of the integers that a version begins with, their layout, and the fields after them."""
        fields = self.fields(version)
        number = next((n for n, (_, kind) in enumerate(fields) if not isinstance(kind, Integer)), len(fields))
        kinds = [kind.kind.format for _, kind in fields[:number] if isinstance(kind, Integer)]
        layout = struct.Struct(">" + "".join(kind.lstrip(">") for kind in kinds))
        return tuple(name for name, _ in fields[:number]), layout, fields[number:]

    def read(self, reader: Reader, version: int) -> dict[str, Any]:
        names, layout, behind = self._front(version)
        if layout.size > reader.left:  # reports which of them is truncated
            return {name: kind.read(reader, version) for name, kind in self.fields(version)}
        found = dict(zip(names, layout.unpack_from(reader.data, reader.at), strict=True))
        reader.at += layout.size
        for name, kind in behind:
            found[name] = kind.read(reader, version)
        if version >= self._tagged_since:
            reader.tags()
        return found

    def write(self, writer: Writer, value: Mapping[str, Any], version: int) -> None:
        fields = self.fields(version)
        unknown = value.keys() - {name for name, _ in fields}
        if unknown:
            raise LocalError(f"v{version} has no field {', '.join(sorted(unknown))}")
        for name, kind in fields:
            if name not in value:
                raise LocalError(f"v{version} needs a field {name}")
            try:
                kind.write(writer, value[name], version)
            except LocalError as exc:
                raise LocalError(f"{name}: {exc}") from None
        if version >= self._tagged_since:
            writer.unsigned(0)


int8 = Integer(primitives.INT8)
int16 = Integer(INT16)
int32 = Integer(INT32)
int64 = Integer(primitives.INT64)
boolean = Boolean()
string = String()
topic_name = String(least_bytes=1)
nullable_string = String(nullable=True)
blob = Blob()
nullable_blob = Blob(nullable=True)
compact_string = CompactString()
compact_nullable_string = CompactString(nullable=True)
compact_blob = CompactBlob()
uuid = Uuid()
message_set = Blob()  # its int32 counts bytes, as in any Blob
nullable_message_set = Blob(nullable=True)  # null with an error, in 3.x and later
