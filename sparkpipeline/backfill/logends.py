"""Where a target's log really ends: what consumers may see, and what the leader has.

A request of a killed process may still be appended a moment after, and what is appended shows to consumers only
once every replica in sync has it.  So a log is stable when both ends are equal, and have been for as long as a broker
may hold on to a request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kafkawire.model import TopicPartition
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.errors import Refused

LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class End:
    """visible: what consumers see; stored: what the leader has."""

    visible: int
    stored: int


def ends(brokers: Brokers, tps: Iterable[TopicPartition]) -> dict[TopicPartition, End]:
    """Both ends of each log, one question a leader.  Raises NoLeader, UnknownPartition, Unreachable."""
    wanted = list(tps)
    visible = brokers.latest(wanted)
    stored = brokers.log_ends(wanted)
    return {tp: End(visible[tp], stored[tp]) for tp in wanted}


def stable_ends(
    brokers: Brokers,
    tps: Iterable[TopicPartition],
    still_s: float,
    max_s: float,
    *,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> dict[TopicPartition, int]:
    """The ends, once none of them has moved for still_s.

    Raises Refused, naming one that still moves or is not replicated after max_s: another program writes there.
    """
    wanted = list(tps)
    began = since = now()
    last = ends(brokers, wanted)
    while True:
        uneven = [tp for tp in wanted if last[tp].visible != last[tp].stored]
        if not uneven and now() - since >= still_s:
            return {tp: end.visible for tp, end in last.items()}
        if now() - began > max_s:
            raise _moves(uneven, last, max_s)
        sleep(min(LOOK_S, max(0.01, still_s)))
        found = ends(brokers, wanted)
        if found != last:
            since, last = now(), found


def _moves(uneven: list[TopicPartition], last: dict[TopicPartition, End], max_s: float) -> Refused:
    if uneven:
        tp = uneven[0]
        return Refused(
            f"the leader has {last[tp].stored - last[tp].visible} messages that its replicas have not, for {max_s:g} "
            "s: is one of them down?",
            topic=tp.topic, partition=tp.partition, visible=last[tp].visible, stored=last[tp].stored,
        )  # fmt: skip
    return Refused(
        f"logs of the target move since {max_s:g} s: another run of this backfill is at work, or another program"
        " writes there (then give --shared)"
    )
