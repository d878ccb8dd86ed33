"""KafkaHandler: a handler of Python's logging that sends records to a topic.

    handler = KafkaHandler({"metadata.broker.list": "broker1:9092"}, "logs")
    logging.getLogger().addHandler(handler)
    ...
    handler.close()                     # also called at the end of the program

emit() never waits and never raises: logging must not stop the program, whatever the brokers do.  A record that cannot
be queued is counted and passed to logging's handleError; one that the brokers refuse is counted.  Records of this
package and of the libraries below it are not sent: the producer's own log lines would cause more of them.
"""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from groundwork.options import load
from kafkawire.errors import LocalError, WireError
from producer.config import ProducerConfig
from producer.delivery import Delivery
from producer.errors import QueueFull, SendFailed
from producer.handlers import CallbackHandler
from producer.producer import Producer

OWN = ("producer", "kafkawire", "groundwork", "kazoo", "gevent")
CLOSE_S = 5.0


class KafkaHandler(logging.Handler):
    """Logging handler that sends each record, formatted, as one message in UTF-8.

    config is a ProducerConfig or a mapping of option names; the queue never waits for room (queue.enqueue.timeout.ms
    is 0).  key(record) chooses the key: by default the name of the logger, so that its lines keep their order.
    dropped counts records that were not queued, failed those that were not stored.  At most
    queue.buffering.max.messages records wait to be stored.

    Raises OptionError, and LocalError when producer.type is sync.
    """

    def __init__(
        self,
        config: ProducerConfig | Mapping[str, object],
        topic: str,
        level: int = logging.NOTSET,
        key: Callable[[logging.LogRecord], Any] | None = None,
        **producer: Any,
    ) -> None:
        if not isinstance(config, ProducerConfig):
            config = load(ProducerConfig, config, "KafkaHandler")
        if config.sync:
            raise LocalError("KafkaHandler never waits until a line is stored: its producer.type must be async")
        self.topic = topic
        self.dropped = self.failed = 0
        self._max_lines = config.queue_messages
        self._begun = False
        self._key = key or (lambda record: record.name)
        # With a callback handler send() only queues; without one it waits until the topic's partitions are known.
        behind = {} if config.callback_handler else {"callback_handler": CallbackHandler()}
        quick = replace(config, enqueue_timeout_ms=0)
        self._producer = Producer(quick, on_delivery=self._completed, **{**behind, **producer})
        super().__init__(level)  # last: after this logging knows the handler
        # A filter runs before the handler's lock is taken; a thread in emit() holds that lock while it waits for the
        # hub.
        self.addFilter(_is_of_others)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if not self._begun:
                self._begin()
            if self._producer.pending >= self._max_lines:  # in the handler's queue and in the producer, together
                text = f"{self.topic}: {self._max_lines} lines are not stored yet; raise queue.buffering.max.messages"
                raise QueueFull(text)
            self._producer.send(self.topic, self.format(record), key=self._key(record))
        except Exception:  # a formatter may raise anything, too
            self.dropped += 1
            self.handleError(record)

    def _begin(self) -> None:
        self._producer.prepare(self.topic)
        # Registered after the producer's exit function, so called before it; logging.shutdown() would be called after
        # it.
        atexit.register(self.close)
        self._begun = True

    def _completed(self, delivery: Delivery) -> None:
        if delivery.error is not None:
            self.failed += 1

    def flush(self) -> None:
        """Wait until the records are stored, five seconds at most."""
        try:
            self._producer.flush(CLOSE_S)
        except WireError:
            pass  # counted in failed

    def close(self) -> None:
        atexit.unregister(self.close)
        try:
            self._producer.close(CLOSE_S)
        except SendFailed:
            pass  # counted in failed
        super().close()


def _is_of_others(record: logging.LogRecord) -> bool:
    return record.name.partition(".")[0] not in OWN
