"""The cluster that a query writes to, as the driver finds it.

ZooKeeper is asked here and nowhere else; tasks get addresses of brokers.
"""

from __future__ import annotations

from sparkpipeline.cluster.access import ClusterAccess, resolve_release
from sparkpipeline.sink.options import SinkOptions


def access_of(options: SinkOptions) -> ClusterAccess:
    """How tasks reach the cluster.  Raises Unreachable, OptionRefused."""
    bootstrap = options.bootstrap or _bootstrap(options)
    release = resolve_release(options.protocol, bootstrap, options.client_id, options.request_timeout_ms)
    return ClusterAccess(bootstrap, release, options.client_id, options.request_timeout_ms)


def _bootstrap(options: SinkOptions) -> tuple[tuple[str, int], ...]:
    from sparkpipeline.driver.zookeeper import bootstrap_of, zookeeper_of  # here: only the driver has kazoo

    with zookeeper_of(options) as zk:
        return bootstrap_of(zk)
