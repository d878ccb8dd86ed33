"""Bounds: up to where each log is compared while messages flow, and what its cluster says about a source.

    begins    the first offset that is compared: where the log begins, or of a time
    end       where a source log ended when the comparison began
    until     the source is compared up to here: `end`, or the group's committed offset where that has not come so far
    later     where the source log ended after the target's ends were taken: what lies between `until` and here may be
              at the target or not

The order of taking makes it hold: first the sources' ends, then the wait until the group has committed them, then the
target's topics and their ends, then the sources' ends once more.  So everything before `until` was acknowledged by the
target before its end was taken, and nothing at the target comes from behind `later`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from kazoo.exceptions import NoAuthError, NoNodeError

from groundwork.jsontext import json_value
from groundwork.sentences import counted
from groundwork.tasks import now, sleep
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.cluster.zookeeper import read_partitions
from kafkawire.dialects import expected
from kafkawire.model import Broker, PartitionId, TopicPartition
from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC
from mirrormaker.options import MirrorOptions, SourceOptions
from mirrormaker.probe import probe_source, source_view
from mirrormaker.zookeeper import CONNECT_S, zookeeper_session
from zkconsumer.filters import TopicFilter
from zkconsumer.offsets.former import written_before
from zkconsumer.offsets.store import position_of
from zkconsumer.simple import SimpleConsumer

POLL_S = 0.5
TOPICS = "/brokers/topics"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBounds:
    """Offsets of one source partition.  cut: the log begins behind what was written first, or a time was given."""

    begins: int
    until: int
    end: int
    later: int
    cut: bool


@dataclass(frozen=True, slots=True)
class TargetBounds:
    """Offsets of one target partition; cut as in SourceBounds.  log_start: where its log begins."""

    begins: int
    until: int
    cut: bool
    log_start: int = 0

    @property
    def deleted(self) -> int:
        """Return how many of the first offsets retention (or DeleteRecords) has deleted."""
        return self.log_start if self.begins == self.log_start else 0


@dataclass(frozen=True, slots=True)
class SourceCluster:
    """A source as ZooKeeper, or its brokers, have it: brokers, and the partitions of the topics that are mirrored."""

    options: SourceOptions
    brokers: Mapping[int, Broker]
    partitions: Mapping[str, list[PartitionId]]
    compacted: frozenset[str]

    @property
    def tps(self) -> list[TopicPartition]:
        return [TopicPartition(topic, p) for topic, partitions in self.partitions.items() for p in partitions]


def read_source(options: SourceOptions, mirror: MirrorOptions, only: TopicFilter | None) -> SourceCluster:
    """Return the topics of a source that are mirrored.  only: of these.  Raises what probe_source raises."""
    seen = probe_source(options, mirror, CONNECT_S)
    names = [topic for topic in seen.topics if only is None or only.matches(topic, exclude_internal=False)]
    speaks = expected(options.version)
    if options.coordinated:
        view = source_view(options, CONNECT_S, ClusterVersions(options.version))
        partitions = {topic: speaks.in_order(view.topics[topic]) for topic in names if topic in view.topics}
        return SourceCluster(options, seen.brokers, partitions, frozenset())
    with _session(options) as zk:
        found = read_partitions(zk, speaks.znodes, names)
        partitions = {topic: speaks.in_order(found[topic]) for topic in names if topic in found}
        return SourceCluster(options, seen.brokers, partitions, compacted_topics(zk, partitions))


def compacted_topics(zk: Any, topics: Collection[str]) -> frozenset[str]:
    """Return the topics whose settings in ZooKeeper say that they are compacted."""
    asked = {topic: zk.get_async(f"/config/topics/{topic}") for topic in topics}
    return frozenset(topic for topic, answer in asked.items() if _compacted(answer))


def _compacted(answer: Any) -> bool:
    try:
        settings = json_value(answer.get()[0])
        return "compact" in str(settings["config"].get("cleanup.policy", ""))
    except (NoNodeError, ValueError, KeyError, AttributeError, TypeError):
        return False


# ---- the group -------------------------------------------------------------------------------------------------------


def committed(source: SourceCluster, tps: Collection[TopicPartition], zk: Any) -> dict[TopicPartition, int]:
    """Return the group's committed offsets, from the store that keeps them; partitions without one are left out.

    zk: a client of the source's ZooKeeper; None of a group that Kafka coordinates.  An offset of an earlier topic of
    the same name is none.  Raises KazooException, ConsumerError, WireError.
    """
    found: dict[TopicPartition, int] = {}
    mode = source.options.offset_mode
    if mode != "kafka":
        found |= _in_zookeeper(source, tps, zk)
    if mode != "zookeeper":
        for tp, at in _in_kafka(source, tps, zk).items():
            found[tp] = max(at, found.get(tp, 0))
    return found


def _in_zookeeper(source: SourceCluster, tps: Collection[TopicPartition], zk: Any) -> dict[TopicPartition, int]:
    znodes = expected(source.options.version).znodes
    by_broker = znodes.PARTITIONS_BY_BROKER
    found: dict[TopicPartition, int] = {}
    paths = {tp: znodes.offset(source.options.group_id, tp) for tp in tps}
    asked = {tp: zk.get_async(path) for tp, path in paths.items()}
    topics = {topic: zk.exists_async(f"{TOPICS}/{topic}") for topic in {tp.topic for tp in tps}}
    created = {topic: answer.get() for topic, answer in topics.items()}
    for tp, answer in asked.items():
        try:
            data, stat = answer.get()
        except NoNodeError:
            continue
        topic = None if by_broker else created[tp.topic]
        at = position_of(paths[tp], data)
        if isinstance(at, int) and not written_before(stat.mzxid, topic.czxid if topic is not None else None):
            found[tp] = at
    return found


def _in_kafka(source: SourceCluster, tps: Collection[TopicPartition], zk: Any) -> dict[TopicPartition, int]:
    """Not asked before there is anything: looking for a coordinator would create the topic of offsets."""
    if zk is not None and zk.exists(f"{TOPICS}/{OFFSETS_TOPIC}") is None:
        return {}
    broker = next(iter(source.brokers.values()))
    options = source.options
    with SimpleConsumer(
        broker.host, broker.port, options.version, "mirrormaker-verify", 10_000, security=options.kafka_security
    ) as asked:
        rows = asked.fetch_offsets(source.options.group_id, tps, "kafka")
    return {tp: at for tp, at in rows.items() if isinstance(at, int)}


def _has_member(source: SourceCluster, zk: Any) -> bool:
    """True if a member of the group is registered in ZooKeeper, or if that cannot be known."""
    if zk is None:
        return True
    try:
        return bool(zk.get_children(expected(source.options.version).znodes.ids(source.options.group_id)))
    except NoNodeError:
        return False
    except NoAuthError:  # the offsets may be open to us all the same
        return True


def wait_committed(
    source: SourceCluster,
    ends: Mapping[TopicPartition, int],
    begins: Mapping[TopicPartition, int],
    *,
    wait_s: float,
    tell: Callable[[str], object],
) -> dict[TopicPartition, int]:
    """Until where each partition is compared, once the group has committed all ends, or the time is over."""
    deadline = now() + wait_s
    with nullcontext() if source.options.coordinated else _session(source.options) as zk:
        while True:
            there = committed(source, ends, zk)
            # Nothing committed: nothing is known to be at the target.
            until = {tp: _up_to(there.get(tp), begins[tp], end) for tp, end in ends.items()}
            behind = [tp for tp, end in ends.items() if until[tp] < end]
            if not behind or now() >= deadline:
                return until
            left = f"{len(behind)} of {counted(len(ends), 'partition')}"
            at_most = (
                f"source {source.options.name}: waiting {deadline - now():.0f} s at most for {left} to be committed"
            )
            tell(
                at_most if _has_member(source, zk) else f"{at_most}; no member of group {source.options.group_id} runs"
            )
            sleep(min(POLL_S, max(0.0, deadline - now())))


def _up_to(at: int | None, begins: int, end: int) -> int:
    return begins if at is None else max(begins, min(at, end))


def _session(options: SourceOptions) -> Any:
    return zookeeper_session("zookeeper.connect", options.zookeeper_connect, CONNECT_S, options.security)
