"""Records of __consumer_offsets: every version read and written, and nothing in that topic stops a reader."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.errors import LocalError
from kafkawire.protocol.offsetrecords import (
    GroupRecord,
    OffsetRecord,
    StateRecord,
    StoredGroup,
    StoredOffset,
    UnknownRecord,
    group_partition,
    read_record,
)
from tests.fakes.offsetrecords import group_key, group_value, offset_key, offset_value

texts = st.text(st.characters(codec="utf-8"), max_size=20)
int64 = st.integers(-1, 2**63 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)


def stored(version: int) -> st.SearchStrategy[StoredOffset]:
    return st.builds(
        StoredOffset,
        offset=int64,
        metadata=texts,
        commit_ms=int64,
        expire_ms=int64 if version == 1 else st.none(),
        leader_epoch=st.none() | st.integers(0, 2**31 - 1) if version >= 3 else st.none(),
    )


@pytest.mark.parametrize("key_version", [0, 1])
@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
@given(st.data())
def test_an_offset_comes_back_as_it_was_written(key_version: int, version: int, data: st.DataObject):
    group, topic, partition = data.draw(texts), data.draw(texts), data.draw(int32)
    value = data.draw(stored(version))
    key = offset_key(group, topic, partition, key_version)
    assert read_record(key, offset_value(value, version)) == OffsetRecord(group, topic, partition, value)
    assert read_record(key, None) == OffsetRecord(group, topic, partition, None)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
@given(
    texts,
    st.builds(
        StoredGroup,
        protocol_type=texts,
        generation=int32,
        protocol=st.none() | texts,
        leader=st.none() | texts,
        members=st.lists(st.tuples(texts, texts, texts), max_size=3).map(tuple),
    ),
)
def test_a_group_comes_back_as_it_was_written(version: int, group: str, value: StoredGroup):
    assert read_record(group_key(group), group_value(value, version)) == GroupRecord(group, value)
    assert read_record(group_key(group), None) == GroupRecord(group, None)


@given(st.none() | st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_whatever_is_in_the_topic_is_a_record_and_never_an_error(key: bytes | None, value: bytes | None):
    assert isinstance(read_record(key, value), (OffsetRecord, GroupRecord, StateRecord, UnknownRecord))


@given(st.sampled_from([0, 1, 2, 3, 4]), st.data())
def test_every_cut_and_every_tail_of_a_value_is_unknown_with_its_partition(version: int, data: st.DataObject):
    whole = offset_value(data.draw(stored(version)), version)
    key = offset_key("g", "t", 1)
    for broken in [*(whole[:at] for at in range(len(whole))), whole + b"\0"]:
        found = read_record(key, broken)
        assert isinstance(found, UnknownRecord)
        assert (found.group, found.topic, found.partition) == ("g", "t", 1)


def test_the_bytes_of_0_8_2_and_of_0_9():
    key = struct.pack(">hh", 0, 3) + b"grp" + struct.pack(">h", 1) + b"t" + struct.pack(">i", 7)
    value = struct.pack(">hqh", 0, 42, 4) + b"note" + struct.pack(">q", 1500000000000)
    assert read_record(key, value) == OffsetRecord("grp", "t", 7, StoredOffset(42, "note", 1500000000000))
    key = struct.pack(">h", 1) + key[2:]
    value = struct.pack(">hqh", 1, 42, 0) + struct.pack(">qq", 1500000000000, 1500086400000)
    expected = StoredOffset(42, "", 1500000000000, 1500086400000)
    assert read_record(key, value) == OffsetRecord("grp", "t", 7, expected)


def test_the_bytes_of_4_1_with_a_tagged_field():
    value = struct.pack(">hqi", 4, 42, 6) + b"\5note" + struct.pack(">q", 1500000000000)
    expected = OffsetRecord("g", "t", 0, StoredOffset(42, "note", 1500000000000, None, 6))
    assert read_record(offset_key("g", "t", 0), value + b"\0") == expected
    assert read_record(offset_key("g", "t", 0), value + b"\1\0\x10" + b"topic id of 16 b") == expected


def test_a_key_of_another_version_is_unknown():
    found = read_record(struct.pack(">h", -1) + b"\0\1g", b"")
    assert isinstance(found, UnknownRecord)
    assert "version -1" in found.why


@pytest.mark.parametrize("version", [3, 15, 77])
def test_the_state_of_a_group_of_a_newer_protocol_is_nothing_unknown(version: int):
    assert read_record(struct.pack(">h", version) + b"\0\1g", b"\0\7 whatever") == StateRecord(version)


@pytest.mark.parametrize("version", [-1, 5])
def test_a_value_of_another_version_is_unknown_and_is_not_written(version: int):
    found = read_record(offset_key("g", "t", 0), struct.pack(">h", version) + b"\0" * 30)
    assert isinstance(found, UnknownRecord)
    assert f"version {version}" in found.why
    with pytest.raises(LocalError, match=f"version {version}"):
        offset_value(StoredOffset(1, "", 1), version)
    with pytest.raises(LocalError, match="expire_timestamp"):
        offset_value(StoredOffset(1, "", 1, expire_ms=5), 0)
    with pytest.raises(LocalError, match="leader_epoch"):
        offset_value(StoredOffset(1, "", 1, leader_epoch=5), 2)
    with pytest.raises(LocalError, match="offset key of version 2"):
        offset_key("g", "t", 0, 2)


def test_a_group_is_kept_where_java_s_hash_says():
    assert group_partition("polygenelubricants", 50) == 0  # its hash is the least int32, whose abs is 0 there
    assert group_partition("a", 50) == 97 % 50
    assert group_partition("console-consumer-99999", 4) in range(4)
