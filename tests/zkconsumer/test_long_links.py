"""Fetches over a long link: two in flight on a connection, and several connections a broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwork.tasks import now, sleep
from kafkawire.errors import LinkLost
from kafkawire.model import Broker, BrokerPartition, TopicPartition
from kafkawire.net.links import Links, Pins
from kafkawire.net.session import Reply
from kafkawire.protocol import apis
from tests.kafkawire.recordbatches import batch, rows_of
from tests.zkconsumer.test_fetcher_batches import Fetching, Log, Modern
from tests.zkconsumer.test_leaders import ONE, Cursor, World, view
from zkconsumer.fetching.brokerfetcher import FAR_S, IN_FLIGHT

PARTITIONS = [TopicPartition("t", n) for n in range(4)]
SETS, PER_SET = 12, 5


class Far(Modern):
    """A broker behind a link whose responses travel for `round_trip_s`; it may break it."""

    def __init__(self, round_trip_s: float) -> None:
        super().__init__()
        self.round_trip_s = round_trip_s
        self.logs = {tp: Log([batch(rows_of(n * PER_SET, PER_SET)) for n in range(SETS)]) for tp in PARTITIONS}
        self.most = 0  # requests in flight
        self.breaks_at = -1
        self.flying: list[tuple[float, list[TopicPartition]]] = []

    def send(self, request: Any) -> None:
        asked = self._asked(request)
        assert not {tp for _, tps in self.flying for tp in tps} & set(asked), "a partition in two requests"
        self.flying.append((now(), asked))
        super().send(request)
        self.most = max(self.most, len(self.sent))

    def receive(self) -> Reply:
        sleep(max(0.0, self.flying[0][0] + self.round_trip_s - now()))
        self.breaks_at -= 1
        if self.breaks_at == 0:
            self.sent.clear()
            self.flying.clear()
            raise LinkLost("it broke")
        self.flying.pop(0)
        return super().receive()

    @staticmethod
    def _asked(request: Any) -> list[TopicPartition]:
        body = apis.FETCH.decode_request(request.version, b"".join(request.buffers))
        return [TopicPartition(t["topic"], row["partition"]) for t in body["topics"] for row in t["partitions"]]


class Returning(Fetching):
    """Gives the cursors of a lost link back to the fetcher, as the leader finder does."""

    lost_links = 0

    def find_leaders(self, cursors: Any, why: str) -> None:
        for cursor in cursors:
            self.fetcher.add(cursor)

    def lost(self, broker: Broker, tps: Any, why: str, since: float) -> None:
        self.lost_links += 1


@pytest.fixture
def running() -> Iterator[list[Fetching]]:
    made: list[Fetching] = []
    yield made
    for each in made:
        each.tasks.stop(2)


def read_all(broker: Far, running: list[Fetching]) -> Returning:
    fetching = Returning(broker, fetch_bytes=len(broker.logs[PARTITIONS[0]].batches[0]) + 20)
    running.append(fetching)
    fetching.start(*PARTITIONS)
    fetching.until(lambda: len(fetching.read) >= len(PARTITIONS) * SETS * PER_SET)
    for tp in PARTITIONS:
        assert fetching.offsets(tp.partition) == list(range(SETS * PER_SET))  # type: ignore[arg-type]
    return fetching


def test_two_requests_of_different_partitions_are_in_flight_over_a_long_link(running):
    broker = Far(2 * FAR_S)
    read_all(broker, running)
    assert broker.most == IN_FLIGHT


def test_near_by_one_request_asks_for_all_partitions(running, monkeypatch):
    monkeypatch.setattr("zkconsumer.fetching.brokerfetcher.FAR_S", 60.0)  # however busy the machine is
    broker = Far(0.0)
    read_all(broker, running)
    assert broker.most == 1


def test_a_link_that_breaks_with_two_in_flight_costs_no_message_and_no_budget(running):
    broker = Far(2 * FAR_S)
    broker.breaks_at = 6
    fetching = read_all(broker, running)
    assert fetching.lost_links == 1
    fetching.tasks.stop(2)
    fetching.fetcher._abandon()
    assert fetching.budget.used == 0
    assert broker.most == IN_FLIGHT


def test_a_partition_is_pinned_while_its_broker_leads_it_and_connections_have_equally_many():
    pins = Pins(2)
    even = [TopicPartition("orders", n) for n in range(0, 8, 2)]  # of a broker that leads every second one
    lanes = [pins.lane(tp, 1) for tp in even]
    assert sorted(lanes) == [0, 0, 1, 1]
    seven = TopicPartition("orders", BrokerPartition(1, 0))
    assert pins.lane(seven, 1) in (0, 1)
    assert [pins.lane(tp, 1) for tp in even] == lanes
    assert [pins.lane(tp, 2) for tp in even[:2]] == [0, 1]  # their leader moved
    for tp, lane in zip(even, lanes, strict=True):
        if lane == 0:
            pins.forget(tp)
    assert pins.lane(TopicPartition("new", 0), 1) == 0
    assert {Pins(1).lane(tp, 1) for tp in even} == {0}


@given(st.integers(1, 4), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), st.booleans()), max_size=60))
def test_pins_against_a_slow_twin(lanes: int, steps: list[tuple[int, int, bool]]) -> None:
    pins, held = Pins(lanes), dict[TopicPartition, tuple[int, int]]()
    for partition, broker, forget in steps:
        tp = TopicPartition("t", partition)
        if forget:
            pins.forget(tp)
            held.pop(tp, None)
            continue
        if held.get(tp, (None, 0))[0] != broker:
            held.pop(tp, None)
            loads = [sum(pin == (broker, lane) for pin in held.values()) for lane in range(lanes)]
            held[tp] = broker, loads.index(min(loads))
        assert pins.lane(tp, broker) == held[tp][1]


def test_each_fetcher_has_its_part_of_the_partitions_and_connections_of_its_own():
    world = World(view(ONE, t=[1, 1, 1, 1]), per_broker=2)
    try:
        world.fetchers.add([Cursor(tp) for tp in PARTITIONS])  # type: ignore[misc]
        world.until(lambda: sum(len(fetcher.cursors) for fetcher in world.made) == 4)
        parts = sorted(sorted(fetcher.cursors) for fetcher in world.made)
        assert parts == [[PARTITIONS[0], PARTITIONS[2]], [PARTITIONS[1], PARTITIONS[3]]]
        links = [links.link(ONE, "fetch") for links in world.links]
        assert len(set(map(id, links))) == 2
        world.source.seen = view()
        world.fetchers.refresh()
        world.until(lambda: all(link.broken is not None for link in links))
    finally:
        world.tasks.stop(1)


def test_lanes_of_a_pool_have_connections_of_their_own_and_end_with_it():
    pool = Links("t")
    one, other = pool.lane(1), pool.lane(2)
    assert pool.lane(0) is pool
    links = [each.link(ONE, "fetch") for each in (pool, one, other)]
    assert len(set(map(id, links))) == 3
    assert one.link(ONE, "fetch") is links[1]
    one.drop(ONE, "fetch")
    assert [link.broken is not None for link in links] == [False, True, False]
    pool.end()
    assert all(link.broken is not None for link in links)
    assert other.link(ONE, "fetch").broken is not None
