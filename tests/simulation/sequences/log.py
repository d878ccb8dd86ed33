"""Twenty sequences of logs and replicas (section 8 of the broker model of logs)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from kafkawire.protocol.apis import PRODUCE
from tests.simulation.sequences.client import END, START, Asked, Client, Fetched, messages, numbered
from tests.simulation.sequences.cluster import Cluster, Gone
from tests.simulation.sequences.sequence import (
    T_SLOW,
    T_SOON,
    T_UNCLEAN,
    U_SLOW,
    Either,
    S,
    See,
    T,
    by,
    sequence,
    until,
)

SHORT_S = 0.3
WAIT_MS = 2000
EARLY_S, LATE_S = 1.8, 1.95  # before, and behind the wait
RETENTION_MS = 100_000  # longer than the sequence waits
_TEN = [b"%d" % n for n in range(10)]
_FIVE = [b"f%d" % n for n in range(5)]


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
    see.took("with a message", waiting.took_s, SHORT_S, EARLY_S)
    waiting = reader.fetch("poll", 1, wait_ms=WAIT_MS)
    fetched = waiting.get()
    see("fetched without a message", (fetched.code, fetched.values), (0, []))
    see.took("without a message", waiting.took_s, LATE_S, 20)


@sequence("3", S, "a topic that does not exist shortens the wait only in old releases")
def unknown_topic(c: Cluster, see: See) -> None:
    client = Client(c)
    c.create_topic("known")
    at = client.leader("known")
    waiting = client.fetch_many({("known", 0): 0, ("nowhere", 0): 0}, broker=at, wait_ms=WAIT_MS)
    told = waiting.get()
    see("known", told["known", 0].code, 0)
    see("nowhere", told["nowhere", 0].code, 3)
    see.took("waited", waiting.took_s, *by(c, {"0": (0, EARLY_S), "0.10.1": (LATE_S, 20)}))


@sequence("4", S, "a message that is larger than the fetch")
def too_large(c: Cluster, see: See) -> None:
    client = Client(c)
    c.create_topic("large", [c.brokers[:1]] * 2)
    for partition in (0, 1):
        data = messages(c, bytes(10_000))
        see(f"produced {partition}", client.produce("large", data, partition=partition).get().code, 0)
    told = client.fetch_many({("large", 0): 0, ("large", 1): 0}, broker=c.brokers[0], max_bytes=100).get()
    first, second = told["large", 0], told["large", 1]
    whole = client.speaks.gives_whole_entries
    see("codes", (first.code, second.code), (0, 0))
    see("first: messages", len(first.values), 1 if whole else 0)
    see("first: 100 bytes", first.size == 100, not whole)
    see("second: bytes and high watermark", (second.size, second.high_watermark), (0 if whole else 100, 1))


@sequence("5", S, "acks 0 and a partition that does not exist")
def refused_without_answer(c: Cluster, see: See) -> None:
    client = Client(c)
    c.create_topic("unasked")
    rows = [{"partition": partition, "message_set": messages(c, b"a")} for partition in (99, 0)]
    topics = [{"topic": "unasked", "partitions": rows}]
    sent = client.ask(None, PRODUCE, {"transactional_id": None, "acks": 0, "timeout_ms": 1000, "topics": topics})
    see("Metadata on that connection", client.metadata("unasked", reconnect=False).get(5), Gone.CLOSED)
    see("Produce", sent.answer(0), Gone.CLOSED)
    see("stored", client.fetch("unasked", 0).get().values, [(0, b"a")])


@sequence("13", S, "kill -9 behind an acknowledgement")
def killed(c: Cluster, see: See) -> None:
    client = Client(c)
    c.create_topic("killed")
    see("produced", client.produce("killed", messages(c, *_TEN)).get().code, 0)
    c.kill(c.brokers[0])
    c.start(c.brokers[0])
    first = until(c, lambda: _settled(client.offset("killed", END, broker=c.brokers[0]).get(5)))
    # The broker leads a moment before its high watermark, which it has from disk, rises to the end of its log.
    see("first end that is told", first, by(c, {"0": Either([[10], [0]]), "2.2": [10]}))
    see("end", until(c, lambda: client.offset("killed", END).get().offset == 10), True)
    there = until(c, lambda: _values(client.fetch("killed", 0)))  # its topics may be unknown to it for a moment: 3
    see("there", [value for _, value in there], _TEN)


@sequence("16", S, "batches that are sent again", first="0.11")
def duplicates(c: Cluster, see: See) -> None:
    client = Client(c)
    c.create_topic("again")
    producer = until(c, lambda: _ready(client.init_producer(None).get()))
    told = [client.produce("again", numbered(producer, n, b"%d" % n)).get() for n in range(7)]
    see("0 to 6", told, [(0, n) for n in range(7)])
    see("6 again", tuple(client.produce("again", numbered(producer, 6, b"6")).get()), (0, 6))
    third = client.produce("again", numbered(producer, 3, b"3")).get()
    see("3 again", tuple(third), by(c, {"0": (45, -1), "1.0": (0, 3)}))
    see("0 again", tuple(client.produce("again", numbered(producer, 0, b"0")).get()), (45, -1))
    see("9", tuple(client.produce("again", numbered(producer, 9, b"9")).get()), (45, -1))
    see("end", client.offset("again", END).get().offset, 7)


@sequence("17", S, "a producer that a partition has never seen begins at 5", first="0.11")
def unknown_producer(c: Cluster, see: See) -> None:
    client = Client(c)
    c.create_topic("fifth")
    producer = until(c, lambda: _ready(client.init_producer(None).get()))
    told = client.produce("fifth", numbered(producer, 5, b"a")).get()
    see("code and base", tuple(told), by(c, {"0": (45, -1), "1.0": (59, -1), "2.5": (0, 0)}))


@sequence("18", S, "records deleted inside a batch", first="0.11")
def records_deleted(c: Cluster, see: See) -> None:
    client = Client(c)
    c.create_topic("deleted")
    see("produced", client.produce("deleted", messages(c, *_TEN)).get().code, 0)
    see("deleted before 5", client.delete_records("deleted", 5).get(), 0)
    see("start", client.offset("deleted", START).get().offset, 5)
    see("fetch at 4", client.fetch("deleted", 4).get().code, 1)
    fetched = client.fetch("deleted", 5).get()
    see("fetch at 5: code, base of its batch", (fetched.code, fetched.first_base), (0, 0))
    see("fetch at 5: first message", fetched.values[:1], [(5, b"5")])


@sequence("19", S, "retention goes by the time of the messages", slow=True)
def old_messages(c: Cluster, see: See) -> None:
    client = Client(c)
    c.create_topic("old", config={"retention.ms": str(RETENTION_MS)})
    data = messages(c, b"a", time_ms=c.time_of_day_ms() - 5 * RETENTION_MS)
    see("produced", client.produce("old", data).get().code, 0)
    gone = until(c, lambda: client.offset("old", START).get().offset == 1, 60, 0.5)
    see("start = end", gone, by(c, {"0": False, "0.10": True}))
    see("end", client.offset("old", END).get().offset, 1)
    see("fetch at 0", client.fetch("old", 0).get().code, by(c, {"0": 0, "0.10": 1}))


@sequence("20", S, "a topic is deleted and asked for by its name")
def resurrected(c: Cluster, see: See) -> None:
    client = Client(c)
    c.create_topic("again20")
    hundred = [b"%d" % n for n in range(100)]
    see("produced", client.produce("again20", messages(c, *hundred)).get().code, 0)
    c.delete_topic("again20")
    codes: list[int] = []

    def back() -> bool:
        row = client.metadata("again20").get()
        codes.append(row["error"])
        return any(codes) and row["error"] == 0 and all(each["error"] == 0 for each in row["partitions"])

    see("there again", until(c, back), True)
    see("codes meanwhile", set(codes) - {0}, by(c, {"0": {5}, "4.0": {3}}))
    produced = until(c, lambda: _stored(client.produce("again20", messages(c, b"new"), broker=c.brokers[0]).get()))
    see("produced: base", produced, [0])
    see("fetch at 100", client.fetch("again20", 100).get().code, 1)
    see("fetch at 0", client.fetch("again20", 0).get().values, [(0, b"new")])


def _settled(told: Any) -> list[int]:
    """The offset, once the broker leads."""
    return [] if isinstance(told, Gone) or told.code in (3, 5, 6) else [told.offset]


def _stored(told: Any) -> list[int]:
    return [] if isinstance(told, Gone) or told.code in (3, 5, 6) else [told.base]


def _ready(told: Any) -> Any:
    """The producer, once there are ids for one."""
    return None if isinstance(told, Gone) or told.code else told


# ---- two and three brokers


def _pair(c: Cluster) -> tuple[int, int]:
    """Leader and follower; the leader is the controller, so that the follower may be stopped."""
    leader = c.controller()
    return leader, next(broker for broker in c.brokers if broker != leader)


def _replicated(c: Cluster, topic: str, **config: str) -> tuple[int, int]:
    """Leader and follower of a topic with one message, which both have."""
    leader, follower = _pair(c)
    c.create_topic(topic, [[leader, follower]], {name.replace("_", "."): value for name, value in config.items()})
    code = Client(c).produce(topic, messages(c, b"m"), acks=-1, broker=leader).get().code
    assert code == 0, f"the first message is refused: {code}"
    return leader, follower


def _shrunk(c: Cluster, topic: str, leader: int) -> None:
    assert until(c, lambda: c.isr_of(topic, 0) == [leader], 20), "the follower leaves the ISR"
    c.wait(0.5)  # the leader has heard of it, too


def _grown(c: Cluster, topic: str, size: int = 2) -> None:
    assert until(c, lambda: len(c.isr_of(topic, 0)) == size, 60), "the follower joins the ISR"


@contextmanager
def _stopped(c: Cluster, broker: int) -> Iterator[None]:
    c.stop(broker)
    try:
        yield
    finally:
        c.go_on(broker)


@sequence("6", T, "a time-out of acks -1, and what becomes of the message")
def timed_out(c: Cluster, see: See) -> None:
    client = Client(c)
    leader, follower = _replicated(c, "t6")
    with _stopped(c, follower):
        asked = client.produce("t6", messages(c, b"a"), acks=-1, timeout_ms=500, broker=leader)
        see("produced: code and base", tuple(asked.get()), (7, 1))
        see.took("answered after", asked.took_s, 0.45, 10)
        fetched = client.fetch("t6", 0, broker=leader).get()
        see("fetched at once", (fetched.code, fetched.values), (0, [(0, b"m")]))
    _grown(c, "t6")
    visible = until(c, lambda: client.fetch("t6", 1, broker=leader).get().values)
    see("visible", visible, [(1, b"a")])
    see("end", client.offset("t6", END).get().offset, 2)


@sequence("7", T, "acks -1 with too few replicas in sync", slow=True)
def too_few(c: Cluster, see: See) -> None:
    client = Client(c)
    leader, follower = _replicated(c, "t7", min_insync_replicas="2")
    with _stopped(c, follower):
        # From 2.1 on a follower that has all that the leader has stays in sync, however long it is silent.
        left = until(c, lambda: c.isr_of("t7", 0) == [leader], 6)
        see("a silent follower that has everything leaves", left, by(c, {"0": True, "2.1": False}))
        if not left:
            see("acks 1", client.produce("t7", messages(c, b"n"), broker=leader).get().code, 0)
            _shrunk(c, "t7", leader)
        told = client.produce("t7", messages(c, b"a"), acks=-1, broker=leader).get()
        see("produced: code and base", tuple(told), (19, -1))
    _grown(c, "t7")
    there = until(c, lambda: _values(client.fetch("t7", 0)))
    see("fetched", b"a" in [value for _, value in there], False)
    see("end", client.offset("t7", END).get().offset, 1 if left else 2)


@sequence("8", T, "the ISR shrinks while acks -1 waits", slow=True)
def shrinks_meanwhile(c: Cluster, see: See) -> None:
    client = Client(c)
    leader, follower = _replicated(c, "t8", min_insync_replicas="2")
    with _stopped(c, follower):
        asked = client.produce("t8", messages(c, b"a"), acks=-1, timeout_ms=20_000, broker=leader)
        # 2.7 to 3.0 ask the controller to shrink the ISR and leave the high watermark as it is when it has answered
        # (KAFKA-13091); from 3.7 on it stands still while the ISR is too small.
        waits = by(c, {"0": False, "2.7": True, "3.1": False, "3.7": True})
        see("produced: code and base", tuple(asked.get(60)), (7, 1) if waits else (20, 1))
        see.took("answered after", asked.took_s, *((19.5, 30) if waits else (1.0, 10.0)))
        see("ISR", len(c.isr_of("t8", 0)), 1)
        fetched = client.fetch("t8", 1, broker=leader).get()
        see("fetched meanwhile", fetched.values, [] if waits else [(1, b"a")])
    _grown(c, "t8")
    see("fetched at the end", until(c, lambda: _values(client.fetch("t8", 1))), [(1, b"a")])


@sequence("9", T, "acks 1 with too few replicas in sync", slow=True)
def seen_by_nobody(c: Cluster, see: See) -> None:
    client = Client(c)
    leader, follower = _replicated(c, "t9", min_insync_replicas="2")
    with _stopped(c, follower):
        see("behind which the follower is", client.produce("t9", messages(c, b"n"), broker=leader).get().code, 0)
        _shrunk(c, "t9", leader)
        see("produced", client.produce("t9", messages(c, b"a"), broker=leader).get().code, 0)
        fetched = client.fetch("t9", 2, broker=leader, wait_ms=500).get()
        see("fetched meanwhile", (fetched.code, fetched.values), (0, by(c, {"0": [(2, b"a")], "3.7": []})))
    _grown(c, "t9")
    see("fetched at the end", until(c, lambda: _values(client.fetch("t9", 2))), [(2, b"a")])


@sequence("10", U_SLOW, "the leader moves while acks -1 waits", slow=True)
def moved_meanwhile(c: Cluster, see: See) -> None:
    client = Client(c)
    leader = c.controller()
    other, idle = (broker for broker in c.brokers if broker != leader)
    c.create_topic("u10", [[leader, other, idle]])
    see("replicated", client.produce("u10", messages(c, b"m"), acks=-1, broker=leader).get().code, 0)
    with _stopped(c, idle):
        asked = client.produce("u10", messages(c, b"a"), acks=-1, timeout_ms=20_000, broker=leader)
        c.wait(SHORT_S)
        c.move_leader("u10", 0, other)
        see("moved", until(c, lambda: c.leader_of("u10", 0) == other), True)
        see("produced: code and base", tuple(asked.get(60)), by(c, {"0": (7, 1), "0.10": (6, 1)}))
        see.took("answered after", asked.took_s, *by(c, {"0": (19.5, 30), "0.10": (0.2, 10)}))
    _grown(c, "u10", 3)
    see("in the log of the next leader", until(c, lambda: _values(client.fetch("u10", 1, broker=other))), [(1, b"a")])


@sequence("11", T_SLOW, "the topic is deleted while acks -1 waits", slow=True)
def deleted_meanwhile(c: Cluster, see: See) -> None:
    client = Client(c)
    leader, follower = _replicated(c, "t11")
    with _stopped(c, follower):
        asked = client.produce("t11", messages(c, b"a"), acks=-1, timeout_ms=20_000, broker=leader)
        c.wait(SHORT_S)
        c.delete_topic("t11")
        see("produced: code and base", tuple(asked.get(60)), by(c, {"0": (7, 1), "2.4": (3, 1)}))
        see.took("answered after", asked.took_s, *by(c, {"0": (19.5, 30), "2.4": (0.2, 10)}))


@sequence("12", T_SOON, "the last in-sync replica dies; no unclean election", slow=True)
def waits_for_the_last(c: Cluster, see: See) -> None:
    client = Client(c)
    leader, follower = _two_dead(c, client, "t12")
    row = until(c, lambda: _without_leader(client.metadata("t12", follower).get()))
    see("Metadata: code and leader", row, (5, -1))
    c.start(leader)
    values = until(c, lambda: _values(client.fetch("t12", 0, broker=leader)))
    see("with the old leader back", [value for _, value in values], [b"m", *_FIVE])
    _grown(c, "t12")


@sequence("12u", T_UNCLEAN, "the last in-sync replica dies; unclean election", slow=True)
def unclean(c: Cluster, see: See) -> None:
    client = Client(c)
    leader, follower = _two_dead(c, client, "t12")
    see("the other leads", until(c, lambda: c.leader_of("t12", 0) == follower), True)
    end = until(c, lambda: _settled(client.offset("t12", END, broker=follower).get()))
    see("its end", end, [1])
    produced = until(c, lambda: _stored(client.produce("t12", messages(c, b"x", b"y"), broker=follower).get()))
    see("two others: base", produced, [1])
    c.start(leader)
    _grown(c, "t12")
    there = [value for _, value in client.fetch("t12", 0, broker=follower).get().values]
    see("its log", there, [b"m", b"x", b"y"])
    c.move_leader("t12", 0, leader)
    see("moved back", until(c, lambda: c.leader_of("t12", 0) == leader), True)
    here = until(c, lambda: _three(_values(client.fetch("t12", 0, broker=leader))))
    values = [value for _, value in here]
    see("the log of the old leader", values, by(c, {"0": [b"m", *_FIVE[:2]], "0.11": [b"m", b"x", b"y"]}))


def _two_dead(c: Cluster, client: Client, topic: str) -> tuple[int, int]:
    """The follower died first and is back, alone; five messages are in the dead leader's log only."""
    leader, follower = _replicated(c, topic)
    c.kill(follower)
    for value in _FIVE:
        assert client.produce(topic, messages(c, value), broker=leader).get().code == 0
    _shrunk(c, topic, leader)
    c.wait(6)  # for the high watermark on disk
    c.kill(leader)
    c.start(follower)
    return leader, follower


@sequence("14", U_SLOW, "the leader moves under load", slow=True)
def moves(c: Cluster, see: See) -> None:
    writer, reader = Client(c), Client(c)
    order = [c.controller(), *(broker for broker in c.brokers if broker != c.controller())]
    c.create_topic("u14", [order])
    position, lower, codes, ends = 0, False, set[int](), set[int]()
    for n in range(20):
        to = order[(n + 1) % len(order)]
        c.move_leader("u14", 0, to)
        until(c, partial(_led_by, c, "u14", to))
        for _ in range(20):
            leader = c.leader_of("u14", 0)
            if leader is None:
                continue
            writer.produce("u14", messages(c, b"a"), acks=-1, timeout_ms=1000, broker=leader).get()
            end, fetched = (
                reader.offset("u14", END, broker=leader).get(),
                reader.fetch("u14", position, broker=leader).get(),
            )
            ends.add(end.code)
            codes.add(fetched.code)
            lower |= end.code == 0 and end.offset < position
            if fetched.code == 0 and fetched.values:
                position = fetched.values[-1][0] + 1
    see("something was read", position > 100, True)
    see("codes of fetches", codes - by(c, {"0": {-1, 0, 1, 3, 6}, "0.10": {0, 1, 3, 6}, "0.11": {0, 6}}), set())
    see("codes of ListOffsets", ends - by(c, {"0": {0, 3, 6}, "2.2": {0, 5, 6, 78}}), set())
    see("an end below what was read", lower, by(c, {"0": Either((False, True)), "2.2": False}))


@sequence("15", T, "fetches from a follower", first="2.4")
def from_a_follower(c: Cluster, see: See) -> None:
    client = Client(c)
    leader, follower = _replicated(c, "t15")
    see("produced", client.produce("t15", messages(c, b"a"), acks=-1, broker=leader).get().code, 0)
    see("v4", client.fetch("t15", 1, broker=follower, version=4).get().code, 6)
    values = until(c, lambda: client.fetch("t15", 1, broker=follower, version=11).get().values)
    see("v11", values, [(1, b"a")])


def _values(asked: Asked[Fetched]) -> list[tuple[int, bytes]]:
    told = asked.get(5)
    return [] if isinstance(told, Gone) else told.values


def _led_by(c: Cluster, topic: str, broker: int) -> bool:
    return c.leader_of(topic, 0) == broker


def _three(values: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    return values if len(values) >= 3 else []


def _without_leader(row: Any) -> tuple[int, int] | None:
    """Code and leader of the partition, once the broker has heard of the topic."""
    if isinstance(row, Gone) or not row["partitions"]:
        return None
    return row["partitions"][0]["error"], row["partitions"][0]["leader"]
