"""Many requests to many brokers: none waits for another broker, and one that is lost concerns its own requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from kafkawire.dialects import dialect
from kafkawire.errors import LinkLost
from kafkawire.model import Broker, TopicPartition
from kafkawire.net import exchange as module
from kafkawire.net.exchange import exchange
from kafkawire.net.links import Links
from tests.fakes.broker import Close, FakeCluster, Wait

D = dialect("0.8.2")


@pytest.fixture
def links() -> Iterator[Links]:
    pool = Links("test", timeout_ms=5000)
    yield pool
    pool.close()


def brokers(cluster: FakeCluster) -> list[Broker]:
    return [Broker(id, "127.0.0.1", port) for id, port in cluster.ports.items()]


def ends(count: int) -> list[tuple[int, object]]:
    return [(n, D.requests.list_offsets(D, {TopicPartition("t", n): -1})) for n in range(count)]


def test_responses_come_by_key_whatever_the_window(links: Links, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeCluster({"t": 40}) as cluster:
        for window in (1, 100, 32768):
            monkeypatch.setattr(module, "WINDOW_BYTES", window)
            found = exchange(links, {brokers(cluster)[0]: ends(40)}, "p")
            assert [found[n]["topics"][0]["partitions"][0]["partition"] for n in range(40)] == list(range(40))
        assert links.link(brokers(cluster)[0], "p").outstanding == 0


def test_all_brokers_are_asked_before_the_first_response_is_waited_for(links: Links) -> None:
    with FakeCluster({"t": 3}, brokers=3) as cluster:
        asked = threading.Event()
        cluster.script("list_offsets", Wait(asked, 5))
        timer = threading.Thread(target=lambda: (cluster.wait(lambda: len(cluster.requests) == 3), asked.set()))
        timer.start()
        began = time.monotonic()
        exchange(links, {broker: [(broker, ends(1)[0][1])] for broker in brokers(cluster)}, "p")
        timer.join()
        assert time.monotonic() - began < 4


def test_a_lost_broker_concerns_what_it_did_not_answer(links: Links) -> None:
    with FakeCluster({"t": 3}, brokers=2) as cluster:
        one, two = brokers(cluster)
        requests = {one: [(("one", n), request) for n, request in ends(3)], two: [("two", ends(1)[0][1])]}
        exchange(links, requests, "p")
        cluster.script("list_offsets", Close(), Close())
        found = exchange(links, {one: requests[one]}, "p")
        assert {key: isinstance(said, LinkLost) for key, said in found.items()} == {("one", n): True for n in range(3)}
        cluster.stop(1)
        cluster.scripts.clear()
        found = exchange(links, requests, "p")
        assert isinstance(found["one", 0], LinkLost)
        assert not isinstance(found["two"], LinkLost)


def test_nobody_and_nothing_is_asked(links: Links) -> None:
    with FakeCluster() as cluster:
        assert exchange(links, {}, "p") == exchange(links, {brokers(cluster)[0]: []}, "p") == {}
        assert cluster.requests == []


class Ended(BaseException):
    """As gevent ends a greenlet that waits."""


def test_a_link_whose_response_is_outstanding_is_not_used_again(links: Links, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeCluster({"t": 1}) as cluster:
        (one,) = brokers(cluster)
        link = links.link(one, "p")
        with monkeypatch.context() as patched:
            patched.setattr(type(link), "receive", lambda self: (_ for _ in ()).throw(Ended()))
            with pytest.raises(Ended):
                exchange(links, {one: ends(1)}, "p")
        assert links.link(one, "p") is not link
        assert not isinstance(exchange(links, {one: ends(1)}, "p")[0], LinkLost)
