"""Clusters as they are before anything is joined: whether the addresses of a configuration mean what they seem to.

A wrong chroot that exists looks like a healthy, empty cluster.  So a source without registered brokers is no source,
and the target's ZooKeeper has to know a broker that the target's own answer names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kafkawire.cluster.zookeeper import read_brokers, read_partitions, read_topics, refuse_other_generation
from kafkawire.dialects import dialect
from kafkawire.errors import OtherGeneration
from kafkawire.model import Broker
from mirrormaker.options import Mirror, Source, Target
from mirrormaker.zookeeper import zookeeper
from zkconsumer.errors import ConsumerError


class NoBrokers(ConsumerError):
    """No broker is registered below zookeeper.connect: all are down, or the chroot is wrong."""


class OtherCluster(ConsumerError):
    """target.zookeeper.connect and metadata.broker.list name two clusters."""


class WrongVersion(ConsumerError):
    """Brokers are of another generation than the file says."""


class SourceView(NamedTuple):
    """brokers by id; topics: partition counts of those that are mirrored."""

    brokers: dict[int, Broker]
    topics: dict[str, int]


def look_at_source(source: Source, mirror: Mirror, timeout_s: float) -> SourceView:
    """A source that is not joined.  Raises Unreachable, ChrootMissing, NoBrokers, WrongVersion, ConsumerError."""
    znodes = dialect(source.version).znodes
    with zookeeper("zookeeper.connect", source.zookeeper_connect, timeout_s, source.access) as zk:
        brokers = read_brokers(zk, znodes)
        if not brokers:
            must_be_of(zk, "version", source.version)
            raise NoBrokers(
                f"no brokers are registered under {source.zookeeper_connect}: "
                "is the chroot missing in zookeeper.connect?"
            )
        chosen = mirror.topics
        names = [name for name in read_topics(zk, znodes) if chosen.matches(name, source.exclude_internal_topics)]
        found = read_partitions(zk, znodes, names)
    return SourceView(brokers, {name: len(found[name]) for name in names if name in found})


def must_be_of(zk: Any, option: str, version: str) -> None:
    """Whether brokers are of the generation that an option names.  Raises WrongVersion."""
    try:
        refuse_other_generation(zk, dialect(version).znodes)
    except OtherGeneration as other:
        raise WrongVersion(f"{other} The file says {option}: {version}") from other


def look_at_target_zookeeper(target: Target, answered: Mapping[int, Broker], timeout_s: float) -> None:
    """Whether it is the ZooKeeper of the brokers that metadata.broker.list answered with.

    A cluster that never had a topic answers with no broker at all: then nothing can be compared, but that there must be
    some brokers.
    Raises Unreachable, ChrootMissing, OtherCluster, ConsumerError.
    """
    with zookeeper("target.zookeeper.connect", target.zookeeper, timeout_s, target.access) as zk:
        registered = read_brokers(zk, dialect(target.version).znodes)
    if registered and (not answered or same_cluster(registered, answered) is not None):
        return
    brokers = _named(named_brokers(target, answered).values())
    raise OtherCluster(
        f"target.zookeeper.connect {target.zookeeper} is another cluster than metadata.broker.list "
        f"({_named(registered.values())} vs {brokers}): is its chroot right?"
    )


def same_cluster(one: Mapping[int, Broker], other: Mapping[int, Broker]) -> Broker | None:
    """A broker that both name by host and port: the two are then one cluster."""
    addresses = {(broker.host.lower(), broker.port) for broker in other.values()}
    return next((broker for broker in one.values() if (broker.host.lower(), broker.port) in addresses), None)


def named_brokers(target: Target, answered: Mapping[int, Broker]) -> Mapping[int, Broker]:
    """The target's brokers as it answered; of a cluster that never had a topic those of metadata.broker.list."""
    return answered or {n: Broker(n, host, port) for n, (host, port) in enumerate(target.brokers)}


def nothing_matches(source: Source, mirror: Mirror) -> str:
    """The warning about a source none of whose topics is mirrored."""
    option = "whitelist" if mirror.whitelist else "blacklist"
    left = f"no topic matches the whitelist {mirror.whitelist!r}"
    if not mirror.whitelist:
        left = f"the blacklist {mirror.blacklist!r} leaves no topic"
    return f"source {source.name}: {left} now; is {option} right?"


def _named(brokers: Iterable[Broker]) -> str:
    listed = [f"{broker.id} at {broker.host}:{broker.port}" for broker in sorted(brokers)]
    return f"brokers {', '.join(listed)}" if listed else "no brokers"
