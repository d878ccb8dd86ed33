"""Outages: unreachable brokers, and partitions that store nothing; reported when they begin and end.  No clock.

An outage is a warning at its beginning and information at its end; the retries in between are not reported.  A broker
that leads a hundred partitions is one outage.  Errors that an election or a new topic causes for a moment are
information, and a warning only when they last for GRACE_S.

Several senders to one cluster share Reports: an outage reported by one is not reported by another, and it ends once it
has ended for all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Final

from kafkawire.cluster.view import ClusterView
from kafkawire.errors import BrokerError, LinkLost, error_info
from kafkawire.model import BrokerPartition, TopicPartition
from producer.errors import Waiting

Events = Callable[[int, str], object]  # called with a level of `logging` and a message
GRACE_S = 2.0
CLUSTER: Final = -1  # stands for all brokers together; no broker has this id


@dataclass(slots=True)
class _Outage:
    what: str
    why: str
    since: float


class Reports:
    """Outages that the senders to one cluster have reported, so that each is reported once."""

    def __init__(self) -> None:
        self.outages: list[Outages] = []  # of each sender
        self.stalls: list[Stalls] = []

    def summary(self, now: float) -> str:
        """Return the current outages of all senders for a status line, each broker once; "": none."""
        return "; ".join(f"{one.why} (for {now - one.since:.0f} s)" for one in self.current().values())

    def current(self) -> dict[int, _Outage]:
        """Return the current outage of each broker, from the sender that noticed it first."""
        found: dict[int, _Outage] = {}
        for outages in self.outages:
            for broker_id, one in outages.current.items():
                if broker_id not in found or one.since < found[broker_id].since:
                    found[broker_id] = one
        return found


class Outages:
    """Outages of the target's brokers as one sender sees them: brokers that refuse or break connections, or do not
    answer. reports: of all senders to the cluster."""

    def __init__(self, events: Events, reports: Reports | None = None) -> None:
        self._events = events
        self.current: dict[int, _Outage] = {}  # by broker id
        self._reports = reports if reports is not None else Reports()
        self._reports.outages.append(self)

    def begin(self, broker_id: int, what: str, why: str, then: str, since: float) -> None:
        """Record that a broker (or CLUSTER) could not be reached.  what: its name; then: the consequence for its
        messages; since: when the oldest request was sent that got no response, or connecting began."""
        outage = self.current.get(broker_id)
        if outage is not None:
            outage.why = why
            return
        reported = self._reports.current()
        covered = bool(reported) if broker_id == CLUSTER else CLUSTER in reported
        self.current[broker_id] = _Outage(what, why, since)
        if broker_id in reported:
            self.current[broker_id].since = reported[broker_id].since
            return
        self._events(logging.INFO if covered else logging.WARNING, f"{why}; {then}")

    def closed(self, why: str, then: str) -> None:
        """Report a connection that was closed here, which is not an outage."""
        self._events(logging.INFO, f"{why}; {then}")

    def over(self, broker_id: int, how: str, now: float, also: str = "") -> None:
        """End an outage: the broker answers, or nothing waits for it any more.  how: the end of the sentence."""
        outage = self.current.pop(broker_id, None)
        if outage is not None and broker_id not in self._reports.current():
            self._events(logging.INFO, f"{outage.what} {how} after {now - outage.since:.1f} s{also}")

    def __contains__(self, broker_id: int) -> bool:
        return broker_id in self.current

    def __iter__(self) -> Iterator[int]:
        return iter(list(self.current))

    def __bool__(self) -> bool:
        return bool(self.current)

    def summary(self, now: float) -> str:
        """Return the current outages for a status line; "": none."""
        return "; ".join(f"{one.why} (for {now - one.since:.0f} s)" for one in self.current.values())


@dataclass(slots=True)
class _Stall:
    """A partition that stores nothing, from its first failure until something is stored.

    group: only one warning is given for all partitions of a group.
    """

    since: float
    _: KW_ONLY
    reason: str
    group: object
    tries: int = 0
    reported: bool = False
    warned: bool = False


class Stalls:
    """Partitions that store nothing; events is called when that begins, when the reason changes, and when it ends.

    reports: of all senders to the cluster, which may write to the same partitions.
    """

    def __init__(self, events: Events, reports: Reports | None = None) -> None:
        self._events = events
        self._stalls: dict[TopicPartition, _Stall] = {}
        self._reports = reports if reports is not None else Reports()
        self._reports.stalls.append(self)

    def failed_again(self, tp: TopicPartition, reason: Exception, now: float) -> None:
        """Record that a batch of tp was not stored and is retried."""
        stall = self._stalls.get(tp)
        said = reason.info.name if isinstance(reason, BrokerError) else type(reason).__name__
        group = reason.group if isinstance(reason, Waiting) else said
        if stall is None or stall.group != group:
            since, tries, reported = (stall.since, stall.tries, stall.reported) if stall else (now, 0, False)
            self._stalls[tp] = stall = _Stall(since, reason=said, group=group, tries=tries, reported=reported)
            if isinstance(reason, BrokerError):
                stall.reported = True
                if self._reported_by_another(tp, stall):
                    stall.warned = not _may_pass(reason)
                else:
                    self._report(stall, f"{reason}; it is sent again", at_once=not _may_pass(reason))
        stall.tries += 1
        if not stall.warned and not isinstance(reason, LinkLost) and now - stall.since >= GRACE_S:
            self._warn_if_it_lasts(stall, f"{reason}; it is sent again, for {now - stall.since:.0f} s now")

    def recovered(self, tp: TopicPartition, now: float) -> None:
        """Record that a batch of tp was stored."""
        stall = self._stalls.pop(tp, None)
        if stall is not None and stall.reported and not self._reported_by_another(tp, stall):
            what = f"{stall.reason}, {stall.tries} times"
            self._events(logging.INFO, f"{tp}: flows again after {now - stall.since:.1f} s ({what})")

    def _report(self, stall: _Stall, sentence: str, at_once: bool) -> None:
        """Warn for the first partition of a group."""
        first = at_once and not self._warned(stall)
        stall.warned = at_once
        self._events(logging.WARNING if first else logging.INFO, sentence)

    def _warn_if_it_lasts(self, stall: _Stall, sentence: str) -> None:
        """Warn when the stall lasts, unless another partition of the group was warned of."""
        first = not self._warned(stall)
        stall.warned = True
        if first:
            stall.reported = True
            self._events(logging.WARNING, sentence)

    def _warned(self, stall: _Stall) -> bool:
        return any(
            other.warned and other.group == stall.group
            for stalls in self._reports.stalls
            for other in stalls._stalls.values()
        )

    def _reported_by_another(self, tp: TopicPartition, stall: _Stall) -> bool:
        """True if another sender waits for the same partition for the same reason, and has reported it."""
        others = (stalls._stalls.get(tp) for stalls in self._reports.stalls if stalls is not self)
        return any(other is not None and other.reported and other.group == stall.group for other in others)


def _may_pass(reason: BrokerError) -> bool:
    """True if a change of leader, or a new topic, causes the same error for a moment."""
    return reason.info.refresh


def away(tp: TopicPartition, view: ClusterView) -> bool:
    """True if tp belongs to a broker that is down now (0.7), and so will return with it."""
    if not isinstance(tp.partition, BrokerPartition):
        return False
    there = view.topics.get(tp.topic, {})
    return not any(isinstance(p, BrokerPartition) and p.broker == tp.partition.broker for p in there)


def waiting(tp: TopicPartition, view: ClusterView) -> Waiting:
    """Return what the target lacks for tp, by its metadata, and the remedy."""
    if tp.topic not in view.topics:
        code = view.errors.get(tp.topic, 0)
        said = f" ({error_info(code).name})" if code else ""
        return Waiting(tp, f"the target does not have topic {tp.topic}{said}; create it there")
    if isinstance(tp.partition, BrokerPartition) and away(tp, view):
        return Waiting(tp, f"broker {tp.partition.broker} is not registered, and the partition belongs to it")
    partitions = view.partitions(tp.topic)
    if tp.partition not in partitions:
        return Waiting(tp, f"the target's topic {tp.topic} has {len(partitions)} partitions; add partitions there")
    leader = view.leader(tp)
    return Waiting(tp, "no leader at the target" if leader is None else f"{leader} cannot be reached")
