"""Cluster of a query for the driver: addresses from options or ZooKeeper, its release, a group's offsets.

Only this module uses ZooKeeper; tasks get addresses of brokers. kazoo is imported when needed, so tasks do not import
it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from kafkawire.cluster.leaders import ListedLeaders
from kafkawire.cluster.view import ClusterView
from kafkawire.model import TopicPartition
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.driver.brokeraddresses import find_access, registry_of
from sparkpipeline.errors import OptionRefused, Refused
from sparkpipeline.source.sourceoptions import BROKERS, SourceOptions

GroupOffsets = Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int | None]]  # None: it has none


def access_of(options: SourceOptions) -> ClusterAccess:
    """Return the access to the cluster for tasks.  Raises Unreachable, OptionRefused, Refused."""
    registry = registry_of(options)
    return find_access(
        options,
        options.socket_timeout_ms,
        brokers=options.brokers if registry is None else registry.brokers(),
        retries=options.retries,
        retry_interval_ms=options.retry_interval_ms,
        committed=options.committed,
    )


def brokers_of(options: SourceOptions, access: ClusterAccess) -> Brokers:
    """Return the driver's links to the cluster; the caller closes them."""
    if options.brokers:
        return Brokers(access, leaders=ListedLeaders(options.brokers, BROKERS, _named(options)))
    return Brokers(access, leaders=registry_of(options))


def _named(options: SourceOptions) -> Collection[TopicPartition]:
    if options.offset_ranges is not None:
        return {rng.tp for rng in options.offset_ranges}
    return options.subscription.assigned


def must_differ(source: ClusterView, target: ClusterView) -> None:
    """Raise OptionRefused if two clusters are one: a copy would copy into itself, and a comparison finds nothing."""
    both = {(b.host, b.port) for b in source.brokers.values()} & {(b.host, b.port) for b in target.brokers.values()}
    if both:
        host, port = min(both)
        raise OptionRefused(f"source and target are one cluster: {host}:{port} is a broker of both", option="--target")


def group_offsets(options: SourceOptions, access: ClusterAccess) -> GroupOffsets:
    """Return a function that reads the committed offsets of the options' group from its store.

    It raises Unreachable, and Refused if an offset is uncertain.
    """
    group = options.group_id or ""

    def positions(tps: Sequence[TopicPartition]) -> dict[TopicPartition, int | None]:
        from sparkpipeline.driver.groupoffsets import read_offsets
        from sparkpipeline.driver.zkclient import zookeeper_of

        storage = options.storage
        if storage == "kafka":
            found = read_offsets(group, tps, storage, access=access)
        else:
            with zookeeper_of(options) as zk:
                found = read_offsets(group, tps, storage, access=access, zk=zk)
        return {tp: known_offset(group, tp, at) for tp, at in found.items()}

    return positions


def known_offset(group: str, tp: TopicPartition, at: object) -> int | None:
    """Return the offset; None if none was ever committed.  Raises Refused for an unknown one."""
    from zkconsumer.offsets.store import NONE, FormerOffset

    if isinstance(at, FormerOffset):
        raise Refused(
            f"group {group} has {at.position}, {at.reason}; set its offset (`zkconsumer offsets set`), or say where to"
            " start by startingOffsets",
            topic=tp.topic, partition=tp.partition, group=group,
        )  # fmt: skip
    if isinstance(at, int):
        return at
    if at is NONE:
        return None
    raise Refused(
        f"the committed offset of group {group} is not known: {at}", topic=tp.topic, partition=tp.partition, group=group
    )
