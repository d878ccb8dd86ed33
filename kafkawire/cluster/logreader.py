"""Blocking reader of a range of a partition's log, for offset maps, comparisons, __consumer_offsets and commands.

    reader = LogReader(client, purpose="verify", patience_s=30.0)
    reading = reader.range(tp, reader.begin(tp), reader.end(tp))
    for found in reading:
        if isinstance(found, Gap):
            ...                      # offsets that cannot be read, and why
        else:
            ... found.messages ...   # a set; reading.offset is behind it

| response | what the reader does |
|---|---|
| messages, or offsets that transactions use up | yields it and goes on behind it |
| nothing, and the log ends | yields it, so that the caller can stop; asks again (1) |
| a response that leaves the partition out | yields it, so that the caller can stop; asks again (1) |
| nothing, though the log goes on | doubles the fetch, up to max_fetch_bytes; then yields it and asks again (1) |
| part of an entry that is larger than the fetch | grows the fetch, up to max_fetch_bytes; then raises MessageTooLarge |
| a damaged entry | yields a Gap: one offset, or the rest of the range where offsets are bytes (0.7) |
| out of range (1), and the log begins behind the position | yields a Gap up to the beginning of the log |
| out of range (1) otherwise | looks the leader up and asks again, for patience_s |
| another broker leads; no leader; a lost link | looks the leader up and asks again, for patience_s |
| the leader cannot tell now | asks again, for patience_s |
| any other code | raises it |

(1) For patience_s if the range has an end, else until the caller stops.  Meanwhile the leader is looked up every
LOOK_S: a broker that was deposed and does not know it answers with nothing.

Damage inside an entry shows when the entry is decoded.  The caller may then set reading.offset behind it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.leaders import NoLeader
from kafkawire.cluster.listoffsets import DEBUGGING, EARLIEST, LATEST
from kafkawire.cluster.metadata import Unreachable
from kafkawire.cluster.retry import ONCE, Backoff, RetryPolicy
from kafkawire.errors import NOT_ANSWERED, BrokerError, Follows, LinkLost, LocalError, WireError
from kafkawire.fetched import Came, Damaged, Fetched, MessageTooLarge, judged
from kafkawire.model import Broker, TopicPartition
from kafkawire.protocol.request import CONSUMER

RETENTION = "deleted by retention while it was read"
INSIDE = "a position inside a message looks like this too"
AGAIN = Backoff(0.2, 2.0)
LOOK_S = 2.0  # between two look-ups of a leader that sends nothing
SHORT_S = 2.0  # patience, once it was in vain: the next partition is mostly led by the same broker


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets first <= offset < until that could not be read, and why."""

    first: int
    until: int
    why: str
    error: WireError


class NothingRead(Unreachable):
    """Nothing was read of a partition for patience_s.  why: what went wrong last; None if the broker sent nothing."""

    def __init__(self, tp: TopicPartition, waited_s: float, why: WireError | None) -> None:
        reason = f": {why}" if why is not None else "; its end is not replicated, or not flushed"
        super().__init__(f"nothing was read of {tp} for {waited_s:g} s{reason}")
        self.why = why


def refused(code: int, broker: Broker, tp: TopicPartition, position: int) -> BrokerError:
    """Return the error for a broker's code, without advice."""
    return BrokerError(code, f"{tp} at {position} on {broker}")


class LogReader:
    """Reader of the logs of one cluster, one range after the other.

    purpose      names the links that fetches use
    fetch_bytes  size of the first fetch; fetches grow up to max_fetch_bytes and shrink again
    wait_ms      how long a broker may wait for messages
    patience_s   how long nothing may be read before NothingRead is raised; 0: errors are raised at once
    refusal      makes the error for a broker's code; zkconsumer.refusals.refusal adds what helps
    retrying     called with each error before the fetch is tried again
    """

    def __init__(
        self,
        client: KafkaClient,
        *,
        purpose: str,
        fetch_bytes: int = 1 << 20,
        max_fetch_bytes: int = 64 << 20,
        wait_ms: int = 100,
        patience_s: float = 30.0,
        refusal: Callable[[int, Broker, TopicPartition, int], BrokerError] = refused,
        retrying: Callable[[WireError], object] = lambda why: None,
        sleep: Callable[[float], object] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = client
        self.purpose = purpose
        self.fetch_bytes = fetch_bytes
        self.max_fetch_bytes = max_fetch_bytes
        self.wait_ms = wait_ms
        self.patience_s = patience_s
        self.refusal = refusal
        self.retrying = retrying
        self.sleep = sleep
        self.now = now

    def range(self, tp: TopicPartition, start: int, until: int | None = None) -> LogRange:
        """Return the range start <= offset < until of a log; None: it has no end, and silence is not a failure.

        The last set may hold messages behind until.
        """
        return LogRange(self, tp, start, until)

    def begin(self, tp: TopicPartition) -> int:
        """Return the first offset of a log.  Raises WireError after patience_s, or if no other try may help."""
        return self._bound(tp, EARLIEST, CONSUMER)

    def end(self, tp: TopicPartition) -> int:
        """Return the end of the leader's own log, replicated or not.  Raises WireError like begin()."""
        return self._bound(tp, LATEST, DEBUGGING)

    def shown_end(self, tp: TopicPartition) -> int:
        """Return the end of a log for consumers: messages behind it are not replicated, or in an open transaction."""
        return self._bound(tp, LATEST, CONSUMER)

    def _bound(self, tp: TopicPartition, time: int, replica_id: int) -> int:
        policy = RetryPolicy(retries=None, backoff=AGAIN, timeout_s=self.patience_s)
        for attempt in policy.attempts(self.sleep, self.now):
            refresh = attempt.number > 1
            said = self.client.list_offsets(
                {tp: time}, refresh=refresh, retry=ONCE, replica_id=replica_id, committed=replica_id == CONSUMER
            )[tp]
            if attempt.last or not said.retriable:
                break
            if said.error is not None:
                self.retrying(said.error)
        return said.known()


class LogRange:
    """Range of a log while it is read.  Iterate over it once.

    offset  the next offset to read; the caller may change it
    until   the end of the range; the caller may change it
    """

    def __init__(self, reader: LogReader, tp: TopicPartition, start: int, until: int | None) -> None:
        self.tp = tp
        self.offset = start
        self.until = until
        self._reader = reader
        self._size = reader.fetch_bytes
        self._moved_at = reader.now()
        self._failures = 0  # one after the other
        self._moved = False  # the leader is looked up before the next request

    def __iter__(self) -> Iterator[Fetched | Gap]:
        """Yield what is read.  Raises NothingRead, MessageTooLarge, and errors of the broker that do not pass."""
        while self.until is None or self.offset < self.until:
            found = self._next()
            if found is None:
                continue
            if isinstance(found, Gap):
                self.offset = found.until
            elif found.moves:
                self.offset = found.messages.resume_at
                # As much as the last set needed: large messages are not fetched twice each.
                self._size = max(self._reader.fetch_bytes, min(self._size, 2 * len(found.messages.buffer)))
            yield found
            if isinstance(found, Gap) or found.moves:
                self._moved_at, self._failures = self._reader.now(), 0  # the caller's own time does not count
            else:
                self._nothing(found)

    def _next(self) -> Fetched | Gap | None:
        """Fetch once; returns None if another try is due."""
        try:
            leader = self._leader()
            found = self._fetched(leader)
        except (LinkLost, NoLeader, Unreachable) as lost:
            self._again(lost)
            return None
        except BrokerError as error:
            return self._refused(error)
        if found.came is Came.DAMAGED:
            return self._damaged(leader, found)
        most = self._reader.max_fetch_bytes
        if found.came is Came.CUT:
            if self._size >= most:
                inside = self._reader.client.dialect.offsets.hint(INSIDE)
                raise MessageTooLarge(self.tp, self.offset, leader, self._size, found.scan.needed, inside)
            self._size = min(most, max(found.scan.needed, 2 * self._size))
            return None
        if found.came is Came.HIDDEN and self._size < most:
            self._size = min(most, 2 * self._size)
            return None
        return found

    def _fetched(self, leader: Broker) -> Fetched:
        """Fetch and judge.  Raises LinkLost, BrokerError."""
        reader, d = self._reader, self._reader.client.dialect
        request = d.requests.fetch(d, reader.wait_ms, 1, [(self.tp, self.offset, self._size)])
        (row,) = reader.client.links.call(leader, reader.purpose, request)
        if row.error not in (0, NOT_ANSWERED):
            raise reader.refusal(row.error, leader, self.tp, self.offset)
        return judged(d, self.tp, self.offset, row, self._size)

    def _leader(self) -> Broker:
        """Return the leader.  Raises NoLeader, Unreachable."""
        client, moved, self._moved = self._reader.client, self._moved, False
        leader = client.leader(self.tp, refresh=moved, retry=ONCE)  # patience_s is how long it is looked for
        if isinstance(leader, NoLeader):
            raise NoLeader(f"{self.tp}: {leader}", leader.lasting)
        return leader

    # ---- what goes wrong ---------------------------------------------------------------------------------------------

    def _damaged(self, leader: Broker, found: Fetched) -> Gap:
        assert found.damage is not None
        offsets = self._reader.client.dialect.offsets
        damaged = Damaged(self.tp, self.offset, leader, found.damage, offsets.hint(INSIDE))
        if not offsets.count_messages:
            if self.until is None:
                raise damaged
            return Gap(self.offset, self.until, str(damaged), damaged)
        behind = max(self.offset, found.damage.offset or 0) + 1
        return Gap(self.offset, behind if self.until is None else min(self.until, behind), str(damaged), damaged)

    def _refused(self, error: BrokerError) -> Gap | None:
        follows = error.info.follows
        if follows is Follows.GONE:
            begins = self._reader.client.list_offsets({self.tp: EARLIEST}, retry=ONCE)[self.tp]
            if begins.offset is not None and self.offset < begins.offset:
                until = begins.offset if self.until is None else min(self.until, begins.offset)
                return Gap(self.offset, until, RETENTION, error)
        elif not error.passes:
            raise error
        self._again(error, moved=follows is not Follows.WAIT)
        return None

    def _nothing(self, found: Fetched) -> None:
        """Wait: the broker may be deposed, or the rest of its log is not replicated yet."""
        reader = self._reader
        if self.until is not None:
            why: WireError | None = None
            if found.came is Came.UNANSWERED:
                why = BrokerError(NOT_ANSWERED, str(self.tp))
            elif found.came is Came.HIDDEN:
                why = LocalError(f"its log goes on, and a fetch of {self._size} bytes brings nothing of it")
            self._lose_patience(why)
        if found.came is not Came.NOTHING or not reader.client.dialect.waits_for_data:
            reader.sleep(reader.wait_ms / 1000)
        if not reader.client.dialect.partitions_by_broker:
            with suppress(Unreachable):  # the leader that is known answers
                reader.client.view(max_age_s=LOOK_S, retry=ONCE)

    def _again(self, why: WireError, moved: bool = True) -> None:
        """Wait before another try.  Raises `why` without patience, or NothingRead once it is over."""
        reader = self._reader
        if not reader.patience_s:
            raise why
        self._lose_patience(why)
        reader.retrying(why)
        self._moved = moved
        reader.sleep(AGAIN.wait_s(self._failures))
        self._failures += 1

    def _lose_patience(self, why: WireError | None) -> None:
        reader = self._reader
        waited_s = reader.patience_s
        if reader.now() - self._moved_at >= waited_s:
            reader.patience_s = min(SHORT_S, waited_s)
            raise NothingRead(self.tp, waited_s, why) from why
