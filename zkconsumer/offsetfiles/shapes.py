"""JSON and YAML that other tools write, told apart by their keys.

kafka-utils (Yelp)  {"groupid": "G", "offsets": {"T": {"0": 123}}}      0 is also what it writes for "never committed"
kaf                 {"0": 123}                                          the topic is on its command line
kafkactl            {"Group": {"Name": "G"}, "Topics": [{"Name": "T", "Partitions": [{"Partition": 0,
                    "consumerOffset": 123, "oldestOffset": 0, "newestOffset": 200, ..}]}]}; keys in lower case in YAML
Mirus               {"connectorId": "C", "topic": "T", "partition": 0, "offset": 123}       one a line; null is none
storm-kafka         {"topology": {..}, "offset": 123, "partition": 0, "broker": {..}, "topic": "T"}   a node's data,
                    one a line or a list of them
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zkconsumer.offsetfiles.documents import Path
from zkconsumer.offsetfiles.model import Kind, OffsetsFile, SavedRow
from zkconsumer.offsetfiles.reading import Reading, shown

_EMPTY = "the file names no partition"
_ZERO = (
    "a position of 0, which kafka-utils also writes for a partition that was never committed; "
    "with zero_means_missing (--zero-means-missing) it is taken as none"
)


def read_shape(values: Sequence[Any], reading: Reading) -> OffsetsFile:
    """The rows of documents of another tool.  Raises FileUnclear when no tool we know writes such."""
    for index, value in enumerate(values):
        if not isinstance(value, (dict, list)):
            raise reading.unclear(
                (index,), f"{shown(value)} is no document of positions", "a JSON object or list is expected"
            )
    if len(values) == 1 and isinstance(values[0], dict):
        whole = _lowered(values[0])
        if "groupid" in whole or isinstance(whole.get("offsets"), dict):
            return _yelp(values[0], reading)
        if "topics" in whole and "offset" not in whole:
            return _kafkactl(values[0], reading)
        if values[0] and all(_is_partition(key) for key in values[0]):
            return _kaf(values[0], reading)
    return _records(values, reading)


def _yelp(whole: Mapping[str, Any], reading: Reading) -> OffsetsFile:
    group = reading.group(whole.get("groupid"), (0, "groupid"))
    for topic, partitions in _map(whole.get("offsets"), (0, "offsets"), reading).items():
        for partition, offset in _map(partitions, (0, "offsets", topic), reading).items():
            path = (0, "offsets", topic, partition)
            row = _row(group, topic, partition, offset, path, reading)
            if row.position == 0:
                reading.tell(path, _ZERO)
            reading.add(row, path)
    return _maybe_empty("yelp", reading)


def _kaf(whole: Mapping[str, Any], reading: Reading) -> OffsetsFile:
    if reading.topic is None:
        raise reading.unclear((0,), "the file names no topic", "name it beside the file (--topic), as for kaf itself")
    for partition, offset in whole.items():
        path = (0, partition)
        reading.add(_row(None, reading.topic, partition, offset, path, reading), path)
    return reading.file("kaf")


def _kafkactl(whole: Mapping[str, Any], reading: Reading) -> OffsetsFile:
    group = _lowered(whole).get("group")
    named = reading.group(_lowered(group).get("name") if isinstance(group, dict) else group, (0, _key(whole, "group")))
    key = _key(whole, "topics")
    topics: Path = (0, key)
    for t, topic in enumerate(_list(whole[key], topics, reading)):
        of = _lowered(_map(topic, (*topics, t), reading))
        partitions: Path = (*topics, t, _key(topic, "partitions"))
        for p, partition in enumerate(_list(of.get("partitions"), partitions, reading)):
            path: Path = (*partitions, p)
            entry = _lowered(_map(partition, path, reading))
            if "consumeroffset" not in entry:
                raise reading.unclear(
                    path, "a partition has no consumerOffset", "describe the group with -o json or -o yaml"
                )
            row = SavedRow(
                named,
                reading.name(of.get("name"), (*topics, t), "topic"),
                reading.partition(entry.get("partition"), path),
                reading.position(_text(entry["consumeroffset"]), path, "own"),
                log_start=reading.optional(entry.get("oldestoffset"), path, "oldestOffset"),
                log_end=reading.optional(entry.get("newestoffset"), path, "newestOffset"),
            )
            reading.add(row, path)
    return _maybe_empty("kafkactl", reading)


def _records(values: Sequence[Any], reading: Reading) -> OffsetsFile:
    """One object a partition: of Mirus or storm-kafka."""
    kind: Kind = "storm"
    for path, value in _each(values):
        record = _lowered(_map(value, path, reading))
        if not {"topic", "partition", "offset"} <= record.keys():
            raise reading.unclear(
                path,
                "this JSON is of no known form",
                "known are zkconsumer.offsets/1, kafka-utils, kaf, kafkactl, Mirus and storm-kafka",
            )
        group = record.get("connectorid", record.get("group"))
        kind = "mirus" if "connectorid" in record else kind
        row = _row(reading.group(group, path), record["topic"], record["partition"], record["offset"], path, reading)
        reading.add(row, path)
    return reading.file(kind)


def _each(values: Sequence[Any]) -> list[tuple[Path, Any]]:
    found: list[tuple[Path, Any]] = []
    for index, value in enumerate(values):
        if isinstance(value, list):
            found.extend(((index, inner), record) for inner, record in enumerate(value))
        else:
            found.append(((index,), value))
    return found


def _row(group: str | None, topic: object, partition: object, offset: object, path: Path, reading: Reading) -> SavedRow:
    named = reading.name(topic, path, "topic")
    return SavedRow(group, named, reading.partition(partition, path), reading.position(_text(offset), path))


def _text(offset: object) -> object:
    """JSON's null is the word for none."""
    return "null" if offset is None or offset in ("", "~") else offset


def _maybe_empty(kind: Kind, reading: Reading) -> OffsetsFile:
    if not reading.rows():
        reading.warn(_EMPTY)
    return reading.file(kind, empty=True)


def _map(value: object, path: Path, reading: Reading) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise reading.unclear(
            path, f"{shown(value)} stands where an object is expected", "export it again, or correct it"
        )
    return value


def _list(value: object, path: Path, reading: Reading) -> Sequence[Any]:
    if value is None or value == "":
        return ()
    if not isinstance(value, list):
        raise reading.unclear(path, f"{shown(value)} stands where a list is expected", "export it again, or correct it")
    return value


def _lowered(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key.lower(): inner for key, inner in value.items()}


def _key(value: Mapping[str, Any], wanted: str) -> str:
    """The key as the document spells it."""
    return next((key for key in value if key.lower() == wanted), wanted)


def _is_partition(key: str) -> bool:
    return key.replace("-", "", 1).isdigit()
