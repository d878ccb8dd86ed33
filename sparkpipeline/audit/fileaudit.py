"""Comparison of a cluster with the files of a load job, offset by offset, because files keep offsets.  Driver side.

    1  Spark sums up both by partition and block of offsets, with the same expressions
    2  blocks whose sums differ are joined by offset, so that each missing, foreign, repeated or changed message is
       counted

Only offsets are compared that the job has loaded and the cluster still has.

The place of a message is its partition ("3"; 0.7: "0-3"), its offset, and its number in its entry: messages of a
compressed 0.7 entry share the offset at which it begins; everywhere else the number is 0.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from groundwork.sentences import counted
from kafkawire.fingerprints import MASK
from kafkawire.model import BrokerPartition, TopicPartition
from kafkawire.unmatched import SOURCE, TARGET
from sparkpipeline.audit.auditbounds import Side
from sparkpipeline.audit.audittasks import MESSAGE_BYTES, AuditPiece, dealt, pieces, size_for
from sparkpipeline.audit.clusteraudit import Tell
from sparkpipeline.audit.differences import CHANGED, AuditResult, Difference, Scope, SideSums, from_sums, unequal
from sparkpipeline.audit.figures import Figures
from sparkpipeline.audit.messagematching import DUPLICATED, FOREIGN, MISSING
from sparkpipeline.audit.windows import Windows, label
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.errors import OptionRefused, UnknownPartition
from sparkpipeline.ledger.base import normal_base, open_files
from sparkpipeline.ledger.formats import FileFormat, of_facts
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.paths import FinalName
from sparkpipeline.ranges import partition_key, partition_of
from sparkpipeline.source.exactplan import ExactPlan
from sparkpipeline.source.offsetbounds import by_topic
from sparkpipeline.source.schema import BY_BROKER, TYPES, struct_type
from sparkpipeline.source.sourceoptions import read_options

STORED = ("partition", "offset", "key", "value")
WHERE = ("topic", "partition", "block")
Bounds = dict[TopicPartition, tuple[int, int]]
Blocks = dict[TopicPartition, list[tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class LoadedRanges:
    """Ranges that a load job has: start <= offset < until by partition, and the files that hold them."""

    bounds: Bounds
    files: tuple[str, ...]  # full URIs
    format: FileFormat

    @property
    def by_broker(self) -> bool:
        """True if partitions belong to brokers (0.7); a job has partitions of one kind."""
        return any(isinstance(tp.partition, BrokerPartition) for tp in self.bounds)

    @property
    def offset_size(self) -> int:
        """Return about how many offsets a message takes."""
        return MESSAGE_BYTES if self.by_broker else 1

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns with the place and content of a message, except its topic."""
        return (*STORED, *BY_BROKER) if self.by_broker else STORED


def compare_files(
    spark: Any, source: Mapping[str, str], base: str, *, topics: Collection[str], block: int, match: bool, tell: Tell
) -> tuple[AuditResult, dict[str, dict[str, dict[str, list[int]]]]]:
    """Compare the cluster of these kafka08 options with the files below base; return the result and the ranges.

    topics: empty for all that were loaded; block: offsets of a block, for 0.7 messages of MESSAGE_BYTES.  Raises
    OptionRefused, UnknownPartition, Unreachable, LedgerDamaged, and the exceptions of reading ranges."""
    normal = normal_base(base)
    loaded = loaded_by(Ledger(open_files(normal, spark), normal), topics)
    block *= loaded.offset_size
    cluster = Side.of({**source, "subscribe": ",".join(sorted({tp.topic for tp in loaded.bounds}))})
    with cluster.links() as brokers:
        bounds = _still_there(brokers, loaded.bounds, tell)
    if not bounds:
        return AuditResult((), {SOURCE: {}, TARGET: {}}), {}
    frames: dict[str, Any] = {
        SOURCE: _of_cluster(spark, cluster, loaded, bounds),
        TARGET: _of_files(spark, loaded, bounds),
    }
    sums: SideSums = {side: _sums(frame, bounds, block) for side, frame in frames.items()}
    differing = unequal(sums[SOURCE], sums[TARGET])
    if not (differing and match):
        rows = [
            row for scope, windows in differing.items()
            for row in from_sums(scope, windows, sums[SOURCE].get(scope, {}), sums[TARGET].get(scope, {}), block=block)
        ]  # fmt: skip
    else:
        tell(f"{len(differing)} of {counted(len(bounds), 'partition')} differ in their sums; matching their messages")
        frames[SOURCE] = _of_cluster(spark, cluster, loaded, bounds, _blocks(loaded, differing, bounds, block))
        rows = _matched(frames, differing, sums, block)
    compared = by_topic({tp: list(at) for tp, at in bounds.items()})
    return AuditResult(tuple(rows), sums, block), {SOURCE: compared, TARGET: compared}


def loaded_by(ledger: Ledger, topics: Collection[str]) -> LoadedRanges:
    """Return the loaded ranges of these topics.  Raises OptionRefused if there are none, and LedgerDamaged."""
    newest = ledger.state().newest
    positions = {} if newest is None else newest.facts.get("positions", {})
    wanted = {*topics} or {*positions}
    missing = sorted(wanted - {*positions})
    if missing or not positions:
        what = f"nothing of {', '.join(missing)}" if missing else "nothing"
        raise OptionRefused(f"{what} was loaded below {ledger.base}", option="--files")
    starts: dict[TopicPartition, int] = {}
    paths = []
    for path in ledger.live_files():
        at = FinalName.of(path)
        if at is not None and at.tp.topic in wanted:
            starts[at.tp] = min(at.start, starts.get(at.tp, at.start))
            paths.append(ledger.path(path))
    bounds = {
        tp: (starts[tp], until)
        for topic in sorted(wanted)
        for partition, until in positions[topic].items()
        if (tp := TopicPartition(topic, partition_of(partition))) in starts
    }
    return LoadedRanges(bounds, tuple(sorted(paths)), of_facts({} if newest is None else newest.facts))


def _still_there(brokers: Brokers, bounds: Bounds, tell: Tell) -> Bounds:
    """Return the part of each range that the cluster still has.  Raises UnknownPartition."""
    view = brokers.view()
    gone = [tp for tp in bounds if tp.partition not in view.topics.get(tp.topic, {})]
    if gone:
        raise UnknownPartition(
            "was loaded, and the cluster does not have it", topic=gone[0].topic, partition=gone[0].partition
        )
    loaded = {tp: until for tp, (_, until) in bounds.items()}
    first, last = brokers.earliest(bounds), brokers.latest(bounds, loaded)
    found, cut = {}, 0
    for tp, (start, until) in bounds.items():
        held = max(start, first[tp]), min(until, last[tp])
        cut += held != (start, until)
        if held[0] < held[1]:
            found[tp] = held
    if cut:
        tell(f"the cluster still has only a part of what was loaded of {cut} partitions: comparing that part")
    return found


# ---- in Spark ------------------------------------------------------------------------------------------------------


def _of_cluster(spark: Any, cluster: Side, loaded: LoadedRanges, bounds: Bounds, few: Blocks | None = None) -> Any:
    """Return the messages within the bounds, or only those of a few blocks."""
    each = {tp: [at] for tp, at in bounds.items()} if few is None else few
    cores = spark.sparkContext.defaultParallelism
    many = sum(until - start for rows in each.values() for start, until in rows) // loaded.offset_size
    size = size_for(many, cores) * loaded.offset_size
    every = [
        piece for tp, rows in each.items() for at in rows for piece in pieces(SOURCE, {tp: at}, Windows(False), size)
    ]
    if loaded.by_broker:
        whole = cluster.whole_entries([piece.range for piece in every])
        every = [AuditPiece(SOURCE, rng, Windows(False)) for rng in whole]
    tasks = tuple(tuple(piece.range for piece in task) for task in dealt(every, cores))
    read = read_options(cluster.options, ("topic", *loaded.columns), time.time_ns() // 1_000_000)
    return _placed(ExactPlan(tasks, cluster.access, read).frame(spark), loaded.by_broker)


def _of_files(spark: Any, loaded: LoadedRanges, bounds: Bounds) -> Any:
    """Return the rows of the job's files within the bounds.  Only the path has the topic."""
    from pyspark.sql import functions as F

    stored = struct_type({name: TYPES[name] for name in loaded.columns})
    frame = loaded.format.read(spark.read, loaded.files, stored)
    topic = F.regexp_extract(F.col("_metadata.file_path"), "/topic=([^/]+)/", 1)
    rows = _placed(frame.withColumn("topic", topic), loaded.by_broker)
    limits = spark.createDataFrame(
        [(tp.topic, partition_key(tp.partition), start, until) for tp, (start, until) in bounds.items()],
        f"topic string, partition {_partition_type(bounds)}, start bigint, until bigint",
    )
    return rows.join(F.broadcast(limits), ["topic", "partition"]).where(
        "offset >= start and offset < until"
    ).select(*rows.columns)  # fmt: skip


def _placed(frame: Any, by_broker: bool) -> Any:
    """Return the place of each message, its key and its value."""
    from pyspark.sql import functions as F

    partition = F.concat_ws("-", "broker", "partition") if by_broker else F.col("partition")
    number = F.col("innerIndex") if by_broker else F.lit(0)
    return frame.select("topic", partition.alias("partition"), "offset", number.alias("number"), "key", "value")


def _partition_type(places: Iterable[TopicPartition | Scope]) -> str:
    """Return the type of the column partition: int, or string for 0.7."""
    return "int" if all(isinstance(place.partition, int) for place in places) else "string"


def _hash() -> Any:
    """Return the hash of place, key and value; null and empty differ."""
    from pyspark.sql import functions as F

    sizes = [F.coalesce(F.length(name), F.lit(-1)) for name in ("key", "value")]
    return F.xxhash64("offset", "number", sizes[0], "key", sizes[1], "value")


def _sums(frame: Any, bounds: Bounds, block: int) -> dict[Scope, dict[int, Figures]]:
    from pyspark.sql import functions as F

    crc = F.coalesce(F.crc32("value"), F.lit(0))
    rows = (
        frame.withColumn("block", F.expr(f"offset div {block}"))
        .groupBy(*WHERE)
        .agg(
            F.count(F.lit(1)).alias("n"), F.sum(crc).alias("crcs"), F.bit_xor(_hash()).alias("content"),
            F.min("offset").alias("first"), F.max("offset").alias("last"),
        )
        .collect()
    )  # fmt: skip
    found: dict[Scope, dict[int, Figures]] = {Scope(tp.topic, partition_key(tp.partition)): {} for tp in bounds}
    for row in rows:
        figures = Figures(row.n, row.crcs, row.content & MASK, None, row.first, row.last)
        found[Scope(row.topic, row.partition)][-1 - row.block] = figures
    return found


def _blocks(loaded: LoadedRanges, differing: Mapping[Scope, Iterable[int]], bounds: Bounds, block: int) -> Blocks:
    """Return the offsets of the blocks that differ, within the bounds; for 0.7, whose blocks need not begin with an
    entry, those of the whole partition."""
    found: Blocks = {}
    for scope, windows in differing.items():
        tp = TopicPartition(scope.topic, partition_of(scope.partition))
        start, until = bounds[tp]
        at = [(-1 - window) * block for window in windows]
        within = [(max(begin, start), min(begin + block, until)) for begin in at]
        found[tp] = [bounds[tp]] if loaded.by_broker else within
    return found


def _matched(
    frames: Mapping[str, Any], differing: Mapping[Scope, Iterable[int]], sums: SideSums, block: int
) -> list[Difference]:
    """Return the differences in these blocks, whose messages are joined by their places."""
    from pyspark.sql import functions as F

    spark = frames[SOURCE].sparkSession
    blocks = [(*scope, -1 - window) for scope, windows in differing.items() for window in windows]
    kinds = f"topic string, partition {_partition_type(differing)}, block bigint"
    wanted = F.broadcast(spark.createDataFrame(blocks, kinds))
    halves = [
        frame.withColumn("block", F.expr(f"offset div {block}"))
        .join(wanted, list(WHERE), "left_semi")
        .select(*WHERE, "offset", "number", _hash().alias("hash"), F.lit(int(side == SOURCE)).alias("ours"))
        for side, frame in frames.items()
    ]
    ours, theirs = F.sum("ours"), F.sum(1 - F.col("ours"))
    differ = F.min("hash") != F.max("hash")
    kind = (
        F.when(theirs == 0, MISSING).when(ours == 0, FOREIGN).when(differ, CHANGED).when(theirs > ours, DUPLICATED)
        .when(theirs < ours, MISSING)
    )  # fmt: skip
    every = halves[0].unionByName(halves[1]).groupBy(*WHERE, "offset", "number")
    odd = every.agg(kind.alias("kind"), theirs.alias("theirs"))
    counted = (
        odd.where("kind is not null")
        .groupBy(*WHERE, "kind")
        .agg(
            F.sum(F.when(F.col("kind") == DUPLICATED, F.col("theirs") - 1).otherwise(1)).alias("n"),
            F.min("offset").alias("first"), F.max("offset").alias("last"),
        )
        .orderBy(*WHERE, "first", "kind")
        .collect()
    )  # fmt: skip
    rows = []
    for row in counted:
        scope, window = Scope(row.topic, row.partition), -1 - row.block
        a, b = (sums[side].get(scope, {}).get(window, Figures()).count for side in (SOURCE, TARGET))
        rows.append(
            Difference(
                topic=row.topic,
                partition=row.partition,
                window=label(window, block),
                difference=row.kind,
                messages=row.n,
                source=a,
                target=b,
                first_offset=row.first,
                last_offset=row.last,
            )
        )
    return rows
