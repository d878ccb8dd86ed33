"""One row per release: which versions are spoken, and what is refused with a sentence."""

from __future__ import annotations

import pytest

from kafkawire.dialects import DIALECTS, ENTRY_OVERHEAD, dialect
from kafkawire.errors import LocalError
from kafkawire.formats.v01 import messages
from kafkawire.formats.v07 import messages as messages_v07
from kafkawire.model import BrokerPartition, TopicPartition, partition_named
from kafkawire.offsets import BYTE_OFFSETS
from kafkawire.protocol import apis
from kafkawire.protocol import requests07 as requests_v07
from kafkawire.protocol import requests08 as requests
from kafkawire.znodes import v07 as znodes_v07
from kafkawire.znodes import v08 as znodes

P, F, L, M = (apis.PRODUCE.key, apis.FETCH.key, apis.LIST_OFFSETS.key, apis.METADATA.key)

PINS = {  # Produce, Fetch, ListOffsets, Metadata, magic
    "0.8.0": (0, 0, 0, 0, 0),
    "0.8.1": (0, 0, 0, 0, 0),
    "0.8.2": (0, 0, 0, 0, 0),
    "0.9": (1, 1, 0, 0, 0),
    "0.10.0": (2, 2, 0, 1, 1),
    "0.10.1": (2, 3, 1, 2, 1),
    "0.10.2": (2, 3, 1, 2, 1),
    "0.11": (3, 5, 2, 4, 2),
    "1.1": (5, 7, 2, 5, 2),
    "2.3": (7, 11, 5, 8, 2),
    "3.9": (8, 11, 5, 8, 2),
    "4.3": (8, 11, 5, 8, 2),
}


@pytest.mark.parametrize("release", PINS)
def test_the_pinned_versions(release: str) -> None:
    d = dialect(release)
    assert (*(d.speaks(key) for key in (P, F, L, M)), d.magic) == PINS[release]


def test_offsets_by_store() -> None:
    commit, fetch = apis.OFFSET_COMMIT.key, apis.OFFSET_FETCH.key
    rows = {
        "0.8.0": (None, None, None, None),
        "0.8.1": (0, None, 0, None),
        "0.8.2": (0, 1, 0, 1),
        "0.9": (0, 2, 0, 1),
        "0.10.2": (0, 2, 0, 2),
        "2.1": (0, 6, 0, 5),
        "3.9": (0, 7, 0, 5),
        "4.0": (None, 7, None, 5),
    }
    for release, expected in rows.items():
        d = dialect(release)
        spoken = []
        for key in (commit, fetch):
            for store in ("zookeeper", "kafka"):
                try:
                    spoken.append(d.speaks(key, store))  # type: ignore[arg-type]
                except LocalError:
                    spoken.append(None)
        assert tuple(spoken) == expected, release


def test_what_a_release_has_not_is_our_fault_and_named() -> None:
    with pytest.raises(LocalError, match=r"Kafka 0\.8\.0 has no OffsetCommit for offsets in zookeeper"):
        dialect("0.8.0").speaks(apis.OFFSET_COMMIT.key, "zookeeper")
    with pytest.raises(LocalError, match=r"Kafka 0\.8\.2 has no JoinGroup$"):
        dialect("0.8.2").speaks(apis.JOIN_GROUP.key)
    with pytest.raises(LocalError, match=r"Kafka 0\.9 has no ApiVersions"):
        dialect("0.9").speaks(apis.API_VERSIONS.key)


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("0.8.2.2", "0.8.2"),
        ("0.8.1.1", "0.8.1"),
        ("0.9.0.1", "0.9"),
        ("0.10.0.1", "0.10.0"),
        ("0.10.1.1", "0.10.1"),
        ("0.11.0.2", "0.11"),
        ("2.8.2", "2.8"),
        ("3.9.1", "3.9"),
        ("4.0.0", "4.0"),
        ("4.3.1", "4.3"),
        ("4.9", "4.3"),  # a later one has the newest row
        ("5.0.1", "4.3"),
        (" 0.8.2 ", "0.8.2"),
        ("0.7", "0.7.2"),
        ("0.7.0", "0.7.0"),
        ("0.7.2", "0.7.2"),
    ],
)
def test_a_release_as_brokers_call_themselves_maps_to_its_row(text: str, row: str) -> None:
    assert dialect(text).release == row


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("0.7.3", "0.7.2"),
        ("0.7.2.x", "0.7.2"),
        ("0.8.3", "0.8.2"),
        ("0.8.2-beta", "0.8.2"),
        ("0.8.2.x", "0.8.2"),
        ("0.12", "0.11"),
        ("", "0.7.0"),
        ("kafka", "0.7.0"),
        ("2.10", "2.8"),
        ("5.x", "4.3"),
    ],
)
def test_an_unknown_release_names_the_nearest_known(text: str, nearest: str) -> None:
    with pytest.raises(LocalError, match=f"unknown Kafka release '{text}'; the nearest known is {nearest}$"):
        dialect(text)


@pytest.mark.parametrize(
    ("text", "releases"), [("0.8", "0.8.0, 0.8.1, 0.8.2"), ("0.10", "0.10.0, 0.10.1, 0.10.2"), ("1", "1.0, 1.1")]
)
def test_a_family_of_releases_names_its_members(text: str, releases: str) -> None:
    with pytest.raises(LocalError, match=f"'{text}' is several releases: {releases}; give the oldest of the brokers$"):
        dialect(text)


def test_every_version_spoken_has_a_table() -> None:
    for d in DIALECTS.values():
        for key, version in d.versions.items():
            assert 0 <= version <= apis.APIS[key].newest


def test_lz4_came_with_0_8_2() -> None:
    assert list(DIALECTS)[3:5] == ["0.8.0", "0.8.1"]
    assert [release for release, d in DIALECTS.items() if 3 in d.codecs] == list(DIALECTS)[5:]


def test_several_wrappers_of_a_set_are_refused_from_2_4_on() -> None:
    for release, d in DIALECTS.items():
        newer = release.startswith(("3.", "4.")) or release in ("2.4", "2.5", "2.6", "2.7", "2.8")
        assert d.one_wrapper_per_set == newer, release


def test_a_whole_set_is_measured_where_it_becomes_one_batch() -> None:
    assert [r for r, d in DIALECTS.items() if not d.measures_whole_set] == [
        "0.7.0", "0.7.1", "0.7.2", "0.8.0", "0.8.1", "0.8.2", "0.9", "0.10.0", "0.10.1", "0.10.2",
    ]  # fmt: skip


def test_partitions_are_numbers_and_sort_as_numbers() -> None:
    d = dialect("0.8.2")
    assert d.in_order([10, 9, 0, 2]) == [0, 2, 9, 10]
    assert (d.znode(10), d.partition("10")) == ("10", 10)
    for text in ("0-1", "", "-1", "x", "１"):
        with pytest.raises(LocalError, match="is not a partition"):
            d.partition(text)
    with pytest.raises(LocalError, match=r"partition 0-1 is one of 0\.7"):
        d.in_order([BrokerPartition(0, 1)])


def test_a_dialect_leads_to_the_modules_of_its_generation() -> None:
    d = dialect("0.8.2")
    assert (d.messages, d.requests, d.znodes) == (messages, requests, znodes)
    old = dialect("0.7.1")
    assert (old.messages, old.requests, old.znodes) == (messages_v07, requests_v07, znodes_v07)
    assert d.describes_itself
    assert not old.describes_itself


@pytest.mark.parametrize("what", ["messages", "requests", "znodes"])
def test_what_is_used_of_a_generation_is_there_in_the_other(what: str) -> None:
    here, there = getattr(dialect("0.7"), what), getattr(dialect("0.8.2"), what)
    shared = {
        "messages": "message_set encode wrap check split count cut_short entry_at behind index pieces pieces_by READER "
        "ENTRY_OVERHEAD LOG_OVERHEAD LOWEST CODEC scan wrapper MAX_DEPTH OPEN_LIMIT",
        "requests": "fetch produce list_offsets metadata group_coordinator offset_commit offset_fetch "
        "describe_groups list_groups api_versions CONSUMER FetchedPartition",
        "znodes": "PARTITIONS_BY_BROKER BROKERS TOPICS CONSUMERS broker broker_path topic_path registration "
        "registration_text ids member owners owner offsets offset consumer_id named_consumer_id thread_ids",
    }[what].split()
    assert [name for name in shared if not hasattr(here, name) or not hasattr(there, name)] == []


def test_0_7_has_what_its_releases_have() -> None:
    assert {release: d.codecs for release, d in DIALECTS.items() if release.startswith("0.7")} == {
        "0.7.0": {0, 1}, "0.7.1": {0, 1, 2}, "0.7.2": {0, 1, 2},
    }  # fmt: skip
    old = dialect("0.7")
    assert (old.magic, old.formats, old.offsets) == (-1, {-2, -1}, BYTE_OFFSETS)
    for d in DIALECTS.values():
        newer = not d.release.startswith("0.7")
        assert {d.has_keys, d.answers_produce, d.waits_for_data, d.describes_itself} == {newer}, d.release
        assert d.keeps_offsets == (newer and d.release not in ("0.8.0", "0.8.1"))


def test_no_format_of_one_generation_is_one_of_another() -> None:
    assert [d.formats for d in (dialect("0.7"), dialect("0.9"), dialect("2.8"))] == [{-2, -1}, {0}, {0, 1, 2}]
    assert ENTRY_OVERHEAD == {-2: 9, -1: 10, 0: 26, 1: 34, 2: 21}


def test_what_0_7_cannot_is_our_fault_and_named() -> None:
    old = dialect("0.7")
    for ask in (
        lambda: old.requests.metadata(old, None),
        lambda: old.requests.group_coordinator(old, "g"),
        lambda: old.requests.offset_commit(old, "g", {}),
        lambda: old.requests.api_versions(old),
    ):
        with pytest.raises(LocalError, match=r"Kafka 0\.7\.2 has no "):
            ask()


def test_what_only_0_7_needs_is_refused_later_and_named() -> None:
    new = dialect("0.8.2")
    with pytest.raises(LocalError, match=r"Kafka 0\.8\.2 acknowledges Produce: t/3 "):
        new.requests.barrier(new, TopicPartition("t", 3))
    with pytest.raises(LocalError, match=r"look up where an entry begins by its offset"):
        new.messages.next_border(b"\0" * 100)


def test_partitions_of_0_7_are_pairs_and_sort_as_text() -> None:
    d = dialect("0.7")
    pairs = [BrokerPartition(b, p) for b, p in ((2, 0), (0, 10), (0, 2), (10, 1), (0, 0))]
    assert [d.znode(pair) for pair in d.in_order(pairs)] == ["0-0", "0-10", "0-2", "10-1", "2-0"]
    assert d.partition("12-3") == BrokerPartition(12, 3)
    for text in ("0", "", "-1", "1-", "-1-0", "1-2-3", "1-x", "１-0"):
        with pytest.raises(LocalError, match=r"is not a partition of Kafka 0\.7\.2; expected broker-index"):
            d.partition(text)
    with pytest.raises(LocalError, match=r"partition 3 is one of 0\.8 or later"):
        d.znode(3)


def test_the_text_of_a_partition_is_a_number_or_a_pair_of_them() -> None:
    assert partition_named("12") == 12
    assert partition_named("2147483647-0") == BrokerPartition(2**31 - 1, 0)  # ids of brokers may be made of addresses
    for text in ("", "-1", "1-", "-1-0", "1-2-3", "1-x", "１-0", "2147483648", "2147483648-0", "0-2147483648"):
        assert partition_named(text) is None
