"""Rows F10 to F15: what happens to ZooKeeper, or between it and a daemon."""

from __future__ import annotations

import time

from kazoo.client import KazooClient

from tests.faults.harness.daemons import SESSION_S
from tests.faults.harness.row import Accept, Run, d1, row

EXPIRED_S = SESSION_S + 2 * 2 + 3


def expire(run: Run, session: tuple[int, bytes]) -> None:
    """End a session as ZooKeeper would: a second client with its id and password closes it."""
    client = KazooClient(
        run.sites.source.ensemble.connect, timeout=SESSION_S, client_id=session, connection_retry={"max_tries": 3}
    )
    client.start(20)
    assert client.client_id == session
    client.stop()
    client.close()


@row("F10", "the session expires, the process lives", Accept(duplicates=d1(), recovery_s=5))
def test_f10_the_session_expires(run: Run) -> None:
    [daemon] = run.daemons
    session = run.session_of(daemon)
    committed = run.sampler.committed()
    with run.fault(daemon) as fault:
        began = time.monotonic()
        expire(run, session)
        run.wait_for(lambda: any(claim.at > began for claim in run.sites.wire.claimed), "claims of a new session")
        run.window(committed=committed, grace_s=0)
        fault.recovers_from = began
        run.wait_flowing()
    run.wait_caught_up()


@row("F11", "a ZooKeeper server restarts within the session", Accept(duplicates=0, rebalances=0), daemons=2)
def test_f11_zookeeper_restarts_in_time(run: Run) -> None:
    with run.fault(affected=[]):
        for server in run.sites.source.ensemble.servers:
            run.rng.choice([server.kill, server.stop])()
            server.start()
            run.pass_time(1)
    run.wait_caught_up()


def zookeeper_down(run: Run, seconds: float) -> None:
    """The whole ensemble is away for so long; the daemon keeps mirroring for a session, then waits, and goes on."""
    [daemon] = run.daemons
    with run.fault(daemon) as fault:
        committed = run.sampler.committed()
        run.sites.source.ensemble.stop()
        gone = time.monotonic()
        run.pass_time(seconds)
        assert daemon.running
        sent = [each.at - gone for each in run.sites.wire.produced if each.at > gone]
        run.figure("mirrored without ZooKeeper s", round(max(sent, default=0.0), 1), SESSION_S)
        run.sites.source.ensemble.start()
        fault.over()
        run.window(committed=committed, grace_s=0)
        run.sites.source.cluster.wait_registered()
        run.wait_flowing()
    run.wait_caught_up()


@row("F12", "ZooKeeper is down for a minute", Accept(duplicates=d1(), recovery_s=10))
def test_f12_zookeeper_is_down_for_a_minute(run: Run) -> None:
    zookeeper_down(run, 60)


@row("F12b", "ZooKeeper is down for ten minutes", Accept(duplicates=d1(), recovery_s=10))
def test_f12_zookeeper_is_down_for_ten_minutes(run: Run) -> None:
    zookeeper_down(run, 600)


@row(
    "F13",
    "ZooKeeper out of reach of one of two daemons for three sessions",
    Accept(duplicates=d1(0.5), recovery_s=EXPIRED_S),
    daemons=2,
)
def test_f13_zookeeper_is_out_of_reach_of_one_of_two(run: Run) -> None:
    cut, _other = run.daemons
    with run.fault(cut) as fault:
        began = time.monotonic()
        cut.blackhole()
        run.wait_for(lambda: "lease over" in cut.said(), "the daemon to fence itself")
        fault.window()
        run.wait_flowing()
        run.pass_time(max(0.0, 3 * SESSION_S - (time.monotonic() - began)))
        sent = [each.at - began for each in run.sites.wire.produced if each.by.name == cut.name and each.at > began]
        run.figure("last request after s", round(max(sent, default=0.0), 1), SESSION_S)
        cleared = time.monotonic()
        cut.clear()
        run.wait_for(lambda: cut.name in run.producers_since(cleared), "the daemon to have a share again")
    run.wait_caught_up()


@row("F14", "ZooKeeper takes 2 s for each response, for 5 min", Accept(duplicates=0, rebalances=0), daemons=2)
def test_f14_zookeeper_is_slow(run: Run) -> None:
    with run.fault(affected=[]):
        for daemon in run.daemons:
            for proxy in daemon.zookeeper_proxies:
                proxy.delay(2000, "to_client")
        run.pass_time(300)
        for daemon in run.daemons:
            for proxy in daemon.zookeeper_proxies:
                proxy.clear()
    run.wait_caught_up()


@row("F15", "a foreign owner node is left behind", Accept(duplicates=0, recovery_s=5))
def test_f15_a_foreign_owner_node_is_left_behind(run: Run) -> None:
    """The partition waits with an alarm, the others run; it is read within 5 s of the node's removal."""
    [daemon] = run.daemons
    code, _ = daemon.stop()
    assert code == 0, daemon.said_last()
    zk, tp = run.sites.source.cluster.registry().zk, run.tps[0]
    path = f"/consumers/{run.group}/owners/{tp.topic}/{tp.partition}"
    zk.create(path, b"someone-else-0", makepath=True)
    began = time.monotonic()
    with run.fault(daemon, affected=[tp]) as fault:
        daemon.start()
        run.wait_flowing(since=began, of=[each for each in run.tps if each != tp])
        daemon.wait_said("someone-else-0")
        assert run.owners()[tp] == "someone-else-0"
        assert tp not in run.produced_since(began)
        zk.delete(path)
        fault.over()
        run.wait_flowing()
    run.wait_caught_up()
