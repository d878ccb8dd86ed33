"""Options of the commands about groups and offsets: the cluster, and what every command that writes has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from groundwork.commands import as_argument, dry_run_option, execute_option, output_option
from groundwork.output import EXIT, fail
from groundwork.sentences import counted
from groundwork.zksecurity import ZooKeeper
from groupadmin.files.model import FileUnclear
from groupadmin.plan.changes import OutOfRangePolicy
from groupadmin.snapshot.cluster import AdminClient
from groupadmin.snapshot.model import BOTH
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.dialects import Store as StoreName
from kafkawire.dialects import expected
from kafkawire.model import Broker
from zkconsumer.commands.common import connected, link_pool, print_note, require_metadata
from zkconsumer.commands.options import brokers_option, kafka_version_option, zookeeper_option
from zkconsumer.options.arguments import NotThere, WrongUsage, parse_duration

BROKERS = "Any brokers of the cluster (default with -z: the registered ones)."
MOST_SENTENCES = 40
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The cluster of a command: -z, -b and --kafka-version."""

    zookeeper: ZooKeeper | None
    kafka_version: str
    brokers: Sequence[tuple[str, int]] = ()

    @property
    def connect(self) -> str:
        """Return the connect string of -z, which has to be given."""
        assert self.zookeeper is not None, "the command requires -z"
        return self.zookeeper.connect

    @contextmanager
    def client(self) -> Iterator[AdminClient]:
        """Open the client for the cluster; WrongUsage and FileUnclear in the block end the command with the usage
        code."""
        require_metadata(self.brokers, self.kafka_version)
        if self.zookeeper is None and not self.brokers:
            raise click.UsageError("-z (ZooKeeper) or -b is missing")
        bootstrap, tell = tuple(self.brokers), note_once()
        if self.zookeeper is None:
            versions = ClusterVersions(self.kafka_version)
            with link_pool(versions) as links, usage_errors():
                links.meet(Broker(-1 - n, host, port) for n, (host, port) in enumerate(bootstrap))
                yield AdminClient(None, links, versions.dialect, bootstrap=bootstrap, tell=tell)
        else:
            with connected(self.zookeeper, self.kafka_version) as reach, usage_errors():
                yield AdminClient(reach.session, reach.links, reach.dialect, bootstrap=bootstrap, tell=tell)

    def stores(self, store: str | None) -> tuple[StoreName, ...] | None:
        """Return the stores of --store; None when it is not given.  Raises click.UsageError for a store that brokers of
        this release do not have."""
        if store in ("kafka", "both") and not expected(self.kafka_version).keeps_offsets:
            raise click.UsageError(
                f"--store: brokers of Kafka {self.kafka_version} keep no offsets, ZooKeeper has them all; `zkconsumer"
                " offsets translate` takes a group's positions to another cluster"
            )
        return stores_named(store)


def note_once() -> Callable[[str], None]:
    """Return a function that prints each sentence once to stderr."""
    said: set[str] = set()

    def once(text: str) -> None:
        if text not in said:
            said.add(text)
            print_note(text)

    return once


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Options of every command that writes.  stores: as given; None: those of the group."""

    cluster: ClusterOptions
    execute: bool
    dry_run: bool
    force_active: bool
    out_of_range: OutOfRangePolicy
    stores: tuple[StoreName, ...] | None
    undo_dir: Path
    retention_ms: int | None
    output: str


def _edit(
    options: ClusterOptions,
    execute: bool,
    dry_run: bool,
    force_active: bool,
    clamp: bool,
    skip_out_of_range: bool,
    store: str | None,
    undo_dir: Path,
    retention: str | None,
    output: str,
) -> Edit:
    if clamp and skip_out_of_range:
        raise click.UsageError("--clamp and --skip-out-of-range exclude each other: give one")
    policy: OutOfRangePolicy = "clamp" if clamp else "skip" if skip_out_of_range else "refuse"
    with usage_errors():
        kept = parse_duration(retention) if retention is not None else None
    return Edit(
        cluster=options,
        execute=execute,
        dry_run=dry_run,
        force_active=force_active,
        out_of_range=policy,
        stores=options.stores(store),
        undo_dir=undo_dir,
        retention_ms=kept,
        output=output,
    )


def cluster_options(brokers: str | None = BROKERS, required: bool = False) -> Callable[[F], F]:
    """Decorator: -z, -b and --kafka-version, passed as options: ClusterOptions.

    brokers: help of -b; None: there is no -b.  required: -z has to be given.
    """
    named = (brokers_option(brokers),) if brokers is not None else ()
    return as_argument("options", ClusterOptions, [zookeeper_option(required), *named, kafka_version_option])


store_option = click.option(
    "--store",
    type=click.Choice(("zookeeper", "kafka", "both")),
    help="Offset store (default: what the members' modes say, else where the group has offsets now).",
)
undo_dir_option = click.option(
    "--undo-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Folder for the undo file (default: the current one).",
)
force_option = click.option(
    "--force-active", is_flag=True, help="Write although the group has active members, who may overwrite it at once."
)
edit_options = as_argument(  # with the cluster's; passes Edit as edit
    "edit",
    _edit,
    [
        cluster_options(),
        store_option,
        execute_option,
        dry_run_option,
        force_option,
        click.option("--clamp", is_flag=True, help="Move offsets outside the log to its nearer end."),
        click.option("--skip-out-of-range", is_flag=True, help="Skip partitions whose offset is outside the log."),
        click.option("--retention", metavar="30d", help="Offset retention in Kafka (default: the broker's)."),
        undo_dir_option,
        output_option(),
    ],
)


def stores_named(store: str | None) -> tuple[StoreName, ...] | None:
    """Return the stores of --store; None when it is not given."""
    return None if store is None else BOTH if store == "both" else tuple(s for s in BOTH if s == store)


@contextmanager
def usage_errors() -> Iterator[None]:
    """End the command with the usage code for wrong arguments and unreadable files.

    A missing topic or partition ends it with the code of a missing group."""
    try:
        yield
    except NotThere as e:
        fail(str(e), EXIT["not found"])
    except (WrongUsage, FileUnclear) as e:
        raise click.UsageError(str(e)) from None


def tell_closed(admin: AdminClient) -> None:
    """Report on stderr the groups that were not read because a node of theirs is closed to us."""
    tell_some(f"group {group} cannot be read: {why}" for group, why in sorted(admin.closed.items()))


def end_where_closed(admin: AdminClient) -> None:
    """End the command with 4 where groups were left out because a node of theirs is closed to us."""
    if admin.closed:
        fail(f"{counted(len(admin.closed), 'group is', 'groups are')} closed to us", EXIT["partly"])


def tell_some(texts: Iterable[str]) -> None:
    """Print each sentence once on stderr; of very many only the first ones, and the number of the others."""
    said = [text for text in dict.fromkeys(texts) if text]
    for text in said[:MOST_SENTENCES]:
        print_note(text)
    if len(said) > MOST_SENTENCES:
        print_note(f"and {len(said) - MOST_SENTENCES} more like these")
