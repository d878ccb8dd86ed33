"""Entry boundaries in a log whose offsets are bytes (0.7): the only places where a range may be cut.

Brokers do not report them.  They are found as follows:

    near    up to a few megabytes after a known boundary: entries are skipped from there
    far     bytes are fetched, and entries recognized by their checksum are followed one by one.  The first may be
            inside another (a payload with uncompressed entries).  But after the outer entry the chain is at a real
            boundary, and after as many bytes as the largest entry has, the outer entry has ended
    ends    of segments: no entry continues in the next one

A larger entry could hide a whole chain of others.  Then a range is cut inside it: the task that reads the range fails,
and none of its rows are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from kafkawire.columns import Columns
from kafkawire.errors import LibraryMissing
from kafkawire.model import MessageSet, Scan, TopicPartition
from kafkawire.protocol.request import FetchedPartition
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.errors import CodecMissing, CorruptData, DataLoss
from sparkpipeline.ranges import OffsetRange

MAX_ENTRY_BYTES = 1 << 20  # bytes of an entry: 0.7.2 brokers accept 1,000,000, unless max.message.size is set
NEAR_BYTES = 4 << 20
PROBE_BYTES = 64 << 10
MAX_FETCH_BYTES = 64 << 20  # of a fetch

Boundary = Callable[[TopicPartition, int, int, int], int]


class EntryBoundaries:
    """Callable that returns the first offset at or after `at` where an entry begins, or `until` if there is none before
    it. known (<= at) and until are boundaries.

    largest: bytes that no entry exceeds; a reader with larger fetches than usual expects larger entries.
    """

    @staticmethod
    def of(brokers: Brokers, fetch_bytes: int) -> EntryBoundaries:
        """Return it for a reader with fetches of that many bytes."""
        return EntryBoundaries(brokers, max(MAX_ENTRY_BYTES, fetch_bytes))

    def __init__(self, brokers: Brokers, largest: int = MAX_ENTRY_BYTES) -> None:
        self._brokers = brokers
        self._largest = largest

    def __call__(self, tp: TopicPartition, known: int, at: int, until: int) -> int:
        """Return the boundary.  Raises OffsetOutOfRange, DataLoss, CorruptData, CodecMissing, NoLeader, and the
        exceptions of requests to a leader."""
        if at >= until:
            return until
        if at - known <= max(NEAR_BYTES, self._largest):
            return min(self._walked(tp, known, at), until)
        return min(self._synced(tp, at, until), until)

    def begins(self, tp: TopicPartition, at: int) -> bool:
        """True if an entry begins there, judged by its checksum and the bytes after it.  Raises the exceptions of
        __call__."""
        size = PROBE_BYTES
        while True:
            buffer = self._fetched(tp, at, size).buffer
            found = self._brokers.dialect.messages.next_border(buffer)
            if found == 0 or found is not None or len(buffer) < size or size >= MAX_FETCH_BYTES:
                return found == 0
            size *= 4

    # ---- near ----------------------------------------------------------------------------------------------------

    def _walked(self, tp: TopicPartition, position: int, at: int) -> int:
        size = self._largest
        while position < at:
            found, scan = self._set(tp, position, self._fetched(tp, position, size).buffer)
            if not scan.runs:
                size = self._larger(tp, position, size, scan.needed)
                continue
            if found.resume_at >= at:
                return _first_at(found, position, at)
            position, size = found.resume_at, self._largest
        return position

    def _larger(self, tp: TopicPartition, position: int, size: int, needed: int) -> int:
        """Return the fetch size to use if not even one entry came."""
        if size >= MAX_FETCH_BYTES or needed <= size:
            raise CorruptData(
                "no entry begins here, or it is larger than any fetch: the place to cut the range is not known",
                topic=tp.topic, partition=tp.partition, offset=position,
            )  # fmt: skip
        return min(MAX_FETCH_BYTES, needed)

    # ---- far -----------------------------------------------------------------------------------------------------

    def _synced(self, tp: TopicPartition, at: int, until: int) -> int:
        size = 2 * self._largest
        while True:
            wanted = min(size, until - at)
            row = self._fetched(tp, at, wanted)
            found = self._chain_end(tp, at, row)
            if found is not None:
                return found
            if len(row.buffer) < wanted:
                return at + len(row.buffer)  # the end of a segment
            if wanted == until - at or size >= MAX_FETCH_BYTES:
                return until
            size *= 2

    def _chain_end(self, tp: TopicPartition, at: int, row: FetchedPartition) -> int | None:
        """Return the first border in these bytes that is certain."""
        since: int | None = 0
        while since is not None:
            begin = self._brokers.dialect.messages.next_border(row.buffer, since)
            if begin is None:
                return None
            found, _ = self._set(tp, at + begin, row.buffer[begin:])
            behind = at + begin + self._largest
            reached, broken = at + begin, False
            for columns in self._pieces(found):
                trusted = next((offset for offset in columns.offsets if offset >= behind), columns.resume_at)
                if trusted >= behind:
                    return trusted
                reached, broken = columns.resume_at, columns.damage is not None
            broken = broken or self._leads_nowhere(tp, reached, row.buffer[reached - at :])
            since = reached - at + 1 if broken else None
        return None

    def _leads_nowhere(self, tp: TopicPartition, position: int, tail: memoryview) -> bool:
        """True if the bytes after a chain are not an entry, not even the beginning of one."""
        _, scan = self._set(tp, position, tail)
        return scan.damage is not None or scan.needed > self._largest

    @staticmethod
    def _pieces(found: MessageSet) -> Iterator[Columns]:
        try:
            yield from found.pieces()
        except LibraryMissing as missing:
            where = {"topic": found.topic, "partition": found.partition, "offset": found.start}
            raise CodecMissing(f"{missing}; install it where the driver runs, too", **where) from None

    # ---- bytes ---------------------------------------------------------------------------------------------------

    def _fetched(self, tp: TopicPartition, position: int, size: int) -> FetchedPartition:
        row = self._brokers.fetch(tp, position, size)
        if not len(row.buffer):
            raise DataLoss("the log ends before the range to be cut", topic=tp.topic, partition=tp.partition,
                           requested=position)  # fmt: skip
        return row

    def _set(self, tp: TopicPartition, position: int, buffer: memoryview) -> tuple[MessageSet, Scan]:
        return self._brokers.dialect.messages.message_set(tp.topic, tp.partition, position, buffer, None)


def _first_at(found: MessageSet, position: int, at: int) -> int:
    """Return the first border of a set at or after `at`, which is not after the set's end."""
    for run in found.runs:
        if position >= at:
            return position
        if run.resume_at >= at:
            part = None if run.atomic else found.before(run, at)
            return run.resume_at if part is None else part.resume_at
        position = run.resume_at
    return position


def offsets_are_bytes(brokers: Brokers) -> bool:
    """True if offsets are bytes, so that not every number is a valid offset."""
    return brokers.dialect.offsets.entries_only


def ends_at_boundaries(
    begin: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    log_end: Mapping[TopicPartition, int],
    border: Boundary,
) -> dict[TopicPartition, int]:
    """Return the ends of ranges, moved forward to where an entry begins; ends equal to a log's end or a range's begin
    are unchanged."""
    return {
        tp: at if at in (begin[tp], log_end[tp]) else border(tp, begin[tp], at, log_end[tp]) for tp, at in end.items()
    }


def cut_at_boundaries(pieces: Iterable[OffsetRange], border: Boundary) -> list[OffsetRange]:
    """Return ranges in order, some cut from one range, with each cut moved forward to where an entry begins.  Empty
    ranges are left out."""
    found: list[OffsetRange] = []
    listed = list(pieces)
    ends: dict[TopicPartition, int] = {}
    for rng in listed:
        ends[rng.tp] = max(rng.until, ends.get(rng.tp, 0))
    begins = {(rng.tp, rng.start) for rng in listed}
    moved: dict[tuple[TopicPartition, int], int] = {}
    for rng in sorted(listed, key=lambda one: one.start):
        start = moved.get((rng.tp, rng.start), rng.start)
        cut = (rng.tp, rng.until)
        if cut in begins:
            moved[cut] = max(start, border(rng.tp, start, rng.until, ends[rng.tp]))
    for rng in listed:
        start = moved.get((rng.tp, rng.start), rng.start)
        until = moved.get((rng.tp, rng.until), rng.until)
        if start < until:
            found.append(replace(rng, start=start, until=until))
    return found
