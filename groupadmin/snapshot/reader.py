"""Reader of group snapshots from both stores.  Reads only, and creates nothing.

    snapshots = read_snapshots(admin, ["billing"], read_cluster(admin))

Order: ZooKeeper, then Kafka, then log bounds, many groups at once.  Requests to Kafka go to the leader of the group's
partition of __consumer_offsets, which is its coordinator, and only when that topic exists: a look-up of the coordinator
would create it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from groupadmin.snapshot import kafka as kafkaside
from groupadmin.snapshot.cluster import AdminClient, Cluster
from groupadmin.snapshot.foreign import sort_nodes
from groupadmin.snapshot.logends import last_stable, log_bounds
from groupadmin.snapshot.model import Foreign, GroupSnapshot, KafkaRow
from groupadmin.snapshot.tree import closed_groups, read_trees
from kafkawire.errors import RegistrationError
from kafkawire.model import TopicPartition
from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC
from zkconsumer.errors import ConsumerError
from zkconsumer.filters import Selection
from zkconsumer.offsets.migrationmarker import MarkerUnclear, marker_path, read_marker
from zkconsumer.offsets.modes import Mode, modes_path, read_mode
from zkconsumer.offsets.store import NONE
from zkconsumer.session.nodes import Read, list_children, read_nodes
from zkconsumer.session.zkcalls import Closed

WIDE = 200_000  # limit of offsets to request that may not exist


def read_snapshots(
    admin: AdminClient,
    groups: Iterable[str],
    cluster: Cluster,
    *,
    also: Mapping[str, Collection[TopicPartition]] | None = None,
    wide: bool | None = None,
    bounds: bool = True,
    closed: dict[str, str] | None = None,
) -> dict[str, GroupSnapshot]:
    """Return a snapshot of each group; that of an unknown group is empty.

    also: partitions by group to request from Kafka and the leaders although ZooKeeper has no nodes for them.  wide:
    request every partition from Kafka, since a group may have offsets for topics that ZooKeeper does not name; None:
    unless there are too many.  bounds: whether to read log bounds.
    closed: filled with the groups of which a node is closed to us, and why; they are left out.  Without it such a node
    is NodeClosed.
    Data that could not be read is Unknown or absent, and reported; when a coordinator does not answer, kafka_members
    has a sentence instead of members.  Raises ZooKeeperAway.
    """
    names = list(dict.fromkeys(groups))
    read_at = admin.clock_ms()
    trees = read_trees(admin.session, names, closed) if admin.session is not None else {name: {} for name in names}
    left = _left_zookeeper(admin, list(trees), closed)
    names = [name for name in trees if closed is None or name not in closed]
    found = {
        name: _from_zookeeper(admin, cluster, name, nodes=trees[name], read_at=read_at, left_zookeeper=name in left)
        for name in names
    }
    extra = {name: {*(also or {}).get(name, ()), *_subscribed(admin, cluster, trees[name], name)} for name in names}
    found = _with_kafka(admin, cluster, found, extra=extra, wide=wide)
    return _with_bounds(admin, cluster, found, extra) if bounds else found


def members_now(admin: AdminClient, cluster: Cluster, groups: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return members of groups now, ids in ZooKeeper and members in Kafka: a quick check before a write.

    Raises ZooKeeperAway.
    """
    names = list(dict.fromkeys(groups))
    found: dict[str, tuple[str, ...]] = dict.fromkeys(names, ())
    if admin.session is not None:
        folders = {admin.dialect.znodes.ids(name): name for name in names}
        for path, ids in list_children(admin.session, folders).items():
            found[folders[path]] = tuple(ids or ())
    if admin.coordinates and cluster.keeps_offsets:
        for name, there in kafkaside.coordinated(admin, cluster, names).items():
            found[name] += there.members
    return found


def _from_zookeeper(
    admin: AdminClient, cluster: Cluster, group: str, *, nodes: Mapping[str, Read], read_at: int, left_zookeeper: bool
) -> GroupSnapshot:
    ordered = sort_nodes(group, nodes, admin.dialect)
    modes, foreign = _modes(group, nodes)
    return GroupSnapshot(
        group,
        ordered.zookeeper,
        {},
        {},
        cluster.topics,
        offset_path=ordered.offset_path,
        foreign=(*ordered.foreign, *foreign),
        members=ordered.members,
        owners=ordered.owners,
        sessionless=ordered.sessionless,
        modes=modes,
        kafka_members=() if admin.coordinates else None,
        kafka_absent=not (admin.keeps_kafka and cluster.keeps_offsets),
        read_at_ms=read_at,
        left_zookeeper=left_zookeeper,
    )


def _left_zookeeper(admin: AdminClient, groups: Sequence[str], closed: dict[str, str] | None) -> set[str]:
    """Return the groups that a migration moved to Kafka, by their markers; an invalid marker is reported."""
    if admin.session is None:
        return set()
    shut: Closed | None = None if closed is None else {}
    nodes = read_nodes(admin.session, [marker_path(group) for group in groups], shut)
    if closed is not None and shut:
        closed |= closed_groups(shut)
    found = set()
    for group in groups:
        node = nodes.get(marker_path(group))
        try:
            if node is not None and read_marker(group, node.data).left_zookeeper:
                found.add(group)
        except MarkerUnclear as unclear:
            admin.tell(str(unclear))
    return found


def _modes(group: str, nodes: Mapping[str, Read]) -> tuple[dict[str, Mode], list[Foreign]]:
    folder = modes_path(group) + "/"
    modes: dict[str, Mode] = {}
    foreign = []
    for path, node in nodes.items():
        if not path.startswith(folder):
            continue
        try:
            modes[path.removeprefix(folder)] = read_mode(node.data, path).mode
        except ConsumerError as why:
            foreign.append(Foreign("id", path, node.data.decode("utf-8", "backslashreplace")[:200], str(why)))
    return modes, foreign


def _subscribed(admin: AdminClient, cluster: Cluster, nodes: Mapping[str, Read], group: str) -> set[TopicPartition]:
    """Return the partitions that members read now, except members whose registration cannot be read."""
    folder = admin.dialect.znodes.ids(group) + "/"
    topics: set[str] = set()
    selection = Selection(sorted(cluster.topics))
    for path, node in nodes.items():
        if path.startswith(folder):
            try:
                topics |= selection.streams(admin.dialect.znodes.registration(node.data)).keys()
            except (RegistrationError, ValueError):
                continue  # it is among the foreign nodes
    return {tp for topic in topics for tp in _partitions(cluster, topic)}


def _partitions(cluster: Cluster, topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for partition in cluster.partitions.get(topic, ())]


# Kafka and logs -------------------------------------------------------------------------------------------------------


def _with_kafka(
    admin: AdminClient,
    cluster: Cluster,
    groups: Mapping[str, GroupSnapshot],
    *,
    extra: Mapping[str, set[TopicPartition]],
    wide: bool | None,
) -> dict[str, GroupSnapshot]:
    if not (admin.keeps_kafka and cluster.keeps_offsets):
        nothing = {name: dict.fromkeys(extra[name], KafkaRow(NONE)) for name in groups}
        return {name: replace(each, kafka=nothing[name]) for name, each in groups.items()}
    every = [tp for topic in sorted(cluster.topics.keys() - {OFFSETS_TOPIC}) for tp in _partitions(cluster, topic)]
    everything = wide if wide is not None else len(groups) * len(every) <= WIDE
    related = {name: [*{*each.partitions(), *extra[name]}] for name, each in groups.items()}
    asked = {name: [*{*every, *related[name]}] if everything else related[name] for name in groups}
    rows = kafkaside.positions(admin, cluster, asked)
    known = kafkaside.coordinated(admin, cluster, list(groups)) if admin.coordinates else {}
    shared = {name: rows[name].keys() for name, there in known.items() if there.share}
    shares = kafkaside.share_positions(admin, cluster, shared)
    rows |= {name: {**rows[name], **held} for name, held in shares.items()}
    found = {}
    for name, each in groups.items():
        keep = set(related[name])
        answers = {
            tp: row
            for tp, row in rows[name].items()  # other topics may be created or deleted meanwhile
            if tp in keep or not isinstance(row.position, kafkaside.NoSuchPartition)
        }
        topics = {tp.topic for tp, row in answers.items() if row.position is not NONE}  # with all their partitions
        held = {tp: row for tp, row in answers.items() if tp in keep or tp.topic in topics}
        there = known.get(name)
        found[name] = replace(each, kafka=held)
        if there is not None:
            found[name] = replace(found[name], kafka_members=there.members, share=there.share)
    return found


def _with_bounds(
    admin: AdminClient, cluster: Cluster, groups: Mapping[str, GroupSnapshot], extra: Mapping[str, set[TopicPartition]]
) -> dict[str, GroupSnapshot]:
    wanted = {
        name: [tp for tp in {*each.partitions(), *extra[name]} if cluster.has(tp)] for name, each in groups.items()
    }
    everything = dict.fromkeys(tp for tps in wanted.values() for tp in tps)
    stable = last_stable(admin, cluster, everything)
    bounds = log_bounds(admin, cluster, everything, _reached(groups.values()))
    stable = {tp: at for tp, at in stable.items() if tp in bounds and at < bounds[tp][1]}
    return {
        name: replace(
            each,
            bounds={tp: bounds[tp] for tp in wanted[name] if tp in bounds},
            stable={tp: stable[tp] for tp in wanted[name] if tp in stable},
        )
        for name, each in groups.items()
    }


def _reached(groups: Iterable[GroupSnapshot]) -> dict[TopicPartition, int]:
    """Return the largest offset that a group holds of each partition."""
    found: dict[TopicPartition, int] = {}
    for each in groups:
        rows = [(tp, row.position) for held in (each.zookeeper, each.kafka) for tp, row in held.items()]
        for tp, at in rows:
            if isinstance(at, int):
                found[tp] = max(at, found.get(tp, 0))
    return found
