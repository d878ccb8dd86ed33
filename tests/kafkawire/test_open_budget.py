"""What a set opens to is bounded for the whole of it: read in pieces it is read, and all at once it is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkawire import compression, kernels
from kafkawire.cluster import recordbatches
from kafkawire.compression import GZIP, SNAPPY, ZSTD
from kafkawire.decode import v07 as decode07
from kafkawire.decode import v08 as decode08
from kafkawire.dialects import dialect
from kafkawire.errors import SetTooLarge
from kafkawire.formats import layouts, mixed
from kafkawire.formats.layouts import OpenBudget
from kafkawire.formats.v01 import columns as v01
from kafkawire.formats.v07 import columns as v07
from kafkawire.formats.v2 import columns as v2
from kafkawire.model import BrokerPartition, Message, MessageSet

SIZE = 400_000  # what an entry opens to, about
ENTRIES = 6
LIMIT = 1_000_000  # two of them


def bombs(release: str, magics: list[int], codec: int, sizes: list[int] | None = None) -> MessageSet:
    """A few hundred bytes: an entry of two messages of each magic."""
    spoken = dialect(release)
    partition = 3 if spoken.offsets.count_messages else BrokerPartition(0, 3)
    entries = []
    for n, magic in enumerate(magics):
        size = SIZE if sizes is None else sizes[n]
        rows = [(2 * n + i, None, bytes(size // 2), None) for i in range(2)]
        entry = bytes(spoken.messages.encode(rows, codec=codec, magic=magic))
        entries.append((2 * n).to_bytes(8, "big") + entry[8:] if magic == 2 else entry)  # as a broker numbers it
    found, scan = spoken.messages.message_set("orders", partition, 0, memoryview(b"".join(entries)), 100)
    assert scan.damage is None
    assert isinstance(found, MessageSet)
    return found


SETS = {
    "v0": lambda: (v01, bombs("0.8.2", [0] * ENTRIES, GZIP)),
    "v0 snappy": lambda: (v01, bombs("0.8.2", [0] * ENTRIES, SNAPPY)),
    "v1": lambda: (v01, bombs("0.10.2", [1] * ENTRIES, GZIP)),
    "v2": lambda: (v2, bombs("3.9", [2] * ENTRIES, ZSTD)),
    "v2 gzip": lambda: (v2, bombs("3.9", [2] * ENTRIES, GZIP)),
    "0.7": lambda: (v07, bombs("0.7", [dialect("0.7").magic] * ENTRIES, GZIP)),
}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each entry that is opened from here on."""
    sizes: list[int] = []
    original: Callable[..., Any] = compression.opened

    def counting(*args: Any) -> Any:
        found = original(*args)
        sizes.append(len(found))
        return found

    monkeypatch.setattr(compression, "opened", counting)
    return sizes


@pytest.fixture(params=["pure", "compiled"])
def form(request: pytest.FixtureRequest) -> Any:
    return None if request.param == "pure" else kernels.compiled(1 << 30)


@pytest.mark.parametrize("kind", SETS)
def test_all_columns_at_once_are_refused_beyond_the_limit_of_the_set(kind: str, opened: list[int], form: Any) -> None:
    module, found = SETS[kind]()
    del opened[:]
    with pytest.raises(SetTooLarge) as refused:
        module.index_by(form, found, True, LIMIT)
    assert sum(opened) <= LIMIT
    said = str(refused.value)
    assert said.startswith(
        f"{found.tp} at 0: the {len(found.buffer):,} bytes of a message set decompress to more than 1,000,000"
    )
    assert "MessageSet.pieces" in said
    assert "fetch.message.max.bytes" in said
    assert len(module.index_by(form, found, True, ENTRIES * LIMIT)) == 2 * ENTRIES


@pytest.mark.parametrize("kind", SETS)
def test_in_pieces_and_by_messages_such_a_set_is_read_and_no_piece_exceeds_the_limit(
    kind: str, opened: list[int], form: Any
) -> None:
    module, found = SETS[kind]()
    for most_bytes in (1, 1 << 18, 1 << 30):  # the last: a step or a Spark batch that wants more than may be open
        rows, pieces = 0, 0
        for columns in module.pieces_by(form, found, True, most_bytes, LIMIT):
            assert columns.damage is None
            assert len(columns.data) <= LIMIT
            rows, pieces = rows + len(columns), pieces + 1
        assert (rows, columns.resume_at) == (2 * ENTRIES, found.resume_at)
        assert pieces >= ENTRIES // 2
    assert sum(1 for _ in messages(module, found)) == 2 * ENTRIES


def messages(module: Any, found: MessageSet) -> Iterator[Message]:
    """Each entry by itself is within the limit."""
    from kafkawire.formats.v01 import read as read01
    from kafkawire.formats.v07 import read as read07

    read = {v01: read01.messages, v07: read07.messages, v2: v2.messages}[module]
    yield from read(found, True, LIMIT)


@pytest.mark.parametrize("kind", ["v0", "v1", "v2", "0.7"])
def test_an_entry_that_exceeds_the_limit_alone_is_damage_wherever_it_stands(kind: str, form: Any) -> None:
    release, magic, codec = {
        "v0": ("0.8.2", 0, GZIP), "v1": ("0.10.2", 1, GZIP), "v2": ("3.9", 2, ZSTD), "0.7": ("0.7", 2, GZIP)
    }[kind]  # fmt: skip
    magic = dialect("0.7").magic if kind == "0.7" else magic
    module, _ = SETS[kind]()
    found = bombs(release, [magic] * 3, codec, [SIZE, SIZE, 3 * LIMIT])
    *before, last = module.pieces_by(form, found, True, 1 << 30, LIMIT)
    assert sum(map(len, before)) + len(last) == 4
    assert last.damage is not None
    assert f"more than the limit of {LIMIT} bytes" in str(last.damage)
    assert last.resume_at == last.damage.offset if kind == "0.7" else last.resume_at == 4


def test_the_formats_of_a_mixed_set_share_its_limit(opened: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    found = bombs("0.11", [1, 1, 2, 2], GZIP)
    assert found.reader is mixed.READER
    assert len(found.index()) == 8
    del opened[:]
    monkeypatch.setattr(mixed, "OPEN_LIMIT", LIMIT)  # each half of it would do
    with pytest.raises(SetTooLarge, match="decompress to more than 1,000,000"):
        found.index()
    assert sum(opened) <= LIMIT
    assert sum(map(len, found.pieces())) == 8


def test_what_stands_in_a_set_plainly_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    spoken = dialect("0.8.2")
    entries = spoken.messages.encode([(n, None, bytes(100_000), None) for n in range(20)])
    found, _ = spoken.messages.message_set("orders", 3, 0, memoryview(entries), 100)
    assert len(v01.index(found, True, LIMIT)) == 20


def test_a_budget_is_counted_down_by_everything_that_is_opened() -> None:
    budget = OpenBudget(1000)
    data = compression.compress(GZIP, bytes(600))
    assert len(budget.opened(GZIP, data)) == 600
    with pytest.raises(layouts.OpensTooLarge, match="more than the limit of 1000 bytes, of which 400 are left"):
        budget.opened(GZIP, data)
    assert (budget.left, budget.exceeded) == (400, True)


@pytest.mark.parametrize("kind", ["v0", "v1", "v2", "0.7"])
def test_what_is_decoded_as_a_document_shares_one_limit(
    kind: str, opened: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, found = SETS[kind]()
    decode = decode07 if kind == "0.7" else decode08
    document, damage = decode.set_document(found.buffer, 0)
    assert (damage, len(document["messages"])) == (None, 2 * ENTRIES)
    monkeypatch.setattr(decode, "OPEN_LIMIT", LIMIT)
    document, damage = decode.set_document(found.buffer, 0)
    assert len(document["messages"]) == 4
    assert f"more than the limit of {LIMIT} bytes, of which" in str(damage)


def test_looking_for_headers_opens_no_more_than_its_limit_of_a_response(
    opened: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = bombs("3.9", [2] * ENTRIES, ZSTD)
    monkeypatch.setattr(recordbatches, "_OPEN_LIMIT", LIMIT)
    del opened[:]
    assert [batch.headers for batch in recordbatches.batches(found.buffer)] == [False, False] + [None] * (ENTRIES - 2)
    assert sum(opened) <= LIMIT
