"""The 0.7 nodes: what an original wrote is read, what we write is what it writes (as recorded, or by TopicCount)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.errors import NodeError, RegistrationError, RemoteError
from kafkawire.model import Broker, BrokerPartition, TopicPartition
from kafkawire.znodes import v07 as znodes
from kafkawire.znodes.group import BLACK_LIST, MAX_STREAMS, STATIC, WHITE_LIST, Registration
from tests.kafkawire import wire_vectors07

RECORDED = wire_vectors07.live()


def test_a_broker_is_creator_host_and_port() -> None:
    assert znodes.broker(1, "10.0.0.5-1315436360737:10.0.0.5:9092") == Broker(1, "10.0.0.5", 9092)
    assert znodes.broker(0, b"127.0.0.1-1795247002403:127.0.0.1:17092") == Broker(0, "127.0.0.1", 17092)
    assert znodes.broker(1, "h-5:h:9092") == Broker(1, "h", 9092)


@pytest.mark.parametrize(
    "text", ["", "h:9092", "c:h:x", "c:h:0", "c:h:65536", "c::9092", "::1-5:::1:9092", '{"host":"h","port":1}', b"\xff"]
)
def test_a_broker_that_makes_no_sense_is_named(text: str | bytes) -> None:
    with pytest.raises(NodeError, match="broker 7"):
        znodes.broker(7, text)


def test_a_count_is_a_number_of_partitions() -> None:
    assert (znodes.count("2"), znodes.count(b" 12\n"), znodes.count("0")) == (2, 12, 0)
    assert znodes.partitions(3, 2) == [BrokerPartition(3, 0), BrokerPartition(3, 1)]
    for text in ("", "x", "-1", "1.5", '{"version":1}', "99999999999", "999999999", "²", "9" * 4301, b"\xff"):
        with pytest.raises(NodeError, match="topic t on broker 1"):
            znodes.count(text, "topic t on broker 1")


def test_a_topic_of_another_generation_is_recognised() -> None:
    assert znodes.broker_id("10") == 10
    with pytest.raises(NodeError, match="'partitions' under its node is not a broker id: is this"):
        znodes.broker_id("partitions", "topic t")


# Members -------------------------------------------------------------------------------------------------------------

TEXTS = {
    '{ "t1": 4,"t2": 1 }': Registration(STATIC, {"t1": 4, "t2": 1}),
    '{ "live.cons": 1 }': Registration(STATIC, {"live.cons": 1}),
    "{  }": Registration(STATIC, {}),
    "*4*white.*": Registration(WHITE_LIST, {"white.*": 4}),
    "*1*live.cons": Registration(WHITE_LIST, {"live.cons": 1}),
    "!2!_.*": Registration(BLACK_LIST, {"_.*": 2}),
    "*1*a*b*": Registration(WHITE_LIST, {"a*b*": 1}),
    "!1!a|\\w+!": Registration(BLACK_LIST, {"a|\\w+!": 1}),
}


@pytest.mark.parametrize("text", TEXTS)
def test_the_three_forms_are_read_and_written(text: str) -> None:
    assert znodes.registration(text) == TEXTS[text]
    assert znodes.registration(text.encode()) == TEXTS[text]
    assert znodes.registration_text(TEXTS[text], 1386000000000) == text


def test_what_originals_registered_is_read_and_written_again() -> None:
    found = [
        node["data"]
        for tree in ("zk_tree", "zk_tree_createMessageStreams", "zk_tree_two_consumers")
        for node in RECORDED[tree]
        if node["path"].startswith("/consumers/") and "/ids/" in node["path"]
    ]
    assert len(found) == 4
    assert [znodes.registration_text(znodes.registration(text)) for text in found] == found


def test_a_groups_nodes_are_where_originals_had_them() -> None:
    nodes = {node["path"]: node["data"] for node in RECORDED["zk_tree"]}
    tp = TopicPartition("live.cons", BrokerPartition(1, 1))
    thread = nodes[znodes.owner("g1", tp)]
    assert nodes[znodes.offset("g1", tp)] == "24"
    consumer = thread.rpartition("-")[0]
    assert znodes.thread_ids(consumer, 1) == [thread]
    assert nodes[znodes.member("g1", consumer)] == "*1*live.cons"
    assert znodes.count(nodes[znodes.count_path("live.cons", 1)]) == 2
    assert znodes.broker(1, nodes[znodes.broker_path(1)]).port == 17093


@pytest.mark.parametrize(
    "text",
    ["", " ", "*", "**x", "*x*y", "*1!x", "!1*x", "*0*x", "!0!x", "[1]", '{ "t": 0 }', '{ "t": -1 }', '{ "t": "1" }',
     '{ "t": true }', '{ "t": 2147483648 }', '{ "t": 2000000000 }', "*2000000000*x",
     '{ "t": ', "t: 1", b"\xff\xfe", "*1*a\nb"],
)  # fmt: skip
def test_a_registration_that_stops_originals_is_an_error_here(text: str | bytes) -> None:
    with pytest.raises(RegistrationError):
        znodes.registration(text)


TOPIC = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True)


@given(st.dictionaries(TOPIC, st.integers(1, MAX_STREAMS), max_size=6))
def test_streams_by_topic_come_back(streams: dict[str, int]) -> None:
    there = Registration(STATIC, streams)
    assert znodes.registration(znodes.registration_text(there)) == there


@given(
    st.sampled_from([WHITE_LIST, BLACK_LIST]),
    st.text(st.characters(exclude_characters="\n\r\u2028\u2029\x85", exclude_categories=["Cs"]), max_size=20),
    st.integers(1, MAX_STREAMS),
)
def test_filters_come_back(pattern: str, regex: str, streams: int) -> None:
    there = Registration(pattern, {regex: streams})
    assert znodes.registration(znodes.registration_text(there)) == there


@given(st.one_of(st.text(max_size=40), st.binary(max_size=40)))
def test_rubbish_raises_nothing_else(rubbish: str | bytes) -> None:
    for read in (znodes.registration, znodes.count, lambda data: znodes.broker(1, data)):
        try:
            read(rubbish)
        except RemoteError:
            pass
