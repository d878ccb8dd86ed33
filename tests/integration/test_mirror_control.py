"""A running mirror that is asked and changed through its control socket, by the installed commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from statistics import linear_regression
from typing import Any

import pytest

from kafkawire.model import TopicPartition
from localkafka import tools
from localkafka.client import ClusterClient, log_end_offsets
from localkafka.load import PLAIN, Mixture
from localkafka.mirror import COMMAND
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.integration.mirroring import PLAIN_ONLY, Mirror, compared, filled, totals

pytestmark = pytest.mark.real

BULKY = Mixture(keyed=0.0, codecs=(PLAIN,), value_bytes=10_000)
MESSAGE_BYTES = 10_026  # of BULKY, in the log
LARGE = Mixture(keyed=0.0, codecs=(PLAIN,), value_bytes=200_000)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Folders as systemd gives them."""
    folders = {"RUNTIME_DIRECTORY": tmp_path / "run", "STATE_DIRECTORY": tmp_path / "state"}
    for folder in folders.values():
        folder.mkdir()
    return {name: str(folder) for name, folder in folders.items()}


class Operator:
    """Runs commands for one mirror."""

    def __init__(self, mirror: Mirror, env: dict[str, str]) -> None:
        self._mirror = mirror
        self._env = {**os.environ, **env}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(COMMAND), *words], env=self._env, capture_output=True, text=True, timeout=60, check=False
        )

    def says(self, command: str, *words: str) -> str:
        """What a command that works prints; the words follow the FILE."""
        done = self.run(command, str(self._mirror.file), *words)
        assert done.returncode == 0, (done.stderr, self._mirror.said())
        return done.stdout

    def report(self) -> Any:
        return json.loads(self.says("status", "-o", "json"))

    def partition(self, topic: str, partition: int = 0) -> Any:
        (row,) = [r for r in self.report()["partitions"] if (r["topic"], r["partition"]) == (topic, partition)]
        return row

    def wait_state(self, topic: str, state: str) -> Any:
        wait_until(lambda: self.partition(topic)["state"] == state, 20, lambda: f"{topic} {state}: {self.report()}")
        return self.partition(topic)


def arrivals(mirror: Mirror, topic: str) -> int:
    return sum(log_end_offsets(mirror.target, [topic]).values())


def test_status_and_topics_show_true_numbers_and_reasons(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path, env: dict[str, str]
) -> None:
    topic, other = unique.topic("orders"), unique.topic("other")
    load = filled(source, {topic: 2}, 400, PLAIN_ONLY)
    filled(source, {other: 1}, 10, PLAIN_ONLY)
    with Mirror(tmp_path, source, target, unique.group(), topic, env=env) as mirror:
        ask = Operator(mirror, env)
        mirror.wait_all_committed([topic])
        mirror.wait_said("mirroring: ")
        wait_until(lambda: ask.report()["partitions"][0]["committed"] == 200, 10, mirror.said)
        report = ask.report()
        assert [(s["name"], s["state"], s["owned"], s["lag"]) for s in report["sources"]] == [("dc1", "running", 2, 0)]
        assert (report["messages"], report["ready"], report["target"]) == (400, True, target.brokers)
        rows = [
            (r["topic"], r["partition"], r["committed"], r["end"], r["lag"], r["lag_s"]) for r in report["partitions"]
        ]
        assert rows == [(topic, 0, 200, 200, 0, 0.0), (topic, 1, 200, 200, 0, 0.0)]
        assert all(r["route"].startswith("pass-through") and r["state"] == "reading" for r in report["partitions"])
        load.produce(topic, 2, 600, PLAIN_ONLY)
        wait_until(lambda: ask.partition(topic)["messages_per_s"] > 1, 20, mirror.said)
        wait_until(lambda: ask.partition(topic)["bytes_per_s"] > 100, 20, mirror.said)

        text = ask.says("status")
        assert "source dc1 (Kafka 0.8.2): running; 2 partitions, lag 0" in text
        assert [line.split()[0] for line in text.splitlines()[-2:]] == [topic, topic]
        assert oct(os.stat(tmp_path / "run" / f"{mirror.file.stem}.sock").st_mode)[-3:] == "600"

        found = {row["topic"]: row for row in json.loads(ask.says("topics", topic, other, "-o", "json"))}
        assert (found[topic]["mirrored"], found[topic]["owned_here"], found[topic]["state"]) == (True, 2, "reading")
        assert found[topic]["owners"] == [report["partitions"][0]["owner"]]
        assert (found[other]["mirrored"], found[other]["rule"]) == (False, f"whitelist '{topic}' does not match")
        explained = ask.says("topics", topic, "--explain")
        assert f"dc1: {topic}, 2 partitions\n  mirrored: whitelist '{topic}' matches\n" in explained

        ask.says("set-log-level", "error")
        assert ask.report()["log_level"] == "error"
        assert mirror.stop()[0] == 0
        assert not (tmp_path / "run" / f"{mirror.file.stem}.sock").exists()
        gone = ask.run("status", str(mirror.file))
        assert gone.returncode == 69
        assert "no mirror answers at " in gone.stderr
        assert f"{mirror.file.stem}.sock" in gone.stderr
        offline = ask.run("topics", str(mirror.file), topic, "--explain")
        assert offline.returncode == 0, offline.stderr
        assert "mirrored: whitelist" in offline.stdout
        assert "no mirror runs" in offline.stderr


def test_a_pause_stops_its_topic_alone_and_a_kept_one_outlives_a_kill(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path, env: dict[str, str]
) -> None:
    topic, neighbour = unique.topic("orders"), unique.topic("clicks")
    load = filled(source, {topic: 2, neighbour: 1}, 200, PLAIN_ONLY)
    with Mirror(tmp_path, source, target, unique.group(), f"{topic}|{neighbour}", env=env) as mirror:
        ask = Operator(mirror, env)
        mirror.wait_all_committed([topic, neighbour])
        assert ask.says("pause", topic, "--keep") == f"source dc1: {topic} paused, kept over restarts\n"
        load.produce(topic, 2, 300, PLAIN_ONLY)
        load.produce(neighbour, 1, 300, PLAIN_ONLY)
        mirror.wait_arrived(neighbour, 500, 10)
        wait_until(lambda: ask.report()["sources"][0]["lag"] == 300, 15, lambda: str(ask.report()))
        assert arrivals(mirror, topic) == 200
        row = ask.partition(topic)
        assert row["state"] == "paused"
        assert row["reason"].startswith("paused by operator since ")
        assert row["reason"].endswith(", kept over restarts")
        mirror.wait_said(f"paused 2: {topic} (operator)")

        mirror.kill()
        mirror.close()
        with mirror:
            mirror.wait_said("mirroring: ")
            load.produce(neighbour, 1, 100, PLAIN_ONLY)
            mirror.wait_arrived(neighbour, 600, 20)
            assert ask.wait_state(topic, "paused")["reason"].endswith(", kept over restarts")
            assert arrivals(mirror, topic) == 200
            assert ask.says("resume", f"{topic}:1") == f"source dc1: {topic}:1 resumed\n"
            end = log_end_offsets(source, [topic])[TopicPartition(topic, 1)]
            wait_until(lambda: ask.partition(topic, 1)["done"] == end, 10, mirror.said)
            assert ask.partition(topic, 0)["state"] == "paused"
            assert ask.says("resume", topic) == f"source dc1: {topic} resumed\n"
            mirror.wait_arrived(topic, 500, 10)
            mirror.wait_all_committed([topic, neighbour])
            assert ask.report()["limits"] == []
            assert mirror.stop()[0] == 0
    found = totals(compared(mirror, topic, 2))
    assert (found["source"], found["lost"], found["duplicates"], found["phantoms"]) == (500, 0, 0, 0)
    assert json.loads((tmp_path / "state" / "limits.json").read_text())["pauses"] == []


def test_a_throttle_of_one_megabyte_a_second_holds_and_slows_no_neighbour(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path, env: dict[str, str]
) -> None:
    topic, neighbour = unique.topic("bulk"), unique.topic("clicks")
    source.create_topic(topic, 4)
    load = filled(source, {neighbour: 1}, 10, PLAIN_ONLY)
    with Mirror(tmp_path, source, target, unique.group(), f"{topic}|{neighbour}", env=env) as mirror:
        ask = Operator(mirror, env)
        mirror.wait_all_committed([neighbour])
        ask.says("throttle", topic, "--bytes-per-s", "1M")
        told_at = time.monotonic()
        load.produce(topic, 4, 2400, BULKY)  # 24 MB
        mirror.wait_arrived(topic, 200)
        began, seen = time.monotonic(), [(time.monotonic(), arrivals(mirror, topic))]
        while (at := time.monotonic()) - began < 7 or not 0.9e6 < rate_of(seen, at - 7) < 1.1e6:
            assert at - began < 18, [rate_of(seen, since) for since in (began, at - 7)]
            assert seen[-1][1] * MESSAGE_BYTES < 1e6 * (at - told_at + 3), "a second saved up, and a debt of two"
            load.produce(neighbour, 1, 20, PLAIN_ONLY)
            wait_until(lambda: arrivals(mirror, neighbour) == arrivals_of(source, neighbour), 10, mirror.said)
            assert time.monotonic() - at < 2
            seen.append((time.monotonic(), arrivals(mirror, topic)))
        row = ask.wait_state(topic, "throttled")
        assert row["reason"].startswith("throttled to 1 MB/s by operator since ")
        shown = ask.says("throttle")
        assert f"source dc1: {topic}: throttled to 1 MB/s by operator" in shown
        assert ask.says("throttle", topic, "--off") == f"source dc1: {topic} throttled no more\n"
        mirror.wait_arrived(topic, 2400, 20)
        mirror.wait_all_committed([topic])
        assert mirror.stop()[0] == 0
    found = totals(compared(mirror, topic, 4))
    assert (found["source"], found["lost"], found["duplicates"]) == (2400, 0, 0)


def rate_of(seen: list[tuple[float, int]], since: float) -> float:
    """Bytes a second, of a line through what was seen since then.  Where the machine is busy sets come together, up to
    two seconds of them, and the debt is paid behind them: the first and the last look may be on either side of one."""
    return linear_regression(*zip(*(look for look in seen if look[0] >= since), strict=True)).slope * MESSAGE_BYTES


def arrivals_of(cluster: ClusterClient, topic: str) -> int:
    return sum(log_end_offsets(cluster, [topic]).values())


def test_a_parked_partition_is_listed_and_retried_after_its_cause_is_mended(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path, env: dict[str, str]
) -> None:
    topic = unique.topic()
    target.create_topic(topic, 1, config={"max.message.bytes": "100000"})
    load = filled(source, {topic: 1}, 200, PLAIN_ONLY)
    settings = {"parked.retry.ms": 3_600_000}
    with Mirror(tmp_path, source, target, unique.group(), topic, settings, env=env) as mirror:
        ask = Operator(mirror, env)
        mirror.wait_arrived(topic, 200)
        load.produce(topic, 1, 1, LARGE)
        mirror.wait_said(f"parked 1: {topic}/0")
        (row,) = (
            json.loads(ask.says("parked", "list", "-o", "json"))
            if False
            else json.loads(ask.run("parked", "list", str(mirror.file), "-o", "json").stdout)
        )
        assert (row["topic"], row["partition"], row["at"], row["lag"]) == (topic, 0, 200, 1)
        assert ask.run("parked", str(mirror.file)).stdout.splitlines()[1].split()[:3] == ["dc1", topic, "0"]
        tools.topic_command(target, "--alter", "--topic", topic, "--config", "max.message.bytes=1000012")

        def retried() -> bool:
            """Brokers learn of the change a moment later."""
            ask.run("parked", "retry", str(mirror.file), f"{topic}:0")
            return arrivals(mirror, topic) == 201

        wait_until(retried, 20, mirror.said, every_s=1.0)
        mirror.wait_all_committed([topic])
        tools.topic_command(target, "--alter", "--topic", topic, "--config", "max.message.bytes=100000")
        time.sleep(1)  # until the brokers know
        load.produce(topic, 1, 1, LARGE)
        load.produce(topic, 1, 10, PLAIN_ONLY)
        words = ("parked", "release", str(mirror.file), f"{topic}:0", "--to", "skip")
        ask.wait_state(topic, "parked")
        plan = ask.run(*words)
        assert plan.returncode == 0, plan.stderr
        assert f"source dc1: {topic}:0: the message at 201 with no key, a value of " in plan.stdout
        assert " bytes would be skipped: " in plan.stdout
        assert "nothing is changed without --execute" in plan.stdout
        assert ask.partition(topic)["done"] == 201
        refused = ask.run(*words[:-1], "dead-letter", "--execute")
        assert (refused.returncode, "mirror.dead.letter.topic" in refused.stderr) == (65, True)
        done = ask.run(*words, "--execute")
        assert done.returncode == 0, (done.stderr, mirror.said())
        mirror.wait_all_committed([topic])
        assert arrivals(mirror, topic) == 211
        (left,) = ask.report()["left_out"]
        assert (left["topic"], left["reason"], left["messages"]) == (topic, "oversize skipped", 1)
        nothing = ask.run("parked", "retry", str(mirror.file))
        assert (nothing.returncode, nothing.stdout) == (0, "nothing is parked\n")
        assert mirror.stop()[0] == 0
    assert mirror.committed([topic]) == {TopicPartition(topic, 0): 212}


def test_wrong_words_are_refused_with_what_helps_and_watch_ends_with_ctrl_c(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path, env: dict[str, str]
) -> None:
    topic = unique.topic("orders")
    filled(source, {topic: 1}, 10, PLAIN_ONLY)
    with Mirror(tmp_path, source, target, unique.group(), topic, env=env) as mirror:
        ask = Operator(mirror, env)
        mirror.wait_all_committed([topic])
        wrong = ask.run("pause", str(mirror.file), topic + "s")
        assert (wrong.returncode, wrong.stderr) == (
            65,
            f"error: no source has a topic {topic}s; did you mean '{topic}'?\n",
        )
        none = ask.run("pause", str(mirror.file), f"{topic}:7")
        assert (none.returncode, none.stderr) == (65, f"error: source dc1: {topic} has no partition 7: it has 0\n")
        assert ask.run("pause", str(mirror.file)).returncode == 64
        watch = subprocess.Popen(
            [str(COMMAND), "status", str(mirror.file), "--watch", "--every", "0.2", "-o", "json"],
            env={**os.environ, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert watch.stdout is not None
            moments = [json.loads(watch.stdout.readline())["at_ms"] for _ in range(3)]
            assert moments == sorted(set(moments))
            watch.send_signal(signal.SIGINT)
            _, stderr = watch.communicate(timeout=10)
            assert (watch.returncode, stderr) == (0, "")
        finally:
            watch.kill()
        assert mirror.stop()[0] == 0
