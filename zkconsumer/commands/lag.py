"""`zkconsumer lag`: how far groups are behind, once or again and again, with an exit code for a monitor.

A partition that nothing was ever committed for has no lag.  One whose committed offset cannot be read, or the end of
whose log nobody tells, is unknown: with --threshold that is no success.
"""

from __future__ import annotations

import csv
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import count

import click

from groundwork.crew import sleep
from groundwork.output import EXIT, fail, write
from zkconsumer.commands.common import Reach, at_interrupt, must_tell, reaching, tell, tell_unit
from zkconsumer.commands.groups import COLUMNS, LEADERS, partition_row
from zkconsumer.commands.options import (
    brokers_option,
    group_option,
    kafka_version_option,
    output_option,
    zookeeper_option,
)
from zkconsumer.errors import ZooKeeperAway
from zkconsumer.groups import GroupRow, describe, list_groups, no_brokers, read_group
from zkconsumer.offsets.store import NONE
from zkconsumer.session.access import ZooKeeper

TOTALS = ("group", "members", "partitions", "lag", "unknown")


@click.command()
@zookeeper_option()
@brokers_option(LEADERS)
@group_option(required=False, help="Only this group, a row for each partition; a row for each group without.")
@click.option(
    "--watch",
    is_flag=False,
    flag_value=5.0,
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help="Look again after so many seconds (5), until ctrl-C or SIGTERM.",
)
@click.option("--threshold", type=click.IntRange(min=0), help="Exit with 6 when a group's lag is more (0.7: bytes).")
@kafka_version_option
@output_option()
def lag(
    zookeeper: ZooKeeper,
    brokers: list[tuple[str, int]],
    group: str | None,
    watch: float | None,
    threshold: int | None,
    kafka_version: str,
    output: str,
) -> None:
    """Print how many messages are committed by nobody yet: of each group, or of each partition of one.

    Of Kafka 0.7 bytes of the logs are counted: nobody knows how many messages they hold.

    With --threshold: exit code 6 when a group is further behind, 4 when none is but some lag is not known.
    """
    must_tell(brokers, kafka_version)
    with reaching(zookeeper, kafka_version) as reach:
        if watch is None:
            code = _look(reach, group, brokers, threshold, output)
        else:
            code = EXIT["done"]
            with at_interrupt("", lambda: code, (signal.SIGTERM,)):
                for looks in count():
                    try:
                        code = _look(reach, group, brokers, threshold, output, looks)
                    except ZooKeeperAway as e:
                        tell(f"{e}; looking again in {watch:g} s")
                    sleep(watch)
    if code:
        click.get_current_context().exit(code)


def _look(
    reach: Reach,
    group: str | None,
    brokers: Sequence[tuple[str, int]],
    threshold: int | None,
    output: str,
    looks: int | None = None,
) -> int:
    """Print one look at the groups; its exit code.  looks: how many came before it, when watching."""
    names = [group] if group is not None else [each.group for each in list_groups(reach.session, reach.dialect)]
    if not names and (hint := no_brokers(reach.session, reach.dialect)):
        fail(hint, EXIT["runtime"])
    unit = reach.dialect.position_unit
    nodes = [read_group(reach.session, reach.dialect, name) for name in names]
    rows = describe(reach.session, reach.links, reach.dialect, nodes, brokers, tell)
    totals = [(each.group, len(each.members), len(rows[each.group]), *total(rows[each.group])) for each in nodes]
    if group is not None:
        _print([partition_row(row) for row in rows[group]], COLUMNS, output, looks)
        tell(f"group {group}: {totals[0][3]} {unit} behind, in {totals[0][2]} partitions, {totals[0][4]} unknown")
    else:
        _print(totals, TOTALS, output, looks)
        tell_unit(reach.dialect)
    if threshold is None:
        return EXIT["done"]
    return verdict([(name, behind, unknown) for name, _, _, behind, unknown in totals], threshold, unit)


def total(rows: Sequence[GroupRow]) -> tuple[int, int]:
    """How far behind (messages, 0.7: bytes), of the partitions where that is known; how many have a position, and no
    known lag.

    A position beyond the end of its log (below 0 in its row) takes nothing off what the others are behind.
    """
    known = [max(0, row.lag) for row in rows if row.lag is not None]
    return sum(known), sum(row.lag is None and row.committed is not NONE for row in rows)


def verdict(totals: Sequence[tuple[str, int, int]], threshold: int, unit: str = "messages") -> int:
    """The exit code for (group, lag, unknown) of each group; who is over, or not known, is told."""
    over = [f"group {name} is {behind} {unit} behind" for name, behind, _ in totals if behind > threshold]
    for each in over:
        tell(f"{each}, more than {threshold}")
    if over:
        return EXIT["exceeded"]
    return EXIT["partly"] if any(unknown for _, _, unknown in totals) else EXIT["done"]


def _print(rows: Sequence[Sequence[object]], columns: tuple[str, ...], output: str, looks: int | None) -> None:
    """When watching, each row begins with the time; csv has its header once."""
    if looks is not None:
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        rows, columns = [(at, *row) for row in rows], ("time", *columns)
    if output == "csv" and looks:
        csv.writer(sys.stdout, lineterminator="\n").writerows(rows)
    else:
        write(rows, columns, output)
    sys.stdout.flush()
