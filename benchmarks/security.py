"""CPU that TLS costs: the same bytes fetched from and produced to a real broker, plain and encrypted, in one run.

    python -m benchmarks.security [--megabytes 200]

Prints MB a CPU second of this process for each; a broker of 3.9 in KRaft mode is started for it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from kafkawire.cluster.versions import ClusterVersions
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.net.security import OPEN, Security
from kafkawire.net.tls import Tls
from localkafka.kraft import KraftBroker
from localkafka.listeners import SecureListeners
from producer.producer import Producer

TP = TopicPartition("bytes", 0)
FETCH_BYTES = 8 << 20
VALUE_BYTES = 100_000
FLAGS = ("-Xmx1g",)  # the whole JIT: without it the broker encrypts a few MB a second


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=200)
    megabytes = parser.parse_args().megabytes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        listeners = SecureListeners(folder / "listeners", {"SSL": "SSL"})
        settings = {"num.partitions": "1", "log.segment.bytes": str(1 << 30)}
        with KraftBroker(folder / "broker", "3.9.1", settings=settings, secure=listeners, flags=FLAGS) as broker:
            ca = str(listeners.authority.certificate)
            tls = {"security.protocol": "SSL", "ssl.ca.location": ca}
            produced(broker.brokers, {}, 10)
            for what, address, options in (("plain", broker.brokers, {}), ("TLS", listeners.address("SSL"), tls)) * 2:
                print(f"produce {what}: {produced(address, options, megabytes):.0f} MB a CPU second", flush=True)
            secured = Security(protocol="SSL", tls=Tls(ca=ca))
            for what, address, security in (
                ("plain", broker.brokers, OPEN),
                ("TLS", listeners.address("SSL"), secured),
            ) * 2:
                print(f"fetch {what}: {fetched(address, security, megabytes):.0f} MB a CPU second", flush=True)


def produced(address: str, options: dict[str, str], megabytes: int) -> float:
    value = os.urandom(VALUE_BYTES)
    count = megabytes * 1_000_000 // VALUE_BYTES
    with Producer({"metadata.broker.list": address, **options}) as producer:
        producer.send(TP.topic, b"first").result(30)
        began = time.process_time()
        for _ in range(count):
            producer.send(TP.topic, value)
        producer.flush(120)
        return megabytes / (time.process_time() - began)


def fetched(address: str, security: Security, megabytes: int) -> float:
    host, port = address.split(":")
    versions = ClusterVersions("2.8")
    links = Links("bench", security.connect(), 30_000)
    link, d = links.link(Broker(0, host, int(port)), "fetch"), versions.dialect
    at, left = 0, megabytes * 1_000_000
    link.open()
    began = time.process_time()
    while left > 0:
        (found,) = link.call(d.requests.fetch(d, 500, 1, [(TP, at, FETCH_BYTES)]))
        left -= len(found.buffer)  # the beginning of the log again and again
    used = time.process_time() - began
    links.close()
    return megabytes / used


if __name__ == "__main__":
    main()
