"""Offsets of groups at the target, and the records that the mirror keeps beside them.

In ZooKeeper the record is written first, with the version that the offset's node is about to have, and the node only in
the version that was read.  In Kafka the record is the commit's metadata.  Kafka is written first, as in a commit.

What was written is remembered, so that a group costs no reads while it follows.  ZooKeeper refuses a node that somebody
else has changed since; Kafka has no such comparison, so its offsets are read before each write.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from groupadmin.apply.writes import StoreWrite, WriteResult, make_folders, write_kafka, write_zookeeper
from groupadmin.follow.decisions import Held
from groupadmin.snapshot import kafka as kafkaside
from groupadmin.snapshot.cluster import AdminClient, Cluster
from groupadmin.snapshot.model import BOTH, ZkRow
from groupadmin.snapshot.watchednodes import WatchedNodes
from kafkawire.dialects import Store as StoreName
from kafkawire.model import TopicPartition
from zkconsumer.offsetmap.mirrored import Mirrored, RecordUnclear, mirrored_path, mirrored_text, read_mirrored
from zkconsumer.offsets.store import NONE, position_of
from zkconsumer.session.nodes import Read, read_nodes, write_nodes
from zkconsumer.session.zkcalls import WriteOutcome

Key = tuple[str, TopicPartition]


class TargetOffsets:
    """Offsets in these stores of the target.  stores: at least one; ZooKeeper's needs a session."""

    def __init__(self, admin: AdminClient, stores: Collection[StoreName]) -> None:
        self._admin = admin
        self._stores = [store for store in BOTH if store in stores]
        self._watched = WatchedNodes(admin.session) if admin.session is not None else None
        self._nodes: dict[Key, Held] = {}  # in ZooKeeper, as last read or written

    def active(self, cluster: Cluster, groups: Collection[str]) -> dict[str, str]:
        """Return a sentence for each of these groups that has members.  Raises ZooKeeperAway, ConsumerError."""
        found: dict[str, str] = {}
        znodes = self._admin.dialect.znodes
        if self._watched is not None:
            folders = {znodes.ids(group): group for group in groups}
            for path, members in self._watched.children(folders).items():
                if members:
                    found[folders[path]] = f"it has members at the target, {members[0]} for one"
            closed = self._watched.closed
            found |= {group: closed[path] for path, group in folders.items() if path in closed}
        if self._admin.coordinates and cluster.keeps_offsets:
            for group, there in kafkaside.coordinated(self._admin, cluster, sorted(groups)).items():
                if there.members:
                    found.setdefault(group, f"it has members at the target, {there.members[0]} for one")
        return found

    def held(self, cluster: Cluster, wanted: Iterable[Key]) -> dict[Key, dict[StoreName, Held]]:
        """Return what the stores hold.  Raises ZooKeeperAway, ConsumerError."""
        keys = list(wanted)
        found: dict[Key, dict[StoreName, Held]] = {key: {} for key in keys}
        for store in self._stores:
            rows = self._in_kafka(cluster, keys) if store == "kafka" else self._in_zookeeper(keys)
            for key in keys:
                found[key][store] = rows[key]
        return found

    def _in_kafka(self, cluster: Cluster, keys: Sequence[Key]) -> dict[Key, Held]:
        if not cluster.keeps_offsets:  # the first commit creates the topic
            return dict.fromkeys(keys, Held(NONE))
        asked: dict[str, list[TopicPartition]] = {}
        for group, tp in keys:
            asked.setdefault(group, []).append(tp)
        rows = kafkaside.positions(self._admin, cluster, asked)
        found = {}
        for group, tp in keys:
            row = rows[group][tp]
            found[group, tp] = Held(row.position, None, _record(f"the commit of group {group} in {tp}", row.metadata))
        return found

    def _in_zookeeper(self, keys: Sequence[Key]) -> dict[Key, Held]:
        session, znodes = self._admin.session, self._admin.dialect.znodes
        assert session is not None, "the store zookeeper has a session"
        missing = [key for key in keys if key not in self._nodes]
        paths = {key: (znodes.offset(*key), mirrored_path(*key)) for key in missing}
        nodes: dict[str, Read | None] = read_nodes(session, [path for both in paths.values() for path in both])
        for key, (path, beside) in paths.items():
            node, record = nodes[path], nodes[beside]
            kept = None if record is None else _record(beside, record.data)
            self._nodes[key] = (
                Held(NONE, None, kept) if node is None else Held(position_of(path, node.data), node.version, kept)
            )
        return {key: self._nodes[key] for key in keys}

    def write(
        self,
        cluster: Cluster,
        wanted: Mapping[Key, Mirrored],
        stores: Mapping[Key, Collection[StoreName]],
        *,
        retention_ms: int | None = None,
    ) -> dict[Key, str]:
        """Write offsets with their records; return why one was not written, "" for each that was.

        stores: of each, those to write.  Raises ZooKeeperAway.
        """
        whys = dict.fromkeys(wanted, "")
        if "kafka" in self._stores:
            by_group: dict[str, list[StoreWrite]] = {}
            for (group, tp), record in wanted.items():
                if "kafka" in stores[group, tp]:
                    write = StoreWrite(group, tp, "kafka", record.offset, text=mirrored_text(record))
                    by_group.setdefault(group, []).append(write)
            for some in by_group.values():
                _note(whys, write_kafka(self._admin, cluster, some, retention_ms))
        if "zookeeper" in self._stores:
            left = {key: record for key, record in wanted.items() if not whys[key] and "zookeeper" in stores[key]}
            self._write_zookeeper(left, whys)
        return whys

    def _write_zookeeper(self, wanted: Mapping[Key, Mirrored], whys: dict[Key, str]) -> None:
        session = self._admin.session
        assert session is not None, "the store zookeeper has a session"
        rows: dict[Key, Mirrored] = {}
        for key, record in wanted.items():
            version = self._nodes[key].version
            rows[key] = replace(record, version=0 if version is None else version + 1)
        records = {mirrored_path(*key): mirrored_text(record).encode() for key, record in rows.items()}
        there = read_nodes(session, records)
        fresh = {path: data for path, data in records.items() if there[path] is None}
        moved = {path: (data, node.version) for path, data in records.items() if (node := there[path]) is not None}
        make_folders(session, fresh)
        outcomes = write_nodes(session, fresh, moved, {})
        writes = []
        for key, record in rows.items():
            held = self._nodes.pop(key)
            if outcomes[mirrored_path(*key)] is not WriteOutcome.DONE:
                whys[key] = f"{mirrored_path(*key)} changed since it was read: another mirror follows the group, too"
                continue
            before = None if held.version is None else ZkRow(held.position, held.version, 0, 0, 0)
            writes.append(StoreWrite(*key, "zookeeper", record.offset, node=before))
        results = write_zookeeper(self._admin, writes)
        _note(whys, results)
        for row in results:
            key = row.write.group, row.write.tp
            if row.state == "written" and not row.why:
                self._nodes[key] = Held(rows[key].offset, rows[key].version, rows[key])

    def forget(self, keys: Iterable[Key]) -> None:
        """Read these again before the next write."""
        for key in keys:
            self._nodes.pop(key, None)


def _note(whys: dict[Key, str], results: Iterable[WriteResult]) -> None:
    for row in results:
        if row.state != "written":
            whys[row.write.group, row.write.tp] = row.why


def _record(where: str, data: str | bytes) -> Mirrored | None:
    """Return the record in a text; None if it is somebody else's."""
    if not data:
        return None
    try:
        return read_mirrored(where, data)
    except RecordUnclear:
        return None
