"""Queue in front of a producer with handlers: items pass through the hooks batch by batch, and are then sent.

    send()  ->  before_enqueue, queue, after_enqueue
    worker  ->  after_dequeuing, before_sending  ->  the event handler; or encoder, partitioner, accumulator

The worker is a plain thread, or a greenlet of the caller's hub.  A batch is sent when it has batch.num.messages items,
or queue.buffering.max.ms after its first one.  An item gets its Delivery when it is queued: an item that a hook leaves
out fails with that reason; an item that a hook creates has no Delivery.

    OPEN        put() queues
    CLOSING     put() raises Closed; the worker empties the queue through the hooks, and ends
    ABANDONED   items that had not left the queue in time have failed; what the worker still does has no effect
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
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


class State(Enum):
    OPEN = "open"
    CLOSING = "closing"
    ABANDONED = "abandoned"


class End(Enum):
    """How an item leaves the queue."""

    HANDLED = "handled"  # by an event handler
    APPENDED = "appended"  # put into the accumulator, which counts it from there on
    DROPPED = "dropped"  # failed before that


# As module constants: looking up an enum member in its class takes as long as the rest of a step.
OPEN, CLOSING, ABANDONED = State
HANDLED, APPENDED, DROPPED = End


class _Mark:
    """Mark in the queue: items before it are sent at once.  last: nothing is queued after it."""

    def __init__(self, passed: Flag, last: bool) -> None:
        self.passed, self.last = passed, last


class QueueState:
    """State machine of a handler queue: its state, entries and counts.  Each method is one step under one lock.

    waiting: number of items in the queue or in a batch.  at: the user's code that the worker runs now; empty: none.
    """

    def __init__(self, max_items: int, flag: Callable[[], Flag]) -> None:
        self.state = OPEN
        self.waiting = self.handled = self.dropped = 0
        self.at = ""
        self._max_items = max_items
        self._lock = threading.Lock()
        self._entries: deque[Item | _Mark] = deque()
        self._came, self._room = flag(), flag()
        self._promises: set[Promise] = set()  # of items that were queued and have not ended

    def put(self, item: Item) -> bool:
        """Queue an item; False when there is no room.  Raises Closed."""
        with self._lock:
            if self.state is not OPEN:
                raise Closed("the producer is closed")
            if self.waiting >= self._max_items:
                self._room.clear()
                return False
            self.waiting += 1
            self._entries.append(item)
            if item.promise is not None:
                self._promises.add(item.promise)
        self._came.set()
        return True

    def wait_room(self, timeout_s: float | None) -> None:
        self._room.wait(timeout_s)

    def mark(self, mark: _Mark) -> None:
        """Queue a mark; nothing can be queued after the last one."""
        with self._lock:
            if mark.last and self.state is OPEN:
                self.state = CLOSING
            self._entries.append(mark)
        self._came.set()
        if mark.last:
            self._room.set()  # a put() that waits for room is now refused

    def take(self, due: float) -> Item | _Mark | None:
        """Wait for the next entry; None at the time `due`, or when the queue is abandoned."""
        while True:
            with self._lock:
                if self._entries:
                    return self._entries.popleft()
                if self.state is ABANDONED:
                    return None
                self._came.clear()
            left = due - monotonic()
            if left <= 0:
                return None
            self._came.wait(left)

    def changed(self, more: int) -> bool:
        """Count items that a hook added (or, negative, removed).  False when the queue is abandoned."""
        with self._lock:
            if self.state is ABANDONED:
                return False
            self.waiting += more
            return True

    def append(self) -> bool:
        """Begin to append an item, until end().  False when the queue is abandoned."""
        with self._lock:
            if self.state is ABANDONED:
                return False
            self.at = APPENDING
            return True

    def end(self, items: Sequence[Item], how: End) -> bool:
        """End these items.  False when the queue is abandoned, and has counted them already."""
        with self._lock:
            self.at = ""
            if self.state is ABANDONED:
                return False
            self.waiting -= len(items)
            if how is HANDLED:
                self.handled += len(items)
            elif how is DROPPED:
                self.dropped += len(items)
            self._promises.difference_update(item.promise for item in items if item.promise is not None)
        self._room.set()
        return True

    def abandon(self) -> tuple[list[Promise], int, str]:
        """Drop the items left; returns their promises, their number, and the user's code that the worker runs now."""
        until = monotonic() + APPEND_S
        while self.at == APPENDING and monotonic() < until:
            self._room.clear()
            self._room.wait(0.01)
        with self._lock:
            left = list(self._promises), self.waiting, self.at
            self.state = ABANDONED
            self._entries.clear()
            self._promises.clear()
            self.dropped += self.waiting
            self.waiting = 0
        self._came.set()
        self._room.set()
        return left


class HandlerQueue:
    """Used instead of an Appender when there are handlers: the queue in front of it, and the worker.

    callbacks and events: the handlers, at least one.  calls: calls delivery callbacks.
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
        self._config = config
        self._own = isinstance(hub, OwnThread)
        self._theirs = raised_by_users(self._own)
        self._hooks = Hooks(callbacks or CallbackHandler(), self._theirs)
        self._events, self._encode = events, plugins.encode
        self._appender, self._accumulator, self._calls = appender, accumulator, calls
        self._direct = Direct(appender, lambda: hub.post(dispatcher.drain))
        self._state = QueueState(config.queue_messages, accumulator.flag)
        self._starting = threading.Lock()
        self._running = False

    @property
    def waiting(self) -> int:
        """Number of items in the queue or in a batch."""
        return self._state.waiting

    @property
    def handled(self) -> int:
        """Number of items that an event handler has handled."""
        return self._state.handled

    @property
    def dropped(self) -> int:
        """Number of items that failed before they were put into the accumulator."""
        return self._state.dropped

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
        return self._queued(Item(topic, value, key, partition, partition_key, headers=headers), listener)

    def put_values(
        self,
        topic: str,
        values: list[Any],
        deliveries: Deliveries,
        listener: Listener | None,
        *,
        headers: list[Headers | None] | None = None,
    ) -> None:
        """Queue messages without keys."""
        self.put_pairs(topic, values, [None] * len(values), deliveries, listener, headers=headers)

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
            deliveries.add(*self._queued(Item(topic, value, key, headers=one), listener).place)

    def _queued(self, item: Item, listener: Listener | None) -> Delivery:
        self._start()  # before anything is queued: who is refused here sends again
        bucket = Bucket.of_one(self._accumulator.lock, self._accumulator.flag, item.topic, item.partition)
        item.promise = Promise(bucket, listener)
        delivery = item.promise.delivery
        queued = self._hooks.before(item)
        queued.promise = queued.promise or item.promise
        wait_s = self._config.enqueue_timeout_ms / 1000
        deadline = None if wait_s < 0 else monotonic() + wait_s
        while not self._state.put(queued):
            left = None if deadline is None else deadline - monotonic()
            if left is not None and left <= 0:
                self._hooks.after(queued, False)
                raise QueueFull(
                    f"{item.topic}: {self.waiting} messages are in the queue, and no room came within {wait_s:g} s "
                    "(queue.enqueue.timeout.ms); raise queue.buffering.max.messages"
                )
            self._state.wait_room(left)
        self._hooks.after(queued, True)
        return delivery

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
        promises, count, at = self._state.abandon()
        if not count and not promises:
            return
        stuck = f"; {at} had not returned" if at else ""
        reason = Closed(f"the producer was closed, after {timeout_s:g} s, before this message left its queue{stuck}")
        self._accumulator.count_failed(count, reason)
        for promise in promises:
            self._calls.call(promise.complete(None, reason) or [])

    def _close_handlers(self, closed: Flag) -> None:
        for handler in (self._hooks.handler, self._events):
            if handler is not None:
                try:
                    handler.close()
                except self._theirs as exc:
                    log.error("%s: close raised %s: %s", type(handler).__name__, type(exc).__name__, exc, exc_info=exc)
        closed.set()

    def _marked(self, last: bool, timeout_s: float) -> bool:
        mark = _Mark(self._accumulator.flag(), last)
        self._state.mark(mark)
        try:
            self._start()
        except (RuntimeError, NoThread):  # as in close(); nothing but marks is queued: who sends starts it first
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
        while not last and self._state.state is not ABANDONED:
            entry = self._state.take(due)
            if isinstance(entry, _Mark):
                last = entry.last
                self._send_batch(batch, last)
                entry.passed.set()
            else:
                if not batch and entry is not None:
                    due = monotonic() + linger_s
                batch += self._dequeued(entry)
                if entry is not None and len(batch) < self._config.batch_messages:
                    continue
                self._send_batch(batch, False)
            batch, due = [], monotonic() + max(linger_s, IDLE_S)

    def _dequeued(self, item: Item | None) -> list[Item]:
        given = [] if item is None else [item]
        return self._hooked("after_dequeuing", lambda: self._hooks.handler.after_dequeuing(item), given)

    def _send_batch(self, batch: list[Item], last: bool) -> None:
        """Pass a batch through the remaining hooks, and send it."""
        if last:
            batch = batch + self._hooked("last_batch_before_close", self._hooks.handler.last_batch_before_close, [])
            self._hooks.ended()
        if not batch:
            return
        items = self._hooked("before_sending", lambda: self._hooks.handler.before_sending(list(batch)), batch)
        if self._events is not None:
            self._handle(self._events, items)
            return
        for item in items:
            self._append(item)
        try:
            self._direct.drain()
        except HubStopped:
            pass  # the producer was closed, and has failed the items left

    def _hooked(self, name: str, call: Callable[[], list[Item]], given: list[Item]) -> list[Item]:
        """The items that a hook returns for the given ones; items that it leaves out, or raises for, fail."""
        self._state.at = f"callback.handler: {name}"
        try:
            made = self._hooks.made(name, call, given)
        finally:
            self._state.at = ""
        if made.reason is not None:
            self._fail(made.out, made.reason)
        return made.items if self._state.changed(len(made.items) - (len(given) - len(made.out))) else []

    def _handle(self, events: EventHandler, items: list[Item]) -> None:
        self._state.at = "event.handler: handle"
        try:
            events.handle(items, self._direct, self._encode)
        except self._theirs as exc:
            self._state.at = ""
            reason = HandlerFailed(f"event.handler: handle raised {type(exc).__name__}: {exc}")
            reason.__cause__ = exc
            self._fail(items, reason)
            return
        self._state.end(items, HANDLED)
        for item in items:
            if item.promise is not None:
                self._calls.call(item.promise.complete(None, None) or [])

    def _append(self, item: Item) -> None:
        """Pass an item to the appender, waiting for room without limit."""
        if not self._state.append():
            return
        try:
            self._appender.put(
                item.topic,
                item.value,
                item.key,
                item.partition_key,
                item.partition,
                item.promise,
                patient=True,
                headers=item.headers,
            )
        except self._theirs as exc:  # what send() raises to its caller without a queue
            self._fail([item], exc if isinstance(exc, Exception) else HandlerFailed(f"an encoder raised {exc!r}"))
        else:
            self._state.end([item], APPENDED)

    def _fail(self, items: Sequence[Item], reason: Exception) -> None:
        if not items or not self._state.end(items, DROPPED):
            return
        self._accumulator.count_failed(len(items), reason)
        for item in items:
            called = item.promise.complete(None, reason) if item.promise is not None else None
            if called is None:
                log.error("a message for topic %s that has no Delivery failed: %s", item.topic, reason)
            else:
                self._calls.call(called)


class Direct:
    """Lets an event handler send directly, past the queue (handlers.Sending)."""

    def __init__(self, appender: Appender, drain: Callable[[], object]) -> None:
        self._appender, self.drain = appender, drain

    def send(self, topic: str, value: Any, key: Any = None, partition: PartitionId | None = None) -> Delivery:
        """Send a message; returns once it is stored, or raises the reason why it is not."""
        delivery = self._appender.put(topic, value, key, None, partition, None, patient=True)
        self.drain()
        delivery.result()
        return delivery


class Made(NamedTuple):
    """Result of a hook.  items: to be sent; out: given items that the hook left out, with the reason."""

    items: list[Item]
    out: list[Item]
    reason: HandlerFailed | None  # None: out is empty


class Hooks:
    """Calls the hooks of a callback handler and checks what they return.  theirs: exceptions that they may raise."""

    def __init__(self, handler: CallbackHandler, theirs: tuple[type[BaseException], ...]) -> None:
        self.handler = handler
        self._theirs = theirs
        self._failures = Failures(log, "callback.handler: after_enqueue")

    def before(self, item: Item) -> Item:
        """Call before_enqueue; the item to queue instead.  Raises HandlerFailed."""
        try:
            queued = self.handler.before_enqueue(item)
        except Exception as exc:  # a user's code may raise anything
            raise _failed("before_enqueue", exc) from exc
        if not isinstance(queued, Item):
            raise HandlerFailed(f"callback.handler: before_enqueue gave back a {type(queued).__name__}, not an Item")
        return queued

    def after(self, item: Item, added: bool) -> None:
        """Call after_enqueue.  An exception has no effect: the item is already queued, or refused with QueueFull."""
        try:
            self.handler.after_enqueue(item, added)
        except Exception as exc:  # a user's code may raise anything
            self._failures.raised(exc, repr(item))

    def ended(self) -> None:
        """Log how often after_enqueue raised since the last line about it; called when no item will follow."""
        self._failures.tell(final=True)

    def made(self, name: str, call: Callable[[], list[Item]], given: list[Item]) -> Made:
        """Call the hook of that name, and compare what it returns with the given items.

        An item whose promise is kept is not left out, however it was changed otherwise.
        """
        try:
            items = call()
        except self._theirs as exc:
            return Made([], given, _failed(name, exc))
        if not isinstance(items, list) or not all(isinstance(item, Item) for item in items):
            return Made([], given, HandlerFailed(f"callback.handler: {name} gave back no list of Item"))
        kept = {id(item.promise) for item in items}
        out = [item for item in given if id(item.promise) not in kept]
        return Made(items, out, HandlerFailed(f"callback.handler: {name} took it out") if out else None)


def _failed(hook: str, exc: BaseException) -> HandlerFailed:
    failed = HandlerFailed(f"callback.handler: {hook} raised {type(exc).__name__}: {exc}")
    failed.__cause__ = exc
    return failed


def handlers_of(
    config: ProducerConfig, callbacks: CallbackHandler | None, events: EventHandler | None
) -> tuple[CallbackHandler | None, EventHandler | None]:
    """The given handlers, else those that the options name, after init().  Raises LocalError for an unusable one."""
    callbacks = callbacks or loaded_handler("callback.handler", config.callback_handler, CallbackHandler)
    events = events or loaded_handler("event.handler", config.event_handler, EventHandler)
    if config.sync and (callbacks is not None or events is not None):
        raise LocalError("callback and event handlers stand behind the queue: producer.type must be async for them")
    if callbacks is not None:
        callbacks.init(config.callback_handler_props)
    if events is not None:
        events.init(config.event_handler_props)
    return callbacks, events
