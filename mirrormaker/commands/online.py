"""`mirrormaker check --online`: connects to every cluster, says what a start would find.  Creates and joins nothing."""

from __future__ import annotations

from typing import Any

import click

from groundwork.crew import connect
from groundwork.output import write
from kafkawire.cluster.metadata import MetadataSource, Unreachable
from kafkawire.cluster.view import ClusterView
from kafkawire.cluster.zookeeper import read_brokers, read_partitions, read_topics
from kafkawire.dialects import dialect
from kafkawire.net.links import Links
from mirrormaker import exits
from mirrormaker.config import Configuration
from mirrormaker.options import Mirror, Source, Target
from mirrormaker.origin import same_cluster
from mirrormaker.routes import RouteFacts, choose
from mirrormaker.zookeeper import zookeeper
from zkconsumer.errors import ChrootMissing, ConsumerError
from zkconsumer.errors import Unreachable as ZooKeeperUnreachable

COLUMNS = ("source", "topic", "partitions", "target partitions", "route")
TIMEOUT_S = 6.0


def check_online(configuration: Configuration) -> int:
    """Print a row for each topic that is mirrored; the exit code."""
    target, mirror = configuration.target, configuration.mirror
    try:
        view = target_view(target)
        if target.zookeeper:
            with zookeeper("target.zookeeper.connect", target.zookeeper, TIMEOUT_S):
                pass
        rows: list[dict[str, Any]] = []
        for source in configuration.sources:
            rows += source_rows(source, mirror, target, view)
    except (ChrootMissing, SameCluster) as exc:
        click.echo(f"error: {exc}", err=True)
        return exits.CONFIGURATION
    except (Unreachable, ZooKeeperUnreachable, ConsumerError) as exc:
        click.echo(f"error: {exc}", err=True)
        return exits.UNREACHABLE
    write(rows, COLUMNS)
    return exits.CLEAN


class SameCluster(Exception):
    """Source and target are one cluster."""


def target_view(target: Target) -> ClusterView:
    """All topics and brokers of the target; asking for all creates none.  Raises Unreachable."""
    links = Links("mirrormaker-check", connect, int(TIMEOUT_S * 1000))
    try:
        return MetadataSource(target.brokers, dialect(target.version), links).read(None)
    finally:
        links.close()


def source_rows(source: Source, mirror: Mirror, target: Target, view: ClusterView) -> list[dict[str, Any]]:
    """What a start would do with each matching topic of a source."""
    znodes = dialect(source.version).znodes
    with zookeeper("zookeeper.connect", source.zookeeper_connect, TIMEOUT_S) as zk:
        same = same_cluster(read_brokers(zk, znodes), view.brokers)
        if same is not None:
            raise SameCluster(f"source {source.name} and the target are one cluster ({same} is in both)")
        chosen = mirror.topics
        names = [name for name in read_topics(zk, znodes) if chosen.matches(name, source.exclude_internal_topics)]
        found = read_partitions(zk, znodes, names)
    return [
        _row(source.name, name, len(found[name]), len(view.partitions(name)), mirror, target)
        for name in names
        if name in found
    ]


def _row(source: str, topic: str, here: int, there: int, mirror: Mirror, target: Target) -> dict[str, Any]:
    codec = target.codec if target.codec != "none" and topic in (target.compressed_topics or (topic,)) else ""
    facts = RouteFacts(topic, here, there or here, mirror.partitioning, mirror.handler, codec)
    if there:
        shown: object = there
    else:
        shown = f"missing, created with {here}" if target.zookeeper else "missing, auto-creation decides"
    return dict(zip(COLUMNS, (source, topic, here, shown, str(choose(facts))), strict=True))
