"""Positions taken over from an older loader, before the first load or (--replace) instead of the job's own.

    --from-group   where a group stands, in ZooKeeper or in Kafka: Camus-like loaders, old consumers, our own daemon
    --from-json    {"orders": {"0": 23, "1": -2}}, Spark's own offset JSON: -2 is the earliest offset, -1 the latest

It is a batch of kind init: it brings no files, and its manifest has the positions.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkawire.model import TopicPartition
from sparkpipeline.errors import OffsetOutOfRange, OptionRefused, Refused, UnknownPartition
from sparkpipeline.ledger.model import Plan
from sparkpipeline.load.facts import Standing
from sparkpipeline.load.logmarks import Marks
from sparkpipeline.load.plan import INIT, Positions, in_order
from sparkpipeline.load.planner import Log
from sparkpipeline.source.offsets import EARLIEST, LATEST
from zkconsumer.offsets.store import Committed, FormerOffset, Unknown


def of_group(group: str, found: Mapping[TopicPartition, Committed]) -> dict[TopicPartition, int]:
    """The positions that a group has.  Raises Refused when it has none at all, or one that cannot be read."""
    for tp in in_order(found):
        at = found[tp]
        if isinstance(at, Unknown):
            raise Refused(at.reason, group=group, topic=tp.topic, partition=tp.partition)
        if isinstance(at, FormerOffset):
            raise Refused(
                f"the group has {at.position}, {at.reason}; give the offsets to begin at with --from-json",
                group=group, topic=tp.topic, partition=tp.partition,
            )  # fmt: skip
    positions = {tp: at for tp, at in found.items() if isinstance(at, int)}
    if not positions:
        raise Refused("the group has no position in any partition of the job: is its name right, and where it keeps"
                      " them?", group=group)  # fmt: skip
    return positions


def taken_over(
    standing: Standing, wanted: Positions, logs: Mapping[TopicPartition, Log], replace: bool
) -> dict[TopicPartition, int]:
    """All positions of the job once `wanted` (-2 and -1 allowed) is taken over.

    Raises UnknownPartition, OffsetOutOfRange for what could not be loaded from, and Refused for partitions that the job
    has loaded from, unless replace."""
    found = dict(standing.positions)
    for tp in in_order(wanted):
        log = logs.get(tp)
        if log is None:
            raise UnknownPartition("is none of the job's partitions", topic=tp.topic, partition=tp.partition)
        at = {EARLIEST: log.earliest, LATEST: log.latest}.get(wanted[tp], wanted[tp])
        if not log.earliest <= at <= log.latest:
            raise OffsetOutOfRange(
                "the log has no such position: what lies before it is deleted, or it is another log",
                topic=tp.topic, partition=tp.partition, requested=at, earliest=log.earliest, latest=log.latest,
            )  # fmt: skip
        if tp in found and found[tp] != at and not replace:
            raise Refused(
                f"the job stands at {found[tp]} already; --replace moves it to {at}: messages between the two are"
                " loaded twice, or never",
                topic=tp.topic, partition=tp.partition,
            )  # fmt: skip
        found[tp] = at
    return found


def init_plan(batch: int, now_ms: int, standing: Standing, positions: Positions, marks: Marks | None = None) -> Plan:
    """The plan of a batch that sets positions.  marks: of those that were asked for, in the logs of today: the same
    number in another log is a change, too.  Raises OptionRefused where nothing would change."""
    marks = marks or {}
    other = {tp for tp, mark in marks.items() if standing.marks.get(tp, mark) != mark}
    moved = {tp for tp, at in positions.items() if standing.positions.get(tp) != at} | other
    if not moved:
        raise OptionRefused("the job has exactly these positions already")
    # What a moved partition had passed says nothing of where it is now.
    passed = {tp: ms for tp, ms in standing.passed.items() if tp not in moved}
    back = {tp: batch for tp, at in positions.items() if tp in other or at < standing.positions.get(tp, at)}
    kept = {tp: mark for tp, mark in standing.marks.items() if tp not in moved}
    after = Standing(positions, passed, standing.averages, {**standing.set_back, **back}, {**kept, **marks})
    facts = after.facts()
    return Plan(batch, INIT, now_ms, {"facts": {**facts, "taken_over": len(moved)}})
