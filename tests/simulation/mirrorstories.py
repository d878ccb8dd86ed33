"""Whole mirrors in virtual time: the smoke tests of what mirrorworld.py puts together."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mirrormaker import exits
from tests.simulation.brokers import SimCluster, entries
from tests.simulation.coordinators import Coordination
from tests.simulation.daemon import Mirror
from tests.simulation.mirrorworld import MirrorWorld, Observer, configured

ABORT = bytes((0, 0, 0, 0))  # the key of the marker
PARTITIONS = 4
TOPICS = {"ta": PARTITIONS, "tb": PARTITIONS}
TPS = [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
YAML = """
sources:
  - name: dc1
    zookeeper.connect: source-zk:2181
    group.id: mirror
    version: 0.8.2.2
    fetch.wait.max.ms: 500
    socket.timeout.ms: 10000
    zookeeper.session.timeout.ms: 6000
target:
  metadata.broker.list: target-1:9092
  target.version: 2.8.2
mirror:
  whitelist: "t.*"
  control.socket: none
  state.folder: FOLDER
  offset.map.folder: FOLDER
  offset.commit.interval.ms: 5000
"""


COORDINATED = YAML.replace(
    """    zookeeper.connect: source-zk:2181
    group.id: mirror
    version: 0.8.2.2
""",
    """    coordination: kafka
    metadata.broker.list: source-1:9092
    group.id: mirror
    version: 2.8.2
""",
).replace("    zookeeper.session.timeout.ms: 6000\n", "")


class Watched(Observer):
    """Nothing ends that is not asked to, and nothing is raised that nobody catches."""

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self.errors: list[str] = []

    def failed(self, mirror: Mirror, error: BaseException) -> None:
        self.errors.append(f"{mirror.name}: {error!r}")

    def ended(self, mirror: Mirror, code: int) -> None:
        self.codes[mirror.name] = code


class Small:
    """A source with ZooKeeper, a target, two mirrors, and a program that sends ten messages a second from 5 s on.

    coordinated: the source is a 2.8.2 whose coordinator keeps the group and its offsets.  more: lines of `mirror`.
    """

    def __init__(
        self, world: MirrorWorld, observer: Watched, *, coordinated: bool = False, messages: int = 300, more: str = ""
    ) -> None:
        self.world = world
        self.observer = observer
        self.zookeeper = world.zookeeper("source-zk:2181")
        release = "2.8.2" if coordinated else "0.8.2.2"
        self.source = world.cluster("source", release, 1, topics=TOPICS, zookeeper=self.zookeeper)
        self.target = world.cluster("target", "2.8.2", 1)
        yaml = (COORDINATED if coordinated else YAML) + more
        self.mirrors = [world.mirror(name, yaml) for name in ("m1", "m2")]
        self._coordinated = coordinated
        for mirror in self.mirrors:
            mirror.start()
        for number in range(messages):
            tp = TPS[number % len(TPS)]
            world.at(5.0 + number / 10, world.produce, "source", tp, [b"%s-%d %d" % (tp[0].encode(), tp[1], number)])

    def lag(self) -> int:
        return sum(len(values_of(self.source, tp)) - len(dict.fromkeys(values_of(self.target, tp))) for tp in TPS)

    def stop(self) -> None:
        """SIGTERM to all that live, and what must be true behind it."""
        for mirror in self.mirrors:
            mirror.signal(signal.SIGTERM)
        assert self.world.run_until(lambda: not any(mirror.alive for mirror in self.mirrors), 15.0)
        assert self.observer.codes == dict.fromkeys(("m1", "m2"), exits.CLEAN)
        assert not self.observer.errors, self.observer.errors
        assert {tp: self.committed(tp) for tp in TPS} == {tp: self.source.log(tp).end for tp in TPS}

    def committed(self, tp: tuple[str, int]) -> int:
        if self._coordinated:
            return committed_in(self.world.coordinations["source"], tp)
        return int(self.zookeeper.nodes[f"/consumers/mirror/offsets/{tp[0]}/{tp[1]}"].data or b"")


@contextmanager
def small(seed: object = 1, *, traced: bool = False, **given: Any) -> Iterator[Small]:
    observer = Watched()
    with MirrorWorld(seed, observer, traced=traced) as world:
        yield Small(world, observer, **given)


def committed_in(coordination: Coordination, tp: tuple[str, int]) -> int:
    """What the group's coordinator has in its memory; -1: nothing."""
    for node in coordination.nodes.values():
        for group in node.shards.groups():
            if tp in group.offsets.committed:
                return group.offsets.committed[tp].offset
    return -1


def values_of(cluster: SimCluster, tp: tuple[str, int]) -> Sequence[bytes]:
    """What consumers read of a partition with isolation.level read_committed."""
    if cluster.leader(tp) < 0:
        return []
    found: list[bytes] = []
    open_transactions: dict[int, list[int]] = {}  # places in what was found, by producer id
    aborted: set[int] = set()
    for entry in cluster.visible(tp):
        messages = list(entries.opened(entry.data))
        if entry.control:
            places = open_transactions.pop(entry.pid, [])
            if messages[0].key == ABORT:
                aborted.update(places)
            continue
        if entry.transactional:
            open_transactions.setdefault(entry.pid, []).extend(range(len(found), len(found) + len(messages)))
        found += [message.value or b"" for message in messages]
    aborted.update(place for places in open_transactions.values() for place in places)
    return [value for place, value in enumerate(found) if place not in aborted]


def in_order(first_seen: Sequence[bytes]) -> bool:
    numbers = [int(value.rpartition(b" ")[2]) for value in first_seen]
    return numbers == sorted(numbers)


def test_two_mirrors_copy_everything_once() -> None:
    with small() as given:
        given.world.run(40.0)
        for tp in TPS:
            assert values_of(given.target, tp) == values_of(given.source, tp)
        given.stop()


def test_of_two_mirrors_one_is_killed_and_comes_again() -> None:
    """Everything arrives, in order, and nothing twice that was committed before the kill."""
    with small() as given:
        _one_is_killed(given)


def test_the_same_with_a_group_of_kafka() -> None:
    with small(coordinated=True) as given:
        _one_is_killed(given)


def test_the_same_exactly_once() -> None:
    with small(more="  delivery.guarantee: exactly-once\n  transaction.interval.ms: 500\n") as given:
        _one_is_killed(given, doubled=0)


def test_the_same_resumed_at_the_end_of_the_target() -> None:
    with small(more="  resume: target-end\n") as given:
        _one_is_killed(given, doubled=0)


def _one_is_killed(given: Small, doubled: int = 10 * 5 + 10) -> None:
    """doubled: messages of 5 s between two commits."""
    world, (_, second) = given.world, given.mirrors
    world.at(15.0, second.kill, what="kill -9 of m2")
    world.at(24.0, second.start, what="m2 starts again")
    world.run(40.0)
    assert world.run_until(lambda: not given.lag(), 20.0)
    twice = 0
    for tp in TPS:
        copied = values_of(given.target, tp)
        assert in_order(list(dict.fromkeys(copied)))
        twice += sum(count - 1 for count in Counter(copied).values())
    assert twice <= doubled
    given.stop()


def test_a_second_signal_ends_a_mirror_at_once() -> None:
    with small() as given:
        world, (first, _) = given.world, given.mirrors
        world.run(8.0)
        world.network.path("m1", ("target-1", 9092)).cut = True
        world.run(1.0)
        first.signal()
        world.run(1.0)
        assert first.alive, "what is in flight is waited for"
        first.signal()
        world.run(0.1)
        assert given.observer.codes == {"m1": exits.TEMPORARY}


def test_a_frozen_mirror_is_fenced_and_copies_again() -> None:
    with small() as given:
        world, (first, _) = given.world, given.mirrors
        world.at(12.0, first.freeze, 10.0, what="m1 is frozen")
        world.run(45.0)
        assert not given.lag()
        given.stop()


def test_what_the_network_does_costs_nothing() -> None:
    with small() as given:
        world = given.world
        to_target, to_source = (world.network.path("m1", (f"{name}-1", 9092)) for name in ("target", "source"))
        for at, happens in (
            (8.0, to_target.lose_answer),
            (10.0, to_source.reset),
            (12.0, lambda: to_target.cut_frame(0.3)),
            (14.0, lambda: setattr(to_source, "cut", True)),
            (16.0, to_source.heal),
            (18.0, to_target.half_open),
            (20.0, lambda: setattr(to_target, "torn", True)),
        ):
            world.at(at, happens)
        world.run(60.0)
        world.mend()
        assert world.run_until(lambda: not given.lag(), 60.0)
        given.stop()


def test_an_operator_pauses_throttles_and_reloads() -> None:
    with small() as given:
        world = given.world

        def copied(topic: str) -> int:
            return sum(len(values_of(given.target, tp)) for tp in TPS if tp[0] == topic)

        world.run(6.0)
        for mirror in given.mirrors:
            mirror.do("pause", what="ta")
        world.run(1.0)
        before = copied("ta"), copied("tb")
        world.run(8.0)
        assert copied("ta") == before[0]
        assert copied("tb") > before[1]
        for mirror in given.mirrors:
            mirror.do("resume", what="ta")
            mirror.do("throttle", messages_per_s=1)
        world.run(25.0)
        assert given.lag(), "two mirrors of one message a second do not follow ten"
        for mirror in given.mirrors:
            mirror.do("throttle", off=True)
        assert world.run_until(lambda: not given.lag(), 20.0)
        world.clusters["source"].create_topic("other", 1)
        for mirror in given.mirrors:
            mirror.configuration = configured(mirror.yaml.replace('"t.*"', '"t.*|other"'), mirror.name)
            mirror.signal(signal.SIGHUP)
        world.run(5.0)
        world.produce("source", ("other", 0), [b"other 1"])
        assert world.run_until(lambda: bool(values_of(given.target, ("other", 0))), 20.0)
        given.stop()


def test_a_seed_is_one_schedule() -> None:
    assert _trace(3) == _trace(3) != _trace(4)


def _trace(seed: int) -> str:
    with small(seed, traced=True) as given:
        given.world.at(8.0, given.mirrors[0].kill)
        given.world.at(9.0, given.mirrors[0].start)
        given.world.run(20.0)
        return given.world.trace


def print_trace() -> None:
    print(_trace(3))
