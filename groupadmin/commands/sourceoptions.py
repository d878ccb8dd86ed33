"""Options that name a second cluster: the one that a group leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from zkconsumer.commands.options import _addresses, _release

if TYPE_CHECKING:
    from zkconsumer.session.access import ZooKeeper

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Source:
    """How the cluster that a group leaves is reached.  store: where its positions count; None: as its members tell."""

    zookeeper: ZooKeeper | None
    brokers: list[tuple[str, int]]
    version: str
    store: str | None


def source_options(command: F) -> F:
    """--source, --source-config, --source-brokers, --source-version, --source-store, as source: Source."""

    @wraps(command)
    def with_source(
        *args: Any,
        source: str | None,
        source_config: Path | None,
        source_brokers: list[tuple[str, int]],
        source_version: str,
        source_store: str | None,
        **others: Any,
    ) -> Any:
        found = Source(_zookeeper(source, source_config), source_brokers, source_version, source_store)
        if found.zookeeper is None and not found.brokers:
            raise click.UsageError("--source (ZooKeeper of the cluster that the group reads now) is missing")
        return command(*args, source=found, **others)

    wrapped: Any = with_source
    for option in reversed(_SOURCE):
        wrapped = option(wrapped)
    return cast(F, wrapped)


def _zookeeper(connect: str | None, file: Path | None) -> ZooKeeper | None:
    from zkconsumer.commands.zkconfig import read_values, zookeeper_of
    from zkconsumer.session.access import ZooKeeper

    if file is None:
        return None if connect is None else ZooKeeper(connect)
    values, jvm = read_values(file)
    return zookeeper_of(connect, values, file.name, jvm)


_SOURCE = (
    click.option("--source", metavar="HOST:PORT/CHROOT", help="ZooKeeper of the cluster that the group reads now."),
    click.option(
        "--source-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A consumer's options there, .yaml or .properties: zookeeper.connect, .auth, .ssl.*",
    ),
    click.option(
        "--source-brokers",
        metavar="HOST:PORT,…",
        callback=_addresses,
        help="Brokers there; with --source those that are registered are asked without.",
    ),
    click.option(
        "--source-version", default="0.8.2", show_default=True, callback=_release, help="Release of the brokers there."
    ),
    click.option(
        "--source-store",
        type=click.Choice(("zookeeper", "kafka", "both")),
        help="Where its positions count there; without: as the modes of its members tell, else where it has some.",
    ),
)
