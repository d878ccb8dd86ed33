"""Several connections to each target broker: partitions pinned, order kept, whatever breaks."""

from __future__ import annotations

import random
import threading

import pytest

from groundwork.tasks import now, sleep
from kafkawire.model import TopicPartition
from localkafka.proxy import Proxy
from tests.fakes.broker import Close, Fail, FakeCluster, Wait
from tests.producer.running import OTHER, WAIT_S, part, running, until


def test_a_request_that_a_broker_is_busy_with_holds_up_its_own_connection_alone():
    release = threading.Event()
    with FakeCluster({"t": 4}) as cluster, running(cluster, connections=2) as run:
        cluster.script("produce", Wait(release))
        (held,) = run.submit(part(b"0"))
        until(lambda: cluster.seen("produce"))
        (answered,) = run.submit(part(b"x", tp=OTHER))
        until(lambda: answered.told)
        assert not held.told
        (behind,) = run.submit(part(b"1", tp=TopicPartition("t", 2)))  # pinned to the connection that waits
        until(lambda: run.sender.in_flight == 2)
        sleep(0.05)
        assert not behind.told
        assert run.sender.connections == {1: 2}
        assert run.sender.pool == {1: True}
        release.set()
        assert run.sender.flush(WAIT_S)
        assert cluster.values("t", 0) == [b"0"]


def test_one_connection_is_all_there_is_by_default():
    with FakeCluster({"t": 4}) as cluster, running(cluster) as run:
        run.sent(*(part(b"v", tp=TopicPartition("t", n)) for n in range(4)))
        assert run.sender.connections == {1: 1}


def test_in_flight_is_bounded_on_each_connection():
    release = threading.Event()
    with FakeCluster({"t": 8}) as cluster, running(cluster, connections=2, max_in_flight=2) as run:
        cluster.script("produce", Wait(release), Wait(release))
        for n in range(8):
            run.submit(part(b"v", tp=TopicPartition("t", n)))
            sleep(0.01)
        until(lambda: run.sender.in_flight == 4)
        sleep(0.05)
        assert run.sender.in_flight == 4
        release.set()
        assert run.sender.flush(WAIT_S)


@pytest.mark.parametrize("acks", [-1, 1, 0])
def test_the_order_of_each_partition_is_kept(acks: int):
    with FakeCluster({"t": 5}, brokers=2) as cluster, running(cluster, connections=3, acks=acks) as run:
        for n in range(200):
            run.submit(part(b"%d" % n, tp=TopicPartition("t", n % 5)))
            if n % 20 == 0:
                sleep(0)
        assert run.sender.flush(WAIT_S)
        for p in range(5):
            until(lambda p=p: len(cluster.values("t", p)) == 40)
            assert cluster.values("t", p) == [b"%d" % n for n in range(p, 200, 5)]


def first_seen(values: list[bytes]) -> list[bytes]:
    return list(dict.fromkeys(values))


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_lost_and_firsts_stay_in_order_while_connections_break_and_leaders_move(seed: int):
    rng = random.Random(seed)
    with FakeCluster({"t": 4}, brokers=2) as cluster, running(cluster, connections=2, batch_bytes=1024) as run:
        actions = [rng.choice([None, None, Close(store=True), Close(store=False), Fail(6), Fail(7)]) for _ in range(40)]
        cluster.script("produce", *actions)
        tickets = []
        for n in range(120):
            tickets += run.submit(part(b"%03d" % n * 60, tp=TopicPartition("t", n % 4)))
            if n % 30 == 29:
                cluster.move("t", rng.randrange(4), rng.choice([1, 2]))
                sleep(0.01)
        assert run.sender.flush(WAIT_S), run.events
        assert {ticket.told[-1] for ticket in tickets} == {("done",)}
        for p in range(4):
            assert first_seen(cluster.values("t", p)) == [b"%03d" % n * 60 for n in range(p, 120, 4)]


@pytest.mark.parametrize("acks", [-1, 1, 0])
def test_a_message_of_a_quiet_topic_goes_over_a_new_connection_where_a_nat_forgot_the_old_one(
    acks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkawire.net.link.IDLE_S", 0.2)
    with FakeCluster({"t": 1}) as cluster, Proxy(("127.0.0.1", cluster.ports[1])) as nat:
        cluster.ports[1] = nat.address[1]
        with running(cluster, acks=acks) as run:
            run.sent(part(b"a"))
            cluster.wait(lambda: cluster.values("t", 0) == [b"a"])
            nat.forget()
            sleep(0.3)  # idle for longer than IDLE_S
            began = now()
            run.sent(part(b"b"))
            cluster.wait(lambda: cluster.values("t", 0) == [b"a", b"b"])
            assert now() - began < 5
            assert run.events == []
            assert run.sender.counters.unknown == 0
