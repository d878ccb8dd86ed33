"""Addresses of brokers for tasks, from the options or from ZooKeeper.

The driver looks them up. kazoo is imported only if ZooKeeper is used: a query with kafka.bootstrap.servers does not
need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafkawire.dialects import dialect
from kafkawire.model import Broker
from kafkawire.net.security import Security
from sparkpipeline.cluster.access import AUTO, RETRIES, RETRY_INTERVAL_MS, ClusterAccess, resolved

if TYPE_CHECKING:
    from sparkpipeline.driver.zkclient import Registry, ZooKeeperFields

    class ClusterFields(ZooKeeperFields, Protocol):
        """Options that describe a cluster."""

        @property
        def bootstrap(self) -> tuple[tuple[str, int], ...]: ...
        @property
        def protocol(self) -> str: ...
        @property
        def client_id(self) -> str: ...
        @property
        def kafka_security(self) -> Security: ...


def find_access(
    options: ClusterFields,
    timeout_ms: int,
    *,
    brokers: tuple[Broker, ...] = (),
    retries: int = RETRIES,
    retry_interval_ms: int = RETRY_INTERVAL_MS,
    committed: bool = True,
) -> ClusterAccess:
    """Return the access to the cluster, with its release resolved.

    brokers: all of them, if they do not describe each other (0.7). committed: see ClusterAccess.

    Raises Unreachable, OptionRefused, Refused.
    """
    access = ClusterAccess(
        options.bootstrap or tuple((one.host, one.port) for one in brokers) or _registered(options),
        client_id=options.client_id,
        socket_timeout_ms=timeout_ms,
        retries=retries,
        retry_interval_ms=retry_interval_ms,
        brokers=brokers,
        security=options.kafka_security,
        committed=committed,
    )
    return resolved(options.protocol, access)


def registry_of(options: ClusterFields) -> Registry | None:
    """Return the registry if brokers do not describe themselves (0.7), and ZooKeeper is configured."""
    if options.protocol == AUTO or dialect(options.protocol).describes_itself or options.zookeeper_connect is None:
        return None
    from sparkpipeline.driver.zkclient import Registry

    return Registry(options, dialect(options.protocol))


def _registered(options: ClusterFields) -> tuple[tuple[str, int], ...]:
    from sparkpipeline.driver.zkclient import bootstrap_of, zookeeper_of

    with zookeeper_of(options) as zk:
        return bootstrap_of(zk, options.kafka_security.protocol)
