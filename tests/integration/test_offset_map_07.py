"""A group that reads 0.7 moves to the 0.8.2 cluster that its topic is mirrored to; the mirror resumes there once."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kafkawire.model import BrokerPartition
from localkafka.client import ClusterClient
from localkafka.seven.cluster import Cluster07
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.integration.mapmoves import unread_by_a_moved_jvm_reader, without_map
from tests.integration.mirroring07 import Mirror07, fill, judged
from tests.integration.readers import Reader, committed, wait_for_messages
from tests.integration.sevens import positions
from tests.integration.test_mirror_07_to_08 import arrived, stored

pytestmark = pytest.mark.real
Starter = Callable[..., Cluster07]
Positions = dict[BrokerPartition, int]


def mirror_of(
    source: Cluster07, target: ClusterClient, folder: Path, group: str, topic: str, **more: object
) -> Mirror07:
    (folder / "state").mkdir()
    target_section = {"metadata.broker.list": target.brokers, "target.zookeeper.connect": target.zookeeper}
    options = {"offset.map.folder": str(folder / "state"), "offset.map.every.messages": 200, **more}
    return Mirror07(folder, source, target_section, group, topic, options)


def part_read(source: Cluster07, topic: str, group: str, count: int, partitions: int = 3) -> Positions:
    """A group reads some of a topic on 0.7 and stops; its byte positions."""
    with Reader(
        source.zookeeper, group, {topic: 1}, kafka_version="0.7.2", fetch_message_max_bytes=8192, fetcher_backoff_ms=100
    ) as reader:
        wait_for_messages(count, reader)
        wait_until(lambda: len(positions(source, group, topic)) == partitions, 30, "each partition to be begun")
        reader.stop()
    return positions(source, group, topic)


def translated(source: Cluster07, target: ClusterClient, group: str, folder: Path) -> dict[int, int]:
    """The bound of each target partition; asked again while the map is not written that far."""
    return {row["partition"]: row["repeats"] for row in json.loads(plan(source, target, group, folder))}


def plan(source: Cluster07, target: ClusterClient, group: str, folder: Path) -> str:
    """Translate and write; the rows that it printed.  Asked again while the map is not written that far."""
    there = folder / "state" / "old.offsetmap"
    wait_until(there.exists, 60, "the map to be begun")
    argv = ["offsets", "translate", "--map", str(there), "--group", group, "-o", "json"]
    argv += ["--source", source.zookeeper, "--source-version", "0.7.2", "-z", target.zookeeper, "--execute"]
    command = [sys.executable, "-m", "zkconsumer.commands.main", *argv, "--undo-dir", str(folder)]
    until = time.monotonic() + 60
    while True:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert "Traceback" not in done.stderr, done.stderr
        if done.returncode == 0:
            return done.stdout
        assert done.returncode == 3, done.stderr
        assert time.monotonic() < until, done.stderr
        time.sleep(0.3)


def moved(source: Cluster07, target: ClusterClient, topic: str, group: str, read: Positions, folder: Path) -> Any:
    """The bounds, and what was read twice there, by target partition; all that was not read has to arrive."""
    bounds = translated(source, target, group, folder)
    unread, seen = set(), set()
    for p in source.stored_partitions(topic):
        for row in source.read(topic, p.broker, p.index):
            (unread if row.position >= read[p] else seen).add(row.value)
    with Reader(target.zookeeper, group, {topic: 1}) as reader:
        wait_until(
            lambda: unread <= {each.value for each in reader.got}, 60, lambda: f"{len(unread)}, have {len(reader.got)}"
        )
        reader.stop()
    return bounds, Counter(each.tp.partition for each in reader.got if each.value in seen)


def trials(cluster07: Starter, target: ClusterClient, unique: Unique, folder: Path, count: int, there: int) -> int:
    source, topic, rng = cluster07(partitions={0: 2, 1: 1}), unique.topic(), random.Random(there)
    fill(source, topic, 1500)
    target.create_topic(topic, there)
    written, some = 1500, 0
    with mirror_of(source, target, folder, unique.group("mirror"), topic), ThreadPoolExecutor(1) as pool:
        for number in range(count):
            group = unique.group(f"moves{number}")
            filling = pool.submit(fill, source, topic, 300, written)
            read = part_read(source, topic, group, rng.randrange(1, 4000))
            filling.result(60)
            written += 300
            bounds, repeats = moved(source, target, topic, group, read, folder)
            over = {p: (n, bounds[p]) for p, n in repeats.items() if n > bounds[p]}
            assert not over
            some += any(repeats.values())
    return some


def killed(mirror: Mirror07, target: ClusterClient, source: Cluster07, topic: str, kills: int) -> int:
    """Kill it at random moments, every other time around a request, each time with more to copy; how many it copied."""
    rng, written = random.Random(kills), 500
    fill(source, topic, 500, batch=20)
    for number in range(kills):
        fill(source, topic, 1000, written, batch=20)
        written += 1000
        there = arrived(target, topic)
        if number % 2:
            point = rng.choice(("before send", "after send before ack"))
            mirror.env({"GROUNDWORK_FAILPOINTS": f"{point}=kill@{rng.randint(1, 6)}"})
            mirror.start()
            assert mirror.exit_code(40) == -9, mirror.said()
        else:
            mirror.env(None)
            mirror.start()
            mirror.wait_for(lambda at=there: arrived(target, topic) > at, "some")
            time.sleep(rng.uniform(0.0, 0.3))
            mirror.kill()
    mirror.env(None)
    mirror.start()
    mirror.wait_all_committed(topic, 60)
    assert mirror.stop()[0] == 0, mirror.said()
    return 3 * written


def once(cluster07: Starter, target: ClusterClient, unique: Unique, folder: Path, kills: int) -> None:
    source, topic = cluster07(partitions={0: 2, 1: 1}), unique.topic()
    target.create_topic(topic, 3)
    mirror = mirror_of(source, target, folder, unique.group("mirror"), topic, resume="target-end")
    text = mirror.file.read_text().replace("  name: old", "  broker.partitions: 0:2,1:1\n  name: old")
    text = text.replace("  metadata.broker.list", "  request.timeout.ms: 1000\n  metadata.broker.list")
    mirror.file.write_text(text.replace("  name: old", "  fetch.message.max.bytes: 8192\n  name: old"))
    try:
        count = killed(mirror, target, source, topic, kills)
        found = judged(source.values(topic), stored(target, topic, 3))
    finally:
        mirror.close()
    assert (found.source, found.lost, found.duplicates, found.phantoms) == (count, 0, 0, 0), mirror.said()
    assert (found.out_of_order, found.split) == (0, 0)


def test_out_of_0_7_a_mirror_that_is_killed_sends_each_message_once(
    cluster07: Starter, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    once(cluster07, target, unique, tmp_path, 2)


@pytest.mark.faults
def test_out_of_0_7_a_mirror_that_is_killed_twenty_times_sends_each_message_once(
    cluster07: Starter, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    once(cluster07, target, unique, tmp_path, 20)


def test_groups_of_0_7_stopped_at_random_read_on_at_0_8(
    cluster07: Starter, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    trials(cluster07, target, unique, tmp_path, 2, 2)


@pytest.mark.faults
@pytest.mark.parametrize("there", [3, 2])
def test_fifty_groups_of_0_7_stopped_at_random_read_on_at_0_8(
    cluster07: Starter, target: ClusterClient, unique: Unique, tmp_path: Path, there: int
) -> None:
    assert trials(cluster07, target, unique, tmp_path, 25, there) > 3


def test_a_moved_jvm_reader_reads_all_where_the_source_fills_four_of_six_partitions(
    cluster07: Starter, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    source, topic, group = cluster07(partitions={0: 3, 1: 3}), unique.topic(), unique.group("moves")
    fill(source, topic, 200)
    target.create_topic(topic, 6)
    part_read(source, topic, group, 800, partitions=6)
    with mirror_of(source, target, tmp_path, unique.group("mirror"), topic) as mirror:
        mirror.wait_all_committed(topic, 60)
        rows = plan(source, target, group, tmp_path)
        assert mirror.stop()[0] == 0, mirror.said()
    assert set(committed(target, group, topic)) == set(range(6))
    assert without_map(rows) == {4: 0, 5: 0}
    assert unread_by_a_moved_jvm_reader(target, topic, group, 400) == set()
