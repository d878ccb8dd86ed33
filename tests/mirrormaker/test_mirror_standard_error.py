"""A mirror whose standard error nobody reads, or that was started without one."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from mirrormaker import exits

FILE = """
sources:
- {name: a, zookeeper.connect: '127.0.0.1:1/a', group.id: g}
target: {metadata.broker.list: '127.0.0.1:1', target.version: 0.8.2}
mirror: {whitelist: 'a.*', control.socket: none, start.timeout.ms: 1500, log.level: debug}
"""
pytestmark = pytest.mark.thorough
RUN = [sys.executable, "-m", "mirrormaker", "run"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Of a mirror whose target is out of reach: it ends by itself."""
    made = tmp_path / "m.yaml"
    made.write_text(FILE)
    return made


def test_a_full_pipe_without_a_reader_holds_up_neither_the_start_nor_the_end(file: Path) -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETFL, os.O_NONBLOCK)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4096)
    fcntl.fcntl(writing, fcntl.F_SETFL, 0)
    ran = subprocess.run([*RUN, file], stderr=writing, timeout=60, check=False)
    os.close(reading)
    os.close(writing)
    assert ran.returncode == exits.UNREACHABLE


@pytest.mark.parametrize("closed", ["2>&-", "0<&- >&- 2>&-"])
def test_a_mirror_without_standard_error_runs(file: Path, closed: str) -> None:
    ran = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *RUN, file], timeout=60, check=False)
    assert ran.returncode == exits.UNREACHABLE
