"""The mirror while the ZooKeeper of its source is silent: it says so, sends nothing it may not, and goes on."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from localkafka.client import ClusterClient
from localkafka.proxy import Proxy
from localkafka.waiting import wait_until
from localkafka.zookeeper import ZooKeeperAt
from tests.conftest import Unique
from tests.integration.mirroring import MIXED, Mirror, compared, filled, totals

pytestmark = pytest.mark.real

SILENT = re.compile(r"lag unknown, in flight 0\.0 MB, (\d) partitions; source dc1: ZooKeeper silent for (\d+) s")


def test_a_silent_zookeeper_is_told_with_its_seconds_and_never_reads_healthy(
    source: ClusterClient, target: ClusterClient, zk_server: ZooKeeperAt, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    load = filled(source, {topic: 8}, 800)  # more partitions than a minute's lines of one kind
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, Proxy(zk_server.address) as proxy:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        mirror = Mirror(tmp_path, source, target, unique.group(), topic, env=env)
        through = f"{proxy.connect}/{source.zookeeper.partition('/')[2]}\n  zookeeper.session.timeout.ms: 3000"
        mirror.file.write_text(mirror.file.read_text().replace(source.zookeeper, through, 1))
        with mirror:
            mirror.wait_all_committed([topic])
            proxy.blackhole()
            wait_until(lambda: any(int(s) >= 8 for _, s in SILENT.findall(mirror.said())), 20, mirror.said)
            load.produce(topic, 8, 800, MIXED)
            while (found := SILENT.search(manager.recv(4096).decode())) is None or int(found[2]) < 8:
                pass  # its socket's deadline ends this
            outage = mirror.said()
            proxy.clear()
            proxy.reset()
            mirror.wait_all_committed([topic])
            mirror.wait_said('lag 0, in flight 0.0 MB, 8 partitions"\n')
            after = mirror.said()[len(outage) :]
            for line in ("session: the session with ZooKeeper at", "rebalance: reading 8 partitions of 1 topic"):
                assert line in after
            last = max(m.end() for m in SILENT.finditer(mirror.said()))
            assert "0 partitions" not in re.sub(r"lag unknown.*", "", mirror.said()[last:])
            assert mirror.stop()[0] == 0
    # From where it was told to where it ended, no line between says that all is well.
    told = [line for line in outage.splitlines() if "msg/s" in line]
    first = next(n for n, line in enumerate(told) if SILENT.search(line))
    assert all(SILENT.search(line) for line in told[first:])
    assert {count for count, _ in SILENT.findall(outage)} >= {"0"}
    warned = [line for line in mirror.said().splitlines() if "level=warning " in line and "outage: ZooKeeper" in line]
    assert len(warned) == 1
    assert "at=kazoo" not in mirror.said()  # its library does not say the same before us
    assert "Connection dropped" not in mirror.said()
    found = totals(compared(mirror, topic, 8))
    assert (found["source"], found["lost"], found["phantoms"]) == (1600, 0, 0)
