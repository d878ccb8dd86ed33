"""`sparkpipeline audit`: two clusters, or a cluster and the files of a load job, compared message by message."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import click

from groundwork.commands import Command, output_option
from groundwork.output import EXIT, write
from kafkawire.unmatched import SOURCE, TARGET
from sparkpipeline.audit.auditbounds import (
    Limit,
    Side,
    check_limits,
    look,
    must_answer,
    parse_limit,
    reading,
    windows_of,
)
from sparkpipeline.audit.audittasks import MESSAGE_BYTES
from sparkpipeline.audit.clusteraudit import AuditRequest, compare
from sparkpipeline.audit.differences import COLUMNS, KINDS, AuditResult, Offsets, document, mismatches
from sparkpipeline.audit.fileaudit import compare_files
from sparkpipeline.audit.windows import BLOCK
from sparkpipeline.audit.windows import KINDS as WINDOWS
from sparkpipeline.commands.common import (
    report_option,
    session,
    side_of,
    side_options,
    spark_options,
    tell,
    whole_name,
    write_report,
)
from sparkpipeline.commands.sparkprogress import SparkProgress
from sparkpipeline.errors import OptionRefused
from sparkpipeline.source.offsetbounds import by_topic

NAME = "sparkpipeline audit"  # of its session


@click.command(
    cls=Command,
    context_settings={"help_option_names": ["-h", "--help"]},
    examples=[
        "sparkpipeline audit --source-brokers old:9092 --target-brokers new:9092 --topics orders,payments",
        "sparkpipeline audit --source-zookeeper old:2181 --files /warehouse/orders",
        "sparkpipeline audit --source-brokers old:9092 --target-brokers new:9092 --allow behind -o json",
    ],
)
@side_options("source", "right")
@side_options("target", "compared with it")
@click.option("--files", metavar="BASE", help="In place of a target: the base of a load job.")
@click.option("--topics", metavar="A,B,…", help="Topics to compare ..")
@click.option("--topics-pattern", metavar="REGEX", help=".. or those whose whole name a Java pattern matches.")
@click.option(
    "--keyed", metavar="A,B,…", default="", help="Topics to compare as a whole: they are partitioned differently."
)
@click.option(
    "--from", "start", metavar="WHERE", help="ISO time, or offsets of the source as JSON. [default: earliest]"
)
@click.option(
    "--to",
    "until",
    metavar="WHERE",
    help="ISO time, or offsets of the source as JSON, of the end (exclusive). [default: latest]",
)
@click.option("--target-from", "target_start", metavar="JSON", help="If --from has offsets: the target's offsets.")
@click.option("--target-to", "target_until", metavar="JSON", help="If --to has offsets: the target's offsets.")
@click.option(
    "--window",
    type=click.Choice(WINDOWS),
    default=WINDOWS[0],
    show_default=True,
    help="auto: the hour (UTC) of a message's timestamp, else a block of offsets; blocks: always blocks.",
)
@click.option(
    "--block",
    type=click.IntRange(min=1),
    default=BLOCK,
    show_default=True,
    help=f"Offsets of a block; with --files of 0.7 messages of {MESSAGE_BYTES} bytes.",
)
@click.option("--no-match", is_flag=True, help="Compare sums only: a loss and a duplicate look alike.")
@click.option("--allow", multiple=True, type=click.Choice(sorted(KINDS)), help="Difference to accept; repeatable.")
@spark_options
@output_option()
@report_option
def audit(master: str | None, conf: dict[str, str], output: str, report: Path | None, **asked: Any) -> int:
    """Compare two clusters, or a cluster and its loaded files.

    Prints a row for each difference, and exits with 4 if there is one, else with 0.  Offsets may differ between
    clusters: messages are compared by their keys and values.  The target's ends are read first, so that messages
    arriving meanwhile count at most as `behind`.
    """
    began = time.monotonic()
    _check(asked)
    found, offsets = (_files if asked["files"] is not None else _clusters)(asked, master, conf)
    write((row.row() for row in found.differences), COLUMNS, output)
    write_report(report, document(found, offsets, allowed=asked["allow"], seconds=time.monotonic() - began))
    return _end(found, asked["allow"])


def _check(asked: dict[str, Any]) -> None:
    """Raise OptionRefused for contradicting options, before Spark starts."""
    if (asked["files"] is None) == (asked["target_brokers"] is None and asked["target_zookeeper"] is None):
        raise OptionRefused("give a target to compare with: a cluster, or --files", option="--files")
    if asked["files"] is None:
        if (asked["topics"] is None) == (asked["topics_pattern"] is None):
            raise OptionRefused("or --topics-pattern selects the topics: give one of the two", option="--topics")
        return
    of_clusters = (
        "keyed", "start", "until", "target_start", "target_until", "topics_pattern", "target_protocol", "target_option",
    )  # fmt: skip
    wrong = [name for name in of_clusters if asked[name]]
    if wrong:
        raise OptionRefused(
            "has no effect with --files: everything that was loaded is compared",
            option=f"--{wrong[0].replace('start', 'from').replace('until', 'to').replace('_', '-')}",
        )


def _end(found: AuditResult, allowed: tuple[str, ...]) -> int:
    """Report the result, and return the exit code."""
    ours, theirs = found.messages(SOURCE), found.messages(TARGET)
    tell(f"{len(found.scopes)} compared: {ours:,} messages in the source, {theirs:,} in the target")
    wrong = {row.difference for row in mismatches(found.differences, allowed)}
    counts: Counter[str] = Counter()
    for row in found.differences:
        counts[row.difference] += row.messages or 0
    for kind in sorted(counts):
        many = f"{counts[kind]:,} " if counts[kind] else ""
        tell(f"{'' if kind in wrong else 'allowed: '}{many}{kind}: {KINDS[kind]}")
    if not found.differences:
        tell("no difference")
    return EXIT["partly"] if wrong else EXIT["done"]


def _clusters(asked: dict[str, Any], master: str | None, conf: dict[str, str]) -> tuple[AuditResult, Offsets]:
    """Compare two clusters; both are asked before Spark is started."""
    start, until = parse_limit(asked["start"], "--from"), parse_limit(asked["until"], "--to")
    target_start = parse_limit(asked["target_start"], "--target-from")
    target_until = parse_limit(asked["target_until"], "--target-to")
    check_limits(start, until, target_start, target_until)
    sides: dict[str, Side] = {side: Side.of(_options(side, asked)) for side in (SOURCE, TARGET)}
    by_broker = any(side.by_broker for side in sides.values())
    windows = windows_of(asked["window"], start, until, by_broker=by_broker)
    theirs = _other(start, target_start), _other(until, target_until)
    limits: dict[str, tuple[Limit, Limit]] = {SOURCE: (start, until), TARGET: theirs}
    seen = look(sides, limits)
    topics = frozenset(tp.topic for tp in seen.ranges[SOURCE].bounds)
    keyed = frozenset(_names(asked["keyed"]))
    unknown = sorted(keyed - topics)
    if unknown:
        raise OptionRefused(f"{unknown[0]} is not among the topics that are compared", option="--keyed")
    for topic in seen.missing:
        tell(f"the target does not have topic {topic}")
    ranges = seen.ranges
    what = AuditRequest(
        bounds={side: found.bounds for side, found in ranges.items()}, windows=windows,
        keyed=topics if by_broker else keyed,
        cut={side: found.cut for side, found in ranges.items()}, block=asked["block"], match=not asked["no_match"],
    )  # fmt: skip
    with (
        session(NAME, master, conf) as spark,
        SparkProgress(spark).watch("audit", rows=seen.offsets),
    ):
        result = compare(spark, reading(sides), what, tell, lambda side, ranges: sides[side].whole_entries(ranges))
    read = {side: by_topic({tp: list(at) for tp, at in found.bounds.items()}) for side, found in ranges.items()}
    return result, read


def _other(limit: Limit, given: Limit) -> Limit:
    """Return the limit of the other side: a time applies to both."""
    return limit if limit.time_ms is not None else given


def _files(asked: dict[str, Any], master: str | None, conf: dict[str, str]) -> tuple[AuditResult, Offsets]:
    options = _options(SOURCE, asked, topics=False)
    topics, match = _names(asked["topics"] or ""), not asked["no_match"]
    must_answer(options)
    with session(NAME, master, conf) as spark, SparkProgress(spark).watch("audit"):
        return compare_files(
            spark, options, asked["files"], topics=topics, block=asked["block"], match=match, tell=tell
        )


def _options(side: str, asked: dict[str, Any], topics: bool = True) -> dict[str, str]:
    """Return the options of format kafka08 for one side."""
    pattern = asked["topics_pattern"] if topics else None
    return side_of(
        side,
        asked,
        {
            "subscribe": asked["topics"] if topics else None,
            "subscribePattern": None if pattern is None else whole_name(pattern),
        },
    )


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
