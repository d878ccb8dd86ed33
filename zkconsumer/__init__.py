"""The consumer of Kafka 0.7 and 0.8: groups in ZooKeeper, shared with JVM members; fixed partitions; SimpleConsumer.

    from zkconsumer import ConsumerConnector, Whitelist

Importing the package imports nothing else: each public name is loaded when it is first used, so that a program
without a group (SimpleConsumer) loads neither gevent nor kazoo.  The layers, each on those below it:

    commands         consume, topics, brokers
    concurrent       process(): a handler called in parallel
    connector        ConsumerConnector: the calls of a program
    engine           streams, fetchers, commits and timers of one connector; where its partitions come from
    group            membership, assignment, claims, rebalances          streams   messages, batches, sets
    fetching         fetches, delivery of a partition, damage, resets    simple    SimpleConsumer: one broker, no group
    offsets          committed offsets: stores, commits, modes           options   ConsumerConfig
    session          the ZooKeeper session and its lease

Beside them: listeners, filters, events, errors and refusals (brokers' error codes); offsetlog (__consumer_offsets read
as a log) and offsetmap (the map that a mirror writes), which the tools of groupadmin use, too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkconsumer.concurrent.handlers import Outcome, Retry, process
    from zkconsumer.connector import ConsumerConnector
    from zkconsumer.errors import ConsumerError, ConsumerTimeout, DecodeFailed
    from zkconsumer.filters import Blacklist, Whitelist
    from zkconsumer.listeners import ConsumerListener
    from zkconsumer.options.config import ConsumerConfig
    from zkconsumer.simple import SimpleConsumer

__all__ = [
    "Blacklist",
    "ConsumerConfig",
    "ConsumerConnector",
    "ConsumerError",
    "ConsumerListener",
    "ConsumerTimeout",
    "DecodeFailed",
    "Outcome",
    "Retry",
    "SimpleConsumer",
    "Whitelist",
    "process",
]

_MODULES = {
    "Blacklist": "filters",
    "ConsumerConfig": "options.config",
    "ConsumerConnector": "connector",
    "ConsumerError": "errors",
    "ConsumerListener": "listeners",
    "ConsumerTimeout": "errors",
    "DecodeFailed": "errors",
    "Outcome": "concurrent.handlers",
    "Retry": "concurrent.handlers",
    "SimpleConsumer": "simple",
    "Whitelist": "filters",
    "process": "concurrent.handlers",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
