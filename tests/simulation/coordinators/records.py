"""Records of __consumer_offsets and __transaction_state, as a release writes them: bytes to append, and bytes read.

    __consumer_offsets     wire-protocol.md 2.12, broker-model-coordinators.md 2.8 at its end
    __transaction_state    key: version 0, transactional id.  Value: version 0, producer id, epoch, timeout, status,
                           partitions (null while it has none), last update, start

Written apart from kafkawire.protocol.offsetrecords, which the product reads them with.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import crc32c

from tests.simulation.coordinators.rules import Rules

TopicPartition = tuple[str, int]
Pair = tuple[bytes, bytes | None]  # key and value of a record; None: a tombstone

TRANSACTIONAL, CONTROL = 0x10, 0x20
STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead")
_STATUS = {state: n for n, state in enumerate(STATES)}
_KEYS = 2  # the largest version of a key that a group coordinator of 2.8 and older knows


class Malformed(Exception):
    """A record that this release cannot read: its load fails."""


class CommittedRecord(NamedTuple):
    """expire_ms: None where the broker's retention decides; offset None: a tombstone."""

    group: str
    topic: str
    partition: int
    offset: int | None
    metadata: str
    leader_epoch: int
    commit_ms: int
    expire_ms: int | None


class MemberRecord(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_ms: int
    session_ms: int
    subscription: bytes
    assignment: bytes


class StoredGroup(NamedTuple):
    """protocol_type None: a tombstone.  since_ms: when it got into its state; -1: not known."""

    group: str
    protocol_type: str | None
    generation: int
    protocol: str | None
    leader: str | None
    since_ms: int
    members: tuple[MemberRecord, ...]


class TransactionRecord(NamedTuple):
    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: str
    partitions: tuple[TopicPartition, ...]
    updated_ms: int
    started_ms: int


class Batch(NamedTuple):
    """One batch, or one entry of v0 and v1, with its records.  committed: of a marker, how the transaction ended."""

    base: int
    producer_id: int
    epoch: int
    transactional: bool
    committed: bool | None
    records: list[tuple[int, bytes, bytes | None]]  # offset, key, value


# Writing ------------------------------------------------------------------------------------------------------------


def _text(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _blob(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def offset_key(rules: Rules, group: str, topic: str, partition: int) -> bytes:
    return struct.pack(">h", rules.offset_key_version) + _text(group) + _text(topic) + struct.pack(">i", partition)


def offset_value(
    rules: Rules, offset: int, metadata: str, leader_epoch: int, commit_ms: int, expire_ms: int | None
) -> bytes:
    version = rules.offset_value_version
    if version == 0:
        return struct.pack(">hq", 0, offset) + _text(metadata) + struct.pack(">q", commit_ms)
    if version == 1 or expire_ms is not None:  # 2.1 and later write v1 where a retention was asked for
        return struct.pack(">hq", 1, offset) + _text(metadata) + struct.pack(">qq", commit_ms, expire_ms or 0)
    return struct.pack(">hqi", 3, offset, leader_epoch) + _text(metadata) + struct.pack(">q", commit_ms)


def group_key(group: str) -> bytes:
    return b"\0\2" + _text(group)


def group_value(rules: Rules, stored: StoredGroup) -> bytes:
    version = rules.group_value_version
    out = [struct.pack(">h", version), _text(stored.protocol_type or ""), struct.pack(">i", stored.generation)]
    out += [_text(stored.protocol), _text(stored.leader)]
    if version >= 2:
        out.append(struct.pack(">q", stored.since_ms))
    out.append(struct.pack(">i", len(stored.members)))
    for member in stored.members:
        out.append(_text(member.member_id))
        if version >= 3:
            out.append(_text(member.instance_id))
        out += [_text(member.client_id), _text(member.client_host)]
        if version >= 1:
            out.append(struct.pack(">i", member.rebalance_ms))
        out += [struct.pack(">i", member.session_ms), _blob(member.subscription), _blob(member.assignment)]
    return b"".join(out)


def transaction_pair(record: TransactionRecord) -> Pair:
    value = struct.pack(">hqhib", 0, record.producer_id, record.epoch, record.timeout_ms, _STATUS[record.state])
    if record.state == "Empty":
        value += struct.pack(">i", -1)
    else:
        topics: dict[str, list[int]] = {}
        for topic, partition in record.partitions:
            topics.setdefault(topic, []).append(partition)
        value += struct.pack(">i", len(topics))
        for topic, numbers in topics.items():
            value += _text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    value += struct.pack(">qq", record.updated_ms, record.started_ms)
    return b"\0\0" + _text(record.transactional_id), value


def _varint(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def encode(magic: int, pairs: Iterable[Pair], now_ms: int, producer: tuple[int, int] | None = None) -> bytes:
    """A message set of these records; from the log's start: whoever appends it numbers it.

    producer: id and epoch of the transaction they are part of.
    """
    if magic < 2:
        return b"".join(_entry(magic, n, key, value, now_ms) for n, (key, value) in enumerate(pairs))
    records = []
    for n, (key, value) in enumerate(pairs):
        body = b"\0\0" + _varint(n) + _varint(len(key)) + key
        body += b"\1" if value is None else _varint(len(value)) + value
        records.append(_varint(len(body) + 1) + body + b"\0")
    count = len(records)
    attributes, pid, epoch, sequence = (TRANSACTIONAL, *producer, 0) if producer else (0, -1, -1, -1)
    checked = struct.pack(">hiqqqhii", attributes, count - 1, now_ms, now_ms, pid, epoch, sequence, count)
    checked += b"".join(records)
    return struct.pack(">qiibI", 0, 9 + len(checked), -1, 2, crc32c.crc32c(checked)) + checked


def _entry(magic: int, offset: int, key: bytes, value: bytes | None, now_ms: int) -> bytes:
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", now_ms) if magic else b"")
    body += _blob(key) + (b"\xff\xff\xff\xff" if value is None else _blob(value))
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


# Reading ------------------------------------------------------------------------------------------------------------


def batches(data: bytes, base: int | None = None) -> Iterator[Batch]:
    """The batches of stored bytes, their offsets as they stand in them.  base: the offset of the first, where the log
    keeps it beside the bytes."""
    at = 0
    while at + 17 <= len(data):
        first, size = struct.unpack_from(">qi", data, at)
        if base is not None and at == 0:
            first = base
        end = at + 12 + size
        yield _batch(data, at, first) if data[at + 16] == 2 else _plain(data, at, first)
        at = end


def producer_of(data: bytes) -> tuple[int, int, int]:
    """Attributes, producer id and epoch of a batch; of older formats: 0 and -1."""
    if len(data) < 61 or data[16] != 2:
        return 0, -1, -1
    attributes, _, _, _, producer_id, epoch = struct.unpack_from(">hiqqqh", data, 21)
    return attributes, producer_id, epoch


def _batch(data: bytes, at: int, base: int) -> Batch:
    attributes, _, _, _, pid, epoch, _, count = struct.unpack_from(">hiqqqhii", data, at + 21)
    records, pos = [], at + 61
    for _ in range(count):
        _, pos = _number(data, pos)
        _, pos = _number(data, pos + 1)
        delta, pos = _number(data, pos)
        size, pos = _number(data, pos)
        key, pos = data[pos : pos + max(size, 0)], pos + max(size, 0)
        size, pos = _number(data, pos)
        value, pos = (None, pos) if size < 0 else (data[pos : pos + size], pos + size)
        _, pos = _number(data, pos)
        records.append((base + delta, bytes(key), None if value is None else bytes(value)))
    committed = None
    if attributes & CONTROL:
        committed = struct.unpack_from(">hh", records[0][1])[1] == 1
    return Batch(base, pid, epoch, bool(attributes & TRANSACTIONAL), committed, records)


def _plain(data: bytes, at: int, offset: int) -> Batch:
    pos = at + (26 if data[at + 16] else 18)
    (size,) = struct.unpack_from(">i", data, pos)
    key = bytes(data[pos + 4 : pos + 4 + max(size, 0)])
    pos += 4 + max(size, 0)
    (size,) = struct.unpack_from(">i", data, pos)
    value = None if size < 0 else bytes(data[pos + 4 : pos + 4 + size])
    return Batch(offset, -1, -1, False, None, [(offset, key, value)])


def _number(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7


class _Fields:
    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, layout: str) -> int:
        (value,) = struct.unpack_from(">" + layout, self.data, self.at)
        self.at += struct.calcsize(">" + layout)
        return int(value)

    def text(self) -> str | None:
        size = self.take("h")
        if size < 0:
            return None
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def blob(self) -> bytes:
        size = self.take("i")
        self.at += size
        return self.data[self.at - size : self.at]


def group_record(rules: Rules, key: bytes, value: bytes | None) -> CommittedRecord | StoredGroup | None:
    """What a record of __consumer_offsets says.  None: a key that this release skips.  Raises Malformed."""
    fields = _Fields(key)
    version = fields.take("h")
    if version > _KEYS:
        if rules.unknown_key_fails_load:
            raise Malformed(f"a key of version {version}")
        return None
    group = fields.text() or ""
    if version == _KEYS:
        return _group(group, value)
    topic, partition = fields.text() or "", fields.take("i")
    if value is None:
        return CommittedRecord(group, topic, partition, None, "", -1, -1, None)
    fields = _Fields(value)
    version, offset = fields.take("h"), fields.take("q")
    epoch = fields.take("i") if version >= 3 else -1
    metadata, commit_ms = fields.text() or "", fields.take("q")
    expire_ms = fields.take("q") if version == 1 else None
    return CommittedRecord(group, topic, partition, offset, metadata, epoch, commit_ms, expire_ms)


def _group(group: str, value: bytes | None) -> StoredGroup:
    if value is None:
        return StoredGroup(group, None, -1, None, None, -1, ())
    fields = _Fields(value)
    version = fields.take("h")
    kind, generation, protocol, leader = fields.text(), fields.take("i"), fields.text(), fields.text()
    since_ms = fields.take("q") if version >= 2 else -1
    members = []
    for _ in range(fields.take("i")):
        member_id, instance = fields.text() or "", fields.text() if version >= 3 else None
        client, host = fields.text() or "", fields.text() or ""
        rebalance_ms = fields.take("i") if version >= 1 else -1
        session_ms = fields.take("i")
        rebalance_ms = session_ms if rebalance_ms < 0 else rebalance_ms
        row = MemberRecord(member_id, instance, client, host, rebalance_ms, session_ms, fields.blob(), fields.blob())
        members.append(row)
    return StoredGroup(group, kind or "", generation, protocol, leader, since_ms, tuple(members))


def transaction_record(key: bytes, value: bytes | None) -> tuple[str, TransactionRecord | None]:
    """The transactional id of a record of __transaction_state, and what it says of it (None: a tombstone)."""
    fields = _Fields(key)
    fields.take("h")
    name = fields.text() or ""
    if value is None:
        return name, None
    fields = _Fields(value)
    fields.take("h")
    pid, epoch, timeout_ms, status = fields.take("q"), fields.take("h"), fields.take("i"), fields.take("b")
    partitions = []
    for _ in range(fields.take("i")):
        topic = fields.text() or ""
        partitions += [(topic, fields.take("i")) for _ in range(fields.take("i"))]
    updated, started = fields.take("q"), fields.take("q")
    return name, TransactionRecord(name, pid, epoch, timeout_ms, STATES[status], tuple(partitions), updated, started)
