"""Bodies of replies while they arrive, for both generations.  No socket is used; bytes may come in pieces of any size.

Body            interface that a session feeds
PlainBody       decoded when complete
StreamedBody    parsed step by step, with large pieces (fetched sets) received straight into their buffers
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Protocol, TypeVar

from kafkawire.errors import LeftOver, LocalError, RemoteError, Truncated

ResultT_co = TypeVar("ResultT_co", covariant=True)

DIRECT_BYTES = 32 << 10  # a remainder of at least this size is received directly, not copied from the scratch buffer
MAX_REPLY_BYTES = 104_857_600  # limit of a reply, equal to a broker's limit of a request (socket.request.max.bytes)

MAX_PLAIN_BYTES = 32 << 20  # limit of a reply without messages: decoded, it takes up to 35 times its size
MAX_METADATA_BYTES = 16 << 20  # 300,000 partitions of three replicas


class Body(Protocol[ResultT_co]):
    """Body of one reply while it arrives.

    Pass bytes in any chunking to feed(); if direct() offers a buffer, bytes may be received straight into it (call
    filled(n) then), which saves a copy of a large message set.  Not thread safe.
    """

    complete: bool

    @property
    def due(self) -> int:
        """Return the number of bytes that have not arrived."""

    def feed(self, data: memoryview) -> int:
        """Consume the bytes of this body from the start of data, and return their number.

        It is less than all of data only if the body is complete: the rest belongs to the next frame.  Raises
        RemoteError for invalid bytes; the connection cannot be used afterwards.
        """

    def direct(self) -> memoryview | None:
        """Return the buffer for the next bytes if at least DIRECT_BYTES are expected; else None: use feed()."""

    def filled(self, n: int) -> None:
        """Report that n bytes were received into direct()."""

    def result(self) -> ResultT_co:
        """Return the reply of the request, once complete.  Raises RemoteError for invalid bytes."""


class PlainBody:
    """Reply that is decoded when complete.  The buffer grows with the bytes that arrive, never by a declared size."""

    def __init__(self, size: int, decode: Callable[[memoryview], object], limit: int = MAX_PLAIN_BYTES) -> None:
        if size > limit:
            raise RemoteError(f"a reply of {size} bytes is more than the limit of {limit}")
        self._size = size
        self._decode = decode
        self._data = bytearray()
        self.complete = size == 0

    @property
    def due(self) -> int:
        return self._size - len(self._data)

    def feed(self, data: memoryview) -> int:
        taken = min(self._size - len(self._data), len(data))
        self._data += data[:taken]
        self.complete = len(self._data) == self._size
        return taken

    def direct(self) -> memoryview | None:
        return None

    def filled(self, n: int) -> None:
        raise LocalError(f"{n} bytes reported for a body that offered no place for them")

    def result(self) -> object:
        return self._decode(memoryview(self._data))


class StreamedBody:
    """Reply parsed by a generator: it yields the number of bytes that it needs next, and is sent them; or it yields a
    buffer, and is resumed once that is full; or a Look at the next bytes, and is resumed once that has run.

    Asking for more than `rest`, the bytes left in the frame, is Truncated; bytes left at the end are LeftOver.
    """

    def __init__(self, what: str, size: int, limit: int = MAX_REPLY_BYTES) -> None:
        if size > limit:
            raise RemoteError(f"a {what} of {size} bytes is more than the limit of {limit}")
        self.complete = False
        self.what = what
        self.rest = size  # bytes of the frame that no piece and no buffer has claimed yet
        self._piece = bytearray()  # beginning of a small piece that arrived in parts
        self._need = 0  # size of that piece
        self._place = memoryview(b"")  # unfilled part of the current buffer
        self._look: Look | None = None
        self._kept = b""  # bytes of an incomplete Look
        self._steps: Steps

    def start(self, steps: Steps) -> None:
        """Start the generator; its steps may read `rest` at any time."""
        self._steps = steps
        self._go_on(None)

    @property
    def due(self) -> int:
        if self._look is not None:
            return self.rest - len(self._kept)
        return self.rest + (len(self._place) or self._need - len(self._piece))

    def feed(self, data: memoryview) -> int:
        if not self._kept:
            return self._feed(data)
        kept, self._kept = self._kept, b""
        return self._feed(memoryview(kept + data)) - len(kept)

    def _feed(self, data: memoryview) -> int:
        at, end = 0, len(data)
        while at < end and not self.complete:
            if self._look is not None:
                taken, unfinished = self._look(data[at : at + self.rest])
                at += taken
                self.rest -= taken
                if unfinished and end - at < self.rest:  # it looks again once more of the frame has arrived
                    self._kept = bytes(data[at:])
                    return end
                self._look = None
                self._go_on(None)
            elif self._place:
                taken = min(len(self._place), end - at)
                self._place[:taken] = data[at : at + taken]
                at += taken
                self.filled(taken)
            elif not self._piece and end - at >= self._need:
                at += self._need
                self._go_on(data[at - self._need : at])
            else:
                taken = min(self._need - len(self._piece), end - at)
                self._piece += data[at : at + taken]
                at += taken
                if len(self._piece) == self._need:
                    piece, self._piece = self._piece, bytearray()
                    self._go_on(memoryview(piece))
        return at

    def direct(self) -> memoryview | None:
        return self._place if len(self._place) >= DIRECT_BYTES else None

    def filled(self, n: int) -> None:
        self._place = self._place[n:]
        if not self._place:
            self._go_on(None)

    def _go_on(self, piece: memoryview | None) -> None:
        """Send a piece to the generator and store what it needs next: a number of bytes, or a buffer to fill."""
        try:
            want = self._steps.send(piece)  # type: ignore[arg-type]  # None starts it, and answers a filled buffer
        except StopIteration:
            if self.rest:
                raise LeftOver(self.what, self.rest) from None
            self.complete = True
            return
        if isinstance(want, int):
            size = want
        elif isinstance(want, memoryview):
            size = len(want)
        else:
            self._look = want
            return
        if size > self.rest:
            raise Truncated(f"{self.what}: {size} bytes wanted, {self.rest} left in the frame")
        self.rest -= size
        if isinstance(want, int):
            self._need = want
        else:
            self._place = want


# Number of the available bytes that it has read, and whether it looks again when more are available.
Look = Callable[[memoryview], tuple[int, bool]]
Steps = Generator[int | memoryview | Look, memoryview, None]
