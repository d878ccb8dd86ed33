"""Where leaders are looked up: what a Metadata reply says of a partition, and what the finder makes of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import pytest

from groundwork.tasks import TaskGroup, now, sleep
from kafkawire.cluster.metadata import NothingKnown
from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.errors import LinkLost
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.znodes.group import Registration
from zkconsumer.errors import ConsumerError
from zkconsumer.events import ConsumerEvent
from zkconsumer.fetching.currentleaders import NoLeader, RefreshedLeaders
from zkconsumer.fetching.fetchers import Fetchers
from zkconsumer.kafkagroup.topics import GroupTopics

ONE, TWO = Broker(1, "h1", 9092), Broker(2, "h2", 9092)
T0 = TopicPartition("t", 0)


def view(
    *brokers: Broker, errors: dict[str, int] | None = None, epoch: int = -1, **topics: list[int | None]
) -> ClusterView:
    """Leaders by topic, in the order of the partitions."""
    made = {
        topic: {n: PartitionView(leader, epoch=epoch) for n, leader in enumerate(ids)} for topic, ids in topics.items()
    }
    return ClusterView({b.id: b for b in brokers}, made, errors or {})


class Answers:
    """A MetadataSource whose answers are written down; the last one stays."""

    def __init__(self, *views: ClusterView) -> None:
        self.views = list(views)
        self.asked: list[object] = []

    def read(self, topics: object) -> ClusterView:
        self.asked.append(topics)
        return self.views.pop(0) if len(self.views) > 1 else self.views[0]


def leaders(*views: ClusterView) -> RefreshedLeaders:
    return RefreshedLeaders(Answers(*views))


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        (view(ONE, t=[1]), ONE),
        (view(ONE, t=[None]), NoLeader("it has no leader")),
        (view(ONE, t=[2]), NoLeader("its leader, broker 2, is not in the cluster's metadata")),
        (view(ONE, u=[1]), NoLeader("there is no topic t", lasting=True)),
        (view(ONE, u=[1], errors={"t": 5}), NoLeader("topic t has no partitions yet (error 5)")),
        (view(), NoLeader("the broker that was asked knows no topics")),
    ],
)
def test_what_a_reply_says_of_a_partition(seen, says):
    source = leaders(seen)
    assert source.leader(source.read([T0]), T0) == says


def test_a_partition_beyond_the_last_is_not_about_to_appear():
    source = leaders(view(ONE, t=[1, 1]))
    said = source.leader(source.read([]), TopicPartition("t", 7))
    assert said == NoLeader("partition does not exist: topic t has 0, 1", lasting=True)


def test_a_broker_that_is_left_out_is_not_gone_and_one_that_moved_has_its_new_place():
    source = leaders(view(ONE, TWO, t=[1]), view(), view(Broker(2, "h2", 9999), t=[1]))
    assert source.read([]).brokers == {1: ONE, 2: TWO}
    assert source.read([]).brokers == {1: ONE, 2: TWO}
    assert source.read([]).brokers == {1: ONE, 2: Broker(2, "h2", 9999)}
    assert source._metadata.asked == [None] * 3


def test_topics_of_a_group_stay_while_brokers_that_have_just_started_know_of_none():
    class JustStarted(Answers):
        def read(self, topics: object) -> ClusterView:
            raise NothingKnown("no broker of the cluster tells what there is")

    source = leaders(view(ONE, t=[1, 1]))
    topics = GroupTopics(source, Registration("white_list", {"t.*": 1}), "c", True)
    topics.read()
    source._metadata = JustStarted()
    with pytest.raises(NothingKnown):
        topics.read()
    assert topics.subscribed() == ["t"]
    source._metadata = Answers(view(ONE, errors={"t": -1}))
    topics.read()
    assert (topics.subscribed(), topics.counts) == (["t"], {"t": 2})


class Source:
    """A CurrentLeaders of what the test says."""

    reads_all = True

    def __init__(self, seen: ClusterView, refresh_s: float | None) -> None:
        self.seen: ClusterView | Exception = seen
        self.refresh_s = refresh_s
        self.looks: list[tuple[list[TopicPartition], bool]] = []
        self.doubts: list[int] = []  # how many looks there were before each
        self.changed: Callable[[], None] = lambda: None

    def watch(self, changed: Callable[[], None]) -> None:
        self.changed = changed

    def doubt(self) -> None:
        self.doubts.append(len(self.looks))

    def read(self, tps: Collection[TopicPartition], afresh: bool = False) -> ClusterView:
        self.looks.append((list(tps), afresh))
        if isinstance(self.seen, Exception):
            raise self.seen
        return self.seen

    def leader(self, seen: ClusterView, tp: TopicPartition) -> Broker | NoLeader:
        return seen.leader(tp) or NoLeader("there is no topic t", lasting=True)


class Fetcher:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.cursors: dict[TopicPartition, Any] = {}

    def add(self, cursor: Any) -> None:
        self.cursors[cursor.tp] = cursor

    def remove(self, tp: TopicPartition) -> None:
        del self.cursors[tp]

    def run(self) -> None:
        sleep(100)

    run_ends = run


class Cursor:
    closing = False

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp


class World:
    def __init__(self, seen: ClusterView, refresh_s: float | None = None, per_broker: int = 1) -> None:
        self.source = Source(seen, refresh_s)
        self.events: list[ConsumerEvent] = []
        self.tasks = TaskGroup()
        self.made: list[Fetcher] = []
        self.links: list[Links] = []  # of each
        self.fetchers = Fetchers(
            source=self.source,
            tasks=self.tasks,
            links=Links("t"),
            backoff_s=0.01,
            make_fetcher=self._make,
            on_event=self.events.append,
            per_broker=per_broker,
        )
        self.fetchers.start()

    def _make(self, broker: Broker, finder: object, links: Links) -> Any:
        self.links.append(links)
        self.made.append(Fetcher(broker))
        return self.made[-1]

    def until(self, there: Callable[[], object], seconds: float = 5) -> None:
        end = now() + seconds
        while not there():
            assert self.tasks.death is None, self.tasks.death
            assert now() < end, f"waited in vain; events {self.events}, looks {self.source.looks}"
            sleep(0.005)

    def at_home(self) -> Broker | None:
        found = self.fetchers.fetcher_of(T0)
        return None if found is None else found.broker


@pytest.fixture
def worlds() -> Iterator[list[World]]:
    made: list[World] = []
    yield made
    for world in made:
        world.tasks.stop(1)


def test_a_broker_that_moved_is_found_when_it_is_told_and_without_a_word_at_the_next_refresh(worlds):
    for refresh_s in (None, 0.1):
        world = World(view(ONE, t=[1]), refresh_s)
        worlds.append(world)
        world.fetchers.add([Cursor(T0)])
        world.until(lambda w=world: w.at_home() == ONE)
        moved = Broker(1, "h1", 9999)
        world.source.seen = view(moved, t=[1])
        if refresh_s is None:
            world.source.changed()
        world.until(lambda w=world, there=moved: w.at_home() == there)
        assert world.source.looks[0][1]  # the first look is afresh


def test_what_lasts_is_told_once_and_looked_for_on(worlds, monkeypatch):
    monkeypatch.setattr("zkconsumer.fetching.fetchers.REPORT_EVERY_S", 0.0)
    world = World(view(ONE, u=[1]))
    worlds.append(world)
    world.fetchers.add([Cursor(T0)])
    world.until(lambda: len(world.source.looks) > 5)
    assert [str(event) for event in world.events] == ["missing: t/0: there is no topic t; looking for it"]
    world.source.seen = view(ONE, t=[1])
    world.until(lambda: world.at_home() == ONE)


@pytest.mark.parametrize("why", [ConsumerError("nobody answers"), LinkLost("h1:9092", "reset")])
def test_nobody_to_ask_is_told_and_asked_again_as_if_it_were_the_first_time(worlds, why, monkeypatch):
    monkeypatch.setattr("zkconsumer.fetching.fetchers.MAX_BACKOFF_S", 0.02)
    world = World(view(ONE, t=[1]))
    worlds.append(world)
    world.source.seen = why
    world.fetchers.add([Cursor(T0)])
    world.until(lambda: len(world.source.looks) > 3)
    assert all(afresh for _, afresh in world.source.looks)
    world.source.seen = view(ONE, t=[1])
    world.until(lambda: world.at_home() == ONE)
    assert [event.kind for event in world.events] == ["leader"]


MANY = [TopicPartition("t", n) for n in range(2000)]


def test_partitions_that_another_broker_leads_in_a_newer_epoch_are_moved_by_one_refresh(worlds):
    world = World(view(ONE, TWO, t=[1] * 2000, epoch=4), refresh_s=0.05)
    worlds.append(world)
    world.fetchers.add(map(Cursor, MANY))
    world.until(lambda: world.at_home() == ONE and len(world.made[0].cursors) == 2000)
    looks = len(world.source.looks)
    world.source.seen = view(ONE, TWO, t=[1] + [2] * 1999, epoch=5)
    world.until(lambda: len(world.made) == 2 and len(world.made[1].cursors) == 1999)
    assert all(tps == [] for tps, _ in world.source.looks[looks:]), "no partition is looked up on its own"
    assert [fetcher.broker for fetcher in world.made] == [ONE, TWO]
    assert [str(event) for event in world.events] == [
        "leader: 1,999 partitions (t/1 among them) are led by broker 2 (h2:9092) since a newer leader epoch; "
        "fetching from it, no longer from broker 1 (h1:9092)"
    ]


def test_another_broker_is_asked_at_each_refresh_and_where_a_leader_refused(worlds):
    world = World(view(ONE, TWO, t=[1, 1]), refresh_s=None)
    refreshed = World(view(ONE, TWO, t=[1]), refresh_s=0.02)
    worlds += [world, refreshed]
    cursor = Cursor(T0)
    world.fetchers.add([cursor])
    world.until(lambda: world.at_home() == ONE)
    world.made[0].remove(T0)
    world.fetchers.find_leaders([cursor], "NotLeader")
    world.until(lambda: world.at_home() == ONE)
    world.fetchers.add([Cursor(TopicPartition("t", 1))])
    world.until(lambda: len(world.made[-1].cursors) == 2)
    assert world.source.doubts == [1]
    refreshed.until(lambda: len(refreshed.source.looks) > 4)
    assert refreshed.source.doubts[:4] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (view(ONE, TWO, t=[1], epoch=4), view(ONE, TWO, t=[2], epoch=3)),  # of a broker that is behind
        (
            view(ONE, TWO, t=[1]),
            view(ONE, TWO, t=[2]),
        ),  # before 2.1 nothing tells which is newer, but a follower refuses
        (view(ONE, TWO, t=[1], epoch=4), view(ONE, TWO, t=[None], epoch=5)),
        (view(ONE, TWO, t=[1], epoch=4), view(ONE, TWO, u=[2], epoch=9)),
    ],
)
def test_what_a_refresh_says_otherwise_moves_nothing(worlds, before, after):
    world = World(before, refresh_s=0.02)
    worlds.append(world)
    world.fetchers.add([Cursor(T0)])
    world.until(lambda: world.at_home() == ONE)
    world.source.seen = after
    looks = len(world.source.looks)
    world.until(lambda: len(world.source.looks) > looks + 3)
    assert (world.at_home(), world.events) == (ONE, [])
