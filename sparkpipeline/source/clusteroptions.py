"""Options that say which cluster is read and how it is reached: where SourceOptions begins.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from groundwork.options import option
from groundwork.zksecurity import ZkSecurityOptions, security_problems
from kafkawire.dialects import dialect
from kafkawire.model import Broker
from sparkpipeline.source import optionkinds as kinds
from sparkpipeline.source.releaserules import AUTO


@dataclass(frozen=True, slots=True)
class ClusterOptions(ZkSecurityOptions):
    """Brokers, ZooKeeper and how long they may take; what goes on in them is in sparkpipeline.source.options."""

    bootstrap: tuple[tuple[str, int], ...] = option(
        "kafka.bootstrap.servers",
        (),
        "brokers to ask first, host:port,host:port; one that answers is enough",
        old="kafka.metadata.broker.list",
        kind=kinds.brokers,
    )
    zookeeper_connect: str | None = option(
        "zookeeper.connect",
        None,
        "the cluster's ZooKeeper, host:port,host:port/chroot: instead of kafka.bootstrap.servers, and for a group that"
        " keeps its offsets there; only the driver asks it.  Needed for Kafka 0.7, whose brokers and partitions nobody"
        " else knows",
        old="kafka.zookeeper.connect",
        kind=kinds.text,
    )
    zookeeper_timeout_ms: int = option(
        "zookeeper.session.timeout.ms",
        10000,
        "how long ZooKeeper may take to answer",
        "ms",
        old="kafka.zookeeper.session.timeout.ms",
        least=100,
    )
    brokers: tuple[Broker, ...] = option(
        "kafka.broker.list",
        (),
        "of Kafka 0.7, where ZooKeeper cannot be reached: the brokers of the partitions that assign or offsetRanges"
        " names, id:host:port,id:host:port",
        kind=kinds.numbered_brokers,
    )
    protocol: str = option(
        "protocol",
        "auto",
        "what the brokers speak: auto asks one; 0.8, 0.9, 0.10 or a release such as 0.8.2.2 say it.  0.7 must be said:"
        " its brokers do not answer",
        kind=kinds.protocol,
    )
    client_id: str = option("kafka.client.id", "sparkpipeline", "how the brokers' logs name us", kind=kinds.text)
    socket_timeout_ms: int = option(
        "kafka.socket.timeout.ms",
        30000,
        "how long a broker may take to answer",
        "ms",
        old="kafka.request.timeout.ms",
        least=100,
    )
    retries: int = option(
        "fetchOffset.numRetries",
        3,
        "how often a question about offsets is asked again, and a fetch after a lost leader",
        least=0,
    )
    retry_interval_ms: int = option("fetchOffset.retryIntervalMs", 1000, "wait before that", "ms", least=0)

    def problems(self) -> Iterable[str]:
        """Of ZooKeeper's options; the rest is told by optionrules, with the option that it is about."""
        yield from security_problems(self, self.zookeeper_connect)

    @property
    def for_tasks(self) -> Self:
        """The same without passwords: what is pickled for tasks, which never ask ZooKeeper."""
        return replace(self, zookeeper_auth=None, zookeeper_ssl_key_password=None)

    @property
    def by_broker(self) -> bool:
        """Whether partitions belong to brokers, so that a row has to name both."""
        return self.protocol != AUTO and dialect(self.protocol).partitions_by_broker
