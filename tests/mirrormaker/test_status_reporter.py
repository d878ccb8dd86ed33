"""Status of a mirror: when systemd hears that all is well, and what a snapshot says."""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

from kafkawire.model import TopicPartition
from mirrormaker.source import SourceState
from mirrormaker.status import Blocked, StatusLine, StatusReporter, total_done
from mirrormaker.systemd import STALL_S, Systemd, Watchdog
from mirrormaker.target import Target
from zkconsumer.engine.status import PartitionStatus

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
    dropped: int = 0
    pending: int = 0

    @property
    def sender(self) -> SimpleNamespace:
        return SimpleNamespace(bytes_pending=self.pending)

    @property
    def state(self) -> SourceState:
        return SourceState("running", self.outage)

    @property
    def source(self) -> Flow:
        return self

    def partitions(self) -> list[PartitionStatus]:
        return self.rows


def target(pending: int = 0, outage: str = "") -> Target:
    return SimpleNamespace(bytes_pending=pending, bytes=0, messages=7, outage=outage)  # type: ignore[return-value]


def watchdog(*flows: Flow) -> Watchdog:
    made = Watchdog(Systemd({}, 1), flows)  # type: ignore[arg-type]
    assert made.stalled(0.0) == []
    return made


def reporter(flow: Flow, pending: int = 0, outage: str = "") -> StatusReporter:
    line, systemd = StatusLine(io.StringIO()), Systemd({}, 1)
    return StatusReporter([flow], [flow], target(pending, outage), terminal=line, systemd=systemd, interval_s=1.0)  # type: ignore[list-item]


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
    for state in ("parked", "looking for leader", "leaving"):
        assert not watchdog(Flow([replace(ROW, state=state)])).stalled(STALL_S + 1)
    assert not watchdog(Flow([replace(ROW, lag=0)])).stalled(STALL_S + 1)


def test_what_is_done_is_counted_across_looks_and_for_new_partitions_since_their_last_commit() -> None:
    tp = TopicPartition("t", 0)
    assert total_done({}, [ROW]) == (10, {tp: 50})
    assert total_done({tp: 45}, [ROW]) == (5, {tp: 50})
    assert total_done({tp: 60}, [ROW]) == (0, {tp: 50})  # a rewind is no work done
    assert total_done({tp: 45}, [replace(ROW, done=None)]) == (0, {})


def test_the_lag_of_a_source_whose_zookeeper_is_silent_is_unknown() -> None:
    for flow in (Flow(trouble="source dc1: ZooKeeper silent for 8 s"), Flow([], "source dc1: …")):
        assert reporter(flow).snapshot().lag is None
    assert reporter(Flow([], assigned=False)).snapshot().lag is None  # back, and nothing is ours again yet
    assert reporter(Flow([])).snapshot().lag == 0  # others own all there is
    assert reporter(Flow()).snapshot().lag == 150


def test_what_is_out_of_reach_is_named_and_hides_no_lag_that_is_known() -> None:
    line = reporter(Flow(outage="broker 0 is gone (for 8 s)"), outage="broker 3 hangs (for 9 s)").line()
    assert "lag 150," in line
    assert line.endswith("; source dc1: broker 0 is gone (for 8 s); target: broker 3 hangs (for 9 s)")


def test_with_a_handler_only_what_the_target_acknowledged_is_a_rate_and_drops_are_counted() -> None:
    flow = Flow()
    assert reporter(flow).snapshot().messages == 10  # from committed 40 to done 50
    flow = Flow(has_handler=True, dropped=3)
    snapshot = reporter(flow).snapshot()
    assert (snapshot.messages, snapshot.dropped) == (7, 3)


def test_the_snapshot_names_what_makes_no_progress() -> None:
    flow = Flow([replace(ROW, parked="corrupt"), replace(ROW, partition=1, lag=None)], waiting={"n": "missing"})
    snapshot = reporter(flow, pending=7).snapshot()
    assert snapshot.parked == (Blocked("t/0", "corrupt"),)
    assert snapshot.waiting == (Blocked("n", "missing"),)
    assert (snapshot.lag, snapshot.owned, snapshot.in_flight_bytes) == (None, 2, 7)


def test_a_lag_in_bytes_is_told_as_such_and_messages_are_those_the_target_took() -> None:
    in_bytes = Flow([replace(ROW, lag=3_100_000), replace(ROW, partition=1, lag=4)], counts_bytes=True)
    snapshot = reporter(in_bytes).snapshot()
    assert (snapshot.lag, snapshot.lag_bytes, snapshot.messages) == (0, 3_100_004, 7)
    assert reporter(Flow()).snapshot().lag_bytes is None
    in_bytes.rows.append(replace(ROW, partition=2, lag=None))
    assert reporter(in_bytes).snapshot().lag is None
