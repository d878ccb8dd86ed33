"""Runs the step machine of a group member: events go in, the actions that come out go to an executor, one at a time.

    loop = StepLoop(machine.begin(...), machine.step, ...)
    loop.note(event)        from anywhere in the hub
    loop.run()              in a task of its own, until loop.closed

One greenlet takes events off a queue and feeds the machine.  Each action runs in a greenlet of its own, so that a lost
session or a fence is noticed while something is drained or waited for; its report goes back as an event.

Both kinds of member run on it: those in ZooKeeper (member.py) and those of Kafka's coordinator (kafkagroup/member.py).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from groundwork.tasks import Event, Queue, Task, TaskGroup, now
from kafkawire.model import TopicPartition
from zkconsumer.events import ConsumerEvent, OnEvent

DROP, ALARM = "DROP", "ALARM"  # what every machine calls the two actions that run at once and report nothing


class State(Protocol):
    """phase: what the machine waits for.  It is closed in the phase called CLOSED."""

    @property
    def phase(self) -> enum.Enum: ...


class Action(Protocol):
    """do: the name tells DROP and ALARM from the others.  text, alarm: of an ALARM, and the kind of its event."""

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
E = TypeVar("E")  # events, reports of actions among them
A_in = TypeVar("A_in", contravariant=True)
E_out = TypeVar("E_out", covariant=True)


class Executor(Protocol[A_in, E_out]):
    def do(self, action: A_in, /) -> E_out:
        """Runs an action; its report."""

    def drop(self, assignment: Mapping[TopicPartition, str], /) -> None:
        """Stop an assignment at once."""


class StepLoop(Generic[S, A, E]):
    """One machine, in the event loop.

    first: its first state and actions.  step(state, event): the next ones.  entered(state): called in each new phase.
    name: what tasks are called.
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
        self._short_since: float | None = None  # when an alarm said that not everything is read

    def note(self, event: E) -> None:
        self._events.put(event)

    def run(self) -> None:
        """Run until the machine is closed."""
        self._follow(self.state, self._first_actions)
        while not self.closed.is_set():
            self._follow(*self._step(self.state, self._events.get()))

    def complete(self) -> None:
        """All that is assigned is read: an outage is over, if there was one."""
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
        """Start the action the machine asked for; one that still runs is of an older turn and ends first."""
        if self._acting is not None and not self._acting.ended:
            self._acting.end()
        self._acting = self._tasks.spawn(f"{self._name}-{action.do.value.replace(' ', '-')}", self._act, action)

    def _act(self, action: A) -> None:
        self.note(self._executor.do(action))
