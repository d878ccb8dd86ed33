"""The states of a group's migration off ZooKeeper, and back: phases, steps, and what each step requires.  Pure.

    planned -> checked -> copied -> verified -> cutover -> done               offline copy: every member is stopped
    planned -> checked -> dual -> cutover -> done                             live: members are restarted one by one
    planned -> checked -> copied -> verified -> dual -> cutover -> done       copied offline, then watched for a while

    planned .. dual -> rolled-back                                            no member has left ZooKeeper yet
    cutover | done -> dual-back -> rolled-back                                live: back through dual
    cutover | done -> copied-back -> verified-back -> rolled-back             every member is stopped: copied back

    planned   the plan is made                           cutover       members may be started on Kafka alone
    checked   no check fails                             done          no member reads or writes ZooKeeper any more
    copied    Kafka holds what the plan says             ..-back       the same on the way back: both stores agree again
    verified  it was read back, and nothing has moved    rolled-back   ZooKeeper is the group's store; the end
    dual      every member writes both, and they agree

A phase holds when its line is in the journal, not before.  Each step may be repeated any number of times and ends in
the same phase with the same stores.  What members do is not a phase, because it changes outside of us: a step looks at
the group again (Facts) before it writes (Step.needs) and before it ends (Step.proves).  Each requirement has a name,
what was seen, and what helps where it does not hold (Need).

Which step an operator's command means depends on the phase and on the members that are there (step_asked):

    verify      reads a copy back; with members present it proves dual; after the cutover, that all members use Kafka
    rollback    the next step back: a group that left ZooKeeper is copied back if every member is stopped, and taken
                through dual if not; a group that was copied back is copied again where Kafka went on after it

A rollback is several steps: ask again with the phase reached until it is rolled-back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

from groundwork.plural import counted
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.migrationmarker import Phase
from zkconsumer.offsets.modes import Mode


@dataclass(frozen=True, slots=True)
class Facts:
    """A group as it was looked at just before a step, or at its end.  None: nobody looked, which is never good enough.

    modes           of the members that tell theirs, and of those the operator answers for: member -> mode
    modes_unknown   members that tell no mode: JVM members and other clients
    quiet           no ids, no owners, no member in Kafka, for as many looks as were asked for (gate.py)
    kafka_members   members of a group of this name that Kafka coordinates
    failed_checks   checks that fail, each with what was seen and what helps (checks.failures)
    blocked         partitions the plan leaves open: conflicts, out of range, unreadable
    stale           partitions whose stores are not as the plan saw them, or cannot be told
    missing         partitions that do not hold what the plan says
    apart           partitions whose stores differ by more than one commit interval explains
    standing_still  stores that did not move between two looks although there was something to read
    zookeeper_moves whether its offsets moved between two looks
    first           of what is counted above: field -> a sentence about the first one
    """

    modes: Mapping[str, Mode] = field(default_factory=dict)
    modes_unknown: tuple[str, ...] = ()
    quiet: bool | None = None
    kafka_members: int | None = None
    failed_checks: tuple[str, ...] | None = None
    blocked: int | None = None
    stale: int | None = None
    missing: int | None = None
    apart: int | None = None
    standing_still: tuple[str, ...] | None = None
    zookeeper_moves: bool | None = None
    first: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Need:
    """met(facts) is False also where nobody looked; text(facts) says what was seen instead."""

    name: str
    met: Callable[[Facts], bool]
    text: Callable[[Facts], str]
    remedy: str


def _count(things: int | None, what: str, first: str | None = None) -> str:
    counted = f"nobody looked for {what}" if things is None else f"{things} {what}"
    return f"{counted}, the first: {first}" if first else counted


def _told(facts: Facts) -> str:
    told = ", ".join(f"{member} is on {mode}" for member, mode in sorted(facts.modes.items()))
    if facts.kafka_members:
        told = ", ".join(
            filter(None, (told, f"{counted(facts.kafka_members, 'member')} in a group that Kafka coordinates"))
        )
    unknown = f"no mode is told by {', '.join(facts.modes_unknown)}" if facts.modes_unknown else ""
    return "; ".join(filter(None, (told, unknown))) or "no member is there"


def _only(*modes: Mode) -> Callable[[Facts], bool]:
    """There are members, each tells its mode, and it is one of these."""
    return lambda facts: bool(facts.modes) and not facts.modes_unknown and set(facts.modes.values()) <= {*modes}


def _looked_twice(seen: object, text: str) -> str:
    return "nobody looked twice" if seen is None else text


NOT_MIXED: Final = Need(
    "members on zookeeper and on kafka at once",
    lambda facts: (
        not ("zookeeper" in facts.modes.values() and ("kafka" in facts.modes.values() or bool(facts.kafka_members)))
    ),
    _told,
    "neither reads what the other writes, so partitions that change hands are read twice or skipped: "
    "take every member to dual now, or stop all of them",
)
CHECKS_PASS: Final = Need(
    "failing checks",
    lambda facts: facts.failed_checks == (),
    lambda facts: "nobody checked" if facts.failed_checks is None else f"failing: {' and '.join(facts.failed_checks)}",
    "mend that and run `zkconsumer migrate check` again",
)
NOTHING_OPEN: Final = Need(
    "undecided partitions",
    lambda facts: facts.blocked == 0,
    lambda facts: _count(facts.blocked, "partitions that the plan leaves open", facts.first.get("blocked")),
    "plan again with --prefer or --on-out-of-range, or set these partitions by hand first",
)
NOT_STALE: Final = Need(
    "stale plan",
    lambda facts: facts.stale == 0,
    lambda facts: _count(facts.stale, "partitions that are not as planned", facts.first.get("stale")),
    "somebody still commits, or did: stop the whole group, then plan again; a store that could not tell: try again",
)
QUIET: Final = Need(
    "active group",
    lambda facts: facts.quiet is True,
    lambda facts: (
        "nobody looked long enough" if facts.quiet is None else f"members or owners are there: {_told(facts)}"
    ),
    "stop every member, old and new, and wait until the session timeout is over",
)
AS_PLANNED: Final = Need(
    "not as planned",
    lambda facts: facts.missing == 0,
    lambda facts: _count(facts.missing, "partitions that do not hold what the plan says", facts.first.get("missing")),
    "copy again: what is there already is not written twice",
)
ALL_DUAL: Final = Need(
    "members not in dual",
    _only("dual"),
    _told,
    "bounce the others to offsets.storage=kafka with dual.commit.enabled=true; for members that tell no mode answer "
    "with --mode",
)
DUAL_OR_STOPPED: Final = Need(
    "zookeeper to kafka in one bounce",
    lambda facts: (
        _only("dual", "kafka")(facts) or (facts.quiet is True and not facts.modes and not facts.modes_unknown)
    ),
    _told,
    "what a member on ZooKeeper alone commits is not seen by one on Kafka alone: take every member to dual first, or "
    "stop all of them; for members that tell no mode answer with --mode",
)
STORES_AGREE: Final = Need(
    "stores apart",
    lambda facts: facts.apart == 0,
    lambda facts: _count(facts.apart, "partitions whose stores differ by more than one commit interval explains"),
    "wait for two commit intervals and look again; set idle partitions in both stores with `zkconsumer offsets set`",
)
BOTH_MOVE: Final = Need(
    "a store stands still",
    lambda facts: facts.standing_still == (),
    lambda facts: _looked_twice(facts.standing_still, f"not moving: {', '.join(facts.standing_still or ())}"),
    "find out why commits to it fail before any member goes on",
)
ALL_KAFKA: Final = Need(
    "members not on kafka",
    lambda facts: (
        not facts.modes_unknown
        and (bool(facts.modes) or bool(facts.kafka_members))
        and set(facts.modes.values()) <= {"kafka"}
    ),
    _told,
    "start the members with offsets.storage=kafka and dual.commit.enabled=false, or as a group that Kafka coordinates; "
    "for members that tell no mode answer with --mode",
)
ZOOKEEPER_RESTS: Final = Need(
    "somebody still writes zookeeper",
    lambda facts: facts.zookeeper_moves is False,
    lambda facts: _looked_twice(facts.zookeeper_moves, "its offsets moved between two looks"),
    "find the member that commits there (`zkconsumer groups members`) and bounce it",
)
NOBODY_READS_KAFKA: Final = Need(
    "somebody reads kafka",
    lambda facts: facts.quiet is True or (_only("zookeeper")(facts) and not facts.kafka_members),
    _told,
    "the copies in Kafka are taken back only when nobody starts from them: stop these members, or go on to dual",
)
NOBODY_ONLY_ON_KAFKA: Final = Need(
    "kafka to zookeeper in one bounce",
    lambda facts: facts.quiet is True or (_only("zookeeper", "dual")(facts) and not facts.kafka_members),
    _told,
    "ZooKeeper holds the positions of the day it was left: take every member back to dual first, or stop all of them "
    "and copy Kafka's positions back",
)


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
          proves=(NOT_MIXED, CHECKS_PASS), writes=("marker",)),
    _step(S.COPY, (P.CHECKED, P.COPIED), P.COPIED,
          (NOT_MIXED, QUIET, NOTHING_OPEN, NOT_STALE), (AS_PLANNED,),
          ("undo file", "kafka offsets", "marker")),
    _step(S.VERIFY, (P.COPIED, P.VERIFIED), P.VERIFIED,
          proves=(NOT_MIXED, NOT_STALE, AS_PLANNED), writes=("marker",)),
    _step(S.ENTER_DUAL, (P.CHECKED, P.COPIED, P.VERIFIED, P.DUAL), P.DUAL,
          (NOT_MIXED,), (ALL_DUAL, STORES_AGREE, BOTH_MOVE), ("marker",)),
    # offline: the last look and the last copy, while nobody is there
    _step(S.CUTOVER, (P.VERIFIED,), P.CUTOVER,
          (NOT_MIXED, QUIET, NOTHING_OPEN, NOT_STALE), (AS_PLANNED,),
          ("undo file", "kafka offsets", "marker")),
    # live: members go on to Kafka after this, one by one
    _step(S.CUTOVER, (P.DUAL, P.DUAL_BACK), P.CUTOVER,
          (NOT_MIXED, DUAL_OR_STOPPED, STORES_AGREE), writes=("marker",)),
    _step(S.FINISH, (P.CUTOVER, P.DONE), P.DONE,
          (NOT_MIXED,), (ALL_KAFKA, ZOOKEEPER_RESTS), ("marker",)),
    _step(S.RETURN_DUAL, (P.CUTOVER, P.DONE, P.DUAL_BACK), P.DUAL_BACK,
          (NOT_MIXED, ALL_DUAL), (STORES_AGREE, BOTH_MOVE),
          ("undo file", "zookeeper offsets", "marker")),  # offsets: of idle partitions, which JVM members do not write
    _step(S.RETURN_COPY, (P.CUTOVER, P.DONE, P.COPIED_BACK), P.COPIED_BACK,
          (NOT_MIXED, QUIET, NOTHING_OPEN, NOT_STALE), (AS_PLANNED,),
          ("undo file", "zookeeper offsets", "marker")),
    _step(S.RETURN_VERIFY, (P.COPIED_BACK, P.VERIFIED_BACK), P.VERIFIED_BACK,
          (NOT_MIXED, QUIET), (NOT_STALE, AS_PLANNED), ("marker",)),
    _step(S.ROLL_BACK, (P.PLANNED, P.CHECKED), P.ROLLED_BACK, (NOT_MIXED,), writes=("marker",)),
    _step(S.ROLL_BACK, (P.COPIED, P.VERIFIED), P.ROLLED_BACK,
          (NOT_MIXED, NOBODY_READS_KAFKA), writes=("undo file", "kafka offsets", "marker")),
    _step(S.ROLL_BACK, (P.DUAL, P.DUAL_BACK), P.ROLLED_BACK,
          (NOT_MIXED, NOBODY_ONLY_ON_KAFKA, STORES_AGREE), writes=("marker",)),
    _step(S.ROLL_BACK, (P.VERIFIED_BACK,), P.ROLLED_BACK,
          (NOT_MIXED, NOBODY_ONLY_ON_KAFKA), writes=("marker",)),
    # somebody read on from Kafka after it was copied back: once more
    _step(S.RETURN_COPY, (P.VERIFIED_BACK,), P.COPIED_BACK,
          (NOT_MIXED, QUIET, NOTHING_OPEN, NOT_STALE), (AS_PLANNED,),
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


Asked = Literal["check", "copy", "verify", "cutover", "rollback"]

_VERIFY = {
    Phase.CUTOVER: StepName.FINISH,
    Phase.DONE: StepName.FINISH,
    Phase.DUAL_BACK: StepName.RETURN_DUAL,
    Phase.COPIED_BACK: StepName.RETURN_VERIFY,
    Phase.VERIFIED_BACK: StepName.RETURN_VERIFY,
}
COPIED = (Phase.COPIED_BACK, Phase.VERIFIED_BACK)


def step_asked(asked: Asked, phase: Phase, facts: Facts, behind: bool = False) -> StepName:
    """The step that is meant.  Raises MigrationRefused where none of this kind leads on.

    behind: ZooKeeper holds less than is to be copied back.
    """
    somebody = bool(facts.modes or facts.modes_unknown or facts.kafka_members)
    name = _step_meant(asked, phase, somebody)
    if asked == "rollback" and phase in COPIED and behind and not somebody:
        name = StepName.RETURN_COPY
    step_from(phase, name)
    return name


def _step_meant(asked: Asked, phase: Phase, somebody: bool) -> StepName:
    if asked == "verify":
        if phase in (Phase.COPIED, Phase.VERIFIED):
            return StepName.ENTER_DUAL if somebody else StepName.VERIFY
        return _VERIFY.get(phase, StepName.ENTER_DUAL)
    if asked == "rollback":
        if phase in (Phase.CUTOVER, Phase.DONE):
            return StepName.RETURN_DUAL if somebody else StepName.RETURN_COPY
        return StepName.RETURN_VERIFY if phase is Phase.COPIED_BACK else StepName.ROLL_BACK
    return StepName(asked)
