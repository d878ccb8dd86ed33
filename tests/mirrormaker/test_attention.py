"""What needs attention, said once: in `mirrormaker status`, and the same sentences on the status page."""

from __future__ import annotations

from dataclasses import replace

from mirrormaker.attention import attention, view
from mirrormaker.commands.status import shown
from mirrormaker.report import MirrorReport, ReloadReport, WaitingTopic, WorkerReport
from mirrormaker.workers.merging import merged
from tests.fakes.reports import STARTED_MS, partition, report, source

AWAY = "broker 3 (k3:9092): no answer within 15 s (for 20 s)"


def texts(found: MirrorReport) -> list[str]:
    return [one.text for one in attention(found)]


def frozen(seconds: int = 20) -> MirrorReport:
    """A mirror whose target is frozen."""
    away = AWAY.replace("for 20 s", f"for {seconds} s")
    rows = tuple(partition(n, state="stalled", reason=f"target: {away}") for n in range(500))
    return report(partitions=rows, target_state=away, not_ready=(f"target: {away}",))


def test_one_outage_is_one_sentence_and_its_partitions_are_named_behind_it() -> None:
    names = ", ".join(f"orders:{n}" for n in range(6))
    assert texts(frozen()) == [f"not ready: target: {AWAY}", f"stalled 500: dc1: {names} and 494 more"]
    assert "\n".join(shown(view(frozen()), None)).count("no answer within 15 s") == 1


def test_the_outage_of_a_source_is_one_sentence_too() -> None:
    why = "broker 0 (old:9092): connecting: Connection refused (for 8 s, 2 partitions)"
    rows = tuple(partition(n, state="looking for leader", reason=f"source dc1: {why}") for n in range(2))
    found = report(sources=(source(reason=why),), partitions=rows, not_ready=(f"source dc1: {why}",))
    assert texts(found) == [f"not ready: source dc1: {why}", "looking for leader 2: dc1: orders:0, orders:1"]
    assert "\n".join(shown(view(found), None)).count("Connection refused") == 1


def test_workers_that_noticed_one_outage_at_different_moments_say_it_once() -> None:
    workers = [WorkerReport(number=n, pid=n, state="running", ready=True) for n in (1, 2)]
    reports = {n: replace(frozen(20 + n), partitions=()) for n in (1, 2)}
    found = merged(report(partitions=()), workers, reports, report(partitions=(), messages=0, bytes=0))
    assert [text for text in texts(found) if "broker 3" in text] == [f"not ready: target: {AWAY.replace('20', '21')}"]


def test_a_failed_reload_is_said_until_one_succeeds() -> None:
    failed = report(reload=ReloadReport(at_ms=STARTED_MS, problem="orders.yaml: line 3: no mapping"))
    [said] = texts(failed)
    assert said.endswith("failed: orders.yaml: line 3: no mapping")
    assert said in list(shown(view(failed), None))
    assert texts(report(reload=ReloadReport(at_ms=STARTED_MS, problem=""))) == []


def test_a_mirror_that_is_well_has_nothing_to_say() -> None:
    assert texts(report()) == []


def test_the_worst_comes_first_and_thousands_of_reasons_are_counted() -> None:
    rows = [partition(n, state="parked", reason=f"orders/{n} at 7: corrupt") for n in range(30)]
    rows.insert(0, partition(31, state="paused", reason="paused by operator since 12:03"))
    waiting = tuple(WaitingTopic(source="dc1", name=f"t{n}", reason="missing") for n in range(25))
    found = texts(report(partitions=tuple(rows), waiting=waiting))
    assert found[0] == "parked 1: dc1: orders:0: orders/0 at 7: corrupt"
    assert found[20] == "11 more partitions, for other reasons"
    assert found[-1] == "waiting: 5 more topics and partitions"
    assert len(found) == 20 + 1 + 20 + 1


def test_a_limit_on_what_another_member_reads_is_said_and_that_of_own_partitions_once() -> None:
    limit = WaitingTopic(source="dc1", name="clicks", reason="paused by operator since 11:00")
    assert texts(report(limits=(limit,))) == ["limit: dc1: clicks: paused by operator since 11:00"]
    own = partition(0, topic="clicks", state="paused", reason=limit.reason)
    assert texts(report(limits=(limit,), partitions=(own,))) == [f"paused 1: dc1: clicks:0: {limit.reason}"]
