"""What a group has in ZooKeeper: its positions, who reads what, and whether it has moved to Kafka.  Driver only.

zk is any started kazoo client, inside the cluster's chroot; its exceptions go through (sparkpipeline.zookeeper makes
them ours).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NodeExistsError, NoNodeError
from kazoo.security import OPEN_ACL_UNSAFE

from kafkawire import groupnodes as znodes
from kafkawire.cluster.zookeeper import WINDOW
from kafkawire.model import TopicPartition, partition_named
from zkconsumer.migration.marker import MarkerUnclear, marker_path, read_marker
from zkconsumer.offsets.store import NONE, Committed, position_of

log = logging.getLogger(__name__)


def read_positions(zk: KazooClient, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
    """The next offset of each partition; NONE where there is no node, Unknown where what it holds is no offset."""
    paths = {tp: znodes.offset(group, tp) for tp in tps}
    nodes = read_nodes(zk, list(paths.values()))
    return {tp: position_of(path, nodes[path]) if path in nodes else NONE for tp, path in paths.items()}


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
    found: dict[str, bytes] = {}
    for at in range(0, len(paths), WINDOW):
        for path, answer in [(path, zk.get_async(path)) for path in paths[at : at + WINDOW]]:
            try:
                found[path] = answer.get()[0] or b""  # null, where zkclient made it as a parent
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
