"""One backfill in its folder: planned once, on the driver, before anything is written; executed by one or more runs;
then handed over to the group.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from groundwork.failpoints import failpoint
from groundwork.installed import own_version
from kafkawire.cluster.view import ClusterView
from kafkawire.model import TopicPartition
from kafkawire.topicnames import why_never_written
from sparkpipeline.backfill.backfillplan import (
    BackfillPlan,
    Done,
    Lane,
    Request,
    check,
    differences,
    is_given_anew,
    unconfirmed,
)
from sparkpipeline.backfill.backfillrun import BackfillRun, CopyOutcome, on_spark
from sparkpipeline.backfill.clusters import Clusters, HandOver
from sparkpipeline.backfill.folder import BackfillFolder
from sparkpipeline.backfill.stableends import stable_ends
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.errors import OptionRefused, Refused, UnknownPartition
from sparkpipeline.ledger.files import Files
from sparkpipeline.ranges import partition_key
from sparkpipeline.source.offsetbounds import rank
from sparkpipeline.source.querycluster import group_offsets, must_differ
from sparkpipeline.source.resolver import resolve_batch

REPLICATED_S = 30.0  # how long the replicas of a target may lag when the backfill is planned
OnMark = Callable[[Lane, Done], object]


@dataclass(slots=True, kw_only=True)
class Backfill:
    """One backfill. plan: from the folder, or new. is_new: the plan is not in the folder yet. handed_over: when, if it
    was."""

    state: BackfillFolder
    plan: BackfillPlan
    sides: Clusters
    is_new: bool
    done: dict[int, Done]
    handed_over: str | None

    @staticmethod
    def open(files: Files, folder: str, asked: Request | None, secrets: Request) -> Backfill:
        """Return the backfill of a folder, or a new one as requested.

        asked: None if a command only names the folder. secrets: options that are never stored, as given now, with the
        addresses and the security of their clusters.  Raises OptionRefused, Refused if the folder has another plan, and
        the exceptions of planning.
        """
        state = BackfillFolder(files, folder)
        plan = state.plan()
        if plan is None:
            if asked is None:
                raise OptionRefused(
                    "has no plan yet: say what to copy (--source-brokers, --target-brokers, --topics ..)",
                    folder=folder,
                )
            check(asked)
            sides = Clusters.of(asked)
            return Backfill(
                state=state,
                plan=make_plan(asked, sides, _now_ms(), own_version()),
                sides=sides,
                is_new=True,
                done={},
                handed_over=None,
            )
        refuse_internal(lane.topic for lane in plan.lanes)
        other = differences(plan.request, asked) if asked is not None else []
        if other:
            raise Refused(
                f"it has another plan: {'; '.join(other)}; name only the folder to continue, or another folder",
                folder=folder,
            )
        if told := unconfirmed(plan.request, secrets):
            raise Refused(
                "a command that gives a secret has to give that cluster's addresses and kafka.security.*, *.ssl.* and"
                f" kafka.sasl.* too, as they were planned: {'; '.join(told)}",
                folder=folder,
            )
        sides = Clusters.of(_with_secrets(plan.request, secrets), plan.source_release, plan.target_release)
        return Backfill(
            state=state, plan=plan, sides=sides, is_new=False, done=state.last_done(), handed_over=state.handed_over()
        )

    @property
    def left(self) -> list[Lane]:
        """Return the lanes that are not copied to their ends."""
        return [lane for lane in self.plan.lanes if self._reached(lane) < lane.until]

    @property
    def count_left(self) -> int:
        """Return the number of offsets that are not copied."""
        return sum(lane.until - self._reached(lane) for lane in self.left)

    @property
    def is_over(self) -> bool:
        return not self.left and (self.plan.request.group is None or self.handed_over is not None)

    def may_repeat(self) -> int:
        """Return how many messages at most the next run repeats after a run that died."""
        if self.is_new or self.plan.request.exclusive or not self.state.began():
            return 0
        return sum(min(self.plan.request.chunk, lane.until - self._reached(lane)) for lane in self.left)

    def execute(self, spark: Any, parallel: int, on_mark: OnMark) -> CopyOutcome:
        """Write the plan if it is new, and copy what is left.

        Raises the exceptions of BackfillRun.execute, and Refused if a daemon of the group is at work.
        """
        if spark.sparkContext.getConf().get("spark.speculation", "false").lower() == "true":
            raise OptionRefused(
                "would run a chunk twice at the same time: set it to false for a backfill", option="spark.speculation"
            )
        if self.is_new:
            self.state.put_plan(self.plan)
            self.is_new = False
        hand_over = hand_over_of(self.plan, self.sides)
        if hand_over is not None:
            hand_over.check(ends_of(self.plan))
        run = BackfillRun(
            plan=self.plan,
            state=self.state,
            sides=self.sides,
            copy=on_spark(spark),
            cancel=spark.sparkContext.cancelAllJobs,
            on_mark=on_mark,
        )
        outcome = run.execute(f"{socket.gethostname()}:{os.getpid()}", parallel)
        self.done = outcome.done
        return outcome

    def hand_over(self) -> bool:
        """Write the group's offsets once every lane is at its end; return False if there is no group, or it was done
        before.

        Raises Refused, Mismatch.
        """
        hand_over = hand_over_of(self.plan, self.sides)
        if hand_over is None or self.handed_over is not None or self.left:
            return False
        failpoint("backfill before queue")
        ends = ends_of(self.plan)
        hand_over.write(ends)
        failpoint("backfill after queue")
        self.state.put_handed_over(hand_over.group, len(ends), _now_ms())
        self.handed_over = self.state.handed_over()
        return True

    def _reached(self, lane: Lane) -> int:
        done = self.done.get(lane.number)
        return lane.start if done is None else done.until


def _with_secrets(request: Request, given: Request) -> Request:
    def added(planned: Any, now: Any) -> dict[str, str]:
        return {**planned, **{name: value for name, value in now.items() if is_given_anew(name)}}

    return replace(request, source=added(request.source, given.source), target=added(request.target, given.target))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


# ---- the plan --------------------------------------------------------------------------------------------------------


def make_plan(request: Request, sides: Clusters, now_ms: int, version: str) -> BackfillPlan:
    """Make the plan: fix the ranges, check the target, and check that the group can be handed over.

    Raises OptionRefused, UnknownPartition, Refused and the exceptions of requests to a cluster.
    """
    with sides.source_links() as source, Brokers(sides.target) as target:
        must_differ(source.view(), target.view())
        found = resolve_batch(sides.source_options, source, group_offsets(sides.source_options, sides.source))
        if not found:
            raise UnknownPartition(f"the source does not have {sides.source_options.subscription}")
        refuse_internal(tp.topic for tp, _, _ in found)
        numbers = {tp: number_of(tp, source.view()) for tp, _, _ in found}
        _there(numbers, source.view(), target.view(), request.partitioning)
        starts: Mapping[TopicPartition, int] = {}
        if request.exclusive:
            starts = stable_ends(target, [TopicPartition(tp.topic, n) for tp, n in numbers.items()], 0.0, REPLICATED_S)
    lanes = tuple(
        Lane(
            number,
            tp.topic,
            partition_key(tp.partition),
            start,
            until,
            starts.get(TopicPartition(tp.topic, numbers[tp])),
            None if tp.partition == numbers[tp] else numbers[tp],
        )
        for number, (tp, start, until) in enumerate(found)
    )
    plan = BackfillPlan(
        created_ms=now_ms,
        request=request,
        source_release=sides.source.release,
        target_release=sides.target.release,
        lanes=lanes,
        version=version,
    )
    hand_over = hand_over_of(plan, sides)
    if hand_over is not None:
        hand_over.check(ends_of(plan))
    return plan


def hand_over_of(plan: BackfillPlan, sides: Clusters) -> HandOver | None:
    """Return the group to hand over to; None: there is none.  Raises OptionRefused."""
    if plan.request.group is None:
        return None
    return HandOver(plan.request.group, plan.request.storage, sides, [lane.tp for lane in plan.lanes])


def ends_of(plan: BackfillPlan) -> dict[TopicPartition, int]:
    """Return where the group continues: exactly at the end of each range."""
    return {lane.tp: lane.until for lane in plan.lanes}


def bound(plan: BackfillPlan, parallel: int) -> int:
    """Return how many messages at most one crash of the driver can repeat: a chunk per running task."""
    if plan.request.exclusive:
        return 0
    sizes = sorted((min(plan.request.chunk, lane.until - lane.start) for lane in plan.lanes), reverse=True)
    return sum(sizes[:parallel])


def refuse_internal(topics: Iterable[str]) -> None:
    """Raise Refused for a topic whose name is internal at the target: nothing is copied there."""
    for topic in topics:
        if why := why_never_written(topic):
            raise Refused(f"{topic} would be copied to a topic of its name, {why}; leave it out", topic=topic)


def _there(numbers: Mapping[TopicPartition, int], source: ClusterView, target: ClusterView, partitioning: str) -> None:
    missing = {}
    for tp, number in numbers.items():
        count = len(target.partitions(tp.topic))
        if not count or (partitioning == "identity" and number not in target.topics[tp.topic]):
            missing[tp.topic] = (len(source.partitions(tp.topic)), count)
    if missing:
        told = ", ".join(
            f"{topic} with {wanted} partitions" + (f" (it has {has})" if has else "")
            for topic, (wanted, has) in sorted(missing.items())
        )
        raise UnknownPartition(f"nothing here creates topics; create at the target: {told}", topic=min(missing))


def number_of(tp: TopicPartition, source: ClusterView) -> int:
    """Return the target partition: the same number.  Partitions of 0.7 are numbered from 0 by broker and index, as
    broker.partitions of a mirror does."""
    if isinstance(tp.partition, int):
        return tp.partition
    return sorted(source.partitions(tp.topic), key=rank).index(tp.partition)
