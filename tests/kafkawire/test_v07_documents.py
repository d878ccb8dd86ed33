"""`python -m kafkawire decode --protocol 0.7`: the vectors, what an original said; segment files of any release."""

from __future__ import annotations

import json
import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafkawire import compression
from kafkawire.__main__ import main
from kafkawire.decode import v07, v08
from kafkawire.decode.documents import show_log
from kafkawire.decode.v07 import RESPONSES, request_document, response_document, set_document
from kafkawire.formats.v01.messages import encode as encode08
from kafkawire.formats.v07.messages import encode, message_set
from kafkawire.formats.v07.write import entry
from tests.kafkawire.test_wire_vectors import holds
from tests.kafkawire.wire_vectors import Vector
from tests.kafkawire.wire_vectors07 import exchanges, live, load, named, of_kind

SET = ["--kind", "message-set"]
# What a vector says in other words than a document: of a set's only entry, of prose, of what a checksum would be.
REMARKS = {"entry_bytes", "response", "size", "crc_stored", "crc_computed", "result", "wrapper", "fetch_offset"}


def decode(*arguments: str, stdin: bytes = b"", protocol: str = "0.7") -> Result:
    return CliRunner().invoke(main, ["decode", "--protocol", protocol, *arguments], input=stdin)


def document(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def expected(vector: Vector) -> dict[str, Any]:
    out = {key: value for key, value in vector.decoded.items() if key not in REMARKS}
    if "produces" in out:
        for part in out["produces"]:
            part["messages"] = [{"payload_utf8": payload} for payload in part.pop("payloads")]
    return out


@pytest.mark.parametrize("vector", of_kind("message-set"), ids=str)
def test_a_set_says_what_its_vector_says(vector: Vector) -> None:
    start = vector.decoded.get("fetch_offset", 0)
    decoded, damage = set_document(vector.data, start)
    holds(expected(vector), decoded)
    if "result" in vector.decoded:
        assert damage is not None
        assert decoded["result"].startswith(vector.decoded["result"])
        assert damage.why.endswith(f"stored {vector.decoded['crc_stored']}, computed {vector.decoded['crc_computed']}")
    else:
        assert damage is None
    if "wrapper" in vector.decoded:
        holds(vector.decoded["wrapper"], decoded["wrappers"][0])


@pytest.mark.parametrize("vector", of_kind("message-set"), ids=str)
def test_a_set_cut_anywhere_is_what_is_whole_of_it(vector: Vector) -> None:
    whole, found = message_set("t", 0, 0, memoryview(vector.data), None)
    ends = [0, *(run.end for run in whole.runs)]
    for cut in range(len(vector.data)):
        decoded, _ = set_document(vector.data[:cut])
        assert decoded["valid_bytes"] in range(found.end + 1)
        assert decoded["valid_bytes"] >= max(end for end in ends if end <= cut) or "result" in decoded


@pytest.mark.parametrize("vector", of_kind("request"), ids=str)
def test_a_request_says_what_its_vector_says(vector: Vector) -> None:
    decoded, damage = request_document(vector.data, vector.framed)
    assert damage is None
    holds(expected(vector), decoded)
    for cut in range(len(vector.data)):
        result = decode("--kind", "request", "--framed", "-", stdin=b"\xff" if not cut else vector.data[:cut])
        assert (result.exit_code, result.stdout) == (1, "")


@pytest.mark.parametrize("vector", [*of_kind("response-fetch"), *of_kind("response-offsets")], ids=str)
def test_a_response_says_what_its_vector_says(vector: Vector) -> None:
    api = vector.kind.partition("-")[2]
    decoded, damage = response_document(vector.data, vector.framed, api, vector.decoded.get("fetch_offset", 0))
    assert damage is None
    holds(expected(vector), decoded)


def test_no_vector_of_0_7_is_left_out() -> None:
    kinds = {"message-set", "request", "response-fetch", "response-offsets"}
    assert {vector.kind for vector in load()} == kinds


def test_every_frame_of_an_original_can_be_shown() -> None:
    """But those that were sent to be refused: their sizes and ids make no sense."""
    shown = refused = 0
    for each in exchanges():
        result = decode("--kind", "request", "--framed", "-", stdin=each.request)
        if result.exit_code == 1 and each.name.startswith("raw_"):
            refused += 1
            continue
        asked = document(result)
        shown += 1
        if each.response:
            api = ["", "fetch", "multifetch", "", "offsets"][asked["request_id"]]
            answered = document(decode("--kind", "response", "--api", api, "--framed", "-", stdin=each.response))
            assert "error" in answered
    assert shown > 45
    assert refused >= 5


def test_positions_and_commits_in_wrappers_are_those_of_an_original() -> None:
    """Two wrappers of five messages each, then two plain ones: what stood in ZooKeeper after k of them."""
    recorded = live()["commit_in_wrapper"]
    first, second = (encode([(0, None, b"x", None)] * 5, codec) for codec in (1, 2))
    data = first + second + encode([(0, None, b"c0", None), (0, None, b"c1", None)])
    ends = [0, len(first), len(first) + len(second)]
    ends += [ends[2] + 12, ends[2] + 24]
    place = dict(zip(recorded["entries"], ends, strict=True))
    messages = set_document(data)[0]["messages"]
    for count, committed in recorded["committed"].items():
        assert messages[int(count) - 1]["safe_commit"] == place[committed], count


def test_a_message_larger_than_the_fetch_says_how_many_bytes_it_needs() -> None:
    decoded = document(decode(*SET, encode([(0, None, b"long enough", None)])[:12].hex()))
    told = {"fetch_offset": 0, "messages": [], "valid_bytes": 0, "ignored_tail_bytes": 12, "needed_bytes": 21}
    assert decoded == told


def test_magic_0_has_no_attributes_and_bytes_are_text_or_hex() -> None:
    data = encode([(0, None, b"\xff", None)], 0, -2) + encode([(0, None, "grüße".encode(), None)])
    first, second = document(decode(*SET, data.hex()))["messages"]
    assert first == {
        "start": 0, "next_offset": 10, "safe_commit": 10, "magic": 0, "crc32": "ff000000", "payload_hex": "ff",
    }  # fmt: skip
    assert (second["attributes"], second["codec"], second["payload_utf8"]) == (0, "none", "grüße")


def test_a_set_that_is_one_wrapper_shows_it() -> None:
    decoded = document(decode(*SET, encode([(0, None, b"a", None)] * 3, 2).hex()))
    assert (decoded["wrapper"]["codec"], decoded["wrapper"]["framing"]) == ("snappy", "xerial")
    assert len(decoded["messages"]) == 3


def test_a_wrapper_says_how_much_of_it_is_a_cut_entry() -> None:
    whole, cut = encode([(0, None, b"whole", None)]), encode([(0, None, b"cut", None)])[:-1]
    data = entry(compression.compress(1, whole + cut), 1)
    shown = document(decode(*SET, data.hex()))
    assert [message["payload_utf8"] for message in shown["messages"]] == ["whole"]
    assert (shown["wrapper"]["ignored_tail_bytes"], shown["ignored_tail_bytes"]) == (12, 0)
    assert (shown["messages"][0]["safe_commit"], shown["next_fetch_offset"]) == (len(data), len(data))


@pytest.mark.parametrize("codec", [0, 1])
def test_a_corrupt_set_exits_1_with_the_position_and_prints_what_is_before(codec: int) -> None:
    good, bad = encode([(0, None, b"good", None)]), bytearray(encode([(0, None, b"bad", None)], codec))
    bad[-1] ^= 1
    result = decode(*SET, "--start-offset", "100", (good + bad).hex())
    assert result.exit_code == 1
    assert "kafkawire: entry at byte 14 (offset 114): crc mismatch, stored" in result.stderr
    decoded = json.loads(result.stdout)
    assert [message["payload_utf8"] for message in decoded["messages"]] == ["good"]
    assert (decoded["valid_bytes"], decoded["result"]) == (14, "crc mismatch at offset 114")


def test_a_corrupt_set_in_a_request_names_its_partition() -> None:
    data = bytearray(named("k07_produce_request").data)
    data[-1] ^= 1
    result = decode("--kind", "request", "--framed", data.hex())
    assert result.exit_code == 1
    assert "the set of test/0: entry at byte 0 (offset 0): crc mismatch" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--kind", "request", "0005"], 1, "unknown request id 5 for Kafka 0.7"),
        (["--kind", "request", "0002ffff"], 1, "multifetch request at byte 2: -1 partitions"),
        (["--kind", "request", "00010001610000"], 1, "4 bytes wanted at byte 5, 2 left"),
        (["--kind", "response", "--api", "offsets", "00007fffffff"], 1, "2147483647 elements cannot fit"),
        (["--kind", "response", "--api", "offsets", "0000ffffffff"], 1, "-1 offsets"),
        (["--kind", "response", "--api", "multifetch", "00000000000a0000"], 1, "10 bytes wanted at byte 6"),
        (["--kind", "response", "0000"], 2, "give --api"),
        (["--kind", "response", "--api", "produce", "0000"], 2, "--api produce: responses of Kafka 0.7 are fetch"),
        (["--kind", "response", "--api", "fetch", "--version", "0", "0000"], 2, "of Kafka 0.7 have none"),
        (["--kind", "request", "--api", "fetch", named("k07_offsets_request_latest").data[4:].hex()], 2, "is offsets"),
        (["--kind", "request", "--version", "0", named("k07_offsets_request_latest").data[4:].hex()], 2, "have none"),
        (["--kind", "message-set", "--framed", "00"], 2, "a message set has neither frame"),
        (["--kind", "log", "--api", "fetch", "00"], 2, "--api: a log has neither frame nor api"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(arguments: list[str], code: int, said: str) -> None:
    result = decode(*arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr


def test_responses_are_those_that_come() -> None:
    for api in RESPONSES:
        assert decode("--kind", "response", "--api", api, "0001").exit_code in (0, 1)


# ---- segment files ---------------------------------------------------------------------------------------------


def lines(result: Result) -> tuple[list[Any], Any]:
    """The messages of a log, and its last line."""
    assert result.exit_code in (0, 1), result.output
    *messages, last = map(json.loads, result.stdout.splitlines())
    return messages, last


def test_a_segment_of_0_7_begins_at_the_position_in_its_name(tmp_path: Path) -> None:
    segment = tmp_path / f"{123456:020}.kafka"
    segment.write_bytes(encode([(0, None, b"a", None), (0, None, b"b", None)]) + b"\0\0\0\x0b\1\0c")
    messages, last = lines(decode("--kind", "log", str(segment)))
    assert [message["start"] for message in messages] == [123456, 123467]
    assert last == {
        "base_offset": 123456, "valid_bytes": 22, "ignored_tail_bytes": 7, "next_fetch_offset": 123478
    }  # fmt: skip


def test_a_segment_without_such_a_name_has_its_position_given(tmp_path: Path) -> None:
    segment = tmp_path / "copy.kafka"
    segment.write_bytes(encode([(0, None, b"a", None)]))
    result = decode("--kind", "log", str(segment))
    assert (result.exit_code, "give --start-offset" in result.stderr) == (2, True)
    decoded = lines(decode("--kind", "log", "--start-offset", "70", str(segment)))
    assert decoded[0][0]["start"] == 70
    assert lines(decode("--kind", "log", "--start-offset", "70", "-", stdin=segment.read_bytes())) == decoded


def test_a_segment_is_raw_even_where_it_reads_as_hex(tmp_path: Path) -> None:
    segment = tmp_path / f"{0:020}.kafka"
    segment.write_bytes(b"00 00")
    result = decode("--kind", "log", str(segment))
    assert result.exit_code == 1
    assert "unknown magic 48" in result.stderr


def test_a_segment_of_later_releases_has_offsets_and_free_room(tmp_path: Path) -> None:
    segment = tmp_path / f"{7:020}.log"
    data = encode08([(7, b"k", b"a\0\0", None), (9, None, b"b\0\0", None)])
    segment.write_bytes(data + bytes(5000))
    messages, last = lines(decode("--kind", "log", str(segment), protocol="0.8.2"))
    assert [message["offset"] for message in messages] == [7, 9]
    assert last == {
        "base_offset": 7, "valid_bytes": len(data), "ignored_tail_bytes": 0, "next_fetch_offset": 10,
        "empty_tail_bytes": 5000,
    }  # fmt: skip
    messages, _ = lines(decode("--kind", "log", "--start-offset", "8", str(segment), protocol="0.8.2"))
    assert [message["offset"] for message in messages] == [9]


def test_a_segment_is_shown_as_it_is_read_with_a_wrapper_before_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrappers open to more than one document may, and each of them to less."""
    monkeypatch.setattr(v08, "OPEN_LIMIT", 1000)
    rows = [(n, None, bytes(300), None) for n in range(6)]
    data = b"".join(bytes(encode08(rows[n : n + 2], 1)) for n in (0, 2, 4))
    said = lines(decode("--kind", "log", "-", stdin=data, protocol="0.8.2"))[0]
    assert [one.get("offset", "wrapper") for one in said] == ["wrapper", 0, 1, "wrapper", 2, 3, "wrapper", 4, 5]
    assert said[3]["wrapper"]["holds"] == {"messages": 2, "from": 2, "first_offset": 2, "last_offset": 3}
    assert decode(*SET, "-", stdin=data, protocol="0.8.2").exit_code == 1


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize(("parts", "encoded"), [(v08.parts, encode08), (v07.parts, encode)])
def test_what_is_shown_of_a_segment_is_not_kept(parts: Any, encoded: Any, codec: int) -> None:
    rows = [(n, None, bytes(90), None) for n in range(5000)]
    data = b"".join(bytes(encoded(rows[n : n + 50], codec)) for n in range(0, 5000, 50))
    tracemalloc.start()
    try:
        assert show_log(parts(data, 0), data, 0, lambda line: None) is None
        assert tracemalloc.get_traced_memory()[1] < 500_000  # the documents of all 5000 take 5 MB
    finally:
        tracemalloc.stop()


def test_a_damaged_segment_is_shown_up_to_the_damage(tmp_path: Path) -> None:
    segment = tmp_path / f"{0:020}.kafka"
    good = encode([(0, None, b"good", None)])
    segment.write_bytes(good + struct.pack(">iBBI", 9, 1, 0, zlib.crc32(b"?")) + b"bad" + good)
    result = decode("--kind", "log", str(segment))
    assert result.exit_code == 1
    assert f"entry at byte {len(good)} (offset {len(good)}): crc mismatch" in result.stderr
    messages, last = lines(result)
    assert (len(messages), last["valid_bytes"], last["result"]) == (1, len(good), f"crc mismatch at offset {len(good)}")


def test_a_segment_of_the_other_generation_is_told_by_its_name(tmp_path: Path) -> None:
    for name, protocol in ((f"{0:020}.kafka", "0.8"), (f"{0:020}.log", "0.7")):
        segment = tmp_path / name
        segment.write_bytes(b"")
        result = decode("--kind", "log", str(segment), protocol=protocol)
        assert result.exit_code == 2
        assert "segments of this release end in" in result.stderr
    missing = decode("--kind", "log", str(tmp_path / "none.kafka"))
    assert (missing.exit_code, "cannot be read as a file" in missing.stderr) == (2, True)


def test_a_wrapper_that_does_not_open_is_told_with_its_position() -> None:
    bad = struct.pack(">iBBI", 6 + 3, 1, 2, zlib.crc32(b"bad")) + b"bad"
    result = decode(*SET, (encode([(0, None, b"good", None)], 1) + bad).hex())
    assert result.exit_code == 1
    assert "snappy" in result.stderr
    assert compression.CODEC_NAMES[1] in result.stdout
