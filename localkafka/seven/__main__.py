"""`python -m localkafka.seven server.properties`: a Kafka 0.7 broker in pure Python, for tests.

It uses the protocol of 0.7.2 (0.7.0 and 0.7.1 by test.release), keeps real segment files and registers in ZooKeeper.
Its server.properties has the original's names with the original's meaning.  Differences from the original:

    disk           no fsync: kill -9 loses nothing that was appended, a crash of the machine may
    threads        one thread serves all connections; num.threads, socket buffers and monitoring.period.secs are ignored
    metrics        no JMX, no statistics, no request log
    0.7.0          of its differences only those in test.release: codecs, no limit on messages, topics created by reads.
                   The original 0.7.0 also stored the cut tail of a set, rolled after an append, accepted any topic
                   name that is not empty, and could run a mirror (embedded consumers)
    compression    a wrapper that decompresses to more than 256 MiB is refused
    interfaces     it listens on `hostname` only (default: 127.0.0.1), the original on all interfaces

SIGTERM ends it cleanly: connections closed, logs flushed, nodes deleted, .kafka_cleanshutdown written.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from groundwork.java import read_properties
from groundwork.logs import set_up_logging
from localkafka.errors import LocalKafkaError
from localkafka.seven.handling import Handler
from localkafka.seven.logs import Logs
from localkafka.seven.registration import Registration
from localkafka.seven.server import Server
from localkafka.seven.settings import Settings, settings


def serve(given: Settings) -> None:
    """Run a broker until SIGTERM or SIGINT.  Raises LocalKafkaError when it cannot start."""
    registration = None
    if given.zookeeper is not None:
        address = f"{given.host}:{given.port}"
        partitions = given.partitions.of
        registration = Registration(
            given.zookeeper,
            session_ms=given.session_ms,
            connection_ms=given.connection_ms,
            broker=given.broker,
            address=address,
            partitions=partitions,
        )
    logs = Logs(given, registration.new_topic if registration else lambda topic: None)
    server = Server(given.host, given.port, given.max_request_size, Handler(given, logs).answer)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    server.every(given.flusher_ms, logs.flush_due)
    server.every(given.cleanup_ms, logs.clean, first_ms=given.cleanup_delay_ms)
    try:
        if registration is not None:
            registration.start(logs.topics)  # it listens already: a client that sees the node can connect
        server.run()
    finally:
        logs.close()
        if registration is not None:
            registration.close()


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        sys.exit(0 if len(sys.argv) == 2 else 2)
    set_up_logging("info")
    try:
        serve(settings(read_properties(Path(sys.argv[1]).read_text(encoding="utf-8"))))
    except (LocalKafkaError, OSError) as error:
        print(f"localkafka.seven: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
