"""Rows that the load commands print: plans, outcomes and topics.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groundwork.sentences import counted
from kafkawire.model import TopicPartition
from sparkpipeline.ledger.manifests import Manifest, Plan, utc
from sparkpipeline.ledger.reports import Status
from sparkpipeline.load.facts import JobState
from sparkpipeline.load.job import LoadOutcome
from sparkpipeline.load.loadplan import COMPACT, LOAD, REWIND, LoadPlan, LogBounds

BATCH = (
    "batch",
    "kind",
    "ranges",
    "rows",
    "bytes",
    "files",
    "gaps",
    "late",
    "no_time",
    "damaged",
    "seconds",
    "rows_per_s",
)
RANGE = ("batch", "kind", "topic", "partition", "start", "until", "offsets", "task")
TOPIC = ("topic", "partitions", "lag", "kept", "passed")
MINUTE_MS = 60_000


def of_outcome(outcome: LoadOutcome) -> list[dict[str, Any]]:
    """Return a row for each batch of a run."""
    return [of_manifest(manifest) for manifest in outcome.manifests]


def of_manifest(manifest: Manifest) -> dict[str, Any]:
    """Return a row for one batch.

    gaps: offsets without a message, including those deleted before they could be loaded; damaged: those that were
    skipped as damaged; no_time: rows in the hour of the plan instead of their own, None in manifests of releases that
    did not count them."""
    facts = manifest.facts
    ranges = facts.get("ranges", [])
    seconds = max(manifest.committed_ms - manifest.started_ms, 1) / 1000
    skipped = sum(gap["until"] - gap["start"] for gap in facts.get("gaps", []))
    return {
        "batch": manifest.batch,
        "kind": manifest.kind,
        "ranges": len(ranges),
        "rows": manifest.rows,
        "bytes": manifest.bytes,
        "files": len(manifest.files),
        "gaps": sum(row["gaps"] for row in ranges) + skipped,
        "late": facts.get("late", 0),
        "no_time": sum(row["no_time"] for row in ranges) if all("no_time" in row for row in ranges) else None,
        "damaged": sum(row.get("damaged", 0) for row in ranges),  # missing in a manifest: none was left out
        "seconds": round(seconds, 1),
        "rows_per_s": round(manifest.rows / seconds),
    }


def of_plan(plan: Plan) -> list[dict[str, Any]]:
    """Return a row for each range (or group of files, or only the kind)."""
    head = {"batch": plan.batch, "kind": plan.kind}
    if plan.kind in (LOAD, REWIND):
        work = LoadPlan.of(plan)
        return [
            {**head, "topic": rng.topic, "partition": str(rng.partition), "start": rng.start, "until": rng.until,
             "offsets": rng.count, "task": task}
            for task in range(len(work.tasks)) for rng in work.of_task(task)
        ] or [head]  # fmt: skip
    if plan.kind == COMPACT:
        return [{**head, **{name: row[name] for name in ("topic", "partition", "start", "until")}}
                for row in plan.work["groups"]]  # fmt: skip
    return [head]


def of_topics(job_state: JobState, logs: Mapping[TopicPartition, LogBounds] | None) -> list[dict[str, Any]]:
    """Return a row per topic. lag: messages to load; kept: the fewest loaded messages that a partition's log still has;
    passed: the time that every partition has certainly passed. logs None: the cluster was not asked.  For 0.7 lag and
    kept are bytes."""
    topics: dict[str, list[TopicPartition]] = {}
    for tp in {*job_state.positions, *(logs or {})}:
        topics.setdefault(tp.topic, []).append(tp)
    return [_topic(topic, topics[topic], job_state, logs) for topic in sorted(topics)]


def _topic(
    topic: str, tps: list[TopicPartition], job_state: JobState, logs: Mapping[TopicPartition, LogBounds] | None
) -> dict[str, Any]:
    passed = [job_state.passed.get(tp, 0) for tp in tps]
    row: dict[str, Any] = {"topic": topic, "partitions": len(tps), "lag": None, "kept": None,
                           "passed": utc(min(passed)) if min(passed) else None}  # fmt: skip
    if logs is not None:
        there = {tp: logs[tp] for tp in tps if tp in logs}
        at = {tp: job_state.positions.get(tp, log.earliest) for tp, log in there.items()}
        row["lag"] = sum(max(0, log.latest - max(at[tp], log.earliest)) for tp, log in there.items())
        row["kept"] = min((max(0, at[tp] - log.earliest) for tp, log in there.items()), default=None)
    return row


def of_status(state: Status, now_ms: int) -> dict[str, Any]:
    """Return a row for the whole job; ages in whole minutes."""
    newest = state.newest
    return {
        "base": state.base,
        "last_batch": None if newest is None else newest.batch,
        "last_commit": None if newest is None else utc(newest.committed_ms),
        "age_minutes": None if newest is None else (now_ms - newest.committed_ms) // MINUTE_MS,
        "next_batch": state.next_batch,
        "open_plan": state.open_kind,
        "plan_age_minutes": None if state.plan_age_ms is None else state.plan_age_ms // MINUTE_MS,
        "attempts": len(state.attempts),
        "unpublished": ", ".join(str(batch) for batch in state.unpublished) or None,
        "abandoned": ", ".join(str(batch) for batch in state.abandoned) or None,
        "files": state.files,
        "rows": state.rows,
        "bytes": state.bytes,
    }


def alarms(
    summary: Mapping[str, Any],
    topics: list[dict[str, Any]],
    *,
    max_lag: int | None,
    max_age: int | None,
    max_plan_age: int | None,
    unit: str = "messages",
) -> list[str]:
    """Return alarms for values over their threshold. unit: unit of lags."""
    found = []
    lag = sum(row["lag"] or 0 for row in topics)
    if max_lag is not None and lag > max_lag:
        found.append(f"{lag} {unit} wait, more than {max_lag}")
    age = summary["age_minutes"]
    if max_age is not None and lag and (age is None or age > max_age):
        since = "there was no batch yet" if age is None else f"the last batch is {counted(age, 'minute')} old"
        found.append(f"messages wait and {since}")
    open_for = summary["plan_age_minutes"]
    if max_plan_age is not None and open_for is not None and open_for > max_plan_age:
        found.append(
            f"the plan of batch {summary['next_batch']} is open for {counted(open_for, 'minute')}: its runs fail"
        )
    return found
