"""What the options of a producer bound: how much travels together, and how long what fails is tried again.  Pure."""

from __future__ import annotations

from kafkawire.dialects import Dialect
from producer.batches import Limits
from producer.config import ProducerConfig
from producer.outcomes import Patience

REPLY_GRACE_MS = 5000  # a broker answers error 7 after request.timeout.ms; only then is silence a broken link


def limits_of(config: ProducerConfig, dialect: Dialect) -> Limits:
    """For Batches on their way to brokers of that dialect."""
    return Limits(
        batch_bytes=config.batch_bytes,
        batch_count=config.batch_messages,
        linger_s=config.linger_ms / 1000,
        request_bytes=config.request_bytes,
        max_message_bytes=config.message_max_bytes,
        one_wrapper_per_set=dialect.one_wrapper_per_set,
        measures_whole_set=dialect.measures_whole_set,
    )


def patience_of(config: ProducerConfig) -> Patience:
    """For Outcomes."""
    return Patience(
        config.retries, config.retry_backoff_ms / 1000, config.topic_wait_ms / 1000, config.delivery_timeout_ms / 1000
    )
