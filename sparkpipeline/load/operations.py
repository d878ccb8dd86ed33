"""Operations on a job beside its regular run: init, rewind, compact; previews of them; verify.

init, rewind and compact are batches of the same protocol, so a crash inside one is covered: the next run of any command
carries the plan out.  init takes positions over from an older loader, before the first load or (--replace) in place of
the job's own.  It brings no files, and its manifest has the positions:

    --from-group   of a group, in ZooKeeper or in Kafka: Camus-like loaders, old consumers, our own daemon
    --from-json    {"orders": {"0": 23, "1": -2}}, Spark's own offset JSON: -2 is the earliest offset, -1 the latest
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from groundwork.sentences import counted
from kafkawire.model import TopicPartition
from sparkpipeline.cluster.boundaries import EntryBoundaries
from sparkpipeline.driver.groupoffsets import read_offsets
from sparkpipeline.errors import LedgerDamaged, Mismatch, OffsetOutOfRange, OptionRefused, Refused, UnknownPartition
from sparkpipeline.ledger import verification as verifying
from sparkpipeline.ledger.base import needs_spark
from sparkpipeline.ledger.exactlyonce import Tell
from sparkpipeline.ledger.footers import Footer
from sparkpipeline.ledger.formats import FORMATS, by_ending
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.manifests import LiveFile, Plan
from sparkpipeline.ledger.verification import Finding, Verdict
from sparkpipeline.load import compaction
from sparkpipeline.load.compaction import FileGroup
from sparkpipeline.load.config import LoadConfig
from sparkpipeline.load.facts import JobState
from sparkpipeline.load.job import (
    JobContext,
    LoadOutcome,
    LoadWork,
    Watch,
    at_work,
    open_ledger,
    rule_of,
    run,
    unwatched,
)
from sparkpipeline.load.loadcluster import connected
from sparkpipeline.load.loadplan import INIT, REWIND, LoadPlan, LogBounds, Marks, Positions, in_order
from sparkpipeline.load.outputformat import output_work
from sparkpipeline.load.rewind import Rewind, loaded_files, of_earlier_log, rewind
from sparkpipeline.paths import ENDINGS, FinalName
from sparkpipeline.ranges import partition_of
from sparkpipeline.source.offsetbounds import EARLIEST, LATEST
from sparkpipeline.source.sourceoptions import Storage
from zkconsumer.offsets.store import Committed, FormerOffset, Unknown


@dataclass(frozen=True, slots=True)
class RewindWanted:
    """Request of `load rewind`.  partition None: all of the topic; to_ms: since 1970."""

    topic: str
    to_ms: int
    partition: str | None = None
    allow_partial: bool = False


@dataclass(frozen=True, slots=True)
class CompactWanted:
    """Request of `load compact`.  date YYYY-MM-DD; min_files: files that an hour's partition must have."""

    date: str
    topic: str | None = None
    hour: str | None = None
    min_files: int = 2


@dataclass(frozen=True, slots=True)
class InitWanted:
    """Request of `load init`: exactly one of group and positions (-2 and -1 allowed)."""

    group: str | None = None
    storage: Storage | None = None
    positions: Positions | None = None
    replace: bool = False


W = TypeVar("W")


class OperationWork(LoadWork, Generic[W]):
    """Work that an operator requested: planned once, unless an earlier plan is open."""

    def __init__(self, job: JobContext, wanted: W) -> None:
        super().__init__(job)
        self.wanted = wanted
        self._planned = False

    def plan(self, ledger: Ledger, batch: int) -> Plan | None:
        if self._planned:
            return None
        self._planned = True
        return self.plan_once(ledger, batch)

    def plan_once(self, ledger: Ledger, batch: int) -> Plan | None:
        """Return the plan, or None if there is nothing to do."""
        raise NotImplementedError


# ---- init ------------------------------------------------------------------------------------------------------------


class InitWork(OperationWork[InitWanted]):
    """Work that takes over offsets."""

    asked: frozenset[TopicPartition] = frozenset()  # partitions whose positions are taken over

    def positions(self, ledger: Ledger) -> dict[TopicPartition, int]:
        """Return all offsets of the job afterwards.  Raises the exceptions of of_group and taken_over."""
        state = JobState.of(ledger.state().newest)
        snapshot, _ = self.take_snapshot(state)
        wanted = self.wanted.positions
        if wanted is None:
            group = str(self.wanted.group)
            here: Storage = "zookeeper" if self.cluster.zk is not None else "kafka"
            storage = self.wanted.storage or here
            wanted = of_group(
                group, read_offsets(group, snapshot.logs, storage, access=self.cluster.access, zk=self.cluster.zk)
            )
        found = taken_over(state, wanted, snapshot.logs, self.wanted.replace)
        self.asked = frozenset(wanted)
        planner = self.task_planner(state.averages)
        if planner.of_bytes:
            self._check_borders(planner.borders, {tp: found[tp] for tp in wanted}, snapshot.logs)
        return found

    def _check_borders(
        self, borders: EntryBoundaries, positions: Positions, logs: Mapping[TopicPartition, LogBounds]
    ) -> None:
        """Check offsets that are bytes: a load from inside an entry could never be executed.  Raises
        OffsetOutOfRange."""
        for tp in in_order(positions):
            at, log = positions[tp], logs[tp]
            if at not in (log.earliest, log.latest) and not borders.begins(tp, at):
                raise OffsetOutOfRange(
                    "no entry begins at this byte of the log", topic=tp.topic, partition=tp.partition, requested=at
                )

    def plan_once(self, ledger: Ledger, batch: int) -> Plan | None:
        positions = self.positions(ledger)
        marks = self.marks({tp: positions[tp] for tp in self.asked})
        return init_plan(batch, ledger.clock(), JobState.of(ledger.state().newest), positions, marks=marks)


def of_group(group: str, found: Mapping[TopicPartition, Committed]) -> dict[TopicPartition, int]:
    """Return the offsets of a group.  Raises Refused if it has none, or one that cannot be read."""
    for tp in in_order(found):
        at = found[tp]
        if isinstance(at, Unknown):
            raise Refused(at.reason, group=group, topic=tp.topic, partition=tp.partition)
        if isinstance(at, FormerOffset):
            raise Refused(
                f"the group has {at.position}, {at.reason}; give the offsets to begin at with --from-json",
                group=group, topic=tp.topic, partition=tp.partition,
            )  # fmt: skip
    positions = {tp: at for tp, at in found.items() if isinstance(at, int)}
    if not positions:
        raise Refused("the group has no position in any partition of the job: is its name right, and where it keeps"
                      " them?", group=group)  # fmt: skip
    return positions


def taken_over(
    state: JobState, wanted: Positions, logs: Mapping[TopicPartition, LogBounds], replace: bool
) -> dict[TopicPartition, int]:
    """Return all offsets of the job once `wanted` (-2 and -1 allowed) is taken over.

    Raises UnknownPartition, OffsetOutOfRange for an offset that cannot be loaded, and Refused for partitions that the
    job has loaded from, unless replace."""
    found = dict(state.positions)
    for tp in in_order(wanted):
        log = logs.get(tp)
        if log is None:
            raise UnknownPartition("is not one of the job's partitions", topic=tp.topic, partition=tp.partition)
        at = {EARLIEST: log.earliest, LATEST: log.latest}.get(wanted[tp], wanted[tp])
        if not log.earliest <= at <= log.latest:
            raise OffsetOutOfRange(
                "the log does not have this offset: earlier messages were deleted, or it is another log",
                topic=tp.topic, partition=tp.partition, requested=at, earliest=log.earliest, latest=log.latest,
            )  # fmt: skip
        if tp in found and found[tp] != at and not replace:
            raise Refused(
                f"the job stands at {found[tp]} already; --replace moves it to {at}: messages between the two are"
                " loaded twice, or never",
                topic=tp.topic, partition=tp.partition,
            )  # fmt: skip
        found[tp] = at
    return found


def init_plan(batch: int, now_ms: int, state: JobState, positions: Positions, *, marks: Marks | None = None) -> Plan:
    """Return the plan of a batch that sets offsets. marks: of the requested ones, in the current logs: the same number
    in another log is a change, too.  Raises OptionRefused if nothing would change."""
    marks = marks or {}
    other = {tp for tp, mark in marks.items() if state.marks.get(tp, mark) != mark}
    moved = {tp for tp, at in positions.items() if state.positions.get(tp) != at} | other
    if not moved:
        raise OptionRefused("the job has exactly these positions already")
    # What a moved partition had passed says nothing of where it is now.
    passed = {tp: ms for tp, ms in state.passed.items() if tp not in moved}
    back = {tp: batch for tp, at in positions.items() if tp in other or at < state.positions.get(tp, at)}
    kept = {tp: mark for tp, mark in state.marks.items() if tp not in moved}
    after = replace(
        state, positions=positions, passed=passed, set_back={**state.set_back, **back}, marks={**kept, **marks}
    )
    facts = after.facts()
    return Plan(batch, INIT, now_ms, {"facts": {**facts, "taken_over": len(moved)}})


# ---- rewind ----------------------------------------------------------------------------------------------------------


class RewindWork(OperationWork[RewindWanted]):
    """Work that loads a topic again from a time."""

    def rewound(self, ledger: Ledger) -> Rewind:
        """Return what it would do.  Raises Refused, OffsetOutOfRange."""
        state, wanted = JobState.of(ledger.state().newest), self.wanted
        partition = None if wanted.partition is None else _partition(wanted.partition)
        snapshot, _ = self.take_snapshot(state)
        self.check_logs(state, snapshot)
        if wanted.topic in self.config.compacted:
            self.tell(f"{wanted.topic} is compacted: what its cleaner has removed since then is not loaded again")
        every = [file for file in ledger.live_files().values() if f"/topic={wanted.topic}/" in file.final]
        old = of_earlier_log(ledger, state)
        files = [file for file in every if not old(file.final)]
        if len(files) < len(every):
            self.tell(f"{len(every) - len(files)} files of {wanted.topic} stay: they were loaded before `load init`"
                      " set positions back, and their offsets may be those of another log")  # fmt: skip
        batches = sorted({file.batch for file in files if FinalName.of(file.final) is not None})
        latest: dict[tuple[TopicPartition, int, int], int | None] = {}
        for batch in batches:
            for row in ledger.manifest(batch).facts.get("ranges", ()):
                tp = TopicPartition(row["topic"], partition_of(row["partition"]))
                latest[tp, row["start"], row["until"]] = row["max_ms"]
        return rewind(
            loaded_files(files, latest),
            state.positions,
            snapshot.logs,
            topic=wanted.topic,
            partition=partition,
            to_ms=wanted.to_ms,
            allow_partial=wanted.allow_partial,
        )

    def plan_once(self, ledger: Ledger, batch: int) -> Plan | None:
        state, found = JobState.of(ledger.state().newest), self.rewound(ledger)
        for tp, why in found.kept:
            self.tell(f"{tp} {why}")
        if not found.ranges:
            return None
        assert self.snapshot is not None
        snapshot, now = self.snapshot
        ranges, tasks = self.task_planner(state.averages).cut_and_packed(found.ranges)
        heads = {tp: log.latest for tp, log in snapshot.logs.items()}
        work = LoadPlan(
            ranges=tuple(ranges),
            tasks=tuple(tasks),
            positions=state.positions,
            heads=heads,
            gaps=(),
            rule=rule_of(self.config),
        )
        plan = {**work.work(), **output_work(self.config)}
        return Plan(batch, REWIND, now, plan, tuple(file.final for file in found.supersedes))


def _partition(text: str) -> object:
    try:
        return partition_of(text)
    except ValueError:
        raise OptionRefused(f"expected the number of a partition, got {text!r}", option="--partition") from None


# ---- compact ---------------------------------------------------------------------------------------------------------


class CompactWork(OperationWork[CompactWanted]):
    """Work that merges the files of each hour and partition of a day."""

    def plan_once(self, ledger: Ledger, batch: int) -> Plan | None:
        found = _to_compact(ledger, self.wanted)
        return compaction.plan_of(batch, ledger.clock(), found) if found else None


def _to_compact(ledger: Ledger, wanted: CompactWanted) -> list[FileGroup]:
    old = of_earlier_log(ledger, JobState.of(ledger.state().newest))
    live = ledger.live_files().values()
    return compaction.groups(
        live, wanted.date, topic=wanted.topic, hour=wanted.hour, min_files=wanted.min_files, old=old
    )


# ---- run: each is one batch ------------------------------------------------------------------------------------------

Wanted = InitWanted | RewindWanted | CompactWanted
_WORKS: Mapping[type[Wanted], Callable[[JobContext, Any], LoadWork]] = {
    InitWanted: InitWork,
    RewindWanted: RewindWork,
    CompactWanted: CompactWork,
}


def run_operation(config: LoadConfig, spark: Any, tell: Tell, wanted: Wanted, watch: Watch = unwatched) -> LoadOutcome:
    """Take over offsets, load a topic again from a time, or merge the files of a day, as requested.

    Raises Refused, OffsetOutOfRange, UnknownPartition, and the exceptions of run_load."""
    with at_work(config, spark, tell, watch) as (job, alone):
        return run(_WORKS[type(wanted)](job, wanted), alone)


# ---- previews: nothing is written and no lock is taken ---------------------------------------------------------------


@contextmanager
def _previewed(config: LoadConfig, spark: Any, tell: Tell) -> Iterator[JobContext]:
    ledger = open_ledger(config, spark)
    with connected(config) as cluster:
        yield JobContext(config=config, spark=spark, tell=tell, cluster=cluster, ledger=ledger)


def preview_load(config: LoadConfig, spark: Any, tell: Tell) -> Plan | None:
    """Return what the next run would do: the open plan, else a new one.  Raises the exceptions of run_load."""
    state = open_ledger(config, spark).state()
    if state.open_plan is not None:
        return state.open_plan
    with _previewed(config, spark, tell) as job:
        return LoadWork(job).plan(job.ledger, state.next_batch)


def preview_rewind(config: LoadConfig, spark: Any, tell: Tell, wanted: RewindWanted) -> Rewind:
    """Return what run_operation would load again.  Raises its exceptions."""
    with _previewed(config, spark, tell) as job:
        return RewindWork(job, wanted).rewound(job.ledger)


def preview_init(config: LoadConfig, spark: Any, tell: Tell, wanted: InitWanted) -> dict[TopicPartition, int]:
    """Return all offsets of the job after run_operation.  Raises its exceptions."""
    with _previewed(config, spark, tell) as job:
        return InitWork(job, wanted).positions(job.ledger)


def preview_compact(config: LoadConfig, spark: Any, wanted: CompactWanted) -> list[FileGroup]:
    """Return the files that run_operation would merge."""
    return _to_compact(open_ledger(config, spark), wanted)


# ---- verify ----------------------------------------------------------------------------------------------------------


def verify(ledger: Ledger, spark: Any | None, with_footers: bool = True) -> Verdict:
    """Verify a ledger, and the footers of its files: other rows than in the manifest, offsets outside of the range in
    the file's name, a name that a load does not give.  Reads only; without footers if the ledger cannot list its
    files."""
    verdict = verifying.verify(ledger)
    if not with_footers:
        return verdict
    missing = {finding.file for finding in verdict.findings if finding.what == "missing"}
    try:
        files = ledger.live_files().values()
    except LedgerDamaged:
        return verdict  # the damage is among the findings
    live = {path: file for file in files if (path := ledger.path(file.final)) not in missing}
    ends: dict[str, Footer | Mismatch] = {}
    for fmt in FORMATS.values():
        mine = [path for path in live if path.endswith(ENDINGS) and by_ending(path) is fmt]
        ends |= fmt.read_footers(mine, spark, not needs_spark(ledger.base)) if mine else {}
    wrong = {path: why for path, file in live.items() if (why := _wrong(file, ends.get(path))) is not None}
    found = [Finding("footer", path, why) for path, why in wrong.items()]
    return replace(verdict, findings=tuple(sorted((*verdict.findings, *found))))


def _wrong(file: LiveFile, footer: Footer | Mismatch | None) -> str | None:
    name = FinalName.of(file.final)
    if name is None or footer is None:
        return "its name is not one that a load gives"
    if isinstance(footer, Mismatch):
        return footer.sentence
    if footer.rows != file.rows:
        return f"has {counted(footer.rows, 'row')}, its manifest says {file.rows}"
    first, last = footer.first, footer.last
    if first is not None and last is not None and not name.start <= first <= last < name.until:
        return f"has offsets {first} to {last}, outside of the range that its name says"
    return None
