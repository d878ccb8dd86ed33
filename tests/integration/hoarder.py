"""A program with a slow handler and far more to read than it may keep: says now and then what it has and what it costs.

    python -m tests.integration.hoarder ZOOKEEPER GROUP TOPICS SECONDS [KEY=VALUE ...]

A line of JSON when it ends: resident bytes at most, most bytes in buffers, partitions that were read from, messages.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from pathlib import Path

from kafkawire.model import TopicPartition
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import ConsumerTimeout
from zkconsumer.options.config import ConsumerConfig, load_consumer


def peak_bytes() -> int:
    """The most this process ever had in memory (of itself alone: a child's ru_maxrss begins with its parent's)."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def main(zookeeper: str, group: str, topics: str, seconds: str, *options: str) -> None:
    values: dict[str, object] = {"zookeeper.connect": zookeeper, "group.id": group, "auto.offset.reset": "smallest"}
    values |= {"consumer.timeout.ms": 1000, **dict(option.split("=", 1) for option in options)}
    seen: set[TopicPartition] = set()
    read = most = 0
    with ConsumerConnector(load_consumer(ConsumerConfig, values, "hoarder"), "own") as connector:
        streams = connector.create_message_streams(dict.fromkeys(topics.split(","), 1))
        until = time.monotonic() + float(seconds)

        def handle(stream: object) -> None:
            nonlocal read
            while time.monotonic() < until:
                try:
                    message = next(stream)  # type: ignore[call-overload]
                except ConsumerTimeout:
                    continue
                except StopIteration:
                    return
                seen.add(TopicPartition(message.topic, message.partition))
                read += 1
                time.sleep(0.01)

        handlers = [threading.Thread(target=handle, args=(stream,)) for each in streams.values() for stream in each]
        for handler in handlers:
            handler.start()
        while time.monotonic() < until:
            most = max(most, sum(row.buffered_bytes for row in connector.status()))
            time.sleep(0.2)
        for handler in handlers:
            handler.join()
        parked = [row.parked for row in connector.status() if row.parked]
        owned = len(connector.status())
    told = {"peak": peak_bytes(), "buffered": most, "seen": len(seen), "read": read, "owned": owned, "parked": parked}
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
