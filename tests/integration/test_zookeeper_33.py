"""ZooKeeper 3.3, which Kafka 0.7 and 0.8.0 came with: it has no transactions, and drops a request for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from groundwork.tasks import TaskGroup
from localkafka import jars, java
from localkafka.zookeeper import MAIN, ZooKeeperServer, four_letters
from zkconsumer.session.lease import Lease
from zkconsumer.session.nodes import read_nodes, write_nodes
from zkconsumer.session.zkcalls import WriteOutcome
from zkconsumer.session.zksession import ZkSession

pytestmark = pytest.mark.real

DONE, CHANGED = WriteOutcome.DONE, WriteOutcome.CHANGED


class ZooKeeper33(ZooKeeperServer):
    def _command(self, config: Path) -> list[str]:
        folder = jars.fetched("zookeeper-3.3.6", "ZooKeeper 3.3.6")
        return [java.executable(), *java.SMALL, "-cp", f"{folder}/*", MAIN, str(config)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper33]:
    server = ZooKeeper33(tmp_path_factory.mktemp("zookeeper33"))
    try:
        server.start()
        yield server
    finally:
        server.close()


def test_offsets_are_written_node_by_node(server: ZooKeeper33) -> None:
    assert "Zookeeper version: 3.3.6" in four_letters(server.address, "srvr")
    tasks = TaskGroup()
    session = ZkSession(
        server.connect, session_timeout_ms=6000, connection_timeout_ms=10_000, tasks=tasks, lease=Lease()
    )
    try:
        session.start()
        session.create({"/offsets/0": b"1", "/offsets/1": b"1", "/offsets/2": b"1"})
        told = write_nodes(
            session,
            {"/offsets/3": b"7"},
            {"/offsets/0": (b"2", 0), "/offsets/1": (b"2", 5)},
            {"/offsets/2": 0},
        )
        assert told["/offsets/3"] is told["/offsets/2"] is DONE
        assert told["/offsets/1"] is CHANGED
        found = read_nodes(session, [f"/offsets/{n}" for n in range(4)])
        assert [None if node is None else node.data for node in found.values()] == [b"2", b"1", None, b"7"]
    finally:
        session.close()
        tasks.stop(2)
