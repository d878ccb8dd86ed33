"""Several workers as one mirror: restarts, merged reports, divided throttles, the channel, and what a worker runs."""

from __future__ import annotations

import dataclasses
import io
import json
import pickle
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

from groundwork.options import OptionError, given
from groundwork.tasks import TaskGroup, adopted_socket, deadline
from mirrormaker import exits
from mirrormaker.attention import view
from mirrormaker.changes import NOT_RELOADED
from mirrormaker.commands.cli import outcome
from mirrormaker.commands.online import say_workers
from mirrormaker.commands.status import shown
from mirrormaker.config import Configuration, from_yaml
from mirrormaker.control.server import Refused
from mirrormaker.http.metrics import families, with_workers
from mirrormaker.limits import Limits, Pause, Throttle, limits_of, rows_of
from mirrormaker.offsetmap.file import file_of
from mirrormaker.probe import SourceView
from mirrormaker.report import (
    COPIED,
    ENCODED,
    ConnectionReport,
    MirrorReport,
    ProduceReport,
    ReloadReport,
    WaitingTopic,
    WorkerReport,
    as_json,
    from_json,
)
from mirrormaker.status import StatusLine
from mirrormaker.systemd import Systemd
from mirrormaker.workers import supervisor as supervising
from mirrormaker.workers.channel import Channel
from mirrormaker.workers.control import COMMANDS, WorkersControl
from mirrormaker.workers.merging import NO_PARTITION, ended, merged, shares
from mirrormaker.workers.process import NOT_INHERITED, command_line, unpacked
from mirrormaker.workers.restarts import LONGEST_DELAY_S, MAX_DEATHS, STEADY_S, Again, End, Restarts, exit_code
from mirrormaker.workers.supervisor import Supervisor
from tests.fakes.reports import STARTED_MS, group, happening, partition, report, source

# ---- restarts -------------------------------------------------------------------------------------------------------


def test_a_worker_that_dies_is_started_again_later_each_time_until_it_is_given_up() -> None:
    restarts = Restarts()
    delays = []
    for _ in range(MAX_DEATHS - 1):
        decided = restarts.died(2, -9, lived_s=1, started=True)
        assert isinstance(decided, Again)
        assert "worker 2 ended with SIGKILL; it is started again in" in decided.sentence
        delays.append(decided.delay_s)
    assert delays == [1, 2, 4, 8]
    decided = restarts.died(2, 70, lived_s=1, started=True)
    assert decided == End(
        70,
        "worker 2 died 5 times in a row within 60 s of its start, the last time with exit code 70: the mirror ends",
    )


def test_deaths_of_one_worker_are_not_those_of_another_and_a_steady_one_begins_again() -> None:
    restarts = Restarts()
    for number in (1, 2, 3, 1, 2, 3):
        assert isinstance(restarts.died(number, -11, lived_s=1, started=True), Again)
    again = restarts.died(1, -11, lived_s=STEADY_S, started=True)
    assert isinstance(again, Again)
    assert again.delay_s == 1


@hypothesis_given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from([-9, 0, 70, 75]), st.floats(0, 120))))
def test_the_mirror_ends_exactly_with_the_fifth_quick_death_in_a_row(deaths: list[tuple[int, int, float]]) -> None:
    restarts, lived = Restarts(), {1: [0.0], 2: [0.0], 3: [0.0]}
    for number, code, lived_s in deaths:
        lived[number] = [lived_s] if lived_s >= STEADY_S else [*lived[number], lived_s]
        decided = restarts.died(number, code, lived_s=lived_s, started=True)
        steady = lived[number][0] >= STEADY_S
        in_a_row = len(lived[number]) if steady else len(lived[number]) - 1
        assert isinstance(decided, End) == (in_a_row >= MAX_DEATHS)
        if isinstance(decided, End):
            assert decided.code == (code if code > 0 else exits.INTERNAL)
            return
        assert 1 <= decided.delay_s <= LONGEST_DELAY_S


def test_a_cluster_out_of_reach_never_ends_a_mirror_that_runs() -> None:
    restarts = Restarts()
    for _ in range(3 * MAX_DEATHS):
        again = restarts.died(1, exits.UNREACHABLE, lived_s=30, started=True)
        assert isinstance(again, Again)
        assert again.delay_s == LONGEST_DELAY_S


@pytest.mark.parametrize("code", [exits.USAGE, exits.DATA, exits.STATE_FOLDER, exits.PERMISSION, exits.CONFIGURATION])
def test_what_needs_a_person_ends_the_mirror_as_it_ends_one_daemon(code: int) -> None:
    decided = Restarts().died(1, code, lived_s=1000, started=True)
    assert isinstance(decided, End)
    assert decided.code == code


def test_before_the_mirror_was_ready_an_exit_code_ends_it_and_a_signal_does_not() -> None:
    refused = Restarts().died(1, exits.UNREACHABLE, lived_s=30, started=False)
    assert refused == End(exits.UNREACHABLE, "worker 1 could not start (exit code 69): the mirror ends")
    assert isinstance(Restarts().died(1, -9, lived_s=1, started=False), Again)
    assert isinstance(Restarts().died(1, 0, lived_s=1, started=False), Again)


@pytest.mark.parametrize(
    ("codes", "code"),
    [([], 0), ([0, 0], 0), ([0, 75], 75), ([0, -9], 75), ([75, 70, 0], 70), ([-9, 65], 65), ([78], 78)],
)
def test_the_exit_code_of_all(codes: Sequence[int], code: int) -> None:
    assert exit_code(codes) == code


# ---- reports --------------------------------------------------------------------------------------------------------


def worker(number: int, **changes: Any) -> WorkerReport:
    return WorkerReport(**{"number": number, "pid": 100 + number, "state": "running", "ready": True} | changes)


def connections(**changes: Any) -> ConnectionReport:
    return ConnectionReport(**{"source": "dc1", "side": "source", "broker": 0, "open": 0, "most": 2} | changes)


def blank(**changes: Any) -> MirrorReport:
    nothing: dict[str, Any] = {
        "partitions": (), "messages": 0, "bytes": 0, "messages_per_s": 0.0, "bytes_per_s": 0.0, "in_flight_bytes": 0,
        "sources": (source(state="joining", owned=0, lag=None),),
    }  # fmt: skip
    return report(**nothing | changes)


def test_a_report_comes_back_from_json_as_it_was() -> None:
    made = report(
        left_out={("dc1", "orders", "skip"): 3},
        gaps={("dc1", "orders"): 4},
        dropped_fields={("dc1", "orders", "headers"): 5},
        handled={("dc1", "orders", COPIED): 6},
        connections=(connections(open=1),),
        reload=ReloadReport(at_ms=5, problem="line 3", pending=("target: acks",)),
        produced=ProduceReport(requests=1, retries=0, unknown_outcomes=0, errors={6: 2}),
        not_ready=("it is stopping",),
        happenings=(happening("parked"),),
        sources=(source(merged=("a", "b")),),
        waiting=(WaitingTopic(source="dc1", name="orders", reason="no leader"),),
        workers=(worker(1),),
    )
    assert from_json(json.loads(json.dumps(as_json(made)))) == made


def test_workers_are_one_mirror() -> None:
    one = report(
        partitions=(partition(0), partition(2)),
        messages=10,
        produced=ProduceReport(requests=1, retries=2, unknown_outcomes=3, errors={6: 2}),
        sources=(source(owned=2, lag=7, rebalances=3, committed_at_ms=5, failed_commits=0),),
        left_out={("dc1", "orders", "skip"): 3},
        handled={("dc1", "orders", COPIED): 6},
        connections=(connections(open=1), connections(side="target", open=1)),
        happenings=(happening("later", at_ms=STARTED_MS + 2),),
    )
    two = report(
        partitions=(partition(1),),
        messages=5,
        produced=ProduceReport(requests=1, retries=0, unknown_outcomes=0, errors={6: 1, 7: 1}),
        sources=(source(owned=1, lag=3, rebalances=2, committed_at_ms=9),),
        left_out={("dc1", "orders", "skip"): 1},
        handled={("dc1", "orders", COPIED): 1, ("dc1", "orders", ENCODED): 2},
        connections=(connections(open=2), connections(side="target", broker=1)),
        happenings=(happening("first", at_ms=STARTED_MS + 1),),
    )
    found = merged(blank(), [worker(1), worker(2)], {1: one, 2: two}, blank())
    assert [row.partition for row in found.partitions] == ["0", "1", "2"]
    assert (found.messages, found.messages_per_s, found.left_out) == (15, 240.0, {("dc1", "orders", "skip"): 4})
    assert found.produced == ProduceReport(requests=2, retries=2, unknown_outcomes=3, errors={6: 3, 7: 1})
    assert found.sources == (source(owned=3, lag=10, rebalances=5, committed_at_ms=9, failed_commits=0),)
    assert found.handled == {("dc1", "orders", COPIED): 7, ("dc1", "orders", ENCODED): 2}
    assert found.connections == (
        connections(open=3, most=4), connections(side="target", open=1), connections(side="target", broker=1),
    )  # fmt: skip
    assert ended(found, 1, one).handled == {("dc1", "orders", COPIED): 13, ("dc1", "orders", ENCODED): 2}
    assert [each.text for each in found.happenings] == ["worker 2: first", "worker 1: later"]
    assert [(row.number, row.owned, row.messages) for row in found.workers] == [(1, 2, 10), (2, 1, 5)]
    assert found.ready


def test_a_group_that_follows_in_the_partitions_of_several_workers_is_one_row_with_the_worst_state() -> None:
    one = report(groups=(group(partitions=2, repeats=30, missing=1, translated_at_ms=5), group(group="a")))
    two = report(groups=(group(state="waiting", reason="not copied yet", repeats=4, missing=2, translated_at_ms=3),))
    found = merged(blank(), [worker(1), worker(2)], {1: one, 2: two}, blank()).groups
    both = group(state="waiting", reason="not copied yet", partitions=4, repeats=34, missing=3, translated_at_ms=3)
    assert found == (group(group="a"), both)
    nothing = report(groups=(group(state="waiting", partitions=0, repeats=None, missing=None, translated_at_ms=None),))
    (row,) = merged(blank(), [worker(1)], {1: nothing}, blank()).groups
    assert (row.repeats, row.missing) == (None, None)


def test_what_a_worker_counted_stays_counted_after_its_death() -> None:
    last = report(messages=10, sources=(source(rebalances=4),), happenings=(happening("parked"),))
    past = ended(blank(), 2, last)
    found = merged(blank(), [worker(1), worker(2)], {1: report(messages=5), 2: report(messages=1)}, past)
    assert (found.messages, found.sources[0].rebalances) == (16, 4)
    assert [each.text for each in found.happenings] == ["worker 2: parked"]
    twice = ended(past, 2, last)
    assert (twice.messages, twice.sources[0].rebalances, twice.partitions) == (20, 8, ())


def test_while_a_worker_is_away_the_lag_is_not_known_and_the_mirror_not_ready() -> None:
    away = worker(2, pid=None, state="restarting", ready=False, reason="worker 2 ended with SIGKILL")
    found = merged(blank(), [worker(1), away], {1: report()}, blank())
    assert found.sources[0].lag is None
    assert found.not_ready == ("worker 2: restarting: worker 2 ended with SIGKILL",)


def test_a_reason_of_all_is_said_once_and_that_of_one_with_its_number() -> None:
    both, other = "target: broker 0: refused", "source dc1: joining its group"
    reports = {1: report(not_ready=(both,)), 2: report(not_ready=(both, other))}
    found = merged(blank(), [worker(1), worker(2)], reports, blank())
    assert found.not_ready == (both, f"worker 2: {other}")


def test_a_worker_without_partitions_is_ready_and_says_why_it_copies_nothing() -> None:
    idle = report(partitions=(), sources=(source(owned=0, lag=0),))
    found = merged(blank(), [worker(1), worker(2)], {1: report(), 2: idle}, blank())
    assert found.ready
    assert [row.reason for row in found.workers] == ["", NO_PARTITION]
    assert found.sources[0].lag == 50


def test_the_worst_state_of_a_source_counts_and_each_reason_once() -> None:
    reports = {
        1: report(sources=(source(state="running", reason="a leader is missing"),)),
        2: report(sources=(source(state="out of reach", reason="ZooKeeper silent for 12 s"),)),
        3: report(sources=(source(state="out of reach", reason="ZooKeeper silent for 13 s", lag=None),)),
    }
    (found,) = merged(blank(), [worker(1), worker(2), worker(3)], reports, blank()).sources
    assert found.reason == "a leader is missing; ZooKeeper silent for 13 s"
    assert (found.state, found.lag) == ("out of reach", None)


def test_the_memory_of_a_source_is_that_of_all_workers() -> None:
    reports = {
        1: report(sources=(source(held_bytes=5, max_bytes=10, waiting_bytes={"news": 3}),)),
        2: report(sources=(source(held_bytes=7, max_bytes=10, waiting_bytes={"news": 1, "logs": 2}),)),
    }
    (found,) = merged(blank(), [worker(1), worker(2)], reports, blank()).sources
    assert (found.held_bytes, found.max_bytes, found.waiting_bytes) == (12, 20, {"news": 4, "logs": 2})


def test_a_partition_that_moves_is_shown_once_by_who_keeps_it() -> None:
    leaving, there = partition(0, state="leaving", owner="old"), partition(0, owner="new")
    for rows in ((leaving, there), (there, leaving)):
        reports = {number: report(partitions=(row,)) for number, row in enumerate(rows, 1)}
        found = merged(blank(), [worker(1), worker(2)], reports, blank())
        assert [row.owner for row in found.partitions] == ["new"]


@hypothesis_given(st.lists(st.lists(st.sampled_from(["orders", "clicks"]), max_size=6), min_size=1, max_size=4))
def test_a_throttle_is_divided_by_the_partitions_that_each_worker_owns(owned: list[list[str]]) -> None:
    limits = Limits()
    limits.set_throttle(Throttle(source="dc1", topic="orders", bytes_per_s=1000.0))
    limits.set_throttle(Throttle(source="dc1", messages_per_s=10.0))
    limits.set_pause(Pause(source="dc1", topic="clicks"))
    reports = {
        number: report(partitions=tuple(partition(at, topic=topic) for at, topic in enumerate(topics)))
        for number, topics in enumerate(owned, 1)
    }
    found = shares(limits, reports)
    for key in (("dc1", "orders"), ("dc1", "")):
        parts = {number: parts[key] for number, parts in found.items()}
        mine = {n: sum(key[1] in ("", topic) for topic in topics) for n, topics in enumerate(owned, 1)}
        total = sum(mine.values())
        assert all(0 < part <= 1 for part in parts.values())
        if total:
            assert sum(part for number, part in parts.items() if mine[number]) == pytest.approx(1)
        else:
            assert sum(parts.values()) == pytest.approx(1)


def test_limits_travel_as_rows() -> None:
    limits = Limits()
    limits.set_pause(Pause(source="dc1", topic="orders", partition="3", since_ms=7, kept=True))
    limits.set_throttle(Throttle(source="dc1", topic="", bytes_per_s=1e6, since_ms=8))
    assert list(limits_of(json.loads(json.dumps(rows_of(limits))))) == list(limits)


def test_status_says_what_each_worker_does() -> None:
    rows = (
        worker(1, owned=2, messages_per_s=1200.0, cpu_s=75.0, resident_bytes=64_000_000),
        worker(2, pid=None, state="restarting", reason="worker 2 ended with SIGKILL", restarts=3),
    )
    lines = list(shown(json.loads(json.dumps(view(report(workers=rows)))), None))
    assert "worker 1: running, process 101; 2 partitions, 1,200 messages/s, CPU 1 min, 64 MB" in lines
    assert (
        "worker 2: restarting: worker 2 ended with SIGKILL; 0 partitions, 0 messages/s, started again 3 times" in lines
    )
    assert not [line for line in shown(json.loads(json.dumps(view(report()))), None) if "worker" in line]


# ---- metrics --------------------------------------------------------------------------------------------------------


def test_metrics_of_workers_have_their_number_and_each_name_comes_once() -> None:
    text = (
        "# HELP process_cpu_seconds_total CPU\n# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 3\n"
    )
    own = SimpleNamespace(name="process_cpu_seconds", samples=[])
    found = list(with_workers([own], [(1, text), (2, text)]))
    assert found == [own]
    assert [(sample.name, sample.labels, sample.value) for sample in own.samples] == [
        ("process_cpu_seconds_total", {"worker": "1"}, 3.0),
        ("process_cpu_seconds_total", {"worker": "2"}, 3.0),
    ]


def test_what_each_worker_did_is_a_metric_and_a_daemon_alone_has_none() -> None:
    shown = report(workers=(worker(1, messages=7, restarts=2), worker(2, ready=False)))
    samples = {
        (sample.name, sample.labels.get("worker")): sample.value
        for family in families(shown, 0.0)
        for sample in family.samples
    }
    assert samples["mirrormaker_worker_acked_messages_total", "1"] == 7
    assert samples["mirrormaker_worker_restarts_total", "1"] == 2
    assert (samples["mirrormaker_worker_up", "1"], samples["mirrormaker_worker_up", "2"]) == (1, 0)
    alone = [family.name for family in families(report(), 0.0) if family.samples]
    assert not [name for name in alone if "worker" in name]


# ---- the channel, and commands --------------------------------------------------------------------------------------


def test_both_ends_of_a_channel_speak_and_hear_the_end(tasks: TaskGroup) -> None:
    heard: dict[str, list[dict[str, Any]]] = {"one": [], "two": []}
    ends = [
        Channel(adopted_socket(connection), tasks, name, heard[name].append)
        for name, connection in zip(heard, socket.socketpair(), strict=True)
    ]
    large = {"id": 1, "answer": "x" * 1_000_000}
    ends[0].send(large)
    ends[0].send({"notify": ["READY=1"]})
    ends[1].send({"id": 2, "command": "report", "arguments": {}})
    with deadline(10, "the lines"):
        while len(heard["two"]) < 2 or not heard["one"]:
            ends[0].closed.wait(0.01)
    assert heard["two"] == [large, {"notify": ["READY=1"]}]
    ends[0].close()
    assert ends[1].closed.wait(10)
    ends[1].send({"id": 3})  # nothing happens
    ends[1].close()


class FakeWorker:
    """Answers as a worker does; asked: what it was asked."""

    def __init__(self, number: int, answers: dict[str, Any]) -> None:
        self.number = number
        self.serving, self.pid, self.configuration = True, 1, None
        self.asked: list[tuple[str, Any]] = []
        self._answers = answers

    def ask(self, command: str, arguments: Any = None, timeout_s: float = 0) -> Any:
        self.asked.append((command, dict(arguments or {})))
        found = self._answers[command]
        if isinstance(found, Exception):
            raise found
        return found


class FakeWorkers:
    def __init__(self, *serving: FakeWorker) -> None:
        self.serving = serving
        self.limits: Any = None
        self.level = ""
        self.changes = 0

    def report(self) -> MirrorReport:
        return report()

    def changed(self) -> None:
        self.changes += 1

    def limited(self, rows: Any) -> None:
        self.limits = rows

    def set_level(self, level: str) -> None:
        self.level = level


def asked(workers: FakeWorkers, command: str, **arguments: Any) -> Any:
    return next(WorkersControl(workers).actions()[command](arguments))  # type: ignore[arg-type]


def test_a_limit_is_changed_by_one_worker_and_told_to_the_others() -> None:
    rows = rows_of([Pause(source="dc1", topic="orders")])
    one, two = FakeWorker(1, {"pause": ["paused"], "limits": rows}), FakeWorker(2, {"limits": rows})
    workers = FakeWorkers(one, two)
    assert asked(workers, "pause", what="orders", keep=True) == ["paused"]
    assert one.asked == [("pause", {"what": "orders", "keep": True}), ("limits", {})]
    assert two.asked == [("limits", {"rows": rows})]
    assert (workers.limits, workers.changes) == (rows, 1)


def test_a_limit_that_is_refused_changes_nothing() -> None:
    one, two = FakeWorker(1, {"pause": Refused("no such topic")}), FakeWorker(2, {})
    workers = FakeWorkers(one, two)
    with pytest.raises(Refused, match="no such topic"):
        asked(workers, "pause", what="odrers")
    assert (two.asked, workers.limits) == ([], None)


def parked_row(source: str, number: int) -> dict[str, Any]:
    return {"source": source, "topic": "orders", "partition": number, "at": 3, "lag": 1, "reason": "too large"}


def test_parked_partitions_are_those_of_all_and_their_owner_deals_with_them() -> None:
    one = FakeWorker(1, {"parked": [parked_row("dc1", 1)], "retry": ["1 again"]})
    two = FakeWorker(2, {"parked": [parked_row("dc1", 0)], "retry": ["0 again"], "release": ["skipped"]})
    workers = FakeWorkers(one, two)
    assert [row["partition"] for row in asked(workers, "parked")] == [0, 1]
    assert asked(workers, "retry") == ["1 again", "0 again"]
    one._answers["parked"] = []
    assert asked(workers, "release", what="orders:0", to="skip", execute=True) == ["skipped"]
    assert two.asked[-1] == ("release", {"what": "orders:0", "to": "skip", "execute": True})
    assert workers.changes == 2


def test_a_release_that_two_sources_could_mean_is_refused() -> None:
    workers = FakeWorkers(
        FakeWorker(1, {"parked": [parked_row("dc2", 0)]}), FakeWorker(2, {"parked": [parked_row("dc1", 0)]})
    )
    with pytest.raises(Refused, match="orders:0 is parked in sources dc1 and dc2: choose one with --source"):
        asked(workers, "release", what="orders:0", to="skip")


def test_nothing_parked_is_said_by_one() -> None:
    one, two = FakeWorker(1, {"parked": [], "retry": ["nothing is parked"]}), FakeWorker(2, {"parked": []})
    assert asked(FakeWorkers(one, two), "retry") == ["nothing is parked"]


def test_each_worker_gives_a_profile_of_its_own_or_says_why_not() -> None:
    one, two = FakeWorker(1, {"profile": Refused("another timer runs")}), FakeWorker(2, {"profile": ["stage  runs s"]})
    *waiting, found = WorkersControl(FakeWorkers(one, two)).actions()["profile"]({"seconds": 2})  # type: ignore[arg-type]
    assert found == ["worker 1:", "no profile: another timer runs", "worker 2:", "stage  runs s"]
    assert two.asked == [("profile", {"seconds": 2})]
    assert not any(waiting)


def test_topics_are_explained_by_the_report_of_all() -> None:
    one = FakeWorker(1, {"topics": {"rows": [], "problems": []}})
    asked(FakeWorkers(one), "topics", topics=["orders"])
    ((_, arguments),) = one.asked
    assert from_json(arguments["report"]) == report()


def test_without_a_worker_a_command_is_refused_and_status_answers() -> None:
    for command in COMMANDS:
        if command == "status":
            assert asked(FakeWorkers(), command)["ready"]
        elif command == "set-log-level":
            workers = FakeWorkers()
            asked(workers, command, level="debug")
            assert workers.level == "debug"
        else:
            with pytest.raises(Refused, match="no worker of this mirror is running now"):
                asked(FakeWorkers(), command, what="orders:0", to="skip")


# ---- the supervisor -------------------------------------------------------------------------------------------------


@pytest.fixture
def supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    """One that was not started: its workers have no process."""
    monkeypatch.setattr("mirrormaker.configfile.SETTLED_S", 0.0)  # the file is written whole
    file = written(tmp_path)
    made = Supervisor(
        from_yaml(file),
        lambda: from_yaml(file),
        StatusLine(io.StringIO()),
        Systemd({"WATCHDOG_USEC": "1000000"}, 1),
    )
    yield made
    made._tasks.stop(1.0)
    made._happenings.detach()


def test_before_its_workers_run_a_mirror_is_there_and_not_ready(supervisor: Supervisor) -> None:
    found = supervisor.report()
    assert [(one.state, one.pid) for one in found.workers] == [("starting", None), ("starting", None)]
    assert found.not_ready == ("workers 1, 2: starting",)
    assert (found.sources[0].state, found.sources[0].lag, found.target) == ("joining", None, "kafka1:9092")
    assert supervisor.silent() == []


def test_only_the_watchdogs_own_line_is_a_sign_of_life(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    at = [100.0]
    monkeypatch.setattr(supervising, "now", lambda: at[0])
    worker = supervisor._workers[0]
    supervisor._notified(worker, ["READY=1", "STATUS=well"])
    assert worker.ready
    at[0] += 0.9
    assert not supervisor._hangs(worker)
    supervisor._notified(worker, ["STATUS=still well"])
    at[0] += 0.2
    assert supervisor._hangs(worker)
    supervisor._notified(worker, ["WATCHDOG=1"])
    assert not supervisor._hangs(worker)


def test_a_time_in_which_the_supervisor_could_not_run_is_no_silence_of_its_workers(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = [100.0]
    monkeypatch.setattr(supervising, "now", lambda: at[0])
    worker = supervisor._workers[0]
    supervisor._looked_at = at[0]
    supervisor._notified(worker, ["READY=1", "STATUS=well"])
    at[0] += 50.0  # all were stopped, or this one alone: signs of life that came meanwhile are not read yet
    supervisor._look()
    assert not supervisor._hangs(worker)
    for _ in range(12):
        at[0] += 0.1
        supervisor._look()
    assert worker.pinged_at > 150.5  # its silence was noticed, and it was ended


def test_deaths_lead_to_another_start_and_then_to_the_end(supervisor: Supervisor) -> None:
    worker = supervisor._workers[1]
    worker.report = report(messages=7)
    supervisor._started.set()
    for _ in range(MAX_DEATHS):
        assert supervisor._end is None
        supervisor._died(worker, -9)
    assert worker.restart_at is not None
    assert supervisor._end is not None
    assert supervisor._end.code == exits.INTERNAL
    assert supervisor._end.sentence.startswith("worker 2 died 5 times in a row")
    assert supervisor.report().messages == 7


def test_a_file_that_is_wrong_changes_no_worker(supervisor: Supervisor, tmp_path: Path) -> None:
    one, two = (FakeWorker(number, {"prepare-reload": [], "apply-reload": ""}) for number in (1, 2))
    use(supervisor, one, two)
    written(tmp_path).write_text("sources: [")
    supervisor._read = lambda: from_yaml(tmp_path / "flow.yaml")
    assert "the configuration is left as it is" in supervisor._reload()
    assert (one.asked, two.asked) == ([], [])


def test_a_reload_that_one_worker_cannot_take_is_taken_by_none(supervisor: Supervisor, tmp_path: Path) -> None:
    one = FakeWorker(1, {"prepare-reload": [], "apply-reload": ""})
    two = FakeWorker(2, {"prepare-reload": ["the configuration is left as it is: no such handler"]})
    use(supervisor, one, two)
    assert supervisor._reload() == "the configuration is left as it is: no such handler"
    assert [command for command, _ in one.asked] == ["prepare-reload"]
    two._answers |= {"prepare-reload": [], "apply-reload": ""}
    file = written(tmp_path)
    file.write_text(file.read_text().replace("whitelist: orders", "whitelist: clicks"))
    supervisor._read = lambda: from_yaml(file)
    assert supervisor._reload() == ""
    assert [command for command, _ in two.asked][-2:] == ["prepare-reload", "apply-reload"]
    assert supervisor._configuration.mirror.whitelist == "clicks"


def test_what_waits_for_a_restart_of_all_workers_is_in_the_report(supervisor: Supervisor, tmp_path: Path) -> None:
    use(supervisor, FakeWorker(1, {"prepare-reload": [], "apply-reload": ""}))
    supervisor._started.set()
    file = written(tmp_path)
    file.write_text(file.read_text().replace("kafka1:9092", "kafka7:9092"))
    supervisor._on_hup()
    waits = ("target: option 'metadata.broker.list' has changed; it takes effect after a restart only",)
    for text in (file.read_text(), "sources: ["):
        file.write_text(text)
        supervisor._on_hup()
        reload = supervisor._base().reload
        assert reload is not None
        assert (reload.pending, bool(reload.problem)) == (waits, text == "sources: [")


def test_a_reload_while_the_mirror_stops_is_one_calm_line(
    supervisor: Supervisor, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor._stop.set()
    with caplog.at_level("INFO"):
        supervisor._on_hup()
    assert [(line.levelname, line.message) for line in caplog.records] == [("INFO", NOT_RELOADED)]
    assert supervisor._last_reload is None


def test_workers_reload_what_their_supervisor_read_and_not_what_lies_there_by_then(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    class Replacing(FakeWorker):
        """Its answer comes when the file is another one already."""

        def ask(self, command: str, arguments: Any = None, timeout_s: float = 0) -> Any:
            file.write_text(file.read_text().replace("whitelist: clicks", "whitelist: later"))
            return super().ask(command, arguments, timeout_s)

    one, two = (Replacing(number, {"prepare-reload": [], "apply-reload": ""}) for number in (1, 2))
    use(supervisor, one, two)
    file = written(tmp_path)
    file.write_text(file.read_text().replace("whitelist: orders", "whitelist: clicks"))
    supervisor._read = lambda: from_yaml(file)
    assert supervisor._reload() == ""
    assert "whitelist: later" in file.read_text()
    asked = [worker.asked[0][1]["configuration"] for worker in (one, two)]
    assert [unpacked(text).mirror.whitelist for text in asked] == ["clicks", "clicks"]
    assert supervisor._configuration.mirror.whitelist == "clicks"


def use(supervisor: Supervisor, *workers: FakeWorker) -> None:
    supervisor._workers = list(workers)  # type: ignore[arg-type]


# ---- configuration --------------------------------------------------------------------------------------------------

FILE = """
sources:
  - {name: dc1, zookeeper.connect: "zk1:2181", group.id: mirror, consumer.id: fixed}
target: {metadata.broker.list: "kafka1:9092", target.zookeeper.connect: "zk2:2181"}
mirror: {whitelist: orders, workers: 2, http.listen: 9308, MORE}
"""


def written(tmp_path: Path, more: str = "num.streams: 1") -> Path:
    file = tmp_path / "flow.yaml"
    file.write_text(FILE.replace("MORE", more))
    return file


def test_a_worker_listens_nowhere_and_has_an_id_of_its_own(tmp_path: Path) -> None:
    from mirrormaker.workers.worker import of_worker

    found = from_yaml(written(tmp_path))
    one, two = (of_worker(found, number) for number in (1, 2))
    assert (one.mirror.http_listen, one.mirror.control_socket) == (None, "none")
    assert [each.sources[0].consumer_id for each in (one, two)] == ["fixed-worker1", "fixed-worker2"]
    assert given(one.sources[0]) == given(found.sources[0])


def test_a_configuration_travels_to_a_worker_as_it_is(tmp_path: Path) -> None:
    found = from_yaml(written(tmp_path))
    there: Configuration = pickle.loads(pickle.dumps(found))
    assert there == found
    assert given(there.sources[0]) == given(found.sources[0])
    assert dataclasses.asdict(there.mirror) == dataclasses.asdict(found.mirror)


def test_resume_target_end_is_refused_with_several_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, f"resume: target-end, offset.map.folder: {tmp_path}")
    with pytest.raises(OptionError, match="'workers' is 2 with 'resume: target-end'"):
        from_yaml(file)
    file.write_text(file.read_text().replace("workers: 2", "workers: 1"))
    assert outcome(["check", str(file)]) == 0
    assert outcome(["check", str(file), "--workers", "2"]) == exits.CONFIGURATION
    assert "delivery.guarantee: exactly-once" in capsys.readouterr().err


def test_check_says_what_workers_mean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "num.streams: 2")
    assert outcome(["check", str(file)]) == 0
    said = capsys.readouterr().err
    assert "note: 2 workers: 2 processes, each a member of group mirror, with 2 streams each" in said
    assert "partition.assignment.strategy: roundrobin" in said
    assert "queued.max.bytes applies to each worker" in said
    assert outcome(["check", str(file), "--workers", "1"]) == 0
    assert "worker" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("strategy", "topics", "said"),
    [
        (
            "range",
            {"a": 1, "b": 1},
            "1 of 3 workers would own partitions of 2 topics (range), 2 would stand by",
        ),
        (
            "roundrobin",
            {"a": 1, "b": 1},
            "2 of 3 workers would own partitions of 2 topics (roundrobin), 1 would",
        ),
        ("range", {"a": 8}, "source dc1: 3 of 3 workers would own partitions of 1 topic (range)\n"),
    ],
)
def test_check_online_says_how_many_workers_would_own_something(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], strategy: str, topics: dict[str, int], said: str
) -> None:
    file = written(tmp_path)
    file.write_text(file.read_text().replace("consumer.id: fixed", f"partition.assignment.strategy: {strategy}"))
    found = from_yaml(file)
    found = dataclasses.replace(found, mirror=dataclasses.replace(found.mirror, workers=3))
    say_workers(found, [(found.sources[0], SourceView({}, topics))])
    assert said in capsys.readouterr().err


def test_the_map_of_the_first_worker_is_that_of_a_daemon_alone(tmp_path: Path) -> None:
    assert file_of(tmp_path, "dc1").name == file_of(tmp_path, "dc1", 1).name == "dc1.offsetmap"
    assert file_of(tmp_path, "dc1", 2).name == "dc1.worker2.offsetmap"


def test_a_worker_is_started_by_the_same_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/bin/mirrormaker", "run", "flow.yaml", "--workers", "2"])
    monkeypatch.setattr("sys.orig_argv", ["python", "-I", "/bin/mirrormaker", "run", "flow.yaml", "--workers", "2"])
    monkeypatch.setattr("sys.executable", "/usr/bin/python3")
    assert command_line(2, 7) == [
        "/usr/bin/python3", "-I", "/bin/mirrormaker", "run", "--as-worker", "2:7", "flow.yaml", "--workers", "2",
    ]  # fmt: skip
    assert "NOTIFY_SOCKET" in NOT_INHERITED


def test_the_supervisor_loads_nothing_of_what_copies() -> None:
    import subprocess
    import sys

    code = (
        "import sys, mirrormaker.workers.supervisor;"
        "print([name for name in ('mirrormaker.flow', 'mirrormaker.daemon', 'mirrormaker.source', 'mirrormaker.target',"
        " 'zkconsumer.connector', 'zkconsumer.fetching', 'producer.sender', 'kazoo') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
