"""Deliveries: futures of messages, and the buckets of messages that complete them.

A bucket holds what was sent to one partition in one round.  send() fills it, the event loop drains it into parts, and
completions record, range by range, what became of its messages.  A Delivery is a bucket and a number: cheap to make,
and it costs nothing until it is asked.
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
Calls = list[tuple[Listener, "Delivery"]]  # delivery callbacks to call, and with what


class Stored(NamedTuple):
    """Where a message is.  offset None: the broker did not say.

    Not acknowledged: it was sent, and no broker reports what became of it (acks 0; Kafka 0.7 without confirm).
    """

    tp: TopicPartition
    offset: int | None
    acknowledged: bool = True


class Flag(Protocol):
    """threading.Event, or an event of the caller's event loop."""

    def set(self) -> None: ...
    def clear(self) -> Any: ...
    def wait(self, timeout: float | None = None, /) -> Any: ...


class Completion(NamedTuple):
    """What became of the messages begin to end of a bucket."""

    begin: int
    end: int
    offset: int | None  # of the message at begin
    error: Exception | None
    sure: bool = True  # False: sent, not acknowledged
    tp: TopicPartition | None = None  # where they were stored, where that is not the bucket's


class Bucket:
    """Messages of one partition and round.  lock: that of the accumulator; flag: makes what a waiter waits on."""

    __slots__ = (
        "_flag",
        "_waiters",
        "completed",
        "completions",
        "free",
        "listeners",
        "lock",
        "rows",
        "size",
        "sizes",
        "tp",
    )

    def __init__(self, tp: TopicPartition, lock: threading.Lock, flag: Callable[[], Flag]) -> None:
        self.tp = tp
        self.rows: list[Row] = []
        self.sizes: list[int] = []  # bytes of each one's entry before compression
        self.size = 0  # of all of them
        self.free = False  # no message in it has a key or was given a partition
        self.completed = 0  # messages that are over
        self.completions: list[Completion] = []
        self.listeners: dict[int, Listener] = {}
        self._waiters: list[tuple[int, Flag]] = []
        self.lock = lock
        self._flag = flag

    @classmethod
    def of_one(
        cls, lock: threading.Lock, flag: Callable[[], Flag], topic: str, partition: PartitionId | None
    ) -> Bucket:
        """A bucket of one message, not encoded yet, whose partition is not chosen yet (-1)."""
        bucket = cls(TopicPartition(topic, -1 if partition is None else partition), lock, flag)
        bucket.rows.append((None, None, None))
        return bucket

    def complete(self, completion: Completion) -> Calls:
        """With the lock held: record a completion, wake its waiters; the callbacks to call."""
        self.completions.append(completion)
        self.completed += completion.end - completion.begin
        for number, flag in self._waiters:
            if completion.begin <= number < completion.end:
                flag.set()
        heard = [n for n in self.listeners if completion.begin <= n < completion.end]
        return [(self.listeners.pop(n), Delivery(self, n)) for n in heard]

    def completion(self, number: int) -> Completion | None:
        return next((c for c in self.completions if c.begin <= number < c.end), None)

    def wait(self, number: int, timeout_s: float | None) -> Completion | None:
        """Wait for the completion of a message; None: not within the time."""
        with self.lock:
            found = self.completion(number)
            if found is not None:
                return found
            flag = self._flag()
            self._waiters.append((number, flag))
        flag.wait(timeout_s)
        with self.lock:
            self._waiters.remove((number, flag))
            return self.completion(number)

    def listen(self, number: int, listener: Listener) -> bool:
        """Call the listener once the message is completed; False: it is already."""
        with self.lock:
            if self.completion(number) is not None:
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
        completion = self._bucket.completion(self._number)
        return self._bucket.tp if completion is None or completion.tp is None else completion.tp

    @property
    def place(self) -> tuple[Bucket, range]:
        """Arguments of Deliveries.add()."""
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
        return self._bucket.completion(self._number) is not None

    @property
    def error(self) -> Exception | None:
        """Why it was not stored; None while it is pending, and when it is stored."""
        completion = self._bucket.completion(self._number)
        return completion.error if completion is not None else None

    def result(self, timeout_s: float | None = None) -> Stored:
        """Wait for where it is stored.  Raises why it is not; TimeoutError where it is pending after the time."""
        completion = self._bucket.wait(self._number, timeout_s)
        if completion is None:
            raise TimeoutError(
                f"{self.tp}: the message is not acknowledged after {timeout_s:g} s; it is still being sent"
            )
        if completion.error is not None:
            raise completion.error
        offset = None if completion.offset is None else completion.offset + self._number - completion.begin
        return Stored(completion.tp or self.tp, offset, completion.sure)

    @property
    def state(self) -> str:
        """pending; stored; failed; or "sent, not acknowledged", where no broker reports more."""
        completion = self._bucket.completion(self._number)
        if completion is None:
            return "pending"
        return "failed" if completion.error is not None else "stored" if completion.sure else NOT_ACKNOWLEDGED

    def __repr__(self) -> str:
        return f"<Delivery to {self.tp}: {self.state}>"


class Promise:
    """Completes the Delivery of a message that goes through handlers: a bucket of one, its partition chosen late."""

    __slots__ = ("_listener", "bucket")

    def __init__(self, bucket: Bucket, listener: Listener | None) -> None:
        self.bucket = bucket
        self._listener = listener

    @property
    def delivery(self) -> Delivery:
        return Delivery(self.bucket, 0)

    def complete(
        self, offset: int | None, error: Exception | None, tp: TopicPartition | None = None, sure: bool = True
    ) -> Calls | None:
        """The callbacks to call; None: it was completed before."""
        with self.bucket.lock:
            if self.bucket.completions:
                return None
            self.bucket.tp = tp or self.bucket.tp
            calls = self.bucket.complete(Completion(0, 1, offset, error, sure))
        return calls if self._listener is None else [(self._listener, self.delivery), *calls]

    def __call__(self, delivery: Delivery) -> Calls:
        """As the listener of the message that was made of an item: the callbacks to call."""
        stored = None if delivery.error is not None else delivery.result(0)
        offset, sure = (None, True) if stored is None else (stored.offset, stored.acknowledged)
        return self.complete(offset, delivery.error, delivery.tp, sure) or []


class Deliveries(Sequence[Delivery]):
    """Deliveries of one send_many(), in the order of its values."""

    def __init__(self) -> None:
        self._spans: list[tuple[int, Bucket, range]] = []  # number of the first message, its bucket, its range there
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
        """Wait for where all of them are stored.  Raises as Delivery.result() does, for the first that is not."""
        until = None if timeout_s is None else monotonic() + timeout_s
        return [each.result(None if until is None else max(0.0, until - monotonic())) for each in self]
