"""Rows of the fault matrix about the machine: its disks, clock, memory, processor and name servers."""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from tests.faults.harness.daemons import COMMIT_S, SESSION_S
from tests.faults.harness.machine import Machine
from tests.faults.harness.network import proxies
from tests.faults.harness.row import SLACK, Accept, Run, d1, row

pytestmark = [pytest.mark.real, pytest.mark.faults]

SPAN_S = 12.0  # of each shift of the clock
MIB = 1024 * 1024


def private_mounts() -> bool:
    """Whether a process may have mounts of its own."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0


@row("F36", "the disk of state, offset map and log is full", Accept(recovery_s=5, rebalances=None, duplicates=d1()))
def test_f36_the_disk_of_state_and_log_is_full(run: Run) -> None:
    if not private_mounts():
        pytest.skip("needs a file system of its own: unshare -rm is not allowed here")
    [first] = run.daemons
    assert first.stop()[0] == 0
    folder = run.folder / "small"
    folder.mkdir()
    mounted = 'mount -t tmpfs -o size=64k none "$0" && exec "$@"'
    daemon = run.daemon(
        {"mirror": {"offset.map.folder": str(folder), "state.folder": str(folder), "offset.map.every.messages": 1}},
        prefix=("unshare", "-rm", "sh", "-c", mounted, str(folder)),
    )
    with run.fault() as fault:
        daemon.start()
        daemon.wait_said("cannot be written: No space left on device; mirroring goes on", 60)
        fault.over()
        run.wait_flowing()
        assert daemon.running
    run.wait_caught_up()
    assert daemon.stop()[0] == 0
    # Its log can take nothing at all, from its first line on.
    third = run.daemon(prefix=("sh", "-c", 'exec "$@" 2>/dev/full >/dev/full', "-"))
    with run.fault() as fault:
        third.start()
        run.wait_flowing()
        run.wait_caught_up()
        fault.over()
        run.wait_flowing()


# Forward, it may have been a pause: the lease lapses for a moment, and what was about to be sent is read again.
@row("F37", "the clock jumps: + 1 h, - 1 h, ± 5 s", Accept(rebalances=0, recovery_s=5, duplicates=d1()))
def test_f37_the_clock_jumps(run: Run) -> None:
    [daemon] = run.daemons
    assert daemon.stop()[0] == 0
    machine = Machine(run.folder)
    daemon.env(machine.env)
    daemon.start()
    run.wait_flowing(since=time.monotonic())
    run.wait_caught_up()
    with run.fault() as fault:
        began = time.monotonic()
        for shift_s in (3600, -3600):
            machine.set_wall_clock(shift_s)
            run.pass_time(SPAN_S)
        until = time.monotonic() + SPAN_S
        while time.monotonic() < until:
            machine.set_wall_clock(round(run.rng.uniform(-5, 5)))
            run.pass_time(0.3)
        ended = time.monotonic()
        machine.set_wall_clock(0)
        fault.over()
        run.wait_flowing()
    times: dict[TopicPartition, list[float]] = defaultdict(list)
    for each in run.sites.wire.committed:
        if began <= each.at <= ended:
            times[each.tp].append(each.at)
    assert len(times) == len(run.tps), "some partitions were never committed"
    intervals = [(at[-1] - at[0]) / (len(at) - 1) for at in times.values() if len(at) > 1]
    run.figure("commit interval s", round(statistics.mean(intervals), 2), COMMIT_S * 1.2 * SLACK)
    assert statistics.mean(intervals) >= COMMIT_S * 0.8
    years = {line[5:9] for line in daemon.said().splitlines() if line.startswith("time=")}
    hours = {line[5:18] for line in daemon.said().splitlines() if line.startswith("time=")}
    assert len(hours) >= 2, f"the clock of the daemon did not move: {years} {hours}"
    negative = [line for line in daemon.said().splitlines() if " lag -" in line or '"-' in line]
    assert negative == []


@row("F38", "memory is refused to the daemon", Accept(duplicates=d1(), recovery_s=15))
def test_f38_memory_is_refused(run: Run) -> None:
    """Too little address space to go on with: it ends with its reason, or goes on; nothing is lost either way."""
    [daemon] = run.daemons
    with run.fault() as fault:
        _, hard = resource.prlimit(daemon.pid, resource.RLIMIT_AS)
        used = int(Path(f"/proc/{daemon.pid}/statm").read_text().split()[0]) * 4096
        resource.prlimit(daemon.pid, resource.RLIMIT_AS, (used // 2, hard))  # every further page is refused
        code = daemon.exit_code(20)
        if code is None:
            resource.prlimit(daemon.pid, resource.RLIMIT_AS, (hard, hard))
        else:
            assert code not in (0, -11), daemon.said_last()
            assert "MemoryError" in daemon.said() or "emory" in daemon.said(), daemon.said_last()
            run.figure("exit code", code)
            run.window(committed=run.sampler.committed())
            daemon.start()
        fault.over()
        run.wait_flowing()


@contextmanager
def hogs(count: int) -> Iterator[None]:
    """Processes that compute without end, at our priority."""
    made = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in made:
            each.kill()
            each.wait(10)


@row("F39", "the processor is taken, batches are huge", Accept(rebalances=0, grown_bytes=512 * MIB), daemons=2)
def test_f39_the_processor_is_taken_and_batches_are_huge(run: Run) -> None:
    size, rate = run.traffic.size, run.traffic.rate
    with run.fault(), hogs(2 * (os.cpu_count() or 1)):
        run.traffic.size, run.traffic.rate = 500_000, 20  # twenty of them a batch: 10 MB behind one codec
        run.pass_time(20)
        run.traffic.size, run.traffic.rate = size, rate
    run.wait_caught_up()


SILENT_RESETS = 4


@row(
    "F45",
    "name servers are silent, and all links to ZooKeeper and the target are reset every 6 s",
    Accept(duplicates=lambda run: int(SILENT_RESETS * run.rate), recovery_s=10, rebalances=0),
    daemons=0,
)
def test_f45_name_servers_are_silent_while_links_break(run: Run) -> None:
    """ZooKeeper is reached by names alone, and its session ends 6 s after a connection is lost."""
    machine = Machine(run.folder)
    daemon = run.daemon(env=machine.env)
    daemon.by_name()
    daemon.start()
    run.wait_steady()
    with machine.silent_names():
        for _ in range(SILENT_RESETS):
            with run.fault() as fault:
                committed = run.sampler.committed()
                for proxy in (*daemon.zookeeper_proxies, *proxies(run.sites.target)):
                    proxy.reset()
                run.wait_flowing()
                run.window(committed=committed)
            run.pass_time(max(0.0, SESSION_S - (time.monotonic() - fault.since)))
    assert machine.waited, "no name was looked up"
    run.wait_caught_up()
    assert "lease over" not in daemon.said()


@row(
    "F47",
    "each sync of the disk with the offset map takes 8 s, for half a minute",
    Accept(duplicates=0, rebalances=0, pause_s=2),
    daemons=0,
)
def test_f47_the_disk_is_slow(run: Run) -> None:
    """A sync takes longer than the session, and less than the 10 s after which the disk counts as one that refuses."""
    machine = Machine(run.folder)
    folder = run.folder / "maps"
    folder.mkdir()
    daemon = run.daemon({"mirror": {"offset.map.folder": str(folder)}}, env=machine.env)
    daemon.start()
    run.wait_steady()
    with run.fault(affected=[]), machine.slow_disk(SESSION_S + 2):
        run.pass_time(30)
    assert machine.waited >= 2, "too few syncs"
    run.wait_caught_up()
    assert "lease over" not in daemon.said()
    assert "has a hole" not in daemon.said()
