"""The Dialect of a cluster, made of what its brokers say, and how it follows them through a roll."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest

from kafkawire.cluster.release import BrokerRelease, release_of
from kafkawire.cluster.versions import TOGETHER_S, ClusterVersions, NoCommonVersion, common, negotiated
from kafkawire.dialects import DIALECTS, NEWEST, UNASKED, dialect
from kafkawire.errors import LinkLost
from kafkawire.model import Broker
from kafkawire.net.links import Links
from kafkawire.protocol import apis
from kafkawire.protocol.adminapis import CREATE_TOPICS
from tests.fakes.answering import METADATA, NO_GROUPS, Answer, answering, newer, old

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
    made, row = negotiated([broker(1, release)]), dialect(release)
    assert made.release == release
    for key in ANSWERS[release]:
        assert made.versions[key] == row.versions[key], apis.APIS[key].name
    assert (made.magic, made.formats, made.codecs) == (row.magic, row.formats, row.codecs)


def test_kafka_4_takes_no_produce_request_before_v3_whatever_it_says() -> None:
    assert broker(1, "4.0").taken[P] == (3, 12)
    assert broker(1, "3.9").taken[P] == (0, 11)


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
        match=r"no version of Produce is supported by all: broker 2 .*Kafka 0\.8\.2.*v0 to v0, broker 1 ",
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
    for older, later in pairwise(rows):
        assert all(later.versions[key] >= version for key, version in older.versions.items()), later.release
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


@contextmanager
def rolled(*said: Answer) -> Iterator[tuple[Broker, list[int]]]:
    """A broker that answers as the next one of these at each connection that asks for its release; how often it was
    asked."""
    asked: list[int] = []

    def answer(api: int, count: int) -> bytes | None:
        if api == METADATA:
            asked.append(count)
        return said[min(len(asked), len(said)) - 1](api, count)

    with answering(answer) as [(host, port)]:
        yield Broker(1, host, port), asked


def played(release: str) -> Answer:
    return newer(*((key, *both) for key, both in ANSWERS[release].items()))


def test_each_connection_asks_before_anything_else_and_those_of_a_moment_once() -> None:
    clock = [0.0]
    cluster = ClusterVersions(now=lambda: clock[0])
    links = Links("test", cluster.connect(socket.create_connection), 5000)
    with rolled(played("2.8"), played("3.9"), played("0.10.2")) as (one, asked):
        links.link(one, "fetch").open()
        assert (cluster.dialect.release, len(asked)) == ("2.8", 1)
        links.link(one, "metadata").open()
        assert len(asked) == 1
        for release in ("3.9", "0.10.2"):  # it comes back as another one, newer or older
            clock[0] += 2 * TOGETHER_S
            links.drop(one, "fetch")
            links.link(one, "fetch").open()
            assert cluster.dialect.release == release
        links.end()


def test_brokers_of_a_cluster_are_asked_when_they_are_first_seen() -> None:
    cluster = ClusterVersions()
    links = Links("test", cluster.connect(socket.create_connection), 5000)
    with rolled(played("2.8")) as (one, asked), rolled(lambda api, _: old(api, NO_GROUPS)) as (other, _):
        links.meet([one])
        links.meet([one])
        assert (cluster.dialect.release, len(asked)) == ("2.8", 1)
        links.meet([one, other._replace(id=2)])
        assert cluster.dialect.release == "0.9"


def test_one_that_is_down_is_no_error_of_the_cluster_and_is_asked_when_it_comes() -> None:
    cluster = ClusterVersions()
    with rolled(played("2.8")) as (one, _):
        pass
    links = Links("test", cluster.connect(socket.create_connection), 5000)
    links.meet([one])
    assert (cluster.dialect.release, cluster.asked) == (UNASKED, False)
    with pytest.raises(LinkLost, match=r"connecting: .*refused"):
        links.link(one, "fetch").open()


def test_one_that_speaks_no_version_of_ours_is_not_connected_to() -> None:
    cluster = ClusterVersions()
    strange = newer((P, 20, 30), (F, 4, 40), (L, 1, 20), (M, 0, 20))
    links = Links("test", cluster.connect(socket.create_connection), 5000)
    with rolled(strange) as (one, _):
        links.meet([one])
        with pytest.raises(LinkLost, match="no version of Produce is supported by all"):
            links.link(one, "produce").open()
        assert "no version of Produce" in str(ClusterVersions().refusal([one], "version", socket.create_connection))


def test_a_pinned_release_is_asked_of_nobody_and_stays() -> None:
    cluster = ClusterVersions("0.9")
    assert cluster.connect(socket.create_connection) is socket.create_connection
    cluster.told(broker(1, "3.9"))
    assert cluster.dialect.release == "0.9"
    with rolled(played("2.8")) as (one, _):
        assert cluster.refusal([one], "version", socket.create_connection) is None
        wrong = ClusterVersions("3.9").refusal([one], "version", socket.create_connection)
        assert wrong is None or "and version is 3.9" in wrong


def test_a_broker_that_moved_and_one_known_by_its_bootstrap_address_count_once() -> None:
    cluster = ClusterVersions()
    cluster.told(BrokerRelease(Broker(-1, "bootstrap", 1), "0.10.0", ANSWERS["0.10.0"]))
    cluster.told(BrokerRelease(Broker(1, "here", 1), "2.8", ANSWERS["2.8"]))
    assert cluster.dialect.release == "0.10.0"
    cluster.meet([Broker(1, "here", 1)], socket.create_connection)
    assert cluster.dialect.release == "2.8"
    cluster.told(BrokerRelease(Broker(1, "there", 1), "3.9", ANSWERS["3.9"]))
    assert (cluster.dialect.release, len(cluster.releases)) == ("3.9", 1)
