"""Rows of the fault matrix about the target: its brokers die, hang, fill up, are slow, far away or cut off."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from kafkawire.net.link import IDLE_S
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.node import Node
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.faults.harness.clusters import Side
from tests.faults.harness.leaders import (
    kill_all,
    leading,
    led_by,
    lines_of,
    move_leaders,
    stop_in_turn,
    wait_in_sync,
    wait_moved,
)
from tests.faults.harness.network import connected, incompressible, mended, proxies, stalls
from tests.faults.harness.row import MEMORY, SLACK, Accept, Fault, Run, row
from tests.integration.mirroring import Mirror
from tests.integration.sparktopics import produce, stored

pytestmark = [pytest.mark.real, pytest.mark.faults]

BOUNCES = int(os.environ.get("FAULT_BOUNCES", "3"))  # kafkatest's number; the row says 5
DOWN_S = float(os.environ.get("FAULT_DOWN_S", "60"))  # of the whole target; the row says 600
REQUEST_S = 10.0  # request.timeout.ms
KIB, MIB = 1024, 1024 * 1024


def in_flight(times: int = 1, seconds: float = 1.0) -> Callable[[Run], int]:
    """What may be in requests without an answer: so many seconds of traffic, `times` over."""
    return lambda run: int(times * seconds * run.rate)


@contextmanager
def target_fault(run: Run, affected: tuple[TopicPartition, ...] | None = None) -> Iterator[Fault]:
    """A fault of the target: what was not committed at its begin may come twice, once more for each fault."""
    with run.fault(affected=affected) as fault:
        committed = run.sampler.committed()
        yield fault
        run.wait_flowing()
        run.window(committed=committed)


def bounced(run: Run, away: Callable[[Node], None], down_s: float = 0.0) -> None:
    """A leader of the target goes away and comes back; its partitions are led by others meanwhile."""
    side = run.sites.target
    node = leading(side, run)
    with target_fault(run, led_by(side, node.id, run.tps)) as fault:
        away(node)
        fault.recovers_from = wait_moved(side, node.id, fault.affected)
        run.pass_time(down_s)
    node.restart()
    wait_in_sync(run, side)
    run.wait_caught_up()


@row(
    "F19", "target leaders: kill -9 and SIGTERM in turn",
    Accept(duplicates=in_flight(BOUNCES), recovery_s=10, rebalances=0),
)  # fmt: skip
def test_f19_target_leaders_go_away(run: Run) -> None:
    for number in range(BOUNCES):
        bounced(run, Node.kill if number % 2 == 0 else Node.stop)


@row(
    "F20", "SIGSTOP of a target leader for 30 s",
    Accept(duplicates=in_flight(seconds=2 * REQUEST_S), recovery_s=REQUEST_S + 5, rebalances=0),
)  # fmt: skip
def test_f20_a_target_leader_is_frozen(run: Run) -> None:
    """Recovery: requests that it took are given up after request.timeout.ms and half of it more."""
    side = run.sites.target
    node = leading(side, run)
    with run.fault() as fault:
        committed = run.sampler.committed()
        node.pause()
        try:
            run.pass_time(30)
        finally:
            node.resume()
        fault.recovers_from = wait_moved(side, None, run.tps)
        run.wait_flowing()
        run.window(committed=committed)
    wait_in_sync(run, side)
    run.wait_caught_up()


# Where a broker of 0.8.2 loses the lead while it waits for replicas, it answers when the request times out, and answers
# nothing that is behind it on the connection before.
@row(
    "F21b", "leaders of the target are moved by preferred election and by reassignment",
    Accept(duplicates=in_flight(2 * BOUNCES), recovery_s=REQUEST_S + 2, rebalances=0),
    replication=2, topic_config={"min.insync.replicas": 1},
)  # fmt: skip
def test_f21_target_leaders_are_moved(run: Run) -> None:
    side = run.sites.target
    marks = {daemon.name: len(daemon.said()) for daemon in run.daemons}
    for _ in range(BOUNCES):
        for stays in (True, False):
            with target_fault(run) as fault:
                move_leaders(side, run.tps, stays=stays)
                fault.recovers_from = wait_moved(side, None, run.tps)
            wait_in_sync(run, side)
    run.figure("lines of the log a partition and move", lines_of(run, marks) / 2 / BOUNCES, 5)


# Leaders move once more while brokers come back: see F21b.
DOWN = Accept(duplicates=in_flight(seconds=2), recovery_s=REQUEST_S + 5, rebalances=0, grown_bytes=MEMORY)


@row("F22", f"the brokers of the target are stopped one after the other, and are down for {DOWN_S:g} s", DOWN)
def test_f22_the_whole_target_is_stopped(run: Run) -> None:
    whole_target_down(run, lambda side: stop_in_turn(side, run.tps))


@row("F22b", f"kill -9 of all brokers of the target at once; they are down for {DOWN_S:g} s", DOWN)
def test_f22_the_whole_target_is_killed(run: Run) -> None:
    whole_target_down(run, kill_all)


def whole_target_down(run: Run, down: Callable[[Side], None]) -> None:
    side = run.sites.target
    # Those that come back before the last leader truncate to their high watermarks, behind what was acknowledged.
    run.sampler.quorum = len(side.cluster.nodes)
    with target_fault(run) as fault:
        down(side)
        before = connected(proxies(side))
        since = time.monotonic()
        run.pass_time(DOWN_S)
        assert all(daemon.running for daemon in run.daemons)
        tries = (connected(proxies(side)) - before) / len(side.cluster.nodes) / (time.monotonic() - since)
        run.figure("connects a second and broker", round(tries, 2), 1.0)
        side.heal()
        wait_in_sync(run, side)
        fault.over()
        began = time.monotonic()
        run.wait_caught_up(DOWN_S + 90)
        run.figure("catch-up s", round(time.monotonic() - began, 1), DOWN_S * SLACK)


@row(
    "F23",
    "the disk of a target leader is full: it halts",
    Accept(duplicates=in_flight(BOUNCES), recovery_s=10, rebalances=0),
)
def test_f23_a_target_disk_is_full(run: Run) -> None:
    def fill(node: Node) -> None:
        # No file of it may grow: what ENOSPC is to a broker of 0.8, which halts at the first write that fails.
        _, hard = resource.prlimit(node.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (1, hard))
        wait_until(lambda: not node.running, 30, f"{node.name} to halt")

    for _ in range(BOUNCES):
        bounced(run, fill)


@pytest.mark.parametrize(
    ("megabits", "round_trip_ms", "stalling", "share"),
    [pytest.param(3, 100, False, 0.9, id="f24-3-Mbit"), pytest.param(100, 80, True, 0.8, id="f25-WAN-with-stalls")],
)
def test_f24_f25_a_slow_or_long_link_is_used(
    source: ClusterClient, own_cluster: Callable[..., Cluster], unique: Unique, tmp_path: Path,
    megabits: int, round_trip_ms: int, stalling: bool, share: float,
) -> None:  # fmt: skip
    """A backlog through a link: how much of the link it uses behind its first tenth; nothing lost, all in order."""
    partitions, rate = 4, megabits * 125_000
    seconds = 30.0 if not stalling else 12.0
    values = incompressible(int(rate * seconds) // 1024, 1000, seed=megabits)
    topic = unique.topic()
    target = own_cluster(brokers=1, proxied=True)
    for cluster in (source, target):
        cluster.create_topic(topic, partitions)
    for partition in range(partitions):
        produce(source, TopicPartition(topic, partition), [(None, value) for value in values[partition::partitions]])
    proxy = target.node(0).proxy
    total = sum(map(len, values))
    with Mirror(tmp_path, source, target, unique.group(), topic, {"partitioning": "identity"}) as mirror:
        proxy.link(rate, round_trip_ms)
        begun = proxy.counters.bytes_to_target
        with stalls(proxy, round_trip_ms, MIB if stalling else total * 100) as seen:
            wait_passed(proxy, begun + total // 10, mirror)
            began, first, memory = time.monotonic(), proxy.counters.bytes_to_target, resident(mirror.pid)
            wait_passed(proxy, begun + total * 95 // 100, mirror)
            used = (proxy.counters.bytes_to_target - first) / (time.monotonic() - began) / rate
            grown = resident(mirror.pid) - memory
            mirror.wait_all_committed([topic], 120)
        proxy.clear()
        assert mirror.stop()[0] == 0, mirror.said_last()
    print(
        f"{megabits} Mbit/s, {round_trip_ms} ms: {used:.0%} of the link, {len(seen)} stalls, memory +{grown >> 20} MiB"
    )
    for partition in range(partitions):
        assert [value for _, _, value in stored(target, topic, partition)] == values[partition::partitions]
    assert used * SLACK >= share
    assert grown <= MEMORY
    assert not stalling or seen


def wait_passed(proxy: object, count: int, mirror: Mirror) -> None:
    mirror.wait_for(lambda: proxy.counters.bytes_to_target >= count, f"{count} bytes to pass", 180)  # type: ignore[attr-defined]


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


# ---- F26: links that break ------------------------------------------------------------------------------------------

RESETS = 6


@row(
    "F26a",
    "resets of all links to the target every 5 s",
    Accept(duplicates=in_flight(RESETS), recovery_s=10, rebalances=0),
)
def test_f26_resets(run: Run) -> None:
    for _ in range(RESETS):
        with target_fault(run) as fault:
            for proxy in proxies(run.sites.target):
                proxy.reset()
            fault.over()
        run.pass_time(max(0.0, 5 - (time.monotonic() - fault.since)))


@row(
    "F26b",
    "writes to the target in slices of 64 bytes",
    Accept(duplicates=in_flight(), recovery_s=10, rebalances=0),
    rate=300,
)
def test_f26_slices(run: Run) -> None:
    with run.fault():
        for proxy in proxies(run.sites.target):
            proxy.slice(64, 0.2, "to_target")
        run.pass_time(20)
        run.wait_flowing()
    mended(run.sites.target)  # ends connections: what was sent and not answered comes again
    run.window(committed=run.sampler.committed())


@row(
    "F26c",
    "links to the target are cut inside requests and answers",
    Accept(duplicates=in_flight(RESETS, 2), recovery_s=10, rebalances=0),
)
def test_f26_cut_in_the_middle_of_a_frame(run: Run) -> None:
    side = run.sites.target
    for number in range(RESETS):
        with target_fault(run) as fault:
            for proxy in proxies(side):
                if number % 2:
                    proxy.cut(run.rng.randrange(1, 3000), "to_client")
                else:
                    proxy.cut(run.rng.randrange(1, 60_000), "to_target")
            run.pass_time(3)
            for proxy in proxies(side):
                proxy.clear()
            fault.over()
    wait_in_sync(run, side)


@row(
    "F26d",
    "answers of a target broker are lost for 30 s",
    Accept(duplicates=in_flight(seconds=4 * REQUEST_S), recovery_s=REQUEST_S + 5, rebalances=0),
)
def test_f26_half_open(run: Run) -> None:
    side = run.sites.target
    node = leading(side, run)
    with target_fault(run) as fault:
        node.proxy.blackhole("to_client")
        run.pass_time(30)
        node.proxy.reset()
        node.proxy.clear()
        fault.over()
    wait_in_sync(run, side)


# ---- F48: a NAT that forgets ----------------------------------------------------------------------------------------

NAT_S = IDLE_S + 2  # of idle time, after which it forgets: as soon as the mirror allows


@row(
    "F48",
    f"a NAT before the target forgets connections that were idle for {NAT_S:g} s",
    Accept(duplicates=0, rebalances=0, recovery_s=2),
)
def test_f48_a_nat_forgets_idle_connections(run: Run) -> None:
    """The first messages after the idle time arrive like any others, and nothing is reported."""
    side, [daemon] = run.sites.target, run.daemons
    run.traffic.pause()
    run.wait_for(lambda: fully_committed(run), "everything to be committed")
    run.pass_time(NAT_S + 3)
    quiet = run.sampler.ends(side)
    assert quiet == run.sampler.ends(side)
    forgotten = sum(proxy.forget(NAT_S) for proxy in proxies(side))
    assert forgotten, "no connection was idle"
    mark = len(daemon.said())
    with run.fault():
        run.traffic.resume()
        began = time.monotonic()
        run.wait_for(lambda: all(end > quiet[tp] for tp, end in run.sampler.ends(side).items()), "messages of all")
        run.figure("first messages stored after s", round(time.monotonic() - began, 2), 2 * SLACK)
        run.wait_flowing()
    run.wait_caught_up()
    for proxy in proxies(side):
        proxy.reset(forgotten=True)  # the controller's connections to the brokers are among them
    said = daemon.said_since(mark)
    assert " level=warning " not in said, said
    assert " level=error " not in said, said


def fully_committed(run: Run) -> bool:
    """Whether everything that the source holds is committed."""
    committed, ends = run.sampler.committed(), run.sampler.ends(run.sites.source)
    return len(ends) == len(run.tps) and all(committed.get(tp, 0) >= end for tp, end in ends.items())
