"""Lifecycle of a member of a group on Kafka's coordinator: what it does, and in which order.  Pure.

    state, actions = step(state, event)

A step machine, like zkconsumer.group.rebalance for groups in ZooKeeper: an event is a report on the current action, or
a happening (the group rebalances, the lease is over).  There is at most one current action; it carries a turn, and a
report with another turn is late and changes nothing.  `drop` and `alarm` need no report.  One rebalance:

    stop fetchers -> drain -> commit offsets -> join -> sync -> read offsets -> start fetchers

The rebalance is eager, like the Java consumer's with range, roundrobin and sticky: everything is revoked before the
member joins, since the next owner of a partition starts at once, and the coordinator then refuses commits of the
previous generation.  Heartbeats continue until the member joins again; their responses prove the lease under which it
delivers and commits, and the generation is its claim.

    the group rebalances   (27) revoke in order, then join
    fenced                 (22, 25) others may own everything: drop it at once, commit nothing, join again; as a new
                           member if the coordinator does not know us (25)
    the lease is over      like fenced, but the coordinator may still know us
    something changed      topics, partitions or our subscription: revoke in order and join, which makes all others
                           join, too; a change during a rebalance costs one more
    refused                the group never accepts such a member (23, 24, 26, 30): alarm, and retry at long intervals
    close                  revoke in order, then leave the group

Temporary failures (no coordinator, a lost connection) are retried after backoff_ms; after max_retries in a row an alarm
is raised, and the backoff grows up to eight times.  The member never gives up.  A partition whose offset cannot be read
stays ours, unread, until it can be.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

from kafkawire.model import TopicPartition

Assignment = Mapping[TopicPartition, str]  # the thread id that reads each partition
NOTHING: Assignment = {}


@dataclass(frozen=True, slots=True)
class Claim:
    """Basis of our ownership: a generation of the group, and our member id."""

    generation: int
    member_id: str

    def __str__(self) -> str:
        return f"generation {self.generation}"


class Do(enum.Enum):
    """Action of the executor -> what it reports; (F): or Failed."""

    JOIN = "join"  # find the coordinator, JoinGroup -> Joined, IdGiven, IdUnknown, Refused (F)
    SYNC = "sync"  # the leader assigns; SyncGroup, then a first heartbeat -> Synced, JoinAgain (F)
    LOCATE = "read offsets"  # for the assignment -> Located (F)
    START = "start fetchers"  # for the assignment, from the offsets just read -> Finished
    STOP = "stop fetchers"  # for the assignment; deliver nothing more of it -> Finished
    DRAIN = "drain"  # wait until delivered messages are done, or rebalance.drain.ms is over -> Finished
    COMMIT = "commit offsets"  # for the assignment, in its generation; then it is not ours any more -> Finished (F)
    WAIT = "wait"  # wait_ms -> Finished
    LEAVE = "leave group"  # LeaveGroup -> Finished (F)
    DROP = "drop"  # stop the assignment at once, and drop what is delivered; no commit or report
    ALARM = "alarm"  # report text to the operator; no report to the machine


class Phase(enum.Enum):
    JOINING = Do.JOIN
    SYNCING = Do.SYNC
    LOCATING = Do.LOCATE
    STARTING = Do.START
    STOPPING = Do.STOP
    DRAINING = Do.DRAIN
    COMMITTING = Do.COMMIT
    WAITING = Do.WAIT
    LEAVING = Do.LEAVE
    STABLE = "stable"
    CLOSED = "closed"


P = Phase
REVOKING = (P.STOPPING, P.DRAINING, P.COMMITTING)
RESTING = (P.STABLE, P.CLOSED)


@dataclass(frozen=True, slots=True)
class Action:
    do: Do
    turn: int = 0
    assignment: Assignment = field(default_factory=dict)
    member_id: str = ""  # JOIN, LEAVE: our member id; "": the coordinator gives a new one
    claim: Claim | None = None  # SYNC
    wait_ms: int = 0
    text: str = ""
    alarm: str = "outage"  # ALARM: the kind of its event

    def __str__(self) -> str:
        return " ".join([self.do.value, *(str(tp) for tp in self.assignment)])


# Reports -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Finished:
    turn: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The action failed, or its outcome is unknown; why is one sentence."""

    turn: int
    why: str


@dataclass(frozen=True, slots=True)
class Joined:
    turn: int
    claim: Claim


@dataclass(frozen=True, slots=True)
class IdGiven:
    """Join once more, with this member id (79)."""

    turn: int
    member_id: str


@dataclass(frozen=True, slots=True)
class IdUnknown:
    """The coordinator does not know our member id (25)."""

    turn: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The group refuses such a member; why is one sentence with what helps."""

    turn: int
    why: str


@dataclass(frozen=True, slots=True)
class Synced:
    turn: int
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class JoinAgain:
    """The generation ended before its assignment came (22, 25, 27).  forget: the coordinator does not know us either
    (25)."""

    turn: int
    forget: bool = False


@dataclass(frozen=True, slots=True)
class Located:
    """Offsets are known (a number, or no committed offset) for tps; the others could not be read."""

    turn: int
    tps: frozenset[TopicPartition]


# Happenings ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Changed:
    """Topics, partitions or the subscription have changed since the last join."""


@dataclass(frozen=True, slots=True)
class Rebalancing:
    """The coordinator waits for us to join the next generation (27)."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class Fenced:
    """The claim is invalid (22, 25; forget: 25), or the lease is over."""

    claim: Claim
    forget: bool = False


@dataclass(frozen=True, slots=True)
class Close:
    pass


Report = Finished | Failed | Joined | IdGiven | IdUnknown | Refused | Synced | JoinAgain | Located
Happening = Changed | Rebalancing | Fenced | Close


@dataclass(frozen=True, slots=True)
class MemberState:
    """State of a member between two events.  assigned: by the leader, in the generation of `claim`; running: assigned
    and read."""

    max_retries: int
    backoff_ms: int
    phase: Phase = P.JOINING
    turn: int = 0
    asked: Assignment = field(default_factory=dict)  # partitions of the current action
    member_id: str = ""  # kept from generation to generation; "": the coordinator does not know us (any more)
    claim: Claim | None = None
    assigned: Assignment = field(default_factory=dict)
    located: frozenset[TopicPartition] = frozenset()
    running: frozenset[TopicPartition] = frozenset()
    stale: bool = False  # must join again
    closing: bool = False
    blocked: str = ""  # why not everything assigned is read, or why we are not a member
    refused: bool = False
    tries: int = 0  # consecutive waits

    @property
    def settled(self) -> bool:
        """True if we read our whole assignment, and no change is known."""
        return self.phase is P.STABLE

    @property
    def missing(self) -> Assignment:
        return {tp: thread for tp, thread in self.assigned.items() if tp not in self.running}

    def work(self, phase: Phase) -> Assignment:
        """Return the partitions that a phase works on."""
        if phase in REVOKING:
            return _only(self.assigned, self.running)
        if phase is P.LOCATING:
            return self.missing
        if phase is P.STARTING:
            return _only(self.missing, self.located)
        return NOTHING


def begin(max_retries: int, backoff_ms: int) -> tuple[MemberState, list[Action]]:
    """Return a new member's state and first action."""
    return _enter(MemberState(max_retries, backoff_ms), P.JOINING)


def step(state: MemberState, event: Report | Happening) -> tuple[MemberState, list[Action]]:
    """Return state and actions after an event.  A late report, and anything after the end, changes nothing."""
    if state.phase is P.CLOSED:
        return state, []
    match event:
        case Changed():
            return _must_join(state)
        case Rebalancing(claim):
            return _must_join(state) if claim == state.claim else (state, [])
        case Fenced(claim, forget):
            return _fenced(state, forget) if claim == state.claim else (state, [])
        case Close():
            return _close(state)
        case _ if event.turn == state.turn:
            return _reported(state, event)
        case _:
            return state, []


# Happenings ----------------------------------------------------------------------------------------------------------


def _must_join(state: MemberState) -> tuple[MemberState, list[Action]]:
    state = replace(state, stale=True)
    if not state.closing and state.claim is not None and state.phase in (P.STABLE, P.LOCATING, P.WAITING):
        return _enter(state, P.STOPPING)
    return state, []  # on its way there, or the running action comes first


def _fenced(state: MemberState, forget: bool) -> tuple[MemberState, list[Action]]:
    drop = [Action(Do.DROP, assignment=state.assigned)] if state.assigned else []
    state = _not_in_it(state, forget)
    state, actions = _enter(state, P.LEAVING if state.closing else P.JOINING)
    return state, drop + actions


def _close(state: MemberState) -> tuple[MemberState, list[Action]]:
    state = replace(state, closing=True)
    if state.phase in (P.STABLE, P.LOCATING, P.SYNCING, P.WAITING):
        return _enter(state, P.STOPPING)
    if state.phase is P.JOINING and state.member_id:
        return _enter(state, P.LEAVING)
    return state, []  # done when the current action is reported: a new member needs its result to leave the group


# Reports -------------------------------------------------------------------------------------------------------------

NEXT: dict[tuple[Phase, type[Report]], Phase] = {
    (P.JOINING, Joined): P.SYNCING,
    (P.JOINING, IdGiven): P.JOINING,
    (P.JOINING, IdUnknown): P.JOINING,
    (P.JOINING, Refused): P.WAITING,
    (P.JOINING, Failed): P.WAITING,
    (P.SYNCING, Synced): P.LOCATING,
    (P.SYNCING, JoinAgain): P.JOINING,
    (P.SYNCING, Failed): P.WAITING,
    (P.LOCATING, Located): P.STARTING,
    (P.LOCATING, Failed): P.WAITING,
    (P.STARTING, Finished): P.STABLE,
    (P.STOPPING, Finished): P.DRAINING,
    (P.DRAINING, Finished): P.COMMITTING,
    (P.COMMITTING, Finished): P.JOINING,
    (P.COMMITTING, Failed): P.JOINING,  # its next owner reads some messages again; otherwise no member would
    (P.WAITING, Finished): P.JOINING,
    (P.LEAVING, Finished): P.CLOSED,
    (P.LEAVING, Failed): P.CLOSED,  # the coordinator removes the member at its session's end
}


def _reported(state: MemberState, report: Report) -> tuple[MemberState, list[Action]]:
    following = NEXT.get((state.phase, type(report)))
    if following is None:
        raise ValueError(f"{type(report).__name__} is not a report for a member that is {state.phase.name.lower()}")
    if isinstance(report, IdUnknown) and not state.member_id:
        report, following = Failed(report.turn, "the coordinator does not know the member id it gave"), P.WAITING
    return _enter(_learn(state, report), following)


def _learn(state: MemberState, report: Report) -> MemberState:
    """Return the state after a report."""
    match state.phase, report:
        case P.JOINING, Joined(_, claim):
            return replace(state, claim=claim, member_id=claim.member_id, refused=False)
        case P.JOINING, IdGiven(_, member_id):
            return replace(state, member_id=member_id)
        case P.JOINING, IdUnknown():
            return replace(state, member_id="")
        case P.JOINING, Refused(_, why):
            return replace(state, blocked=why, refused=True)
        case P.SYNCING, Synced(_, assignment):
            return replace(state, assigned=assignment)
        case P.SYNCING, JoinAgain(_, forget):
            return _not_in_it(state, forget)
        case P.SYNCING, Failed(_, why):
            return replace(_not_in_it(state), blocked=why)
        case P.LOCATING, Located(_, tps):
            unknown = [str(tp) for tp in state.asked if tp not in tps]
            return replace(
                state,
                located=tps & state.asked.keys(),
                blocked=f"offsets unknown: {', '.join(unknown)}" if unknown else "",
            )
        case P.STARTING, Finished():
            return replace(state, running=state.running | state.asked.keys())
        case P.COMMITTING, _:
            return replace(state, assigned=NOTHING, running=frozenset())
        case _, Failed(_, why):
            return replace(state, blocked=why)
        case _:
            return state


def _not_in_it(state: MemberState, forget: bool = False) -> MemberState:
    """Return the state after leaving the group.  With `forget`, the member id is dropped too."""
    member_id = "" if forget else state.member_id
    return replace(state, claim=None, assigned=NOTHING, running=frozenset(), member_id=member_id)


# Phases --------------------------------------------------------------------------------------------------------------


def _enter(state: MemberState, phase: Phase) -> tuple[MemberState, list[Action]]:
    """Enter a phase, or the first one after it that has work."""
    phase = _detour(state, phase)
    while phase in (*REVOKING, P.LOCATING, P.STARTING) and not state.work(phase):
        done = Located if phase is P.LOCATING else Finished
        phase = _detour(state, NEXT[phase, done])
    state = replace(state, phase=phase, turn=state.turn + 1, asked=state.work(phase))
    match phase:
        case P.JOINING | P.LEAVING:
            state = replace(_not_in_it(state), stale=False)
        case P.STABLE:
            state = replace(state, tries=0, blocked="", refused=False)
        case P.WAITING:
            return _wait(state)
    if phase in RESTING:
        return state, []
    return state, [Action(phase.value, state.turn, state.asked, member_id=state.member_id, claim=state.claim)]


def _detour(state: MemberState, phase: Phase) -> Phase:
    """Return the phase to enter instead, if the table's next phase does not apply."""
    if state.closing:
        if phase is P.LEAVING and not state.member_id:
            return P.CLOSED
        if phase in (*REVOKING, P.LEAVING, P.CLOSED):
            return phase
        return P.STOPPING if state.running else _detour(state, P.LEAVING)
    if state.stale and state.claim is not None and phase in (P.LOCATING, P.STARTING, P.STABLE, P.WAITING):
        return P.STOPPING  # leads on to joining again if nothing is read yet
    if phase is P.STABLE and state.missing:
        return P.WAITING
    if phase is P.JOINING and state.phase is P.WAITING and state.claim is not None:
        return P.LOCATING  # it waited for offsets, and is still a member
    return phase


def _wait(state: MemberState) -> tuple[MemberState, list[Action]]:
    tries = state.tries + 1
    beyond = 3 if state.refused else min(3, max(0, tries - state.max_retries))
    wait = Action(Do.WAIT, state.turn, wait_ms=state.backoff_ms * 2**beyond)
    state = replace(state, tries=tries)
    if tries % max(1, state.max_retries) and not (state.refused and tries == 1):
        return state, [wait]
    text = state.blocked if state.refused else f"no full share after {tries} tries, still trying: {state.blocked}"
    return state, [Action(Do.ALARM, text=text, alarm="refused" if state.refused else "outage"), wait]


def _only(assignment: Assignment, tps: Set[TopicPartition]) -> Assignment:
    return {tp: thread for tp, thread in assignment.items() if tp in tps}
