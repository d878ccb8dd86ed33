"""The broker in Python beside an original: the same random requests, good and bad, get the same bytes and leave the
same files."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from localkafka.errors import LocalKafkaError
from localkafka.seven import entries
from localkafka.seven.client import Closed, Seven, frame
from localkafka.seven.node import Broker07, Node07, OriginalBroker07
from localkafka.waiting import wait_until

pytestmark = [pytest.mark.real, pytest.mark.kafka07]

SETTINGS = {
    "num.partitions": 2,
    "log.file.size": 700,
    "max.message.size": 300,
    "max.socket.request.bytes": 5000,
    "log.flush.interval": 3,
    "log.default.flush.scheduler.interval.ms": 600_000,  # a flush by the clock would come at different moments
}
NOWHERE = struct.pack(">h", 7) + b"nowhere" + struct.pack(">iqi", 0, 0, 0)
LAST = frame(2, struct.pack(">h", 9) + NOWHERE * 9)  # nine are more than we draw
LAST_ANSWER = bytes(2) + struct.pack(">ih", 2, 0) * 9
TOPICS = ("a", "b.c", "d-1", "ä", "", "x/y")


@dataclass(slots=True)
class Pair:
    """Two brokers that are told the same."""

    ours: Node07
    original: Node07
    links: list[Seven] = field(default_factory=list)

    def __iter__(self) -> Iterator[Node07]:
        yield self.ours
        yield self.original

    def ask(self, data: bytes) -> list[object]:
        """What each broker does with these bytes, and whether it goes on serving behind them."""
        if not self.links:
            self.links = [broker.client() for broker in self]
        done = [reaction(link, data) for link in self.links]
        if any("closed" in one for one in done):
            self.hang_up()
        return [tuple(one) for one in done]

    def hang_up(self) -> None:
        for link in self.links:
            link.close()
        self.links = []

    def files(self) -> list[dict[str, bytes]]:
        return [{str(p.relative_to(one.data)): p.read_bytes() for p in one.data.rglob("*.kafka")} for one in self]


def reaction(link: Seven, data: bytes) -> list[object]:
    """The frames that answer these bytes, up to the answer of LAST; or only that the connection was
    closed, since a reset may throw answers away that were on their way."""
    answers: list[object] = []
    try:
        link.send(data + LAST)
        while (answer := link.receive()) != LAST_ANSWER:
            answers.append(answer)
    except Closed:
        return ["closed"]
    return answers


def some_set(draw: random.Random) -> bytes:
    data = b""
    for _ in range(draw.choice((0, 1, 1, 2, 5))):
        value = draw.randbytes(draw.choice((0, 1, 20, 299, 300, 301)))
        kind = draw.randrange(6)
        if kind < 3:
            data += entries.message(value, magic=draw.choice((0, 1, 1)))
        elif kind < 5:
            data += entries.wrapper([value[:60], b"x" * 200, b""][: draw.randrange(4)], draw.choice((1, 2)))
        else:
            data += entries.message(value, codec=draw.randrange(8))
    return damaged(draw, data) if draw.random() < 0.4 else data


def damaged(draw: random.Random, data: bytes) -> bytes:
    at = draw.randrange(len(data) + 1)
    kind = draw.randrange(4)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data + data[:at]
    if kind == 2:
        return data[:at] + draw.randbytes(draw.randrange(6)) + data[at:]
    return data[:at] + bytes([byte ^ (1 << draw.randrange(8)) for byte in data[at : at + 1]]) + data[at + 1 :]


def place(draw: random.Random) -> bytes:
    topic = draw.choice(TOPICS[:3] * 6 + TOPICS).encode()
    return struct.pack(">h", len(topic)) + topic + struct.pack(">i", draw.choice((0, 0, 0, 1, 1, 2, -2)))


def produce(draw: random.Random) -> bytes:
    data = some_set(draw)
    return place(draw) + struct.pack(">i", len(data)) + data


def fetch(draw: random.Random) -> bytes:
    position = draw.choice((0, 0, -1, draw.randrange(3000), draw.randrange(3000)))
    return place(draw) + struct.pack(">qi", position, draw.choice((0, 1, 100, 5000, 1 << 20, 2**31 - 1, -1, -7)))


def request(draw: random.Random) -> bytes:
    kind = draw.choice((0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5))
    many = draw.randrange(4)
    if kind == 0:
        body = produce(draw)
    elif kind == 1:
        body = fetch(draw)
    elif kind == 2:
        body = struct.pack(">h", many) + b"".join(fetch(draw) for _ in range(many))
    elif kind == 3:
        body = struct.pack(">h", many) + b"".join(produce(draw) for _ in range(many))
    else:
        body = place(draw) + struct.pack(">qi", draw.choice((-1, -1, -2, -3, 0, 2**62)), draw.choice((0, 1, 2, 99, -1)))
    whole = frame(kind, body)
    return whole if draw.random() < 0.95 else frame(kind, damaged(draw, body))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with (
        Broker07(tmp_path / "ours", settings=SETTINGS) as ours,
        OriginalBroker07(tmp_path / "original", settings=SETTINGS) as original,
    ):
        pair = Pair(ours, original)
        yield pair
        pair.hang_up()


def play(pair: Pair, seed: int, requests: int) -> None:
    draw = random.Random(seed)
    for number in range(requests):
        data = b"".join(request(draw) for _ in range(draw.choice((1, 1, 1, 2, 4))))
        ours, original = pair.ask(data)
        assert ours == original, f"seed {seed}, request {number}: {data.hex()}"
        if number % 500 == 499 and not again(pair, draw):
            break
    ours, original = pair.files()
    assert ours == original


def again(pair: Pair, draw: random.Random) -> bool:
    """Kill both, hurt the same tail of both, and start them again: both do, or neither.  An unknown magic in the tail
    is a reason not to; another is an empty wrapper before a roll, which nobody counts as unflushed: the next segment
    is then named by too small a position."""
    pair.hang_up()
    for broker in pair:
        broker.kill()
    ours, original = pair.files()
    assert ours == original
    tail = damaged(draw, entries.plain([b"tail"] * draw.randrange(3)))
    name = draw.choice(sorted({path.rpartition("/")[0] for path in ours}))
    topic, _, partition = name.rpartition("-")
    for broker in pair:
        with broker.segments(topic, int(partition))[-1].open("ab") as file:
            file.write(tail)
    ours_starts, original_starts = [starts(broker) for broker in pair]
    assert ours_starts == original_starts
    return ours_starts


def starts(broker: Node07) -> bool:
    try:
        broker.restart()
    except LocalKafkaError as error:
        if "ended at start" not in str(error):
            raise
        return False
    return True


def test_random_requests_get_the_same_bytes_and_leave_the_same_files(pair: Pair) -> None:
    play(pair, 7, 1200)


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(20))
def test_many_random_requests_get_the_same_bytes_and_leave_the_same_files(pair: Pair, seed: int) -> None:
    play(pair, 1000 + seed, 3000)


def test_the_same_segments_are_counted_by_both(pair: Pair) -> None:
    for _ in range(40):
        pair.ask(frame(0, struct.pack(">h", 1) + b"a" + struct.pack(">ii", 0, 60) + entries.message(b"x" * 50)))
    wait_until(lambda: all(len(one) == 4 for one in pair.files()), 30, "four segments")
    assert pair.files()[0] == pair.files()[1]
