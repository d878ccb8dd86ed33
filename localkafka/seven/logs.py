"""All logs of a broker: existing ones, creation, timed flushes and retention.

    LOG.DIR/TOPIC-PARTITION/*.kafka      LOG.DIR/.kafka_cleanshutdown    exists: no recovery needed

Source: kafka.log.LogManager, kafka.utils.TopicNameValidator and kafka.server.KafkaServer of 0.7.2.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator

from groundwork.decimals import decimal_int
from localkafka.errors import LocalKafkaError
from localkafka.seven.log import EARLIEST, LATEST, Log, Segment
from localkafka.seven.settings import Settings

CLEAN = ".kafka_cleanshutdown"
ILLEGAL = re.compile("^\\.{1,2}$|[/\x00\x01-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")


class IllegalTopic(Exception):
    """A name that is not allowed for topics."""


class WrongPartition(Exception):
    """A partition that is not in 0 .. count − 1."""


class Logs:
    """The logs in a folder, loaded by the constructor.  Not thread-safe: the broker's only thread calls it.

    new_topic   called with the name of a topic when its first log is created

    Raises LocalKafkaError where the original does not start: gaps between segments, invalid folder names.
    """

    def __init__(self, settings: Settings, new_topic: Callable[[str], None]) -> None:
        self._settings = settings
        self._new_topic = new_topic
        self._logs: dict[str, dict[int, Log]] = {}
        folder = settings.folder
        folder.mkdir(parents=True, exist_ok=True)
        recover = not (folder / CLEAN).exists()
        (folder / CLEAN).unlink(missing_ok=True)
        for path in folder.iterdir():
            if path.is_dir():
                topic, dash, partition = path.name.rpartition("-")
                number = decimal_int(partition)
                if not dash or number is None:
                    raise LocalKafkaError(f"{path} is not named TOPIC-PARTITION; take it out of log.dir")
                self._logs.setdefault(topic, {})[number] = self._log(topic, number, recover)

    def __iter__(self) -> Iterator[tuple[str, int, Log]]:
        for topic, partitions in self._logs.items():
            for partition, log in partitions.items():
                yield topic, partition, log

    @property
    def topics(self) -> list[str]:
        return list(self._logs)

    def partitions(self, topic: str) -> int:
        """Return the number of partitions that a topic has, or would have, on this broker."""
        return self._settings.partitions.of(topic)

    def chosen(self, topic: str) -> int:
        """Return a random partition, for a produce to −1."""
        return random.randrange(self.partitions(topic))

    def existing(self, topic: str, partition: int) -> Log | None:
        """Return the log, or None.  Raises IllegalTopic, WrongPartition."""
        self._validate(topic, partition)
        if self._settings.behaviour.creates_on_read:
            return self._made(topic, partition)
        return self._logs.get(topic, {}).get(partition)

    def existing_or_new(self, topic: str, partition: int) -> Log:
        """Return the log, created if missing.  Raises IllegalTopic, WrongPartition."""
        self._validate(topic, partition)
        return self._made(topic, partition)

    def empty_offsets(self, time_ms: int) -> list[int]:
        """Return the response's offsets for a log that does not exist."""
        return [0] if time_ms in (LATEST, EARLIEST) else []

    def flush_due(self) -> None:
        """Flush the logs whose flush interval is over."""
        now = time.monotonic()
        for topic, _, log in self:
            if (now - log.last_flush) * 1000 >= self._settings.flush_ms.of(topic):
                log.flush()

    def clean(self) -> int:
        """Delete segments over the retention time, then those over the retention size, and return their number."""
        return sum(self._too_old(topic, log) + self._too_large(topic, log) for topic, _, log in list(self))

    def close(self) -> None:
        """Flush and close all logs, and write the clean-shutdown file."""
        for _, _, log in self:
            log.flush()
            log.close()
        (self._settings.folder / CLEAN).touch()

    def _made(self, topic: str, partition: int) -> Log:
        new = topic not in self._logs
        partitions = self._logs.setdefault(topic, {})
        if partition not in partitions:
            partitions[partition] = self._log(topic, partition, recover=False)
        if new:
            self._new_topic(topic)
        return partitions[partition]

    def _log(self, topic: str, partition: int, recover: bool) -> Log:
        given = self._settings
        folder = given.folder / f"{topic}-{partition}"
        return Log(
            folder,
            file_size=given.file_size.of(topic),
            roll_ms=given.roll_ms.of(topic),
            flush_interval=given.flush_interval,
            recover=recover,
        )

    def _validate(self, topic: str, partition: int) -> None:
        if not topic or len(topic.encode("utf-16-le")) // 2 > self._settings.max_topic_length or ILLEGAL.search(topic):
            raise IllegalTopic(f"topic name {topic!r} is illegal")
        count = self.partitions(topic)
        if not 0 <= partition < count:
            raise WrongPartition(f"wrong partition {partition} of {topic}, valid are 0..{count - 1}")

    def _too_old(self, topic: str, log: Log) -> int:
        now, age = time.time() * 1000, self._settings.retention_ms.of(topic)
        return log.delete_while(lambda segment: now - segment.modified_ms > age)

    def _too_large(self, topic: str, log: Log) -> int:
        most = self._settings.retention_size.of(topic)
        if most < 0 or log.size < most:
            return 0
        over = log.size - most

        def surplus(segment: Segment) -> bool:
            nonlocal over
            if over < segment.high:
                return False
            over -= segment.high
            return True

        return log.delete_while(surplus)
