"""Ends of a target's log: the one that consumers see, and the leader's own.

A request of a killed process may still be appended a moment later, and appended messages become visible only once every
in-sync replica has them.  So a log is stable when both ends are equal, and have been for as long as a broker may delay
a request.
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
    """Ends of a log. visible: the end that consumers see; stored: the leader's log end."""

    visible: int
    stored: int


def ends(brokers: Brokers, tps: Iterable[TopicPartition]) -> dict[TopicPartition, End]:
    """Return both ends of each log, with one request per leader.  Raises NoLeader, UnknownPartition, Unreachable."""
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
    """Return the ends, once none of them has moved for still_s.

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
            f"the leader has {last[tp].stored - last[tp].visible} messages that its replicas have lacked for {max_s:g} "
            "s: is one of them down?",
            topic=tp.topic, partition=tp.partition, visible=last[tp].visible, stored=last[tp].stored,
        )  # fmt: skip
    return Refused(
        f"logs of the target have been moving for {max_s:g} s: another run of this backfill is active, or another "
        "program writes there (then give --shared)"
    )
