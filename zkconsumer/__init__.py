"""Consumer of Kafka 0.7 and 0.8: groups in ZooKeeper, shared with JVM members; fixed partitions; SimpleConsumer.

    from zkconsumer import ConsumerConnector, Whitelist

Importing the package imports nothing else: each public name is loaded when it is first used, so that a program without
a group (SimpleConsumer) loads neither gevent nor kazoo.  The layers; each uses those below it:

    commands         consume, topics, brokers
    concurrent       process(): a handler called in parallel
    connector        ConsumerConnector: the calls of a program
    engine           streams, fetchers, commits and timers of one connector; where its partitions come from
    group            membership, assignment, claims, rebalances          streams   messages, batches, sets
    fetching         fetches, delivery of a partition, damage, resets    simple    SimpleConsumer: one broker, no group
    offsets          committed offsets: stores, commits, modes           options   ConsumerConfig
    session          the ZooKeeper session and its lease

Outside the layers: listeners, filters, events, errors and refusals (brokers' error codes); offsetlog (reads
__consumer_offsets as a log) and offsetmap (the map that a mirror writes), which the tools of groupadmin also use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groundwork.forks import Forked
    from groundwork.hub import HubStopped
    from groundwork.javachars import PatternRefused
    from groundwork.options import OptionError
    from groundwork.tasks import TaskDied
    from kafkawire.errors import LinkLost
    from kafkawire.model import TopicPartition
    from zkconsumer.concurrent.handlers import Outcome, Retry, process
    from zkconsumer.connector import ConsumerConnector
    from zkconsumer.engine.status import PartitionStatus
    from zkconsumer.errors import (
        BeyondEnd,
        ChrootMissing,
        Closed,
        ConsumerError,
        ConsumerTimeout,
        DamagedMessage,
        DecodeFailed,
        ForeignWrite,
        ListenerFailed,
        NoBrokers,
        NotCommitted,
        SecondReader,
        TopicGone,
        Unreachable,
    )
    from zkconsumer.filters import Blacklist, Whitelist
    from zkconsumer.listeners import ConsumerListener
    from zkconsumer.options.config import ConsumerConfig
    from zkconsumer.refusals import MessageTooLarge, NotLeader, OffsetOutOfRange, UnknownPartition
    from zkconsumer.simple import SimpleConsumer

__all__ = [
    "BeyondEnd",
    "Blacklist",
    "ChrootMissing",
    "Closed",
    "ConsumerConfig",
    "ConsumerConnector",
    "ConsumerError",
    "ConsumerListener",
    "ConsumerTimeout",
    "DamagedMessage",
    "DecodeFailed",
    "ForeignWrite",
    "Forked",
    "HubStopped",
    "LinkLost",
    "ListenerFailed",
    "MessageTooLarge",
    "NoBrokers",
    "NotCommitted",
    "NotLeader",
    "OffsetOutOfRange",
    "OptionError",
    "Outcome",
    "PartitionStatus",
    "PatternRefused",
    "Retry",
    "SecondReader",
    "SimpleConsumer",
    "TaskDied",
    "TopicGone",
    "TopicPartition",
    "UnknownPartition",
    "Unreachable",
    "Whitelist",
    "process",
]

_MODULES = {
    "BeyondEnd": "zkconsumer.errors",
    "Blacklist": "zkconsumer.filters",
    "ChrootMissing": "zkconsumer.errors",
    "Closed": "zkconsumer.errors",
    "ConsumerConfig": "zkconsumer.options.config",
    "ConsumerConnector": "zkconsumer.connector",
    "ConsumerError": "zkconsumer.errors",
    "ConsumerListener": "zkconsumer.listeners",
    "ConsumerTimeout": "zkconsumer.errors",
    "DamagedMessage": "zkconsumer.errors",
    "DecodeFailed": "zkconsumer.errors",
    "ForeignWrite": "zkconsumer.errors",
    "Forked": "groundwork.forks",
    "HubStopped": "groundwork.hub",
    "LinkLost": "kafkawire.errors",
    "ListenerFailed": "zkconsumer.errors",
    "MessageTooLarge": "zkconsumer.refusals",
    "NoBrokers": "zkconsumer.errors",
    "NotCommitted": "zkconsumer.errors",
    "NotLeader": "zkconsumer.refusals",
    "OffsetOutOfRange": "zkconsumer.refusals",
    "OptionError": "groundwork.options",
    "Outcome": "zkconsumer.concurrent.handlers",
    "PartitionStatus": "zkconsumer.engine.status",
    "PatternRefused": "groundwork.javachars",
    "Retry": "zkconsumer.concurrent.handlers",
    "SecondReader": "zkconsumer.errors",
    "SimpleConsumer": "zkconsumer.simple",
    "TaskDied": "groundwork.tasks",
    "TopicGone": "zkconsumer.errors",
    "TopicPartition": "kafkawire.model",
    "UnknownPartition": "zkconsumer.refusals",
    "Unreachable": "zkconsumer.errors",
    "Whitelist": "zkconsumer.filters",
    "process": "zkconsumer.concurrent.handlers",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
