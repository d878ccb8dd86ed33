"""`mirrormaker check --online` and `diff`: what is asked of a target, and of a source for it.  Creates nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from groundwork.output import print_note
from groundwork.tasks import connect
from groundwork.zksecurity import ZkSecurity
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.metadata import MetadataSource, NothingKnown, Unreachable
from kafkawire.cluster.retry import ONCE
from kafkawire.cluster.topicadmin import TopicAdmin
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.cluster.view import ClusterView
from kafkawire.cluster.zookeeper import read_brokers, read_settings, read_topics, read_view
from kafkawire.dialects import Dialect, expected
from kafkawire.errors import BrokerError, LinkLost, error_info
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol.adminrequests import NewTopic
from kafkawire.protocol.transactionrequests import find_coordinator
from kafkawire.topicnames import TRANSACTIONS_TOPIC
from mirrormaker.config import Configuration
from mirrormaker.exactlyonce.position import name_of
from mirrormaker.exactlyonce.requirements import NoTransactions, lacking, require_transactions
from mirrormaker.options import SourceOptions, TargetOptions
from mirrormaker.probe import (
    NoBrokers,
    SourceView,
    named,
    probe_target,
    require_generation,
    source_view,
    target_brokers,
)
from mirrormaker.topics import replicas_of
from mirrormaker.zookeeper import zookeeper_session
from producer.coordinators import HELP

TIMEOUT_S = 6.0
EXACTLY_ONCE = "delivery.guarantee: exactly-once"


@named("target")
def target_view(target: TargetOptions, versions: ClusterVersions | None = None) -> ClusterView:
    """Return all topics and brokers of the target; asking for all creates none.  Raises Unreachable, ChrootMissing,
    WrongVersion, ConsumerError."""
    speaks = expected(target.version).through(target.security_protocol)
    if not speaks.describes_itself:
        with zookeeper_session("target.zookeeper.connect", target.zookeeper, TIMEOUT_S, target.security) as zk:
            if not read_brokers(zk, speaks.znodes):
                require_generation(zk, "target.version", target.version)
                raise NoBrokers(f"no brokers are registered under target.zookeeper.connect {target.zookeeper}")
            return read_view(zk, speaks.znodes, read_topics(zk, speaks.znodes))
    versions = versions or ClusterVersions(target.version, "target")
    with links_to(target, versions) as links:
        client = KafkaClient.of_brokers(target.brokers, links, versions.dialect)

        def view() -> ClusterView:
            try:
                return client.view()
            except NothingKnown:  # brokers of 0.8 name no broker while there is no topic
                return ClusterView()

        return probe_target(view, target, versions)


@contextmanager
def links_to(options: SourceOptions | TargetOptions, versions: ClusterVersions) -> Iterator[Links]:
    """Lend links to the brokers of a cluster, which are closed with the block."""
    asking = versions.connect(options.kafka_security.connect(connect))
    links = Links("mirrormaker-check", asking, int(TIMEOUT_S * 1000))
    try:
        yield links
    finally:
        links.close()


@contextmanager
def admin_of(
    options: SourceOptions | TargetOptions, brokers: Iterable[Broker], versions: ClusterVersions
) -> Iterator[TopicAdmin]:
    """Lend what describes and makes topics of a cluster, on connections that end with the block."""
    addresses = [(broker.host, broker.port) for broker in brokers]
    with links_to(options, versions) as links:
        yield TopicAdmin(MetadataSource(addresses, versions.dialect, links), links, versions.dialect, retry=ONCE)


@contextmanager
def target_admin(target: TargetOptions, view: ClusterView, there: ClusterVersions) -> Iterator[TopicAdmin]:
    """Lend what describes and makes topics of the target, on connections that end with the block."""
    with admin_of(target, target_brokers(target, view.brokers).values(), there) as admin:
        yield admin


def require_guarantee(configuration: Configuration, view: ClusterView, there: ClusterVersions) -> None:
    """Raise NoTransactions if the target, by release and settings, cannot do what delivery.guarantee asks for.

    Raises Unreachable, LinkLost.
    """
    mirror = configuration.mirror
    if not mirror.exactly_once:
        return
    require_transactions(there.dialect)
    settings = broker_settings(configuration.target, view, there)
    if why := list(lacking(settings, view, mirror.transaction_timeout_ms)):
        raise NoTransactions(f"{EXACTLY_ONCE}: {'; '.join(why)}")


def require_coordinator(
    configuration: Configuration, view: ClusterView, there: ClusterVersions, source: SourceOptions, found: SourceView
) -> None:
    """Raise NoTransactions if the target refuses the transactional ids of a source to this client, and Unreachable if
    no broker coordinates them.  Without __transaction_state it is not asked: that would create it.
    """
    mirror, target = configuration.mirror, configuration.target
    if not mirror.exactly_once or TRANSACTIONS_TOPIC not in view.topics or not found.topics:
        return
    prefix = mirror.transactional_id_prefix or source.group_id
    name = name_of(prefix, source.name, TopicPartition(min(found.topics), 0))
    code = 0
    with links_to(target, there) as links:
        for broker in view.brokers.values():
            with suppress(LinkLost):
                code = links.call(broker, "transactions", find_coordinator(there.dialect, name, True)).error
                break
    if code:
        said = f"{EXACTLY_ONCE}: {BrokerError(code, f'coordinator of transactional id {name}')}{HELP.get(code, '')}"
        raise Unreachable(said) if error_info(code).retriable else NoTransactions(said)


def broker_settings(target: TargetOptions, view: ClusterView, there: ClusterVersions) -> Mapping[str, str]:
    """Return the settings of one of the target's brokers; empty where it does not tell them.  Raises Unreachable,
    LinkLost."""
    with target_admin(target, view, there) as admin:
        return admin.of_broker() if admin.describes else {}


def source_partitions(source: SourceOptions, found: SourceView) -> ClusterView:
    """Return the partitions of a source's mirrored topics with their leaders.  Raises zkconsumer's Unreachable,
    WrongVersion, ConsumerError."""
    if source.coordinated:
        return source_view(source, TIMEOUT_S, ClusterVersions(source.version))
    znodes = expected(source.version).through(source.security_protocol).znodes
    with zookeeper_session("zookeeper.connect", source.zookeeper_connect, TIMEOUT_S, source.security) as zk:
        return read_view(zk, znodes, found.topics)


def refused_by_target(
    configuration: Configuration,
    view: ClusterView,
    there: ClusterVersions,
    source: SourceOptions,
    found: SourceView,
    new: Mapping[str, str],
) -> Mapping[str, str]:
    """Return why the target's controller would refuse to create topics: it is asked, and creates none.

    new: the topics of the source by the names that they would have there.  Brokers before 0.10.2 cannot be asked.
    """
    target = configuration.target
    with target_admin(target, view, there) as admin:
        if not new or not admin.validates:
            return {}
        versions = ClusterVersions(source.version, f"source {source.name}")
        with links_to(source, versions) as links:
            copied = copied_settings(source, found, target, links, versions.dialect)
        wanted = {}
        for name, topic in new.items():
            count = source.broker_partitions.total or found.topics[topic]
            settings = target.topic_settings.of(copied.get(topic, {}))
            made = replicas_of(target.replication, found.replicas[topic], len(view.brokers), admin.takes_defaults)
            wanted[name] = NewTopic(count, made, settings)
        try:
            return {name: str(why) for name, why in admin.refused(wanted).items()}
        except (Unreachable, LinkLost) as exc:
            print_note(f"warning: target: which new topics it would refuse is not known: {exc}")
            return {}


def copied_settings(
    source: SourceOptions, found: SourceView, target: TargetOptions, links: Links, speaks: Dialect
) -> Mapping[str, Mapping[str, str]]:
    """Return what the topics of a source have set, where target.topic.configs copies any of it."""
    if not target.topic_settings.copied:
        return {}
    if not source.coordinated:
        hosts = source.zookeeper_connect
        return settings_in_zookeeper("zookeeper.connect", hosts, source.version, source.security, found.topics)
    links.meet(found.brokers.values())
    metadata = MetadataSource([(b.host, b.port) for b in found.brokers.values()], speaks, links)
    admin = TopicAdmin(metadata, links, speaks, retry=ONCE)
    return admin.settings(found.topics) if admin.describes else {}


def settings_in_zookeeper(
    option: str, hosts: str, version: str, security: ZkSecurity, topics: Collection[str]
) -> dict[str, dict[str, str]]:
    """Return the settings of topics from ZooKeeper; nothing without a ZooKeeper."""
    if not hosts or not topics:
        return {}
    with zookeeper_session(option, hosts, TIMEOUT_S, security) as zk:
        return read_settings(zk, expected(version).znodes, topics)
