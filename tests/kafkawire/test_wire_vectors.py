"""Every vector of 0.8 to 0.10: whole, cut at each byte, with a tail, and written again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkawire.decode.v08 import Document, request_document, response_document, set_document
from kafkawire.errors import LeftOver, Truncated
from kafkawire.formats.v01 import messages
from kafkawire.protocol import apis, offsetrecords
from kafkawire.protocol import requests08 as framing
from tests.cases import each
from tests.fakes.offsetrecords import encoded
from tests.kafkawire import wire_vectors
from tests.kafkawire.wire_vectors import Vector, named, of_kind

FRAMES = [*of_kind("request"), *of_kind("response")]
SETS = of_kind("message-set")

# What a vector says beyond the bytes: where a commit ends up, what a log held before, and prose about a header byte.
REMARKS = {"stored_in", "log_end_offset_before", "hc"}

ANSWERS = {  # a response does not say what it answers
    "metadata": apis.METADATA,
    "produce": apis.PRODUCE,
    "fetch": apis.FETCH,
    "list_offsets": apis.LIST_OFFSETS,
    "group_coordinator": apis.GROUP_COORDINATOR,
    "offset_commit": apis.OFFSET_COMMIT,
    "offset_fetch": apis.OFFSET_FETCH,
    "join_group": apis.JOIN_GROUP,
    "sync_group": apis.SYNC_GROUP,
    "heartbeat": apis.HEARTBEAT,
    "list_groups": apis.LIST_GROUPS,
    "describe_groups": apis.DESCRIBE_GROUPS,
    "api_versions": apis.API_VERSIONS,
}


def answered(vector: Vector) -> tuple[apis.Api, int]:
    name, _, rest = vector.name.partition("_response")
    version = next((int(word[1:]) for word in rest.split("_") if word[:1] == "v"), 0)
    return ANSWERS[name], version


def document(vector: Vector, data: bytes, framed: bool) -> Document:
    if vector.kind == "request":
        decoded, damage = request_document(data, framed)
    else:
        decoded, damage = response_document(data, framed, *answered(vector))
    assert damage is None
    return decoded


def holds(expected: Any, got: Any, where: str = "") -> None:
    """Everything a vector says is in what we decoded; lists are as long."""
    if isinstance(expected, dict):
        for key in expected.keys() - REMARKS:
            assert key in got, f"{where}.{key}"
            holds(expected[key], got[key], f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(got) == len(expected), where
        for number, item in enumerate(expected):
            holds(item, got[number], f"{where}[{number}]")
    else:
        assert got == expected, where


def as_json(decoded: Document) -> Any:
    return json.loads(json.dumps(decoded))


def test_nothing_is_left_out_but_what_is_for_later_by_name() -> None:
    rows = json.loads(wire_vectors.FILE.read_text())["vectors"]
    names = {row["name"] for row in rows if row["protocol"] != "0.7"}
    assert wire_vectors.LATER.keys() <= names
    assert {vector.name for vector in wire_vectors.load()} == names - wire_vectors.LATER.keys()
    assert len(FRAMES) >= 35
    assert len(SETS) >= 16


@each("vector", FRAMES)
def test_a_frame_decodes_to_what_the_vector_says_and_nothing_more(vector: Vector) -> None:
    decoded = as_json(document(vector, vector.data, vector.framed))
    holds(vector.decoded, decoded)
    if "message_set_bytes" not in json.dumps(decoded):
        assert decoded == {key: value for key, value in vector.decoded.items() if key not in REMARKS}


@each("vector", FRAMES)
def test_a_frame_cut_at_any_byte_is_truncated(vector: Vector) -> None:
    for end in range(len(vector.data)):
        with pytest.raises(Truncated):
            document(vector, vector.data[:end], vector.framed)
    body = vector.data[4:] if vector.framed else vector.data
    for end in range(len(body)):
        with pytest.raises(Truncated):
            document(vector, body[:end], False)


@each("vector", FRAMES)
def test_a_frame_with_a_tail_names_the_bytes_left_over(vector: Vector) -> None:
    body = vector.data[4:] if vector.framed else vector.data
    for data, framed in ((vector.data, vector.framed), (body, False)):
        with pytest.raises(LeftOver, match="3 bytes left over") as caught:
            document(vector, data + b"\0\0\1", framed)
        assert caught.value.count == 3


@each("vector", of_kind("request"))
def test_a_request_is_written_again_byte_for_byte(vector: Vector) -> None:
    head = vector.decoded
    api, version = apis.api(head["api_key"]), head["api_version"]
    header = framing.request_header(api.key, version, head["correlation_id"], head["client_id"], 0)
    body = api.encode_request(version, api.decode_request(version, vector.data[len(header) :]))
    written = framing.request_header(api.key, version, head["correlation_id"], head["client_id"], len(body)) + body
    assert written == vector.data


@each("vector", of_kind("response"))
def test_a_response_is_written_again_byte_for_byte(vector: Vector) -> None:
    api, version = answered(vector)
    skip = framing.HEADER_BYTES if vector.framed else 4
    body = vector.data[skip:]
    assert api.encode_reply(version, api.decode_reply(version, body)) == body
    if vector.framed:
        assert framing.reply_header(vector.data) == (len(body), vector.decoded["correlation_id"])


@each("vector", SETS)
def test_a_set_decodes_to_what_the_vector_says(vector: Vector) -> None:
    decoded, damage = set_document(vector.data)
    holds(vector.decoded, as_json(decoded))
    assert (damage is not None) == ("result" in vector.decoded)


@each("vector", SETS)
def test_a_set_cut_at_any_byte_is_a_shorter_set(vector: Vector) -> None:
    whole, _ = set_document(vector.data)
    for end in range(len(vector.data)):
        cut, damage = set_document(vector.data[:end])
        assert damage is None
        assert cut["messages"] == whole["messages"][: len(cut["messages"])]
        assert cut["valid_bytes"] + cut["ignored_tail_bytes"] == end
        assert len(cut["messages"]) < len(whole["messages"]) or cut["valid_bytes"] == whole["valid_bytes"]


@each("vector", [v for v in SETS if not {"result", "batch"} & v.decoded.keys()])
def test_a_set_is_written_again(vector: Vector) -> None:
    fetched, found = messages.message_set("t", 0, messages.LOWEST, memoryview(vector.data), -1)
    read = list(fetched.messages())
    rows = [(m.offset, m.key, m.value, m.timestamp_ms) for m in read]
    (codec,) = fetched.codecs
    written = messages.encode(rows, codec, fetched.format)
    if codec == 0 and not any(m.timestamp_type for m in read):
        assert written == vector.data[: found.end]
    again, _ = messages.message_set("t", 0, messages.LOWEST, memoryview(written), -1)
    assert [(m.offset, m.key, m.value, m.timestamp_ms) for m in again.messages()] == rows
    assert again.resume_at == fetched.resume_at


def test_a_fetch_inside_the_wrapper_leaves_out_what_came_before() -> None:
    data = memoryview(named("v0_gzip_wrapper_absolute").data)
    fetched, _ = messages.message_set("t", 0, 101, data, 103)
    assert [(m.offset, m.value, m.resume_at) for m in fetched.messages()] == [(101, b"g1", 102), (102, b"g2", 103)]


@each(
    ("name", "record"),
    [
        ("offsets_topic_key_v0", offsetrecords.OFFSET_KEY),
        ("offsets_topic_key_v1", offsetrecords.OFFSET_KEY),
        ("offsets_topic_value_v0", offsetrecords.OFFSET_VALUE),
    ],
)
def test_a_record_decodes_whole_cut_and_with_a_tail(name: str, record: offsetrecords.Record) -> None:
    vector = named(name)
    decoded = record.decode(vector.data)
    text = {key: bytes(value).decode() if isinstance(value, memoryview) else value for key, value in decoded.items()}
    assert text == vector.decoded
    assert encoded(record, decoded) == vector.data
    for end in range(len(vector.data)):
        with pytest.raises(Truncated):
            record.decode(vector.data[:end])
    with pytest.raises(LeftOver, match="1 bytes left over"):
        record.decode(vector.data + b"\0")


def test_a_group_lives_where_the_jvm_looks_for_it() -> None:
    decoded = named("offsets_topic_partition_for_group").decoded
    for case in decoded["cases"]:
        assert offsetrecords.group_partition(case["group"], decoded["num_partitions"]) == case["partition"]
