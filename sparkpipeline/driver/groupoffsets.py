"""Offsets of a consumer group, in ZooKeeper, in Kafka or in both; and the owners of partitions in ZooKeeper.  Driver
only.

    zookeeper   /consumers/GROUP/offsets/TOPIC/N, the default of the old consumer and our daemon
    kafka       the topic __consumer_offsets, through the group's coordinator (0.8.2 and later)
    dual        both: the larger one is used (see zkconsumer.offsets.dual), Kafka is written first

Four-valued: an offset, NONE (none was ever committed), FormerOffset (of an earlier topic of that name, if ZooKeeper is
available), or Unknown with the reason; the last three are never 0.  zk is any started kazoo client, inside the
cluster's chroot; its exceptions are passed on (sparkpipeline.driver.zkclient converts them to ours).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError, NodeExistsError, NoNodeError
from kazoo.security import OPEN_ACL_UNSAFE

from kafkawire.cluster.zookeeper import TOPICS, WINDOW, closed_node
from kafkawire.errors import WireError
from kafkawire.model import TopicPartition, partition_named
from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC
from kafkawire.znodes import group as znodes
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.errors import OptionRefused, Unreachable
from zkconsumer.errors import ConsumerError
from zkconsumer.offsetlog import committed_rows
from zkconsumer.offsets.coordinator import CommittedRow, Coordinator
from zkconsumer.offsets.dual import DualOffsets
from zkconsumer.offsets.former import TopicCreation, former_node, written_before
from zkconsumer.offsets.kafka import KafkaOffsets
from zkconsumer.offsets.migrationmarker import MarkerUnclear, marker_path, read_marker
from zkconsumer.offsets.store import NONE, Committed, OffsetStore, Unknown, position_of
from zkconsumer.session.lease import Lease

log = logging.getLogger(__name__)

LOG_S = 10.0  # for reading from __consumer_offsets what a coordinator may have missed
STORAGES = ("zookeeper", "kafka", "dual")
ALWAYS = Lease()  # a job owns the offsets that it writes, and never loses them
ALWAYS.valid_until = float("inf")


def read_offsets(
    group: str,
    tps: Iterable[TopicPartition],
    storage: str,
    *,
    access: ClusterAccess | None = None,
    zk: KazooClient | None = None,
) -> dict[TopicPartition, Committed]:
    """Return the committed offset of each partition. access is needed for Kafka, zk (started, in the chroot) for
    ZooKeeper, both for dual.

    Raises OptionRefused if a needed one is missing, Unreachable if a store does not answer.
    """
    with _store(storage, access, zk) as store:
        try:
            return store.read(group, list(tps))
        except ConsumerError as exc:
            raise Unreachable(str(exc), group=group) from exc


def write_offsets(
    group: str,
    positions: Mapping[TopicPartition, int],
    storage: str,
    *,
    access: ClusterAccess | None = None,
    zk: KazooClient | None = None,
    retention_ms: int | None = None,
) -> dict[TopicPartition, str | None]:
    """Write these offsets, forward or back.  Return per partition None, or why it may not be written.

    retention_ms: offset retention in Kafka; None: the brokers' (a day by default).  Active members of the group
    overwrite them: see zookeeper.group_owners.  Raises OptionRefused, and Unreachable when no broker answers.
    """
    if not positions:
        return {}
    with _store(storage, access, zk, retention_ms) as store:
        write = store.write_both if isinstance(store, DualOffsets) else store.commit
        try:
            results = write(group, positions, ALWAYS)
        except ConsumerError as exc:
            return dict.fromkeys(positions, str(exc))
        return {tp: None if why is None else str(why) for tp, why in results.items()}


@contextmanager
def _store(
    storage: str, access: ClusterAccess | None, zk: KazooClient | None, retention_ms: int | None = None
) -> Iterator[OffsetStore]:
    """Yield the store of a storage, with links for the duration of one call."""
    if storage not in STORAGES:
        raise OptionRefused(f"{storage!r} is not one of {', '.join(STORAGES)}", option="kafka.offsets.storage")
    if storage != "kafka" and zk is None:
        raise OptionRefused(f"{storage} needs zookeeper.connect", option="kafka.offsets.storage")
    if storage == "zookeeper":
        yield _Nodes(zk)
        return
    if access is None:
        raise OptionRefused(f"{storage} needs brokers: give kafka.bootstrap.servers", option="kafka.offsets.storage")
    with Brokers(access) as brokers:
        kafka = KafkaOffsets(
            _coordinator(brokers),
            retention_ms=retention_ms,
            creations=lambda topics: {} if zk is None else topic_creations(zk, topics),
            in_log=partial(_in_log, brokers),
            report=lambda tp, sentence: log.warning("%s", sentence),
        )
        yield kafka if storage == "kafka" else _both(kafka, zk)


def _in_log(brokers: Brokers, group: str, tps: Collection[TopicPartition]) -> dict[TopicPartition, CommittedRow]:
    """Return the group's newest commits from the records of __consumer_offsets; empty, with a log line, if it cannot be
    read."""
    access = brokers.access
    addresses = [(broker.host, broker.port) for broker in brokers.view().brokers.values()]
    try:
        return committed_rows(addresses, brokers.dialect.release, group, set(tps), LOG_S, access.security)
    except WireError as why:
        log.info("cannot read from the log whether group %s committed to Kafka: %s", group, why)
        return {}


def _coordinator(brokers: Brokers) -> Coordinator:
    access = brokers.access
    return Coordinator(
        lambda: list(brokers.view().brokers.values()),
        brokers.links,
        brokers.dialect,
        access.retries,
        access.retry_interval_ms,
        access.socket_timeout_ms,
        tell=log.info,
    )


def _both(kafka: OffsetStore, zk: KazooClient) -> DualOffsets:
    return DualOffsets(
        kafka,
        _Nodes(zk),
        report=lambda tp, sentence: log.warning("%s", sentence),
        left_zookeeper=lambda group: left_zookeeper(zk, group),
    )


class _Nodes:
    """Offset store on ZooKeeper nodes."""

    def __init__(self, zk: KazooClient) -> None:
        self._zk = zk

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        return read_offset_nodes(self._zk, group, tps)

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        try:
            results = write_offset_nodes(self._zk, group, positions)
        except KazooException as exc:
            lost = ConsumerError(f"ZooKeeper does not answer any more: {type(exc).__name__} {exc}".strip())
            return dict.fromkeys(positions, lost)
        return {tp: None if why is None else ConsumerError(why) for tp, why in results.items()}


# ---- in ZooKeeper ----------------------------------------------------------------------------------------------------


def read_offset_nodes(zk: KazooClient, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
    """Return the next offset of each partition: NONE without a node, Unknown if its data is not an offset or its ACL
    forbids reading, FormerOffset if it is of an earlier topic of that name."""
    paths = {tp: znodes.offset(group, tp) for tp in tps}
    closed: set[str] = set()
    nodes = _with_stats(zk, list(paths.values()), closed)
    topics = topic_creations(zk, {tp.topic for tp, path in paths.items() if path in nodes})
    found: dict[TopicPartition, Committed] = {}
    for tp, path in paths.items():
        if path in closed:
            found[tp] = Unknown(closed_node(path))
            continue
        data, stat = nodes.get(path, (b"", None))
        at = NONE if stat is None else position_of(path, data)
        topic = topics.get(tp.topic)
        former = isinstance(at, int) and topic is not None and written_before(stat.mzxid, topic.czxid)
        found[tp] = former_node(tp.topic, at, stat.mtime, topic) if former else at  # type: ignore[arg-type]
    return found


def topic_creations(zk: KazooClient, topics: Iterable[str]) -> dict[str, TopicCreation]:
    """Return when each existing topic was created.  The node of a 0.7 topic has no partitions and is not used: it
    exists independently of the logs."""
    paths = {f"{TOPICS}/{topic}": topic for topic in topics}
    closed: set[str] = set()
    stats = {path: stat for path, (data, stat) in _with_stats(zk, list(paths), closed).items() if b"partitions" in data}
    stats |= {path: zk.exists(path) for path in closed}  # no ACL forbids this
    return {paths[path]: TopicCreation(stat.czxid, stat.ctime) for path, stat in stats.items() if stat is not None}


def write_offset_nodes(
    zk: KazooClient, group: str, positions: Mapping[TopicPartition, int]
) -> dict[TopicPartition, str | None]:
    """Write offsets that differ, and read all back.  Return per partition None, or why it does not have this offset.

    Active readers of these partitions in this group write them too: see group_owners.
    """
    held = read_offset_nodes(zk, group, positions)
    moved = {tp: at for tp, at in positions.items() if held[tp] != at}
    if moved and zk.exists(znodes.CONSUMERS) is None:
        _make(zk, znodes.CONSUMERS, b"", OPEN_ACL_UNSAFE)  # shared by all groups: open to all
    closed = _write(zk, {znodes.offset(group, tp): b"%d" % at for tp, at in moved.items()})
    now = read_offset_nodes(zk, group, positions)
    return {
        tp: _difference(group, tp, wanted=at, held=now[tp], closed=znodes.offset(group, tp) in closed)
        for tp, at in positions.items()
    }


def group_owners(zk: KazooClient, group: str) -> dict[TopicPartition, str]:
    """Return the owners of partitions in this group, as ZooKeeper consumers (daemon or JVM) show it."""
    folder = f"{znodes.CONSUMERS}/{group}/owners"
    found: dict[str, TopicPartition] = {}
    for topic in _children(zk, folder):
        for name in _children(zk, f"{folder}/{topic}"):
            partition = partition_named(name)
            if partition is not None:
                tp = TopicPartition(topic, partition)
                found[znodes.owner(group, tp)] = tp
    closed: set[str] = set()
    nodes = _with_stats(zk, list(found), closed)
    owners = {found[path]: data.decode("utf-8", "replace") for path, (data, _) in nodes.items()}
    return owners | {found[path]: "a member whose node is closed to us" for path in closed}


def group_members(group: str, access: ClusterAccess) -> list[str]:
    """Return the member ids of a group that Kafka coordinates; empty before 0.9, and while __consumer_offsets does not
    exist.

    Raises Unreachable."""
    if not access.spoken.coordinates_groups:
        return []
    with Brokers(access) as brokers:
        if not brokers.view().partitions(OFFSETS_TOPIC):
            return []  # looking up a coordinator would create it
        try:
            return [member for member, _, _ in _coordinator(brokers).describe(group).members]
        except WireError as exc:
            raise Unreachable(f"whether group {group} has members is not known: {exc}", group=group) from exc


def left_zookeeper(zk: KazooClient, group: str) -> bool:
    """True if our migration has moved the group to Kafka, so that its offsets in ZooKeeper are outdated."""
    path = marker_path(group)
    node = _with_stats(zk, [path]).get(path)
    try:
        return node is not None and read_marker(group, node[0]).left_zookeeper
    except MarkerUnclear as unclear:
        log.warning("%s", unclear)
        return False


def _with_stats(zk: KazooClient, paths: Sequence[str], closed: set[str] | None = None) -> dict[str, tuple[bytes, Any]]:
    """Return data and stat of the existing nodes; a window of requests is sent before its responses are awaited.

    closed: filled with the nodes whose ACL forbids reading; without it such a node raises NoAuthError."""
    found: dict[str, tuple[bytes, Any]] = {}
    for at in range(0, len(paths), WINDOW):
        for path, answer in [(path, zk.get_async(path)) for path in paths[at : at + WINDOW]]:
            try:
                data, stat = answer.get()
                found[path] = data or b"", stat  # null, if zkclient created it as a parent
            except NoNodeError:
                continue
            except NoAuthError:
                if closed is None:
                    raise
                closed.add(path)
    return found


def _children(zk: KazooClient, path: str) -> list[str]:
    try:
        return sorted(zk.get_children(path))
    except NoNodeError:
        return []


def _write(zk: KazooClient, nodes: Mapping[str, bytes]) -> set[str]:
    """Set nodes, or create them; return the paths that an ACL forbids to write."""
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
        return False  # another client was quicker
    return True


def _difference(group: str, tp: TopicPartition, *, wanted: int, held: Committed, closed: bool) -> str | None:
    if held == wanted:
        return None
    if isinstance(held, Unknown):
        return f"group {group}, {tp}: tried to write {wanted}, and the stored offset is not known: {held.reason}"
    why = "its node may not be written: another identity created it" if closed else "another process writes it too"
    return f"group {group}, {tp}: tried to write {wanted}, and {held!r} is stored: {why}"
