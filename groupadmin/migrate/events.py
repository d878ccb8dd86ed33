"""What a migration's journal says, and where that leaves each group.  Pure: lines of text to values and back.

    {"format": "zkconsumer.migration/1", "plan": ID, "cluster": .., "direction": .., "started_at_ms": ..}
    {"n": 1, "at_ms": .., "group": G, "event": "phase", "step": null, "phase": "planned"}
    {"n": 9, "at_ms": .., "group": G, "event": "begin", "step": "copy"}
    {"n": 10, "at_ms": .., "group": G, "event": "wrote", "step": "copy", "store": "kafka", "topic": T, "partition": "0",
     "before": null, "after": 123}                                        null: there was, or is to be, no position
    {"n": 11, "at_ms": .., "group": G, "event": "phase", "step": "copy", "phase": "copied"}
    {"n": 12, "at_ms": .., "group": G, "event": "refused", "step": "cutover", "name": "active group", "text": ..}

n counts the lines, so that a lost one is noticed.  All groups of a plan share one journal: one lock, one order, and
2,000 groups are begun with one write to the disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from groupadmin.migrate.decision import Direction
from groupadmin.migrate.states import MigrationRefused, StepName, step_from
from kafkawire.dialects import Store as StoreName
from kafkawire.model import TopicPartition
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.marker import Phase
from zkconsumer.spelling import WrongUsage, parse_partition

FORMAT = "zkconsumer.migration/1"


class JournalDamaged(ConsumerError):
    """A journal that says what cannot be; nothing is done on the strength of it."""


@dataclass(frozen=True, slots=True)
class Header:
    """Whose journal it is."""

    plan: str
    cluster: str
    direction: Direction
    started_at_ms: int


@dataclass(frozen=True, slots=True)
class Reached:
    """A phase holds.  step: what led there; None: the plan was made."""

    group: str
    step: StepName | None
    phase: Phase


@dataclass(frozen=True, slots=True)
class Begun:
    """A step is about to write."""

    group: str
    step: StepName


@dataclass(frozen=True, slots=True)
class Wrote:
    """One position was written and read back; before and after None: no position."""

    group: str
    step: StepName
    store: StoreName
    tp: TopicPartition
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True)
class Declined:
    """A step was refused: what forbade it, and what was seen."""

    group: str
    step: StepName
    name: str
    text: str


Event = Reached | Begun | Wrote | Declined


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a group is.

    begun   a step that was begun and has not ended: it was refused, killed, or runs now; it is simply made again
    since   when the phase was first reached, ms since 1970
    wrote   how many positions were written by us, those of steps made again included
    past    each phase with the time it was reached, in order
    """

    phase: Phase
    since_ms: int
    begun: StepName | None = None
    wrote: int = 0
    past: tuple[tuple[Phase, int], ...] = ()
    declined: Declined | None = None


# text -----------------------------------------------------------------------------------------------------------------


def header_line(header: Header) -> str:
    """The first line, without its end."""
    return json.dumps(
        {
            "format": FORMAT,
            "plan": header.plan,
            "cluster": header.cluster,
            "direction": header.direction,
            "started_at_ms": header.started_at_ms,
        }
    )


def line_of(event: Event, n: int, at_ms: int) -> str:
    """A line of text, without its end."""
    said: dict[str, Any] = {"n": n, "at_ms": at_ms, "group": event.group}
    match event:
        case Reached(_, step, phase):
            said |= {"event": "phase", "step": step, "phase": phase}
        case Begun(_, step):
            said |= {"event": "begin", "step": step}
        case Wrote(_, step, store, tp, before, after):
            said |= {"event": "wrote", "step": step, "store": store, "topic": tp.topic, "partition": str(tp.partition)}
            said |= {"before": before, "after": after}
        case Declined(_, step, name, text):
            said |= {"event": "refused", "step": step, "name": name, "text": text}
    return json.dumps(said)


def read_header(line: str) -> Header:
    """The first line's meaning.  Raises JournalDamaged."""
    said = _object(line, 1)
    if said.get("format") != FORMAT:
        raise JournalDamaged(f"line 1 is not the head of a migration's journal ({FORMAT})")
    try:
        return Header(said["plan"], said["cluster"], said["direction"], said["started_at_ms"])
    except KeyError as missing:
        raise JournalDamaged(f"line 1 of the journal has no {missing}") from None


def read_line(line: str, number: int) -> tuple[int, Event]:
    """The time and the event of a line; number counts lines of the file from 1.  Raises JournalDamaged."""
    said = _object(line, number)
    if said.get("n") != number - 1:
        raise JournalDamaged(f"line {number} of the journal calls itself {said.get('n')}: lines are missing, or twice")
    try:
        return said["at_ms"], _event(said)
    except (KeyError, TypeError, ValueError, WrongUsage) as why:
        raise JournalDamaged(f"line {number} of the journal makes no sense ({type(why).__name__}: {why})") from None


def _object(line: str, number: int) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except ValueError as why:
        raise JournalDamaged(f"line {number} of the journal is no JSON ({why})") from None
    if not isinstance(said, dict):
        raise JournalDamaged(f"line {number} of the journal is no JSON object")
    return said


def _event(said: Mapping[str, Any]) -> Event:
    group, kind = said["group"], said["event"]
    step = None if said["step"] is None else StepName(said["step"])
    if kind == "phase":
        return Reached(group, step, Phase(said["phase"]))
    if step is None:
        raise ValueError(f"{kind} of no step")
    if kind == "begin":
        return Begun(group, step)
    if kind == "wrote":
        tp = TopicPartition(said["topic"], parse_partition(said["partition"]))
        return Wrote(group, step, _store(said["store"]), tp, said["before"], said["after"])
    if kind == "refused":
        return Declined(group, step, said["name"], said["text"])
    raise ValueError(f"unknown event {kind!r}")


def _store(name: str) -> StoreName:
    if name not in ("kafka", "zookeeper"):
        raise ValueError(f"unknown store {name!r}")
    store: Literal["kafka", "zookeeper"] = "kafka" if name == "kafka" else "zookeeper"
    return store


# where that leaves a group --------------------------------------------------------------------------------------------


def replay(events: Iterable[tuple[int, Event]]) -> dict[str, Standing]:
    """Where each group is after these.  Raises JournalDamaged for a phase that no step leads to from the one before."""
    found: dict[str, Standing] = {}
    for at_ms, event in events:
        found[event.group] = follow(found.get(event.group), at_ms, event)
    return found


def follow(was: Standing | None, at_ms: int, event: Event) -> Standing:
    """Where a group is after one more event."""
    if was is None:
        if event != Reached(event.group, None, Phase.PLANNED):
            raise JournalDamaged(f"group {event.group}: the journal does not begin with its plan")
        return Standing(Phase.PLANNED, at_ms, past=((Phase.PLANNED, at_ms),))
    match event:
        case Begun(_, step):
            return replace(was, begun=step, declined=None)
        case Wrote():
            return replace(was, wrote=was.wrote + 1)
        case Declined():
            return replace(was, declined=event)
        case Reached(group, step, phase):
            try:
                if step is None or step_from(was.phase, step).after != phase:
                    raise JournalDamaged(f"group {group}: {step} does not lead from {was.phase} to {phase}")
            except MigrationRefused as why:
                raise JournalDamaged(f"group {group}: the journal says what is forbidden: {why}") from None
            since = was.since_ms if phase == was.phase else at_ms
            return replace(
                was, phase=phase, since_ms=since, begun=None, declined=None, past=(*was.past, (phase, at_ms))
            )
