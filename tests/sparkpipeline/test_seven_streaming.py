"""A stream over Kafka 0.7 on the driver: limits in bytes, brokers that come and go.  No Spark, no ZooKeeper."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pytest

from kafkawire.cluster import leaders
from kafkawire.cluster.view import ClusterView, view_of
from kafkawire.model import Broker, BrokerPartition, TopicPartition
from localkafka.seven import entries
from localkafka.seven.node import Node07
from localkafka.waiting import wait_until
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.cluster.brokers import Brokers, is_unknown
from sparkpipeline.errors import DataLoss, NoLeader, OptionRefused
from sparkpipeline.source.microbatches import MicroBatches
from sparkpipeline.source.sourceoptions import checked_options

names = (f"s{n}" for n in itertools.count())
ZERO, ONE, OTHER = BrokerPartition(0, 0), BrokerPartition(0, 1), BrokerPartition(5, 0)


@dataclass
class World:
    """What ZooKeeper would say: brokers by id; partitions of a topic, of brokers that are there."""

    node: Node07
    topic: str
    brokers: dict[int, Broker] = field(default_factory=dict)
    partitions: tuple[BrokerPartition, ...] = (ZERO, ONE)

    reads_all = True

    def leader(self, view: ClusterView, tp: TopicPartition) -> Broker | leaders.NoLeader:
        return view.leader(tp) or leaders.NoLeader("it is not registered", lasting=is_unknown(view, tp))

    def read(self, tps: object = None) -> ClusterView:
        tps = [TopicPartition(self.topic, p) for p in self.partitions if p.broker in self.brokers]
        found = view_of(self.brokers, {tp: tp.partition.broker for tp in tps})  # type: ignore[union-attr]
        return replace(found, topics={self.topic: {}, **found.topics})  # the topic's node stays where nobody has it

    def put(self, index: int, count: int) -> None:
        data = entries.plain([b"%d" % n * 20 for n in range(count)], 1)
        with self.node.client() as link:
            end = link.offsets(self.topic, index)[0] + len(data)
            link.produce(self.topic, index, data)
            wait_until(lambda: link.offsets(self.topic, index)[0] >= end, 20, "what was produced")

    def end(self, index: int) -> int:
        with self.node.client() as link:
            return link.offsets(self.topic, index)[0]


@pytest.fixture
def world(broker07: Node07) -> World:
    made = World(broker07, next(names), {0: broker07.broker})
    made.put(0, 50)
    made.put(1, 3)
    return made


Follow = Callable[..., MicroBatches]


@pytest.fixture
def follow(world: World) -> Iterator[Follow]:
    made: list[MicroBatches] = []

    def start(**options: str) -> MicroBatches:
        given = {
            "protocol": "0.7",
            "zookeeper.connect": "zk:1",
            "subscribe": world.topic,
            "startingOffsets": "earliest",
        }
        known = checked_options({name: value for name, value in {**given, **options}.items() if value}, True)
        access = ClusterAccess((), "0.7", retries=1, retry_interval_ms=1, election_ms=0)
        clock = itertools.count(1000, 10)
        brokers = Brokers(access, sleep=lambda _: None, leaders=world)
        made.append(
            MicroBatches(known, brokers, lambda _: {}, now=lambda: float(next(clock)), sleep=lambda _: None)
        )  # fmt: skip
        return made[-1]

    yield start
    for one in made:
        one.close()


def at(world: World, positions: Mapping[BrokerPartition, int]) -> dict[TopicPartition, int]:
    return {TopicPartition(world.topic, partition): offset for partition, offset in positions.items()}


def test_batches_are_limited_by_bytes_and_end_where_entries_do(world: World, follow: Follow) -> None:
    following = follow(maxBytesPerTrigger="600")
    with world.node.client() as link:
        starts = {row.position for row in link.rows(world.topic, 0)} | {world.end(0)}
    begin, batches = following.start(), 0
    assert begin == at(world, {ZERO: 0, ONE: 0})
    while (end := following.ends(begin)) != begin:
        ranges = following.ranges(begin, end)
        assert 0 < sum(rng.count for rng in ranges) <= 600 + 2 * 50
        assert all(rng.until in starts for rng in ranges if rng.partition == ZERO)
        begin, batches = end, batches + 1
    assert begin == at(world, {ZERO: world.end(0), ONE: world.end(1)})
    assert batches > 2


def test_a_broker_that_goes_is_data_loss_and_keeps_its_position(world: World, follow: Follow) -> None:
    strict, lenient = follow(), follow(failOnDataLoss="false")
    here = at(world, {ZERO: world.end(0), ONE: 0})
    there = world.brokers.pop(0)
    with pytest.raises(DataLoss, match=r"partition=0-0: .*0-1 were there, and went with the broker: what was not read"):
        strict.ends(here)
    assert lenient.ends(here) == here
    world.brokers[0] = there
    back = lenient.ends(here)
    assert back == at(world, {ZERO: world.end(0), ONE: world.end(1)})
    assert [(rng.partition, rng.start) for rng in lenient.ranges(here, back)] == [(ONE, 0)]


def test_a_topic_whose_brokers_are_all_away_is_not_taken_for_none(world: World, follow: Follow) -> None:
    pattern = follow(subscribe="", subscribePattern=f"^{world.topic}$")
    named = follow()
    world.brokers.clear()
    with pytest.raises(NoLeader, match=r"topic=\S+: no broker that has it is registered now"):
        named.start()
    assert pattern.start() == {}


def test_a_partition_that_comes_with_its_broker_is_read_from_its_first_offset(
    world: World, follow: Follow, own_broker07: Callable[..., Node07], caplog: pytest.LogCaptureFixture
) -> None:
    following = follow()
    begin = following.start()
    joined = own_broker07(settings={"log.file.size": 500})
    beside = World(joined, world.topic)
    for _ in range(4):
        beside.put(0, 20)
    joined.stop()
    sorted(joined.data.glob(f"{world.topic}-0/*.kafka"))[0].unlink()
    joined.restart()
    world.brokers[5] = joined.broker._replace(id=5)
    world.partitions = (*world.partitions, OTHER)
    end = following.ends(begin)
    assert end[TopicPartition(world.topic, OTHER)] == beside.end(0)
    found = {rng.partition: rng.start for rng in following.ranges(begin, end)}
    assert found[OTHER] > 0, "its first segment is gone, and nobody was promised it"
    assert f"{world.topic}/5-0 came with its broker: it is read from its first offset on" in caplog.text


def test_a_broker_that_does_not_answer_is_named(world: World, follow: Follow) -> None:
    following = follow()
    begin = following.start()
    world.brokers[0] = Broker(0, "127.0.0.1", 1)
    with pytest.raises(NoLeader, match=r"partition=0-0 broker=127.0.0.1:1: "):
        following.ends(begin)


def test_a_start_that_moves_needs_a_folder_here_too(follow: Follow) -> None:
    with pytest.raises(OptionRefused, match="option 'stateDir' is missing"):
        follow(startingOffsets="latest")
