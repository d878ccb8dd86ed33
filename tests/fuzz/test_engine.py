"""The fuzzer finds what it looks for: planted errors, endless loops, memory without bound, the end of the process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz import __main__ as command
from tests.fuzz.engine import Found, Fuzzer, Target
from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]


def target(call: Callable[[bytes], object], **limits: float) -> Target:
    return Target("planted", lambda: [b"\0\0\0\x04data", b"12345"], call, (ValueError,), **limits)  # type: ignore[arg-type]


def believes_the_size(data: bytes) -> None:
    """A decoder as nobody should write it."""
    size = int.from_bytes(data[:4], "big", signed=True)
    if size > len(data) - 4:
        raise ValueError("cut")
    if size < 0:
        raise IndexError(size)


def test_a_foreign_error_is_found_and_comes_again_from_its_number() -> None:
    with pytest.raises(Found, match="IndexError") as found:
        Fuzzer(target(believes_the_size), 5).run(0, 5000)
    again = Fuzzer(target(believes_the_size), 5)
    assert again.input(found.value.number) == found.value.data
    with pytest.raises(Found, match="IndexError"):
        again.run(found.value.number, 1)


def test_documented_errors_are_counted_and_no_defect() -> None:
    def refuse(data: bytes) -> None:
        raise UnicodeError("a kind of ValueError")

    fuzzer = Fuzzer(target(refuse), 1)
    assert (fuzzer.run(0, 50), fuzzer.refused) == (50, 50)


def test_what_does_not_end_is_found_although_it_catches_everything() -> None:
    def forever(data: bytes) -> None:
        while True:
            try:
                for _ in range(1000):
                    pass
            except Exception:
                pass

    with pytest.raises(Found, match=r"took more than 0\.1 s of CPU time"):
        Fuzzer(target(forever, cpu_s=0.1), 1).run(0, 1)


def test_memory_without_bound_is_found() -> None:
    with pytest.raises(Found, match=r"took \d+ MiB of memory"):
        Fuzzer(target(lambda data: b"x" * (300 << 20), memory_bytes=64 << 20), 1).run(0, 1)


def test_seeds_give_other_inputs_and_each_kind_of_input_is_valid_at_first() -> None:
    one, other = (Fuzzer(target(lambda data: None), seed) for seed in (1, 2))
    assert [one.input(n) for n in range(20)] != [other.input(n) for n in range(20)]
    assert len({one.input(n) for n in range(200)}) > 100


def test_the_end_of_the_process_is_found_and_its_input_kept(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(data: bytes) -> None:
        if b"5" in data:
            os._exit(9)

    monkeypatch.setitem(TARGETS, "planted", target(ends))
    assert not command._fuzzed("planted", 1, 0, 1000, cpu_s=None, failed=tmp_path)
    said = capfd.readouterr().out
    assert "the process ended with 9" in said
    (kept,) = [path for path in tmp_path.iterdir() if path.suffix != ".txt"]
    assert b"5" in kept.read_bytes()
    number = int(kept.name.rpartition("-")[2])
    assert f"--only planted --seed 1 --first {number} --inputs 1" in (tmp_path / f"{kept.name}.txt").read_text()


def test_the_command_runs_a_target_and_says_how_much() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--only", "blobs", "--inputs", "20", "--seed", "3"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "20 inputs" in done.stdout
    assert "seed 3: 1 of 1 targets without a defect" in done.stdout
