"""What a backfill will do, found out on the driver before anything is written."""

from __future__ import annotations

from collections.abc import Mapping

from kafkawire.cluster.view import ClusterView
from kafkawire.model import TopicPartition
from sparkpipeline.backfill.ends import settled
from sparkpipeline.backfill.model import Lane, Plan, Request
from sparkpipeline.backfill.sides import HandOver, Sides
from sparkpipeline.brokers import Brokers
from sparkpipeline.errors import OptionRefused, Refused, UnknownPartition
from sparkpipeline.source.cluster import group_positions
from sparkpipeline.source.resolving import Resolved, resolve_batch

REPLICATED_S = 30.0  # how long the replicas of a target may be behind when it is planned


def make_plan(request: Request, sides: Sides, now_ms: int, version: str) -> Plan:
    """Ranges fixed, the target looked at, the group free to be handed over.

    Raises OptionRefused, UnknownPartition, Refused and whatever asking a cluster raises.
    """
    with Brokers(sides.source) as source, Brokers(sides.target) as target:
        _two_clusters(source.view(), target.view())
        found = resolve_batch(sides.source_options, source, group_positions(sides.source_options, sides.source))
        if not found:
            raise UnknownPartition(f"the source has no {sides.source_options.subscription}")
        _there(found, source.view(), target.view(), request.partitioning)
        starts: Mapping[TopicPartition, int] = {}
        if request.exclusive:
            starts = settled(target, [tp for tp, _, _ in found], 0.0, REPLICATED_S)
    lanes = tuple(
        Lane(number, tp.topic, _number(tp), start, until, starts.get(tp))
        for number, (tp, start, until) in enumerate(found)
    )
    plan = Plan(now_ms, request, sides.source.release, sides.target.release, lanes, version)
    hand_over = hand_over_of(plan, sides)
    if hand_over is not None:
        hand_over.check(ends_of(plan))
    return plan


def hand_over_of(plan: Plan, sides: Sides) -> HandOver | None:
    """None: no group goes on behind this backfill.  Raises OptionRefused."""
    if plan.request.group is None:
        return None
    return HandOver(plan.request.group, plan.request.storage, sides, [lane.tp for lane in plan.lanes])


def ends_of(plan: Plan) -> dict[TopicPartition, int]:
    """Where the group goes on: exactly at the end of each range."""
    return {lane.tp: lane.until for lane in plan.lanes}


def bound(plan: Plan, parallel: int) -> int:
    """Most messages that one crash of the driver can repeat: a chunk for each task at work."""
    if plan.request.exclusive:
        return 0
    sizes = sorted((min(plan.request.chunk, lane.until - lane.start) for lane in plan.lanes), reverse=True)
    return sum(sizes[:parallel])


def _two_clusters(source: ClusterView, target: ClusterView) -> None:
    both = {(b.host, b.port) for b in source.brokers.values()} & {(b.host, b.port) for b in target.brokers.values()}
    if both:
        host, port = min(both)
        raise OptionRefused(f"source and target are one cluster: {host}:{port} is a broker of both", option="--target")


def _there(found: Resolved, source: ClusterView, target: ClusterView, partitioning: str) -> None:
    missing = {}
    for tp, _, _ in found:
        count = len(target.partitions(tp.topic))
        if not count or (partitioning == "identity" and tp.partition not in target.topics[tp.topic]):
            missing[tp.topic] = (len(source.partitions(tp.topic)), count)
    if missing:
        told = ", ".join(
            f"{topic} with {wanted} partitions" + (f" (it has {has})" if has else "")
            for topic, (wanted, has) in sorted(missing.items())
        )
        raise UnknownPartition(f"nothing here creates topics; create at the target: {told}", topic=min(missing))


def _number(tp: TopicPartition) -> int:
    if not isinstance(tp.partition, int):
        raise Refused("partitions of 0.7 cannot be copied by this version", topic=tp.topic, partition=tp.partition)
    return tp.partition
