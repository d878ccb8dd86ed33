"""Programs that end while the kernels are compiled."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

PROGRAM = """
import threading, sys
from kafkawire import kernels
ended = threading.Event()
kernels._CHOICE._load = lambda: ended.wait(60)
if {loads}:
    kernels._CHOICE.wanted = lambda: True
    kernels.compiled()
print("all is done", end="")
kernels.leave(3)
"""


@pytest.mark.parametrize("loads", [True, False])
def test_a_program_that_is_done_does_not_wait_for_the_compiler(loads: bool) -> None:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(loads=loads)], capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "all is done", "")
    assert time.monotonic() - began < 30
