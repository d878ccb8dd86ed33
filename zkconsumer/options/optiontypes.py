"""Option types of a consumer: functions from a file's value, text or not, to the option's value.

Each raises ValueError with what it expected; groundwork.options makes the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from groundwork.optionvalues import filled
from kafkawire import optiontypes as optionkinds
from kafkawire.model import PartitionId, TopicPartition, partition_named

NAME = re.compile(r"[a-zA-Z0-9._-]+")  # kafka.common.Config of 0.8.2.2; an empty name would be no path


def name(raw: object) -> str:
    if not isinstance(raw, str) or not NAME.fullmatch(raw.strip()):
        raise ValueError("ASCII letters, digits, '.', '_' and '-'")
    return raw.strip()


text = filled
brokers = optionkinds.brokers
numbered_brokers = optionkinds.numbered_brokers
release = optionkinds.release


def ms(raw: object) -> int:
    if isinstance(raw, bool) or not re.fullmatch(r"[0-9]{1,9}", str(raw).strip()) or int(str(raw)) < 1:
        raise ValueError("a whole number of ms, at least 1")
    return int(str(raw))


PARTITIONS = "topics with their partitions: {orders: [0, 3], payments: [1]}, or as text orders:0,3;payments:1"


def partitions(raw: object) -> tuple[TopicPartition, ...]:
    """A mapping of topics to lists of partitions (a number, or broker-index of 0.7), or `orders:0,3;payments:1`;
    sorted, and each only once."""
    found: list[TopicPartition] = []
    for topic, ids in _by_topic(raw).items():
        if not isinstance(topic, str) or not NAME.fullmatch(topic):
            raise ValueError(f"{PARTITIONS}; {topic!r} is no topic")
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
        raise ValueError(f"{PARTITIONS}; {raw!r} is no partition of {topic}")
    return partition


def _in_order(partition: PartitionId) -> tuple[int, int]:
    return (-1, partition) if isinstance(partition, int) else (partition.broker, partition.index)
