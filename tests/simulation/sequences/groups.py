"""Sequences of groups and their offsets (section 6 of the broker model of coordinators)."""

from __future__ import annotations

from tests.simulation.sequences.client import Client
from tests.simulation.sequences.cluster import Cluster
from tests.simulation.sequences.sequence import S, See, by, number, sequence


@sequence("Q1", S, "offsets of a group without members")
def simple_commit(c: Cluster, see: See) -> None:
    client = Client(c)
    c.create_topic("q1")
    at = client.coordinator("q1")
    see("commit", client.commit(at, "q1", {("q1", 0): 5}).get(), {("q1", 0): 0})
    see("fetch: code and offset", tuple(client.committed(at, "q1", "q1").get()), (0, 5))
    if number(c.release) >= (0, 9):
        see("state", client.described(at, "q1").get().state, by(c, {"0": "Dead", "0.10": "Empty"}))
