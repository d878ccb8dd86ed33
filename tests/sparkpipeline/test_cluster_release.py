"""Which release `auto` finds.  The fakes have no ApiVersions: what is silent, slow or closes is a socket of our own."""

from __future__ import annotations

import pytest

from sparkpipeline.cluster import access
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.errors import OptionRefused, Unreachable
from tests.fakes.answering import FETCH, LIST_OFFSETS, METADATA, NO_GROUPS, PRODUCE, Answer, answering, newer, old

OLD = ((PRODUCE, 0, 2), (FETCH, 0, 2), (LIST_OFFSETS, 0, 0), (METADATA, 0, 1))


def auto(bootstrap: list[tuple[str, int]], timeout_ms: int = 30000) -> ClusterAccess:
    return access.resolved("auto", ClusterAccess(tuple(bootstrap), socket_timeout_ms=timeout_ms))


def found(answer: Answer) -> str:
    with answering(answer) as bootstrap:
        return auto(bootstrap, 5000).release


def test_one_that_answers_as_long_ago_is_old() -> None:
    assert found(lambda api, _: old(api, b"")) == "0.8.2"
    assert found(lambda api, _: old(api, NO_GROUPS)) == "0.9"


@pytest.mark.parametrize(
    ("versions", "release"),
    [
        ([(FETCH, 0, 2), (LIST_OFFSETS, 0, 0)], "0.10.0"),
        ([(FETCH, 0, 3), (LIST_OFFSETS, 0, 1)], "0.10.1"),
        ([(PRODUCE, 0, 3), (FETCH, 0, 5), (LIST_OFFSETS, 0, 2)], "0.11"),
        ([(PRODUCE, 0, 8), (FETCH, 0, 11), (LIST_OFFSETS, 0, 5)], "2.4"),
    ],
)
def test_one_that_tells_what_it_speaks_is_believed(versions: list[tuple[int, int, int]], release: str) -> None:
    core = {PRODUCE: (PRODUCE, 0, 2), METADATA: (METADATA, 0, 1)} | {row[0]: row for row in versions}
    assert found(newer(*core.values())) == release


def test_one_of_4_0_is_spoken_to_in_what_it_takes() -> None:
    with answering(newer((PRODUCE, 0, 13), (FETCH, 4, 18), (LIST_OFFSETS, 1, 11), (METADATA, 0, 1))) as bootstrap:
        found = auto(bootstrap, 5000)
    assert found.release >= "4.0"
    assert found.spoken.versions[LIST_OFFSETS] == 5


def test_one_that_takes_none_of_our_requests_is_refused() -> None:
    with pytest.raises(OptionRefused, match=r"no version of Fetch is supported by all: .* v12 to v17"):
        found(newer((PRODUCE, 3, 13), (FETCH, 12, 17), (LIST_OFFSETS, 1, 5), (METADATA, 0, 1)))


def test_one_that_answers_nothing_is_not_taken_for_old() -> None:
    with (
        answering(lambda api, _: None) as bootstrap,
        pytest.raises(Unreachable, match=f"{bootstrap[0][1]}: no byte within 0.2 s"),
    ):
        auto(bootstrap, 200)


def test_one_that_closes_every_connection_is_not_taken_for_old() -> None:
    with answering(lambda api, _: b"") as bootstrap, pytest.raises(Unreachable, match=str(bootstrap[0][1])):
        auto(bootstrap)


def test_what_is_no_kafka_is_not_taken_for_old() -> None:
    with answering(lambda api, times: b"HTTP" if times == 1 else b"") as bootstrap, pytest.raises(Unreachable):
        auto(bootstrap)


def test_the_first_broker_that_answers_decides() -> None:
    with answering(lambda api, _: b"") as closed, answering(newer(*OLD)) as open_:
        assert auto([*closed, *open_]).release == "0.10.0"


@pytest.mark.parametrize(
    ("said", "release"),
    [("0.8", "0.8.2"), ("0.9", "0.9"), ("0.10", "0.10.0"), ("0.8.1", "0.8.1"), ("0.10.2.2", "0.10.2.2")],
)
def test_a_release_that_is_named_asks_nobody(said: str, release: str) -> None:
    assert access.release_or_auto(said) == release


@pytest.mark.parametrize(
    ("said", "says"), [("0.7.9", "unknown Kafka release '0.7.9'"), ("0.6", "unknown Kafka release '0.6'")]
)
def test_a_release_that_is_not_spoken_is_refused(said: str, says: str) -> None:
    with pytest.raises(ValueError, match=f"one of auto, 0.7, .*{says}"):
        access.release_or_auto(said)
