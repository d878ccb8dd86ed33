"""The 0.8 nodes: what every release wrote is read, what we write is what the JVM writes.

The JVM's texts below were printed by kafka.utils.Json, Utils.JSONEscapeString and Whitelist of the 0.8.2.2 jar; the
readings by its Json.parseFull.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.errors import RemoteError
from kafkawire.model import Broker, TopicPartition
from kafkawire.znodes import v08 as znodes
from kafkawire.znodes.v08 import BLACK_LIST, STATIC, WHITE_LIST, NodeError, Registration, RegistrationError

ORDERS_3 = TopicPartition("orders", 3)

# Brokers, topics, partitions -----------------------------------------------------------------------------------------

V080 = '{ "host":"h1", "jmx_port":-1, "port":9092, "timestamp":"1386000000000", "version":1 }'
V1 = '{"jmx_port":-1,"timestamp":"1394154511599","host":"h1","version":1,"port":9092}'
V2 = (
    '{"jmx_port":-1,"timestamp":"1447000000000","endpoints":["PLAINTEXT://h1:9092","SSL://h1:9093"],'
    '"host":"h1","version":2,"port":9092}'
)
V3 = (
    '{"jmx_port":-1,"endpoints":["SSL://h1:9093","PLAINTEXT://h1:9092"],"host":null,"version":3,"port":-1,'
    '"timestamp":"1","rack":"r1"}'
)
V4 = (
    '{"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://h1:9092"],"jmx_port":-1,'
    '"host":"h1","timestamp":"1487000000000","port":9092,"version":4}'
)


@pytest.mark.parametrize("text", [V080, V1, V2, V3, V4], ids=["0.8.0", "v1", "v2", "v3", "v4"])
def test_a_broker_of_any_release_is_read(text):
    assert znodes.broker(1, text) == Broker(1, "h1", 9092)
    assert znodes.broker(1, text.encode()) == Broker(1, "h1", 9092)


def test_an_ipv6_listener_is_read():
    text = '{"version":3,"host":null,"port":-1,"endpoints":["PLAINTEXT://[::1]:9092"]}'
    assert znodes.broker(7, text) == Broker(7, "::1", 9092)


def test_a_broker_without_a_plain_listener_is_named_with_what_it_has():
    with pytest.raises(NodeError, match=r"broker 7 has no PLAINTEXT address.*SSL://h1:9093"):
        znodes.broker(7, '{"version":2,"host":null,"port":-1,"endpoints":["SSL://h1:9093"]}')


def test_partitions_come_in_the_order_of_numbers_and_may_have_gaps():
    text = '{"version":1,"partitions":{"10":[2,1],"2":[1],"0":[3]}}'
    found = znodes.topic(text)
    assert list(found.items()) == [(0, [3]), (2, [1]), (10, [2, 1])]


def test_a_topic_as_0_8_0_wrote_it_is_read():
    assert znodes.topic('{ "partitions":{ "0":[ 1, 2 ] }, "version":1 }') == {0: [1, 2]}


def test_a_partition_without_leader_has_none():
    text = '{"controller_epoch":1,"leader":%d,"version":1,"leader_epoch":0,"isr":[1,2]}'
    assert znodes.state(text % 2) == (2, [1, 2])
    assert znodes.state(text % -1) == (None, [1, 2])


@pytest.mark.parametrize("text", ['{"version":1,"brokerid":5,"timestamp":"1"}', "5"])
def test_the_controller_is_read_in_its_old_form_too(text):
    assert znodes.controller(text) == 5


READERS = [
    lambda data: znodes.broker(1, data),
    znodes.topic,
    znodes.state,
    znodes.controller,
    znodes.registration,
]
keys = st.sampled_from(
    ["host", "port", "endpoints", "partitions", "leader", "isr", "brokerid", "pattern", "subscription", "0", "x"]
)
json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("read", READERS)
@given(data=st.binary(max_size=60) | json_like.map(lambda document: json.dumps(document).encode()))
def test_a_strangers_node_is_read_or_is_our_error(read, data):
    try:
        read(data)
    except RemoteError:
        pass


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("data", [b"[" * 100_000, b"1" * 10_000, b"\xff", b'{"a":1'])
def test_nodes_made_to_hurt_are_our_error(read, data):
    with pytest.raises(RemoteError):
        read(data)


# Registrations -------------------------------------------------------------------------------------------------------

TAIL = '"timestamp":"1394154511599"}'


@pytest.mark.parametrize(
    ("registration", "jvm"),
    [
        (Registration(STATIC, {}), '{"version":1,"subscription":{},"pattern":"static",'),
        (Registration(STATIC, {"orders": 2}), '{"version":1,"subscription":{"orders":2},"pattern":"static",'),
        (
            Registration(STATIC, {"t4": 4, "t3": 3, "t2": 2, "t1": 1}),
            '{"version":1,"subscription":{"t4":4,"t3":3,"t2":2,"t1":1},"pattern":"static",',
        ),
        (
            Registration(WHITE_LIST, {"white.*": 4}),
            '{"version":1,"subscription":{"white.*":4},"pattern":"white_list",',
        ),
        (
            Registration(BLACK_LIST, {r"white.*|black\d+": 4}),
            r'{"version":1,"subscription":{"white.*|black\\d+":4},"pattern":"black_list",',
        ),
        (Registration(WHITE_LIST, {"a/b|c": 4}), r'{"version":1,"subscription":{"a\/b|c":4},"pattern":"white_list",'),
        (
            Registration(WHITE_LIST, {r"[\w-]+\.x": 4}),
            r'{"version":1,"subscription":{"[\\w-]+\\.x":4},"pattern":"white_list",',
        ),
        (
            Registration(WHITE_LIST, {"tab\there": 4}),
            r'{"version":1,"subscription":{"tab\there":4},"pattern":"white_list",',
        ),
        (
            Registration(WHITE_LIST, {"del\x7fc1\x85": 4}),
            r'{"version":1,"subscription":{"del\u007fc1\u0085":4},"pattern":"white_list",',
        ),
        (Registration(WHITE_LIST, {"café.*": 4}), '{"version":1,"subscription":{"café.*":4},"pattern":"white_list",'),
        (Registration(WHITE_LIST, {'q"u': 4}), r'{"version":1,"subscription":{"q\"u":4},"pattern":"white_list",'),
    ],
)
def test_a_registration_is_the_jvms_text_byte_for_byte(registration, jvm):
    assert znodes.registration_text(registration, 1394154511599) == jvm + TAIL


names = st.text("abcXYZ0189._-", min_size=1, max_size=8)
registrations = st.one_of(
    st.builds(Registration, st.just(STATIC), st.dictionaries(names, st.integers(1, 99), max_size=9)),
    st.builds(
        Registration,
        st.sampled_from([WHITE_LIST, BLACK_LIST]),
        st.dictionaries(st.text(min_size=1, max_size=12), st.integers(1, 99), min_size=1, max_size=1),
    ),
)


@given(registrations)
def test_what_we_write_everybody_reads_as_we_meant_it(registration):
    text = znodes.registration_text(registration, 1394154511599)
    assert znodes.registration(text) == registration
    document = json.loads(text)
    assert document["timestamp"] == "1394154511599"  # a string: a number this large stops the JVM's whole group
    assert document["subscription"] == registration.subscription


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            '{ "pattern":"static", "subscription":{ "orders": 2 }, "timestamp":"1386000000000", "version":1 }',
            Registration(STATIC, {"orders": 2}),
            id="0.8.0, blanks and its own order",
        ),
        pytest.param(
            r'{ "pattern":"white_list", "subscription":{ "a\.b\w+": 2 }, "timestamp":"1386000000000", "version":1 }',
            Registration(WHITE_LIST, {r"a\.b\w+": 2}),
            id="0.8.0, a regex that is not escaped",
        ),
        pytest.param(
            r'{"version":1,"subscription":{"x\/y\\d\b":1},"pattern":"black_list","timestamp":"1"}',
            Registration(BLACK_LIST, {"x/y\\d\b": 1}),
            id="known escapes, and a backspace",
        ),
        pytest.param(
            r'{"subscription":{"a\u0041\uZZ":1},"pattern":"white_list"}',
            Registration(WHITE_LIST, {r"aA\uZZ": 1}),
            id="half an escape stands for itself; no version, no timestamp",
        ),
        pytest.param(
            '{"subscription":{"a":1,"b":2},"pattern":"white_list"}',
            Registration(WHITE_LIST, {"a": 1}),
            id="of a filter the first entry counts",
        ),
        pytest.param(
            '{"subscription":{},"pattern":"white_list"}', Registration(STATIC, {}), id="an empty filter is static"
        ),
        pytest.param(
            '{"subscription":{"t":1},"pattern":"other"}', Registration(STATIC, {"t": 1}), id="another pattern is static"
        ),
        pytest.param(
            '{"subscription":{"t":1},"pattern":"static","timestamp":1386000000000}',
            Registration(STATIC, {"t": 1}),
            id="a timestamp the JVM cannot read",
        ),
    ],
)
def test_registrations_of_others_are_read(text, expected):
    assert znodes.registration(text) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "registration: its node is empty"),
        ('{"version":1,"subscription":{"t":1}}', "no 'pattern'"),
        ('{"version":1,"pattern":"static"}', "no 'subscription'"),
        ('{"pattern":"static","subscription":{"t":0}}', "0 streams for 't'"),
        ('{"pattern":"static","subscription":{"t":true}}', "True streams for 't'"),
        ('{"pattern":"static","subscription":{"t":1.0}}', r"1\.0 streams"),
        ('{"pattern":"static","subscription":{"t":4294967297}}', "4294967297 streams"),
        ("orders", "'orders' is not JSON"),
        ("[]", "not a JSON object"),
    ],
)
def test_a_registration_that_makes_no_sense_says_why(text, why):
    with pytest.raises(RegistrationError, match=why):
        znodes.registration(text)


# Names and paths -----------------------------------------------------------------------------------------------------


def test_ids_have_the_jvms_form():
    assert znodes.consumer_id("g1", "host7", 1394154511599, 0x60744496) == "g1_host7-1394154511599-60744496"
    assert znodes.consumer_id("g1", "h", 1, 5 << 32 | 0xAB) == "g1_h-1-000000ab"
    assert znodes.named_consumer_id("g1", "fixed") == "g1_fixed"
    assert znodes.thread_ids("g1_c", 3) == ["g1_c-0", "g1_c-1", "g1_c-2"]


def test_paths_are_those_of_the_jvm():
    assert znodes.ids("g") == "/consumers/g/ids"
    assert znodes.member("g", "g_c") == "/consumers/g/ids/g_c"
    assert znodes.owners("g", "orders") == "/consumers/g/owners/orders"
    assert znodes.owner("g", ORDERS_3) == "/consumers/g/owners/orders/3"
    assert znodes.offsets("g", "orders") == "/consumers/g/offsets/orders"
    assert znodes.offset("g", ORDERS_3) == "/consumers/g/offsets/orders/3"
    assert znodes.broker_path(7) == "/brokers/ids/7"
    assert znodes.topic_path("orders") == "/brokers/topics/orders"
