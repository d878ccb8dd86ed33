"""Tasks of an audit: ranges are cut into pieces and packed into tasks, which send back sums, or hashes that are matched
elsewhere.  No pyarrow, no Spark.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkawire.columns import Columns
from kafkawire.dialects import Dialect, dialect
from kafkawire.errors import LibraryMissing
from kafkawire.fingerprints import HAS_NUMPY, Hashed, hashed
from kafkawire.model import BrokerPartition, MessageSet, TopicPartition
from sparkpipeline.audit.figures import Figures, add
from sparkpipeline.audit.messagematching import Pack
from sparkpipeline.audit.windows import Windows, untimed
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.errors import CodecMissing, CorruptData
from sparkpipeline.ranges import OffsetRange, in_steps, packed, partition_key
from sparkpipeline.reading.pieces import decoded
from sparkpipeline.reading.rangefetcher import read_sets
from sparkpipeline.reading.readoptions import ReadOptions

LEAST, MOST = 20_000, 5_000_000  # offsets of a piece
MESSAGE_BYTES = 256  # of the log, where its offsets are bytes: how many messages a range may have
TASKS_A_CORE = 3
PACK_ROWS = 1 << 18  # before a task sends on what it gathered
Read = Callable[[OffsetRange, ClusterAccess, ReadOptions], Iterable[MessageSet]]


@dataclass(frozen=True, slots=True)
class AuditPiece:
    """Range of one side, with the windows for its messages."""

    side: str
    range: OffsetRange
    windows: Windows

    @property
    def count(self) -> int:
        """Return about how many messages it has."""
        of_bytes = isinstance(self.range.partition, BrokerPartition)
        return self.range.count // MESSAGE_BYTES if of_bytes else self.range.count


# ---- which task reads what -------------------------------------------------------------------------------------------


def pieces(
    side: str, bounds: Mapping[TopicPartition, tuple[int, int]], windows: Windows, size: int
) -> list[AuditPiece]:
    """Return each partition's range, start <= offset < until, in pieces of at most `size` offsets."""
    return [
        AuditPiece(side, step, windows)
        for tp, (start, until) in bounds.items()
        for step in in_steps(OffsetRange(tp.topic, tp.partition, start, until), size)
    ]


def size_for(offsets: int, cores: int) -> int:
    """Return the maximum length of a piece, for this total number of offsets."""
    return max(LEAST, min(MOST, -(-offsets // (cores * TASKS_A_CORE))))


def dealt(every: Sequence[AuditPiece], cores: int) -> list[list[AuditPiece]]:
    """Return the pieces of each task; the longest remaining piece goes to the task with least."""
    tasks = max(1, min(len(every), cores * TASKS_A_CORE))
    return packed(every, tasks, size=lambda piece: piece.count)


# ---- in tasks --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reading:
    """Settings with which tasks read both sides; pickled with them."""

    access: Mapping[str, ClusterAccess]  # by side
    options: Mapping[str, ReadOptions]

    def count(
        self, pieces: Iterable[AuditPiece], read: Read = read_sets
    ) -> Iterator[tuple[AuditPiece, dict[int, Figures]]]:
        """Yield the sums of each piece by window."""
        for piece in pieces:
            sums: dict[int, Figures] = {}
            for found in self._hashed(piece, read):
                add(sums, found, piece.windows)
            yield piece, sums

    def hashes(
        self,
        pieces: Iterable[AuditPiece],
        shares: Mapping[tuple[str, int | str], tuple[int, int]],
        read: Read = read_sets,
    ) -> Iterator[tuple[int, Pack]]:
        """Yield the messages of each piece as hashes; equal messages are in the same share.

        shares: by (topic, partition): the first share of its scope, and their number.
        """
        for piece in pieces:
            topic, partition = piece.range.topic, partition_key(piece.range.partition)
            packer = _Packer(piece, partition, *shares[topic, partition])
            for found in self._hashed(piece, read):
                packer.add(found)
                if packer.rows >= PACK_ROWS:
                    yield from packer.packs()
            yield from packer.packs()

    def _hashed(self, piece: AuditPiece, read: Read) -> Iterator[Hashed]:
        rng, options = piece.range, self.options[piece.side]
        spoken = dialect(self.access[piece.side].release)
        sets = read(rng, self.access[piece.side], options)
        try:
            for message_set in sets:
                for columns in _columns(spoken, message_set, options):
                    found = hashed(columns, rng.start, rng.until, HAS_NUMPY)
                    _check_times(piece, found)
                    yield found
                    damage = columns.damage
                    if damage is not None and columns.resume_at < rng.until:
                        offset = columns.resume_at if damage.offset is None else damage.offset
                        raise CorruptData(damage.why, topic=rng.topic, partition=rng.partition, offset=offset)
        finally:
            if isinstance(sets, Generator):
                sets.close()


def _columns(spoken: Dialect, message_set: MessageSet, options: ReadOptions) -> Iterator[Columns]:
    try:
        yield from decoded(spoken, message_set, options.check_crcs, options.batch_bytes)
    except LibraryMissing as missing:
        where = {"topic": message_set.topic, "partition": message_set.partition, "offset": message_set.start}
        raise CodecMissing(str(missing), **where) from None


def _check_times(piece: AuditPiece, found: Hashed) -> None:
    """Raise NoTimestamp if a bound is a time and a message has no timestamp."""
    if not piece.windows.bounded or not len(found.offsets):
        return
    stamps = found.timestamps_ms
    bare = 0 if stamps is None else next((n for n, stamp in enumerate(listed(stamps)) if stamp < 0), None)
    if bare is not None:
        raise untimed(piece.range.topic, piece.range.partition, int(found.offsets[bare]))


class _Packer:
    """Messages of one piece, divided into shares by their hashes."""

    def __init__(self, piece: AuditPiece, partition: int | str, first: int, count: int) -> None:
        self.rows = 0
        self._piece, self._partition, self._first, self._count = piece, partition, first, count
        self._shares: dict[int, tuple[array[int], array[int], array[int]]] = {}

    def add(self, found: Hashed) -> None:
        windows, count, shares = self._piece.windows, self._count, self._shares
        stamps = [-1] * len(found.offsets) if found.timestamps_ms is None else listed(found.timestamps_ms)
        for hash_, offset, stamp in zip(listed(found.hashes), listed(found.offsets), stamps, strict=True):
            if windows.bounded and not windows.holds(stamp):
                continue
            share = hash_ % count
            if share not in shares:
                shares[share] = array("Q"), array("q"), array("q")
            hashes, offsets, of_windows = shares[share]
            hashes.append(hash_)
            offsets.append(offset)
            of_windows.append(windows.of(offset, stamp))
            self.rows += 1

    def packs(self) -> list[tuple[int, Pack]]:
        """Return the messages added since the last call, by share."""
        made = [
            (self._first + share, Pack(self._piece.side, self._partition, *(column.tobytes() for column in columns)))
            for share, columns in self._shares.items()
        ]
        self._shares, self.rows = {}, 0
        return made


def listed(column: Sequence[int] | Any) -> list[int]:
    """Return a column as Python numbers."""
    return column.tolist() if hasattr(column, "tolist") else list(column)
