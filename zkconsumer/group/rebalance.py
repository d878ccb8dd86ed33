"""Rebalance: what a member does, in which order, so that each partition is read by one member only.  Pure.

    state, actions = step(state, event)

A step machine: an event is a report on the current action, or a happening (the group changed, the session was lost).
There is at most one current action; it carries a turn, and a report with another turn is late and changes nothing.
`drop` and `alarm` need no report.  One round:

    read group -> stop fetchers -> drain -> commit offsets -> release claims -> claim -> read offsets -> start fetchers

Why the group is read first: only then is it known which partitions are revoked, and only those are stopped and
released; the others are read all the time.  Reading takes milliseconds, so a JVM member, which waits about 6 s for its
partitions, gets them in time.  Why the claim comes after the release: two members that each hold what the other wants
would wait forever.  Why offsets are read after the claim: the old owner commits until it releases; an earlier read
would be stale.

A phase without work is skipped.  Changes during a round cost one more round, however many there were.  A round that
fails (a claim refused, ZooKeeper unreachable, a member unreadable) leaves what we own as it is, backs off (a contested
node that goes away ends the wait) and starts again by reading everything.  The member never gives up: after max_retries
it raises an alarm and backs off longer, up to eight times backoff_ms.  From then on it accepts a partial assignment: a
claim keeps what it wins, and a member whose node cannot be read is left out, so that one owner node or id node that
stays forever does not leave a whole assignment unread.  Such a member is not settled, and keeps trying for the rest.

    a recreated topic  has another log: its partitions that stay are stopped, drained, and started again at the offsets
                     that are read then; nothing of the former log is committed, and nothing is released
    a lost session   our id and all claims are gone: drop everything at once, commit nothing, register again
    a lost owner     an owner node was taken or deleted: drop that partition at once, commit nothing of it, rebalance
    close            stop, drain, commit and release everything, then leave the group
    unrecoverable    the group cannot be computed here with certainty: like close, but started by the member itself
"""

from __future__ import annotations

from dataclasses import replace

from kafkawire.model import TopicPartition
from zkconsumer.group.memberstate import NOTHING, MemberState, holders, only, without
from zkconsumer.group.steps import (
    Action,
    Changed,
    ClaimsRefused,
    Close,
    Do,
    Failed,
    Finished,
    GroupRead,
    Happening,
    Located,
    NotRegistered,
    OwnerLost,
    Phase,
    Report,
    SessionLost,
    Unrecoverable,
)

P = Phase

# Next phase after a report; a Failed without a row leads to WAITING.
NEXT: dict[tuple[Phase, type[Report]], Phase] = {
    (P.REGISTERING, Finished): P.READING,
    (P.READING, GroupRead): P.STOPPING,
    (P.READING, NotRegistered): P.REGISTERING,
    (P.READING, Unrecoverable): P.STOPPING,  # all partitions, as for closing
    (P.STOPPING, Finished): P.DRAINING,
    (P.DRAINING, Finished): P.COMMITTING,
    (P.COMMITTING, Finished): P.RELEASING,  # the next owner starts from the committed offsets
    (
        P.COMMITTING,
        Failed,
    ): P.RELEASING,  # the next owner reads some messages again; otherwise no member would read them
    (P.RELEASING, Finished): P.CLAIMING,
    (P.CLAIMING, Finished): P.LOCATING,  # after the claim: an earlier read may be stale
    (P.CLAIMING, ClaimsRefused): P.LOCATING,  # what we own is read on; then we wait
    (P.LOCATING, Located): P.STARTING,
    (P.STARTING, Finished): P.SETTLED,
    (P.WAITING, Finished): P.READING,
    (P.LEAVING, Finished): P.CLOSED,
    (P.LEAVING, Failed): P.CLOSED,  # the end of the session deletes the node
}
RESTING = {P.SETTLED, P.CLOSED}
ALWAYS = {P.REGISTERING, P.READING, P.WAITING, P.LEAVING}  # phases that run even without partitions
MAY_FAIL = {P.REGISTERING, P.READING, P.COMMITTING, P.RELEASING, P.CLAIMING, P.LOCATING, P.LEAVING}
CLOSING = {P.DRAINING, P.COMMITTING, P.RELEASING, P.CLOSED}  # phases in which a close changes nothing


def begin(max_retries: int, backoff_ms: int) -> tuple[MemberState, list[Action]]:
    """Return a new member's state and first action; max_retries and backoff_ms are the options rebalance.*."""
    return _enter(MemberState(max_retries, backoff_ms), P.REGISTERING)


def step(state: MemberState, event: Report | Happening) -> tuple[MemberState, list[Action]]:
    """Return state and actions after an event.  A late report, and anything after the end, changes nothing."""
    if state.phase is P.CLOSED:
        return state, []
    match event:
        case Changed():
            return _changed(state)
        case OwnerLost(tps):
            return _owner_lost(state, tps)
        case SessionLost():
            return _session_lost(state)
        case Close():
            return _close(state)
        case _ if event.turn == state.turn:
            return _reported(state, event)
        case _:
            return state, []


# Happenings ----------------------------------------------------------------------------------------------------------


def _changed(state: MemberState) -> tuple[MemberState, list[Action]]:
    state = replace(state, stale=True)
    return _again_if_idle(state)


def _again_if_idle(state: MemberState) -> tuple[MemberState, list[Action]]:
    if state.phase in (P.SETTLED, P.WAITING) and not state.closing:
        return _enter(state, P.READING)
    return state, []  # the running round sees that it is stale


def _owner_lost(state: MemberState, tps: frozenset[TopicPartition]) -> tuple[MemberState, list[Action]]:
    gone = only(state.owned, tps)
    if not gone and state.phase is not P.CLAIMING:
        return state, []
    state = replace(
        state,
        owned=without(state.owned, tps),
        running=state.running - tps,
        lost=state.lost | tps,
        stale=True,
    )
    state, actions = _again_if_idle(state)
    return state, ([Action(Do.DROP, assignment=gone)] if gone else []) + actions


def _session_lost(state: MemberState) -> tuple[MemberState, list[Action]]:
    drop = [Action(Do.DROP, assignment=state.owned)] if state.owned else []
    state = replace(
        state,
        registered=False,
        wanted=NOTHING,
        owned=NOTHING,
        running=frozenset(),
        maybe_owned=state.asked
        if state.phase is P.CLAIMING
        else NOTHING,  # the current action may run in the new session
        contested=NOTHING,
        tries=0,
    )
    state, actions = _enter(state, P.CLOSED if state.closing else P.REGISTERING)
    return state, drop + actions


def _close(state: MemberState) -> tuple[MemberState, list[Action]]:
    state = replace(state, closing=True)
    if state.phase in (P.SETTLED, P.WAITING):
        return _enter(state, P.LEAVING)
    return state, []  # done when the current action is reported


# Reports -------------------------------------------------------------------------------------------------------------


def _reported(state: MemberState, report: Report) -> tuple[MemberState, list[Action]]:
    phase = state.phase
    following = NEXT.get((phase, type(report)))
    if following is None:
        if not isinstance(report, Failed) or phase not in MAY_FAIL:
            raise ValueError(f"{type(report).__name__} is not a report for a member that is {phase.name.lower()}")
        following = P.WAITING
    # The claim may count partitions as won that are lost already: they would be held for good, though we do not own
    # them.
    lost = only(state.asked, state.lost) if phase is P.CLAIMING and not isinstance(report, Failed) else NOTHING
    state = _learn(state, report)
    if state.closing and phase is P.RELEASING and isinstance(report, Failed):
        state = replace(state, maybe_owned=NOTHING)  # closing has no retry: it ends with the session
    state, actions = _enter(state, following)
    return state, ([Action(Do.DROP, assignment=lost)] if lost else []) + actions


def _learn(state: MemberState, report: Report) -> MemberState:
    """Return the state after a report."""
    asked = state.asked
    match state.phase, report:
        case P.READING, GroupRead(_, assignment, left_out, recreated):
            return replace(state, wanted=assignment, blocked=left_out, recreated=recreated)
        case P.READING, Unrecoverable(_, why):
            return replace(state, closing=True, blocked=why)
        case P.REGISTERING, Finished():
            return replace(state, registered=True)
        case P.READING, NotRegistered():
            return replace(state, registered=False)
        case P.COMMITTING, _:  # stopped, whether or not its offsets could be written
            return replace(state, running=state.running - asked.keys())
        case P.RELEASING, Finished():
            return replace(state, owned=without(state.owned, asked.keys()), maybe_owned=NOTHING)
        case P.RELEASING, Failed(_, why):
            return replace(state, owned=without(state.owned, asked.keys()), maybe_owned=asked, blocked=why)
        case P.CLAIMING, Finished():
            return replace(state, owned={**state.owned, **without(asked, state.lost)})
        case P.CLAIMING, ClaimsRefused(_, contested, won):
            owned = {**state.owned, **only(asked, won - state.lost)}
            return replace(state, owned=owned, blocked=f"held by others: {holders(contested)}", contested=contested)
        case P.CLAIMING, Failed(_, why):
            return replace(state, blocked=why, maybe_owned=asked)
        case P.LOCATING, Located(_, tps):
            unknown = [str(tp) for tp in asked if tp not in tps]
            blocked = f"offsets unknown: {', '.join(unknown)}" if unknown else state.blocked
            return replace(state, located=tps & asked.keys(), blocked=blocked)
        case P.STARTING, Finished():
            return replace(state, running=state.running | (asked.keys() & state.owned.keys()))
        case _, Failed(_, why):
            return replace(state, blocked=why)
        case _:
            return state


# Phases --------------------------------------------------------------------------------------------------------------


def _enter(state: MemberState, phase: Phase) -> tuple[MemberState, list[Action]]:
    """Enter a phase, or the first one after it that has work."""
    state, phase = _detour(state, phase)
    while phase not in RESTING | ALWAYS and not state.work(phase):
        state, phase = _detour(state, NEXT[phase, Located if phase is P.LOCATING else Finished])
    state = replace(state, phase=phase, turn=state.turn + 1, asked=state.work(phase))
    match phase:
        case P.READING:
            state = replace(
                state,
                stale=False,
                blocked="",
                contested=NOTHING,
                recreated=frozenset(),
                located=frozenset(),
                lost=frozenset(),
            )
        case P.SETTLED:
            state = replace(state, tries=0)
        case P.WAITING:
            return _wait(state)
    if phase in RESTING:
        return state, []
    return state, [Action(phase.value, state.turn, state.asked, accept_partial=_accepts_partial(state, phase))]


def _accepts_partial(state: MemberState, phase: Phase) -> bool:
    """True after the alarm: all or nothing would leave the member with nothing."""
    return phase in (P.READING, P.CLAIMING) and state.tries >= max(1, state.max_retries)


def _detour(state: MemberState, phase: Phase) -> tuple[MemberState, Phase]:
    """Return the phase to enter instead, if the table's next phase does not apply."""
    if state.closing:
        return _way_out(state, phase)
    if phase is P.CLAIMING and state.stale:
        return state, P.READING  # draining took time; claiming by an old assignment would only disturb the others
    if phase is P.SETTLED and state.stale:
        return state, P.READING
    if phase is P.SETTLED and state.blocked:
        return state, P.WAITING
    if phase is P.READING and not state.registered:
        return state, P.REGISTERING
    return state, phase


def _way_out(state: MemberState, phase: Phase) -> tuple[MemberState, Phase]:
    """Return the next phase of a closing member: first partitions that are being revoked, then all, in the same order;
    then it leaves."""
    if phase in CLOSING:
        return state, phase
    state = replace(state, wanted=NOTHING)
    return state, P.STOPPING if state.to_release else P.LEAVING


def _wait(state: MemberState) -> tuple[MemberState, list[Action]]:
    state = replace(state, tries=state.tries + 1)
    beyond = max(0, state.tries - state.max_retries)
    wait = Action(Do.WAIT, state.turn, state.contested, wait_ms=state.backoff_ms * 2 ** min(beyond, 3))
    if state.tries % max(1, state.max_retries):
        return state, [wait]
    text = f"no full share after {state.tries} tries, still trying: {state.blocked}"
    return state, [Action(Do.ALARM, text=text), wait]
