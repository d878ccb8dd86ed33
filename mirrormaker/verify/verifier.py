"""The comparison carried out: bounds taken, both sides read scope by scope, what has no partner described.

One scope after the other, the target before the source, so that memory is bounded by one of them: some 200 MB with the
extra `fast` and without it, and 8 bytes for each message that may or may not be at the target yet (OPTIONAL at most).
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import itemgetter
from typing import Any, Protocol

from groundwork.sentences import counted
from groundwork.tasks import now
from kafkawire import kernels
from kafkawire.cluster.logreader import RETENTION, Gap
from kafkawire.cluster.metadata import Unreachable
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.cluster.view import ClusterView
from kafkawire.columns import as_list
from kafkawire.dialects import expected
from kafkawire.errors import BrokerError, LinkLost
from kafkawire.fingerprints import Hashed, hashed, key_hashes, whole_hashed
from kafkawire.model import PartitionId, TopicPartition
from kafkawire.unmatched import SOURCE, TARGET, Side
from mirrormaker.config import Configuration, route_rules
from mirrormaker.deadletter import DeadLetter, NoDeadLetter
from mirrormaker.deadletter import read as read_letter
from mirrormaker.probe import OtherCluster, named, no_topic_matches, same_cluster, target_brokers
from mirrormaker.verify.alignment import aligned
from mirrormaker.verify.bounds import (
    SourceBounds,
    SourceCluster,
    TargetBounds,
    compacted_topics,
    read_source,
    wait_committed,
)
from mirrormaker.verify.compacted import LastByKey
from mirrormaker.verify.logs import Logs, Piece, close_all
from mirrormaker.verify.matching import Cut, Matched, Odd, Place, Rows, Tally, match
from mirrormaker.verify.result import (
    DUPLICATED,
    FOREIGN,
    MISSING,
    Difference,
    Kind,
    ScopeResult,
    VerifyResult,
    runs,
)
from mirrormaker.verify.scopes import Scope, SourcePartition, SourceTopics, scopes
from mirrormaker.zookeeper import CONNECT_S, zookeeper_session
from zkconsumer.errors import Unreachable as ZooKeeperUnreachable
from zkconsumer.filters import TopicFilter

NAMED = 3  # partitions of a scope, in a note
OPTIONAL = 1_000_000  # messages of a partition behind what is compared that are looked at, or 100 times as many bytes
COMPILED_FROM = 200_000  # offsets: a second of reading in pure Python
SINCE_MARGIN_MS = 3_600_000  # how much earlier the target's log is read: clocks differ


LetterName = tuple[str, str, str, int]  # source, topic, partition, offset


class Letters:
    """Messages with records in the dead-letter topic: runs of offsets, because a record may cover any number."""

    def __init__(self, letters: Iterable[DeadLetter]) -> None:
        self._runs: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
        names = ((one.source, one.topic, one.partition, one.offset, one.offset + (one.offsets or 1)) for one in letters)
        for source, topic, partition, begin, end in sorted(names):
            runs = self._runs.setdefault((source, topic, partition), [])
            if runs and begin <= runs[-1][1]:
                runs[-1] = (runs[-1][0], max(end, runs[-1][1]))
            else:
                runs.append((begin, end))

    def __contains__(self, name: LetterName) -> bool:
        *where, offset = name
        runs = self._runs.get((where[0], where[1], where[2]), [])
        at = bisect_right(runs, offset, key=itemgetter(0))
        return at > 0 and offset < runs[at - 1][1]


class Show(Protocol):
    """groundwork.output.Progress."""

    def update(self, done: int, note: str = "") -> None: ...
    def line(self, text: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Request for a comparison.

    topics     these source topics only; None: all that are mirrored
    since_ms   messages of that time (Unix) and later; None: everything that the logs hold
    deep       all bytes of keys and values are hashed, and timestamps where both sides have them
    wait_s     so long may the group take to commit what the source held when the comparison began
    first      number of differences of each kind that are described
    """

    topics: TopicFilter | None = None
    since_ms: int | None = None
    deep: bool = False
    wait_s: float = 60.0
    first: int = 10


class NothingToCompare(Exception):
    """Raised if the configuration leaves nothing to compare; a sentence."""


def verify(
    configuration: Configuration, read_view: Callable[[], ClusterView], request: Request, show: Show
) -> VerifyResult:
    """Compare all topics of a mirror.  read_view: reads the target's brokers and topics.

    Raises NothingToCompare, OtherCluster, what probe_source raises, ConsumerError, WireError.
    """
    began = now()
    refuse_changed(configuration)
    verifier = _Verifier(configuration, read_view, request, show)
    try:
        return verifier.run(began)
    finally:
        verifier.close()


def refuse_changed(configuration: Configuration) -> None:
    """Raises NothingToCompare where a program's own code may change every message."""
    rules = route_rules(configuration.sources[0], configuration.target, configuration.mirror)
    if rules.alters:
        raise NothingToCompare(
            f"{rules.alters} may change or drop every message: there is nothing that the target could be compared with"
        )


@dataclass(slots=True)
class _Reading:
    """Findings of reading one scope, beside its messages."""

    gaps: dict[tuple[Side, int], list[Gap]] = field(default_factory=dict)
    codecs: dict[Side, set[int]] = field(default_factory=lambda: {SOURCE: set(), TARGET: set()})
    formats: dict[Side, set[int]] = field(default_factory=lambda: {SOURCE: set(), TARGET: set()})
    timestamps: bool = False
    skipped: list[tuple[Side, int, int]] = field(default_factory=list)  # offsets that only this side still has

    def gap(self, side: Side, part: int, gap: Gap) -> None:
        known = self.gaps.setdefault((side, part), [])
        if gap not in known:
            known.append(gap)


class _Verifier:
    def __init__(
        self, configuration: Configuration, read_view: Callable[[], ClusterView], request: Request, show: Show
    ) -> None:
        self._configuration = configuration
        self._read_view = read_view
        self._view = read_view()
        self._request = request
        self._show = show
        self._logs: dict[str, Logs] = {}  # of sources, by name
        self._target: Logs | None = None
        self._source_bounds: dict[SourcePartition, SourceBounds] = {}
        self._target_bounds: dict[TopicPartition, TargetBounds] = {}
        self._read = 0
        self._place = ""
        self._notes: list[str] = []
        self._differences: list[Difference] = []
        self._letters: Letters | None = None  # None: not read
        self._away: list[str] = []  # sources that are out of reach: sentences

    def run(self, began: float) -> VerifyResult:
        sources = self._sources()
        if not any(each.partitions for each in sources):
            raise NothingToCompare("no topic of any source is both mirrored and asked for: is --topics right?")
        every = self._take_bounds(sources)
        if sum(each.until - each.begins for each in self._target_bounds.values()) > COMPILED_FROM:
            kernels.prepare()  # else it is loaded beside the reading, as everywhere
        rows = tuple(self._row(scope, f"{n} of {len(every)}") for n, scope in enumerate(every, 1))
        away = (*self._away, *(row.unreachable for row in rows if row.unreachable))
        return VerifyResult(
            rows,
            tuple(self._differences),
            tuple(self._notes),
            messages=self._read,
            seconds=now() - began,
            unreachable=tuple(dict.fromkeys(away)),
        )

    def close(self) -> None:
        close_all([*self._logs.values(), *([self._target] if self._target is not None else [])])

    # ---- before anything is read ---------------------------------------------------------------------------------

    def _sources(self) -> list[SourceCluster]:
        """Return the sources in reach.  Raises Unreachable if there are none."""
        found: list[SourceCluster] = []
        last: ZooKeeperUnreachable | None = None
        for options in self._configuration.sources:
            try:
                with named(f"source {options.name}"):
                    found.append(self._source(options))
            except ZooKeeperUnreachable as away:
                last = away
                self._away.append(str(away))
                self._notes.append(
                    f"source {options.name} was not compared; its messages may count as only in the target"
                )
        if not found and last is not None:
            raise last
        return found

    def _source(self, options: Any) -> SourceCluster:
        found = read_source(options, self._configuration.mirror, self._request.topics)
        target = self._configuration.target
        same = same_cluster(found.brokers, target_brokers(target, self._view.brokers))
        named = self._configuration.selection(options)
        if same is not None and any(named.target(topic) == topic for topic in found.partitions):
            raise OtherCluster(f"source {options.name} and the target are one cluster ({same} is in both)")
        if not found.partitions and self._request.topics is None:
            self._notes.append(no_topic_matches(options, self._configuration.mirror))
        return found

    def _scopes(self, sources: Sequence[SourceCluster]) -> list[Scope]:
        configuration, target = self._configuration, self._configuration.target
        of_sources = [
            SourceTopics(
                each.options.name,
                route_rules(each.options, target, configuration.mirror),
                each.partitions,
                configuration.selection(each.options).target,
                each.compacted,
            )
            for each in sources
        ]
        names = {source.target_topic(topic) for source in of_sources for topic in source.partitions}
        there: dict[str, Sequence[PartitionId]] = {name: self._view.partitions(name) for name in names}
        compacted: frozenset[str] = frozenset()
        if target.zookeeper and expected(target.version).describes_itself:
            session = zookeeper_session("target.zookeeper.connect", target.zookeeper, CONNECT_S, target.security)
            with named("target"), session as zk:
                compacted = compacted_topics(zk, names)
        return scopes(of_sources, there, compacted)

    def _open_sources(self, sources: Sequence[SourceCluster]) -> None:
        for each in sources:
            options = each.options
            self._logs[options.name] = Logs.of(
                f"source {options.name}",
                ClusterVersions(options.version),
                list(each.brokers.values()),
                each.tps,
                security=options.kafka_security,
            )

    def _open_target(self, targets: Sequence[TopicPartition]) -> Logs:
        target = self._configuration.target
        there = list(target_brokers(target, self._view.brokers).values())
        versions, security = ClusterVersions(target.version), target.kafka_security
        self._target = Logs.of("the target", versions, there, targets, security=security)
        return self._target

    def _take_bounds(self, sources: Sequence[SourceCluster]) -> list[Scope]:
        """In the order that mirrormaker.verify.bounds needs; the scopes."""
        self._open_sources(sources)
        since = self._request.since_ms
        begins = {each.options.name: _begins(self._logs[each.options.name], each.tps, since) for each in sources}
        ends = {name: self._logs[name].ends(first) for name, first in begins.items()}
        deadline = now() + self._request.wait_s
        until = {}
        for each in sources:
            name = each.options.name
            left_s = max(0.0, deadline - now())
            with named(f"source {name}"):
                until[name] = wait_committed(each, ends[name], begins[name], wait_s=left_s, tell=self._show.line)
        self._view = self._read_view()  # again: the mirror may have created a topic or partition while we waited
        every = self._scopes(sources)
        targets = [tp for scope in every for tp in scope.targets]
        opened = self._open_target(targets)
        margin = None if since is None else since - SINCE_MARGIN_MS
        log_starts = opened.earliest(targets)
        target_begins = log_starts if margin is None else _since(opened, log_starts, margin)
        for tp, end in opened.ends(list(target_begins), replicated=False).items():
            first = target_begins[tp]
            self._target_bounds[tp] = TargetBounds(first, end, cut=first > 0, log_start=log_starts[tp])
        for name, where in until.items():
            for tp, later in self._logs[name].ends(list(where)).items():
                first = begins[name][tp]
                self._source_bounds[SourcePartition(name, tp)] = SourceBounds(
                    begins=first, until=max(first, where[tp]), end=ends[name][tp], later=later, cut=first > 0
                )
        return every

    # ---- one scope -----------------------------------------------------------------------------------------------

    def _row(self, scope: Scope, place: str) -> ScopeResult:
        """A scope compared; one that is out of reach says so.  place: for the progress line."""
        assert self._target is not None
        self._place = f"{scope}, {place}"
        unknown = [self._logs[each.source].unknown.get(each.tp) for each in scope.sources]
        unknown += [self._target.unknown.get(tp) for tp in scope.targets]
        why = next((sentence for sentence in unknown if sentence), None)
        if why is None:
            try:
                return self._compared(scope)
            except (Unreachable, LinkLost, BrokerError) as away:
                why = str(away)
        return ScopeResult(topic=scope.topic, partition=_partition(scope), source=0, target=0, unreachable=why)

    def _compared(self, scope: Scope) -> ScopeResult:
        reading = _Reading(timestamps=self._request.deep and self._have_timestamps(scope))
        counts, found, unread, at_least = (
            self._last_by_key(scope, reading) if scope.compacted else self._all_messages(scope, reading)
        )
        letters = self._without_dead_letters(scope, found.missing)
        gone = self._gone_at_target(scope, reading)
        older = found.cut + self._skipped(scope, reading)
        notes = self._scope_notes(scope, reading, found, unread)
        if older:
            which = f"{counted(older, 'message')} of the source"
            deleted = f"{which} deleted by retention at the target: {gone}"
            notes.append(deleted if gone else f"{which} older than what was read of the target's log")
        bounds = [self._source_bounds[each] for each in scope.sources]
        lost = sum(
            gap.until - gap.first
            for (side, part), gaps in reading.gaps.items()
            for gap in gaps
            if side == SOURCE and self._of(scope, SOURCE, part)[0].dialect.offsets.count_messages
        )
        for kind, odd in ((MISSING, found.missing), (DUPLICATED, found.duplicated), (FOREIGN, found.foreign)):
            self._differences += self._described(scope, kind, odd, reading)
        return ScopeResult(
            topic=scope.topic,
            partition=_partition(scope),
            source=counts[SOURCE],
            target=counts[TARGET],
            missing=found.missing.count + at_least,
            duplicated=found.duplicated.count,
            only_in_target=found.foreign.count,
            not_yet_mirrored=sum(each.end - each.until for each in bounds if each.end > each.until),
            dead_letters=letters,
            deleted_at_target=older if gone else 0,
            not_compared=lost + unread + (0 if gone else older),
            at_least=unread > 0,
            notes=tuple(notes),
        )

    def _all_messages(self, scope: Scope, reading: _Reading) -> tuple[Mapping[Side, int], Matched, int, int]:
        """Counts, what has no partner, how many source messages were too many to be matched, how many of those are
        missing at least."""
        self._align(scope, reading)
        tally = Tally()
        for side, part, found in self._hashed(scope, reading):
            tally.add(side, part, found.hashes, found.offsets)
        for optional in self._optional(scope, reading):
            tally.add_optional(optional.hashes)
        counts = {side: tally.count(side) for side in (SOURCE, TARGET)}
        cut = self._cut(scope, reading)
        matched = tally.matched(cut)
        if matched is not None:
            return counts, matched, 0, 0
        shares, matched = tally.shares(), Matched()
        for number in range(shares.count):
            rows = {SOURCE: Rows(), TARGET: Rows()}
            for side, part, found in self._hashed(scope, reading):
                rows[side].add(part, *shares.chosen(number, found.hashes, found.offsets))
            optional, _ = shares.chosen(number, tally.optional, tally.optional)
            matched.add(match(rows[SOURCE], optional, rows[TARGET], self._cut(scope, reading)))
        return counts, matched, shares.unread, 0 if cut.target else shares.least

    def _without_dead_letters(self, scope: Scope, missing: Odd) -> int:
        """Take messages that went to mirror.dead.letter.topic out of the missing ones; how many."""
        if not missing.first or not self._configuration.mirror.dead_letter_topic:
            return 0
        if self._letters is None:
            self._letters = self._dead_letters()
        left = [place for place in missing.first if self._name(scope, place) not in self._letters]
        count = len(missing.first) - len(left)
        missing.first, missing.count = left, missing.count - count
        return count

    def _name(self, scope: Scope, place: Place) -> LetterName:
        source, tp = scope.sources[place.part]
        return source, tp.topic, str(tp.partition), place.offset

    def _dead_letters(self) -> Letters:
        """Return which messages have records in the dead-letter topic."""
        assert self._target is not None
        topic, found = self._configuration.mirror.dead_letter_topic, list[DeadLetter]()
        tps = [TopicPartition(topic, partition) for partition in self._view.partitions(topic)]
        begins, ends = self._target.earliest(tps), self._target.ends(tps)
        for tp in sorted({*begins} & {*ends}):
            for piece in self._target.read(tp, begins[tp], ends[tp]):
                for value in piece.columns.values() if isinstance(piece, Piece) else ():
                    try:
                        found.append(replace(read_letter(value or b""), data=None, key=None))
                    except NoDeadLetter:
                        continue
        return Letters(found)

    def _align(self, scope: Scope, reading: _Reading) -> None:
        """Let both sides of a partition begin at the same message, where one of the logs lost its beginning.

        What only one of them still has would otherwise be read and matched for nothing.
        """
        cut = self._cut(scope, reading)
        if scope.partition is None or not scope.targets or not cut.source | cut.target:
            return
        here, there = self._source_bounds[scope.sources[0]], self._target_bounds[scope.targets[0]]
        ours = self._messages(scope, reading, SOURCE, 0, start=here.begins, until=here.until, aside=True)
        theirs = self._messages(scope, reading, TARGET, 0, start=there.begins, until=there.until, aside=True)
        found = aligned(ours, theirs)
        if found is None:
            return
        side, offset = found
        begins = here.begins if side == SOURCE else there.begins
        if side == SOURCE:
            self._source_bounds[scope.sources[0]] = replace(here, begins=offset)
        else:
            self._target_bounds[scope.targets[0]] = replace(there, begins=offset)
        if offset > begins:
            reading.skipped.append((side, begins, offset))

    def _last_by_key(self, scope: Scope, reading: _Reading) -> tuple[Mapping[Side, int], Matched, int, int]:
        """Compare the last message of each key, for a compacted topic."""
        counts: dict[Side, int] = {SOURCE: 0, TARGET: 0}
        matched, share, shares = Matched(), 0, 1
        while share < shares:
            lasts = LastByKey(share, shares)
            for side, part, found in self._hashed(scope, reading, keys=True):
                counts[side] += len(found.hashes) if not share else 0
                lasts.add(side, part, found.keys, found.hashes, found.offsets, found.nulls)
            for optional in self._optional(scope, reading, keys=True):
                lasts.add_newer(optional.keys)
            matched.add(lasts.matched())
            share, shares = share + 1, lasts.shares
        return counts, matched, 0, 0

    def _cut(self, scope: Scope, reading: _Reading) -> Cut:
        """Whose logs lost their beginning, before or while they were read."""
        lost = {key for key, gaps in reading.gaps.items() if gaps}
        return Cut(
            frozenset(
                n for n, each in enumerate(scope.sources) if self._source_bounds[each].cut or (SOURCE, n) in lost
            ),
            frozenset(n for n, tp in enumerate(scope.targets) if self._target_bounds[tp].cut or (TARGET, n) in lost),
        )

    def _gone_at_target(self, scope: Scope, reading: _Reading) -> str:
        """Return where the target's logs of a scope begin if retention deleted messages of them, else ""."""
        begin: list[str] = []
        for part, tp in enumerate(scope.targets):
            read = [gap.until for gap in reading.gaps.get((TARGET, part), ()) if gap.why == RETENTION]
            at = max([self._target_bounds[tp].deleted, *read])
            if at:
                begin.append(f"the log of {tp} begins at {at}")
        return ", ".join(begin[:NAMED]) + (f", and {len(begin) - NAMED} others" if len(begin) > NAMED else "")

    # ---- reading -------------------------------------------------------------------------------------------------

    def _hashed(self, scope: Scope, reading: _Reading, keys: bool = False) -> Iterator[tuple[Side, int, _Fingerprints]]:
        """Yield what is compared of a scope, the target first.  Lost and damaged messages go into `reading`."""
        for part, tp in enumerate(scope.targets):
            there = self._target_bounds[tp]
            for found in self._messages(scope, reading, TARGET, part, start=there.begins, until=there.until, keys=keys):
                yield TARGET, part, found
        for part, each in enumerate(scope.sources):
            here = self._source_bounds[each]
            for found in self._messages(scope, reading, SOURCE, part, start=here.begins, until=here.until, keys=keys):
                yield SOURCE, part, found

    def _optional(self, scope: Scope, reading: _Reading, keys: bool = False) -> Iterator[_Fingerprints]:
        """Messages of the sources that may or may not be at the target."""
        if not any(self._target_bounds[tp].until for tp in scope.targets):
            return
        for part, each in enumerate(scope.sources):
            here, logs = self._source_bounds[each], self._logs[each.source]
            most = OPTIONAL if logs.dialect.offsets.count_messages else 100 * OPTIONAL
            if here.later - here.until > most:
                self._notes.append(
                    f"{each}: {logs.dialect.offsets.counted(here.later - here.until)} are not yet mirrored: what the "
                    "target has of them may count as only in the target"
                )
            until = min(here.later, here.until + most)
            yield from self._messages(
                scope, reading, SOURCE, part, start=here.until, until=until, keys=keys, aside=True
            )

    def _messages(
        self,
        scope: Scope,
        reading: _Reading,
        side: Side,
        part: int,
        *,
        start: int,
        until: int,
        keys: bool = False,
        aside: bool = False,
    ) -> Iterator[_Fingerprints]:
        """Messages of one partition.  aside: they are not what is compared, so what is lost of them does not matter."""
        logs, tp = self._of(scope, side, part)
        for found in logs.read(tp, start, until):
            if isinstance(found, Gap):
                if not aside:
                    reading.gap(side, part, found)
                continue
            rows = self._fingerprints(found, start, until, reading.timestamps)
            reading.codecs[side] |= found.codecs
            reading.formats[side].add(found.format)
            self._read += len(rows.offsets)
            self._show.update(self._read, f"{self._place}: {side}")
            if len(rows.offsets):
                yield _with_keys(found, rows, start) if keys else _Fingerprints(rows.hashes, rows.offsets)

    def _fingerprints(self, piece: Piece, start: int, until: int, timestamps: bool) -> Hashed:
        if self._request.deep:
            return whole_hashed(piece.columns, start, until, timestamps)
        return hashed(piece.columns, start, until)

    def _have_timestamps(self, scope: Scope) -> bool:
        """Both sides keep the time that a writer gave: a broker of the target that sets its own changes all of them."""
        assert self._target is not None
        if min(self._target.dialect.magic, *(self._logs[each.source].dialect.magic for each in scope.sources)) < 1:
            return False
        for tp in scope.targets:
            there = self._target_bounds[tp]
            for found in islice(self._target.read(tp, there.begins, there.until), 1):
                kinds = found.columns.timestamp_types if isinstance(found, Piece) else None
                return kinds is not None and not any(as_list(kinds))
        return False

    def _skipped(self, scope: Scope, reading: _Reading) -> int:
        """Messages of the source that were left out when both sides were aligned; those of 0.7 cannot be counted."""
        counted = all(self._logs[each.source].dialect.offsets.count_messages for each in scope.sources)
        return sum(until - first for side, first, until in reading.skipped if side == SOURCE and counted)

    def _of(self, scope: Scope, side: Side, part: int) -> tuple[Logs, TopicPartition]:
        assert self._target is not None
        if side == TARGET:
            return self._target, scope.targets[part]
        return self._logs[scope.sources[part].source], scope.sources[part].tp

    # ---- what is said --------------------------------------------------------------------------------------------

    def _scope_notes(self, scope: Scope, reading: _Reading, found: Matched, unread: int) -> list[str]:
        notes = [f"compared as a whole: {scope.why}"] if scope.why else []
        if not scope.targets:
            notes.append("the target does not have it")
        if scope.compacted:
            notes.append("compacted: the last message of each key was compared")
        notes += [
            f"{side}: offsets {first} to {until - 1} are older than what the other side still has"
            for side, first, until in reading.skipped
        ]
        if found.older:
            notes.append(f"{found.older} messages of the target are older than what was read of the source's log")
        if unread:
            notes.append(f"{unread} messages are among too many that differ: they were counted and not matched")
        for (side, part), gaps in sorted(reading.gaps.items()):
            _, tp = self._of(scope, side, part)
            notes += [f"{side} {tp}: offsets {gap.first} to {gap.until - 1} were not read: {gap.why}" for gap in gaps]
        if self._request.deep:
            notes.append(f"timestamps were {'' if reading.timestamps else 'not '}compared")
            for what, both in (("codecs", reading.codecs), ("message formats", reading.formats)):
                if both[SOURCE] != both[TARGET] and both[SOURCE] and both[TARGET]:
                    said = [", ".join(map(str, sorted(both[side]))) for side in (SOURCE, TARGET)]
                    notes.append(f"{what}: {said[0]} at the source, {said[1]} at the target")
        return notes

    def _described(self, scope: Scope, kind: Kind, odd: Odd, reading: _Reading) -> Iterator[Difference]:
        """Yield the first differences of one kind, neighbours together."""
        side = SOURCE if kind == MISSING else TARGET
        left = self._request.first
        parts = sorted({place.part for place in odd.first})
        for part in parts:
            logs, tp = self._of(scope, side, part)
            places = [place for place in odd.first if place.part == part]
            counts = logs.dialect.offsets.count_messages
            for first, last, count in islice(runs([p.offset for p in places], message_offsets=counts), left):
                left -= 1
                size = self._sizes(logs, tp, next(p for p in places if p.offset == first), reading)
                yield Difference(
                    difference=kind,
                    topic=tp.topic,
                    partition=str(tp.partition),
                    first_offset=first,
                    last_offset=last,
                    messages=count,
                    key_bytes=size[0],
                    value_bytes=size[1],
                    value_crc=size[2],
                    source=scope.sources[part].source if side == SOURCE else None,
                )

    def _sizes(
        self, logs: Logs, tp: TopicPartition, place: Place, reading: _Reading
    ) -> tuple[int | None, int | None, str | None]:
        """Bytes of key and value, and the value's CRC-32, of a message that is read again."""
        columns = logs.message(tp, place.offset)
        if columns is None:
            return None, None, None
        piece = Piece(columns, frozenset(), 0)
        rows = self._fingerprints(piece, place.offset, place.offset + 1, reading.timestamps)
        which = next((n for n, each in enumerate(rows.hashes) if int(each) == place.hash), None)
        if which is None:
            return None, None, None
        at = as_list(columns.offsets).index(place.offset) + which
        key, value = columns.keys()[at], columns.values()[at]
        crc = None if value is None else f"{zlib.crc32(value):08x}"
        return None if key is None else len(key), None if value is None else len(value), crc


@dataclass(frozen=True, slots=True, eq=False)
class _Fingerprints:
    """Columns of equal length; keys and nulls where they were asked for: of messages that have a key."""

    hashes: Any
    offsets: Any
    keys: Any = ()
    nulls: Sequence[bool] = ()


def _with_keys(piece: Piece, rows: Hashed, start: int) -> _Fingerprints:
    columns = piece.columns
    offsets = as_list(columns.offsets)
    since = next(n for n, offset in enumerate(offsets) if offset >= start)
    until = since + len(rows.offsets)
    keyed = [n for n, size in enumerate(as_list(columns.key_size[since:until])) if size >= 0]
    keys, nulls = key_hashes(columns, since, until), as_list(columns.value_size[since:until])

    def chosen(column: Any) -> list[int]:
        return [int(column[n]) for n in keyed]

    return _Fingerprints(chosen(rows.hashes), chosen(rows.offsets), chosen(keys), [nulls[n] < 0 for n in keyed])


def _partition(scope: Scope) -> str:
    return "all" if scope.partition is None else str(scope.partition)


def _begins(logs: Logs, tps: Sequence[TopicPartition], since_ms: int | None) -> dict[TopicPartition, int]:
    """Return the first offset to compare of each."""
    first = logs.earliest(tps)
    return first if since_ms is None else _since(logs, first, since_ms)


def _since(logs: Logs, first: Mapping[TopicPartition, int], since_ms: int) -> dict[TopicPartition, int]:
    """Return the first offset of that time or later of each."""
    return {tp: max(first[tp], at) for tp, at in logs.at_time(list(first), since_ms).items()}
