"""A ZooKeeper server that lost its leader answers reads and pings for a while: nothing of that proves a session.

A real ensemble of three.  The session is on the first server, whose links to the others go through proxies.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from groundwork.tasks import TaskGroup, now, sleep
from localkafka.waiting import wait_until
from localkafka.zookeeper import ZooKeeperEnsemble, four_letters
from zkconsumer.session.lease import Lease
from zkconsumer.session.zksession import ZkSession

pytestmark = pytest.mark.real

TICK_MS = 2000  # of ZooKeeper's sample file, and its syncLimit is 10 s
NODE = "/owner"


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    ensemble = ZooKeeperEnsemble(tmp_path_factory.mktemp("ensemble"), tick_ms=TICK_MS, cuts=True)
    try:
        ensemble.start()
        yield ensemble
    finally:
        ensemble.close()


def test_a_member_is_fenced_before_the_majority_ends_its_session(ensemble: ZooKeeperEnsemble) -> None:
    session_s = 4
    follower, *others = ensemble.servers
    assert "Mode: follower" in four_letters(follower.address, "srvr")
    fenced_at: list[float] = []
    tasks = TaskGroup()
    lease = Lease()
    session = ZkSession(
        follower.connect,
        session_timeout_ms=session_s * 1000,
        connection_timeout_ms=10_000,
        tasks=tasks,
        lease=lease,
        on_fence=lambda: fenced_at.append(now()),
    )
    watcher = KazooClient(",".join(server.connect for server in others), timeout=10)
    watcher.start(20)
    try:
        session.start()
        assert session.negotiated_s == session_s
        session.create({NODE: b"member-0"}, ephemeral=True)
        wait_until(lambda: watcher.exists(NODE) is not None, 10, "the owner node")
        for link in ensemble.links:
            link.blackhole()
        cut_at = now()
        while watcher.exists(NODE) is not None:
            assert now() - cut_at < 30, "the majority never ended the session"
            sleep(0.02)
        gone_at = now()
        assert fenced_at, f"the session was over {gone_at - cut_at:.1f} s after the cut, and the lease was not"
        assert fenced_at[0] < gone_at
        assert gone_at - cut_at <= session_s + 2 * TICK_MS / 1000 + 1
    finally:
        for link in ensemble.links:
            link.clear()
        watcher.stop()
        watcher.close()
        session.close()
        tasks.stop(2)
        wait_until(lambda: "Mode: follower" in four_letters(follower.address, "srvr"), 60, "the follower to be back")
