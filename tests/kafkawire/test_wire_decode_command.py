"""`python -m kafkawire decode`: one JSON document, or a sentence that says where the bytes go wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafkawire.__main__ import main
from kafkawire.formats.v01.messages import encode
from kafkawire.protocol import apis
from tests.kafkawire.wire_vectors import named

BLOB = named("metadata_response_v0_seed_blob")
METADATA = ["--kind", "response", "--api", "metadata", "--version", "0"]
SET = ["--kind", "message-set"]


def decode(*arguments: str, stdin: bytes = b"", protocol: str = "0.8") -> Result:
    return CliRunner().invoke(main, ["decode", "--protocol", protocol, *arguments], input=stdin)


def document(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_raw_metadata_answer_as_a_decimal_list() -> None:
    text = "<<" + ",".join(map(str, BLOB.data)) + ">>"
    assert text.startswith("<<0,0,0,0,0,0,0,3,0,0,0,3,0,25,118,97,103,114,97,110,116")
    assert document(decode(*METADATA, text)) == BLOB.decoded


def test_hex_lists_files_and_standard_input_are_the_same(tmp_path: Path) -> None:
    expected = BLOB.decoded
    texts = {
        "hex": BLOB.data.hex(),
        "spaced": BLOB.data.hex(" ", 4).upper() + "\n",
        "list": ", ".join(map(str, BLOB.data)) + "\n",
        "brackets": str(list(BLOB.data)),
    }
    for name, text in texts.items():
        assert document(decode(*METADATA, text)) == expected, name
        (tmp_path / name).write_text(text)
        assert document(decode(*METADATA, str(tmp_path / name))) == expected, name
        assert document(decode(*METADATA, "-", stdin=text.encode())) == expected, name
    (tmp_path / "raw").write_bytes(BLOB.data)
    assert document(decode(*METADATA, str(tmp_path / "raw"))) == expected
    assert document(decode(*METADATA, "-", stdin=BLOB.data)) == expected


def test_it_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "kafkawire", "decode", "--protocol", "0.8", *METADATA, BLOB.data.hex()]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout) == BLOB.decoded
    command[-1] = BLOB.data[:-1].hex()
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"kafkawire: Metadata v0 response at byte 307: 2 elements cannot fit the 7 bytes left\n"


def test_a_framed_request_says_itself_what_it_is() -> None:
    vector = named("offset_commit_request_v2")
    decoded = document(decode("--kind", "request", "--framed", vector.data.hex(), protocol="0.9"))
    assert decoded == {key: value for key, value in vector.decoded.items() if key != "stored_in"}


def test_bytes_are_text_or_hex_and_null_stays_null() -> None:
    rows = [(0, None, None, None), (1, b"k\xff", b"\xfe", None), (2, b"", "grüße".encode(), None)]
    messages = document(decode(*SET, encode(rows).hex()))["messages"]
    told = [{k: v for k, v in each.items() if k.startswith(("key", "value"))} for each in messages]
    assert told == [
        {"key": None, "value": None},
        {"key_hex": "6bff", "value_hex": "fe"},
        {"key_utf8": "", "value_utf8": "grüße"},
    ]


def test_a_cut_tail_of_a_set_is_told_and_no_error() -> None:
    decoded = document(decode(*SET, named("v0_set_partial_tail").data.hex()))
    assert [decoded[key] for key in ("valid_bytes", "ignored_tail_bytes", "next_fetch_offset")] == [54, 21, 43]
    first = document(decode(*SET, encode([(5, None, b"long enough", None)])[:30].hex()))
    assert first == {"messages": [], "valid_bytes": 0, "ignored_tail_bytes": 30, "needed_bytes": 37}


def test_a_start_offset_leaves_out_what_is_before_it() -> None:
    decoded = document(decode(*SET, "--start-offset", "102", named("v0_gzip_wrapper_absolute").data.hex()))
    assert [message["offset"] for message in decoded["messages"]] == [102]


def test_several_wrappers_are_a_list() -> None:
    data = encode([(0, None, b"a", None)], 1) + encode([(1, None, b"b", None)], 2) + encode([(2, None, b"c", None)], 3)
    wrappers = document(decode(*SET, data.hex()))["wrappers"]
    assert [(each["offset"], each["codec"]) for each in wrappers] == [(0, "gzip"), (1, "snappy"), (2, "lz4")]


def test_a_wrapper_among_plain_entries_says_what_it_holds() -> None:
    plain = encode([(4, None, b"a", None)])
    data = plain + encode([(5, None, b"b", None), (6, None, b"c", None)], 1) + encode([(7, None, b"d", None)])
    decoded = document(decode(*SET, data.hex()))
    assert "wrapper" not in decoded
    [wrapper] = decoded["wrappers"]
    assert (wrapper["offset"], wrapper["codec"], wrapper["position"]) == (6, "gzip", len(plain))
    assert wrapper["holds"] == {"messages": 2, "from": 1, "first_offset": 5, "last_offset": 6}
    assert [message["offset"] for message in decoded["messages"]] == [4, 5, 6, 7]


def test_several_wrappers_each_say_what_they_hold() -> None:
    first = encode([(0, None, b"a", None), (1, None, b"b", None)], 1)
    decoded = document(decode(*SET, (first + encode([(2, None, b"c", None)], 2)).hex()))
    assert [(each["position"], each["holds"]) for each in decoded["wrappers"]] == [
        (0, {"messages": 2, "from": 0, "first_offset": 0, "last_offset": 1}),
        (len(first), {"messages": 1, "from": 2, "first_offset": 2, "last_offset": 2}),
    ]


def test_dash_h_is_help() -> None:
    for arguments in (["-h"], ["decode", "-h"]):
        result = CliRunner().invoke(main, arguments)
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.startswith("Usage:")


@pytest.mark.parametrize("codec", [0, 1])
def test_a_corrupt_set_exits_1_with_the_position_and_prints_what_is_before(codec: int) -> None:
    good, bad = encode([(2, None, b"good", None)]), bytearray(encode([(3, None, b"bad", None)], codec))
    bad[-1] ^= 1
    result = decode(*SET, (good + bad).hex())
    assert result.exit_code == 1
    assert "kafkawire: entry at byte 30 (offset 3): crc mismatch, stored" in result.stderr
    decoded = json.loads(result.stdout)
    assert [message["value_utf8"] for message in decoded["messages"]] == ["good"]
    assert (decoded["valid_bytes"], decoded["result"]) == (30, "crc mismatch at offset 3")


def test_a_corrupt_set_inside_a_frame_names_its_partition() -> None:
    row = {"partition": 7, "error": 0, "high_watermark": 4, "message_set": named("v0_bad_crc").data}
    body = apis.FETCH.encode_reply(0, {"topics": [{"topic": "t", "partitions": [row]}]})
    result = decode("--kind", "response", "--api", "fetch", "--version", "0", (bytes(4) + body).hex())
    assert result.exit_code == 1
    assert "the set of partition 7: entry at byte 0 (offset 3): crc mismatch" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*METADATA, BLOB.data.hex() + "000001"], "response at byte 319: 3 bytes left over"),
        ([*METADATA, "0000"], "4 bytes wanted at byte 0, 2 left"),
        ([*METADATA, "--framed", "00000005" + "00000000"], "a frame of 5 bytes, 4 there"),
        ([*METADATA, "--framed", "ffffffff" + "00000000"], "a frame of -1 bytes"),
        ([*METADATA, "000000007fffffff"], "2147483647 elements cannot fit"),
        (["--kind", "request", "00040000000000000000"], "api key 4 is not supported"),
        (["--kind", "request", "0001000c000000000000"], "Fetch is known in versions 0 to 11, not 12"),
    ],
)
def test_bytes_that_make_no_sense_exit_1_and_say_where(arguments: list[str], said: str) -> None:
    result = decode(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert said in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kind", "response", "00"], "give --api and --version"),
        (
            ["--kind", "response", "--api", "nonsense", "--version", "0", "00"],
            "--api nonsense: known are produce, fetch",
        ),
        (["--kind", "response", "--api", "fetch", "--version", "12", "00"], "Fetch is known in versions 0 to 11"),
        (["--kind", "message-set", "--framed", "00"], "a message set has neither frame"),
        (["--kind", "nonsense", "00"], "nonsense"),
        (["--kind", "message-set", "no/such/file"], "is neither hex, nor a decimal list, nor a readable file"),
        (["--kind", "message-set", "<<0,256>>"], "is neither hex, nor a decimal list, nor a readable file"),
        (["--kind", "message-set", "abc"], "is neither hex, nor a decimal list, nor a readable file"),
        (
            ["--kind", "request", "--api", "fetch", "--framed", named("metadata_request_v0_all").data.hex()],
            "the request says it is Metadata",
        ),
        (
            ["--kind", "request", "--version", "1", "--framed", named("metadata_request_v0_all").data.hex()],
            "the request says it is 0",
        ),
        (["--kind", "message-set", "--nonsense"], "No such option"),
    ],
)
def test_a_command_line_that_makes_no_sense_exits_2(arguments: list[str], said: str) -> None:
    result = decode(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_an_unknown_protocol_names_the_known_ones() -> None:
    for protocol in ("0.6", "4.9", "9"):
        result = decode(*SET, "00", protocol=protocol)
        assert result.exit_code == 2
        assert f"--protocol {protocol}: known are 0.7, 0.8, 0.10, 0.7.0" in result.stderr
    for protocol in ("0.8", "0.8.2", "0.8.2.2", "0.9", "0.10", "0.10.1"):
        assert decode(*SET, named("v0_null_key").data.hex(), protocol=protocol).exit_code == 0


def test_an_api_is_known_in_any_spelling() -> None:
    data = named("list_offsets_response_v0").data.hex()
    for name in ("list_offsets", "list-offsets", "ListOffsets"):
        document(decode("--kind", "response", "--framed", "--api", name, "--version", "0", data))


def test_a_missing_command_is_one_sentence_and_no_data() -> None:
    result = CliRunner().invoke(main, [])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "a command is missing" in result.stderr
