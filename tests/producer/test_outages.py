"""What a sender tells of outages and of partitions that do not flow: a warning first, one line at the end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from groundwork.tasks import now, sleep
from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.errors import BrokerError, LinkLost
from kafkawire.model import Broker, TopicPartition
from producer.outages import CLUSTER, GRACE_S, Outages, Stalls, waiting
from tests.fakes.actions import Wait
from tests.fakes.broker import Close, Fail, FakeCluster
from tests.producer.running import OTHER, part, running, until

WARNING, INFO = logging.WARNING, logging.INFO
HERE = Broker(0, "h", 9092)
TPS = [TopicPartition("orders", n) for n in range(100)]


class Told:
    def __init__(self) -> None:
        self.lines: list[tuple[int, str]] = []
        self.stalls = Stalls(self._take)
        self.outages = Outages(self._take)

    def _take(self, level: int, sentence: str) -> None:
        self.lines.append((level, sentence))

    def taken(self) -> list[tuple[int, str]]:
        lines, self.lines = self.lines, []
        return lines


def test_a_broker_is_an_outage_once_and_its_end_says_how_long_it_was() -> None:
    told = Told()
    for n in range(20):
        told.outages.begin(0, str(HERE), f"{HERE}: no byte within 10 s", "it is sent again", 100.0 + n)
    assert told.taken() == [(WARNING, f"{HERE}: no byte within 10 s; it is sent again")]
    assert told.outages.summary(140.0) == f"{HERE}: no byte within 10 s (for 40 s)"
    told.outages.over(0, "answers again", 141.5)
    told.outages.over(0, "answers again", 142.0)
    assert told.taken() == [(INFO, f"{HERE} answers again after 41.5 s")]
    assert told.outages.summary(142.0) == ""


def test_the_cluster_and_its_broker_are_one_warning_together() -> None:
    for first, second in ((0, CLUSTER), (CLUSTER, 0)):
        told = Told()
        told.outages.begin(first, "one", "one is away", "then", 1.0)
        told.outages.begin(second, "other", "other is away", "then", 2.0)
        assert [level for level, _ in told.taken()] == [WARNING, INFO]
    told = Told()
    told.outages.begin(0, "one", "one is away", "then", 1.0)
    told.outages.begin(1, "other", "other is away", "then", 2.0)
    assert [level for level, _ in told.taken()] == [WARNING, WARNING]


def test_a_refusal_of_a_hundred_partitions_is_one_warning() -> None:
    told = Told()
    for at in (0.0, 1.0, 3.0, 10.0):
        for tp in TPS:
            told.stalls.failed_again(tp, BrokerError(19, f"{tp} on {HERE}"), at)
    lines = told.taken()
    assert [level for level, _ in lines] == [WARNING] + [INFO] * 99
    told.stalls.recovered(TPS[7], 12.0)
    assert told.taken() == [(INFO, "orders/7: flows again after 12.0 s (NotEnoughReplicas, 4 times)")]


@pytest.mark.parametrize("code", [3, 5, 6])
def test_an_election_is_a_warning_only_once_it_lasts(code: int) -> None:
    told = Told()
    for tp in TPS[:3]:
        told.stalls.failed_again(tp, BrokerError(code, f"{tp} on {HERE}"), 0.0)
    assert [level for level, _ in told.taken()] == [INFO] * 3
    for tp in TPS[:3]:
        told.stalls.failed_again(tp, BrokerError(code, f"{tp} on {HERE}"), GRACE_S)
    [(level, said)] = told.taken()
    assert level == WARNING
    assert said.endswith("it is sent again, for 2 s now")


def test_a_missing_topic_is_said_once_for_all_its_partitions_and_not_at_all_when_it_comes_at_once() -> None:
    told = Told()
    quick = Told()
    for at in (0.0, 0.5, 1.0):
        for tp in TPS:
            quick.stalls.failed_again(tp, waiting(tp, ClusterView()), at)
    for tp in TPS:
        quick.stalls.recovered(tp, 1.5)
    assert quick.taken() == []
    for at in (0.0, 1.0, 2.0, 3.0, 60.0):
        for tp in TPS:
            told.stalls.failed_again(tp, waiting(tp, ClusterView()), at)
    [(level, said)] = told.taken()
    assert (level, said) == (
        WARNING, "orders/0: the target does not have topic orders; create it there; it is sent again, for 2 s now"
    )  # fmt: skip
    for tp in TPS:
        told.stalls.recovered(tp, 61.0)
    assert [said.partition(" ")[0] for _, said in told.taken()] == ["orders/0:"]


def test_a_lost_link_is_its_broker_s_outage_and_no_trouble_of_each_partition() -> None:
    told = Told()
    for tp in TPS:
        told.stalls.failed_again(tp, LinkLost(f"{HERE}: gone"), 0.0)
        told.stalls.failed_again(tp, LinkLost(f"{HERE}: gone"), 100.0)
        told.stalls.recovered(tp, 101.0)
    assert told.taken() == []


def test_no_leader_at_the_target_is_said_once() -> None:
    told = Told()
    view = ClusterView({0: HERE}, {"orders": {n: PartitionView(None) for n in range(100)}})
    for at in (0.0, 3.0):
        for tp in TPS:
            told.stalls.failed_again(tp, waiting(tp, view), at)
    assert [said for _, said in told.taken()] == ["orders/0: no leader at the target; it is sent again, for 3 s now"]


# ---- a sender on a broker that fails ---------------------------------------------------------------------------


def test_a_broker_that_breaks_the_connection_again_and_again_is_warned_of_once() -> None:
    with FakeCluster({"t": 1}) as cluster, running(cluster) as run:
        cluster.script("produce", *[Close()] * 4)
        run.sent(part(b"a"))
        [warning] = run.warnings()
        assert warning.endswith(
            "without an answer: 1 Produce; messages in flight are sent again and may be stored twice"
        )
        until(lambda: any("answers again after" in event for event in run.events))
        assert run.sender.outage == ""


def test_a_broker_that_is_gone_is_in_the_summary_until_it_answers_again() -> None:
    with FakeCluster({"t": 1}) as cluster, running(cluster) as run:
        run.sent(part(b"a"))
        source = run.sender.leaders._metadata
        cluster.stop(1)
        (ticket,) = run.submit(part(b"b"))
        until(lambda: "Connection refused" in run.sender.outage)
        sleep(0.3)  # it is tried many times
        assert len(run.warnings()) == 1
        cluster.start(1)
        source._bootstrap[0] = source._bootstrap[0]._replace(port=cluster.ports[1])  # type: ignore[attr-defined]
        until(lambda: ticket.told)
        until(lambda: run.sender.outage == "")
        assert len(run.warnings()) == 1


def test_an_outage_began_with_the_request_that_got_no_answer_and_not_when_that_was_noticed() -> None:
    with FakeCluster({"t": 1}) as cluster, running(cluster, request_timeout_ms=600) as run:
        run.sent(part(b"a"))
        released = threading.Event()
        cluster.script("produce", *[Wait(released)] * 9)
        before = now()
        run.submit(part(b"b"))
        until(lambda: run.sender._batches.in_flight())
        until(lambda: run.sender.outage)
        [outage] = run.sender._s.outages.current.values()
        assert before <= outage.since < now() - 0.5
        released.set()


def test_the_outage_of_a_broker_that_leads_nothing_any_more_is_over() -> None:
    with FakeCluster({"t": 1}, brokers=2) as cluster, running(cluster) as run:
        run.sent(part(b"a"))
        cluster.stop(1)
        (ticket,) = run.submit(part(b"b"))
        until(lambda: run.sender.outage)
        cluster.move("t", 0, 2)
        until(lambda: ticket.told)
        until(lambda: run.sender.outage == "")


def test_a_refusal_that_passes_is_one_warning_and_one_end() -> None:
    with FakeCluster({"t": 1}) as cluster, running(cluster) as run:
        cluster.script("produce", *[Fail(19)] * 3)
        run.sent(part(b"a"))
        assert len(run.warnings()) == 1
        assert run.events[-1].startswith("t/0: flows again after")


def test_a_leader_that_metadata_lacks_while_a_batch_is_in_flight_is_asked_for_until_it_is_back() -> None:
    """A broker that has just started takes messages before its metadata names leaders."""
    answer = threading.Event()
    with FakeCluster({"t": 1}) as cluster, running(cluster) as run:
        run.sent(part(b"a"))
        leaders = run.sender.leaders
        read = leaders._metadata.read

        def without_leader(names: Sequence[str] | None) -> ClusterView:
            found = read(names)
            return found if answer.is_set() else replace(found, topics={"t": {0: PartitionView(None)}})

        leaders._metadata.read = without_leader  # type: ignore[method-assign]
        cluster.script("produce", Wait(answer))
        (first,) = run.submit(part(b"b"))
        until(lambda: list(run.sender._batches.in_flight()))
        (second,) = run.submit(part(b"c"))  # its leader is known at this moment
        before = leaders.refreshes
        leaders.refresh()
        until(lambda: leaders.refreshes > before)
        answer.set()
        until(lambda: first.told and second.told)


def test_while_no_broker_answers_only_metadata_is_asked_for():
    """One task tries all brokers; the senders connect again once it has found one."""
    with FakeCluster({"t": 2}, brokers=2) as cluster, running(cluster) as run:
        run.sent(part(b"a"), part(b"b", tp=OTHER))
        ports = dict(cluster.ports)
        links, tried = run.sender._s.links, []
        inner = links._connect

        def counted(address: tuple[str, int], timeout: float) -> Any:
            tried.append(address)
            return inner(address, timeout)

        links._connect = counted
        for broker in ports:
            cluster.stop(broker)
        tickets = run.submit(part(b"c"), part(b"d", tp=OTHER))
        until(lambda: run.sender.leaders.nobody_answers)
        before, looks = len(tried), run.sender.leaders.refreshes
        until(lambda: run.sender.leaders.refreshes > looks + 5)
        assert len(tried) <= before + 2  # what was under way
        for broker, port in ports.items():
            cluster.start(broker, port)
        until(lambda: all(ticket.told for ticket in tickets))
        assert [cluster.values("t", p) for p in range(2)] == [[b"a", b"c"], [b"b", b"d"]]
