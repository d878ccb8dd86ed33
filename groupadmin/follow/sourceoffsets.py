"""Offsets of the groups of a source cluster, of which only what has changed is read again.

    ZooKeeper   a watch on each node tells (WatchedNodes)
    Kafka       one request for each group and interval; its answer is compared with the last one

A group that commits to both stores is where the larger offset is, as for its members.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from groupadmin.snapshot import kafka as kafkaside
from groupadmin.snapshot.cluster import AdminClient, Cluster
from groupadmin.snapshot.foreign import sort_nodes
from groupadmin.snapshot.model import GroupSnapshot, KafkaRow, counts, stores_of
from groupadmin.snapshot.tree import closed_groups
from groupadmin.snapshot.watchednodes import WatchedNodes
from kafkawire.model import TopicPartition
from kafkawire.znodes.group import CONSUMERS
from zkconsumer.errors import NodeClosed
from zkconsumer.offsets.migrationmarker import MarkerUnclear, marker_path, read_marker
from zkconsumer.offsets.store import Unknown
from zkconsumer.session.nodes import Read

Row = Mapping[TopicPartition, KafkaRow]


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """Offsets of a group in the mirrored topics.  problems: sentences about those that cannot be used."""

    group: str
    read: Mapping[TopicPartition, int]
    problems: Sequence[str] = ()


@dataclass(slots=True)
class _Held:
    """What was read of a group: its nodes by path, and Kafka's rows."""

    nodes: Mapping[str, Read] = field(default_factory=dict)
    kafka: Row = field(default_factory=dict)


class SourceOffsets:
    """Offsets of the selected groups of a cluster.  selects(group): whether it is one of them."""

    def __init__(self, admin: AdminClient, selects: Callable[[str], bool]) -> None:
        self._admin = admin
        self._selects = selects
        self._watched = WatchedNodes(admin.session) if admin.session is not None else None
        self._held: dict[str, _Held] = {}
        self._topics: frozenset[str] = frozenset()
        self._closed: dict[str, str] = {}  # groups with a node that is closed to us, and why

    @property
    def groups(self) -> Collection[str]:
        """Return the selected groups that had an offset in the mirrored topics when they were last read."""
        return self._held.keys()

    def changed(self, cluster: Cluster, topics: Collection[str], again: Collection[str] = ()) -> list[GroupOffsets]:
        """Return the groups whose offsets in these topics have changed since the last time, and those of `again`.

        Raises ZooKeeperAway, ConsumerError and WireError.
        """
        everything, self._topics = self._topics != frozenset(topics), frozenset(topics)
        nodes, marked = self._in_zookeeper()
        kafka = self._in_kafka(cluster, nodes)
        found = []
        held: dict[str, _Held] = {}
        for group in sorted({*nodes, *kafka}):
            now = _Held(nodes.get(group, {}), kafka.get(group, {}))
            before = self._held.get(group)
            held[group] = now
            if everything or group in again or group in marked or group in self._closed or before != now:
                found.append(self._offsets(cluster, group, now))
        self._held = held
        return found

    # ZooKeeper --------------------------------------------------------------------------------------------------------

    def _in_zookeeper(self) -> tuple[dict[str, dict[str, Read]], set[str]]:
        """Return the offset nodes and the marker of each selected group by path, and the groups whose marker has
        changed."""
        if self._watched is None:
            return {}, set()
        self._watched.changed.clear()
        znodes = self._admin.dialect.znodes
        if CONSUMERS in (listed := self._watched.children([CONSUMERS])):
            groups = [group for group in listed[CONSUMERS] or () if self._selects(group)]
        else:
            raise NodeClosed(self._watched.closed[CONSUMERS])
        folders = {_folder(znodes.offsets(group, "-")): group for group in groups}
        topics = {
            znodes.offsets(group, topic): group
            for folder, names in self._watched.children(folders).items()
            for group in (folders[folder],)
            for topic in names or ()
            if topic in self._topics
        }
        paths = {
            f"{folder}/{name}": topics[folder]
            for folder, names in self._watched.children(topics).items()
            for name in names or ()
        }
        markers = {marker_path(group): group for group in set(paths.values())}
        found: dict[str, dict[str, Read]] = {}
        for path, node in self._watched.nodes([*paths, *markers]).items():
            if node is not None:
                found.setdefault(paths.get(path) or markers[path], {})[path] = node
        self._closed = closed_groups(self._watched.closed)
        for group in self._closed.keys() & set(groups):
            found.setdefault(group, {})  # it is shown, with the reason
        return found, {group for path, group in markers.items() if path in self._watched.changed}

    # Kafka ------------------------------------------------------------------------------------------------------------

    def _in_kafka(self, cluster: Cluster, in_zookeeper: Iterable[str]) -> dict[str, Row]:
        """Return the rows with an offset, or an error, of each selected group."""
        admin = self._admin
        if not (admin.keeps_kafka and cluster.keeps_offsets):
            return {}
        listed = kafkaside.names(admin, cluster) if admin.coordinates else {}
        groups = {*in_zookeeper, *(group for group in listed if self._selects(group))}
        tps = [TopicPartition(topic, p) for topic in sorted(self._topics) for p in cluster.partitions.get(topic, ())]
        rows = kafkaside.positions(admin, cluster, dict.fromkeys(sorted(groups), tps)) if tps else {}
        held = {
            group: {tp: row for tp, row in each.items() if isinstance(row.position, int | Unknown)}
            for group, each in rows.items()
        }
        return {group: each for group, each in held.items() if each}

    # a group ----------------------------------------------------------------------------------------------------------

    def _offsets(self, cluster: Cluster, group: str, held: _Held) -> GroupOffsets:
        problems = [self._closed[group]] if group in self._closed else []
        marker = held.nodes.get(marker_path(group))
        left = False
        if marker is not None:
            try:
                left = read_marker(group, marker.data).left_zookeeper
            except MarkerUnclear as unclear:
                problems.append(str(unclear))
        ordered = sort_nodes(group, held.nodes, self._admin.dialect)
        each = replace(
            GroupSnapshot(group, ordered.zookeeper, held.kafka, {}, cluster.topics),
            foreign=ordered.foreign,
            left_zookeeper=left,
            kafka_absent=not (self._admin.keeps_kafka and cluster.keeps_offsets),
        )
        stores = stores_of(each, self._watched is not None)
        read: dict[TopicPartition, int] = {}
        for tp in each.partitions():
            if tp.topic not in self._topics:
                continue
            at = counts(each, tp, stores)
            if isinstance(at, Unknown):
                problems.append(f"{tp}: {at.reason}")
            elif each.former_stores(tp).intersection(stores):
                problems.append(f"{tp}: {at} was committed before the topic was created again")
            elif isinstance(at, int):
                read[tp] = at
        problems += [f"{node.path}: {node.text}" for node in each.foreign if node.kind == "offset"]
        return GroupOffsets(group, read, problems)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
