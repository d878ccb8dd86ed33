"""Brokers under random faults: kills, stops, cuts, moved leaders and held fetches, while producers write.

    run(release, seed) -> Kept       a history of some minutes; python -m tests.simulation.brokerfaults RELEASE COUNT

min.insync.replicas 2 of 3 and no unclean elections: from 0.11 on nothing that acks -1 acknowledged, and nothing that a
reader could have seen, may be lost (2.4).  To 0.10 some is.
"""

from __future__ import annotations

import sys
from random import Random
from typing import NamedTuple

from tests.simulation.asking import Client, Tp, plain
from tests.simulation.brokers import SimCluster
from tests.simulation.brokers.entries import opened
from tests.simulation.brokers.replica import Replica
from tests.simulation.process import Timeline

STEPS = 60
SETTINGS = {
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
    "replica.lag.time.max.ms": "3000",
    "auto.leader.rebalance.enable": "false",
}
TPS: tuple[Tp, ...] = (("t", 0), ("t", 1))
PAUSES_S = (0.0005, 0.003, 0.05, 0.6, 3.0, 8.0)


class Kept(NamedTuple):
    """What is left at the end.  acknowledged: by acks -1; lost and unseen: of those, and of what readers had seen."""

    acknowledged: int
    lost: int
    unseen: int
    alike: bool  # all replicas have the same bytes


class _History:
    def __init__(self, release: str, seed: int, kraft: bool) -> None:
        self.rng = Random(seed)
        settings = SETTINGS | ({"process.roles": "broker,controller"} if kraft else {})
        self.cluster = SimCluster(
            Timeline(), self.rng, release, 3, topics={"t": len(TPS)}, replication=3, settings=settings
        )
        self.cluster.on_visible.append(self._see)
        self.seen: dict[tuple[Tp, int], bytes | None] = {}
        self.acknowledged: dict[tuple[Tp, int], bytes] = {}
        self._waiting: list[tuple[Client, int, Tp, bytes, int]] = []
        self._clients: dict[int, Client] = {}
        self._number = 0

    def _see(self, replica: Replica, before: int, now: int) -> None:
        for entry in replica.log.all_from(before):
            if entry.base >= now:
                break
            for message in opened(entry.data):
                self.seen.setdefault((replica.tp, message.offset), message.value)

    def pass_time(self, seconds: float) -> None:
        timeline = self.cluster.timeline
        timeline.run_until(timeline.now + seconds)

    def step(self) -> None:
        self._fault(self.rng.random(), self.rng.choice((1, 2, 3)))
        for _ in range(self.rng.randrange(4)):
            self._produce(self.rng.choice(TPS), self.rng.choice((1, 2, 3)))
        self.pass_time(self.rng.choice(PAUSES_S))
        self._hear()

    def _fault(self, chance: float, id: int) -> None:
        cluster = self.cluster
        broker = cluster.brokers[id]
        if chance < 0.12:
            if sum(one.up and not one.frozen and not one.isolated for one in cluster.brokers.values()) > 1:
                cluster.kill(id)
        elif chance < 0.26:
            cluster.start(id)
        elif chance < 0.34:
            cluster.freeze(id)
        elif chance < 0.46:
            cluster.thaw(id)
        elif chance < 0.50:
            cluster.isolate(id)
        elif chance < 0.60:
            cluster.heal(id)
        elif chance < 0.70:
            cluster.move_leader(self.rng.choice(TPS), id)
        elif chance < 0.74:
            broker.fetches_held = True
        elif chance < 0.80:
            broker.fetches_held = False

    def _produce(self, tp: Tp, id: int) -> None:
        if not self.cluster.brokers[id].up:
            return
        client = self._clients.get(id)
        if client is None or not client.open or client.waiting > 3:
            client = self._clients[id] = Client(self.cluster, id)
        self._number += 1
        value, acks = b"%d" % self._number, self.rng.choice((-1, -1, 1))
        data, version = plain(self.cluster.rules.release, 1, value)
        number = client.send_set(data, acks, version, tp, self.rng.choice((500, 3000)))
        self._waiting.append((client, number, tp, value, acks))

    def _hear(self) -> None:
        for one in list(self._waiting):
            client, number, tp, value, acks = one
            answer = client.produced(number)
            if answer is not None or not client.open:
                self._waiting.remove(one)
            if answer is not None and answer[0] == 0 and acks == -1:
                self.acknowledged[tp, answer[1]] = value

    def end(self) -> Kept:
        cluster = self.cluster
        for id, broker in cluster.brokers.items():
            cluster.heal(id)
            cluster.thaw(id)
            cluster.start(id)
            broker.fetches_held = False
        self.pass_time(120)
        values, alike = {}, True
        for tp in TPS:
            assert len(cluster.isr(tp)) == 3, f"{tp}: {cluster.isr(tp)} after two minutes without faults"
            logs = [cluster.log(tp, id) for id in cluster.brokers]
            assert len({(log.end, log.hw) for log in logs}) == 1, f"{tp}: ends {[(log.end, log.hw) for log in logs]}"
            assert logs[0].end == logs[0].hw
            alike &= all([one.data for one in log.entries] == [one.data for one in logs[0].entries] for log in logs)
            for entry in cluster.log(tp).entries:
                values.update({(tp, one.offset): one.value for one in opened(entry.data)})
        lost = sum(values.get(at) != value for at, value in self.acknowledged.items())
        unseen = sum(values.get(at) != value for at, value in self.seen.items())
        return Kept(len(self.acknowledged), lost, unseen, alike)


def run(release: str, seed: int, kraft: bool = False) -> Kept:
    history = _History(release, seed, kraft)
    for _ in range(STEPS):
        history.step()
    return history.end()


if __name__ == "__main__":
    for number in range(int(sys.argv[2])):
        kept = run(sys.argv[1], number)
        if kept.lost or kept.unseen or not kept.alike:
            print(number, kept)
