"""Matching of messages of two logs, one by one, by their hashes.  Pure; runs in tasks, each with a share of all hashes.

kafkawire.unmatched finds the unmatched ones.  A duplicate gets the window of its twin in the source, which aligns
offsets of the target with the source's by content.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from kafkawire.unmatched import SOURCE, TARGET, unmatched

MISSING, DUPLICATED, FOREIGN = "missing", "duplicated", "foreign"  # as verify of a mirror counts them


class Pack(NamedTuple):
    """Messages of one partition, in the order of their offsets; arrays are bytes, which pickle well."""

    side: str  # SOURCE | TARGET
    partition: int | str  # of 0.7 "broker-index"
    hashes: bytes  # array("Q")
    offsets: bytes  # array("q")
    windows: bytes  # array("q")

    @staticmethod
    def of(
        side: str, partition: int | str, hashes: Sequence[int], offsets: Sequence[int], windows: Sequence[int]
    ) -> Pack:
        return Pack(
            side, partition, array("Q", hashes).tobytes(), array("q", offsets).tobytes(), array("q", windows).tobytes()
        )


class Odd(NamedTuple):
    """Unmatched messages of one kind in one partition of their log."""

    kind: str  # MISSING | DUPLICATED | FOREIGN
    partition: int | str
    offsets: bytes  # array("q"), in that log
    windows: bytes  # array("q")


@dataclass(slots=True)
class Matched:
    """Result of one share: the unmatched messages, and the first and last matched offset of each log."""

    odd: list[Odd] = field(default_factory=list)
    ends: dict[tuple[str, int | str], tuple[int, int]] = field(default_factory=dict)  # (side, partition) -> first, last


def match(packs: Iterable[Pack]) -> Matched:
    """Match the messages of a share.  packs: all messages of both sides whose hashes fall into it."""
    sides: dict[str, list[Pack]] = {SOURCE: [], TARGET: []}
    for pack in packs:
        sides[pack.side].append(pack)
    for found in sides.values():
        found.sort(key=_first)
    ours, theirs = (_joined("Q", (pack.hashes for pack in sides[side])) for side in (SOURCE, TARGET))
    odd = unmatched(ours, theirs)
    repeated = {theirs[n] for n in odd.duplicated}
    twins: dict[int, int] = {}
    if repeated:
        windows = _joined("q", (pack.windows for pack in sides[SOURCE]))
        backwards = zip(reversed(ours), reversed(windows), strict=True)
        twins = {hash_: window for hash_, window in backwards if hash_ in repeated}
    matched = Matched()
    _sort_out(matched, sides[SOURCE], {MISSING: odd.missing}, {})
    _sort_out(matched, sides[TARGET], {DUPLICATED: odd.duplicated, FOREIGN: odd.foreign}, twins)
    return matched


def _sort_out(
    matched: Matched, packs: Sequence[Pack], odd: Mapping[str, Sequence[int]], twins: Mapping[int, int]
) -> None:
    """Add the unmatched messages of one side to `matched`, and the first and last offset of the others.

    odd: indexes of rows by kind.  twins: window by hash, for duplicates without a window of their own.
    """
    begin = 0
    for pack in packs:
        hashes, offsets, windows = array("Q", pack.hashes), array("q", pack.offsets), array("q", pack.windows)
        count, without = len(offsets), set[int]()
        for kind, rows in odd.items():
            own = [int(n) - begin for n in rows[bisect_left(rows, begin) : bisect_left(rows, begin + count)]]
            if own:
                where = array("q", [offsets[n] for n in own])
                into = array("q", [twins.get(hashes[n], windows[n]) if windows[n] < 0 else windows[n] for n in own])
                matched.odd.append(Odd(kind, pack.partition, where.tobytes(), into.tobytes()))
            without.update(own)
        first = next((n for n in range(count) if n not in without), None)
        last = next((n for n in reversed(range(count)) if n not in without), None)
        if first is not None and last is not None:
            ends = matched.ends.get((pack.side, pack.partition), (offsets[first], offsets[last]))
            matched.ends[pack.side, pack.partition] = min(ends[0], offsets[first]), max(ends[1], offsets[last])
        begin += count


def _joined(kind: Literal["Q", "q"], columns: Iterable[bytes]) -> array[int]:
    found: array[int] = array(kind)
    for column in columns:
        found.frombytes(column)
    return found


def _first(pack: Pack) -> tuple[str, int]:
    return str(pack.partition), array("q", pack.offsets[:8])[0] if pack.offsets else 0


# ---- what the odd ones are -------------------------------------------------------------------------------------------


BEHIND, CUT = "behind", "cut"


@dataclass(frozen=True, slots=True)
class MatchedEnds:
    """Matched offsets of one scope, over all shares, and the sides whose logs lost their beginning."""

    matched: dict[tuple[str, int | str], tuple[int, int]]
    cut: frozenset[str] = frozenset()  # sides whose logs begin after offset 0

    def judged(self, kind: str, partition: int | str, offset: int) -> str:
        """Return the kind of an unmatched message, judged by its offset.

        BEHIND   missing, and after the last message that the target has: the mirror has not copied it yet
        CUT      before the first message that both have, and the other log was cut there by its retention
        """
        side = SOURCE if kind == MISSING else TARGET
        between = self.matched.get((side, partition))
        if between is None:
            return kind
        first, last = between
        if kind == MISSING and offset > last:
            return BEHIND
        other = TARGET if side == SOURCE else SOURCE
        return CUT if kind != DUPLICATED and offset < first and other in self.cut else kind


class MessageGroup(NamedTuple):
    """Unmatched messages of one kind in one window."""

    messages: int
    first: int  # offsets, in their log
    last: int

    def beside(self, other: MessageGroup) -> MessageGroup:
        return MessageGroup(self.messages + other.messages, min(self.first, other.first), max(self.last, other.last))


GroupKey = tuple[str, str, int | str, int]  # kind as judged, side, partition, window


def grouped(matched: Matched, ends: MatchedEnds) -> dict[GroupKey, MessageGroup]:
    """Return the number of unmatched messages of one share, by kind, side, partition and window."""
    groups: dict[GroupKey, MessageGroup] = {}
    for odd in matched.odd:
        side = SOURCE if odd.kind == MISSING else TARGET
        for offset, window in zip(array("q", odd.offsets), array("q", odd.windows), strict=True):
            key = (ends.judged(odd.kind, odd.partition, offset), side, odd.partition, window)
            one = MessageGroup(1, offset, offset)
            groups[key] = groups[key].beside(one) if key in groups else one
    return groups
