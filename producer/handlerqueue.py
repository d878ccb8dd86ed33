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
from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat
from time import monotonic
from typing import Any, NamedTuple

from groundwork.failures import Failures
from groundwork.hub import Hub, HubStopped, OwnThread, start_plain_thread
from groundwork.tasks import TaskGroup
from groundwork.threads import NoThread
from kafkawire.errors import LocalError
from kafkawire.model import PartitionId
from producer.accumulator import Accumulator, Appender
from producer.callbacks import Callbacks
from producer.config import ProducerConfig
from producer.delivery import Bucket, Deliveries, Delivery, Flag, Listener, Promise
from producer.dispatcher import Dispatcher
from producer.errors import Closed, HandlerFailed, QueueFull, raised_by_users
from producer.handlers import CallbackHandler, EventHandler, Item
from producer.messages import Headers
from producer.plugins import Plugins, loaded_handler

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

    callbacks and events: the handlers, at least one.  calls: calls delivery callbacks.

    waiting: number of items in the queue or in a batch.  handled: of items that an event handler has handled.  dropped:
    of items that failed before they were put into the accumulator, which counts the others.
    """

    def __init__(
        self,
        config: ProducerConfig,
        *,
        callbacks: CallbackHandler | None,
        events: EventHandler | None,
        plugins: Plugins,
        appender: Appender,
        accumulator: Accumulator,
        dispatcher: Dispatcher,
        hub: Hub,
        calls: Callbacks,
    ) -> None:
        self.waiting = self.handled = self.dropped = 0
        self._config, self._own = config, isinstance(hub, OwnThread)
        self._theirs = raised_by_users(self._own)
        self._hooks, self._events, self._encode = callbacks or CallbackHandler(), events, plugins.encode
        self._failures = Failures(log, "callback.handler: after_enqueue")
        self._appender, self._accumulator, self._calls = appender, accumulator, calls
        self._drain: Callable[[], object] = lambda: hub.post(dispatcher.drain)
        self._lock, self._starting = threading.Lock(), threading.Lock()
        self._entries: deque[Item | _Mark] = deque()
        self._came, self._room = accumulator.flag(), accumulator.flag()
        self._promises: set[Promise] = set()  # of items that were queued and have not ended
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
        try:
            item = self._hooks.before_enqueue(Item(topic, value, key, partition, partition_key, promise, headers))
        except Exception as exc:  # a user's code may raise anything
            raise _failed("callback.handler: before_enqueue", exc) from exc
        if not isinstance(item, Item):
            raise HandlerFailed(f"callback.handler: before_enqueue gave back a {type(item).__name__}, not an Item")
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

    def put_values(
        self, topic: str, values: list[Any], deliveries: Deliveries, listener: Listener | None, **more: Any
    ) -> None:
        """Queue messages without keys."""
        self.put_pairs(topic, values, [None] * len(values), deliveries, listener, **more)

    def put_pairs(
        self,
        topic: str,
        values: list[Any],
        keys: list[Any],
        deliveries: Deliveries,
        listener: Listener | None,
        *,
        headers: list[Headers | None] | None = None,
    ) -> None:
        """Queue messages with keys."""
        for value, key, one in zip(values, keys, headers or repeat(None), strict=False):
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
            self._entries.append(item)
            if item.promise is not None:
                self._promises.add(item.promise)
        self._came.set()
        return True

    def flush(self, timeout_s: float) -> bool:
        """Send the queued items now; False after timeout_s."""
        return self._marked(False, timeout_s)

    def close(self, timeout_s: float) -> bool:
        """Close the handlers, then send the queued items; False after timeout_s."""
        until = monotonic() + timeout_s
        closed = self._accumulator.flag()
        try:
            self._spawn("closing handlers", lambda: self._close_handlers(closed))
        except (RuntimeError, NoThread):  # the interpreter ends, or no thread can be made
            self._close_handlers(closed)
        if not closed.wait(timeout_s):
            log.error("close of a handler did not return within %g s", timeout_s)
        return self._marked(True, max(0.0, until - monotonic()))

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
            self._entries.clear()
            self._promises.clear()
            self.waiting, self.dropped = 0, self.dropped + count
        self._came.set()
        self._room.set()
        if count or promises:
            stuck = f"; {at} had not returned" if at else ""
            reason = Closed(
                f"the producer was closed, after {timeout_s:g} s, before this message left its queue{stuck}"
            )
            self._accumulator.count_failed(count, reason)
            for promise in promises:
                self._calls.call(promise.complete(None, reason) or [])

    def _close_handlers(self, closed: Flag) -> None:
        handlers: list[CallbackHandler | EventHandler] = [self._hooks]
        for handler in handlers if self._events is None else [*handlers, self._events]:
            try:
                handler.close()
            except self._theirs as exc:
                log.error("%s: close raised %s: %s", type(handler).__name__, type(exc).__name__, exc, exc_info=exc)
        closed.set()

    def _marked(self, last: bool, timeout_s: float) -> bool:
        mark = _Mark(self._accumulator.flag(), last)
        with self._lock:
            self._closed = self._closed or last
            self._entries.append(mark)
        self._came.set()
        if last:
            self._room.set()  # a put() that waits for room is now refused
        try:
            self._start()
        except (RuntimeError, NoThread):  # the interpreter ends, or no thread can be made; nothing but marks is queued
            if not last:
                return True
            self._work()
        return bool(mark.passed.wait(timeout_s))

    def _start(self) -> None:
        """Start the worker if it does not run.  Raises NoThread."""
        if not self._running:
            with self._starting:
                if not self._running:
                    self._spawn("handlers", self._work)
                    self._running = True

    def _spawn(self, name: str, run: Callable[[], None]) -> None:
        """Run in a separate thread or greenlet: a handler that never returns must not block close()."""
        if self._own:
            start_plain_thread(run)
        else:
            TaskGroup().spawn(name, run)

    # ---- the worker ------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        batch: list[Item] = []
        last = False
        linger_s = self._config.linger_ms / 1000
        due = monotonic() + max(linger_s, IDLE_S)
        while not last and not self._abandoned:
            entry = self._next(due)
            if isinstance(entry, _Mark):
                last = entry.last
                self._send_batch(batch, last)
                entry.passed.set()
            else:
                if not batch and entry is not None:
                    due = monotonic() + linger_s
                batch += self._hooked("after_dequeuing", entry, [] if entry is None else [entry])
                if entry is not None and len(batch) < self._config.batch_messages:
                    continue
                self._send_batch(batch, False)
            batch, due = [], monotonic() + max(linger_s, IDLE_S)

    def _next(self, due: float) -> Item | _Mark | None:
        """Wait for the next entry; None at the time `due`, or when the queue is abandoned."""
        while True:
            with self._lock:
                if self._entries:
                    return self._entries.popleft()
                self._came.clear()
            left = due - monotonic()
            if left <= 0 or self._abandoned:
                return None
            self._came.wait(left)

    def _send_batch(self, batch: list[Item], last: bool) -> None:
        """Pass a batch through the remaining hooks, and send it."""
        if last:
            batch = batch + self._hooked("last_batch_before_close")
            self._failures.tell(final=True)
        if not batch:
            return
        items = self._hooked("before_sending", list(batch), batch)
        if self._events is not None:
            self._handle(self._events, items)
            return
        for item in items:
            self._append(item)
        try:
            self._drain()
        except HubStopped:
            pass  # the producer was closed, and has failed the items left

    def _hooked(self, name: str, argument: Any = None, given: Sequence[Item] | None = None) -> list[Item]:
        """Return what a hook makes of the given items (None: it takes none); items that it leaves out, or raises for,
        fail.  An item whose promise is kept is not left out, however it was changed otherwise."""
        hook, where = getattr(self._hooks, name), f"callback.handler: {name}"
        reason: HandlerFailed | None = None
        items: list[Item] = []
        self._at = where
        try:
            items = hook() if given is None else hook(argument)
            if not isinstance(items, list) or not all(isinstance(item, Item) for item in items):
                items, reason = [], HandlerFailed(f"{where} did not return a list of Item")
        except self._theirs as exc:
            reason = _failed(where, exc)
        finally:
            self._at = ""
        kept = {id(item.promise) for item in items}
        out = [item for item in given or () if reason is not None or id(item.promise) not in kept]
        self._fail(out, reason or HandlerFailed(f"{where} removed it"))
        with self._lock:
            if self._abandoned:
                return []
            self.waiting += len(items) - (len(given or ()) - len(out))
        return items

    def _handle(self, events: EventHandler, items: list[Item]) -> None:
        self._at = "event.handler: handle"
        try:
            events.handle(items, self, self._encode)
        except self._theirs as exc:
            self._fail(items, _failed("event.handler: handle", exc))
            return
        if self._ended(items, handled=len(items)):
            for item in items:
                if item.promise is not None:
                    self._calls.call(item.promise.complete(None, None) or [])

    def send(self, topic: str, value: Any, key: Any = None, partition: PartitionId | None = None) -> Delivery:
        """Send a message of an event handler, past the queue; returns once it is stored, or raises the reason why it
        is not."""
        delivery = self._appender.put(topic, value, key, None, partition, None, patient=True)
        self._drain()
        delivery.result()
        return delivery

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
            self._fail([item], exc if isinstance(exc, Exception) else HandlerFailed(f"an encoder raised {exc!r}"))
        else:
            self._ended([item])

    def _fail(self, items: Sequence[Item], reason: Exception) -> None:
        if not items or not self._ended(items, dropped=len(items)):
            return
        self._accumulator.count_failed(len(items), reason)
        for item in items:
            called = item.promise.complete(None, reason) if item.promise is not None else None
            if called is None:
                log.error("a message for topic %s that has no Delivery failed: %s", item.topic, reason)
            else:
                self._calls.call(called)

    def _ended(self, items: Sequence[Item], handled: int = 0, dropped: int = 0) -> bool:
        """Count items that leave the queue.  False when the queue is abandoned, and has counted them already."""
        with self._lock:
            self._at = ""
            if self._abandoned:
                return False
            self.waiting -= len(items)
            self.handled += handled
            self.dropped += dropped
            self._promises.difference_update(item.promise for item in items if item.promise is not None)
        self._room.set()
        return True


def _failed(where: str, exc: BaseException) -> HandlerFailed:
    failed = HandlerFailed(f"{where} raised {type(exc).__name__}: {exc}")
    failed.__cause__ = exc
    return failed


def handlers_of(
    config: ProducerConfig, callbacks: CallbackHandler | None, events: EventHandler | None
) -> tuple[CallbackHandler | None, EventHandler | None]:
    """Return the given handlers, or those that the options name, after init().  Raises LocalError for an unusable
    one."""
    callbacks = callbacks or loaded_handler("callback.handler", config.callback_handler, CallbackHandler)
    events = events or loaded_handler("event.handler", config.event_handler, EventHandler)
    if config.sync and (callbacks is not None or events is not None):
        raise LocalError("callback and event handlers need the queue: producer.type must be async for them")
    if callbacks is not None:
        callbacks.init(config.callback_handler_props)
    if events is not None:
        events.init(config.event_handler_props)
    return callbacks, events
