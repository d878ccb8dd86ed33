"""What docs/from-0.7.md shows runs: a group and a writer go from a 0.7 cluster to a real 0.8.2.2 by its steps."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkawire.model import BrokerPartition
from localkafka.child import Child
from localkafka.client import ClusterClient
from localkafka.mirror import COMMAND
from localkafka.seven.cluster import Cluster07
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.fakes.page07 import STEPS, blocks, commands
from tests.integration.mirroring07 import fill
from tests.integration.readers import Reader, wait_for_messages
from tests.integration.sevens import positions
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import ConsumerTimeout

EACH = 400  # messages of each of the four partitions


class Place:
    """The clusters, names and folders that stand in for those of the page."""

    def __init__(self, old: Cluster07, new: ClusterClient, unique: Unique, folder: Path) -> None:
        self.old, self.new, self.folder = old, new, folder
        self.topic, self.group, self.mirrors = unique.topic("orders"), unique.group("billing"), unique.group("to-new")

    def named(self, text: str) -> str:
        stand_ins = {
            "old-zk:2181/kafka": self.old.zookeeper,
            "new-zk:2181/kafka": self.new.zookeeper,
            "new1:9092": self.new.brokers,
            "/var/lib/mirrormaker/old": str(self.folder / "map"),
            "mirror.yaml": str(self.folder / "mirror.yaml"),
            "orders": self.topic,
            "billing": self.group,
            "to-new": self.mirrors,
        }
        pattern = "|".join(re.escape(name) for name in sorted(stand_ins, key=len, reverse=True))
        return re.sub(pattern, lambda found: stand_ins[found[0]], text)

    def argv(self, command: str) -> list[str]:
        words = shlex.split(self.named(command))
        return [str(COMMAND.with_name(words[0])), *words[1:]]

    def run(self, command: str, code: int = 0, given: str | None = None) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.argv(command), input=given, capture_output=True, text=True, timeout=60, cwd=self.folder, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def write_file(self) -> Path:
        settings = yaml.safe_load(self.named(blocks("yaml", STEPS)[0]))
        settings["sources"][0] |= {"zookeeper.session.timeout.ms": 3000, "fetcher.backoff.ms": 100}
        settings["mirror"] |= {"offset.commit.interval.ms": 300, "start.timeout.ms": 10000}
        (self.folder / "map").mkdir(exist_ok=True)
        file = self.folder / "mirror.yaml"
        file.write_text(yaml.safe_dump(settings))
        return file

    def wrong_file(self, section: str, option: str, value: str) -> str:
        """The page's file with one thing that is wrong."""
        settings = yaml.safe_load((self.folder / "mirror.yaml").read_text())
        del settings["sources"][0]["broker.partitions"]  # with another release it is what is wrong
        where = settings["sources"][0] if section == "source" else settings[section]
        where[option] = value
        file = self.folder / "wrong.yaml"
        file.write_text(yaml.safe_dump(settings))
        return str(file)

    def lag(self, group: str) -> int:
        """Its bytes behind; -1 as long as the group has not registered, or some of its lag is unknown."""
        line = "zkconsumer lag -z old-zk:2181/kafka --kafka-version 0.7 --group " + group
        done = subprocess.run(self.argv(line), capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0 or (done.returncode == 5 and "is not known to" in done.stderr), done.stderr
        found = re.search(r"(\d+) bytes behind.* 0 unknown", done.stderr)
        return int(found[1]) if found else -1

    def values(self, after: dict[BrokerPartition, int]) -> tuple[set[bytes], set[bytes]]:
        """What the old cluster holds: values before the positions, and the others."""
        before, behind = set(), set()
        for p in self.old.stored_partitions(self.topic):
            for row in self.old.read(self.topic, p.broker, p.index):
                (behind if row.position >= after.get(p, 0) else before).add(row.value)
        return before, behind

    def positions(self) -> dict[BrokerPartition, int]:
        return positions(self.old, self.group, self.topic)


@pytest.fixture
def place(zk_server: Any, target: ClusterClient, unique: Unique, tmp_path: Path) -> Iterator[Place]:
    with Cluster07(brokers=2, partitions=2, zookeeper=zk_server) as old:
        place = Place(old, target, unique, tmp_path)
        fill(old, place.topic, EACH)
        yield place


def steps() -> Callable[[str], list[str]]:
    """The commands of a step, by its number."""
    parts = dict(re.findall(r"^## (\d)\. .*?\n(.*?)(?=^## |\Z)", STEPS, re.DOTALL | re.MULTILINE))
    return lambda number: commands(parts[number])


@pytest.mark.real
def test_the_steps_of_the_page_take_a_group_and_its_writer_over(place: Place) -> None:
    of, old = steps(), {"kafka_version": "0.7.2", "fetcher_backoff_ms": 100}
    topics, groups, describe, lag = of("1")
    assert place.topic in place.run(topics).stdout
    place.run(describe, code=5)
    with Reader(place.old.zookeeper, place.group, {place.topic: 1}, fetch_message_max_bytes=4096, **old) as reader:
        wait_for_messages(EACH * 2, reader)
        wait_until(lambda: len(place.positions()) == 4, 30, "each partition to be begun")
        assert place.group in place.run(groups).stdout
        check, run, *_ = of("2")
        place.write_file()
        assert "missing, created with 4" in place.run(check).stdout
        _refusals(place, check)
        argv = [str(COMMAND), *shlex.split(place.named(run))[1:]]
        mirror = Child("the mirror", argv, place.folder / "mirror.log")
        try:
            _over(place, of, reader, mirror, lag)
        finally:
            mirror.close()


def _over(place: Place, of: Callable[[str], list[str]], reader: Reader, mirror: Child, lag: str) -> None:
    """Steps 3 to 6."""
    [lag_of_mirror] = of("3")
    wait_until(lambda: place.lag("to-new") == 0, 60, lambda: mirror.log.read_text(), every_s=0.5)
    place.run(lag_of_mirror)
    plan, write = of("4")
    assert "is active" in place.run(plan, code=3).stderr
    reader.stop()
    fill(place.old, place.topic, 100, EACH)
    place.run(lag)
    before, unread = place.values(place.positions())
    _mistyped(place, plan)
    bounds = _translated(place, plan, write)
    with Reader(place.new.zookeeper, place.group, {place.topic: 1}) as moved:
        wait_until(lambda: unread <= {each.value for each in moved.got}, 60, lambda: mirror.log.read_text())
        place.run("zkproducer --broker-list new1:9092 --topic orders", given="moved\n")
        wait_until(lambda: b"moved" in {each.value for each in moved.got}, 30, "what the moved writer sent")
        moved.stop()
    repeats = Counter(each.tp.partition for each in moved.got if each.value in before)
    assert all(repeats[p] <= bounds[p] for p in repeats), (repeats, bounds)
    wait_until(lambda: place.lag("to-new") == 0, 60, "the mirror to have copied all", every_s=0.5)
    assert mirror.stop(20) == 0, mirror.log.read_text()


def _refusals(place: Place, check: str) -> None:
    """What is mistyped is one sentence, and nothing is begun."""
    for section, option, value, sentence in (
        ("source", "version", "0.8.2", "is this a cluster of 0.7"),
        ("source", "zookeeper.connect", place.new.zookeeper, "the same cluster"),
        ("source", "zookeeper.connect", place.old.zookeeper + "x", "does not exist"),
        ("target", "target.version", "0.7.2", "0.7"),
    ):
        file = place.wrong_file(section, option, value)
        assert sentence in place.run(check.replace("mirror.yaml", file), code=78).stderr


def _mistyped(place: Place, plan: str) -> None:
    for old, new, code, sentence in (
        ("old.offsetmap", "nowhere.offsetmap", 2, "is neither a file nor a topic of the target"),
        ("--source-version 0.7.2", "", 1, "is this a cluster of 0.7"),
        ("-z new-zk:2181/kafka", "-z old-zk:2181/kafka", 1, "is this a cluster of 0.7"),
    ):
        assert sentence in place.run(plan.replace(old, new), code=code).stderr


def _translated(place: Place, plan: str, write: str) -> dict[int, int]:
    """The most that is read twice, by target partition; tried again while the map is not written that far."""

    def written_so_far() -> bool:
        done = subprocess.run(place.argv(plan), capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode in (0, 3), done.stderr
        return done.returncode == 0

    wait_until(written_so_far, 60, "the map to be written as far as the group has read", every_s=0.3)
    return {row["partition"]: row["repeats"] for row in json.loads(place.run(f"{write} -o json").stdout)}


@pytest.mark.real
def test_the_copy_is_proved(place: Place, spark: Any) -> None:
    file = place.write_file()
    (proof,) = re.findall(r"^## How to prove the copy\n(.*)", STEPS, re.DOTALL | re.MULTILINE)
    shell = place.named(re.findall(r"```sh\n(.*?)```", proof, re.DOTALL)[0]).replace("10000", "2000")
    mirror = Child("the mirror", [str(COMMAND), "run", str(file)], place.folder / "mirror.log")
    try:
        wait_until(lambda: place.lag("to-new") == 0, 60, lambda: mirror.log.read_text(), every_s=0.5)
    finally:
        mirror.close()
    env = {**os.environ, "PATH": f"{COMMAND.parent}:{os.environ['PATH']}"}
    argv = ["bash", "-c", shell]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=90, cwd=place.folder, env=env, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert len((place.folder / "new.txt").read_text().splitlines()) == EACH * 4
    printed: list[tuple[object, ...]] = []
    exec(place.named(blocks("python", proof)[0]), {"print": lambda *row: printed.append(row)})
    assert printed == [("lost", 0, "repeated", 0)]


@pytest.mark.real
def test_the_python_examples_read_what_is_there(place: Place) -> None:
    _, of_group, fixed, plain, _ = blocks("python")
    end = '"consumer.timeout.ms": 5000,'
    printed: list[tuple[object, ...]] = []
    names: dict[str, Any] = {"print": lambda *row: printed.append(row)}
    with pytest.raises(ConsumerTimeout):
        exec(place.named(of_group).replace('"groupid"', f'{end} "groupid"'), names)
    assert len({row[2] for row in printed}) == len(printed) == EACH * 4
    printed.clear()
    exec(place.named(plain).replace('"broker0", 9092', f'"127.0.0.1", {place.old.node(0).port}'), names)
    assert len(printed) == EACH
    for old, new in (
        ("0:broker0:9092,3:broker3:9092", place.old.broker_list),
        ("3-1", "1-1"),
        ("/var/lib/billing", str(place.folder)),
        ('"group.id"', f'{end} "group.id"'),
    ):
        assert old in fixed
        fixed = fixed.replace(old, new)
    exec(place.named(fixed), names)
    with ConsumerConnector(names["options"]) as consumer:
        [stream] = consumer.create_message_streams({place.topic: 1})[place.topic]
        got = [next(stream).value for _ in range(EACH * 2)]
        with pytest.raises(ConsumerTimeout):
            next(stream)
    assert len(set(got)) == EACH * 2
