"""A program that reads fixed partitions as a user's would: `PARTITION OFFSET` a line, until ctrl-C.

python -m tests.integration.fixedreader OPTIONS(json) TOPIC STREAMS PAUSE_MS
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time

from zkconsumer.connector import ConsumerConnector
from zkconsumer.streams.stream import Stream


def read(stream: Stream, pause_s: float) -> None:
    for message in stream:
        sys.stdout.write(f"{message.partition} {message.offset}\n")
        sys.stdout.flush()
        time.sleep(pause_s)


def main() -> None:
    options, topic, streams, pause_ms = sys.argv[1:]
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    try:
        with ConsumerConnector(json.loads(options)) as connector:
            made = connector.create_message_streams({topic: int(streams)})[topic]
            for stream in made[1:]:
                threading.Thread(target=read, args=(stream, int(pause_ms) / 1000), daemon=True).start()
            read(made[0], int(pause_ms) / 1000)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
