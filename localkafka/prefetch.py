"""`python -m localkafka.prefetch VERSION...`: fill the cache folder, for an image whose clusters need no Maven."""

from __future__ import annotations

import sys

from localkafka import java, releases
from localkafka.errors import LocalKafkaError


def prefetch(version: str) -> None:
    """Fetch the jars of a version and of ZooKeeper, and write the log configurations of servers.  Raises
    LocalKafkaError."""
    for name in dict.fromkeys((releases.ZOOKEEPER_FROM, version)):
        for level in ("WARN", "INFO"):
            java.command(releases.startable(name), "kafka.Kafka", (), level=level)


def main() -> None:
    try:
        for version in sys.argv[1:] or [releases.DEFAULT]:
            prefetch(version)
    except LocalKafkaError as error:
        sys.exit(f"localkafka: {error}")


if __name__ == "__main__":
    main()
