"""What a broker shows itself to be: the table of releases, and answers of brokers that a test plays."""

from __future__ import annotations

import pytest

from kafkawire.cluster.release import ASKING, BEFORE, KNOWN_BY, BrokerRelease, ask_release, candidates, release_of
from kafkawire.dialects import DIALECTS, dialect, release_number
from kafkawire.errors import LinkLost
from kafkawire.model import Broker
from kafkawire.protocol import apis
from tests.fakes.answering import FETCH, NO_GROUPS, Answer, answering, newer, old

OFFSET_COMMIT, OFFSET_FETCH, PRODUCE, LIST_OFFSETS = 8, 9, 0, 2


def asked(answer: Answer, timeout_ms: int = 5000) -> BrokerRelease:
    with answering(answer) as [(host, port)]:
        return ask_release(Broker(4, host, port), timeout_ms=timeout_ms)


@pytest.mark.parametrize(
    ("fetch", "others", "release"),
    [
        ((0, 2), {LIST_OFFSETS: (0, 0), OFFSET_FETCH: (0, 1)}, "0.10.0"),
        ((0, 3), {LIST_OFFSETS: (0, 1), OFFSET_FETCH: (0, 1)}, "0.10.1"),
        ((0, 3), {LIST_OFFSETS: (0, 1), OFFSET_FETCH: (0, 2)}, "0.10.2"),
        ((0, 5), {LIST_OFFSETS: (0, 2), OFFSET_FETCH: (0, 3), PRODUCE: (0, 3)}, "0.11"),
        ((0, 11), {LIST_OFFSETS: (0, 5), OFFSET_FETCH: (0, 5), PRODUCE: (0, 7)}, "2.3"),
        ((0, 11), {LIST_OFFSETS: (0, 5), OFFSET_FETCH: (0, 6), PRODUCE: (0, 8)}, "2.4"),
        ((0, 12), {LIST_OFFSETS: (0, 6), OFFSET_FETCH: (0, 7), PRODUCE: (0, 9)}, "2.8"),
        ((0, 17), {LIST_OFFSETS: (0, 9), OFFSET_FETCH: (0, 9), PRODUCE: (0, 11), OFFSET_COMMIT: (0, 9)}, "3.9"),
        ((4, 17), {LIST_OFFSETS: (1, 10), OFFSET_FETCH: (1, 9), PRODUCE: (0, 12)}, "4.0"),
    ],
)
def test_the_versions_that_a_broker_takes_name_its_release(
    fetch: tuple[int, int], others: dict[int, tuple[int, int]], release: str
) -> None:
    assert release_of({FETCH: fetch, **others}) == release


def test_every_release_in_the_table_but_the_last_is_one_that_the_file_may_name() -> None:
    assert {release for _, _, release in KNOWN_BY} | {ASKING.release, BEFORE.release} <= DIALECTS.keys()
    numbers = [release_number(release) for _, _, release in KNOWN_BY]
    assert numbers == sorted(numbers, reverse=True)  # the newest first: the first row that fits decides


def test_a_broker_later_than_all_rows_is_called_so() -> None:
    shown = release_of({FETCH: (4, 99), LIST_OFFSETS: (1, 99), PRODUCE: (3, 99)})
    assert candidates(shown) == ["4.2 or later"]
    assert dialect(shown).codecs == dialect("4.9").codecs
    assert candidates("2.5") == ["2.5", "2.6"]


def test_a_broker_before_0_10_has_a_release_and_no_versions() -> None:
    found = asked(lambda api, _: old(api, b""))
    assert (found.release, dict(found.ranges)) == ("0.8.2", {})
    assert asked(lambda api, _: old(api, NO_GROUPS)).release == "0.9"


def test_a_newer_broker_tells_what_it_takes() -> None:
    found = asked(newer((FETCH, 0, 12), (PRODUCE, 0, 9)))
    assert (found.release, found.broker.id) == ("2.8", 4)
    assert found.takes(apis.FETCH, 4)
    assert not found.takes(apis.FETCH, 13)
    assert not found.takes(apis.METADATA, 0)  # it did not say so
    assert found.number > dialect("2.3").number


def test_kafka_4_takes_none_of_the_old_requests_whatever_it_says_of_produce() -> None:
    found = asked(newer((FETCH, 4, 18), (PRODUCE, 0, 13)))
    assert found.taken[PRODUCE] == (3, 13)
    assert found.taken[FETCH] == (4, 18)


def test_one_that_is_silent_or_closes_is_no_release() -> None:
    with pytest.raises(LinkLost, match=r"no byte within 0\.2 s"):
        asked(lambda api, _: None, timeout_ms=200)
    with pytest.raises(LinkLost, match="closed the connection"):
        asked(lambda api, _: b"")
