"""Loop of a group member's step machine: events go in, and an executor runs the resulting actions, one at a time.

    loop = StepLoop(machine.begin(...), machine.step, ...)
    loop.note(event)        from anywhere in the hub
    loop.run()              in a task of its own, until loop.closed

One greenlet takes events off a queue and feeds the machine.  Each action runs in a greenlet of its own, so that a lost
session or a fence is noticed during a drain or a wait; its report comes back as an event.

Both kinds of member use it: those in ZooKeeper (member.py) and those on Kafka's coordinator (kafkagroup/member.py).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from groundwork.tasks import Event, Queue, Task, TaskGroup, now
from kafkawire.model import TopicPartition
from zkconsumer.events import ConsumerEvent, OnEvent

DROP, ALARM = "DROP", "ALARM"  # names, in every machine, of the two actions that run at once and report nothing


class State(Protocol):
    """State of a machine.  phase: what the machine waits for; it is closed in the phase called CLOSED."""

    @property
    def phase(self) -> enum.Enum: ...


class Action(Protocol):
    """Action of a machine.  do: its name, such as DROP and ALARM.  text, alarm: text and event kind of an ALARM."""

    @property
    def do(self) -> enum.Enum: ...

    @property
    def assignment(self) -> Mapping[TopicPartition, str]: ...

    @property
    def text(self) -> str: ...

    @property
    def alarm(self) -> str: ...


S = TypeVar("S", bound=State)
A = TypeVar("A", bound=Action)
E = TypeVar("E")  # events, including reports of actions
A_in = TypeVar("A_in", contravariant=True)
E_out = TypeVar("E_out", covariant=True)


class Executor(Protocol[A_in, E_out]):
    def do(self, action: A_in, /) -> E_out:
        """Run an action, and return its report."""

    def drop(self, assignment: Mapping[TopicPartition, str], /) -> None:
        """Stop an assignment at once."""


class StepLoop(Generic[S, A, E]):
    """Loop of one machine, in the event loop.

    first: its first state and actions.  step(state, event): returns the next ones.  entered(state): called in each new
    phase. name: name of its tasks.
    """

    def __init__(
        self,
        first: tuple[S, Sequence[A]],
        step: Callable[[S, E], tuple[S, Sequence[A]]],
        *,
        executor: Executor[A, E],
        entered: Callable[[S], None],
        tasks: TaskGroup,
        on_event: OnEvent,
        name: str,
    ) -> None:
        self.state, self._first_actions = first
        self.closed = Event()
        self._step = step
        self._executor = executor
        self._entered = entered
        self._tasks = tasks
        self._on_event = on_event
        self._name = name
        self._events: Queue[E] = Queue()
        self._acting: Task | None = None
        self._short_since: float | None = None  # time of the alarm that not everything is read

    def note(self, event: E) -> None:
        self._events.put(event)

    def run(self) -> None:
        """Run until the machine is closed."""
        self._follow(self.state, self._first_actions)
        while not self.closed.is_set():
            self._follow(*self._step(self.state, self._events.get()))

    def complete(self) -> None:
        """Report the end of an outage, if there was one: everything assigned is read."""
        if self._short_since is not None:
            seconds, self._short_since = now() - self._short_since, None
            self._on_event(ConsumerEvent("over", f"the full share is read, {seconds:.1f} s after that was said"))

    def _follow(self, state: S, actions: Sequence[A]) -> None:
        before, self.state = self.state, state
        for action in actions:
            if action.do.name == DROP:
                self._executor.drop(action.assignment)
            elif action.do.name == ALARM:
                self._alarm(action.text, action.alarm)
            else:
                self._begin(action)
        if state.phase is not before.phase:
            if state.phase.name == "CLOSED":
                self.closed.set()
            self._entered(state)

    def _alarm(self, text: str, kind: str) -> None:
        """Report an outage, or a refusal, once, however often it is retried."""
        self._on_event(ConsumerEvent("rebalance" if self._short_since is not None else kind, text))
        self._short_since = now() if self._short_since is None else self._short_since

    def _begin(self, action: A) -> None:
        """Start the action that the machine requested; one that still runs belongs to an older turn and is
        ended first."""
        if self._acting is not None and not self._acting.ended:
            self._acting.end()
        self._acting = self._tasks.spawn(f"{self._name}-{action.do.value.replace(' ', '-')}", self._act, action)

    def _act(self, action: A) -> None:
        self.note(self._executor.do(action))
