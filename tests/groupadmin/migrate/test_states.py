"""Which steps lead where, what each needs, and that no way leads around what protects a group."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from groupadmin.migrate.rules.states import (
    COMMANDS,
    FORBIDDEN,
    STEPS,
    MigrationRefused,
    StepFacts,
    StepName,
    begin,
    end,
    step_asked,
    step_from,
    steps_from,
    unmet,
)
from zkconsumer.offsets.migrationmarker import Phase

P, S = Phase, StepName
STOPPED = StepFacts(
    quiet=True,
    kafka_members=0,
    not_in_kafka=0,
    failed_checks=(),
    blocked=0,
    stale=0,
    missing=0,
    apart=0,
    not_moving=(),
    zookeeper_moves=False,
)
ON_ZOOKEEPER = replace(STOPPED, quiet=False, modes={"a": "zookeeper", "b": "zookeeper"})
DUAL = replace(STOPPED, quiet=False, modes={"a": "dual", "b": "dual"})
ON_KAFKA = replace(STOPPED, quiet=False, modes={"a": "kafka", "b": "kafka"})
BY_KAFKA = replace(STOPPED, quiet=False, kafka_members=2)
MIXED = replace(STOPPED, quiet=False, modes={"a": "kafka", "b": "zookeeper"})


def walk(*way: tuple[StepName, StepFacts], start: Phase = P.PLANNED) -> list[str]:
    phase, passed = start, []
    for name, facts in way:
        begin(phase, name, facts)
        phase = end(phase, name, facts)
        passed.append(str(phase))
    return passed


def test_the_offline_copy_and_its_way_back():
    there = [(S.CHECK, STOPPED), (S.COPY, STOPPED), (S.VERIFY, STOPPED), (S.CUTOVER, STOPPED), (S.FINISH, ON_KAFKA)]
    back = [(S.RETURN_COPY, STOPPED), (S.RETURN_VERIFY, STOPPED), (S.ROLL_BACK, STOPPED)]
    assert walk(*there, *back) == [
        "checked", "copied", "verified", "cutover", "done", "copied-back", "verified-back", "rolled-back"
    ]  # fmt: skip


def test_the_live_procedure_and_its_way_back():
    there = [(S.CHECK, ON_ZOOKEEPER), (S.ENTER_DUAL, DUAL), (S.CUTOVER, DUAL), (S.FINISH, ON_KAFKA)]
    back = [(S.RETURN_DUAL, DUAL), (S.ROLL_BACK, DUAL)]
    assert walk(*there, *back) == ["checked", "dual", "cutover", "done", "dual-back", "rolled-back"]


def test_copied_offline_then_watched_in_dual():
    way = [(S.CHECK, STOPPED), (S.COPY, STOPPED), (S.VERIFY, STOPPED), (S.ENTER_DUAL, DUAL), (S.CUTOVER, DUAL)]
    assert walk(*way) == ["checked", "copied", "verified", "dual", "cutover"]


def test_the_handover_to_kafkas_coordinator_and_its_way_back():
    there = [(S.FINISH, ON_KAFKA), (S.HAND_OVER, STOPPED), (S.COORDINATE, BY_KAFKA)]
    back = [(S.RETURN_COORDINATION, STOPPED), (S.FINISH, ON_KAFKA)]
    assert walk(*there, *back, start=P.CUTOVER) == ["done", "handover", "coordinated", "cutover", "done"]


def test_members_that_kafka_coordinates_from_the_cutover_on_are_recorded_without_a_handover():
    assert step_asked("verify", P.DONE, BY_KAFKA) is S.COORDINATE
    assert step_asked("verify", P.DONE, ON_KAFKA) is S.FINISH
    assert walk((S.FINISH, BY_KAFKA), (S.COORDINATE, BY_KAFKA), start=P.CUTOVER) == ["done", "coordinated"]


def test_a_rollback_takes_the_coordination_back_before_the_offsets():
    phases, phase = [], P.COORDINATED
    while phase is not P.ROLLED_BACK:
        phase = end(phase, step_asked("rollback", phase, STOPPED), STOPPED)
        phases.append(str(phase))
    assert phases == ["cutover", "copied-back", "verified-back", "rolled-back"]


@pytest.mark.parametrize("start", [P.PLANNED, P.CHECKED, P.COPIED, P.VERIFIED, P.DUAL])
def test_before_the_cutover_there_is_always_a_way_back_at_once(start):
    assert walk((S.ROLL_BACK, ON_ZOOKEEPER), start=start) == ["rolled-back"]


def test_members_of_a_new_group_that_kafka_coordinates_finish_it_too():
    facts = replace(STOPPED, quiet=False, kafka_members=3)
    assert end(P.CUTOVER, S.FINISH, facts) is P.DONE


# refusals by name -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "step", "facts", "name"),
    [
        (P.PLANNED, S.CUTOVER, STOPPED, "zookeeper to kafka in one bounce"),
        (P.CHECKED, S.CUTOVER, STOPPED, "zookeeper to kafka in one bounce"),
        (P.DUAL, S.CUTOVER, ON_ZOOKEEPER, "zookeeper to kafka in one bounce"),
        (P.DUAL, S.CUTOVER, replace(DUAL, modes_unknown=("jvm",)), "zookeeper to kafka in one bounce"),
        (P.CUTOVER, S.ROLL_BACK, STOPPED, "kafka to zookeeper in one bounce"),
        (P.DONE, S.ROLL_BACK, DUAL, "kafka to zookeeper in one bounce"),
        (P.DUAL, S.ROLL_BACK, ON_KAFKA, "kafka to zookeeper in one bounce"),
        (P.DUAL_BACK, S.ROLL_BACK, replace(DUAL, kafka_members=1), "kafka to zookeeper in one bounce"),
        (P.DUAL_BACK, S.ROLL_BACK, replace(DUAL, modes_unknown=("jvm",)), "kafka to zookeeper in one bounce"),
        (P.VERIFIED_BACK, S.ROLL_BACK, ON_KAFKA, "kafka to zookeeper in one bounce"),
        (P.CHECKED, S.ENTER_DUAL, MIXED, "members on zookeeper and on kafka at once"),
        (P.DUAL, S.CUTOVER, MIXED, "members on zookeeper and on kafka at once"),
        (P.CUTOVER, S.FINISH, replace(ON_ZOOKEEPER, kafka_members=2), "members on zookeeper and on kafka at once"),
        (P.PLANNED, S.COPY, STOPPED, "unchecked plan"),
        (P.COPIED, S.CUTOVER, STOPPED, "unverified copy"),
        (P.COPIED_BACK, S.ROLL_BACK, STOPPED, "unverified copy"),
        (P.DONE, S.COPY, STOPPED, "copy over a newer store"),
        (P.CHECKED, S.COPY, replace(STOPPED, quiet=False), "active group"),
        (P.CHECKED, S.COPY, replace(STOPPED, blocked=1), "undecided partitions"),
        (P.CHECKED, S.COPY, replace(STOPPED, stale=1), "stale plan"),
        (P.VERIFIED, S.CUTOVER, replace(STOPPED, stale=1), "stale plan"),
        (P.COPIED, S.ROLL_BACK, DUAL, "members read kafka"),
        (P.COPIED, S.ROLL_BACK, replace(ON_ZOOKEEPER, modes_unknown=("jvm",)), "members read kafka"),
        (P.ROLLED_BACK, S.CHECK, STOPPED, "rolled back"),
        (P.PLANNED, S.FINISH, ON_KAFKA, "not from here"),
        (P.DUAL, S.CUTOVER, replace(DUAL, apart=1), "stores apart"),
        (P.VERIFIED, S.HAND_OVER, STOPPED, "offsets in zookeeper"),
        (P.DUAL, S.HAND_OVER, STOPPED, "offsets in zookeeper"),
        (P.DONE, S.HAND_OVER, ON_KAFKA, "active group"),
        (P.DONE, S.HAND_OVER, BY_KAFKA, "active group"),
        (P.DONE, S.HAND_OVER, replace(STOPPED, kafka_members=None), "no groups on these brokers"),
        (P.DONE, S.HAND_OVER, replace(STOPPED, not_in_kafka=1), "offsets not in kafka"),
        (P.DONE, S.HAND_OVER, replace(ON_KAFKA, kafka_members=1), "members of zookeeper and of kafka at once"),
        (P.DONE, S.HAND_OVER, replace(STOPPED, owners=1, kafka_members=1), "members of zookeeper and of kafka at once"),
        (P.CUTOVER, S.FINISH, replace(ON_KAFKA, kafka_members=1), "members of zookeeper and of kafka at once"),
        (P.COORDINATED, S.RETURN_COORDINATION, BY_KAFKA, "active group"),
        (P.COORDINATED, S.ROLL_BACK, STOPPED, "coordinated by kafka"),
        (P.HANDOVER, S.RETURN_COPY, STOPPED, "coordinated by kafka"),
    ],
)
def test_forbidden_by_name_with_the_remedy_before_anything_is_written(phase, step, facts, name):
    with pytest.raises(MigrationRefused) as refused:
        begin(phase, step, facts)
    assert refused.value.name == name
    assert refused.value.remedy
    assert str(refused.value).startswith(f"{name}: {COMMANDS[step]} ")
    assert next(each.name for each in unmet(phase, step, facts)) == name


@pytest.mark.parametrize(
    ("phase", "step", "facts", "name"),
    [
        (P.PLANNED, S.CHECK, replace(STOPPED, failed_checks=("brokers",)), "failing checks"),
        (P.CHECKED, S.COPY, replace(STOPPED, missing=2), "not as planned"),
        (P.COPIED, S.VERIFY, replace(STOPPED, stale=1), "stale plan"),
        (P.CHECKED, S.ENTER_DUAL, replace(DUAL, modes={"a": "dual", "b": "zookeeper"}), "members not in dual"),
        (P.CHECKED, S.ENTER_DUAL, replace(DUAL, modes_unknown=("jvm",)), "members not in dual"),
        (P.CHECKED, S.ENTER_DUAL, replace(DUAL, apart=3), "stores apart"),
        (P.CHECKED, S.ENTER_DUAL, replace(DUAL, not_moving=("zookeeper",)), "a store does not move"),
        (P.CUTOVER, S.FINISH, replace(ON_KAFKA, zookeeper_moves=True), "members still write zookeeper"),
        (P.CUTOVER, S.FINISH, replace(ON_KAFKA, modes={"a": "kafka", "b": "dual"}), "members not on kafka"),
        (P.CUTOVER, S.RETURN_COPY, replace(STOPPED, missing=1), "not as planned"),
        (P.CUTOVER, S.RETURN_DUAL, replace(DUAL, apart=1), "stores apart"),
        (P.HANDOVER, S.COORDINATE, STOPPED, "members not coordinated by kafka"),
        (P.HANDOVER, S.COORDINATE, ON_KAFKA, "members not coordinated by kafka"),
        (P.HANDOVER, S.COORDINATE, replace(BY_KAFKA, kafka_unknown="silent"), "members not coordinated by kafka"),
        (P.CUTOVER, S.FINISH, replace(BY_KAFKA, kafka_unknown="silent"), "members not on kafka"),
        (P.HANDOVER, S.COORDINATE, replace(BY_KAFKA, zookeeper_moves=True), "members still write zookeeper"),
        (P.HANDOVER, S.COORDINATE, replace(BY_KAFKA, owners=2), "members of zookeeper and of kafka at once"),
    ],
)
def test_a_phase_does_not_hold_before_it_is_proved(phase, step, facts, name):
    with pytest.raises(MigrationRefused) as refused:
        end(phase, step, facts)
    assert refused.value.name == name


def test_what_was_needed_before_a_step_is_needed_at_its_end_too():
    begin(P.CHECKED, S.COPY, STOPPED)
    with pytest.raises(MigrationRefused, match="active group"):
        end(P.CHECKED, S.COPY, replace(STOPPED, quiet=False))


# of the table as a whole ----------------------------------------------------------------------------------------------


def phases_before(goal: Phase, without: set[Phase]) -> set[Phase]:
    """All phases from which a goal can be reached without passing some others."""
    found, more = {goal}, True
    while more:
        before = {p for step in STEPS if step.after in found for p in step.before if p not in without}
        more = not before <= found
        found |= before
    return found


def test_nobody_gets_to_the_cutover_around_both_the_verified_copy_and_dual():
    around = phases_before(P.CUTOVER, {P.VERIFIED, P.DUAL})
    assert around & {P.PLANNED, P.CHECKED, P.COPIED} == set()


def test_nobody_gets_back_from_kafka_around_both_dual_and_the_verified_copy():
    assert phases_before(P.ROLLED_BACK, {P.DUAL_BACK, P.VERIFIED_BACK}) & {P.CUTOVER, P.DONE} == set()


def test_nothing_leads_on_once_rolled_back():
    assert steps_from(P.ROLLED_BACK) == []


def test_every_phase_but_the_first_is_reached_and_every_step_is_used():
    assert {step.after for step in STEPS} == set(P) - {P.PLANNED}
    assert {step.name for step in STEPS} == set(S)


def test_a_phase_and_a_name_mean_one_step_and_what_is_allowed_is_not_forbidden():
    meant = [(phase, step.name) for step in STEPS for phase in step.before]
    assert len(meant) == len(set(meant))
    assert not set(meant) & FORBIDDEN.keys()


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step.name} to {step.after}")
def test_who_did_not_look_writes_no_offsets_and_proves_nothing(step):
    nobody_looked, phase = StepFacts(), min(step.before)
    if {"kafka offsets", "zookeeper offsets"} & step.writes:
        with pytest.raises(MigrationRefused):
            begin(phase, step.name, nobody_looked)
    if step.name != S.ROLL_BACK or phase not in (P.PLANNED, P.CHECKED):
        with pytest.raises(MigrationRefused):
            end(phase, step.name, nobody_looked)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step.name} to {step.after}")
def test_no_step_ends_while_members_are_on_zookeeper_and_on_kafka_at_once(step):
    for phase in step.before:
        with pytest.raises(MigrationRefused, match="at once"):
            end(phase, step.name, replace(MIXED, quiet=True))


@pytest.mark.parametrize("name", [field.name for field in fields(StepFacts) if field.name != "first"])
def test_each_fact_is_needed_by_some_step(name):
    bad = {
        "modes": {"a": "kafka", "b": "zookeeper"},
        "modes_unknown": ("jvm",),
        "quiet": False,
        "kafka_members": 2,
        "failed_checks": ("x",),
        "not_moving": ("kafka",),
        "zookeeper_moves": True,
    }.get(name, 1)
    stops = 0
    for good in (STOPPED, DUAL, ON_KAFKA, BY_KAFKA):
        for step in STEPS:
            phase = min(step.before)
            if not unmet(phase, step.name, good):
                stops += bool(unmet(phase, step.name, replace(good, **{name: bad})))
    assert stops


def test_a_refusal_for_partitions_names_the_first_and_how_it_is():
    sentence = "orders-0 in kafka: its coordinator does not answer"
    stopped = replace(STOPPED, stale=4, first={"stale": sentence})
    assert any(
        f"4 partitions that are not as planned, the first: {sentence}" in need.text
        for step in STEPS
        for need in unmet(min(step.before), step.name, stopped)
    )


def test_a_step_can_be_made_again_from_where_it_led():
    there, back = (S.CHECK, S.COPY, S.VERIFY, S.ENTER_DUAL), (S.RETURN_DUAL, S.RETURN_COPY, S.RETURN_VERIFY)
    for name in (*there, S.FINISH, S.COORDINATE, *back):
        after = next(step.after for step in STEPS if step.name == name)
        assert step_from(after, name).after is after
