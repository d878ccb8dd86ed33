"""A ZooKeeper server that is stopped, or lost its power, keeps its connections open and answers nothing."""

from __future__ import annotations

from groundwork.tasks import TaskGroup, deadline, sleep
from tests.zkconsumer.test_suspended_session import SilentZooKeeper
from zkconsumer.session.lease import Lease
from zkconsumer.session.zksession import ZkSession


class QuickZooKeeper(SilentZooKeeper):
    timeout_ms = 1800


def test_a_session_leaves_a_server_that_is_silent_for_another() -> None:
    """kazoo asks for an answer only when it has sent nothing for a while, and heartbeats are sent all the time."""
    servers, tasks, lease = [QuickZooKeeper(), QuickZooKeeper()], TaskGroup(), Lease()
    session = ZkSession(
        ",".join(server.address for server in servers),
        session_timeout_ms=1800,
        connection_timeout_ms=3000,
        tasks=tasks,
        lease=lease,
    )
    try:
        session.start()
        silent, other = servers if servers[0].connections else servers[::-1]
        silent.answers.clear()
        with deadline(10, "a heartbeat at the other server"):
            while not other.beats:
                sleep(0.01)
        with deadline(3, "a lease"):
            while session.fenced:
                sleep(0.01)
    finally:
        silent.answers.set()
        session.close()
        tasks.stop(2)
        for server in servers:
            server.close()
