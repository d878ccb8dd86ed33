"""Load job: plans, executes, counts and publishes batch by batch, exactly once (ledger/exactlyonce.py).

Afterwards hours that are complete are marked, and positions are copied to a consumer group, for the tools that show
lag.  That copy is informational: the loader never reads it back.  It may be a batch behind after a crash, and is whole
each time.  A group that has active members is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import reduce
from hashlib import sha256
from typing import Any

from groundwork.failpoints import failpoint
from groundwork.sentences import counted as counted_words
from sparkpipeline.driver.groupoffsets import group_owners, write_offsets
from sparkpipeline.driver.zkclient import lock
from sparkpipeline.errors import (
    DataLoss,
    Mismatch,
    OffsetOutOfRange,
    Refused,
    StorageFailed,
    UnknownPartition,
    Unreachable,
    code_in,
)
from sparkpipeline.ledger.attempts import PORTIONS
from sparkpipeline.ledger.base import normal_base, open_files
from sparkpipeline.ledger.exactlyonce import Advance, Outcome, Tell, advance
from sparkpipeline.ledger.ledger import Ledger
from sparkpipeline.ledger.manifests import BatchFile, Manifest, Plan, StagedBatch
from sparkpipeline.load import compaction, hours
from sparkpipeline.load.config import QUARANTINE, LoadConfig
from sparkpipeline.load.counts import RangeCount, count_staged, counted
from sparkpipeline.load.facts import JobState, averages, batch_facts, hour_rows, latest_ms
from sparkpipeline.load.hourrules import CALLABLE, HourRule
from sparkpipeline.load.hours import own_time
from sparkpipeline.load.loadcluster import (
    Cluster,
    ClusterSnapshot,
    TaskPlanner,
    connected,
    foreign_to,
    sampled_averages,
    take_snapshot,
)
from sparkpipeline.load.loadplan import COMPACT, INIT, KINDS, LOAD, LoadPlan, Marks, Positions, in_order
from sparkpipeline.load.logmarks import check_logs, marks_of
from sparkpipeline.load.nextbatch import due, up_to
from sparkpipeline.load.outputformat import check_output, check_zone, output_after, output_work
from sparkpipeline.load.portions import Finished, Portion, PortionFolder, portions_of
from sparkpipeline.load.rowtimes import check_times, gathered, gathered_sentences, sentences, topic_times
from sparkpipeline.load.staging import Observed, ToRead, read_again, read_and_write
from sparkpipeline.paths import FinalName, Hour
from sparkpipeline.ranges import OffsetRange, unit_of
from sparkpipeline.reading.damagelog import DamagedEntry

Watch = Callable[[str, int, int, int], AbstractContextManager[None]]  # what, tasks, rows, bytes: shown while it runs
SETTINGS = {  # of the session, whatever it was started with: hours and files depend on them
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
SHOWN = 3  # partitions named one by one


def unwatched(what: str, tasks: int, rows: int, size: int) -> AbstractContextManager[None]:
    """Return a context that shows nothing."""
    return nullcontext()


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """Result of a run. steps: calls of the ledger's advance, in order; closed: folders of hours that it closed, below
    the base."""

    steps: tuple[Advance, ...]
    closed: tuple[str, ...] = ()

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        """Return the manifests of the batches that this run committed."""
        return tuple(step.manifest for step in self.steps if step.manifest is not None)

    @property
    def outcome(self) -> Outcome:
        """Return the outcome of all steps: lost, done if a batch was done, else idle."""
        return Outcome.LOST if self.lost else Outcome.DONE if self.manifests else self.steps[-1].outcome

    @property
    def lost(self) -> bool:
        """True if another driver was quicker."""
        return any(step.outcome == Outcome.LOST for step in self.steps)


@dataclass(frozen=True, slots=True)
class LoadedPortion:
    """Result of a portion of a batch.  counts: of its ranges, in order; taken_over: an earlier attempt read it."""

    portion: Portion
    seen: Observed
    counts: tuple[RangeCount, ...]
    taken_over: bool = False


# ---- the work --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """Objects shared by all works of a job. tell: called with messages for the operator; watch: shows Spark's jobs as
    they run."""

    config: LoadConfig
    spark: Any
    tell: Tell
    cluster: Cluster
    ledger: Ledger
    watch: Watch = unwatched


class LoadWork:
    """Work of kinds load, rewind, compact and init: each executes an open plan of any kind."""

    def __init__(self, job: JobContext) -> None:
        self.config = job.config
        self.spark = job.spark
        self.tell = job.tell
        self.cluster = job.cluster
        self.ledger = job.ledger
        self.watch = job.watch
        check_output(job.ledger, job.config)
        self.snapshot: tuple[ClusterSnapshot, int] | None = None  # and when, in ms: what closing hours goes by
        self.goal: Positions | None = None  # where the run ends: as logs did at its first plan, or by its limits

    # ---- plan

    def plan(self, ledger: Ledger, batch: int) -> Plan | None:
        """Plan the messages after the job's offsets.  Raises OffsetOutOfRange, UnknownPartition, NoLeader,
        Unreachable."""
        config, state = self.config, JobState.of(ledger.state().newest)
        snapshot, now = self.take_snapshot(state)
        self.check_logs(state, snapshot)
        found = due(
            state.positions,
            snapshot.logs,
            snapshot.missing,
            starting=config.starting_offsets,
            out_of_range=config.out_of_range,
        )
        for tp in snapshot.missing:
            self.tell(f"{tp} was loaded before, and the cluster does not have it any more")
        for gap in found.gaps:
            self.tell(f"{gap}: {gap.until - gap.start} {unit_of(gap.partition)} were deleted before they were loaded")
        pinned = config.starting_offsets == "latest" and bool(found.positions)
        if not found.ranges and not found.gaps and not pinned:
            return None
        planner = self.task_planner(self._averages(state, found.ranges))
        if self.goal is None:
            self.goal = {rng.tp: rng.until for rng in planner.limited(found.ranges)}
        ranges = planner.bounded(up_to(found.ranges, self.goal))
        positions = {**state.positions, **found.positions, **{rng.tp: rng.until for rng in ranges}}
        work = planner.cut_and_packed(ranges)
        heads = {tp: log.latest for tp, log in snapshot.logs.items()}
        moved = {tp: at for tp, at in positions.items() if tp in snapshot.logs and state.positions.get(tp) != at}
        fresh = {tp: at for tp, at in positions.items() if tp in snapshot.logs and tp not in state.marks}
        marks = {**state.marks, **self.marks({**fresh, **moved})}
        plan = LoadPlan(
            ranges=tuple(work[0]),
            tasks=tuple(work[1]),
            positions=positions,
            heads=heads,
            gaps=found.gaps,
            rule=rule_of(config),
            marks=marks,
        )
        what = "byte" if planner.of_bytes else "offset"
        left = self.left(positions)
        more = f"; {left} {what}s more are left to this run" if left else ""
        size = f"{counted_words(len(plan.ranges), 'range')}, {counted_words(len(plan.tasks), 'task')}"
        self.tell(f"batch {batch}: {counted_words(plan.rows, what)} in {size}{more}")
        return Plan(batch, LOAD, now, {**plan.work(), **output_work(config)})

    @property
    def goes_on(self) -> bool:
        """True if the run has planned a batch, and not yet the last one: the logs ended after it when the run began."""
        return self.goal is not None and self.left(JobState.of(self.ledger.state().newest).positions) > 0

    def left(self, positions: Positions) -> int:
        """Return the number of offsets from these to the end of the run."""
        goal = self.goal or {}
        return sum(max(0, at - positions.get(tp, at)) for tp, at in goal.items())

    def task_planner(self, averages: Mapping[str, float]) -> TaskPlanner:
        """Return the task planner of the job."""
        cores = int(self.spark.sparkContext.defaultParallelism)
        return TaskPlanner(self.config, self.cluster.brokers, averages, cores)

    def _averages(self, state: JobState, ranges: Sequence[OffsetRange]) -> Mapping[str, float]:
        """Return the average message size by topic: from the last load, or from the first messages to load."""
        new = [rng for rng in ranges if rng.topic not in state.averages]
        cap = self.config.fetch_bytes_cap
        return {**sampled_averages(self.cluster.brokers, new, cap), **state.averages} if new else state.averages

    def take_snapshot(self, state: JobState) -> tuple[ClusterSnapshot, int]:
        """Return a snapshot of the cluster, and its time."""
        now = self.ledger.clock()  # before the take_snapshot: what comes later is later
        self.snapshot = (take_snapshot(self.config, self.cluster.brokers, state.positions), now)
        return self.snapshot

    def check_logs(self, state: JobState, snapshot: ClusterSnapshot) -> None:
        """Raise OffsetOutOfRange if a log is not the one that was loaded before."""
        cap = self.config.fetch_bytes_cap
        check_logs(self.cluster.brokers, self.cluster.zk, state.marks, snapshot.logs, cap)

    def marks(self, positions: Positions) -> Marks:
        """Return the marks that identify the logs at these offsets."""
        return marks_of(self.cluster.brokers, self.cluster.zk, positions, self.config.fetch_bytes_cap)

    # ---- execute

    def execute(self, plan: Plan, staging: str, attempt: int) -> StagedBatch:
        """Execute a plan.  Raises Mismatch if counts differ, LedgerDamaged for an invalid plan, and Spark's
        exceptions."""
        with self._hint_at_abandon(plan.batch):
            return self._executed(plan, staging, attempt)

    def _executed(self, plan: Plan, staging: str, attempt: int) -> StagedBatch:
        application = str(self.spark.sparkContext.applicationId)
        if plan.kind not in KINDS:
            raise Refused(f"the base holds another ledger than a load's: the plan is of kind {plan.kind}",
                          batch=plan.batch)  # fmt: skip
        self.tell(f"batch {plan.batch}: {plan.kind}, attempt {attempt}")
        if plan.kind == INIT:
            return StagedBatch((), dict(plan.work["facts"]), application)
        if plan.kind == COMPACT:
            return compaction.execute(self.spark, self.config, self.ledger, plan, staging=staging, watch=self.watch)
        work = LoadPlan.of(plan)
        check_plan(self.config, plan.batch, work)
        state = JobState.of(self.ledger.state().newest)
        loaded: list[LoadedPortion] = []
        if work.ranges:
            loaded = self._loaded(plan, work, state, staging)
        seen = reduce(Observed.beside, (one.seen for one in loaded), Observed(rows=0, numbers=0, begun=0, crcs=0))
        places = [one.portion.name for one in loaded for count in one.counts]
        counts = gathered(
            [count for one in loaded for count in one.counts], self.config.batch_hours, plan.created_ms
        )  # fmt: skip
        self._check_times(plan.batch, work, state, counts=counts)
        self._keep_damaged(plan.batch, [entry for count in counts for entry in count.damage])
        files = tuple(
            BatchFile(
                f"{PORTIONS}/{place}/{file.path}",
                file.name.final(count.range.start, count.range.until, plan.batch),
                file.back.rows,
                file.size,
            )
            for place, count in zip(places, counts, strict=True) for file in count.files
        )  # fmt: skip
        at_heads = hours.at_heads(work.positions, work.heads)
        after = replace(
            state,
            positions=work.positions,
            passed=hours.passed(state.passed, latest_ms(counts), at_heads, plan.created_ms),
            averages=averages(state.averages, counts),
            marks={**state.marks, **work.marks},
            output=output_after(state.output, self.config, self.cluster.access.spoken),
        )
        closed = [hour for hour in hour_rows(counts) if self._is_closed(hour)]
        failpoint("load after audit")
        facts = batch_facts(plan=work, counts=counts, seen=seen, state=after, closed=closed)
        taken_over = sum(one.seen.rows for one in loaded if one.taken_over)
        return StagedBatch(files, {**facts, "taken_over": taken_over}, application)

    def _check_times(self, batch: int, work: LoadPlan, state: JobState, *, counts: Sequence[RangeCount]) -> None:
        """Report rows that are not in an hour of their own.  Raises Refused if no row has a usable time."""
        found = topic_times(counts)
        check_times(found, work.rule, state.averages.keys(), batch)
        for text in (*sentences(found, work.rule), *gathered_sentences(counts, self.config.batch_hours)):
            self.tell(f"batch {batch}: {text}")

    def _keep_damaged(self, batch: int, damage: Sequence[DamagedEntry]) -> None:
        """Report damaged entries that are left out, and keep their bytes if corrupt.policy says so.  Another attempt at
        the batch may have kept them already."""
        if not damage:
            return
        files, layout, keep = self.ledger.files, self.ledger.layout, self.config.corrupt_policy == QUARANTINE
        for entry in damage if keep else ():
            where = layout.quarantined(batch, entry.range.topic, entry.range.partition, entry.start, entry.until)
            files.create(where, entry.raw)
        for entry in damage[:SHOWN]:
            where = f"{entry.range.topic}/{entry.range.partition} [{entry.start}, {entry.until})"
            self.tell(f"batch {batch}: {where} is left out, since it is damaged: {entry.why}")
        if len(damage) > SHOWN:
            self.tell(f"batch {batch}: so are {counted_words(len(damage) - SHOWN, 'more entry', 'more entries')}")
        if keep:
            self.tell(f"batch {batch}: their bytes are in {layout.folder('quarantine')}")

    def _loaded(self, plan: Plan, work: LoadPlan, state: JobState, staging: str) -> list[LoadedPortion]:
        """Take over portions that an earlier attempt finished; read, write and count the rest."""
        folder = PortionFolder(self.ledger.files, staging, plan.hash, self.config)
        left = self.ledger.attempts.left(plan.batch)
        found = [
            loaded for one in folder.finished(left, len(work.tasks))
            if (loaded := self._taken_over(plan, work, folder, one=one, left=left)) is not None
        ]  # fmt: skip
        for path in left:
            self.ledger.files.delete(path, recursive=True)
        if found:
            rows, tasks = sum(one.seen.rows for one in found), sum(len(one.portion.tasks) for one in found)
            self.tell(
                f"batch {plan.batch}: an earlier attempt had finished {tasks} of {len(work.tasks)} tasks:"
                f" {counted_words(rows, 'row', form=',')} are not read again"
            )
        done = {task for one in found for task in one.portion.tasks}
        unread = [rng for task in range(len(work.tasks)) if task not in done for rng in work.of_task(task)]
        planner = self.task_planner(self._averages(state, unread))
        sizes = [planner.size(work.of_task(task)) for task in range(len(work.tasks))]
        for portion in portions_of(
            sizes, [one.portion for one in found], self.config.portion_bytes, planner.cores
        ):  # fmt: skip
            size = sum(sizes[portion.first : portion.until])
            found.append(self._read(plan, work.of_tasks(portion.first, portion.until), folder, portion=portion,
                                    rows=0 if planner.of_bytes else None, size=size))  # fmt: skip
            failpoint("load after portion")
        return sorted(found, key=lambda one: one.portion)

    def _taken_over(
        self, plan: Plan, work: LoadPlan, folder: PortionFolder, *, one: Finished, left: Sequence[str]
    ) -> LoadedPortion | None:
        """Return a portion that an earlier attempt finished, counted again; None: it has to be read again."""
        portion = one.portion
        if not folder.take(one, left):
            folder.drop(portion)
            return None
        part = work.of_tasks(portion.first, portion.until)
        try:
            counts = self._counted(plan, part, folder.path(portion), seen=one.seen, size=sum(one.files.values()))
        except Mismatch as exc:
            self.tell(f"batch {plan.batch}: what an earlier attempt finished is read again, since it is damaged: {exc}")
            folder.drop(portion)
            return None
        folder.keep(portion, one.seen, one.files)
        return LoadedPortion(portion, one.seen, tuple(counts), taken_over=True)

    def _read(
        self, plan: Plan, part: LoadPlan, folder: PortionFolder, *, portion: Portion, rows: int | None, size: int
    ) -> LoadedPortion:
        """Read, write and count a portion.  part: its share of the plan; rows, size: for the one who watches."""
        wanted = ToRead(part, plan.created_ms, self._may_lose(plan))
        path = folder.path(portion)
        with self.watch(f"batch {plan.batch}: loading", len(part.tasks), part.rows if rows is None else rows, size):
            seen = read_and_write(
                self.spark, self.config, self.cluster.access, wanted, staging=path, files=self.ledger.files
            )
        counts = self._counted(plan, part, path, seen=seen, size=size)
        folder.keep(portion, seen, {file.path: file.size for count in counts for file in count.files})
        return LoadedPortion(portion, seen, tuple(counts))

    def _counted(self, plan: Plan, part: LoadPlan, path: str, *, seen: Observed, size: int) -> list[RangeCount]:
        """Return the outcome of the ranges of a portion, by the files below a path.  Raises Mismatch."""
        with self.watch(f"batch {plan.batch}: reading back", 0, seen.rows, size):
            files = count_staged(self.spark, self.config.format, self.ledger, path, part.rule if seen.rows else None)
        may_lose = self._may_lose(plan)
        return counted(
            plan=part,
            files=files,
            seen=seen,
            compacted=self.config.compacted,
            may_lose=may_lose,
            read_again=lambda rng: read_again(self.config, self.cluster.access, rng, may_lose),
        )

    def _may_lose(self, plan: Plan) -> bool:
        """True if missing messages are allowed: not in a rewind, which has to load the replaced rows again."""
        return self.config.out_of_range == "earliest" and plan.kind == LOAD

    @contextmanager
    def _hint_at_abandon(self, batch: int) -> Iterator[None]:
        """Tell the operator, beside the error of a plan that fails, which command gives the plan up.

        Not while a server is away: then the next run helps, and another plan would not."""
        try:
            yield
        except Exception as exc:
            code = code_in(str(exc))
            if code not in (Unreachable.code, StorageFailed.code):
                lost = code in (OffsetOutOfRange.code, DataLoss.code, UnknownPartition.code)
                why = "its plan names messages that the cluster does not have (any more); it" if lost else "its plan"
                self.tell(
                    f"batch {batch}: {why} is retried at every run, until it succeeds or"
                    f" `sparkpipeline load abandon JOB {batch}` gives it up"
                )
            raise

    def _is_closed(self, hour: Hour) -> bool:
        return hours.is_closed(self.ledger.files, self.ledger.base, hour)

    # ---- afterwards

    def published(self, manifest: Manifest) -> None:
        """Copy offsets to the group, and report late rows."""
        late = manifest.facts.get("late", 0)
        if late:
            self.tell(f"batch {manifest.batch}: {late} rows belong to hours that were closed already")
        copy_outward(self.config, self.cluster, JobState.of(manifest).positions, self.tell)

    def close_hours(self, outcome: LoadOutcome) -> list[str]:
        """Mark hours that are complete after these steps; return the folders that got a marker, below the base."""
        state = JobState.of(self.ledger.state().newest)
        if not self.config.close_hours or not state.positions:
            return []
        snapshot, now = self.snapshot or self.take_snapshot(state)
        passed = hours.passed(state.passed, {}, hours.caught_up(state.positions, snapshot.logs), now)
        of_job = {tp: ms for tp, ms in passed.items() if tp in snapshot.logs}
        # A partition that was never loaded has passed nothing.
        of_job |= {tp: 0 for tp in snapshot.logs if tp not in of_job}
        until = hours.closed_until(of_job, {tp.topic for tp in of_job}, self.config.lateness_minutes * 60_000)
        complete = hours.to_close(self.ledger.live_files().values(), until)
        recovered = [self.ledger.manifest(batch) for step in outcome.steps for batch in step.recovered]
        files_now = [file for manifest in (*recovered, *outcome.manifests) for file in manifest.files]
        touched = {name.hour for file in files_now if (name := FinalName.of(file.final)) is not None}
        files, base = self.ledger.files, self.ledger.base
        return [
            hour.folder
            for hour in hours.unmarked(files, base, complete, touched)
            if hours.close(files, base, hour, complete[hour], now)
        ]


def rule_of(config: LoadConfig) -> HourRule:
    """Return the job's rule for the hour of a row.  Raises OptionRefused if its function does not exist: a plan with it
    could never be executed."""
    rule = HourRule(config.time_from, config.time_field, config.time_unit, config.time_callable)
    own_time(rule)
    return rule


def check_plan(config: LoadConfig, batch: int, work: LoadPlan) -> None:
    """Raise Refused for an open plan that calls other code, or reads other partitions, than the job's options.

    It is in the job's folder, and anyone with write access could otherwise run code as the driver, and read its
    data."""
    helps = f"give it back for this batch, or give the plan up with `sparkpipeline load abandon JOB {batch}`"
    if work.rule.source == CALLABLE and work.rule.function != config.time_callable:
        raise Refused(
            f"the plan takes hours from {work.rule.function}, and time.callable is"
            f" {config.time_callable or 'not given'}: {helps}",
            batch=batch,
        )
    foreign = foreign_to(config, [rng.tp for rng in work.ranges])
    if foreign:
        raise Refused(f"the plan reads {foreign[0]}, which is not one of the job's partitions: {helps}", batch=batch)


def copy_outward(config: LoadConfig, cluster: Cluster, positions: Positions, tell: Callable[[str], None]) -> int:
    """Write all offsets to the job's group; return how many were written, and report the others.

    Raises Unreachable, OptionRefused."""
    if config.group_id is None or not positions:
        return 0
    tps = in_order(positions)
    owned = group_owners(cluster.zk, config.group_id) if cluster.zk is not None else {}
    for tp in (tp for tp in tps if tp in owned):
        tell(
            f"group {config.group_id} is consumed with ({owned[tp]} owns {tp}): positions are not copied there;"
            " give the job a group of its own"
        )
        return 0
    results = write_offsets(config.group_id, positions, config.storage, access=cluster.access, zk=cluster.zk)
    failed = {tp: why for tp in tps if (why := results.get(tp)) is not None}
    for tp, why in list(failed.items())[:SHOWN]:
        tell(f"group {config.group_id}: the position of {tp} is not known to be copied: {why}")
    if len(failed) > SHOWN:
        tell(f"group {config.group_id}: nor are those of {len(failed) - SHOWN} more partitions")
    return len(tps) - len(failed)


# ---- a run -----------------------------------------------------------------------------------------------------------


def open_ledger(config: LoadConfig, spark: Any | None) -> Ledger:
    """Return the ledger of a job; spark: needed if the base is not a local folder.  Raises OptionRefused."""
    keep = None if config.trash_days < 0 else config.trash_days * 86400.0
    return Ledger(
        open_files(config.base, spark),
        normal_base(config.base),
        snapshot_every=config.snapshot_every,
        trash_keep_s=keep,
    )


@contextmanager
def at_work(config: LoadConfig, spark: Any, tell: Tell, watch: Watch = unwatched) -> Iterator[tuple[JobContext, bool]]:
    """Yield the job, connected to its cluster, and whether its lock makes certain that we are alone.

    Raises Refused while another driver holds the lock, OptionRefused, and the exceptions of connecting."""
    ledger = open_ledger(config, spark)
    check_zone(config, spark)
    for key, value in SETTINGS.items():
        spark.conf.set(key, value)
    with connected(config) as cluster:
        job = JobContext(config=config, spark=spark, tell=tell, cluster=cluster, ledger=ledger, watch=watch)
        if cluster.zk is None:
            yield job, False
            return
        # By the base alone: two jobs of other names on one base are one job.
        path = f"/sparkpipeline/load/{sha256(ledger.base.encode()).hexdigest()[:16]}"
        who = f"{config.name} {spark.sparkContext.applicationId} {ledger.base}"
        # A driver that was killed holds it until its session is over.
        with lock(cluster.zk, path, who, wait_s=config.zookeeper_timeout_ms / 1000 * 1.5) as held:
            if not held:
                raise Refused(f"another driver is at this job: {held.by}", lock=path)
            yield job, True


def run_load(config: LoadConfig, spark: Any, tell: Tell, watch: Watch = unwatched) -> LoadOutcome:
    """Run once: finish an interrupted run, then load new messages up to the current ends of logs, within limit.rows and
    limit.bytes, in batches of at most batch.rows and batch.bytes.

    tell: called with messages for the operator.  Raises errors of sparkpipeline.errors, and Spark's exceptions; then
    nothing was committed by this call, or a batch is committed and the next run finishes it."""
    with at_work(config, spark, tell, watch) as (job, alone):
        return run(LoadWork(job), alone)


def run(work: LoadWork, alone: bool) -> LoadOutcome:
    """Execute the open plan, if there is one, then the plans of `work`, batch after batch."""
    steps: list[Advance] = []
    while True:
        step = advance(work.ledger, work, work.tell, alone)
        steps.append(step)
        if step.outcome != Outcome.DONE:
            break
        if step.again:
            work.tell(f"batch {step.batch} is done, which an earlier run had planned; now to what is new")
        elif work.goes_on:
            work.tell(f"batch {step.batch} is done; now to the next one of this run")
        else:
            break
    outcome = LoadOutcome(tuple(steps))
    if outcome.lost:
        return outcome
    return LoadOutcome(outcome.steps, tuple(work.close_hours(outcome)))
