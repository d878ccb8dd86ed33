"""The producer's side in the hub: turns buckets into parts, gives them to the sender, waits for what callers wait for.

Made by the producer's thread; everything in here runs in the hub, from start() on.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from groundwork.crew import Crew, Event, connect, now, sleep
from kafkawire.cluster.metadata import MetadataSource
from kafkawire.cluster.view import ClusterView
from kafkawire.dialects import Dialect
from kafkawire.errors import BrokerError
from kafkawire.net.links import Links
from producer.buckets import Buckets
from producer.config import ProducerConfig
from producer.errors import Undeliverable
from producer.outcomes import NEVER
from producer.rows import codec_of, limit_of, parts, size_of
from producer.sender import Sender

log = logging.getLogger(__name__)

BEING_CREATED = 5  # LeaderNotAvailable, which is also what naming a missing topic gets while it is created
STEP_S = 0.25  # how often a wait looks whether the crew is dead


class Feeder:
    """Waits raise the crew's death, when there is one."""

    def __init__(self, config: ProducerConfig, dialect: Dialect, buckets: Buckets) -> None:
        self._config = config
        self._dialect = dialect
        self._buckets = buckets

    def start(self) -> None:
        config = self._config
        self._crew = Crew()
        self._armed = Event()
        self._room = Event()
        self._links = Links(config.client_id, connect, config.request_timeout_ms)
        source = MetadataSource(config.brokers, self._dialect, self._links)
        quick = replace(config, linger_ms=0)  # messages waited for company in their buckets
        self._sender = Sender(source, quick, self._crew, connect, log.warning, by_name=True)
        self._sender.start()
        self._crew.spawn("linger", self._linger)

    @property
    def view(self) -> ClusterView:
        """The leaders as last looked up; from any thread."""
        return self._sender.leaders.view

    def begin_round(self) -> None:
        """The first message of a round is in its bucket."""
        self._armed.set()

    def _linger(self) -> None:
        """Some time after the first message of a round, all buckets go."""
        while True:
            self._armed.wait()
            sleep(self._config.linger_ms / 1000)
            self._armed.clear()
            self.drain()

    def drain(self) -> None:
        """All buckets to the sender.  Nothing in here waits, so that rounds cannot overtake each other."""
        config = self._config
        for tp, bucket in self._buckets.take().items():
            codec = codec_of(config, tp.topic)
            limit = limit_of(self._dialect, codec, config.batch_bytes, config.message_max_bytes)
            at = 0
            for part in parts(tp, bucket.rows, self._dialect, codec, limit):
                rows = bucket.rows[at : at + part.count]
                size = sum(size_of(row, self._dialect.magic) for row in rows)
                self._sender.submit(part, _Sent(self._buckets, self._room, part.count, size))
                at += part.count

    def until_known(self, topic: str) -> ClusterView:
        """The view once it has the topic; asking by name may create it.  Raises why it has not."""
        leaders = self._sender.leaders
        deadline = now() + self._config.delivery_timeout_ms / 1000
        tries = 0
        while topic not in leaders.view.topics:
            leaders.need(topic)
            leaders.ask()
            looked = leaders.wait_look(max(0.0, min(STEP_S, deadline - now())))
            self._alive()
            code = leaders.view.errors.get(topic, 0) if leaders.failure is None else 0
            tries += looked and code != BEING_CREATED
            if code in NEVER or (code and now() >= deadline) or (code and self._tried(tries)):
                raise BrokerError(code, f"topic {topic}")
            if leaders.failure is not None and self._tried(tries):
                raise leaders.failure
            if now() >= deadline and self._config.retries >= 0:
                raise Undeliverable(f"topic {topic} has no partitions after {self._config.delivery_timeout_ms} ms")
        return leaders.view

    def _tried(self, tries: int) -> bool:
        return 0 <= self._config.retries < tries

    def wait_room(self, timeout_s: float) -> None:
        """Until something is settled, STEP_S at most; back at once when there is room."""
        self._alive()
        self.drain()
        self._room.clear()
        if not self._buckets.has_room():
            self._room.wait(min(timeout_s, STEP_S))

    def flush(self, timeout_s: float) -> int:
        """Messages that are still not settled when the time is over."""
        deadline = now() + timeout_s
        self.drain()
        while not self._sender.flush(max(0.0, min(STEP_S, deadline - now()))):
            self._alive()
            if now() >= deadline:
                return self._buckets.messages
        self._alive()
        return 0

    def end(self, timeout_s: float) -> int:
        """Flush within the time, then end all of it; messages that are left."""
        try:
            left = self.flush(timeout_s)
        finally:
            self._sender.close(0.0)
            self._links.close()
            self._crew.stop(1.0)
        return left

    def _alive(self) -> None:
        if self._crew.death is not None:
            raise self._crew.death


class _Sent:
    """The ticket of one part.  A message of it that is too large is left out, and its neighbours go on."""

    __slots__ = ("_buckets", "_count", "_room", "_size")

    def __init__(self, buckets: Buckets, room: Event, count: int, size: int) -> None:
        self._buckets, self._room, self._count, self._size = buckets, room, count, size

    def may_send(self) -> bool:
        return True

    def reached(self, resume_at: int) -> None:
        raise AssertionError(f"a part without source positions cannot have reached {resume_at}")

    def skipped(self, reason: Exception) -> None:
        self._buckets.not_stored(1, reason)

    def done(self) -> None:
        self._buckets.settled(self._count, self._size)
        self._room.set()

    def failed(self, reason: Exception, resume_at: int | None) -> None:
        self._buckets.not_stored(self._count, reason)
        self.done()
