"""What an original 0.7.2 answered, asked again: of the broker in Python and of an original."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from localkafka.seven.client import Closed, Seven
from localkafka.seven.node import Node07, node_of

VECTORS = Path(__file__).parent.parent / "vectors" / "kafka-07-live.json"
EXCHANGES = {one["name"]: one for one in json.loads(VECTORS.read_text())["exchanges"]}
SIZE = struct.Struct(">i")

# The two brokers' shares of live.cons when their multi-fetches were recorded: what those answers hold.
CONSUMED = {"first": "tool_consoleconsumer_multifetch_1", "second": "tool_consoleconsumer_multifetch_2"}
ON_SECOND = {"tool_consoleconsumer_multifetch_2"}
CLOSES = {
    "offsets_wrong_partition",
    *(f"raw_produce_{n}" for n in ("bad_crc", "wrong_partition", "minus_two", "empty_topic", "illegal_topic")),
    *(f"raw_produce_{n}" for n in ("truncated_first", "magic2", "attr3")),
    "raw_offsets_wrong_partition",
    "raw_request_type_5",
    *(f"raw_request_size_{n}" for n in ("0", "negative", "huge")),
}
# What these produced is there from the start, or has a test of its own.
LAID_DOWN = {"tool_consoleproducer_async_1", "tool_consoleproducer_async_2", "tool_async_plain_multi_1"}
LAID_DOWN |= {"produce_plain", "produce_gzip", "produce_snappy", "produce_random_partition", "raw_produce_then_wait_3s"}
TO_THE_BYTE = [("raw_produce_too_large", "raw.big", 0), ("raw_produce_max_size", "raw.max", 1_000_010)]


@dataclass(frozen=True, slots=True)
class Site:
    first: Node07
    second: Node07

    def broker(self, name: str) -> Node07:
        return self.second if name in ON_SECOND else self.first


def request_of(name: str) -> bytes:
    """The recorded bytes; an elided payload is filled up, and a time that was in the future is so again."""
    begin, elided, _ = EXCHANGES[name]["request_hex"].partition("...")
    data = bytes.fromhex(begin)
    if elided:
        data += data[-1:] * (SIZE.size + SIZE.unpack_from(data)[0] - len(data))
    if name == "offsets_time_now":
        data = data[:-12] + struct.pack(">q", int(time.time() * 1000) + 3_600_000) + data[-4:]
    return data


def response_of(name: str) -> bytes:
    return bytes.fromhex(EXCHANGES[name]["response_hex"])


def sets_of(name: str) -> list[tuple[str, int, bytes]]:
    """(topic, partition, set) of a multi-fetch and its answer."""
    request, answer = request_of(name), response_of(name)
    at, said, found = 8, 6, []
    while at < len(request):
        length = struct.unpack_from(">h", request, at)[0]
        topic = request[at + 2 : at + 2 + length].decode()
        partition = SIZE.unpack_from(request, at + 2 + length)[0]
        size = SIZE.unpack_from(answer, said)[0]
        found.append((topic, partition, answer[said + 6 : said + 4 + size]))
        at, said = at + 2 + length + 16, said + 4 + size
    return found


@pytest.fixture(scope="module")
def site(kind07: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two brokers that hold what they held when the recording was made."""
    with (
        node_of(kind07)(tmp_path_factory.mktemp("first"), 0, settings={"num.partitions": 2}) as first,
        node_of(kind07)(tmp_path_factory.mktemp("second"), 1, settings={"num.partitions": 2}) as second,
    ):
        built = Site(first, second)
        for broker, name in ((first, CONSUMED["first"]), (second, CONSUMED["second"])):
            with broker.client() as link:
                for topic, partition, data in sets_of(name):
                    link.produce(topic, partition, data)
                    assert link.offsets(topic, partition) == [len(data)]
        for name in ("produce_plain", "produce_gzip", "produce_snappy", "raw_produce_then_wait_3s"):
            with first.client() as link:
                link.send(request_of(name))
                link.multifetch([])  # handled
        yield built


@pytest.mark.parametrize("name", [name for name in EXCHANGES if name not in LAID_DOWN])
def test_the_recorded_request_gets_the_recorded_answer(site: Site, name: str) -> None:
    with site.broker(name).client() as link:
        link.send(request_of(name))
        if name in CLOSES:
            assert response_of(name) == b""
            assert link.ended()
            return
        if response_of(name):
            answer = link.receive()
            assert SIZE.pack(len(answer)) + answer == response_of(name)
        assert serves(link)


@pytest.mark.parametrize(
    ("name", "topic"),
    [("produce_plain", "live.plain"), ("produce_gzip", "live.gzip"), ("produce_snappy", "live.snappy")],
)
def test_a_produced_set_is_the_file_and_the_answer_byte_for_byte(site: Site, name: str, topic: str) -> None:
    stored = site.first.segments(topic, 0)[0].read_bytes()
    assert stored == request_of(name)[-len(stored) :]
    with site.first.client() as link:
        assert link.fetch(topic, 0, 0).data == stored


def test_the_first_bytes_after_a_produce_are_the_answer_to_the_next_fetch(own_broker07: Callable[..., Node07]) -> None:
    with own_broker07().client() as link:
        link.send(request_of("raw_produce_then_wait_3s"))
        assert not link.ended(timeout_s=0.3)
        link.send(request_of("raw_fetch_on_same_connection"))
        answer = link.receive()
    assert SIZE.pack(len(answer)) + answer == response_of("raw_fetch_on_same_connection")


def test_a_produce_to_partition_minus_one_lands_in_one_partition_of_the_broker(site: Site) -> None:
    with site.first.client() as link:
        link.send(request_of("produce_random_partition"))
        ends = [link.offsets("live.random", partition)[0] for partition in (0, 1)]
    assert sorted(ends) == [0, 12]


@pytest.mark.parametrize(("name", "topic", "stored"), TO_THE_BYTE)
def test_a_payload_over_a_million_bytes_is_lost_in_silence_and_one_of_a_million_is_not(
    own_broker07: Callable[..., Node07], name: str, topic: str, stored: int
) -> None:
    with own_broker07().client() as link:
        link.send(request_of(name))
        assert link.offsets(topic, 0) == [stored]


def test_what_the_recording_counts_as_closed_is_what_we_wait_to_be_closed() -> None:
    told = {n for n, one in EXCHANGES.items() if "closed the connection" in one["note"] or "closes the" in one["note"]}
    assert told == CLOSES


def serves(link: Seven) -> bool:
    try:
        return link.multifetch([]) == []
    except Closed:
        return False
