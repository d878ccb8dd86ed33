"""This project's own form: JSON with one partition per line and all known data.

    {"format": "zkconsumer.offsets/1", "cluster": "zk1:2181/kafka", "group": "billing",
     "exported_at": "2015-06-01T12:00:00.000Z", "source": "dual",
     "partitions": [
      {"topic": "orders", "partition": 0, "position": 1200, "metadata": null,
       "zk": {"offset": 1200, "mzxid": 4294967377, "version": 7, "mtime": "2015-06-01T11:59:58.120Z"},
       "kafka": {"offset": 1190, "metadata": ""}, "log_start": 0, "log_end": 5000}]}

position    the next offset to read; null: there is none.  Without it the offset of the store in `source` counts, for
            "dual" the larger of both
zk, kafka   null or absent: the store was not read; with "offset": null it was, and had none
zk.text     beside "offset": null: data of the node, which is not an offset.  Importing it writes the same data
group       of all partitions; null when they have groups of their own, or the file is of no group
partition   a number, or "BROKER-INDEX" of 0.7
A missing value is null, never 0 and never -1.  An unknown key is refused: it may be a misspelt known one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from groupadmin.files.documents import Path
from groupadmin.files.model import KafkaState, OffsetsFile, SavedRow, Source, ZnodeState
from groupadmin.files.reading import MOST_OFFSET, Reading, shown
from kafkawire.model import BrokerPartition, PartitionId

FORMAT = "zkconsumer.offsets/1"
SOURCES = ("zookeeper", "kafka", "dual")
_TOP = {"format", "cluster", "group", "exported_at", "source", "partitions"}
_PARTITION = {"group", "topic", "partition", "position", "metadata", "zk", "kafka", "log_start", "log_end"}
_ZK = {"offset", "mzxid", "version", "mtime", "text"}
_KAFKA = {"offset", "metadata"}
_CORRECT = "correct it, or export it again"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def read_ours(whole: Mapping[str, Any], reading: Reading) -> OffsetsFile:
    """Return the file in a document, whose paths begin with 0.  Raises FileUnclear."""
    if whole.get("format") != FORMAT:
        said = shown(whole.get("format"))
        raise reading.unclear((0, "format"), f"the file's format is {said}", f"this release reads {FORMAT}")
    _known(whole, _TOP, (0,), reading)
    source = whole.get("source")
    if source is not None and source not in SOURCES:
        raise reading.unclear(
            (0, "source"), f"source {shown(source)} is not a store", f"it is one of {', '.join(SOURCES)}"
        )
    partitions = whole.get("partitions")
    if not isinstance(partitions, list):
        raise reading.unclear((0, "partitions"), "the file has no list of partitions", _CORRECT)
    group = reading.group(whole.get("group"), (0, "group"))
    for index, entry in enumerate(partitions):
        path: Path = (0, "partitions", index)
        reading.add(_row(group, source, entry, path=path, reading=reading), path)
    cluster = _text(whole.get("cluster"), (0, "cluster"), reading)
    at = _time(whole.get("exported_at"), (0, "exported_at"), reading)
    return reading.file("json", empty=True, cluster=cluster, exported_at_ms=at, source=cast(Source | None, source))


def _row(group: str | None, source: str | None, entry: Any, *, path: Path, reading: Reading) -> SavedRow:
    if not isinstance(entry, dict):
        raise reading.unclear(path, f"{shown(entry)} is not a partition", _CORRECT)
    _known(entry, _PARTITION, path, reading)
    zookeeper, kafka = _znode(entry.get("zk"), path, reading), _kafka(entry.get("kafka"), path, reading)
    if "position" in entry:
        position = _offset(entry["position"], (*path, "position"), reading)
    else:
        position = _of_stores(source, zookeeper, kafka, path=path, reading=reading)
    return SavedRow(
        reading.group(entry["group"], (*path, "group")) if "group" in entry else group,
        reading.name(entry.get("topic"), path, "topic"),
        reading.partition(entry.get("partition"), path),
        position,
        metadata=_text(entry.get("metadata"), path, reading),
        zookeeper=zookeeper,
        kafka=kafka,
        log_start=_offset(entry.get("log_start"), path, reading),
        log_end=_offset(entry.get("log_end"), path, reading),
    )


def _of_stores(
    source: str | None, zookeeper: ZnodeState | None, kafka: KafkaState | None, *, path: Path, reading: Reading
) -> int | None:
    """Return the offset that the store of `source` held."""
    wanted = {"zookeeper": (zookeeper,), "kafka": (kafka,), "dual": (zookeeper, kafka)}.get(source or "", ())
    if not wanted or None in wanted:
        raise reading.unclear(path, "the partition has no position", 'write "position": null where there is none')
    return max((state.offset for state in wanted if state and state.offset is not None), default=None)


def _znode(entry: Any, path: Path, reading: Reading) -> ZnodeState | None:
    if entry is None:
        return None
    _state(entry, "zk", _ZK, path=path, reading=reading)
    state = ZnodeState(
        _offset(entry["offset"], path, reading),
        _whole(entry.get("mzxid"), path, reading),
        _whole(entry.get("version"), path, reading),
        _time(entry.get("mtime"), path, reading),
        _text(entry.get("text"), path, reading),
    )
    try:
        if state.data is None or state.offset is None:
            return state
    except UnicodeEncodeError:
        raise reading.unclear(
            (*path, "zk", "text"), f"{shown(state.text)} is not the text of a node", _CORRECT
        ) from None
    raise reading.unclear((*path, "zk"), "the node has an offset and a text", _CORRECT)


def _kafka(entry: Any, path: Path, reading: Reading) -> KafkaState | None:
    if entry is None:
        return None
    _state(entry, "kafka", _KAFKA, path=path, reading=reading)
    return KafkaState(_offset(entry["offset"], path, reading), _text(entry.get("metadata"), path, reading))


def _state(entry: Any, store: str, known: set[str], *, path: Path, reading: Reading) -> None:
    if not isinstance(entry, dict) or "offset" not in entry:
        problem = f"{shown(entry)} is not a state of a store"
        raise reading.unclear((*path, store), problem, 'it has an "offset", null where there is none')
    _known(entry, known, path, reading, store)


def _known(entry: Mapping[str, Any], known: set[str], path: Path, reading: Reading, *inside: str) -> None:
    if known.issuperset(entry):
        return
    name = min(entry.keys() - known)
    problem = f"{shown(name)} is not a key of {FORMAT}"
    raise reading.unclear((*path, *inside, name), problem, f"known here: {', '.join(sorted(known))}")


def _offset(value: Any, path: Path, reading: Reading) -> int | None:
    if value is None or (type(value) is int and 0 <= value <= MOST_OFFSET):  # nearly always
        return value
    return reading.position(value, path, minus_one=False)


def _whole(value: Any, path: Path, reading: Reading) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise reading.unclear(path, f"{shown(value)} is not a whole number", _CORRECT)
    return value


def _text(value: Any, path: Path, reading: Reading) -> str | None:
    if value is not None and not isinstance(value, str):
        raise reading.unclear(path, f"{shown(value)} is not text", _CORRECT)
    return value


def _time(value: Any, path: Path, reading: Reading) -> int | None:
    """Return the milliseconds since 1970, from an ISO time (without a zone: UTC) or from such a number."""
    if value is None or type(value) is int:
        return value
    try:
        time = datetime.fromisoformat(value)
        return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH) // _MS
    except (TypeError, ValueError, OverflowError):
        helps = "a time is written as 2015-06-01T12:00:00.000Z"
        raise reading.unclear(path, f"{shown(value)} is not a time", helps) from None


# ---- writing


def write_ours(file: OffsetsFile) -> str:
    """Return the text of a file, rows in their order."""
    groups = {row.group for row in file.rows}
    group = next(iter(groups)) if len(groups) == 1 else None
    about = {
        "format": FORMAT,
        "cluster": file.cluster,
        "group": group,
        "exported_at": iso(file.exported_at_ms),
        "source": file.source,
    }
    head = json.dumps(about)[:-1]
    rows = ",\n".join(f"  {json.dumps(_entry(row, row.group != group))}" for row in file.rows)
    return f'{head},\n "partitions": [\n{rows}\n]}}\n' if rows else f'{head},\n "partitions": []}}\n'


def _entry(row: SavedRow, own_group: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"group": row.group} if own_group else {}
    zk, kafka = row.zookeeper, row.kafka
    return entry | {
        "topic": row.topic,
        "partition": _partition(row.partition),
        "position": row.position,
        "metadata": row.metadata,
        "zk": zk and _znode_entry(zk),
        "kafka": kafka and {"offset": kafka.offset, "metadata": kafka.metadata},
        "log_start": row.log_start,
        "log_end": row.log_end,
    }


def _znode_entry(zk: ZnodeState) -> dict[str, Any]:
    entry = {"offset": zk.offset, "mzxid": zk.mzxid, "version": zk.version, "mtime": iso(zk.mtime_ms)}
    return entry if zk.text is None else entry | {"text": zk.text}


def _partition(partition: PartitionId) -> int | str:
    return str(partition) if isinstance(partition, BrokerPartition) else partition


def iso(ms: int | None) -> str | int | None:
    """Return a time as text in UTC; milliseconds unchanged when they are outside the calendar."""
    if ms is None:
        return None
    try:
        return (_EPOCH + ms * _MS).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return ms
