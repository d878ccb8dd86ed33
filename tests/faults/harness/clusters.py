"""Source and target of all rows: each three brokers of 0.8.2.2 behind proxies, and three servers of ZooKeeper.

Replication 3, min.insync.replicas 2, no unclean elections: what all have acknowledged is not lost by a broker's death.
Rows have topics and groups of their own.  What a row damages it puts back; heal() does it where a row failed.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from localkafka.cluster import Cluster
from localkafka.proxy import Proxy
from localkafka.workfolder import WorkFolder
from localkafka.zookeeper import ZooKeeperEnsemble
from tests.faults.harness.wirelog import WireLog

BROKERS = SERVERS = 3
SMALL = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
SMALLER = ("-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
SETTINGS = {
    "default.replication.factor": 3,
    "offsets.topic.replication.factor": 3,
    "unclean.leader.election.enable": False,
    "auto.create.topics.enable": False,
    # Else leads go back minutes behind a fault, outside of what its window allows; a fault of its own has them go back.
    "auto.leader.rebalance.enable": False,
    "controlled.shutdown.enable": True,
    "delete.topic.enable": True,
    "log.index.size.max.bytes": 65536,  # made in full size with each partition
    "message.max.bytes": 2_000_000,
    "replica.fetch.max.bytes": 2_100_000,
}


class Side:
    """One of the two: .cluster, .ensemble."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.ensemble = ZooKeeperEnsemble(folder / f"{name}-zookeeper", SERVERS, flags=SMALLER)
        self.cluster = Cluster(
            brokers=BROKERS,
            chroot=f"/{name}",
            zookeeper=self.ensemble,
            settings=SETTINGS,
            flags=SMALL,
            proxied=True,
        )

    def start(self) -> None:
        self.ensemble.start()
        self.cluster.start()

    def heal(self) -> None:
        """Everything runs and nothing is in its way."""
        for node in self.cluster.nodes:
            node.proxy.clear()
            if node.running and not node.active:
                node.resume()
        for server in self.ensemble.servers:
            if server.running and not server.active:
                server.resume()
        self.ensemble.start()
        for node in self.cluster.nodes:
            if not node.running:
                node.restart()
        self.cluster.wait_registered()

    def logs(self) -> list[Path]:
        """The logs of brokers and servers."""
        return [*(node.log for node in self.cluster.nodes), *(server.log for server in self.ensemble.servers)]

    def close(self) -> None:
        self.cluster.close()
        self.ensemble.close()


class Sites:
    """Both sides, and the log of what passed their proxies.  Start and end with `with`."""

    def __init__(self) -> None:
        self._work = WorkFolder()
        self.wire = WireLog()
        self.source = Side("source", self._work.path)
        self.target = Side("target", self._work.path)
        self.runs = 0

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.source, self.target

    def __enter__(self) -> Sites:
        try:
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(Side.start, self.sides))
        except BaseException:
            self.close()
            raise
        for node in self.target.cluster.nodes:
            node.proxy.tap = self.wire.broker(f"target broker {node.id}")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def zookeeper_proxies(self, member: str) -> tuple[str, list[Proxy]]:
        """A proxy before each server of the source's ZooKeeper for this member alone, and its connect string."""
        proxies = []
        for server in self.source.ensemble.servers:
            proxies.append(Proxy(server.address))
            proxies[-1].tap = self.wire.zookeeper(server.connect, member)
        return ",".join(proxy.connect for proxy in proxies) + self.source.cluster.chroot, proxies

    def heal(self) -> None:
        """What a failed row left broken is mended."""
        for side in self.sides:
            side.heal()

    def close(self) -> None:
        for side in self.sides:
            side.close()
        self._work.close()


RUNS = 25  # after so many the clusters hold a thousand partitions, and are replaced by new ones


class Renewed:
    """The sites of this process: started at the first use, replaced after RUNS runs."""

    def __init__(self) -> None:
        self._held = ExitStack()
        self._sites: Sites | None = None

    def sites(self) -> Sites:
        """For one run."""
        if self._sites is not None and self._sites.runs >= RUNS:
            self.replace()
        if self._sites is None:
            self._sites = self._held.enter_context(Sites())
        self._sites.runs += 1
        return self._sites

    def replace(self) -> None:
        """The next run gets new clusters."""
        self._held.close()
        self._sites = None
