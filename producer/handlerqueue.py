"""Queue in front of a producer with handlers of 0.7: items pass through the hooks batch by batch, and are then sent.

    send()  ->  before_enqueue, queue, after_enqueue
    worker  ->  after_dequeuing, before_sending  ->  the event handler; or encoder, partitioner, accumulator

The worker is a plain thread, or a greenlet of the caller's hub.  A batch is sent when it has batch.num.messages items,
or queue.buffering.max.ms after its first one.  An item gets its Delivery when it is queued: an item that a hook leaves
out fails with that reason; an item that a hook creates has no Delivery.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from time import monotonic
from typing import Any, NamedTuple

from groundwork.failures import Failures
from groundwork.hub import HubStopped, PlainQueue
from groundwork.tasks import Empty, Queue
from groundwork.threads import NoThread
from kafkawire.model import PartitionId
from producer.accumulator import Accumulator, Appender
from producer.callbacks import Callbacks, start_beside
from producer.config import ProducerConfig
from producer.delivery import Bucket, Deliveries, Delivery, Flag, Listener, Promise
from producer.errors import Closed, HandlerFailed, QueueFull, raised_by_users
from producer.handlers import CallbackHandler, EventHandler, Item
from producer.messages import Headers

log = logging.getLogger(__name__)

APPEND_S = 1.0  # time within which the closed producer refuses an item being appended
IDLE_S = 0.1  # minimum time between two timeouts of an empty queue
APPENDING = "serializer.class or partitioner.class"


class _Mark(NamedTuple):
    """Mark in the queue: items before it are sent at once.  last: nothing is queued after it."""

    passed: Flag
    last: bool


class HandlerQueue:
    """Used instead of an Appender when there are handlers: the queue in front of it, and the worker.

    encode: the encoder of values.  drain: sends what the accumulator holds.  own: the worker is a thread.  calls: calls
    delivery callbacks.

    waiting: number of items in the queue or in a batch.  handled: of items that an event handler has handled.  dropped:
    of items that failed before they were put into the accumulator, which counts the others.
    """

    def __init__(
        self,
        config: ProducerConfig,
        hooks: CallbackHandler,
        events: EventHandler | None,
        *,
        encode: Callable[[Any], bytes | None],
        appender: Appender,
        accumulator: Accumulator,
        drain: Callable[[], object],
        own: bool,
        calls: Callbacks,
    ) -> None:
        self.waiting = self.handled = self.dropped = 0
        self._config, self._hooks, self._events, self._encode = config, hooks, events, encode
        self._appender, self._accumulator, self._drain, self._calls = appender, accumulator, drain, calls
        self._own, self._theirs = own, raised_by_users(own)
        self._failures = Failures(log, "callback.handler: after_enqueue")
        self._lock, self._starting = threading.Lock(), threading.Lock()
        self._queue: Any = PlainQueue() if own else Queue()  # of items and marks
        self._room = accumulator.flag()
        self._promises: set[Any] = set()  # of items that were queued and have not ended
        self._at = ""  # the user's code that the worker runs now
        self._running = self._closed = self._abandoned = False

    # ---- the side that sends ---------------------------------------------------------------------------------------

    def put(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition_key: Any,
        partition: PartitionId | None,
        listener: Listener | None,
        *,
        headers: Headers | None = None,
    ) -> Delivery:
        """Queue a message.  Raises QueueFull, Closed, or HandlerFailed when before_enqueue raises."""
        self._start()  # before anything is queued: who is refused here sends again
        promise = Promise(Bucket.of_one(self._accumulator.lock, self._accumulator.flag, topic, partition), listener)
        with _failing("callback.handler: before_enqueue", (Exception,)):
            item = self._hooks.before_enqueue(Item(topic, value, key, partition, partition_key, promise, headers))
        if not isinstance(item, Item):
            raise HandlerFailed(f"callback.handler: before_enqueue returned a {type(item).__name__}, not an Item")
        item.promise = item.promise or promise
        wait_s = self._config.enqueue_timeout_ms / 1000
        until = None if wait_s < 0 else monotonic() + wait_s
        while not (added := self._added(item)) and (until is None or monotonic() < until):
            self._room.wait(None if until is None else max(0.0, until - monotonic()))
        try:
            self._hooks.after_enqueue(item, added)
        except Exception as exc:  # the item is queued already, or refused below
            self._failures.raised(exc, repr(item))
        if not added:
            raise QueueFull(
                f"{topic}: {self.waiting} messages are in the queue, and no room came within {wait_s:g} s "
                "(queue.enqueue.timeout.ms); raise queue.buffering.max.messages"
            )
        return promise.delivery

    def put_all(
        self,
        topic: str,
        values: list[Any],
        keys: list[Any] | None,
        deliveries: Deliveries,
        listener: Listener | None,
        *,
        headers: list[Headers | None] | None = None,
    ) -> None:
        """Queue messages, as many keys and headers as values."""
        for value, key, one in zip(values, keys or repeat(None), headers or repeat(None), strict=False):
            deliveries.add(*self.put(topic, value, key, None, None, listener, headers=one).place)

    def _added(self, item: Item) -> bool:
        """Queue an item, or return False when there is no room.  Raises Closed."""
        with self._lock:
            if self._closed:
                raise Closed("the producer is closed")
            if self.waiting >= self._config.queue_messages:
                self._room.clear()
                return False
            self.waiting += 1
            self._promises.add(item.promise)
            self._queue.put(item)
        return True

    def flush(self, timeout_s: float) -> bool:
        """Send the queued items now; False after timeout_s."""
        return not self._running or self._mark(False).wait(timeout_s)

    def close(self, timeout_s: float) -> bool:
        """Close the handlers, then send the queued items; False after timeout_s."""
        until, closed = monotonic() + timeout_s, self._accumulator.flag()
        try:  # beside the worker: a hook that never returns may wait for this
            start_beside("closing handlers", lambda: self._close_handlers(closed), self._own)
        except (RuntimeError, NoThread):  # the interpreter ends, or no thread can be made
            self._close_handlers(closed)
        if not closed.wait(timeout_s):
            log.error("close of a handler did not return within %g s", timeout_s)
        passed = self._mark(True)
        self._room.set()  # a put() that waits for room is now refused
        try:
            self._start()
        except (RuntimeError, NoThread):  # as above; nothing but marks is queued
            self._work()
        return bool(passed.wait(max(0.0, until - monotonic())))

    def abandon(self, timeout_s: float) -> None:
        """Fail the items that are not in the accumulator yet; called after close(timeout_s), with the accumulator
        closed.

        That includes the items of a hook that does not return; what the hook does with them later has no effect.
        """
        until = monotonic() + APPEND_S
        while self._at == APPENDING and monotonic() < until:
            self._room.clear()
            self._room.wait(0.01)
        with self._lock:
            promises, count, at = list(self._promises), self.waiting, self._at
            self._abandoned = True
            self._promises.clear()
            self.waiting, self.dropped = 0, self.dropped + count
        self._room.set()
        stuck = f"; {at} had not returned" if at else ""
        reason = Closed(f"the producer was closed, after {timeout_s:g} s, before this message left its queue{stuck}")
        if count or promises:
            self._accumulator.count_failed(count, reason)
        for promise in promises:
            self._calls.call(promise.complete(None, reason) or [])

    def _close_handlers(self, closed: Flag) -> None:
        handlers: list[CallbackHandler | EventHandler] = [self._hooks, *([self._events] if self._events else [])]
        for handler in handlers:
            try:
                handler.close()
            except self._theirs as exc:
                log.error("%s: close raised %s: %s", type(handler).__name__, type(exc).__name__, exc, exc_info=exc)
        closed.set()

    def _mark(self, last: bool) -> Flag:
        """Queue a mark; returns what is set when the worker has passed it."""
        mark = _Mark(self._accumulator.flag(), last)
        with self._lock:
            self._closed = self._closed or last
            self._queue.put(mark)
        return mark.passed

    def _start(self) -> None:
        """Start the worker if it does not run.  Raises NoThread."""
        if not self._running:
            with self._starting:
                if not self._running:
                    start_beside("handlers", self._work, self._own)
                    self._running = True

    # ---- the worker ------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        linger_s = self._config.linger_ms / 1000
        last = False
        while not last and not self._abandoned:
            batch: list[Item] = []
            due = monotonic() + max(linger_s, IDLE_S)
            passed: Flag | None = None
            while passed is None and len(batch) < self._config.batch_messages and not self._abandoned:
                try:
                    entry = self._queue.get(True, max(0.0, due - monotonic()))
                except Empty:
                    batch += self._hooked("after_dequeuing", [], None)
                    break
                if isinstance(entry, _Mark):
                    passed, last = entry
                    continue
                if not batch:
                    due = monotonic() + linger_s
                batch += self._hooked("after_dequeuing", [entry], entry)
            self._send_batch(batch, last)
            if passed is not None:
                passed.set()

    def _send_batch(self, batch: list[Item], last: bool) -> None:
        """Pass a batch through the remaining hooks, and send it."""
        if last:
            batch = batch + self._hooked("last_batch_before_close", [])
            self._failures.tell(final=True)
        if not batch:
            return
        items = self._hooked("before_sending", batch, list(batch))
        if self._events is not None:
            try:
                with self._running_code("event.handler: handle"):
                    self._events.handle(items, self, self._encode)
            except HandlerFailed as failed:
                self._end(items, failed)
            else:
                self._end(items, handled=True)
            return
        for item in items:
            self._append(item)
        try:
            self._drain()
        except HubStopped:
            pass  # the producer was closed, and has failed the items left

    def _hooked(self, name: str, given: Sequence[Item], *args: Any) -> list[Item]:
        """Return what a hook makes of the given items; items that it leaves out, or raises for, fail.  An item whose
        promise is kept is not left out, however it was changed otherwise."""
        where = f"callback.handler: {name}"
        reason: HandlerFailed | None = None
        items: list[Item] = []
        try:
            with self._running_code(where):
                items = getattr(self._hooks, name)(*args)
            if not isinstance(items, list) or not all(isinstance(item, Item) for item in items):
                items, reason = [], HandlerFailed(f"{where} did not return a list of Item")
        except HandlerFailed as failed:
            reason = failed
        kept = {id(item.promise) for item in items}
        out = [item for item in given if reason is not None or id(item.promise) not in kept]
        self._end(out, reason or HandlerFailed(f"{where} removed it"))
        with self._lock:
            if self._abandoned:
                return []
            self.waiting += len(items) - (len(given) - len(out))
        return items

    def _append(self, item: Item) -> None:
        """Pass an item to the appender, waiting for room without limit."""
        with self._lock:
            if self._abandoned:
                return
            self._at = APPENDING
        message = item.topic, item.value, item.key, item.partition_key, item.partition
        try:
            self._appender.put(*message, item.promise, patient=True, headers=item.headers)
        except self._theirs as exc:  # what send() raises to its caller without a queue
            self._end([item], exc if isinstance(exc, Exception) else HandlerFailed(f"an encoder raised {exc!r}"))
        else:
            self._end([item])

    def send(self, topic: str, value: Any, key: Any = None, partition: PartitionId | None = None) -> Delivery:
        """Send a message of an event handler, past the queue; returns once it is stored, or raises the reason why it
        is not."""
        delivery = self._appender.put(topic, value, key, None, partition, None, patient=True)
        self._drain()
        delivery.result()
        return delivery

    @contextmanager
    def _running_code(self, what: str) -> Iterator[None]:
        """Name the user's code that the worker runs.  Raises HandlerFailed for what it raises."""
        self._at = what
        try:
            with _failing(what, self._theirs):
                yield
        finally:
            self._at = ""

    def _end(self, items: Sequence[Item], reason: Exception | None = None, handled: bool = False) -> None:
        """Count items that leave the queue: failed for a reason, handled, or put into the accumulator, which completes
        them.  Do nothing once the queue is abandoned, which has completed them already."""
        with self._lock:
            self._at = ""
            if self._abandoned:
                return
            self.waiting -= len(items)
            self.handled += len(items) if handled else 0
            self.dropped += len(items) if reason is not None else 0
            self._promises.difference_update(item.promise for item in items)
        self._room.set()
        if items and reason is not None:
            self._accumulator.count_failed(len(items), reason)
        for item in items if handled or reason is not None else ():
            calls = item.promise.complete(None, reason) if item.promise is not None else None
            if calls is None and reason is not None:
                log.error("a message for topic %s that has no Delivery failed: %s", item.topic, reason)
            self._calls.call(calls or [])


@contextmanager
def _failing(what: str, kinds: tuple[type[BaseException], ...]) -> Iterator[None]:
    """Raise HandlerFailed, which names the user's code, for what it raises."""
    try:
        yield
    except kinds as exc:
        raise HandlerFailed(f"{what} raised {type(exc).__name__}: {exc}") from exc
