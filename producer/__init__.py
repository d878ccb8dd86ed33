"""Kafka producer: batches, the sender to partition leaders, and the API for programs.

    from producer import Producer

Importing the package imports nothing else: each public name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groundwork.options import OptionError
    from kafkawire.errors import BrokerError, LocalError
    from kafkawire.model import TopicPartition
    from producer.config import ProducerConfig
    from producer.delivery import Delivery, Stored
    from producer.errors import (
        Closed,
        EncoderFailed,
        InvalidTopic,
        NotSent,
        PartitionerFailed,
        QueueFull,
        SendFailed,
        TooLarge,
        Undeliverable,
    )
    from producer.logging import KafkaHandler
    from producer.messages import KeyedMessage, ProducerData
    from producer.producer import Producer

__all__ = [
    "BrokerError",
    "Closed",
    "Delivery",
    "EncoderFailed",
    "InvalidTopic",
    "KafkaHandler",
    "KeyedMessage",
    "LocalError",
    "NotSent",
    "OptionError",
    "PartitionerFailed",
    "Producer",
    "ProducerConfig",
    "ProducerData",
    "QueueFull",
    "SendFailed",
    "Stored",
    "TooLarge",
    "TopicPartition",
    "Undeliverable",
]

_MODULES = {
    "BrokerError": "kafkawire.errors",
    "Closed": "producer.errors",
    "Delivery": "producer.delivery",
    "EncoderFailed": "producer.errors",
    "InvalidTopic": "producer.errors",
    "KafkaHandler": "producer.logging",
    "KeyedMessage": "producer.messages",
    "LocalError": "kafkawire.errors",
    "NotSent": "producer.errors",
    "OptionError": "groundwork.options",
    "PartitionerFailed": "producer.errors",
    "Producer": "producer.producer",
    "ProducerConfig": "producer.config",
    "ProducerData": "producer.messages",
    "QueueFull": "producer.errors",
    "SendFailed": "producer.errors",
    "Stored": "producer.delivery",
    "TooLarge": "producer.errors",
    "TopicPartition": "kafkawire.model",
    "Undeliverable": "producer.errors",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
