"""Member of a group that Kafka's coordinator keeps: events go to the step machine, its actions to the executor.

One greenlet takes events off a queue and feeds the machine (lifecycle); each action runs in a greenlet of its own, one
at a time, so that a fence is noticed while something is drained or waited for.  Another reads the topics again each
metadata.max.age.ms: new ones, and new partitions, make the group rebalance.
"""

from __future__ import annotations

from collections.abc import Mapping

from groundwork.plural import counted
from groundwork.tasks import Event, Queue, Task, TaskGroup, now
from kafkawire.errors import WireError
from kafkawire.znodes.group import Registration
from zkconsumer.errors import ConsumerError
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.kafkagroup import lifecycle
from zkconsumer.kafkagroup.executor import GroupExecutor
from zkconsumer.kafkagroup.lifecycle import (
    Action,
    Changed,
    Claim,
    Close,
    Do,
    Fenced,
    Happening,
    MemberState,
    Phase,
    Rebalancing,
    Report,
)
from zkconsumer.kafkagroup.topics import GroupTopics
from zkconsumer.options.config import ConsumerConfig


class GroupMember:
    """One member of a group, in the event loop."""

    def __init__(
        self,
        *,
        executor: GroupExecutor,
        topics: GroupTopics,
        tasks: TaskGroup,
        config: ConsumerConfig,
        on_event: OnEvent,
    ) -> None:
        self.rounds = 0  # rebalances, finished or given up for now
        self.first_round = Event()
        self.closed = Event()
        self._executor = executor
        self._topics = topics
        self._tasks = tasks
        self._config = config
        self._on_event = on_event
        self._state, self._first_actions = lifecycle.begin(config.rebalance_max_retries, config.backoff_ms)
        self._events: Queue[Happening | Report] = Queue()
        self._acting: Task | None = None
        self._short_since: float | None = None  # when an alarm said that not everything is read
        self._look = Event()  # read the topics now

    # events, from anywhere in the hub -----------------------------------------------------------------------------

    @property
    def settled(self) -> bool:
        """Reads all that is assigned to it, as far as it knows."""
        return self._state.settled

    @property
    def closing(self) -> bool:
        return self._state.closing

    @property
    def refusal(self) -> str:
        """Why the group does not take such a member; "": it does, as far as is known."""
        return self._executor.refusal

    @property
    def deleted(self) -> Mapping[str, str]:
        return self._executor.deleted

    def rebalancing(self, claim: Claim) -> None:
        self._events.put(Rebalancing(claim))

    def fenced(self, claim: Claim, forget: bool) -> None:
        """The claim, or the lease on it, is over: drop all partitions, at once."""
        for cursor in self._executor.owned.cursors.values():
            cursor.drop()
        self._events.put(Fenced(claim, forget))

    def subscribe(self, registration: Registration) -> None:
        """Subscribe to other topics: the group rebalances."""
        self._executor.resubscribed()
        self._topics.registration = registration
        self._events.put(Changed())

    def refresh(self) -> None:
        """Read the topics again soon."""
        self._look.set()

    def close(self) -> None:
        self._events.put(Close())

    # the loop -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until the member has left its group."""
        self._follow(self._state, self._first_actions)
        while not self.closed.is_set():
            self._follow(*lifecycle.step(self._state, self._events.get()))

    def _follow(self, state: MemberState, actions: list[Action]) -> None:
        before, self._state = self._state, state
        for action in actions:
            if action.do is Do.DROP:
                self._executor.drop(action.assignment)
            elif action.do is Do.ALARM:
                self._alarm(action.text)
            else:
                self._begin(action)
        if state.phase is not before.phase:
            self._entered(state)

    def _entered(self, state: MemberState) -> None:
        if state.phase is Phase.STABLE:
            self._on_event(ConsumerEvent("rebalance", self._summary(state)))
            self._complete()
        elif state.phase is Phase.WAITING:
            self._on_event(ConsumerEvent("rebalance", f"waiting to try again: {state.blocked}"))
        elif state.phase is Phase.CLOSED:
            self.closed.set()
        if state.phase in (Phase.STABLE, Phase.WAITING, Phase.CLOSED):
            self.rounds += 1
        if state.phase in (Phase.STABLE, Phase.CLOSED) or state.refused:
            self.first_round.set()

    def _alarm(self, text: str) -> None:
        """Report an outage once, however often it is retried."""
        self._on_event(ConsumerEvent("rebalance" if self._short_since is not None else "outage", text))
        self._short_since = now() if self._short_since is None else self._short_since

    def _complete(self) -> None:
        if self._short_since is not None:
            seconds, self._short_since = now() - self._short_since, None
            self._on_event(ConsumerEvent("over", f"the full share is read, {seconds:.1f} s after that was said"))

    def _summary(self, state: MemberState) -> str:
        topics = len({tp.topic for tp in state.running})
        read = f"reading {counted(len(state.running), 'partition')} of {counted(topics, 'topic')}, {state.claim}"
        if self._executor.led is None:
            return read
        return f"{read}; {counted(self._executor.members, 'member')} in the group, which this one leads"

    def _begin(self, action: Action) -> None:
        """Start the action the machine asked for; one that still runs is of an older turn and ends first."""
        if self._acting is not None and not self._acting.ended:
            self._acting.end()
        self._acting = self._tasks.spawn(f"group-{action.do.value.replace(' ', '-')}", self._act, action)

    def _act(self, action: Action) -> None:
        self._events.put(self._executor.do(action))

    # topics -------------------------------------------------------------------------------------------------------

    def watch_topics(self) -> None:
        """Read the topics again and again, while we are a member; what changed makes the group rebalance."""
        while True:
            self._look.wait(timeout=self._config.metadata_max_age_ms / 1000)
            self._look.clear()
            if self._state.phase is not Phase.STABLE:
                continue  # each join reads them
            turn = self._state.turn
            try:
                changed = self._executor.changed()
            except (ConsumerError, WireError):
                continue  # the leader finder reports brokers that are away
            if changed and self._state.turn == turn:
                self._on_event(ConsumerEvent("rebalance", "topics or partitions are others than were assigned"))
                self._events.put(Changed())
