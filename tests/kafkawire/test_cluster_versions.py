"""The Dialect of a cluster, made of what its brokers say, and how it follows them through a roll."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kafkawire.cluster.release import BrokerRelease, release_of
from kafkawire.cluster.versions import ClusterVersions, NoCommonVersion, common, negotiated, taken
from kafkawire.dialects import DIALECTS, NEWEST, UNASKED, dialect
from kafkawire.errors import LinkLost
from kafkawire.model import Broker
from kafkawire.protocol import apis
from kafkawire.protocol.adminapis import CREATE_TOPICS

P, F, L, M = (apis.PRODUCE.key, apis.FETCH.key, apis.LIST_OFFSETS.key, apis.METADATA.key)

# What brokers of these releases answered (wire-protocol.md 2.14), as far as we know the apis.
ANSWERS = {
    "0.10.0": {P: (0, 2), F: (0, 2), L: (0, 0), M: (0, 1), 8: (0, 2), 9: (0, 1), 10: (0, 0)},
    "0.10.2": {P: (0, 2), F: (0, 3), L: (0, 1), M: (0, 2), 8: (0, 2), 9: (0, 2), 10: (0, 0), 19: (0, 1)},
    "2.8": {P: (0, 9), F: (0, 12), L: (0, 6), M: (0, 11), 8: (0, 8), 9: (0, 7), 10: (0, 3), 11: (0, 7), 19: (0, 7)},
    "3.9": {P: (0, 11), F: (0, 17), L: (0, 9), M: (0, 12), 8: (0, 9), 9: (0, 9), 10: (0, 6), 11: (0, 9), 19: (0, 7)},
    "4.0": {P: (0, 12), F: (4, 17), L: (1, 10), M: (0, 13), 8: (2, 9), 9: (1, 9), 10: (0, 6), 11: (2, 9), 19: (2, 7)},
}


def broker(number: int, release: str) -> BrokerRelease:
    return BrokerRelease(Broker(number, "broker", 9000 + number), release, ANSWERS.get(release, {}))


@pytest.mark.parametrize("release", ANSWERS)
def test_one_release_is_spoken_to_as_its_row_says(release: str) -> None:
    assert release_of(ANSWERS[release]) == release
    if release == "4.0" and NEWEST.versions[P] < 3:
        pytest.skip("record batches are not written yet")
    made, row = negotiated([broker(1, release)]), dialect(release)
    assert made.release == release
    for key in ANSWERS[release]:
        assert made.versions[key] == row.versions[key], apis.APIS[key].name
    assert (made.magic, made.formats, made.codecs) == (row.magic, row.formats, row.codecs)


def test_kafka_4_takes_no_produce_request_before_v3_whatever_it_says() -> None:
    assert taken(broker(1, "4.0"))[P] == (3, 12)
    assert taken(broker(1, "3.9"))[P] == (0, 11)


def test_a_cluster_being_rolled_is_spoken_to_as_the_older_one_within_what_the_newer_one_takes() -> None:
    made = negotiated([broker(1, "3.9"), broker(2, "0.10.2"), broker(3, "0.10.0")])
    assert made.release == "0.10.0"
    assert (made.versions[L], made.versions[M], made.magic) == (0, 1, 1)
    assert CREATE_TOPICS.key not in made.versions  # one of them does not have it
    assert made.one_wrapper_per_set  # the newest refuses several, so they are sent to none
    assert made.measures_whole_set


def test_an_older_broker_that_says_nothing_counts_as_its_row() -> None:
    made = negotiated([broker(1, "0.10.2"), broker(2, "0.8.2")])
    assert (made.release, made.magic, made.versions[P]) == ("0.8.2", 0, 0)
    assert made.formats == frozenset({0})
    assert negotiated([broker(1, "0.9")]).versions == dialect("0.9").versions


def test_brokers_without_a_common_version_are_named_with_what_they_take() -> None:
    with pytest.raises(
        NoCommonVersion,
        match=r"no version of Produce that all can speak: broker 2 .*Kafka 0\.8\.2.*v0 to v0, broker 1 ",
    ) as no:
        negotiated([broker(1, "4.0"), broker(2, "0.8.2")])
    assert "v3 to v12" in str(no.value)
    strange = BrokerRelease(Broker(1, "b", 1), "4.3", {**ANSWERS["4.0"], F: (18, 20)})
    with pytest.raises(NoCommonVersion, match=r"\(Kafka 4\.3\).*; this version has v0 to v"):
        negotiated([strange])


def test_ranges_in_common() -> None:
    assert common([{1: (0, 5), 2: (0, 1)}, {1: (4, 9)}]) == {1: (4, 5)}
    assert common([]) == {}


def test_every_row_is_taken_by_the_next_release_up_to_the_removals_of_4() -> None:
    rows = [row for row in DIALECTS.values() if row.describes_itself]
    for older, newer in pairwise(rows):
        assert all(newer.versions[key] >= version for key, version in older.versions.items()), newer.release
    for key, version in NEWEST.versions.items():
        assert version <= apis.APIS[key].newest


# ---- following ------------------------------------------------------------------------------------------------------


def test_the_dialect_follows_a_roll_up_and_down_for_who_holds_it() -> None:
    seen: list[str] = []
    cluster = ClusterVersions(changed=lambda now: seen.append(now.release))
    held = cluster.dialect
    assert (held.release, cluster.asked) == (UNASKED, False)
    cluster.told(broker(1, "2.8"))
    cluster.told(broker(2, "2.8"))
    assert (held.release, held.speaks(M)) == ("2.8", dialect("2.8").speaks(M))
    cluster.told(broker(1, "3.9"))
    assert held.release == "2.8"  # the other one is to be rolled yet
    cluster.told(broker(2, "3.9"))
    assert held.release == "3.9"
    cluster.told(broker(1, "0.10.2"))
    assert (held.release, held.magic, held.speaks(L)) == ("0.10.2", 1, 1)
    assert seen == ["2.8", "3.9", "0.10.2"]


def test_a_broker_is_asked_once_and_again_after_its_connection_broke() -> None:
    cluster, asked = ClusterVersions(), []
    one = broker(1, "3.9").broker

    def ask(request: object) -> object:
        asked.append(request)
        if len(asked) % 2:
            return True  # it knows Metadata v1
        return {"api_versions": [(key, *both) for key, both in ANSWERS["3.9"].items()]}

    cluster.meet(one, ask)
    cluster.meet(one, ask)
    assert (len(asked), cluster.dialect.release) == (2, "3.9")
    cluster.lost(one)
    cluster.meet(one, ask)
    cluster.meet(one, ask)
    assert len(asked) == 4


def test_what_is_out_of_reach_is_asked_again() -> None:
    def silent(request: object) -> object:
        raise LinkLost("away")

    cluster = ClusterVersions()
    with pytest.raises(LinkLost):
        cluster.meet(broker(1, "3.9").broker, silent)
    assert cluster.unknown(broker(1, "3.9").broker)


def test_a_pinned_release_is_asked_of_nobody_and_stays() -> None:
    cluster = ClusterVersions("0.9")
    assert not cluster.unknown(broker(1, "3.9").broker)
    cluster.told(broker(1, "3.9"))
    assert cluster.dialect.release == "0.9"


def test_a_broker_that_moved_and_one_known_by_its_bootstrap_address_count_once() -> None:
    cluster = ClusterVersions()
    cluster.told(BrokerRelease(Broker(-1, "bootstrap", 1), "0.10.0", ANSWERS["0.10.0"]))
    cluster.told(BrokerRelease(Broker(1, "here", 1), "2.8", ANSWERS["2.8"]))
    assert cluster.dialect.release == "2.8"
    cluster.told(BrokerRelease(Broker(1, "there", 1), "3.9", ANSWERS["3.9"]))
    assert (cluster.dialect.release, len(cluster.releases)) == ("3.9", 1)
