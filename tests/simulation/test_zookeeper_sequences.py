"""The sequences of ZooKeeper on the simulated ensemble, and on a real one of three servers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import gevent
import pytest
from kazoo.client import KazooClient

from localkafka.proxy import Proxy
from localkafka.zookeeper import ZooKeeperEnsemble, four_letters
from tests.simulation.process import Process, Timeline
from tests.simulation.sequences.zookeeper import LIMIT_S, SEQUENCES, SESSION_S, TICK_S, Ensemble
from tests.simulation.world import virtual_time
from tests.simulation.zookeeper import Link, SimClient, SimZookeeper

RAN_S = 200.0


class Simulated:
    def __init__(self) -> None:
        self.failed: list[BaseException] = []
        self.timeline = Timeline()
        self.process = Process("client", self.timeline, self.failed.append)
        self._rng = Random(1)
        self._zookeeper = SimZookeeper(self.timeline, self._rng, servers=3, tick_s=TICK_S)

    def client(self, *servers: int) -> SimClient:
        hosts = ",".join(self._zookeeper.servers[server].name for server in servers)
        client = SimClient(self.process, self._zookeeper, Link(self.timeline, self._rng), hosts, SESSION_S)
        client.start()
        return client

    def lose_answers(self, client: SimClient) -> None:
        client.link.slow_down_s = RAN_S

    def break_off(self, client: SimClient) -> None:
        client.reset()
        client.link.slow_down_s = 0.0

    def cut(self) -> None:
        self._zookeeper.quorum.isolate(self._zookeeper.servers[0])

    def now(self) -> float:
        return self.timeline.now

    def sleep(self, seconds: float) -> None:
        gevent.sleep(seconds)


@pytest.mark.parametrize("sequence", SEQUENCES.values(), ids=SEQUENCES)
def test_the_simulated_ensemble_answers_as_zookeeper_does(sequence: Callable[[Ensemble], None]) -> None:
    simulated, done = Simulated(), []

    def run() -> None:
        sequence(simulated)
        done.append(True)

    with virtual_time():
        simulated.process.after(0.0, gevent.spawn, run)
        simulated.timeline.run_until(simulated.timeline.now + RAN_S)
        simulated.process.kill()
    if simulated.failed:
        raise simulated.failed[0]
    assert done


class Real:
    def __init__(self, ensemble: ZooKeeperEnsemble) -> None:
        self.now, self.sleep = time.monotonic, time.sleep
        self._ensemble = ensemble
        self._ways: dict[Any, list[Proxy]] = {}

    def client(self, *servers: int) -> KazooClient:
        ways = [Proxy(self._ensemble.servers[server].address) for server in servers]
        client = KazooClient(",".join(way.connect for way in ways), timeout=SESSION_S, randomize_hosts=False)
        self._ways[client] = ways
        client.start(20)
        return client

    def lose_answers(self, client: KazooClient) -> None:
        for way in self._ways[client]:
            way.blackhole("to_client")

    def break_off(self, client: KazooClient) -> None:
        for way in self._ways[client]:
            way.reset()  # before clear(), which would let the answers go
            way.clear()

    def cut(self) -> None:
        for link in self._ensemble.links:
            link.blackhole()

    def close(self) -> None:
        for client, ways in self._ways.items():
            client.stop()
            client.close()
            for way in ways:
                way.close()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    ensemble = ZooKeeperEnsemble(tmp_path_factory.mktemp("ensemble"), tick_ms=int(TICK_S * 1000), cuts=True)
    try:
        ensemble.start()
        yield ensemble
    finally:
        ensemble.close()


@pytest.mark.real
@pytest.mark.parametrize("sequence", SEQUENCES.values(), ids=SEQUENCES)
def test_a_real_ensemble_answers_as_the_simulated_one(
    servers: ZooKeeperEnsemble, sequence: Callable[[Ensemble], None]
) -> None:
    assert "Mode: follower" in four_letters(servers.address, "srvr")
    assert LIMIT_S == 10.0, "as localkafka's ensembles have it"
    real = Real(servers)
    try:
        sequence(real)
    finally:
        real.close()
