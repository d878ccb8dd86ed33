"""Message sets: each format, message by message and by columns, by pure and compiled loops, which must agree."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from kafkawire.compression import CODEC_NAMES, GZIP, LZ4, NONE, SNAPPY, ZSTD, compress, opened
from kafkawire.errors import CorruptMessage, RemoteError, WireError
from kafkawire.formats import mixed
from kafkawire.formats.compiled import Kernels, load
from kafkawire.formats.v01 import messages as v01
from kafkawire.formats.v07 import messages as v07
from kafkawire.headers import packed
from kafkawire.kernels import cache_folder
from kafkawire.model import BrokerPartition, MessageSet, Part, PartitionId, TopicPartition
from tests.fuzz.engine import Target

ROWS = [
    (0, b"key", b"value" * 9, 5),
    (1, None, b"", 1_500_000_000_000),
    (2, b"", None, -1),
    (3, b"k" * 99, b"v" * 300, 7),
]
VALUES = [(n, None, b"value %d" % n * 5, None) for n in range(4)]
HEADERS = [packed((("h", b"\x00\xff"), ("é", None))), None, None, None]
MEMORY = 400 << 20  # a wrapper may open to 128 MiB (OPEN_LIMIT), and is then copied once
_KERNELS: list[Kernels] = []


def _load() -> None:
    if not _KERNELS:
        _KERNELS.append(load(cache_folder()))


def _seeds07() -> list[bytes]:
    sets = [v07.encode(VALUES, codec, magic) for codec, magic in ((NONE, -1), (NONE, -2), (GZIP, -1), (SNAPPY, -1))]
    return [*sets, b"".join(sets)]


def _seeds01(magic: int) -> Callable[[], list[bytes]]:
    def seeds() -> list[bytes]:
        rows = ROWS if magic else [(offset, key, value, None) for offset, key, value, _ in ROWS]
        sets = [v01.encode(rows, codec, magic) for codec in (NONE, GZIP, SNAPPY, LZ4)]
        return [*sets, b"".join(sets), v01.encode(rows[:1] * 3, NONE, magic)]

    return seeds


def _seeds2() -> list[bytes]:
    sets = [mixed.encode(ROWS, codec, 2, HEADERS) for codec in (NONE, GZIP, SNAPPY, LZ4, ZSTD)]
    sets.append(mixed.encode(ROWS[:1] * 40, NONE, 2))
    return [*sets, b"".join(sets)]


def _seeds_mixed() -> list[bytes]:
    return [_seeds2()[0] + _seeds01(0)()[1], _seeds01(1)()[0] + _seeds2()[2], *_seeds2()[:2], *_seeds01(1)()]


class Differs(Exception):
    """Two forms say different things of the same bytes."""


def _rows(pieces: Sequence[Any]) -> tuple[list[Any], str]:
    rows: list[Any] = []
    for piece in pieces:
        stamps = piece.timestamps_ms
        rows += zip(
            piece.offsets, piece.keys(), piece.values(), [-1] * len(piece) if stamps is None else stamps, strict=True
        )
    return rows, str(pieces[-1].damage)


def _stamp(stamp: int | None) -> int:
    """-1 in a set of several formats for messages of one that has none."""
    return -1 if stamp is None else stamp


def reader(formats: ModuleType, partition: PartitionId) -> Callable[[bytes], None]:
    """Read a set in every way; the first byte says from where, and whether checksums are checked (else nearly every
    mutation would end at the first)."""

    def read(data: bytes) -> None:
        first, data = data[0] if data else 0, data[1:]
        check, start = bool(first & 1), (0, 0, 1, 3, 1 << 62, 10)[first >> 1 & 3]
        aborted = ((7, 0), (-1, 1)) if first & 16 and formats is mixed else ()
        whole, scan = formats.message_set("t", partition, start, memoryview(data), None, aborted)
        by_form = [_rows(list(formats.pieces_by(form, whole, check, 300))) for form in (None, _KERNELS[0])]
        if by_form[0] != by_form[1]:
            raise Differs(f"columns: pure {str(by_form[0])[:300]} and compiled {str(by_form[1])[:300]}")
        if (said := _messages(whole, check)) != by_form[0]:
            raise Differs(f"messages {str(said)[:300]} and columns {str(by_form[0])[:300]}")
        _handle(formats, whole, data, scan)

    return read


def _messages(whole: MessageSet, check: bool) -> tuple[list[Any], str]:
    rows: list[Any] = []
    try:
        for message in whole.messages(check):
            rows.append((message.offset, message.key, message.value, _stamp(message.timestamp_ms)))
    except CorruptMessage as exc:
        return rows, str(exc)
    return rows, str(None)


def _handle(formats: ModuleType, whole: MessageSet, data: bytes, scan: Any) -> None:
    """What a fetcher, a mirror and a sender do with bytes of strangers."""
    formats.cut_short(data, scan, whole.start, 1 << 20)
    formats.entry_at(data, scan.end, whole.start)
    formats.behind(data, scan.end, whole.start)
    for run in whole.runs:
        entries = bytes(whole.buffer[run.begin : run.end])
        formats.check(entries)
        formats.count(entries)
        whole.stamped(run)
        if not run.atomic:
            list(whole.cut(run, 100))
            whole.before(run, run.resume_at - 1)
        elif run.record_batch:
            _tried(formats.may_pass, entries, 0, whole.start)
        if run.atomic and formats.check(entries) is None:
            _tried(
                formats.split, Part(TopicPartition("t", whole.partition), entries, run.magic, run.codec, run.entries)
            )


def _tried(call: Callable[..., object], *args: object) -> None:
    try:
        call(*args)
    except WireError:
        pass


def _of_codec(codec: int) -> Target:
    def seeds() -> list[bytes]:
        plain = [b"", b"a", b"value" * 40, bytes(range(256)) * 5, bytes(70_000)]
        return [compress(codec, data, 2) for data in plain]

    def call(data: bytes) -> None:
        limit = 1 << 20
        found = opened(codec, data, limit)
        assert len(found) <= limit, f"opened to {len(found)} bytes"

    return Target(f"codec-{CODEC_NAMES[codec]}", seeds, call, (RemoteError,), memory_bytes=16 << 20)


def _set(name: str, formats: ModuleType, seeds: Callable[[], list[bytes]], partition: PartitionId = 0) -> Target:
    def chosen() -> list[bytes]:
        return [struct.pack("B", first) + data for data in seeds() for first in (0, 1, 2, 16)]

    return Target(f"set-{name}", chosen, reader(formats, partition), (), cpu_s=4, memory_bytes=MEMORY, prepare=_load)


TARGETS = (
    _set("0.7", v07, _seeds07, BrokerPartition(0, 0)),
    _set("v0", v01, _seeds01(0)),
    _set("v1", v01, _seeds01(1)),
    _set("v2", mixed, _seeds2),
    _set("mixed", mixed, _seeds_mixed),
    *(_of_codec(codec) for codec in (GZIP, SNAPPY, LZ4, ZSTD)),
)
