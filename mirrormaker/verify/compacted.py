"""Compacted topics compared: the last message of each key on both sides.  Pure.

A cleaner deletes older messages of a key, on each side when it likes, so nothing but the last one can be expected to be
there.  A null value (a tombstone) is as good as no message.  Keys that the source wrote again behind what is compared
say nothing: the target may have the newer one.

Keys are kept in memory, `limit` of them; where there are more, only a share of them, and the logs are read again for
each of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

from kafkawire.unmatched import SOURCE, TARGET, Side
from mirrormaker.verify.matching import KEPT, Matched, Odd, Place

KEYS = 1 << 19  # of one side at a time
SPREAD = 4  # so many times as many shares where a share does not fit
_TOMBSTONE = 0
Last = tuple[int, int, int]  # fingerprint or _TOMBSTONE, offset, partition


class LastByKey:
    """Last messages of a share of all keys.  shares: how many there are now, which may grow in the first one."""

    def __init__(self, share: int = 0, shares: int = 1, limit: int = KEYS) -> None:
        self.share = share
        self.shares = shares
        self._limit = limit
        self._lasts: dict[Side, dict[int, Last]] = {SOURCE: {}, TARGET: {}}
        self._newer: set[int] = set()

    def add(self, side: Side, part: int, keys: Any, hashes: Any, offsets: Any, nulls: Sequence[bool]) -> None:
        """More messages that have a key, in the order of a partition.  keys: fingerprints of their keys."""
        lasts = self._lasts[side]
        found = [_TOMBSTONE if null else h for h, null in zip(_listed(hashes), nulls, strict=True)]
        lasts.update(zip(_listed(keys), zip(found, _listed(offsets), repeat(part), strict=False), strict=True))
        self._keep(lasts)
        while len(lasts) > self._limit and self.share == 0 and self.shares < 1 << 16:
            self.shares *= SPREAD
            for each in self._lasts.values():
                self._keep(each)

    def add_newer(self, keys: Any) -> None:
        """Keys of messages that may or may not be at the target."""
        self._newer.update(_listed(keys))

    def matched(self) -> Matched:
        ours, theirs = self._lasts[SOURCE], self._lasts[TARGET]
        missing = [
            Place(part, offset, hash_)
            for key, (hash_, offset, part) in ours.items()
            if hash_ != _TOMBSTONE and key not in self._newer and theirs.get(key, (None,))[0] != hash_
        ]
        foreign = [
            Place(part, offset, hash_)
            for key, (hash_, offset, part) in theirs.items()
            if hash_ != _TOMBSTONE and key not in ours and key not in self._newer
        ]
        return Matched(missing=_odd(missing), foreign=_odd(foreign))

    def _keep(self, lasts: dict[int, Last]) -> None:
        """Forget the keys of other shares."""
        if self.shares > 1:
            for key in [key for key in lasts if key % self.shares != self.share]:
                del lasts[key]


def _odd(places: list[Place]) -> Odd:
    return Odd(len(places), sorted(places)[:KEPT])


def _listed(column: Any) -> list[int]:
    return column.tolist() if hasattr(column, "tolist") else list(column)
