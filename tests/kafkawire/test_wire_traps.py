"""The traps of the protocol that belong to bytes (wire-protocol.md, section 7), each by its number."""

from __future__ import annotations

import struct
import zlib

import pytest

from kafkawire import compression
from kafkawire.dialects import DIALECTS, dialect
from kafkawire.errors import LocalError, RemoteError
from kafkawire.formats.v01.messages import LOG_APPEND_TIME, encode, message_set, scan
from kafkawire.model import TopicPartition
from kafkawire.protocol import apis
from kafkawire.protocol import requests08 as requests
from kafkawire.protocol.requests08 import FetchReplyParser, ProducedPartition
from tests.kafkawire.wire_vectors import named

D082 = dialect("0.8.2")
T0 = TopicPartition("t", 0)


def entry(offset: int, value: bytes) -> bytes:
    return encode([(offset, None, value, None)])


def test_trap_5_a_sets_length_is_bytes_and_no_count() -> None:
    entries = [entry(n, b"x" * 100) for n in range(3)]
    body = b"".join(requests.produce(D082, 1, 10, {T0: entries}).buffers)
    (length,) = struct.unpack_from(">i", body, len(body) - sum(map(len, entries)) - 4)
    assert length == sum(map(len, entries)) == 3 * 126


def test_trap_6_topic_error_and_name_length_are_two_fields() -> None:
    fields = {
        "brokers": [],
        "topics": [
            {"error": 5, "topic": "new", "partitions": []},
            {"error": 0, "topic": "old", "partitions": []},
        ],
    }
    body = apis.METADATA.encode_reply(0, fields)
    assert body[8:12] == b"\0\x05\0\x03"
    assert apis.METADATA.decode_reply(0, body) == fields


def test_trap_7_a_fetch_inside_a_wrapper_returns_earlier_messages_which_are_dropped() -> None:
    data = memoryview(encode([(n, None, b"%d" % n, None) for n in range(100, 110)], codec=1))
    fetched, _ = message_set("t", 0, 107, data, 110)
    assert [message.offset for message in fetched.messages()] == [107, 108, 109]
    assert fetched.resume_at == 110


def test_trap_8_a_partial_tail_is_no_message_larger_than_the_fetch_but_a_partial_first_entry_is() -> None:
    small, large = entry(5, b"small"), entry(6, b"x" * 10_000)
    tail = scan(memoryview((small + large)[:500]), 5)
    assert (tail.end, tail.resume_at, tail.needed, tail.damage) == (len(small), 6, 0, None)
    first = scan(memoryview(large[:500]), 6)
    assert (first.end, first.resume_at, first.needed, first.damage) == (0, 6, len(large), None)
    for cut in range(1, 12):
        assert scan(memoryview(large[:cut]), 6).needed == 26


@pytest.mark.parametrize("left", [0, 1, 11, 12, 13, 25, 26, 60, 500])
def test_trap_8_the_padding_of_converted_fetches_is_a_partial_tail(left: int) -> None:
    good = entry(5, b"good")
    padding = (struct.pack(">qi", -1, max(left + 1, 61)) + bytes(500))[:left]
    found = scan(memoryview(good + padding), 5)
    assert (found.end, found.resume_at, found.needed, found.damage) == (len(good), 6, 0, None)


def test_trap_9_throttle_time_is_last_in_produce_and_first_elsewhere() -> None:
    throttle = struct.pack(">i", 250)
    produce = apis.PRODUCE.encode_reply(1, {"topics": [], "throttle_time_ms": 250})
    fetch = apis.FETCH.encode_reply(1, {"topics": [], "throttle_time_ms": 250})
    assert (produce, fetch) == (bytes(4) + throttle, throttle + bytes(4))


def test_trap_10_none_is_error_3_from_zookeeper_and_error_0_from_kafka_both_with_minus_one() -> None:
    for error in (3, 0):
        row = {"partition": 0, "offset": -1, "metadata": "", "error": error}
        fields = {"topics": [{"topic": "t", "partitions": [row]}]}
        body = apis.OFFSET_FETCH.encode_reply(0, fields)
        assert body[-2:] == struct.pack(">h", error)  # the error is the last field
        assert apis.OFFSET_FETCH.decode_reply(1, body) == fields


def test_trap_11_offset_commit_v1_has_a_timestamp_of_minus_one_and_v2_has_none() -> None:
    for release, version, stamp in (("0.8.2", 1, {"timestamp": -1}), ("0.9", 2, {})):
        request = requests.offset_commit(dialect(release), "g", {T0: (43, "m")})
        fields = request.api.decode_request(version, b"".join(request.buffers))
        assert request.version == version
        expected = {"partition": 0, "offset": 43, "metadata": "m", **stamp}
        assert fields["topics"][0]["partitions"] == [expected]


def test_trap_12_0_8_is_spoken_to_in_v0_whatever_it_would_accept() -> None:
    for release in ("0.8.0", "0.8.1", "0.8.2"):
        d = dialect(release)
        asked = [requests.fetch(d, 1, 1, [(T0, 0, 1)]), requests.produce(d, 1, 1, {T0: [b""]})]
        asked += [requests.list_offsets(d, {T0: -1}), requests.metadata(d, None)]
        assert [request.version for request in asked] == [0, 0, 0, 0]
    late = FetchReplyParser(1, 4 + 3 + 4 + 18 + 4)  # had we asked in v1, the answer in v0 layout would make no sense
    with pytest.raises(RemoteError):
        late.feed(memoryview(apis.FETCH.encode_reply(0, {"topics": [_one_partition()]})))


def _one_partition() -> dict[str, object]:
    return {"topic": "t", "partitions": [{"partition": 0, "error": 0, "high_watermark": 1, "message_set": b""}]}


def test_trap_13_a_partition_twice_in_one_request_is_refused() -> None:
    with pytest.raises(LocalError, match="t/0 twice in one request"):
        requests.fetch(D082, 1, 1, [(T0, 0, 1), (TopicPartition("u", 0), 0, 1), (T0, 5, 1)])


def test_trap_13_a_partition_twice_in_a_commit_read_is_refused() -> None:
    with pytest.raises(LocalError, match="t/0 twice in one request"):
        requests.offset_fetch(D082, "g", [T0, T0])


def test_trap_14_error_0_with_base_offset_minus_one_is_nothing_stored() -> None:
    assert not ProducedPartition(0, -1).stored
    assert not ProducedPartition(6, -1).stored
    assert ProducedPartition(0, 0).stored


def test_trap_15_each_wrapper_is_a_run_of_its_own_so_that_none_are_merged() -> None:
    data = b"".join(encode([(n, None, b"x", None)], codec=1) for n in range(3))
    assert [(run.codec, run.entries) for run in scan(memoryview(data), 0).runs] == [(1, 1)] * 3


def test_trap_16_format_v1_is_never_written_for_0_8_and_0_9() -> None:
    older = [d for release, d in DIALECTS.items() if release.startswith(("0.8", "0.9"))]
    assert [d.magic for d in older] == [0, 0, 0, 0]
    mixed = entry(1, b"a") + encode([(2, None, b"b", 5)], magic=1) + entry(3, b"c")
    assert [run.magic for run in scan(memoryview(mixed), 0).runs] == [0, 1, 0]  # the entry tells, not the version asked


def test_trap_17_what_is_encoded_never_has_the_bit_of_log_append_time() -> None:
    fetched, _ = message_set("t", 0, 0, memoryview(named("v1_log_append_time").data), 7)
    rows = [(x.offset, x.key, x.value, x.timestamp_ms) for x in fetched.messages()]
    for codec in range(4):
        assert not encode(rows, codec, magic=1)[17] & LOG_APPEND_TIME


def test_trap_18_lz4_has_the_wrong_checksum_in_v0_and_the_right_one_in_v1() -> None:
    for magic, checksum in ((0, 0x1A), (1, 0x82)):
        data = encode([(0, None, b"x" * 100, 1)], codec=3, magic=magic)
        at = 26 + 8 * magic
        assert data[at : at + 7] == bytes.fromhex("04224d186040") + bytes([checksum])
    for name in ("v0_lz4_wrapper_broken_hc", "v0_lz4_wrapper_correct_hc", "v1_lz4_wrapper_correct_hc"):
        fetched, _ = message_set("t", 0, 0, memoryview(named(name).data), -1)
        assert len(list(fetched.messages())) == 3


def test_trap_19_snappy_raw_and_xerial_large_blocks_and_the_empty_stream() -> None:
    import cramjam

    inner = encode([(n, None, bytes([n]) * 40_000, None) for n in range(3)])
    raw = bytes(cramjam.snappy.compress_raw(inner))
    for value in (raw, compression.compress(2, inner)):
        body = struct.pack(">BBii", 0, 2, -1, len(value)) + value
        data = struct.pack(">qiI", 2, len(body) + 4, zlib.crc32(body)) + body
        fetched, _ = message_set("t", 0, 0, memoryview(data), -1)
        assert [len(message.value or b"") for message in fetched.messages()] == [40_000] * 3
    assert compression.decompress(2, compression.compress(2, b""), 0) == b""


def test_trap_20_replica_id_is_minus_one() -> None:
    asked = [requests.fetch(D082, 1, 1, [(T0, 0, 1)]), requests.list_offsets(D082, {T0: -1})]
    for request in asked:
        fields = request.api.decode_request(request.version, b"".join(request.buffers))
        assert fields["replica_id"] == -1


def test_trap_21_metadata_with_an_empty_broker_list_is_legal() -> None:
    fields = {"brokers": [], "topics": [{"error": 3, "topic": "t", "partitions": []}]}
    assert apis.METADATA.decode_reply(0, apis.METADATA.encode_reply(0, fields)) == fields


def test_trap_23_4_x_is_not_spoken_to_in_versions_it_only_advertises() -> None:
    newest = dialect("4.1.0")
    assert newest.formats == {2}
    assert newest.speaks(apis.PRODUCE.key) >= 3
