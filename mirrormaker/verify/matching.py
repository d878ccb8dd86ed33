"""Matching of two logs by the fingerprints of their messages, in bounded memory.  Pure.

    Tally      what was read of both sides in one pass: all rows, or past `limit` of them sums by buckets
    match()    rows of both sides one by one: which messages have no partner

Few messages are kept as rows (16 bytes each) and matched at once.  Of more only sums are kept: a fingerprint falls into
one of 2^20 buckets, and a bucket whose counts and sums are equal on both sides holds the same messages (but one time
in 2^64).  What is in the other buckets is read once more, a share at a time: Tally.shares().

A source message is required, or optional: it may or may not be at the target (written while the comparison began, or
acknowledged and not yet committed).  Per fingerprint, with s required, o optional and t in the target:

    t < s          s − t are missing
    t > s + o      t − s − o are duplicated where s + o > 0, else only in the target

Logs that lost their beginning (retention, or a comparison that begins at a time) hold messages whose partner is gone.
Partitions keep their order, so what lies before the first message that both have is not compared:

    missing        before the first source offset whose message the cut target partition has
    foreign        before the first target offset whose message the cut source has

Rows are matched by kafkawire.unmatched; the first of equal messages are missing where a target log was cut.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafkawire.fingerprints import HAS_NUMPY, MASK
from kafkawire.unmatched import SOURCE, TARGET, Side, unmatched

ROWS = 1 << 19  # rows of one side, about, that are kept and matched at once; in pure Python a quarter of it
BITS = 20
PASSES = 16  # shares that are read again at most
KEPT = 1000  # messages without a partner that are known one by one
PARTS = 64  # cut target partitions that are looked at one by one
_NONE = (1 << 63) - 1


class Place(NamedTuple):
    """A message of one side: the number of its partition there, its offset and its fingerprint."""

    part: int
    offset: int
    hash: int


@dataclass(slots=True)
class Odd:
    """Messages without a partner: how many, and the first of them."""

    count: int = 0
    first: list[Place] = field(default_factory=list)

    def add(self, other: Odd) -> None:
        self.count += other.count
        self.first = sorted(self.first + other.first)[:KEPT]


@dataclass(slots=True)
class Matched:
    """Messages without a partner.  cut, older: so many that are not compared, of the source and of the target."""

    missing: Odd = field(default_factory=Odd)
    duplicated: Odd = field(default_factory=Odd)
    foreign: Odd = field(default_factory=Odd)
    cut: int = 0
    older: int = 0

    def add(self, other: Matched) -> None:
        """Add the result of another share."""
        self.missing.add(other.missing)
        self.duplicated.add(other.duplicated)
        self.foreign.add(other.foreign)
        self.cut += other.cut
        self.older += other.older


@dataclass(frozen=True, slots=True)
class Cut:
    """Numbers of the partitions whose logs lost their beginning, by side."""

    source: frozenset[int] = frozenset()
    target: frozenset[int] = frozenset()


# ---- rows ------------------------------------------------------------------------------------------------------------


class Rows:
    """Messages as rows: fingerprint, offset, partition."""

    def __init__(self, vector: bool = HAS_NUMPY) -> None:
        self.count = 0
        self._vector = vector
        self._packs: list[tuple[int, Any, Any]] = []

    def add(self, part: int, hashes: Any, offsets: Any) -> None:
        if len(hashes):
            if self._vector:
                import numpy as np

                hashes, offsets = np.array(hashes, np.uint64), np.array(offsets, np.int64)
            else:
                hashes, offsets = array("Q", hashes), array("q", offsets)
            self.count += len(hashes)
            self._packs.append((part, hashes, offsets))

    @property
    def packs(self) -> Sequence[tuple[int, Any, Any]]:
        """(partition, fingerprints, offsets), in the order of their reading."""
        return self._packs

    def columns(self) -> tuple[Any, Any, Any]:
        """Fingerprints, offsets and partitions of all rows, as numpy has them."""
        import numpy as np

        if not self._packs:
            return np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64)
        parts = np.repeat([part for part, _, _ in self._packs], [len(hashes) for _, hashes, _ in self._packs])
        hashes, offsets = (np.concatenate([pack[n] for pack in self._packs]) for n in (1, 2))
        return hashes, offsets, parts

    def places(self) -> list[Place]:
        return [Place(part, o, h) for part, hs, os in self._packs for h, o in zip(hs, os, strict=True)]


def match(source: Rows, optional: Sequence[int], target: Rows, cut: Cut, vector: bool = HAS_NUMPY) -> Matched:
    """Return the messages of both sides that have no partner.  optional: fingerprints of optional messages of the
    source."""
    if vector:
        return _vector_match(source, optional, target, cut)
    return _plain_match(source, optional, target, cut)


def _plain_match(source: Rows, optional: Sequence[int], target: Rows, cut: Cut) -> Matched:
    ours, theirs = source.places(), target.places()
    our_hashes, their_hashes = [each.hash for each in ours], [each.hash for each in theirs]
    odd = unmatched(our_hashes, their_hashes, optional, first=bool(cut.target), vector=False)
    lost = frozenset(odd.missing)
    begins: dict[int, int] = {}
    for j in _looked_at(cut.target):
        there = {each.hash for each in theirs if each.part in j}
        firsts: dict[int, int] = {}
        for n, each in enumerate(ours):
            if each.hash in there and n not in lost:
                firsts[each.part] = min(each.offset, firsts.get(each.part, _NONE))
        for part, first in firsts.items():
            begins[part] = max(first, begins.get(part, 0))
    missing = [ours[n] for n in odd.missing if not cut.target or ours[n].offset >= begins.get(ours[n].part, _NONE)]
    found = Matched(missing=_odd(missing), cut=len(lost) - len(missing))
    found.duplicated = _odd([theirs[n] for n in odd.duplicated])
    ends: dict[int, int] = {}
    known = {*our_hashes, *optional} if cut.source else ()
    for each in theirs if cut.source else ():
        if each.hash in known:
            ends[each.part] = min(each.offset, ends.get(each.part, _NONE))
    strange = [theirs[n] for n in odd.foreign]
    foreign = [each for each in strange if not (cut.source and each.offset < ends.get(each.part, _NONE))]
    found.foreign, found.older = _odd(foreign), len(strange) - len(foreign)
    return found


def _odd(places: Sequence[Place]) -> Odd:
    return Odd(len(places), sorted(places)[:KEPT])


def _looked_at(cut: frozenset[int]) -> list[Collection[int]]:
    """Cut target partitions, each by itself; many of them together."""
    return [{j} for j in sorted(cut)] if len(cut) <= PARTS else [cut]


def _vector_match(source: Rows, optional: Sequence[int], target: Rows, cut: Cut) -> Matched:
    import numpy as np

    ours, our_offsets, our_parts = source.columns()
    theirs, their_offsets, their_parts = target.columns()
    odd = unmatched(ours, theirs, optional, first=bool(cut.target))
    lost, foreign, found = odd.missing, odd.foreign, Matched()
    if cut.target and len(lost):
        begins = np.full(int(our_parts.max()) + 1, -1, np.int64)
        kept = np.ones(len(ours), bool)
        kept[lost] = False
        unique, which = np.unique(np.concatenate((ours, theirs)), return_inverse=True)
        mine, yours = np.split(which, (len(ours),))
        for j in _looked_at(cut.target):
            there = np.zeros(len(unique), bool)
            there[yours[np.isin(their_parts, list(j))]] = True
            both = kept & there[mine]
            firsts = np.full(len(begins), _NONE, np.int64)
            np.minimum.at(firsts, our_parts[both], our_offsets[both])
            begins = np.where(firsts < _NONE, np.maximum(begins, firsts), begins)
        begins[begins < 0] = _NONE
        before = our_offsets[lost] < begins[our_parts[lost]]
        found.cut = int(before.sum())
        lost = lost[~before]
    found.missing = _vector_odd(lost, our_parts, our_offsets, ours)
    found.duplicated = _vector_odd(odd.duplicated, their_parts, their_offsets, theirs)
    if cut.source and len(foreign):
        ends = np.full(int(their_parts.max()) + 1, _NONE, np.int64)
        both = np.isin(theirs, np.concatenate((ours, np.asarray(optional, np.uint64))))
        np.minimum.at(ends, their_parts[both], their_offsets[both])
        before = their_offsets[foreign] < ends[their_parts[foreign]]
        found.older = int(before.sum())
        foreign = foreign[~before]
    found.foreign = _vector_odd(foreign, their_parts, their_offsets, theirs)
    return found


def _vector_odd(rows: Any, parts: Any, offsets: Any, hashes: Any) -> Odd:
    import numpy as np

    first = rows[np.lexsort((offsets[rows], parts[rows]))[:KEPT]]
    columns = (parts[first].tolist(), offsets[first].tolist(), hashes[first].tolist())
    return Odd(len(rows), sorted(Place(*row) for row in zip(*columns, strict=True)))


# ---- buckets ---------------------------------------------------------------------------------------------------------


class Buckets:
    """Counts of both sides, and the difference of their sums, by bucket."""

    def __init__(self, vector: bool = HAS_NUMPY) -> None:
        self._vector = vector
        if vector:
            import numpy as np

            self._counts: Any = {side: np.zeros(1 << BITS, np.int64) for side in (SOURCE, TARGET)}
            self._sums: Any = np.zeros(1 << BITS, np.uint64)
        else:
            self._counts = {side: array("q", bytes(8 << BITS)) for side in (SOURCE, TARGET)}
            self._sums = array("Q", bytes(8 << BITS))

    def add(self, side: Side, hashes: Any) -> None:
        counts, sums = self._counts[side], self._sums
        if self._vector:
            import numpy as np

            hashes = np.asarray(hashes, np.uint64)
            at = (hashes >> np.uint64(64 - BITS)).astype(np.int64)
            np.add.at(counts, at, 1)
            (np.add if side == SOURCE else np.subtract).at(sums, at, hashes)
            return
        for each in hashes:
            at = each >> 64 - BITS
            counts[at] += 1
            sums[at] = sums[at] + (each if side == SOURCE else -each) & MASK

    def shares(self, optional: Iterable[int], rows: int) -> Shares:
        """Return the buckets that differ, or that optional messages fall into, in shares of about `rows` messages."""
        ours, theirs = self._counts[SOURCE], self._counts[TARGET]
        loose = {int(each) >> 64 - BITS for each in optional}
        odd = [n for n in self._differing() if n not in loose]
        of, count, filled = array("h", [-1]) * (1 << BITS), 0, 0
        unread = least = 0
        for n in sorted({*odd, *loose}):
            size = int(ours[n] + theirs[n])
            if filled and filled + size > rows:
                count, filled = count + 1, 0
            filled += size
            if count < PASSES:
                of[n] = count
            else:
                unread += int(ours[n])
                least += max(0, int(ours[n] - theirs[n])) if n not in loose else 0
        return Shares(of, min(PASSES, count + 1) if filled else 0, unread, least, self._vector)

    def _differing(self) -> list[int]:
        ours, theirs = self._counts[SOURCE], self._counts[TARGET]
        if self._vector:
            import numpy as np

            found: list[int] = np.flatnonzero((ours != theirs) | (self._sums != 0)).tolist()
            return found
        return [n for n in range(1 << BITS) if self._sums[n] or ours[n] != theirs[n]]


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares to read again: the share of each bucket, or −1.

    unread: source messages in buckets that differ and are in no share, since that were too many; least: so many of them
    are missing at least, where no log lost its beginning.
    """

    of: array[int]
    count: int
    unread: int
    least: int
    vector: bool

    def chosen(self, number: int, hashes: Any, offsets: Any) -> tuple[Any, Any]:
        """Return the rows of one share."""
        if self.vector:
            import numpy as np

            hashes = np.asarray(hashes, np.uint64)
            of = np.frombuffer(self.of, np.int16)
            rows = of[(hashes >> np.uint64(64 - BITS)).astype(np.int64)] == number
            return hashes[rows], np.asarray(offsets)[rows]
        rows = [n for n, each in enumerate(hashes) if self.of[each >> 64 - BITS] == number]
        return [hashes[n] for n in rows], [offsets[n] for n in rows]


# ---- a pass ----------------------------------------------------------------------------------------------------------


class Tally:
    """Result of one pass over both sides: rows while they are few, then sums only.

    counts   messages by side and partition       optional   fingerprints of optional messages
    """

    def __init__(self, limit: int | None = None, vector: bool = HAS_NUMPY) -> None:
        self.counts: dict[tuple[Side, int], int] = {}
        self.optional: list[Any] = []
        self._limit = limit if limit is not None else ROWS if vector else ROWS // 4
        self._vector = vector
        self._rows = {side: Rows(vector) for side in (SOURCE, TARGET)}
        self._buckets: Buckets | None = None

    def add(self, side: Side, part: int, hashes: Any, offsets: Any) -> None:
        self.counts[side, part] = self.counts.get((side, part), 0) + len(hashes)
        if self._buckets is not None:
            self._buckets.add(side, hashes)
            return
        self._rows[side].add(part, hashes, offsets)
        if self._rows[side].count > self._limit:
            self._buckets = Buckets(self._vector)
            for each, rows in self._rows.items():
                for _, found, _ in rows.packs:
                    self._buckets.add(each, found)
            self._rows = {}

    def add_optional(self, hashes: Any) -> None:
        self.optional += hashes.tolist() if hasattr(hashes, "tolist") else list(hashes)

    def count(self, side: Side) -> int:
        return sum(count for (each, _), count in self.counts.items() if each == side)

    def matched(self, cut: Cut) -> Matched | None:
        """Matched at once; None: there were too many, see shares()."""
        if self._buckets is not None:
            return None
        return match(self._rows[SOURCE], self.optional, self._rows[TARGET], cut, self._vector)

    def shares(self) -> Shares:
        """Return what to read again, if there were more messages than memory may hold."""
        assert self._buckets is not None
        return self._buckets.shares(self.optional, 2 * self._limit)
