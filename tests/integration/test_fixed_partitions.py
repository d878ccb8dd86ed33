"""Fixed partitions on real brokers: no ZooKeeper, a file of positions, kill -9, ctrl-C, a leader that dies."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from localkafka.load import Load, Mixture
from localkafka.waiting import wait_until
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import ConsumerTimeout
from zkconsumer.events import ConsumerEvent
from zkconsumer.fetching.currentleaders import RefreshedLeaders
from zkconsumer.streams.stream import Stream

pytestmark = pytest.mark.real

MIXED = Mixture(0.5, (0, 1, 2))


def add(cluster: ClusterClient, topic: str, partitions: int, count: int) -> None:
    load = Load(cluster.brokers, cluster.version)
    load.produce(topic, partitions, count, MIXED, batch=max(1, count // partitions // 10))
    load.close()


def options(cluster: ClusterClient, partitions: dict[str, list[int]], file: Path, **more: object) -> dict[str, object]:
    return {
        "group.id": "listed",
        "partitions": partitions,
        "metadata.broker.list": cluster.brokers,
        "offsets.file": str(file),
        "auto.offset.reset": "smallest",
        "auto.commit.interval.ms": 100,
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def kept(file: Path, topic: str) -> dict[int, int]:
    """The positions of a topic in an offsets file, which is whole at every moment."""
    if not file.exists():
        return {}
    return {int(p): at for p, at in json.loads(file.read_text())["offsets"].get(topic, {}).items()}


class Reading:
    """fixedreader as a child process; its lines go to a file."""

    def __init__(
        self, values: dict[str, object], topic: str, folder: Path, streams: int = 1, pause_ms: int = 0
    ) -> None:
        self.out = folder / f"{len(list(folder.iterdir()))}.out"
        self.err = self.out.with_suffix(".err")
        argv = [json.dumps(values), topic, str(streams), str(pause_ms)]
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.fixedreader", *argv], stdout=out, stderr=err
            )

    def got(self) -> list[tuple[int, int]]:
        """(partition, offset) of the whole lines so far."""
        lines = self.out.read_bytes().split(b"\n")[:-1]
        return [(int(partition), int(offset)) for partition, offset in (line.split(b" ") for line in lines)]

    def wait_for(self, count: int) -> None:
        wait_until(
            lambda: len(self.got()) >= count, 20, lambda: f"{count} lines, have {self.out}: {self.err.read_text()}"
        )

    def peers(self) -> set[int]:
        """Ports of the other ends of its TCP connections."""
        folder = Path(f"/proc/{self.process.pid}")
        inodes = set()
        for fd in (folder / "fd").iterdir():
            try:
                inodes.add(os.readlink(fd))
            except OSError:
                continue  # closed meanwhile
        ports = set()
        for line in (folder / "net/tcp").read_text().splitlines()[1:]:
            columns = line.split()
            if f"socket:[{columns[9]}]" in inodes:
                ports.add(int(columns[2].partition(":")[2], 16))
        return ports

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(15)

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()


def test_a_restart_goes_on_at_the_file_after_ctrl_c_and_after_kill_9(source, unique, tmp_path):
    topic, file = unique.topic(), tmp_path / "positions" / "offsets.json"
    file.parent.mkdir()
    (tmp_path / "out").mkdir()
    source.create_topic(topic, 3)
    add(source, topic, 3, 1500)
    values = options(source, {topic: [0, 2]}, file)

    with Reading(values, topic, tmp_path / "out", pause_ms=2) as killed:
        killed.wait_for(200)
        wait_until(lambda: sum(kept(file, topic).values()) > 100, 10, "commits")
        brokers = {int(port) for port in re.findall(r":(\d+)", source.brokers)}
        assert killed.peers() <= brokers
        assert killed.peers()
        killed.kill()
        seen, at_kill = killed.got(), kept(file, topic)

    with Reading(values, topic, tmp_path / "out", streams=2, pause_ms=1) as interrupted:
        interrupted.wait_for(300)
        assert interrupted.interrupt() == 130
        after, at_end = interrupted.got(), kept(file, topic)
        assert "Traceback" not in interrupted.err.read_text()
    for p in (0, 2):
        again = [offset for partition, offset in after if partition == p]
        before = [offset for partition, offset in seen if partition == p]
        assert again[0] == at_kill[p]  # nothing is left out, and what was committed is not repeated
        assert before == list(range(len(before)))
        assert again == list(range(at_kill[p], at_kill[p] + len(again)))
        # The message in the hands of the thread that was interrupted is not done; any other thread's may be.
        assert at_end[p] in (again[-1], again[-1] + 1)

    with Reading(values, topic, tmp_path / "out") as last:
        last.wait_for(1000 - sum(at_end.values()))
        assert last.interrupt() == 130
        for p in (0, 2):
            assert [offset for partition, offset in last.got() if partition == p] == list(range(at_end[p], 500))


def rest(stream: Stream) -> list[tuple[int, int]]:
    got: list[tuple[int, int]] = []
    try:
        for message in stream:
            got.append((message.partition, message.offset))
    except ConsumerTimeout:
        pass
    return got


def known(connector: ConsumerConnector) -> list[str]:
    """Where the connector has seen brokers."""
    engine = connector._engine
    assert engine is not None
    return [f"{broker.host}:{broker.port}" for broker in engine.assignment.leaders._brokers.values()]


@pytest.mark.faults
def test_a_leader_that_dies_and_one_that_came_back_at_another_port_are_found_by_metadata(
    own_cluster: Callable[..., ClusterClient], unique, tmp_path, monkeypatch
):
    monkeypatch.setattr(RefreshedLeaders, "refresh_s", 0.5)
    cluster = own_cluster(brokers=2)
    topic, file = unique.topic(), tmp_path / "offsets.json"
    cluster.create_topic(topic, 2, replication=2)
    add(cluster, topic, 2, 200)
    events: list[ConsumerEvent] = []
    values = options(cluster, {topic: [0, 1]}, file, consumer_timeout_ms=1000)
    with ConsumerConnector(values, "own", on_event=events.append) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        got = Counter(rest(stream))
        assert len(got) == 200
        leader = cluster.wait_leader(topic, 0)
        cluster.node(leader).kill()
        cluster.wait_leader(topic, 0, other_than=leader)
        add(cluster, topic, 2, 200)
        wait_until(lambda: got.update(rest(stream)) or len(got) >= 400, 20, lambda: f"400 messages, have {len(got)}")
        cluster.node(leader).restart(port=0)
        cluster.wait_in_sync(topic)
        back = cluster.node(leader).address
        wait_until(lambda: back in known(connector), 10, "the next look at the brokers")
        other = cluster.wait_leader(topic, 0)
        cluster.node(other).kill()
        cluster.wait_leader(topic, 0, other_than=other)
        add(cluster, topic, 2, 100)
        wait_until(lambda: got.update(rest(stream)) or len(got) >= 500, 20, lambda: f"500 messages, have {len(got)}")
    ends = kept(file, topic)
    assert set(got) == {(p, offset) for p in (0, 1) for offset in range(ends[p])}
    assert set(got.values()) == {1}
    assert not [event for event in events if event.kind in ("gap", "reset", "parked", "offset")]


def test_a_partition_that_the_cluster_does_not_have_is_told_and_not_created(source, unique, tmp_path):
    topic, absent = unique.topic(), unique.topic("absent")
    source.create_topic(topic, 1)
    add(source, topic, 1, 20)
    events: list[ConsumerEvent] = []
    values = options(source, {topic: [0, 7], absent: [0]}, tmp_path / "offsets.json", consumer_timeout_ms=1500)
    with ConsumerConnector(values, "own", on_event=events.append) as connector:
        streams = connector.create_message_streams({topic: 1, absent: 1})
        assert [offset for _, offset in rest(streams[topic][0])] == list(range(20))
        assert {row.tp: row.state for row in connector.status()} == {
            TopicPartition(topic, 0): "reading",
            TopicPartition(topic, 7): "looking for leader",
            TopicPartition(absent, 0): "looking for leader",
        }
    assert sorted(event.text for event in events if event.kind == "missing") == sorted(
        [
            f"{topic}/7: partition does not exist: topic {topic} has 0; looking for it",
            f"{absent}/0: there is no topic {absent}; looking for it",
        ]
    )
    assert not source.registry().zk.exists(f"/brokers/topics/{absent}")
