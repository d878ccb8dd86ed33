"""What the shared fixtures promise: skips that name what is missing, and clusters that live as long as a user does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from localkafka.shared import Shared
from localkafka.waiting import wait_until
from tests import children

PLAN = {"one": {"brokers": 1}}


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.thorough
@pytest.mark.parametrize(("ci", "outcome"), [("", "1 skipped"), ("true", "1 error")])
def test_without_java_and_maven_real_tests_skip_by_name_but_fail_in_ci(tmp_path: Path, ci: str, outcome: str) -> None:
    test = Path(__file__).with_name("test_cluster.py")
    name = "test_an_attached_client_sees_the_cluster_that_was_described[process]"
    environment = {**os.environ, "PATH": str(tmp_path), "JAVA_HOME": "", "CI": ci}
    for worker in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_TESTRUNUID", "PYTEST_CURRENT_TEST"):
        environment.pop(worker, None)
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", f"{test}::{name}"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)
    assert outcome in done.stdout
    assert "Java and Maven" in done.stdout


def another_user(folder: Path, watch: int = 0) -> subprocess.Popen[str]:
    program = textwrap.dedent(f"""
        import time
        from pathlib import Path
        from localkafka.shared import Shared
        shared = Shared(Path({str(folder)!r}), {PLAN!r}, watch={watch})
        print(shared.cluster("one").zookeeper, flush=True)
        time.sleep(60)
    """)
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)


def holder(folder: Path) -> int:
    return int(json.loads((folder / "ready.json").read_text())["holder"])


@pytest.mark.real
def test_shared_clusters_outlive_the_user_that_started_them_and_end_with_the_last(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    with another_user(folder) as first:
        assert first.stdout is not None
        connect = first.stdout.readline().strip()
        with Shared(folder, PLAN) as second:
            pid = holder(folder)
            assert second.cluster("one").zookeeper == connect
            first.kill()
            first.wait(10)
            second.cluster("one").create_topic("still-here")
            assert not gone(pid)
    wait_until(lambda: gone(pid) and not folder.exists(), 10, "the holder to end with the last user")


@pytest.mark.real
def test_shared_clusters_end_with_the_process_they_watch(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    with (
        children.started([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as watched,
        another_user(folder, watched.pid) as user,
    ):
        assert user.stdout is not None
        assert user.stdout.readline()
        pid = holder(folder)
        watched.kill()
        watched.wait(10)
        wait_until(lambda: gone(pid), 10, "the holder to end with the process it watches")
        user.kill()
