"""Codecs: what we write others read, what others write we read, and nothing opens to more than its limit."""

from __future__ import annotations

import gzip
import os
import random
import struct
import sys
import time
import tracemalloc
import zlib
from functools import partial

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire.compression import CODECS, GZIP, LZ4, SNAPPY, compress, decompress
from kafkawire.errors import LibraryMissing, LocalError, RemoteError
from tests.kafkawire.wire_vectors import named

LIMIT = 1 << 20
XERIAL = bytes.fromhex("82534e41505059000000000100000001")
BOTH = [(codec, magic) for codec in (GZIP, SNAPPY, LZ4) for magic in (0, 1)]

samples = [b"", b"a", b"abc" * 50_000, os.urandom(200_000), bytes(300_000), random.Random(1).randbytes(65536)]


@pytest.mark.parametrize(("codec", "magic"), BOTH)
def test_what_is_compressed_opens_to_itself(codec: int, magic: int) -> None:
    for data in samples:
        assert decompress(codec, compress(codec, memoryview(data), magic), LIMIT) == data


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=500), codec=st.sampled_from([GZIP, SNAPPY, LZ4]))
def test_any_bytes_survive_and_the_limit_is_exact(data: bytes, codec: int) -> None:
    packed = compress(codec, data)
    assert decompress(codec, packed, len(data)) == data
    if data:
        with pytest.raises(RemoteError, match=f"more than the limit of {len(data) - 1} bytes"):
            decompress(codec, packed, len(data) - 1)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_a_bomb_is_refused_without_being_opened(codec: int) -> None:
    bomb = compress(codec, bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(RemoteError, match="more than the limit of"):
            decompress(codec, bomb, LIMIT)
        assert tracemalloc.get_traced_memory()[1] < 4 * LIMIT
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_cut_data_is_an_error_at_every_byte(codec: int) -> None:
    packed = compress(codec, bytes(range(256)) * 400)
    whole = {len(packed)}
    if codec == SNAPPY:  # a stream that ends between blocks is a whole stream; its messages are then incomplete
        at = len(XERIAL)
        while at < len(packed):
            whole.add(at)
            at += 4 + int(struct.unpack_from(">i", packed, at)[0])
    for end in range(0, len(packed), 7):
        if end not in whole:
            with pytest.raises(RemoteError):
                decompress(codec, packed[:end], LIMIT)


@settings(max_examples=300, deadline=None)
@given(
    codec=st.sampled_from([GZIP, SNAPPY, LZ4]),
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=5),
    tail=st.binary(max_size=30),
)
def test_damaged_data_opens_or_raises_our_error(codec: int, flips: list[tuple[int, int]], tail: bytes) -> None:
    packed = bytearray(compress(codec, b"some text, " * 30)) + tail
    for at, byte in flips:
        packed[at % len(packed)] = byte
    try:
        assert len(decompress(codec, packed, 10_000)) <= 10_000
    except RemoteError:
        pass


@settings(max_examples=300, deadline=None)
@given(codec=st.integers(0, 9), data=st.binary(max_size=100), framed=st.booleans())
def test_random_data_opens_or_raises_our_error(codec: int, data: bytes, framed: bool) -> None:
    heads = {GZIP: b"\x1f\x8b\x08\0", SNAPPY: XERIAL, LZ4: bytes.fromhex("04224d18604082")}
    try:
        assert len(decompress(codec, heads.get(codec, b"") * framed + data, 10_000)) <= 10_000
    except RemoteError:
        pass


def test_a_codec_there_is_not_is_named() -> None:
    with pytest.raises(RemoteError, match="unknown codec 5"):
        decompress(5, b"", LIMIT)
    with pytest.raises(LocalError, match="format v0 has no codec 4"):
        compress(4, b"", 0)
    assert CODECS == {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def test_zstd_is_written_for_record_batches_only() -> None:
    packed = compress(4, b"data" * 999, 2)
    assert packed[:4] == b"\x28\xb5\x2f\xfd"
    assert decompress(4, packed, LIMIT) == b"data" * 999
    with pytest.raises(LocalError, match="format v1 has no codec 4"):
        compress(4, b"", 1)


# ---- gzip ------------------------------------------------------------------------------------------------------


def test_gzip_has_no_time_in_it_so_equal_data_is_equal_bytes() -> None:
    packed = compress(GZIP, b"data")
    assert packed[:8] == bytes.fromhex("1f8b080000000000")
    assert gzip.decompress(packed) == b"data"


def test_gzip_streams_behind_one_another_are_read_as_the_jvm_reads_them() -> None:
    packed = gzip.compress(b"one") + gzip.compress(b"two")
    assert decompress(GZIP, packed, LIMIT) == b"onetwo"
    assert decompress(GZIP, packed + b"no stream", LIMIT) == b"onetwo"


def test_gzip_streams_without_number_are_refused() -> None:
    with pytest.raises(RemoteError, match="more than 64 streams"):
        decompress(GZIP, gzip.compress(b"") * 1000, LIMIT)


# ---- snappy ----------------------------------------------------------------------------------------------------


def test_snappy_is_written_as_xerial_in_blocks_of_32_kib() -> None:
    data = os.urandom(40_000)
    packed = compress(SNAPPY, data)
    assert packed[:16] == XERIAL
    (size,) = struct.unpack_from(">i", packed, 16)
    assert size > 32768  # incompressible data makes a block larger than what it opens to
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + size])) == data[:32768]


def test_an_empty_snappy_stream_is_its_16_byte_header() -> None:
    assert compress(SNAPPY, b"") == XERIAL
    assert decompress(SNAPPY, XERIAL, LIMIT) == b""


def test_a_raw_snappy_block_is_read() -> None:
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(b"abc" * 100)), LIMIT) == b"abc" * 100


def test_odd_xerial_versions_are_read() -> None:
    block = bytes(cramjam.snappy.compress_raw(b"abc"))
    odd = XERIAL[:8] + b"\x01\0\0\0\0\0\0\x07" + struct.pack(">i", len(block)) + block
    assert decompress(SNAPPY, odd, LIMIT) == b"abc"


def test_an_appended_snappy_stream_is_read() -> None:
    assert decompress(SNAPPY, compress(SNAPPY, b"one") + compress(SNAPPY, b"two"), LIMIT) == b"onetwo"


@pytest.mark.parametrize("size", [0, -1, 0x7FFFFFFF, 5])
def test_a_snappy_block_that_cannot_be_there_is_refused(size: int) -> None:
    with pytest.raises(RemoteError, match=f"a block of {size} bytes where 4 are left"):
        decompress(SNAPPY, XERIAL + struct.pack(">i", size) + b"\x03\x08abc"[:4], LIMIT)


def test_a_snappy_length_beyond_what_the_block_can_hold_is_not_allocated() -> None:
    lie = b"\xff\xff\xff\x3f\x08abc"  # 134217727 bytes out of eight
    tracemalloc.start()
    try:
        with pytest.raises(RemoteError, match="declares 134217727"):
            decompress(SNAPPY, lie, 1 << 30)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


# ---- lz4 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("magic", "checksum"), [(0, "1a"), (1, "82")])
def test_the_lz4_header_is_what_brokers_of_the_format_insist_on(magic: int, checksum: str) -> None:
    assert compress(LZ4, b"a" * 1000, magic)[:7].hex() == "04224d186040" + checksum


def test_lz4_is_compressed_and_a_correct_frame_reader_reads_it() -> None:
    for data in samples[1:]:
        packed = compress(LZ4, data, magic=1)
        assert bytes(cramjam.lz4.decompress(packed)) == data
    assert len(compress(LZ4, b"abc" * 50_000)) < 2000


def test_the_lz4_header_checksum_is_not_looked_at() -> None:
    packed = bytearray(compress(LZ4, b"data"))
    for byte in (0x1A, 0x82, 0x00):
        packed[6] = byte
        assert decompress(LZ4, packed, LIMIT) == b"data"


def test_lz4_frames_with_sizes_and_checksums_are_read() -> None:
    for name in ("v0_lz4_wrapper_broken_hc", "v1_lz4_wrapper_correct_hc"):
        assert b"\x04\x22\x4d\x18" in named(name).data
    block = bytes(cramjam.lz4.compress_block(b"data" * 50, store_size=False))
    flags = 0x40 | 0x20 | 0x10 | 0x08 | 0x04
    frame = b"\x04\x22\x4d\x18" + bytes([flags, 0x70]) + struct.pack("<Q", 200) + b"\0"
    frame += struct.pack("<I", len(block)) + block + b"BCRC" + bytes(4) + b"CCRC"
    assert decompress(LZ4, frame, LIMIT) == b"data" * 50
    with pytest.raises(RemoteError, match="ends too early"):
        decompress(LZ4, frame[:-1], LIMIT)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("04224d194040820000", "does not begin with a frame"),
        ("04224d18404082000000", "depend on each other"),
        ("04224d18614082000000", "needs a dictionary"),
        ("04224d18a04082000000", "version 2"),
        ("04224d18601082000000", "block size code 1"),
    ],
)
def test_an_lz4_frame_that_kafka_has_not_is_refused_with_its_reason(head: str, said: str) -> None:
    with pytest.raises(RemoteError, match=said):
        decompress(LZ4, bytes.fromhex(head), LIMIT)


def test_an_lz4_block_that_opens_to_nothing_is_nothing() -> None:
    frame = bytes.fromhex("04224d18604082") + struct.pack("<I", 1) + b"\0" + bytes(4)
    assert decompress(LZ4, frame, LIMIT) == b""


def small_blocks(codec: int, count: int, opens_to: bytes) -> bytes:
    if codec == SNAPPY:
        block = bytes(cramjam.snappy.compress_raw(opens_to))
        return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + (struct.pack(">i", len(block)) + block) * count
    block = bytes(cramjam.lz4.compress_block(opens_to, store_size=False))
    return bytes.fromhex("04224d18604082") + (struct.pack("<I", len(block)) + block) * count + bytes(4)


@pytest.mark.parametrize("codec", [SNAPPY, LZ4])
@pytest.mark.parametrize("opens_to", [b"", b"0123456789abc"])
def test_small_blocks_take_no_more_memory_than_they_open_to(codec: int, opens_to: bytes) -> None:
    few = small_blocks(codec, 1000, opens_to)
    assert decompress(codec, few, LIMIT) == opens_to * 1000
    many = small_blocks(codec, 240_000, opens_to)
    refused = partial(pytest.raises, RemoteError, match=r"for only .* bytes, smaller blocks than any writer makes")
    began = time.process_time()
    with refused():
        decompress(codec, many, 128 << 20)
    assert time.process_time() - began < 1
    tracemalloc.start()
    with refused():
        decompress(codec, many, 128 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * len(many)


@pytest.mark.parametrize("codec", [SNAPPY, LZ4])
@pytest.mark.parametrize(("count", "size"), [(2000, 200), (60_000, 17)])
def test_a_block_for_each_message_is_opened(codec: int, count: int, size: int) -> None:
    """A client that flushes its stream behind each message writes them so."""
    piece = random.Random(7).randbytes(size)
    assert decompress(codec, small_blocks(codec, count, piece), 128 << 20) == piece * count


@pytest.mark.parametrize("codec", [SNAPPY, LZ4])
def test_blocks_as_small_as_a_release_wrote_are_opened_into_one_buffer(codec: int) -> None:
    """Snappy of 0.9 has blocks of 1 KiB."""
    piece = random.Random(3).randbytes(1024)
    data = small_blocks(codec, 4000, piece)
    tracemalloc.start()
    assert len(decompress(codec, data, 128 << 20)) == 4000 * 1024
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * len(data)


def test_the_jvms_level_of_gzip() -> None:
    data = random.Random(2).randbytes(2000).hex().encode()
    assert compress(GZIP, data)[10:-8] == zlib.compress(data, 6)[2:-4]


@pytest.mark.parametrize(("codec", "name"), [(SNAPPY, "snappy"), (LZ4, "lz4")])
def test_without_its_library_a_codec_says_what_to_install_and_gzip_works(monkeypatch, codec, name):
    packed, gzipped = compress(codec, b"data" * 50), compress(GZIP, b"data" * 50)
    monkeypatch.setitem(sys.modules, "cramjam", None)  # importing it raises ImportError
    for broken in (lambda: compress(codec, b"data"), lambda: decompress(codec, packed, LIMIT)):
        with pytest.raises(LibraryMissing, match=f"^{name} needs the package cramjam"):
            broken()
    assert decompress(GZIP, gzipped, LIMIT) == b"data" * 50
