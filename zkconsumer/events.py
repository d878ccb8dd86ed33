"""Events of a connector for an operator: one line each, with partition and count as values."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from kafkawire.model import TopicPartition

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConsumerEvent:
    """Event of a connector.  kind is one of

    session     the ZooKeeper session changed state
    fence       the lease ended: all partitions were dropped
    rebalance   a rebalance began, ended, or has to be retried
    owned       partitions were assigned and claimed; they are read from now on
    released    partitions were revoked, committed and given up
    start       the offset at which an owned partition starts
    gap         count messages are missing: the position had to skip them
    reset       the position moved back
    parked      a partition delivers nothing more until an operator acts
    flows       a parked partition was retried, and got past that offset
    unread      an assigned partition is not read: its committed offset cannot be read, or an owner node without a
                session blocks it
    offset      another program's committed offset, a commit that failed, or members with another offset mode
    mode        the offset mode was switched (switch_offsets)
    outage      a broker, a leader or ZooKeeper cannot be reached: once when that begins, however many partitions it
                affects
    refused     Kafka's coordinator refuses this member; it retries at long intervals
    over        the end of an outage, with its duration
    leader      a partition has no leader, or its broker does not answer; for one partition, while an outage lasts
    claim       an owner node of ours was removed, or an orphan of ours was found
    listener    a method of the program's listener failed, or took longer than listener.timeout.ms
    idle        a topic has more threads than partitions: some of them read nothing; or no stream reads a topic of
                `partitions`
    late        a call blocked the interpreter for much of the session, so that no heartbeat could be sent
    release     brokers have timestamps and are read as a release without them
    format      a topic has data that is not read: headers, transactions; once per topic
    missing     a configured topic or partition does not exist, or no broker is registered: most likely a name
                is wrong
    """

    kind: str
    text: str
    tp: TopicPartition | None = None
    count: int = 0
    offset: int | None = None  # offset at which it happened, if known

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


OnEvent = Callable[[ConsumerEvent], None]
LOUD = frozenset(
    {
        "fence",
        "gap",
        "reset",
        "parked",
        "flows",
        "unread",
        "offset",
        "claim",
        "idle",
        "missing",
        "listener",
        "late",
        "format",
        "release",
        "outage",
        "refused",
    }
)
ALWAYS = frozenset({"fence", "parked"})  # each needs an operator: never suppressed as a repetition
NAMES = {
    "fence": "session-lost",
    "outage": "out-of-reach",
    "over": "within-reach",
    "refused": "join-refused",
}  # name in the log, if it differs from the kind


def guarded(on_event: OnEvent, failed: Callable[[Exception], object]) -> OnEvent:
    """Return a form of on_event that never raises: errors go to failed(), and the event to the log."""
    if on_event is log_event:
        return on_event

    def told(event: ConsumerEvent) -> None:
        try:
            on_event(event)
        except Exception as e:
            log_event(event)
            failed(e)

    return told


def log_event(event: ConsumerEvent) -> None:
    """Log an event: the default on_event.  An event that repeats a kind for a partition, or a text, is suppressed."""
    _log(event, "")


def logger_of(who: str, source: str | None = None) -> OnEvent:
    """Return a log_event for a program with several connectors: each line begins with the name of its connector.

    source: the line's field of that name (groundwork.logs.FIELDS).
    """
    return lambda event: _log(event, f"{who}: ", source)


def _log(event: ConsumerEvent, who: str, source: str | None = None) -> None:
    tp = event.tp
    extra = {
        "key": (who, event.kind, tp) if tp is not None else None,
        "always": event.kind in ALWAYS,
        "event": NAMES.get(event.kind, event.kind),
        "source": source,
        "topic": tp.topic if tp is not None else None,
        "partition": tp.partition if tp is not None else None,
        "offset": event.offset,
    }
    level = logging.WARNING if event.kind in LOUD else logging.INFO
    log.log(level, "%s%s", who, event, extra=extra)
