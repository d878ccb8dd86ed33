"""The one blocking reader of a log, from brokers that speak real bytes: a test for each row of its table."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

from kafkawire.cluster import logreader
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.leaders import ListedLeaders, NoLeader
from kafkawire.cluster.logreader import RETENTION, Gap, LogRange, LogReader, NothingRead
from kafkawire.dialects import dialect
from kafkawire.errors import BrokerError, LinkLost, WireError
from kafkawire.fetched import Came, Damaged, MessageTooLarge
from kafkawire.model import Broker, BrokerPartition, TopicPartition
from kafkawire.net.links import Links
from localkafka.seven import entries
from localkafka.seven.node import Node07
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.fakes.broker import Close, Fail, FakeCluster, LeaveOut, Throttle, entry, gzipped

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PASSING = (-1, 2, 3, 5, 6, 9, 56, 74, 75, 78)


class WholeOnly(FakeCluster):
    """As 3.x, for requests of 0.8: nothing of an entry that is larger than the fetch, and no error."""

    def slice(self, broker: int, tp: tuple[str, int], offset: int, max_bytes: int) -> tuple[int, int, bytes]:
        code, end, data = super().slice(broker, tp, offset, max_bytes)
        cut = len(data) < 12 or len(data) < 12 + int.from_bytes(data[8:12], "big")
        return code, end, b"" if cut else data


class Deposed(FakeCluster):
    """Broker 1 does not know that another broker leads t/0: it answers fetches with nothing."""

    def slice(self, broker: int, tp: tuple[str, int], offset: int, max_bytes: int) -> tuple[int, int, bytes]:
        found = super().slice(broker, tp, offset, max_bytes)
        return (0, offset, b"") if found[0] == 6 and broker == 1 else found


class Clock:
    """Time passes in waits, and a little whenever it is read."""

    def __init__(self) -> None:
        self.now = 0.0
        self.then: list[Callable[[], object]] = []  # one is called at each wait

    def __call__(self) -> float:
        self.now += 0.001
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.then:
            self.then.pop(0)()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """t/0 is led by broker 1, t/1 by broker 2."""
    with FakeCluster({"t": 2}, brokers=2) as running:
        yield running


Open = Callable[..., LogReader]


@pytest.fixture
def opened(clock: Clock) -> Iterator[Open]:
    """Makes a reader of a cluster."""
    links = Links("test", socket.create_connection, 5000)

    def made(cluster: FakeCluster, **options: object) -> LogReader:
        client = KafkaClient.of_brokers(cluster.bootstrap, links, dialect("0.8.2"))
        client._now = clock
        given = {"purpose": "test", "wait_ms": 10, "sleep": clock.sleep, "now": clock, **options}
        return LogReader(client, **given)  # type: ignore[arg-type]

    yield made
    links.end()


@pytest.fixture
def reader(opened: Open, cluster: FakeCluster) -> LogReader:
    return opened(cluster)


def fill(cluster: FakeCluster, count: int, partition: int = 0) -> None:
    for n in range(count):
        cluster.append("t", partition, entry(b"%d" % n))


def read(reading: LogRange) -> tuple[list[bytes | None], list[Gap]]:
    """Values, and gaps."""
    values: list[bytes | None] = []
    gaps: list[Gap] = []
    for found in reading:
        if isinstance(found, Gap):
            gaps.append(found)
        else:
            values += [message.value for message in found.messages.messages()]
    return values, gaps


def numbers(*which: int) -> list[bytes | None]:
    return [b"%d" % n for n in which]


def test_a_range_is_read_to_its_end_also_of_wrappers_and_from_within_one(
    cluster: FakeCluster, reader: LogReader
) -> None:
    fill(cluster, 3)
    cluster.append("t", 0, gzipped(b"".join(entry(b"%d" % n) for n in range(3, 7))))
    assert read(reader.range(T0, 0, 7)) == (numbers(*range(7)), [])
    assert read(reader.range(T0, 5, 7)) == (numbers(5, 6), [])
    assert read(reader.range(T1, 0, 0)) == ([], [])


@pytest.mark.parametrize("code", PASSING)
def test_what_passes_is_asked_again(cluster: FakeCluster, reader: LogReader, code: int) -> None:
    fill(cluster, 3)
    for api in ("list_offsets", "fetch"):
        cluster.script(api, Fail(code), Fail(code))
    begin, end = reader.begin(T0), reader.end(T0)
    assert read(reader.range(T0, begin, end)) == (numbers(0, 1, 2), [])


def test_what_a_broker_does_not_answer_for_is_asked_again(cluster: FakeCluster, reader: LogReader) -> None:
    fill(cluster, 3)
    cluster.script("fetch", Throttle(), LeaveOut(("t", 0)))
    assert read(reader.range(T0, 0, 3)) == (numbers(0, 1, 2), [])


def test_a_leader_that_moved_and_a_link_that_broke_cost_nothing(cluster: FakeCluster, opened: Open) -> None:
    tried: list[WireError] = []
    reader = opened(cluster, retrying=tried.append)
    fill(cluster, 4)
    assert read(reader.range(T0, 0, 4))[0] == numbers(0, 1, 2, 3)
    cluster.move("t", 0, 2)
    cluster.script("fetch", None, Close(), Fail(5))
    assert read(reader.range(T0, 0, 4)) == (numbers(0, 1, 2, 3), [])
    assert [type(why) for why in tried] == [BrokerError, LinkLost, BrokerError]
    assert {seen.broker for seen in cluster.seen("fetch")} == {1, 2}


def test_a_leader_that_was_deposed_and_does_not_know_it_is_left(opened: Open, clock: Clock) -> None:
    with Deposed({"t": 1}, brokers=2) as cluster:
        reader = opened(cluster)
        fill(cluster, 2)
        reading, seen = reader.range(T0, 0), []
        for found in reading:
            assert not isinstance(found, Gap)
            seen += [message.value for message in found.messages.messages()]
            if found.moves and reading.offset == 2:
                cluster.move("t", 0, 2)
                cluster.append("t", 0, entry(b"2"))
            elif not found.moves:
                clock.now += 1.0
            if reading.offset == 3:
                break
        assert seen == numbers(0, 1, 2)


def test_a_refusal_that_does_not_pass_is_raised_at_once(cluster: FakeCluster, reader: LogReader, clock: Clock) -> None:
    fill(cluster, 1)
    cluster.script("fetch", Fail(29))
    with pytest.raises(BrokerError, match=r"t/0 at 0 on broker 1 .*TopicAuthorizationFailed"):
        read(reader.range(T0, 0, 1))
    assert clock.now < 1


def test_an_entry_larger_than_the_fetch_is_asked_for_with_what_it_needs(cluster: FakeCluster, opened: Open) -> None:
    reader = opened(cluster, fetch_bytes=64, max_fetch_bytes=2000)
    cluster.append("t", 0, entry(b"1") + entry(b"2" * 1000) + entry(b"3"))
    assert read(reader.range(T0, 0, 3)) == ([b"1", b"2" * 1000, b"3"], [])
    assert len(cluster.seen("fetch")) == 4
    cluster.append("t", 1, entry(b"2" * 3000))
    with pytest.raises(MessageTooLarge, match=r"t/1 at 0 on broker 2 .*needs at least 3026 bytes, max_bytes is 2000"):
        read(reader.range(T1, 0, 1))


def test_an_entry_of_which_a_later_broker_sends_nothing_until_it_fits_is_read(opened: Open) -> None:
    with WholeOnly({"t": 1}) as cluster:
        reader = opened(cluster, fetch_bytes=60, max_fetch_bytes=1000, patience_s=0.1)
        cluster.append("t", 0, entry(b"x" * 400))
        assert read(reader.range(T0, 0, 1)) == ([b"x" * 400], [])
        cluster.append("t", 0, entry(b"x" * 4000))
        with pytest.raises(NothingRead, match="a fetch of 1000 bytes brings nothing of it"):
            read(reader.range(T0, 1, 2))


def test_what_retention_takes_while_it_is_read_is_a_gap(cluster: FakeCluster, reader: LogReader) -> None:
    fill(cluster, 6)
    with cluster.lock:
        del cluster.logs["t", 0].entries[:4]
    values, [gap] = read(reader.range(T0, 1, 6))
    assert values == numbers(4, 5)
    assert (gap.first, gap.until, gap.why) == (1, 4, RETENTION)
    _, [gap] = read(reader.range(T0, 1, 3))
    assert (gap.first, gap.until) == (1, 3)


def test_an_offset_behind_the_end_may_come_back_with_another_leader(
    cluster: FakeCluster, reader: LogReader, clock: Clock
) -> None:
    """A short log of a follower that leads for a moment is no reason to skip anything."""
    fill(cluster, 2)
    clock.then = [lambda: fill(cluster, 4)]
    assert len(read(reader.range(T0, 4, 6))[0]) == 2
    with pytest.raises(NothingRead, match=r"OffsetOutOfRange \(1\)"):
        read(reader.range(T0, 9, 12))


def test_behind_a_damaged_entry_reading_goes_on(cluster: FakeCluster, reader: LogReader) -> None:
    fill(cluster, 6)
    with cluster.lock:
        log = cluster.logs["t", 0].entries
        log[3] = 3, log[3][1][:8] + b"\xff" * 4 + log[3][1][12:]
    for start in (0, 3):
        values, [gap] = read(reader.range(T0, start, 6))
        assert values == [b"%d" % n for n in range(start, 6) if n != 3]
        assert (gap.first, gap.until) == (3, 4)
        assert isinstance(gap.error, Damaged)


def test_a_caller_that_finds_damage_inside_an_entry_says_where_to_go_on(
    cluster: FakeCluster, reader: LogReader
) -> None:
    fill(cluster, 4)
    reading = reader.range(T0, 0, 4)
    starts = []
    for found in reading:
        assert not isinstance(found, Gap)
        starts.append(found.messages.start)
        if found.messages.start == 0:
            reading.offset = 2
    assert starts == [0, 2]


def test_silence_is_shown_and_waited_out_where_the_range_has_an_end(
    cluster: FakeCluster, reader: LogReader, clock: Clock
) -> None:
    fill(cluster, 2)
    came: list[Came] = []
    with pytest.raises(NothingRead, match=r"nothing was read of t/0 for 30 s; its end is not replicated"):  # noqa: PT012
        for found in reader.range(T0, 0, 3):
            assert not isinstance(found, Gap)
            came.append(found.came)
            clock.now += 10
    assert came == [Came.MESSAGES, Came.NOTHING, Came.NOTHING, Came.NOTHING]
    reading = reader.range(T0, 2)
    for number, found in enumerate(reading):
        assert not isinstance(found, Gap)
        assert found.came is Came.NOTHING
        clock.now += 100
        if number == 3:
            break


def test_an_end_that_the_caller_brings_forward_ends_the_range(cluster: FakeCluster, reader: LogReader) -> None:
    fill(cluster, 2)
    reading = reader.range(T0, 0, 5)
    for found in reading:
        if not isinstance(found, Gap) and not found.moves:
            reading.until = 2
    assert reading.offset == 2


def test_a_leader_that_stays_away_is_waited_for_once(
    cluster: FakeCluster, opened: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logreader, "SHORT_S", 3.0)
    reader = opened(cluster)
    fill(cluster, 1, partition=1)
    cluster.leave_leaders(2)
    cluster.stop(2)
    for waited in (30, 3):
        began = clock.now
        with pytest.raises(NothingRead, match=f"nothing was read of t/1 for {waited} s: ") as raised:
            read(reader.range(T1, 0, 1))
        assert isinstance(raised.value.why, LinkLost)
        assert waited <= clock.now - began < waited + 5


def test_without_patience_the_reason_is_raised_at_once(cluster: FakeCluster, opened: Open, clock: Clock) -> None:
    reader = opened(cluster, patience_s=0)
    cluster.script("fetch", Fail(6), Close())
    with pytest.raises(BrokerError, match="NotLeaderForPartition"):
        read(reader.range(T0, 0))
    with pytest.raises(LinkLost):
        read(reader.range(T0, 0))
    with pytest.raises(NoLeader, match="t/7: partition does not exist"):
        read(reader.range(TopicPartition("t", 7), 0))
    assert clock.now < 1


def test_of_bytes_what_is_damaged_costs_the_rest_of_the_range(broker07: Node07, unique: Unique) -> None:
    topic, here = unique.topic(), Broker(0, "127.0.0.1", broker07.port)
    log = entries.plain([b"one", b"two", b"three"])
    with broker07.client() as link:
        link.produce(topic, 0, log)
        wait_until(lambda: link.offsets(topic, 0)[0] == len(log), 10, "the messages")
    tp, links = TopicPartition(topic, BrokerPartition(0, 0)), Links("test", socket.create_connection, 5000)
    reader = LogReader(KafkaClient(ListedLeaders([here]), links, dialect("0.7.2")), purpose="test", wait_ms=10)
    assert (reader.begin(tp), reader.end(tp)) == (0, len(log))
    assert read(reader.range(tp, 13, len(log))) == ([b"two", b"three"], [])
    values, [gap] = read(reader.range(tp, 2, len(log)))
    assert (values, gap.first, gap.until) == ([], 2, len(log))
    assert "a position inside a message looks like this too" in gap.why
    with pytest.raises(Damaged):
        read(reader.range(tp, 2))
    links.end()
