"""Little that says it is much: bounded memory and one sentence, for bytes of brokers, requests and configurations.

Each bomb is opened in a child whose peak of memory is looked at: C libraries allocate, too.
"""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from groundwork.httpserver import BadRequest, parse
from groundwork.optionfiles import YamlRefused, yaml_values
from groundwork.options import OptionError
from kafkawire.compression import GZIP, LZ4, SNAPPY, ZSTD, compress, opened
from kafkawire.errors import CorruptMessage, RemoteError, SetTooLarge
from kafkawire.formats import mixed
from kafkawire.formats.layouts import OPEN_LIMIT, OpenBudget
from kafkawire.formats.v01 import messages as v01
from kafkawire.formats.v01.read import MAX_DEPTH, wrapper
from kafkawire.formats.v01.read import opened as opened_wrapper
from mirrormaker.config import from_yaml

LIMIT = 1 << 20
MUCH = 64 << 20
MIB = 1 << 20

# Run in a child: the bombs of all codecs, each with the growth of the peak in MiB and the error that came out.
CHILD = f"""
import gzip, json, resource, struct, sys, zlib
import cramjam
from kafkawire.compression import GZIP, LZ4, SNAPPY, ZSTD, compress, opened
from kafkawire.errors import RemoteError

def squeezed():
    deflate, piece = zlib.compressobj(9, zlib.DEFLATED, 31), bytes({MIB})
    return b"".join([*(deflate.compress(piece) for _ in range({MUCH // MIB})), deflate.flush()])

def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out) + bytes([number])

def lz4_frame():
    block = bytes(cramjam.lz4.compress_block(bytes(4 << 20), store_size=False))
    return b"\\x04\\x22\\x4d\\x18\\x60\\x70\\x73" + (struct.pack("<I", len(block)) + block) * 16 + bytes(4)

def zstd_frame():
    stream = cramjam.zstd.Compressor(3)
    for _ in range({MUCH // MIB}):
        stream.compress(bytes({MIB}))
    return bytes(stream.finish())

# A frame that wants a window of 2 GiB, and has one empty block.
window = b"\\x28\\xb5\\x2f\\xfd\\x00\\xa8\\x01\\x00\\x00"
raw = varint(2**31 - 1) + b"\\x00a"
xerial = b"\\x82SNAPPY\\x00" + struct.pack(">ii", 1, 1)
block = bytes(cramjam.snappy.compress_raw(bytes(32 << 10)))
bombs = {{
    "gzip": (GZIP, squeezed()),
    "snappy, raw": (SNAPPY, raw),
    "snappy, xerial": (SNAPPY, xerial + (struct.pack(">i", len(block)) + block) * 1024),
    "snappy, one block of xerial": (SNAPPY, xerial + struct.pack(">i", len(raw)) + raw),
    "lz4": (LZ4, lz4_frame()),
    "zstd": (ZSTD, zstd_frame()),
    "zstd, window": (ZSTD, window),
}}
for codec in (GZIP, SNAPPY, LZ4, ZSTD):
    opened(codec, compress(codec, bytes({LIMIT}), 2), {LIMIT})
found = {{}}
for name, (codec, data) in bombs.items():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        said = f"opened to {{len(opened(codec, data, {LIMIT}))}} bytes"
    except RemoteError as exc:
        said = str(exc)
    found[name] = (len(data), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10, said)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def exploded() -> dict[str, tuple[int, int, str]]:
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, tuple[int, int, str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gzip", f"gzip data decompresses to more than the limit of {LIMIT} bytes"),
        ("snappy, raw", "snappy data decompresses to more than the limit of"),
        ("snappy, xerial", "snappy data decompresses to more than the limit of"),
        ("snappy, one block of xerial", "snappy data decompresses to more than the limit of"),
        ("lz4", f"lz4 data decompresses to more than the limit of {LIMIT} bytes"),
        ("zstd", f"zstd data decompresses to more than the limit of {LIMIT} bytes"),
        ("zstd, window", "zstd data"),
    ],
)
def test_a_bomb_takes_no_more_than_its_limit(name: str, said: str, exploded: dict[str, tuple[int, int, str]]) -> None:
    size, grown, sentence = exploded[name]
    assert size <= 2 * LIMIT
    assert said in sentence
    assert grown <= 16, f"{name}: {grown} MiB"


def test_wrappers_of_wrappers_end_at_a_depth_and_share_one_limit() -> None:
    """One level is what Kafka writes; each further one multiplies by a thousand."""
    inner = v01.encode([(n, None, bytes(1000), None) for n in range(100)], GZIP, 0)
    for _ in range(MAX_DEPTH):
        inner = _wrapped(inner)
    for formats in (v01, mixed):
        fetched, _ = formats.message_set("t", 0, 0, memoryview(inner), None)
        with pytest.raises(CorruptMessage, match=f"wrappers nested deeper than {MAX_DEPTH}"):
            list(fetched.messages(False))
    budget = OpenBudget(10_000)  # of all depths
    with pytest.raises(RemoteError, match="decompresses to more than the limit of 10000 bytes"):
        opened_wrapper(wrapper(memoryview(_wrapped(bytes(MIB))), 0, len(_wrapped(bytes(MIB))), False), 1, budget)


def test_entries_side_by_side_in_a_set_share_one_limit() -> None:
    """Each of them is within it; a fetch of 1 MB would be gigabytes."""
    batches = []
    for n in range(3):
        entry = bytes(mixed.encode([(n, None, bytes(OPEN_LIMIT // 2 - MIB), None)], ZSTD, 2))
        batches.append(n.to_bytes(8, "big") + entry[8:])
    fetched, _ = mixed.message_set("t", 0, 0, memoryview(b"".join(batches)), None)
    with pytest.raises(
        SetTooLarge, match=f"t/0 at 0: the .* bytes of a message set decompress to more than {OPEN_LIMIT:,}"
    ):
        fetched.index()
    assert sum(map(len, fetched.pieces())) == 3


def _wrapped(entries: bytes) -> bytes:
    """An entry of format v0 whose value is these entries, in gzip."""
    value = compress(GZIP, entries)
    body = struct.pack(">bbii", 0, GZIP, -1, len(value)) + value
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


# ---- configurations ------------------------------------------------------------------------------------------------

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {k: 1}\n" + "".join(
    f"{name}: &{name}\n  <<: [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize("text", [LAUGHS, MERGES], ids=["lists", "merges"])
def test_a_billion_laughs_are_refused_before_they_are_made(text: str, tmp_path: Path) -> None:
    assert len(text) < 1000
    with pytest.raises(YamlRefused, match=r"line \d+: more than 100,000 values, aliases counted as what they name"):
        yaml_values(text)
    (tmp_path / "m.yaml").write_text(text)
    with pytest.raises(OptionError) as refused:
        from_yaml(tmp_path / "m.yaml")
    (sentence,) = refused.value.problems
    assert sentence.startswith("m.yaml: line ")


def test_a_value_that_contains_itself_is_refused() -> None:
    for text in ("a: &a [*a]\n", "a: &a {b: [1, {c: *a}]}\n"):
        with pytest.raises(YamlRefused, match="line 1: a value that contains itself"):
            yaml_values(text)


def test_aliases_that_stand_for_little_are_fine() -> None:
    many = "a: &a [1, 2, 3]\nb:\n" + "- *a\n" * 20_000
    found = yaml_values(many)
    assert isinstance(found, dict)
    assert len(found["b"]) == 20_000


# ---- requests ------------------------------------------------------------------------------------------------------


def test_bodies_of_requests_are_not_read() -> None:
    bomb = gzip.compress(bytes(MIB))
    head = f"POST /status HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}"
    with pytest.raises(BadRequest, match="POST is not allowed here"):
        parse(head.encode())


def test_a_limit_is_a_limit_to_the_byte() -> None:
    for codec in (GZIP, SNAPPY, LZ4, ZSTD):
        data = compress(codec, bytes(LIMIT), 2)
        assert len(opened(codec, data, LIMIT)) == LIMIT
        with pytest.raises(RemoteError, match=f"decompresses to more than the limit of {LIMIT - 1} bytes"):
            opened(codec, data, LIMIT - 1)
