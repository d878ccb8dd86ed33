"""Where a source partition goes on in a target partition that nobody else writes: its messages held against what the
target has.  Pure.

    tail      digests of what the target holds from a point on: everything before that point is there, nothing behind it
    feed()    the source's messages from that point on, set by set, until it is known how many of them are there

Each message of the tail must be the next of the source.  A batch that was sent twice, since nobody knew what had become
of it, stands in the tail twice, one copy directly after the other: that is seen, counted, and no obstacle.  Anything
else is Mismatch: another writer, a compacted topic, another source.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from zlib import crc32

LENGTH = Struct(">i")


class Mismatch(Exception):
    """The tail is not made of the source's messages; .at is the index in the tail of the first that is not."""

    def __init__(self, at: int) -> None:
        super().__init__(f"message {at} of the target's tail is not the source's next")
        self.at = at


def digest(key: bytes | None, value: bytes | None) -> int:
    """What is compared of a message: its key and value, and how long each is."""
    check = 0
    for part in (key, value):
        check = crc32(LENGTH.pack(-1 if part is None else len(part)), check)
        if part is not None:
            check = crc32(part, check)
    return check


class Matching:
    """.matched: so many of the source's messages are in the target.  .repeated: so many of the tail are there twice."""

    def __init__(self, tail: Sequence[int]) -> None:
        self._tail = tail
        self._at = 0  # of the tail, everything before it is understood
        self._source: list[int] = []  # digests of what was fed and found
        self.repeated = 0

    @property
    def matched(self) -> int:
        return len(self._source)

    @property
    def done(self) -> bool:
        """All of the tail is understood: the source goes on behind .matched messages."""
        return self._at == len(self._tail)

    def feed(self, messages: Sequence[int]) -> int:
        """More messages of the source, in order: how many of them are in the target.  Raises Mismatch."""
        for number, each in enumerate(messages):
            while not self.done and self._tail[self._at] != each:
                self._skip_copy()
            if self.done:
                return number
            self._at += 1
            self._source.append(each)
        return len(messages)

    def end(self) -> None:
        """The source has no more: what is left of the tail must be copies.  Raises Mismatch."""
        while not self.done:
            self._skip_copy()

    def _skip_copy(self) -> None:
        """Step over the second copy of what was sent last."""
        tail, source, at = self._tail, self._source, self._at
        for count in range(1, min(len(source), len(tail) - at) + 1):
            if tail[at] == source[-count] and tail[at : at + count] == source[-count:]:
                self._at += count
                self.repeated += count
                return
        raise Mismatch(at)
