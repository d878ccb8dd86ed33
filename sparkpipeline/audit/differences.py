"""Differences between two logs: comparison of sums, the rows that a user gets, and the JSON report.  Pure.

A scope is the unit of comparison: a partition with the one of the same number, or the whole topic (partition None) if a
mirror partitioned it differently.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from kafkawire.unmatched import SOURCE, TARGET
from sparkpipeline.audit.figures import Figures
from sparkpipeline.audit.messagematching import BEHIND, CUT, DUPLICATED, FOREIGN, MISSING, GroupKey, MessageGroup
from sparkpipeline.audit.windows import label

REORDERED, MOVED, CHANGED, UNEQUAL = "reordered", "moved", "changed", "unequal"
KINDS = {
    MISSING: "in the source only",
    BEHIND: "in the source only, after the last message that both have: not there yet",
    DUPLICATED: "more often in the target than in the source",
    FOREIGN: "in the target only",
    CUT: "in one log only, before the first message that both have: the other log begins later, by its retention",
    CHANGED: "in both at the same offset, with another key or value",
    REORDERED: "the same messages in another order",
    MOVED: "the same messages with other timestamps",
    UNEQUAL: "sums differ (--no-match: messages were not matched)",
}
COLUMNS = ("topic", "partition", "window", "difference", "messages", "source", "target", "first_offset", "last_offset")


class Scope(NamedTuple):
    topic: str
    partition: int | str | None  # of 0.7 "broker-index"; None: the whole topic

    def __str__(self) -> str:
        return self.topic if self.partition is None else f"{self.topic}/{self.partition}"


def in_order(scopes: Iterable[Scope]) -> list[Scope]:
    """Return the scopes by topic, then by partition number (0.7: broker and index)."""

    def place(scope: Scope) -> tuple[str, tuple[int, ...]]:
        numbers = () if scope.partition is None else tuple(map(int, str(scope.partition).split("-")))
        return scope.topic, numbers

    return sorted(scopes, key=place)


Windowed = Mapping[int, Figures]
Sums = Mapping[Scope, Windowed]
SideSums = dict[str, dict[Scope, dict[int, Figures]]]
NOTHING = Figures()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One row of an audit's output.

    messages       their number; None if only sums are known      source, target   messages in this window, each side
    first_offset, last_offset   of these messages: in the target's log for duplicated, foreign and what the source's
                   retention cut; otherwise in the source's
    """

    topic: str
    partition: int | str | None
    window: str
    difference: str  # one of KINDS
    messages: int | None
    source: int | None
    target: int | None
    first_offset: int | None
    last_offset: int | None

    def row(self) -> tuple[object, ...]:
        """Return its values in the order of COLUMNS."""
        return tuple(getattr(self, name) for name in COLUMNS)


@dataclass(frozen=True, slots=True)
class AuditResult:
    """Result of an audit: the rows that differ, and the sums of all scopes.  block: offsets of a block; 0: sums
    without blocks."""

    differences: tuple[Difference, ...]
    sums: SideSums
    block: int = 0

    def messages(self, side: str) -> int:
        return sum(total(windows) for windows in self.sums[side].values())

    @property
    def scopes(self) -> list[Scope]:
        return in_order({*self.sums[SOURCE], *self.sums[TARGET]})


# ---- of sums ---------------------------------------------------------------------------------------------------------


def by_scope(
    parts: Mapping[tuple[str, int | str], Windowed], keyed: Collection[str]
) -> dict[Scope, dict[int, Figures]]:
    """Return sums of partitions as sums of scopes.  keyed: topics whose partitions are added up; 0.7's always are."""
    sums: dict[Scope, dict[int, Figures]] = {}
    for (topic, partition), windows in parts.items():
        scope = Scope(topic, None if topic in keyed or isinstance(partition, str) else partition)
        into = sums.setdefault(scope, {})
        for window, figures in windows.items():
            added = figures if scope.partition is not None else figures.beside(NOTHING)
            into[window] = into[window].beside(added) if window in into else added
    return sums


def total(windows: Windowed) -> int:
    """Return the number of messages in all windows."""
    return sum(figures.count for figures in windows.values())


def unequal(source: Sums, target: Sums) -> dict[Scope, list[int]]:
    """Return the scopes that differ, with the windows in which they differ."""
    found: dict[Scope, list[int]] = {}
    for scope in in_order({*source, *target}):
        ours, theirs = source.get(scope, {}), target.get(scope, {})
        windows = [
            w for w in sorted({*ours, *theirs}) if not ours.get(w, NOTHING).same(theirs.get(w, NOTHING))
        ]  # fmt: skip
        if windows:
            found[scope] = windows
    return found


def from_sums(
    scope: Scope,
    windows: Iterable[int],
    ours: Windowed,
    theirs: Windowed,
    *,
    block: int = 0,
    otherwise: str = UNEQUAL,
) -> list[Difference]:
    """Return a row for each of these windows, judged by sums alone.  otherwise: kind if messages differ."""
    rows = []
    for window in windows:
        a, b = ours.get(window, NOTHING), theirs.get(window, NOTHING)
        kind = REORDERED if a.same_messages(b) else otherwise
        bounds = [offset for offset in (a.first, a.last) if offset is not None]
        first, last = min(bounds, default=None), max(bounds, default=None)
        many = a.count if kind == REORDERED else None
        rows.append(
            Difference(
                topic=scope.topic,
                partition=scope.partition,
                window=label(window, block),
                difference=kind,
                messages=many,
                source=a.count,
                target=b.count,
                first_offset=first,
                last_offset=last,
            )
        )
    return rows


# ---- of messages that were matched -----------------------------------------------------------------------------------


def from_groups(
    scope: Scope,
    windows: Iterable[int],
    ours: Windowed,
    theirs: Windowed,
    *,
    groups: Mapping[GroupKey, MessageGroup],
    block: int,
) -> list[Difference]:
    """Return the differences in a scope whose messages were matched one by one.

    windows: those whose sums differ.  If every message was matched, their order or their times differ.
    """
    if not groups:
        return _no_odd_ones(scope, windows, ours, theirs)
    rows = []
    for (kind, side, partition, window), group in sorted(groups.items(), key=_place):
        known = window >= 0  # sums of the first pass are by the hour
        rows.append(
            Difference(
                topic=scope.topic,
                partition=partition,
                window=label(window, block, side == TARGET and kind != DUPLICATED),
                difference=kind,
                messages=group.messages,
                source=_count(ours, window, known),
                target=_count(theirs, window, known),
                first_offset=group.first,
                last_offset=group.last,
            )
        )
    return rows


def _place(item: tuple[GroupKey, MessageGroup]) -> tuple[str, int, int, str]:
    (kind, _side, partition, window), group = item
    broker, number = ("", partition) if isinstance(partition, int) else (partition, 0)
    return broker, number, window if window >= 0 else group.first, kind


def _count(windows: Windowed, window: int, known: bool) -> int:
    """Return the messages of the hour; those of the scope if blocks are not counted."""
    return windows.get(window, NOTHING).count if known else total(windows)


def _no_odd_ones(scope: Scope, windows: Iterable[int], ours: Windowed, theirs: Windowed) -> list[Difference]:
    """Return the differences if every message was matched: another order in windows with equal sums, another hour
    in the others."""
    chosen = list(windows)
    reordered = [w for w in chosen if ours.get(w, NOTHING).same_messages(theirs.get(w, NOTHING))]
    moved = sorted({*chosen} - {*reordered})
    return [
        *from_sums(scope, reordered, ours, theirs),
        *from_sums(scope, moved, ours, theirs, otherwise=MOVED),
    ]


# ---- the report ------------------------------------------------------------------------------------------------------

Offsets = Mapping[str, Mapping[str, Mapping[str, list[int]]]]  # side -> topic -> partition -> [start, until]


def document(found: AuditResult, offsets: Offsets, *, allowed: Collection[str], seconds: float) -> dict[str, Any]:
    """Return the JSON report.  equal: no difference; passed: only allowed ones; offsets: the ranges read, by side."""
    return {
        "equal": not found.differences,
        "passed": not mismatches(found.differences, allowed),
        "allowed": sorted(allowed),
        "seconds": round(seconds, 3),
        "messages": {side: found.messages(side) for side in (SOURCE, TARGET)},
        "offsets": offsets,
        "differences": [asdict(row) for row in found.differences],
        "kinds": {kind: KINDS[kind] for kind in sorted({row.difference for row in found.differences})},
        "scopes": [_scope(scope, found) for scope in found.scopes],
    }


def mismatches(differences: Collection[Difference], allowed: Collection[str]) -> list[Difference]:
    """Return the rows that are not allowed."""
    return [row for row in differences if row.difference not in allowed]


def _scope(scope: Scope, found: AuditResult) -> dict[str, Any]:
    sides: dict[str, Windowed] = {side: found.sums[side].get(scope, {}) for side in (SOURCE, TARGET)}
    return {
        "topic": scope.topic,
        "partition": scope.partition,
        **{
            side: {"messages": total(windows), "windows": [_window(n, windows, found.block) for n in sorted(windows)]}
            for side, windows in sides.items()
        },
    }


def _window(window: int, windows: Windowed, block: int) -> dict[str, Any]:
    figures = windows[window]
    return {
        "window": label(window, block),
        "messages": figures.count,
        "value_crcs": figures.value_crcs,
        "content": f"{figures.content:016x}",
        "order": None if figures.order is None else f"{figures.order:016x}",
        "first_offset": figures.first,
        "last_offset": figures.last,
    }
