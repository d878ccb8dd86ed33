"""Log: one replica's entries on disk, with segments, high watermark, leader epochs and producer state.

end         log end offset; `hw` the high watermark, `hw_on_disk` as the last checkpoint has it
start       first offset that may be read; to 0.10 the base of the first segment
append      entries that have their offsets already
read        bytes for a fetch: within one segment, cut as the fetch's version wants it (3.3)
truncate    to an offset, with producers and epochs (2.4)
retain      by time and by size, whole segments (4)
clean       compaction: holes, batches without records, markers (4)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from tests.simulation.brokers import entries as formats
from tests.simulation.brokers.entries import Entry
from tests.simulation.brokers.producers import Producers
from tests.simulation.brokers.releases import Rules
from tests.simulation.brokers.settings import FOR_EVER, TopicConfig


class Segment:
    """base: first offset it may hold.  first_stamp: of its first entry; largest_stamp: -1 without any."""

    __slots__ = ("base", "created_ms", "file_ms", "first_stamp", "largest_stamp", "size")

    def __init__(self, base: int, now_ms: int) -> None:
        self.base = base
        self.created_ms = now_ms
        self.file_ms = now_ms
        self.first_stamp = -1
        self.largest_stamp = -1
        self.size = 0

    def add(self, entry: Entry, now_ms: int) -> None:
        if not self.size:
            self.first_stamp = entry.timestamp
        self.size += len(entry.data)
        self.largest_stamp = max(self.largest_stamp, entry.timestamp)
        self.file_ms = now_ms


class Log:
    __slots__ = (
        "_before", "_ends", "_lasts", "_rules", "config", "end", "entries", "epochs", "hw", "hw_on_disk", "producers",
        "segments", "start", "topic_id",
    )  # fmt: skip

    def __init__(self, rules: Rules, config: TopicConfig, now_ms: int) -> None:
        self._rules = rules
        self.config = config
        self.topic_id = 0
        self.entries: list[Entry] = []
        self._lasts: list[int] = []  # last offset of each entry
        self._ends: list[int] = []  # bytes of the log up to the end of each entry
        self._before = 0  # bytes that were removed from its beginning
        self.segments = [Segment(0, now_ms)]
        self.start = 0
        self.end = 0
        self.hw = 0
        self.hw_on_disk = 0
        self.epochs: list[tuple[int, int]] = []  # epoch and its first offset
        self.producers = Producers(rules)

    # ---- writing -----------------------------------------------------------------------------------------------------

    def append(self, entries: list[Entry], now_ms: int) -> None:
        for entry in entries:
            self._roll_for(entry, now_ms)
            self.segments[-1].add(entry, now_ms)
            self._put(entry)
            entry.stored_ms = now_ms
            if entry.magic == 2:
                if entry.epoch >= 0:
                    self.begin_epoch(entry.epoch, entry.base)
                if entry.pid >= 0:
                    self.producers.appended(entry)
        self.end = entries[-1].last + 1 if entries else self.end

    def _put(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._lasts.append(entry.last)
        self._ends.append((self._ends[-1] if self._ends else self._before) + len(entry.data))

    def _roll_for(self, entry: Entry, now_ms: int) -> None:
        """Begin a segment before this entry if it is due (LOG.maybeRoll, SEG.timeWaitedForRoll)."""
        active = self.segments[-1]
        if not active.size:
            return
        config = self.config
        if self._rules.ages_by_file or active.first_stamp < 0 or entry.timestamp < 0:
            age_ms = now_ms - active.created_ms
        else:
            age_ms = entry.timestamp - active.first_stamp
        if active.size + len(entry.data) > config.segment_bytes or age_ms > config.segment_ms:
            self.roll(now_ms)

    def roll(self, now_ms: int) -> None:
        if self.segments[-1].size or self.segments[-1].base != self.end:
            self.segments.append(Segment(self.end, now_ms))

    def begin_epoch(self, epoch: int, at: int) -> None:
        if not self.epochs or epoch > self.epochs[-1][0]:
            self.epochs.append((epoch, at))

    # ---- reading -----------------------------------------------------------------------------------------------------

    def index_of(self, offset: int) -> int:
        """Index of the first entry that holds this offset or a later one."""
        return bisect_left(self._lasts, offset)

    def bytes_from(self, offset: int, until: int) -> int:
        """Bytes of whole entries from the one that holds `offset` on, as far as they end below `until`."""
        first, behind = bisect_left(self._lasts, offset), bisect_left(self._lasts, until)
        if behind <= first:
            return 0
        return self._ends[behind - 1] - (self._ends[first - 1] if first else self._before)

    def same_segment(self, offset: int, other: int) -> bool:
        """Whether both offsets lie in one segment (DF.tryComplete)."""
        if len(self.segments) == 1:
            return True
        bases = [segment.base for segment in self.segments]
        return bisect_right(bases, offset) == bisect_right(bases, other)

    def between(self, offset: int, until: int) -> list[Entry]:
        """Entries of the first segment with any, from the one that holds `offset` on, that end below `until`."""
        first, behind = bisect_left(self._lasts, offset), bisect_left(self._lasts, until)
        if behind <= first:
            return []
        if len(self.segments) > 1:
            at = self.entries[first].base
            following = next((segment.base for segment in self.segments if segment.base > at), FOR_EVER)
            behind = min(behind, bisect_left(self._lasts, following))
        return self.entries[first:behind]

    def all_from(self, offset: int) -> Iterator[Entry]:
        return iter(self.entries[bisect_left(self._lasts, offset) :])

    def stable_end(self) -> int:
        """Last stable offset (3.4)."""
        unstable = self.producers.first_unstable(self.hw)
        return self.hw if unstable is None else min(unstable, self.hw)

    def aborted(self, offset: int, until: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of aborted transactions that overlap these offsets."""
        return [(one.pid, one.first) for one in self.producers.aborted if one.last >= offset and one.first < until]

    def starts_before(self, stamp_ms: int, most: int, now_ms: int) -> list[int]:
        """ListOffsets v0: starts of segments by file time, newest first (KA.fetchOffsetsBefore)."""
        rows = [(segment.base, segment.file_ms) for segment in self.segments]
        if self.segments[-1].size:
            rows.append((self.end, now_ms))
        if stamp_ms == -1:
            last = len(rows) - 1
        elif stamp_ms == -2:
            last = 0
        else:
            last = next((n for n in range(len(rows) - 1, -1, -1) if rows[n][1] <= stamp_ms), -1)
        return [base for base, _ in rows[: last + 1]][::-1][:most]

    def first_at_time(self, stamp_ms: int) -> tuple[int, int] | None:
        """Timestamp and offset of the first message that is not older."""
        for entry in self.entries:
            if entry.timestamp >= stamp_ms:
                for message in formats.opened(entry.data):
                    if message.timestamp >= stamp_ms and message.offset >= self.start:
                        return message.timestamp, message.offset
        return None

    # ---- leader epochs -----------------------------------------------------------------------------------------------

    @property
    def latest_epoch(self) -> int:
        return self.epochs[-1][0] if self.epochs else -1

    def end_of_epoch(self, epoch: int, named: bool) -> tuple[int, int]:
        """(epoch, end offset) as LeaderEpochFileCache answers; named: it tells the epoch (KIP-279)."""
        if epoch < 0 or not self.epochs:
            return -1, -1
        if epoch == self.epochs[-1][0]:
            return epoch, self.end
        later = [at for number, at in self.epochs if number > epoch]
        if not later:
            return -1, -1
        known = [number for number, _ in self.epochs if number <= epoch]
        if not known:
            return (epoch, later[0]) if named else (-1, -1)
        return known[-1], later[0]

    # ---- cutting -----------------------------------------------------------------------------------------------------

    def truncate(self, offset: int) -> None:
        """Remove all from this offset on.  The high watermark stays below the end."""
        if offset >= self.end:
            return
        offset = max(offset, self.start)
        kept = bisect_left(self._lasts, offset)
        had_producers = bool(self.producers.by_id)
        del self.entries[kept:], self._lasts[kept:], self._ends[kept:]
        while len(self.segments) > 1 and self.segments[-1].base > offset:
            self.segments.pop()
        self.end = offset
        self._sum_up(self.segments[-1])
        self.hw = min(self.hw, offset)
        self.hw_on_disk = min(self.hw_on_disk, offset)
        self.epochs = [one for one in self.epochs if one[1] < offset]
        if had_producers:
            self.producers = self.producers.rebuilt(self.entries)

    def restart_at(self, offset: int, now_ms: int) -> None:
        """Remove everything; go on at this offset (LOG.truncateFullyAndStartAt)."""
        self.entries.clear()
        self._lasts.clear()
        self._ends.clear()
        self._before = 0
        self.segments = [Segment(offset, now_ms)]
        self.start = self.end = self.hw = self.hw_on_disk = offset
        self.epochs = []
        self.producers = Producers(self._rules)

    def _sum_up(self, segment: Segment) -> None:
        following = next((one.base for one in self.segments if one.base > segment.base), FOR_EVER)
        held = [entry for entry in self.entries if segment.base <= entry.base < following]
        segment.size = sum(len(entry.data) for entry in held)
        segment.first_stamp = held[0].timestamp if held else -1
        segment.largest_stamp = max((entry.timestamp for entry in held), default=-1)

    # ---- retention ---------------------------------------------------------------------------------------------------

    def retain(self, now_ms: int) -> bool:
        """Remove segments that are too old or too many; True if the log starts later now (4)."""
        config, before = self.config, self.start
        if not config.deletes:
            return False
        if config.retention_ms < FOR_EVER:
            by_file = self._rules.ages_by_file
            gone = 0
            for segment in self.segments:
                stamp = segment.file_ms if by_file or segment.largest_stamp < 0 else segment.largest_stamp
                if now_ms - stamp <= config.retention_ms or not self._deletable(gone):
                    break
                gone += 1
            self._drop(gone, now_ms)
        if config.retention_bytes < FOR_EVER:
            over = sum(segment.size for segment in self.segments) - config.retention_bytes
            gone = 0
            for segment in self.segments:
                if over - segment.size < 0 or not self._deletable(gone):
                    break
                over -= segment.size
                gone += 1
            self._drop(gone, now_ms)
        if self.exact_start:  # segments wholly below a start that DeleteRecords moved
            gone = sum(1 for following in self.segments[1:] if following.base <= self.start)
            self._drop(gone, now_ms)
        return self.start != before

    @property
    def exact_start(self) -> bool:
        return self._rules.exact_log_start

    def _deletable(self, index: int) -> bool:
        """0.11 and later: only what lies wholly below the high watermark; an empty active segment never goes."""
        last = index == len(self.segments) - 1
        behind = self.end if last else self.segments[index + 1].base
        if last and not self.segments[index].size:
            return False
        return not self._rules.keeps_above_hw or self.hw >= behind

    def drop_before(self, base: int, now_ms: int) -> None:
        """Remove the segments that lie before one that begins there, as retention does."""
        self._drop(sum(one.base < base for one in self.segments), now_ms)

    def _drop(self, count: int, now_ms: int) -> None:
        if not count:
            return
        if count == len(self.segments):
            self.roll(now_ms)
        del self.segments[:count]
        self._forget_below(self.segments[0].base)
        self.start_at(max(self.start, self.segments[0].base))

    def _forget_below(self, base: int) -> None:
        gone = bisect_left(self._lasts, base)
        if gone:
            self._before = self._ends[gone - 1]
            del self.entries[:gone], self._lasts[:gone], self._ends[:gone]

    def start_at(self, offset: int) -> None:
        """The log starts at this offset; segments that are not needed go with the next check."""
        if offset > self.start:
            self.start = offset
            self.hw = max(self.hw, offset)
            self.producers.started_at(offset)
            later = [one for one in self.epochs if one[1] > offset]
            at = [number for number, first in self.epochs if first <= offset]
            self.epochs = ([(at[-1], offset)] if at else []) + later

    # ---- compaction --------------------------------------------------------------------------------------------------

    def clean(self, now_ms: int) -> None:
        """Compact what may be: not the active segment, nothing from the first open transaction on (4)."""
        config = self.config
        until = min(self.segments[-1].base, self.hw if self._rules.keeps_above_hw else FOR_EVER)
        unstable = self.producers.first_open()
        if unstable is not None:
            until = min(until, unstable)
        if config.compaction_lag_ms:
            young = next((s.base for s in self.segments if now_ms - s.largest_stamp < config.compaction_lag_ms), until)
            until = min(until, young)
        cleanable = bisect_left(self._lasts, until)
        if not cleanable:
            return
        newest: dict[bytes | None, int] = {}
        for entry in self.entries[:cleanable]:
            if not entry.control:
                for offset, key, _ in formats.keyed(entry.data):
                    newest[key] = offset
        last_of = {entry.pid: entry for entry in self.entries if entry.pid >= 0}
        kept: list[Entry] = []
        for entry in self.entries[:cleanable]:
            one = self._cleaned(entry, newest, now_ms, last_of)
            if one is not None:
                kept.append(one)
        rest = self.entries[cleanable:]
        self.entries, self._lasts, self._ends = [], [], []
        for entry in kept + rest:
            self._put(entry)
        for segment in self.segments:
            self._sum_up(segment)

    def _cleaned(
        self, entry: Entry, newest: dict[bytes | None, int], now_ms: int, last_of: dict[int, Entry]
    ) -> Entry | None:
        over = now_ms - entry.stored_ms > self.config.delete_retention_ms  # tombstones and markers have had their time
        if entry.control:
            first = min((one.first for one in self.producers.aborted if one.last == entry.last), default=None)
            left = first is not None and any(
                one.pid == entry.pid and not one.control for one in self.entries[self.index_of(first) :]
            )
            return entry if left or not over or last_of.get(entry.pid) is entry else None
        messages = list(formats.opened(entry.data))
        kept = [
            one
            for one in messages
            if one.key is not None and newest.get(one.key) == one.offset and not (one.value is None and over)
        ]
        if len(kept) == len(messages):
            return entry
        if entry.magic == 2:
            if not kept and last_of.get(entry.pid) is not entry:
                return None
            return self._as(entry, formats.batch_of(
                kept, entry.base, entry.epoch, entry.attributes & formats.CODEC,
                attributes=entry.attributes & ~formats.CODEC, pid=entry.pid, pepoch=entry.pepoch, seq=entry.seq,
                last=entry.last, offsets=[one.offset for one in kept],
            ))  # fmt: skip
        return self._as(entry, formats.wrapper_of(kept, entry)) if kept else None

    @staticmethod
    def _as(entry: Entry, made: Entry) -> Entry:
        made.stored_ms = entry.stored_ms
        return made
