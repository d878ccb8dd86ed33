"""Sentences about what needs attention in a mirror, for `mirrormaker status` and the status page.  Pure.

Each sentence is shown once.  One outage makes the mirror not ready, changes the target's state, and is the reason of a
source and of each of its partitions: the sentence is shown at the first of these, and the partitions are only named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from mirrormaker.limits import clock
from mirrormaker.report import MirrorReport, PartitionReport, as_json

BAD, WARN = "bad", "warn"
BAD_STATES = ("parked", "out of reach", "refused")
ORDER = ("parked", "looking for leader", "stalled", "paused", "throttled")
MAX_NAMES, MAX_GROUPS = 6, 20
_TIME = re.compile(r"\(for \d+ s[^)]*\)|\bfor (?:up to )?\d+ s\b")


class Attention(NamedTuple):
    """One sentence about a problem, with its level: BAD or WARN."""

    level: str
    text: str


def view(report: MirrorReport) -> dict[str, Any]:
    """Return the report as JSON values together with the attention sentences, as /status and `mirrormaker status` show
    it."""
    return as_json(report) | {"attention": [one._asdict() for one in attention(report)]}


def attention(report: MirrorReport) -> tuple[Attention, ...]:
    """Return the reasons why the mirror, or a part of it, does not copy as configured; the worst first."""
    found: dict[str, Attention] = {}
    for one in _all(report):
        found.setdefault(untimed(one.text), one)
    return tuple(found.values())


def untimed(sentence: str) -> str:
    """Return a sentence without its durations, because workers notice one outage at different moments."""
    return _TIME.sub("", sentence)


def _all(report: MirrorReport) -> Iterator[Attention]:
    for sentence in report.not_ready:
        yield Attention(BAD, f"not ready: {sentence}")
    said = [untimed(sentence) for sentence in report.not_ready]
    if report.target_state and not _in(report.target_state, said):
        yield Attention(BAD, f"target: {report.target_state}")
    for source in report.sources:
        if source.reason and not _in(source.reason, said):
            level = BAD if source.state in BAD_STATES else WARN
            yield Attention(level, f"source {source.name}: {source.state}: {source.reason}")
        if source.unowned:
            counted = f"{source.unowned:,} partition{'s have' if source.unowned > 1 else ' has'}"
            names = "`mirrormaker topics --explain` names the topics"
            yield Attention(BAD, f"source {source.name}: {counted} no owner in the group: {names}")
    if report.reload is not None and report.reload.problem:
        yield Attention(WARN, f"the reload of {clock(report.reload.at_ms)} failed: {report.reload.problem}")
    for sentence in report.reload.pending if report.reload is not None else ():
        yield Attention(WARN, f"pending: {sentence}")
    yield from _partitions(report)
    for topic in report.waiting[:MAX_GROUPS]:
        yield Attention(WARN, f"waiting: {topic.source}: {topic.name}: {topic.reason}")
    if (hidden := len(report.waiting) - MAX_GROUPS) > 0:
        yield Attention(WARN, f"waiting: {hidden:,} more topics and partitions")
    reasons = {row.reason for row in report.partitions}
    for limit in report.limits:  # limits set by an operator, applied to what another member reads now
        if limit.reason not in reasons:
            yield Attention(WARN, f"limit: {limit.source}: {limit.name}: {limit.reason}")


def _in(reason: str, said: list[str]) -> bool:
    return any(untimed(reason) in sentence for sentence in said)


def _partitions(report: MirrorReport) -> Iterator[Attention]:
    """Yield one sentence for all partitions of a source that have the same state and reason."""
    alike: dict[tuple[str, str, str], list[PartitionReport]] = {}
    for row in report.partitions:
        if row.reason and row.state != "waiting":  # the waiting topic already has a sentence of its own
            alike.setdefault((row.state, row.source, untimed(row.reason)), []).append(row)
    groups = sorted(alike.items(), key=lambda item: ORDER.index(item[0][0]) if item[0][0] in ORDER else len(ORDER))
    for (state, source, _), rows in groups[:MAX_GROUPS]:
        names = ", ".join(f"{row.topic}:{row.partition}" for row in rows[:MAX_NAMES])
        more = f" and {len(rows) - MAX_NAMES:,} more" if len(rows) > MAX_NAMES else ""
        reason = own_reason(rows[0].reason, source)
        why = f": {reason}" if reason else ""
        yield Attention(BAD if state in BAD_STATES else WARN, f"{state} {len(rows):,}: {source}: {names}{more}{why}")
    if len(groups) > MAX_GROUPS:
        hidden = sum(len(rows) for _, rows in groups[MAX_GROUPS:])
        yield Attention(WARN, f"{hidden:,} more partitions, for other reasons")


def own_reason(reason: str, source: str) -> str:
    """Return the partition's own reason, or "" if it only repeats the reason of its source or of the target."""
    return "" if reason.startswith(("target: ", f"source {source}: ")) else reason
