"""State of producers in one log: what makes a resent batch a duplicate, a gap an error, and a transaction open.

It is built from the batches themselves, so each replica has it (6).  Per producer id: epoch, the last batches (1 in
0.11, 5 later), the first offset of the open transaction, the coordinator's epoch of the last marker.
"""

from __future__ import annotations

from collections import deque

from tests.simulation.brokers.entries import Entry, Refused, opened
from tests.simulation.brokers.releases import Rules

OUT_OF_ORDER, FENCED, TRANSACTION_STATE, COORDINATOR_FENCED = 45, 47, 48, 52
_SEQUENCES = 1 << 31


class Producer:
    __slots__ = ("batches", "coordinator_epoch", "epoch", "open_at", "stamp")

    def __init__(self, epoch: int, remembered: int) -> None:
        self.epoch = epoch
        self.batches: deque[tuple[int, int, Entry]] = deque(maxlen=remembered)  # first and last sequence
        self.open_at: int | None = None  # first offset of its open transaction
        self.coordinator_epoch = -1
        self.stamp = -1  # of the last batch, ms


class Aborted:
    """An aborted transaction: its first offset and that of its marker."""

    __slots__ = ("first", "last", "pid")

    def __init__(self, pid: int, first: int, last: int) -> None:
        self.pid = pid
        self.first = first
        self.last = last


class Producers:
    """All producers of one log."""

    __slots__ = ("_ended", "_rules", "aborted", "by_id")

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self.by_id: dict[int, Producer] = {}
        self.aborted: list[Aborted] = []
        self._ended: list[tuple[int, int]] = []  # first offset and marker of transactions that end above the HW

    def duplicate(self, entry: Entry) -> Entry | None:
        """The remembered batch that this one is a copy of."""
        known = self.by_id.get(entry.pid)
        if known is None or known.epoch != entry.pepoch:
            return None
        last = _last(entry)
        for first_seq, last_seq, batch in known.batches:
            if first_seq == entry.seq and last_seq == last:
                return batch
        return None

    def check(self, entry: Entry) -> None:
        """Raises Refused for a client's batch whose epoch or sequence does not follow (PAI.checkSequence)."""
        rules = self._rules
        known = self.by_id.get(entry.pid)
        if known is None:
            if entry.seq != 0 and rules.unknown_producer:
                raise Refused(rules.unknown_producer)
            return
        if entry.pepoch < known.epoch:
            raise Refused(FENCED)
        if entry.pepoch > known.epoch:
            if entry.seq != 0:
                raise Refused(OUT_OF_ORDER)
        elif not known.batches:  # only a marker is left
            if entry.seq != 0:
                raise Refused(rules.after_marker)
        elif entry.seq != (known.batches[-1][1] + 1) % _SEQUENCES:
            raise Refused(OUT_OF_ORDER)
        if known.open_at is not None and not entry.transactional and entry.pepoch == known.epoch:
            raise Refused(TRANSACTION_STATE)

    def check_epoch(self, entry: Entry) -> None:
        """Raises Refused for offsets of a transaction whose epoch is over; a coordinator's sequences do not count."""
        known = self.by_id.get(entry.pid)
        if known is not None and entry.pepoch < known.epoch:
            raise Refused(FENCED)

    def check_marker(self, pid: int, epoch: int, coordinator_epoch: int) -> None:
        """Raises Refused for the marker of an older producer or coordinator (PAI.appendEndTxnMarker)."""
        known = self.by_id.get(pid)
        if known is not None and epoch < known.epoch:
            raise Refused(FENCED)
        if known is not None and coordinator_epoch < known.coordinator_epoch:
            raise Refused(COORDINATOR_FENCED)

    def appended(self, entry: Entry) -> None:
        known = self.by_id.get(entry.pid)
        if known is None:
            known = self.by_id[entry.pid] = Producer(entry.pepoch, self._rules.remembered)
        if entry.pepoch > known.epoch:
            known.epoch = entry.pepoch
            known.batches.clear()
        known.stamp = entry.timestamp
        if not entry.control:
            if entry.count:
                known.batches.append((entry.seq, _last(entry), entry))
            if entry.transactional and known.open_at is None:
                known.open_at = entry.base
            return
        ended = next(opened(entry.data), None)
        if ended is None or ended.key is None or ended.value is None:
            return
        known.coordinator_epoch = int.from_bytes(ended.value[2:6], "big", signed=True)
        if known.open_at is not None:
            if ended.key[3] == 0:
                self.aborted.append(Aborted(entry.pid, known.open_at, entry.last))
            self._ended.append((known.open_at, entry.last))
            known.open_at = None

    def first_unstable(self, hw: int) -> int | None:
        """First offset of the earliest transaction that is open, or whose marker is not below the high watermark."""
        if self._ended:
            self._ended = [one for one in self._ended if one[1] >= hw]
        found = [first for first, _ in self._ended]
        found += [one.open_at for one in self.by_id.values() if one.open_at is not None]
        return min(found, default=None)

    def first_open(self) -> int | None:
        return min((one.open_at for one in self.by_id.values() if one.open_at is not None), default=None)

    def started_at(self, start: int) -> None:
        """The log starts later: what lies before it goes (to 2.3 the producers of it too)."""
        self.aborted = [one for one in self.aborted if one.last >= start]
        if self._rules.producers_go_with_records:
            for pid in [pid for pid, one in self.by_id.items() if one.batches and one.batches[-1][2].last < start]:
                del self.by_id[pid]

    def expire(self, now_ms: int, kept_ms: int) -> None:
        """Expiry counts from the timestamp of the last batch, not from its arrival (6)."""
        until = now_ms - kept_ms
        for pid in [pid for pid, one in self.by_id.items() if one.open_at is None and one.stamp <= until]:
            del self.by_id[pid]

    def rebuilt(self, entries: list[Entry]) -> Producers:
        """The state as these entries give it."""
        fresh = Producers(self._rules)
        for entry in entries:
            if entry.pid >= 0:
                fresh.appended(entry)
        return fresh


def _last(entry: Entry) -> int:
    return (entry.seq + entry.last - entry.base) % _SEQUENCES
