"""`kafkawire decode` at the end of a set: an entry that is cut is no damage, one with a damaged size is."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkawire.__main__ import main
from kafkawire.compression import GZIP
from kafkawire.decode import v07, v08
from kafkawire.errors import CorruptMessage
from kafkawire.formats.v01.messages import encode as encode08
from kafkawire.formats.v07.messages import encode as encode07
from kafkawire.formats.v2.read import Record
from tests.kafkawire.recordbatches import batch

START = 5_000_000_000  # offsets of a long-lived partition


def plain08(n: int) -> bytes:
    return bytes(encode08([(START + n, b"k", b"value %d" % n, 7)], 0, n % 2))


def wrapper08(n: int) -> bytes:
    return bytes(encode08([(START + 2 * n + i, None, b"value %d" % i, None) for i in range(2)], GZIP))


def batch08(n: int) -> bytes:
    return batch([Record(START + 2 * n + i, 7, None, b"value %d" % i, ()) for i in range(2)], base=START + 2 * n)


def plain07(n: int) -> bytes:
    return bytes(encode07([(0, None, b"value %d" % n, None)]))


def wrapper07(n: int) -> bytes:
    return bytes(encode07([(0, None, b"value %d" % i, None) for i in range(2)], GZIP))


SIZE_AT = {plain08: 8, wrapper08: 8, batch08: 8, plain07: 0, wrapper07: 0}


def damage_of(entry: Callable[[int], bytes], data: bytes) -> CorruptMessage | None:
    return (v07 if SIZE_AT[entry] == 0 else v08).set_document(data, 0)[1]


def flipped(entry: Callable[[int], bytes], n: int, entries: int = 6) -> tuple[bytearray, int]:
    """Entries, with a bit of the size of one flipped so that it says more than is left; and where that one begins."""
    data = [bytearray(entry(i)) for i in range(entries)]
    data[n][SIZE_AT[entry] + 1] ^= 0x10
    return bytearray(b"".join(data)), sum(map(len, data[:n]))


@pytest.mark.parametrize("entry", SIZE_AT)
def test_an_entry_that_is_cut_anywhere_is_no_damage(entry: Callable[[int], bytes]) -> None:
    data = b"".join(entry(n) for n in range(3))
    assert [cut for cut in range(len(data) + 1) if damage_of(entry, data[:cut])] == []


@pytest.mark.parametrize("n", [0, 2, 5])
@pytest.mark.parametrize("entry", SIZE_AT)
def test_a_damaged_size_is_told_wherever_the_entry_stands(entry: Callable[[int], bytes], n: int) -> None:
    data, begin = flipped(entry, n)
    found = damage_of(entry, bytes(data))
    assert found is not None
    assert found.position == begin
    assert found.why.startswith("damaged size, it declares 10")


@pytest.mark.parametrize("entry", [plain08, wrapper08, batch08, plain07])
def test_entries_behind_are_found_where_more_of_the_entry_is_damaged(entry: Callable[[int], bytes]) -> None:
    data, begin = flipped(entry, 2)
    data[begin + len(entry(2)) - 1] ^= 1
    found = damage_of(entry, bytes(data))
    assert found is not None
    assert f"an entry with a right checksum begins at byte {begin + len(entry(2))}" in found.why


@pytest.mark.parametrize("entry", [wrapper07, wrapper08])
def test_what_a_cut_wrapper_holds_uncompressed_is_no_entry_behind_it(entry: Callable[[int], bytes]) -> None:
    held = [(START + n, None, bytes(400), None) for n in range(4)]
    if entry is wrapper07:
        stored = gzip.compress(encode07(held), compresslevel=0)
        data = bytearray(encode07([(0, None, stored, None)]))
        data[5] = GZIP
    else:
        stored = gzip.compress(encode08(held), compresslevel=0)
        data = bytearray(encode08([(START + 3, None, stored, None)]))
        data[17] = GZIP
    assert bytes((encode07 if entry is wrapper07 else encode08)(held[2:3])) in data[:-200]
    before = plain07(0) if entry is wrapper07 else plain08(-1)
    assert damage_of(entry, before + bytes(data[:-200])) is None


def test_a_tail_of_no_known_format_is_damage() -> None:
    found = damage_of(plain08, plain08(0) + START.to_bytes(8, "big") + b"\x7f" * 40)
    assert found is not None
    assert found.why == "unknown message format v127"


def test_a_segment_with_a_damaged_size_exits_1_and_its_beginning_on_standard_input_0(tmp_path: Path) -> None:
    segment = tmp_path / f"{START:020}.log"
    data, begin = flipped(plain08, 3)
    segment.write_bytes(data)
    asked = ["decode", "--protocol", "0.10", "--kind", "log"]
    done = CliRunner().invoke(main, [*asked, str(segment)])
    assert done.exit_code == 1
    assert f"entry at byte {begin} (offset {START + 3}): damaged size, it declares" in done.stderr
    *messages, last = map(json.loads, done.stdout.splitlines())
    assert (len(messages), last["valid_bytes"], last["result"]) == (3, begin, f"damaged size at offset {START + 3}")
    head = b"".join(plain08(n) for n in range(6))[:-5]
    done = CliRunner().invoke(main, [*asked, "-"], input=head)
    last = json.loads(done.stdout.splitlines()[-1])
    assert (done.exit_code, last["base_offset"], last["ignored_tail_bytes"]) == (0, None, len(plain08(5)) - 5)
