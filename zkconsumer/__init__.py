"""The high-level consumer: groups in ZooKeeper, shared with JVM members.

    from zkconsumer import ConsumerConnector, Whitelist

Importing the package imports nothing else: each public name is loaded when it is first used, so that a program
without a group (SimpleConsumer) loads neither gevent nor kazoo.
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
