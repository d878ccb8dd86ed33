"""Readiness: whether everything that a mirror is configured to copy can flow, and each reason why not.  Pure.

Ready means: every source is joined and has its assignment, every cluster answers, and the mirror does not stop.  An
unreachable source makes the mirror not ready even while others flow.  systemd's READY only says that the mirror began,
since a restart would not help.  Parked, paused and waiting partitions do not count: each concerns one topic, and has a
metric and an alert of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from mirrormaker.report import SourceReport

JOINING = "joining its group"


def not_ready(sources: Iterable[SourceReport], target_state: str, *, stopping: bool = False) -> tuple[str, ...]:
    """Return a sentence for each reason why the mirror is not ready; empty if it is ready.

    target_state: why the target cannot be reached, or "" if it answers.
    """
    sentences = ["the mirror is stopping"] if stopping else []
    if target_state:
        sentences.append(f"target: {target_state}")
    for source in sources:
        if why := why_not(source):
            sentences.append(f"source {source.name}: {why}")
    return tuple(sentences)


def why_not(source: SourceReport) -> str:
    """Return why not everything of a source can flow, or "" if it can."""
    if source.state == "running":
        return source.reason
    state = JOINING if source.state == "joining" else source.state
    return f"{state}: {source.reason}" if source.reason else state
