"""What holds whatever happens to brokers: random kills, freezes, cuts and moves under clients that do not give up."""

from __future__ import annotations

from random import Random

import pytest

from tests.simulation.coordinators.bench import Bench
from tests.simulation.coordinators.host import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.simulation.sequences.client import Asked, Client, Producer, T, numbered
from tests.simulation.sequences.cluster import Gone

ANSWER_S = 6.0  # until a client gives a request up
SECONDS = 60.0
SETTLED_S = 70.0  # behind the last fault
AGAIN_S = 0.1


class Refused(Exception):
    """An answer that is no success, or none: its request may have been carried out."""


class Faults:
    """One broker at a time is killed, frozen or cut off for a while; leaders move."""

    def __init__(self, bench: Bench, rng: Random, topics: tuple[str, ...]) -> None:
        self._bench = bench
        self._rng = rng
        self._topics = topics
        self._struck: tuple[int, str, float] | None = None

    def strike(self) -> None:
        rng, cluster = self._rng, self._bench.cluster
        roll = rng.random()
        if roll < 0.08 and self._struck is None:
            broker, kind = rng.choice(cluster.brokers), rng.choice(("kill", "freeze", "isolate"))
            getattr(cluster.inside, kind)(broker)
            self._struck = broker, kind, cluster.now() + 20 * rng.random()
        elif roll > 0.96:
            cluster.inside.move_leader((rng.choice(self._topics), 0), rng.choice(cluster.brokers))
        if self._struck is not None and cluster.now() >= self._struck[2]:
            self.mend()

    def mend(self) -> None:
        if self._struck is not None:
            broker, kind, _ = self._struck
            getattr(self._bench.cluster.inside, {"kill": "start", "freeze": "thaw", "isolate": "heal"}[kind])(broker)
            self._struck = None


class Stubborn:
    """A client that looks for coordinators again and again."""

    def __init__(self, bench: Bench, rng: Random, faults: Faults) -> None:
        self.bench = bench
        self.rng = rng
        self.faults = faults
        self.client = Client(bench.cluster)
        self._at: dict[str, int] = {}

    def at(self, key: str, *, transaction: bool = False) -> int:
        while key not in self._at:
            broker = self.rng.choice(self.bench.cluster.brokers)
            told = self.client.coordinator_now(key, transaction=transaction, broker=broker).get(1)
            if isinstance(told, Gone):
                self.client = Client(self.bench.cluster)
            elif told[0] == 0:
                self._at[key] = told[1]
                break
            self.bench.cluster.wait(AGAIN_S)
            self.faults.strike()
        return self._at[key]

    def ask(self, asked: Asked[T]) -> T:
        """The answer; Gone is Refused, and all is looked for again."""
        told = asked.get(ANSWER_S)
        if isinstance(told, Gone):
            self.client = Client(self.bench.cluster)
            self.forget()
            raise Refused(told)
        return told

    def done(self, asked: Asked[int] | Asked[dict[tuple[str, int], int]]) -> None:
        told = self.ask(asked)  # type: ignore[misc]
        codes = set(told.values()) if isinstance(told, dict) else {told}
        if codes != {0}:
            self.forget()
            raise Refused(codes)

    def forget(self) -> None:
        self._at.clear()


def _begun(release: str, seed: int, topics: tuple[str, ...]) -> Stubborn:
    bench, rng = Bench(release, 3, seed), Random(seed)
    bench.at()
    if TRANSACTIONS_TOPIC in topics:
        bench.at("x", transaction=True)
    for topic in topics:
        bench.whole(topic)
    return Stubborn(bench, rng, Faults(bench, rng, topics))


@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("release", ["0.11.0.3", "2.8.2", "4.0.0"])
def test_an_acknowledged_commit_is_not_lost_where_loads_read_to_the_end(release: str, seed: int) -> None:
    stubborn = _begun(release, seed, (OFFSETS_TOPIC,))
    bench, sent, acknowledged = stubborn.bench, 0, list[int]()
    until = bench.cluster.now() + SECONDS
    while bench.cluster.now() < until:
        stubborn.faults.strike()
        sent += 1
        try:
            stubborn.done(stubborn.client.commit(stubborn.at("g"), f"g{sent}", {("t", 0): sent}))
            acknowledged.append(sent)
        except Refused:
            pass
        bench.cluster.wait(stubborn.rng.random() / 4)
    stubborn.faults.mend()
    bench.cluster.wait(SETTLED_S)
    found = [bench.fetch(f"g{number}") for number in acknowledged]  # all groups are in one partition
    assert found == [(0, number) for number in acknowledged]


@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("release", ["0.11.0.3", "2.8.2", "4.0.0"])
def test_a_transaction_is_whole_or_nothing_its_offsets_too(release: str, seed: int) -> None:
    topics = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, "t")
    stubborn = _begun(release, seed, topics)
    bench = stubborn.bench
    until = bench.cluster.now() + SECONDS
    number, committed, open = 0, set[int](), set[int]()
    while bench.cluster.now() < until:
        try:
            producer = _initialized(stubborn, until)
            for sequence in range(1000):
                number += 1
                _fill(stubborn, producer, sequence, number)
                open.add(number)
                stubborn.done(stubborn.client.end(stubborn.at("x", transaction=True), "x", producer, commit=True))
                open.discard(number)
                committed.add(number)
                bench.cluster.wait(0.05 + stubborn.rng.random() / 4)
        except Refused:
            bench.cluster.wait(AGAIN_S)
    stubborn.faults.mend()
    bench.cluster.wait(SETTLED_S)
    bench.client = Client(bench.cluster)
    bench.initialized(bench.at("x", transaction=True))  # ends what is open
    bench.cluster.wait(5)
    first, second = _values(bench, 0), _values(bench, 1)
    assert first == second == sorted(set(first))
    assert committed <= set(first) <= committed | open
    assert bench.fetch() == (0, max(first, default=-1))


def _initialized(stubborn: Stubborn, until: float) -> Producer:
    while stubborn.bench.cluster.now() < until:
        stubborn.faults.strike()
        told = stubborn.ask(stubborn.client.init_producer(stubborn.at("x", transaction=True), "x", 20_000))
        if told.code == 0:
            return told
        stubborn.forget()
        stubborn.bench.cluster.wait(2 * AGAIN_S)
    raise Refused("the time is over")


def _fill(stubborn: Stubborn, producer: Producer, sequence: int, number: int) -> None:
    """A message to each of two partitions, and an offset.  Raises Refused."""
    partitions = [("t", 0), ("t", 1)]
    stubborn.faults.strike()
    at = stubborn.at("x", transaction=True)
    stubborn.done(stubborn.client.add_partitions(at, "x", producer, partitions))
    for _, partition in partitions:
        stubborn.faults.strike()
        leader = stubborn.bench.cluster.leader_of("t", partition)
        if leader is None:
            raise Refused("no leader")
        data = numbered(producer, sequence, b"%d" % number, transactional=True)
        sent = stubborn.client.produce(
            "t", data, partition=partition, acks=-1, timeout_ms=4000, transaction="x", broker=leader
        )
        if stubborn.ask(sent).code:
            raise Refused("not stored, or not known")
    stubborn.faults.strike()
    stubborn.done(stubborn.client.add_offsets(stubborn.at("x", transaction=True), "x", producer, "g"))
    stubborn.done(stubborn.client.commit_in(stubborn.at("g"), "x", producer, "g", "t", number))
    stubborn.faults.strike()


def _values(bench: Bench, partition: int) -> list[int]:
    found: list[int] = []
    at = 0
    while values := bench.client.fetch("t", at, partition=partition, committed=True).get().values:
        found += [int(value) for _, value in values]
        at = values[-1][0] + 1
    return found
