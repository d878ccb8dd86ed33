"""Rows of `topics --explain`: for each topic of a source, whether it is mirrored, by which rule, and its state.
Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkawire.model import PartitionId, TopicPartition
from mirrormaker.report import MirrorReport, PartitionReport
from mirrormaker.selection import Selection

# Worst state first: a topic shows the worst state of its partitions.
STATES = ("parked", "waiting", "looking for leader", "stalled", "paused", "throttled", "starting", "leaving", "reading")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """Known facts about the topics of one source.  `report` is None if no mirror runs."""

    topics: Sequence[str]
    partitions: Mapping[str, Sequence[PartitionId]]
    owners: Mapping[TopicPartition, str] = field(default_factory=dict)
    report: MirrorReport | None = None
    target_is_source: bool = False


def rows_of(selection: Selection, facts: TopicFacts) -> list[dict[str, Any]]:
    """Return a row for each topic."""
    return [_row(selection, facts, topic) for topic in facts.topics]


def _row(selection: Selection, facts: TopicFacts, topic: str) -> dict[str, Any]:
    found = selection.explain(topic, facts.target_is_source)
    partitions = facts.partitions.get(topic, ())
    own = [
        row
        for row in (facts.report.partitions if facts.report is not None else ())
        if row.source == selection.source and row.topic == topic
    ]
    state, reason = _state(own)
    waiting = [
        each.reason
        for each in (facts.report.waiting if facts.report is not None else ())
        if each.source == selection.source and each.name == topic
    ]
    if waiting and state in ("", "reading", "starting"):
        state, reason = "waiting", waiting[0]
    if found.refused:
        state, reason = "refused", found.refused
    owners = sorted({facts.owners[tp] for tp in (TopicPartition(topic, p) for p in partitions) if tp in facts.owners})
    owned = sum(TopicPartition(topic, p) in facts.owners for p in partitions)
    if found.mirrored and not state and facts.report is not None:
        state = "owned by others" if owned else "without owner"
    return {
        "source": selection.source,
        "topic": topic,
        "partitions": len(partitions),
        "mirrored": found.mirrored,
        "rule": found.rule,
        "target": found.target,
        "naming": found.naming,
        "overrides": list(found.overrides),
        "owned_here": len(own),
        "owners": owners,
        "route": next((row.route for row in own if row.route), ""),
        "state": state,
        "reason": reason,
    }


def _state(rows: Sequence[PartitionReport]) -> tuple[str, str]:
    """Return the worst state of a topic's partitions, with its reason."""
    if not rows:
        return "", ""
    worst = min(rows, key=lambda row: STATES.index(row.state) if row.state in STATES else len(STATES))
    alike = sum(row.state == worst.state for row in rows)
    state = worst.state if alike == len(rows) else f"{worst.state} ({alike} of {len(rows)})"
    return state, worst.reason
