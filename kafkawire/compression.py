"""Compressed values of wrappers.  Independent of message formats but for one byte of lz4 headers.

    1 gzip     an RFC 1952 stream
    2 snappy   written as xerial: 82 "SNAPPY" 00, version:int32, compatible:int32, then blocks: n:int32, n bytes;
               read as that, or as one raw block
    3 lz4      the frame format; its header checksum is wrong on purpose in message format v0 (KAFKA-3160)
    4 zstd     an RFC 8878 frame, in record batches only (Kafka 2.1 and later, KIP-110)

decompress() is bounded, because a kilobyte of untrusted data may claim to be a gigabyte.  The libraries' errors come
out as RemoteError. snappy, lz4 and zstd are cramjam's, loaded on first use: without it the other codecs work.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from kafkawire.errors import LibraryMissing, LocalError, OpensTooLarge, RemoteError
from kafkawire.kernels import ready
from kafkawire.model import RECORD_BATCH
from kafkawire.primitives import Bytes

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS: dict[str, int] = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
CODEC_NAMES: dict[int, str] = {number: name for name, number in CODECS.items()}

GZIP_LEVEL = 6  # the level of the JVM's GZIPOutputStream, so sizes match a broker that recompresses
ZSTD_LEVEL = 3  # the default of Kafka's producers
_GZIP_MEMBERS = 64  # JVM readers accept concatenated streams, but nobody writes them; a million of them is an attack

_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL + struct.pack(">ii", 1, 1)
_XERIAL_AGAIN = int.from_bytes(_XERIAL[:4], "big", signed=True)
_XERIAL_BLOCK = 32 * 1024  # the JVM's default; blocks of incompressible data come out a little larger
_SNAPPY_RATIO = 22  # a copy of 64 bytes takes 3, so a snappy block cannot grow more

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_HEADER = _LZ4_MAGIC + b"\x60\x40"  # version 1, independent blocks of up to 64 KiB, no sizes, no checksums
_LZ4_CHECKSUM = {
    0: b"\x1a",
    1: b"\x82",
    2: b"\x82",
}  # by message format: v0 also hashes the magic number, and 0.8.2 insists on it
_LZ4_BLOCK = 64 * 1024
_LZ4_SIZES = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
_LZ4_STORED = 0x80000000
_LZ4_RATIO = 256  # a run's length byte stands for at most 255

_LZ4_GUESS = 4  # size of the first buffer, as a multiple of the data
_FREE_BLOCKS = 1 << 16  # snappy and lz4 blocks of any size: some clients flush after each message; 0.1 s for all
_LEAST_BLOCK = 256  # average bytes per block beyond these: the smallest in any release was 1 KiB (snappy of 0.9)

_ZSTD_GUESS = 8  # size of the first buffer, as a multiple of the data; the next one is four times as large

_INT32 = struct.Struct(">i")
_UINT32_LE = struct.Struct("<I")


def compress(codec: int, data: Bytes, magic: int = 0) -> bytes:
    """Compress data as the value of a wrapper, or the records of a batch, in message format `magic`.

    Raises LocalError for a codec that the format does not have.
    """
    if codec == GZIP:
        return _gzip(data)
    if codec == SNAPPY:
        return _xerial(data)
    if codec == LZ4:
        return _lz4(data, magic)
    if codec == ZSTD and magic == RECORD_BATCH:
        return bytes(_library("zstd").zstd.compress(data, level=ZSTD_LEVEL))
    raise LocalError(f"message format v{magic} has no codec {codec}")


def decompress(codec: int, data: Bytes, limit: int) -> bytes:
    """Decompress a wrapper's value to at most limit bytes.  Raises RemoteError if it is truncated or damaged,
    OpensTooLarge if it is larger."""
    return bytes(opened(codec, data, limit))


def opened(codec: int, data: Bytes, limit: int) -> Bytes:
    """Decompress a wrapper's value to at most limit bytes, and return the bytes or the view that was decompressed
    into."""
    if codec == GZIP:
        return _gunzip(memoryview(data), limit)
    if codec == SNAPPY:
        return _unsnappy(memoryview(data), limit)
    if codec == LZ4:
        return _unlz4(memoryview(data), limit)
    if codec == ZSTD:
        return _unzstd(memoryview(data), limit)
    raise RemoteError(f"unknown codec {codec}")


def _library(codec: str) -> Any:
    """Return the module cramjam.  Raises LibraryMissing."""
    try:
        import cramjam  # found in sys.modules after the first time
    except ImportError:
        raise LibraryMissing(
            f"{codec} needs the package cramjam, which is not installed here; a zip cannot bring its machine code"
        ) from None
    return cramjam


def _too_much(name: str, limit: int) -> OpensTooLarge:
    return OpensTooLarge(f"{name} data decompresses to more than the limit of {limit} bytes")


# ---- gzip ------------------------------------------------------------------------------------------------------


def _gzip(data: Bytes) -> bytes:
    deflate = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, 31)  # 31: a gzip header, in which zlib writes no time
    return deflate.compress(data) + deflate.flush()


def _gunzip(data: memoryview, limit: int) -> bytes:
    opened: list[bytes] = []
    left = limit
    rest: Bytes = data
    for _ in range(_GZIP_MEMBERS):
        inflate = zlib.decompressobj(31)
        try:
            piece = inflate.decompress(rest, left + 1)  # one more than allowed, to detect a larger value
        except zlib.error as exc:
            raise RemoteError(f"gzip data is damaged: {exc}") from exc
        left -= len(piece)
        if left < 0:
            raise _too_much("gzip", limit)
        if not inflate.eof:
            raise RemoteError("gzip data ends too early")
        opened.append(piece)
        rest = inflate.unused_data
        if rest[:2] != b"\x1f\x8b":  # trailing bytes that are not a stream: JVM readers ignore them too
            return b"".join(opened)
    raise RemoteError(f"gzip data of more than {_GZIP_MEMBERS} streams")


# ---- snappy ----------------------------------------------------------------------------------------------------


def _xerial(data: Bytes) -> bytes:
    view, library = memoryview(data), _library("snappy")
    out = [_XERIAL_HEADER]
    for at in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(library.snappy.compress_raw(view[at : at + _XERIAL_BLOCK]))
        out += (_INT32.pack(len(block)), block)
    return b"".join(out)


def is_xerial(data: memoryview) -> bool:
    """True if a snappy value is a xerial stream of blocks; otherwise it is one raw block."""
    return len(data) >= len(_XERIAL_HEADER) and data[: len(_XERIAL)] == _XERIAL


def _unsnappy(data: memoryview, limit: int) -> Bytes:
    library = _library("snappy")
    if not len(data):
        raise RemoteError("snappy data is empty")
    opened_size = library.snappy.decompress_raw_len
    try:
        size = _snappy_size(data, opened_size, limit)
        if not is_xerial(data):  # the whole value is one block
            return bytes(library.snappy.decompress_raw(data))
        kernels, at = ready(), 0
        out = bytearray(size) if kernels is None else kernels.room(size)
        place = memoryview(out)
        for block in _xerial_blocks(data):
            end = at + opened_size(block)
            if library.snappy.decompress_raw_into(block, place[at:end]) != end - at:
                raise RemoteError("snappy data is damaged: a block decompresses to fewer bytes than it declares")
            at = end
        return out
    except library.DecompressionError as exc:
        raise RemoteError(f"snappy data is damaged: {exc}") from exc


def _snappy_size(data: memoryview, opened_size: Callable[[memoryview], int], limit: int) -> int:
    """Return the number of bytes that the blocks decompress to.

    A block begins with its decompressed length, which is trusted only within the limit and within snappy's maximum
    ratio.
    """
    size = count = 0
    for block in _xerial_blocks(data) if is_xerial(data) else (data,):
        declared, count = opened_size(block), count + 1
        size += declared
        if size > limit:
            raise _too_much("snappy", limit)
        if declared > _SNAPPY_RATIO * len(block):
            raise RemoteError(f"a snappy block of {len(block)} bytes declares {declared} decompressed bytes")
        _check_blocks("snappy", count, size)
    return size


def _check_blocks(name: str, count: int, size: int) -> None:
    """Raise RemoteError for more blocks than any writer uses for that much data: each block costs time, and may be
    empty."""
    if count > _FREE_BLOCKS and count * _LEAST_BLOCK > size:
        raise RemoteError(f"{name} data of {count} blocks for only {size} bytes, smaller blocks than any writer makes")


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    at, end = len(_XERIAL_HEADER), len(data)  # the two versions are ignored: writers put odd values there
    while at < end:
        if end - at < _INT32.size:
            raise RemoteError("snappy data ends inside a block's length")
        (size,) = _INT32.unpack_from(data, at)
        if size == _XERIAL_AGAIN:  # newer JVM readers accept a stream appended to the first
            at += len(_XERIAL_HEADER)
            continue
        at += _INT32.size
        if not 0 < size <= end - at:
            raise RemoteError(f"snappy data has a block of {size} bytes where {end - at} are left")
        yield data[at : at + size]
        at += size


# ---- lz4 -------------------------------------------------------------------------------------------------------


def _lz4(data: Bytes, magic: int) -> bytes:
    if magic not in _LZ4_CHECKSUM:
        raise LocalError(f"message format v{magic} is not written with lz4")
    view, library = memoryview(data), _library("lz4")
    out: list[Bytes] = [_LZ4_HEADER, _LZ4_CHECKSUM[magic]]
    for at in range(0, len(view), _LZ4_BLOCK):
        chunk = view[at : at + _LZ4_BLOCK]
        block = bytes(library.lz4.compress_block(chunk, store_size=False))
        if len(block) < len(chunk):
            out += (_UINT32_LE.pack(len(block)), block)
        else:
            out += (_UINT32_LE.pack(len(chunk) | _LZ4_STORED), chunk)
    out.append(b"\0\0\0\0")
    return b"".join(out)


def _unlz4(data: memoryview, limit: int) -> bytearray:
    at, most, block_checksum, content_checksum = _lz4_header(data)
    out, end, count = bytearray(_lz4_guess(data, limit)), 0, 0
    while (found := _lz4_block(data, at)) is not None:
        at, size, stored = found
        room = size if stored else min(most, _LZ4_RATIO * size)
        if room > len(out) - end:  # at least double, so that data is moved only a few times
            out.extend(bytes(max(room, min(len(out), limit - len(out)))))
        with memoryview(out) as whole, whole[end : end + room] as place:
            if stored:
                place[:] = data[at : at + size]
                end += size
            else:
                end += _lz4_open(data[at : at + size], place)
        count += 1
        if end > limit:
            raise _too_much("lz4", limit)
        _check_blocks("lz4", count, end)
        at += size + block_checksum
    if at + _UINT32_LE.size + content_checksum > len(data):
        raise RemoteError("lz4 data ends too early")
    del out[end:]
    return out


def _lz4_guess(data: memoryview, limit: int) -> int:
    """Return the size of the first buffer: blocks do not declare their decompressed size, only a maximum."""
    at, most, block_checksum, _ = _lz4_header(data)
    needed, count, enough = 0, 0, min(limit, _LZ4_GUESS * len(data))
    while needed < enough and (found := _lz4_block(data, at)) is not None:
        at, size, stored = found
        needed, count = needed + (size if stored else min(most, _LZ4_RATIO * size)), count + 1
        _check_blocks("lz4", count, needed)
        at += size + block_checksum
    return min(needed, enough)


def _lz4_block(data: memoryview, at: int) -> tuple[int, int, bool] | None:
    """Return (where a block begins, its size, whether it is stored uncompressed) for the block header at `at`; None
    after the last block."""
    if len(data) - at < _UINT32_LE.size:
        raise RemoteError("lz4 data ends too early")
    (word,) = _UINT32_LE.unpack_from(data, at)
    if word == 0:
        return None
    at, size = at + _UINT32_LE.size, word & ~_LZ4_STORED
    if size > len(data) - at:
        raise RemoteError(f"lz4 data has a block of {size} bytes where {len(data) - at} are left")
    return at, size, bool(word & _LZ4_STORED)


def _lz4_header(data: memoryview) -> tuple[int, int, int, int]:
    """Return (where blocks begin, the largest block, bytes of checksum after each block, after all blocks).

    The header's own checksum is ignored: some writers compute it wrongly on purpose.
    """
    if len(data) < 7 or data[:4] != _LZ4_MAGIC:
        raise RemoteError("lz4 data does not begin with a frame")
    flags, descriptor = data[4], data[5]
    if flags >> 6 != 1:
        raise RemoteError(f"lz4 frame of version {flags >> 6}")
    if not flags & 0x20:
        raise RemoteError("lz4 frame whose blocks depend on each other: Kafka does not use them")
    if flags & 0x01:
        raise RemoteError("lz4 frame that needs a dictionary: Kafka does not use one")
    most = _LZ4_SIZES.get(descriptor >> 4 & 7)
    if most is None:
        raise RemoteError(f"lz4 frame with block size code {descriptor >> 4 & 7}")
    return 7 + (8 if flags & 0x08 else 0), most, 4 if flags & 0x10 else 0, 4 if flags & 0x04 else 0


def _lz4_open(block: memoryview, place: memoryview) -> int:
    """Decompress a block into a buffer and return the number of bytes."""
    library = _library("lz4")
    try:
        return int(library.lz4.decompress_block_into(block, place, output_len=len(place)))
    except (library.DecompressionError, ValueError) as exc:
        raise RemoteError(f"lz4 data is damaged: {exc}") from exc


# ---- zstd ------------------------------------------------------------------------------------------------------


def _unzstd(data: memoryview, limit: int) -> memoryview:
    """Decompress into our own buffers: writers leave the size out of the frame, and cramjam would allocate any
    amount."""
    library, size = _library("zstd"), min(limit, max(1024, _ZSTD_GUESS * len(data)))
    while True:
        out = bytearray(size)
        try:
            return memoryview(out)[: int(library.zstd.decompress_into(data, out))]
        except library.DecompressionError as exc:
            if "whole buffer" not in str(exc):
                raise RemoteError(f"zstd data is damaged: {exc}") from exc
            if size >= limit:
                raise _too_much("zstd", limit) from exc
        size = min(limit, 4 * size)
