"""Rows F1 to F9 and F46: what happens to the daemon's process."""

from __future__ import annotations

import sys
import time

from tests.faults.harness.daemons import SESSION_S, Daemon
from tests.faults.harness.machine import Machine
from tests.faults.harness.oracles import commits_between
from tests.faults.harness.row import SLACK, Accept, Run, d1, row

FROZEN_S = 3 * SESSION_S
EXPIRED_S = SESSION_S + 2 * 2 + 3  # session, two ticks of 2 s, and what a start takes
CRASH = Accept(duplicates=d1(), recovery_s=EXPIRED_S, exact=True)  # of a daemon without another


@row("F1", "SIGTERM of the only daemon, restart", Accept(duplicates=0, recovery_s=5))
def test_f01_sigterm_of_the_only_daemon(run: Run) -> None:
    [daemon] = run.daemons
    with run.fault(daemon) as fault:
        code, seconds = daemon.stop()
        run.figure("exit s", round(seconds, 2), 10 * SLACK)
        assert code == 0, daemon.said_last()
        assert run.owners() == {}
        assert run.members() == []
        fault.over()
        daemon.start()
        run.wait_flowing()
    run.wait_caught_up()


@row("F2", "SIGTERM of one of two daemons", Accept(duplicates=0, recovery_s=5, pause_s=1), daemons=2)
def test_f02_sigterm_of_one_of_two(run: Run) -> None:
    leaver, _stays = run.daemons
    with run.fault(leaver):
        code, seconds = leaver.stop()
        run.figure("exit s", round(seconds, 2), 10 * SLACK)
        assert code == 0, leaver.said_last()
        run.wait_flowing()
    run.wait_caught_up()


@row("F3", "kill -9 of the only daemon, restart at once", CRASH)
def test_f03_kill_9_of_the_only_daemon(run: Run) -> None:
    [daemon] = run.daemons
    with run.fault(daemon) as fault:
        daemon.kill()
        daemon.start()
        fault.window()
        run.wait_flowing()
    run.wait_caught_up()


@row("F4", "kill -9 of one of two daemons", Accept(duplicates=d1(0.5), recovery_s=EXPIRED_S), daemons=2)
def test_f04_kill_9_of_one_of_two(run: Run) -> None:
    victim, _stays = run.daemons
    with run.fault(victim) as fault:
        victim.kill()
        fault.window()
        run.wait_flowing()
    run.wait_caught_up()


@row("F5", "ten kill -9, 2 to 8 s apart, of either of two daemons", Accept(duplicates=d1(0.5, times=10)), daemons=2)
def test_f05_kill_storm(run: Run) -> None:
    for _ in range(10):
        victim = run.rng.choice(run.daemons)
        with run.fault(victim, affected=[]) as fault:
            victim.kill()
            fault.window()
            victim.start()
            run.pass_time(run.rng.uniform(2, 8))
    run.wait_caught_up()


# ---- F6: kill -9 at fail points -------------------------------------------------------------------------------------


def killed_at(run: Run, point: str) -> None:
    """The daemon is replaced by one that dies at the fail point, and then by one that does not."""
    [daemon] = run.daemons
    code, _ = daemon.stop()
    assert code == 0, daemon.said_last()
    daemon.failpoints(point)
    with run.fault(daemon) as fault:
        daemon.start()
        daemon.wait_killed()
        fault.window()
        fault.over()
        daemon.failpoints("")
        daemon.start()
        run.wait_flowing()
    run.wait_caught_up()


@row(
    "F6a",
    "kill -9 after a produce request, before its response",
    CRASH,
)
def test_f06_killed_after_send_before_ack(run: Run) -> None:
    killed_at(run, f"after send before ack=kill@{run.rng.randint(5, 60)}")


@row("F6b", "kill -9 after acknowledgement, before the commit", CRASH)
def test_f06_killed_after_ack_before_commit(run: Run) -> None:
    killed_at(run, f"after ack before commit=kill@{run.rng.randint(1, 4)}")


@row(
    "F6c",
    "kill -9 inside a rebalance, after the first claim",
    CRASH,
)
def test_f06_killed_inside_claims(run: Run) -> None:
    killed_at(run, "inside claim=kill@1")


@row(
    "F6d",
    "kill -9 between the commit to Kafka and that to ZooKeeper (dual)",
    Accept(duplicates=d1(), recovery_s=EXPIRED_S),  # begins at the larger offset, which ours of ZooKeeper is not
    options={"source": {"offsets.storage": "kafka", "dual.commit.enabled": True}},
)
def test_f06_killed_between_the_commits_of_dual(run: Run) -> None:
    killed_at(run, f"between kafka and zookeeper commit=kill@{run.rng.randint(2, 5)}")


@row(
    "F6e",
    "kill -9 before the first commit of a group",
    CRASH,
    daemons=0,
)
def test_f06_killed_before_the_first_commit(run: Run) -> None:
    daemon = run.daemon()
    daemon.failpoints("before first commit=kill@1")
    run.pass_time(1)
    with run.fault() as fault:
        daemon.start()
        daemon.wait_killed()
        assert run.sampler.committed() == {}
        fault.window()
        fault.over()
        daemon.failpoints("")
        daemon.start()
        run.wait_flowing()
    run.wait_caught_up()


# ---- frozen ---------------------------------------------------------------------------------------------------------


@row("F7", "SIGSTOP for half a session", Accept(duplicates=0, rebalances=0), daemons=2)
def test_f07_frozen_for_half_a_session(run: Run) -> None:
    frozen, _other = run.daemons
    with run.fault(frozen, affected=[]):
        frozen.freeze()
        run.pass_time(SESSION_S / 2)
        frozen.thaw()
    run.wait_caught_up()


@row(
    "F8",
    "SIGSTOP for three sessions, one of two daemons",
    Accept(duplicates=d1(0.5, partitions=6), recovery_s=EXPIRED_S),
    daemons=2,
    short=True,
)
def test_f08_frozen_for_three_sessions_one_of_two(run: Run) -> None:
    frozen, _other = run.daemons
    stopped_past_the_session(run, frozen, requests=1)


@row(
    "F46",
    "the machine of one of two daemons is suspended for three sessions",
    Accept(duplicates=d1(0.5, partitions=6), recovery_s=EXPIRED_S),
    daemons=0,
)
def test_f46_the_machine_of_one_of_two_daemons_is_suspended(run: Run) -> None:
    """Its timers have not counted the time, and for 5 s it does not hear that ZooKeeper has closed its connection: the
    lease alone says that its session is over."""
    machine = Machine(run.folder)
    suspended, other = run.daemon(env=machine.env), run.daemon()
    for daemon in (suspended, other):
        daemon.start()
    run.wait_steady()
    stopped_past_the_session(run, suspended, requests=0, machine=machine)


def stopped_past_the_session(run: Run, frozen: Daemon, *, requests: int, machine: Machine | None = None) -> None:
    """One of two daemons is stopped for three sessions.  With a machine, that is suspended for as long.

    requests: how many may reach a broker before the daemon has claimed again
    """
    with run.fault(frozen) as fault:
        frozen.freeze()
        began = time.monotonic()
        if machine is not None:
            frozen.blackhole()
        fault.window()
        run.wait_flowing()
        run.pass_time(max(0.0, FROZEN_S - (time.monotonic() - began)))
        wire = run.sites.wire
        before = {each.by.number for each in [*wire.produced, *wire.committed] if each.by.name == frozen.name}
        thawed = time.monotonic()
        if machine is not None:
            machine.slept(thawed - began)
        frozen.thaw()
        if machine is not None:
            run.pass_time(5)
            frozen.clear()

        def claimed() -> list[float]:
            return [each.at for each in wire.claimed if each.by.name == frozen.name and each.at > thawed]

        run.wait_for(lambda: bool(claimed()), "the thawed daemon to claim again")
        claims = min(claimed())
        run.wait_for(lambda: frozen.name in run.producers_since(claims), "the thawed daemon to have a share again")
        # What it sends before it has claimed again, and what it commits over connections from before.
        zombies = [each for each in wire.produced if each.by.name == frozen.name and thawed < each.at < claims]
        servers = [each.by.server for each in zombies]
        run.figure("zombie requests to a broker", max(map(servers.count, servers), default=0), requests)
        run.figure("zombie commits", commits_between(wire.committed, thawed, claims, before), 0)
        if zombies:  # the other daemon has sent by now what they bring: behind the end that the fault's window has
            again = {tp for each in zombies for tp in each.partitions}
            frozen_at = run.windows[-1].committed
            run.window(committed={tp: frozen_at.get(tp, 0) if tp in again else sys.maxsize for tp in run.tps})
    run.wait_caught_up()


@row("F9", "SIGSTOP for three sessions, the only daemon", Accept(duplicates=d1(), recovery_s=5))
def test_f09_frozen_for_three_sessions_alone(run: Run) -> None:
    [daemon] = run.daemons
    with run.fault(daemon) as fault:
        daemon.freeze()
        fault.window()
        run.pass_time(FROZEN_S)
        fault.over()
        daemon.thaw()
        run.wait_flowing()
    run.wait_caught_up()
