"""Journal of a migration: an append-only file with the phase of each group, which survives any crash.

    {"format": "zkconsumer.migration/1", "plan": ID, "cluster": .., "direction": .., "started_at_ms": ..}
    {"n": 1, "at_ms": .., "group": G, "event": "phase", "step": null, "phase": "planned"}
    {"n": 9, "at_ms": .., "group": G, "event": "begin", "step": "copy"}
    {"n": 10, "at_ms": .., "group": G, "event": "wrote", "step": "copy", "store": "kafka", "topic": T, "partition": "0",
      "before": null, "after": 123}                                        null: no offset
    {"n": 11, "at_ms": .., "group": G, "event": "phase", "step": "copy", "phase": "copied"}
    {"n": 12, "at_ms": .., "group": G, "event": "refused", "step": "cutover", "name": "active group", "text": ..}

n counts the lines, so that a lost line is noticed.  All groups of a plan share one journal: there is one lock and one
order of events, and 2,000 groups begin with one write to the disk.

Events are on the disk when append() returns.  A killed process leaves at most one incomplete line at the end: no step
relied on that line, and the next open truncates it.  Damage anywhere else is JournalDamaged and needs an operator.  One
process at a time writes the journal (a file lock, which the kernel releases when the process dies); any process may
read it.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from groundwork.durable import READABLE, sync_folder
from groundwork.jsontext import json_value
from groupadmin.migrate.rules.groupplan import Direction
from groupadmin.migrate.rules.states import MigrationRefused, StepName, step_from
from kafkawire.dialects import Store as StoreName
from kafkawire.model import TopicPartition
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.migrationmarker import Phase
from zkconsumer.options.arguments import WrongUsage, parse_partition

FORMAT = "zkconsumer.migration/1"


class JournalDamaged(ConsumerError):
    """The journal contradicts itself or cannot be parsed; it is not used."""


@dataclass(frozen=True, slots=True)
class JournalHeader:
    """First line of a journal: the plan it belongs to."""

    plan: str
    cluster: str
    direction: Direction
    started_at_ms: int


@dataclass(frozen=True, slots=True)
class Reached:
    """Event: a phase holds.  step: the step that led to it; None: planning."""

    group: str
    step: StepName | None
    phase: Phase


@dataclass(frozen=True, slots=True)
class Begun:
    """Event: a step is about to write."""

    group: str
    step: StepName


@dataclass(frozen=True, slots=True)
class Wrote:
    """Event: one offset was written and read back.  before, after: None: no offset."""

    group: str
    step: StepName
    store: StoreName
    tp: TopicPartition
    _: KW_ONLY
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True)
class Declined:
    """Event: a step was refused, with the unmet requirement and what was found."""

    group: str
    step: StepName
    name: str
    text: str


Event = Reached | Begun | Wrote | Declined


@dataclass(frozen=True, slots=True)
class Standing:
    """State of a group by the journal.

    begun   a step that has begun and not ended: it was refused or killed, or runs now; it can be repeated
    since   when the phase was first reached, ms since 1970
    wrote   number of offsets written, repeated steps included
    past    each phase with the time when it was reached, in order
    """

    phase: Phase
    since_ms: int
    _: KW_ONLY
    begun: StepName | None = None
    wrote: int = 0
    past: tuple[tuple[Phase, int], ...] = ()
    declined: Declined | None = None


# text -----------------------------------------------------------------------------------------------------------------


def header_line(header: JournalHeader) -> str:
    """Return the first line, without line end."""
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
    """Return the line of an event, without line end."""
    said: dict[str, Any] = {"n": n, "at_ms": at_ms, "group": event.group}
    match event:
        case Reached(_, step, phase):
            said |= {"event": "phase", "step": step, "phase": phase}
        case Begun(_, step):
            said |= {"event": "begin", "step": step}
        case Wrote(_, step, store, tp, before=before, after=after):
            said |= {"event": "wrote", "step": step, "store": store, "topic": tp.topic, "partition": str(tp.partition)}
            said |= {"before": before, "after": after}
        case Declined(_, step, name, text):
            said |= {"event": "refused", "step": step, "name": name, "text": text}
    return json.dumps(said)


def read_header(line: str) -> JournalHeader:
    """Return the header in the first line.  Raises JournalDamaged."""
    said = _object(line, 1)
    if said.get("format") != FORMAT:
        raise JournalDamaged(f"line 1 is not the head of a migration's journal ({FORMAT})")
    try:
        return JournalHeader(said["plan"], said["cluster"], said["direction"], said["started_at_ms"])
    except KeyError as missing:
        raise JournalDamaged(f"line 1 of the journal has no {missing}") from None


def read_line(line: str, number: int) -> tuple[int, Event]:
    """Return the time and the event of a line; number: of the line, from 1.  Raises JournalDamaged."""
    said = _object(line, number)
    if said.get("n") != number - 1:
        raise JournalDamaged(f"line {number} of the journal calls itself {said.get('n')}: lines are missing, or twice")
    try:
        return said["at_ms"], _event(said)
    except (KeyError, TypeError, ValueError, WrongUsage) as why:
        raise JournalDamaged(f"line {number} of the journal cannot be parsed ({type(why).__name__}: {why})") from None


def _object(line: str, number: int) -> dict[str, Any]:
    try:
        said = json_value(line)
    except ValueError as why:
        raise JournalDamaged(f"line {number} of the journal is not JSON ({why})") from None
    if not isinstance(said, dict):
        raise JournalDamaged(f"line {number} of the journal is not a JSON object")
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
        return Wrote(group, step, _store(said["store"]), tp, before=said["before"], after=said["after"])
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
    """Return the state of each group after these events.  Raises JournalDamaged for a phase that its step does not lead
    to."""
    found: dict[str, Standing] = {}
    for at_ms, event in events:
        found[event.group] = follow(found.get(event.group), at_ms, event)
    return found


def follow(was: Standing | None, at_ms: int, event: Event) -> Standing:
    """Return the state of a group after one more event."""
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


HEAD = f'{{"format": "{FORMAT}"'.encode()


class JournalFailed(ConsumerError):
    """Writing to the disk failed: the events do not hold, and this process writes nothing more."""


@dataclass(frozen=True, slots=True)
class Journalled:
    """A journal as read.  header: None without a complete first line.  torn: the last line is incomplete.

    length: bytes of complete lines.
    """

    header: JournalHeader | None
    events: tuple[tuple[int, Event], ...]
    torn: bool
    length: int

    @property
    def standings(self) -> dict[str, Standing]:
        """Return the state of each group.  Raises JournalDamaged."""
        return replay(self.events)


def read_journal(path: str | os.PathLike[str]) -> Journalled:
    """Read a journal, also while another process writes it.  Raises ConsumerError, JournalDamaged."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        return Journalled(None, (), False, 0)
    except OSError as why:
        raise ConsumerError(f"journal {path} cannot be read: {why}") from why
    return understood(data, path)


def understood(data: bytes, path: str | os.PathLike[str]) -> Journalled:
    """Parse a journal's bytes; path is for error messages."""
    *lines, rest = data.split(b"\n")
    length, torn = len(data) - len(rest), bool(rest)
    if lines and not _whole(lines[-1]):  # a power failure may leave a last line with a part missing
        length, torn = length - len(lines.pop()) - 1, True
    if not lines:
        if data[: len(HEAD)] != HEAD[: len(data)]:  # it would be truncated, and it is not a journal
            raise JournalDamaged(f"{path} exists and is not the journal of a migration; name another file")
        return Journalled(None, (), torn, 0)
    try:
        texts = [line.decode() for line in lines]
        header = read_header(texts[0])
        events = tuple(read_line(text, number) for number, text in enumerate(texts[1:], start=2))
    except UnicodeDecodeError as why:
        raise JournalDamaged(f"journal {path} holds bytes that are not text ({why}); inspect it") from None
    except JournalDamaged as why:
        raise JournalDamaged(
            f"journal {path}: {why}; inspect it, or plan again into a new journal: the stores have the current state"
        ) from None
    return Journalled(header, events, torn, length)


def _whole(line: bytes) -> bool:
    return line.startswith(b"{") and line.endswith(b"}") and b"\0" not in line


class Journal:
    """A journal open for writing.  Use `open_journal`; close it, or use it as a context manager.

    standings: the state of each group after the last append that returned.
    """

    def __init__(
        self, path: Path, file: int, *, header: JournalHeader, count: int, standings: dict[str, Standing]
    ) -> None:
        self.path = path
        self.header = header
        self.standings = standings
        self._file = file
        self._count = count
        self._lock = threading.Lock()
        self._failed: Exception | None = None

    def begin(self, groups: Iterable[str], at_ms: int) -> None:
        """Record groups that are not in it yet as planned, all with one write."""
        self.append([Reached(g, None, Phase.PLANNED) for g in groups if g not in self.standings], at_ms)

    def append(self, events: Iterable[Event], at_ms: int) -> None:
        """Append events; they hold when this returns.

        Raises JournalFailed; JournalDamaged, before anything is written, for events that do not follow from the
        journal.
        """
        with self._lock:
            if self._failed is not None:
                raise JournalFailed(f"journal {self.path} failed before ({self._failed}); start again to continue")
            listed = list(events)
            after: dict[str, Standing] = {}
            for event in listed:
                was = after.get(event.group) or self.standings.get(event.group)
                after[event.group] = follow(was, at_ms, event)
            lines = [line_of(event, self._count + n, at_ms) for n, event in enumerate(listed, start=1)]
            if lines:
                self._write("".join(f"{line}\n" for line in lines))
            self._count += len(lines)
            self.standings |= after

    def _write(self, text: str) -> None:
        try:
            _write_all(self._file, text.encode())
            os.fsync(self._file)
        except OSError as why:
            self._failed = why  # how much is on the disk is not known: the next process reads it and continues
            raise JournalFailed(f"journal {self.path} cannot be written: {why}; nothing more is done") from why

    def close(self) -> None:
        """Close the file and release the lock."""
        if self._file >= 0:
            os.close(self._file)
            self._file, self._failed = -1, self._failed or ValueError("it was closed")

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def open_journal(path: str | os.PathLike[str], header: JournalHeader) -> Journal:
    """Open the journal of this plan, creating it if missing.  Its folder must exist.

    Raises MigrationRefused when another process has it, or when it is of another plan; JournalDamaged; ConsumerError.
    """
    place = Path(path)
    try:
        file = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, READABLE)
    except OSError as why:
        raise ConsumerError(f"journal {place} cannot be opened: {why}") from why
    try:
        return _opened(place, file, header)
    except OSError as why:
        os.close(file)
        raise JournalFailed(f"journal {place} cannot be written: {why}") from why
    except BaseException:
        os.close(file)
        raise


def _opened(path: Path, file: int, header: JournalHeader) -> Journal:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise MigrationRefused(
            "journal in use", f"another process works with {path}", "wait until it ends, or stop it"
        ) from None
    found = understood(_read_all(file), path)
    if found.header is not None and found.header.plan != header.plan:
        raise MigrationRefused(
            "journal of another plan",
            f"{path} belongs to plan {found.header.plan}, not to {header.plan}",
            "continue with that plan, or name a new journal",
        )
    if found.torn:
        os.ftruncate(file, found.length)
    os.lseek(file, 0, os.SEEK_END)
    if found.header is None:
        _write_all(file, f"{header_line(header)}\n".encode())
    os.fsync(file)
    sync_folder(path.parent)
    return Journal(path, file, header=found.header or header, count=len(found.events), standings=found.standings)


def _read_all(file: int) -> bytes:
    os.lseek(file, 0, os.SEEK_SET)
    parts = []
    while part := os.read(file, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]
