"""A member of ours in a group on 0.7, as a process that may be killed: a line for each message it is handed.

    python sevenmember.py ZOOKEEPER GROUP TOPIC STREAMS SESSION_MS

    CONSUMER-ID                            the first line
    MONOTONIC PARTITION POSITION VALUE     when it was handed out, by the clock that all processes of the machine share

SIGTERM ends it in order.  Events go to standard error.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from zkconsumer.connector import ConsumerConnector
from zkconsumer.events import ConsumerEvent
from zkconsumer.stream import Stream


def say(event: ConsumerEvent) -> None:
    sys.stderr.write(f"{time.monotonic():.3f} {event.kind}: {event.text}\n")
    sys.stderr.flush()


def read(stream: Stream) -> None:
    for m in stream:
        os.write(1, f"{time.monotonic():.3f} {m.partition} {m.offset} {(m.value or b'').decode()}\n".encode())


def main(zookeeper: str, group: str, topic: str, streams: str, session_ms: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    options = {
        "zk.connect": zookeeper,
        "groupid": group,
        "autooffset.reset": "smallest",
        "autocommit.interval.ms": 300,
        "zk.sessiontimeout.ms": int(session_ms),
        "rebalance.backoff.ms": 1000,
        "rebalance.retries.max": 10,
        "fetcher.backoff.ms": 50,
        "kafka.version": "0.7.2",
    }
    with ConsumerConnector(options, "own", on_event=say) as connector:
        os.write(1, f"{connector.consumer_id}\n".encode())
        found = connector.create_message_streams({topic: int(streams)})[topic]
        threads = [threading.Thread(target=read, args=(stream,)) for stream in found]
        for thread in threads:
            thread.start()
        stop.wait()
    for thread in threads:
        thread.join()


main(*sys.argv[1:])
