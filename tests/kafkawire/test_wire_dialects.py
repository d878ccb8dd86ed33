"""One row per release: which versions are spoken, and what is refused with a sentence."""

from __future__ import annotations

import pytest

from kafkawire.dialects import DIALECTS, dialect
from kafkawire.errors import LocalError
from kafkawire.model import BrokerPartition
from kafkawire.v08 import apis, messages, requests, znodes

P, F, L, M = (apis.PRODUCE.key, apis.FETCH.key, apis.LIST_OFFSETS.key, apis.METADATA.key)

PINS = {  # Produce, Fetch, ListOffsets, Metadata, magic
    "0.8.0": (0, 0, 0, 0, 0),
    "0.8.1": (0, 0, 0, 0, 0),
    "0.8.2": (0, 0, 0, 0, 0),
    "0.9": (1, 1, 0, 0, 0),
    "0.10.0": (2, 2, 0, 1, 1),
    "0.10.1": (2, 2, 1, 1, 1),
    "0.10.2": (2, 2, 1, 1, 1),
    "1.1": (2, 2, 1, 1, 1),
    "3.9": (2, 2, 1, 1, 1),
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
        "0.10.2": (0, 2, 0, 1),
        "3.9": (0, 2, 0, 1),
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
        (" 0.8.2 ", "0.8.2"),
    ],
)
def test_a_release_as_brokers_call_themselves_maps_to_its_row(text: str, row: str) -> None:
    assert dialect(text).release == row


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("0.8", "0.8.2"),
        ("0.7.2", "0.8.0"),
        ("0.8.3", "0.8.2"),
        ("0.8.2-beta", "0.8.2"),
        ("4.1.0", "3.9"),
        ("0.8.2.x", "0.8.2"),
        ("0.12", "0.11"),
        ("", "0.8.0"),
        ("kafka", "0.8.0"),
        ("2.10", "2.8"),
    ],
)
def test_an_unknown_release_names_the_nearest_known(text: str, nearest: str) -> None:
    with pytest.raises(LocalError, match=f"unknown Kafka release '{text}'; the nearest known is {nearest}$"):
        dialect(text)


def test_every_version_spoken_has_a_table() -> None:
    for d in DIALECTS.values():
        for key, version in d.versions.items():
            assert 0 <= version <= apis.APIS[key].newest


def test_lz4_came_with_0_8_2() -> None:
    assert list(DIALECTS)[:2] == ["0.8.0", "0.8.1"]
    assert [release for release, d in DIALECTS.items() if 3 in d.codecs] == list(DIALECTS)[2:]


def test_several_wrappers_are_merged_up_to_2_3_and_refused_from_2_4_on() -> None:
    for release, d in DIALECTS.items():
        newer = release.startswith("3.") or release in ("2.4", "2.5", "2.6", "2.7", "2.8")
        assert (d.merges_wrappers, d.one_wrapper_per_set) == (not newer, newer), release


def test_a_whole_set_is_measured_where_it_becomes_one_batch() -> None:
    assert [r for r, d in DIALECTS.items() if not d.measures_whole_set] == [
        "0.8.0", "0.8.1", "0.8.2", "0.9", "0.10.0", "0.10.1", "0.10.2",
    ]  # fmt: skip


def test_partitions_are_numbers_and_sort_as_numbers() -> None:
    d = dialect("0.8.2")
    assert d.in_order([10, 9, 0, 2]) == [0, 2, 9, 10]
    assert (d.znode(10), d.partition("10")) == ("10", 10)
    for text in ("0-1", "", "-1", "x", "１"):
        with pytest.raises(LocalError, match="names no partition"):
            d.partition(text)
    with pytest.raises(LocalError, match=r"partition 0-1 is one of 0\.7"):
        d.in_order([BrokerPartition(0, 1)])


def test_a_dialect_leads_to_the_modules_of_its_generation() -> None:
    d = dialect("0.8.2")
    assert (d.messages, d.requests, d.znodes) == (messages, requests, znodes)
