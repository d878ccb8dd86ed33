"""Round-robin beside two programs of the JVM that use it, too: one picture, one owner each, and all is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from kafkawire.model import TopicPartition
from kafkawire.znodes import v08 as znodes
from localkafka import tools
from localkafka.client import ClusterClient, log_end_offsets
from localkafka.load import Load, Mixture
from localkafka.waiting import wait_until
from tests.integration import readers
from tests.integration.ownerlog import OwnerLog
from tests.integration.readers import Reader, committed
from zkconsumer.filters import Whitelist
from zkconsumer.group.assignor import assign_range, assign_roundrobin

pytestmark = pytest.mark.real

MIXED = Mixture(0.5, (0, 1, 2))
OURS, MIRROR, CONSOLE = 2, 3, 1  # streams
PROPERTIES = {
    "partition.assignment.strategy": "roundrobin",
    "zookeeper.session.timeout.ms": 4000,
    "rebalance.backoff.ms": 700,
    "rebalance.max.retries": 12,
    "auto.commit.interval.ms": 300,
}


class Group:
    """The topics with their partition counts, and what ZooKeeper says of the group."""

    def __init__(self, cluster: ClusterClient, name: str, topics: Mapping[str, int]) -> None:
        self.cluster, self.name, self.topics = cluster, name, topics
        zk = cluster.registry().zk
        for topic, count in topics.items():
            cluster.create_topic(topic, count)
            for partition in range(count):  # the JVM's console begins at the end where nothing is committed
                zk.create(znodes.offset(name, TopicPartition(topic, partition)), b"0", makepath=True)

    def owners(self) -> dict[TopicPartition, str]:
        found = {topic: readers.owners(self.cluster, self.name, topic) for topic in self.topics}
        return {TopicPartition(topic, p): owner for topic, own in found.items() for p, owner in own.items()}

    def ids(self) -> set[str]:
        zk, folder = self.cluster.registry().zk, znodes.ids(self.name)
        return set(zk.get_children(folder)) if zk.exists(folder) else set()

    def settle(self, members: Mapping[str, int]) -> None:
        """Wait until these are the members, by streams, and own what the formula says."""
        threads = [f"{member}-{n}" for member, count in members.items() for n in range(count)]
        partitions = {topic: list(range(count)) for topic, count in self.topics.items()}
        share = assign_roundrobin(partitions, dict.fromkeys(partitions, threads))
        wanted = {tp: thread for thread, tps in share.items() for tp in tps}
        assert share != assign_range(partitions, dict.fromkeys(partitions, threads))  # it is the strategy that shows
        wait_until(
            lambda: self.ids() == set(members) and self.owners() == wanted,
            25,
            lambda: f"{sorted(members)} to share; ids {self.ids()}; owners {self.owners()}; wanted {wanted}",
        )

    def ends(self) -> dict[str, dict[int, int]]:
        ends = log_end_offsets(self.cluster, list(self.topics))
        return {t: {p: ends[TopicPartition(t, p)] for p in range(count)} for t, count in self.topics.items()}

    def all_committed(self) -> None:
        ends = self.ends()
        found = lambda: {topic: committed(self.cluster, self.name, topic) for topic in self.topics}  # noqa: E731
        wait_until(lambda: found() == ends, 20, lambda: f"{ends} to be committed, have {found()}")


def produce(load: Load, topics: Mapping[str, int]) -> None:
    for topic, count in topics.items():
        load.produce(topic, count, 20 * count, MIXED, batch=5)


def numbered(values: Iterable[bytes | str | None], topics: Mapping[str, int]) -> set[tuple[str, int, int]]:
    """(topic, partition, offset) of values as Load writes them: a message's number is its offset."""
    found = set()
    for value in values:
        text = value.decode() if isinstance(value, bytes) else value or ""
        place, number = text.split(" ")[:2]
        topic, _, partition = place.rpartition("/")
        if topic in topics:
            found.add((topic, int(partition), int(number[1:])))
    return found


def test_ours_a_mirror_and_a_console_of_the_jvm_divide_two_topics_alike_and_read_all(source, target, unique):
    topics = {unique.topic("a"): 7, unique.topic("b"): 4}
    group = Group(source, unique.group(), topics)
    for topic in topics:
        target.create_topic(topic, 1)
    pattern = "|".join(topics)
    load = Load(source.brokers, source.version)
    options = {key.replace(".", "_"): value for key, value in PROPERTIES.items()}
    logs = [OwnerLog(source.zookeeper, group.name, topic, count) for topic, count in topics.items()]
    jvm = {"group": group.name, "whitelist": pattern}
    with logs[0], logs[1], Reader(source.zookeeper, group.name, Whitelist(pattern), OURS, **options) as ours:
        me = {ours.consumer_id: OURS}
        group.settle(me)
        produce(load, topics)
        with (
            tools.console_consumer(source, **jvm, from_beginning=False, config=PROPERTIES) as console,
            tools.mirror_maker(
                [source], target, whitelist=pattern, group=group.name, num_streams=MIRROR, consumer=PROPERTIES
            ) as mirror,
        ):
            produce(load, topics)
            wait_until(lambda: len(group.ids()) == 3, 25, lambda: f"three members; {group.ids()}")
            mirrors, consoles = streams_of(group, ours.consumer_id)
            group.settle({**me, mirrors: MIRROR, consoles: CONSOLE})
            produce(load, topics)
            group.all_committed()
            console.stop()
            group.settle({**me, mirrors: MIRROR})
            produce(load, topics)
            group.all_committed()
            mirror.stop()
        group.settle(me)
        produce(load, topics)
        group.all_committed()
        ours.stop()
    load.close()
    copied = [row.payload for topic in topics for rows in tools.dump_topic(target, topic, [0]).values() for row in rows]
    by_ours, by_jvm = numbered((got.value for got in ours.got), topics), numbered([*console.lines, *copied], topics)
    everything = {(topic, p, o) for topic, ends in group.ends().items() for p, end in ends.items() for o in range(end)}
    assert load.sent == len(everything)
    assert everything - by_ours - by_jvm == set()
    assert by_jvm
    for log, topic in zip(logs, topics, strict=True):
        mine = [(got.at, int(str(got.tp.partition)), got.offset) for got in ours.got if got.tp.topic == topic]
        assert log.handed_out_by_others(ours.consumer_id, mine) == []


def streams_of(group: Group, ours: str) -> tuple[str, str]:
    """The ids of the mirror and of the console, told apart by how many streams they registered."""
    zk = group.cluster.registry().zk
    count = {}
    for member in group.ids() - {ours}:
        node = znodes.registration(zk.get(f"{znodes.ids(group.name)}/{member}")[0].decode())
        (count[member],) = node.subscription.values()
    (mirrors,) = [member for member, streams in count.items() if streams == MIRROR]
    (consoles,) = [member for member, streams in count.items() if streams == CONSOLE]
    return mirrors, consoles
