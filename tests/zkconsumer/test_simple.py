"""SimpleConsumer against the fake broker: sets, typed errors, and committed offsets in either store."""

from __future__ import annotations

import struct
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from kafkawire.errors import LinkLost, LocalError, RemoteError
from kafkawire.model import MessageSet, TopicPartition
from tests.fakes.broker import Close, Fail, FakeCluster, LeaveOut, Raw, Throttle, Wait, entry, gzipped
from tests.fakes.commits import not_committed
from zkconsumer.offsets.store import NONE, Unknown
from zkconsumer.refusals import (
    CoordinatorAway,
    Damaged,
    GroupActive,
    MessageTooLarge,
    MetadataTooLarge,
    NotLeader,
    OffsetOutOfRange,
    Refused,
    UnknownPartition,
)
from zkconsumer.simple import SimpleConsumer

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """t/0 is led by broker 1, t/1 by broker 2; broker 1 coordinates."""
    with FakeCluster({"t": 2}, brokers=2) as running:
        yield running


@pytest.fixture
def simple(cluster: FakeCluster) -> Iterator[SimpleConsumer]:
    with SimpleConsumer(*cluster.bootstrap[0], backoff_ms=1, retries=3) as consumer:
        yield consumer


def values(found: MessageSet) -> list[bytes | None]:
    return [message.value for message in found.messages()]


# ---- messages


def test_each_fetch_goes_on_where_the_last_one_ended(cluster: FakeCluster, simple: SimpleConsumer):
    cluster.append("t", 0, b"".join(entry(b"%d" % n) for n in range(10)))
    position, read = 0, []
    while position < 10:
        found = simple.fetch("t", 0, position, max_bytes=100)
        read += values(found)
        position = found.resume_at
    assert read == [b"%d" % n for n in range(10)]
    assert cluster.seen("fetch")[0].body["replica_id"] == -1


def test_a_position_inside_a_wrapper_gives_what_comes_from_there_on(cluster: FakeCluster, simple: SimpleConsumer):
    cluster.append("t", 0, gzipped(*(entry(b"%d" % n) for n in range(5))))
    assert values(simple.fetch("t", 0, 3)) == [b"3", b"4"]


def test_the_end_of_the_log_is_an_empty_set(cluster: FakeCluster, simple: SimpleConsumer):
    cluster.append("t", 0, entry(b"a"))
    found = simple.fetch("t", 0, 1, max_wait_ms=1)
    assert (values(found), found.resume_at) == ([], 1)


def test_out_of_range_names_topic_partition_offset_and_broker(cluster: FakeCluster, simple: SimpleConsumer):
    with pytest.raises(OffsetOutOfRange) as raised:
        simple.fetch("t", 0, 900)
    host, port = cluster.bootstrap[0]
    assert str(raised.value).startswith(f"t/0 at 900 on {host}:{port}: OffsetOutOfRange (1): ")
    assert (raised.value.tp, raised.value.position, raised.value.broker) == (T0, 900, simple.broker)


def test_several_partitions_each_have_their_set_or_their_own_error(cluster: FakeCluster, simple: SimpleConsumer):
    cluster.append("t", 0, entry(b"a"))
    missing = TopicPartition("t", 7)
    found = simple.fetch_many({T0: 0, T1: 0, missing: 0})
    assert isinstance(found[T0], MessageSet)
    assert values(found[T0]) == [b"a"]
    assert isinstance(found[T1], NotLeader)
    assert isinstance(found[missing], UnknownPartition)
    assert simple.fetch_many({}) == {}


@pytest.mark.parametrize("max_bytes", [5, 20, 60])
def test_a_message_larger_than_the_fetch_says_so(cluster: FakeCluster, simple: SimpleConsumer, max_bytes: int):
    cluster.append("t", 0, entry(b"x" * 100))
    with pytest.raises(MessageTooLarge, match=rf"t/0 at 0 .* max_bytes is {max_bytes}") as raised:
        simple.fetch("t", 0, 0, max_bytes=max_bytes)
    assert raised.value.needed > max_bytes


def test_asking_for_what_is_needed_reads_the_message(cluster: FakeCluster, simple: SimpleConsumer):
    cluster.append("t", 0, entry(b"x" * 100))
    with pytest.raises(MessageTooLarge) as raised:
        simple.fetch("t", 0, 0, max_bytes=30)
    assert values(simple.fetch("t", 0, 0, max_bytes=raised.value.needed)) == [b"x" * 100]


def test_what_is_before_damage_is_handed_out_and_then_the_damage_is_raised(
    cluster: FakeCluster, simple: SimpleConsumer
):
    cluster.append("t", 0, entry(b"a") + entry(b"b"))
    with cluster.lock:
        first, data = cluster.logs["t", 0].entries[1]
        cluster.logs["t", 0].entries[1] = (first, data[:16] + b"\x63" + data[17:])  # a format nobody knows
    found = simple.fetch("t", 0, 0)
    assert values(found) == [b"a"]
    with pytest.raises(Damaged, match="t/0 at 1 on"):
        simple.fetch("t", 0, found.resume_at)


def test_a_lost_link_is_told_and_the_next_call_connects_anew(cluster: FakeCluster, simple: SimpleConsumer):
    cluster.append("t", 0, entry(b"a"))
    cluster.script("fetch", Close())
    with pytest.raises(LinkLost):
        simple.fetch("t", 0, 0)
    assert values(simple.fetch("t", 0, 0)) == [b"a"]


def test_a_wait_that_would_look_like_a_lost_broker_is_refused(simple: SimpleConsumer):
    with pytest.raises(LocalError, match="max_wait_ms 30000 must be below timeout_ms 30000"):
        simple.fetch("t", 0, 0, max_wait_ms=30000)


def test_debugging_reads_call_themselves_so(cluster: FakeCluster):
    with SimpleConsumer(*cluster.bootstrap[0], debugging=True) as consumer:
        consumer.fetch("t", 0, 0, max_wait_ms=1)
        consumer.latest(T0)
    assert cluster.seen("fetch")[0].body["replica_id"] == -2
    assert cluster.seen("list_offsets")[0].body["replica_id"] == -2


# ---- offsets by time, metadata


def test_both_ends_and_offsets_before_a_time(cluster: FakeCluster, simple: SimpleConsumer):
    cluster.append("t", 0, entry(b"a") + entry(b"b"))
    assert (simple.earliest(T0), simple.latest(T0)) == (0, 2)
    assert simple.offsets_before(T0, 1_500_000_000_000, max_offsets=5) == [2, 0]
    with pytest.raises(NotLeader, match="t/1 on"):
        simple.latest(T1)


def test_what_is_read_from_a_time_on_begins_with_its_file_and_else_with_the_log(
    cluster: FakeCluster, simple: SimpleConsumer, monkeypatch: pytest.MonkeyPatch
):
    written = {200: 4, 300: 9}  # when a segment file was last written: its first offset; the end of the log is 9
    times = {when: [at for last, at in written.items() if last <= when][::-1] for when in (150, 199, 250, 301)}
    monkeypatch.setattr(cluster, "offsets_of", lambda log, when: times.get(when, [0]))
    assert [simple.offset_for_time(T0, when) for when in times] == [0, 0, 4, 9]


def test_an_end_that_the_broker_does_not_tell_is_an_error_and_never_0(cluster: FakeCluster, simple: SimpleConsumer):
    cluster.offsets_of = lambda log, when: []  # type: ignore[method-assign]
    assert simple.offsets_before(T0, 5) == []
    with pytest.raises(RemoteError, match="t/0"):
        simple.earliest(T0)


def test_metadata_of_all_topics_creates_none_and_by_name_does(cluster: FakeCluster, simple: SimpleConsumer):
    cluster.auto_create = 1
    assert list(simple.topic_metadata(None).topics) == ["t"]
    assert simple.topic_metadata(["new"]).errors == {"new": 5}
    view = simple.topic_metadata(None)
    assert sorted(view.topics) == ["new", "t"]
    assert view.topics["t"][1].leader == 2
    assert [request.body["topics"] for request in cluster.seen("metadata")] == [[], ["new"], []]


def test_a_partitions_own_error_is_told(cluster: FakeCluster, simple: SimpleConsumer):
    cluster.stop(2)
    assert simple.topic_metadata(None).topics["t"][1].error == 5


# ---- committed offsets


@pytest.mark.parametrize(("store", "version"), [("zookeeper", 0), ("kafka", 1)])
def test_a_commit_is_read_back_from_its_own_store_only(
    cluster: FakeCluster, simple: SimpleConsumer, store: str, version: int
):
    other = {"zookeeper": "kafka", "kafka": "zookeeper"}[store]
    assert simple.commit_offsets("g", {T0: 5, T1: (6, "note")}, store) == [T0, T1]
    assert cluster.committed == {(version, "g", "t", 0): (5, ""), (version, "g", "t", 1): (6, "note")}
    assert simple.fetch_offsets("g", [T0, T1], store) == {T0: 5, T1: 6}
    assert simple.fetch_offsets("g", [T0, T1], other) == {T0: NONE, T1: NONE}
    assert simple.fetch_offsets("g", [], store) == {}


def test_zookeeper_offsets_never_ask_for_a_coordinator(cluster: FakeCluster, simple: SimpleConsumer):
    simple.commit_offsets("g", {T0: 5}, "zookeeper")
    simple.fetch_offsets("g", [T0], "zookeeper")
    assert cluster.seen("group_coordinator") == []


def test_a_coordinator_that_loads_is_asked_again_and_stays(cluster: FakeCluster, simple: SimpleConsumer):
    simple.commit_offsets("g", {T0: 5, T1: 6}, "kafka")
    cluster.script("offset_fetch", Fail(14, ("t", 1)), Fail(14))
    assert simple.fetch_offsets("g", [T0, T1], "kafka") == {T0: 5, T1: 6}
    assert [request.body["wanted"] for request in cluster.seen("offset_fetch")] == [
        [("t", 0), ("t", 1)],
        [("t", 1)],
        [("t", 1)],
    ]
    assert len(cluster.seen("group_coordinator")) == 1


def test_a_coordinator_that_moved_is_found_again(cluster: FakeCluster, simple: SimpleConsumer):
    simple.commit_offsets("g", {T0: 5}, "kafka")
    cluster.coordinator = 2  # broker 1 answers 16 from now on
    assert simple.commit_offsets("g", {T0: 6}, "kafka") == [T0]
    assert [request.broker for request in cluster.seen("offset_commit")] == [1, 1, 2]
    cluster.coordinator = 1
    assert simple.fetch_offsets("g", [T0], "kafka") == {T0: 6}


def test_a_coordinator_that_died_is_found_again(cluster: FakeCluster, simple: SimpleConsumer):
    cluster.coordinator = 2
    simple.commit_offsets("g", {T0: 5}, "kafka")
    cluster.stop(2)
    cluster.coordinator = 1
    assert simple.commit_offsets("g", {T0: 6}, "kafka") == [T0]
    assert simple.fetch_offsets("g", [T0], "kafka") == {T0: 6}


def test_a_commit_whose_answer_was_lost_is_repeated(cluster: FakeCluster, simple: SimpleConsumer):
    cluster.coordinator = 2
    cluster.script("offset_commit", Close(store=True))
    assert simple.commit_offsets("g", {T0: 5}, "kafka") == [T0]
    assert len(cluster.seen("offset_commit")) == 2


def test_a_first_coordinator_is_waited_for(cluster: FakeCluster, simple: SimpleConsumer):
    cluster.script("group_coordinator", Fail(15), Fail(15))
    found = simple.coordinator("g")
    assert (found.id, found.port) == (1, cluster.ports[1])
    cluster.script("group_coordinator", Fail(15), Fail(15))
    assert simple.commit_offsets("other", {T0: 5}, "kafka") == [T0]


def test_asking_again_has_an_end_and_then_says_who_is_away(cluster: FakeCluster, simple: SimpleConsumer):
    cluster.script("group_coordinator", *[Fail(15)] * 12)
    with pytest.raises(CoordinatorAway, match=r"group g on .*CoordinatorNotAvailable \(15\)"):
        simple.coordinator("g")
    assert len(cluster.seen("group_coordinator")) == 4  # one try and three retries
    assert isinstance(not_committed(simple.commit_offsets, "g", {T0: 5}, "kafka").failed[T0], CoordinatorAway)
    with pytest.raises(CoordinatorAway):
        simple.fetch_offsets("g", [T0], "kafka")


def test_a_position_that_cannot_be_read_is_unknown_and_never_none(cluster: FakeCluster, simple: SimpleConsumer):
    cluster.script("offset_fetch", *[Fail(14)] * 4, Fail(3), Fail(-1))
    for code in ("14", "3"):
        found = simple.fetch_offsets("g", [T0], "kafka")[T0]
        assert isinstance(found, Unknown)
        assert f"({code})" in found.reason
    assert isinstance(simple.fetch_offsets("g", [T0], "zookeeper")[T0], Unknown)
    cluster.committed[0, "g", "t", 0] = (-1, "")  # a node that holds -1
    assert isinstance(simple.fetch_offsets("g", [T0], "zookeeper")[T0], Unknown)


@pytest.mark.parametrize("code", [22, 25])
def test_members_of_an_active_group_commit_for_it(cluster: FakeCluster, simple: SimpleConsumer, code: int):
    cluster.script("offset_commit", Fail(code))
    failure = not_committed(simple.commit_offsets, "g", {T0: 5}, "kafka").failed[T0]
    assert isinstance(failure, GroupActive)
    assert "group g, t/0 at 5 on broker 1" in str(failure)
    assert "the group is active" in str(failure)


def test_each_partition_has_its_own_result(cluster: FakeCluster, simple: SimpleConsumer):
    cluster.script("offset_commit", Fail(12, ("t", 1)))
    found = not_committed(simple.commit_offsets, "g", {T0: 5, T1: (6, "x" * 4000)}, "kafka")
    assert found.committed == [T0]
    assert isinstance(found.failed[T1], MetadataTooLarge)
    assert str(found).startswith(f"offset of t/1 not committed: {found.failed[T1]}")


def test_a_partition_that_the_answer_leaves_out_is_a_failure(cluster: FakeCluster, simple: SimpleConsumer):
    cluster.script("offset_commit", LeaveOut(("t", 1)))
    found = not_committed(simple.commit_offsets, "g", {T0: 5, T1: 6}, "kafka")
    assert found.committed == [T0]
    assert "t/1 on broker 1" in str(found.failed[T1])
    cluster.script("offset_fetch", LeaveOut(("t", 0)))
    left_out = simple.fetch_offsets("g", [T0, T1], "kafka")
    assert isinstance(left_out[T0], Unknown)
    assert left_out[T1] == 6


def test_a_group_that_may_not_be_asked_for_is_refused_with_its_name(cluster: FakeCluster, simple: SimpleConsumer):
    cluster.script("group_coordinator", Fail(30), Fail(30))
    assert isinstance(not_committed(simple.commit_offsets, "g", {T0: 5}, "kafka").failed[T0], Refused)
    with pytest.raises(Refused, match=r"group g on .*\(30\)"):
        simple.fetch_offsets("g", [T0], "kafka")


def test_a_position_below_0_is_not_sent(cluster: FakeCluster, simple: SimpleConsumer):
    with pytest.raises(LocalError, match="-1 is not a position to commit for t/0"):
        simple.commit_offsets("g", {T0: -1}, "kafka")
    assert cluster.seen("offset_commit") == []


def test_a_release_without_the_store_says_so(cluster: FakeCluster):
    with (
        SimpleConsumer(*cluster.bootstrap[0], release="0.8.1") as consumer,
        pytest.raises(LocalError, match=r"Kafka 0\.8\.1 has no .*kafka"),
    ):
        consumer.commit_offsets("g", {T0: 1}, "kafka")
    with (
        SimpleConsumer(*cluster.bootstrap[0], release="0.8.0") as consumer,
        pytest.raises(LocalError, match=r"Kafka 0\.8\.0 has no .*zookeeper"),
    ):
        consumer.fetch_offsets("g", [T0], "zookeeper")


# ---- the connection


def test_close_ends_a_call_that_waits_and_refuses_the_next(cluster: FakeCluster, simple: SimpleConsumer):
    held = threading.Event()
    cluster.script("fetch", Wait(held))
    errors: list[Exception] = []

    def read() -> None:
        try:
            simple.fetch("t", 0, 0)
        except LinkLost as lost:
            errors.append(lost)

    reader = threading.Thread(target=read)
    reader.start()
    cluster.wait(lambda: any(request.api == "fetch" for request in cluster.requests))
    simple.close()
    reader.join(5.0)
    held.set()
    assert not reader.is_alive()
    assert len(errors) == 1
    for call in (lambda: simple.latest(T0), lambda: simple.coordinator("g"), lambda: simple.topic_metadata(None)):
        with pytest.raises(LocalError, match="is closed"):
            call()


@pytest.mark.parametrize("first", [False, True], ids=["on a link that was used", "on a new link"])
def test_close_ends_a_commit_that_waits_and_nothing_is_asked_again(
    cluster: FakeCluster, simple: SimpleConsumer, first: bool
):
    if not first:
        simple.commit_offsets("g", {T0: 4}, "kafka")
    held, errors = threading.Event(), []
    cluster.script("offset_commit", Wait(held))
    asked = len(cluster.seen("offset_commit"))

    def commit() -> None:
        try:
            simple.commit_offsets("g", {T0: 5}, "kafka")
        except LocalError as closed:
            errors.append(str(closed))

    committer = threading.Thread(target=commit)
    committer.start()
    cluster.wait(lambda: len([seen for seen in cluster.requests if seen.api == "offset_commit"]) > asked)
    simple.close()
    committer.join(5.0)
    held.set()
    assert not committer.is_alive()
    assert len(errors) == 1
    assert "is closed" in errors[0]
    assert len(cluster.seen("offset_commit")) == asked + 1


def test_a_senseless_answer_is_a_lost_link(cluster: FakeCluster, simple: SimpleConsumer):
    cluster.script("list_offsets", Raw(struct.pack(">ii", 4, 77)))
    with pytest.raises(LinkLost):
        simple.latest(T0)


def test_neither_gevent_nor_kazoo_is_ever_imported():
    check = "import sys, zkconsumer.simple; sys.exit(bool({'gevent', 'kazoo'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", check], check=False, timeout=60).returncode == 0


# ---- partitions that a response leaves out


def test_partitions_that_a_broker_did_not_answer_for_are_asked_for_again(cluster: FakeCluster, simple: SimpleConsumer):
    cluster.append("t", 0, entry(b"a"))
    cluster.script("fetch", Throttle(), Throttle())
    assert values(simple.fetch("t", 0, 0)) == [b"a"]
    cluster.script("fetch", LeaveOut(("t", 0)))
    found = simple.fetch_many({T0: 0, T1: 0})
    assert isinstance(found[T0], MessageSet)
    assert isinstance(found[T1], NotLeader)
    assert list(cluster.seen("fetch")[-1].body["wanted"]) == [("t", 0)]  # what was answered is not asked for again


def test_a_broker_that_never_answers_for_a_partition_is_given_up_in_time(cluster: FakeCluster):
    cluster.script("fetch", *[Throttle()] * 100)
    with (
        SimpleConsumer(*cluster.bootstrap[0], timeout_ms=300) as consumer,
        pytest.raises(Refused, match=r"t/0 at 0 on .*: NotAnswered .*the response leaves this partition out") as raised,
    ):
        consumer.fetch("t", 0, 0)
    assert raised.value.passes
    assert 2 <= len(cluster.seen("fetch")) < 100


def test_an_offset_by_time_that_a_broker_did_not_answer_may_be_asked_for_again(
    cluster: FakeCluster, simple: SimpleConsumer
):
    cluster.script("list_offsets", LeaveOut(("t", 0)))
    with pytest.raises(Refused, match="NotAnswered") as raised:
        simple.latest(T0)
    assert raised.value.passes


def test_threads_that_share_it_get_what_each_asked_for(cluster: FakeCluster, simple: SimpleConsumer):
    cluster.append("t", 0, b"".join(entry(b"%d" % n) for n in range(50)))
    got: list[tuple[int, list[bytes | None]]] = []

    def read(first: int) -> None:
        for at in range(first, 50, 5):
            got.append((at, values(simple.fetch("t", 0, at, max_bytes=30))[:1]))

    readers = [threading.Thread(target=read, args=(first,)) for first in range(5)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(30)
    assert sorted(got) == [(at, [b"%d" % at]) for at in range(50)]
