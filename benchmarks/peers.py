"""How other clients read a topic, for benchmarks/consume.py; runs in a virtual environment that has nothing but them.

    python peers.py WHO BROKER TOPIC PARTITIONS COUNT FETCH_BYTES

Prints one line of JSON: messages read, the sum of their offsets, and from the first ask to the last message seconds and
processor time.
"""

import json
import sys
import time

from common import Watch, confluent_consumer


def kafka_python(broker, topic, partitions, count, fetch_bytes):
    """The iterator of kafka-python, which checks checksums."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=[broker],
        api_version=(0, 8, 2),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=fetch_bytes,
        consumer_timeout_ms=20_000,
    )
    consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
    read = offsets = 0
    watch = Watch()
    for message in consumer:
        offsets += message.offset
        read += 1
        if read >= count:
            break
    return {"read": read, "offsets": offsets, **watch.passed()}


def confluent_kafka(broker, topic, partitions, count, fetch_bytes):
    """consume(500) of confluent-kafka, checksums off (its default)."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(confluent_consumer(broker, fetch_bytes))
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    read = offsets = 0
    watch = Watch()
    silent_until = time.monotonic() + 20
    while read < count and time.monotonic() < silent_until:
        messages = consumer.consume(500, 1.0)
        good = [message for message in messages if message.error() is None]
        if good:
            silent_until = time.monotonic() + 20
            read += len(good)
            offsets += sum([message.offset() for message in good])
    return {"read": read, "offsets": offsets, **watch.passed()}


if __name__ == "__main__":
    who, broker, topic, partitions, count, fetch_bytes = sys.argv[1:]
    readers = {"kafka-python": kafka_python, "confluent-kafka": confluent_kafka}
    print(json.dumps(readers[who](broker, topic, int(partitions), int(count), int(fetch_bytes))))
