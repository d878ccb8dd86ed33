"""What a member does, in which order, so that each partition is read by one member only.  A pure step machine.

    state, actions = step(state, event)

An event is a report on the action that was asked for, or a happening (the group changed, the session was lost).  One
action is under way at most; it carries a turn, and a report of another turn is late and changes nothing.  `drop` and
`alarm` want no report.  One round:

    read group -> stop fetchers -> drain -> commit offsets -> release claims -> claim -> read offsets -> start fetchers

Why the group is read first: only then is it known which partitions leave, and only those are stopped and released;
what stays is read on all the time.  Reading takes milliseconds, so a JVM member, which waits about 6 s for its share,
gets it in time.  Why the claim comes after the release: two members that each hold what the other wants would wait for
ever.  Why offsets are read after the claim: the old owner commits until it releases; an older read would be stale.

A phase that has nothing to do is passed through.  A change seen while a round runs costs one more round, however many
there were.  A round that fails (a claim refused, ZooKeeper away, a member unreadable) leaves what we own as it is,
waits (a contested node that goes away ends the wait) and starts again by reading everything.  The member never gives
up: after max_retries it raises an alarm and waits longer, up to eight times backoff_ms.  From then on it settles for
less: a claim keeps what it wins, and a member whose node nobody can read is left out, so that one owner node or id node
that stays for ever does not keep a whole share unread.  It is not settled by that and goes on trying for the rest.

    a recreated topic  another log: its partitions that stay are stopped, drained, and started again by the offsets as
                     they are read then; nothing of the former log is committed, and nothing is released
    a lost session   our id and all claims are gone: drop everything at once, commit nothing, register again
    a lost owner     somebody took or deleted an owner node: drop that partition at once, commit nothing of it, go round
    close            stop, drain, commit and release everything, then leave the group
    no way           what the group reads cannot be told here with certainty: the same as close, by ourselves
"""

from __future__ import annotations

from dataclasses import replace

from kafkawire.model import TopicPartition
from zkconsumer.group.memberstate import NOTHING, State, held, only, without
from zkconsumer.group.steps import (
    Action,
    Changed,
    Close,
    Do,
    Failed,
    Finished,
    GroupRead,
    Happening,
    Located,
    NotRegistered,
    NoWay,
    OwnerLost,
    Phase,
    Refused,
    Report,
    SessionLost,
)

P = Phase

# What follows when a report comes in; a Failed that has no row leads to WAITING.
NEXT: dict[tuple[Phase, type[Report]], Phase] = {
    (P.REGISTERING, Finished): P.READING,
    (P.READING, GroupRead): P.STOPPING,
    (P.READING, NotRegistered): P.REGISTERING,
    (P.READING, NoWay): P.STOPPING,  # of everything, as it counts as closing
    (P.STOPPING, Finished): P.DRAINING,
    (P.DRAINING, Finished): P.COMMITTING,
    (P.COMMITTING, Finished): P.RELEASING,  # the next owner starts from these
    (P.COMMITTING, Failed): P.RELEASING,  # it will read some again; kept back, nobody would read them at all
    (P.RELEASING, Finished): P.CLAIMING,
    (P.CLAIMING, Finished): P.LOCATING,  # after the claim: an earlier read may be stale
    (P.CLAIMING, Refused): P.LOCATING,  # what we own goes on; then we wait
    (P.LOCATING, Located): P.STARTING,
    (P.STARTING, Finished): P.SETTLED,
    (P.WAITING, Finished): P.READING,
    (P.LEAVING, Finished): P.CLOSED,
    (P.LEAVING, Failed): P.CLOSED,  # the end of the session deletes the node
}
RESTING = {P.SETTLED, P.CLOSED}
ALWAYS = {P.REGISTERING, P.READING, P.WAITING, P.LEAVING}  # done also without a partition to do it to
MAY_FAIL = {P.REGISTERING, P.READING, P.COMMITTING, P.RELEASING, P.CLAIMING, P.LOCATING, P.LEAVING}
ON_ITS_WAY = {P.DRAINING, P.COMMITTING, P.RELEASING, P.CLOSED}  # where a member that closes goes on as it is


def begin(max_retries: int, backoff_ms: int) -> tuple[State, list[Action]]:
    """A member and its first action; max_retries and backoff_ms are the options rebalance.*."""
    return _enter(State(max_retries, backoff_ms), P.REGISTERING)


def step(state: State, event: Report | Happening) -> tuple[State, list[Action]]:
    """What an event leads to.  A late report, and anything after the end, leads to nothing."""
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


def _changed(state: State) -> tuple[State, list[Action]]:
    state = replace(state, stale=True)
    return _again_if_idle(state)


def _again_if_idle(state: State) -> tuple[State, list[Action]]:
    if state.phase in (P.SETTLED, P.WAITING) and not state.closing:
        return _enter(state, P.READING)
    return state, []  # the running round sees that it is stale


def _owner_lost(state: State, tps: frozenset[TopicPartition]) -> tuple[State, list[Action]]:
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
    return state, ([Action(Do.DROP, share=gone)] if gone else []) + actions


def _session_lost(state: State) -> tuple[State, list[Action]]:
    drop = [Action(Do.DROP, share=state.owned)] if state.owned else []
    state = replace(
        state,
        registered=False,
        wanted=NOTHING,
        owned=NOTHING,
        running=frozenset(),
        suspect=state.asked if state.phase is P.CLAIMING else NOTHING,  # what is under way may run on the new session
        contested=NOTHING,
        tries=0,
    )
    state, actions = _enter(state, P.CLOSED if state.closing else P.REGISTERING)
    return state, drop + actions


def _close(state: State) -> tuple[State, list[Action]]:
    state = replace(state, closing=True)
    if state.phase in (P.SETTLED, P.WAITING):
        return _enter(state, P.LEAVING)
    return state, []  # when the action under way is reported


# Reports -------------------------------------------------------------------------------------------------------------


def _reported(state: State, report: Report) -> tuple[State, list[Action]]:
    phase = state.phase
    following = NEXT.get((phase, type(report)))
    if following is None:
        if not isinstance(report, Failed) or phase not in MAY_FAIL:
            raise ValueError(f"{type(report).__name__} is no report of a member that is {phase.name.lower()}")
        following = P.WAITING
    state = _learn(state, report)
    if state.closing and phase is P.RELEASING and isinstance(report, Failed):
        state = replace(state, suspect=NOTHING)  # on the way out there is no second try: it goes with the session
    return _enter(state, following)


def _learn(state: State, report: Report) -> State:
    """What a report says about us."""
    asked = state.asked
    match state.phase, report:
        case P.READING, GroupRead(_, share, left_out, recreated):
            return replace(state, wanted=share, blocked=left_out, recreated=recreated)
        case P.READING, NoWay(_, why):
            return replace(state, closing=True, blocked=why)
        case P.REGISTERING, Finished():
            return replace(state, registered=True)
        case P.READING, NotRegistered():
            return replace(state, registered=False)
        case P.COMMITTING, _:  # stopped, whether or not its offsets could be written
            return replace(state, running=state.running - asked.keys())
        case P.RELEASING, Finished():
            return replace(state, owned=without(state.owned, asked.keys()), suspect=NOTHING)
        case P.RELEASING, Failed(_, why):
            return replace(state, owned=without(state.owned, asked.keys()), suspect=asked, blocked=why)
        case P.CLAIMING, Finished():
            return replace(state, owned={**state.owned, **without(asked, state.lost)})
        case P.CLAIMING, Refused(_, contested, won):
            owned = {**state.owned, **only(asked, won - state.lost)}
            return replace(state, owned=owned, blocked=f"held by others: {held(contested)}", contested=contested)
        case P.CLAIMING, Failed(_, why):
            return replace(state, blocked=why, suspect=asked)
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


def _enter(state: State, phase: Phase) -> tuple[State, list[Action]]:
    """Go to a phase, or on to the first one behind it that has something to do."""
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
    return state, [Action(phase.value, state.turn, state.asked, settle_for_less=_settles_for_less(state, phase))]


def _settles_for_less(state: State, phase: Phase) -> bool:
    """The alarm was raised: all or nothing would leave it at nothing."""
    return phase in (P.READING, P.CLAIMING) and state.tries >= max(1, state.max_retries)


def _detour(state: State, phase: Phase) -> tuple[State, Phase]:
    """Where the table's next phase is not the one to go to."""
    if state.closing:
        return _way_out(state, phase)
    if phase is P.CLAIMING and state.stale:
        return state, P.READING  # draining took its time; to claim by an old picture only disturbs the others
    if phase is P.SETTLED and state.stale:
        return state, P.READING
    if phase is P.SETTLED and state.blocked:
        return state, P.WAITING
    if phase is P.READING and not state.registered:
        return state, P.REGISTERING
    return state, phase


def _way_out(state: State, phase: Phase) -> tuple[State, Phase]:
    """A member that closes: what is being let go goes first, then everything, in the same order; then it leaves."""
    if phase in ON_ITS_WAY:
        return state, phase
    state = replace(state, wanted=NOTHING)
    return state, P.STOPPING if state.to_release else P.LEAVING


def _wait(state: State) -> tuple[State, list[Action]]:
    state = replace(state, tries=state.tries + 1)
    beyond = max(0, state.tries - state.max_retries)
    wait = Action(Do.WAIT, state.turn, state.contested, wait_ms=state.backoff_ms * 2 ** min(beyond, 3))
    if state.tries % max(1, state.max_retries):
        return state, [wait]
    text = f"no full share after {state.tries} tries, still trying: {state.blocked}"
    return state, [Action(Do.ALARM, text=text), wait]
