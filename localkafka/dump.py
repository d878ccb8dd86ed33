r"""Parser of what DumpLogSegments --print-data-log prints (0.8 to 0.10).

    offset: 7 position: 0 isvalid: true payloadsize: 5 magic: 0 compresscodec: NoCompressionCodec crc: 99 keysize: 1 \
        key: k payload: hello

Sizes count bytes, so keys and payloads may hold any UTF-8, also line ends.  From 0.9 on the key of a message without
payload is not printed, only its size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from localkafka.errors import LocalKafkaError

HEAD = re.compile(
    rb"offset: (?P<offset>\d+) position: (?P<position>\d+)(?: \w+Time: (?P<time>-?\d+))? isvalid: (?P<valid>\w+)"
    rb" payloadsize: (?P<payload>-?\d+) magic: (?P<magic>\d+) compresscodec: (?P<codec>\w+) crc: (?P<crc>\d+)"
    rb"(?: keysize: (?P<key>-?\d+))?"
)
FILE = b"Dumping "
KEY, PAYLOAD = b" key: ", b" payload: "


@dataclass(frozen=True, slots=True)
class Dumped:
    """A message as the JVM read it.  position: byte in the segment file; codec: the JVM's name for it.  A key is None
    when it is null (then key_size is −1) or was not printed.  timestamp_ms: None where the format has none."""

    file: str  # the segment that holds it
    offset: int
    position: int
    valid: bool  # its CRC is right
    crc: int
    magic: int
    codec: str
    key: str | None
    payload: str | None
    key_size: int = -1
    timestamp_ms: int | None = None


def parse(printed: IO[bytes]) -> Iterator[Dumped]:
    """The messages of a dump.  Raises LocalKafkaError where a key or payload does not have its printed size."""
    lines = iter(printed.readline, b"")
    file = ""
    for line in lines:
        head = HEAD.match(line)
        if head is None:  # "Dumping FILE", "Starting offset: N"
            if line.startswith(FILE):
                file = line[len(FILE) :].decode().rstrip()
            continue
        sizes = [int(head[name]) if head[name] is not None else -1 for name in ("key", "payload")]
        if sizes[1] < 0 and not line.startswith(KEY, head.end()):
            yield _dumped(file, head, line, key_size=-1, payload_size=-1)
            continue
        rest = sum(len(label) + size for label, size in zip((KEY, PAYLOAD), sizes, strict=True) if size >= 0)
        while len(line) < head.end() + rest + 1:
            more = next(lines, None)
            if more is None:
                break
            line += more
        yield _dumped(file, head, line, key_size=sizes[0], payload_size=sizes[1])


def _dumped(file: str, head: re.Match[bytes], line: bytes, *, key_size: int, payload_size: int) -> Dumped:
    at = head.end()
    key, at = _text(line, at, KEY, key_size)
    payload, at = _text(line, at, PAYLOAD, payload_size)
    return Dumped(
        file=file,
        offset=int(head["offset"]),
        position=int(head["position"]),
        valid=head["valid"] == b"true",
        crc=int(head["crc"]),
        magic=int(head["magic"]),
        codec=head["codec"].decode(),
        key=key,
        payload=payload,
        key_size=int(head["key"]) if head["key"] is not None else -1,
        timestamp_ms=int(head["time"]) if head["time"] is not None else None,
    )


def _text(line: bytes, at: int, label: bytes, size: int) -> tuple[str | None, int]:
    if size < 0:
        return None, at
    end = at + len(label) + size
    if not line.startswith(label, at) or end >= len(line):
        raise LocalKafkaError(
            f"DumpLogSegments printed no{label.decode()}of {size} bytes (is it text?): {line[:200]!r}"
        )
    return line[at + len(label) : end].decode(errors="replace"), end
