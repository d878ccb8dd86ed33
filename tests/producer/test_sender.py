"""Sender on the fake cluster: order across retries, unknown outcomes, leases that end, new leaders."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from groundwork.tasks import sleep
from kafkawire.model import TopicPartition
from producer.errors import Undeliverable, UnknownOutcome
from producer.verdicts import BOUNDED_TRIES
from tests.fakes.broker import Close, Fail, FakeCluster, Wait
from tests.fakes.tickets import OnceTicket, Ticket
from tests.producer.running import OTHER, TP, WAIT_S, part, running, until


def test_parts_arrive_in_order_and_their_tickets_are_done():
    with FakeCluster({"t": 2}, brokers=2) as cluster, running(cluster) as run:
        tickets = run.sent(*(part(b"%d" % n, tp=TopicPartition("t", n % 2)) for n in range(100)))
        assert cluster.values("t", 0) == [b"%d" % n for n in range(0, 100, 2)]
        assert cluster.values("t", 1) == [b"%d" % n for n in range(1, 100, 2)]
        assert all(ticket.told == [("done",)] for ticket in tickets)
        assert run.sender.counters.messages == 100
        assert (run.sender.bytes_pending, run.sender.bytes_in_flight) == (0, 0)
        assert cluster.seen("produce")[0].body["acks"] == -1


def test_a_mirror_never_asks_for_a_topic_by_name():
    with FakeCluster({"t": 1}, auto_create=3) as cluster, running(cluster, topic_wait_ms=50) as run:
        run.sent(part(b"v"))
        (ticket,) = run.sent(part(b"v", tp=TopicPartition("missing", 0)))
        assert {tuple(seen.body["topics"]) for seen in cluster.seen("metadata")} == {()}
        ((what, reason, position),) = ticket.told
        assert (what, position) == ("failed", None)
        assert isinstance(reason, Undeliverable)
        assert "missing/0: the target does not have topic missing" in str(reason)


def test_while_no_broker_answers_no_topic_counts_as_missing():
    with FakeCluster({"t": 1}) as cluster, running(cluster, topic_wait_ms=0) as run:
        source = run.sender.leaders._metadata
        cluster.stop(1)
        (ticket,) = run.submit(part(b"v"))
        until(lambda: run.sender.leaders.refreshes >= 5)
        assert ticket.told == []
        cluster.start(1)
        source._bootstrap[0] = source._bootstrap[0]._replace(port=cluster.ports[1])  # type: ignore[attr-defined]
        until(lambda: ticket.told)
        assert ticket.told == [("done",)]


def test_a_partition_the_target_does_not_have_fails_with_its_partition_count():
    with FakeCluster({"t": 2}) as cluster, running(cluster, topic_wait_ms=50) as run:
        (ticket,) = run.sent(part(b"v", tp=TopicPartition("t", 7)))
        assert "t/7: the target's topic t has 2 partitions" in str(ticket.told[0][1])


def test_a_topic_that_cannot_be_created_takes_no_other_with_it():
    bad, new = TopicPartition("bad", 0), TopicPartition("new", 0)
    with FakeCluster({"t": 1}, auto_create=1) as cluster, running(cluster, by_name=True, topic_wait_ms=300) as run:
        run.sent(part(b"a"))
        cluster.uncreatable.add("bad")
        (failed,) = run.submit(part(b"x", tp=bad))
        until(lambda: "bad" in run.sender.leaders.view.errors)
        assert run.sender.leaders.view.partitions("t") == [0]
        run.submit(part(b"b"), part(b"c", tp=new))
        until(lambda: cluster.logs.get(("new", 0)) and cluster.values("new", 0) == [b"c"])
        assert cluster.values("t", 0) == [b"a", b"b"]
        until(lambda: failed.told)
        assert "UnknownServerError" in str(failed.told[0][1])
        assert run.sender.close(WAIT_S) == 0


def test_a_topic_that_nothing_is_sent_to_is_not_brought_back_by_a_refresh():
    topics = {"t": 1, "u": 1}
    with FakeCluster(topics, auto_create=1) as cluster, running(cluster, by_name=True, refresh_ms=50) as run:
        run.sent(part(b"a"), part(b"b", tp=TopicPartition("u", 0)))
        with cluster.lock:
            del cluster.logs["u", 0]
            run.sender.leaders.refresh()
        until(lambda: "u" not in run.sender.leaders.view.topics)
        refreshes = run.sender.leaders.refreshes
        until(lambda: run.sender.leaders.refreshes > refreshes + 2)
        assert run.sender.leaders.view.partitions("t") == [0]
        assert ("u", 0) not in cluster.logs
        run.sent(part(b"c", tp=TopicPartition("u", 0)))  # it is sent to again: as a new topic
        assert cluster.values("u", 0) == [b"c"]


def test_a_topic_that_comes_up_later_gets_what_waited_for_it():
    with FakeCluster({"t": 1}) as cluster, running(cluster) as run:
        (ticket,) = run.submit(part(b"v", tp=TopicPartition("late", 0)))
        until(lambda: len(cluster.seen("metadata")) > 1)
        cluster.create("late", 1)
        until(lambda: ticket.told)
        assert cluster.values("late", 0) == [b"v"]


@pytest.mark.parametrize("code", [5, 6, 7, 13, 19, 56])
def test_a_retriable_refusal_is_sent_again_in_order(code: int):
    with FakeCluster({"t": 1}) as cluster, running(cluster, batch_bytes=1024) as run:
        cluster.script("produce", None, Fail(code), Fail(code))
        run.sent(*(part(b"%03d" % n * 100) for n in range(30)))
        assert cluster.values("t", 0) == [b"%03d" % n * 100 for n in range(30)]
        assert run.sender.counters.errors == {code: 2}
        assert any("flows again" in event for event in run.events)


def test_one_partition_in_trouble_does_not_hold_up_its_neighbour():
    with FakeCluster({"t": 2}) as cluster, running(cluster, retry_backoff_ms=2000) as run:
        cluster.script("produce", Fail(19, tp=("t", 0)))
        first, second = run.submit(part(b"a"), part(b"b", tp=OTHER))
        until(lambda: second.told)
        assert first.told == []


def test_an_unknown_outcome_is_sent_again_and_counted():
    with FakeCluster({"t": 1}) as cluster, running(cluster) as run:
        cluster.script("produce", Close(store=True))
        (ticket,) = run.sent(part(b"a"))
        assert cluster.values("t", 0) == [b"a", b"a"]
        assert ticket.told == [("done",)]
        assert run.sender.counters.unknown == 1
        assert any("may be stored twice" in event for event in run.events)


@pytest.mark.parametrize("code", [6, 3, 7, 20, 56, -1])
def test_what_a_leader_appended_and_then_refused_is_not_stored_twice_where_it_must_not(code: int):
    with FakeCluster({"t": 1}) as cluster, running(cluster) as run:
        cluster.script("produce", Fail(code, store=True))
        once = OnceTicket()
        run.sender.submit(part(b"a"), once)
        assert run.sender.flush(WAIT_S)
        assert cluster.values("t", 0) == [b"a"]
        [(what, reason, _)] = once.told
        assert what == "failed"
        assert isinstance(reason, UnknownOutcome)


def test_silence_is_an_unknown_outcome():
    release = threading.Event()
    with FakeCluster({"t": 1}) as cluster, running(cluster) as run:
        run.sender._s.links._timeout_ms = 100
        cluster.script("produce", Wait(release))
        (ticket,) = run.submit(part(b"a"))
        until(lambda: ticket.told)
        release.set()
        assert run.sender.counters.unknown == 1


def test_one_request_in_flight_per_partition_and_several_per_broker():
    release = threading.Event()
    with FakeCluster({"t": 2}) as cluster, running(cluster) as run:
        run.sent(part(b"0"))
        cluster.script("produce", Wait(release))
        run.submit(part(b"1"))
        until(lambda: len(cluster.seen("produce")) == 2)
        run.submit(part(b"2"), part(b"x", tp=OTHER))
        until(lambda: run.sender.in_flight == 2)
        sleep(0.05)
        assert run.sender.in_flight == 2  # t/0 waits for its answer; t/1 is on the way behind it
        release.set()
        assert run.sender.flush(WAIT_S)
        assert cluster.values("t", 0) == [b"0", b"1", b"2"]
        sets = [list(seen.body["sets"]) for seen in cluster.seen("produce")]
        assert sets == [[("t", 0)], [("t", 0)], [("t", 1)], [("t", 0)]]


def test_what_may_not_be_sent_never_reaches_the_broker():
    with FakeCluster({"t": 1}) as cluster, running(cluster) as run:
        refused = Ticket(willing=False)
        run.sender.submit(part(b"a"), refused)
        run.sent(part(b"b"))
        assert cluster.values("t", 0) == [b"b"]
        assert refused.told == []
        assert run.sender.dropped == 1


def test_a_share_that_is_lost_during_a_retry_is_not_sent_again():
    with FakeCluster({"t": 1}) as cluster, running(cluster) as run:
        cluster.script("produce", Fail(19))
        ticket = Ticket()
        ticket.may_send = lambda: not cluster.seen("produce")  # type: ignore[method-assign]
        run.sender.submit(part(b"a"), ticket)
        assert run.sender.flush(WAIT_S)
        assert len(cluster.seen("produce")) == 1
        assert ticket.told == []


def test_a_fence_breaks_what_is_in_flight_and_only_what_may_be_sent_goes_again():
    release = threading.Event()
    with FakeCluster({"t": 2}) as cluster, running(cluster) as run:
        run.sent(part(b"0"), part(b"0", tp=OTHER))
        cluster.script("produce", Wait(release))
        lost, kept = run.submit(part(b"lost"), part(b"kept", tp=OTHER))
        until(lambda: run.sender.bytes_in_flight == run.sender.bytes_pending)
        lost.willing = False
        run.sender.close_links()
        until(lambda: kept.told)
        assert lost.told == []
        release.set()
        assert cluster.values("t", 1)[-1] == b"kept"


def test_a_drop_forgets_what_waits():
    with FakeCluster({"t": 2}) as cluster, running(cluster, linger_ms=60000) as run:
        run.submit(part(b"a"), part(b"b", tp=OTHER), part(b"c"))
        assert run.sender.drop(lambda each, _: each.tp == TP) == 2
        assert run.sender.flush(WAIT_S)
        assert (cluster.values("t", 0), cluster.values("t", 1)) == ([], [b"b"])


def test_a_leader_that_dies_is_waited_for_and_found_on_another_port():
    with FakeCluster({"t": 1}) as cluster, running(cluster) as run:
        run.sent(part(b"a"))
        source = run.sender.leaders._metadata
        cluster.stop(1)
        (ticket,) = run.submit(part(b"b"))
        until(lambda: run.sender.leaders.failure is not None)
        cluster.start(1)
        source._bootstrap[0] = source._bootstrap[0]._replace(port=cluster.ports[1])  # type: ignore[attr-defined]
        until(lambda: ticket.told)
        assert cluster.values("t", 0) == [b"a", b"b"]
        assert any("the cluster answers again" in event for event in run.events)


def test_a_broker_that_refuses_connections_is_not_hammered():
    with FakeCluster({"t": 2}, brokers=2) as cluster, running(cluster, reconnect_ms=200) as run:
        run.sent(part(b"a"), part(b"x", tp=OTHER))
        tried: list[tuple[str, int]] = []
        links = run.sender._s.links
        inner = links._connect

        def counting(address: tuple[str, int], timeout: float) -> Any:
            tried.append(address)
            return inner(address, timeout)

        links._connect = counting
        cluster.leave_leaders(2)
        cluster.stop(2)
        run.submit(part(b"y", tp=OTHER))
        sleep(0.7)
        assert 1 <= len(tried) <= 4


def test_with_bounded_retries_nothing_waits_for_a_leader_longer_than_the_delivery_time_out():
    with FakeCluster({"t": 1}) as cluster, running(cluster, retries=0, delivery_timeout_ms=100) as run:
        run.sent(part(b"a"))
        cluster.stop(1)
        (ticket,) = run.sent(part(b"b"))
        assert ticket.told[0][0] == "failed"


def test_without_acknowledgements_nothing_is_waited_for():
    with FakeCluster({"t": 1}) as cluster, running(cluster, acks=0) as run:
        (ticket,) = run.sent(part(b"a"))
        assert ticket.told == [("done",)]
        until(lambda: cluster.values("t", 0) == [b"a"])


@pytest.mark.parametrize("seed", range(6))
def test_under_any_faults_nothing_is_lost_and_first_copies_are_in_order(seed: int):
    rng = random.Random(seed)
    faults = [None, None, *(Fail(code) for code in (5, 6, 19)), *(Fail(code, store=True) for code in (6, 7, 20))]
    faults += [Close(), Close(store=True), Fail(2), Wait(None, 0.01)]
    with FakeCluster({"t": 4}, brokers=2) as cluster, running(cluster, batch_bytes=2048, reconnect_ms=5) as run:
        script = rng.choices(faults, k=40)
        damage = [at for at, fault in enumerate(script) if fault == Fail(2)]
        for at in damage[BOUNDED_TRIES - 1 :]:
            script[at] = None  # one batch could meet all of them in a row, and is given up then
        cluster.script("produce", *script)
        sent: dict[int, list[bytes]] = {p: [] for p in range(4)}
        tickets: list[Ticket] = []
        for n in range(400):
            p = rng.randrange(4)
            value = b"%04d" % n + b"x" * rng.randrange(300)
            sent[p].append(value)
            tickets += run.submit(part(value, tp=TopicPartition("t", p)))
            if n % 50 == 25:
                cluster.move("t", rng.randrange(4), rng.randrange(1, 3))
            if n % 7 == 0:
                sleep(0.001)
        assert run.sender.flush(WAIT_S), run.events
        for p in range(4):
            assert list(dict.fromkeys(cluster.values("t", p))) == sent[p]
        assert all(ticket.told == [("done",)] for ticket in tickets)
        assert (run.sender.bytes_pending, run.sender.bytes_in_flight, run.sender.in_flight) == (0, 0, 0)


def test_close_counts_what_is_left_and_tells_nobody():
    with FakeCluster({"t": 1}) as cluster, running(cluster) as run:
        run.sent(part(b"a"))
        cluster.stop(1)
        (ticket,) = run.submit(part(b"b"))
        assert run.sender.close(0.05) == 1
        assert ticket.told == []
