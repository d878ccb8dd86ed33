"""Offset map as text: one line per record, each a JSON array:

    ["map", 1, "SOURCE", "GROUP"]                                            the first line: source and group
    ["begin", "orders", 0, 1200, "same" | "keys" | "", 1763700000000]        source, position, route, ms since 1970;
                                                                             then the topic's czxid, if known;
                                                                             then (after czxid or null) its name in the
                                                                             target, if it differs: releases
                                                                             without topic.rename refuse such a line
    ["at", "orders", 0, "orders", 0, 1200, 57000, 57000]                     source, target, position, low, high | null
    ["reached", "orders", 0, 1500]                                           source, position

A partition of 0.7 is text, "BROKER-INDEX".
"""

from __future__ import annotations

import json
from typing import NamedTuple

from groundwork.jsontext import json_value
from kafkawire.model import PartitionId, TopicPartition
from zkconsumer.errors import ConsumerError
from zkconsumer.offsetmap.records import Begun, Entry, Reached, Record
from zkconsumer.options.arguments import WrongUsage, parse_partition

VERSION = 1
ROUTES = {"same": True, "keys": False, "": None}
NAMES = {keeps: name for name, keeps in ROUTES.items()}


class MapDamaged(ConsumerError):
    """Raised when an offset map cannot be parsed; names the file or topic and the line."""


class Header(NamedTuple):
    """Owner of a map: the name of the source in the mirror's configuration, and the mirror's group there."""

    source: str
    group: str


def header_line(header: Header) -> str:
    return _line(["map", VERSION, *header])


def read_header(line: str) -> Header:
    """Return the header in a line.  Raises ValueError."""
    match json_value(line):
        case ["map", 1, str(source), str(group)]:
            return Header(source, group)
        case ["map", version, *_]:
            raise ValueError(f"it is an offset map of version {version}, and this program reads version {VERSION}")
    raise ValueError("it is not an offset map")


def line_of(record: Record) -> str:
    match record:
        case Begun(source, position, at_ms, keeps, topic, target):
            known: list[object] = [topic, target] if target else [] if topic is None else [topic]
            return _line(["begin", *_tp(source), position, NAMES[keeps], at_ms, *known])
        case Entry(source, target, position, low, high):
            return _line(["at", *_tp(source), *_tp(target), position, low, high])
        case Reached(source, position):
            return _line(["reached", *_tp(source), position])


def read_line(line: str) -> Record:
    """Return the record in a line.  Raises ValueError."""
    try:
        match json_value(line):
            case ["begin", str(topic), partition, int(position), str(route), int(at_ms)] if route in ROUTES:
                return Begun(_partition(topic, partition), position, at_ms, ROUTES[route])
            case ["begin", str(topic), part, int(position), str(route), int(at_ms), int(czxid)] if route in ROUTES:
                return Begun(_partition(topic, part), position, at_ms, ROUTES[route], czxid)
            case ["begin", str(topic), part, int(position), str(route), int(at_ms), known, str(name)] if (
                route in ROUTES and (known is None or isinstance(known, int))
            ):
                return Begun(_partition(topic, part), position, at_ms, ROUTES[route], known, name)
            case ["at", str(topic), partition, str(other), there, int(position), int(low), (int() | None) as high]:
                return Entry(_partition(topic, partition), _partition(other, there), position, low, high)
            case ["reached", str(topic), partition, int(position)]:
                return Reached(_partition(topic, partition), position)
    except WrongUsage as why:
        raise ValueError(str(why)) from None
    raise ValueError(f"{line[:80]!r} is not a line of an offset map")


def _line(values: list[object]) -> str:
    return json.dumps(values, separators=(",", ":")) + "\n"


def _tp(tp: TopicPartition) -> tuple[str, int | str]:
    return tp.topic, tp.partition if isinstance(tp.partition, int) else str(tp.partition)


def _partition(topic: str, partition: object) -> TopicPartition:
    if isinstance(partition, int) and not isinstance(partition, bool) and partition >= 0:
        return TopicPartition(topic, partition)
    found: PartitionId = parse_partition(str(partition))
    return TopicPartition(topic, found)
