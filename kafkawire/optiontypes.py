"""Option types for what Kafka names: a release, brokers, groups and members, topics, partitions.

A type is a function from a file's value, text or not, to the option's value.  It raises ValueError with what it
expected; groundwork.options makes the sentence.  Types that know nothing of Kafka are in groundwork/optionvalues.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from groundwork.optionvalues import BadValue
from kafkawire.cluster.addresses import parse_addresses, parse_brokers
from kafkawire.dialects import SeveralReleases, dialect
from kafkawire.errors import LocalError
from kafkawire.model import Broker, PartitionId, TopicPartition, partition_named

NAME = re.compile(r"[a-zA-Z0-9._-]+")  # kafka.common.Config of 0.8.2.2; an empty name would not make a path


def release(raw: object) -> str:
    """Option type: a Kafka release, such as 0.8.2 (in YAML, 0.9 without quotes is a number, and is taken too)."""
    said = str(raw).strip()
    try:
        dialect(said)
    except SeveralReleases as exc:
        raise BadValue(f"a Kafka release: {exc}") from exc  # quotes around it would not help
    except LocalError as exc:
        raise ValueError(f"a Kafka release: {exc}") from exc
    return said


def brokers(raw: object) -> tuple[tuple[str, int], ...]:
    """Option type: `host:port,host:port`."""
    try:
        return tuple(parse_addresses(str(raw)))
    except LocalError as exc:
        raise ValueError(f"host:port, several separated by commas ({exc})") from exc


def numbered_brokers(raw: object) -> tuple[Broker, ...]:
    """Option type: `id:host:port,id:host:port`, 0.7's broker.list."""
    try:
        return tuple(parse_brokers(str(raw)).values())
    except LocalError as exc:
        raise ValueError(f"id:host:port, several separated by commas ({exc})") from exc


def name(raw: object) -> str:
    """Option type: the name of a group, a member or a topic."""
    if not isinstance(raw, str) or not NAME.fullmatch(raw.strip()):
        raise ValueError("ASCII letters, digits, '.', '_' and '-'")
    return raw.strip()


def topics(raw: object) -> tuple[str, ...]:
    """Option type: names of topics, each once, sorted: a list, or text with commas."""
    rows = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(rows, Sequence) or not all(isinstance(row, str) for row in rows):
        raise ValueError("a list of topics")
    found = [row.strip() for row in rows if row.strip()]
    for topic in found:
        if not NAME.fullmatch(topic):
            raise ValueError(f"names of topics; {topic!r} is not one (topics.pattern takes a regular expression)")
    return tuple(sorted(set(found)))


PARTITIONS = "topics with their partitions: {orders: [0, 3], payments: [1]}, or as text orders:0,3;payments:1"


def partitions(raw: object) -> tuple[TopicPartition, ...]:
    """Option type: partitions, sorted, each only once.

    A mapping of topics to lists of partitions (a number, or broker-index of 0.7), or `orders:0,3;payments:1`.
    """
    found: list[TopicPartition] = []
    for topic, ids in _by_topic(raw).items():
        if not isinstance(topic, str) or not NAME.fullmatch(topic):
            raise ValueError(f"{PARTITIONS}; {topic!r} is not a topic")
        if isinstance(ids, str) or not isinstance(ids, Sequence) or not ids:
            raise ValueError(f"{PARTITIONS}; topic {topic} has no list of partitions")
        found += [TopicPartition(topic, _partition(topic, one)) for one in ids]
    twice = [tp for n, tp in enumerate(found) if tp in found[:n]]
    if twice:
        raise ValueError(f"each partition once; {twice[0]} is there twice")
    if not found:
        raise ValueError(PARTITIONS)
    return tuple(sorted(found, key=lambda tp: (tp.topic, *_in_order(tp.partition))))


def _by_topic(raw: object) -> Mapping[object, object]:
    if isinstance(raw, Mapping):
        return raw
    if not isinstance(raw, str):
        raise ValueError(PARTITIONS)
    found: dict[object, object] = {}
    for part in filter(None, (piece.strip() for piece in raw.split(";"))):
        topic, _, ids = (piece.strip() for piece in part.partition(":"))
        if topic in found:
            raise ValueError(f"{PARTITIONS}; topic {topic} is there twice")
        found[topic] = [one.strip() for one in ids.split(",") if one.strip()]
    return found


def _partition(topic: str, raw: object) -> PartitionId:
    partition = None if isinstance(raw, bool) else partition_named(str(raw))
    if partition is None:
        raise ValueError(f"{PARTITIONS}; {raw!r} is not a partition of {topic}")
    return partition


def _in_order(partition: PartitionId) -> tuple[int, int]:
    return (-1, partition) if isinstance(partition, int) else (partition.broker, partition.index)
