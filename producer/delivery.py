"""What became of messages: deliveries (futures), and the buckets that know it.

A bucket is what was sent to one partition in one round.  It is filled by send(), emptied into parts by the hub, and
then hears stretch by stretch what became of its messages.  A Delivery is a bucket and a number: cheap to make, and it
costs nothing until somebody asks it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import Any, NamedTuple, Protocol

from kafkawire.model import PartitionId, TopicPartition

Row = tuple[bytes | None, bytes | None, int | None]  # key, value, timestamp in ms
Listener = Callable[["Delivery"], object]
NOT_ACKNOWLEDGED = "sent, not acknowledged"
Called = list[tuple[Listener, "Delivery"]]  # who is to be called, and with what


class Stored(NamedTuple):
    """Where a message is.  offset None: the broker did not say.

    Not acknowledged: it was sent, and nobody tells what became of it (acks 0; Kafka 0.7 without confirm).
    """

    tp: TopicPartition
    offset: int | None
    acknowledged: bool = True


class Flag(Protocol):
    """threading.Event, or an event of the caller's hub."""

    def set(self) -> None: ...
    def clear(self) -> Any: ...
    def wait(self, timeout: float | None = None, /) -> Any: ...


class Verdict(NamedTuple):
    """What became of the messages begin to end of a bucket."""

    begin: int
    end: int
    offset: int | None  # of the message at begin
    error: Exception | None
    sure: bool = True  # False: sent, and not acknowledged by anybody
    tp: TopicPartition | None = None  # where they went, if not where their bucket said


class Bucket:
    """lock is the one of all buckets of a producer; flag makes what a waiter waits on."""

    __slots__ = ("_flag", "_waiters", "free", "listeners", "lock", "rows", "settled", "size", "sizes", "tp", "verdicts")

    def __init__(self, tp: TopicPartition, lock: threading.Lock, flag: Callable[[], Flag]) -> None:
        self.tp = tp
        self.rows: list[Row] = []
        self.sizes: list[int] = []  # bytes of each one's entry before compression
        self.size = 0  # of all of them
        self.free = False  # nothing in it has a key or a partition of its own
        self.settled = 0  # messages that are over
        self.verdicts: list[Verdict] = []
        self.listeners: dict[int, Listener] = {}
        self._waiters: list[tuple[int, Flag]] = []
        self.lock = lock
        self._flag = flag

    @classmethod
    def of_one(
        cls, lock: threading.Lock, flag: Callable[[], Flag], topic: str, partition: PartitionId | None
    ) -> Bucket:
        """Of a message whose partition is not chosen yet (-1), and which is not encoded."""
        bucket = cls(TopicPartition(topic, -1 if partition is None else partition), lock, flag)
        bucket.rows.append((None, None, None))
        return bucket

    def settle(self, verdict: Verdict) -> Called:
        """With the lock held: note it, wake who waits; who is to be called."""
        self.verdicts.append(verdict)
        self.settled += verdict.end - verdict.begin
        for number, flag in self._waiters:
            if verdict.begin <= number < verdict.end:
                flag.set()
        mine = [n for n in self.listeners if verdict.begin <= n < verdict.end]
        return [(self.listeners.pop(n), Delivery(self, n)) for n in mine]

    def verdict(self, number: int) -> Verdict | None:
        return next((v for v in self.verdicts if v.begin <= number < v.end), None)

    def wait(self, number: int, timeout_s: float | None) -> Verdict | None:
        """The verdict on a message, waited for; None: not within the time."""
        with self.lock:
            found = self.verdict(number)
            if found is not None:
                return found
            flag = self._flag()
            self._waiters.append((number, flag))
        flag.wait(timeout_s)
        with self.lock:
            self._waiters.remove((number, flag))
            return self.verdict(number)

    def listen(self, number: int, listener: Listener) -> bool:
        """Have it called once the message is settled; False: it is already."""
        with self.lock:
            if self.verdict(number) is not None:
                return False
            before = self.listeners.get(number)
            self.listeners[number] = listener if before is None else _both(before, listener)
        return True


def _both(first: Listener, second: Listener) -> Listener:
    def call(delivery: Delivery) -> None:
        first(delivery)
        second(delivery)

    return call


class Delivery:
    """One message that was sent.  Holding it holds the other messages of its round in memory, too."""

    __slots__ = ("_bucket", "_number")

    def __init__(self, bucket: Bucket, number: int) -> None:
        self._bucket = bucket
        self._number = number

    @property
    def tp(self) -> TopicPartition:
        """The partition it goes to."""
        verdict = self._bucket.verdict(self._number)
        return self._bucket.tp if verdict is None or verdict.tp is None else verdict.tp

    @property
    def place(self) -> tuple[Bucket, range]:
        """As Deliveries.add() takes it."""
        return self._bucket, range(self._number, self._number + 1)

    @property
    def key(self) -> bytes | None:
        """As it was encoded."""
        return self._bucket.rows[self._number][0]

    @property
    def value(self) -> bytes | None:
        """As it was encoded: what is needed to send it again."""
        return self._bucket.rows[self._number][1]

    @property
    def done(self) -> bool:
        """Whether it is over, stored or not."""
        return self._bucket.verdict(self._number) is not None

    @property
    def error(self) -> Exception | None:
        """Why it was not stored; None while it is pending, and when it is stored."""
        verdict = self._bucket.verdict(self._number)
        return verdict.error if verdict is not None else None

    def result(self, timeout_s: float | None = None) -> Stored:
        """Where it is stored, waited for.  Raises why it is not; TimeoutError where it is pending after the time."""
        verdict = self._bucket.wait(self._number, timeout_s)
        if verdict is None:
            raise TimeoutError(
                f"{self.tp}: the message is not acknowledged after {timeout_s:g} s; it is still being sent"
            )
        if verdict.error is not None:
            raise verdict.error
        offset = None if verdict.offset is None else verdict.offset + self._number - verdict.begin
        return Stored(verdict.tp or self.tp, offset, verdict.sure)

    @property
    def state(self) -> str:
        """pending; stored; failed; or "sent, not acknowledged", where nobody tells more."""
        verdict = self._bucket.verdict(self._number)
        if verdict is None:
            return "pending"
        return "failed" if verdict.error is not None else "stored" if verdict.sure else NOT_ACKNOWLEDGED

    def __repr__(self) -> str:
        return f"<Delivery to {self.tp}: {self.state}>"


class Deliveries(Sequence[Delivery]):
    """Those of one send_many(), in the order of what was given."""

    def __init__(self) -> None:
        self._spans: list[tuple[int, Bucket, range]] = []  # what begins at, where, which of it
        self._count = 0

    def add(self, bucket: Bucket, numbers: range) -> None:
        self._spans.append((self._count, bucket, numbers))
        self._count += len(numbers)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[n] for n in range(*at.indices(self._count))]
        number = at + self._count if at < 0 else at
        for begins, bucket, numbers in self._spans:
            if begins <= number < begins + len(numbers):
                return Delivery(bucket, numbers[number - begins])
        raise IndexError(at)

    def __iter__(self) -> Iterator[Delivery]:
        for _, bucket, numbers in self._spans:
            for number in numbers:
                yield Delivery(bucket, number)

    def result(self, timeout_s: float | None = None) -> list[Stored]:
        """Where all of them are stored, waited for.  Raises as Delivery.result() does, for the first that was not."""
        until = None if timeout_s is None else monotonic() + timeout_s
        return [each.result(None if until is None else max(0.0, until - monotonic())) for each in self]
