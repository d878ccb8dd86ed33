"""Rows of fetch requests and replies that repeat, handled as bytes.

Most partitions of a large cluster have no new messages most of the time: requests and responses for them repeat.

    FetchRows    rows of partitions for Fetch requests, encoded once
    QuietRows    rows of a Fetch reply for topics without messages: repeated ones are skipped
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from kafkawire.errors import LocalError
from kafkawire.model import TopicPartition
from kafkawire.primitives import utf8

_COUNT = struct.Struct(">i")
_NAME = struct.Struct(">h")
PARTITION_BYTES = 4
UNFINISHED = -1  # more bytes have to arrive
NO_EPOCH = NO_START = -1  # for a consumer: its leader's epoch is not checked, and it has no log


@dataclass(frozen=True, slots=True)
class FetchRows:
    """Encoded partitions of a Fetch request in one version: topics, and for each its name and one row per partition."""

    version: int
    topics: int
    data: bytes
    total_bytes: int  # bytes requested
    partitions: int


def encode_rows(version: int, wanted: Sequence[tuple[TopicPartition, int, int]]) -> FetchRows:
    """Encode (partition, position, max_bytes) each.  Raises LocalError for a repeated partition, or one of 0.7."""
    topics: dict[str, list[int]] = {}
    total = 0
    for (topic, partition), position, size in wanted:
        row = topics.get(topic)
        if row is None:
            row = topics[topic] = []
        row += (partition, position, size)  # type: ignore[arg-type]  # a partition of 0.7 is refused below
        total += size
    pieces: list[bytes] = []
    for topic, flat in topics.items():
        partitions = flat[::3]
        _check(topic, partitions)
        count = len(partitions)
        name = utf8(topic)
        if len(name) > 0x7FFF:
            raise LocalError(f"topic name of {len(name)} bytes is longer than 32767")
        pieces += (_NAME.pack(len(name)), name, _COUNT.pack(count), _rows(version, count, flat))
    return FetchRows(version, len(topics), b"".join(pieces), total, len(wanted))


def joined(rows: Collection[FetchRows]) -> FetchRows:
    """Join rows of different topics, at least one, for one request."""
    return FetchRows(
        next(iter(rows)).version,
        sum(each.topics for each in rows),
        b"".join(each.data for each in rows),
        sum(each.total_bytes for each in rows),
        sum(each.partitions for each in rows),
    )


def _rows(version: int, count: int, flat: list[int]) -> bytes:
    """Encode rows: partition:int32 [leader_epoch:int32 from v9] position:int64 [log_start:int64 from v5]
    max_bytes:int32"""
    try:
        if version < 5:
            return struct.pack(">" + "iqi" * count, *flat)
        if version < 9:
            longer = [NO_START] * (4 * count)
            longer[0::4], longer[1::4], longer[3::4] = flat[0::3], flat[1::3], flat[2::3]
            return struct.pack(">" + "iqqi" * count, *longer)
        longer = [NO_EPOCH] * (5 * count)
        longer[0::5], longer[2::5], longer[4::5] = flat[0::3], flat[1::3], flat[2::3]
        return struct.pack(">" + "iiqqi" * count, *longer)
    except struct.error as exc:
        raise LocalError(f"a fetch of {flat} cannot be encoded: {exc}") from exc


def _check(topic: str, partitions: Iterable[object]) -> None:
    seen: set[object] = set()
    for partition in partitions:
        if not isinstance(partition, int):
            raise LocalError(f"{topic}/{partition} is a partition of 0.7: Kafka 0.8 and later number theirs")
        if partition in seen:
            raise LocalError(f"{topic}/{partition} twice in one request: the broker would silently drop the first")
        seen.add(partition)


class QuietRows:
    """Rows of topics without messages and errors, from the last Fetch replies of one connection.

    A parser with this object skips a topic whose rows repeat: its partitions are not in the result, and its name is in
    `passed`.  The caller has stored what they say.  A topic may occur in a reply several times, with different
    partitions.
    """

    def __init__(self) -> None:
        self.passed: set[str] = set()  # topics of the newest reply
        self._rows: dict[bytes, bytes] = {}  # by name, count and first partition
        self._partitions: dict[str, dict[bytes, frozenset[int]]] = {}  # partitions in each row block of a topic

    def begin(self) -> None:
        """Begin a reply."""
        self.passed.clear()

    def clear(self) -> None:
        """Forget all rows, because the connection is a new one."""
        self.passed.clear()
        self._rows.clear()
        self._partitions.clear()

    def match(self, data: memoryview, at: int) -> int:
        """Return the size of the topic at `at` if its bytes repeat; 0 if they do not; UNFINISHED if the available ones
        do."""
        end = len(data)
        if not self._rows:
            return 0
        if at + _NAME.size > end:
            return UNFINISHED
        (length,) = _NAME.unpack_from(data, at)
        named = at + _NAME.size + length + _COUNT.size + PARTITION_BYTES
        if length < 0:
            return 0
        if named > end:
            return UNFINISHED
        rows = self._rows.get(bytes(data[at:named]))
        if rows is None or not rows.startswith(there := data[at : at + len(rows)].tobytes()):
            return 0
        if len(there) < len(rows):
            return UNFINISHED
        self.passed.add(str(data[at + _NAME.size : at + _NAME.size + length], "utf-8"))
        return len(rows)

    def learn(self, topic: str, pieces: Sequence[bytes], partitions: Collection[int], quiet: bool) -> None:
        """Store a topic's rows, in pieces beginning with their count. quiet: they have no message and no error."""
        name = utf8(topic)
        head = _NAME.pack(len(name)) + name
        rows = b"".join(pieces)
        key = head + rows[: _COUNT.size + PARTITION_BYTES]
        known = self._partitions.setdefault(topic, {})
        for other in [one for one, held in known.items() if one != key and not held.isdisjoint(partitions)]:
            del known[other], self._rows[other]  # outdated for these partitions by the rows just read
        if quiet:
            self._rows[key], known[key] = head + rows, frozenset(partitions)
        elif key in known:
            del known[key], self._rows[key]

    def __len__(self) -> int:
        return len(self._rows)
