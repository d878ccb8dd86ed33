"""A cluster as ZooKeeper describes it: brokers, topics, replicas and leaders.  Reads only; never creates a node.

zk is any started KazooClient, already in its chroot; its exceptions (session over, not connected) go through as they
are: who holds the session decides about them.  A node that vanished in between is left out.

    0.8 and later    a topic's node lists its partitions and their replicas, each partition's state node has its leader
    0.7              a topic's children are the brokers that have a log of it, each says how many partitions: counted.py
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from kafkawire.cluster import counted
from kafkawire.cluster.leaders import NoLeader
from kafkawire.cluster.noderead import WINDOW as WINDOW
from kafkawire.cluster.noderead import children, read
from kafkawire.cluster.registered import all_secured, secured_brokers
from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.errors import NoPlainListener, OtherGeneration, RemoteError
from kafkawire.interfaces import ListedZnodes, Znodes
from kafkawire.model import Broker, BrokerPartition, PartitionId, TopicPartition

log = logging.getLogger(__name__)

BROKERS = "/brokers/ids"
TOPICS = "/brokers/topics"
_told: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()  # warnings by client


def missing_chroot(zk: Any, connect: str, option: str) -> str | None:
    """A sentence where the path at the end of a connect string is not there; option: what it was given as.

    Brokers create it (from 0.8.2 on; before, an operator does), clients never do: a node below it would fail, or, made
    with its parents, be where no broker and no other member looks.
    """
    hosts, _, chroot = connect.partition("/")
    if not zk.chroot or zk.exists("/") is not None:
        return None
    return f"chroot /{chroot} does not exist on {hosts}; create it or correct {option}"


def no_cluster(zk: Any, connect: str, option: str) -> str | None:
    """A sentence where no broker has ever registered: mostly the chroot is missing in the connect string.

    The first broker creates the folder of ids (ZkUtils.createParentPath, from 0.8.2 on setupCommonPaths), and it stays
    when all brokers are down, which is no reason to stay away from a group.  JVM consumers do not create it.
    """
    return None if zk.exists(BROKERS) is not None else no_brokers_under(connect, option)


def no_brokers_under(connect: str, option: str) -> str:
    """What is wrong where no broker is registered, as a question for the operator."""
    return f"no brokers are registered under {connect}: is the chroot missing in {option}?"


def read_brokers(zk: Any, znodes: Znodes) -> dict[int, Broker]:
    """Live brokers by id.  One that has no address for us (TLS or SASL only) is left out, with a warning."""
    ids = {int(name): f"{BROKERS}/{name}" for name in children(zk, BROKERS) if name.isdigit()}
    nodes = read(zk, ids.values())
    found: dict[int, Broker] = {}
    for broker, path in ids.items():
        try:
            if path in nodes:
                found[broker] = znodes.broker(broker, nodes[path])
        except RemoteError as useless:
            _warn_once(zk, str(useless))
    return found


def refuse_other_generation(zk: Any, znodes: Znodes) -> None:
    """Raises OtherGeneration where a live broker is registered as the other generation does it.

    read_brokers leaves such a broker out, so that one that strays does not stop who reads the others: ask this when it
    found none.
    """
    for path, text in read(zk, [f"{BROKERS}/{name}" for name in children(zk, BROKERS) if name.isdigit()]).items():
        try:
            znodes.broker(int(path.rpartition("/")[2]), text)
        except OtherGeneration:
            raise
        except RemoteError:
            continue  # no address for us, which read_brokers has told


def refuse_secured(zk: Any, znodes: Znodes) -> None:
    """Raises NoPlainListener where brokers are registered and all of them want TLS or SASL.

    read_brokers leaves such a broker out: ask this when it found none.
    """
    secured, plain = _by_listener(zk, znodes)
    if secured and not plain:
        raise NoPlainListener(all_secured(secured), next(iter(secured.values())))


def read_secured(zk: Any, znodes: Znodes) -> dict[int, tuple[str, ...]]:
    """The endpoints of the brokers that read_brokers leaves out because they have TLS or SASL listeners only, by id."""
    return _by_listener(zk, znodes)[0]


def _by_listener(zk: Any, znodes: Znodes) -> tuple[dict[int, tuple[str, ...]], int]:
    """Endpoints of those brokers, and how many others there are."""
    nodes = read(zk, [f"{BROKERS}/{name}" for name in children(zk, BROKERS) if name.isdigit()])
    secured = secured_brokers({int(path.rpartition("/")[2]): text for path, text in nodes.items()}, znodes)
    return secured, len(nodes) - len(secured)


def _warn_once(zk: Any, text: str) -> None:
    """Brokers are read again and again; once per client is enough."""
    told = _told.setdefault(zk, set())
    if text not in told:
        told.add(text)
        log.warning("%s: left out, what it leads cannot be read or written", text)


def read_topics(zk: Any, znodes: Znodes) -> list[str]:
    """Names of all topics, sorted."""
    return sorted(children(zk, TOPICS))


def read_partitions(zk: Any, znodes: Znodes, topics: Iterable[str]) -> dict[str, dict[PartitionId, list[int]]]:
    """Replicas by partition for each of the topics that exists."""
    if znodes.PARTITIONS_BY_BROKER:
        return counted.read_partitions(zk, znodes, topics)
    paths = {topic: f"{TOPICS}/{topic}" for topic in topics}
    nodes = read(zk, paths.values())
    found = {topic: znodes.topic(nodes[path], f"topic {topic}") for topic, path in paths.items() if path in nodes}
    return {topic: {p: list(r) for p, r in partitions.items()} for topic, partitions in found.items()}


def read_leaders(zk: Any, znodes: Znodes, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
    """Leader's id of each partition; None: no leader now, or no such node (the controller has yet to write it)."""
    wanted = list(tps)
    if znodes.PARTITIONS_BY_BROKER:
        return counted.read_leaders(zk, znodes, wanted)
    states = _read_states(zk, znodes, wanted)
    return {tp: states[tp][0] if tp in states else None for tp in wanted}


def read_view(zk: Any, znodes: Znodes, topics: Iterable[str]) -> ClusterView:
    """Brokers, and the given topics with replicas, leaders and in-sync replicas."""
    if znodes.PARTITIONS_BY_BROKER:
        return counted.view(read_brokers(zk, znodes), counted.read_partitions(zk, znodes, topics))
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


class ZookeeperLeaders:
    """Leaders as nodes have them (kafkawire.cluster.leaders.LeaderSource).

    ask(what, read, *args) calls read(zk, *args) with a ZooKeeper client; what it does, in words, is for its errors,
    which go through as they are.
    """

    reads_all = False

    def __init__(self, ask: Callable[..., Any], znodes: Znodes) -> None:
        self._ask = ask
        self._znodes = znodes

    def read(self, tps: Collection[TopicPartition] | None) -> ClusterView:
        if tps is None:
            names = self._ask("read topics", read_topics, self._znodes)
            view: ClusterView = self._ask("read partitions", read_view, self._znodes, names)
            return view
        brokers = self._ask("read brokers", read_brokers, self._znodes)
        leaders = self._ask("read leaders", read_leaders, self._znodes, list(tps)) if tps else {}
        topics: dict[str, dict[PartitionId, PartitionView]] = {}
        for tp, leader in leaders.items():
            topics.setdefault(tp.topic, {})[tp.partition] = PartitionView(leader)
        return ClusterView(brokers, topics)

    def leader(self, view: ClusterView, tp: TopicPartition) -> Broker | NoLeader:
        found = view.topics.get(tp.topic, {}).get(tp.partition)
        if found is None or found.leader is None:
            if isinstance(tp.partition, BrokerPartition):
                return NoLeader(f"broker {tp.partition.broker} is not registered with it in ZooKeeper")
            return NoLeader("it has no leader")
        return view.leader(tp) or NoLeader(f"its leader, broker {found.leader}, is not registered")


def _read_states(
    zk: Any, znodes: ListedZnodes, tps: Sequence[TopicPartition]
) -> dict[TopicPartition, tuple[int | None, Sequence[int]]]:
    paths = {tp: f"{TOPICS}/{tp.topic}/partitions/{tp.partition}/state" for tp in tps}
    nodes = read(zk, paths.values())
    return {tp: znodes.state(nodes[path], str(tp)) for tp, path in paths.items() if path in nodes}
