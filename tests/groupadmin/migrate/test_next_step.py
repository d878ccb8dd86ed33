"""What is asked for becomes the step that is meant, from every phase, and a rollback always comes to its end."""

from __future__ import annotations

import pytest

from groupadmin.commands.migrate import migrate
from groupadmin.migrate.rules.states import (
    COMMANDS,
    FORBIDDEN,
    MigrationRefused,
    StepFacts,
    StepName,
    commands_from,
    step_asked,
    step_from,
    unmet,
)
from zkconsumer.offsets.migrationmarker import Phase

P, S = Phase, StepName
STOPPED, DUAL, JVM = StepFacts(), StepFacts(modes={"a": "dual"}), StepFacts(modes_unknown=("jvm",))


def way_back(phase: Phase, facts: StepFacts) -> list[StepName]:
    """All steps of a rollback from a phase while no member comes or goes."""
    steps: list[StepName] = []
    while phase is not Phase.ROLLED_BACK:
        steps.append(step_asked("rollback", phase, facts))
        phase = step_from(phase, steps[-1]).after
    return steps


@pytest.mark.parametrize(
    ("asked", "phase", "facts", "step"),
    [
        ("check", P.PLANNED, STOPPED, S.CHECK),
        ("copy", P.CHECKED, STOPPED, S.COPY),
        ("cutover", P.DUAL, DUAL, S.CUTOVER),
        ("verify", P.COPIED, STOPPED, S.VERIFY),
        ("verify", P.COPIED, JVM, S.ENTER_DUAL),
        ("verify", P.CHECKED, DUAL, S.ENTER_DUAL),
        ("verify", P.DUAL, DUAL, S.ENTER_DUAL),
        ("verify", P.CUTOVER, DUAL, S.FINISH),
        ("verify", P.COPIED_BACK, STOPPED, S.RETURN_VERIFY),
        ("verify", P.DUAL_BACK, DUAL, S.RETURN_DUAL),
        ("rollback", P.COPIED, STOPPED, S.ROLL_BACK),
        ("rollback", P.DONE, STOPPED, S.RETURN_COPY),
        ("rollback", P.DONE, DUAL, S.RETURN_DUAL),
        ("rollback", P.DONE, StepFacts(kafka_members=1), S.RETURN_DUAL),
        ("rollback", P.COPIED_BACK, STOPPED, S.RETURN_VERIFY),
    ],
)
def test_the_step_that_is_meant(asked, phase, facts, step):
    assert step_asked(asked, phase, facts) is step


@pytest.mark.parametrize(
    ("asked", "phase", "name"),
    [
        ("verify", P.PLANNED, "unchecked plan"),
        ("copy", P.PLANNED, "unchecked plan"),
        ("cutover", P.CHECKED, "zookeeper to kafka in one bounce"),
        ("rollback", P.ROLLED_BACK, "rolled back"),
        ("verify", P.ROLLED_BACK, "rolled back"),
    ],
)
def test_what_leads_nowhere_is_refused_by_name(asked, phase, name):
    with pytest.raises(MigrationRefused) as refused:
        step_asked(asked, phase, STOPPED)
    assert refused.value.name == name


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.ROLLED_BACK])
@pytest.mark.parametrize("facts", [STOPPED, DUAL, JVM])
def test_from_everywhere_there_is_a_way_back_to_its_end(phase, facts):
    assert way_back(phase, facts)[-1] is S.ROLL_BACK


def test_the_way_back_from_kafka():
    assert way_back(P.DONE, STOPPED) == [S.RETURN_COPY, S.RETURN_VERIFY, S.ROLL_BACK]
    assert way_back(P.DONE, DUAL) == [S.RETURN_DUAL, S.ROLL_BACK]
    assert way_back(P.ROLLED_BACK, STOPPED) == []


@pytest.mark.parametrize("phase", [P.COPIED_BACK, P.VERIFIED_BACK])
def test_where_kafka_went_on_after_the_copy_back_it_is_copied_back_again_if_everybody_is_stopped(phase):
    again = step_asked("rollback", phase, STOPPED, behind=True)
    assert again is S.RETURN_COPY
    assert step_from(phase, again).after is P.COPIED_BACK
    assert step_asked("rollback", phase, DUAL, behind=True) is step_asked("rollback", phase, DUAL)


def test_every_step_has_a_command_that_can_be_typed():
    assert set(COMMANDS) == set(StepName)
    assert set(COMMANDS.values()) <= set(migrate.commands)
    assert commands_from(P.CUTOVER) == ["verify", "handover", "rollback"]
    assert commands_from(P.HANDOVER) == ["verify", "takeback"]
    assert commands_from(P.ROLLED_BACK) == []


@pytest.mark.parametrize("phase", list(Phase))
def test_a_refusal_names_commands_and_no_inner_step(phase):
    inner = {str(name) for name in StepName} - set(migrate.commands) - {"coordinate", "finish"}  # words of their own
    refusals = [why for name in StepName for why in unmet(phase, name, STOPPED)]
    assert refusals
    for why in refusals:
        assert not [name for name in inner if name in str(why)], str(why)
        assert str(why).split(": ")[1].split()[0] in migrate.commands


def test_what_helps_after_the_cutover_is_the_command_that_goes_back():
    with pytest.raises(MigrationRefused, match="`zkconsumer migrate rollback`"):
        step_asked("copy", P.CUTOVER, STOPPED)
    with pytest.raises(MigrationRefused, match="`zkconsumer migrate takeback`"):
        step_asked("cutover", P.HANDOVER, STOPPED)
    assert len({remedy for *_, remedy in FORBIDDEN.values() if "zkconsumer migrate" in remedy}) >= 4
