"""Options that say which cluster is read, as whom, and how its ZooKeeper is reached: where ConsumerConfig begins."""

from __future__ import annotations

from dataclasses import dataclass

from groundwork.options import option
from groundwork.zksecurity import ZkSecurity, ZkSecurityOptions, security_of
from kafkawire.model import Broker, TopicPartition
from zkconsumer.options import optiontypes as kinds

NEWER_RESETS = {"earliest": "smallest", "latest": "largest", "none": "fail"}  # of auto.offset.reset


@dataclass(frozen=True, slots=True)
class ClusterOptions(ZkSecurityOptions):
    """Group, cluster, session; what goes on in them is in zkconsumer.options.config."""

    group_id: str = option("group.id", "", "the consumer group", old="groupid", kind=kinds.name, required=True)
    zookeeper_connect: str = option(
        "zookeeper.connect",
        "",
        "ZooKeeper of the cluster that is read: host:port,host:port/chroot",
        old="zk.connect",
        kind=kinds.text,
        required=True,
        instead="partitions",
    )
    version: str = option("kafka.version", "0.8.2", "Kafka release of the brokers", kind=kinds.release)
    partitions: tuple[TopicPartition, ...] = option(
        "partitions",
        (),
        "read just these, without a group and without ZooKeeper: {orders: [0, 3], payments: [1]}, or as text"
        " orders:0,3;payments:1; of 0.7 broker-index: orders:0-0,0-1,1-0",
        kind=kinds.partitions,
    )
    brokers: tuple[tuple[str, int], ...] = option(
        "metadata.broker.list",
        (),
        "with partitions: brokers that are asked for the leaders of all topics, host:port,…",
        kind=kinds.brokers,
    )
    broker_list: tuple[Broker, ...] = option(
        "broker.list",
        (),
        "with partitions of 0.7, whose brokers tell nothing of each other: the brokers of these partitions,"
        " id:host:port,…",
        kind=kinds.numbered_brokers,
    )
    offsets_file: str | None = option(
        "offsets.file",
        None,
        "with partitions: the file that keeps their positions, under the name of the group; its folder must exist",
        kind=kinds.text,
    )
    auto_offset_reset: str = option(
        "auto.offset.reset",
        "",
        "where to begin when no offset is stored or it lies outside the log: smallest, largest, or fail, which parks"
        " the partition when its offset lies outside (and begins at the smallest when none is stored)",
        old="autooffset.reset",
        choices=("smallest", "largest", "fail"),
        required=True,
        newer=NEWER_RESETS,
    )
    consumer_id: str | None = option(
        "consumer.id",
        None,
        "fixed part of the member's id instead of host, time and a random number; only for tests: a restart within the"
        " session time-out meets its own old nodes",
        old="consumerid",
        kind=kinds.name,
    )
    client_id: str | None = option("client.id", None, "how brokers' logs name us; the group when empty")

    session_timeout_ms: int = option(
        "zookeeper.session.timeout.ms",
        6000,
        "silence after which ZooKeeper drops our nodes and others take our partitions",
        "ms",
        old="zk.sessiontimeout.ms",
        least=100,
    )
    connection_timeout_ms: int | None = option(
        "zookeeper.connection.timeout.ms",
        None,
        "how long ZooKeeper may take to answer at start; the session time-out when empty",
        "ms",
        old="zk.connectiontimeout.ms",
        kind=kinds.ms,
    )
    zookeeper_set_acl: bool = option(
        "zookeeper.set.acl",
        False,
        "nodes we create are written by that identity only, and read by all; for groups all of whose members have it",
        behind="zookeeper.connect",
    )

    @property
    def connect_timeout_ms(self) -> int:
        return self.session_timeout_ms if self.connection_timeout_ms is None else self.connection_timeout_ms

    @property
    def security(self) -> ZkSecurity:
        """How a session shows itself to ZooKeeper."""
        return security_of(self, self.zookeeper_set_acl)

    @property
    def client_name(self) -> str:
        return self.client_id or self.group_id
