"""/metrics of a mirror: what Prometheus' own parser reads from it, and how many samples it has at most."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from mirrormaker.http.metrics import MAX_PARTITIONS, MirrorMetrics
from mirrormaker.report import (
    COPIED,
    ENCODED,
    ConnectionReport,
    MirrorReport,
    ProduceReport,
    ReloadReport,
    WaitingTopic,
)
from tests.fakes.reports import STARTED_MS, partition, report, source

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scraped(shown: MirrorReport, loop_lag_s: float = 0.25) -> Samples:
    """Samples of our own families, by name and labels, as Prometheus' parser reads them."""
    text, content_type = MirrorMetrics(lambda: shown, lambda: loop_lag_s).exposition("")
    assert content_type.startswith("text/plain")
    found: Samples = {}
    for family in text_string_to_metric_families(text.decode()):
        assert family.documentation
        for sample in family.samples:
            if sample.name.startswith("mirrormaker_"):
                key = sample.name.removeprefix("mirrormaker_"), tuple(sorted(sample.labels.items()))
                assert key not in found, key
                found[key] = sample.value
    return found


def one(samples: Samples, name: str, /, **labels: str) -> float:
    return samples[name, tuple(sorted(labels.items()))]


def names(samples: Samples) -> set[str]:
    return {name for name, _ in samples}


PARTITION = {"source": "dc1", "topic": "orders", "partition": "0"}


def test_a_mirror_that_is_well() -> None:
    samples = scraped(report(name="orders"))
    assert one(samples, "build_info", version="0.1.0") == 1
    assert one(samples, "info", name="orders", target="kafka1:9092") == 1
    assert one(samples, "start_time_seconds") == STARTED_MS / 1000
    assert one(samples, "ready") == one(samples, "target_up") == one(samples, "source_up", source="dc1") == 1
    assert one(samples, "loop_lag_seconds") == 0.25
    assert one(samples, "acked_messages_total") == 7200
    assert one(samples, "acked_bytes_total") == 720_000
    assert one(samples, "inflight_bytes") == 3000
    assert one(samples, "lag_messages", **PARTITION) == 50
    assert one(samples, "lag_seconds", **PARTITION) == 1.5
    assert one(samples, "acked_offset", **PARTITION) == 950
    assert one(samples, "committed_offset", **PARTITION) == 900
    assert one(samples, "source_end_offset", **PARTITION) == 1000
    assert one(samples, "partition_state", state="reading", **PARTITION) == 1
    assert one(samples, "partitions", source="dc1", state="reading") == 1
    assert one(samples, "partitions", source="dc1", state="parked") == 0
    assert one(samples, "waiting", source="dc1") == 0


def test_what_is_not_known_is_left_out_and_never_zero() -> None:
    row = partition(lag=None, lag_s=None, done=None, committed=None, end=None)
    samples = scraped(report(partitions=(row,)))
    unknown = {"lag_messages", "lag_bytes", "lag_seconds", "acked_offset", "committed_offset", "source_end_offset"}
    unknown |= {"rebalances_total", "last_commit_timestamp_seconds", "commit_failures_total"}
    unknown |= {"produce_requests_total", "retries_total", "unknown_outcomes_total", "produce_errors_total"}
    unknown |= {
        "connections",
        "connections_max",
        "handled_messages_total",
        "skipped_messages_total",
        "gap_messages_total",
        "gap_bytes_total",
    }
    assert not names(samples) & unknown
    assert one(samples, "partition_state", state="reading", **PARTITION) == 1


def test_what_is_wrong_is_seen() -> None:
    rows = [partition(0, state="parked", reason="too large"), partition(1, state="paused"), partition(2, state="new")]
    samples = scraped(
        report(
            partitions=tuple(rows),
            sources=(
                source(
                    state="out of reach",
                    reason="ZooKeeper",
                    held_bytes=9,
                    max_bytes=20,
                    waiting_bytes={"news": 5, "logs": 1},
                ),
            ),
            target_state="broker 0 refuses",
            not_ready=("source dc1 is out of reach",),
            waiting=(WaitingTopic(source="dc1", name="news", reason="missing"),),
        )
    )
    assert one(samples, "ready") == one(samples, "target_up") == one(samples, "source_up", source="dc1") == 0
    assert one(samples, "waiting", source="dc1") == 1
    memory = [one(samples, name, source="dc1") for name in ("held_bytes", "held_bytes_waiting", "held_bytes_max")]
    assert memory == [9, 6, 20]
    for state in ("parked", "paused", "new"):
        assert one(samples, "partitions", source="dc1", state=state) == 1
    assert one(samples, "partitions", source="dc1", state="reading") == 0


def test_counters_of_requests_commits_and_of_what_is_not_in_the_target() -> None:
    shown = report(
        produced=ProduceReport(requests=10, retries=3, unknown_outcomes=2, errors={6: 4, 19: 1}),
        sources=(
            source(rebalances=5, committed_at_ms=STARTED_MS + 500, failed_commits=1),
            source(name="old", lag_unit="bytes"),
        ),
        left_out={("dc1", "orders", "message.handler"): 12},
        gaps={("dc1", "audit"): 500, ("old", "audit"): 4096},
        handled={("dc1", "orders", COPIED): 5, ("dc1", "orders", ENCODED): 7},
        connections=(ConnectionReport(source="dc1", side="target", broker=3, open=1, most=2),),
    )
    samples = scraped(shown)
    assert one(samples, "connections", source="dc1", side="target", broker="3") == 1
    assert one(samples, "connections_max", source="dc1", side="target", broker="3") == 2
    assert one(samples, "handled_messages_total", source="dc1", topic="orders", how="copied") == 5
    assert one(samples, "handled_messages_total", source="dc1", topic="orders", how="encoded again") == 7
    assert one(samples, "produce_requests_total") == 10
    assert one(samples, "retries_total") == 3
    assert one(samples, "unknown_outcomes_total") == 2
    assert one(samples, "produce_errors_total", code="6") == 4
    assert one(samples, "rebalances_total", source="dc1") == 5
    assert one(samples, "commit_failures_total", source="dc1") == 1
    assert one(samples, "last_commit_timestamp_seconds", source="dc1") == STARTED_MS / 1000 + 0.5
    assert one(samples, "skipped_messages_total", source="dc1", topic="orders", reason="message.handler") == 12
    assert one(samples, "gap_messages_total", source="dc1", topic="audit") == 500
    assert one(samples, "gap_bytes_total", source="old", topic="audit") == 4096


def test_the_last_reload_and_before_it_the_start() -> None:
    began = scraped(report())
    assert one(began, "config_last_reload_successful") == 1
    assert one(began, "config_last_reload_timestamp_seconds") == STARTED_MS / 1000
    failed = scraped(report(reload=ReloadReport(at_ms=STARTED_MS + 9000, problem="line 3")))
    assert one(failed, "config_last_reload_successful") == 0
    assert one(failed, "config_last_reload_timestamp_seconds") == STARTED_MS / 1000 + 9
    pending = scraped(report(reload=ReloadReport(at_ms=0, problem="", pending=("target: acks", "source b is new"))))
    assert one(pending, "config_last_reload_successful") == 1
    assert [one(each, "config_pending_changes") for each in (began, failed, pending)] == [0, 0, 2]


def test_lag_of_07_counts_bytes() -> None:
    samples = scraped(report(partitions=(partition("3-0", lag_unit="bytes"),)))
    assert one(samples, "lag_bytes", source="dc1", topic="orders", partition="3-0") == 50
    assert "lag_messages" not in names(samples)


def test_texts_of_others_are_escaped() -> None:
    reason = 'it said "no\\no"\nand more'
    shown = report(left_out={("dc1", "orders", reason): 1})
    assert one(scraped(shown), "skipped_messages_total", source="dc1", topic="orders", reason=reason) == 1


def many(count: int, **changes: Any) -> MirrorReport:
    """A mirror that owns so many partitions, 100 a topic."""
    rows = tuple(partition(n % 100, topic=f"t{n // 100}", **changes) for n in range(count))
    return report(partitions=rows)


def of_partitions(samples: Samples) -> Samples:
    values = ("lag_messages", "lag_seconds", "acked_offset", "committed_offset", "source_end_offset", "partition_state")
    return {key: value for key, value in samples.items() if key[0] in values}


def test_samples_are_bounded_by_partitions_up_to_a_limit_and_by_topics_beyond_it() -> None:
    at_the_limit = scraped(many(MAX_PARTITIONS))
    assert len(of_partitions(at_the_limit)) == 6 * MAX_PARTITIONS == 12_000
    beyond = scraped(many(MAX_PARTITIONS + 1))
    assert len(of_partitions(beyond)) == 5 * 21  # topics
    assert len(scraped(many(10_000))) - len(of_partitions(scraped(many(10_000)))) == len(at_the_limit) - 12_000
    assert one(beyond, "lag_messages", source="dc1", topic="t0") == 100 * 50
    assert one(beyond, "acked_offset", source="dc1", topic="t20") == 950
    assert one(beyond, "lag_seconds", source="dc1", topic="t0") == 1.5
    assert one(beyond, "partitions", source="dc1", state="reading") == MAX_PARTITIONS + 1


def test_beyond_the_limit_a_sum_with_an_unknown_part_is_left_out_and_the_longest_lag_is_shown() -> None:
    shown = many(MAX_PARTITIONS + 1)
    rows = list(shown.partitions)
    rows[0] = replace(rows[0], lag=None, lag_s=None)
    rows[1] = replace(rows[1], lag_s=7.0)
    samples = scraped(replace(shown, partitions=tuple(rows)))
    assert ("lag_messages", (("source", "dc1"), ("topic", "t0"))) not in samples
    assert one(samples, "lag_messages", source="dc1", topic="t1") == 5000
    assert one(samples, "lag_seconds", source="dc1", topic="t0") == 7.0


def test_openmetrics_where_the_scraper_asks_for_it() -> None:
    text, content_type = MirrorMetrics(report, lambda: 0.0).exposition("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    found = {family.name: family for family in openmetrics_families(text.decode())}
    assert found["mirrormaker_acked_messages"].samples[0].value == 7200


def test_the_process_and_consumers_with_metrics_are_shown_beside_it() -> None:
    text, _ = MirrorMetrics(report, lambda: 0.0).exposition("")
    assert {"process_cpu_seconds", "python"} <= {
        "python" if family.name.startswith("python_") else family.name
        for family in text_string_to_metric_families(text.decode())
    }


@pytest.mark.parametrize("name", ["skipped_messages_total", "gap_messages_total", "produce_errors_total"])
def test_a_counter_that_has_begun_never_falls(name: str) -> None:
    def shown(n: int) -> MirrorReport:
        return report(
            left_out={("dc1", "orders", "r"): n}, gaps={("dc1", "orders"): n},
            produced=ProduceReport(requests=n, retries=n, unknown_outcomes=n, errors={1: n}),
        )  # fmt: skip

    first, then = scraped(shown(3)), scraped(shown(4))
    for (found, labels), value in first.items():
        if found == name:
            assert then[found, labels] == value + 1
