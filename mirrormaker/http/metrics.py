"""Metrics of a mirror for Prometheus: families built from one report at each scrape.  Needs prometheus-client.

Values that the report does not know are left out instead of shown as 0.  The number of samples by partition is bounded:
a mirror that owns more than MAX_PARTITIONS shows sums by source and topic (for lag in seconds, the largest).

The metrics of the default registry follow: the process, Python, and consumers with metrics.enable.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from prometheus_client import REGISTRY, core
from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from groundwork.tasks import sleep
from mirrormaker.report import GroupReport, MirrorReport, PartitionReport, SourceReport, WorkerReport

MAX_PARTITIONS = 2000  # beyond that the scrape would be megabytes, and Prometheus' memory pays for each label
STATES = ("reading", "stalled", "paused", "throttled", "parked", "waiting", "starting", "looking for leader", "leaving")
BY_PARTITION = ("source", "topic", "partition")
BY_TOPIC = ("source", "topic")


class MirrorMetrics:
    """Metrics of one scrape.  report: the current report; loop_lag_s: largest recent delay of the event loop; more:
    metrics of the workers' default registries as text, each with the worker's number."""

    def __init__(
        self,
        report: Callable[[], MirrorReport],
        loop_lag_s: Callable[[], float],
        more: Callable[[], Sequence[tuple[int, str]]] = tuple,
    ) -> None:
        self._more = more
        self._report = report
        self._loop_lag_s = loop_lag_s

    def collect(self) -> Iterator[Any]:
        """Yield all families; other greenlets run between them."""
        report = self._report()
        for family in families(report, self._loop_lag_s()):
            if family.samples:  # leave out families without samples
                yield family
                sleep(0)
        yield from with_workers(REGISTRY.collect(), self._more())

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """Return the text and its content type for an Accept header."""
        encode, content_type = choose_encoder(accept)
        return encode(self), content_type


def own_metrics() -> str:
    """Return the default registry of this process as text, for with_workers() of another process."""
    return generate_latest(REGISTRY).decode()


def with_workers(own: Iterable[Any], workers: Sequence[tuple[int, str]]) -> Iterator[Any]:
    """Yield the families of this process, and those of its workers with the label `worker`; each name once."""
    found = {family.name: family for family in own}
    for number, text in workers:
        for family in text_string_to_metric_families(text):
            into = found.setdefault(family.name, core.Metric(family.name, family.documentation, family.type))
            into.samples += [
                sample._replace(labels={**sample.labels, "worker": str(number)}) for sample in family.samples
            ]
    yield from found.values()


def families(report: MirrorReport, loop_lag_s: float) -> Iterator[Any]:
    """Yield the families of a report."""
    yield from _of_the_mirror(report, loop_lag_s)
    yield from _of_sources(report)
    yield from _of_the_target(report)
    yield from _of_connections(report)
    yield from _of_topics(report)
    yield from _of_workers(report)
    yield from _of_groups(report)
    if len(report.partitions) <= MAX_PARTITIONS:
        yield from _of_partitions(report.partitions)
    else:
        yield from _of_partitions_by_topic(report.partitions)


def _gauge(name: str, help: str, samples: Iterable[tuple[Sequence[str], float]], labels: Sequence[str] = ()) -> Any:
    family = core.GaugeMetricFamily(f"mirrormaker_{name}", help, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _counter(name: str, help: str, samples: Iterable[tuple[Sequence[str], float]], labels: Sequence[str] = ()) -> Any:
    family = core.CounterMetricFamily(f"mirrormaker_{name}", help, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _of_the_mirror(report: MirrorReport, loop_lag_s: float) -> Iterator[Any]:
    yield core.InfoMetricFamily("mirrormaker_build", "The program.", value={"version": report.release})
    named = {"name": report.name, "target": report.target}
    yield core.InfoMetricFamily("mirrormaker", "Name of the mirror (mirror.name) and its target.", value=named)
    yield _gauge("start_time_seconds", "Unix time of the start in seconds.", [((), report.started_ms / 1000)])
    yield _gauge("ready", "1 if the mirror is ready, as /readyz reports.", [((), int(report.ready))])
    yield _gauge("loop_lag_seconds", "Largest delay of the event loop within a minute.", [((), loop_lag_s)])
    reload = report.reload
    failed, at_ms = (bool(reload.problem), reload.at_ms) if reload is not None else (False, report.started_ms)
    yield _gauge("config_last_reload_successful", "1 if the last reload was applied.", [((), int(not failed))])
    yield _gauge(
        "config_last_reload_timestamp_seconds", "Unix time of the last reload in seconds.", [((), at_ms / 1000)]
    )
    pending = len(reload.pending) if reload is not None else 0
    yield _gauge("config_pending_changes", "Configuration changes that wait for a restart.", [((), pending)])


def _of_groups(report: MirrorReport) -> Iterator[Any]:
    by_group: tuple[tuple[str, str, Callable[[GroupReport], float | None]], ...] = (
        (
            "group_follows",
            "1 if the group follows to the target in all partitions.",
            lambda one: one.state == "following",
        ),
        ("group_repeats", "Messages that the group would read twice in the target.", lambda one: one.repeats),
        ("group_missing", "Messages of the source that the target did not have.", lambda one: one.missing),
        (
            "group_translated_timestamp_seconds",
            "Unix time of the oldest translation of the group's offsets in seconds.",
            lambda one: None if one.translated_at_ms is None else one.translated_at_ms / 1000,
        ),
    )
    for name, help, value in by_group:
        known = [(row, value(row)) for row in report.groups]
        samples = [((row.source, row.group), float(found)) for row, found in known if found is not None]
        yield _gauge(name, help, samples, ("source", "group"))


def _of_sources(report: MirrorReport) -> Iterator[Any]:
    by_source: tuple[tuple[Callable[..., Any], str, str, Callable[[SourceReport], float | None]], ...] = (
        (_gauge, "source_up", "1 if the source is joined and can be read.", lambda one: int(one.state == "running")),
        (_counter, "rebalances", "Rebalances of the group, including retries.", lambda one: one.rebalances),
        (
            _gauge,
            "last_commit_timestamp_seconds",
            "Unix time of the last commit in seconds.",
            lambda one: None if one.committed_at_ms is None else one.committed_at_ms / 1000,
        ),
        (_counter, "commit_failures", "Offsets that could not be committed.", lambda one: one.failed_commits),
        (_gauge, "unowned_partitions", "Partitions that no member of the group owns.", lambda one: one.unowned),
        (_gauge, "waiting", "Topics and partitions that are held back and not copied.", lambda one: waiting[one.name]),
        (_gauge, "held_bytes", "Bytes fetched and not acknowledged.", lambda one: one.held_bytes),
        (
            _gauge,
            "held_bytes_waiting",
            "Bytes of partitions that had no bytes acknowledged for a second.",
            lambda one: sum(one.waiting_bytes.values()),
        ),
        (_gauge, "held_bytes_max", "Sum of queued.max.bytes of all workers.", lambda one: one.max_bytes),
    )
    waiting = Counter(topic.source for topic in report.waiting)
    for family, name, help, value in by_source:
        values = [((source.name,), value(source)) for source in report.sources]
        yield family(name, help, [(key, found) for key, found in values if found is not None], ("source",))
    states = Counter((row.source, row.state) for row in report.partitions)
    every = {(source.name, state) for source in report.sources for state in STATES} | states.keys()
    yield _gauge(
        "partitions", "Partitions that this mirror owns, by state.",
        ((pair, states[pair]) for pair in sorted(every)), ("source", "state"),
    )  # fmt: skip


def _of_the_target(report: MirrorReport) -> Iterator[Any]:
    yield _gauge("target_up", "1 if the target answers.", [((), int(not report.target_state))])
    yield _counter("acked_messages", "Messages that the target acknowledged.", [((), report.messages)])
    yield _counter("acked_bytes", "Bytes that the target acknowledged, as sent (compressed).", [((), report.bytes)])
    yield _gauge("inflight_bytes", "Bytes queued or sent, but not acknowledged.", [((), report.in_flight_bytes)])
    produced = report.produced
    if produced is None:
        return
    yield _counter("produce_requests", "Produce requests.", [((), produced.requests)])
    yield _counter("retries", "Batches that were sent again.", [((), produced.retries)])
    yield _counter(
        "unknown_outcomes", "Attempts with an unknown outcome: the batch may be stored twice.",
        [((), produced.unknown_outcomes)],
    )  # fmt: skip
    errors = (((str(code),), count) for code, count in sorted(produced.errors.items()))
    yield _counter("produce_errors", "Responses with an error, by Kafka's code.", errors, ("code",))


def _of_connections(report: MirrorReport) -> Iterator[Any]:
    rows = [((row.source, row.side, str(row.broker)), row) for row in report.connections]
    labels = ("source", "side", "broker")
    yield _gauge("connections", "Open connections to a broker.", ((key, row.open) for key, row in rows), labels)
    yield _gauge(
        "connections_max", "Connections to a broker at full load.", ((key, row.most) for key, row in rows), labels
    )


def _of_topics(report: MirrorReport) -> Iterator[Any]:
    yield _counter(
        "skipped_messages", "Messages that the configuration left out of the target.",
        sorted(report.left_out.items()), (*BY_TOPIC, "reason"),
    )  # fmt: skip
    yield _counter(
        "dropped_fields", "Messages that lost a field for which the target's format has no room.",
        sorted(report.dropped_fields.items()), (*BY_TOPIC, "field"),
    )  # fmt: skip
    yield _counter(
        "handled_messages", "Messages that message.set.handler sent: copied as fetched, or encoded again.",
        sorted(report.handled.items()), (*BY_TOPIC, "how"),
    )  # fmt: skip
    units = {source.name: source.lag_unit for source in report.sources}
    for unit in ("messages", "bytes"):
        yield _counter(
            f"gap_{unit}", "Messages that the source deleted before they were read.",
            ((key, count) for key, count in sorted(report.gaps.items()) if units.get(key[0], "messages") == unit),
            BY_TOPIC,
        )  # fmt: skip


def _of_workers(report: MirrorReport) -> Iterator[Any]:
    """Yield the families of each worker, if the mirror has several; CPU and memory are in process_*, with the label
    worker."""
    by_worker: tuple[tuple[Callable[..., Any], str, str, Callable[[WorkerReport], float]], ...] = (
        (_gauge, "worker_up", "1 if the worker's process runs and is ready.", lambda one: int(one.ready)),
        (_counter, "worker_restarts", "How often the worker's process was replaced.", lambda one: one.restarts),
        (_gauge, "worker_partitions", "Partitions that the worker owns.", lambda one: one.owned),
        (
            _counter,
            "worker_acked_messages",
            "Messages that the target acknowledged to the worker.",
            lambda one: one.messages,
        ),
        (_counter, "worker_acked_bytes", "Bytes that the target acknowledged to the worker.", lambda one: one.bytes),
        (_gauge, "worker_inflight_bytes", "Bytes queued or sent by the worker.", lambda one: one.in_flight_bytes),
    )
    for family, name, help, value in by_worker:
        yield family(name, help, [((str(one.number),), value(one)) for one in report.workers], ("worker",))


Value = Callable[[PartitionReport], float | None]
VALUES: tuple[tuple[str, str, Value], ...] = (
    ("lag_messages", "Messages not acknowledged yet.", lambda row: row.lag if row.lag_unit == "messages" else None),
    (
        "lag_bytes",
        "Bytes not acknowledged yet (sources of 0.7).",
        lambda row: row.lag if row.lag_unit == "bytes" else None,
    ),
    ("acked_offset", "Offset before which everything is acknowledged.", lambda row: row.done),
    ("committed_offset", "Offset that the group has committed.", lambda row: row.committed),
    ("source_end_offset", "End of the log at the source.", lambda row: row.end),
)
LAG_S = ("lag_seconds", "Age of the lag: seconds since the source's log ended at the partition's offset.")


def _of_partitions(rows: Sequence[PartitionReport]) -> Iterator[Any]:
    labels = [(row.source, row.topic, str(row.partition)) for row in rows]
    for name, help, value in (*VALUES, (*LAG_S, lambda row: row.lag_s)):
        values = zip(labels, map(value, rows), strict=True)
        yield _gauge(name, help, ((key, found) for key, found in values if found is not None), BY_PARTITION)
    states = (((*key, row.state), 1) for key, row in zip(labels, rows, strict=True))
    yield _gauge("partition_state", "1 for the state that the partition is in.", states, (*BY_PARTITION, "state"))


def _of_partitions_by_topic(rows: Sequence[PartitionReport]) -> Iterator[Any]:
    """Yield sums by topic; a sum is left out if the value of one partition is unknown."""
    topics: defaultdict[tuple[str, str], list[PartitionReport]] = defaultdict(list)
    for row in rows:
        topics[row.source, row.topic].append(row)
    for name, help, value in VALUES:
        sums = ((key, _sum(value, of_topic)) for key, of_topic in topics.items())
        yield _gauge(name, f"{help}  Sum of the topic.", ((k, s) for k, s in sums if s is not None), BY_TOPIC)
    largest = (
        (key, max(lags))
        for key, of_topic in topics.items()
        if (lags := [row.lag_s for row in of_topic if row.lag_s is not None])
    )
    yield _gauge(LAG_S[0], f"{LAG_S[1]}  Largest of the topic.", largest, BY_TOPIC)


def _sum(value: Value, rows: Iterable[PartitionReport]) -> float | None:
    total = 0.0
    for row in rows:
        found = value(row)
        if found is None:
            return None
        total += found
    return total
