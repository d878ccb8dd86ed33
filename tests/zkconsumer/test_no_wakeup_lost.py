"""Readers, settlers, pauses and a lease that lapses beside the hub's thread: whatever changes places when, all of it
is read, and nobody waits for what has come.  A fetcher's look of each second, which would mend a lost wake-up, is off.
"""

from __future__ import annotations

import os
import queue
import random
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from tests.fakes.broker import FakeCluster, entry
from zkconsumer.connector import ConsumerConnector
from zkconsumer.fetching import brokerfetcher
from zkconsumer.streams.stream import Stream

PARTITIONS, COUNT = 4, 60
STALL_MS = 15_000  # a loaded machine gives one reader seconds without a turn


@pytest.fixture(autouse=True)
def restless(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(brokerfetcher, "IDLE_S", 60.0)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(scope="module")
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster({"t": PARTITIONS}, brokers=2) as running:
        for p in range(PARTITIONS):
            for n in range(COUNT):
                running.append("t", p, entry(os.urandom((10, 60, 200, 700)[(n * 7 + p) % 4])))
        yield running


class Round:
    """One connector read to the end in a way that the seed decides."""

    def __init__(self, cluster: FakeCluster, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.got: dict[int, list[int]] = {p: [] for p in range(PARTITIONS)}
        self.errors: list[BaseException] = []
        self.over = threading.Event()
        self._tickets: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._options = {
            "group.id": "g",
            "partitions": "t:" + ",".join(map(str, range(PARTITIONS))),
            "metadata.broker.list": ",".join(f"{host}:{port}" for host, port in cluster.bootstrap),
            "auto.offset.reset": "smallest",
            "auto.commit.enable": False,
            "offsets.file": str(folder / "offsets.json"),
            "consumer.timeout.ms": STALL_MS,
            "fetch.wait.max.ms": self.rng.choice([0, 20]),
            "fetch.message.max.bytes": self.rng.choice([1024, 2048, 8192]),
            "fetch.growth.max.bytes": 65536,
            "queued.max.bytes": 65536,
            "queued.max.message.chunks": self.rng.choice([1, 2, 4]),
            "rebalance.drain.ms": 0,  # what is in somebody's hands at the end is not waited for
        }

    def run(self) -> None:
        hub = self.rng.choice(["own", "own", "caller"])
        with ConsumerConnector(self._options, hub) as connector:  # type: ignore[arg-type]
            streams = connector.create_message_streams({"t": 1 if hub == "caller" else self.rng.choice([1, 2])})["t"]
            beside = [threading.Thread(target=self._settle, daemon=True)]
            if hub == "own":
                beside.append(threading.Thread(target=self._meddle, args=(connector,), daemon=True))
                beside += [threading.Thread(target=self._read, args=(stream,), daemon=True) for stream in streams]
            for thread in beside:
                thread.start()
            if hub == "caller":
                self._read(streams[0])
            assert self.over.wait(4 * STALL_MS / 1000), f"still reading: {self.got}"
            for thread in beside[:2]:
                thread.join(STALL_MS / 1000)
        assert self.errors == [], self.got

    def _whole(self) -> bool:
        return all(len(offsets) >= COUNT and len(set(offsets)) == COUNT for offsets in self.got.values())

    def _read(self, stream: Stream) -> None:
        rng = random.Random(self.rng.random())
        try:
            for partition, offsets in getattr(self, rng.choice(["_messages", "_batches", "_sets"]))(stream, rng):
                self.got[partition].extend(offsets)
                if rng.random() < 0.02:
                    time.sleep(rng.random() * 0.003)
                if self._whole():
                    return
        except BaseException as error:
            if not self._whole():  # the reader that got the last one ends; another one may still wait
                self.errors.append(error)
        finally:
            if self._whole() or self.errors:
                self.over.set()

    def _messages(self, stream: Stream, rng: random.Random) -> Iterator[tuple[int, list[int]]]:
        return ((message.partition, [message.offset]) for message in stream)  # type: ignore[misc]

    def _batches(self, stream: Stream, rng: random.Random) -> Iterator[tuple[int, list[int]]]:
        return ((batch.partition, batch.offsets) for batch in stream.batches())  # type: ignore[misc]

    def _sets(self, stream: Stream, rng: random.Random) -> Iterator[tuple[int, list[int]]]:
        for fetched, share in stream.sets():
            ticket = share.ticket(fetched.resume_at)
            if rng.random() < 0.5:
                ticket.done()
            else:
                self._tickets.put(ticket)
            yield fetched.partition, [message.offset for message in fetched.messages()]  # type: ignore[misc]

    def _settle(self) -> None:
        """What a sender does: in another thread, in any order."""
        held: list[object] = []
        while not self.over.is_set():
            try:
                held.append(self._tickets.get(timeout=0.002))
            except queue.Empty:
                self.rng.shuffle(held)
                while held:
                    held.pop().done()  # type: ignore[attr-defined]

    def _meddle(self, connector: ConsumerConnector) -> None:
        rng, lease = random.Random(self.rng.random()), connector._engine._lease  # type: ignore[union-attr]
        while not self.over.wait(rng.random() * 0.01):
            if rng.random() < 0.6:
                paused = [TopicPartition("t", p) for p in range(PARTITIONS) if rng.random() < 0.5]
                for tp in paused:
                    connector.pause(tp)
                time.sleep(rng.random() * 0.005)
                for tp in paused:
                    connector.resume(tp)
            else:
                until, lease.valid_until = lease.valid_until, 0.0
                time.sleep(rng.random() * 0.003)
                lease.valid_until = until


@pytest.mark.parametrize("seed", range(6))
def test_nobody_waits_for_what_has_come(cluster: FakeCluster, tmp_path: Path, seed: int) -> None:
    Round(cluster, tmp_path, seed).run()


@pytest.mark.faults
def test_nobody_waits_for_what_has_come_however_often(cluster: FakeCluster, tmp_path: Path) -> None:
    for seed in range(100, 500):
        Round(cluster, tmp_path, seed).run()
