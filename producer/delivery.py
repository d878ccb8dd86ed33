"""Deliveries: futures of messages, completed through the buckets that hold the messages.

A bucket holds the messages for one partition in one round.  send() fills it, the event loop drains it into parts, and
completions record the outcome of its messages, range by range.  A Delivery is a bucket and a number: cheap to create,
and without cost until it is used.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import Any, NamedTuple, Protocol

from kafkawire.model import PartitionId, TopicPartition

Listener = Callable[["Delivery"], object]
NOT_ACKNOWLEDGED = "sent, not acknowledged"
Calls = list[tuple[Listener, "Delivery"]]  # delivery callbacks to call, with their argument


class Stored(NamedTuple):
    """Result of a Delivery: where the message is stored.  offset None: the broker did not report it.

    Not acknowledged: it was sent, and no broker reports its outcome (acks 0; Kafka 0.7 without confirm).
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
    """Outcome of the messages begin to end of a bucket."""

    begin: int
    end: int
    offset: int | None  # of the message at begin
    error: Exception | None
    sure: bool = True  # False: sent, not acknowledged
    tp: TopicPartition | None = None  # the partition that stored them, if it is not the bucket's


class Bucket:
    """Messages of one partition and round, in columns of equal length.

    lock: the accumulator's; flag: makes an event for waiters.
    """

    __slots__ = (
        "_flag",
        "_waiters",
        "completed",
        "completions",
        "free",
        "headers",
        "keys",
        "listeners",
        "lock",
        "size",
        "sizes",
        "timestamps_ms",
        "tp",
        "values",
    )

    def __init__(self, tp: TopicPartition, lock: threading.Lock, flag: Callable[[], Flag]) -> None:
        self.tp = tp
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps_ms: list[int | None] = []
        self.headers: dict[int, bytes] = {}  # blocks of messages that have headers, by number
        self.sizes: list[int] = []  # bytes of each one's entry before compression
        self.size = 0  # total of sizes
        self.free = False  # none of its messages has a key or a given partition
        self.completed = 0  # number of completed messages
        self.completions: list[Completion] = []
        self.listeners: dict[int, Listener] = {}
        self._waiters: list[tuple[int, Flag]] = []
        self.lock = lock
        self._flag = flag

    @classmethod
    def of_one(
        cls, lock: threading.Lock, flag: Callable[[], Flag], topic: str, partition: PartitionId | None
    ) -> Bucket:
        """Return a bucket for one message that is not encoded yet, and whose partition (-1) is not chosen yet."""
        bucket = cls(TopicPartition(topic, -1 if partition is None else partition), lock, flag)
        bucket.keys.append(None)
        bucket.values.append(None)
        bucket.timestamps_ms.append(None)
        return bucket

    def complete(self, completion: Completion) -> Calls:
        """Record a completion and wake its waiters, with the lock held; returns the callbacks to call."""
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
        """Wait for the completion of a message; None after timeout_s."""
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
        """Register a listener for a message's completion; return False if it is completed already."""
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
    """Future of one message.  A reference to it keeps the other messages of its bucket in memory, too."""

    __slots__ = ("_bucket", "_number")

    def __init__(self, bucket: Bucket, number: int) -> None:
        self._bucket = bucket
        self._number = number

    @property
    def tp(self) -> TopicPartition:
        """Return the message's partition."""
        completion = self._bucket.completion(self._number)
        return self._bucket.tp if completion is None or completion.tp is None else completion.tp

    @property
    def place(self) -> tuple[Bucket, range]:
        """Return the arguments of Deliveries.add()."""
        return self._bucket, range(self._number, self._number + 1)

    @property
    def key(self) -> bytes | None:
        """Return the encoded key."""
        return self._bucket.keys[self._number]

    @property
    def value(self) -> bytes | None:
        """Return the encoded value, for sending it again."""
        return self._bucket.values[self._number]

    @property
    def done(self) -> bool:
        """True if it is stored or has failed."""
        return self._bucket.completion(self._number) is not None

    @property
    def error(self) -> Exception | None:
        """Return why it failed; None while it is pending, and if it is stored."""
        completion = self._bucket.completion(self._number)
        return completion.error if completion is not None else None

    def result(self, timeout_s: float | None = None) -> Stored:
        """Wait until it is stored.  Raises the reason when it has failed; TimeoutError when it is pending after
        timeout_s."""
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
        """Return the state: pending; stored; failed; or "sent, not acknowledged" if no broker reports more."""
        completion = self._bucket.completion(self._number)
        if completion is None:
            return "pending"
        return "failed" if completion.error is not None else "stored" if completion.sure else NOT_ACKNOWLEDGED

    def __repr__(self) -> str:
        return f"<Delivery to {self.tp}: {self.state}>"


class Promise:
    """Completes the Delivery of a message that passes through handlers: it has its own bucket, and its partition
    later."""

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
        """Complete the message; returns the callbacks to call, or None when it was completed before."""
        with self.bucket.lock:
            if self.bucket.completions:
                return None
            self.bucket.tp = tp or self.bucket.tp
            calls = self.bucket.complete(Completion(0, 1, offset, error, sure))
        return calls if self._listener is None else [(self._listener, self.delivery), *calls]

    def __call__(self, delivery: Delivery) -> Calls:
        """Called as the listener of the message that was made from the item; returns the callbacks to call."""
        stored = None if delivery.error is not None else delivery.result(0)
        offset, sure = (None, True) if stored is None else (stored.offset, stored.acknowledged)
        return self.complete(offset, delivery.error, delivery.tp, sure) or []


class Deliveries(Sequence[Delivery]):
    """Deliveries of one send_many(), in the order of its values."""

    def __init__(self) -> None:
        # Number of the first message, its bucket and its numbers there; None: in several buckets, with their numbers.
        self._spans: list[tuple[int, Bucket, Sequence[int]] | tuple[int, None, list[tuple[Bucket, int]]]] = []
        self._count = 0

    def add(self, bucket: Bucket, numbers: range) -> None:
        self._spans.append((self._count, bucket, numbers))
        self._count += len(numbers)

    def add_each(self, places: list[tuple[Bucket, int]]) -> None:
        """Add messages of several buckets, each with its number there."""
        self._spans.append((self._count, None, places))
        self._count += len(places)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[n] for n in range(*at.indices(self._count))]
        number = at + self._count if at < 0 else at
        for span in self._spans:
            if span[0] <= number < span[0] + len(span[2]):
                if span[1] is None:
                    return Delivery(*span[2][number - span[0]])
                return Delivery(span[1], span[2][number - span[0]])
        raise IndexError(at)

    def __iter__(self) -> Iterator[Delivery]:
        for span in self._spans:
            if span[1] is None:
                for bucket, number in span[2]:
                    yield Delivery(bucket, number)
            else:
                for number in span[2]:
                    yield Delivery(span[1], number)

    def result(self, timeout_s: float | None = None) -> list[Stored]:
        """Wait until all of them are stored.  Raises the exception of Delivery.result() for the first that is not."""
        until = None if timeout_s is None else monotonic() + timeout_s
        return [each.result(None if until is None else max(0.0, until - monotonic())) for each in self]
