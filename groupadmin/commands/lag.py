"""`zkconsumer lag`: the lag of groups, once or repeatedly, with an exit code for monitoring.

Each group's offsets are read from its store (snapshot.model.stores_of, as in `groups describe` and `offsets get`):
ZooKeeper, Kafka, or of both the offset where its members would start.

A partition without a committed offset has no lag.  The lag is unknown when the committed offset or the log end cannot
be read, and when the offset is beyond the log end: its members would begin elsewhere.  Unknown is never 0: a sum
without all partitions shows that, and is not a success with --threshold.  Partitions that do not exist any more have
no lag, and are named.  What retention deleted does not count, and is named.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, datetime
from itertools import count
from operator import itemgetter

import click

from groundwork.commands import Command, output_option
from groundwork.output import EXIT, fail, write, write_csv
from groundwork.sentences import counted
from groundwork.tasks import sleep
from groupadmin.commands.editoptions import ClusterOptions, cluster_options, tell_closed, tell_some
from groupadmin.commands.groups import COLUMNS, kafka_groups, partition_row
from groupadmin.commands.offsetviews import age, known, tell_odd, where_from, written_at
from groupadmin.snapshot.cluster import AdminClient, Cluster, read_cluster
from groupadmin.snapshot.groups import GroupRow
from groupadmin.snapshot.kafka import NoSuchPartition, commit_times
from groupadmin.snapshot.model import GroupSnapshot, counts, held_by, stores_of
from groupadmin.snapshot.reader import WIDE, read_snapshots
from groupadmin.snapshot.tree import groups_in_zookeeper
from kafkawire.cluster.metadata import Unreachable
from kafkawire.dialects import Store as StoreName
from kafkawire.model import TopicPartition
from kafkawire.offsets import Offsets
from zkconsumer.commands.common import at_interrupt, print_note, print_unit
from zkconsumer.commands.options import group_option
from zkconsumer.errors import ZooKeeperAway
from zkconsumer.group.topicnodes import no_brokers
from zkconsumer.offsets.store import NONE, Unknown

TOTALS = ("group", "members", "partitions", "lag", "unknown")


@click.command(
    cls=Command,
    examples=[
        "zkconsumer lag -z zk1:2181/kafka -b kafka1:9092",
        "zkconsumer lag -z zk1:2181/kafka --group billing --watch 5",
        "zkconsumer lag -z zk1:2181/kafka --group billing --threshold 100000  # exit code 6 above",
    ],
)
@cluster_options(
    "Brokers to ask for leaders, instead of those in ZooKeeper; without --group also groups that only Kafka has,"
    " without -z these alone."
)
@group_option(required=False, help="Only this group, with a row for each partition (default: a row for each group).")
@click.option(
    "--watch",
    is_flag=False,
    flag_value=5.0,
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help="Repeat at this interval in seconds (5), until ctrl-C or SIGTERM.",
)
@click.option("--threshold", type=click.IntRange(min=0), help="Exit with 6 when a group's lag is more (0.7: bytes).")
@output_option()
def lag(
    options: ClusterOptions,
    group: str | None,
    watch: float | None,
    threshold: int | None,
    output: str,
) -> None:
    """Print consumer lag by group, or of one by partition.

    Committed offsets are read from the group's store: ZooKeeper, Kafka, or of both the offset where its members would
    start.  The column store says which of them holds a row's offset (both: they agree), and age is the time since it
    was written (- if unknown, as for Kafka's with --watch).

    For Kafka 0.7 the lag is in bytes of the log: its offsets do not count messages.

    A committed offset of a deleted topic counts for nothing, and is named with what removes it.

    With --threshold: exit code 6 when a group's lag is larger, 4 when none is but some lag is not known.
    """
    with options.client() as once:
        admin = replace(once, tell=print_note)  # in each round
        if watch is None:
            code = _look(admin, group, threshold=threshold, output=output)
        else:
            code = EXIT["done"]
            with at_interrupt("", lambda: code, (signal.SIGTERM,)):
                for rounds in count():
                    try:
                        code = _look(admin, group, threshold=threshold, output=output, rounds=rounds)
                    except (ZooKeeperAway, Unreachable) as e:
                        print_note(f"{e}; trying again in {watch:g} s")
                    sleep(watch)
    if code:
        click.get_current_context().exit(code)


def _look(
    admin: AdminClient,
    group: str | None,
    *,
    threshold: int | None,
    output: str,
    rounds: int | None = None,
) -> int:
    """Print one report and return its exit code.  rounds: number of reports before it, when watching."""
    offsets = admin.dialect.offsets
    if group is not None:
        totals = [_one(admin, group, output, rounds)]
        print_note(totals[0].sentence(offsets))
    else:
        admin.closed.clear()  # of the round before
        totals = _every(admin)
        tell_closed(admin)
        shut = [(group, *[None] * (len(TOTALS) - 1)) for group in admin.closed]
        _print(sorted([*shut, *(each.row for each in totals)], key=itemgetter(0)), TOTALS, output, rounds)
        if not rounds:
            tell_some(text for each in totals for text in each.findings(offsets))
        print_unit(admin.dialect)
    code = EXIT["partly"] if admin.closed else EXIT["done"]
    if threshold is None:
        return code
    return verdict(totals, threshold, offsets) or code


# totals ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupLag:
    """A group's lag.

    members      ids in ZooKeeper and members in Kafka; None: unknown
    partitions   number of partitions that exist
    behind       the sum of known lags; None: no lag is known
    unknown      number of partitions with a committed (or unreadable) offset whose lag is unknown
    uncommitted  number of partitions with messages and without a committed offset
    foreign      whether another client's nodes may hold offsets of the group
    beyond       partitions whose committed offset is beyond the end of the log
    lost         number of messages (0.7: bytes) that retention deleted before the group read them
    deleted      topics, or TOPIC:2,3 of a topic that has other partitions, that do not exist any more, with an offset
    """

    group: str
    _: KW_ONLY
    members: int | None
    partitions: int
    behind: int | None
    unknown: int
    uncommitted: int
    foreign: bool = False
    beyond: tuple[TopicPartition, ...] = ()
    lost: int = 0
    deleted: tuple[str, ...] = ()

    @property
    def doubtful(self) -> bool:
        """True if the group may be further behind than known: not if nothing reads in its name, and it has no offset
        but of deleted topics."""
        if self.behind is not None:
            return self.unknown > 0
        return bool(self.unknown or self.uncommitted or self.foreign) or self.members != 0

    @property
    def row(self) -> tuple[object, ...]:
        """Return a row in the order of TOTALS."""
        return (self.group, self.members, self.partitions, self.behind, self.unknown)

    def sentence(self, offsets: Offsets) -> str:
        """Return the group's lag, in what offsets count."""
        behind = "its lag is not known" if self.behind is None else f"{offsets.counted(self.behind)} behind"
        least = "at least " if self.unknown and self.behind is not None else ""
        none = f", {self.uncommitted} without a committed offset" if self.uncommitted else ""
        return (
            f"group {self.group}: {least}{behind}, in {counted(self.partitions, 'partition')}, {self.unknown} unknown"
            f"{none}"
        )

    def findings(self, offsets: Offsets) -> Iterator[str]:
        """Yield a sentence for each finding that the numbers do not show."""
        for each in self.deleted:
            yield (
                f"group {self.group} has offsets of {each}, which does not exist any more: they have no lag;"
                f" `zkconsumer offsets delete --group {self.group} --topic {each}` removes them"
            )
        if self.beyond:
            more = f" and {len(self.beyond) - 1} more" if len(self.beyond) > 1 else ""
            yield (
                f"group {self.group}: the committed offset of {self.beyond[0]}{more} is beyond the end of the log, so"
                " the lag is not known; `zkconsumer offsets get` shows both"
            )
        if self.lost:
            yield (
                f"group {self.group}: {offsets.counted(self.lost)} behind its committed offsets were deleted by"
                " retention; the lag counts from where the logs begin"
            )


def group_lag(each: GroupSnapshot, rows: Sequence[GroupRow]) -> GroupLag:
    """Return the lag of a group from its rows."""
    existing = [row for row in rows if not row.deleted]
    behind, unknown = total(existing)
    uncommitted = [row for row in existing if row.committed is NONE and (row.end is None or row.start != row.end)]
    foreign = any(node.kind in ("offset", "folder") for node in each.foreign)
    if not any(_counts(row) for row in existing) and (uncommitted or foreign or not existing):
        behind = None
    return GroupLag(
        each.group,
        members=_members(each),
        partitions=len(existing),
        behind=behind,
        unknown=unknown,
        uncommitted=len(uncommitted),
        foreign=foreign,
        beyond=tuple(
            TopicPartition(row.topic, row.partition) for row in existing if row.lag is not None and row.lag < 0
        ),
        lost=sum(row.lost for row in existing),
        deleted=_deleted(rows),
    )


def _deleted(rows: Sequence[GroupRow]) -> tuple[str, ...]:
    """Return what does not exist any more as values of --topic, which must not choose partitions that exist."""
    there = {row.topic for row in rows if not row.deleted}
    gone: dict[str, list[str]] = {}
    for row in rows:
        if row.deleted:
            gone.setdefault(row.topic, []).append(str(row.partition))
    return tuple(f"{topic}:{','.join(numbers)}" if topic in there else topic for topic, numbers in gone.items())


def _members(each: GroupSnapshot) -> int | None:
    in_kafka = each.kafka_members or ()
    if any(name.startswith("(") for name in in_kafka):
        return None  # a sentence instead of a member: the coordinator does not answer
    return len(each.members) + len(in_kafka)


def total(rows: Sequence[GroupRow]) -> tuple[int | None, int]:
    """Return the sum of known lags (messages, 0.7: bytes), and the number of partitions with an offset whose lag is
    unknown.  The sum is None when no lag is known but some are unknown.

    An offset beyond the end of its log (negative in its row) is unknown lag: its members would begin elsewhere.
    """
    lags = [row.lag for row in rows if row.lag is not None and row.lag >= 0]
    unknown = sum(row.committed is not NONE and not _counts(row) for row in rows)
    return (sum(lags) if lags or not unknown else None), unknown


def _counts(row: GroupRow) -> bool:
    return row.lag is not None and row.lag >= 0


def verdict(totals: Sequence[GroupLag], threshold: int, offsets: Offsets) -> int:
    """Return the exit code; groups over the threshold, and those whose lag is not known, are reported."""
    over = [(each.group, each.behind) for each in totals if each.behind is not None and each.behind > threshold]
    for name, behind in over:
        print_note(f"group {name} is {offsets.counted(behind)} behind, more than {threshold}")
    doubtful = [each for each in totals if each.doubtful]
    tell_some(
        f"group {each.group}: the lag of {counted(each.unknown, 'partition')} is not known"
        if each.unknown
        else f"group {each.group}: its lag is not known, no partition has a committed offset"
        for each in doubtful
    )
    if over:
        return EXIT["exceeded"]
    return EXIT["partly"] if doubtful else EXIT["done"]


# reading --------------------------------------------------------------------------------------------------------------


def lag_rows(each: GroupSnapshot, stores: tuple[StoreName, ...]) -> list[GroupRow]:
    """Return a row for each partition, with the committed offset where the group's members would start."""
    rows = []
    for tp in each.partitions():
        start, end = each.bounds.get(tp, (None, None))
        at = counts(each, tp, stores)
        readable = each.readable_end(tp, at)
        gone = each.deleted(tp) and isinstance(at, int | NoSuchPartition)
        owner = each.owners.get(tp)
        rows.append(GroupRow(tp.topic, tp.partition, owner, at, end=end, start=start, readable=readable, deleted=gone))
    return rows


def _one(admin: AdminClient, group: str, output: str, rounds: int | None) -> GroupLag:
    cluster = read_cluster(admin)
    each = read_snapshots(admin, [group], cluster)[group]
    if not known(admin, each):
        hint = no_brokers(admin.session, admin.dialect) if admin.session is not None else None
        fail(f"group {group} is not known to {where_from(admin)}{'; ' + hint if hint else ''}", EXIT["not found"])
    if not rounds:
        tell_odd([each])
    stores = stores_of(each, admin.session is not None)
    rows = lag_rows(each, stores)
    _print(_shown(admin, cluster, each, rows=rows, stores=stores, watching=rounds is not None), COLUMNS, output, rounds)
    return group_lag(each, rows)


def _shown(
    admin: AdminClient,
    cluster: Cluster,
    each: GroupSnapshot,
    *,
    rows: Sequence[GroupRow],
    stores: tuple[StoreName, ...],
    watching: bool,
) -> list[tuple[object, ...]]:
    """Return the rows in the order of COLUMNS.  When watching, commit times in Kafka are left out: reading
    __consumer_offsets takes too long for every few seconds."""
    ages = commit_times(admin, cluster, each) if "kafka" in stores and not watching else {}
    found = []
    for tp, row in zip(each.partitions(), rows, strict=True):
        holding = [store for store in stores if held_by(each, tp, store) == row.committed]
        times = [at for store in holding if (at := written_at(each, tp, store, ages)) is not None]
        name = "both" if len(holding) > 1 else next(iter(holding), None)
        found.append(partition_row(row, name, age(max(times, default=None), each)))
    return found


def _every(admin: AdminClient) -> list[GroupLag]:
    """Return all groups in ZooKeeper and, if brokers were named, those that only Kafka has."""
    if admin.session is None:
        return sorted(_totals(admin, list(kafka_groups(admin))), key=lambda each: each.group)
    names = groups_in_zookeeper(admin.session)
    if not names and (hint := no_brokers(admin.session, admin.dialect)):
        fail(hint, EXIT["runtime"])
    found = _totals(admin, names)
    if admin.bootstrap and admin.keeps_kafka:
        in_kafka = [name for name in kafka_groups(admin) if name not in names]
        found += _totals(
            AdminClient(None, admin.links, admin.dialect, bootstrap=admin.bootstrap, tell=admin.tell), in_kafka
        )
    return sorted(found, key=lambda each: each.group)


def _totals(admin: AdminClient, names: Sequence[str]) -> list[GroupLag]:
    if not names:
        return []
    cluster = read_cluster(admin)
    positions = len(names) * sum(len(row.partitions) for row in cluster.topics.values())
    if positions > WIDE and cluster.keeps_offsets:
        print_note(
            f"{counted(len(names), 'group')} may have {counted(positions, 'offset')} in Kafka: only topics "
            "that ZooKeeper names for a group, "
            "or that its members read now, are included; --group includes all of one group"
        )
    found = read_snapshots(admin, names, cluster, closed=admin.closed)
    rows = {name: lag_rows(each, stores_of(each, admin.session is not None)) for name, each in found.items()}
    tell_some(row.committed.reason for each in rows.values() for row in each if isinstance(row.committed, Unknown))
    return [group_lag(found[name], rows[name]) for name in found]


def _print(rows: Sequence[Sequence[object]], columns: tuple[str, ...], output: str, rounds: int | None) -> None:
    """Print rows; when watching, each row begins with the time, and csv has its header only once."""
    if rounds is not None:
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        rows, columns = [(at, *row) for row in rows], ("time", *columns)
    if output == "csv" and rounds:
        write_csv(rows)
    else:
        write(rows, columns, output)
    sys.stdout.flush()
