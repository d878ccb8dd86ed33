"""Mirrored offset: what a mirror writes beside a group's offset at its target, so that others know whose it is.

    /consumers/GROUP/mirrored/TOPIC/PARTITION   in ZooKeeper, written in one transaction with the offset node
    the metadata of the commit                  in Kafka

    {"mirrored":"1","source":"dc1","group":"billing","at_ms":"1700000000000","offset":"57000","version":"13",
     "repeats":"12","missing":"300","read":[["orders","0","1200","1500","1200"]]}

Numbers are text, because a JVM's reader keeps only 32 bits of a bare number.  read: the source partitions that feed
this one, each with the group's offset, the end of its log, and up to where it was copied ("": unknown).  A text longer
than a broker takes has no rows.

The offset is still the mirror's while nobody else has written it: in ZooKeeper its node has this version, and in Kafka
the commit has this metadata.  Pure: text to values and back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from groundwork.jsontext import json_value
from kafkawire.model import TopicPartition
from kafkawire.znodes.group import CONSUMERS
from zkconsumer.errors import ConsumerError
from zkconsumer.options.arguments import parse_partition

VERSION = "1"
LONGEST = 3500  # bytes; brokers take 4096 (offset.metadata.max.bytes), and 1024 before 0.8.2.1


class RecordUnclear(ConsumerError):
    """Raised when a record holds what no release of ours writes, so that the offset counts as somebody else's."""


@dataclass(frozen=True, slots=True)
class Fed:
    """A source partition that feeds the target partition, when its offset was translated.

    position: the group's offset, or None without one.  end: of its log; copied: everything before it is in the
    target; None: unknown.
    """

    source: TopicPartition
    position: int | None
    end: int | None
    copied: int | None


@dataclass(frozen=True, slots=True)
class Mirrored:
    """An offset that a mirror translated.

    source, group: the mirror's name of the source, and the group's name there.  at_ms: when, since 1970.
    offset: the one that was written.  version: of ZooKeeper's node with it; None in Kafka.
    repeats: messages from the offset on that the group may have read at the source.
    missing: messages of the source that the target did not have then; None: unknown.
    read: the partitions that feed it; empty if there are too many to write down.
    """

    source: str
    group: str
    at_ms: int
    offset: int
    version: int | None
    repeats: int
    missing: int | None
    read: Sequence[Fed] = ()


def mirrored_folder(group: str) -> str:
    """Return the folder with the records of a group in ZooKeeper."""
    return f"{CONSUMERS}/{group}/mirrored"


def mirrored_path(group: str, tp: TopicPartition) -> str:
    """Return the path of a record in ZooKeeper."""
    return f"{mirrored_folder(group)}/{tp.topic}/{tp.partition}"


def mirrored_text(record: Mirrored) -> str:
    """Return the text of a record, at most LONGEST bytes."""
    said = {
        "mirrored": VERSION,
        "source": record.source,
        "group": record.group,
        "at_ms": str(record.at_ms),
        "offset": str(record.offset),
        "version": _text(record.version),
        "repeats": str(record.repeats),
        "missing": _text(record.missing),
    }
    rows = [
        [each.source.topic, str(each.source.partition), _text(each.position), _text(each.end), _text(each.copied)]
        for each in record.read
    ]
    whole = _dumped(said | {"read": rows})
    return whole if len(whole) <= LONGEST else _dumped(said | {"read": []})


def read_mirrored(where: str, data: str | bytes) -> Mirrored:
    """Return the record in a text.  where: a path, or what else holds it, for the error.  Raises RecordUnclear."""
    try:
        said = json_value(data)
        if said["mirrored"] != VERSION:
            raise ValueError(f"version {said['mirrored']!r}")
        return Mirrored(
            str(said["source"]),
            str(said["group"]),
            int(said["at_ms"]),
            int(said["offset"]),
            _number(said["version"]),
            int(said["repeats"]),
            _number(said["missing"]),
            tuple(
                Fed(
                    TopicPartition(str(topic), parse_partition(str(partition))),
                    _number(position),
                    _number(end),
                    _number(copied),
                )
                for topic, partition, position, end, copied in said["read"]
            ),
        )
    except (ValueError, KeyError, TypeError, ConsumerError) as why:
        raise RecordUnclear(
            f"{where} holds {data!r}, which is not the record of a mirrored offset ({type(why).__name__}: {why})"
        ) from None


def _text(number: int | None) -> str:
    return "" if number is None else str(number)


def _number(text: str) -> int | None:
    return None if text == "" else int(text)


def _dumped(said: dict[str, object]) -> str:
    return json.dumps(said, separators=(",", ":"))
