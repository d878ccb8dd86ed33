"""Clusters newer than 0.10, and producers of their own clients: transactions, headers, times, every codec."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from kafkawire.model import TopicPartition
from localkafka import tools
from localkafka.child import Child
from localkafka.client import ClusterClient, log_end_offsets
from localkafka.waiting import wait_until

PROGRAM = Path(__file__).with_name("ModernProducer.java")


class ModernProducer:
    """Producers by name in one JVM, of the cluster's own client version: see ModernProducer.java."""

    def __init__(self, cluster: ClusterClient, folder: Path) -> None:
        argv = tools.java_command(cluster.version, str(PROGRAM), [cluster.brokers], ("-Xmx96m", "-XX:+UseSerialGC"))
        self._cluster = cluster
        self._log = folder / "modern-producer.log"
        pipe = subprocess.PIPE
        self._child = Child("the modern producer", argv, self._log, stdin=pipe, stdout=pipe)
        self._opened: set[str] = set()

    def _tell(self, line: str) -> None:
        to, back = _pipe(self._child.stdin), _pipe(self._child.stdout)
        to.write(line.encode() + b"\n")
        to.flush()
        assert back.readline() == b"ok\n", self._log.read_text(errors="replace")

    def _open(self, name: str, options: str) -> None:
        if name not in self._opened:
            self._tell(f"open {name} {options}".rstrip())
            self._opened.add(name)

    def send(
        self,
        topic: str,
        partition: int,
        first: int,
        count: int,
        codec: str = "none",
        value_bytes: int = 0,
        time_ms: int = 0,
        headers: int = 0,
    ) -> None:
        """Messages first .. first + count - 1 of a partition, in a batch where they fit one; all acknowledged."""
        self._open(codec, f"compression.type={codec} batch.size=1000000")
        self._send(codec, topic, partition, first, count, value_bytes, time_ms, headers)
        self._tell(f"flush {codec}")

    def transaction(
        self, topic: str, partitions: dict[int, tuple[int, int]], commit: bool = True, codec: str = "none"
    ) -> None:
        """One transaction: {partition: (first, count)}.  Returns when its end stands in every partition's log."""
        ends = log_end_offsets(self._cluster, [topic])
        name = f"tx-{codec}"
        self._open(name, f"transactional.id={name}-{self._log.parent.name} compression.type={codec} batch.size=1000000")
        self._tell(f"begin {name}")
        for partition, (first, count) in partitions.items():
            self._send(name, topic, partition, first, count)
        self._tell(f"{'commit' if commit else 'abort'} {name}")
        # The coordinator answers when its own log says how the transaction ends, and writes the markers afterwards.
        for partition, (_, count) in partitions.items():
            ends[TopicPartition(topic, partition)] += count + 1
        wait_until(lambda: log_end_offsets(self._cluster, [topic]) == ends, 20, lambda: f"the markers behind {ends}")

    @contextmanager
    def open_transaction(self, topic: str, partitions: dict[int, tuple[int, int]]) -> Iterator[None]:
        """A transaction that is not over while the block runs, {partition: (first, count)}; then it is aborted."""
        name = "tx-open"
        self._open(name, f"transactional.id={name}-{self._log.parent.name} batch.size=1000000")
        self._tell(f"begin {name}")
        for partition, (first, count) in partitions.items():
            self._send(name, topic, partition, first, count)
        self._tell(f"flush {name}")
        try:
            yield
        finally:
            self._tell(f"abort {name}")

    def configure(self, topic: str, key: str, value: str) -> None:
        """Set an option of a topic."""
        self._tell(f"configure {topic} {key} {value}")

    def _send(
        self,
        name: str,
        topic: str,
        partition: int,
        first: int,
        count: int,
        value_bytes: int = 0,
        time_ms: int = 0,
        headers: int = 0,
    ) -> None:
        self._tell(f"send {name} {topic} {partition} {first} {count} {value_bytes} {time_ms} {headers}")

    def close(self) -> None:
        self._child.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _pipe(end: IO[bytes] | None) -> IO[bytes]:
    assert end is not None
    return end


def named(topic: str, partition: int, first: int, count: int) -> list[str]:
    """The values of such messages."""
    return [f"{topic}/{partition} #{n}" for n in range(first, first + count)]
