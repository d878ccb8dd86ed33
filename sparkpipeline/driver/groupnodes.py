"""What a group has in ZooKeeper: its positions, who reads what, and whether it has moved to Kafka.  Driver only.

zk is any started kazoo client, inside the cluster's chroot; its exceptions go through (sparkpipeline.driver.zookeeper makes
them ours).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NodeExistsError, NoNodeError
from kazoo.security import OPEN_ACL_UNSAFE

from kafkawire.cluster.zookeeper import TOPICS, WINDOW
from kafkawire.model import TopicPartition, partition_named
from kafkawire.znodes import group as znodes
from zkconsumer.offsets.former import TopicCreation, former_node, written_before
from zkconsumer.offsets.migrationmarker import MarkerUnclear, marker_path, read_marker
from zkconsumer.offsets.store import NONE, Committed, position_of

log = logging.getLogger(__name__)


def read_positions(zk: KazooClient, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
    """The next offset of each partition; NONE where there is no node, Unknown where what it holds is no offset, and
    FormerOffset where it is of an earlier topic of that name."""
    paths = {tp: znodes.offset(group, tp) for tp in tps}
    nodes = _with_stats(zk, list(paths.values()))
    topics = topic_creations(zk, {tp.topic for tp, path in paths.items() if path in nodes})
    found: dict[TopicPartition, Committed] = {}
    for tp, path in paths.items():
        data, stat = nodes.get(path, (b"", None))
        at = NONE if stat is None else position_of(path, data)
        topic = topics.get(tp.topic)
        former = isinstance(at, int) and topic is not None and written_before(stat.mzxid, topic.czxid)
        found[tp] = former_node(tp.topic, at, stat.mtime, topic) if former else at  # type: ignore[arg-type]
    return found


def topic_creations(zk: KazooClient, topics: Iterable[str]) -> dict[str, TopicCreation]:
    """When each topic that exists was created.  The node of a topic of 0.7 holds no partitions, and tells nothing: it
    stays, or goes, whatever becomes of the logs."""
    paths = {f"{TOPICS}/{topic}": topic for topic in topics}
    nodes = _with_stats(zk, list(paths))
    return {
        paths[path]: TopicCreation(stat.czxid, stat.ctime)
        for path, (data, stat) in nodes.items()
        if b"partitions" in data
    }


def write_positions(
    zk: KazooClient, group: str, positions: Mapping[TopicPartition, int]
) -> dict[TopicPartition, str | None]:
    """Write what differs and read all of it back.  Per partition None, or why it does not hold this position.

    Whoever reads these partitions in this group now writes them too: see group_owners.
    """
    held = read_positions(zk, group, positions)
    moved = {tp: at for tp, at in positions.items() if held[tp] != at}
    if moved and zk.exists(znodes.CONSUMERS) is None:
        _make(zk, znodes.CONSUMERS, b"", OPEN_ACL_UNSAFE)  # every group's, whoever is the first
    closed = _write(zk, {znodes.offset(group, tp): b"%d" % at for tp, at in moved.items()})
    now = read_positions(zk, group, positions)
    return {tp: _difference(group, tp, at, now[tp], znodes.offset(group, tp) in closed) for tp, at in positions.items()}


def group_owners(zk: KazooClient, group: str) -> dict[TopicPartition, str]:
    """Who reads which partitions in this group now, as consumers of ZooKeeper's kind (daemon or JVM) show it."""
    folder = f"{znodes.CONSUMERS}/{group}/owners"
    found: dict[str, TopicPartition] = {}
    for topic in _children(zk, folder):
        for name in _children(zk, f"{folder}/{topic}"):
            partition = partition_named(name)
            if partition is not None:
                tp = TopicPartition(topic, partition)
                found[znodes.owner(group, tp)] = tp
    nodes = read_nodes(zk, list(found))
    return {tp: nodes[path].decode("utf-8", "replace") for path, tp in found.items() if path in nodes}


def left_zookeeper(zk: KazooClient, group: str) -> bool:
    """Whether a migration of ours has taken the group to Kafka, so that what ZooKeeper holds of it is old."""
    path = marker_path(group)
    data = read_nodes(zk, [path]).get(path)
    try:
        return data is not None and read_marker(group, data).left_zookeeper
    except MarkerUnclear as unclear:
        log.warning("%s", unclear)
        return False


def read_nodes(zk: KazooClient, paths: Sequence[str]) -> dict[str, bytes]:
    """What the nodes that are there hold; a window of them is asked for before the first answer is waited for."""
    return {path: data for path, (data, _) in _with_stats(zk, paths).items()}


def _with_stats(zk: KazooClient, paths: Sequence[str]) -> dict[str, tuple[bytes, Any]]:
    found: dict[str, tuple[bytes, Any]] = {}
    for at in range(0, len(paths), WINDOW):
        for path, answer in [(path, zk.get_async(path)) for path in paths[at : at + WINDOW]]:
            try:
                data, stat = answer.get()
                found[path] = data or b"", stat  # null, where zkclient made it as a parent
            except NoNodeError:
                continue
    return found


def _children(zk: KazooClient, path: str) -> list[str]:
    try:
        return sorted(zk.get_children(path))
    except NoNodeError:
        return []


def _write(zk: KazooClient, nodes: Mapping[str, bytes]) -> set[str]:
    """Set nodes, or create them; the paths that another identity has closed to us."""
    paths, missing, closed = list(nodes), list[str](), set[str]()
    for at in range(0, len(paths), WINDOW):
        for path, answer in [(path, zk.set_async(path, nodes[path])) for path in paths[at : at + WINDOW]]:
            try:
                answer.get()
            except NoNodeError:
                missing.append(path)
            except NoAuthError:
                closed.add(path)
    for path in missing:
        try:
            if not _make(zk, path, nodes[path]):
                zk.set(path, nodes[path])
        except NoAuthError:
            closed.add(path)
    return closed


def _make(zk: KazooClient, path: str, data: bytes, acl: Any = None) -> bool:
    try:
        zk.create(path, data, acl=acl, makepath=True)
    except NodeExistsError:
        return False  # somebody was quicker
    return True


def _difference(group: str, tp: TopicPartition, wanted: int, held: Committed, closed: bool) -> str | None:
    if held == wanted:
        return None
    why = "its node may not be written: another identity made it" if closed else "somebody else writes it too"
    return f"group {group}, {tp}: {wanted} was to be written and {held!r} is there: {why}"
