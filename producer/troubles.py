"""Partitions that do not flow: told when that begins, when the reason changes, and when it is over.  No clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafkawire.cluster.view import ClusterView
from kafkawire.errors import BrokerError, LinkLost, error_info
from kafkawire.model import BrokerPartition, TopicPartition


@dataclass(slots=True)
class _Trouble:
    """A partition that does not flow, from its first failure until something of it is stored."""

    since: float
    reason: str
    tries: int = 0


class Troubles:
    """events gets the sentences."""

    def __init__(self, events: Callable[[str], object]) -> None:
        self._events = events
        self._troubles: dict[TopicPartition, _Trouble] = {}

    def met(self, tp: TopicPartition, reason: Exception, now: float) -> None:
        """Something of tp was not stored, and is tried again."""
        trouble = self._troubles.get(tp)
        said = reason.info.name if isinstance(reason, BrokerError) else type(reason).__name__
        if trouble is None or trouble.reason != said:
            if not isinstance(reason, LinkLost):  # one sentence per connection is enough, and its lane says it
                self._events(f"{reason}; it is sent again")
            self._troubles[tp] = trouble = _Trouble(
                trouble.since if trouble else now, said, trouble.tries if trouble else 0
            )
        trouble.tries += 1

    def flows(self, tp: TopicPartition, now: float) -> None:
        """Something of tp was stored."""
        trouble = self._troubles.pop(tp, None)
        if trouble is not None:
            self._events(
                f"{tp}: flows again after {now - trouble.since:.1f} s ({trouble.reason}, {trouble.tries} times)"
            )


def away(tp: TopicPartition, view: ClusterView) -> bool:
    """Whether tp belongs to a broker that is not there now: its partitions come back with it."""
    if not isinstance(tp.partition, BrokerPartition):
        return False
    there = view.topics.get(tp.topic, {})
    return not any(isinstance(p, BrokerPartition) and p.broker == tp.partition.broker for p in there)


def why_waiting(tp: TopicPartition, view: ClusterView) -> str:
    """What the target lacks, by its view, for tp to flow; and what helps."""
    if tp.topic not in view.topics:
        code = view.errors.get(tp.topic, 0)
        said = f" ({error_info(code).name})" if code else ""
        return f"{tp}: the target has no topic {tp.topic}{said}; create it there"
    if isinstance(tp.partition, BrokerPartition) and away(tp, view):
        return f"{tp}: broker {tp.partition.broker} is not there, and the partition is its own"
    partitions = view.partitions(tp.topic)
    if tp.partition not in partitions:
        return f"{tp}: the target's topic {tp.topic} has {len(partitions)} partitions; add partitions there"
    leader = view.leader(tp)
    return f"{tp}: no leader at the target" if leader is None else f"{tp}: {leader} cannot be reached"
