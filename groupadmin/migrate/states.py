"""The way of one group off ZooKeeper, and back: phases, and the steps between them.  Pure.

    planned -> checked -> copied -> verified -> cutover -> done               offline copy: every member is stopped
    planned -> checked -> dual -> cutover -> done                             live: members are bounced one by one
    planned -> checked -> copied -> verified -> dual -> cutover -> done       copied offline, then watched for a while

    planned .. dual -> rolled-back                                            nobody has left ZooKeeper yet
    cutover | done -> dual-back -> rolled-back                                live: back through dual
    cutover | done -> copied-back -> verified-back -> rolled-back             every member is stopped: copied back

    planned   the plan is made                           cutover       members may be started on Kafka alone
    checked   no check fails                             done          nobody reads or writes ZooKeeper any more
    copied    Kafka holds what the plan says             ..-back       the same on the way back: both stores agree again
    verified  it was read back, and nothing has moved    rolled-back   ZooKeeper is the group's store; the end
    dual      every member writes both, and they agree

A phase holds when its line is in the journal, not before.  Each step may be made again any number of times and ends in
the same phase with the same stores.  What members do is not a phase, because it changes outside of us: a step looks at
it anew (needs.Facts) before it writes (Step.needs) and before it ends (Step.proves).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from groupadmin.migrate import needs
from groupadmin.migrate.needs import Facts, Need
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.marker import Phase

Writes = Literal["zookeeper offsets", "kafka offsets", "marker", "undo file"]  # every step writes the journal


class StepName(StrEnum):
    """What moves a group; the values stand in journals."""

    CHECK = "check"
    COPY = "copy"
    VERIFY = "verify"
    ENTER_DUAL = "enter-dual"
    CUTOVER = "cutover"
    FINISH = "finish"
    RETURN_DUAL = "return-dual"
    RETURN_COPY = "return-copy"
    RETURN_VERIFY = "return-verify"
    ROLL_BACK = "roll-back"


class MigrationRefused(ConsumerError):
    """A step that may not be made now.  .name: what forbids it; .remedy: what helps; both are in the message."""

    def __init__(self, name: str, text: str, remedy: str) -> None:
        super().__init__(f"{name}: {text}; {remedy}")
        self.name = name
        self.text = text
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Step:
    """One way from some phases to another.

    needs: before its first write.  proves: beside the needs, looked at anew, before its phase may be said to hold.
    writes: what it may touch.
    """

    name: StepName
    before: frozenset[Phase]
    after: Phase
    needs: tuple[Need, ...] = ()
    proves: tuple[Need, ...] = ()
    writes: frozenset[Writes] = frozenset()


def _step(
    name: StepName,
    before: tuple[Phase, ...],
    after: Phase,
    needs: tuple[Need, ...] = (),
    proves: tuple[Need, ...] = (),
    writes: tuple[Writes, ...] = (),
) -> Step:
    return Step(name, frozenset(before), after, needs, proves, frozenset(writes))


P, S = Phase, StepName
# fmt: off
STEPS: Final = (
    # making a step again from the phase it leads to is allowed where looking or copying again makes sense
    _step(S.CHECK, (P.PLANNED, P.CHECKED), P.CHECKED,
          proves=(needs.NOT_MIXED, needs.CHECKS_PASS), writes=("marker",)),
    _step(S.COPY, (P.CHECKED, P.COPIED), P.COPIED,
          (needs.NOT_MIXED, needs.QUIET, needs.NOTHING_OPEN, needs.NOT_STALE), (needs.AS_PLANNED,),
          ("undo file", "kafka offsets", "marker")),
    _step(S.VERIFY, (P.COPIED, P.VERIFIED), P.VERIFIED,
          proves=(needs.NOT_MIXED, needs.NOT_STALE, needs.AS_PLANNED), writes=("marker",)),
    _step(S.ENTER_DUAL, (P.CHECKED, P.COPIED, P.VERIFIED, P.DUAL), P.DUAL,
          (needs.NOT_MIXED,), (needs.ALL_DUAL, needs.STORES_AGREE, needs.BOTH_MOVE), ("marker",)),
    # offline: the last look and the last copy, while nobody is there
    _step(S.CUTOVER, (P.VERIFIED,), P.CUTOVER,
          (needs.NOT_MIXED, needs.QUIET, needs.NOTHING_OPEN, needs.NOT_STALE), (needs.AS_PLANNED,),
          ("undo file", "kafka offsets", "marker")),
    # live: members go on to Kafka after this, one by one
    _step(S.CUTOVER, (P.DUAL, P.DUAL_BACK), P.CUTOVER,
          (needs.NOT_MIXED, needs.DUAL_OR_STOPPED, needs.STORES_AGREE), writes=("marker",)),
    _step(S.FINISH, (P.CUTOVER, P.DONE), P.DONE,
          (needs.NOT_MIXED,), (needs.ALL_KAFKA, needs.ZOOKEEPER_RESTS), ("marker",)),
    _step(S.RETURN_DUAL, (P.CUTOVER, P.DONE, P.DUAL_BACK), P.DUAL_BACK,
          (needs.NOT_MIXED, needs.ALL_DUAL), (needs.STORES_AGREE, needs.BOTH_MOVE),
          ("undo file", "zookeeper offsets", "marker")),  # offsets: of idle partitions, which JVM members do not write
    _step(S.RETURN_COPY, (P.CUTOVER, P.DONE, P.COPIED_BACK), P.COPIED_BACK,
          (needs.NOT_MIXED, needs.QUIET, needs.NOTHING_OPEN, needs.NOT_STALE), (needs.AS_PLANNED,),
          ("undo file", "zookeeper offsets", "marker")),
    _step(S.RETURN_VERIFY, (P.COPIED_BACK, P.VERIFIED_BACK), P.VERIFIED_BACK,
          (needs.NOT_MIXED, needs.QUIET), (needs.NOT_STALE, needs.AS_PLANNED), ("marker",)),
    _step(S.ROLL_BACK, (P.PLANNED, P.CHECKED), P.ROLLED_BACK, (needs.NOT_MIXED,), writes=("marker",)),
    _step(S.ROLL_BACK, (P.COPIED, P.VERIFIED), P.ROLLED_BACK,
          (needs.NOT_MIXED, needs.NOBODY_READS_KAFKA), writes=("undo file", "kafka offsets", "marker")),
    _step(S.ROLL_BACK, (P.DUAL, P.DUAL_BACK), P.ROLLED_BACK,
          (needs.NOT_MIXED, needs.NOBODY_ONLY_ON_KAFKA, needs.STORES_AGREE), writes=("marker",)),
    _step(S.ROLL_BACK, (P.VERIFIED_BACK,), P.ROLLED_BACK,
          (needs.NOT_MIXED, needs.NOBODY_ONLY_ON_KAFKA), writes=("marker",)),
    # somebody read on from Kafka after it was copied back: once more
    _step(S.RETURN_COPY, (P.VERIFIED_BACK,), P.COPIED_BACK,
          (needs.NOT_MIXED, needs.QUIET, needs.NOTHING_OPEN, needs.NOT_STALE), (needs.AS_PLANNED,),
          ("undo file", "zookeeper offsets", "marker")),
)
# fmt: on

_COPY_FIRST = "copy and verify with every member stopped, or take every member to dual and verify that"
_BACK_FIRST = "take every member back to dual (return-dual), or stop all of them and copy back (return-copy)"
_AGAIN = "make a new plan"

FORBIDDEN: Final = {  # what people try; everything else that is not in STEPS is refused as "not from here"
    (P.PLANNED, S.COPY): ("unchecked plan", "nothing was checked", "run `zkconsumer migrate check` first"),
    (P.PLANNED, S.ENTER_DUAL): ("unchecked plan", "nothing was checked", "run `zkconsumer migrate check` first"),
    (P.PLANNED, S.CUTOVER): ("zookeeper to kafka in one bounce", "nothing was checked or copied", _COPY_FIRST),
    (P.CHECKED, S.CUTOVER): ("zookeeper to kafka in one bounce", "Kafka holds no positions of the group", _COPY_FIRST),
    (P.COPIED, S.CUTOVER): ("unverified copy", "the copy was not read back", "run `zkconsumer migrate verify` first"),
    (P.CUTOVER, S.ROLL_BACK): (
        "kafka to zookeeper in one bounce",
        "ZooKeeper is behind since the cutover",
        _BACK_FIRST,
    ),
    (P.DONE, S.ROLL_BACK): ("kafka to zookeeper in one bounce", "ZooKeeper is behind since the cutover", _BACK_FIRST),
    (P.COPIED_BACK, S.ROLL_BACK): ("unverified copy", "the copy was not read back", "verify it (return-verify) first"),
    (P.CUTOVER, S.COPY): ("copy over a newer store", "Kafka is ahead of ZooKeeper since the cutover", _BACK_FIRST),
    (P.DONE, S.COPY): ("copy over a newer store", "Kafka is ahead of ZooKeeper since the cutover", _BACK_FIRST),
    (P.DUAL, S.COPY): ("copy over a newer store", "members commit to Kafka themselves", "set partitions by hand"),
}


def step_from(phase: Phase, name: StepName) -> Step:
    """The step of this name that leads on from a phase.  Raises MigrationRefused where there is none."""
    for step in STEPS:
        if step.name == name and phase in step.before:
            return step
    if phase is Phase.ROLLED_BACK:
        raise MigrationRefused("rolled back", f"{name} after the group was rolled back", _AGAIN)
    if (phase, name) in FORBIDDEN:
        what, text, remedy = FORBIDDEN[phase, name]
        raise MigrationRefused(what, f"{name} of a group that is {phase}: {text}", remedy)
    open_to = ", ".join(step.name for step in steps_from(phase)) or "none"
    raise MigrationRefused("not from here", f"{name} does not lead on from {phase}", f"steps that do: {open_to}")


def steps_from(phase: Phase) -> list[Step]:
    """The steps that lead on, the usual one first; those that only repeat the phase are left out."""
    return [step for step in STEPS if phase in step.before and step.after != phase]


def begin(phase: Phase, name: StepName, facts: Facts) -> Step:
    """The step, when it may write now.  Raises MigrationRefused naming the first need that is not met."""
    step = step_from(phase, name)
    _hold(step.needs, name, phase, facts)
    return step


def end(phase: Phase, name: StepName, facts: Facts) -> Phase:
    """The phase that holds once this is journalled.  Raises MigrationRefused naming the first need that is not met."""
    step = step_from(phase, name)
    _hold((*step.needs, *step.proves), name, phase, facts)
    return step.after


def unmet(phase: Phase, name: StepName, facts: Facts) -> list[MigrationRefused]:
    """All that stands in the way, for a preview; empty: nothing."""
    try:
        step = step_from(phase, name)
    except MigrationRefused as why:
        return [why]
    return [_refusal(need, name, phase, facts) for need in (*step.needs, *step.proves) if not need.met(facts)]


def _hold(wanted: tuple[Need, ...], name: StepName, phase: Phase, facts: Facts) -> None:
    for need in wanted:
        if not need.met(facts):
            raise _refusal(need, name, phase, facts)


def _refusal(need: Need, name: StepName, phase: Phase, facts: Facts) -> MigrationRefused:
    return MigrationRefused(need.name, f"{name} of a group that is {phase}: {need.text(facts)}", need.remedy)
