"""The queue in front of a producer that has handlers: items go through the hooks batch by batch, then are sent.

One worker, a plain thread or a greenlet of the caller's hub, takes items out.  A batch goes when batch.num.messages are
together, or queue.buffering.max.ms after its first item.  Whatever hooks do with an item, its sender is told: one that
is left out fails with that reason; one that a hook makes anew has nobody to tell.

One hook of a callback handler at a time: what it makes of the items it is given, and what it leaves out.

The handlers of a producer in front of it: what send() is where there are some.

    send()  ->  before_enqueue, queue, the other hooks (handling.py)  ->  encoder, partition, bucket (putting.py)

A Delivery is made at once; its message, when it comes out of the queue, settles it.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, NamedTuple

from groundwork.crew import Crew
from groundwork.failures import Failures
from groundwork.hub import Hub, HubStopped, OwnThread, start_plain_thread
from kafkawire.errors import LocalError
from kafkawire.model import PartitionId
from producer.accumulator import Buckets, Putting
from producer.callbacks import Callbacks
from producer.config import ProducerConfig
from producer.delivery import Bucket, Called, Deliveries, Delivery, Flag, Listener
from producer.dispatcher import Feeder
from producer.errors import Closed, HandlerFailed, QueueFull, raised_by_users
from producer.handlers import CallbackHandler, EventHandler, Item, Promise, Way
from producer.plugins import Plugins, loaded_handler

log = logging.getLogger(__name__)

Encode = Callable[..., bytes | None]
PUT_S = 1.0  # within this the producer, once closed, refuses what it is just given
IDLE_S = 0.1  # least time between two time-outs of an empty queue


class _Mark:
    """In the queue: what came before it is to be sent at once; last: and nothing comes after it."""

    def __init__(self, passed: Flag, last: bool) -> None:
        self.passed, self.last = passed, last


class HandlerQueue:
    """way: into the producer; not_put(count, reason): so many will never get there; call: has listeners called; own:
    the producer's hub has a thread of its own; flag: see delivery.Bucket.

    waiting items are in the queue or in a batch; handled were dealt with by an event handler; dropped are those that
    failed before they were given to the producer.
    """

    def __init__(
        self,
        config: ProducerConfig,
        callbacks: CallbackHandler | None,
        events: EventHandler | None,
        way: Way,
        encode: Encode,
        not_put: Callable[[int, Exception], None],
        call: Callable[[Called], None],
        own: bool,
        flag: Callable[[], Flag],
    ) -> None:
        self.waiting = self.handled = self.dropped = 0
        self._config = config
        self._callbacks = callbacks or CallbackHandler()
        self._hooks = Hooks(self._callbacks, own)
        self._events = events
        self._way, self._encode = way, encode
        self._not_put, self._call, self._own, self._flag = not_put, call, own, flag
        self._items: deque[Item | _Mark] = deque()
        self._lock = threading.Lock()
        self._came, self._room = flag(), flag()
        self._running = self._closed = False
        self._theirs = raised_by_users(own)
        self._open: set[Promise] = set()  # of what was queued, until it is sent or told
        self._given_up = False  # whatever the worker still does changes nothing
        self._putting = False  # the producer is just given a message

    # ---- who sends -------------------------------------------------------------------------------------------------

    def put(self, item: Item) -> None:
        """Queue an item.  Raises QueueFull, Closed, and HandlerFailed for what before_enqueue raises."""
        queued = self._hooks.before(item)
        queued.promise = queued.promise or item.promise
        wait_s = self._config.enqueue_timeout_ms / 1000
        deadline = None if wait_s < 0 else monotonic() + wait_s
        while not self._put(queued):
            left = None if deadline is None else deadline - monotonic()
            if left is not None and left <= 0:
                self._hooks.after(queued, False)
                raise QueueFull(
                    f"{item.topic}: {self.waiting} messages are in the queue, and no room came within {wait_s:g} s "
                    "(queue.enqueue.timeout.ms); raise queue.buffering.max.messages"
                )
            self._room.wait(left)
        self._hooks.after(queued, True)

    def _put(self, item: Item) -> bool:
        with self._lock:
            if self._closed:
                raise Closed("the producer is closed")
            if self.waiting >= self._config.queue_messages:
                self._room.clear()
                return False
            self.waiting += 1
            self._items.append(item)
            if item.promise is not None:
                self._open.add(item.promise)
            self._start()
        self._came.set()
        return True

    def _start(self) -> None:
        """With the lock held."""
        if not self._running:
            self._running = True
            self._beside("handlers", self._live)

    def flush(self, timeout_s: float) -> bool:
        """Have what is queued given to the producer now; False: not within the time."""
        return self._marked(False, timeout_s)

    def close(self, timeout_s: float) -> bool:
        """Tell the handlers, then send what is queued; False: not within the time."""
        until = monotonic() + timeout_s
        told = self._flag()
        try:
            self._beside("closing handlers", lambda: self._tell_close(told))
        except RuntimeError:  # the interpreter ends, and starts no thread any more
            self._tell_close(told)
        if not told.wait(timeout_s):
            log.error("close of a handler did not return within %g s", timeout_s)
        return self._marked(True, max(0.0, until - monotonic()))

    def _tell_close(self, told: Flag) -> None:
        for handler in (self._callbacks, self._events):
            if handler is not None:
                try:
                    handler.close()
                except self._theirs as exc:
                    log.error("%s: close raised %s: %s", type(handler).__name__, type(exc).__name__, exc, exc_info=exc)
        told.set()

    def _beside(self, name: str, run: Callable[[], None]) -> None:
        """In a thread, or greenlet, of its own: a handler that never returns must not hold up who closes."""
        if self._own:
            start_plain_thread(run)
        else:
            Crew().spawn(name, run)

    def _marked(self, last: bool, timeout_s: float) -> bool:
        mark = _Mark(self._flag(), last)
        with self._lock:
            self._closed = self._closed or last
            self._items.append(mark)
            self._start()
        self._came.set()
        if last:
            self._room.set()  # who waits for room is refused now
        return bool(mark.passed.wait(timeout_s))

    def give_up(self, timeout_s: float) -> None:
        """What is not given to the producer yet fails; after close(timeout_s), and once the producer takes no more.

        That is also what a hook has that does not return: what becomes of it then, nobody hears.
        """
        until = monotonic() + PUT_S
        while self._putting and monotonic() < until:
            self._room.clear()
            self._room.wait(0.01)
        with self._lock:
            promises, count, at = list(self._open), self.waiting, self._hooks.at
            self._items.clear()
            self._open.clear()
            self._given_up = True
            self.waiting, self.dropped = 0, self.dropped + count
        self._came.set()
        self._room.set()
        if not count and not promises:
            return
        stuck = f"; {at} had not returned" if at else ""
        reason = Closed(f"the producer was closed, after {timeout_s:g} s, before this message left its queue{stuck}")
        self._not_put(count, reason)
        for promise in promises:
            self._call(promise.settle(None, reason) or [])

    # ---- the worker ------------------------------------------------------------------------------------------------

    def _live(self) -> None:
        batch: list[Item] = []
        last = False
        linger_s = self._config.linger_ms / 1000
        due = monotonic() + max(linger_s, IDLE_S)
        while not last and not self._given_up:
            found = self._take(due)
            if isinstance(found, _Mark):
                last = found.last
                self._go(batch, last)
                found.passed.set()
            else:
                if not batch and found is not None:
                    due = monotonic() + linger_s
                batch += self._dequeued(found)
                if found is not None and len(batch) < self._config.batch_messages:
                    continue
                self._go(batch, False)
            batch, due = [], monotonic() + max(linger_s, IDLE_S)

    def _take(self, due: float) -> Item | _Mark | None:
        """The next one; None: nothing more came until then."""
        while True:
            with self._lock:
                if self._items:
                    return self._items.popleft()
                if self._given_up:
                    return None
                self._came.clear()
            left = due - monotonic()
            if left <= 0:
                return None
            self._came.wait(left)

    def _dequeued(self, item: Item | None) -> list[Item]:
        came = [] if item is None else [item]
        return self._hooked("after_dequeuing", lambda: self._callbacks.after_dequeuing(item), came)

    def _go(self, batch: list[Item], last: bool) -> None:
        """A batch, through the rest of the hooks and out."""
        if last:
            batch = batch + self._hooked("last_batch_before_close", self._callbacks.last_batch_before_close, [])
        if not batch:
            return
        items = self._hooked("before_sending", lambda: self._callbacks.before_sending(list(batch)), batch)
        if self._events is not None:
            self._handled(self._events, items)
            return
        for item in items:
            self._sent(item)
        self._way.drain()

    def _hooked(self, name: str, call: Callable[[], list[Item]], came: list[Item]) -> list[Item]:
        """What a hook makes of the items that came to it; what it takes out, or fails for, is told."""
        made = self._hooks.made(name, call, came)
        self._fail(made.out, made.reason)
        with self._lock:  # what a hook made anew is on its way, too
            if self._given_up:
                return []
            self.waiting += len(made.items) - (len(came) - len(made.out))
        return made.items

    def _handled(self, events: EventHandler, items: list[Item]) -> None:
        self._hooks.at = "event.handler: handle"
        try:
            events.handle(items, self._way, self._encode)
        except self._theirs as exc:
            self._hooks.at = ""
            reason = HandlerFailed(f"event.handler: handle raised {type(exc).__name__}: {exc}")
            reason.__cause__ = exc
            self._fail(items, reason)
            return
        self._hooks.at = ""
        self._over(items, handled=True)
        for item in items:
            if item.promise is not None:
                self._call(item.promise.settle(None, None) or [])

    def _sent(self, item: Item) -> None:
        """To the producer, which counts it from there on."""
        with self._lock:
            if self._given_up:
                return
            self._putting, self._hooks.at = True, "serializer.class or partitioner.class"
        try:
            self._way.put_item(item)
        except self._theirs as exc:  # what send() would have raised to its caller
            self._putting, self._hooks.at = False, ""
            self._fail([item], exc if isinstance(exc, Exception) else HandlerFailed(f"an encoder raised {exc!r}"))
        else:
            self._over([item], put=True)

    def _fail(self, items: Iterable[Item], reason: Exception) -> None:
        failed = list(items)
        if not failed or not self._over(failed):
            return
        self._not_put(len(failed), reason)
        for item in failed:
            called = item.promise.settle(None, reason) if item.promise is not None else None
            if called is None:
                log.error("a message for topic %s that nobody waits for failed: %s", item.topic, reason)
            else:
                self._call(called)

    def _over(self, items: Sequence[Item], handled: bool = False, put: bool = False) -> bool:
        """They are not waiting any more: handled, put, or dropped.  False: give_up() has counted them already."""
        with self._lock:
            self._putting, self._hooks.at = False, ""
            if self._given_up:
                return False
            self.waiting -= len(items)
            self.handled += len(items) if handled else 0
            self.dropped += 0 if handled or put else len(items)
            self._open.difference_update(item.promise for item in items if item.promise is not None)
        self._room.set()
        return True


log = logging.getLogger(__name__)


class Made(NamedTuple):
    """items go on; out are those of the given ones that do not, for that reason."""

    items: list[Item]
    out: list[Item]
    reason: HandlerFailed


class Hooks:
    """at: where the worker is in somebody else's code; empty: it is not."""

    def __init__(self, callbacks: CallbackHandler, own: bool) -> None:
        self.at = ""
        self._theirs = raised_by_users(own)
        self._failures = Failures(log, "callback.handler: after_enqueue")
        self._callbacks = callbacks

    def before(self, item: Item) -> Item:
        """What is queued in place of item.  Raises HandlerFailed."""
        try:
            queued = self._callbacks.before_enqueue(item)
        except Exception as exc:  # a user's code may raise anything
            raise _failed("before_enqueue", exc) from exc
        if not isinstance(queued, Item):
            raise HandlerFailed(f"callback.handler: before_enqueue gave back a {type(queued).__name__}, not an Item")
        return queued

    def after(self, item: Item, added: bool) -> None:
        """What it raises changes nothing: the item is in the queue, or its sender hears QueueFull."""
        try:
            self._callbacks.after_enqueue(item, added)
        except Exception as exc:  # a user's code may raise anything
            self._failures.raised(exc, repr(item))

    def made(self, name: str, call: Callable[[], list[Item]], came: list[Item]) -> Made:
        """What the hook of that name makes of the items that came to it.

        One that keeps an item's promise has not taken it out, however it changed the rest.
        """
        self.at = f"callback.handler: {name}"
        try:
            items = call()
        except self._theirs as exc:
            return Made([], came, _failed(name, exc))
        finally:
            self.at = ""
        if not isinstance(items, list) or not all(isinstance(item, Item) for item in items):
            return Made([], came, HandlerFailed(f"callback.handler: {name} gave back no list of Item"))
        kept = {id(item.promise) for item in items}
        out = [item for item in came if id(item.promise) not in kept]
        return Made(items, out, HandlerFailed(f"callback.handler: {name} took it out"))


def _failed(hook: str, exc: BaseException) -> HandlerFailed:
    failed = HandlerFailed(f"callback.handler: {hook} raised {type(exc).__name__}: {exc}")
    failed.__cause__ = exc
    return failed


@dataclass(frozen=True, slots=True)
class WaysOut:
    """The parts of a producer behind the queue."""

    putting: Putting
    buckets: Buckets
    feeder: Feeder
    hub: Hub
    callbacks: Callbacks


class Front:
    """The queue of the handlers, and both ways out of it: into the buckets, or waited for by an event handler."""

    def __init__(
        self,
        config: ProducerConfig,
        callbacks: CallbackHandler | None,
        events: EventHandler | None,
        plugins: Plugins,
        out: WaysOut,
    ) -> None:
        self._out = out
        own = isinstance(out.hub, OwnThread)
        tell = (out.buckets.not_put, out.callbacks.call)
        self.queue = HandlerQueue(config, callbacks, events, self, plugins.encode, *tell, own, out.buckets.flag)

    def put(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition_key: Any,
        partition: PartitionId | None,
        listener: Listener | None,
    ) -> Delivery:
        """Into the queue.  Raises as HandlerQueue.put()."""
        return self._queued(Item(topic, value, key, partition, partition_key), listener)

    def put_values(self, topic: str, values: list[Any], deliveries: Deliveries, listener: Listener | None) -> None:
        """Messages without keys, likewise."""
        self.put_pairs(topic, values, [None] * len(values), deliveries, listener)

    def put_pairs(
        self, topic: str, values: list[Any], keys: list[Any], deliveries: Deliveries, listener: Listener | None
    ) -> None:
        """Messages with keys, likewise."""
        for value, key in zip(values, keys, strict=True):
            deliveries.add(*self._queued(Item(topic, value, key), listener).place)

    def _queued(self, item: Item, listener: Listener | None) -> Delivery:
        bucket = Bucket.of_one(self._out.buckets.lock, self._out.buckets.flag, item.topic, item.partition)
        item.promise = Promise(bucket, listener)
        delivery = item.promise.delivery
        self.queue.put(item)
        return delivery

    def put_item(self, item: Item) -> None:
        """See handlers.Way."""
        self._out.putting.put(
            item.topic, item.value, item.key, item.partition_key, item.partition, item.promise, patient=True
        )

    def drain(self) -> None:
        """See handlers.Way."""
        try:
            self._out.hub.post(self._out.feeder.drain)
        except HubStopped:
            pass  # the producer was closed, and has told of what it was not given in time

    def send(self, topic: str, value: Any, key: Any = None, partition: PartitionId | None = None) -> Delivery:
        """Past the queue, for an event handler: returns once it is stored, or raises why it is not."""
        delivery = self._out.putting.put(topic, value, key, None, partition, None, patient=True)
        self._out.hub.post(self._out.feeder.drain)
        delivery.result()
        return delivery


def handlers_of(
    config: ProducerConfig, callbacks: CallbackHandler | None, events: EventHandler | None
) -> tuple[CallbackHandler | None, EventHandler | None]:
    """Those given, else those that the options name, told their properties.  LocalError for what cannot be."""
    callbacks = callbacks or loaded_handler("callback.handler", config.callback_handler, CallbackHandler)
    events = events or loaded_handler("event.handler", config.event_handler, EventHandler)
    if config.sync and (callbacks is not None or events is not None):
        raise LocalError("callback and event handlers stand behind the queue: producer.type must be async for them")
    if callbacks is not None:
        callbacks.init(config.callback_handler_props)
    if events is not None:
        events.init(config.event_handler_props)
    return callbacks, events
