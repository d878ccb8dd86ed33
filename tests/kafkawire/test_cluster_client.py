"""KafkaClient on fake clusters: whom it asks, what it asks again, and what it says of each partition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.leaders import ListedLeaders, MetadataLeaders, NoLeader
from kafkawire.cluster.listoffsets import DEBUGGING, EARLIEST, LATEST, LogOffset, ask_offsets, problems, read_offsets
from kafkawire.cluster.metadata import MetadataSource, Unreachable
from kafkawire.cluster.retry import LEADERS_AGAIN, ONCE, Backoff, RetryPolicy
from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.dialects import dialect
from kafkawire.errors import NOT_ANSWERED, BrokerError, LinkLost, RemoteError
from kafkawire.model import Broker, BrokerPartition, TopicPartition
from kafkawire.net.links import Links
from tests.fakes.broker import Fail, FakeCluster, entry

D = dialect("0.8.2")
T0, T1, NO_SUCH = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("nosuch", 0)
THRICE = RetryPolicy(retries=3, at_once=1, backoff=Backoff(0.1))


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """t/0 is led by broker 1 and has five messages, t/1 by broker 2 and has none."""
    with FakeCluster({"t": 2}, brokers=2) as fake:
        for n in range(5):
            fake.append("t", 0, entry(b"v%d" % n))
        yield fake


@pytest.fixture
def links() -> Iterator[Links]:
    pool = Links("test", timeout_ms=5000)
    yield pool
    pool.close()


def client(cluster: FakeCluster, links: Links, waits: list[float] | None = None, **more: Any) -> KafkaClient:
    source = MetadataLeaders(MetadataSource(cluster.bootstrap, D, links))
    return KafkaClient(source, links, D, sleep=(waits if waits is not None else []).append, **more)


def latest(kafka: KafkaClient, *tps: TopicPartition, **more: Any) -> dict[TopicPartition, int | None]:
    return {tp: said.offset for tp, said in kafka.list_offsets(dict.fromkeys(tps, LATEST), **more).items()}


# offsets --------------------------------------------------------------------------------------------------------------


def test_ends_of_logs_take_one_request_a_leader(cluster: FakeCluster, links: Links) -> None:
    kafka = client(cluster, links)
    assert latest(kafka, T0, T1) == {T0: 5, T1: 0}
    assert {tp: said.known() for tp, said in kafka.list_offsets({T0: EARLIEST, T1: LATEST}).items()} == {T0: 0, T1: 0}
    assert len(cluster.seen("list_offsets")) == 4
    assert [seen.body["topics"] for seen in cluster.seen("metadata")] == [[]]  # read once, and no topic by name


def test_nobody_is_asked_about_no_partitions(cluster: FakeCluster, links: Links) -> None:
    kafka = client(cluster, links)
    assert (kafka.list_offsets({}), kafka.leaders([])) == ({}, {})
    assert cluster.requests == []


def test_a_partition_that_moved_is_asked_at_its_new_leader_without_a_wait(cluster: FakeCluster, links: Links) -> None:
    waits: list[float] = []
    kafka = client(cluster, links, waits, retry=LEADERS_AGAIN)
    kafka.view()
    cluster.move("t", 0, 2)
    assert latest(kafka, T0, T1) == {T0: 5, T1: 0}
    assert kafka.list_offsets({T0: LATEST})[T0] == LogOffset(Broker(2, "127.0.0.1", cluster.ports[2]), (5,))
    assert waits == []


def test_only_what_failed_is_asked_again(cluster: FakeCluster, links: Links) -> None:
    kafka = client(cluster, links, retry=LEADERS_AGAIN)
    cluster.script("list_offsets", Fail(6, ("t", 0)), Fail(6, ("t", 0)))
    said = kafka.list_offsets({T0: LATEST, T1: LATEST})
    assert {tp: (one.offset, one.tries) for tp, one in said.items()} == {T0: (5, 2), T1: (0, 1)}
    assert [list(seen.body["times"]) for seen in cluster.seen("list_offsets")][2:] == [[("t", 0)]]


def test_failures_are_values_beside_the_offsets_of_others(cluster: FakeCluster, links: Links) -> None:
    kafka = client(cluster, links)
    cluster.leave_leaders(2)
    cluster.stop(2)
    said = kafka.list_offsets({T0: LATEST, T1: LATEST, NO_SUCH: LATEST})
    assert said[T0].known() == 5
    assert isinstance(said[T1].error, LinkLost)
    assert said[T1].broker == Broker(2, "127.0.0.1", cluster.ports[2])
    assert said[NO_SUCH] == LogOffset(None, error=NoLeader("there is no topic nosuch", lasting=True))
    with pytest.raises(NoLeader, match="there is no topic nosuch"):
        said[NO_SUCH].known()


def test_a_refusal_that_no_retry_helps_is_final(cluster: FakeCluster, links: Links) -> None:
    waits: list[float] = []
    kafka = client(cluster, links, waits, retry=THRICE)
    cluster.script("list_offsets", Fail(29))
    said = kafka.list_offsets({T0: LATEST})[T0]
    assert (said.code, said.tries, said.retriable, waits) == (29, 1, False, [])


def test_a_connection_that_the_broker_closed_while_idle_is_no_outage(cluster: FakeCluster, links: Links) -> None:
    kafka = client(cluster, links)
    assert latest(kafka, T0) == {T0: 5}
    port = cluster.ports[1]
    cluster.stop(1)
    cluster.start(1, port)
    assert latest(kafka, T0) == {T0: 5}


def test_a_response_that_leaves_a_partition_out_is_the_error_of_that_partition() -> None:
    one = Broker(1, "h", 9092)
    response = {"topics": [{"topic": "t", "partitions": [{"partition": 0, "error": 0, "offset": -1}]}]}
    said = read_offsets(one, [T0, T1], response)
    assert said[T0] == LogOffset(one)  # v1: no message is so late
    assert said[T0].offset is None
    assert (said[T1].code, said[T1].retriable) == (NOT_ANSWERED, True)
    with pytest.raises(RemoteError, match="sent no offset for the end of a log"):
        said[T0].known()


def test_a_release_can_be_named_for_one_call(cluster: FakeCluster, links: Links) -> None:
    source = MetadataLeaders(MetadataSource(cluster.bootstrap, D, links))
    kafka = KafkaClient(source, links, dialect("0.10.1"))  # whose ListOffsets v1 this cluster does not speak
    assert kafka.list_offsets({T0: LATEST}, dialect=D)[T0].offset == 5


def test_many_partitions_of_one_leader_take_several_requests(
    cluster: FakeCluster, links: Links, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkawire.cluster.listoffsets.PARTITIONS_PER_REQUEST", 2)
    cluster.create("u", 10)
    tps = [TopicPartition("u", n) for n in range(10)]
    assert latest(client(cluster, links), *tps) == dict.fromkeys(tps, 0)
    assert sorted(len(seen.body["times"]) for seen in cluster.seen("list_offsets")) == [1, 1, 2, 2, 2, 2]


# leaders --------------------------------------------------------------------------------------------------------------


def test_leaders_that_are_believed_are_not_looked_up(cluster: FakeCluster, links: Links) -> None:
    one = Broker(1, "127.0.0.1", cluster.ports[1])
    kafka = client(cluster, links, view=ClusterView({1: one}, {"t": {0: PartitionView(1)}}))
    assert kafka.leader(T0) == one
    assert latest(kafka, T0) == {T0: 5}
    assert cluster.seen("metadata") == []
    assert set(kafka.leaders([T0, T1])) == {T0, T1}  # one of them is not known: looked up
    assert len(cluster.seen("metadata")) == 1


def test_waits_grow_and_then_there_is_no_leader(cluster: FakeCluster, links: Links) -> None:
    waits: list[float] = []
    kafka = client(cluster, links, waits, retry=THRICE)
    cluster.stop(1)
    said = kafka.leader(T0)
    assert isinstance(said, NoLeader)
    assert (said, said.tries, waits) == (NoLeader("it has no leader"), 4, [0.1, 0.2])


def test_an_election_is_waited_for_longer_than_the_retries_last(cluster: FakeCluster, links: Links) -> None:
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if sum(waits) > 20:
            cluster.move("t", 0, 2)

    source = MetadataLeaders(MetadataSource(cluster.bootstrap, D, links))
    policy = RetryPolicy(retries=1, at_once=1, backoff=Backoff(0.1), election_s=30)
    kafka = KafkaClient(source, links, D, retry=policy, sleep=sleep)
    kafka.view()
    cluster.leave_leaders(1)
    cluster.stop(1)
    assert latest(kafka, T0, T1) == {T0: 5, T1: 0}
    assert 20 < sum(waits) <= 30


@pytest.mark.parametrize("code", [3, 5, 6, 9, 56, 74, 75, 78, -1])
def test_whatever_a_broker_says_after_an_election_is_waited_for(code: int, cluster: FakeCluster, links: Links) -> None:
    cluster.script("list_offsets", *[Fail(code)] * 10)
    policy = RetryPolicy(retries=1, at_once=1, backoff=Backoff(0.1), election_s=30)
    waits: list[float] = []
    said = client(cluster, links, waits, retry=policy).list_offsets({T0: LATEST})[T0]
    assert (said.offset, said.tries) == (5, 11)


def test_no_election_is_waited_for_where_there_is_no_such_partition(cluster: FakeCluster, links: Links) -> None:
    waits: list[float] = []
    policy = RetryPolicy(retries=1, at_once=1, election_s=30)
    said = client(cluster, links, waits, retry=policy).list_offsets({T0: LATEST, NO_SUCH: LATEST})
    assert (said[T0].offset, said[NO_SUCH].error) == (5, NoLeader("there is no topic nosuch", lasting=True))
    assert sum(waits) < 1


# the view -------------------------------------------------------------------------------------------------------------


def test_a_view_is_read_again_when_it_is_too_old_or_asked_for(cluster: FakeCluster, links: Links) -> None:
    clock = [0.0]
    kafka = client(cluster, links, now=lambda: clock[0])
    for refresh, at, reads in ((False, 0, 1), (False, 2, 1), (False, 2.1, 2), (True, 2.1, 3)):
        clock[0] = at
        assert kafka.view(refresh=refresh, max_age_s=2).partitions("t") == [0, 1]
        assert len(cluster.seen("metadata")) == reads


def test_a_cluster_that_was_never_there_is_not_waited_for_like_an_election(links: Links) -> None:
    waits: list[float] = []
    with FakeCluster({"t": 1}) as gone:
        policy = RetryPolicy(retries=2, at_once=1, backoff=Backoff(0.1), election_s=30)
        kafka, again = client(gone, links, waits, retry=policy), client(gone, links, waits, retry=policy)
        again.view()
    for call in (kafka.view, lambda: kafka.leaders([T0])):
        with pytest.raises(Unreachable, match="no broker of the cluster answers"):
            call()
    said = kafka.list_offsets({T0: LATEST})[T0]
    assert isinstance(said.error, Unreachable)
    assert said.tries == 3
    assert waits == [0.1] * 3
    with pytest.raises(Unreachable):
        again.view(refresh=True)
    assert 30 <= sum(waits) < 45


def test_brokers_that_have_just_started_are_waited_for_like_an_election(cluster: FakeCluster, links: Links) -> None:
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if sum(waits) > 20:
            cluster.uninformed = set()

    policy = RetryPolicy(retries=2, at_once=1, backoff=Backoff(0.1), election_s=30)
    for call in ("view", "leaders", "list_offsets"):
        cluster.uninformed = {1, 2}
        waits.clear()
        source = MetadataLeaders(MetadataSource(cluster.bootstrap, D, links))
        kafka = KafkaClient(source, links, D, retry=policy, sleep=sleep)
        if call == "view":
            assert kafka.view().partitions("t") == [0, 1]
        elif call == "leaders":
            assert kafka.leader(T0) == Broker(1, "127.0.0.1", cluster.ports[1])
        else:
            assert latest(kafka, T0) == {T0: 5}
        assert sum(waits) > 20


def test_nobody_is_asked_twice_without_a_policy(cluster: FakeCluster, links: Links) -> None:
    kafka = client(cluster, links, retry=ONCE)
    cluster.script("list_offsets", Fail(6))
    said = kafka.list_offsets({T0: LATEST})[T0]
    assert isinstance(said.error, BrokerError)
    assert (said.code, said.tries, said.moved) == (6, 1, True)


def test_an_end_that_is_told_lower_than_what_was_read_is_asked_again_of_the_leaders_own_log(
    cluster: FakeCluster, links: Links
) -> None:
    kafka = client(cluster, links)
    cluster.logs["t", 0].high_watermark = 3  # as up to 2.1 of a leader that was just elected
    assert kafka.list_ends({T0: 3, T1: 0})[T0].offset == 3
    assert kafka.list_ends({T0: 4, T1: 0})[T0].offset == 4  # its log holds that, and may show no more yet
    assert kafka.list_ends({T0: 5, T1: 0}, replica_id=DEBUGGING)[T0].offset == 5
    assert kafka.list_ends({T0: 9, T1: 0})[T0].offset == 5  # it is shorter indeed
    cluster.script("list_offsets", None, None, Fail(6))
    unknown = kafka.list_ends({T0: 4, T1: 0})[T0]
    assert (unknown.offset, unknown.code) == (None, 6)


def test_a_leader_that_knows_too_little_is_asked_as_often_as_the_policy_says(
    cluster: FakeCluster, links: Links
) -> None:
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:
            cluster.move("t", 0, 2)
            cluster.append("t", 0, b"".join(entry(b"late%d" % n) for n in range(4)))

    source = MetadataLeaders(MetadataSource(cluster.bootstrap, D, links))
    policy = RetryPolicy(retries=3, at_once=1, backoff=Backoff(0.1), election_s=30)
    kafka = KafkaClient(source, links, D, retry=policy, sleep=sleep)
    assert kafka.list_ends({T0: 9})[T0].offset == 9
    assert kafka.list_ends({T0: 90})[T0].offset == 9
    assert waits == [0.1, 0.1]  # a log that is shorter is no election


# where partitions belong to brokers -----------------------------------------------------------------------------------


def test_a_listed_broker_leads_the_partitions_that_are_named_for_it() -> None:
    source = ListedLeaders([Broker(3, "h", 9092)], "broker.list")
    view = source.read(None)
    assert source.leader(view, TopicPartition("t", BrokerPartition(3, 7))) == Broker(3, "h", 9092)
    gone = NoLeader("broker.list has no broker 4", lasting=True)
    assert source.leader(view, TopicPartition("t", BrokerPartition(4, 0))) == gone


def test_a_partition_that_a_broker_of_07_closes_for_hurts_no_other(broker07: Any, unique: Any, links: Links) -> None:
    broker = Broker(1, "127.0.0.1", broker07.port)
    tps = [TopicPartition(unique.topic(), BrokerPartition(1, index)) for index in (0, 7, 1)]
    said = ask_offsets(links, dialect("0.7.2"), {broker: tps}, dict.fromkeys(tps, LATEST), purpose="p")
    assert [said[tp].offset for tp in tps] == [0, None, 0]
    assert isinstance(said[tps[1]].error, LinkLost)


def test_a_broker_of_07_that_is_gone_is_not_asked_for_each_partition(links: Links) -> None:
    with FakeCluster() as gone:
        broker = Broker(1, "127.0.0.1", gone.ports[1])
    tps = [TopicPartition("t", BrokerPartition(1, index)) for index in range(3)]
    said = ask_offsets(links, dialect("0.7.2"), {broker: tps}, dict.fromkeys(tps, LATEST), purpose="p")
    assert all(isinstance(one.error, LinkLost) for one in said.values())
    assert len({str(one.error) for one in said.values()}) == 1


def test_problems_are_a_sentence_a_lost_broker_and_one_for_each_other_partition() -> None:
    one, two = Broker(1, "h", 9092), Broker(2, "h", 9093)
    lost = LogOffset(two, error=LinkLost("h:9093: reset"))
    found = {
        T0: LogOffset(one, (5,)),
        T1: lost,
        TopicPartition("u", 0): lost,
        TopicPartition("u", 1): LogOffset(one, error=BrokerError(6, "u/1 on broker 1 (h:9092)")),
        NO_SUCH: LogOffset(None, error=NoLeader("there is no topic nosuch", lasting=True)),
        TopicPartition("u", 2): LogOffset(None, error=Unreachable("no broker of the cluster answers")),
        TopicPartition("u", 3): LogOffset(None, error=Unreachable("no broker of the cluster answers")),
    }
    assert problems(found) == [
        "2 partitions led by broker 2 (h:9093): h:9093: reset",
        "the broker refuses the offsets of its log: u/1 on broker 1 (h:9092): NotLeaderForPartition (6)",
        "nosuch/0: there is no topic nosuch",
        "no broker of the cluster answers",
    ]
