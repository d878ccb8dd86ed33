"""Member of a group on Kafka's coordinator: turns heartbeats and topics into events for its step machine (lifecycle).

Fences drop at once the partitions that must not be delivered any more.  Topics are read again each metadata.max.age.ms:
new ones, and new partitions, make the group rebalance.
"""

from __future__ import annotations

from collections.abc import Mapping

from groundwork.sentences import counted
from groundwork.tasks import Event, TaskGroup
from kafkawire.errors import WireError
from kafkawire.znodes.group import Registration
from zkconsumer.errors import ConsumerError
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.group.steploop import StepLoop
from zkconsumer.kafkagroup import lifecycle
from zkconsumer.kafkagroup.executor import GroupExecutor
from zkconsumer.kafkagroup.lifecycle import (
    Action,
    Changed,
    Claim,
    Close,
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
        self._executor = executor
        self._topics = topics
        self._config = config
        self._on_event = on_event
        self._loop = StepLoop[MemberState, Action, Happening | Report](
            lifecycle.begin(config.alarm_after, config.backoff_ms),
            lifecycle.step,
            executor=executor,
            entered=self._entered,
            tasks=tasks,
            on_event=on_event,
            name="group",
        )
        self.closed, self.run = self._loop.closed, self._loop.run  # run: returns when the member has left its group
        self._look = Event()  # set to read the topics now

    # events, from anywhere in the hub -----------------------------------------------------------------------------

    @property
    def settled(self) -> bool:
        """True if it reads everything that is assigned to it, as far as it knows."""
        return self._loop.state.settled

    @property
    def closing(self) -> bool:
        return self._loop.state.closing

    @property
    def refusal(self) -> str:
        """Return why the group refuses this member, or "" if it does not, as far as known."""
        return self._executor.refusal

    @property
    def deleted(self) -> Mapping[str, str]:
        return self._executor.deleted

    def rebalancing(self, claim: Claim) -> None:
        self._loop.note(Rebalancing(claim))

    def fenced(self, claim: Claim, forget: bool) -> None:
        """Drop all partitions at once, because the claim, or the lease on it, is over."""
        for cursor in self._executor.owned.cursors.values():
            cursor.drop()
        self._loop.note(Fenced(claim, forget))

    def subscribe(self, registration: Registration) -> None:
        """Subscribe to other topics: the group rebalances."""
        self._executor.resubscribed()
        self._topics.registration = registration
        self._loop.note(Changed())

    def refresh(self) -> None:
        """Read the topics again soon."""
        self._look.set()

    def close(self) -> None:
        self._loop.note(Close())

    def _entered(self, state: MemberState) -> None:
        if state.phase is Phase.STABLE:
            self._on_event(ConsumerEvent("rebalance", self._summary(state)))
            self._loop.complete()
        elif state.phase is Phase.WAITING:
            self._on_event(ConsumerEvent("rebalance", f"waiting to try again: {state.blocked}"))
        if state.phase in (Phase.STABLE, Phase.WAITING, Phase.CLOSED):
            self.rounds += 1
        if state.phase in (Phase.STABLE, Phase.CLOSED) or state.refused:
            self.first_round.set()

    def _summary(self, state: MemberState) -> str:
        topics = len({tp.topic for tp in state.running})
        read = f"reading {counted(len(state.running), 'partition')} of {counted(topics, 'topic')}, {state.claim}"
        if self._executor.led is None:
            return read
        return f"{read}; {counted(self._executor.members, 'member')} in the group, which this one leads"

    # topics -------------------------------------------------------------------------------------------------------

    def watch_topics(self) -> None:
        """Read the topics again regularly, while we are a member; changes make the group rebalance."""
        while True:
            self._look.wait(timeout=self._config.metadata_max_age_ms / 1000)
            self._look.clear()
            if self._loop.state.phase is not Phase.STABLE:
                continue  # each join reads them
            turn = self._loop.state.turn
            try:
                changed = self._executor.changed()
            except (ConsumerError, WireError):
                continue  # the leader finder reports unreachable brokers
            if changed and self._loop.state.turn == turn:
                self._on_event(ConsumerEvent("rebalance", "topics or partitions have changed since they were assigned"))
                self._loop.note(Changed())
