"""Twenty sequences of logs and replicas (section 8 of the broker model of logs)."""

from __future__ import annotations

from tests.simulation.sequences.client import END, START, Client, messages
from tests.simulation.sequences.cluster import Cluster
from tests.simulation.sequences.sequence import S, See, by, sequence

SHORT_S = 0.3
WAIT_MS = 1000


@sequence("1", S, "the borders of a log")
def borders(c: Cluster, see: See) -> None:
    client = Client(c)
    c.create_topic("borders")
    produced = client.produce("borders", messages(c, b"a", b"b", b"c")).get()
    see("produced: code and base", tuple(produced), (0, 0))
    see("end", client.offset("borders", END).get().offset, 3)
    see("start", client.offset("borders", START).get().offset, 0)
    at_end = client.fetch("borders", 3).get()
    see("fetch at the end: code and bytes", (at_end.code, at_end.size), (0, 0))
    see("fetch behind the end", client.fetch("borders", 4).get().code, 1)
    see("fetch at -1", client.fetch("borders", -1).get().code, 1)


@sequence("2", S, "a fetch waits for a message")
def long_poll(c: Cluster, see: See) -> None:
    reader, writer = Client(c), Client(c)
    c.create_topic("poll")
    waiting = reader.fetch("poll", 0, wait_ms=WAIT_MS)
    c.wait(SHORT_S)
    see("produced", writer.produce("poll", messages(c, b"a")).get().code, 0)
    fetched = waiting.get()
    see("fetched", fetched.values, [(0, b"a")])
    see.took("with a message", waiting.took_s, SHORT_S, 0.9)
    waiting = reader.fetch("poll", 1, wait_ms=WAIT_MS)
    fetched = waiting.get()
    see("fetched without a message", (fetched.code, fetched.values), (0, []))
    see.took("without a message", waiting.took_s, 0.95, 10)


@sequence("3", S, "a topic that does not exist shortens the wait only in old releases")
def unknown_topic(c: Cluster, see: See) -> None:
    client = Client(c)
    c.create_topic("known")
    at = client.leader("known")
    waiting = client.fetch_many({("known", 0): 0, ("nowhere", 0): 0}, broker=at, wait_ms=WAIT_MS)
    told = waiting.get()
    see("known", told["known", 0].code, 0)
    see("nowhere", told["nowhere", 0].code, 3)
    see.took("waited", waiting.took_s, *by(c, {"0": (0, 0.9), "0.10.1": (0.95, 10)}))
