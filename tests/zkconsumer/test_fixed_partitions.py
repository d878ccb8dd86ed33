"""A connector with fixed partitions against a fake cluster: no ZooKeeper anywhere."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from groundwork.options import OptionError
from groundwork.tasks import now, sleep
from kafkawire.model import TopicPartition
from localkafka.waiting import wait_until
from tests.fakes.broker import FakeCluster, Wait, entry
from tests.fakes.commits import not_committed
from zkconsumer.concurrent.handlers import Outcome, process
from zkconsumer.daemonconnector import DaemonConnector
from zkconsumer.engine import engine
from zkconsumer.engine import fixedassignment as fixedside
from zkconsumer.engine.metrics import ConsumerMetrics
from zkconsumer.errors import BeyondEnd, Closed, ConsumerError, ConsumerTimeout, ListenerFailed, Unreachable
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.filters import Whitelist
from zkconsumer.listeners import ConsumerListener
from zkconsumer.offsets.database import DDL, DatabaseOffsets
from zkconsumer.offsets.file import FileOffsets
from zkconsumer.offsets.store import NONE, Committed, Unknown
from zkconsumer.session.lease import Lease
from zkconsumer.streams.stream import Stream

T0, T1, T2 = (TopicPartition("t", n) for n in range(3))


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster({"t": 4, "u": 1}, brokers=2) as cluster:
        for p in range(4):
            for n in range(5):
                cluster.append("t", p, entry(b"%d.%d" % (p, n)))
        yield cluster


class Store:
    """A program's own store: positions in memory."""

    def __init__(self, kept: Mapping[TopicPartition, Committed] | None = None) -> None:
        self.kept: dict[TopicPartition, Committed] = dict(kept or {})
        self.threads: set[int] = set()
        self.slow: threading.Event | None = None  # commits wait for it
        self.at_work = threading.Event()

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        self.threads.add(threading.get_ident())
        return {tp: self.kept.get(tp, NONE) for tp in tps}

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        self.threads.add(threading.get_ident())
        self.at_work.set()
        if self.slow is not None:
            assert self.slow.wait(20)
        self.kept |= positions
        return dict.fromkeys(positions)


class World:
    """What a connector is made of, and what it told."""

    def __init__(self, cluster: FakeCluster, folder: Path) -> None:
        self.cluster = cluster
        self.file = folder / "offsets.json"
        self.events: list[ConsumerEvent] = []

    def connector(
        self,
        partitions: object = "t:0,1",
        store: Store | None = None,
        listener: ConsumerListener | None = None,
        hub: str = "own",
        on_event: OnEvent | None = None,
        **options: object,
    ) -> DaemonConnector:
        """options by their dotted names, with underscores."""
        brokers = ",".join(f"{host}:{port}" for host, port in self.cluster.bootstrap)
        values: dict[str, object] = {
            "group.id": "g",
            "partitions": partitions,
            "metadata.broker.list": brokers,
            "auto.offset.reset": "smallest",
            "auto.commit.interval.ms": 50,
            "consumer.timeout.ms": 1000,
            "refresh.leader.backoff.ms": 20,
            "fetch.wait.max.ms": 20,
            **({} if store else {"offsets.file": str(self.file)}),
            **{key.replace("_", "."): value for key, value in options.items()},
        }
        told = on_event or self.events.append
        return DaemonConnector(values, hub, on_event=told, listener=listener, offset_store=store)

    def kept(self) -> dict[str, int]:
        return json.loads(self.file.read_text())["offsets"]["t"] if self.file.exists() else {}

    def kinds(self, kind: str) -> list[str]:
        return [event.text for event in self.events if event.kind == kind]


@pytest.fixture
def world(cluster: FakeCluster, tmp_path: Path) -> World:
    return World(cluster, tmp_path)


def take(stream: Stream, count: int) -> list[bytes | None]:
    """So many values; the last of them is in the reader's hands, so not done."""
    found: list[bytes | None] = []
    until = now() + 10
    while len(found) < count:
        assert now() < until, f"{found} and no more"
        try:
            found.append(next(stream).value)
        except ConsumerTimeout:
            continue
    return found


def rest(stream: Stream) -> list[bytes | None]:
    """What comes until nothing came for consumer.timeout.ms; all of it is done."""
    found = []
    try:
        while True:
            found.append(next(stream).value)
    except ConsumerTimeout:
        return found


def values(partition: int, first: int = 0, end: int = 5) -> list[bytes]:
    return [b"%d.%d" % (partition, n) for n in range(first, end)]


def test_the_listed_partitions_are_read_and_a_restart_goes_on_where_the_file_says(world):
    with world.connector("t:1,3") as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        assert sorted(take(stream, 10)) == values(1) + values(3)
        assert connector.settled
        assert rest(stream) == []
    assert world.kept() == {"1": 5, "3": 5}
    world.cluster.append("t", 3, entry(b"late"))
    with world.connector("t:1,3") as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        assert take(stream, 1) == [b"late"]
    asked = {seen.body["topics"] == [] for seen in world.cluster.requests if seen.api == "metadata"}
    assert asked == {True}  # naming a topic may create it


@pytest.mark.parametrize("hub", ["own", "caller"])
def test_partitions_are_dealt_to_the_streams_as_one_member_of_a_group_would_get_them(world, hub):
    with world.connector({"t": [0, 1, 2]}, hub=hub, rebalance_drain_ms=100) as connector:
        one, other = connector.create_message_streams({"t": 2})["t"]
        assert sorted(take(one, 10)) == values(0) + values(1)
        assert take(other, 5) == values(2)
        owners = {row.partition: row.owner for row in connector.status()}
    assert owners == {n: f"{connector.consumer_id}-{thread}" for n, thread in ((0, 0), (1, 0), (2, 1))}


def test_a_store_of_the_program_is_asked_in_one_thread_and_holds_up_nobody(world):
    store = Store({T0: 3, T1: 0})
    store.slow = threading.Event()
    with world.connector("t:0,1", store) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        assert sorted(take(stream, 7)) == [*values(0, 3), *values(1)]
        assert store.at_work.wait(5)  # and goes on at it
        world.cluster.append("t", 1, entry(b"meanwhile"))
        assert take(stream, 1) == [b"meanwhile"]  # fetched while a commit waits
        assert connector.silent_s == 0
        store.slow.set()
        assert rest(stream) == []
    assert store.kept == {T0: 5, T1: 6}
    assert len(store.threads) == 1
    assert threading.get_ident() not in store.threads


@pytest.mark.thorough
def test_an_offset_that_cannot_be_understood_parks_its_partition_until_it_can(world):
    store = Store({T0: Unknown("the row says 'x'")})
    with world.connector("t:0,1", store) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        assert rest(stream) == values(1)
        (row,) = [row for row in connector.status() if row.partition == 0]
        assert (row.state, row.parked) == ("parked", "the row says 'x'")
        wait_until(lambda: world.kinds("parked"), 5, "the event")
        assert not connector.unpark(T0)
        assert rest(stream) == []
        store.kept[T0] = 2
        assert connector.unpark(T0)
        assert rest(stream) == values(0, 2)
    assert store.kept == {T0: 5, T1: 5}


def test_a_seek_settles_what_the_store_does_not_tell(world):
    store = Store({T0: Unknown("the row says 'x'")})
    with world.connector("t:0", store) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        connector.seek(T0, 4)
        assert take(stream, 1) == values(0, 4)
        connector.seek(T0, "smallest")
        assert take(stream, 1) == values(0, 0, 1)
        connector.seek(T0, "largest")
        world.cluster.append("t", 0, entry(b"late"))
        assert take(stream, 1) == [b"late"]


def test_a_listener_says_where_to_begin_and_has_its_word_at_the_end(world):
    heard: list[tuple[str, object]] = []

    class Told(ConsumerListener):
        def before_start(self, assignment):
            heard.append(("start", sorted(assignment)))
            return {T0: 4}

        def before_release(self, partitions):
            heard.append(("release", sorted(partitions)))

    with world.connector("t:0,1", listener=Told()) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        assert sorted(take(stream, 6)) == [*values(0, 4), *values(1)]
    assert heard == [("start", [T0, T1]), ("release", [T0, T1])]


def test_an_on_event_that_raises_ends_nothing_and_is_raised_as_what_a_listener_raises(world):
    def refuses(event: ConsumerEvent) -> None:
        world.events.append(event)
        raise OSError(f"no pager for {event.kind}")

    with world.connector("t:0", on_event=refuses) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        found: list[bytes | None] = []
        raised: list[str] = []
        while len(found) < 5:
            try:
                found += take(stream, 1)
            except ListenerFailed as e:
                raised.append(str(e))
        assert found == values(0)
        assert "listener on_event failed: OSError: no pager for start" in raised
        with suppress(ListenerFailed):
            connector.shutdown()
    assert connector.closed
    assert "listener" not in {event.kind for event in world.events}


def test_a_pause_a_commit_of_chosen_positions_and_a_park_work_as_in_a_group(world):
    with world.connector("t:0,1", auto_commit_enable=False) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        connector.pause(T0)
        connector.seek(T0, 0)
        connector.seek(T1, 0)
        assert rest(stream)[-5:] == values(1)
        connector.resume(T0)
        assert rest(stream) == values(0)
        assert connector.commit_offsets({T0: 2}) == [T0]
        assert isinstance(not_committed(connector.commit_offsets, {T2: 2}).failed[T2], ConsumerError)
        connector.park(T1, "for a test")
        assert [row.parked for row in connector.status()] == [None, "for a test"]
        assert world.kept() == {"0": 2}
    assert world.kept() == {"0": 2}


def test_a_position_that_was_read_is_committed_although_a_new_leader_tells_a_lower_end(world, cluster):
    with world.connector("t:0,1", auto_commit_enable=False) as connector:
        connector.create_message_streams({"t": 1})
        for tp in (T0, T1):
            cluster.logs["t", tp.partition].high_watermark = 0
        assert connector.commit_offsets({T0: 5}) == [T0]
        assert isinstance(not_committed(connector.commit_offsets, {T1: 6}).failed[T1], BeyondEnd)
        assert connector.log_end(T0) == 5
        cluster.stop(1)
        with pytest.raises(ConsumerError, match="t/0: the end of its leader's log is not known"):
            connector.log_end(T0)


def test_the_example_of_the_page_runs(world, cluster, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs/consumer.md").read_text(encoding="utf-8")
    (example,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "offsets.file" in block)
    cluster.create("orders", 2)
    cluster.append("orders", 1, entry(b"paid"))
    brokers = ",".join(f"{host}:{port}" for host, port in cluster.bootstrap)
    for old, new in (
        ("broker1:9092,broker2:9092", brokers),
        ("/var/lib/billing/offsets.json", str(world.file)),
        ('"group.id"', '"consumer.timeout.ms": 300, "group.id"'),
    ):
        assert old in example
        example = example.replace(old, new)
    with pytest.raises(ConsumerTimeout):
        exec(compile(example, "consumer.md", "exec"), {})
    assert capsys.readouterr().out == "1 0 b'paid'\n"
    assert json.loads(world.file.read_text())["offsets"] == {"orders": {"0": 0, "1": 1}}


def test_metrics_show_no_session_where_there_is_none(world):
    registry = CollectorRegistry()
    with world.connector("t:0", rebalance_drain_ms=100) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        assert take(stream, 5) == values(0)
        metrics = ConsumerMetrics("g", "c", connector._snapshot, registry)
        shown = generate_latest(registry).decode()
        metrics.close()
    assert 'zkconsumer_lag{consumer="c",group="g",partition="0",topic="t"} 1.0' in shown
    assert "zkconsumer_session{" not in shown


def test_what_cannot_be_is_refused_in_a_sentence(world):
    connector = world.connector("t:0")
    with pytest.raises(ConsumerError, match="topic u is not in 'partitions', which has t"):
        connector.create_message_streams({"u": 1})
    with pytest.raises(ConsumerError, match="a filter needs a group"):
        connector.create_message_streams_by_filter(Whitelist("t"))
    connector.shutdown()
    with pytest.raises(
        OptionError, match=r"need a place for their positions: give 'offsets\.file', or an offset_store"
    ):
        DaemonConnector(
            {"group.id": "g", "partitions": "t:0", "metadata.broker.list": "h:1", "auto.offset.reset": "smallest"}
        )
    with pytest.raises(OptionError, match="both given"):
        world.connector("t:0", Store(), offsets_file="/x")
    with pytest.raises(OptionError, match="offset_store is for fixed 'partitions'"):
        DaemonConnector(
            {"group.id": "g", "zookeeper.connect": "h:1", "auto.offset.reset": "smallest"}, offset_store=Store()
        )


def test_topics_nobody_reads_and_streams_without_partitions_are_told(world):
    with world.connector("t:0;u:0") as connector:
        connector.create_message_streams({"t": 2})
    assert world.kinds("idle") == [
        "'partitions' names topics that no stream reads: u",
        "topic t has 2 streams for 1 partitions in 'partitions': some of them read nothing",
    ]


def test_a_partition_that_does_not_exist_is_told_once_and_read_once_it_does(world):
    with world.connector("t:0;late:0") as connector:
        streams = connector.create_message_streams({"t": 1, "late": 1})
        wait_until(lambda: world.kinds("missing"), 5, "the word on it")
        sleep(0.5)
        assert world.kinds("missing") == ["late/0: there is no topic late; looking for it"]
        assert take(streams["t"][0], 5) == values(0)
        world.cluster.create("late", 1)
        world.cluster.append("late", 0, entry(b"here"))
        assert take(streams["late"][0], 1) == [b"here"]


def test_brokers_that_have_just_started_are_waited_for(world, cluster):
    cluster.uninformed = {1, 2}
    with world.connector("t:0") as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        wait_until(lambda: world.kinds("leader"), 5, "the word on it")
        assert "no broker of the cluster has metadata" in world.kinds("leader")[0]
        cluster.uninformed = set()
        assert take(stream, 5) == values(0)
    assert world.kinds("missing") == []


def test_a_leader_that_moves_a_broker_that_dies_and_one_at_another_port_are_found_again(world, cluster):
    with world.connector("t:0,1,2,3") as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        assert len(take(stream, 20)) == 20
        for p in range(4):
            cluster.move("t", p, 2)
        cluster.append("t", 0, entry(b"moved"))
        assert take(stream, 1) == [b"moved"]
        cluster.stop(2)
        for p in range(4):
            cluster.move("t", p, 1)
        cluster.append("t", 1, entry(b"without 2"))
        assert take(stream, 1) == [b"without 2"]
        cluster.start(2)
        cluster.move("t", 2, 2)
        cluster.append("t", 2, entry(b"another port"))
        assert take(stream, 1) == [b"another port"]
        cluster.stop(1)
        for p in range(4):
            cluster.move("t", p, 2)
        cluster.append("t", 3, entry(b"without 1"))
        assert take(stream, 1) == [b"without 1"]
        assert rest(stream) == []
    assert world.kept() == {"0": 6, "1": 6, "2": 6, "3": 6}


def test_a_cluster_that_does_not_answer_at_the_start_is_said_broker_by_broker(world, cluster):
    cluster.stop(1)
    cluster.stop(2)
    connector = world.connector()
    with pytest.raises(Unreachable) as caught:
        connector.create_message_streams({"t": 1})
    for host, port in cluster.bootstrap:
        assert f"{host}:{port}" in str(caught.value)
    assert "bootstrap.servers" in str(caught.value)


def test_a_store_that_cannot_be_read_ends_the_start(world, tmp_path):
    connector = world.connector(offsets_file=str(tmp_path / "nowhere" / "offsets.json"))
    with pytest.raises(ConsumerError, match="nowhere does not exist; create or mount it"):
        connector.create_message_streams({"t": 1})


def test_somebody_elses_positions_are_told_of_and_ours_written_over_them(world):
    with world.connector("t:0", auto_commit_interval_ms=60000) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        assert rest(stream) == values(0)
        lease = Lease()
        lease.valid_until = float("inf")
        other = FileOffsets(world.file)
        other.read("g", [T0])
        assert other.commit("g", {T0: 1}, lease) == {T0: None}
        # A disk that syncs slowly may still hold the lock of the file for the first commit.
        wait_until(lambda: connector.commit_offsets() == [T0], 10, "the commit")
    said = world.kinds("offset")
    assert any("another writer set the offset of t/0 to 1" in text for text in said)
    assert any("is a second program running with the same list and store?" in text for text in said)
    assert world.kept() == {"0": 5}


def test_programs_with_different_partitions_share_a_file(world):
    with world.connector("t:0") as one, world.connector("t:1") as other:
        (first,) = one.create_message_streams({"t": 1})["t"]
        (second,) = other.create_message_streams({"t": 1})["t"]
        assert rest(first) == values(0)
        assert rest(second) == values(1)
    assert world.kept() == {"0": 5, "1": 5}
    # A disk that syncs slowly may hold up one of them; it commits at its next time.
    assert [text for text in world.kinds("offset") if "is being written by another process" not in text] == []


def test_results_and_positions_may_be_one_transaction_of_the_programs_database(world, tmp_path):
    database = sqlite3.connect(tmp_path / "results.db", check_same_thread=False)
    database.execute(DDL)
    database.execute("CREATE TABLE results (value TEXT)")

    def bill(most: int) -> None:
        store = DatabaseOffsets(database, sqlite3.paramstyle)
        with world.connector("t:0", store, auto_commit_enable=False, rebalance_drain_ms=100) as connector:
            (stream,) = connector.create_message_streams({"t": 1})["t"]
            for message in stream:
                with store.transaction() as cursor:
                    cursor.execute("INSERT INTO results VALUES (?)", [message.value.decode()])
                    store.write(cursor, "g", {T0: message.offset + 1})
                most -= 1
                if most == 0:
                    return

    bill(2)
    bill(3)
    assert [value for (value,) in database.execute("SELECT value FROM results")] == [v.decode() for v in values(0)]
    database.close()


def test_a_seek_to_an_end_says_why_nobody_can_be_asked(world, cluster):
    with world.connector("t:0") as connector:
        connector.create_message_streams({"t": 1})
        cluster.stop(1)
        cluster.stop(2)
        with pytest.raises(
            ConsumerError, match="t/0: the largest position is not known: no broker of the cluster answers"
        ):
            connector.seek(T0, "largest")


def test_many_workers_commit_what_they_finished(world):
    seen: list[bytes | None] = []

    def handle(message):
        seen.append(message.value)
        return Outcome.STOP if len(seen) > 20 else None

    world.cluster.append("t", 3, entry(b"stop"))
    process(world.connector("t:0,1,2,3", delivery="on-ack"), handle, {"t": 1}, workers=1)
    assert sorted(seen)[:20] == sorted(v for p in range(4) for v in values(p))
    assert sum(world.kept().values()) == 20


def test_at_most_once_is_committed_before_it_is_handed_out(world):
    with world.connector("t:0", delivery="at-most-once", auto_commit_enable=False) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        next(stream)
        assert world.kept() == {"0": 5}  # the set that the message is of


def test_a_stop_waits_no_longer_for_a_stuck_store_than_for_zookeeper(world, monkeypatch):
    monkeypatch.setattr(engine, "LEAVE_S", 0.5)
    monkeypatch.setattr(fixedside, "SLOW_S", 0.2)
    store = Store({T0: 0})
    store.slow = threading.Event()
    connector = world.connector("t:0", store, rebalance_drain_ms=100)
    (stream,) = connector.create_message_streams({"t": 1})["t"]
    take(stream, 5)
    wait_until(lambda: world.kinds("offset"), 5, "the word on it")
    said = world.kinds("offset")[0]
    assert re.match(r"the offset store has not answered for \d s; nothing is committed", said), said
    began = now()
    connector.shutdown()
    assert now() - began < 3
    assert any("to commit what is done took longer than" in text for text in world.kinds("offset"))
    store.slow.set()


def test_a_shutdown_during_the_start_ends_both_at_once(world, cluster):
    release = threading.Event()
    cluster.script("metadata", Wait(release, 20))
    connector = world.connector()
    raised: list[BaseException] = []

    def start() -> None:
        try:
            connector.create_message_streams({"t": 1})
        except BaseException as e:
            raised.append(e)

    starter = threading.Thread(target=start)
    starter.start()
    wait_until(lambda: any(seen.api == "metadata" for seen in cluster.requests), 5, "the question")
    began = now()
    connector.shutdown()
    starter.join(5)
    assert now() - began < 2
    release.set()
    assert [type(e) for e in raised] == [Closed]
    assert len(cluster.seen("metadata")) == 1, "the other broker was asked, behind the end"


def test_a_refusal_of_the_position_is_settled_by_the_policy(world, cluster):
    store = Store({T0: 77})
    with world.connector("t:0", store) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        assert take(stream, 5) == values(0)
    assert "going back to 0" in world.kinds("reset")[0]
