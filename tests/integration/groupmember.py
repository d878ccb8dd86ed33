"""A member of ours as a process that may be killed or frozen: a line for each message it is handed.

    python groupmember.py TOPIC STREAMS OPTIONS         options of the consumer by their dotted names, as JSON

    CONSUMER-ID                         the first line
    MONOTONIC PARTITION OFFSET VALUE    when it was handed out, by the clock that all processes of the machine share
    switched MODE, refused TEXT         after a line `MODE` on standard input: where to keep its offsets from now on

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
from zkconsumer.streams.stream import Stream


def say(event: ConsumerEvent) -> None:
    sys.stderr.write(f"{time.monotonic():.3f} {event.kind}: {event.text}\n")
    sys.stderr.flush()


def tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def read(stream: Stream) -> None:
    for message in stream:
        value = (message.value or b"").decode()
        tell(f"{time.monotonic():.3f} {message.partition} {message.offset} {value}")


def obey(connector: ConsumerConnector) -> None:
    for line in sys.stdin:
        try:
            connector.switch_offsets(line.strip())  # type: ignore[arg-type]  # the test knows the modes
            tell(f"switched {line.strip()}")
        except ConsumerError as e:
            tell(f"refused {e}")


def main(topic: str, streams: str, options: str) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with ConsumerConnector(json.loads(options), "own", on_event=say) as connector:
        tell(connector.consumer_id)
        found = connector.create_message_streams({topic: int(streams)})[topic]
        threads = [threading.Thread(target=read, args=(stream,)) for stream in found]
        for thread in threads:
            thread.start()
        threading.Thread(target=obey, args=(connector,), daemon=True).start()
        stop.wait()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
