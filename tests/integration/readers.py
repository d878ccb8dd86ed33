"""Readers for tests: connectors of ours in this process, and console consumers of ours as child processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kafkawire.model import TopicPartition
from kafkawire.znodes import v08 as znodes
from localkafka.client import ClusterClient
from localkafka.waiting import wait_until
from zkconsumer.daemonconnector import DaemonConnector
from zkconsumer.events import ConsumerEvent
from zkconsumer.filters import TopicFilter
from zkconsumer.options.config import ConsumerConfig, load_consumer
from zkconsumer.streams.stream import Stream


class Got(NamedTuple):
    tp: TopicPartition
    offset: int
    value: bytes | None
    at: float  # monotonic seconds when it was handed out


def config(zookeeper: str, group: str, **options: object) -> ConsumerConfig:
    """options by their dotted names, with underscores: auto_commit_interval_ms=200."""
    values = {
        "zookeeper.connect": zookeeper,
        "group.id": group,
        "auto.offset.reset": "smallest",
        "auto.commit.interval.ms": 300,
        **{key.replace("_", "."): value for key, value in options.items()},
    }
    return load_consumer(ConsumerConfig, values, "test")


class Reader:
    """A connector whose streams are read in threads.  got: what was handed out, in order per partition."""

    def __init__(
        self, zookeeper: str, group: str, wanted: Mapping[str, int] | TopicFilter, streams: int = 1, **options: object
    ) -> None:
        self.got: list[Got] = []
        self.events: list[ConsumerEvent] = []
        self.fenced_at: list[float] = []
        self.errors: list[BaseException] = []
        self.connector = DaemonConnector(
            config(zookeeper, group, **options), "own", on_event=self.events.append, on_fence=self._fenced
        )
        if isinstance(wanted, TopicFilter):
            self.streams = self.connector.create_message_streams_by_filter(wanted, streams)
        else:
            by_topic = self.connector.create_message_streams(wanted)
            self.streams = [stream for each in by_topic.values() for stream in each]
        self._threads = [threading.Thread(target=self._read, args=(s,), daemon=True) for s in self.streams]
        for thread in self._threads:
            thread.start()

    def _fenced(self) -> None:
        self.fenced_at.append(time.monotonic())

    def _read(self, stream: Stream) -> None:
        try:
            for m in stream:
                self.got.append(Got(TopicPartition(m.topic, m.partition), m.offset, m.value, time.monotonic()))
        except BaseException as error:
            self.errors.append(error)

    @property
    def consumer_id(self) -> str:
        return self.connector.consumer_id

    def owns(self) -> set[TopicPartition]:
        return {row.tp for row in self.connector.status()}

    def kinds(self, kind: str) -> list[str]:
        return [event.text for event in self.events if event.kind == kind]

    def stop(self) -> None:
        self.connector.shutdown()
        for thread in self._threads:
            thread.join(10)
        assert not self.errors, self.errors

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.connector.shutdown()


class ChildReader:
    """`zkconsumer consume --print-offset` as a child process; lines go to a file."""

    def __init__(
        self, zookeeper: str, group: str, topic: str, folder: Path, failpoints: str = "", session_ms: int = 3000
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.out = folder / f"{time.monotonic_ns()}.out"
        self.err = self.out.with_suffix(".err")
        argv = ["consume", "-z", zookeeper, "--group", group, "--topic", topic, "--from-beginning", "--print-offset"]
        argv += ["--consumer-property", f"zookeeper.session.timeout.ms={session_ms}"]
        environment = {**os.environ, "GROUNDWORK_FAILPOINTS": failpoints}
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "zkconsumer.commands.main", *argv], stdout=out, stderr=err, env=environment
            )

    def got(self) -> list[tuple[str, int]]:
        """(partition, offset) of the whole lines so far."""
        rows = []
        for line in self.out.read_bytes().split(b"\n")[:-1]:
            partition, offset = line.split(b"\t")[0].decode().split(" ")
            rows.append((partition, int(offset)))
        return rows

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(15)

    def __enter__(self) -> ChildReader:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()


def owners(cluster: ClusterClient, group: str, topic: str) -> dict[int, str]:
    """Owner text by partition, as ZooKeeper has it."""
    zk = cluster.registry().zk
    folder = znodes.owners(group, topic)
    found = {}
    if zk.exists(folder):
        for name in zk.get_children(folder):
            node = zk.retry(_data, zk, f"{folder}/{name}")
            if node is not None:
                found[int(name)] = node
    return found


def _data(zk: object, path: str) -> str | None:
    from kazoo.exceptions import NoNodeError

    try:
        return zk.get(path)[0].decode()  # type: ignore[attr-defined,no-any-return]
    except NoNodeError:
        return None


def shares(cluster: ClusterClient, group: str, topic: str) -> Counter[str]:
    """How many partitions each consumer (thread ids without their number) owns."""
    return Counter(owner.rpartition("-")[0] for owner in owners(cluster, group, topic).values())


def committed(cluster: ClusterClient, group: str, topic: str) -> dict[int, int]:
    zk = cluster.registry().zk
    folder = znodes.offsets(group, topic)
    if not zk.exists(folder):
        return {}
    return {int(name): int(zk.get(f"{folder}/{name}")[0]) for name in zk.get_children(folder)}


def wait_for_messages(count: int, *readers: Reader, timeout_s: float = 30) -> None:
    wait_until(
        lambda: sum(len(reader.got) for reader in readers) >= count,
        timeout_s,
        lambda: f"{count} messages, have {[len(reader.got) for reader in readers]}",
    )


def places(*readers: Reader) -> Counter[tuple[TopicPartition, int]]:
    """How often each message was handed out."""
    return Counter((got.tp, got.offset) for reader in readers for got in reader.got)
