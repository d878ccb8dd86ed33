"""Oracles: what a run lost, repeated, reordered, committed too early, and how long it took.  Pure: logs and samples in,
findings out.

Source and target log are those of an independent reader; messages are known by their ids, so the target may have other
partitions.  Where the source log holds a message twice (its producer sent it again), twice is right at the target.
"""

from __future__ import annotations

import bisect
import itertools
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kafkawire.model import TopicPartition
from tests.faults.harness.payload import MessageId
from tests.faults.harness.reader import Entry, Log
from tests.faults.harness.wirelog import Claimed, Committed, Produced

Offsets = Mapping[TopicPartition, int]
Place = tuple[TopicPartition, int]
SHOWN = 20  # examples in a verdict


@dataclass(frozen=True, slots=True)
class Sample:
    """State at one moment.  committed was read before target_ends; None: it could not be read.

    processes: resident bytes and open descriptors of each daemon that runs
    """

    at: float
    committed: Offsets | None
    source_ends: Offsets
    target_ends: Offsets
    processes: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Window:
    """What a fault may cause to be sent twice: from the offset committed at the fault, up to what the target held when
    nothing of the owner before could arrive any more (target_ends)."""

    committed: Offsets
    target_ends: Offsets


@dataclass(frozen=True, slots=True)
class Repeated:
    """Messages that the target holds more often than the source."""

    count: int
    ranges: tuple[tuple[TopicPartition, int, int], ...]  # source partition, first and last source offset
    outside: tuple[tuple[TopicPartition, int], ...]  # source offsets that no window allows, or not so often


def lost(source: Log, target: Log) -> list[Place]:
    """Source offsets whose message the target does not hold.  Of one that the source holds twice, once is enough."""
    held = set(_counted(target))
    return [(tp, e.offset) for tp, entries in source.items() for e in entries if e.id is not None and e.id not in held]


def phantoms(source: Log, target: Log) -> list[Place]:
    """Target offsets of messages that the source does not hold."""
    known = _counted(source)
    return [(tp, e.offset) for tp, entries in target.items() for e in entries if e.id is None or e.id not in known]


def damaged(log: Log) -> list[Place]:
    """Offsets of messages whose own checksum is wrong."""
    return [(tp, entry.offset) for tp, entries in log.items() for entry in entries if not entry.intact]


def repeated(source: Log, target: Log, windows: Sequence[Window]) -> Repeated:
    """Duplicates at the target, and those that no window allows: each window allows each of its messages once more."""
    wanted, found = _counted(source), _counted(target)
    first = _first_places(target)
    extra: dict[TopicPartition, list[int]] = defaultdict(list)
    count, outside = 0, []
    for tp, entries in source.items():
        for entry in entries:
            if entry.id is None or found[entry.id] <= wanted[entry.id]:
                continue
            more = found.pop(entry.id) - wanted[entry.id]
            count += more
            extra[tp].append(entry.offset)
            at, position = first[entry.id]
            allowed = sum(
                entry.offset >= window.committed.get(tp, 0) and position < window.target_ends.get(at, 0)
                for window in windows
            )
            if more > allowed:
                outside.append((tp, entry.offset))
    ranges = tuple((tp, first, last) for tp, offsets in extra.items() for first, last in _ranges(offsets))
    return Repeated(count, ranges, tuple(outside))


def predicted(source: Log, target: Log, window: Window) -> int:
    """How many messages a daemon sends again that begins at what is committed: all that the target held by then."""
    first = _first_places(target)
    count = 0
    for tp, entries in source.items():
        again = (entry.id for entry in entries if entry.offset >= window.committed.get(tp, 0))
        places = (first[of] for of in again if of is not None and of in first)
        count += sum(position < window.target_ends.get(at, 0) for at, position in places)
    return count


def inversions(source: Log, target: Log) -> list[Place]:
    """Target offsets at which a message of a source partition first appears after a later one of it."""
    order = {entry.id: (tp, n) for tp, entries in source.items() for n, entry in reversed([*enumerate(entries)])}
    found = []
    for tp, entries in target.items():
        newest: dict[TopicPartition, int] = {}
        seen: set[MessageId] = set()
        for entry in entries:
            if entry.id is None or entry.id in seen or entry.id not in order:
                continue
            seen.add(entry.id)
            of, number = order[entry.id]
            if number < newest.get(of, -1):
                found.append((tp, entry.offset))
            newest[of] = max(number, newest.get(of, -1))
    return found


def unsafe_commits(source: Log, target: Log, samples: Iterable[Sample]) -> list[tuple[float, TopicPartition, int]]:
    """Commit safety: (time, partition, committed offset) where a source offset below it was not at the target yet."""
    first = _first_places(target)
    # source partition -> target partition -> (source offsets, the newest target offset that one of them or before has)
    needs: dict[TopicPartition, dict[TopicPartition, tuple[list[int], list[int]]]] = {}
    absent: dict[TopicPartition, int] = {}  # the first source offset that never arrived
    for tp, entries in source.items():
        needs[tp] = {}
        for entry in entries:
            if entry.id is None:
                continue
            if entry.id not in first:
                absent.setdefault(tp, entry.offset)
                continue
            at, position = first[entry.id]
            offsets, positions = needs[tp].setdefault(at, ([], []))
            offsets.append(entry.offset)
            positions.append(max(position, positions[-1] if positions else 0))
    found = []
    for sample in samples:
        for tp, committed in (sample.committed or {}).items():
            safe = committed <= absent.get(tp, committed)
            for at, (offsets, positions) in needs.get(tp, {}).items():
                below = bisect.bisect_left(offsets, committed)
                if below and at in sample.target_ends:
                    safe = safe and positions[below - 1] < sample.target_ends[at]
            if not safe:
                found.append((sample.at, tp, committed))
    return found


def decreases(samples: Iterable[Sample]) -> list[tuple[float, TopicPartition, int, int]]:
    """(Time, partition, offset before, offset after) where a committed offset went back."""
    newest: dict[TopicPartition, int] = {}
    found = []
    for sample in samples:
        for tp, committed in (sample.committed or {}).items():
            if committed < newest.get(tp, 0):
                found.append((sample.at, tp, newest[tp], committed))
            newest[tp] = committed
    return found


def overlap_s(produced: Iterable[Produced], claimed: Iterable[Claimed]) -> float:
    """Longest time for which two members produced for one partition: from the first request of the new one to the last
    request of the one before, unless that one had claimed the partition again in between."""
    claims: dict[tuple[str, TopicPartition], list[float]] = defaultdict(list)
    for claim in claimed:
        claims[claim.by.name, claim.tp].append(claim.at)
    requests: dict[TopicPartition, list[tuple[float, str]]] = defaultdict(list)
    for request in produced:
        for tp in request.partitions:
            requests[tp].append((request.at, request.by.name))
    longest = 0.0
    for tp, sent in requests.items():
        owner = ""
        ended: dict[str, float] = {}  # when another began
        for at, name in sorted(sent):
            if name == owner:
                continue
            if name not in ended or any(ended[name] <= claim <= at for claim in claims[name, tp]):
                ended[owner], owner = at, name
            else:
                longest = max(longest, at - ended[name])
    return longest


def recovery_s(
    produced: Iterable[Produced], since: float, partitions: Iterable[TopicPartition], *, not_by: Iterable[int] = ()
) -> dict[TopicPartition, float | None]:
    """Seconds from `since` to the first produce request for each partition; None where none came.
    not_by: connections that do not count, such as those of a killed process."""
    dead = set(not_by)
    found: dict[TopicPartition, float | None] = dict.fromkeys(partitions)
    for request in produced:
        if request.at >= since and request.by.number not in dead:
            for tp in request.partitions:
                if tp in found and found[tp] is None:
                    found[tp] = request.at - since
    return found


def longest_pause_s(
    produced: Iterable[Produced], since: float, until: float, partitions: Iterable[TopicPartition]
) -> float:
    """Longest time between two produce requests for one of these partitions, from `since` to `until`."""
    times: dict[TopicPartition, list[float]] = {tp: [since] for tp in partitions}
    for request in produced:
        if since <= request.at <= until:
            for tp in request.partitions:
                if tp in times:
                    times[tp].append(request.at)
    return max((b - a for at in times.values() for a, b in itertools.pairwise([*at, until])), default=0.0)


def catch_up_s(samples: Iterable[Sample], since: float, lag: float) -> float | None:
    """Seconds from `since` until the committed offsets are together less than `lag` behind the ends of the source."""
    for sample in samples:
        if sample.at >= since and sample.committed is not None:
            behind = sum(end - sample.committed.get(tp, 0) for tp, end in sample.source_ends.items())
            if behind <= lag:
                return sample.at - since
    return None


def growth(samples: Iterable[Sample], since: float) -> tuple[int, int]:
    """Largest growth of one daemon since then: resident bytes and descriptors above their median before."""
    before: dict[str, list[tuple[int, int]]] = defaultdict(list)
    after: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for sample in samples:
        for name, figures in sample.processes.items():
            (after if sample.at >= since else before)[name].append(figures)
    grown = [(0, 0)]
    for name, figures in after.items():
        if before[name]:
            steady = [statistics.median(column) for column in zip(*before[name], strict=True)]
            grown.append(tuple(int(max(c) - s) for c, s in zip(zip(*figures, strict=True), steady, strict=True)))  # type: ignore[arg-type]
    return max(rss for rss, _ in grown), max(fds for _, fds in grown)


def commits_between(committed: Iterable[Committed], since: float, until: float, connections: set[int]) -> int:
    """Number of commits that these connections sent between two times."""
    return sum(since <= each.at <= until and each.by.number in connections for each in committed)


# ---- verdict --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the oracles say of one run.  figures: further ones, with their bound (None: it has none)."""

    row: str
    title: str
    seed: int
    messages: int
    lost: int
    phantoms: int
    damaged: int
    duplicates: int
    duplicates_bound: int
    outside: int
    inversions: int
    unsafe_commits: int
    decreases: int
    samples: int
    overlap_s: float
    recovery_s: float | None
    recovery_bound_s: float | None
    catch_up_s: float | None
    rebalances: int
    grown_bytes: int
    grown_descriptors: int
    figures: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)
    failures: tuple[str, ...] = ()

    def line(self) -> str:
        """The verdict as a row of a table."""
        recovery = "" if self.recovery_s is None else f"{self.recovery_s:.1f}"
        bound = "" if self.recovery_bound_s is None else f" ≤ {self.recovery_bound_s:g}"
        caught = "" if self.catch_up_s is None else f"{self.catch_up_s:.1f}"
        parts = (
            self.row,
            str(self.seed),
            f"{self.messages:,}",
            str(self.lost),
            f"{self.duplicates:,} ≤ {self.duplicates_bound:,}",
            str(self.outside),
            str(self.unsafe_commits),
            recovery + bound,
            caught,
            f"{self.grown_bytes / 1e6:.0f}",
            "; ".join(f"{name} {value:g}" for name, (value, _) in self.figures.items()),
            "**" + "; ".join(self.failures) + "**" if self.failures else "ok",
        )
        return "| " + " | ".join(parts) + " |"


# ---- shared ---------------------------------------------------------------------------------------------------------


def _counted(log: Log) -> Counter[MessageId]:
    return Counter(entry.id for entry in _entries(log) if entry.id is not None)


def _entries(log: Log) -> Iterator[Entry]:
    return itertools.chain.from_iterable(log.values())


def _first_places(log: Log) -> dict[MessageId, Place]:
    found: dict[MessageId, Place] = {}
    for tp, entries in log.items():
        for entry in entries:
            if entry.id is not None:
                found.setdefault(entry.id, (tp, entry.offset))
    return found


def _ranges(offsets: Iterable[int]) -> Iterator[tuple[int, int]]:
    """(First, last) of each run of consecutive numbers."""
    for _, run in itertools.groupby(enumerate(sorted(offsets)), key=lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in run]
        yield numbers[0], numbers[-1]
