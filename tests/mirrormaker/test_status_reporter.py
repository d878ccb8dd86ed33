"""Reports of a mirror: when systemd hears that all is well, and what a report and the line made of it say."""

from __future__ import annotations

import io
import os
import select
import socket
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from groundwork.tasks import TaskGroup, deadline, sleep
from kafkawire.dialects import Dialect, dialect
from mirrormaker.attention import view
from mirrormaker.commands.status import shown
from mirrormaker.happenings import Happenings
from mirrormaker.intake import Intake
from mirrormaker.report import COPIED, ENCODED, MirrorReport, ReloadReport
from mirrormaker.reporter import STALLED_S, Reporter, newly_done
from mirrormaker.selection import Selection
from mirrormaker.source import SourceState
from mirrormaker.status import Blocked, Snapshot, StatusLine, StatusReporter, snapshot_of
from mirrormaker.systemd import STALL_S, Systemd, Watchdog
from mirrormaker.target import Target
from tests.terminals import leave, terminal
from zkconsumer.engine.status import PartitionStatus
from zkconsumer.offsets.group import StoreStatus
from zkconsumer.offsets.modes import StoreCommit

ROW = PartitionStatus(
    topic="t",
    partition=0,
    owner="g_c-0",
    state="reading",
    position=100,
    done=50,
    committed=40,
    high_watermark=200,
    lag=150,
    buffered_bytes=0,
    parked=None,
)


@dataclass
class Flow:
    """A flow, and its source."""

    rows: list[PartitionStatus] = field(default_factory=lambda: [ROW])
    trouble: str = ""
    outage: str = ""
    waiting: dict[str, str] = field(default_factory=dict)
    name: str = "dc1"
    assigned: bool = True
    counts_bytes: bool = False
    has_handler: bool = False
    left_out: dict[tuple[str, str], int] = field(default_factory=dict)
    dropped_fields: dict[tuple[str, str], int] = field(default_factory=dict)
    handled: dict[tuple[str, str], int] = field(default_factory=dict)
    connections: dict[int, int] = field(default_factory=dict)
    throttle: bool = False
    handler_option: str = "message.handler"
    intake: Intake = field(default_factory=Intake)
    topics: dict[str, object] = field(default_factory=dict)
    gaps: dict[str, int] = field(default_factory=dict)
    dialect: Dialect = field(default_factory=lambda: dialect("0.8.2"))
    pending: int = 0
    options: object = field(
        default_factory=lambda: SimpleNamespace(version="0.8.2", fetchers=2, queued_max_bytes=64_000_000)
    )
    rebalances: int = 3
    offset_stores: tuple[StoreStatus, ...] = ()

    @property
    def sender(self) -> SimpleNamespace:
        counters = SimpleNamespace(bytes=0, messages=7, requests=2, retries=1, unknown=0, errors=Counter({6: 1}))
        return SimpleNamespace(
            bytes_pending=self.pending,
            counters=counters,
            connections=dict.fromkeys(self.connections, 0),
            connections_max=1,
        )

    def state(self, owned: object) -> SourceState:
        reasons = [text.removeprefix("source dc1: ") for text in (self.trouble, self.outage) if text]
        joining = not self.assigned and not self.rows
        state = "out of reach" if self.trouble else "joining" if joining else "running"
        return SourceState(state, "; ".join(reasons))  # type: ignore[arg-type]

    @property
    def source(self) -> Flow:
        return self

    def partitions(self) -> list[PartitionStatus]:
        return self.rows


def target(outage: str = "") -> Target:
    options = SimpleNamespace(address="there:9092")
    return SimpleNamespace(bytes_pending=7, bytes=0, outage=outage, options=options)  # type: ignore[return-value]


def watchdog(*flows: Flow) -> Watchdog:
    made = Watchdog(Systemd({}, 1), flows)  # type: ignore[arg-type]
    assert made.stalled(0.0) == []
    return made


def reporter(flow: Flow, outage: str = "", begun: bool = True) -> Reporter:
    return Reporter(
        sources=[flow],  # type: ignore[list-item]
        flows=[flow] if begun else [],  # type: ignore[list-item]
        target=target(outage),
        selections={"dc1": Selection(source="dc1", whitelist="t", prefix="dc1.")},
        happenings=Happenings(),
    )


def report(flow: Flow, outage: str = "") -> MirrorReport:
    return reporter(flow, outage).report()


def snapshot(flow: Flow) -> Snapshot:
    return snapshot_of(report(flow), 0.0)


def status_line(flow: Flow, outage: str = "") -> str:
    line, systemd = StatusLine(io.StringIO()), Systemd({}, 1)
    return StatusReporter(reporter(flow, outage=outage), terminal=line, systemd=systemd, interval_s=1.0).line()


def test_a_ready_that_systemd_did_not_take_waits_for_no_status_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirrormaker.status.POLL_S", 0.01)
    systemd, tasks = Systemd({"NOTIFY_SOCKET": str(tmp_path / "notify")}, 1), TaskGroup()
    systemd.ready("started")  # nothing listens there yet
    reports = StatusReporter(reporter(Flow()), terminal=StatusLine(io.StringIO()), systemd=systemd, interval_s=3600)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        tasks.spawn("status", reports.run)
        try:
            with deadline(20, "the second READY"):
                while not select.select([manager], [], [], 0)[0]:
                    sleep(0.01)
        finally:
            tasks.stop(5)
        assert manager.recv(1000) == b"READY=1\nSTATUS=started"


def test_a_terminal_that_goes_away_ends_the_status_line_and_not_the_mirror() -> None:
    tasks = TaskGroup()
    with terminal() as (stream, window):
        line = StatusLine(stream)
        reports = StatusReporter(reporter(Flow()), terminal=line, systemd=Systemd({}, 1), interval_s=0.01)
        tasks.spawn("status", reports.run)
        with deadline(20, "the first line"):
            while not select.select([window], [], [], 0)[0]:
                sleep(0.01)
        leave(window)
        with pytest.raises(OSError, match="Input/output error"):
            os.write(stream.fileno(), b"x")
        shown = reports._before
        with deadline(20, "two more lines"):
            while reports._before.at < shown.at + 0.05 and not tasks.dead.is_set():
                sleep(0.01)
        assert tasks.names() == ["status"]
        assert line.rewrites  # SIGHUP is a stop there as before
        tasks.stop(5)


def test_the_line_names_the_topics_that_wait_and_hold_much_of_the_memory() -> None:
    rows = [
        replace(ROW, topic=topic, partition=n, buffered_bytes=held, waiting_bytes=held if waits else 0)
        for n, (topic, held, waits) in enumerate(
            [("logs", 3_000_000, True), ("news", 9_000_000, True), ("news", 8_000_000, True), ("t", 5_000_000, False)]
        )
    ]
    [source] = report(Flow(rows)).sources
    assert (source.held_bytes, source.max_bytes) == (25_000_000, 64_000_000)
    assert source.waiting_bytes == {"logs": 3_000_000, "news": 17_000_000}
    assert "; memory: 20.0 of 64.0 MB wait: news 17.0 MB, logs 3.0 MB" in status_line(Flow(rows))
    assert "memory" not in status_line(Flow(rows[:1]))


def test_a_partition_that_lags_and_does_not_move_is_a_stall() -> None:
    watching = watchdog(Flow())
    assert not watching.stalled(STALL_S - 1)
    assert watching.stalled(STALL_S + 1) == ["dc1"]


def test_one_that_moves_is_none() -> None:
    flow = Flow()
    watching = watchdog(flow)
    flow.rows = [replace(ROW, done=51)]
    assert not watching.stalled(STALL_S + 1)
    assert watching.stalled(2 * STALL_S + 2)


def test_the_trouble_of_one_source_hides_no_stall_of_another() -> None:
    for trouble in ({"trouble": "ZooKeeper is away"}, {"pending": 10}):
        watching = watchdog(Flow(), Flow(name="dc2", **trouble))  # type: ignore[arg-type]
        assert watching.stalled(STALL_S + 1) == ["dc1"]
    moving = Flow(name="dc2")
    watching = watchdog(Flow(), moving)
    moving.rows = [replace(ROW, done=51)]
    assert watching.stalled(STALL_S + 1) == ["dc1"]


def test_the_outside_is_never_our_stall() -> None:
    assert not watchdog(Flow(pending=10)).stalled(STALL_S + 1)  # the target does not acknowledge
    assert not watchdog(Flow(trouble="ZooKeeper is away")).stalled(STALL_S + 1)
    assert not watchdog(Flow(waiting={"t": "missing"})).stalled(STALL_S + 1)
    for state in ("parked", "paused", "throttled", "looking for leader", "leaving"):
        assert not watchdog(Flow([replace(ROW, state=state)])).stalled(STALL_S + 1)
    assert not watchdog(Flow([replace(ROW, lag=0)])).stalled(STALL_S + 1)


def test_what_is_done_is_counted_across_looks_and_for_new_partitions_since_their_last_commit() -> None:
    assert newly_done(None, ROW) == 10
    assert newly_done(45, ROW) == 5
    assert newly_done(60, ROW) == 0  # a rewind is no work done
    assert newly_done(45, replace(ROW, done=None)) == 0
    assert newly_done(None, replace(ROW, committed=None)) == 0


def test_the_lag_of_a_source_whose_zookeeper_is_silent_is_unknown() -> None:
    for flow in (Flow(trouble="source dc1: ZooKeeper silent for 8 s"), Flow([], "source dc1: …")):
        assert snapshot(flow).lag is None
        assert report(flow).sources[0].state == "out of reach"
    assert snapshot(Flow([], assigned=False)).lag is None  # back, and nothing is ours again yet
    assert snapshot(Flow([])).lag == 0  # others own all there is
    assert snapshot(Flow()).lag == 150


def test_what_is_out_of_reach_is_named_and_hides_no_lag_that_is_known() -> None:
    line = status_line(Flow(outage="source dc1: broker 0 is gone (for 8 s)"), outage="broker 3 hangs (for 9 s)")
    assert "lag 150," in line
    assert line.endswith("; source dc1: broker 0 is gone (for 8 s); target: broker 3 hangs (for 9 s)")


def test_with_a_handler_only_what_the_target_acknowledged_is_a_rate_and_drops_are_counted() -> None:
    assert snapshot(Flow()).messages == 10  # from committed 40 to done 50
    by = "message.handler"
    flow = Flow(has_handler=True, left_out={("t", by): 1, ("u", by): 2, ("u", "corrupt, skipped"): 4})
    assert (snapshot(flow).messages, snapshot(flow).dropped, snapshot(flow).left_out) == (7, 3, 4)
    assert report(flow).left_out == {("dc1", *of): count for of, count in flow.left_out.items()}


def test_the_line_names_what_makes_no_progress() -> None:
    flow = Flow([replace(ROW, parked="corrupt"), replace(ROW, partition=1, lag=None)], waiting={"n": "missing"})
    found = snapshot(flow)
    assert found.parked == (Blocked("t/0", "corrupt"),)
    assert found.waiting == (Blocked("n", "missing"),)
    assert (found.lag, found.owned, found.in_flight_bytes) == (None, 2, 7)


def test_a_lag_in_bytes_is_told_as_such_and_messages_are_those_the_target_took() -> None:
    in_bytes = Flow([replace(ROW, lag=3_100_000), replace(ROW, partition=1, lag=4)], counts_bytes=True)
    found = snapshot(in_bytes)
    assert (found.lag, found.lag_bytes, found.messages) == (0, 3_100_004, 7)
    assert snapshot(Flow()).lag_bytes is None
    in_bytes.rows.append(replace(ROW, partition=2, lag=None))
    assert snapshot(in_bytes).lag is None


def test_line_and_status_name_changes_that_wait_for_a_restart() -> None:
    waits = "target: option 'acks' has changed; it takes effect after a restart only"
    found = replace(report(Flow()), reload=ReloadReport(at_ms=1, problem="", pending=(waits,)))
    assert snapshot_of(found, 1).trouble == "1 change of the configuration waits for a restart"
    assert f"pending: {waits}" in list(shown(view(found), None))


def test_each_partition_says_what_it_waits_for() -> None:
    def stated(flow: Flow, outage: str = "") -> tuple[str, str]:
        (partition,) = report(flow, outage=outage).partitions
        return partition.state, partition.reason

    assert stated(Flow([replace(ROW, state="parked", parked="corrupt")])) == ("parked", "corrupt")
    assert stated(Flow(waiting={"t": "target topic t does not exist"})) == ("waiting", "target topic t does not exist")
    assert stated(Flow(waiting={"t/0": "resume: …"})) == ("waiting", "resume: …")
    assert stated(Flow(), "broker 3 hangs") == ("stalled", "target: broker 3 hangs")
    assert stated(Flow([replace(ROW, lag=0)]), "broker 3 hangs") == ("reading", "")
    gone = Flow([replace(ROW, state="looking for leader")], outage="source dc1: broker 0 is gone")
    assert stated(gone) == ("looking for leader", "source dc1: broker 0 is gone")


def test_a_target_that_is_frozen_stalls_its_partitions_before_any_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    at = 1000.0
    monkeypatch.setattr("mirrormaker.reporter.now", lambda: at)
    fetched, unread = replace(ROW, buffered_bytes=9), replace(ROW, partition=1)
    quiet, paused = replace(ROW, partition=2, lag=0), replace(ROW, partition=3, state="paused")
    flow = Flow([fetched, unread, quiet, paused])
    watching = reporter(flow)

    def states() -> list[tuple[str, str]]:
        return [(row.state, row.reason) for row in watching.report().partitions]

    at += STALLED_S - 0.1
    assert {state for state, _ in states()} == {"reading", "paused"}
    at += 0.1
    flow.rows = [replace(fetched, lag=180), unread, quiet, paused]  # the log grows
    assert states() == [
        ("stalled", "fetched and not acknowledged, for up to 5 s"), ("stalled", "nothing is fetched, for up to 5 s"),
        ("reading", ""), ("paused", ""),
    ]  # fmt: skip
    assert (
        "; stalled 2: t/0, t/1"
        in StatusReporter(watching, terminal=StatusLine(io.StringIO()), systemd=Systemd({}, 1), interval_s=1.0).line()
    )
    flow.rows = [replace(fetched, done=51), unread, replace(quiet, lag=5), paused]
    at += 1.0
    assert [state for state, _ in states()] == ["reading", "stalled", "reading", "paused"]


def test_a_source_that_has_not_begun_is_shown_and_the_mirror_is_not_ready() -> None:
    found = reporter(Flow([], assigned=False), begun=False).report()
    assert (found.sources[0].state, found.sources[0].lag, found.partitions) == ("joining", None, ())
    assert found.not_ready == ("source dc1: joining its group",)
    assert report(Flow()).ready
    assert report(Flow(), outage="broker 3 hangs").not_ready == ("target: broker 3 hangs",)


def test_a_report_has_the_offsets_and_the_counts_of_requests() -> None:
    found = report(Flow(gaps={"t": 30}))
    (partition,) = found.partitions
    assert (partition.committed, partition.done, partition.end, partition.lag) == (40, 50, 200, 150)
    assert (partition.lag_s_is_least, partition.owner, partition.target_topic) == (True, "g_c-0", "dc1.t")
    assert found.produced is not None
    assert (found.produced.requests, found.produced.retries, found.produced.errors) == (2, 1, {6: 1})
    assert found.gaps == {("dc1", "t"): 30}


def test_a_report_has_the_connections_of_both_sides_and_what_the_set_handler_sent() -> None:
    found = report(Flow(connections={3: 2, 1: 0}, handled={("t", COPIED): 5, ("t", ENCODED): 7}))
    assert [(row.side, row.broker, row.open, row.most) for row in found.connections] == [
        ("source", 1, 0, 2), ("source", 3, 2, 2), ("target", 1, 0, 1), ("target", 3, 0, 1),
    ]  # fmt: skip
    assert found.handled == {("dc1", "t", COPIED): 5, ("dc1", "t", ENCODED): 7}
    lines = list(shown(view(found), None))
    assert (
        "  connections: source: 0 of 2 to broker 1, 2 of 2 to broker 3; target: 0 of 1 to broker 1, 0 of 1 to broker 3"
        in lines
    )
    assert "handled: dc1: t: 7 messages of message.set.handler encoded again" in lines


def test_a_source_says_how_often_its_group_rebalanced_and_when_an_offset_was_committed() -> None:
    (source,) = report(Flow()).sources
    assert (source.rebalances, source.committed_at_ms, source.failed_commits) == (3, None, None)
    stores = (StoreStatus("zookeeper", 10, 2, StoreCommit(5000, 1)), StoreStatus("kafka", 0, 1, None))
    (source,) = report(Flow(offset_stores=stores)).sources
    assert (source.committed_at_ms, source.failed_commits) == (5000, 3)
