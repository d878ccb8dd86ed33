"""Rows as Kafka's tools print them: ConsumerGroupCommand (2.x) and ConsumerOffsetChecker (0.8.2, and that of 0.7)."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from groundwork.output import write
from groupadmin.commands.offsetlook import lag, tell_odd
from groupadmin.plan.changes import Change
from groupadmin.snapshot.groups import host_of
from groupadmin.snapshot.model import GroupSnapshot
from groupadmin.snapshot.stores import counts, stores_of
from zkconsumer.offsets.store import Unknown

DESCRIBED = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "CONSUMER-ID",
    "HOST",
    "CLIENT-ID",
)
RESET = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
CHECKED = "{:<15} {:<30} {:<3} {:<15} {:<15} {:<15} {}"


def describe_table(groups: Iterable[GroupSnapshot], connected: bool, tell: Callable[[str], object]) -> None:
    """Print `--describe`: of a group with two stores the larger position, which its members would begin at."""
    rows: list[tuple[object, ...]] = []
    for each in groups:
        tell_odd([each])
        if not each.members and not each.owners and not each.kafka_members:
            tell(f"Consumer group '{each.group}' has no active members.")
        stores = stores_of(each, connected)
        for tp in each.partitions():
            there = counts(each, tp, stores)
            if isinstance(there, Unknown):
                tell(there.reason)
            _, end = each.bounds.get(tp, (None, None))
            owner = each.owners.get(tp)
            host = host_of(each.group, owner.rpartition("-")[0]) if owner is not None else None
            position = there if isinstance(there, int) else None
            rows.append((each.group, tp.topic, str(tp.partition), position, end, lag(there, end), owner, host, None))
    write(rows, DESCRIBED)


def new_offsets(changes: Sequence[Change], output: str) -> None:
    """Print a reset: GROUP TOPIC PARTITION NEW-OFFSET, or as CSV what --from-file reads."""
    rows = [(c.group, c.tp.topic, str(c.tp.partition), c.after) for c in changes if c.action in ("write", "unchanged")]
    if output == "csv":
        csv.writer(sys.stdout, lineterminator="\n").writerows(row[1:] for row in rows)
    else:
        write(rows, RESET)


def checker_rows(each: GroupSnapshot, topics: Collection[str] | None) -> Iterator[str]:
    """The lines of ConsumerOffsetChecker, header first; no position is `unknown`, no owner `none`."""
    yield CHECKED.format("Group", "Topic", "Pid", "Offset", "logSize", "Lag", "Owner")
    stores = stores_of(each)
    for tp in each.partitions():
        if topics is not None and tp.topic not in topics:
            continue
        there = counts(each, tp, stores)
        _, end = each.bounds.get(tp, (None, None))
        behind = lag(there, end)
        yield CHECKED.format(
            each.group,
            tp.topic,
            str(tp.partition),
            there if isinstance(there, int) else "unknown",
            "unknown" if end is None else end,
            "unknown" if behind is None else behind,
            each.owners.get(tp, "none"),
        )


def byte_rows(each: GroupSnapshot, topics: Collection[str] | None) -> Iterator[str]:
    """The lines of 0.7's ConsumerOffsetChecker: a paragraph for each partition that has a position, in bytes."""
    for tp in sorted(each.zookeeper, key=lambda tp: (tp.topic, str(tp.partition))):
        there = each.in_zookeeper(tp)
        if (topics is not None and tp.topic not in topics) or not isinstance(there, int):
            continue
        yield f"{each.group},{tp.topic},{tp.partition} (Group,Topic,BrokerId-PartitionId)"
        yield f"{'Owner = ':>20}{each.owners.get(tp, 'null')}"
        yield from _bytes("Consumer offset", there)
        if tp in each.bounds:
            _, end = each.bounds[tp]
            yield from _bytes("Log size", end)
            yield from _bytes("Consumer lag", end - there)
            yield ""


def _bytes(what: str, count: int) -> Iterator[str]:
    yield f"{f'{what} = ':>20}{count}"
    yield f"{'= ':>20}{count:,} ({count / 1024**3:,.2f}G)"
