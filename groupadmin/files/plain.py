"""Files of plain lines.

ExportZkOffsets     /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET     0.7's partition is BROKER-INDEX
                    a chroot may stand in front, and Kafka 1.1.0 wrote below /offset
one-node            PARTITION:OFFSET,PARTITION:OFFSET...        the data of /consumers/GROUP/offsets/TOPIC, as Spark
                    jobs keep it; TOPIC comes from the caller, or from a path before the data: PATH DATA
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from groupadmin.files.model import OffsetsFile, SavedRow
from groupadmin.files.reading import Reading, shown
from groupadmin.files.text import rows_of

_EXPORTED = re.compile(r"(?:/.*)?/consumers/([^/]+)/offsets?/([^/]+)/([^/:]+)\s*:\s*(\S+)\s*")  # greedy: the last colon
_ONE_NODE = re.compile(
    r"(?:(?:/.*)?/consumers/([^/]+)/offsets?/([^/\s]+)\s+)?\"?([0-9]+(?:-[0-9]+)?:-?[0-9]+(?:\s*,\s*[0-9-]+:-?[0-9]+)*)\"?\s*"
)
_ONE_NODE_HELP = "name the topic beside the file (--topic), since the node's data does not"


def is_export(line: str) -> bool:
    """Whether a line is a path of an offset node with its data."""
    return line.startswith("/") and ("/offsets/" in line or "/offset/" in line)


def read_export(lines: Sequence[str], reading: Reading) -> OffsetsFile:
    """The lines of ExportZkOffsets.  Empty lines are ignored (ImportZkOffsets would stop at the first one)."""
    for number, line in rows_of(lines, reading, is_export):
        found = _EXPORTED.fullmatch(line)
        if found is None:
            raise reading.unclear(
                number, f"{shown(line)} is no offset", "a line is /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET"
            )
        group, topic, partition, offset = found.groups()
        position = reading.position(offset, number)
        row = SavedRow(group, reading.name(topic, number, "topic"), reading.partition(partition, number), position)
        reading.add(row, number)
    return reading.file("zk-export")


def is_one_node(line: str) -> bool:
    return _ONE_NODE.fullmatch(line) is not None


def read_one_node(lines: Sequence[str], reading: Reading) -> OffsetsFile:
    """The data of one-node topics, one per line."""
    for number, line in rows_of(lines, reading, is_one_node):
        found = _ONE_NODE.fullmatch(line)
        if found is None:
            raise reading.unclear(number, f"{shown(line)} is no node's data", "it is PARTITION:OFFSET,PARTITION:OFFSET")
        group, topic, data = found[1], found[2] or reading.topic, found[3]
        if topic is None:
            raise reading.unclear(number, "the file names no topic", _ONE_NODE_HELP)
        for pair in data.split(","):
            partition, _, offset = pair.strip().rpartition(":")
            at = reading.partition(partition, number)
            reading.add(SavedRow(group, topic, at, reading.position(offset, number)), number)
    return reading.file("one-node")
