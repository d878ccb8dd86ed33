"""The group as ZooKeeper has it, held against a member's picture of it.  Looks and tells; changes nothing."""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.errors import WireError
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.group.groupreader import GroupReader
from zkconsumer.group.memberstate import State
from zkconsumer.group.verify import NO_OWNER, Finding, verify


class Audit:
    """strategy is partition.assignment.strategy."""

    def __init__(self, group: GroupReader, strategy: str, on_event: OnEvent) -> None:
        self._group = group
        self._strategy = strategy
        self._on_event = on_event
        self._suspicions: set[Finding] = set()  # of the last audit, and
        self._told: set[Finding] = set()

    def must_go_round(self, state: Callable[[], State]) -> bool:
        """Another share than state() knows, or one of ours that has no owner: a watch was missed.

        What is wrong elsewhere is told once it is seen twice: the others move too.
        """
        turn = state().turn
        try:
            facts = self._group.facts(self._strategy)
        except WireError as e:
            self._on_event(ConsumerEvent("rebalance", f"the audit cannot read the group: {e}"))
            return False
        if facts is None or state().turn != turn:
            return False  # a round began meanwhile, or one is needed that says why
        found, share = facts
        if share != state().wanted:
            self._on_event(ConsumerEvent("rebalance", "the audit finds another share for us than we know of"))
            return True
        findings = {one for one in verify(found, self._strategy, self._group.relaxed) if one.fault}
        self._tell(findings)
        return any(one.kind == NO_OWNER and one.tp in share for one in findings)

    def _tell(self, findings: set[Finding]) -> None:
        self._told &= findings
        for one in sorted(findings & self._suspicions - self._told, key=str):
            self._told.add(one)
            self._on_event(ConsumerEvent("claim", f"the audit finds: {one}", one.tp))
        self._suspicions = findings
