"""What a comparison came to: a row for each scope, the first differences, and the exit code they mean.  Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["missing", "duplicated", "only in target"]
MISSING: Kind = "missing"
DUPLICATED: Kind = "duplicated"
FOREIGN: Kind = "only in target"
COLUMNS = (
    "topic", "partition", "source", "target", "missing", "duplicated", "only_in_target", "dead_letters",
    "not_yet_mirrored", "deleted_at_target", "not_compared", "result",
)  # fmt: skip
DIFFERENCE_COLUMNS = (
    "difference", "topic", "partition", "first_offset", "last_offset", "messages", "key_bytes", "value_bytes",
    "value_crc",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeResult:
    """One row: messages compared on each side, and what is different.

    partition         "all": the topic was compared as a whole
    missing           at the source and not at the target        at_least: there may be more
    duplicated        more often at the target than at the source; at-least-once allows them
    only_in_target    at the target and not at the source
    dead_letters      not at the target's topic, and in mirror.dead.letter.topic
    not_yet_mirrored           lag: behind the group's committed offset; messages, of 0.7 bytes
    deleted_at_target  messages of the source that are older than where the target's log begins: retention deleted them
    not_compared      messages that the source's log lost by retention, or that could not be read: see notes
    unreachable       why nothing of it was compared
    """

    topic: str
    partition: str
    source: int
    target: int
    missing: int = 0
    duplicated: int = 0
    only_in_target: int = 0
    dead_letters: int = 0
    not_yet_mirrored: int = 0
    deleted_at_target: int = 0
    not_compared: int = 0
    at_least: bool = False
    notes: tuple[str, ...] = ()
    unreachable: str = ""

    @property
    def result(self) -> str:
        if self.unreachable:
            return "out of reach"
        if self.missing:
            return "differs"
        if self.deleted_at_target and not self.target:
            return "deleted at target"
        if not self.source and (self.not_yet_mirrored or self.not_compared):
            return "not compared"
        return "sound"

    def row(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in COLUMNS}
        if self.at_least:
            values["missing"] = f"≥ {self.missing}"
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Messages of one kind with neighbouring offsets, in the log that they stand in: the source's for missing ones,
    else the target's.  Sizes and CRC-32 are those of the first; None: a null, or it could not be read again."""

    difference: Kind
    topic: str
    partition: str
    first_offset: int
    last_offset: int
    messages: int
    key_bytes: int | None = None
    value_bytes: int | None = None
    value_crc: str | None = None
    source: str | None = None  # name of the source, of missing ones


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """Result of a comparison.  notes: sentences about what was compared, and how; unreachable: reasons for what was
    not."""

    scopes: tuple[ScopeResult, ...]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]
    messages: int  # read of both sides
    seconds: float
    unreachable: tuple[str, ...] = ()

    def sound(self, *, duplicates: bool, foreign: bool) -> bool:
        """Nothing is missing.  duplicates, foreign: whether the target may have such."""
        bad = self.total("missing") + (0 if duplicates else self.total("duplicated"))
        return not bad + (0 if foreign else self.total("only_in_target"))

    def total(self, name: str) -> int:
        return sum(getattr(scope, name) for scope in self.scopes)

    def document(self, sound: bool) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "sound": sound and not self.unreachable,
            "messages": self.messages,
            "seconds": round(self.seconds, 3),
            **{name: self.total(name) for name in COLUMNS[2:-1]},
            "scopes": [dataclasses.asdict(scope) | {"result": scope.result} for scope in self.scopes],
            "differences": [dataclasses.asdict(each) for each in self.differences],
            "notes": list(self.notes),
            "unreachable": list(self.unreachable),
        }

    def sentence(self) -> str:
        """Return the last line on stderr."""
        rate = self.messages / max(self.seconds, 1e-3)
        read = f"{self.messages:,} messages of both clusters read in {self.seconds:.1f} s ({rate:,.0f}/s)"
        parts = [f"{self.total(name):,} {name.replace('_', ' ')}" for name in COLUMNS[4:-1] if self.total(name)]
        lag = "; what is not yet mirrored is no difference: its group has not committed it"
        waits = lag if self.total("not_yet_mirrored") else ""
        return f"{read}: {', '.join(parts) if parts else 'nothing differs'}{waits}"


def runs(offsets: Sequence[int], *, message_offsets: bool) -> Iterable[tuple[int, int, int]]:
    """(first, last, how many) of neighbouring offsets, ascending.  Of 0.7 only equal offsets are neighbours."""
    first = last = None
    count = 0
    step = 1 if message_offsets else 0
    for offset in offsets:
        if first is not None and last is not None and last <= offset <= last + step:
            last, count = offset, count + 1
            continue
        if first is not None and last is not None:
            yield first, last, count
        first = last = offset
        count = 1
    if first is not None and last is not None:
        yield first, last, count
