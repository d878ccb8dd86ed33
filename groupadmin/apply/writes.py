"""Writes of offsets to both stores: compare and set in ZooKeeper, commits without a member in Kafka; each is read back.

    written    the store holds it, as read after the write
    expiring   Kafka will delete it at its next check (0.8.2 every ten minutes, later releases every
               offsets.retention.check.interval.ms); until then it can still be read.  Before 2.4 there is no request
               that deletes an offset at once (before 1.1 none that deletes a group)
    stale      another process wrote it since it was read: it was left alone
    failed     it is not known to be stored; why says what happened

Kafka is written first, then ZooKeeper for the offsets that Kafka accepted, as in a commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from groupadmin.plan.changes import Change
from groupadmin.plan.resets import Target
from groupadmin.plan.undo import same
from groupadmin.snapshot.cluster import AdminClient, Cluster, brokers_of
from groupadmin.snapshot.kafka import AGAIN, NoSuchPartition, ask_coordinators, positions
from groupadmin.snapshot.model import KafkaRow, ZkRow
from kafkawire.dialects import Store as StoreName
from kafkawire.errors import WireError
from kafkawire.model import Broker, TopicPartition
from kafkawire.protocol import apis, grouptypes
from zkconsumer.offsets.coordinator import Coordinator
from zkconsumer.offsets.former import metadata_of, topic_in
from zkconsumer.offsets.store import NONE, Committed, Unknown, UnreadableNode, position_of
from zkconsumer.refusals import may_be_written, refusal
from zkconsumer.session.nodes import Read, read_nodes, write_nodes
from zkconsumer.session.zkcalls import WriteOutcome
from zkconsumer.session.zksession import ZkSession

State = Literal["written", "expiring", "stale", "failed"]
AT_ONCE = 2000  # nodes
GROUP_ID_NOT_FOUND = 69  # of a group that is gone already
WAIT_MS, BACKOFF_MS = 15_000, 500  # for a coordinator that loads, moves, or is being created
EXPIRING = (
    "Kafka deletes it at its next check (within ten minutes, later releases as "
    "offsets.retention.check.interval.ms says); until then it is still read"
)


@dataclass(frozen=True, slots=True)
class StoreWrite:
    """One offset for one store.  position None: delete it; UnreadableNode (ZooKeeper only): data that is restored.

    node     ZooKeeper's node as read: it is replaced only in that version; None: it must not exist
    held     Kafka's offset as read, for one that is deleted
    text     the metadata to commit to Kafka with the offset
    """

    group: str
    tp: TopicPartition
    store: StoreName
    position: Target
    _: KW_ONLY
    node: ZkRow | None = None
    held: KafkaRow | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """Result of a write.  why: a sentence, empty when it succeeded.  unclear: failed, and the store may hold it."""

    write: StoreWrite
    state: State
    why: str = ""
    unclear: bool = False


def store_writes(
    changes: Iterable[Change],
    nodes: Mapping[tuple[str, TopicPartition], ZkRow],
    kafka: Mapping[tuple[str, TopicPartition], KafkaRow],
    texts: Mapping[tuple[str, TopicPartition], str] | None = None,
) -> list[StoreWrite]:
    """Return the writes of a plan, in its order.  nodes and kafka: the stores as read, by group and partition.

    texts: metadata for Kafka (default: what Kafka holds).
    """
    found = []
    for change in changes:
        key = (change.group, change.tp)
        held = kafka.get(key)
        text = (texts or {}).get(key, held.metadata if held is not None else "")
        for store in change.stores:
            if store == "kafka":
                found.append(StoreWrite(*key, store, change.after, held=held, text=text))
            else:
                found.append(StoreWrite(*key, store, change.after, node=nodes.get(key)))
    return found


def apply_writes(
    admin: AdminClient,
    cluster: Cluster,
    wanted: Sequence[StoreWrite],
    *,
    retention_ms: int | None = None,
    progress: Callable[[int], object] = lambda done: None,
) -> list[WriteResult]:
    """Execute writes; return a result for each, in order.  retention_ms: offset retention in Kafka; None: the broker's.

    A write to ZooKeeper is skipped ("failed") when the write of the same partition to Kafka failed.
    Raises ZooKeeperAway when the state of ZooKeeper cannot be read any more.
    """
    found: dict[tuple[str, TopicPartition, StoreName], WriteResult] = {}
    for some in _by_group(write for write in wanted if write.store == "kafka").values():
        found |= {_key(row.write): row for row in write_kafka(admin, cluster, some, retention_ms)}
        progress(len(found))
    zookeeper = []
    for write in (write for write in wanted if write.store == "zookeeper"):
        before = found.get((write.group, write.tp, "kafka"))
        if before is not None and before.state in ("failed", "stale"):
            says = "and Kafka may have it, so write both again" if before.unclear else "because Kafka does not have it"
            found[_key(write)] = WriteResult(write, "failed", f"left as it was, {says}: {before.why}")
        else:
            zookeeper.append(write)
    for first in range(0, len(zookeeper), AT_ONCE):
        found |= {_key(row.write): row for row in write_zookeeper(admin, zookeeper[first : first + AT_ONCE])}
        progress(len(found))
    return [found[_key(write)] for write in wanted]


def _key(write: StoreWrite) -> tuple[str, TopicPartition, StoreName]:
    return write.group, write.tp, write.store


def _by_group(wanted: Iterable[StoreWrite]) -> dict[str, list[StoreWrite]]:
    found: dict[str, list[StoreWrite]] = {}
    for write in wanted:
        found.setdefault(write.group, []).append(write)
    return found


# ZooKeeper ------------------------------------------------------------------------------------------------------------


def write_zookeeper(admin: AdminClient, wanted: Sequence[StoreWrite]) -> list[WriteResult]:
    """Execute writes to ZooKeeper, pipelined: each node only in the version that was read.  Raises ZooKeeperAway."""
    session = admin.session
    if session is None:
        return [WriteResult(write, "failed", "no ZooKeeper was named (-z)") for write in wanted]
    paths = {admin.dialect.znodes.offset(write.group, write.tp): write for write in wanted}
    outcomes = _write_nodes(session, paths)
    there = read_nodes(session, paths)
    return [_seen(path, write, outcomes[path], there[path]) for path, write in paths.items()]


def _write_nodes(session: ZkSession, paths: Mapping[str, StoreWrite]) -> dict[str, WriteOutcome]:
    fresh: dict[str, bytes] = {}
    moved: dict[str, tuple[bytes, int]] = {}
    gone: dict[str, int] = {}
    for path, write in paths.items():
        if write.position is None:
            if write.node is not None:
                gone[path] = write.node.version
        elif write.node is None:
            fresh[path] = _data(write.position)
        else:
            moved[path] = (_data(write.position), write.node.version)
    make_folders(session, fresh)
    nothing = dict.fromkeys(paths, WriteOutcome.DONE)  # default: nothing to delete, and there was nothing
    return nothing | write_nodes(session, fresh, moved, gone)


def _data(position: int | UnreadableNode) -> bytes:
    return b"%d" % position if isinstance(position, int) else position.data


def make_folders(session: ZkSession, paths: Iterable[str]) -> None:
    """Create missing parent nodes, level by level."""
    folders = {path.rpartition("/")[0] for path in paths}
    missing = [path for path, node in read_nodes(session, folders).items() if node is None]
    above = {"/".join(path.split("/")[:depth]) for path in missing for depth in range(3, path.count("/") + 2)}
    for depth in sorted({path.count("/") for path in above}):
        session.create({path: b"" for path in above if path.count("/") == depth})


def _seen(path: str, write: StoreWrite, outcome: WriteOutcome, node: Read | None) -> WriteResult:
    """Return the result of a write, by the node as read after it."""
    held = NONE if node is None else position_of(path, node.data)
    done = outcome is WriteOutcome.DONE
    if same(held, write.position):
        return WriteResult(write, "written", "" if done else f"{path}: another process wrote the same meanwhile")
    says = held.reason if isinstance(held, Unknown) else "it is not there" if held is NONE else f"it holds {held}"
    if done:
        return WriteResult(write, "failed", f"{path} was written, but when read back {says}: another process writes it")
    return WriteResult(write, "stale", f"{path} changed since it was read, and was left alone: {says}")


# Kafka ----------------------------------------------------------------------------------------------------------------


def write_kafka(
    admin: AdminClient, cluster: Cluster, wanted: Sequence[StoreWrite], retention_ms: int | None = None
) -> list[WriteResult]:
    """Execute writes of one group to Kafka; the look-up of the coordinator may create __consumer_offsets.

    A group with members of the consumer protocol refuses them (GroupActive): each result has the sentence.
    """
    if not wanted:
        return []
    group = wanted[0].group
    puts = [write for write in wanted if write.position is not None]
    found = _commit(admin, cluster, group, wanted=puts, retention_ms=retention_ms) if puts else {}
    found |= _delete(admin, cluster, group, [write for write in wanted if write.position is None])
    return [found[write.tp] for write in wanted]


def coordinator(admin: AdminClient, cluster: Cluster) -> Coordinator:
    """Return the client for group coordinators, with waits that end after WAIT_MS."""
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
    admin: AdminClient, cluster: Cluster, group: str, *, wanted: Sequence[StoreWrite], retention_ms: int | None
) -> dict[TopicPartition, WriteResult]:
    asked = coordinator(admin, cluster)
    positions = {
        write.tp: (write.position, _text(cluster, write)) for write in wanted if isinstance(write.position, int)
    }
    try:
        results = asked.commit(group, positions, "kafka", retention_ms)
    except WireError as why:
        return {write.tp: WriteResult(write, "failed", str(why)) for write in wanted}
    accepted = [tp for tp, error in results.items() if error is None]
    there: dict[TopicPartition, Committed]
    try:
        there = asked.fetch(group, accepted, "kafka") if accepted else {}
    except WireError as why:
        there = dict.fromkeys(accepted, Unknown(str(why)))
    return {write.tp: _read_back(write, results[write.tp], there.get(write.tp, NONE)) for write in wanted}


def _text(cluster: Cluster, write: StoreWrite) -> str:
    """Return the metadata to commit.  If it names the creation of the topic (zkconsumer.offsets.former), it is set to
    the current topic: the offset is meant for that one, whatever was there before."""
    if topic_in(write.text) is None:
        return write.text
    topic = cluster.topics.get(write.tp.topic)
    return metadata_of(topic.creation if topic is not None else None)


def _read_back(write: StoreWrite, error: WireError | None, held: Committed) -> WriteResult:
    if error is not None:
        return WriteResult(write, "failed", str(error), may_be_written(error))
    if same(held, write.position):
        return WriteResult(write, "written")
    says = held.reason if isinstance(held, Unknown) else "nothing" if held is NONE else str(held)
    return WriteResult(
        write, "failed", f"{write.tp}: Kafka accepted {write.position}, but read back: {says}", unclear=True
    )


def deletes_groups(admin: AdminClient) -> bool:
    """True if brokers delete a group with all its offsets, also those that were not read."""
    return grouptypes.speaks(admin.dialect, apis.DELETE_GROUPS)


def delete_from_kafka(admin: AdminClient, cluster: Cluster, wanted: Sequence[StoreWrite]) -> list[WriteResult]:
    """Delete the groups from Kafka whose offsets these are; where brokers cannot do that, before 1.1, the offsets."""
    groups = list(dict.fromkeys(write.group for write in wanted))
    if not deletes_groups(admin):
        return apply_writes(admin, cluster, wanted)
    questions = [(group, group, grouptypes.delete_groups(admin.dialect, [group])) for group in groups]
    replies = ask_coordinators(admin, cluster, questions, _deleted_again)
    wrong = {}
    for group, (broker, reply) in replies.items():
        wrong[group] = reply if isinstance(reply, str) else _refused(group, broker, reply["results"][0]["error"])
    left = positions(admin, cluster, {group: [w.tp for w in wanted if w.group == group] for group in groups})
    return [_gone(write, wrong[write.group], left[write.group][write.tp].position) for write in wanted]


def _delete(
    admin: AdminClient, cluster: Cluster, group: str, wanted: Sequence[StoreWrite]
) -> dict[TopicPartition, WriteResult]:
    """Delete offsets from Kafka; nothing to do for those it does not hold."""
    held = [write for write in wanted if write.held is None or write.held.position is not NONE]
    if not held or not grouptypes.speaks(admin.dialect, apis.OFFSET_DELETE):
        return _expire(admin, cluster, group, wanted)
    tps = [write.tp for write in held]
    question = (group, group, grouptypes.delete_offsets(admin.dialect, group, tps))
    ((broker, reply),) = ask_coordinators(admin, cluster, [question], _error_again).values()
    wrong = dict.fromkeys(tps, reply if isinstance(reply, str) else _refused(group, broker, reply["error"]))
    for topic in () if isinstance(reply, str) else reply["topics"]:
        for row in topic["partitions"]:
            tp = TopicPartition(topic["topic"], row["partition"])
            wrong[tp] = wrong[tp] or _refused(group, broker, row["error"], tp)
    left = positions(admin, cluster, {group: tps})[group]
    found = {write.tp: WriteResult(write, "written") for write in wanted}
    return found | {write.tp: _gone(write, wrong[write.tp], left[write.tp].position) for write in held}


def _gone(write: StoreWrite, wrong: str, held: Committed) -> WriteResult:
    """Return the result of a deletion, by what Kafka holds after it."""
    if held is NONE or (not wrong and isinstance(held, NoSuchPartition)):
        return WriteResult(write, "written")
    why = wrong or f"{write.tp}: Kafka accepted the deletion, but read back: {getattr(held, 'reason', held)}"
    return WriteResult(write, "failed", why, unclear=not wrong)


def _refused(group: str, broker: Broker | None, code: int, tp: TopicPartition | None = None) -> str:
    return str(refusal(code, broker, tp, group=group)) if code not in (0, GROUP_ID_NOT_FOUND) else ""


def _deleted_again(reply: Mapping[str, Any]) -> int:
    return next((row["error"] for row in reply["results"] if row["error"] in AGAIN), 0)


def _error_again(reply: Mapping[str, Any]) -> int:
    return reply["error"] if reply["error"] in AGAIN else 0


def _expire(
    admin: AdminClient, cluster: Cluster, group: str, wanted: Sequence[StoreWrite]
) -> dict[TopicPartition, WriteResult]:
    """Delete offsets from Kafka by an expiry in the past; nothing to do for those it does not hold."""
    held = [write.tp for write in wanted if write.held is None or write.held.position is not NONE]
    try:
        results: Mapping[TopicPartition, WireError | None] = (
            coordinator(admin, cluster).forget(group, held) if held else {}
        )
    except WireError as why:
        results = dict.fromkeys(held, why)
    found = {write.tp: WriteResult(write, "written") for write in wanted}
    for write in wanted:
        if write.tp in results:
            error = results[write.tp]
            found[write.tp] = (
                WriteResult(write, "failed", str(error), may_be_written(error))
                if error
                else WriteResult(write, "expiring", EXPIRING)
            )
    return found
