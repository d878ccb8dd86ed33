"""Messages that a real target refuses for what they are: a key that a compacted topic asks for, a time that is to come.

Offsets in the source: plain entries 0 to 5, bad ones at 2 and 4; a gzip wrapper 6 to 8, bad one at 7.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.kraft import KraftBroker
from localkafka.load import GZIP
from localkafka.mirror import COMMAND
from localkafka.zookeeper import ZooKeeperAt
from mirrormaker import deadletter
from tests.conftest import Unique
from tests.integration.mirrorprocess import MirrorProcess
from tests.integration.sparktopics import produce
from tests.matrix.foreign import create_by_librdkafka, read_by_librdkafka

pytestmark = pytest.mark.real
BAD = (2, 4, 7)
COUNT = 9
Target = ClusterClient | KraftBroker
Rows = list[tuple[bytes | None, bytes, int | None]]


@pytest.fixture(scope="module")
def clusters(zk_server: ZooKeeperAt, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Target]]:
    """A cluster of a release, shared by the tests of this module."""
    made: dict[str, Cluster | KraftBroker] = {}

    def at(version: str) -> Target:
        if version not in made:
            folder, four = tmp_path_factory.mktemp("kraft"), version[0] == "4"
            made[version] = KraftBroker(folder, version) if four else Cluster(version=version, zookeeper=zk_server)
            made[version].start()
        return made[version]

    yield at
    for each in made.values():
        each.close()


def filled(source: ClusterClient, topic: str, bad: tuple[bytes | None, int | None], good_ms: int | None = None) -> None:
    """bad: key and time of the bad ones."""
    source.create_topic(topic, 1)
    rows: Rows = [(b"k", b"v%d" % n, good_ms) for n in range(COUNT)]
    for n in BAD:
        rows[n] = (bad[0], b"bad%d" % n, bad[1])
    tp = TopicPartition(topic, 0)
    produce(source, tp, [row[:2] for row in rows[:6]], at_ms=[row[2] for row in rows[:6]])
    produce(source, tp, [row[:2] for row in rows[6:]], GZIP, at_ms=[row[2] for row in rows[6:]])


def values(target: Target, topic: str) -> list[bytes]:
    return [row[5] for row in read_by_librdkafka(target.brokers, [topic])]  # type: ignore[misc]


class Mirror(MirrorProcess):
    """A mirror with a control socket, and commands to it."""

    def __init__(
        self, folder: Path, source: ClusterClient, target: Target, group: str, mirror: Mapping[str, object]
    ) -> None:
        run = folder / "run"
        run.mkdir()
        self._env_of_commands = {"RUNTIME_DIRECTORY": str(run)}
        super().__init__(folder, "m", self._env_of_commands)
        timing = {"offset.commit.interval.ms": 500, "transaction.interval.ms": 100}
        settings = {
            "sources": [{"name": "dc1", "zookeeper.connect": source.zookeeper, "group.id": group}],
            "target": {"metadata.broker.list": target.brokers},
            "mirror": {**timing, **mirror},
        }
        self.file.write_text(yaml.safe_dump(settings))

    def asked(self, *words: str) -> str:
        done = self._run(*words)
        assert done.returncode == 0, (done.stderr, self.said_last())
        return done.stdout + done.stderr

    def asked_once_parked(self, *words: str) -> str:
        """The same, tried until the partition stands: it is told as parked, and then its message may be looked for."""
        self.wait_for(lambda: self._run(*words).returncode == 0, f"an answer to {words}")
        return self.asked(*words)

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, **self._env_of_commands}
        return subprocess.run([COMMAND, *words], env=env, capture_output=True, text=True, timeout=60, check=False)

    def parked_at(self, topic: str, offset: int) -> dict[str, object]:
        """The row of the partition, once the log says that it is parked at this offset: its message may be looked for
        just then."""
        self.wait_for(lambda: self.told(topic)[-1:] == [offset], f"{topic} to be parked at {offset}")
        rows: list[dict[str, object]] = []

        def listed() -> bool:
            rows[:] = json.loads(self.asked("parked", "list", str(self.file), topic, "-o", "json"))
            return bool(rows)

        self.wait_for(listed, f"{topic} to be in the table")
        return rows[0]

    def told(self, topic: str) -> list[int]:
        """The offsets of the events of a topic's parked partition."""
        lines = [line for line in self.said().splitlines() if "event=parked" in line and f"topic={topic} " in line]
        return [int(re.findall(r" offset=(\d+)", line)[0]) for line in lines]


def good(end: int = COUNT) -> list[bytes]:
    return [b"v%d" % n for n in range(end) if n not in BAD]


def refused_alone(
    folder: Path,
    unique: Unique,
    source: ClusterClient,
    target: Target,
    mode: str,
    *,
    bad: tuple[bytes | None, int | None],
    good_ms: int | None,
    config: Mapping[str, str],
    sentence: str,
    record: str,
) -> None:
    """Without a policy the first bad message parks its partition; with one each is left out alone, and all others
    arrive, once and in order.  `resume: target-end` leaves nothing out."""
    parks, letters, dead = unique.topic("parks"), unique.topic("letters"), unique.topic("dead")
    for topic in (parks, letters):
        filled(source, topic, bad, good_ms)
        create_by_librdkafka(target.brokers, topic, 1, config)
    settings: dict[str, object] = {"whitelist": parks, "resume": mode, "offset.map.folder": str(folder)}
    if mode != "target-end":
        create_by_librdkafka(target.brokers, dead, 1, {})
        settings = {"whitelist": f"{parks},{letters}", "delivery.guarantee": mode, "dead.letter.topic": dead}
        settings["topic.overrides"] = [{"topics": letters, "refused.policy": "dead-letter"}]
    with Mirror(folder, source, target, unique.group(), settings) as mirror:
        row = mirror.parked_at(parks, 2)
        assert (row["at"], row["policy"]) == (2, "mirror.refused.policy")
        assert sentence in str(row["reason"])
        assert "(source offset 2)" in str(row["reason"])
        assert values(target, parks) == good(2)
        if mode == "target-end":
            assert mirror.stop()[0] == 0
            mirror.log.unlink()
            mirror.start()
            assert mirror.parked_at(parks, 2)["at"] == 2
            assert values(target, parks) == good(2)
            return
        release = ("parked", "release", str(mirror.file), f"{parks}:0", "--to", "skip")
        assert f"{parks}:0: the message at 2 with {record}" in mirror.asked_once_parked(*release)
        assert f"{parks}/0 at 2: skipped, 1 message (refused)" in mirror.asked(*release, "--execute")
        assert mirror.parked_at(parks, 4)["at"] == 4
        assert values(target, parks) == good(4)
        assert mirror.told(parks) == [2, 4]
        mirror.wait_for(lambda: values(target, letters) == good(), "the topic with letters")
        assert mirror.stop()[0] == 0
    found = [deadletter.read(value) for value in values(target, dead)]
    assert [(letter.offset, letter.kind, letter.data) for letter in found] == [
        (n, "refused", b"bad%d" % n) for n in BAD
    ]


@pytest.mark.parametrize(
    ("version", "mode"),
    [
        ("0.10.2.2", "at-least-once"),
        ("2.8.2", "exactly-once"),
        ("2.8.2", "target-end"),
    ],
)
def test_a_message_without_a_key_for_a_compacted_topic_is_found_and_named(
    source: ClusterClient, clusters: Callable[[str], Target], unique: Unique, tmp_path: Path, version: str, mode: str
) -> None:
    refused_alone(
        tmp_path, unique, source, clusters(version), mode, bad=(None, None), good_ms=None,
        config={"cleanup.policy": "compact"}, record="no key, a value of 4 bytes",
        sentence="has no key, which a compacted topic (cleanup.policy) requires; it is whole",
    )  # fmt: skip


def test_a_message_more_than_an_hour_in_the_future_is_found_and_named(
    clusters: Callable[[str], Target], unique: Unique, tmp_path: Path
) -> None:
    now_ms = int(time.time() * 1000)
    source = clusters("2.8.2")
    assert isinstance(source, ClusterClient)
    refused_alone(
        tmp_path, unique, source, clusters("4.3.1"), "at-least-once", bad=(b"k", now_ms + 2 * 3_600_000),
        good_ms=now_ms, config={}, record="a key of 1 bytes, a value of 4 bytes, timestamp 20",
        sentence="which the topic does not accept (message.timestamp.after.max.ms and .before.max.ms",
    )  # fmt: skip
