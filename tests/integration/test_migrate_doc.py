"""Every command of docs/migration.md runs, in its order, on a real cluster, with members where the text has them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from groupadmin.commands.migrate import migrate
from groupadmin.migrate.journal import read_journal
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.waiting import wait_until
from tests.integration.migration import QUICK, load, put, rows, zkconsumer
from tests.integration.readers import Reader, committed, wait_for_messages
from zkconsumer.offsets.migrationmarker import Phase

PAGE = (Path(__file__).parents[2] / "docs" / "migration.md").read_text(encoding="utf-8")
MODES: dict[str, dict[str, object]] = {
    "zookeeper": {"offsets_storage": "zookeeper"},
    "dual": {"offsets_storage": "kafka", "dual_commit_enabled": True},
    "kafka": {"offsets_storage": "kafka", "dual_commit_enabled": False},
}
GATED = ("copy", "cutover", "rollback", "verify")


def scripts() -> dict[str, list[str]]:
    """Commands and what members do ("start dual", "stop"), in order, of each way; what follows the last is its end."""
    found: dict[str, list[str]] = {}
    way: list[str] = []
    for line in _lines():
        if line in ("offline", "live", "coordinated"):
            way = found.setdefault(line, [])
        else:
            way.append(line)
    return found


def _lines() -> Iterator[str]:
    inside = False
    for line in PAGE.splitlines():
        told = re.fullmatch(r"\s*<!-- test: (.*) -->", line)
        if told:
            yield told[1]
        elif line.strip().startswith("```"):
            inside = line.strip() == "```sh"
        elif inside:
            yield line.strip()


def test_every_block_of_the_page_holds_commands_of_ours_and_each_step_is_shown():
    commands = [line for script in scripts().values() for line in script if line.startswith("zkconsumer ")]
    assert len(commands) == len(re.findall(r"^\s*zkconsumer ", PAGE, re.MULTILINE)) > 20
    assert {line.split()[2] for line in commands if line.split()[1] == "migrate"} == set(migrate.commands)


class Place:
    """The cluster, group and files that stand in for those of the page."""

    def __init__(self, cluster: ClusterClient, group: str, topic: str, folder: Path) -> None:
        self.cluster, self.group, self.topic, self.folder = cluster, group, topic, folder
        self.reader: Reader | None = None
        self.read = 0

    def run(self, line: str) -> None:
        if not line.startswith("zkconsumer "):
            self.members(line)
            return
        words = shlex.split(line)[1:]
        stand_ins = {"zk1:2181/kafka": self.cluster.zookeeper, "billing": self.group, "60s": "1s"}
        stand_ins["kafka1:9092"] = self.cluster.brokers
        words = [stand_ins.get(word, word) for word in words]
        words = [str(self.folder / word) if word.startswith("billing.") else word for word in words]
        if words[:2] == ["migrate", "check"]:
            words += ["--offsets-replicas", "1"]
        if words[0] == "migrate" and words[1] in GATED:
            words += QUICK
        zkconsumer(*words)

    def members(self, what: str) -> None:
        """One member of ours is bounced to another mode, and reads what is there."""
        if self.reader is not None:
            self.reader.stop()
            self.reader = None
        if what == "stop":
            return
        load(self.cluster, self.topic, 2, 10)
        options = MODES.get(what.removeprefix("start "))
        if options is None:
            options = {"coordination": "kafka", "bootstrap_servers": self.cluster.brokers}
        self.reader = Reader(self.cluster.zookeeper, self.group, {self.topic: 1}, **options)
        wait_for_messages(10, self.reader)
        self.read += 10
        assert len(self.reader.got) == 10  # nothing is read twice, nothing skipped
        wait_until(lambda: self._held() == self.read, 20, lambda: f"commits: {self._held()} of {self.read}")

    def _held(self) -> int:
        """What the store holds that counts, in all partitions."""
        done = zkconsumer("offsets", "get", "-z", self.cluster.zookeeper, "--group", self.group, "-o", "json")
        by_store: dict[str, int] = {}
        for row in rows(done):
            by_store[str(row["store"])] = by_store.get(str(row["store"]), 0) + int(str(row["committed"] or 0))
        return max(by_store.values(), default=0)


@pytest.fixture
def place(source: ClusterClient, unique, tmp_path: Path) -> Iterator[Place]:
    topic = unique.topic("orders")
    source.create_topic(topic, 2)
    place = Place(source, unique.group("billing"), topic, tmp_path)
    yield place
    if place.reader is not None:
        place.reader.connector.shutdown()


@pytest.mark.real
@pytest.mark.parametrize("way", ["offline", "live"])
def test_the_page_runs(place: Place, way: str):
    if way == "offline":
        load(place.cluster, place.topic, 2, 20)
        put(place.cluster.registry().zk, place.group, place.topic, {0: 10, 1: 10})
        place.read = 20
    for line in scripts()[way]:
        place.run(line)
    standings = read_journal(place.folder / "billing.journal.jsonl").standings
    assert standings[place.group].phase is Phase.ROLLED_BACK
    assert {Phase.CUTOVER, Phase.DONE} <= {phase for phase, _ in standings[place.group].past}
    assert sum(committed(place.cluster, place.group, place.topic).values()) == place.read


@pytest.mark.real
def test_the_page_runs_on_to_kafkas_coordinator(own_cluster: Callable[..., Cluster], unique, tmp_path: Path):
    cluster, topic = own_cluster(version="0.10.2.2", brokers=1), unique.topic("orders")
    cluster.create_topic(topic, 2)
    place = Place(cluster, unique.group("billing"), topic, tmp_path)
    load(cluster, topic, 2, 20)
    put(cluster.registry().zk, place.group, topic, {0: 10, 1: 10})
    place.read = 20
    there = scripts()["offline"]
    back = next(n for n, line in enumerate(there) if line.startswith("zkconsumer migrate rollback")) - 1  # and its stop
    try:
        for line in (*there[:back], *scripts()["coordinated"]):
            place.run(line)
    finally:
        if place.reader is not None:
            place.reader.connector.shutdown()
    past = read_journal(tmp_path / "billing.journal.jsonl").standings[place.group].past
    assert [phase for phase, _ in past][-4:] == [Phase.DONE, Phase.HANDOVER, Phase.COORDINATED, Phase.CUTOVER]
