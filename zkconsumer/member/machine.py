"""Machine of a member: from one event to the next action, by the rules of its kind of group.  Pure.

    state, actions = step(state, event)

Theory.  A member is always in one phase.  It waits for the report of its current action, or, settled or closed, for a
happening: the group changed, the session was lost, the program closes.  The state holds everything that decides the
next action, so a story (tests/scenarios) or a random order of events shows every behaviour without a socket.  The table
`NEXT` gives the phase after each report; an exception to the table is a detour.

Rules of every member:

    turn        a phase takes the next number when it is entered.  A report with another turn is late and changes
                nothing, so a member ignores an action that a lost session or a fence has overtaken
    work        a phase that works on partitions is skipped if there are none
    drop first  partitions that others may own are dropped before the next action begins
    wait        after a failed round the member waits backoff_ms and starts again.  After max_retries failures in a row
                it raises an alarm, and the backoff grows, up to eight times.  A member never gives up
    stale       any number of changes during a round costs one more round

A subclass of MemberState is a kind of group.  It has the table, the fields and the rules that differ.

    zkconsumer.group.rebalance         ZooKeeper: each member computes its own assignment and races for its claims
    zkconsumer.kafkagroup.lifecycle    coordinator: the assignment is given, and everything is revoked before

Rejected:

    one table for both      the orders are reversed: read and then revoke what leaves; revoke everything and then join.
                            So are the failures: a refused claim keeps what is owned, a fence takes everything.  Each
                            row would have to ask for the kind of group
    two machines            both had turns, skipped phases, backoff, alarm and late reports, and a bug that was fixed in
                            one stayed in the other
    one coroutine           its state is a stack frame, which no test can build, compare or print; and each line would
                            have to expect the exception of a lost session
    one class for a phase   fifteen classes, each of which has to say what a lost session means
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self, TypeVar

from kafkawire.model import TopicPartition
from zkconsumer.member.steps import (
    NOTHING,
    Action,
    Assignment,
    Do,
    Failed,
    Finished,
    Happening,
    Located,
    Phase,
    Report,
)

P = Phase
RESTING = (P.SETTLED, P.CLOSED)
REVOKING = (P.STOPPING, P.DRAINING, P.COMMITTING)
OF_PARTITIONS = (*REVOKING, P.RELEASING, P.CLAIMING, P.LOCATING, P.STARTING)

# Rows of every table.
IN_BOTH: dict[tuple[Phase, type[Report]], Phase] = {
    (P.STOPPING, Finished): P.DRAINING,
    (P.DRAINING, Finished): P.COMMITTING,
    (P.LOCATING, Located): P.STARTING,
    (P.LOCATING, Failed): P.WAITING,
    (P.STARTING, Finished): P.SETTLED,
    (P.LEAVING, Finished): P.CLOSED,
    (P.LEAVING, Failed): P.CLOSED,  # the end of our session removes us
}


@dataclass(frozen=True)
class MemberState:
    """State of a member between two events, and the rules of its kind of group.

    NEXT: the next phase after a report.  max_retries and backoff_ms are the options rebalance.*.
    """

    NEXT: ClassVar[Mapping[tuple[Phase, type[Report]], Phase]]

    max_retries: int
    backoff_ms: int
    phase: Phase
    turn: int = 0
    asked: Assignment = field(default_factory=dict)  # partitions of the current action
    owned: Assignment = field(default_factory=dict)  # claimed by our owner nodes, or assigned in our generation
    located: frozenset[TopicPartition] = frozenset()  # owned, its offset read in this round
    running: frozenset[TopicPartition] = frozenset()  # owned; its fetching has begun and has not been stopped for good
    stale: bool = False  # something changed after this round began
    closing: bool = False
    blocked: str = ""  # why this round does not give us our whole assignment
    refused: bool = False  # the group takes no such member
    tries: int = 0  # failed rounds in a row

    @property
    def settled(self) -> bool:
        """True if we read our whole assignment, and no change is known."""
        return self.phase is P.SETTLED

    @property
    def tried(self) -> bool:
        """True if a program that waits for the first round need not wait any longer."""
        return self.phase in (P.SETTLED, P.WAITING, P.CLOSED)

    # rules --------------------------------------------------------------------------------------------------------

    def work(self, phase: Phase) -> Assignment:
        """Return the partitions that a phase works on; no partitions for other phases."""
        raise NotImplementedError

    def happened(self, event: Happening) -> tuple[Self, Phase | None, Assignment]:
        """Return the state after a happening, the phase to enter at once if the current action is out of date, and
        partitions to drop."""
        raise NotImplementedError

    def learned(self, report: Report) -> Self:
        """Return the state after a report on the current action."""
        match self.phase, report:
            case P.LOCATING, Located(_, tps):
                unknown = [str(tp) for tp in self.asked if tp not in tps]
                blocked = f"offsets unknown: {', '.join(unknown)}" if unknown else self.blocked
                return replace(self, located=tps & self.asked.keys(), blocked=blocked)
            case P.STARTING, Finished():
                return replace(self, running=self.running | (self.asked.keys() & self.owned.keys()))
            case _, Failed(_, why):
                return replace(self, blocked=why)
            case _:
                return self

    def lost_by(self, report: Report) -> Assignment:
        """Return partitions that the current action won, and that were lost before it was reported."""
        return NOTHING

    def detour(self, phase: Phase) -> tuple[Self, Phase]:
        """Return the phase to enter instead, if the table's next phase does not apply."""
        raise NotImplementedError

    def entered(self) -> Self:
        """Return the state at the beginning of its phase."""
        raise NotImplementedError

    def action(self) -> Action:
        """Return the action of the phase."""
        return Action(self.phase.value, self.turn, self.asked)


S = TypeVar("S", bound=MemberState)


def begin(state: S) -> tuple[S, list[Action]]:
    """Return a new member's state and first action."""
    return _enter(state, state.phase)


def step(state: S, event: Report | Happening) -> tuple[S, list[Action]]:
    """Return state and actions after an event.  A late report, and anything after the end, changes nothing.

    Raises ValueError if the report is not one of the current action.
    """
    if state.phase is P.CLOSED:
        return state, []
    if isinstance(event, Happening):
        state, phase, lost = state.happened(event)
    elif event.turn == state.turn:
        phase = _following(state, event)
        lost = state.lost_by(event)
        state = state.learned(event)
    else:
        return state, []
    drop = [Action(Do.DROP, assignment=lost)] if lost else []
    if phase is None:
        return state, drop
    state, actions = _enter(state, phase)
    return state, drop + actions


def _following(state: MemberState, report: Report) -> Phase:
    following = state.NEXT.get((state.phase, type(report)))
    if following is None:
        raise ValueError(f"{type(report).__name__} is not a report for a member that is {state.phase.name.lower()}")
    return following


def _enter(state: S, phase: Phase) -> tuple[S, list[Action]]:
    """Enter a phase, or the first one after it that has work."""
    state, phase = state.detour(phase)
    while phase in OF_PARTITIONS and not state.work(phase):
        state, phase = state.detour(state.NEXT[phase, Located if phase is P.LOCATING else Finished])
    state = replace(state, phase=phase, turn=state.turn + 1, asked=state.work(phase)).entered()
    if phase is P.WAITING:
        return _wait(state)
    return state, [] if phase in RESTING else [state.action()]


def _wait(state: S) -> tuple[S, list[Action]]:
    tries = state.tries + 1
    beyond = 3 if state.refused else min(3, max(0, tries - state.max_retries))
    wait = Action(Do.WAIT, state.turn, state.asked, wait_ms=state.backoff_ms * 2**beyond)
    state = replace(state, tries=tries)
    if tries % max(1, state.max_retries) and not (state.refused and tries == 1):
        return state, [wait]
    text = state.blocked if state.refused else f"no full share after {tries} tries, still trying: {state.blocked}"
    return state, [Action(Do.ALARM, text=text, alarm="refused" if state.refused else "outage"), wait]
