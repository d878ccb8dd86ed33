"""Audit of a member in ZooKeeper: compares its state with the nodes, each half minute and after a reconnect.

A watch reports every change, unless it was lost with its connection, or by a bug of ours.  The audit drops partitions
that are not ours any more, reports other differences, and starts a rebalance.  It deletes owner nodes that were left
over from us, and has deleted offsets written again.
"""

from __future__ import annotations

from collections.abc import Callable

from groundwork.tasks import Event, sleep
from kafkawire.errors import WireError
from kafkawire.model import TopicPartition
from zkconsumer.errors import ConsumerError
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.group.claimactions import ClaimActions
from zkconsumer.group.claims import Claims
from zkconsumer.group.groupreader import GroupReader
from zkconsumer.group.rebalance import ClaimingMember
from zkconsumer.group.verify import NO_OWNER, Finding, verify
from zkconsumer.member.member import Member
from zkconsumer.member.steps import Changed, Phase

AUDIT_S = 30.0


class Audit:
    """Audit of one member.  strategy: its assignment strategy; may_audit(): True while ZooKeeper can be asked;
    owner_lost(tp): drops a partition."""

    def __init__(
        self,
        *,
        member: Member,
        group: GroupReader,
        claims: Claims,
        actions: ClaimActions,
        strategy: str,
        may_audit: Callable[[], bool],
        owner_lost: Callable[[TopicPartition], None],
        on_event: OnEvent,
    ) -> None:
        self.due = Event()  # set for an audit of every node now
        self._member = member
        self._group = group
        self._claims = claims
        self._actions = actions
        self._strategy = strategy
        self._may_audit = may_audit
        self._owner_lost = owner_lost
        self._on_event = on_event
        self._last: set[Finding] = set()  # findings of the last audit
        self._reported: set[Finding] = set()

    def run(self) -> None:
        """Audit every half minute, and when it is due."""
        while True:
            asked = self.due.wait(timeout=AUDIT_S)
            self.due.clear()
            if self._may_audit():
                try:
                    self.audit(every_node=asked)
                except ConsumerError as e:
                    self._on_event(ConsumerEvent("session", f"audit postponed: {e}"))
                    sleep(1.0)
                    self.due.set()

    def audit(self, every_node: bool = True) -> None:
        """Compare ZooKeeper with our state: after every reconnect, since watches were lost, with every owner node; on
        the timer with a part of them in turn."""
        if not self._group.still_registered():
            self._member.note(Changed())
        some = list(self._claims.held) if every_node else self._claims.some_in_turn()
        for tp in self._claims.lost(some):
            self._owner_lost(tp)
        self._actions.rewrite_offsets(some)
        if self._member.state.phase in (Phase.SETTLED, Phase.WAITING):
            self._actions.sweep()
        if self._member.settled and self._needs_rebalance():
            self._member.note(Changed())

    def _needs_rebalance(self) -> bool:
        """True if ZooKeeper shows another assignment than our state, or a partition of ours without owner: a watch was
        missed.

        Findings about other members are reported when they occur twice in a row: they may be rebalancing.
        """
        turn = self._member.state.turn
        try:
            facts = self._group.facts(self._strategy)
        except WireError as e:
            self._on_event(ConsumerEvent("rebalance", f"the audit cannot read the group: {e}"))
            return False
        state = self._member.state
        assert isinstance(state, ClaimingMember)
        if facts is None or state.turn != turn:
            return False  # a rebalance began meanwhile, or is needed and says why
        found, assigned = facts
        if assigned != state.wanted:
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
