"""What DumpLogSegments prints, read back."""

from __future__ import annotations

import io

import pytest

from localkafka.errors import LocalKafkaError
from localkafka.tools import Dumped, parse_dump

HEAD = "offset: {} position: 0 isvalid: {} payloadsize: {} magic: 0 compresscodec: NoCompressionCodec crc: 99"


def parsed(text: str) -> list[Dumped]:
    return list(parse_dump(io.BytesIO(text.encode())))


def test_keys_payloads_and_validity_are_read_and_other_lines_skipped() -> None:
    text = "Dumping /x/0.log\nStarting offset: 0\n"
    text += HEAD.format(0, "true", 5) + " keysize: 2 key: k1 payload: hello\n"
    text += HEAD.format(1, "false", 3) + " payload: abc\n"
    text += HEAD.format(2, "true", -1) + " keysize: 2 key: k2\n"
    rows = parsed(text)
    assert [(row.offset, row.valid, row.key, row.payload) for row in rows] == [
        (0, True, "k1", "hello"),
        (1, False, None, "abc"),
        (2, True, "k2", None),
    ]
    assert rows[0].crc == 99


def test_a_key_that_later_releases_do_not_print_is_known_by_its_size() -> None:
    text = HEAD.format(0, "true", -1).replace("isvalid", "CreateTime: 17 isvalid") + " keysize: 2\n"
    text += HEAD.format(1, "true", 1) + " payload: a\n"
    rows = parsed(text)
    assert [(row.offset, row.key, row.key_size, row.payload, row.timestamp_ms) for row in rows] == [
        (0, None, 2, None, 17),
        (1, None, -1, "a", None),
    ]


def test_sizes_decide_where_a_payload_ends_whatever_is_in_it() -> None:
    payload = "line\noffset: 7 position: 0 payload: ä\n"
    text = HEAD.format(0, "true", len(payload.encode())) + f" keysize: 10 key:  payload:  payload: {payload}\n"
    text += HEAD.format(1, "true", 0) + " payload: \n"
    assert [(row.offset, row.key, row.payload) for row in parsed(text)] == [(0, " payload: ", payload), (1, None, "")]


def test_payloads_that_are_no_text_are_refused() -> None:
    with pytest.raises(LocalKafkaError, match="printed no payload: of 5 bytes"):
        parsed(HEAD.format(0, "true", 5) + " payload: ab\n")
