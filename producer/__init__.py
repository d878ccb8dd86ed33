"""The producer: batches, the sender to partition leaders, and the API for programs.

    from producer import Producer

Importing the package imports nothing else: each public name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from producer.config import ProducerConfig
    from producer.delivery import Delivery, Stored
    from producer.errors import QueueFull, SendFailed, Undeliverable
    from producer.logging import KafkaHandler
    from producer.messages import KeyedMessage, ProducerData
    from producer.producer import Producer

__all__ = [
    "Delivery",
    "KafkaHandler",
    "KeyedMessage",
    "Producer",
    "ProducerConfig",
    "ProducerData",
    "QueueFull",
    "SendFailed",
    "Stored",
    "Undeliverable",
]

_MODULES = {
    "Delivery": "delivery",
    "KafkaHandler": "logging",
    "KeyedMessage": "messages",
    "Producer": "producer",
    "ProducerConfig": "config",
    "ProducerData": "messages",
    "QueueFull": "errors",
    "SendFailed": "errors",
    "Stored": "delivery",
    "Undeliverable": "errors",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
