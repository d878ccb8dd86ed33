"""Single steps of the rebalance machine that no story in tests/scenarios/rebalance shows."""

from __future__ import annotations

import pytest

from kafkawire.model import TopicPartition
from tests.scenarios.rebalance.world import BACKOFF_MS, MAX_RETRIES
from zkconsumer.group.rebalance import ClaimingMember
from zkconsumer.member.machine import begin, step
from zkconsumer.member.steps import (
    Changed,
    ClaimsRefused,
    Do,
    Failed,
    Finished,
    GroupRead,
    Located,
    OwnerLost,
    Phase,
    SessionLost,
)

T0, T1, T2 = (TopicPartition("t", p) for p in range(3))
CHANGED = Changed()


def settled(share):
    """A member that reads its share."""
    state, _ = begin(ClaimingMember(MAX_RETRIES, BACKOFF_MS))
    state, _ = step(state, Finished(state.turn))
    return finish_round(state, share)


def finish_round(state, share):
    state, actions = step(state, GroupRead(state.turn, share))
    while actions:
        action = actions[-1]
        done = Located(action.turn, frozenset(action.assignment)) if action.do is Do.LOCATE else Finished(action.turn)
        state, actions = step(state, done)
    assert state.settled
    return state


def test_what_stays_of_a_topic_that_was_created_again_is_stopped_and_started_and_stays_claimed():
    state = settled({T0: "c-0", T1: "c-0", T2: "c-0"})
    state, (read,) = step(state, CHANGED)
    share = {T0: "c-0", T1: "c-0"}
    state, (stop,) = step(state, GroupRead(read.turn, share, recreated=frozenset({T1, T2})))
    assert (stop.do, set(stop.assignment)) == (Do.STOP, {T1, T2})
    seen = []
    while state.phase is not Phase.SETTLED:
        report = Located(state.turn, frozenset(state.asked)) if state.phase is Phase.LOCATING else Finished(state.turn)
        state, actions = step(state, report)
        seen += [(action.do, set(action.assignment)) for action in actions]
    assert seen == [
        (Do.DRAIN, {T1, T2}),
        (Do.COMMIT, {T1, T2}),
        (Do.RELEASE, {T2}),
        (Do.LOCATE, {T1}),
        (Do.START, {T1}),
    ]
    assert (state.owned, state.running) == (share, frozenset(share))


def test_a_late_report_changes_nothing():
    state = settled({T0: "c-0"})
    state, (read,) = step(state, CHANGED)
    lost, _ = step(state, SessionLost())
    assert step(lost, GroupRead(read.turn, {T1: "c-0"})) == (lost, [])


def test_a_report_that_answers_another_question_is_an_error():
    state, _ = begin(ClaimingMember(MAX_RETRIES, BACKOFF_MS))
    with pytest.raises(ValueError, match="GroupRead is not a report for a member that is registering"):
        step(state, GroupRead(state.turn, {}))


def test_stopping_cannot_fail():
    state = settled({T0: "c-0"})
    state, (read,) = step(state, CHANGED)
    state, (stop,) = step(state, GroupRead(read.turn, {}))
    with pytest.raises(ValueError, match="Failed is not a report for a member that is stopping"):
        step(state, Failed(stop.turn, "cannot be"))


def test_an_owner_node_lost_before_its_claim_is_reported_is_not_owned():
    state, _ = begin(ClaimingMember(MAX_RETRIES, BACKOFF_MS))
    state, (read,) = step(state, Finished(state.turn))
    state, (claim,) = step(state, GroupRead(read.turn, {T0: "c-0", T1: "c-0"}))
    state, actions = step(state, OwnerLost(frozenset([T0])))
    assert actions == []
    state, (drop, locate) = step(state, Finished(claim.turn))
    assert (drop.do, set(drop.assignment)) == (Do.DROP, {T0})
    assert set(locate.assignment) == {T1}


def test_a_partition_lost_while_its_fetcher_starts_is_started_again_once_it_is_back():
    state, _ = begin(ClaimingMember(MAX_RETRIES, BACKOFF_MS))
    state, (read,) = step(state, Finished(state.turn))
    state, (claim,) = step(state, GroupRead(read.turn, {T0: "c-0"}))
    state, (locate,) = step(state, Finished(claim.turn))
    state, (start,) = step(state, Located(locate.turn, frozenset([T0])))
    state, (drop,) = step(state, OwnerLost(frozenset([T0])))
    assert drop.do is Do.DROP
    state, (read,) = step(state, Finished(start.turn))
    state, (claim,) = step(state, GroupRead(read.turn, {T0: "c-0"}))
    state, (locate,) = step(state, Finished(claim.turn))
    assert (claim.do, locate.do) == (Do.CLAIM, Do.LOCATE)


def test_an_owner_node_we_do_not_count_on_is_nothing_to_us():
    state = settled({T0: "c-0"})
    assert step(state, OwnerLost(frozenset([T1]))) == (state, [])


def after_the_alarm(share):
    """A member that was refused until its alarm, at its next claim."""
    state, (action,) = begin(ClaimingMember(MAX_RETRIES, BACKOFF_MS))
    while not (action.do is Do.CLAIM and state.tries >= MAX_RETRIES):
        report = {
            Do.REGISTER: Finished(action.turn),
            Do.READ: GroupRead(action.turn, share),
            Do.CLAIM: ClaimsRefused(action.turn, {T0: "other-0"}),
            Do.WAIT: Finished(action.turn),
        }[action.do]
        state, (*_, action) = step(state, report)
    return state, action


def test_all_or_nothing_until_the_alarm_and_then_what_can_be_had_is_kept():
    state, _ = begin(ClaimingMember(MAX_RETRIES, BACKOFF_MS))
    state, (read,) = step(state, Finished(state.turn))
    state, (claim,) = step(state, GroupRead(read.turn, {T0: "c-0", T1: "c-0"}))
    assert (read.accept_partial, claim.accept_partial) == (False, False)
    state, claim = after_the_alarm({T0: "c-0", T1: "c-0"})
    assert claim.accept_partial
    state, (locate,) = step(state, ClaimsRefused(claim.turn, {T0: "other-0"}, frozenset([T1])))
    assert (locate.do, set(locate.assignment)) == (Do.LOCATE, {T1})
    state, (start,) = step(state, Located(locate.turn, frozenset([T1])))
    state, (wait,) = step(state, Finished(start.turn))
    assert (wait.do, set(wait.assignment), state.owned, state.settled) == (Do.WAIT, {T0}, {T1: "c-0"}, False)
    state, (read,) = step(state, Finished(wait.turn))
    state, (claim,) = step(state, GroupRead(read.turn, {T0: "c-0", T1: "c-0"}))
    assert (read.accept_partial, set(claim.assignment)) == (True, {T0})


def test_a_partition_won_in_part_and_lost_at_once_is_not_owned():
    state, claim = after_the_alarm({T0: "c-0", T1: "c-0"})
    state, actions = step(state, OwnerLost(frozenset([T1])))
    assert actions == []
    state, _ = step(state, ClaimsRefused(claim.turn, {T0: "other-0"}, frozenset([T1])))
    assert state.owned == {}


def test_a_member_that_was_left_out_keeps_us_from_being_settled():
    state, _ = after_the_alarm({T0: "c-0"})
    state, _ = step(state, CHANGED)
    state, actions = step(state, Finished(state.turn))  # of the claim that was under way
    while state.phase is not Phase.READING:
        report = Located(state.turn, frozenset(state.asked)) if state.phase is Phase.LOCATING else Finished(state.turn)
        state, actions = step(state, report)
    assert actions[-1].accept_partial
    state, (*_, wait) = step(state, GroupRead(state.turn, {T0: "c-0"}, "member x: its node is empty"))
    assert (wait.do, state.blocked, state.owned) == (Do.WAIT, "member x: its node is empty", {T0: "c-0"})


def test_an_alarm_names_the_first_owners_and_counts_the_rest():
    state, _ = begin(ClaimingMember(1, BACKOFF_MS))
    state, (read,) = step(state, Finished(state.turn))
    many = {TopicPartition("t", p): "other-0" for p in range(20)}
    state, (claim,) = step(state, GroupRead(read.turn, dict.fromkeys(many, "c-0")))
    state, (alarm, _) = step(state, ClaimsRefused(claim.turn, many))
    assert alarm.text.endswith("t/7 by other-0 and 12 more")


def test_a_settled_round_starts_the_count_of_tries_anew():
    state, _ = begin(ClaimingMember(MAX_RETRIES, BACKOFF_MS))
    state, (wait,) = step(state, Failed(state.turn, "ZooKeeper is away"))
    state, (register,) = step(state, Finished(wait.turn))
    assert (register.do, state.tries) == (Do.REGISTER, 1)
    state, _ = step(state, Finished(register.turn))
    assert finish_round(state, {T0: "c-0"}).tries == 0
