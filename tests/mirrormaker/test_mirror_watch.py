"""When systemd is told that all is well, and when it is not."""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

from kafkawire.model import TopicPartition
from mirrormaker.source import total_done
from mirrormaker.status import Blocked, StatusLine
from mirrormaker.systemd import Systemd
from mirrormaker.watch import STALL_S, Watch
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
class Origin:
    rows: list[PartitionStatus] = field(default_factory=lambda: [ROW])
    trouble: str = ""
    outage: str = ""
    still: list[Blocked] = field(default_factory=list)
    name: str = "dc1"
    settled: bool = True
    counts_bytes: bool = False
    has_handler: bool = False
    dropped: int = 0

    def partitions(self) -> list[PartitionStatus]:
        return self.rows

    def waiting(self) -> list[Blocked]:
        return self.still


def watch(origin: Origin, pending: int = 0, outage: str = "") -> Watch:
    sender = SimpleNamespace(bytes_pending=pending, counters=SimpleNamespace(bytes=0, messages=7), outage=outage)
    made = Watch([origin], sender, StatusLine(io.StringIO()), Systemd({}, 1), 1.0)  # type: ignore[list-item,arg-type]
    assert made.stalled(0.0) is False
    return made


def test_a_partition_that_lags_and_does_not_move_is_a_stall() -> None:
    watching = watch(Origin())
    assert not watching.stalled(STALL_S - 1)
    assert watching.stalled(STALL_S + 1)


def test_one_that_moves_is_none() -> None:
    origin = Origin()
    watching = watch(origin)
    origin.rows = [replace(ROW, done=51)]
    assert not watching.stalled(STALL_S + 1)
    assert watching.stalled(2 * STALL_S + 2)


def test_the_outside_is_never_our_stall() -> None:
    assert not watch(Origin(), pending=10).stalled(STALL_S + 1)  # the target does not acknowledge
    assert not watch(Origin(trouble="ZooKeeper is away")).stalled(STALL_S + 1)
    assert not watch(Origin(still=[Blocked("t", "missing")])).stalled(STALL_S + 1)
    for state in ("parked", "looking for leader", "leaving"):
        assert not watch(Origin([replace(ROW, state=state)])).stalled(STALL_S + 1)
    assert not watch(Origin([replace(ROW, lag=0)])).stalled(STALL_S + 1)


def test_what_is_done_is_counted_across_looks_and_for_new_partitions_since_their_last_commit() -> None:
    tp = TopicPartition("t", 0)
    assert total_done({}, [ROW]) == (10, {tp: 50})
    assert total_done({tp: 45}, [ROW]) == (5, {tp: 50})
    assert total_done({tp: 60}, [ROW]) == (0, {tp: 50})  # a rewind is no work done
    assert total_done({tp: 45}, [replace(ROW, done=None)]) == (0, {})


def test_the_lag_of_a_source_whose_zookeeper_is_silent_is_unknown() -> None:
    for origin in (Origin(trouble="source dc1: ZooKeeper silent for 8 s"), Origin([], "source dc1: …")):
        assert watch(origin).snapshot().lag is None
    assert watch(Origin([], settled=False)).snapshot().lag is None  # back, and nothing is ours again yet
    assert watch(Origin([])).snapshot().lag == 0  # others own all there is
    assert watch(Origin()).snapshot().lag == 150


def test_what_is_out_of_reach_is_named_and_hides_no_lag_that_is_known() -> None:
    line = watch(Origin(outage="source dc1: broker 0 is gone (for 8 s)"), outage="broker 3 hangs (for 9 s)").line()
    assert "lag 150," in line
    assert line.endswith("; source dc1: broker 0 is gone (for 8 s); target: broker 3 hangs (for 9 s)")


def test_with_a_handler_only_what_the_target_acknowledged_is_a_rate_and_drops_are_counted() -> None:
    origin = Origin()
    assert watch(origin).snapshot().messages == 10  # from committed 40 to done 50
    origin = Origin(has_handler=True, dropped=3)
    snapshot = watch(origin).snapshot()
    assert (snapshot.messages, snapshot.dropped) == (7, 3)


def test_the_snapshot_names_what_stands_still() -> None:
    origin = Origin(
        [replace(ROW, parked="corrupt"), replace(ROW, partition=1, lag=None)], still=[Blocked("n", "missing")]
    )
    snapshot = watch(origin, pending=7).snapshot()
    assert snapshot.parked == (Blocked("t/0", "corrupt"),)
    assert snapshot.waiting == (Blocked("n", "missing"),)
    assert (snapshot.lag, snapshot.owned, snapshot.in_flight_bytes) == (None, 2, 7)


def test_a_lag_in_bytes_is_told_as_such_and_messages_are_those_the_target_took() -> None:
    in_bytes = Origin([replace(ROW, lag=3_100_000), replace(ROW, partition=1, lag=4)], counts_bytes=True)
    snapshot = watch(in_bytes).snapshot()
    assert (snapshot.lag, snapshot.lag_bytes, snapshot.messages) == (0, 3_100_004, 7)
    assert watch(Origin()).snapshot().lag_bytes is None
    in_bytes.rows.append(replace(ROW, partition=2, lag=None))
    assert watch(in_bytes).snapshot().lag is None
