"""Options that reading and writing share: the cluster, and the security of connections to it.

Names are those of Spark's kafka format: kafka.bootstrap.servers, kafka.security.protocol, kafka.ssl.*, kafka.sasl.*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from groundwork.options import option, specs
from groundwork.optionvalues import filled
from groundwork.zkconnect import connect_string
from kafkawire import optiontypes
from kafkawire.securityoptions import NEWER, SecurityOptions
from sparkpipeline.cluster.access import release_or_auto

PREFIX = "kafka."
READ_COMMITTED = "read_committed"


def headers_option(key: str) -> Any:
    """Return the option of a column with headers, for queries and loads."""
    return option(
        key,
        False,
        "a column headers, array<struct<key:string,value:binary>>; null where a message has none, as before Kafka 0.11,"
        " which brought them",
    )


def isolation_option(key: str) -> Any:
    """Return the option of the isolation level, for queries and loads."""
    return option(
        key,
        READ_COMMITTED,
        "messages of transactions (0.11 and later): read_committed leaves out those of aborted ones and ends before"
        " those that are not over; read_uncommitted, the default of Spark's own format, reads all",
        choices=(READ_COMMITTED, "read_uncommitted"),
    )


@dataclass(frozen=True, slots=True)
class QueryOptions(SecurityOptions):
    """Options of the cluster that a query reads or writes."""

    ANY_CASE: ClassVar[bool] = True
    BEFORE: ClassVar[str] = PREFIX

    bootstrap: tuple[tuple[str, int], ...] = option(
        "kafka.bootstrap.servers",
        (),
        "brokers to ask first, host:port,host:port; one that answers is enough",
        old="kafka.metadata.broker.list",
        kind=optiontypes.brokers,
    )
    zookeeper_connect: str | None = option(
        "zookeeper.connect",
        None,
        "the cluster's ZooKeeper, host:port,host:port/chroot, in place of kafka.bootstrap.servers; only the driver asks"
        " it.  Reading also needs it for a group that keeps its offsets there, and for Kafka 0.7, whose brokers and"
        " partitions are found nowhere else",
        old="kafka.zookeeper.connect",
        kind=connect_string,
    )
    zookeeper_timeout_ms: int = option(
        "zookeeper.session.timeout.ms",
        10000,
        "how long ZooKeeper may take to answer",
        "ms",
        old="kafka.zookeeper.session.timeout.ms",
        least=100,
    )
    protocol: str = option(
        "protocol",
        "auto",
        "release of the brokers: auto asks them; or 0.8, 0.9, 0.10, or a release such as 0.8.2.2 or 3.9.  0.7, which"
        " can only be read, has to be given: its brokers do not answer",
        kind=release_or_auto,
    )
    client_id: str = option("kafka.client.id", "sparkpipeline", "how the brokers' logs name us", kind=filled)


REFUSED = {  # names of the JVM's client, and what to give here
    f"{PREFIX}{name}": f"give {PREFIX}{helps}" if not helps.startswith("nothing") else helps.partition(": ")[2]
    for name, helps in NEWER.items()
}
SECRETS = tuple(spec.key for spec in specs(QueryOptions).values() if spec.secret and spec.key.startswith(PREFIX))
