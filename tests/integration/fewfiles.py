"""A program that may open only so many files more than it has open once it is loaded.

fewfiles.py consume ZOOKEEPER GROUP TOPIC COUNT FILES     reads COUNT messages
fewfiles.py produce BROKERS|- ZOOKEEPER TOPIC FILES       sends one message
"""

from __future__ import annotations

import os
import resource
import sys

import kazoo.handlers.gevent  # noqa: F401  # what a program that runs for long has loaded

import producer.zookeeper  # noqa: F401
import zkconsumer.member.member  # noqa: F401
from groundwork.logs import set_up_logging
from groundwork.options import load
from producer.config import ProducerConfig
from producer.producer import Producer
from zkconsumer.connector import ConsumerConnector


def consume(zookeeper: str, group: str, topic: str, count: str) -> None:
    options = {
        "zookeeper.connect": zookeeper,
        "zookeeper.connection.timeout.ms": 2000,
        "group.id": group,
        "auto.offset.reset": "smallest",
        "consumer.timeout.ms": 3000,
    }
    with ConsumerConnector(options, hub="own") as connector:
        [stream] = connector.create_message_streams({topic: 1})[topic]
        for _ in range(int(count)):
            next(stream)


def produce(brokers: str, zookeeper: str, topic: str) -> None:
    where = {"zookeeper.connect": zookeeper} if brokers == "-" else {"metadata.broker.list": brokers}
    options: dict[str, object] = {"zookeeper.connection.timeout.ms": 1500, "topic.wait.ms": 5000, **where}
    options["delivery.timeout.ms"] = 3000
    with Producer(load(ProducerConfig, options, "fewfiles"), hub="own") as sends:
        sends.send(topic, b"value").result(20)


set_up_logging()
what, *arguments, more = sys.argv[1:]
"é".encode("utf-16-be")
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1 + int(more), 1024))
if what == "consume":
    consume(*arguments)
else:
    produce(*arguments)
print("done", flush=True)
os._exit(0)
