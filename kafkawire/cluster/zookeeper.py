"""A cluster as ZooKeeper describes it: brokers, topics, replicas and leaders.  Reads only; never creates a node.

Every read asks for a window of its nodes before it waits for the first answer (kazoo's *_async): a thousand partitions
cost five round trips, not a thousand.  A node that vanished in between is left out.  zk is any started KazooClient,
already in its chroot; its exceptions (session over, not connected) go through as they are: who holds the session
decides about them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from kazoo.exceptions import NoNodeError

from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.errors import RemoteError
from kafkawire.model import Broker, PartitionId, TopicPartition

log = logging.getLogger(__name__)

BROKERS = "/brokers/ids"
TOPICS = "/brokers/topics"
WINDOW = 200  # nodes asked for at a time: whoever shares the client waits behind no more than that
_told: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()  # warnings by client


class Znodes(Protocol):
    """The node formats of one generation: the module kafkawire.v08.znodes.  What makes no sense is its NodeError."""

    def broker(self, broker_id: int, text: str | bytes, /) -> Broker: ...
    def topic(self, text: str | bytes, where: str, /) -> Mapping[int, Sequence[int]]: ...
    def state(self, text: str | bytes, where: str, /) -> tuple[int | None, Sequence[int]]: ...


def read_brokers(zk: Any, znodes: Znodes) -> dict[int, Broker]:
    """Live brokers by id.  One that has no address for us (TLS or SASL only) is left out, with a warning."""
    ids = {int(name): f"{BROKERS}/{name}" for name in _children(zk, BROKERS) if name.isdigit()}
    nodes = _read(zk, ids.values())
    found: dict[int, Broker] = {}
    for broker, path in ids.items():
        try:
            if path in nodes:
                found[broker] = znodes.broker(broker, nodes[path])
        except RemoteError as useless:
            _warn_once(zk, str(useless))
    return found


def _warn_once(zk: Any, text: str) -> None:
    """Brokers are read again and again; once per client is enough."""
    told = _told.setdefault(zk, set())
    if text not in told:
        told.add(text)
        log.warning("%s: left out, what it leads cannot be read or written", text)


def read_topics(zk: Any, znodes: Znodes) -> list[str]:
    """Names of all topics, sorted."""
    return sorted(_children(zk, TOPICS))


def read_partitions(zk: Any, znodes: Znodes, topics: Iterable[str]) -> dict[str, dict[int, list[int]]]:
    """Replicas by partition for each of the topics that exists."""
    paths = {topic: f"{TOPICS}/{topic}" for topic in topics}
    nodes = _read(zk, paths.values())
    found = {topic: znodes.topic(nodes[path], f"topic {topic}") for topic, path in paths.items() if path in nodes}
    return {topic: {p: list(r) for p, r in partitions.items()} for topic, partitions in found.items()}


def read_leaders(zk: Any, znodes: Znodes, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
    """Leader's id of each partition; None: no leader now, or no such node (the controller has yet to write it)."""
    wanted = list(tps)
    states = _read_states(zk, znodes, wanted)
    return {tp: states[tp][0] if tp in states else None for tp in wanted}


def read_view(zk: Any, znodes: Znodes, topics: Iterable[str]) -> ClusterView:
    """Brokers, and the given topics with replicas, leaders and in-sync replicas."""
    replicas = read_partitions(zk, znodes, topics)
    states = _read_states(zk, znodes, [TopicPartition(t, p) for t, partitions in replicas.items() for p in partitions])
    nobody: tuple[int | None, Sequence[int]] = (None, ())
    view: dict[str, dict[PartitionId, PartitionView]] = {}
    for topic, partitions in replicas.items():
        view[topic] = {}
        for partition, ids in partitions.items():
            leader, isr = states.get(TopicPartition(topic, partition), nobody)
            view[topic][partition] = PartitionView(leader, tuple(ids), tuple(isr))
    return ClusterView(read_brokers(zk, znodes), view)


def _read_states(
    zk: Any, znodes: Znodes, tps: Sequence[TopicPartition]
) -> dict[TopicPartition, tuple[int | None, Sequence[int]]]:
    paths = {tp: f"{TOPICS}/{tp.topic}/partitions/{tp.partition}/state" for tp in tps}
    nodes = _read(zk, paths.values())
    return {tp: znodes.state(nodes[path], str(tp)) for tp, path in paths.items() if path in nodes}


def _children(zk: Any, path: str) -> list[str]:
    try:
        return list(zk.get_children(path))
    except NoNodeError:
        return []


def _read(zk: Any, paths: Iterable[str]) -> dict[str, bytes]:
    """The data of each node that is there."""
    waiting, nodes = list(paths), dict[str, bytes]()
    for at in range(0, len(waiting), WINDOW):
        asked = [(path, zk.get_async(path)) for path in waiting[at : at + WINDOW]]
        for path, answer in asked:
            try:
                nodes[path] = answer.get()[0]
            except NoNodeError:
                continue
    return nodes
