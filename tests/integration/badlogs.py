"""Source topics with bad messages in them, made in the broker's log while it is down; and what a mirror made of them.

Partition 0 of each topic:   v0 .. v4   one plain message, bad or not   v6 .. v9   a gzip wrapper of v10 .. v14   v15
Values are short, so that each message is an entry that a test can find again.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Iterable

from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from localkafka.load import GZIP
from localkafka.node import Node
from mirrormaker import deadletter
from mirrormaker.deadletter import DeadLetter
from tests.integration.sparktopics import produce, stored

Edit = Callable[[bytearray], None]  # one entry, changed in place
ENTRY = struct.Struct(">qi")
CRC_AT, CRC_FROM, MAGIC_AT, VALUE_AT = 12, 16, 16, 26
WRAPPER = 14  # the offset of the wrapper: that of its last message
LARGE = random.Random(1).randbytes(40_000)  # gzip makes nothing of it


def filled_around(
    cluster: ClusterClient, topic: str, plain: bytes = b"v5", wrapped: bytes = b"v13", codec: int = GZIP
) -> None:
    """A new topic of two partitions.  plain: the value at offset 5; wrapped: that at offset 13."""
    cluster.create_topic(topic, 2)
    values = [plain if n == 5 else wrapped if n == 13 else b"v%d" % n for n in range(16)]
    rows = [(b"k%d" % n, value) for n, value in enumerate(values)]
    tp = TopicPartition(topic, 0)
    produce(cluster, tp, rows[:10])
    produce(cluster, tp, rows[10:15], codec)
    produce(cluster, tp, rows[15:])


def edited(node: Node, topic: str, offset: int, edit: Edit) -> None:
    """Change one entry in a log of a broker that was stopped cleanly."""
    [segment] = node.segments(topic, 0)
    data, at = bytearray(segment.read_bytes()), 0
    while True:
        found, size = ENTRY.unpack_from(data, at)
        end = at + ENTRY.size + size
        if found == offset:
            break
        at = end
    entry = data[at:end]
    edit(entry)
    assert len(entry) == end - at
    data[at:end] = entry
    segment.write_bytes(data)


def flipped(entry: bytearray) -> None:
    """A byte of its value is another: the checksum is wrong."""
    entry[-1] ^= 0xFF


def other_format(entry: bytearray) -> None:
    """A message format that does not exist; the checksum is right."""
    entry[MAGIC_AT] = 9
    _seal(entry)


def broken_gzip(entry: bytearray) -> None:
    """What is compressed does not open; the checksum is right."""
    entry[VALUE_AT + 12 : VALUE_AT + 20] = bytes(8)
    _seal(entry)


def _seal(entry: bytearray) -> None:
    struct.pack_into(">I", entry, CRC_AT, zlib.crc32(entry[CRC_FROM:]))


def values_of(cluster: ClusterClient, topic: str, partition: int = 0) -> list[bytes | None]:
    if cluster.registry().view(topic).leader(TopicPartition(topic, partition)) is None:
        return []  # it is not created yet
    return [value for _, _, value in stored(cluster, topic, partition)]


def but(*missing: int) -> list[bytes | None]:
    """The values of partition 0 without some offsets."""
    return [b"v%d" % n for n in range(16) if n not in missing]


def letters(cluster: ClusterClient, topic: str, of: Iterable[str]) -> list[DeadLetter]:
    """The dead letters of some source topics."""
    found = [deadletter.read(value or b"") for _, _, value in stored(cluster, topic, 0)]
    return [letter for letter in found if letter.topic in set(of)]
