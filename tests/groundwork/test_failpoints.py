from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from groundwork.failpoints import FailpointReached, FailpointSyntax, arm, failpoint


@pytest.fixture(autouse=True)
def _off_afterwards() -> Iterator[None]:
    yield
    arm("")


def passes(count: int, name: str = "before commit") -> list[int]:
    """At which passes it raised."""
    raised = []
    for n in range(1, count + 1):
        try:
            failpoint(name)
        except FailpointReached:
            raised.append(n)
    return raised


def test_what_is_raised_names_the_fail_point() -> None:
    arm("before commit=raise")
    with pytest.raises(FailpointReached, match=r"^before commit$"):
        failpoint("before commit")


def test_off_it_does_nothing() -> None:
    assert passes(3) == []


def test_raises_at_every_pass_or_at_the_nth_only() -> None:
    arm("before commit=raise")
    assert passes(3) == [1, 2, 3]
    arm("before commit = raise@2; after send=raise")
    assert passes(3) == [2]
    assert passes(1, "after send") == [1]
    assert passes(1, "elsewhere") == []


def test_sleep_holds_the_thread_up() -> None:
    arm("before commit=sleep:0.05")
    began = time.monotonic()
    failpoint("before commit")
    assert time.monotonic() - began >= 0.05


PROGRAM = """
from groundwork.failpoints import failpoint
for n in range(5):
    print(n, flush=True)
    failpoint("after send before ack")
"""


def start(points: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "GROUNDWORK_FAILPOINTS": points}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def test_kill_is_a_sigkill_at_the_nth_pass() -> None:
    with start("after send before ack=kill@3") as child:
        out, err = child.communicate(timeout=20)
    assert child.returncode == -signal.SIGKILL
    assert out == "0\n1\n2\n"
    assert err == "fail point 'after send before ack', pass 3: kill\n"


def test_stop_is_a_sigstop_and_the_process_can_go_on() -> None:
    with start("after send before ack=stop@2") as child:
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        child.send_signal(signal.SIGCONT)
        out, _ = child.communicate(timeout=20)
    assert out == "0\n1\n2\n3\n4\n"
    assert child.returncode == 0


@pytest.mark.parametrize(
    "text",
    ["nonsense", "=kill", "a=explode", "a=kill@x", "a=kill@0", "a=sleep", "a=sleep:x", "a=sleep:-1", "a=raise:3"],
)
def test_unknown_syntax_is_a_sentence(text: str) -> None:
    with pytest.raises(FailpointSyntax, match=rf"^GROUNDWORK_FAILPOINTS: '{text}'"):
        arm(text)


def test_unknown_syntax_in_the_environment_ends_the_program_at_its_start() -> None:
    with start("after send before ack=explode") as child:
        out, err = child.communicate(timeout=20)
    assert child.returncode == 1
    assert out == ""
    assert err.splitlines()[-1].endswith(
        "GROUNDWORK_FAILPOINTS: 'after send before ack=explode' is not NAME=ACT[@n] with ACT one of"
        " kill, stop, raise, sleep:SECONDS"
    )
