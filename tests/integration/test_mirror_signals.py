"""Signals to a mirror on real clusters: only SIGKILL, a crash and the second SIGTERM or ctrl-C end it undrained."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from localkafka.client import ClusterClient
from tests.conftest import Unique
from tests.integration.mirroring import PLAIN_ONLY, Mirror, compared, filled, totals

pytestmark = pytest.mark.real

ROOT = str(Path(__file__).parents[2])
HARMLESS = [
    signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGPWR,
    signal.SIGSTKFLT, signal.SIGRTMIN, signal.SIGRTMAX,
]  # fmt: skip


def test_signals_that_would_end_another_program_leave_the_mirror_running_with_a_line_each(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    load = filled(source, {topic: 1}, 100, PLAIN_ONLY)
    with Mirror(tmp_path, source, target, unique.group(), topic, {"offset.commit.interval.ms": 60000}) as mirror:
        mirror.wait_arrived(topic, 100)  # and none of them committed: a start would send them again
        for number in HARMLESS:
            mirror.signal(number)
            mirror.wait_said(f"{number.name} changes nothing")
        mirror.signal(signal.SIGUSR1)
        mirror.wait_said("event=dump msg=")
        mirror.wait_said(f"  {topic}/0 reading: fetched to 100, done 100, committed ")  # 0, or what the start found
        mirror.wait_said("  target, for source dc1: 0 requests in flight; 0 bytes not acknowledged")
        mirror.signal(signal.SIGUSR2)
        mirror.wait_said("SIGUSR2: the log is at level debug now")
        mirror.signal(signal.SIGUSR2)
        mirror.wait_said("SIGUSR2: the log is at level info now")
        mirror.signal(signal.SIGQUIT)
        mirror.wait_said("SIGQUIT: ")
        mirror.wait_said("  thread MainThread:")
        mirror.wait_said("  greenlet carry-dc1-")
        load.produce(topic, 1, 100, PLAIN_ONLY)
        mirror.wait_arrived(topic, 200)
        assert mirror.stop()[0] == 0, mirror.said()
        mirror.start()
        load.produce(topic, 1, 100, PLAIN_ONLY)
        mirror.wait_arrived(topic, 300)
        assert mirror.stop()[0] == 0, mirror.said()
    found = totals(compared(mirror, topic, 1))
    assert (found["source"], found["lost"], found["duplicates"]) == (300, 0, 0)


def test_the_limit_of_processor_time_drains_the_mirror(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    filled(source, {topic: 1}, 100, PLAIN_ONLY)
    with Mirror(tmp_path, source, target, unique.group(), topic, {"offset.commit.interval.ms": 60000}) as mirror:
        mirror.wait_arrived(topic, 100)
        mirror.signal(signal.SIGXCPU)
        mirror.signal(signal.SIGXCPU)  # it comes each second of processor time, and is no second request to stop
        assert mirror.exit_code(15) == 0, mirror.said()
        assert "SIGXCPU" in mirror.said()
        mirror.wait_all_committed([topic])


@pytest.mark.parametrize("rounds", [3])
def test_sigterm_until_the_process_is_gone_never_ends_it_by_the_signal_itself(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path, rounds: int
) -> None:
    topic = unique.topic()
    filled(source, {topic: 1}, 100, PLAIN_ONLY)
    with Mirror(tmp_path, source, target, unique.group(), topic) as mirror:
        for last in range(1, rounds + 1):
            mirror.wait_all_committed([topic])
            mirror.wait_for(lambda last=last: mirror.said().count("mirroring: ") == last, "READY")  # type: ignore[misc]
            mirror.signal(signal.SIGTERM)
            mirror.wait_for(lambda last=last: mirror.said().count("msg=stopped") == last, "stopped")  # type: ignore[misc]
            while mirror.exit_code(0.0002) is None:
                mirror.signal(signal.SIGTERM)
            assert mirror.exit_code(0) == 0, mirror.said()  # all is done: a second signal cannot spoil that
            if last < rounds:
                mirror.start()


def test_a_second_sigterm_ends_a_mirror_whose_handler_lets_nothing_else_run(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    filled(source, {topic: 1}, 10, PLAIN_ONLY)
    settings = {"message.handler": "tests.integration.hooks:stands_still"}
    with Mirror(tmp_path, source, target, unique.group(), topic, settings, env={"PYTHONPATH": ROOT}) as mirror:
        mirror.wait_said("the handler stands still")
        mirror.signal(signal.SIGQUIT)
        mirror.wait_said(", in stands_still")
        mirror.signal(signal.SIGTERM)
        time.sleep(0.2)  # two of one number that wait together are one to the kernel
        mirror.signal(signal.SIGTERM)
        assert mirror.exit_code(5) == 75, mirror.said()
        assert "stopped at once by a second signal" in mirror.said()
