"""Settings of a 0.7 broker: the original's server.properties, read as the original reads it.

The broker in Python has a few more settings, which the original ignores:

    test.release        0.7.0, 0.7.1 or 0.7.2: the release to imitate (see RELEASES)
    test.roll.ms, test.retention.ms, test.cleanup.ms     instead of whole hours and minutes

Source: kafka.server.KafkaConfig and kafka.utils.Utils of 0.7.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kafkawire.compression import GZIP, NONE, SNAPPY
from localkafka.errors import LocalKafkaError

HOUR_MS = 60 * 60 * 1000
MINUTE_MS = 60 * 1000


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Differences in behaviour between the releases (the protocol is the same)."""

    codecs: frozenset[int]
    limits_messages: bool  # silently drops messages larger than max.message.size
    creates_on_read: bool  # a fetch or an offsets request of an unknown topic creates it


RELEASES = {
    "0.7.0": Behaviour(frozenset({NONE, GZIP}), limits_messages=False, creates_on_read=True),
    "0.7.1": Behaviour(frozenset({NONE, GZIP, SNAPPY}), limits_messages=False, creates_on_read=False),
    "0.7.2": Behaviour(frozenset({NONE, GZIP, SNAPPY}), limits_messages=True, creates_on_read=False),
}
DEFAULT_RELEASE = "0.7.2"


@dataclass(frozen=True, slots=True)
class PerTopic:
    """A number with exceptions by topic: KEY=NUMBER, and topic1:NUMBER,topic2:NUMBER in another setting."""

    usual: int
    of_topic: Mapping[str, int]

    def of(self, topic: str) -> int:
        return self.of_topic.get(topic, self.usual)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A broker's settings; sizes in bytes, times in milliseconds."""

    broker: int
    host: str
    port: int
    folder: Path
    zookeeper: str | None  # None: it does not register
    session_ms: int
    connection_ms: int
    partitions: PerTopic
    file_size: PerTopic
    roll_ms: PerTopic
    retention_ms: PerTopic
    retention_size: PerTopic  # negative: no limit
    cleanup_delay_ms: int
    cleanup_ms: int
    flush_interval: int  # messages
    flush_ms: PerTopic
    flusher_ms: int  # interval of the flush check
    max_message_size: int | None
    max_request_size: int
    max_topic_length: int
    behaviour: Behaviour


def settings(given: Mapping[str, str]) -> Settings:
    """Return the settings from properties.  Raises LocalKafkaError, which names the property, for invalid values."""
    number = _Numbers(given)
    release = given.get("test.release", DEFAULT_RELEASE)
    if release not in RELEASES:
        raise LocalKafkaError(f"test.release={release} is unknown; known: {', '.join(RELEASES)}")
    behaviour = RELEASES[release]
    for needed in ("brokerid", "log.dir"):
        if needed not in given:
            raise LocalKafkaError(f"missing required property {needed!r}")
    registers = given.get("enable.zookeeper", "true") == "true"
    if registers and not given.get("zk.connect"):
        raise LocalKafkaError("zk.connect is missing; give it, or enable.zookeeper=false")
    session_ms = number("zk.sessiontimeout.ms", 6000)
    flusher_ms = number("log.default.flush.scheduler.interval.ms", 3000)
    flush_ms = number("log.default.flush.interval.ms", flusher_ms)
    cleanup_ms = number("log.cleanup.interval.mins", 10, least=1) * MINUTE_MS
    return Settings(
        broker=number("brokerid", 0, least=0),
        host=given.get("hostname", "127.0.0.1"),
        port=number("port", 6667),
        folder=Path(given["log.dir"]),
        zookeeper=given["zk.connect"] if registers else None,
        session_ms=session_ms,
        connection_ms=number("zk.connectiontimeout.ms", session_ms),
        partitions=number.per_topic("num.partitions", 1, "topic.partition.count.map", least=1),
        file_size=number.per_topic("log.file.size", 1 << 30, "topic.log.file.size", least=5),
        roll_ms=number.hours("log.roll.hours", "topic.log.roll.hours", "test.roll.ms"),
        retention_ms=number.hours("log.retention.hours", "topic.log.retention.hours", "test.retention.ms"),
        retention_size=number.per_topic("log.retention.size", -1, "topic.log.retention.size"),
        cleanup_delay_ms=number("test.cleanup.ms", MINUTE_MS, least=1),
        cleanup_ms=number("test.cleanup.ms", cleanup_ms, least=1),
        flush_interval=number("log.flush.interval", 500, least=1),
        flush_ms=PerTopic(flush_ms, number.by_topic("topic.flush.intervals.ms")),
        flusher_ms=flusher_ms,
        max_message_size=number("max.message.size", 1_000_000, least=0) if behaviour.limits_messages else None,
        max_request_size=number("max.socket.request.bytes", 100 * 1024 * 1024, least=1),
        max_topic_length=number("max.topic.name.length", 255, least=1),
        behaviour=behaviour,
    )


class _Numbers:
    """Reader of numbers in properties."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def __call__(self, name: str, default: int, least: int | None = None) -> int:
        text = self._given.get(name)
        if text is None:
            return default
        value = _number(name, text)
        if least is not None and value < least:
            raise LocalKafkaError(f"{name}={value} is less than {least}")
        return value

    def by_topic(self, name: str) -> dict[str, int]:
        text = self._given.get(name, "")
        pairs = (pair.rpartition(":") for pair in text.split(",") if pair.strip())
        return {topic.strip(): _number(name, value) for topic, _, value in pairs}

    def per_topic(self, name: str, default: int, by_topic: str, least: int | None = None) -> PerTopic:
        return PerTopic(self(name, default, least), self.by_topic(by_topic))

    def hours(self, name: str, by_topic: str, in_ms: str) -> PerTopic:
        """Return a time given in whole hours (default: a week); the setting in_ms wins over name."""
        usual = self(in_ms, self(name, 24 * 7, least=1) * HOUR_MS)
        return PerTopic(usual, {topic: hours * HOUR_MS for topic, hours in self.by_topic(by_topic).items()})


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise LocalKafkaError(f"{name}={text!r} is not a number") from None
