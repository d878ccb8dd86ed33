"""Exactly once into PostgreSQL: results and offsets are one transaction, so a crash neither repeats nor loses any.

    python -c "from zkconsumer.offsets.database import DDL; print(DDL)" | psql postgresql://me@db1/shop
    psql postgresql://me@db1/shop -c "CREATE TABLE words (word TEXT PRIMARY KEY, seen BIGINT NOT NULL)"
    python examples/exactly_once_postgres.py zk1:2181/kafka words counting postgresql://me@db1/shop

Counts the messages of each value.  Needs pg8000.  Start it several times: the group divides the partitions.  Whatever
ends it, its next start goes on where the database says.
"""

import signal
import sys
from collections.abc import Mapping
from urllib.parse import urlsplit

import pg8000.dbapi

from zkconsumer import ConsumerConnector, ConsumerError, ConsumerListener, TopicPartition
from zkconsumer.offsets.database import DatabaseOffsets

COUNT = "INSERT INTO words VALUES (%s, 1) ON CONFLICT (word) DO UPDATE SET seen = words.seen + 1"


class FromDatabase(ConsumerListener):
    """Begins where the database says; the offsets in ZooKeeper are for lag tools."""

    def before_start(self, assignment: Mapping[TopicPartition, str]) -> dict[TopicPartition, int]:
        return {tp: at for tp, at in store.read(group, assignment).items() if isinstance(at, int)}


if len(sys.argv) != 5:
    sys.exit(__doc__)
zookeeper, topic, group, database = sys.argv[1:]
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: sys.exit())
at = urlsplit(database)
connection = pg8000.dbapi.connect(at.username, at.hostname, at.path[1:], at.port or 5432, at.password)
store = DatabaseOffsets(connection, "format")
options = {"zookeeper.connect": zookeeper, "group.id": group, "auto.offset.reset": "smallest"}
try:
    with ConsumerConnector(options, listener=FromDatabase()) as consumer:
        [stream] = consumer.create_message_streams({topic: 1})[topic]
        for batch in stream.batches():
            with store.transaction() as cursor:
                cursor.executemany(COUNT, [(value.decode(),) for value in batch.values if value is not None])
                store.write(cursor, group, {batch.tp: batch.resume_at}, {batch.tp: batch.offsets[0]})
except ConsumerError as why:  # a ForeignWrite, too: another member has the partition, and this batch is rolled back
    sys.exit(f"group {group}: {why}")
