"""Sequences of transactions (section 6 of the broker model of coordinators)."""

from __future__ import annotations

from functools import partial
from string import ascii_lowercase
from typing import Any

from tests.simulation.sequences.client import END, Client, Producer, numbered
from tests.simulation.sequences.cluster import Cluster, Gone
from tests.simulation.sequences.sequence import Either, S, See, T, by, sequence, until

TRANSACTIONS = "0.11"
_FENCED = {"0": 47, "2.7": 90}  # requests to the coordinator, in the versions that we speak
_NOT_YET = (14, 15, 16, 51)


@sequence("Q16", S, "a transaction is ended twice, and the other way round", first=TRANSACTIONS)
def ended_twice(c: Cluster, see: See) -> None:
    client = Client(c)
    c.create_topic("q16")
    at = client.coordinator("q16", transaction=True)
    producer = _initialised(c, client, at, "q16")
    see("AddPartitions", client.add_partitions(at, "q16", producer, [("q16", 0)]).get(), {("q16", 0): 0})
    sent = client.produce("q16", numbered(producer, 0, b"a", transactional=True), acks=-1, transaction="q16").get()
    see("Produce", tuple(sent), (0, 0))
    see("EndTxn(commit)", client.end(at, "q16", producer, commit=True).get(), 0)
    see("again at once", client.end(at, "q16", producer, commit=True).get(), Either((0, 51)))
    see("later", until(c, lambda: client.end(at, "q16", producer, commit=True).get() == 0), True)
    see("EndTxn(abort)", client.end(at, "q16", producer, commit=False).get(), 48)
    values = until(c, lambda: client.fetch("q16", 0, committed=True).get().values)
    see("read committed", values, [(0, b"a")])
    see("end", client.offset("q16", END).get().offset, 2)


@sequence("Q17", T, "another producer takes over while a partition has no leader", first=TRANSACTIONS, slow=True)
def taken_over(c: Cluster, see: See) -> None:
    a, b = Client(c), Client(c)
    live = c.controller()
    gone = next(broker for broker in c.brokers if broker != live)
    c.create_topic("q17", [[live], [gone]])
    name = _led_by(c, a, live)
    first = _initialised(c, a, live, name)
    partitions = [("q17", 0), ("q17", 1)]
    see("AddPartitions", a.add_partitions(live, name, first, partitions).get(), dict.fromkeys(partitions, 0))
    for partition in (0, 1):
        data = numbered(first, 0, b"a", transactional=True)
        sent = a.produce("q17", data, partition=partition, acks=-1, transaction=name, broker=(live, gone)[partition])
        see(f"Produce to {partition}", tuple(sent.get()), (0, 0))
    c.stop(gone)
    try:
        see("InitProducerId of the other", b.init_producer(live, name).get().code, 51)
        see("EndTxn of the first", a.end(live, name, first, commit=True).get(), by(c, _FENCED))

        def fenced() -> bool:
            data = numbered(first, 0, b"a", transactional=True)
            return a.produce("q17", data, acks=-1, transaction=name, broker=live).get().code == 47

        see("Produce of the first, to the live one", until(c, fenced), True)
        see("InitProducerId of the other, again", b.init_producer(live, name).get().code, 51)
    finally:
        c.go_on(gone)
    second = _initialised(c, b, live, name)
    see("epoch", second.epoch, first.epoch + 2)
    see("producer id", second.id == first.id, True)
    for partition in (0, 1):
        end = until(c, partial(_stable_end, b, partition))
        see(f"end of {partition}", end, [2])
        see(f"read committed of {partition}", b.fetch("q17", 0, partition=partition, committed=True).get().values, [])


@sequence("Q18", S, "a transaction times out", first=TRANSACTIONS, slow=True)
def timed_out(c: Cluster, see: See) -> None:
    client = Client(c)
    c.create_topic("q18")
    at = client.coordinator("q18", transaction=True)
    group_at = client.coordinator("q18")
    see("plain commit", client.commit(group_at, "q18", {("q18", 0): 10}).get(), {("q18", 0): 0})
    producer = _initialised(c, client, at, "q18", timeout_ms=5000)
    see("AddPartitions", client.add_partitions(at, "q18", producer, [("q18", 0)]).get(), {("q18", 0): 0})
    began = c.now()
    see("AddOffsets", client.add_offsets(at, "q18", producer, "q18").get(), 0)
    see("TxnOffsetCommit", client.commit_in(group_at, "q18", producer, "q18", "q18", 20).get(), {("q18", 0): 0})
    aborted = until(c, lambda: client.offset("q18", END).get().offset == 1, 100)
    see("a marker", aborted, True)
    # To 2.4 the coordinator looks once a minute, later each 10 s.
    see.took("behind the beginning", c.now() - began, 4.9, by(c, {"0": 90, "2.5": 40}))
    see("EndTxn(commit)", client.end(at, "q18", producer, commit=True).get(), by(c, _FENCED))
    c.wait(1)
    see("fetch", tuple(client.committed(group_at, "q18", "q18").get()), (0, 10))


def _initialised(c: Cluster, client: Client, at: int, name: str, timeout_ms: int = 60_000) -> Producer:
    def ready() -> Any:
        told = client.init_producer(at, name, timeout_ms).get()
        return None if isinstance(told, Gone) or told.code in _NOT_YET else told

    producer: Producer | None = until(c, ready, 60, 0.2)
    assert producer, f"a producer of {name}"
    assert producer.code == 0, f"InitProducerId answers {producer.code}"
    return producer


def _led_by(c: Cluster, client: Client, broker: int) -> str:
    """A transactional id that this broker coordinates."""
    for letter in ascii_lowercase:
        if client.coordinator(f"q17-{letter}", transaction=True) == broker:
            return f"q17-{letter}"
    raise AssertionError("no transactional id fits")


def _stable_end(client: Client, partition: int) -> list[int]:
    told = client.offset("q17", END, partition=partition, broker=client.leader("q17", partition)).get()
    return [told.offset] if told.offset == 2 else []
