"""Clients that share no line with ours: librdkafka, and the console consumer of a release."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence

from confluent_kafka import OFFSET_BEGINNING, TIMESTAMP_NOT_AVAILABLE, Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from localkafka import tools
from localkafka.errors import LocalKafkaError
from localkafka.waiting import wait_until

READ_S = 60


def read_by_librdkafka(
    brokers: str, topics: Sequence[str], config: Mapping[str, str] | None = None
) -> list[tuple[object, ...]]:
    """Topic, partition, offset, timestamp, key, value and headers of all committed messages, in the order of the logs.
    config: further settings of librdkafka; for brokers before 0.10 it must be told their release.
    Raises LocalKafkaError when it does not come to the ends, and nothing comes for READ_S."""
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "librdkafka",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "check.crcs": True,
            "enable.partition.eof": True,
            **(config or {}),
        }
    )
    try:
        held = consumer.list_topics(timeout=20).topics
        places = [TopicPartition(name, p, OFFSET_BEGINNING) for name in topics for p in held[name].partitions]
        consumer.assign(places)
        found, open_ones = [], {(place.topic, place.partition) for place in places}
        deadline = time.monotonic() + READ_S
        while open_ones:
            if time.monotonic() > deadline:
                raise LocalKafkaError(f"librdkafka reads nothing for {READ_S} s before the ends of {sorted(open_ones)}")
            for message in consumer.consume(500, 0.2):
                deadline = time.monotonic() + READ_S
                error = message.error()
                if error is None:
                    found.append(_row(message))
                elif error.name() == "_PARTITION_EOF":
                    open_ones.discard((message.topic(), message.partition()))
                else:
                    raise LocalKafkaError(f"librdkafka: {message.topic()}/{message.partition()}: {error.str()}")
    finally:
        consumer.close()
    return sorted(found, key=lambda row: row[:3])


def create_by_librdkafka(brokers: str, topic: str, partitions: int, config: Mapping[str, str]) -> None:
    """Create a topic with one replica, and wait for its leaders.  Raises KafkaException, LocalKafkaError."""
    new = NewTopic(topic, partitions, 1, config=dict(config))
    admin = AdminClient({"bootstrap.servers": brokers, "log_level": 3})  # what it begins ends with it
    # librdkafka that meets brokers before they have a controller looks again only when its metadata is old.
    wait_until(lambda: admin.list_topics(timeout=20).controller_id >= 0, 30, "a controller")
    admin.create_topics([new], operation_timeout=20)[topic].result(30)

    def led() -> bool:
        found = admin.list_topics(topic, timeout=20).topics[topic].partitions.values()
        return len(found) == partitions and all(each.leader >= 0 for each in found)

    wait_until(led, 20, f"leaders of {topic}")


def _row(message: Message) -> tuple[object, ...]:
    kind, time_ms = message.timestamp()
    headers = tuple(message.headers() or ())
    return (
        message.topic(),
        message.partition(),
        message.offset(),
        -1 if kind == TIMESTAMP_NOT_AVAILABLE else time_ms,
        message.key(),
        message.value(),
        headers,
    )


def console_timestamps(version: str, brokers: str, topic: str, count: int) -> list[int]:
    """The timestamps of `count` messages of a topic, in order of time, as the console consumer of a release prints
    them; -1 for none.  Raises LocalKafkaError when it prints fewer."""
    words = ["--bootstrap-server", brokers, "--topic", topic, "--from-beginning", "--max-messages", str(count)]
    words += ["--timeout-ms", str(READ_S * 1000)]
    printed = [word for name in ("timestamp", "headers") for word in ("--property", f"print.{name}=true")]
    main = tools.class_of(tools.CONSOLE_CONSUMER, version)
    argv = tools.java_command(version, main, [*words, *printed, "--property", "print.value=false"])
    done = subprocess.run(argv, capture_output=True, timeout=2 * READ_S, check=False)
    heads = [line.partition(b"\t")[0] for line in done.stdout.splitlines()]
    times = [head for head in heads if head.startswith((b"CreateTime:", b"LogAppendTime:", b"NO_TIMESTAMP"))]
    if len(times) != count:
        said = done.stderr.decode(errors="replace")[-500:]
        raise LocalKafkaError(f"the console consumer of {version} prints {len(times)} of {count} messages: {said}")
    return sorted(-1 if head == b"NO_TIMESTAMP" else int(head.partition(b":")[2]) for head in times)
