"""`zkconsumer offsets`: offsets of groups, in ZooKeeper and in Kafka.

get | export | diff                                    read: nothing is changed, nothing is created
set | reset | import | delete | copy-group             write, after a plan (commands.offsetedit)
translate                                              write, for a group that moves to another cluster
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from groundwork.commands import Group, output_option
from groundwork.output import EXIT, fail, print_file, write
from groundwork.sentences import counted
from groupadmin.commands.editoptions import (
    ClusterOptions,
    cluster_options,
    end_where_closed,
    store_option,
    usage_errors,
)
from groupadmin.commands.offsetedit import shown
from groupadmin.commands.offsettranslate import translate_command
from groupadmin.commands.offsetviews import (
    FILE,
    GET,
    Keyed,
    end_where_torn,
    file_positions,
    groups_option,
    position_rows,
    saved,
    snapshots,
    tell_odd,
    tell_unsayable,
)
from groupadmin.commands.offsetwrite import copy_command, delete_command, import_command, reset_command, set_command
from groupadmin.files.model import WrittenKind
from groupadmin.files.write import write_offsets
from groupadmin.snapshot.cluster import AdminClient, read_cluster
from groupadmin.snapshot.kafka import commit_times
from groupadmin.snapshot.model import BOTH, counts, held_by, in_order, stores_of
from groupadmin.snapshot.reader import read_snapshots
from kafkawire.dialects import Store as StoreName
from kafkawire.dialects import expected
from kafkawire.model import TopicPartition
from zkconsumer.commands.common import clear_errors, print_unit

DIFF = ("group", "topic", "partition", "left", "right", "differ")


@click.group(
    cls=Group,
    examples=[
        "zkconsumer offsets get -z zk1:2181/kafka --group billing",
        "zkconsumer offsets set -z zk1:2181/kafka --group billing orders:0=4711 --execute",
        "zkconsumer offsets export -z zk1:2181/kafka --group billing > billing.json",
    ],
)
def offsets() -> None:
    """Print, change, export and import committed offsets.

    Offsets in ZooKeeper and in Kafka.
    """


for _each in (set_command, reset_command, import_command, delete_command, copy_command, translate_command):
    offsets.add_command(_each)


@offsets.command(
    "get",
    examples=[
        "zkconsumer offsets get -z zk1:2181/kafka --group billing",
        "zkconsumer offsets get -z zk1:2181/kafka -b kafka1:9092 --group billing --store both -o json",
    ],
)
@cluster_options()
@groups_option
@store_option
@output_option()
def get_command(
    options: ClusterOptions,
    groups: tuple[str, ...],
    regex: bool,
    store: str | None,
    output: str,
) -> None:
    """Print the committed offsets of groups.

    There is a row for each store that holds one.

    A partition without an offset is a row without store.  Age is the time since the offset was written; for Kafka it
    is read from __consumer_offsets, for one group at a time.
    """
    if not groups:
        raise click.UsageError("--group is missing")
    stores = options.stores(store) or BOTH
    with options.client() as admin:
        found, cluster = snapshots(admin, groups, regex)
        tell_odd(found.values())
        ages = commit_times(admin, cluster, next(iter(found.values()))) if len(found) == 1 else {}
        rows = [row for each in found.values() for row in position_rows(each, stores, ages)]
    write(rows, GET, output)
    print_unit(admin.dialect)
    end_where_closed(admin)


@offsets.command(
    "export",
    examples=[
        "zkconsumer offsets export -z zk1:2181/kafka --group billing > billing.json",
        "zkconsumer offsets export -z zk1:2181/kafka --group billing -o zk-export > billing.txt",
    ],
)
@cluster_options()
@groups_option
@store_option
@output_option(forms=("json", "csv", "zk-export"), default="json")
def export_command(
    options: ClusterOptions,
    groups: tuple[str, ...],
    regex: bool,
    store: str | None,
    output: str,
) -> None:
    """Print the offsets of groups as a file for an import.

    For `offsets import` and for other tools; default: all groups.

    json has all data, also the state of each store; csv is for kafka-consumer-groups --from-file, zk-export for
    ImportZkOffsets (by default with ZooKeeper's offsets).
    """
    chosen = options.stores(store) or (("zookeeper",) if output == "zk-export" else None)
    with options.client() as admin:
        found, _ = snapshots(admin, groups, regex)
        tell_odd(found.values())
        file = saved(admin, found.values(), chosen)
    kind: WrittenKind = "csv" if output == "csv" else "zk-export" if output == "zk-export" else "json"
    tell_unsayable(file, kind)
    with clear_errors():
        print_file(write_offsets(file, kind))
    end_where_torn(file, kind)
    end_where_closed(admin)


@offsets.command(
    "diff",
    examples=[
        "zkconsumer offsets diff -z zk1:2181/kafka -b kafka1:9092 --group billing",
        "zkconsumer offsets diff before.json -z zk1:2181/kafka --group billing",
        "zkconsumer offsets diff before.json after.json",
    ],
)
@click.argument("files", nargs=-1, type=FILE)
@cluster_options()
@groups_option
@store_option
@output_option()
def diff_command(
    files: tuple[Path, ...],
    options: ClusterOptions,
    groups: tuple[str, ...],
    regex: bool,
    store: str | None,
    output: str,
) -> None:
    """Compare the offsets of files and stores.

    Between two files, between a file (left) and the stores (right), or, without a file, between ZooKeeper (left) and
    Kafka (right).  Exit code 4 when there are differences.
    """
    if len(files) > 2:
        raise click.UsageError("at most two files are compared")
    if len(files) == 2:
        with usage_errors():
            left, right = (file_positions(path, groups) for path in files)
    else:
        stores = options.stores(store)
        if not files and not expected(options.kafka_version).keeps_offsets:
            raise click.UsageError(
                f"brokers of Kafka {options.kafka_version} keep no offsets: give one or two files to compare"
            )
        with options.client() as admin:
            left, right = _with_stores(admin, files, groups=groups, regex=regex, stores=stores)
    keys = sorted({*left, *right}, key=lambda key: (key[0], in_order(key[1])))
    differ = [(group, tp) for group, tp in keys if left.get((group, tp)) != right.get((group, tp))]
    write([_diff_row(left, right, group, tp) for group, tp in differ], DIFF, output)
    if differ:
        fail(f"{len(differ)} of {counted(len(keys), 'partition')} differ", EXIT["partly"])
    if len(files) < 2:
        end_where_closed(admin)


def _diff_row(left: Keyed, right: Keyed, group: str, tp: TopicPartition) -> tuple[object, ...]:
    here, there = left.get((group, tp)), right.get((group, tp))
    partition = tp.partition if isinstance(tp.partition, int) else str(tp.partition)
    apart = there - here if isinstance(here, int) and isinstance(there, int) else None
    return (group, tp.topic, partition, here, there, apart)


def _with_stores(
    admin: AdminClient,
    files: Sequence[Path],
    *,
    groups: tuple[str, ...],
    regex: bool,
    stores: tuple[StoreName, ...] | None,
) -> tuple[Keyed, Keyed]:
    if not files:
        if not groups:
            raise click.UsageError("give --group, or files to compare")
        found, _ = snapshots(admin, groups, regex)
        pairs = [(each, tp) for each in found.values() for tp in each.partitions()]
        left = {(each.group, tp): shown(held_by(each, tp, "zookeeper")) for each, tp in pairs}
        return left, {(each.group, tp): shown(held_by(each, tp, "kafka")) for each, tp in pairs}
    left = file_positions(files[0], groups)
    names = list(dict.fromkeys(group for group, _ in left))
    cluster = read_cluster(admin)
    also = {name: [tp for group, tp in left if group == name] for name in names}
    now = read_snapshots(admin, names, cluster, also=also, wide=False, bounds=False)
    right: Keyed = {}
    for group, tp in left:
        each = now[group]
        right[group, tp] = shown(counts(each, tp, stores or stores_of(each, admin.session is not None)))
    return left, right
