"""Comparison of two clusters by Spark: tasks read both and send sums; if sums differ, hashes are matched.  Driver side.

    1  each task reads pieces of both clusters and sends back sums by partition and window
    2  scopes whose sums differ are read again: a shuffle brings hashes to tasks that match them; counts come back

The target's ends are read before the source's, so a message that arrives meanwhile can only be missing in the target.

Topics of 0.7, whose partitions belong to brokers and whose offsets are bytes, are compared as a whole: counts and
hashes, without their order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kafkawire.model import BrokerPartition, TopicPartition
from kafkawire.unmatched import SOURCE, TARGET
from sparkpipeline.audit.audittasks import MESSAGE_BYTES, AuditPiece, Reading, dealt, pieces, size_for
from sparkpipeline.audit.differences import (
    AuditResult,
    Scope,
    SideSums,
    by_scope,
    from_groups,
    from_sums,
    total,
    unequal,
)
from sparkpipeline.audit.figures import Figures
from sparkpipeline.audit.messagematching import GroupKey, Matched, MatchedEnds, MessageGroup, Pack, grouped, match
from sparkpipeline.audit.windows import BLOCK, Windows
from sparkpipeline.ranges import OffsetRange, partition_key

SHARE_ROWS = 250_000  # messages of a side that one match holds in memory
Bounds = Mapping[TopicPartition, tuple[int, int]]
Tell = Callable[[str], None]
WholeEntries = Callable[[str, Sequence[OffsetRange]], list[OffsetRange]]  # side and its ranges -> cut between entries


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """Request of an audit of two clusters.

    bounds    by side: offsets of each partition, start <= offset < until
    windows   of the sums, without blocks
    keyed     topics that are compared as a whole, because the target partitions them differently; with a 0.7 side, all
    cut       by side: partitions read from the beginning of a log that no longer begins at offset 0
    block     offsets of a block, for messages without a timestamp
    match     False: messages are not matched if sums differ, so a loss looks like a duplicate
    """

    bounds: Mapping[str, Bounds]
    windows: Windows
    keyed: frozenset[str] = frozenset()
    cut: Mapping[str, Collection[TopicPartition]] | None = None
    block: int = BLOCK
    match: bool = True


def compare(
    spark: Any, reading: Reading, asked: AuditRequest, tell: Tell, whole_entries: WholeEntries | None = None
) -> AuditResult:
    """Compare two clusters.  whole_entries: needed for a 0.7 side, whose ranges can only be cut between entries.

    Raises the exceptions of reading ranges, as Spark passes them on, and those of whole_entries."""
    context = spark.sparkContext
    cores = context.defaultParallelism
    every = _pieces(asked, cores, whole_entries)
    sums = _sums(context, reading, asked, every, cores)
    differing = unequal(sums[SOURCE], sums[TARGET])
    if differing and asked.match:
        tell(f"{len(differing)} of {len({*sums[SOURCE], *sums[TARGET]})} differ in their sums; matching their messages")
        groups = _groups(context, reading, asked, every=every, cores=cores, differing=differing, sums=sums)
        rows = [
            row
            for scope, windows in differing.items()
            for row in from_groups(scope, windows, *_both(sums, scope), groups=groups.get(scope, {}), block=asked.block)
        ]
    else:
        rows = [
            row for scope, windows in differing.items() for row in from_sums(scope, windows, *_both(sums, scope))
        ]  # fmt: skip
    return AuditResult(tuple(rows), sums)


def _pieces(asked: AuditRequest, cores: int, whole_entries: WholeEntries | None) -> list[AuditPiece]:
    by_broker = {
        side for side, bounds in asked.bounds.items() if any(isinstance(tp.partition, BrokerPartition) for tp in bounds)
    }
    counts = {side: sum(until - start for start, until in bounds.values()) for side, bounds in asked.bounds.items()}
    size = size_for(sum(n // MESSAGE_BYTES if side in by_broker else n for side, n in counts.items()), cores)
    every: list[AuditPiece] = []
    for side, bounds in asked.bounds.items():
        if side not in by_broker:
            every += pieces(side, bounds, asked.windows, size)
            continue
        assert whole_entries is not None, "ranges of bytes are cut between entries"
        cut = [piece.range for piece in pieces(side, bounds, asked.windows, size * MESSAGE_BYTES)]
        every += [AuditPiece(side, rng, asked.windows) for rng in whole_entries(side, cut)]
    return every


def _both(sums: SideSums, scope: Scope) -> tuple[dict[int, Figures], dict[int, Figures]]:
    return sums[SOURCE].get(scope, {}), sums[TARGET].get(scope, {})


def _sums(context: Any, reading: Reading, asked: AuditRequest, every: Sequence[AuditPiece], cores: int) -> SideSums:
    tasks = dealt(every, cores)
    counted = context.parallelize(tasks, len(tasks)).flatMap(reading.count).collect() if every else []
    parts: dict[str, dict[tuple[str, int | str], dict[int, Figures]]] = {
        side: {(tp.topic, partition_key(tp.partition)): {} for tp in bounds} for side, bounds in asked.bounds.items()
    }
    for piece, windows in sorted(counted, key=lambda row: row[0].range.start):
        into = parts[piece.side][piece.range.topic, partition_key(piece.range.partition)]
        for window, figures in windows.items():
            into[window] = into.get(window, Figures()).then(figures)
    return {side: by_scope(parts[side], asked.keyed) for side in (SOURCE, TARGET)}


def _groups(
    context: Any, reading: Reading, asked: AuditRequest, *, every: Sequence[AuditPiece], cores: int,
    differing: Collection[Scope], sums: SideSums,
) -> dict[Scope, dict[GroupKey, MessageGroup]]:  # fmt: skip
    """Return the number of unmatched messages in these scopes, by kind, side, partition and window."""
    from pyspark import StorageLevel

    scopes, firsts = list(differing), [0]
    for scope in scopes:
        most = max(total(windows) for windows in _both(sums, scope))
        firsts.append(firsts[-1] + max(1, -(-most // SHARE_ROWS)))
    wanted, shares = _shares(asked, every, scopes, firsts)
    tasks = dealt(wanted, cores)
    packs = context.parallelize(tasks, len(tasks)).flatMap(Hashing(reading, shares))
    matched = packs.groupByKey(min(firsts[-1], max(len(tasks), firsts[-1] // 8))).mapValues(match)
    matched.persist(StorageLevel.MEMORY_AND_DISK)  # read twice
    try:
        judges = _judges(asked, scopes, firsts, matched.mapValues(_ends).collect())
        rows = matched.flatMap(Judging(firsts, judges)).reduceByKey(MessageGroup.beside).collect()
    finally:
        matched.unpersist()
    groups: dict[Scope, dict[GroupKey, MessageGroup]] = {}
    for (n, *key), group in rows:
        groups.setdefault(scopes[n], {})[tuple(key)] = group
    return groups


def _shares(
    asked: AuditRequest, every: Iterable[AuditPiece], scopes: Sequence[Scope], firsts: Sequence[int]
) -> tuple[list[AuditPiece], dict[tuple[str, int | str], tuple[int, int]]]:
    """Return the pieces of these scopes, and for each partition its first share and its number of shares."""
    number_of = {scope: n for n, scope in enumerate(scopes)}
    windows = replace(asked.windows, block=asked.block)
    wanted: list[AuditPiece] = []
    shares: dict[tuple[str, int | str], tuple[int, int]] = {}
    for piece in every:
        topic, partition = piece.range.topic, partition_key(piece.range.partition)
        whole = topic in asked.keyed or isinstance(partition, str)
        n = number_of.get(Scope(topic, None if whole else int(partition)))
        if n is not None:
            wanted.append(replace(piece, windows=windows))
            shares[topic, partition] = firsts[n], firsts[n + 1] - firsts[n]
    return wanted, shares


@dataclass(frozen=True, slots=True)
class Hashing:
    """Function of a task: hashes the messages of some pieces."""

    reading: Reading
    shares: Mapping[tuple[str, int | str], tuple[int, int]]

    def __call__(self, pieces: Iterable[AuditPiece]) -> Iterator[tuple[int, Pack]]:
        return self.reading.hashes(pieces, self.shares)


@dataclass(frozen=True, slots=True)
class Judging:
    """Function of a task: counts the unmatched messages of a share, by the number of its scope."""

    firsts: Sequence[int]
    judges: Mapping[int, MatchedEnds]

    def __call__(self, row: tuple[int, Matched]) -> Iterator[tuple[tuple[Any, ...], MessageGroup]]:
        share, matched = row
        n = bisect_right(self.firsts, share) - 1
        for key, group in grouped(matched, self.judges[n]).items():
            yield (n, *key), group


def _ends(matched: Matched) -> dict[tuple[str, int | str], tuple[int, int]]:
    return matched.ends


def _judges(
    asked: AuditRequest,
    scopes: Sequence[Scope],
    firsts: Sequence[int],
    found: Iterable[tuple[int, Mapping[tuple[str, int | str], tuple[int, int]]]],
) -> dict[int, MatchedEnds]:
    """Return the matched ends of each scope, over all its shares."""
    ends: dict[int, dict[tuple[str, int | str], tuple[int, int]]] = {n: {} for n in range(len(scopes))}
    for share, of_share in found:
        into = ends[bisect_right(firsts, share) - 1]
        for key, (first, last) in of_share.items():
            known = into.get(key, (first, last))
            into[key] = min(first, known[0]), max(last, known[1])
    return {n: MatchedEnds(ends[n], _cut(asked, scope)) for n, scope in enumerate(scopes)}


def _cut(asked: AuditRequest, scope: Scope) -> frozenset[str]:
    """Return the sides in which a log of this scope was cut."""
    return frozenset(
        side
        for side, tps in (asked.cut or {}).items()
        if any(tp.topic == scope.topic and scope.partition in (None, tp.partition) for tp in tps)
    )
