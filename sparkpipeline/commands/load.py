"""`sparkpipeline load`: one load job, described by a YAML file.

run       finish an interrupted run, then load new messages
plan      show what the next run would do
status    show progress and lag of the job
files     list the files that readers of a batch see
verify    compare the files with the manifests, and footers with both
init      take over offsets from an older loader
rewind    load a topic again from a time
compact   merge files of each hour and partition of a day
abandon   give an open plan up
"""

from __future__ import annotations

import json
import time
from contextlib import AbstractContextManager
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import click

from groundwork.commands import Group, dry_run_option, execute_option, go_ahead, output_option
from groundwork.output import EXIT, FORMS, fail, print_text, write
from groundwork.sentences import counted
from kafkawire.securityoptions import unsafe_security
from sparkpipeline.commands import loadrows
from sparkpipeline.commands.common import (
    Told,
    failure_reported,
    report_option,
    session,
    session_if,
    spark_options,
    tell,
    write_report,
)
from sparkpipeline.commands.sparkprogress import SparkProgress
from sparkpipeline.errors import LedgerDamaged, OptionRefused, PipelineError, Refused
from sparkpipeline.ledger.base import needs_spark
from sparkpipeline.ledger.exactlyonce import Outcome
from sparkpipeline.ledger.reports import files_of, status_of
from sparkpipeline.load.config import LoadConfig, read_config
from sparkpipeline.load.facts import JobState
from sparkpipeline.load.job import LoadOutcome, open_ledger, run_load
from sparkpipeline.load.loadcluster import connected, must_answer, take_snapshot
from sparkpipeline.load.loadplan import in_order
from sparkpipeline.load.operations import (
    CompactWanted,
    InitWanted,
    RewindWanted,
    preview_compact,
    preview_init,
    preview_load,
    preview_rewind,
    run_operation,
)
from sparkpipeline.load.operations import verify as verify_load
from sparkpipeline.load.rewind import time_of
from sparkpipeline.source.offsetbounds import parse_offsets

job_argument = click.argument("job", type=click.Path(dir_okay=False, path_type=Path))


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    examples=[
        "sparkpipeline load plan load.yaml",
        "sparkpipeline load run load.yaml --report last.json",
        "sparkpipeline load status load.yaml --max-lag 1000000",
    ],
)
def load() -> None:
    """Load topics into files, each message exactly once."""


def reading(config: LoadConfig, master: str | None, conf: dict[str, str]) -> AbstractContextManager[Any | None]:
    """Return a context with a session if the base needs one."""
    return session_if(needs_spark(config.base), f"{config.name} (reading)", master, conf)


# ---- regular runs ----------------------------------------------------------------------------------------------------


@load.command(
    examples=[
        "sparkpipeline load run load.yaml",
        "sparkpipeline load run load.yaml --master spark://spark1:7077 --conf spark.executor.memory=4g",
    ]
)
@job_argument
@spark_options
@output_option()
@report_option
def run(job: Path, master: str | None, conf: dict[str, str], output: str, report: Path | None) -> int:
    """Load what is new.

    An interrupted run is finished first, exactly as it was planned.  Exits with 3 if another driver runs the same job.
    """
    config = read_config(job)
    began = time.monotonic()
    say = Told()
    with failure_reported(report, job=config.name, base=config.base):
        must_answer(config)
        with session(config.name, master, conf) as spark:
            outcome = run_load(config, spark, say, SparkProgress(spark).watch)
    if outcome.outcome == Outcome.IDLE:
        say("nothing new")
    return _ended(config, outcome, output, report, seconds=round(time.monotonic() - began, 3), told=say)


@load.command(examples=["sparkpipeline load plan load.yaml"])
@job_argument
@click.option("--dry-run", is_flag=True, help="No effect: plan never writes.")
@spark_options
@output_option()
def plan(job: Path, dry_run: bool, master: str | None, conf: dict[str, str], output: str) -> None:
    """Show what the next run would load; write nothing."""
    config = read_config(job)
    for sentence in unsafe_security(config, found_in_zookeeper=not config.bootstrap, file=job):
        tell(f"warning: {job.name}: {sentence}")
    must_answer(config)
    with session(config.name, master, conf) as spark:
        found = preview_load(config, spark, tell)
    rows = [] if found is None else loadrows.of_plan(found)
    write(rows, loadrows.RANGE, output)
    if found is None:
        tell("nothing new")


# ---- reads only ------------------------------------------------------------------------------------------------------


@load.command(
    examples=[
        "sparkpipeline load status load.yaml",
        "sparkpipeline load status load.yaml --max-lag 1000000  # exit code 6 above",
    ]
)
@job_argument
@click.option("--offline", is_flag=True, help="Read only the ledger, without asking the cluster.")
@click.option(
    "--max-lag", type=click.IntRange(0), help="Exit with 6 if the lag exceeds this many messages (0.7: bytes)."
)
@click.option("--max-age", type=click.IntRange(0), metavar="MINUTES",
              help="Exit with 6 if there is lag and the last batch is older.")  # fmt: skip
@click.option("--max-plan-age", type=click.IntRange(0), metavar="MINUTES",
              help="Exit with 6 if a plan has been open for longer: its runs fail.")  # fmt: skip
@spark_options
@output_option()
def status(
    job: Path, offline: bool, max_lag: int | None, max_age: int | None, max_plan_age: int | None,
    master: str | None, conf: dict[str, str], output: str,
) -> None:  # fmt: skip
    """Show lag and retention of each topic of a job.

    lag: messages to load. kept: at least how many messages before a partition's offset its log still has. passed: the
    time of messages that every partition has reached.

    kept 0 in a topic that is behind: messages are being deleted before they are loaded.  Of Kafka 0.7, whose offsets
    are bytes, lag and kept are bytes too.

    If the cluster does not answer, the ledger is shown without them, and the error follows.
    """
    config = read_config(job)
    with reading(config, master, conf) as spark:
        ledger = open_ledger(config, spark)
        state, now = status_of(ledger), ledger.clock()
        job_state = JobState.of(state.newest)
    logs, unanswered = None, None
    if not offline:
        try:
            with connected(config) as cluster:
                logs = take_snapshot(config, cluster.brokers, job_state.positions).logs
        except PipelineError as exc:
            unanswered = exc  # raised once the ledger is shown
    topics = loadrows.of_topics(job_state, logs)
    summary = loadrows.of_status(state, now)
    if output == "json":
        print_text(json.dumps({**summary, "topics": topics}, indent=2, sort_keys=True))
    else:
        write([{"what": name, "value": value} for name, value in summary.items()], ("what", "value"), output)
        print_text()
        write(topics, loadrows.TOPIC, output)
    if unanswered is not None:
        raise unanswered
    unit = config.spoken.offsets.unit if config.spoken is not None else "messages"
    alarms = loadrows.alarms(summary, topics, max_lag=max_lag, max_age=max_age, max_plan_age=max_plan_age, unit=unit)
    if alarms:
        fail("; ".join(alarms), EXIT["exceeded"])


@load.command(examples=["sparkpipeline load files load.yaml", "sparkpipeline load files load.yaml --as-of 17 -o json"])
@job_argument
@click.option("--as-of", type=click.IntRange(0), metavar="BATCH", help="List the files after this batch.")
@spark_options
@output_option()
def files(job: Path, as_of: int | None, master: str | None, conf: dict[str, str], output: str) -> None:
    """List the files of a job: each row exactly once.

    Also while a batch is being published.

    For readers that must not see half a batch, or half a rewind.
    """
    config = read_config(job)
    with reading(config, master, conf) as spark:
        rows = files_of(open_ledger(config, spark), as_of)
    write([asdict(row) for row in rows], ("path", "rows", "bytes", "batch", "where"), output)


@load.command(examples=["sparkpipeline load verify load.yaml", "sparkpipeline load verify load.yaml --footers"])
@job_argument
@click.option("--footers/--no-footers", default=True, show_default=True, help="Read the footer of every file, too.")
@spark_options
@output_option()
def verify(job: Path, footers: bool, master: str | None, conf: dict[str, str], output: str) -> None:
    """Compare the files with the manifests.

    Exit code 4 if files are missing, unexpected, or different.
    """
    config = read_config(job)
    with reading(config, master, conf) as spark:
        verdict = verify_load(open_ledger(config, spark), spark, footers)
    if verdict.findings or output != FORMS[0]:
        write([asdict(finding) for finding in verdict.findings], ("what", "file", "detail"), output)
    tell(
        f"{counted(verdict.batches, 'batch', 'batches')}, {counted(verdict.files, 'file')}, "
        f"{counted(verdict.rows, 'row', form=',')}, {counted(verdict.bytes, 'byte', form=',')}"
        + ("" if verdict.findings else ": nothing differs")
    )
    if verdict.busy:
        tell("a driver is at work: files being moved may be among the findings")
    if not verdict.good:
        fail(f"{sum(not f.harmless for f in verdict.findings)} findings that matter", EXIT["partly"])


# ---- changes a job beside its regular runs ---------------------------------------------------------------------------


@load.command(
    examples=[
        "sparkpipeline load init load.yaml --from-group hadoop-orders",
        "sparkpipeline load init load.yaml --from-json positions.json --execute",
    ]
)
@job_argument
@click.option("--from-group", metavar="GROUP", help="Begin at the committed offsets of this group.")
@click.option("--storage", type=click.Choice(("zookeeper", "kafka", "dual")),
              help="Where that group stores its offsets. [default: ZooKeeper if zookeeper.connect is set]")  # fmt: skip
@click.option("--from-json", metavar="FILE", type=click.File("rb"),
              help='Begin at these offsets: {"orders":{"0":23,"1":-2}}, -2 earliest, -1 latest; -: stdin.')  # fmt: skip
@click.option(
    "--replace", is_flag=True, help="Also partitions that the job has loaded from: gaps or duplicates follow."
)
@execute_option
@dry_run_option
@spark_options
@output_option()
def init(
    job: Path, from_group: str | None, storage: Any, from_json: Any, replace: bool, execute: bool, dry_run: bool,
    master: str | None, conf: dict[str, str], output: str,
) -> int:  # fmt: skip
    """Take over the positions of an older loader."""
    config = read_config(job)
    if (from_group is None) == (from_json is None):
        raise click.UsageError("give exactly one of --from-group and --from-json")
    positions = None if from_json is None else parse_offsets(_text(from_json.read()), "--from-json")
    wanted = InitWanted(from_group, storage, positions, replace)
    must_answer(config)
    with session(config.name, master, conf) as spark:
        found = preview_init(config, spark, tell, wanted)
        write(
            [(tp.topic, str(tp.partition), found[tp]) for tp in in_order(found)],
            ("topic", "partition", "position"),
            output,
        )
        if not go_ahead(execute, "take over these positions", dry_run):
            return EXIT["done"]
        outcome = run_operation(config, spark, tell, wanted)
    return EXIT["refused"] if outcome.lost else EXIT["done"]


@load.command(
    examples=[
        "sparkpipeline load rewind load.yaml --topic orders --to 2026-03-01T00:00:00Z",
        "sparkpipeline load rewind load.yaml --topic orders --to 2026-03-01T00:00:00Z --execute",
    ]
)
@job_argument
@click.option("--topic", required=True)
@click.option("--to", "time", required=True, metavar="TIME", help="2026-01-01T10:00Z, or ms since 1970.")
@click.option("--partition", metavar="N", help="Only this partition.")
@click.option("--allow-partial", is_flag=True, help="Load what the cluster still has; the other files stay.")
@execute_option
@dry_run_option
@spark_options
@output_option()
@report_option
def rewind(
    job: Path, topic: str, time: str, partition: str | None, allow_partial: bool, execute: bool, dry_run: bool,
    master: str | None, conf: dict[str, str], output: str, report: Path | None,
) -> int:  # fmt: skip
    """Load a topic again from a time.

    Files are replaced as a whole, beginning with the first one that may have rows of that time; superseded files stay
    in trash for a while.  Offsets do not change.
    """
    config = read_config(job)
    wanted = RewindWanted(topic, time_of(time), partition, allow_partial)
    with failure_reported(report, job=config.name, base=config.base):
        must_answer(config)
        with session(config.name, master, conf) as spark:
            found = preview_rewind(config, spark, tell, wanted)
            for tp, why in found.kept:
                tell(f"{tp} {why}")
            write([(r.topic, str(r.partition), r.start, r.until, r.count) for r in found.ranges],
                  ("topic", "partition", "start", "until", "offsets"), output)  # fmt: skip
            tell(
                f"{counted(len(found.supersedes), 'file')} with {counted(found.rows, 'row', form=',')} and "
                f"{counted(found.bytes, 'byte', form=',')} in {counted(len(found.hours), 'hour')} "
                f"{'is' if len(found.supersedes) == 1 else 'are'} replaced"
            )
            tell("".join(f"  {hour}\n" for hour in found.hours).rstrip())
            if not found.ranges or not go_ahead(execute, "load these again", dry_run):
                return EXIT["done"]
            outcome = run_operation(config, spark, tell, wanted, SparkProgress(spark).watch)
    return _ended(config, outcome, output, report)


@load.command(
    examples=[
        "sparkpipeline load compact load.yaml --date 2026-03-01 --dry-run",
        "sparkpipeline load compact load.yaml --date 2026-03-01 --topic orders",
    ]
)
@job_argument
@click.option("--date", "day", required=True, metavar="YYYY-MM-DD", help="The day, in UTC.")
@click.option("--hour", type=click.IntRange(0, 23), metavar="HH", help="Only this hour.")
@click.option("--topic", help="Only this topic.")
@click.option("--min-files", type=click.IntRange(2), default=2, show_default=True,
              help="Leave hours and partitions with fewer files alone.")  # fmt: skip
@dry_run_option
@spark_options
@output_option()
@report_option
def compact(
    job: Path, day: str, hour: int | None, topic: str | None, min_files: int, dry_run: bool,
    master: str | None, conf: dict[str, str], output: str, report: Path | None,
) -> int:  # fmt: skip
    """Merge the files of each hour and partition of a day.

    Nothing is read from Kafka.
    """
    config = read_config(job)
    wanted = CompactWanted(_day(day), topic, None if hour is None else f"{hour:02}", min_files)
    with failure_reported(report, job=config.name, base=config.base), session(config.name, master, conf) as spark:
        found = preview_compact(config, spark, wanted)
        if dry_run or not found:
            write([(g.hour.folder, g.partition, len(g.files), g.rows, g.bytes) for g in found],
                  ("folder", "partition", "files", "rows", "bytes"), output)  # fmt: skip
            tell("nothing to merge" if not found else f"{sum(len(g.files) for g in found)} files become {len(found)}")
            return EXIT["done"]
        outcome = run_operation(config, spark, tell, wanted, SparkProgress(spark).watch)
    return _ended(config, outcome, output, report)


@load.command(
    examples=[
        "sparkpipeline load abandon load.yaml 17 --why 'a message that no reader takes'",
        "sparkpipeline load abandon load.yaml 17 --why 'a message that no reader takes' --execute",
    ]
)
@job_argument
@click.argument("batch", type=click.IntRange(1))
@click.option("--why", default="by hand", show_default=True, help="Reason, kept in the ledger.")
@execute_option
@spark_options
def abandon(job: Path, batch: int, why: str, execute: bool, master: str | None, conf: dict[str, str]) -> None:
    """Give up an open plan that fails at every run.

    It will never be published, and the next run plans its offsets again.
    """
    config = read_config(job)
    with reading(config, master, conf) as spark:
        ledger = open_ledger(config, spark)
        try:
            state = ledger.state()
            if state.open_plan is None or state.next_batch != batch:
                raise Refused(f"it is not open; the next batch is {state.next_batch}", batch=batch)
            write(loadrows.of_plan(state.open_plan), loadrows.RANGE)
        except LedgerDamaged as exc:  # an unreadable plan is the best reason to abandon it
            tell(str(exc))
        if go_ahead(execute, f"abandon batch {batch}"):
            ledger.abandon(batch, why)
            tell(f"batch {batch} is abandoned")


def _ended(config: LoadConfig, outcome: LoadOutcome, output: str, report: Path | None, **more: Any) -> int:
    """Print and report the batches of a run, and return the exit code."""
    rows = loadrows.of_outcome(outcome)
    write(rows, loadrows.BATCH, output)
    document = {"job": config.name, "base": config.base, "outcome": outcome.outcome.value, "batches": rows}
    write_report(report, {**document, "closed": list(outcome.closed), **more})
    return EXIT["refused"] if outcome.lost else EXIT["done"]


def _day(text: str) -> str:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise OptionRefused(f"expected a day such as 2026-01-31, got {text!r}", option="--date") from None
    return day.isoformat()


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise OptionRefused(f"byte {exc.start} is no UTF-8", option="--from-json") from None
