"""Alignment of two logs of one partition that begin at different messages: where the later one begins in the other.

Retention deletes whole files, on each side others.  The first messages of each log are looked for in the other one:
both are read side by side until either is found.  A place counts where most of the messages from it on are among those
first ones.  Messages that repeat themselves show no place: then nothing is aligned, and matching alone decides.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from kafkawire.unmatched import SOURCE, TARGET, Side

HEAD = 2000  # messages of a beginning
LOOKED_AT = 64  # messages from a place on
WANTED = 58  # so many of them must be among the beginning: some may be missing, or there twice
FEWEST = 8  # messages that show a place at the end of a log
DISTINCT = 0.9  # share of a beginning that is needed


class Hashes(Protocol):
    @property
    def hashes(self) -> Any: ...
    @property
    def offsets(self) -> Any: ...


def aligned(source: Iterable[Hashes], target: Iterable[Hashes]) -> tuple[Side, int] | None:
    """Return the side that holds more, and the offset there at which both begin to hold the same, or None.

    source, target: messages of one partition from where each log begins.
    """
    sides = {SOURCE: _Log(source), TARGET: _Log(target)}
    heads = {side: log.head() for side, log in sides.items()}
    if any(len({*head}) < max(1, DISTINCT * len(head)) for head in heads.values()):
        return None
    finders = {SOURCE: _Finder(heads[TARGET]), TARGET: _Finder(heads[SOURCE])}
    walks = {side: log.walk() for side, log in sides.items()}
    while walks:
        for side, walk in list(walks.items()):
            batch = next(walk, None)
            place = finders[side].end() if batch is None else finders[side].feed(*batch)
            if place is not None:
                return side, place
            if batch is None:
                del walks[side]
    return None


class _Log:
    def __init__(self, found: Iterable[Hashes]) -> None:
        self._found = iter(found)
        self._kept: list[tuple[list[int], list[int]]] = []

    def head(self) -> list[int]:
        """Return the first fingerprints, HEAD of them at most."""
        head: list[int] = []
        while len(head) < HEAD and (batch := next(self._found, None)) is not None:
            self._kept.append(_listed(batch))
            head += self._kept[-1][0]
        return head[:HEAD]

    def walk(self) -> Iterator[tuple[list[int], list[int]]]:
        """Yield all fingerprints with their offsets, a set at a time."""
        yield from self._kept
        self._kept = []
        yield from map(_listed, self._found)


class _Finder:
    """Search for the other log's beginning in this one."""

    def __init__(self, head: list[int]) -> None:
        self._head = {*head}
        self._last: deque[tuple[bool, int]] = deque()  # of the messages looked at: among the head, offset
        self._hits = 0
        self._wanted = min(WANTED, len(head))
        self._window = LOOKED_AT if len(head) >= WANTED else len(head)

    def feed(self, hashes: list[int], offsets: list[int]) -> int | None:
        """Return the place once the messages that follow it were fed."""
        head = self._head
        if not self._hits and head.isdisjoint(hashes):
            return None
        for hash_, offset in zip(hashes, offsets, strict=True):
            hit = hash_ in head
            if not hit and not self._last:
                continue
            self._last.append((hit, offset))
            self._hits += hit
            while self._last and (len(self._last) > self._window or not self._last[0][0]):
                self._hits -= self._last.popleft()[0]
            if len(self._last) >= FEWEST and self._hits >= self._wanted:
                return self._last[0][1]
        return None

    def end(self) -> int | None:
        """Return the place if this log ended behind it, with fewer messages than are wanted."""
        if len(self._last) >= FEWEST and self._hits >= len(self._last) * WANTED / LOOKED_AT:
            return self._last[0][1]
        return None


def _listed(batch: Hashes) -> tuple[list[int], list[int]]:
    hashes, offsets = batch.hashes, batch.offsets
    return (
        hashes.tolist() if hasattr(hashes, "tolist") else list(hashes),
        offsets.tolist() if hasattr(offsets, "tolist") else list(offsets),
    )
