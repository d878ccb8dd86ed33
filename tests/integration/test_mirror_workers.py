"""A mirror in several processes on real clusters (`mirrormaker run --workers N`): killed, stopped, asked, changed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from localkafka.client import ClusterClient
from localkafka.mirror import COMMAND
from localkafka.ports import reserve
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.integration.mirroring import MIXED, PLAIN_ONLY, Mirror, compared, filled, totals

pytestmark = pytest.mark.real


class Workers(Mirror):
    """A mirror of two workers, by its file, and its commands."""

    def __init__(
        self,
        folder: Path,
        source: ClusterClient,
        target: ClusterClient,
        group: str,
        whitelist: str,
    ) -> None:
        run, state = folder / "run", folder / "state"
        for each in (run, state):
            each.mkdir(exist_ok=True)
        folders = {"RUNTIME_DIRECTORY": str(run), "STATE_DIRECTORY": str(state)}
        reserved = reserve()
        self.port = reserved.number
        reserved.release()
        options = {"workers": 2, "http.listen": self.port}
        super().__init__(folder, source, target, group, whitelist, options, env=folders)
        self.folders = folders
        self._environ = {**os.environ, **folders}

    def change(self, **mirror: object) -> None:
        """Other options in the file."""
        settings = yaml.safe_load(self.file.read_text())
        settings["mirror"] |= {name.replace("_", "."): value for name, value in mirror.items()}
        self.file.write_text(yaml.safe_dump(settings))

    def run(self, command: str, *words: str) -> subprocess.CompletedProcess[str]:
        argv = [str(COMMAND), command, str(self.file), *words]
        return subprocess.run(argv, env=self._environ, capture_output=True, text=True, timeout=60, check=False)

    def says(self, command: str, *words: str) -> str:
        done = self.run(command, *words)
        assert done.returncode == 0, (done.stderr, self.said())
        return done.stdout

    def report(self) -> Any:
        return json.loads(self.says("status", "-o", "json"))

    def shared(self, *owned: int) -> Callable[[], bool]:
        """Whether each worker reads so many partitions, in any order."""
        return lambda: sorted(worker["owned"] for worker in self.report()["workers"]) == sorted(owned)

    def got(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=20) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    def wait_ready(self) -> None:
        self.wait_said("mirroring with 2 workers")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_workers_killed_in_turn_under_load_lose_nothing(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    load = filled(source, {topic: 4}, 20_000)
    with Workers(tmp_path, source, target, unique.group(), topic) as mirror:
        mirror.wait_ready()
        with load.in_background({topic: MIXED}, 4, 60_000):
            for number in (1, 2):
                before = mirror.worker_pids
                os.kill(before[number - 1], signal.SIGKILL)
                mirror.wait_said(f"worker {number} ended with SIGKILL; it is started again in 1 s")
                mirror.wait_for(lambda: mirror.worker_pids != before, "another process")  # noqa: B023
        mirror.wait_all_committed([topic], 90)
        wait_until(lambda: mirror.got("/readyz")[0] == 200, 40, lambda: f"ready: {mirror.got('/readyz')}")
        wait_until(mirror.shared(2, 2), 60, lambda: f"2 partitions each: {mirror.report()['workers']}")
        assert [worker["restarts"] for worker in mirror.report()["workers"]] == [1, 1]
        assert mirror.stop()[0] == 0, mirror.said()
    found = totals(compared(mirror, topic, 4))
    assert (found["source"], found["lost"], found["phantoms"]) == (80_000, 0, 0)


def test_workers_of_a_supervisor_that_was_killed_stop_commit_and_leave(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    load = filled(source, {topic: 2}, 2_000)
    with Workers(tmp_path, source, target, unique.group(), topic) as mirror:
        mirror.wait_ready()
        pids = mirror.worker_pids
        with load.in_background({topic: MIXED}, 2, 20_000):
            mirror.wait_arrived(topic, 3_000)
            mirror.kill()
            wait_until(lambda: not any(map(alive, pids)), 20, lambda: f"workers to end; log\n{mirror.said()}")
        assert not source.registry().zk.get_children(f"/consumers/{mirror.group}/ids"), "they left"
        assert mirror.said().count("the supervisor is gone") == 2
        there, committed = mirror.arrived(topic), sum(mirror.committed([topic]).values())
        assert there >= committed > 0
        assert there - committed == 0, "what was acknowledged is committed"
        mirror.start()
        mirror.wait_all_committed([topic], 60)
        assert mirror.stop()[0] == 0
    found = totals(compared(mirror, topic, 2))
    assert (found["source"], found["lost"], found["duplicates"], found["phantoms"]) == (22_000, 0, 0, 0)


def test_several_workers_are_one_mirror_to_commands_http_and_signals(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, late = unique.topic("orders"), unique.topic("late")
    load = filled(source, {topic: 2}, 400, PLAIN_ONLY)
    filled(source, {late: 1}, 50, PLAIN_ONLY)
    with Workers(tmp_path, source, target, unique.group(), topic) as mirror:
        mirror.wait_ready()
        mirror.wait_all_committed([topic])

        # seen as one
        report = mirror.report()
        assert (report["ready"], len(report["partitions"]), report["sources"][0]["owned"]) == (True, 2, 2)
        assert [(worker["number"], worker["state"]) for worker in report["workers"]] == [(1, "running"), (2, "running")]
        assert "worker 2" in mirror.says("status")
        assert (mirror.got("/readyz"), mirror.got("/livez")) == ((200, "ready\n"), (200, "alive\n"))
        load.produce(topic, 2, 1000, PLAIN_ONLY)
        counted = report["messages"] + 1000
        wait_until(lambda: mirror.report()["messages"] == counted, 30, lambda: f"{counted}: {mirror.report()}")
        acked = f"mirrormaker_acked_messages_total {counted}.0"  # the page has a report of its own, a little older
        wait_until(lambda: acked in mirror.got("/metrics")[1], 30, lambda: mirror.got("/metrics")[1])
        metrics = mirror.got("/metrics")[1]
        assert 'mirrormaker_worker_up{worker="2"} 1.0' in metrics
        assert re.search(r'process_cpu_seconds_total\{worker="1"\} [0-9.]+', metrics)
        assert len(list((tmp_path / "run").glob("*.sock"))) == 1, "one control socket"
        assert {path.name for path in (tmp_path / "state").glob("*.offsetmap")} == {
            "dc1.offsetmap",
            "dc1.worker2.offsetmap",
        }
        said = mirror.said()
        assert "worker=1" in said
        assert "worker=2" in said
        explained = json.loads(mirror.says("topics", "--explain", topic, "-o", "json"))
        assert [row["owned_here"] for row in explained] == [2]

        # paused, kept, and still so in a worker that died
        assert "kept over restarts" in mirror.says("pause", topic, "--keep")
        states = {row["state"] for row in mirror.report()["partitions"]}
        assert states == {"paused"}
        os.kill(mirror.worker_pids[1], signal.SIGKILL)
        mirror.wait_said("worker 2 ended with SIGKILL")
        wait_until(lambda: mirror.report()["workers"][1]["ready"], 40, "worker 2 to be ready again")
        load.produce(topic, 2, 100, PLAIN_ONLY)
        wait_until(lambda: mirror.report()["ready"], 40, lambda: f"ready: {mirror.report()}")
        wait_until(lambda: mirror.report()["sources"][0]["lag"] == 100, 40, lambda: f"a lag of 100: {mirror.report()}")
        assert mirror.arrived(topic) == 1400
        mirror.says("resume", topic)
        mirror.wait_arrived(topic, 1500)
        mirror.says("throttle", topic, "--messages-per-s", "1000")
        assert "1,000 messages/s" in mirror.says("throttle")
        mirror.says("throttle", topic, "--off")
        assert mirror.run("pause", "nothing.like.it").returncode != 0
        assert "nothing is parked" in mirror.run("parked").stderr

        # reloaded by all; a file that is wrong by none
        mirror.change(whitelist=f"{topic}|{late}")
        mirror.signal(signal.SIGHUP)
        mirror.wait_said("configuration read again by all workers")
        mirror.wait_arrived(late, 50)
        mirror.change(whitelist="(")
        mirror.signal(signal.SIGHUP)
        mirror.wait_said("the configuration is left as it is")
        assert mirror.report()["reload"]["problem"]
        mirror.signal(signal.SIGUSR2)
        mirror.wait_said("SIGUSR2: the log is at level debug now")
        mirror.signal(signal.SIGUSR1)
        mirror.wait_for(lambda: len(re.findall(r"event=dump", mirror.said())) == 3, "each to say where it stands")

        began = time.monotonic()
        code, _ = mirror.stop()
        assert (code, time.monotonic() - began < 11) == (0, True), mirror.said()
    assert sum(mirror.committed([topic, late]).values()) == 1550
    found = totals(compared(mirror, topic, 2))
    assert (found["source"], found["lost"], found["phantoms"]) == (1500, 0, 0)


def test_a_worker_without_partitions_is_ready_and_one_that_keeps_dying_ends_all(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    load = filled(source, {topic: 1}, 100, PLAIN_ONLY)
    with Workers(tmp_path, source, target, unique.group(), topic) as mirror:
        mirror.wait_ready()
        mirror.wait_all_committed([topic])
        report = mirror.report()
        assert report["ready"]
        idle = [worker for worker in report["workers"] if not worker["owned"]]
        assert len(idle) == 1
        assert idle[0]["reason"].startswith("owns no partition")
        assert mirror.got("/readyz")[0] == 200
        assert mirror.stop()[0] == 0
        mirror.env({**mirror.folders, "GROUNDWORK_FAILPOINTS": "before send=raise@1"})
        load.produce(topic, 1, 10, PLAIN_ONLY)  # never sent, so that each worker that has the partition dies of them
        mirror.start()
        assert mirror.exit_code(90) == 70, mirror.said()
        assert re.search(r"worker [12] (could not start|died 5 times).*exit code 70.*: the mirror ends", mirror.said())
        wait_until(lambda: not any(map(alive, mirror.worker_pids)), 20, "all workers to end")
