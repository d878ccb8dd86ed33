"""Programs that end while the kernels are compiled."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from kafkawire import kernels
from kafkawire.errors import LocalError
from kafkawire.formats.v01 import messages as v01

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


class Loads:
    """A choice of this process's first moment, and how often it began to load the compiled form."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
        self.times = 0
        self.choice = kernels._Choice()
        monkeypatch.setattr(kernels, "_CHOICE", self.choice)
        monkeypatch.setattr(kernels, "WORTH_BYTES", 100)
        monkeypatch.setattr(self.choice, "_load", self._loaded)
        monkeypatch.setenv("KAFKAWIRE_KERNELS", asked)

    def _loaded(self) -> None:
        self.times += 1
        self.choice.settled = True


def test_the_compiled_form_is_loaded_once_enough_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    loads = Loads(monkeypatch, "auto")
    whole, _ = v01.message_set("t", 0, 0, memoryview(v01.encode([(0, None, b"x" * 14, None)])), -1)
    assert len(whole.buffer) == 40
    begun = []
    for _ in range(4):
        assert [found.values() for found in whole.pieces()] == [[b"x" * 14]]
        loads.choice.wait()
        begun.append(loads.times)
    assert begun == [0, 0, 1, 1]


def test_who_insists_has_it_from_the_first_set_on(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    loads = Loads(monkeypatch, "numba")
    kernels.compiled(1)
    assert loads.times == 1


def test_a_choice_that_is_none_is_refused_at_the_first_set(monkeypatch: pytest.MonkeyPatch) -> None:
    Loads(monkeypatch, "pyhton")
    with pytest.raises(LocalError, match="pyhton"):
        kernels.compiled(1)


def test_a_loader_without_a_thread_is_tried_again_and_sets_are_read_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    loads = Loads(monkeypatch, "auto")

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refused)
        assert kernels.compiled(200) is None
        loads.choice.wait()
    assert kernels.compiled(50) is None
    assert loads.times == 0
    kernels.compiled(200)
    loads.choice.wait()
    assert (loads.times, loads.choice.failed) == (1, None)
