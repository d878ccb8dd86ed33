"""Reader and writer of the protocol's primitives: integers and byte strings.  Independent of apis and versions.

Everything is big endian.  A Reader never reads past its bytes (Truncated says where and how much) and never allocates
by a length that it has not compared with the bytes left.
"""

from __future__ import annotations

import struct

from groundwork.pauses import pause
from kafkawire.errors import LeftOver, LocalError, RemoteError, Truncated

INT8 = struct.Struct(">b")
INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")
INT64 = struct.Struct(">q")

PAUSE_BYTES = 8 << 10  # bytes read between pauses: some milliseconds if elements are small

Bytes = bytes | bytearray | memoryview
Encoded = bytes | memoryview  # encoded entries, ready to be sent


def utf8(text: str) -> bytes:
    """Encode text as UTF-8.  Raises LocalError for text that cannot be encoded (bytes decoded with surrogateescape)."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise LocalError(f"{text!r} cannot be encoded as UTF-8") from None


class Reader:
    """Cursor over bytes; the views that it returns share them."""

    __slots__ = ("_paused_at", "at", "data", "what")

    def __init__(self, data: Bytes, what: str = "bytes", at: int = 0) -> None:
        self.data = memoryview(data)
        self.what = what  # names the thing in errors: "Metadata v0 reply"
        self.at = at
        self._paused_at = at

    def pause(self) -> None:
        """Let other tasks of the event loop run, every few milliseconds."""
        if self.at - self._paused_at >= PAUSE_BYTES:
            self._paused_at = self.at
            pause()

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def integer(self, kind: struct.Struct) -> int:
        try:
            (value,) = kind.unpack_from(self.data, self.at)
        except struct.error:
            raise self._short(kind.size) from None
        self.at += kind.size
        return int(value)

    def take(self, n: int) -> memoryview:
        """Return the next n bytes as a view.  Raises RemoteError for a negative n, which came from the sender."""
        if n < 0:
            raise RemoteError(f"{self.what} at byte {self.at}: a length of {n}")
        if n > self.left:
            raise self._short(n)
        self.at += n
        return self.data[self.at - n : self.at]

    def text(self, n: int) -> str:
        at = self.at
        try:
            return str(self.take(n), "utf-8")
        except UnicodeDecodeError:
            raise RemoteError(f"{self.what} at byte {at}: a string of {n} bytes is not UTF-8") from None

    def count(self, least: int) -> int:
        """Return an array's count (-1 is null).  Raises RemoteError if that many elements of at least `least` bytes
        cannot follow."""
        at = self.at
        count = self.integer(INT32)
        if count < -1:
            raise RemoteError(f"{self.what} at byte {at}: an array of {count} elements")
        if count * max(least, 1) > self.left:
            raise Truncated(f"{self.what} at byte {at}: {count} elements cannot fit the {self.left} bytes left")
        return count

    def unsigned(self) -> int:
        """Return a varint without sign, of at most 31 bits: a length or a count of flexible versions (KIP-482)."""
        at, number = self.at, 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                if number > 0x7FFFFFFF:
                    break
                return number
        raise RemoteError(f"{self.what} at byte {at}: a length of more than 31 bits")

    def tags(self) -> None:
        """Skip the tagged fields at the end of a structure; none of them is used here."""
        for _ in range(self.unsigned()):
            self.unsigned()
            self.take(self.unsigned())

    def finish(self) -> None:
        """Raise LeftOver unless everything was read."""
        if self.left:
            raise LeftOver(f"{self.what} at byte {self.at}", self.left)

    def _short(self, n: int) -> Truncated:
        return Truncated(f"{self.what} ends too early: {n} bytes wanted at byte {self.at}, {self.left} left")


class Writer:
    """Collector of bytes; done() joins them."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: list[Bytes] = []

    def integer(self, kind: struct.Struct, value: int) -> None:
        try:
            self._pieces.append(kind.pack(value))
        except struct.error:
            raise LocalError(f"{value!r} does not fit {kind.size * 8} bits") from None

    def raw(self, data: Bytes) -> None:
        self._pieces.append(data)

    def unsigned(self, value: int) -> None:
        """Write a varint without sign."""
        found = bytearray()
        while value > 0x7F:
            found.append(value & 0x7F | 0x80)
            value >>= 7
        found.append(value)
        self._pieces.append(bytes(found))

    def done(self) -> bytes:
        return b"".join(self._pieces)
