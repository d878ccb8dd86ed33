"""How other clients send, for benchmarks/produce.py; runs in a virtual environment that has nothing but them.

    python producepeers.py WHO BROKER TOPIC BYTES COUNT

Prints one line of JSON: seconds from the first send (of all but one) to the last acknowledgement.
"""

import json
import sys
import time


def kafka_python(broker, topic, value, count):
    """KafkaProducer.send(); its batches and its buffer are larger than by default, which makes it faster."""
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=[broker],
        api_version=(0, 8, 2),
        acks=1,
        linger_ms=5,
        batch_size=1 << 17,
        buffer_memory=128 << 20,
    )
    producer.send(topic, value).get(30)
    started = time.monotonic()
    for _ in range(count - 1):
        producer.send(topic, value)
    producer.flush()
    seconds = time.monotonic() - started
    producer.close()
    return seconds


def confluent_kafka(broker, topic, value, count):
    """Producer.produce(); events are served only where its queue is full, as its makers advise for throughput."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": broker,
            "api.version.request": False,
            "broker.version.fallback": "0.8.2.2",
            "acks": 1,
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
        }
    )
    producer.produce(topic, value)
    producer.flush(30)
    started = time.monotonic()
    for _ in range(count - 1):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.05)
    left = producer.flush(300)
    seconds = time.monotonic() - started
    if left:
        raise SystemExit(f"{left} messages are not acknowledged")
    return seconds


if __name__ == "__main__":
    who, broker, topic, size, count = sys.argv[1:]
    senders = {"kafka-python": kafka_python, "confluent-kafka": confluent_kafka}
    print(json.dumps(senders[who](broker, topic, b"x" * int(size), int(count))))
