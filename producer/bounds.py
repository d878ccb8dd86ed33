"""What the options of a producer bound: how much travels together, and how long what fails is tried again.  Pure."""

from __future__ import annotations

from kafkawire.dialects import ENTRY_OVERHEAD, Dialect
from producer.batches import Limits
from producer.config import MESSAGE_MAX, ProducerConfig
from producer.outcomes import Patience

REPLY_GRACE_MS = 5000  # a broker answers error 7 after request.timeout.ms; only then is silence a broken link


PAYLOAD_MAX = 1000000  # max.message.size of 0.7, where nothing else is given


def largest_entry(message_max_bytes: int, dialect: Dialect) -> int:
    """Most bytes of one entry.  Where just the payload is measured the head comes on top, and the default is 0.7's."""
    if not dialect.measures_payload:
        return message_max_bytes
    payload = PAYLOAD_MAX if message_max_bytes == MESSAGE_MAX else message_max_bytes
    return payload + ENTRY_OVERHEAD[dialect.magic]


def limits_of(config: ProducerConfig, dialect: Dialect) -> Limits:
    """For Batches on their way to brokers of that dialect."""
    return Limits(
        batch_bytes=config.batch_bytes,
        batch_count=config.batch_messages,
        linger_s=config.linger_ms / 1000,
        request_bytes=config.request_bytes,
        max_message_bytes=largest_entry(config.message_max_bytes, dialect),
        one_wrapper_per_set=dialect.one_wrapper_per_set,
        measures_whole_set=dialect.measures_whole_set,
    )


def patience_of(config: ProducerConfig) -> Patience:
    """For Outcomes."""
    return Patience(
        config.retries, config.retry_backoff_ms / 1000, config.topic_wait_ms / 1000, config.delivery_timeout_ms / 1000
    )
