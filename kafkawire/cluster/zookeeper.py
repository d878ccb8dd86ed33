"""Cluster view from ZooKeeper: brokers, topics, replicas and leaders.  Reads only; never creates a node.

zk is any started KazooClient, already in its chroot; its exceptions (session over, not connected) are passed on
unchanged: the owner of the session handles them.  A node that vanished in between is left out.

    /brokers/ids/B                             a broker's address (0.7: text; later: JSON, with its listeners)
    /brokers/topics/T                          0.8 and later: partitions and their replicas
    /brokers/topics/T/partitions/P/state       leader and in-sync replicas of one
    /config/topics/T                           0.8.1 and later: the settings of a topic
    /brokers/topics/T/B = 2                    0.7: broker B has the partitions B-0 and B-1 of topic T; it leads them,
                                               no other broker has them, and they come and go with it

Many nodes are read at once: a window of requests is sent before the first response is awaited (kazoo's *_async), so
that a thousand partitions cost five round trips.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from kazoo.exceptions import NoAuthError, NoNodeError

from groundwork.jsontext import json_value
from groundwork.pauses import Pace
from groundwork.sentences import printable
from kafkawire.cluster.leaders import NoLeader
from kafkawire.cluster.view import ClusterView, PartitionView
from kafkawire.errors import NoListener, OtherGeneration, RemoteError
from kafkawire.interfaces import CountedZnodes, ListedZnodes, Znodes
from kafkawire.model import Broker, BrokerPartition, PartitionId, TopicPartition, broker_named, partition_named
from kafkawire.znodes.text import PAUSE_PARTITIONS, of_counting_broker

log = logging.getLogger(__name__)

BROKERS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONFIG = "/config/topics"
WINDOW = 200  # requests in flight: other users of the client wait behind no more than these
MAX_TOLD = 1000  # warnings of one reader: any client may write nodes
_told: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()  # warnings by reader


# ---- is there a cluster ----------------------------------------------------------------------------------------------


def missing_chroot(zk: Any, connect: str, option: str) -> str | None:
    """Return an error if the chroot of a connect string does not exist. option: the option that holds the connect
    string.

    Brokers create it (since 0.8.2; before, an operator does), clients never do: creating a node below it would fail,
    or, with its parents, put the node where no broker and no other member looks.
    """
    hosts, _, chroot = connect.partition("/")
    if not zk.chroot or zk.exists("/") is not None:
        return None
    return f"chroot /{chroot} does not exist on {hosts}; create it or correct {option}"


def no_cluster(zk: Any, connect: str, option: str) -> str | None:
    """Return an error if no broker has ever registered: mostly the chroot is missing in the connect string.

    The first broker creates the folder of ids (ZkUtils.createParentPath, since 0.8.2 setupCommonPaths), and it stays
    when all brokers are down; a consumer may join its group then.  JVM consumers do not create it.
    """
    return None if zk.exists(BROKERS) is not None else no_brokers_under(connect, option)


def no_brokers_under(connect: str, option: str) -> str:
    """Return the error for a path where no broker is registered, as a question for the operator."""
    return f"no brokers are registered under {connect}: is the chroot missing in {option}?"


# ---- brokers ---------------------------------------------------------------------------------------------------------


def read_brokers(zk: Any, znodes: Znodes) -> dict[int, Broker]:
    """Return live brokers by id.  A broker without a listener of the znodes' security protocol is left out, with a
    warning."""
    found: dict[int, Broker] = {}
    for broker, text in _broker_nodes(zk).items():
        try:
            found[broker] = znodes.broker(broker, text)
        except RemoteError as useless:
            left_out(zk, useless, "its partitions cannot be read or written")
    return found


def refuse_other_generation(zk: Any, znodes: Znodes) -> None:
    """Raise OtherGeneration if a live broker is registered in the other generation's form.

    read_brokers leaves such a broker out, so that a stray one does not stop readers of the others; call this when it
    found no broker.
    """
    for broker, text in _broker_nodes(zk).items():
        try:
            znodes.broker(broker, text)
        except OtherGeneration:
            raise
        except RemoteError:
            continue  # no address for us; read_brokers has reported it


def refuse_secured(zk: Any, znodes: Znodes) -> None:
    """Raise NoListener if brokers are registered and none has a listener of the znodes' security protocol.

    read_brokers leaves such brokers out; call this when it found no broker.
    """
    secured, plain = _by_listener(zk, znodes)
    if secured and not plain:
        raise NoListener(no_listener(secured), next(iter(secured.values())))


def read_secured(zk: Any, znodes: Znodes) -> dict[int, tuple[str, ...]]:
    """Return the endpoints, by id, of the brokers that read_brokers leaves out because no listener has the protocol."""
    return _by_listener(zk, znodes)[0]


def _by_listener(zk: Any, znodes: Znodes) -> tuple[dict[int, tuple[str, ...]], int]:
    """Return the endpoints of the brokers without a listener of the protocol, and the number of other brokers."""
    nodes = _broker_nodes(zk)
    secured = secured_brokers(nodes, znodes)
    return secured, len(nodes) - len(secured)


def _broker_nodes(zk: Any) -> dict[int, bytes]:
    """Return the data of the registered brokers' nodes by id."""
    paths = {f"{BROKERS}/{name}": id for name, id in broker_ids(zk, _children(zk, BROKERS)).items()}
    return {paths[path]: data for path, data in _read(zk, paths).items()}


def broker_ids(reader: object, names: Iterable[str]) -> dict[str, int]:
    """Return the ids for names below /brokers/ids; other names are left out, with a warning."""
    found = {name: broker_named(name) for name in names}
    for name, number in found.items():
        if number is None:
            left_out(reader, f"{BROKERS}/{name[:60]}: its name is not a broker id", "it is not a broker's")
    return {name: number for name, number in found.items() if number is not None}


UNREADABLE = "its partitions cannot be read or written"


def left_out(reader: object, senseless: str | RemoteError, so: str = UNREADABLE) -> None:
    """Warn that a node cannot be parsed.  Nodes are read repeatedly, so each reader warns once."""
    text = what_is_wrong(senseless) if isinstance(senseless, RemoteError) else senseless
    told = _told.setdefault(reader, set())
    if text not in told and len(told) < MAX_TOLD:
        told.add(text)
        log.warning("%s: left out, %s", printable(text), so)


def what_is_wrong(senseless: RemoteError) -> str:
    """Return the sentence about an unreadable node that is skipped while others of our generation are used."""
    return senseless.why if isinstance(senseless, OtherGeneration) else str(senseless)


def closed_node(path: str) -> str:
    """Return the sentence about a node that is skipped because its ACL forbids reading it."""
    return f"{path} cannot be read because of its ACL; see zookeeper.auth"


def told_of(reader: object) -> list[str]:
    """Return the sentences about nodes that were skipped for this reader."""
    return sorted(_told.get(reader, ()))


def secured_brokers(nodes: Mapping[int, bytes], znodes: Znodes) -> dict[int, tuple[str, ...]]:
    """Return, by id, the endpoints of brokers that have no listener of the znodes' security protocol."""
    found = {}
    for broker, data in sorted(nodes.items()):
        try:
            znodes.broker(broker, data)
        except NoListener as secured:
            found[broker] = secured.endpoints
        except RemoteError:
            continue  # cannot be parsed, or of another generation: reported elsewhere
    return found


def no_listener(found: Mapping[int, tuple[str, ...]]) -> str:
    """Return the error for a cluster in which no broker has a listener of the protocol."""
    first = min(found)
    return (
        "no broker has a listener of the security protocol that security.protocol names "
        f"(broker {first}: {', '.join(found[first])}): set it to one of theirs"
    )


def partitions_by_broker(nodes: Iterable[bytes]) -> bool | None:
    """Return Dialect.partitions_by_broker for these nodes: True for 0.7, whose nodes are text, False for the JSON of
    later releases.  None if there are no nodes, or some of both."""
    found = set()
    for data in nodes:
        if of_counting_broker(data.decode(errors="replace")):
            found.add(True)
        elif data.lstrip().startswith(b"{"):
            found.add(False)
    return found.pop() if len(found) == 1 else None


# ---- topics and leaders ----------------------------------------------------------------------------------------------


def read_topics(zk: Any, znodes: Znodes) -> list[str]:
    """Return the names of all topics, sorted."""
    return sorted(_children(zk, TOPICS))


def read_partitions(zk: Any, znodes: Znodes, topics: Iterable[str]) -> dict[str, dict[PartitionId, list[int]]]:
    """Return replicas by partition for each existing topic.  A topic whose node cannot be parsed is left out, with a
    warning.

    Raises OtherGeneration if the topics and the brokers are of the other generation.
    """
    if znodes.PARTITIONS_BY_BROKER:
        return _counted_partitions(zk, znodes, topics)
    paths = {topic: f"{TOPICS}/{topic}" for topic in topics}
    nodes = _read(zk, paths.values())
    found: dict[str, dict[PartitionId, list[int]]] = {}
    refused: list[RemoteError] = []
    for topic, path in paths.items():
        if path in nodes:
            try:
                found[topic] = {p: list(r) for p, r in znodes.topic(nodes[path], f"topic {topic}").items()}
            except RemoteError as senseless:
                refused.append(senseless)
    _leave_out(zk, znodes, refused, any(found.values()))
    return found


def _leave_out(zk: Any, znodes: Znodes, refused: Sequence[RemoteError], others: bool) -> None:
    """Warn about nodes below topics that cannot be parsed.

    Raises the first OtherGeneration if neither another topic nor any broker is of our generation: a stray node of any
    client is ignored, but it is unlikely in an empty cluster.
    """
    strange = next((one for one in refused if isinstance(one, OtherGeneration)), None)
    if strange is not None and not others and not read_brokers(zk, znodes):
        raise strange
    for one in refused:
        left_out(zk, one)


def read_settings(zk: Any, znodes: Znodes, topics: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the settings of topics (0.8.1 and later); topics without a node that brokers write are left out."""
    paths = {f"{CONFIG}/{topic}": topic for topic in topics}
    found = {}
    for path, data in _read(zk, paths).items():
        try:
            settings = json_value(data)["config"]
            found[paths[path]] = {str(name): str(value) for name, value in settings.items()}
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
    return found


def read_known_settings(zk: Any, znodes: Znodes, topics: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the settings of topics, as read_settings() does; a topic without a node (0.8.0) has none.

    So a topic is left out only if its settings are not known: its node cannot be parsed, or is closed to us.
    """
    names = list(topics)
    found = read_settings(zk, znodes, names)
    asked = {topic: zk.exists_async(f"{CONFIG}/{topic}") for topic in names if topic not in found}
    return found | {topic: {} for topic, answer in asked.items() if answer.get() is None}


def read_leaders(zk: Any, znodes: Znodes, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
    """Return the leader's id of each partition; None if it has no leader now or its node does not exist yet (the
    controller writes it)."""
    wanted = list(tps)
    if znodes.PARTITIONS_BY_BROKER:
        return _counted_leaders(zk, znodes, wanted)
    states = _read_states(zk, znodes, wanted)
    return {tp: states[tp][0] if tp in states else None for tp in wanted}


def read_owners(zk: Any, znodes: Znodes, group: str, topics: Iterable[str]) -> dict[TopicPartition, str]:
    """Return the owner of each partition that a consumer group has claimed: the thread id in its owner node."""
    folders = {znodes.owners(group, topic): topic for topic in topics}
    paths: dict[str, TopicPartition] = {}
    for folder, names in _children_of(zk, folders).items():
        for name in names:
            partition = partition_named(name)
            if partition is not None:
                paths[f"{folder}/{name}"] = TopicPartition(folders[folder], partition)
    return {paths[path]: data.decode("utf-8", "replace") for path, data in _read(zk, paths).items()}


def read_view(zk: Any, znodes: Znodes, topics: Iterable[str]) -> ClusterView:
    """Return brokers, and the given topics with replicas, leaders and in-sync replicas."""
    if znodes.PARTITIONS_BY_BROKER:
        return _counted_view(read_brokers(zk, znodes), _counted_partitions(zk, znodes, topics))
    replicas = read_partitions(zk, znodes, topics)
    states = _read_states(zk, znodes, [TopicPartition(t, p) for t, partitions in replicas.items() for p in partitions])
    nobody: tuple[int | None, Sequence[int]] = (None, ())
    view: dict[str, dict[PartitionId, PartitionView]] = {}
    pace, done = Pace(PAUSE_PARTITIONS), 0
    for topic, partitions in replicas.items():
        view[topic] = {}
        for partition, ids in partitions.items():
            pace.reached(done := done + 1)
            leader, isr = states.get(TopicPartition(topic, partition), nobody)
            view[topic][partition] = PartitionView(leader, tuple(ids), tuple(isr))
    return ClusterView(read_brokers(zk, znodes), view)


def _read_states(
    zk: Any, znodes: ListedZnodes, tps: Sequence[TopicPartition]
) -> dict[TopicPartition, tuple[int | None, Sequence[int]]]:
    paths = {tp: f"{TOPICS}/{tp.topic}/partitions/{tp.partition}/state" for tp in tps}
    nodes = _read(zk, paths.values())
    pace = Pace(PAUSE_PARTITIONS)
    found: dict[TopicPartition, tuple[int | None, Sequence[int]]] = {}
    for done, (tp, path) in enumerate(paths.items()):
        pace.reached(done)
        if path in nodes:
            try:
                found[tp] = znodes.state(nodes[path], str(tp))
            except RemoteError as senseless:
                left_out(zk, senseless, "treated as a partition without a leader")
    return found


class ZookeeperLeaders:
    """Leaders from ZooKeeper nodes (kafkawire.cluster.leaders.LeaderSource).

    ask(what, read, *args) calls read(zk, *args) with a ZooKeeper client; what: description of the read, for its errors,
    which are passed on unchanged.
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


# ---- where a topic's brokers count its partitions (0.7) --------------------------------------------------------------


def _counted_partitions(
    zk: Any, znodes: CountedZnodes, topics: Iterable[str]
) -> dict[str, dict[PartitionId, list[int]]]:
    """Return [broker] by partition for each existing topic, as its nodes count them: the original assigns exactly
    these.

    Nodes that cannot be parsed are left out, with a warning.
    """
    folders = {znodes.topic_path(topic): topic for topic in topics}
    counts: dict[str, tuple[str, int]] = {}
    found: dict[str, dict[PartitionId, list[int]]] = {}
    refused: list[RemoteError] = []
    for folder, names in _children_of(zk, folders).items():
        topic = folders[folder]
        found[topic] = {}
        brokers = []
        for name in names:
            try:
                brokers.append(znodes.broker_id(name, f"topic {topic}"))
            except RemoteError as senseless:
                refused.append(senseless)
        counts |= {znodes.count_path(topic, broker): (topic, broker) for broker in sorted(brokers)}
    nodes = _read(zk, counts)
    pace, done = Pace(PAUSE_PARTITIONS), 0
    for path, (topic, broker) in counts.items():
        if path in nodes:
            try:
                count = znodes.count(nodes[path], f"topic {topic} on broker {broker}")
            except RemoteError as senseless:
                refused.append(senseless)
                continue
            pace.reached(done := done + count)
            found[topic] |= {partition: [broker] for partition in znodes.partitions(broker, count)}
    _leave_out(zk, znodes, refused, any(found.values()))
    return found


def _counted_leaders(zk: Any, znodes: CountedZnodes, tps: Sequence[TopicPartition]) -> dict[TopicPartition, int | None]:
    """Return each partition's own broker; None while that is not registered, or if it has no partition of that number:
    a request for it would close the connection."""
    live = set(_children(zk, znodes.BROKERS)) if tps else set()
    paths = {tp: znodes.count_path(tp.topic, b) for tp in tps if (b := _broker(tp)) is not None and str(b) in live}
    nodes = _read(zk, dict.fromkeys(paths.values()))
    counts: dict[TopicPartition, int] = {}
    for tp, path in paths.items():
        if path in nodes:
            try:
                counts[tp] = znodes.count(nodes[path], f"topic {tp.topic} on broker {_broker(tp)}")
            except RemoteError as senseless:
                left_out(zk, senseless)
    return {tp: _broker(tp) if _index(tp) < counts.get(tp, 0) else None for tp in tps}


def _counted_view(
    brokers: Mapping[int, Broker], partitions: Mapping[str, Mapping[PartitionId, Sequence[int]]]
) -> ClusterView:
    """Return topics with the partitions of live brokers, ordered by broker and index."""
    pace, done = Pace(PAUSE_PARTITIONS), 0
    topics: dict[str, dict[PartitionId, PartitionView]] = {}
    for topic, found in partitions.items():
        topics[topic] = {}
        for partition, ids in found.items():
            pace.reached(done := done + 1)
            if ids[0] in brokers:
                topics[topic][partition] = PartitionView(ids[0], tuple(ids), tuple(ids))
    return ClusterView(brokers, topics)


def _broker(tp: TopicPartition) -> int | None:
    return tp.partition.broker if isinstance(tp.partition, BrokerPartition) else None


def _index(tp: TopicPartition) -> int:
    return tp.partition.index if isinstance(tp.partition, BrokerPartition) else 0


# ---- nodes -----------------------------------------------------------------------------------------------------------


def _children(zk: Any, path: str) -> list[str]:
    """Return the names of the children; empty if the node does not exist."""
    try:
        return list(zk.get_children(path))
    except NoNodeError:
        return []


def _children_of(zk: Any, paths: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of the children of each existing node."""
    return {path: list(names) for path, names in _asked(zk, zk.get_children_async, paths).items()}


def _read(zk: Any, paths: Iterable[str]) -> dict[str, bytes]:
    """Return the data of each existing node; empty for a null, as in the topic nodes of the original 0.7."""
    return {path: found[0] or b"" for path, found in _asked(zk, zk.get_async, paths).items()}


def _asked(zk: Any, ask: Callable[[str], Any], paths: Iterable[str]) -> dict[str, Any]:
    """Return the responses by path.  Nodes whose ACL forbids reading are left out, with a warning; raises NoAuthError
    if that is true of all."""
    waiting, found = list(paths), dict[str, Any]()
    closed: dict[str, NoAuthError] = {}
    for at in range(0, len(waiting), WINDOW):
        asked = [(path, ask(path)) for path in waiting[at : at + WINDOW]]
        for path, answer in asked:
            try:
                found[path] = answer.get()
            except NoNodeError:
                continue
            except NoAuthError as refused:
                closed[path] = refused
    if closed and not found:
        raise next(iter(closed.values()))
    for path in closed:
        left_out(zk, closed_node(path))
    return found
