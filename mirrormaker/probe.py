"""Probes of clusters before a group is joined: checks that the configured addresses are the intended clusters.

A wrong chroot that exists looks like a healthy, empty cluster.  So a source needs at least one registered broker, and
the target's ZooKeeper must know a broker that the target's own metadata names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

from groundwork.tasks import connect
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.metadata import Unreachable
from kafkawire.cluster.release import ASKED_FROM
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.cluster.view import ClusterView
from kafkawire.cluster.zookeeper import (
    no_brokers_under,
    read_brokers,
    read_partitions,
    read_topics,
    refuse_other_generation,
    refuse_secured,
)
from kafkawire.dialects import expected
from kafkawire.errors import LinkLost, NoListener, OtherGeneration
from kafkawire.model import Broker
from kafkawire.net.links import Links
from kafkawire.net.security import OPEN, Security
from kafkawire.topicnames import INTERNAL_TOPICS
from mirrormaker.options import MirrorOptions, SourceOptions, TargetOptions
from mirrormaker.zookeeper import CONNECT_S, zookeeper_session
from zkconsumer.errors import ConsumerError
from zkconsumer.errors import NoBrokers as NoBrokers
from zkconsumer.errors import Unreachable as SourceUnreachable


class OtherCluster(ConsumerError):
    """Raised when target.zookeeper.connect and metadata.broker.list name two clusters."""


class WrongVersion(ConsumerError):
    """Raised when brokers have another release than the file says, or speak only TLS or SASL: waiting does not help."""


class SourceView(NamedTuple):
    """View of a source: brokers by id; topics: partition counts of the mirrored topics; replicas: of each of their
    partitions, 0 if unknown (0.7); internal: topics that the lists select and exclude.internal.topics leaves out."""

    brokers: dict[int, Broker]
    topics: dict[str, int]
    replicas: Mapping[str, int] = MappingProxyType({})
    internal: Sequence[str] = ()


@contextmanager
def named(who: str) -> Iterator[None]:
    """Raise errors of a cluster again with its side in front, for a command's last line.

    who: `target` or `source NAME`; a sentence that begins with it stays.
    """
    try:
        yield
    except (Unreachable, LinkLost, ConsumerError) as exc:
        said = str(exc)
        exc.args = (said if said.startswith(who) else f"{who}: {said}",)
        raise


def probe_source(
    source: SourceOptions, mirror: MirrorOptions, timeout_s: float, versions: ClusterVersions | None = None
) -> SourceView:
    """Return the brokers and the matching topics of a source without joining its group.

    versions: the releases of its brokers; each broker is asked for its release if the file does not set one.

    Raises Unreachable, ChrootMissing, NoBrokers, WrongVersion and ConsumerError.
    """
    if source.coordinated:
        return _probe_coordinated(source, mirror, timeout_s, versions or ClusterVersions(source.version))
    znodes = expected(source.version).through(source.security_protocol).znodes
    with zookeeper_session("zookeeper.connect", source.zookeeper_connect, timeout_s, source.security) as zk:
        brokers = read_brokers(zk, znodes)
        if not brokers:
            require_generation(zk, "version", source.version)
            require_listener(zk, source.version, source.security_protocol)
            raise NoBrokers(no_brokers_under(source.zookeeper_connect, "zookeeper.connect"))
        names, internal = chosen_topics(read_topics(zk, znodes), source, mirror)
        found = read_partitions(zk, znodes, names)
    versions = versions or ClusterVersions(source.version)
    if not versions.pinned or versions.dialect.number >= ASKED_FROM or source.kafka_security != OPEN:
        require_release(brokers.values(), "version", versions, source.kafka_security)
    partitions = {name: found[name] for name in names if name in found}
    most = {
        name: 0 if znodes.PARTITIONS_BY_BROKER else max(map(len, of.values()), default=0)
        for name, of in partitions.items()
    }
    return SourceView(brokers, {name: len(of) for name, of in partitions.items()}, most, internal)


def chosen_topics(topics: Iterable[str], source: SourceOptions, mirror: MirrorOptions) -> tuple[list[str], list[str]]:
    """Split the topics that the lists select into those that are mirrored and the internal ones that are left out."""
    found, chosen = sorted(topics), mirror.topics
    names = [name for name in found if chosen.matches(name, source.exclude_internal_topics)]
    hidden = INTERNAL_TOPICS.intersection(found).difference(names)
    return names, [name for name in sorted(hidden) if chosen.matches(name, False)]


def _probe_coordinated(
    source: SourceOptions, mirror: MirrorOptions, timeout_s: float, versions: ClusterVersions
) -> SourceView:
    """Return the view of a source whose group is on Kafka's coordinator: its brokers are asked, without ZooKeeper."""
    view = source_view(source, timeout_s, versions)
    brokers = dict(view.brokers)
    require_release(brokers.values(), "version", versions, source.kafka_security)
    if not versions.dialect.coordinates_groups:
        raise WrongVersion(
            f"coordination kafka: its brokers are of Kafka {versions.dialect.release}, which coordinates no groups; "
            "those of 0.9 and later do: take coordination zookeeper"
        )
    names, internal = chosen_topics(view.topics, source, mirror)
    partitions = {name: view.topics[name] for name in names}
    most = {name: max((len(one.replicas) for one in of.values()), default=0) for name, of in partitions.items()}
    return SourceView(brokers, {name: len(of) for name, of in partitions.items()}, most, internal)


def source_view(source: SourceOptions, timeout_s: float, versions: ClusterVersions) -> ClusterView:
    """Return all topics and brokers of a source whose group is on Kafka's coordinator.  Raises zkconsumer's
    Unreachable, and WrongVersion."""
    security = source.kafka_security.connect(connect)
    links = Links(source.client_name, versions.connect(security), int(timeout_s * 1000))
    try:
        return KafkaClient.of_brokers(source.brokers, links, versions.dialect).view()
    except Unreachable as away:
        brokers = [Broker(-1 - n, host, port) for n, (host, port) in enumerate(source.brokers)]
        why = versions.refusal(brokers, "version", security)
        if why is not None:
            raise WrongVersion(why) from None
        raise SourceUnreachable(f"{away}; is bootstrap.servers right?") from away
    finally:
        links.end()


def require_generation(zk: Any, option: str, version: str) -> None:
    """Raise WrongVersion if the brokers are not of the generation that an option names."""
    try:
        refuse_other_generation(zk, expected(version).znodes)
    except OtherGeneration as other:
        said = f"The file says {option}: {version}" if version else f"The file says no {option}"
        raise WrongVersion(f"{other} {said}") from other


def require_listener(zk: Any, version: str, protocol: str) -> None:
    """Raise WrongVersion if brokers are registered, but none has a listener of this security protocol."""
    try:
        refuse_secured(zk, expected(version).through(protocol).znodes)
    except NoListener as secured:
        raise WrongVersion(str(secured)) from secured


def require_release(
    brokers: Iterable[Broker], option: str, versions: ClusterVersions, security: Security = OPEN
) -> None:
    """Raise WrongVersion if brokers of 0.8 and later do not accept the requests of the release that the file names.

    Brokers are asked on separate connections; unreachable brokers are ignored.
    """
    why = versions.refusal(brokers, option, security.connect(connect))
    if why is not None:
        raise WrongVersion(why)


def probe_target(
    view: Callable[[], ClusterView], target: TargetOptions, versions: ClusterVersions | None = None
) -> ClusterView:
    """Return all topics and brokers of the target, from view(), once its brokers accept the requests of the file's
    release.

    versions: the releases of its brokers; each broker is asked for its release if the file does not set one.  Raises
    Unreachable, WrongVersion and ConsumerError.
    """
    versions, security = versions or ClusterVersions(target.version), target.kafka_security
    try:
        found = view()
    except Unreachable as away:
        if expected(target.version).describes_itself:
            require_release(target_brokers(target, {}).values(), "target.version", versions, security)
            raise Unreachable(f"{away}; is metadata.broker.list right?") from away
        _registered_otherwise(target)
        raise
    if expected(target.version).describes_itself:
        require_release(target_brokers(target, found.brokers).values(), "target.version", versions, security)
    if versions.asked:
        for why in target.unfit(versions.dialect):
            raise WrongVersion(f"{why}; that is what the target's brokers are")
    return found


def _registered_otherwise(target: TargetOptions) -> None:
    with zookeeper_session("target.zookeeper.connect", target.zookeeper, CONNECT_S, target.security) as zk:
        require_generation(zk, "target.version", target.version)


def probe_target_zookeeper(target: TargetOptions, answered: Mapping[int, Broker], timeout_s: float) -> None:
    """Raise OtherCluster unless target.zookeeper.connect is the ZooKeeper of the brokers behind metadata.broker.list.

    A cluster that never had a topic returns no brokers at all: then nothing can be compared, but some brokers must be
    registered.  Raises Unreachable, ChrootMissing, OtherCluster and ConsumerError.
    """
    with zookeeper_session("target.zookeeper.connect", target.zookeeper, timeout_s, target.security) as zk:
        registered = read_brokers(zk, expected(target.version).through(target.security_protocol).znodes)
    if registered and (not answered or same_cluster(registered, answered) is not None):
        return
    brokers = _named(target_brokers(target, answered).values())
    raise OtherCluster(
        f"target.zookeeper.connect {target.zookeeper} is another cluster than metadata.broker.list "
        f"({_named(registered.values())} vs {brokers}): is its chroot right?"
    )


def same_cluster(one: Mapping[int, Broker], other: Mapping[int, Broker]) -> Broker | None:
    """Return a broker that both name by host and port, which shows that they are one cluster; else None."""
    addresses = {(broker.host.lower(), broker.port) for broker in other.values()}
    return next((broker for broker in one.values() if (broker.host.lower(), broker.port) in addresses), None)


def target_brokers(target: TargetOptions, answered: Mapping[int, Broker]) -> Mapping[int, Broker]:
    """Return the target's brokers from its metadata; for a cluster that never had a topic, those of
    metadata.broker.list."""
    return answered or {n: Broker(n, host, port) for n, (host, port) in enumerate(target.brokers)}


def no_topic_matches(source: SourceOptions, mirror: MirrorOptions) -> str:
    """Return the warning about a source of which no topic is mirrored."""
    option = "whitelist" if mirror.whitelist else "blacklist"
    left = f"no topic matches the whitelist {mirror.whitelist!r}"
    if mirror.whitelist and mirror.blacklist:
        left += f" and not the blacklist {mirror.blacklist!r}"
    elif not mirror.whitelist:
        left = f"the blacklist {mirror.blacklist!r} leaves no topic"
    return f"source {source.name}: {left} now; is {option} right?"


def _named(brokers: Iterable[Broker]) -> str:
    listed = [f"{broker.id} at {broker.host}:{broker.port}" for broker in sorted(brokers)]
    return f"brokers {', '.join(listed)}" if listed else "no brokers"
