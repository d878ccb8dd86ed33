"""Undo: the file with the previous state of the stores, which is written before anything else, and reading it back.

It has a row for each partition that will be written, with the state of each store: an offset, or none; undoing deletes
an offset that did not exist before.  A node of ZooKeeper whose data is not an offset is kept as it was, and undoing
writes the same data.  A store that could not be read is absent from its row, with a warning, since it cannot be
restored.  `zkconsumer offsets import FILE --execute` reads it like any other file; the states per store distinguish an
undo file (and an export) from a file with offsets only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from groupadmin.files.model import KafkaState, OffsetsFile, SavedRow, Source, ZnodeState
from groupadmin.plan.changes import Change, restorable
from groupadmin.plan.resets import Target, TargetOffset
from kafkawire.dialects import Store as StoreName
from kafkawire.model import TopicPartition
from zkconsumer.offsets.store import NONE, Committed, Unknown, UnreadableNode
from zkconsumer.options.arguments import WrongUsage


def undo_file(
    changes: Iterable[Change],
    cluster: str | None,
    exported_at_ms: int,
    *,
    znodes: Mapping[tuple[str, TopicPartition], ZnodeState] | None = None,
    metadata: Mapping[tuple[str, TopicPartition], str] | None = None,
) -> OffsetsFile:
    """Return the file that restores the state before these changes, with the written rows only.

    znodes: the nodes as read, by group and partition, with their versions.  metadata: the text in Kafka, likewise.
    """
    rows: list[SavedRow] = []
    warnings: list[str] = []
    stores: set[StoreName] = set()
    for change in changes:
        if change.action != "write":
            continue
        key = (change.group, change.tp)
        stores |= change.before.keys()
        rows.append(_row(change, (znodes or {}).get(key), (metadata or {}).get(key)))
        for store, there in change.before.items():
            if isinstance(there, Unknown) and not restorable(there):
                warnings.append(f"group {change.group}, {change.tp}: {store} cannot be brought back: {there.reason}")
    source: Source = "dual" if len(stores) > 1 else "kafka" if "kafka" in stores else "zookeeper"
    return OffsetsFile(
        "json", tuple(rows), warnings=tuple(warnings), cluster=cluster, exported_at_ms=exported_at_ms, source=source
    )


def _row(change: Change, znode: ZnodeState | None, metadata: str | None) -> SavedRow:
    zookeeper, kafka = change.before.get("zookeeper"), change.before.get("kafka")
    node = None if zookeeper is None or not restorable(zookeeper) else ZnodeState(_number(zookeeper))
    if isinstance(zookeeper, UnreadableNode):
        node = ZnodeState.holding(zookeeper.data)
    if node is not None and znode is not None:
        node = replace(node, mzxid=znode.mzxid, version=znode.version, mtime_ms=znode.mtime_ms)
    text = metadata if isinstance(kafka, int) else None
    held = None if kafka is None or isinstance(kafka, Unknown) else KafkaState(_number(kafka), text)
    numbers = [there for there in change.before.values() if isinstance(there, int)]
    start, end = change.bounds or (None, None)
    return SavedRow(
        change.group,
        change.tp.topic,
        change.tp.partition,
        max(numbers, default=None),
        metadata=text,
        zookeeper=node,
        kafka=held,
        log_start=start,
        log_end=end,
    )


def _number(there: Committed) -> int | None:
    return there if isinstance(there, int) else None


def by_store(
    rows: Iterable[SavedRow], group: str, stores: Sequence[StoreName]
) -> dict[StoreName, dict[TopicPartition, TargetOffset]]:
    """Return the target offsets of a file for each store, for one group (rows without a group count as its own).

    A row with states of stores restores each of them; a store that the row does not name is left alone.  A row with an
    offset only sets it in each of `stores`.  Raises WrongUsage when a row only has states of stores that are not among
    `stores`, and for two rows of one partition.
    """
    found: dict[StoreName, dict[TopicPartition, TargetOffset]] = {store: {} for store in stores}
    seen: set[TopicPartition] = set()
    for row in rows:
        if row.group not in (None, group):
            continue
        if row.tp in seen:
            raise WrongUsage(f"the file has two rows for {row.tp} of group {group}: name the group of each row")
        seen.add(row.tp)
        states = _states(row)
        if states and not states.keys() & found.keys():
            raise WrongUsage(
                f"the file has {row.tp} of group {group} from {' and '.join(states)}, "
                f"but the stores to write are {' and '.join(stores)}"
            )
        for store in stores:
            if not states:
                found[store][row.tp] = TargetOffset(row.position)
            elif store in states:
                found[store][row.tp] = TargetOffset(states[store])
    return found


def says_what(file: OffsetsFile, row: SavedRow, by_store: bool) -> bool:
    """True if a row has a target.  A row without an offset often has none: another tool's table has no offset when
    there was no commit yet, and an own file has none when a store could not be read.  Such a row must not delete what
    was committed since.

    Only the own form can express "delete": when each store that was read held none.  by_store: the states of the stores
    are restored one by one, whatever the offset is.
    """
    states = _states(row)
    if row.position is not None or (by_store and states):
        return True
    looked_at = 2 if states and file.source == "dual" else 0
    return file.kind == "json" and len(states) >= looked_at and not any(at is not None for at in states.values())


def texts(rows: Iterable[SavedRow], group: str) -> dict[TopicPartition, str]:
    """Return the metadata to commit to Kafka with the offsets of one group."""
    mine = [row for row in rows if row.group in (None, group)]
    found = {row.tp: row.kafka.metadata if row.kafka is not None else row.metadata for row in mine}
    return {tp: text for tp, text in found.items() if text}


def _states(row: SavedRow) -> dict[StoreName, Target]:
    states: dict[StoreName, Target] = {}
    if row.kafka is not None:
        states["kafka"] = row.kafka.offset
    if row.zookeeper is not None:
        data = row.zookeeper.data
        reason = f"{row.tp}: the file has {data!r}, which is not an offset"
        states["zookeeper"] = row.zookeeper.offset if data is None else UnreadableNode(reason, data)
    return states


def same(there: Committed, wanted: Target) -> bool:
    """True if a store holds the target: the check after a write, and after an undo."""
    return there is NONE if wanted is None else there == wanted
