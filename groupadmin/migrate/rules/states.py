"""States of a group's migration from ZooKeeper to Kafka and back: phases, steps, and their requirements.  Pure.

    planned -> checked -> copied -> verified -> cutover -> done               offline copy: every member is stopped
    planned -> checked -> dual -> cutover -> done                             live: members are restarted one by one
    planned -> checked -> copied -> verified -> dual -> cutover -> done       copied offline, then in dual for a while

    planned .. dual -> rolled-back                                            no member has left ZooKeeper yet
    cutover | done -> dual-back -> rolled-back                                live: back through dual
    cutover | done -> copied-back -> verified-back -> rolled-back             every member is stopped: copied back

    cutover | done -> handover -> coordinated                     members join the group at the brokers (0.9 and later)
    handover | coordinated -> cutover                             and back to ZooKeeper, offsets staying in Kafka

    planned   the plan is made                           cutover       members may be started on Kafka alone
    checked   no check fails                             done          no member reads or writes ZooKeeper any more
    copied    Kafka holds what the plan says             ..-back       the same on the way back: both stores agree again
    verified  it was read back, and nothing has moved    rolled-back   ZooKeeper is the group's store; the end
    dual      every member writes both, and they agree
    handover      no member is left on either side: members may be started with coordination=kafka, in ZooKeeper none
    coordinated   every member is one that Kafka coordinates

A phase holds when its line is in the journal, not before.  Each step may be repeated any number of times and ends in
the same phase with the same stores.  What members do is not a phase, because it changes without the tool: a step reads
the group again (StepFacts) before it writes (Step.needs) and before it ends (Step.proves).  Each requirement (Need) has
a name, the facts it was checked against, and a remedy.

The step for an operator's command depends on the phase and on the present members (step_asked):

    verify      reads a copy back; with members present it proves dual; after the cutover, that all members use Kafka
    rollback    the next step back: a group that left ZooKeeper is copied back if every member is stopped, and taken
                through dual if not; a group that was copied back is copied again where Kafka went on after it.  One
                that Kafka coordinates first goes back to ZooKeeper's members, with every member stopped

A rollback is several steps: step_asked() is called again with each phase until it is rolled-back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from typing import Final, Literal

from groundwork.sentences import counted
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.migrationmarker import Phase
from zkconsumer.offsets.modes import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """Facts about a group just before a step, or at its end.  None: not checked, which never meets a requirement.

    modes           member -> mode, as published or as given by the operator
    modes_unknown   members that publish no mode: JVM members and other clients
    quiet           no ids, no owners and no member in Kafka in enough consecutive snapshots (comparison.Gate)
    kafka_members   members of a group of this name that Kafka coordinates; None also: brokers before 0.9 have none
    kafka_unknown   why these are not known; then kafka_members does not prove that there are any
    owners          number of owner nodes in ZooKeeper
    not_in_kafka    number of partitions whose offset ZooKeeper has and Kafka has not, or does not answer
    failed_checks   failed checks, each with finding and remedy (checks.failures)
    blocked         number of partitions that the plan leaves open: conflicts, out of range, unreadable
    stale           number of partitions whose stores have changed since the plan, or cannot be read
    missing         number of partitions that do not hold the plan's target
    apart           number of partitions whose stores differ by more than one commit interval explains
    not_moving  stores that did not move between two snapshots although there was something to read
    zookeeper_moves whether ZooKeeper's offsets moved between two snapshots
    first           field -> a sentence about the first of the counted partitions
    """

    modes: Mapping[str, Mode] = field(default_factory=dict)
    modes_unknown: tuple[str, ...] = ()
    quiet: bool | None = None
    kafka_members: int | None = None
    kafka_unknown: str = ""
    owners: int = 0
    not_in_kafka: int | None = None
    failed_checks: tuple[str, ...] | None = None
    blocked: int | None = None
    stale: int | None = None
    missing: int | None = None
    apart: int | None = None
    not_moving: tuple[str, ...] | None = None
    zookeeper_moves: bool | None = None
    first: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Need:
    """A requirement.  met(facts) is False also for facts that were not checked; text(facts) is the finding."""

    name: str
    met: Callable[[StepFacts], bool]
    text: Callable[[StepFacts], str]
    remedy: str


def _count(things: int | None, what: str, first: str | None = None) -> str:
    counted = f"not checked: {what}" if things is None else f"{things} {what}"
    return f"{counted}, the first: {first}" if first else counted


def _modes_text(facts: StepFacts) -> str:
    modes = ", ".join(f"{member} is on {mode}" for member, mode in sorted(facts.modes.items()))
    if facts.kafka_members:
        modes = ", ".join(
            filter(None, (modes, f"{counted(facts.kafka_members, 'member')} in a group that Kafka coordinates"))
        )
    unknown = f"no mode is published by {', '.join(facts.modes_unknown)}" if facts.modes_unknown else ""
    return "; ".join(filter(None, (modes, unknown))) or "there are no members"


def _only(*modes: Mode) -> Callable[[StepFacts], bool]:
    """Return a test that is True if there are members, and each has one of these modes."""
    return lambda facts: bool(facts.modes) and not facts.modes_unknown and set(facts.modes.values()) <= {*modes}


def _if_compared(seen: object, text: str) -> str:
    return "not checked: it takes two snapshots" if seen is None else text


NOT_MIXED: Final = Need(
    "members on zookeeper and on kafka at once",
    lambda facts: (
        not ("zookeeper" in facts.modes.values() and ("kafka" in facts.modes.values() or bool(facts.kafka_members)))
    ),
    _modes_text,
    "neither reads what the other writes, so messages are read twice or skipped when a partition gets another owner: "
    "take every member to dual now, or stop all of them",
)
ONE_COORDINATOR: Final = Need(
    "members of zookeeper and of kafka at once",
    lambda facts: not (facts.kafka_members and (facts.modes or facts.modes_unknown or facts.owners)),
    lambda facts: facts.kafka_unknown or _modes_text(facts),
    "members in ZooKeeper and members that Kafka coordinates do not see each other, and both read every partition: "
    "stop all of one kind now",
)
CHECKS_PASS: Final = Need(
    "failing checks",
    lambda facts: facts.failed_checks == (),
    lambda facts: "not checked" if facts.failed_checks is None else f"failing: {' and '.join(facts.failed_checks)}",
    "correct that and run `zkconsumer migrate check` again",
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
    "members still commit, or did: stop the whole group, then plan again; a store could not be read: try again",
)
QUIET: Final = Need(
    "active group",
    lambda facts: facts.quiet is True,
    lambda facts: (
        "not checked long enough" if facts.quiet is None else f"members or owners are there: {_modes_text(facts)}"
    ),
    "stop every member, old and new, and wait until the session timeout is over",
)
AS_PLANNED: Final = Need(
    "not as planned",
    lambda facts: facts.missing == 0,
    lambda facts: _count(facts.missing, "partitions that do not hold what the plan says", facts.first.get("missing")),
    "copy again: offsets that are there already are not written twice",
)
ALL_DUAL: Final = Need(
    "members not in dual",
    _only("dual"),
    _modes_text,
    "bounce the others to offsets.storage=kafka with dual.commit.enabled=true; for members that publish no mode, "
    "answer with --mode",
)
DUAL_OR_STOPPED: Final = Need(
    "zookeeper to kafka in one bounce",
    lambda facts: (
        _only("dual", "kafka")(facts) or (facts.quiet is True and not facts.modes and not facts.modes_unknown)
    ),
    _modes_text,
    "what a member on ZooKeeper alone commits is not seen by one on Kafka alone: take every member to dual first, or "
    "stop all of them; for members that publish no mode, answer with --mode",
)
STORES_AGREE: Final = Need(
    "stores apart",
    lambda facts: facts.apart == 0,
    lambda facts: _count(facts.apart, "partitions whose stores differ by more than one commit interval explains"),
    "wait for two commit intervals and verify again; set idle partitions in both stores with `zkconsumer offsets set`",
)
BOTH_MOVE: Final = Need(
    "a store does not move",
    lambda facts: facts.not_moving == (),
    lambda facts: _if_compared(facts.not_moving, f"not moving: {', '.join(facts.not_moving or ())}"),
    "find out why commits to it fail, before any member is changed",
)
ALL_KAFKA: Final = Need(
    "members not on kafka",
    lambda facts: (
        not facts.modes_unknown
        and (bool(facts.modes) or bool(facts.kafka_members))
        and not facts.kafka_unknown
        and set(facts.modes.values()) <= {"kafka"}
    ),
    _modes_text,
    "start the members with offsets.storage=kafka and dual.commit.enabled=false, or as a group that Kafka coordinates; "
    "for members that publish no mode, answer with --mode",
)
CAN_COORDINATE: Final = Need(
    "no groups on these brokers",
    lambda facts: facts.kafka_members is not None,
    lambda facts: "brokers before 0.9 coordinate no members",
    "upgrade the brokers, or give their release with --kafka-version",
)
ALL_IN_KAFKA: Final = Need(
    "offsets not in kafka",
    lambda facts: facts.not_in_kafka == 0,
    lambda facts: _count(
        facts.not_in_kafka, "partitions with an offset in ZooKeeper and none in Kafka", facts.first.get("not_in_kafka")
    ),
    "members that Kafka coordinates read Kafka's offsets alone, and would begin there by auto.offset.reset: set them "
    "with `zkconsumer offsets set --store kafka`",
)
ALL_COORDINATED: Final = Need(
    "members not coordinated by kafka",
    lambda facts: (
        bool(facts.kafka_members)
        and not facts.kafka_unknown
        and not (facts.modes or facts.modes_unknown or facts.owners)
    ),
    lambda facts: facts.kafka_unknown or _modes_text(facts),
    "start the members with coordination=kafka (or consumers of 0.9 and later of that group.id), and none in ZooKeeper",
)
ZOOKEEPER_RESTS: Final = Need(
    "members still write zookeeper",
    lambda facts: facts.zookeeper_moves is False,
    lambda facts: _if_compared(facts.zookeeper_moves, "its offsets moved between two snapshots"),
    "find the member that commits there (`zkconsumer groups members`) and bounce it",
)
NONE_READS_KAFKA: Final = Need(
    "members read kafka",
    lambda facts: facts.quiet is True or (_only("zookeeper")(facts) and not facts.kafka_members),
    _modes_text,
    "the copies in Kafka are removed only when no member starts from them: stop these members, or go on to dual",
)
NONE_ON_KAFKA_ALONE: Final = Need(
    "kafka to zookeeper in one bounce",
    lambda facts: facts.quiet is True or (_only("zookeeper", "dual")(facts) and not facts.kafka_members),
    _modes_text,
    "ZooKeeper holds the positions of the day it was left: take every member back to dual first, or stop all of them "
    "and copy Kafka's positions back",
)


Writes = Literal["zookeeper offsets", "kafka offsets", "marker", "undo file"]  # every step writes the journal


class StepName(StrEnum):
    """The steps; their values are stored in journals."""

    CHECK = "check"
    COPY = "copy"
    VERIFY = "verify"
    ENTER_DUAL = "enter-dual"
    CUTOVER = "cutover"
    FINISH = "finish"
    HAND_OVER = "hand-over"
    COORDINATE = "coordinate"
    RETURN_COORDINATION = "return-coordination"
    RETURN_DUAL = "return-dual"
    RETURN_COPY = "return-copy"
    RETURN_VERIFY = "return-verify"
    ROLL_BACK = "roll-back"


Asked = Literal["check", "copy", "verify", "cutover", "handover", "takeback", "rollback"]
COMMANDS: Final[Mapping[StepName, Asked]] = {  # what an operator types for a step
    StepName.CHECK: "check",
    StepName.COPY: "copy",
    StepName.VERIFY: "verify",
    StepName.ENTER_DUAL: "verify",
    StepName.CUTOVER: "cutover",
    StepName.FINISH: "verify",
    StepName.HAND_OVER: "handover",
    StepName.COORDINATE: "verify",
    StepName.RETURN_COORDINATION: "takeback",
    StepName.RETURN_DUAL: "rollback",
    StepName.RETURN_COPY: "rollback",
    StepName.RETURN_VERIFY: "rollback",
    StepName.ROLL_BACK: "rollback",
}


class MigrationRefused(ConsumerError):
    """A step is not allowed now.  .name: the unmet requirement; .remedy; both are in the message."""

    def __init__(self, name: str, text: str, remedy: str) -> None:
        super().__init__(f"{name}: {text}; {remedy}")
        self.name = name
        self.text = text
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Step:
    """A transition from some phases to another.

    needs: requirements before its first write.  proves: further requirements, checked again with the needs before its
    phase holds.  writes: what it may write.
    """

    name: StepName
    before: frozenset[Phase]
    after: Phase
    _: KW_ONLY
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
    return Step(name, frozenset(before), after, needs=needs, proves=proves, writes=frozenset(writes))


P, S = Phase, StepName
# fmt: off
STEPS: Final = (
    # repeating a step from the phase it leads to is allowed where checking or copying again makes sense
    _step(S.CHECK, (P.PLANNED, P.CHECKED), P.CHECKED,
          proves=(NOT_MIXED, CHECKS_PASS), writes=("marker",)),
    _step(S.COPY, (P.CHECKED, P.COPIED), P.COPIED,
          (NOT_MIXED, QUIET, NOTHING_OPEN, NOT_STALE), (AS_PLANNED,),
          ("undo file", "kafka offsets", "marker")),
    _step(S.VERIFY, (P.COPIED, P.VERIFIED), P.VERIFIED,
          proves=(NOT_MIXED, NOT_STALE, AS_PLANNED), writes=("marker",)),
    _step(S.ENTER_DUAL, (P.CHECKED, P.COPIED, P.VERIFIED, P.DUAL), P.DUAL,
          (NOT_MIXED, ONE_COORDINATOR), (ALL_DUAL, STORES_AGREE, BOTH_MOVE), ("marker",)),
    # offline: the last check and the last copy, while there are no members
    _step(S.CUTOVER, (P.VERIFIED,), P.CUTOVER,
          (NOT_MIXED, QUIET, NOTHING_OPEN, NOT_STALE), (AS_PLANNED,),
          ("undo file", "kafka offsets", "marker")),
    # live: members go on to Kafka after this, one by one
    _step(S.CUTOVER, (P.DUAL, P.DUAL_BACK), P.CUTOVER,
          (NOT_MIXED, ONE_COORDINATOR, DUAL_OR_STOPPED, STORES_AGREE), writes=("marker",)),
    _step(S.FINISH, (P.CUTOVER, P.DONE), P.DONE,
          (NOT_MIXED, ONE_COORDINATOR), (ALL_KAFKA, ZOOKEEPER_RESTS), ("marker",)),
    # who coordinates: no member on either side while it changes; no offset is written
    _step(S.HAND_OVER, (P.CUTOVER, P.DONE), P.HANDOVER,
          (NOT_MIXED, CAN_COORDINATE, ONE_COORDINATOR, QUIET, ALL_IN_KAFKA), writes=("marker",)),
    _step(S.COORDINATE, (P.DONE, P.HANDOVER, P.COORDINATED), P.COORDINATED,
          (NOT_MIXED, ONE_COORDINATOR), (ALL_COORDINATED, ZOOKEEPER_RESTS), ("marker",)),
    _step(S.RETURN_COORDINATION, (P.HANDOVER, P.COORDINATED), P.CUTOVER,
          (NOT_MIXED, ONE_COORDINATOR, QUIET), writes=("marker",)),
    _step(S.RETURN_DUAL, (P.CUTOVER, P.DONE, P.DUAL_BACK), P.DUAL_BACK,
          (NOT_MIXED, ONE_COORDINATOR, ALL_DUAL), (STORES_AGREE, BOTH_MOVE),
          ("undo file", "zookeeper offsets", "marker")),  # offsets: of idle partitions, which JVM members do not write
    _step(S.RETURN_COPY, (P.CUTOVER, P.DONE, P.COPIED_BACK), P.COPIED_BACK,
          (NOT_MIXED, QUIET, NOTHING_OPEN, NOT_STALE), (AS_PLANNED,),
          ("undo file", "zookeeper offsets", "marker")),
    _step(S.RETURN_VERIFY, (P.COPIED_BACK, P.VERIFIED_BACK), P.VERIFIED_BACK,
          (NOT_MIXED, QUIET), (NOT_STALE, AS_PLANNED), ("marker",)),
    _step(S.ROLL_BACK, (P.PLANNED, P.CHECKED), P.ROLLED_BACK, (NOT_MIXED,), writes=("marker",)),
    _step(S.ROLL_BACK, (P.COPIED, P.VERIFIED), P.ROLLED_BACK,
          (NOT_MIXED, NONE_READS_KAFKA), writes=("undo file", "kafka offsets", "marker")),
    _step(S.ROLL_BACK, (P.DUAL, P.DUAL_BACK), P.ROLLED_BACK,
          (NOT_MIXED, NONE_ON_KAFKA_ALONE, STORES_AGREE), writes=("marker",)),
    _step(S.ROLL_BACK, (P.VERIFIED_BACK,), P.ROLLED_BACK,
          (NOT_MIXED, NONE_ON_KAFKA_ALONE), writes=("marker",)),
    # members read from Kafka after it was copied back: copy again
    _step(S.RETURN_COPY, (P.VERIFIED_BACK,), P.COPIED_BACK,
          (NOT_MIXED, QUIET, NOTHING_OPEN, NOT_STALE), (AS_PLANNED,),
          ("undo file", "zookeeper offsets", "marker")),
)
# fmt: on

_COPY_FIRST = "copy and verify with every member stopped, or take every member to dual and verify that"
_BACK_FIRST = "take every member back to dual, or stop all of them, and then `zkconsumer migrate rollback`"
_AGAIN = "make a new plan"
_CUT_OVER = "members that Kafka coordinates keep their offsets in Kafka: run `zkconsumer migrate cutover` first"
_RETURN = "stop every member and run `zkconsumer migrate takeback` first"

FORBIDDEN: Final = {  # likely mistakes; everything else that is not in STEPS is refused as "not from here"
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
    (P.COPIED_BACK, S.ROLL_BACK): (
        "unverified copy",
        "the copy was not read back",
        "run `zkconsumer migrate verify` first",
    ),
    (P.CUTOVER, S.COPY): ("copy over a newer store", "Kafka is ahead of ZooKeeper since the cutover", _BACK_FIRST),
    (P.DONE, S.COPY): ("copy over a newer store", "Kafka is ahead of ZooKeeper since the cutover", _BACK_FIRST),
    **{
        (phase, S.HAND_OVER): ("offsets in zookeeper", "ZooKeeper's offsets count", _CUT_OVER)
        for phase in (P.PLANNED, P.CHECKED, P.COPIED, P.VERIFIED, P.DUAL)
    },
    **{
        (phase, name): ("coordinated by kafka", "its members are Kafka's", _RETURN)
        for phase in (P.HANDOVER, P.COORDINATED)
        for name in (S.COPY, S.CUTOVER, S.ENTER_DUAL, S.ROLL_BACK, S.RETURN_DUAL, S.RETURN_COPY)
    },
    (P.DUAL, S.COPY): ("copy over a newer store", "members commit to Kafka themselves", "set partitions by hand"),
}


def step_from(phase: Phase, name: StepName) -> Step:
    """Return the step of this name from a phase.  Raises MigrationRefused when there is none."""
    for step in STEPS:
        if step.name == name and phase in step.before:
            return step
    if phase is Phase.ROLLED_BACK:
        raise MigrationRefused("rolled back", f"{COMMANDS[name]} after the group was rolled back", _AGAIN)
    if (phase, name) in FORBIDDEN:
        what, text, remedy = FORBIDDEN[phase, name]
        raise MigrationRefused(what, f"{COMMANDS[name]} of a group that is {phase}: {text}", remedy)
    open_to = ", ".join(commands_from(phase)) or "none"
    raise MigrationRefused(
        "not from here", f"{COMMANDS[name]} does not lead on from {phase}", f"commands that do: {open_to}"
    )


def steps_from(phase: Phase) -> list[Step]:
    """Return the steps from a phase to others, the usual one first."""
    return [step for step in STEPS if phase in step.before and step.after != phase]


def commands_from(phase: Phase) -> list[Asked]:
    """Return the commands that lead on from a phase, the usual one first."""
    return list(dict.fromkeys(COMMANDS[step.name] for step in steps_from(phase)))


def begin(phase: Phase, name: StepName, facts: StepFacts) -> Step:
    """Return the step, if it may write now.  Raises MigrationRefused, which names the first unmet requirement."""
    step = step_from(phase, name)
    _hold(step.needs, name, phase, facts)
    return step


def end(phase: Phase, name: StepName, facts: StepFacts) -> Phase:
    """Return the phase that holds once it is journalled.  Raises MigrationRefused, which names the first unmet
    requirement."""
    step = step_from(phase, name)
    _hold((*step.needs, *step.proves), name, phase, facts)
    return step.after


def unmet(phase: Phase, name: StepName, facts: StepFacts) -> list[MigrationRefused]:
    """Return all unmet requirements, for a preview."""
    try:
        step = step_from(phase, name)
    except MigrationRefused as why:
        return [why]
    return [_refusal(need, name, phase, facts) for need in (*step.needs, *step.proves) if not need.met(facts)]


def _hold(wanted: tuple[Need, ...], name: StepName, phase: Phase, facts: StepFacts) -> None:
    for need in wanted:
        if not need.met(facts):
            raise _refusal(need, name, phase, facts)


def _refusal(need: Need, name: StepName, phase: Phase, facts: StepFacts) -> MigrationRefused:
    return MigrationRefused(need.name, f"{COMMANDS[name]} of a group that is {phase}: {need.text(facts)}", need.remedy)


_VERIFY = {
    Phase.CUTOVER: StepName.FINISH,
    Phase.DONE: StepName.FINISH,
    Phase.HANDOVER: StepName.COORDINATE,
    Phase.COORDINATED: StepName.COORDINATE,
    Phase.DUAL_BACK: StepName.RETURN_DUAL,
    Phase.COPIED_BACK: StepName.RETURN_VERIFY,
    Phase.VERIFIED_BACK: StepName.RETURN_VERIFY,
}
COPIED = (Phase.COPIED_BACK, Phase.VERIFIED_BACK)


def step_asked(asked: Asked, phase: Phase, facts: StepFacts, behind: bool = False) -> StepName:
    """Return the step for a command.  Raises MigrationRefused when there is none.

    behind: ZooKeeper holds less than the offsets to copy back.
    """
    in_zookeeper = bool(facts.modes or facts.modes_unknown)
    members = in_zookeeper or bool(facts.kafka_members)
    name = _step_meant(asked, phase, members)
    if asked == "verify" and phase is Phase.DONE and facts.kafka_members and not in_zookeeper:
        name = StepName.COORDINATE  # members that Kafka coordinates were started right after the cutover
    if asked == "rollback" and phase in COPIED and behind and not members:
        name = StepName.RETURN_COPY
    step_from(phase, name)
    return name


def _step_meant(asked: Asked, phase: Phase, members: bool) -> StepName:
    if asked == "verify":
        if phase in (Phase.COPIED, Phase.VERIFIED):
            return StepName.ENTER_DUAL if members else StepName.VERIFY
        return _VERIFY.get(phase, StepName.ENTER_DUAL)
    if asked == "handover":
        return StepName.HAND_OVER
    if asked == "takeback" or (asked == "rollback" and phase in (Phase.HANDOVER, Phase.COORDINATED)):
        return StepName.RETURN_COORDINATION
    if asked == "rollback":
        if phase in (Phase.CUTOVER, Phase.DONE):
            return StepName.RETURN_DUAL if members else StepName.RETURN_COPY
        return StepName.RETURN_VERIFY if phase is Phase.COPIED_BACK else StepName.ROLL_BACK
    return StepName(asked)
