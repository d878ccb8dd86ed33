"""Sender where somebody knows which brokers live: its connections follow them."""

from __future__ import annotations

import threading
from typing import Any

from groundwork.tasks import Event, sleep
from tests.fakes.broker import FakeCluster, Wait
from tests.producer.running import WAIT_S, Running, part, running, until


def follow(run: Running, live: set[int]) -> None:
    """Have the sender's pool follow that set from now on."""
    run.sender._live = lambda: frozenset(live)


def look(run: Running) -> None:
    looks = run.sender.leaders.refreshes
    run.sender.leaders.refresh()
    until(lambda: run.sender.leaders.refreshes > looks)


def test_each_live_broker_has_a_connection_and_no_other():
    with FakeCluster({"t": 1}, brokers=2) as cluster, running(cluster) as run:
        live = {1, 2}
        follow(run, live)
        run.sent(part(b"a"))
        until(lambda: run.sender.pool == {1: True, 2: True})
        live.remove(2)
        look(run)
        assert run.sender.pool == {1: True}
        live.add(2)
        look(run)
        until(lambda: run.sender.pool == {1: True, 2: True})
        run.sent(part(b"b"))
        assert cluster.values("t", 0) == [b"a", b"b"]


def test_what_was_on_its_way_to_a_broker_that_left_is_sent_again():
    with FakeCluster({"t": 1}, brokers=2) as cluster, running(cluster) as run:
        live = {1, 2}
        follow(run, live)
        run.sent(part(b"a"))
        release = threading.Event()
        cluster.script("produce", Wait(release))
        (ticket,) = run.submit(part(b"b"))
        until(lambda: run.sender.in_flight)
        cluster.move("t", 0, 2)
        live.remove(1)
        look(run)
        until(lambda: ticket.told)
        release.set()
        assert ticket.told == [("done",)]
        assert run.sender.counters.unknown == 1
        assert any("broker 1 has left the cluster" in event for event in run.events)


def test_a_broker_that_leaves_while_it_is_connected_to_and_comes_back_is_sent_to():
    with FakeCluster({"t": 1}) as cluster, running(cluster) as run:
        live = {1}
        follow(run, live)
        answers, begun = (Event(), Event()), []
        links = run.sender._s.links
        inner = links._connect

        def slow(address: tuple[str, int], timeout: float) -> Any:
            begun.append(address)
            answers[len(begun) - 1].wait(WAIT_S)
            return inner(address, timeout)

        links._connect = slow
        (ticket,) = run.submit(part(b"a"))
        until(lambda: begun)
        live.clear()
        look(run)
        assert run.sender.pool == {}
        live.add(1)
        look(run)
        until(lambda: len(begun) == 2)
        answers[0].set()  # the first connection belongs to nobody any more
        sleep(0.1)
        assert (run.sender.in_flight, cluster.seen("produce")) == (0, [])
        answers[1].set()
        until(lambda: ticket.told)
        assert (ticket.told, cluster.values("t", 0)) == ([("done",)], [b"a"])


def test_a_leader_that_left_is_looked_for_until_another_one_is_chosen():
    """Its node goes before the controller has chosen; no request is under way whose answer would tell."""
    with FakeCluster({"t": 1}, brokers=2) as cluster, running(cluster) as run:
        live = {1, 2}
        follow(run, live)
        run.sent(part(b"a"))
        cluster.leave_leaders(1)
        cluster.stop(1)
        live.remove(1)
        look(run)
        (ticket,) = run.submit(part(b"b"))
        looks = run.sender.leaders.refreshes
        until(lambda: run.sender.leaders.refreshes > looks + 3)
        cluster.move("t", 0, 2)
        until(lambda: ticket.told)
        assert (ticket.told, cluster.values("t", 0)) == ([("done",)], [b"a", b"b"])
