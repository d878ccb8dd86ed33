"""A member of ours as a process that is told where to keep its offsets while it runs.

    python movingmember.py ZOOKEEPER GROUP TOPIC RELEASE OPTIONS       options as JSON, beside those that are here

    CONSUMER-ID                     the first line
    MONOTONIC PARTITION OFFSET N    when a message was handed out; N: what it says itself, `topic/partition #N`
    switched MODE, refused TEXT     after a line `MODE` on standard input

SIGTERM ends it in order.  Events go to standard error.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time

from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import ConsumerError
from zkconsumer.events import ConsumerEvent
from zkconsumer.stream import Stream


def say(event: ConsumerEvent) -> None:
    sys.stderr.write(f"{time.monotonic():.3f} {event.kind}: {event.text}\n")
    sys.stderr.flush()


def tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def read(stream: Stream) -> None:
    for message in stream:
        number = message.value.split(b" ")[1][1:].decode()
        tell(f"{time.monotonic():.3f} {message.partition} {message.offset} {number}")


def obey(connector: ConsumerConnector) -> None:
    for line in sys.stdin:
        try:
            connector.switch_offsets(line.strip())  # type: ignore[arg-type]  # the test knows the modes
            tell(f"switched {line.strip()}")
        except ConsumerError as e:
            tell(f"refused {e}")


def main(zookeeper: str, group: str, topic: str, release: str, options: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    values = {
        "zookeeper.connect": zookeeper,
        "group.id": group,
        "auto.offset.reset": "smallest",
        "auto.commit.interval.ms": 300,
        "zookeeper.session.timeout.ms": 3000,
        "rebalance.backoff.ms": 1000,
        "rebalance.max.retries": 10,
        **json.loads(options),
    }
    with ConsumerConnector(values, "own", release, on_event=say) as connector:
        tell(connector.consumer_id)
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        reader = threading.Thread(target=read, args=(stream,))
        reader.start()
        threading.Thread(target=obey, args=(connector,), daemon=True).start()
        stop.wait()
    reader.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
