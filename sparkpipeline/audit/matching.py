"""Two heaps of messages matched one by one, by their hashes.  Pure; runs in tasks, a share of all hashes in each.

What the source has more of is LOST.  What the target has more of is a DUPLICATE where the source has such a message,
and FOREIGN where it has none.  Of equal messages the last ones are those without a partner.  The window of a duplicate
is that of its twin in the source: so offsets of the target, which differ from the source's, are aligned by content.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

SOURCE, TARGET = "source", "target"
LOST, DUPLICATE, FOREIGN = "lost", "duplicate", "foreign"


class Pack(NamedTuple):
    """Some messages of one partition, in the order of their offsets; the arrays as bytes, which pickle well."""

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
    """Messages without a partner, of one kind and one partition of the log they stand in."""

    kind: str  # LOST | DUPLICATE | FOREIGN
    partition: int | str
    offsets: bytes  # array("q"), in that log
    windows: bytes  # array("q")


@dataclass(slots=True)
class Matched:
    """What came of one share: the odd ones, and between which offsets of each log partners were found."""

    odd: list[Odd] = field(default_factory=list)
    ends: dict[tuple[str, int | str], tuple[int, int]] = field(default_factory=dict)  # (side, partition) -> first, last


def match(packs: Iterable[Pack]) -> Matched:
    """packs: all messages of both sides whose hashes fall into this share."""
    sides: dict[str, list[Pack]] = {SOURCE: [], TARGET: []}
    for pack in packs:
        sides[pack.side].append(pack)
    source, target = (Counter(_hashes(sides[side])) for side in (SOURCE, TARGET))
    lost, extra = source - target, target - source
    matched = Matched()
    twins = _walk(matched, sides[SOURCE], lost, {LOST: None}, frozenset(extra))
    _walk(matched, sides[TARGET], extra, {DUPLICATE: twins, FOREIGN: None}, frozenset())
    return matched


def _walk(
    matched: Matched,
    packs: Sequence[Pack],
    odd: Counter[int],
    kinds: dict[str, dict[int, int] | None],
    wanted: frozenset[int],
) -> dict[int, int]:
    """Put the odd messages of one side into `matched`; hash -> window of the wanted ones.

    kinds: how an odd one is called, with the hashes it must be among: the first that fits.
    """
    windows_of: dict[int, int] = {}
    found: dict[tuple[str, int | str], tuple[list[int], list[int]]] = {}
    for pack in sorted(packs, key=_first, reverse=True):
        ends = (pack.side, pack.partition)
        for hash_, offset, window in _backwards(pack):
            if hash_ in wanted:
                windows_of[hash_] = window
            if odd and odd[hash_] > 0:
                odd[hash_] -= 1
                kind, twins = next((k, t) for k, t in kinds.items() if t is None or hash_ in t)
                offsets, windows = found.setdefault((kind, pack.partition), ([], []))
                offsets.append(offset)
                windows.append(twins[hash_] if twins is not None and window < 0 else window)
            else:
                first, last = matched.ends.get(ends, (offset, offset))
                matched.ends[ends] = min(first, offset), max(last, offset)
    for (kind, partition), (offsets, windows) in found.items():
        matched.odd.append(Odd(kind, partition, array("q", offsets).tobytes(), array("q", windows).tobytes()))
    return windows_of


def _hashes(packs: Iterable[Pack]) -> Iterator[int]:
    for pack in packs:
        yield from array("Q", pack.hashes)


def _first(pack: Pack) -> tuple[str, int]:
    return str(pack.partition), array("q", pack.offsets[:8])[0] if pack.offsets else 0


def _backwards(pack: Pack) -> Iterator[tuple[int, int, int]]:
    columns = (array("Q", pack.hashes), array("q", pack.offsets), array("q", pack.windows))
    return zip(*map(reversed, columns), strict=True)


# ---- what the odd ones are -------------------------------------------------------------------------------------------


BEHIND, CUT = "behind", "cut"


@dataclass(frozen=True, slots=True)
class MatchedEnds:
    """Of one scope, over all shares: between which offsets partners were found, and which logs lost their beginning."""

    matched: dict[tuple[str, int | str], tuple[int, int]]
    cut: frozenset[str] = frozenset()  # sides whose logs begin after offset 0

    def judged(self, kind: str, partition: int | str, offset: int) -> str:
        """What an odd message is in the light of where it stands.

        BEHIND   lost, and after the last message that the target has: a mirror that has not come so far
        CUT      before the first message that both have, and the other log was cut there, by its retention
        """
        side = SOURCE if kind == LOST else TARGET
        between = self.matched.get((side, partition))
        if between is None:
            return kind
        first, last = between
        if kind == LOST and offset > last:
            return BEHIND
        other = TARGET if side == SOURCE else SOURCE
        return CUT if kind != DUPLICATE and offset < first and other in self.cut else kind


class MessageGroup(NamedTuple):
    """Odd messages of one kind in one window."""

    messages: int
    first: int  # offsets, in the log that they stand in
    last: int

    def beside(self, other: MessageGroup) -> MessageGroup:
        return MessageGroup(self.messages + other.messages, min(self.first, other.first), max(self.last, other.last))


GroupKey = tuple[str, str, int | str, int]  # kind as judged, side, partition, window


def grouped(matched: Matched, ends: MatchedEnds) -> dict[GroupKey, MessageGroup]:
    """The odd messages of one share, counted."""
    groups: dict[GroupKey, MessageGroup] = {}
    for odd in matched.odd:
        side = SOURCE if odd.kind == LOST else TARGET
        for offset, window in zip(array("q", odd.offsets), array("q", odd.windows), strict=True):
            key = (ends.judged(odd.kind, odd.partition, offset), side, odd.partition, window)
            one = MessageGroup(1, offset, offset)
            groups[key] = groups[key].beside(one) if key in groups else one
    return groups
