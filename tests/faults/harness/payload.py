"""Payload of a message of the harness: it says where it belongs and when it was sent, and carries its own checksum.

    run topic partition sequence milliseconds ......................................1a2b3c4d

Text, so that the JVM's DumpLogSegments prints it whole.  The CRC32 at the end is of everything before it.  A message
with a null value carries this text in its key.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from kafkawire.model import TopicPartition

CRC = 8  # hexadecimal digits at the end


@dataclass(frozen=True, slots=True, order=True)
class MessageId:
    """Which message of which source partition; sequences of a partition count from 0 in the order of sending."""

    topic: str
    partition: int
    sequence: int

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class Payload:
    """What a payload says.  intact: its checksum is right."""

    run: str
    id: MessageId
    sent_ms: int
    intact: bool


def written(run: str, of: MessageId, sent_ms: int, size: int) -> bytes:
    """The payload of a message, padded to size bytes; longer where it says more than that."""
    head = f"{run} {of.topic} {of.partition} {of.sequence} {sent_ms} ".encode().ljust(size - CRC, b".")
    return head + b"%08x" % zlib.crc32(head)


def read(data: bytes | None) -> Payload | None:
    """What a payload says; None where it is none of the harness, however damaged."""
    parts = (data or b"").split(b" ", 5)
    try:
        run, topic, partition, sequence, sent_ms, _ = (part.decode() for part in parts)
        of = MessageId(topic, int(partition), int(sequence))
        assert data is not None
        return Payload(run, of, int(sent_ms), intact=data[-CRC:] == b"%08x" % zlib.crc32(data[:-CRC]))
    except ValueError:  # also of decode()
        return None


def of_message(key: bytes | None, value: bytes | None) -> Payload | None:
    """The payload of a message: its value, or its key where the value is null."""
    return read(key if value is None else value)
