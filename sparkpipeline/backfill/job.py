"""One backfill from its folder: planned once, carried out by as many runs as it takes, then handed over."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from groundwork.failpoints import failpoint
from sparkpipeline.backfill.model import Done, Lane, Plan, Request, check, differences, is_secret
from sparkpipeline.backfill.planning import ends_of, hand_over_of, make_plan
from sparkpipeline.backfill.running import Outcome, Run, on_spark
from sparkpipeline.backfill.sides import Sides
from sparkpipeline.backfill.state import State
from sparkpipeline.errors import OptionRefused, Refused
from sparkpipeline.ledger.files import Files
from sparkpipeline.ledger.ledger import tool_version

Told = Callable[[Lane, Done], object]


@dataclass(slots=True)
class Backfill:
    """plan: as it is in the folder, or would be.  is_new: it is not there yet.  handed_over: when, if it was."""

    state: State
    plan: Plan
    sides: Sides
    is_new: bool
    done: dict[int, Done]
    handed_over: str | None

    @staticmethod
    def open(files: Files, folder: str, asked: Request | None, secrets: Request) -> Backfill:
        """The backfill of a folder, or the one that is asked for.

        asked: None where a command only names the folder.  secrets: what is never written down, as given now.
        Raises OptionRefused, Refused where the folder has another plan, and whatever planning raises.
        """
        state = State(files, folder)
        plan = state.plan()
        if plan is None:
            if asked is None:
                raise OptionRefused(
                    "has no plan yet: say what is to be copied (--source-brokers, --target-brokers, --topics ..)",
                    folder=folder,
                )
            check(asked)
            sides = Sides.of(asked)
            return Backfill(state, make_plan(asked, sides, _now_ms(), tool_version()), sides, True, {}, None)
        other = differences(plan.request, asked) if asked is not None else []
        if other:
            raise Refused(
                f"its plan is another: {'; '.join(other)}; name the folder alone to go on, or another folder",
                folder=folder,
            )
        sides = Sides.of(_with_secrets(plan.request, secrets), plan.source_release, plan.target_release)
        return Backfill(state, plan, sides, False, state.last_done(), state.handed_over())

    @property
    def left(self) -> list[Lane]:
        """Lanes that are not copied to their ends."""
        return [lane for lane in self.plan.lanes if self._reached(lane) < lane.until]

    @property
    def count_left(self) -> int:
        """Offsets that are not copied."""
        return sum(lane.until - self._reached(lane) for lane in self.left)

    @property
    def is_over(self) -> bool:
        return not self.left and (self.plan.request.group is None or self.handed_over is not None)

    def may_repeat(self) -> int:
        """Most messages that a run which died has left to be repeated by the next."""
        if self.is_new or self.plan.request.exclusive or not self.state.began():
            return 0
        return sum(min(self.plan.request.chunk, lane.until - self._reached(lane)) for lane in self.left)

    def carry_out(self, spark: Any, parallel: int, told: Told) -> Outcome:
        """Write the plan where it is new, copy what is left.

        Raises as Run.carry_out, and Refused where a daemon of the group is at work.
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
        run = Run(self.plan, self.state, self.sides, on_spark(spark), spark.sparkContext.cancelAllJobs, told)
        outcome = run.carry_out(f"{socket.gethostname()}:{os.getpid()}", parallel)
        self.done = outcome.done
        return outcome

    def hand_over(self) -> bool:
        """Write the group's positions once every lane is at its end; False: there is no group, or it was done.

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
        return {**planned, **{name: value for name, value in now.items() if is_secret(name)}}

    return Request(
        added(request.source, given.source), added(request.target, given.target), request.partitioning, request.shared,
        request.codec, request.chunk, request.group, request.storage,
    )  # fmt: skip


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
