"""Member of a group: the loop in which events come in, and an executor runs the resulting actions, one at a time.

    member = Member(state, ...)
    member.note(event)        from anywhere in the event loop
    member.run()              in a task of its own, until the member has left its group

One greenlet takes events off a queue and feeds the machine.  Each action runs in a greenlet of its own, so that a lost
session or a fence is noticed during a drain or a wait; its report comes back as an event.
"""

from __future__ import annotations

from groundwork.sentences import counted
from groundwork.tasks import Event, Queue, Task, TaskGroup, now
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.member import machine
from zkconsumer.member.executor import Executor
from zkconsumer.member.machine import MemberState
from zkconsumer.member.steps import Action, Do, Happening, Phase, Report


class Member:
    """One member of a group, in the event loop.  state: the first state, which has the rules of its kind of group."""

    def __init__(self, state: MemberState, *, executor: Executor, tasks: TaskGroup, on_event: OnEvent) -> None:
        self.rounds = 0  # rebalances, finished or given up for now
        self.first_round = Event()  # set when the program need not wait any longer for a first assignment
        self.closed = Event()
        self.state, self._first_actions = machine.begin(state)
        self._executor = executor
        self._tasks = tasks
        self._on_event = on_event
        self._events: Queue[Report | Happening] = Queue()
        self._acting: Task | None = None
        self._short_since: float | None = None  # time of the alarm that not everything is read

    @property
    def settled(self) -> bool:
        """True if the member reads its whole assignment, and knows of no change."""
        return self.state.settled

    @property
    def closing(self) -> bool:
        return self.state.closing

    @property
    def refusal(self) -> str:
        """Return why the group refuses this member, or "" if it does not, as far as known."""
        return self.state.blocked if self.state.refused else ""

    def note(self, event: Report | Happening) -> None:
        self._events.put(event)

    def lost(self, event: Happening) -> None:
        """Drop all partitions at once, because the session, the claim or the lease is over."""
        for cursor in self._executor.owned.cursors.values():
            cursor.drop()
        self.note(event)

    def run(self) -> None:
        """Run until the member has left its group."""
        self._follow(self.state, self._first_actions)
        while not self.closed.is_set():
            self._follow(*machine.step(self.state, self._events.get()))

    def _follow(self, state: MemberState, actions: list[Action]) -> None:
        before, self.state = self.state, state
        for action in actions:
            if action.do is Do.DROP:
                self._executor.drop(action.assignment)
            elif action.do is Do.ALARM:
                self._alarm(action.text, action.alarm)
            else:
                self._begin(action)
        if state.phase is not before.phase:
            self._entered(state)

    def _alarm(self, text: str, kind: str) -> None:
        """Report an outage, or a refusal, once, however often it is retried."""
        self._on_event(ConsumerEvent("rebalance" if self._short_since is not None else kind, text))
        self._short_since = now() if self._short_since is None else self._short_since

    def _begin(self, action: Action) -> None:
        """Start an action.  An action that still runs belongs to an older turn, and is ended first."""
        if self._acting is not None and not self._acting.ended:
            self._acting.end()
        self._acting = self._tasks.spawn(f"member-{action.do.value.replace(' ', '-')}", self._act, action)

    def _act(self, action: Action) -> None:
        self.note(self._executor.do(action))

    def _entered(self, state: MemberState) -> None:
        if state.phase is Phase.CLOSED:
            self.closed.set()
        elif state.phase is Phase.SETTLED:
            topics = len({tp.topic for tp in state.running})
            read = f"{counted(len(state.running), 'partition')} of {counted(topics, 'topic')}"
            self._on_event(ConsumerEvent("rebalance", f"reading {read}{self._executor.group.as_seen()}"))
            self._report_full()
        elif state.phase is Phase.WAITING:
            self._on_event(ConsumerEvent("rebalance", f"waiting to try again: {state.blocked}"))
        if state.phase in (Phase.SETTLED, Phase.WAITING, Phase.CLOSED):
            self.rounds += 1
        if state.tried:
            self.first_round.set()

    def _report_full(self) -> None:
        """Report the end of an outage, if there was one: everything assigned is read."""
        if self._short_since is not None:
            seconds, self._short_since = now() - self._short_since, None
            self._on_event(ConsumerEvent("over", f"the full share is read, {seconds:.1f} s after the alarm"))
