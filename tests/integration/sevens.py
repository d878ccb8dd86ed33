"""What tests of groups on 0.7 share: members of ours in this process, and the group's nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from kafkawire.model import BrokerPartition, TopicPartition, partition_named
from kafkawire.znodes import group as groupnodes
from localkafka.seven.cluster import Cluster07
from localkafka.waiting import wait_until
from tests.integration.readers import Reader
from zkconsumer.filters import TopicFilter

QUICK = {
    "kafka_version": "0.7.2",
    "fetcher_backoff_ms": 50,
    "zookeeper_session_timeout_ms": 3000,
    "rebalance_backoff_ms": 1000,
}


def member(
    cluster: Cluster07, group: str, wanted: Mapping[str, int] | TopicFilter, streams: int = 1, **options: Any
) -> Reader:
    """One of ours, which reads at once."""
    return Reader(cluster.zookeeper, group, wanted, streams, **{**QUICK, **options})


def owners(zk: KazooClient, group: str, topic: str) -> dict[str, str]:
    """Thread ids by partition, as the owner nodes have them."""
    return _texts(zk, groupnodes.owners(group, topic))


def offsets(zk: KazooClient, group: str, topic: str) -> dict[str, int]:
    return {name: int(text) for name, text in _texts(zk, groupnodes.offsets(group, topic)).items()}


def positions(cluster: Cluster07, group: str, topic: str) -> dict[BrokerPartition, int]:
    """Where the group is; a partition without a position is left out."""
    found = offsets(cluster._reader(), group, topic).items()
    return {place: at for name, at in found if isinstance(place := partition_named(name), BrokerPartition)}


def registrations(zk: KazooClient, group: str) -> dict[str, str]:
    return _texts(zk, groupnodes.ids(group))


def _texts(zk: KazooClient, folder: str) -> dict[str, str]:
    try:
        names = zk.get_children(folder)
    except NoNodeError:
        return {}
    found = {}
    for name in names:
        try:
            found[name] = zk.get(f"{folder}/{name}")[0].decode()
        except NoNodeError:
            continue
    return found


def shares(zk: KazooClient, group: str, topic: str) -> dict[str, list[str]]:
    """Partitions in text order, by consumer id."""
    found: dict[str, list[str]] = {}
    for name, thread in sorted(owners(zk, group, topic).items()):
        found.setdefault(thread.rpartition("-")[0], []).append(name)
    return found


def wait_for_shares(zk: KazooClient, group: str, topic: str, wanted: Mapping[str, list[str]], s: float = 30) -> None:
    wait_until(
        lambda: shares(zk, group, topic) == dict(wanted), s, lambda: f"{wanted}, have {shares(zk, group, topic)}"
    )


def values(*readers: Reader) -> list[bytes | None]:
    return [got.value for reader in readers for got in reader.got]


def names(tps: set[TopicPartition]) -> list[str]:
    return sorted(str(tp.partition) for tp in tps)
