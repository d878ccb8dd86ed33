"""Member of a group in ZooKeeper: turns watches and session callbacks into events for its step machine (rebalance).

The callbacks only queue events (steploop), and drop partitions that must not be delivered any more.

An audit compares ZooKeeper with the member's state, each half minute and after a reconnect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from groundwork.sentences import counted
from groundwork.tasks import Event, TaskGroup
from kafkawire.errors import WireError
from kafkawire.model import TopicPartition
from kafkawire.znodes.group import Registration
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.group import rebalance, steps
from zkconsumer.group.claims import Claims
from zkconsumer.group.executor import RebalanceExecutor
from zkconsumer.group.groupreader import GroupReader
from zkconsumer.group.membership import GroupChange
from zkconsumer.group.memberstate import MemberState
from zkconsumer.group.steploop import StepLoop
from zkconsumer.group.steps import Action, Phase, Report
from zkconsumer.group.verify import NO_OWNER, Finding, verify
from zkconsumer.options.config import ConsumerConfig


class Audit:
    """Comparison of ZooKeeper with the member's state; reports, and changes nothing.  strategy: the assignment
    strategy."""

    def __init__(self, group: GroupReader, strategy: str, on_event: OnEvent) -> None:
        self._group = group
        self._strategy = strategy
        self._on_event = on_event
        self._last: set[Finding] = set()  # findings of the last audit
        self._reported: set[Finding] = set()

    def needs_rebalance(self, state: Callable[[], MemberState]) -> bool:
        """True if ZooKeeper shows another assignment than state(), or a partition of ours without owner: a watch was
        missed.

        Findings about other members are reported when they occur twice in a row: they may be rebalancing.
        """
        turn = state().turn
        try:
            facts = self._group.facts(self._strategy)
        except WireError as e:
            self._on_event(ConsumerEvent("rebalance", f"the audit cannot read the group: {e}"))
            return False
        if facts is None or state().turn != turn:
            return False  # a rebalance began meanwhile, or is needed and says why
        found, assigned = facts
        if assigned != state().wanted:
            self._on_event(ConsumerEvent("rebalance", "the audit finds another assignment for this member than it has"))
            return True
        findings = {one for one in verify(found, self._strategy, self._group.relaxed) if one.fault}
        self._report(findings)
        return any(one.kind == NO_OWNER and one.tp in assigned for one in findings)

    def _report(self, findings: set[Finding]) -> None:
        self._reported &= findings
        for one in sorted(findings & self._last - self._reported, key=str):
            self._reported.add(one)
            self._on_event(ConsumerEvent("claim", f"the audit finds: {one}", one.tp))
        self._last = findings


class Member:
    """One member of a group, in the event loop.  executor: runs its actions, on the same group, claims and cursors."""

    def __init__(
        self,
        *,
        executor: RebalanceExecutor,
        group: GroupReader,
        claims: Claims,
        tasks: TaskGroup,
        config: ConsumerConfig,
        on_event: OnEvent,
    ) -> None:
        self.cursors = executor.cursors
        self.rounds = 0  # rebalances, finished or given up for now
        self.first_round = Event()
        self.audit_due = Event()
        self._executor = executor
        self._group = group
        self._claims = claims
        self._on_event = on_event
        self._loop = StepLoop[MemberState, Action, steps.Happening | Report](
            rebalance.begin(config.alarm_after, config.backoff_ms),
            rebalance.step,
            executor=executor,
            entered=self._entered,
            tasks=tasks,
            on_event=on_event,
            name="rebalance",
        )
        self.closed, self.note = self._loop.closed, self._loop.note
        self._audit = Audit(group, config.assignment_strategy, on_event)

    # events, from anywhere in the hub -----------------------------------------------------------------------------

    @property
    def settled(self) -> bool:
        """True if it reads everything that is assigned to it, as far as it knows."""
        return self._loop.state.settled

    @property
    def deleted(self) -> Mapping[str, str]:
        """Return deleted topics that were read, with a sentence each; a new topic of the same name removes the
        entry."""
        return self._executor.deleted

    @property
    def closing(self) -> bool:
        return self._loop.state.closing

    def changed(self, what: GroupChange) -> None:
        self.note(steps.Changed(what))

    def subscribe(self, registration: Registration) -> None:
        """Subscribe to other topics: the group rebalances; partitions that stay assigned here are read on."""
        self._group.subscribe(registration)
        self._executor.resubscribed()
        self.changed(GroupChange.IDS)

    def owner_lost(self, tp: TopicPartition) -> None:
        """Drop a partition whose owner node is not ours any more: deliver no further message of it, and commit
        nothing."""
        cursor = self.cursors.get(tp)
        if cursor is not None:
            cursor.drop()
        self._on_event(
            ConsumerEvent("claim", f"{tp}: our owner node was deleted or changed; dropping the partition", tp)
        )
        self.note(steps.OwnerLost(frozenset([tp])))

    def session_lost(self) -> None:
        """Drop all partitions, because the session, or the lease on it, is over."""
        for cursor in self.cursors.values():
            cursor.drop()
        self._claims.forget()
        self.note(steps.SessionLost())

    def reconnected(self) -> None:
        """Read the group again after a reconnect, perhaps to the same session: all watches are gone."""
        self.changed(GroupChange.SESSION)
        self.audit_due.set()

    def freed(self) -> None:
        self._executor.freed.set()

    def close(self) -> None:
        self.note(steps.Close())

    # run -------------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until the member has left its group.  Raises FilterUnknown if that was the reason, after everything was
        released."""
        self._loop.run()
        if self._executor.unrecoverable is not None:
            raise self._executor.unrecoverable

    def _entered(self, state: MemberState) -> None:
        if state.phase is Phase.SETTLED:
            self._on_event(ConsumerEvent("rebalance", self._summary(state)))
            self._loop.complete()
        elif state.phase is Phase.WAITING:
            self._on_event(ConsumerEvent("rebalance", f"waiting to try again: {state.blocked}"))
        if state.phase in (Phase.SETTLED, Phase.WAITING, Phase.CLOSED):
            self.rounds += 1
            self.first_round.set()

    def _summary(self, state: MemberState) -> str:
        topics = len({tp.topic for tp in state.owned})
        read = f"{counted(len(state.owned), 'partition')} of {counted(topics, 'topic')}"
        return f"reading {read}; {counted(self._group.members, 'member')} in the group"

    # upkeep -------------------------------------------------------------------------------------------------------

    def audit(self, every_node: bool = True) -> None:
        """Compare ZooKeeper with our state: after every reconnect, since watches were lost, with every owner node; on
        the timer with a part of them in turn."""
        if not self._group.still_registered():
            self.changed(GroupChange.SESSION)
        some = list(self._claims.held) if every_node else self._claims.some_in_turn()
        for tp in self._claims.lost(some):
            self.owner_lost(tp)
        self._executor.rewrite_offsets(some)
        if self._loop.state.phase in (Phase.SETTLED, Phase.WAITING):
            self._executor.sweep()
        if self.settled and self._audit.needs_rebalance(lambda: self._loop.state):
            self.changed(GroupChange.IDS)
