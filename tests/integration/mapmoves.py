"""Groups that move to the cluster their topic is mirrored to, while the mirror goes on: what they read there."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from localkafka.client import ClusterClient, log_end_offsets
from localkafka.errors import LocalKafkaError
from localkafka.tools import console_consumer
from localkafka.waiting import wait_until
from producer.producer import Producer
from tests.integration.mirroring import Mirror
from tests.integration.readers import Reader, committed, wait_for_messages

VALUE = re.compile(rb"(\S+)/(\d+) #(\d+) ")


@dataclass(frozen=True, slots=True)
class Moved:
    """What a group read after its move.  bounds, repeats: of each target partition, as printed and as counted."""

    lacking: int
    bounds: dict[int, int]
    repeats: dict[int, int]


def mark(value: bytes | None) -> tuple[int, int]:
    """A message's partition and number at the source."""
    found = VALUE.match(value or b"")
    assert found is not None, value
    return int(found[2]), int(found[3])


def map_of(mirror: Mirror) -> Path:
    return mirror.file.parent / "state" / "dc1.offsetmap"


def mapped(folder: Path) -> dict[str, object]:
    """Options of a mirror that keeps a map below the folder."""
    (folder / "state").mkdir(exist_ok=True)
    return {"offset.map.folder": str(folder / "state"), "offset.map.every.messages": 200}


def translate(
    mirror: Mirror, group: str, undo: Path, *more: str, where: str | None = None
) -> subprocess.CompletedProcess[str]:
    argv = ["offsets", "translate", "--map", where or str(map_of(mirror)), "--group", group, "-o", "json"]
    argv += ["--source", mirror.source.zookeeper, "-z", mirror.target.zookeeper, "--undo-dir", str(undo), *more]
    command = [sys.executable, "-m", "zkconsumer.commands.main", *argv]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def translated(
    mirror: Mirror, group: str, undo: Path, where: str | None = None, timeout_s: float = 60
) -> dict[int, int]:
    """Translate, again while the map is not written that far yet; the bound of each target partition."""
    if where is None:
        wait_until(map_of(mirror).exists, timeout_s, lambda: f"the map to be begun; log\n{mirror.said()}")
    until = time.monotonic() + timeout_s
    while True:
        done = translate(mirror, group, undo, "--execute", where=where)
        if done.returncode == 0:
            rows = json.loads(done.stdout)
            return {row["partition"]: row["repeats"] for row in rows}
        assert done.returncode == 3, done.stderr
        assert time.monotonic() < until, done.stderr
        later = ("let the mirror run", "try again when", "is not in the map")  # its first line is yet to be written
        assert any(text in done.stderr for text in later), done.stderr
        time.sleep(0.3)


def part_read(cluster: ClusterClient, topic: str, group: str, rng: random.Random, most: int) -> dict[int, int]:
    """A group reads some of a topic, of each partition, and stops; its positions."""
    partitions = len(log_end_offsets(cluster, [topic]))
    with Reader(cluster.zookeeper, group, {topic: 1}, fetch_message_max_bytes=16384) as reader:
        wait_for_messages(rng.randrange(1, most), reader)
        wait_until(lambda: len(committed(cluster, group, topic)) == partitions, 30, "each partition to be begun")
        reader.stop()
    return committed(cluster, group, topic)


def moved(mirror: Mirror, topic: str, group: str, read: dict[int, int], undo: Path, where: str | None = None) -> Moved:
    """Translate the group and let it read on the target until it has everything the source has now."""
    bounds = translated(mirror, group, undo, where)
    ends = {int(str(tp.partition)): end for tp, end in log_end_offsets(mirror.source, [topic]).items()}
    wanted = {(p, n) for p, end in ends.items() for n in range(read.get(p, 0), end)}
    with Reader(mirror.target.zookeeper, group, {topic: 1}) as reader:
        seen: set[tuple[int, int]] = set()
        at = [0]

        def all_there() -> bool:
            fresh = reader.got[at[0] :]
            at[0] += len(fresh)
            seen.update(mark(each.value) for each in fresh)
            return wanted <= seen

        wait_until(all_there, 60, lambda: f"{len(wanted - seen)} of {len(wanted)}; log\n{mirror.said()[-3000:]}")
        reader.stop()
    got = [(int(str(each.tp.partition)), mark(each.value)) for each in reader.got]
    repeats = Counter(p for p, (source, number) in got if number < read.get(source, 0))
    return Moved(len(wanted - {each for _, each in got}), bounds, {p: repeats[p] for p in bounds})


def check(found: Moved) -> None:
    assert found.lacking == 0
    over = {p: (count, found.bounds[p]) for p, count in found.repeats.items() if count > found.bounds[p]}
    assert not over, f"more read twice than promised, by target partition: {over}"


def unread_by_a_moved_jvm_reader(target: ClusterClient, topic: str, group: str, count: int) -> set[bytes]:
    """Spread so many new messages over all partitions of the target topic, then start the JVM's high-level consumer
    with auto.offset.reset=largest in the moved group: the new messages that it did not read."""
    partitions = sorted(int(str(tp.partition)) for tp in log_end_offsets(target, [topic]))
    new = {b"new-%05d" % n for n in range(count)}
    with Producer({"metadata.broker.list": target.brokers, "request.required.acks": -1}) as producer:
        for n, value in enumerate(sorted(new)):
            producer.send(topic, value, partition=partitions[n % len(partitions)])
        producer.flush(30)
    largest = {"auto.offset.reset": "largest", "zookeeper.session.timeout.ms": 3000}
    with console_consumer(target, topic, group, from_beginning=False, config=largest) as reader:
        wait_until(lambda: b"new-" in b"".join(reader.lines), 60, lambda: f"the first one; {reader.child.log_end()}")
        with suppress(LocalKafkaError):  # the caller asserts on what is missing
            wait_until(lambda: new <= set(reader.lines), 15, "all new messages")
        return new - set(reader.stop())


def without_map(stdout: str) -> dict[int, int]:
    """Of a plan's rows, the partitions that the map has nothing for and where the group starts there."""
    return {row["partition"]: row["after"] for row in json.loads(stdout) if row["from"] == "log start"}
