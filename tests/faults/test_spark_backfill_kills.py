"""A backfill whose driver is killed again and again: nothing is lost, and nothing repeated beyond what was promised.

kill -9 of the driver alone, of the driver and its JVM, or of both with everything they started: workers that survive go
on writing for a while, and the next run has to wait them out.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient, log_end_offsets
from sparkpipeline.driver.groupoffsets import read_offset_nodes
from tests.conftest import Unique
from tests.integration.sparktopics import everything, produce

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.faults]

KILLS = int(os.environ.get("BACKFILL_KILLS", "12"))
PARTITIONS = 4
COUNT = int(os.environ.get("BACKFILL_MESSAGES", "260000"))  # of a partition: more than a million in all
CHUNK = COUNT // 13
ENDS_S = 600.0
CODECS = (0, 1, 2, 0)


@contextmanager
def driver(arguments: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The command as a process of its own session; whatever is left of it is killed."""
    command = [sys.executable, "-m", "sparkpipeline.commands.main", "backfill", *arguments, "--master", "local[2,4]"]
    with log.open("ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        yield process
    finally:
        for pid in [*family(process.pid), process.pid]:
            kill(pid)
        process.wait(30)


def family(pid: int) -> list[int]:
    """All descendants of a process, the nearest first."""
    shown = subprocess.run(["ps", "-eo", "pid,ppid"], capture_output=True, text=True, check=True).stdout
    parents: dict[int, list[int]] = {}
    for line in shown.splitlines()[1:]:
        child, parent = map(int, line.split())
        parents.setdefault(parent, []).append(child)
    found: list[int] = []
    left = [pid]
    while left:
        of = parents.get(left.pop(0), [])
        found += of
        left += of
    return found


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def killed_at_random(
    arguments: list[str], folder: Path, log: Path, target: ClusterClient, topic: str, seed: int
) -> int:
    """Runs until one comes to its end; how many were killed: two of three while they write, the others at any time."""
    rng = random.Random(seed)
    kills = 0
    for number in range(1, 100):
        with driver(arguments if number == 1 else [str(folder), "--execute"], log) as process:
            if kills < KILLS:
                waited_for((folder / "runs" / f"{number:04}.json").exists, process)
                if rng.random() < 0.67:
                    waited_for(moved(target, topic), process)
                    time.sleep(rng.uniform(0.0, 1.5))
                else:
                    time.sleep(rng.uniform(0.0, 6.0))
                whom = rng.choice(("driver", "driver and JVM", "all"))
                doomed = {"driver": [], "driver and JVM": family(process.pid)[:1], "all": family(process.pid)}[whom]
                over = process.poll() is not None
                for pid in (process.pid, *doomed):
                    kill(pid)
                process.wait(30)
                if over:
                    assert process.returncode == 0, log.read_text()[-3000:]
                    return kills
                kills += 1
                continue
            assert process.wait(ENDS_S) == 0, log.read_text()[-3000:]
            return kills
    raise AssertionError("no run came to its end")


def waited_for(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Until it holds, or the process is over."""
    deadline = time.monotonic() + 180
    while not condition() and process.poll() is None:
        assert time.monotonic() < deadline, "the run does not come to that"
        time.sleep(0.05)


def moved(target: ClusterClient, topic: str) -> Callable[[], bool]:
    """Whether the target has more than now."""
    before = stored(target, topic)
    return lambda: stored(target, topic) > before


def stored(target: ClusterClient, topic: str) -> int:
    return sum(log_end_offsets(target, [topic]).values())


@pytest.fixture(scope="module")
def filled(source: ClusterClient) -> str:
    name = Unique().topic("killed")
    source.create_topic(name, partitions=PARTITIONS)
    for partition, codec in enumerate(CODECS):
        produce(source, TopicPartition(name, partition), list(wanted(partition)), codec, a_set=1000)
    return name


def wanted(partition: int) -> Iterator[tuple[bytes, bytes]]:
    return ((b"k%d" % (n % 1000), b"%d-%d" % (partition, n)) for n in range(COUNT))


def command(folder: Path, source: ClusterClient, target: ClusterClient, topic: str, *more: str) -> list[str]:
    return [str(folder), "--source-zookeeper", source.zookeeper, "--target-brokers", target.brokers, "--topics", topic,
            "--chunk", str(CHUNK), "--target-option", "kafka.request.timeout.ms=2000",
            "--target-option", "kafka.batch.bytes=1024", "--execute", *more]  # fmt: skip


def test_partitions_that_are_kept_hold_every_message_exactly_once(
    source: ClusterClient, target: ClusterClient, filled: str, unique: Unique, tmp_path: Path
) -> None:
    target.create_topic(filled, partitions=PARTITIONS)
    folder, log, group = tmp_path / "exact", tmp_path / "log", unique.group("mirror")
    kills = killed_at_random(command(folder, source, target, filled, "--group", group), folder, log, target, filled, 7)
    print(f"{kills} kills; {log.read_text().count('reading the target')} tails read after a missing answer")
    found = everything(target, filled)
    for partition, messages in found.items():
        assert [(key, value) for _, key, value in messages] == list(wanted(partition))
    tps = [TopicPartition(filled, p) for p in range(PARTITIONS)]
    assert read_offset_nodes(source.zk(), group, tps) == dict.fromkeys(tps, COUNT)
    assert kills >= KILLS - 2  # or the machine is too fast for this many messages


def test_keyed_loses_nothing_and_repeats_no_more_than_was_printed(
    source: ClusterClient, own_cluster: object, filled: str, tmp_path: Path
) -> None:
    target = own_cluster(brokers=1)  # type: ignore[operator]
    target.create_topic(filled, partitions=2)
    folder, log = tmp_path / "keyed", tmp_path / "log"
    kills = killed_at_random(
        command(folder, source, target, filled, "--partitioning", "key"), folder, log, target, filled, 11
    )
    counts = Counter(value for messages in everything(target, filled).values() for _, _, value in messages)
    assert set(counts) == {value for partition in range(PARTITIONS) for _, value in wanted(partition)}
    repeated = sum(counts.values()) - len(counts)
    printed = [
        int(n.replace(",", "")) for n in re.findall(r"at most ([\d,]+) messages? of it is repeated", log.read_text())
    ]
    print(f"{kills} kills; {repeated} repeated of {len(counts)}, at most {sum(printed)} by what was printed")
    assert repeated <= sum(printed)
    assert kills >= KILLS - 2  # or the machine is too fast for this many messages
