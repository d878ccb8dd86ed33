"""The undo file of a command that writes offsets: it is on the disk before the first write."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from groundwork.durable import make_folder, write_new
from groundwork.output import fail
from groupadmin.files.model import ZnodeState
from groupadmin.files.write import write_offsets
from groupadmin.plan.changes import Change
from groupadmin.plan.undo import undo_file
from groupadmin.snapshot.cluster import AdminClient
from groupadmin.snapshot.model import GroupSnapshot, KafkaRow, ZkRow
from kafkawire.model import TopicPartition
from zkconsumer.offsets.store import Committed


def keep_undo(
    admin: AdminClient, snapshots: Mapping[str, GroupSnapshot], writes: Sequence[Change], folder: Path
) -> Path:
    """Write the undo file durably and return its path.  Ends the command when it cannot be written."""
    nodes = {key: ZnodeState(None, row.mzxid, row.version, row.mtime_ms) for key, row in nodes_of(snapshots).items()}
    texts = {key: row.metadata for key, row in kafka_of(snapshots).items() if row.metadata}
    cluster = admin.session.connect if admin.session is not None else ",".join(f"{h}:{p}" for h, p in admin.bootstrap)
    file = undo_file(merged(writes), cluster, admin.clock_ms(), znodes=nodes, metadata=texts)
    for warning in file.warnings:
        admin.tell(warning)
    return keep_text(write_offsets(file, "json"), folder, sorted({change.group for change in writes}), admin.clock_ms())


def keep_text(text: str, folder: Path, groups: Sequence[str], at_ms: int) -> Path:
    """Write an undo file of these groups durably and return its path.  Ends the command when it cannot be written."""
    name = (
        "".join(c if c.isalnum() or c in "._-" else "_" for c in groups[0])
        if len(groups) == 1
        else f"{len(groups)}-groups"
    )
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at_ms / 1000))
    try:
        make_folder(folder)
        return _kept(folder, f"undo-{name[:100]}-{stamp}", text)
    except OSError as e:
        fail(f"the undo file cannot be written to {folder}: {e.strerror}; nothing was written, give another --undo-dir")


def _kept(folder: Path, name: str, text: str) -> Path:
    """Write a new file, never over an existing one; it and its directory entry are on the disk."""
    for number in range(1000):
        path = folder / (f"{name}.json" if number == 0 else f"{name}-{number}.json")
        try:
            write_new(path, text)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(17, f"there are a thousand files {name}")


def merged(changes: Iterable[Change]) -> list[Change]:
    """Merge changes to one for each partition of a group, with the offsets of all its stores."""
    found: dict[tuple[str, TopicPartition], Change] = {}
    for change in changes:
        key = (change.group, change.tp)
        before = {**found[key].before, **change.before} if key in found else change.before
        found[key] = replace(change, before=before)
    return list(found.values())


def undo_command(admin: AdminClient, undo: Path, writes: Sequence[Change]) -> str:
    """Return the command that restores the previous state."""
    words = ["zkconsumer", "offsets", "import", str(undo)]
    if admin.session is not None:
        words += ["-z", admin.session.connect]
    if admin.bootstrap:
        words += ["-b", ",".join(f"{host}:{port}" for host, port in admin.bootstrap)]
    if any(outside(before, change) for change in writes for before in change.before.values()):
        words.append("--keep-out-of-range")
    return shlex.join([*words, "--kafka-version", admin.dialect.release, "--execute"])


def outside(before: Committed, change: Change) -> bool:
    if not isinstance(before, int):
        return False
    return change.bounds is None or not change.bounds[0] <= before <= change.bounds[1]


def nodes_of(snapshots: Mapping[str, GroupSnapshot]) -> dict[tuple[str, TopicPartition], ZkRow]:
    return {(group, tp): row for group, each in snapshots.items() for tp, row in each.zookeeper.items()}


def kafka_of(snapshots: Mapping[str, GroupSnapshot]) -> dict[tuple[str, TopicPartition], KafkaRow]:
    return {
        (group, tp): each.in_kafka(tp)
        for group, each in snapshots.items()
        for tp in {*each.kafka, *each.zookeeper, *(each.partitions() if each.kafka_absent else ())}
    }
