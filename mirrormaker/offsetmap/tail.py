"""The tail of a target partition: its messages from an offset on, once nothing sent before can be stored any more.

the log end offset stays the same for a whole request time-out: no request is in flight
a log that ends before that, since another broker leads it, is read again
then its messages from the offset on, up to that end (which consumers may see a moment later)

Of transactions, as a mirror leaves them that copied exactly once before, it has what was committed: markers and
aborted messages are stepped over, and one that is open is waited for (the target aborts it after its time-out).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from struct import Struct
from zlib import crc32

from groundwork.tasks import Lock, in_turns, now, sleep
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.logreader import RETENTION, Gap, LogReader
from kafkawire.errors import LocalError
from kafkawire.model import TopicPartition

PURPOSE = "resume"
FRESH_S = 2.0  # metadata serves every partition for that long
POLL_S = 0.5
LENGTH = Struct(">i")
LONGEST_TAIL = 2_000_000  # messages: more than a map that was kept leaves


class _EndWasCut(Exception):
    """Raised if the log ends before the end to read to: another broker leads it, and never had the rest."""


class TailRefused(LocalError):
    """Raised if the tail cannot be what this mirror wrote; a sentence."""


@dataclass(frozen=True, slots=True)
class Tail:
    """begin, end: its first offset and the log's end.  digests: of each message (digest).

    empty: the log holds nothing at all.  skips: (index of a digest, offsets that transactions have used up before it).
    """

    begin: int
    end: int
    digests: tuple[int, ...]
    empty: bool
    skips: tuple[tuple[int, int], ...] = ()

    def offset(self, index: int) -> int:
        """Return the offset of a digest's message."""
        return self.begin + index + sum(count for at, count in self.skips if at <= index)


def digest(key: bytes | None, value: bytes | None) -> int:
    """Return what is compared of a message: key and value, and the length of each."""
    check = 0
    for part in (key, value):
        check = crc32(LENGTH.pack(-1 if part is None else len(part)), check)
        if part is not None:
            check = crc32(part, check)
    return check


class TailReader:
    """Reads tails, for one task at a time; others wait.  quiet_s: how long the log end has to stay the same."""

    def __init__(self, client: KafkaClient, quiet_s: float) -> None:
        self._client = client
        self._reader = LogReader(client, purpose=PURPOSE, patience_s=0, sleep=sleep, now=now)
        self._quiet_s = quiet_s
        self._lock = Lock()  # one request at a time: many partitions are read at once, each would open connections

    def read(self, tp: TopicPartition, begin: int | None, wanted: Callable[[], bool]) -> Tail | None:
        """Return the tail that begins at `begin`; None: at the end, to see if the log is empty.

        Returns None once wanted() is false.  Raises TailRefused, and WireError while no broker answers: try again.
        """
        while True:
            try:
                return self._read(tp, begin, wanted)
            except _EndWasCut:
                continue

    def _read(self, tp: TopicPartition, begin: int | None, wanted: Callable[[], bool]) -> Tail | None:
        end = self._quiet_end(tp, wanted)
        if end is None:
            return None
        start = self._asked(self._reader.begin, tp)
        if begin is None or begin == end:
            return Tail(end, end, (), start == end)
        if begin > end:
            raise TailRefused(f"its log ends at {end}, and the map says that it held {begin}: the target lost messages")
        if begin < start:
            raise TailRefused(f"its log begins at {start} (retention), behind {begin}, the last checkpoint of the map")
        digests: list[int] = []
        skips: list[tuple[int, int]] = []
        at = begin
        reading = self._reader.range(tp, begin)
        sets = iter(reading)
        while at < end:
            if not wanted():
                return None
            with self._lock:
                found = next(sets)
            if isinstance(found, Gap):
                if found.why == RETENTION:
                    raise found.error
                raise TailRefused(f"its log is damaged at {found.first}: {found.why}")
            kept_back = _lengths(found.scan.kept_back, at)
            for message in in_turns(found.messages.messages()):
                while at < message.offset and at in kept_back:
                    skips.append((len(digests), kept_back[at]))
                    at += kept_back[at]
                if message.offset >= end:
                    raise TailRefused(f"it grew beyond {end} while it was read: another program writes to it")
                if message.offset != at:
                    raise TailRefused(f"offset {at} is missing in its log: a compacted topic cannot be compared")
                digests.append(digest(message.key, message.value))
                at += 1
            if len(digests) > LONGEST_TAIL:
                raise TailRefused(
                    f"more than {LONGEST_TAIL} messages lie behind the last checkpoint of the map, {begin}"
                )
            while at in kept_back:
                skips.append((len(digests), kept_back[at]))
                at += kept_back[at]
            if at < reading.offset:
                raise TailRefused(f"offset {at} is missing in its log: a compacted topic cannot be compared")
            if found.moves:
                sleep(0)
                continue
            sleep(POLL_S)  # it is not replicated, or not committed yet
            if self._asked(self._reader.end, tp) < end:
                raise _EndWasCut
        return Tail(begin, max(at, end), tuple(digests), False, tuple(skips))

    def _quiet_end(self, tp: TopicPartition, wanted: Callable[[], bool]) -> int | None:
        end, since = self._asked(self._reader.end, tp), now()
        while now() - since < self._quiet_s:
            sleep(min(POLL_S, self._quiet_s / 4))
            if not wanted():
                return None
            found = self._asked(self._reader.end, tp)
            if found != end:
                end, since = found, now()
        return end

    def _asked(self, bound: Callable[[TopicPartition], int], tp: TopicPartition) -> int:
        self._client.view(max_age_s=FRESH_S)
        with self._lock:
            return bound(tp)


def _lengths(kept_back: Iterable[tuple[int, int]], position: int) -> dict[int, int]:
    """Return how many offsets from `offset` on, not before position, transactions have used up."""
    return {max(first, position): behind - max(first, position) for first, behind in kept_back if behind > position}
