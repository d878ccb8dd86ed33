"""The way back: a file of what the stores held before, written before anything else is.

A row for each partition that is to be written, with the state of each store: a number, or that there was none; putting
it back deletes what was not there.  A store that could not be read is absent from its row, which is said: nothing can
bring that back.  `zkconsumer offsets import FILE --execute` reads it like any other file; per-store states are what
tells an undo (and an export) from a file of mere positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from groupadmin.files.model import KafkaState, OffsetsFile, SavedRow, Source, ZnodeState
from groupadmin.plan.changes import Change
from groupadmin.plan.resets import Wanted
from kafkawire.dialects import Store as StoreName
from kafkawire.model import TopicPartition
from zkconsumer.offsets.store import NONE, Committed, Unknown
from zkconsumer.options.arguments import WrongUsage


def undo_file(
    changes: Iterable[Change],
    cluster: str | None,
    exported_at_ms: int,
    znodes: Mapping[tuple[str, TopicPartition], ZnodeState] | None = None,
    metadata: Mapping[tuple[str, TopicPartition], str] | None = None,
) -> OffsetsFile:
    """What brings back the state before these changes; only rows that are written are in it.

    znodes: the nodes as read, by group and partition, for their versions.  metadata: the text in Kafka, likewise.
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
            if isinstance(there, Unknown):
                warnings.append(f"group {change.group}, {change.tp}: {store} cannot be brought back: {there.reason}")
    source: Source = "dual" if len(stores) > 1 else "kafka" if "kafka" in stores else "zookeeper"
    return OffsetsFile("json", tuple(rows), tuple(warnings), cluster, exported_at_ms, source)


def _row(change: Change, znode: ZnodeState | None, metadata: str | None) -> SavedRow:
    zookeeper, kafka = change.before.get("zookeeper"), change.before.get("kafka")
    node = None if zookeeper is None or isinstance(zookeeper, Unknown) else ZnodeState(_number(zookeeper))
    if node is not None and znode is not None:
        node = ZnodeState(node.offset, znode.mzxid, znode.version, znode.mtime_ms)
    text = metadata if isinstance(kafka, int) else None
    held = None if kafka is None or isinstance(kafka, Unknown) else KafkaState(_number(kafka), text)
    numbers = [there for there in change.before.values() if isinstance(there, int)]
    start, end = change.bounds or (None, None)
    return SavedRow(
        change.group,
        change.tp.topic,
        change.tp.partition,
        max(numbers, default=None),
        text,
        node,
        held,
        start,
        end,
    )


def _number(there: Committed) -> int | None:
    return there if isinstance(there, int) else None


def by_store(
    rows: Iterable[SavedRow], group: str, stores: Sequence[StoreName]
) -> dict[StoreName, dict[TopicPartition, Wanted]]:
    """What a file wants each store to hold, of one group (rows that name no group are taken as its own).

    A row with the states of stores: each of them gets its own back, and a store that the row does not name is left
    alone.  A row with a position only: each of `stores` gets that.  Raises WrongUsage where a row has the state of a
    store that is not among `stores` only, and on two rows of one partition.
    """
    found: dict[StoreName, dict[TopicPartition, Wanted]] = {store: {} for store in stores}
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
                f"and the group is to be written in {' and '.join(stores)}"
            )
        for store in stores:
            if not states:
                found[store][row.tp] = Wanted(row.position)
            elif store in states:
                found[store][row.tp] = Wanted(states[store])
    return found


def says_what(file: OffsetsFile, row: SavedRow, by_store: bool) -> bool:
    """Whether a row says what is to be held.  One without a position often does not: another tool's table leaves the
    position out where nobody had committed when it was made, and our own where a store could not be read.  What was
    committed since is not to be taken away by it.

    Only our own form can say that there is to be none: where each store that was looked at held none.  by_store: the
    states of the stores are put back one by one, whatever the position is.
    """
    states = _states(row)
    if row.position is not None or (by_store and states):
        return True
    looked_at = 2 if states and file.source == "dual" else 0
    return file.kind == "json" and len(states) >= looked_at and not any(at is not None for at in states.values())


def texts(rows: Iterable[SavedRow], group: str) -> dict[TopicPartition, str]:
    """The texts that go into Kafka with the positions, of one group."""
    mine = [row for row in rows if row.group in (None, group)]
    found = {row.tp: row.kafka.metadata if row.kafka is not None else row.metadata for row in mine}
    return {tp: text for tp, text in found.items() if text}


def _states(row: SavedRow) -> dict[StoreName, int | None]:
    states: dict[StoreName, int | None] = {}
    if row.kafka is not None:
        states["kafka"] = row.kafka.offset
    if row.zookeeper is not None:
        states["zookeeper"] = row.zookeeper.offset
    return states


def same(there: Committed, wanted: int | None) -> bool:
    """Whether a store holds what it was to be given: how a write, and an undo, are read back."""
    return there is NONE if wanted is None else there == wanted
