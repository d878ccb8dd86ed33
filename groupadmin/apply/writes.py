"""Positions into both stores: compare and set in ZooKeeper, commits of no member in Kafka; every write is read back.

    written    the store holds it now, as was read after the write
    expiring   Kafka was told to forget it and will, at its next check (0.8.2 each ten minutes, later releases as
               offsets.retention.check.interval.ms says); until then it is still read.  No request of these releases
               deletes one at once
    stale      somebody else wrote it since it was looked at: it was left alone
    failed     it is not known to be there; why says what happened

Kafka first, then ZooKeeper for what Kafka accepted, as a commit does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from groupadmin.plan.changes import Change
from groupadmin.plan.undo import same
from groupadmin.snapshot.cluster import AdminClient, Cluster, brokers_of
from groupadmin.snapshot.model import KafkaRow, ZkRow
from kafkawire.dialects import Store as StoreName
from kafkawire.errors import WireError
from kafkawire.model import TopicPartition
from zkconsumer.offsets.coordinator import Coordinator
from zkconsumer.offsets.former import metadata_of, topic_in
from zkconsumer.offsets.store import NONE, Committed, Unknown, position_of
from zkconsumer.session.nodes import Read, read_nodes, write_nodes
from zkconsumer.session.zkcalls import WriteOutcome
from zkconsumer.session.zksession import ZkSession

State = Literal["written", "expiring", "stale", "failed"]
AT_ONCE = 2000  # nodes
WAIT_MS, BACKOFF_MS = 15_000, 500  # for a coordinator that loads, moves, or is being made
EXPIRING = (
    "Kafka was told to forget it and does so at its next check (within ten minutes, later ones as "
    "offsets.retention.check.interval.ms says); until then it is still read"
)


@dataclass(frozen=True, slots=True)
class Order:
    """One position for one store.  position None: take it away.

    node     ZooKeeper's as it was looked at: it is replaced only while it is that one; None: there must be none
    held     Kafka's as it was looked at, for a position that is taken away
    text     the metadata that goes into Kafka with the position
    """

    group: str
    tp: TopicPartition
    store: StoreName
    position: int | None
    node: ZkRow | None = None
    held: KafkaRow | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """What became of an order; why is a sentence, empty when all is well."""

    order: Order
    state: State
    why: str = ""


def orders(
    changes: Iterable[Change],
    nodes: Mapping[tuple[str, TopicPartition], ZkRow],
    kafka: Mapping[tuple[str, TopicPartition], KafkaRow],
    texts: Mapping[tuple[str, TopicPartition], str] | None = None,
) -> list[Order]:
    """The orders of a plan, in its order; nodes and kafka: what was looked at, by group and partition.

    texts: metadata for Kafka; where there is none, what Kafka holds stays.
    """
    found = []
    for change in changes:
        key = (change.group, change.tp)
        held = kafka.get(key)
        text = (texts or {}).get(key, held.metadata if held is not None else "")
        for store in change.stores:
            if store == "kafka":
                found.append(Order(*key, store, change.after, held=held, text=text))
            else:
                found.append(Order(*key, store, change.after, node=nodes.get(key)))
    return found


def apply_orders(
    admin: AdminClient,
    cluster: Cluster,
    wanted: Sequence[Order],
    retention_ms: int | None = None,
    progress: Callable[[int], object] = lambda done: None,
) -> list[Written]:
    """Write all of these; a row for each, in order.  retention_ms: how long Kafka is to keep them; None: as it does.

    An order for ZooKeeper is left ("failed") where one for Kafka of the same partition was not written.
    Raises ZooKeeperAway when nothing can be said any more about ZooKeeper.
    """
    found: dict[tuple[str, TopicPartition, StoreName], Written] = {}
    for some in _by_group(order for order in wanted if order.store == "kafka").values():
        found |= {_key(row.order): row for row in write_kafka(admin, cluster, some, retention_ms)}
        progress(len(found))
    zookeeper = []
    for order in (order for order in wanted if order.store == "zookeeper"):
        before = found.get((order.group, order.tp, "kafka"))
        if before is not None and before.state in ("failed", "stale"):
            why = f"left as it was, because Kafka has it not: {before.why}"
            found[_key(order)] = Written(order, "failed", why)
        else:
            zookeeper.append(order)
    for first in range(0, len(zookeeper), AT_ONCE):
        found |= {_key(row.order): row for row in write_zookeeper(admin, zookeeper[first : first + AT_ONCE])}
        progress(len(found))
    return [found[_key(order)] for order in wanted]


def _key(order: Order) -> tuple[str, TopicPartition, StoreName]:
    return order.group, order.tp, order.store


def _by_group(wanted: Iterable[Order]) -> dict[str, list[Order]]:
    found: dict[str, list[Order]] = {}
    for order in wanted:
        found.setdefault(order.group, []).append(order)
    return found


# ZooKeeper ------------------------------------------------------------------------------------------------------------


def write_zookeeper(admin: AdminClient, wanted: Sequence[Order]) -> list[Written]:
    """Orders for ZooKeeper, pipelined: each node only in the version that was looked at.  Raises ZooKeeperAway."""
    session = admin.session
    if session is None:
        return [Written(order, "failed", "no ZooKeeper was named (-z)") for order in wanted]
    paths = {admin.dialect.znodes.offset(order.group, order.tp): order for order in wanted}
    outcomes = _write_nodes(session, paths)
    there = read_nodes(session, paths)
    return [_seen(path, order, outcomes[path], there[path]) for path, order in paths.items()]


def _write_nodes(session: ZkSession, paths: Mapping[str, Order]) -> dict[str, WriteOutcome]:
    fresh: dict[str, bytes] = {}
    moved: dict[str, tuple[bytes, int]] = {}
    gone: dict[str, int] = {}
    for path, order in paths.items():
        if order.position is None:
            if order.node is not None:
                gone[path] = order.node.version
        elif order.node is None:
            fresh[path] = b"%d" % order.position
        else:
            moved[path] = (b"%d" % order.position, order.node.version)
    _make_folders(session, fresh)
    nothing = dict.fromkeys(paths, WriteOutcome.DONE)  # where nothing is to be taken away, and nothing was there
    return nothing | write_nodes(session, fresh, moved, gone)


def _make_folders(session: ZkSession, paths: Iterable[str]) -> None:
    """The folders of these nodes, level by level, where one of them is missing."""
    folders = {path.rpartition("/")[0] for path in paths}
    missing = [path for path, node in read_nodes(session, folders).items() if node is None]
    above = {"/".join(path.split("/")[:depth]) for path in missing for depth in range(3, path.count("/") + 2)}
    for depth in sorted({path.count("/") for path in above}):
        session.create({path: b"" for path in above if path.count("/") == depth})


def _seen(path: str, order: Order, outcome: WriteOutcome, node: Read | None) -> Written:
    """What became of an order, by the node as it was read after the write."""
    held = NONE if node is None else position_of(path, node.data)
    done = outcome is WriteOutcome.DONE
    if same(held, order.position):
        return Written(order, "written", "" if done else f"{path}: somebody else wrote the same meanwhile")
    says = held.reason if isinstance(held, Unknown) else "it is not there" if held is NONE else f"it holds {held}"
    if done:
        return Written(order, "failed", f"{path} was written, and read again {says}: somebody else writes it")
    return Written(order, "stale", f"{path} changed since it was looked at, and was left alone: {says}")


# Kafka ----------------------------------------------------------------------------------------------------------------


def write_kafka(
    admin: AdminClient, cluster: Cluster, wanted: Sequence[Order], retention_ms: int | None = None
) -> list[Written]:
    """Orders for Kafka of one group; the coordinator is looked up, which creates __consumer_offsets at need.

    A group with members of the consumer protocol refuses them (GroupActive), each with its sentence.
    """
    if not wanted:
        return []
    group = wanted[0].group
    puts = [order for order in wanted if order.position is not None]
    found = _commit(admin, cluster, group, puts, retention_ms) if puts else {}
    found |= _expire(admin, cluster, group, [order for order in wanted if order.position is None])
    return [found[order.tp] for order in wanted]


def coordinator(admin: AdminClient, cluster: Cluster) -> Coordinator:
    """Whoever coordinates groups in this admin, with waits that end after WAIT_MS."""
    return Coordinator(
        lambda: brokers_of(admin, cluster),
        admin.links,
        admin.dialect,
        retries=WAIT_MS // BACKOFF_MS,
        backoff_ms=BACKOFF_MS,
        timeout_ms=WAIT_MS,
        sleep=admin.sleep,
        now=admin.now,
        clock_ms=admin.clock_ms,
    )


def _commit(
    admin: AdminClient, cluster: Cluster, group: str, wanted: Sequence[Order], retention_ms: int | None
) -> dict[TopicPartition, Written]:
    asked = coordinator(admin, cluster)
    positions = {order.tp: (order.position, _text(cluster, order)) for order in wanted if order.position is not None}
    try:
        results = asked.commit(group, positions, "kafka", retention_ms)
        accepted = [tp for tp, error in results.items() if error is None]
        there = asked.fetch(group, accepted, "kafka") if accepted else {}
    except WireError as why:
        return {order.tp: Written(order, "failed", str(why)) for order in wanted}
    return {order.tp: _read_back(order, results[order.tp], there.get(order.tp, NONE)) for order in wanted}


def _text(cluster: Cluster, order: Order) -> str:
    """The metadata to commit.  Where it names the topic that a consumer of ours read (offsets/former.py), it names that
    of today from now on: what is written here is meant for it, whatever was there before."""
    if topic_in(order.text) is None:
        return order.text
    topic = cluster.topics.get(order.tp.topic)
    return metadata_of(topic.creation if topic is not None else None)


def _read_back(order: Order, error: WireError | None, held: Committed) -> Written:
    if error is not None:
        return Written(order, "failed", str(error))
    if same(held, order.position):
        return Written(order, "written")
    says = held.reason if isinstance(held, Unknown) else "nothing" if held is NONE else str(held)
    return Written(order, "failed", f"{order.tp}: Kafka took {order.position}, and read again it holds: {says}")


def _expire(admin: AdminClient, cluster: Cluster, group: str, wanted: Sequence[Order]) -> dict[TopicPartition, Written]:
    """Tell Kafka to forget them; where it holds nothing, nothing is to be done."""
    held = [order.tp for order in wanted if order.held is None or order.held.position is not NONE]
    try:
        results: Mapping[TopicPartition, WireError | None] = (
            coordinator(admin, cluster).forget(group, held) if held else {}
        )
    except WireError as why:
        results = dict.fromkeys(held, why)
    found = {order.tp: Written(order, "written") for order in wanted}
    for order in wanted:
        if order.tp in results:
            error = results[order.tp]
            found[order.tp] = Written(order, "failed", str(error)) if error else Written(order, "expiring", EXPIRING)
    return found
