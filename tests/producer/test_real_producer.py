"""Producer and zkproducer against real 0.8.2.2 brokers, read by the JVM's own console consumer."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from kafkawire.errors import BrokerError
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.tools import console_consumer, dump_partition
from producer.config import ProducerConfig
from producer.producer import Producer

pytestmark = pytest.mark.real


def config_of(cluster: ClusterClient, **options: Any) -> ProducerConfig:
    brokers = tuple((host, int(port)) for host, port in (entry.split(":") for entry in cluster.brokers.split(",")))
    return ProducerConfig(brokers=brokers, **options)


def test_the_jvm_consumer_reads_what_we_send(target: ClusterClient, unique: Any):
    topic = unique.topic("codecs")
    target.create_topic(topic, partitions=3)
    sent = [(b"k%d" % (n % 50), b"%06d " % n + b"value " * (n % 30)) for n in range(4000)]
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4")):
        with Producer(config_of(target, codec=codec)) as producer:
            for key, value in sent[1000 * number : 1000 * (number + 1)]:
                producer.send(topic, value, key)
    with console_consumer(target, topic, key_separator="|") as consumer:
        lines = consumer.wait_for(len(sent))
    assert Counter(lines) == Counter(key + b"|" + value for key, value in sent)
    in_order: dict[bytes, list[bytes]] = {}
    for line in lines:
        key, _, value = line.partition(b"|")
        in_order.setdefault(key, []).append(value)
    assert all(values == sorted(values) for values in in_order.values())
    stored = [entry for p in range(3) for entry in dump_partition(target, topic, p)]
    assert len(stored) == len(sent)


def test_zkproducer_end_to_end(target: ClusterClient, unique: Any):
    topic = unique.topic("console")
    target.create_topic(topic, partitions=2)
    lines = [b"k%d:line %d" % (n % 7, n) for n in range(500)]
    command = [sys.executable, "-c", "from producer.console import main; main()", "--broker-list", target.brokers]
    command += ["--topic", topic, "--compression-codec", "snappy", "--key-separator", ":"]
    done = subprocess.run(command, input=b"\n".join(lines), capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    with console_consumer(target, topic, key_separator=":") as consumer:
        assert Counter(consumer.wait_for(len(lines))) == Counter(lines)


def test_a_topic_that_is_missing_is_created_by_the_broker(target: ClusterClient, unique: Any):
    topic = unique.topic("auto")
    with Producer(config_of(target)) as producer:
        producer.send(topic, b"v")
        producer.flush()
    with console_consumer(target, topic) as consumer:
        assert consumer.wait_for(1) == [b"v"]


def test_a_topic_that_the_brokers_cannot_create_takes_no_other_with_it():
    with Cluster("0.8.2.2", settings={"default.replication.factor": 3}) as cluster:  # more than there are brokers
        for topic in ("good", "other"):
            cluster.create_topic(topic, partitions=1)
        with Producer(config_of(cluster, retries=3)) as producer:
            first = producer.send("good", b"1")
            with pytest.raises(BrokerError, match="UnknownServerError"):
                producer.send("bad", b"x")
            rest = [producer.send("other", b"2"), producer.send("good", b"3")]
            assert [delivery.result(20).offset for delivery in (first, *rest)] == [0, 0, 1]
