"""A fetcher against a fake broker: what each answer leads to."""

from __future__ import annotations

import math
import queue
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import pytest

from groundwork.queues import BoundedQueue
from groundwork.tasks import Event, TaskGroup, connect, now, sleep
from kafkawire.cluster.recordbatches import FETCH, LogBatches, RecordBatch
from kafkawire.dialects import dialect
from kafkawire.errors import CorruptMessage
from kafkawire.model import Broker, Message, TopicPartition
from kafkawire.net.links import Links
from tests.fakes.broker import Close, Fail, FakeCluster, LeaveOut, Throttle, Wait, entry
from zkconsumer.engine.status import END_OLD_S, status_of
from zkconsumer.errors import ConsumerTimeout, EntryTooLarge, OutOfRange
from zkconsumer.events import ConsumerEvent
from zkconsumer.fetching import formatprobe
from zkconsumer.fetching.brokerfetcher import EMPTY_DISTANCE_S, Fetcher
from zkconsumer.fetching.budget import Budget, StreamBudget
from zkconsumer.fetching.fetchplan import FetchPlan
from zkconsumer.fetching.formatprobe import FormatProbe, FormatWarnings
from zkconsumer.fetching.logbounds import ENDS_S
from zkconsumer.fetching.partitioncursor import Cursor, DeliveredSet
from zkconsumer.fetching.position import Reset
from zkconsumer.listeners import NO_LISTENER, ListenerCalls
from zkconsumer.session.lease import Lease
from zkconsumer.streams.stream import Stream

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Ported(Protocol):
    ports: dict[int, int]


class Fetching:
    """A fetcher at work on a broker, and what it told.  cluster: what has the ports of brokers by id."""

    def __init__(
        self,
        cluster: Ported,
        fetch_bytes: int = 4096,
        max_bytes: int = 8192,
        corrupt: str = "park",
        listener: ListenerCalls = NO_LISTENER,
        release: str = "0.8.2",
        asks_for_formats: bool = False,
        budget_bytes: int = 65536,
    ) -> None:
        self.events: list[ConsumerEvent] = []
        self.sent_home: list[tuple[TopicPartition, str]] = []
        self.outages: list[tuple[TopicPartition, str]] = []
        self.silent_since: list[float] = []
        self.heard: list[TopicPartition] = []
        self.located: list[TopicPartition] = []
        self.budget = Budget(budget_bytes, lambda: self.fetcher.wake())
        self._stream_budget = self.budget.for_stream(1)
        self.lease = Lease()
        self.lease.valid_until = math.inf
        self.channel: BoundedQueue[DeliveredSet] = BoundedQueue(1 << 20, queue.SimpleQueue())
        self.stream = Stream("t-0", self.channel, timeout_ms=0)
        self.tasks = TaskGroup()
        self.links = Links("test", connect, 2000)
        self.fetcher = Fetcher(
            Broker(1, "127.0.0.1", cluster.ports[1]),
            links=self.links,
            dialect=dialect(release),
            plan=FetchPlan(fetch_bytes, max_bytes),
            budget=self.budget,
            max_wait_ms=20,
            min_bytes=1,
            backoff_s=0.01,
            finder=self,
            located=lambda cursors: self.located.extend(c.tp for c in cursors),
            on_event=self.events.append,
            corrupt=corrupt,
            listener=listener,
            spawn=self.tasks.spawn,
            empty_backoff_s=0.05,
            warnings=FormatWarnings(self.events.append, dialect(release)) if asks_for_formats else None,
        )
        self.worker = self.tasks.spawn("fetcher", self.fetcher.run)

    def find_leaders(self, cursors: Iterable[Cursor], why: str) -> None:
        self.sent_home += [(cursor.tp, why) for cursor in cursors]

    def lost(self, broker: Broker, tps: Iterable[TopicPartition], why: str, since: float) -> None:
        self.outages += [(tp, why) for tp in tps]
        self.silent_since.append(since)

    def answered(self, tps: Iterable[TopicPartition]) -> None:
        self.heard += sorted(tps)

    def add(self, tp: TopicPartition, position: int | None, reset: str = "smallest") -> Cursor:
        cursor = self.make(tp, position, None, reset)
        self.fetcher.add(cursor)
        return cursor

    def make(
        self, tp: TopicPartition, position: int | None, budget: StreamBudget | None = None, reset: str = "smallest"
    ) -> Cursor:
        """A cursor that is not fetched."""
        cursor = Cursor(
            tp,
            "g-0",
            lease=self.lease,
            budget=budget or self._stream_budget,
            channel=self.channel,
            reset=reset,
            on_corrupt=self._corrupt,
        )
        if position is not None:
            cursor.apply(cursor.partition.reset_to, position)
        return cursor

    def _corrupt(self, cursor: Cursor, at: int, error: CorruptMessage) -> None:
        cursor.apply(cursor.partition.refetch, at)
        self.fetcher.damaged(cursor, at, error)

    def kinds(self, kind: str) -> list[ConsumerEvent]:
        return [event for event in self.events if event.kind == kind]

    def read(self, count: int) -> list[bytes | None]:
        """So many values, while the fetcher is at work."""
        found: list[bytes | None] = []
        self.until(lambda: found.extend(self.values()) or len(found) >= count)
        return found

    def until(self, there: Callable[[], object], seconds: float = 5) -> None:
        end = now() + seconds
        while not there():
            assert self.tasks.death is None, self.tasks.death
            assert now() < end, f"waited in vain; events {self.events}, home {self.sent_home}"
            sleep(0.005)

    def values(self) -> list[bytes | None]:
        return [message.value for message in self.messages()]

    def messages(self) -> list[Message]:
        """Those that are there now."""
        found = []
        try:
            while True:
                found.append(next(self.stream))
        except ConsumerTimeout:
            return found

    def close(self) -> None:
        self.tasks.stop(1)
        self.links.close()
        assert self.tasks.death is None, self.tasks.death


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster({"t": 2}) as cluster:
        for n in range(5):
            cluster.append("t", 0, entry(b"a%d" % n))
        yield cluster


@pytest.fixture
def fetching(cluster: FakeCluster) -> Iterator[Fetching]:
    fetching = Fetching(cluster)
    yield fetching
    fetching.close()


def test_it_reads_from_the_position_on_and_what_comes_later(cluster, fetching):
    cursor = fetching.add(T0, 2)
    fetching.until(lambda: cursor.partition.position.offset == 5)
    cluster.append("t", 0, entry(b"late"))
    fetching.until(lambda: cursor.partition.position.offset == 6)
    assert fetching.values() == [b"a2", b"a3", b"a4", b"late"]


@pytest.mark.parametrize(("reset", "begins"), [("smallest", 0), ("fail", 0), ("largest", 5)])
def test_without_a_position_it_begins_where_the_reset_policy_says(fetching, reset, begins):
    cursor = fetching.add(T0, None, reset)
    fetching.until(lambda: fetching.located == [T0])
    assert cursor.committable() == begins
    assert fetching.events[0].kind == "start"
    assert cursor.reset is not None
    assert (cursor.reset.to, cursor.reset.wanted, cursor.reset.former) == (begins, None, False)


def test_out_of_range_is_a_gap_of_exact_size_or_a_reset(cluster, fetching):
    with cluster.lock:
        cluster.logs["t", 0].entries = cluster.logs["t", 0].entries[3:]
    cursor = fetching.add(T0, 1)
    fetching.until(lambda: cursor.partition.position.offset == 5)
    (gap,) = fetching.events
    assert (gap.kind, gap.tp, gap.count) == ("gap", T0, 2)
    assert "t/0 at 1: out of range, its log holds 3 to 5; going on at 3, 2 messages are missing" in gap.text
    fetching.events.clear()
    beyond = fetching.add(T1, 9)
    fetching.until(lambda: beyond.partition.position.offset == 0)
    assert [event.kind for event in fetching.events] == ["reset"]
    assert [c.reset is not None and c.reset.sets_back(same_topic=True) for c in (cursor, beyond)] == [False, True]


def test_a_partition_that_is_read_from_its_position_was_never_reset(fetching):
    cursor = fetching.add(T0, 2)
    fetching.until(lambda: cursor.partition.position.offset == 5)
    assert cursor.reset is None


@pytest.mark.parametrize(
    ("reset", "of_another_topic", "of_the_same"),
    [
        (Reset(0), True, False),
        (Reset(0, 9, former=True), True, False),
        (Reset(0, 9), True, True),
        (Reset(9, 3), False, False),
    ],
    ids=["nothing committed", "a former topic", "the log was cut", "a gap"],
)
def test_a_reset_goes_back_where_offsets_may_hold_other_messages_now(reset, of_another_topic, of_the_same):
    assert (reset.sets_back(same_topic=False), reset.sets_back(same_topic=True)) == (of_another_topic, of_the_same)


def test_out_of_range_parks_where_the_policy_is_fail(fetching):
    cursor = fetching.add(T0, 99, "fail")
    fetching.until(lambda: cursor.parked)
    assert "t/0 at 99: out of range" in str(cursor.parked)
    assert "0 to 5" in str(cursor.parked)


def test_a_log_that_is_short_for_a_moment_costs_nothing_that_was_fetched(cluster, fetching):
    cursor = fetching.add(T0, 0)
    fetching.until(lambda: cursor.partition.position.offset == 5)
    cluster.script("fetch", Fail(1))
    fetching.until(lambda: fetching.kinds("leader"))
    cluster.append("t", 0, entry(b"late"))
    assert fetching.read(6) == [b"a0", b"a1", b"a2", b"a3", b"a4", b"late"]
    assert cursor.committable() == 6
    assert [event.kind for event in fetching.events] == ["leader"]


def test_retention_that_overtakes_a_slow_reader_costs_what_is_counted_and_nothing_that_was_fetched(cluster, fetching):
    cursor = fetching.add(T0, 0)
    fetching.until(lambda: cursor.partition.position.offset == 5)
    with cluster.lock:
        cluster.logs["t", 0].end = 8
        cluster.logs["t", 0].entries.clear()
        cluster.append("t", 0, entry(b"a8"))
    fetching.until(lambda: fetching.kinds("gap"))
    assert cursor.committable() == 0
    assert fetching.read(6) == [b"a0", b"a1", b"a2", b"a3", b"a4", b"a8"]
    assert [(gap.count, gap.offset) for gap in fetching.events] == [(3, 5)]
    assert cursor.committable() == 9


def test_a_log_that_was_cut_is_read_from_before_once_what_was_fetched_of_it_is_done(cluster, fetching):
    cursor = fetching.add(T0, 0)
    fetching.until(lambda: cursor.partition.position.offset == 5)
    with cluster.lock:
        log = cluster.logs["t", 0]
        log.entries, log.end = log.entries[:2], 2
    fetching.until(lambda: fetching.kinds("reset"))
    assert cursor.committable() is None  # 5 is of a log that is gone
    assert fetching.read(7) == [b"a0", b"a1", b"a2", b"a3", b"a4", b"a0", b"a1"]
    assert cursor.committable() == 2
    assert [event.kind for event in fetching.events] == ["reset"]


def test_an_end_that_is_told_too_low_after_an_election_is_asked_for_once_more(cluster, fetching, monkeypatch):
    cursor = fetching.add(T0, 0)
    fetching.until(lambda: cursor.partition.position.offset == 5)
    with cluster.lock:
        monkeypatch.setattr(cluster, "offsets_of", lambda log, when: [0 if when == -2 else 2])
        cluster.script("fetch", Fail(1))
    fetching.until(lambda: cluster.seen("list_offsets"))
    cluster.append("t", 0, entry(b"late"))
    assert fetching.read(6) == [b"a0", b"a1", b"a2", b"a3", b"a4", b"late"]
    assert fetching.events == []


def test_out_of_range_with_policy_fail_parks_behind_what_was_fetched(cluster, fetching):
    cursor = fetching.add(T0, 0, "fail")
    fetching.until(lambda: cursor.partition.position.offset == 5)
    with cluster.lock:
        cluster.logs["t", 0].entries.clear()
        cluster.logs["t", 0].end = 8
        cluster.append("t", 0, entry(b"a8"))
    fetching.until(lambda: cursor.parked)
    assert fetching.read(5) == [b"a0", b"a1", b"a2", b"a3", b"a4"]
    assert (cursor.committable(), cursor.partition.parked_at.position) == (5, 5)


def test_a_broker_that_answers_at_once_with_nothing_is_not_asked_again_at_once(cluster, fetching, monkeypatch):
    monkeypatch.setattr(fetching.fetcher, "_max_wait_ms", 0)
    cursor = fetching.add(T0, 5)
    fetching.until(lambda: cluster.seen("fetch"))
    before, began = len(cluster.seen("fetch")), now()
    sleep(0.5)
    assert 0 < len(cluster.seen("fetch")) - before <= (now() - began) / EMPTY_DISTANCE_S + 1
    assert cursor.partition.position.offset == 5


def test_an_unknown_error_backs_off_and_never_resets(cluster, fetching):
    cluster.script("fetch", Fail(-1), Fail(-1), Fail(-1))
    cursor = fetching.add(T0, 2)
    fetching.until(lambda: cursor.partition.position.offset == 5)
    assert fetching.values() == [b"a2", b"a3", b"a4"]
    assert [event.kind for event in fetching.events] == ["leader"]  # one line, however often it was answered
    assert fetching.sent_home == []


def test_what_a_broker_does_not_answer_for_stays_and_is_asked_for_again(cluster, fetching):
    cluster.script("fetch", Throttle(), LeaveOut(("t", 0)))
    fetching.add(T0, 0)
    assert fetching.read(5) == [b"a0", b"a1", b"a2", b"a3", b"a4"]
    assert (fetching.events, fetching.sent_home) == ([], [])


@pytest.mark.parametrize("code", [3, 5, 6])
def test_who_does_not_lead_is_left_and_the_neighbour_is_read_on(cluster, fetching, code):
    cluster.append("t", 1, entry(b"b0"))
    cluster.script("fetch", *[Fail(code, ("t", 0))] * 3)
    neighbour = fetching.add(T1, 0)
    fetching.add(T0, 0)
    fetching.until(lambda: neighbour.partition.position.offset == 1 and fetching.sent_home)
    assert [tp for tp, _ in fetching.sent_home] == [T0]
    assert f"({code})" in fetching.sent_home[0][1]


def test_a_lost_link_sends_every_cursor_to_the_leader_finder(cluster, fetching):
    cluster.script("fetch", Close())
    fetching.add(T0, 0)
    fetching.add(T1, 0)
    fetching.until(lambda: len(fetching.sent_home) == 2)
    assert fetching.budget.used == 0
    assert fetching.fetcher.cursors == {}


def test_an_answer_that_comes_after_the_streams_were_closed_kills_nobody(cluster, fetching):
    cursor = fetching.add(T0, 0)
    fetching.until(lambda: cursor.partition.position.offset == 5)
    fetching.channel.close()
    cluster.append("t", 0, entry(b"late"))
    fetching.until(lambda: fetching.worker.ended)


def test_a_larger_message_grows_the_fetch_and_one_above_the_cap_parks(cluster, fetching):
    cluster.append("t", 1, entry(b"x" * 6000))
    cluster.append("t", 1, entry(b"y" * 20000))
    cursor = fetching.add(T1, 0)
    fetching.until(lambda: cursor.parked)
    assert fetching.values() == [b"x" * 6000]
    assert "t/1 at 1: an entry of 20026 bytes is larger than the largest fetch, 8192 bytes" in str(cursor.parked)


def test_damage_is_fetched_again_and_then_parks_after_the_good_ones(cluster, fetching):
    cluster.append("t", 1, entry(b"good"))
    with cluster.lock:
        log = cluster.logs["t", 1]
        log.entries.append((1, struct.pack(">qi", 1, -7) + b"nonsense"))  # a size no entry has
        log.end = 2
    cursor = fetching.add(T1, 0)
    fetching.until(lambda: cursor.parked)
    assert fetching.values() == [b"good"]
    assert "t/1 at 1: damaged in the log of broker 1" in str(cursor.parked)
    at_damage = [seen for seen in cluster.seen("fetch") if seen.body["wanted"].get(("t", 1), (0, 0))[0] == 1]
    assert len(at_damage) == 4
    assert cursor.committable() == 1


# what brokers make of a log that is newer than the fetch -----------------------------------------------------------


class Converting(FakeCluster):
    """At the offsets in `ends` stands the end of a transaction, which is left out: with nothing behind it, padding."""

    ends: frozenset[int] = frozenset()
    sends_nothing = False  # as 3.x, of a batch that is larger than the fetch

    def slice(self, broker: int, tp: tuple[str, int], offset: int, max_bytes: int) -> tuple[int, int, bytes]:
        code, end, data = super().slice(broker, tp, offset, max_bytes)
        if code == 0 and offset in self.ends:
            data = struct.pack(">qi", -1, 61)
        return code, end, b"" if self.sends_nothing else data


@pytest.fixture
def converting() -> Iterator[Converting]:
    with Converting({"t": 1}) as cluster:
        for n in range(7):
            cluster.append("t", 0, entry(b"a%d" % n))
        yield cluster


def test_the_end_of_a_transaction_is_passed_and_committed_behind(converting):
    converting.ends = frozenset({5, 6})
    fetching = Fetching(converting, asks_for_formats=True)
    with converting.lock:
        del converting.logs["t", 0].entries[5:]
    try:
        cursor = fetching.add(T0, 0)
        fetching.until(lambda: cursor.partition.position.offset == 7)
        assert fetching.values() == [b"a0", b"a1", b"a2", b"a3", b"a4"]
        fetching.until(lambda: cursor.committable() == 7)
        assert (status_of(cursor, now()).lag, cursor.parked) == (0, None)
        converting.append("t", 0, entry(b"later"))
        fetching.until(lambda: cursor.partition.position.offset == 8)
        assert fetching.values() == [b"later"]
        fetching.until(lambda: cursor.committable() == 8)
        assert not cursor.partition.position.skips  # what is passed is not kept
        (told,) = fetching.kinds("format")  # once, however many there are
        assert "topic t: it holds transactions" in told.text
    finally:
        fetching.close()


def test_the_end_of_a_transaction_is_not_passed_before_what_comes_before_it_is_done(converting):
    converting.ends = frozenset({5, 6})
    fetching = Fetching(converting)
    with converting.lock:
        del converting.logs["t", 0].entries[5:]
    try:
        cursor = fetching.add(T0, 0)
        fetching.until(lambda: cursor.partition.position.offset == 7)
        share = fetching.stream.next_set()
        ticket = share.ticket(share.message_set.resume_at)
        sleep(0.1)
        assert cursor.committable() == 0
        ticket.done()
        fetching.until(lambda: cursor.committable() == 7)
    finally:
        fetching.close()


@pytest.mark.parametrize(("code", "says"), [(29, "access control"), (35, "downconversion"), (76, "zstd")])
def test_what_does_not_pass_parks_with_a_sentence_and_the_neighbour_is_read_on(cluster, fetching, code, says):
    cluster.script("fetch", *[Fail(code, ("t", 0))] * 3)
    cluster.append("t", 1, entry(b"b0"))
    cursor, neighbour = fetching.add(T0, 2), fetching.add(T1, 0)
    fetching.until(lambda: cursor.parked and neighbour.partition.position.offset == 1)
    assert f"t/0 at 2 on broker 1 (127.0.0.1:{cluster.ports[1]}): " in str(cursor.parked)
    assert says in str(cursor.parked)
    assert cursor.apply(cursor.partition.unpark)
    fetching.fetcher.wake()
    cluster.scripts["fetch"].clear()
    fetching.until(lambda: cursor.partition.position.offset == 5)  # mended: it is read from where it stood


def test_where_nothing_comes_of_a_log_that_goes_on_an_old_broker_is_asked_again_and_nothing_is_parked(converting):
    converting.sends_nothing = True
    fetching = Fetching(converting, asks_for_formats=True)
    try:
        cursor = fetching.add(T0, 2)
        fetching.until(lambda: len(converting.seen("fetch")) >= 3)
        converting.sends_nothing = False
        fetching.until(lambda: cursor.partition.position.offset == 7)
        assert fetching.events == []
    finally:
        fetching.close()


class WholeOnly(FakeCluster):
    """As 3.x, for requests of 0.8: nothing of a batch that is larger than the fetch, and no error."""

    def slice(self, broker: int, tp: tuple[str, int], offset: int, max_bytes: int) -> tuple[int, int, bytes]:
        code, end, data = super().slice(broker, tp, offset, max_bytes)
        cut = len(data) < 12 or len(data) < 12 + int.from_bytes(data[8:12], "big")
        return code, end, b"" if cut else data

    def batch_at(self, at: int) -> LogBatches:
        """What it says in the log's own format."""
        size = next(len(data) for offset, data in self.logs["t", 0].entries if offset == at)
        return LogBatches(0, self.logs["t", 0].end, 0, (RecordBatch(at, at, size, 2, 0, 1, False),))


def test_a_batch_of_which_a_later_broker_sends_nothing_grows_the_fetch_and_one_above_the_cap_parks(monkeypatch):
    def held(probe: FormatProbe, wanted: list[tuple[TopicPartition, int, int]]) -> dict[TopicPartition, LogBatches]:
        return {tp: cluster.batch_at(at) for tp, at, _ in wanted}

    monkeypatch.setattr(formatprobe, "asked_ranges", lambda ask: {FETCH.key: (0, 15)})
    monkeypatch.setattr(FormatProbe, "_held", held)
    with WholeOnly({"t": 1}) as cluster:
        cluster.append("t", 0, entry(b"x" * 6000))
        cluster.append("t", 0, entry(b"y" * 20000))
        fetching = Fetching(cluster, asks_for_formats=True)
        try:
            cursor = fetching.add(T0, 0)
            fetching.until(lambda: cursor.parked)
            assert fetching.values() == [b"x" * 6000]
            assert "t/0 at 1: an entry of 20026 bytes is larger than the largest fetch, 8192" in str(cursor.parked)
        finally:
            fetching.close()


def test_memory_is_bounded_when_nobody_reads(cluster, fetching):
    for n in range(200):
        cluster.append("t", 1, entry(b"%04d" % n + b"z" * 1000))
    cursor = fetching.add(T1, 0)
    fetching.until(lambda: cursor.partition.buffered_bytes >= 4096)
    sleep(0.2)
    assert cursor.partition.buffered_bytes <= 3 * 4096
    fetching.until(lambda: fetching.values() is not None and cursor.committable() == 200)
    assert fetching.budget.used <= 4096  # a fetch may be under way


def test_what_is_let_go_while_the_broker_waits_is_thrown_away(cluster, fetching):
    cursor = fetching.add(T1, 0)
    fetching.until(lambda: cluster.seen("fetch"))
    fetching.fetcher.remove(T1)
    cursor.drop()
    cluster.append("t", 1, entry(b"late"))
    sleep(0.1)
    assert fetching.values() == []
    assert fetching.budget.used == 0


class Listener:
    """A listener's listener: what it was asked, and what it says."""

    def __init__(self, says: int | None, waits_for: Event | None = None) -> None:
        self.says, self.waits_for = says, waits_for
        self.asked: list[tuple[TopicPartition, int, int, int]] = []

    def out_of_range(self, tp: TopicPartition, requested: int, earliest: int, latest: int) -> int | None:
        self.asked.append((tp, requested, earliest, latest))
        if self.waits_for is not None:
            self.waits_for.wait()
        return self.says


@pytest.mark.parametrize("reset", ["smallest", "largest", "fail"])
def test_the_listener_says_where_to_go_on_before_the_policy_does(cluster, reset):
    listener = Listener(says=3)
    fetching = Fetching(cluster, listener=listener)
    cursor = fetching.add(T0, 99, reset)
    fetching.until(lambda: cursor.partition.position.offset == 5)
    assert fetching.values() == [b"a3", b"a4"]
    assert listener.asked == [(T0, 99, 0, 5)]
    assert [event.kind for event in fetching.events] == ["reset"]
    assert "going back to 3 (by the listener)" in fetching.events[0].text
    fetching.close()


def test_a_listener_that_says_nothing_leaves_it_to_the_policy(cluster):
    fetching = Fetching(cluster, listener=Listener(says=None))
    cursor = fetching.add(T0, 99, "fail")
    fetching.until(lambda: cursor.parked)
    assert isinstance(cursor.partition.undeliverable, OutOfRange)
    assert (cursor.partition.undeliverable.requested, cursor.partition.undeliverable.latest) == (99, 5)
    fetching.close()


def test_a_slow_listener_holds_up_no_other_partition_and_counts_no_more_once_it_was_let_go(cluster):
    listener = Listener(says=3, waits_for=Event())
    fetching = Fetching(cluster, listener=listener)
    asked = fetching.add(T0, 99)
    fetching.until(lambda: listener.asked)
    neighbour = fetching.add(T1, 0)
    cluster.append("t", 1, entry(b"b0"))
    fetching.until(lambda: neighbour.partition.position.offset == 1)
    fetching.fetcher.remove(T0)
    asked.drop()
    listener.waits_for.set()
    sleep(0.05)
    assert asked.partition.position.offset is None
    assert len(listener.asked) == 1
    fetching.close()


def test_what_is_too_large_is_a_named_error_with_its_place_and_size(cluster, fetching):
    cluster.append("t", 1, entry(b"y" * 20000))
    cursor = fetching.add(T1, 0)
    fetching.until(lambda: cursor.parked)
    assert isinstance(cursor.partition.undeliverable, EntryTooLarge)
    assert (
        cursor.partition.undeliverable.tp,
        cursor.partition.undeliverable.offset,
        cursor.partition.undeliverable.needed,
    ) == (T1, 0, 20026)
    assert "raise fetch.growth.max.bytes" in str(cursor.parked)


def test_a_leader_that_moves_takes_its_partition_along_and_no_buffer_of_others(cluster, fetching):
    cluster.append("t", 1, entry(b"b0"))
    moving, staying = fetching.add(T0, 0), fetching.add(T1, 0)
    fetching.until(
        lambda: (moving.partition.position.offset, staying.partition.position.offset) == (5, 1)
    )  # fetched, and nobody has read it yet
    cluster.move("t", 0, 2)
    fetching.until(lambda: fetching.sent_home)
    cluster.append("t", 1, entry(b"b1"))
    fetching.until(lambda: staying.partition.position.offset == 2)
    assert sorted(fetching.values()) == [b"a0", b"a1", b"a2", b"a3", b"a4", b"b0", b"b1"]
    assert [tp for tp, _ in fetching.sent_home] == [T0]
    assert moving.committable() == 5


def test_a_new_leader_that_answers_minus_one_is_asked_again_where_we_were(cluster, fetching):
    cluster.script("fetch", *[Fail(6, ("t", 0))], *[Fail(-1, ("t", 0))] * 5)
    cursor = fetching.add(T0, 3)
    fetching.until(lambda: fetching.sent_home)
    fetching.fetcher.add(cursor)  # the leader finder found the new one
    fetching.until(lambda: cursor.partition.position.offset == 5)
    assert fetching.values() == [b"a3", b"a4"]
    assert cluster.seen("list_offsets") == []
    asked = [seen.body["wanted"]["t", 0][0] for seen in cluster.seen("fetch") if ("t", 0) in seen.body["wanted"]]
    assert set(asked[:7]) == {3}


# ---- beside the fetches: where logs end, and a broker that does not answer ------------------------------------


@pytest.fixture
def beside(fetching, monkeypatch):
    """The fetcher asks where logs end after a tenth of a second, and waits half a second for the answer."""
    monkeypatch.setattr("zkconsumer.fetching.brokerfetcher.ENDS_CHECK_S", 0.02)
    monkeypatch.setattr("zkconsumer.fetching.logbounds.ENDS_S", 0.1)
    monkeypatch.setattr("zkconsumer.fetching.logbounds.RESPONSE_S", 0.5)
    fetching.tasks.spawn("beside", fetching.fetcher.run_ends)
    return fetching


def test_the_end_of_a_log_that_is_not_fetched_is_asked_for_in_bulk(cluster, beside):
    full, other = beside.add(T0, 0), beside.add(T1, 0)
    beside.read(5)
    for cursor in (full, other):
        cursor.apply(cursor.partition.pause)  # as one whose queue is full: it is not fetched
    beside.until(lambda: beside.budget.used == 0)  # no fetch is under way any more
    for n in range(3):
        cluster.append("t", 0, entry(b"b%d" % n))
    beside.until(lambda: full.partition.high_watermark == 8)
    beside.until(lambda: any(len(seen.body["times"]) == 2 for seen in cluster.seen("list_offsets")))
    assert full.partition.position.offset == 5


def test_ends_that_grow_old_one_after_the_other_are_asked_for_together(cluster, fetching):
    cursors = [fetching.add(T0, 0), fetching.add(T1, 0)]
    fetching.read(5)
    for cursor in cursors:
        cursor.apply(cursor.partition.pause)
    fetching.until(lambda: fetching.budget.used == 0)
    positions = fetching.fetcher._positions
    for cursor, age_s in zip(cursors, (1.1 * ENDS_S, 0.8 * ENDS_S), strict=True):
        cursor.set_log_end(5, now() - age_s)
    assert positions.update_old_ends() is None
    assert [len(seen.body["times"]) for seen in cluster.seen("list_offsets")] == [2]
    cursors[0].set_log_end(5, now() - 0.8 * ENDS_S)
    assert positions.update_old_ends() is None  # none is due
    assert len(cluster.seen("list_offsets")) == 1


def test_what_is_fetched_is_never_asked_where_it_ends(cluster, beside, monkeypatch):
    def clock() -> float:  # of fetches, so that a busy machine makes no end old
        return 0.02 * len(cluster.seen("fetch"))

    monkeypatch.setattr("zkconsumer.fetching.brokerfetcher.now", clock)
    monkeypatch.setattr("zkconsumer.fetching.logbounds.now", clock)
    cursor = beside.add(T0, 0)
    beside.read(5)
    asked = len(cluster.seen("fetch"))
    beside.until(lambda: len(cluster.seen("fetch")) > asked + 40, 30)  # it begins to rest meanwhile
    assert cursor.rest is not None
    assert cluster.seen("list_offsets") == []


def test_a_broker_that_does_not_answer_is_an_outage_while_its_fetch_still_waits(cluster, beside):
    cursor = beside.add(T0, 0)
    beside.until(lambda: cursor.partition.position.offset == 5 and beside.heard == [T0])
    released = threading.Event()
    cluster.script("fetch", Wait(released))
    cluster.script("list_offsets", *[Wait(released)] * 3)
    beside.until(lambda: beside.outages)
    assert beside.outages[0][0] == T0
    assert "no answer within 0.5 s" in beside.outages[0][1]
    assert beside.sent_home == []
    released.set()
    beside.until(lambda: beside.heard == [T0, T0])


def test_an_outage_began_with_the_fetch_that_got_no_answer_and_not_when_that_was_noticed(cluster, fetching):
    cursor = fetching.add(T0, 0)
    fetching.until(lambda: cursor.partition.position.offset == 5)
    released = threading.Event()
    cluster.script("fetch", *[Wait(released)] * 9)
    asked = len(cluster.seen("fetch"))
    fetching.until(lambda: len(cluster.seen("fetch")) > asked)
    waits_since = now()
    fetching.until(lambda: fetching.outages)
    assert fetching.silent_since[0] <= waits_since
    released.set()


def test_an_end_that_nobody_has_told_for_a_while_is_unknown_and_never_zero(fetching):
    cursor = fetching.add(T0, 0)
    fetching.until(lambda: cursor.partition.position.offset == 5)
    fetching.values()
    fetching.until(lambda: cursor.committable() == 5)
    fresh = status_of(cursor, cursor.end_known_at + END_OLD_S)
    old = status_of(cursor, cursor.end_known_at + END_OLD_S + 0.1)
    assert (fresh.lag, fresh.high_watermark) == (0, 5)
    assert (old.lag, old.high_watermark, old.done) == (None, None, 5)


def test_the_partitions_of_a_stream_that_is_not_read_take_no_turn_from_another_stream() -> None:
    with FakeCluster({"slow": 40, "quick": 1}) as cluster:
        for topic, partition in cluster.logs:
            for n in range(200):
                cluster.append(topic, partition, entry(b"%d" % n + b"x" * 900))
        fetching = Fetching(cluster, budget_bytes=16 * 4096)
        try:
            slow, quick = fetching.budget.for_stream(2), fetching.budget.for_stream(2)
            not_read: BoundedQueue[DeliveredSet] = BoundedQueue(1 << 20, queue.SimpleQueue())
            for partition in range(40):
                cursor = Cursor(
                    TopicPartition("slow", partition), "g-0", lease=fetching.lease, budget=slow, channel=not_read
                )
                cursor.apply(cursor.partition.reset_to, 0)
                fetching.fetcher.add(cursor)
            fetching.until(lambda: slow.used >= slow.limit // 2)
            fetching.fetcher.add(fetching.make(TopicPartition("quick", 0), 0, quick))
            assert len(fetching.read(200)) == 200
            assert slow.used <= slow.limit
        finally:
            fetching.close()


def test_bytes_are_reserved_while_the_connection_opens_and_given_back_where_it_cannot(
    cluster: FakeCluster, fetching: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, used = fetching.links.link, []

    def opening(broker: Broker, purpose: str) -> object:
        used.append(fetching.budget.used)  # another fetcher may ask at this moment
        return opened(broker, purpose)

    monkeypatch.setattr(fetching.links, "link", opening)
    cluster.stop(1)
    fetching.add(T0, 0)
    fetching.until(lambda: fetching.sent_home)
    assert used[0] > 0
    assert fetching.budget.used == 0
