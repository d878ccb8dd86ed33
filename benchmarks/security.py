"""CPU that TLS costs: the same bytes fetched from and produced to a real broker, plain and encrypted, in one run.

    python benchmarks/security.py [--small] [--megabytes 200] [--rounds 2] [--json FILE]

MB a CPU second of this process for each; a broker of 3.9 in KRaft mode is started for it.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import click
from common import Report, Run, turns

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


@click.command()
@click.option("--small", is_flag=True, help="A tenth of the bytes, to try the benchmark itself.")
@click.option("--megabytes", default=200, help="Of each run.")
@click.option("--rounds", default=2, help="Runs of each, in turns; the median counts.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="File for runs and figures as JSON.")
def main(small: bool, megabytes: int, rounds: int, file: Path | None) -> None:
    """Send and fetch the same bytes with TLS and without, in turns, and print what TLS costs."""
    report, count = Report("security", short=small), megabytes * 1_000_000 // VALUE_BYTES // (10 if small else 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        listeners = SecureListeners(folder / "listeners", {"SSL": "SSL"})
        settings = {"num.partitions": "1", "log.segment.bytes": str(1 << 30)}
        with KraftBroker(folder / "broker", "3.9.1", settings=settings, secure=listeners, flags=FLAGS) as broker:
            ca = str(listeners.authority.certificate)
            options = {"plain": {}, "TLS": {"security.protocol": "SSL", "ssl.ca.location": ca}}
            security = {"plain": OPEN, "TLS": Security(protocol="SSL", tls=Tls(ca=ca))}
            address = {"plain": broker.brokers, "TLS": listeners.address("SSL")}
            produced(broker.brokers, {}, 100)
            for who in turns(["plain", "TLS"], rounds):
                used = produced(address[who], options[who], count)
                report.add(Run("produce", who, count, VALUE_BYTES, cpu_s=used))
            for who in turns(["plain", "TLS"], rounds):
                read, used = fetched(address[who], security[who], count * VALUE_BYTES)
                report.add(Run("fetch", who, read // VALUE_BYTES, VALUE_BYTES, cpu_s=used))
    for work in ("produce", "fetch"):
        report.compare(work, "TLS", "plain")
    report.end(file)


def produced(address: str, options: dict[str, str], count: int) -> float:
    """CPU seconds of so many messages."""
    value = os.urandom(VALUE_BYTES)
    with Producer({"metadata.broker.list": address, **options}) as producer:
        producer.send(TP.topic, b"first").result(30)
        began = time.process_time()
        for _ in range(count):
            producer.send(TP.topic, value)
        producer.flush(120)
        return time.process_time() - began


def fetched(address: str, security: Security, wanted: int) -> tuple[int, float]:
    """Bytes that were read, at least those wanted, and the CPU seconds of it."""
    host, port = address.split(":")
    versions = ClusterVersions("2.8")
    links = Links("bench", security.connect(), 30_000)
    link, d = links.link(Broker(0, host, int(port)), "fetch"), versions.dialect
    at, read = 0, 0
    link.open()
    began = time.process_time()
    while read < wanted:
        (found,) = link.call(d.requests.fetch(d, 500, 1, [(TP, at, FETCH_BYTES)]))
        read += len(found.buffer)  # the beginning of the log again and again
    used = time.process_time() - began
    links.close()
    return read, used


if __name__ == "__main__":
    main()
