"""What the steps of a migration need of the world, each by its name, with what helps where it does not hold.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from groundwork.plural import counted
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
