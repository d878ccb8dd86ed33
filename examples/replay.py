"""Replay: prints the messages of a topic from a time on, up to what there is now.  No group, no ZooKeeper.

    python examples/replay.py broker1:9092 orders 2026-11-21T08:00+01:00

Brokers before 0.10.1 know the times of log files only, so there the replay begins up to one file too early, and never
too late.
"""

import sys
from datetime import datetime

from kafkawire.errors import WireError
from zkconsumer import SimpleConsumer, TopicPartition

if len(sys.argv) != 4:
    sys.exit(__doc__)
broker, topic, time = sys.argv[1:]
host, port = broker.rsplit(":", 1)
time_ms = round(datetime.fromisoformat(time).timestamp() * 1000)
try:
    with SimpleConsumer(host, int(port)) as consumer:
        view = consumer.topic_metadata(None)  # of all topics: asked by name, a missing one would be created
    for partition in view.partitions(topic) or sys.exit(f"{broker} knows no topic {topic}"):
        tp = TopicPartition(topic, partition)
        leader = view.leader(tp) or sys.exit(f"{tp} has no leader now: try again later")
        with SimpleConsumer(leader.host, leader.port) as consumer:
            offset, end = consumer.offset_for_time(tp, time_ms), consumer.latest(tp)
            while offset < end:
                fetched = consumer.fetch(topic, partition, offset)
                for message in fetched.messages():
                    print(partition, message.offset, message.value)
                offset = fetched.resume_at
except WireError as why:  # out of reach, another leader by now, a message larger than a fetch: the sentence says which
    sys.exit(str(why))
