"""Rebalance listener: partitions assigned and revoked, offset out of range, errors, session state.

    ConsumerListener   base class for a program's listener
    ListenerCalls      how the engine calls it: in a greenlet (the hub is the caller's) or a plain thread (the hub has a
                       thread of its own), for at most listener.timeout.ms; it never raises there

A call that takes longer is abandoned: it still runs, the engine does not wait, and its result does not count.  An error
that a listener raises is logged, sent as an event of kind "listener", kept, and raised as ListenerFailed at the
program's next call of a stream or of a method of the connector that does something.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar

from groundwork.hub import Hub, HubStopped, OwnThread
from groundwork.tasks import Event, TaskGroup, now, sleep
from groundwork.threads import NoThread, starting_threads
from kafkawire.model import TopicPartition
from zkconsumer.errors import ListenerFailed
from zkconsumer.events import ConsumerEvent, OnEvent, log_event

__all__ = ["NO_LISTENER", "ConsumerListener", "ListenerCalls", "ListenerFailed", "Listeners"]

log = logging.getLogger(__name__)

AGAIN_S = 0.05  # pause before retrying to create a thread
KEPT = 16  # failures that wait for the program's next call; beyond that, the oldest are only logged
Finish = Callable[["_Call"], None]
Start = Callable[["_Call", Finish], object]  # runs the call elsewhere, then finish(call) in the event loop

_in_listener: ContextVar[bool] = ContextVar("in_listener", default=False)


class ConsumerListener:
    """Base class of listeners.  Each method may wait, use the connector, and take listener.timeout.ms."""

    def before_release(self, partitions: Sequence[TopicPartition]) -> None:
        """Called when partitions are revoked: nothing more of them is fetched or delivered.  Delivered messages may
        still be done (for rebalance.drain.ms, including this call).  Then they are committed and released."""

    def before_start(self, assignment: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, int] | None:
        """Called when partitions are assigned: claimed, each with the thread id that reads it, and not fetched yet.
        Return offsets to start at instead of the committed ones, for any of them."""

    def out_of_range(self, tp: TopicPartition, requested: int, earliest: int, latest: int) -> int | None:
        """Called when `requested` is outside the log.  Return the offset to resume at, from earliest to latest, or None
        for auto.offset.reset."""

    def error(self, error: Exception) -> None:
        """Called when the connector died (a TaskDied, its reason as __cause__), or commits begin to fail."""

    def session_state(self, state: str) -> None:
        """Called when the session with ZooKeeper becomes connected, suspended or lost; one call at a time, in order."""


class Listeners(ConsumerListener):
    """Several listeners as one, called in order: the first result that is not None counts."""

    def __init__(self, *listeners: ConsumerListener) -> None:
        self._listeners = listeners

    def before_release(self, partitions: Sequence[TopicPartition]) -> None:
        for listener in self._listeners:
            listener.before_release(partitions)

    def before_start(self, assignment: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, int] | None:
        positions: dict[TopicPartition, int] = {}
        for listener in self._listeners:
            positions = {**(listener.before_start(assignment) or {}), **positions}
        return positions or None

    def out_of_range(self, tp: TopicPartition, requested: int, earliest: int, latest: int) -> int | None:
        answers = (listener.out_of_range(tp, requested, earliest, latest) for listener in self._listeners)
        return next((answer for answer in answers if answer is not None), None)

    def error(self, error: Exception) -> None:
        for listener in self._listeners:
            listener.error(error)

    def session_state(self, state: str) -> None:
        for listener in self._listeners:
            listener.session_state(state)


class _Call:
    """One call of a method of the listener."""

    __slots__ = ("abandoned", "args", "done", "error", "method", "name", "value")

    def __init__(self, name: str, method: Callable[..., object], args: tuple[object, ...]) -> None:
        self.name = name
        self.method = method
        self.args = args
        self.value: object = None
        self.error: BaseException | None = None
        self.done = Event()
        self.abandoned = False

    def run(self) -> None:
        _in_listener.set(True)  # for this greenlet or thread only
        try:
            self.value = self.method(*self.args)
        except Exception as e:
            self.error = e


class ListenerCalls:
    """Calls of the listener by the engine, in its event loop.

    before_release, before_start and out_of_range wait for the listener, in the calling greenlet; error and
    session_state return at once.  For tasks and start, see for_hub; a listener that overrides nothing needs neither.
    on_failed(failure) passes a failure on to the streams; each raises it once.
    """

    def __init__(
        self,
        listener: ConsumerListener,
        *,
        timeout_ms: int = 3000,
        on_event: OnEvent = log_event,
        tasks: TaskGroup | None = None,
        start: Start | None = None,
        on_failed: Callable[[ListenerFailed], None] = lambda failed: None,
    ) -> None:
        self._on_failed = on_failed
        self._listener = listener
        self._timeout_ms = timeout_ms
        self._on_event = on_event
        self._tasks = tasks
        self._start = start
        self._kept: deque[ListenerFailed] = deque(maxlen=KEPT)
        self._notifications: deque[tuple[str, object]] = deque()
        self._notifying = False
        self._all_notified = Event()

    @classmethod
    def for_hub(
        cls,
        listener: ConsumerListener,
        *,
        timeout_ms: int,
        on_event: OnEvent,
        tasks: TaskGroup,
        hub: Hub,
        on_failed: Callable[[ListenerFailed], None],
    ) -> ListenerCalls:
        """Return calls that run in threads if the hub has its own thread, else in greenlets of tasks."""
        start = _in_thread(hub) if isinstance(hub, OwnThread) else _in_greenlet(tasks)
        return cls(listener, timeout_ms=timeout_ms, on_event=on_event, tasks=tasks, start=start, on_failed=on_failed)

    # calls of the engine -----------------------------------------------------------------------------------------

    def before_release(self, partitions: Sequence[TopicPartition]) -> None:
        self._call("before_release", tuple(partitions))

    def before_start(self, assignment: Mapping[TopicPartition, str]) -> Mapping[TopicPartition, int] | None:
        """Return offsets for partitions of the assignment; None if the listener gives none, failed or took too long."""
        call = self._call("before_start", dict(assignment))
        if call is None or call.value is None:
            return None
        wrong = _wrong_positions(call.value, assignment)
        if wrong:
            self._failed("before_start", ValueError(wrong))
            return None
        assert isinstance(call.value, Mapping)
        return dict(call.value)

    def out_of_range(self, tp: TopicPartition, requested: int, earliest: int, latest: int) -> int | None:
        """Return an offset from earliest to latest; None if the policy decides."""
        call = self._call("out_of_range", tp, requested, earliest, latest)
        if call is None or call.value is None:
            return None
        if not _is_position(call.value) or not earliest <= call.value <= latest:  # type: ignore[operator]
            text = f"{call.value!r} returned for {tp} at {requested}: it must be a position from {earliest} to {latest}"
            self._failed("out_of_range", ValueError(text))
            return None
        return call.value  # type: ignore[return-value]

    def error(self, error: Exception) -> None:
        self._notify("error", error)

    def session_state(self, state: str) -> None:
        self._notify("session_state", state)

    def shorten(self, timeout_ms: int) -> None:
        """Limit later waits, because the shutdown has begun."""
        self._timeout_ms = min(self._timeout_ms, timeout_ms)

    def close(self, timeout_s: float) -> None:
        """Wait for the notifications so far, at most that long; afterwards the listener is not called."""
        if self._notifying:
            self._all_notified.wait(timeout=timeout_s)
        self._tasks = self._start = None

    # calls of the program -----------------------------------------------------------------------------------------

    def raise_failure(self) -> None:
        """Raise the oldest failure that was not raised yet, if any; from any thread, never inside a listener."""
        while self._kept and not _in_listener.get():
            try:
                failed = self._kept.popleft()
            except IndexError:
                return  # another thread was faster
            if failed.__traceback__ is None:  # otherwise a stream has raised it
                raise failed

    # inside -------------------------------------------------------------------------------------------------------

    def _overridden(self, name: str) -> bool:
        method = getattr(self._listener, name)
        return getattr(method, "__func__", method) is not getattr(ConsumerListener, name)

    def _call(self, name: str, *args: object) -> _Call | None:
        """Run one method and wait for it.  Return None if it is not overridden, failed, or took too long."""
        if self._start is None or not self._overridden(name):
            return None
        call = _Call(name, getattr(self._listener, name), args)
        try:
            self._begin(self._start, call)
        except (RuntimeError, NoThread) as e:  # the interpreter ends, or no thread can be made
            self._failed(name, e)
            return None
        if not call.done.wait(timeout=self._timeout_ms / 1000):
            call.abandoned = True
            text = f"{name} takes longer than listener.timeout.ms ({self._timeout_ms} ms); continuing without it"
            self._on_event(ConsumerEvent("listener", text))
            return None
        return call if call.error is None else None

    def _begin(self, start: Start, call: _Call) -> None:
        """Start a call; if no thread can be created, retry for listener.timeout.ms."""
        until = now() + self._timeout_ms / 1000
        while True:
            try:
                start(call, self._finished)
                return
            except NoThread:
                if now() + AGAIN_S > until:
                    raise
            sleep(AGAIN_S)

    def _finished(self, call: _Call) -> None:
        """Finish a call in the event loop, possibly long after the call was abandoned."""
        if call.error is not None:
            self._failed(call.name, call.error)
        elif call.abandoned:
            log.info("listener: %s has ended, too late to count", call.name)
        call.done.set()

    def event_failed(self, error: Exception) -> None:
        """Report that the program's on_event raised, without calling it again."""
        self._failed("on_event", error, log_event)

    def _failed(self, name: str, error: BaseException, on_event: OnEvent | None = None) -> None:
        failed = ListenerFailed(name, error)
        log.info("%s", failed, exc_info=error)  # with the traceback; the event only has the failure
        (on_event or self._on_event)(ConsumerEvent("listener", str(failed)))
        self._kept.append(failed)
        self._on_failed(failed)

    def _notify(self, name: str, what: object) -> None:
        if self._tasks is None or not self._overridden(name):
            return
        self._notifications.append((name, what))
        if not self._notifying:
            self._notifying = True
            self._all_notified.clear()
            self._tasks.spawn("listener-notifications", self._notify_all)

    def _notify_all(self) -> None:
        while self._notifications:
            name, what = self._notifications.popleft()
            self._call(name, what)
        self._notifying = False
        self._all_notified.set()


def _in_greenlet(tasks: TaskGroup) -> Start:
    def run(call: _Call, finish: Finish) -> None:
        call.run()
        finish(call)

    return lambda call, finish: tasks.spawn(f"listener-{call.name}", run, call, finish)


def _in_thread(hub: Hub) -> Start:
    def run(call: _Call, finish: Finish) -> None:
        call.run()
        try:
            hub.post(finish, call)
        except HubStopped:
            if call.error is not None:
                log.warning("listener %s failed after the connector had ended: %s", call.name, call.error)

    def start(call: _Call, finish: Finish) -> None:
        with starting_threads():
            threading.Thread(target=run, args=(call, finish), name=f"listener-{call.name}", daemon=True).start()

    return start


def _is_position(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _wrong_positions(value: object, assignment: Mapping[TopicPartition, str]) -> str:
    """Return what is wrong with the result of before_start, or ""."""
    if not isinstance(value, Mapping):
        return f"it returned {value!r}: it must return a mapping of partitions to offsets, or None"
    for tp, position in value.items():
        if tp not in assignment:
            return f"it returned a position for {tp}, which is not being assigned"
        if not _is_position(position):
            return f"it returned {position!r} for {tp}: it must be a whole number of at least 0"
    return ""


NO_LISTENER = ListenerCalls(ConsumerListener())
