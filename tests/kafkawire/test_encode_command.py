"""`python -m kafkawire encode`: the way back from the JSON of decode, of both generations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.__main__ import main
from kafkawire.errors import WireError
from kafkawire.generations import generation
from kafkawire.v07 import document as document07
from kafkawire.v07 import messages as m7
from kafkawire.v07 import writedocument as write07
from kafkawire.v08 import document as document08
from kafkawire.v08 import messages as m8
from kafkawire.v08 import writedocument as write08
from tests.kafkawire import wire_vectors, wire_vectors07
from tests.kafkawire.test_v07_messages import GROUPS, built
from tests.kafkawire.test_wire_vectors import answered
from tests.kafkawire.wire_vectors import Vector

COMPRESSED = {"crc32", "hc_byte", "entry_bytes", "position", "valid_bytes", "message_set_bytes"}
MOVED = {"start", "next_offset", "safe_commit", "next_fetch_offset", "ignored_tail_bytes", "needed_bytes", "framing"}


def encode(document: Any, *arguments: str, protocol: str = "0.7", kind: str = "message-set") -> Result:
    text = document if isinstance(document, str) else json.dumps(document)
    command = ["encode", "--protocol", protocol, "--kind", kind, *arguments, "-"]
    return CliRunner().invoke(main, command, input=text.encode("utf-8", "surrogatepass"))


def refused(document: Any, *arguments: str, protocol: str = "0.7", kind: str = "message-set") -> str:
    """The one sentence it is refused with."""
    result = encode(document, *arguments, protocol=protocol, kind=kind)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("kafkawire: ")
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("kafkawire: ").strip()


def as_json(document: Any) -> Any:
    return json.loads(json.dumps(document))


def what_it_says(document: Any) -> Any:
    """Without what is different once something was compressed anew."""
    if isinstance(document, dict):
        return {k: what_it_says(v) for k, v in document.items() if k not in COMPRESSED | MOVED}
    return [what_it_says(each) for each in document] if isinstance(document, list) else document


def said_whole(document: Any) -> bool:
    """Whether all bytes are in a document: nothing was compressed, and no entry was cut."""
    if isinstance(document, dict):
        cut = document.get("ignored_tail_bytes") or "wrapper" in document or "wrappers" in document
        return not cut and all(said_whole(each) for each in document.values())
    return all(map(said_whole, document)) if isinstance(document, list) else True


# ---- 0.7 -------------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(groups=GROUPS, start=st.integers(0, 1 << 50))
def test_a_set_of_0_7_comes_back_from_its_document(
    groups: list[tuple[list[bytes], tuple[int, int]]], start: int
) -> None:
    data, _ = built(groups, start)
    document, _ = document07.set_document(data, start)
    again = write07.set_bytes(as_json(document))
    if not any(codec and values for values, (codec, _) in groups):
        assert again == data
    assert what_it_says(document07.set_document(again, start)[0]) == what_it_says(document)
    whole, twin = (m7.message_set("t", 0, start, memoryview(each), None)[0] for each in (data, again))
    assert [x.value for x in twin.messages()] == [x.value for x in whole.messages()]
    assert [(run.codec, run.magic, run.entries) for run in twin.runs] == [
        (run.codec, run.magic, run.entries) for run in whole.runs
    ]


@pytest.mark.parametrize("exchange", wire_vectors07.exchanges(), ids=str)
def test_what_an_original_said_comes_back(exchange: wire_vectors07.Exchange) -> None:
    try:
        asked, damage = document07.request_document(exchange.request, True)
    except WireError:
        assert exchange.name.startswith("raw_")  # what makes no sense has no document
        return
    if damage is None and said_whole(asked):
        assert write07.request_bytes(as_json(asked), True) == exchange.request
    if exchange.response:
        api = document07.REQUESTS[asked["request_id"]]
        told, _ = document07.response_document(exchange.response, True, api)
        again = write07.response_bytes(as_json(told), True, api)
        twin, _ = document07.response_document(again, True, api)
        assert twin.get("messages", []) == told.get("messages", [])
        if said_whole(told):
            assert again == exchange.response


@pytest.mark.parametrize("vector", wire_vectors07.of_kind("request"), ids=str)
def test_a_request_of_0_7_comes_back_by_the_commands(vector: Vector, tmp_path: Path) -> None:
    run = CliRunner().invoke
    decoded = run(main, ["decode", "--protocol", "0.7", "--kind", "request", "--framed", vector.data.hex()])
    (tmp_path / "request.json").write_text(decoded.stdout)
    command = ["encode", "--protocol", "0.7", "--kind", "request", "--framed", str(tmp_path / "request.json")]
    assert run(main, command).stdout == vector.data.hex() + "\n"
    assert run(main, [*command[:-1], "--raw", command[-1]]).stdout_bytes == vector.data


def test_an_attribute_no_one_knows_and_an_empty_wrapper_come_back() -> None:
    data = m7.wrap([(0, None, b"x", None)], 1)
    data = data[:5] + bytes([data[5] | 0xF0]) + data[6:]
    assert write07.set_bytes(document07.set_document(data)[0])[5] == 0xF1
    empty = write07.set_bytes({"wrapper": {"codec": "snappy"}, "messages": []})
    assert [*m7.message_set("t", 0, 0, memoryview(empty), None)[0].messages()] == []


def test_a_hand_written_document_needs_only_what_it_says() -> None:
    written = encode({"messages": [{"payload_utf8": "hello"}, {"magic": 0, "payload_hex": "ff00"}]})
    assert bytes.fromhex(written.stdout) == m7.encode([(0, None, b"hello", None)]) + m7.encode(
        [(0, None, b"\xff\0", None)], 0, -2
    )
    several = {
        "wrappers": [{"codec": "gzip", "holds": {"from": 1, "messages": 2}}],
        "messages": [{"payload_utf8": text} for text in "abcd"],
    }
    found = m7.message_set("t", 0, 0, memoryview(bytes.fromhex(encode(several).stdout)), None)[0]
    assert [(run.codec, run.entries) for run in found.runs] == [(0, 1), (1, 1), (0, 1)]
    assert [x.value for x in found.messages()] == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("", "standard input is no JSON document: Expecting value: line 1 column 1 (char 0)"),
        ("{", "standard input is no JSON document: Expecting property name"),
        ('{"messages": [], "messages": []}', "the name 'messages' is given twice"),
        ('{"messages": NaN}', "NaN is no number"),
        ("[" * 100_000, "standard input is no JSON document: maximum recursion depth"),
        ("[]", "the document: an object is expected, not []"),
        ({"messages": {}}, "messages: a list is expected, not {}"),
        ({"messages": [5]}, "messages[0]: an object is expected, not 5"),
        ({"messages": [{}]}, "messages[0] needs one of payload_utf8, payload_hex and payload: null"),
        ({"messages": [{"payload_utf8": "a", "payload_hex": "61"}]}, "messages[0] needs one of payload_utf8"),
        ({"messages": [{"payload": None}]}, "a message of Kafka 0.7 cannot be null"),
        ({"messages": [{"payload": "a"}]}, "messages[0].payload: only null is given so"),
        ({"messages": [{"payload_hex": "6"}]}, "messages[0].payload_hex: '6' is not hex"),
        ({"messages": [{"payload_utf8": 7}]}, "messages[0].payload_utf8: text is expected, not 7"),
        ('{"messages": [{"payload_utf8": "\\ud800"}]}', "is not utf8"),
        ({"messages": [{"payload_utf8": "a", "magic": 2}]}, "messages[0].magic: 2 is none of Kafka 0.7"),
        ({"messages": [{"payload_utf8": "a", "magic": True}]}, "messages[0].magic: a number is expected, not True"),
        ({"messages": [{"payload_utf8": "a", "attributes": 1}]}, "a message with a codec is a wrapper"),
        ({"messages": [{"payload_utf8": "a", "codec": "gzip"}]}, "a message with a codec is a wrapper"),
        ({"messages": [{"payload_utf8": "a", "codec": "zip"}]}, "unknown codec 'zip'; known are none, gzip"),
        ({"messages": [{"payload_utf8": "a", "magic": 0, "attributes": 4}]}, "4 has no place in magic 0"),
        ({"messages": [{"payload_utf8": "a", "attributes": 256}]}, "256 has no place in magic 1"),
        ({"messages": [{"payload_utf8": "a", "crc32": "00000000"}]}, "crc32: 00000000, and the payload's is e8b7be43"),
        ({"messages": [{"payload_utf8": "a", "key_utf8": "k"}]}, "messages[0] has no field key_utf8"),
        ({"messages": [], "mesages": []}, "the document has no field mesages"),
        ({"messages": [], "result": "crc mismatch at offset 3"}, "the bytes this was made of were damaged"),
        ({"messages": [], "wrapper": {"codec": "lz4"}}, "wrapper.codec: Kafka 0.7 has gzip and snappy"),
        ({"messages": [], "wrapper": {"codec": "gzip", "attributes": 2}}, "attributes: 2 does not say codec 1"),
        ({"messages": [], "wrapper": {"codec": "gzip", "magic": 0}}, "only magic 1 of Kafka 0.7 has a codec"),
        ({"messages": [], "wrapper": {"codec": "gzip", "holds": {}}}, "wrapper has no field holds"),
        ({"messages": [], "wrappers": [{"codec": "gzip"}]}, "wrappers[0] needs a field holds"),
        (
            {"messages": [], "wrappers": [{"codec": "gzip", "holds": {"from": 0, "messages": 1}}]},
            "wrappers[0].holds: 1 messages from 0 on, of 0; 0 are before them",
        ),
    ],
)
def test_a_set_that_makes_no_sense_is_one_sentence(document: Any, said: str) -> None:
    assert said in refused(document)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({}, "the document needs a field request_id"),
        ({"request_id": 5}, "request_id 5 is none of Kafka 0.7"),
        ({"request_id": 1, "topic": "t", "partition": 0, "offset": 0}, "the document needs a field max_bytes"),
        ({"request_id": 1, "topic": "t", "partition": 1 << 31, "offset": 0, "max_bytes": 1}, "does not fit 32 bits"),
        ({"request_id": 1, "topic": "t" * 40_000, "partition": 0, "offset": 0, "max_bytes": 1}, "does not fit 16 bits"),
        ({"request_id": 2, "fetches": [{"topic": "t"}]}, "fetches[0] needs a field partition"),
        (
            {"request_id": 3, "produces": [{"topic": "t", "partition": 0, "messages": [1]}]},
            "produces[0].messages[0]: an",
        ),
        ({"request_id": 4, "topic": 4}, "topic: text is expected, not 4"),
    ],
)
def test_a_request_that_makes_no_sense_is_one_sentence(document: Any, said: str) -> None:
    assert said in refused(document, kind="request")


def test_a_response_that_makes_no_sense_is_one_sentence() -> None:
    assert "offsets[1]" in refused({"error": 0, "offsets": [1, "2"]}, "--api", "offsets", kind="response")
    assert "has no field offsets" in refused({"error": 0, "offsets": []}, "--api", "fetch", kind="response")
    assert "sets[0] needs a field error" in refused({"error": 0, "sets": [{}]}, "--api", "multifetch", kind="response")


def test_options_that_say_nothing_are_mistakes(tmp_path: Path) -> None:
    for arguments, said in (
        (["--framed"], "a message set has no frame"),
        (["--api", "fetch"], "--api: a message set has no frame, and no api"),
        (["--version", "1"], "--version: a message set"),
    ):
        result = encode({"messages": []}, *arguments)
        assert (result.exit_code, said in result.stderr) == (2, True)
    missing = CliRunner().invoke(main, ["encode", "--protocol", "0.7", "--kind", "log", str(tmp_path / "none")])
    assert (missing.exit_code, "does not exist" in missing.stderr) == (2, True)
    asked = {"request_id": 4, "topic": "t", "partition": 0, "time": -1, "max_offsets": 1}
    wrong = encode(asked, "--api", "fetch", kind="request")
    assert (wrong.exit_code, "the request says it is offsets" in wrong.stderr) == (2, True)


def test_a_segment_file_comes_back(tmp_path: Path) -> None:
    run = CliRunner().invoke
    for protocol, data in (("0.7", m7.encode([(0, None, b"a", None)])), ("0.8", m8.encode([(7, b"k", b"a", None)]))):
        segment = tmp_path / f"{7:020}{generation(protocol).suffix}"
        segment.write_bytes(data)
        decoded = run(main, ["decode", "--protocol", protocol, "--kind", "log", str(segment)])
        assert encode(decoded.stdout, "--raw", protocol=protocol, kind="log").stdout_bytes == data


# ---- 0.8 to 0.10 -----------------------------------------------------------------------------------------------

FRAMES = [*wire_vectors.of_kind("request"), *wire_vectors.of_kind("response")]


@pytest.mark.parametrize("vector", FRAMES, ids=str)
def test_a_frame_of_0_8_comes_back_from_its_document(vector: Vector) -> None:
    if vector.kind == "request":
        document, _ = document08.request_document(vector.data, vector.framed)
        again = write08.request_bytes(as_json(document), vector.framed)
        twin, _ = document08.request_document(again, vector.framed)
    else:
        document, _ = document08.response_document(vector.data, vector.framed, *answered(vector))
        again = write08.response_bytes(as_json(document), vector.framed, *answered(vector))
        twin, _ = document08.response_document(again, vector.framed, *answered(vector))
    if said_whole(document):
        assert again == vector.data
    assert what_it_says(twin) == what_it_says(document)


@pytest.mark.parametrize("vector", wire_vectors.of_kind("message-set"), ids=str)
def test_a_set_of_0_8_comes_back_from_its_document(vector: Vector) -> None:
    document, damage = document08.set_document(vector.data)
    if damage is not None:
        with pytest.raises(m8.CorruptMessage):
            raise damage
        return
    again = write08.set_bytes(as_json(document))
    if "wrapper" not in document and "wrappers" not in document:
        assert again == vector.data[: document["valid_bytes"]]
    assert what_it_says(document08.set_document(again)[0]) == what_it_says(document)


NOTHING = {"key": None, "value": None}
OCTETS = st.none() | st.binary(max_size=30)
ROWS = st.lists(st.tuples(OCTETS, OCTETS, st.integers(-1, 1 << 60)), min_size=1, max_size=5)


@settings(max_examples=80, deadline=None)
@given(groups=st.lists(st.tuples(ROWS, st.sampled_from([0, 1, 2, 3])), max_size=4), magic=st.integers(0, 1))
def test_sets_of_0_8_come_back(groups: list[tuple[list[Any], int]], magic: int) -> None:
    data, offset = b"", 100
    for rows, codec in groups:
        numbered = [(offset + n, key, value, stamp) for n, (key, value, stamp) in enumerate(rows)]
        data, offset = data + m8.encode(numbered, codec, magic), offset + len(rows)
    document, _ = document08.set_document(data)
    again = write08.set_bytes(as_json(document))
    if not any(codec for _, codec in groups):
        assert again == data
    assert what_it_says(document08.set_document(again)[0]) == what_it_says(document)


def test_times_that_a_broker_set_come_back() -> None:
    for codec in (0, 1):
        document = {
            "messages": [
                {"offset": n, "key": None, "value_utf8": "a", "timestamp": 70, "timestamp_type": "LogAppendTime"}
                | ({} if codec else {"attributes": 8})
                for n in range(3)
            ]
        }
        if codec:
            outer = {"offset": 2, "magic": 1, "attributes": 9, "codec": "gzip", "timestamp": 70}
            document |= {"wrapper": outer | {"timestamp_type": "LogAppendTime"}}  # type: ignore[dict-item]
        found = document08.set_document(write08.set_bytes(document))[0]["messages"]
        assert [(x["timestamp"], x["timestamp_type"]) for x in found] == [(70, "LogAppendTime")] * 3


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"messages": [{"offset": 1}]}, "messages[0] needs one of key_utf8, key_hex and key: null"),
        ({"messages": [{"key": None, "value": None}]}, "messages[0] needs a field offset"),
        (
            {"messages": [{"offset": 1 << 63, "key": None, "value": None}]},
            "messages[0]: a message does not fit format v0",
        ),
        (
            {"messages": [{"offset": 1, "magic": 0, "timestamp": 5, "key": None, "value": None}]},
            "messages[0].timestamp: format v0 has no timestamps",
        ),
        ({"messages": [{"offset": 1, "magic": 2, "key": None, "value": None}]}, "format v2 is not written here"),
        (
            {
                "messages": [
                    {"offset": 1, "timestamp": 1, "timestamp_type": "LogAppendTime", "key": None, "value": None}
                ]
            },
            "timestamp_type: LogAppendTime, and attributes 0 say CreateTime",
        ),
        ({"messages": [{"offset": 1, "attributes": 1, "key": None, "value": None}]}, "is a wrapper"),
        ({"messages": [{"offset": 1, "attributes": 512, "key": None, "value": None}]}, "512 is no byte"),
        (
            {"messages": [{"offset": 1, "crc32": "00000000", "key": None, "value": None}]},
            "messages[0].crc32: 00000000, and the message's is",
        ),
        (
            {
                "messages": [{"offset": 1, "timestamp": 1, "key": None, "value": None}],
                "wrapper": {"offset": 2, "magic": 1, "codec": "gzip", "timestamp": 1},
            },
            "wrapper.offset: 2, and its last message's is 1",
        ),
        (
            {
                "messages": [{"offset": 1, "timestamp": 1, "key": None, "value": None}],
                "wrapper": {"offset": 1, "magic": 0, "codec": "gzip"},
            },
            "wrapper.magic: format v0 has no timestamps, and its messages have",
        ),
        ({"messages": [], "wrapper": {"offset": 1, "codec": "none"}}, "does not say codec 0, or there is none"),
    ],
)
def test_a_set_of_0_8_that_makes_no_sense_is_one_sentence(document: Any, said: str) -> None:
    assert said in refused(document, protocol="0.8")


HEAD = {"api_key": 3, "api_version": 0, "correlation_id": 1, "client_id": None}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (HEAD, "the document needs a field topics"),
        (HEAD | {"topics": "t"}, "topics: a list is expected, not 't'"),
        (HEAD | {"topics": [5]}, "topics[0]: text is expected, not 5"),
        (HEAD | {"topics": [None]}, "topics: null where a string must be"),
        (HEAD | {"topics": None}, "topics: null where an array must be"),
        (HEAD | {"topics": [], "more": 1}, "the document has no field more"),
        (HEAD | {"topics": [], "client_id": 5}, "client_id: text is expected, not 5"),
        (HEAD | {"topics": [], "api_key": 99}, "api key 99 is none we speak"),
        (HEAD | {"topics": [], "api_version": 9}, "Metadata is known in versions 0 to 1, not 9"),
        (HEAD | {"topics": [], "correlation_id": 1 << 40}, "does not fit 32 bits"),
        (
            HEAD | {"api_key": 1, "replica_id": -1, "max_wait_ms": 0, "min_bytes": None, "topics": []},
            "min_bytes: null where a value must be",
        ),
        (
            HEAD | {"api_key": 1, "replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "topics": [{"topic": "t"}]},
            "topics[0] needs a field partitions",
        ),
    ],
)
def test_a_request_of_0_8_that_makes_no_sense_is_one_sentence(document: Any, said: str) -> None:
    assert said in refused(document, protocol="0.8", kind="request")


def test_rows_of_numbers_are_as_long_as_they_are() -> None:
    arguments = ("--api", "api_versions", "--version", "0")
    document = {"correlation_id": 1, "error": 0, "api_versions": [[0, 0, 2], [1, 0]]}
    assert "api_versions[1]: 3 values are expected, not 2" in refused(
        document, *arguments, protocol="0.10", kind="response"
    )
