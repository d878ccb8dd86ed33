"""Whether a batch that was not acknowledged may be in the log: every code of every release, as brokers' sources say."""

from __future__ import annotations

from kafkawire.errors import ERRORS
from kafkawire.protocol.request import ProducedPartition
from producer.verdicts import NOT_APPENDED, UNANSWERED, unknown_outcome
from tests.cases import each

REFUSED_BEFORE_THE_APPEND = [0, 2, 3, 5, 10, 17, 18, 19, 21, 29, 31, 32, 43, 45, 47, 48, 53, 59, 76, 87, 120]
OPEN_IN_ANY_CASE = [-1, 7, 20, 56]
VERSIONS = range(9)  # those of Produce that are spoken


@each("version", VERSIONS)
@each("code", sorted(set(ERRORS) - {0}))
def test_an_error_beside_an_offset_was_appended_by_that_leader(code: int, version: int) -> None:
    assert unknown_outcome(ProducedPartition(code, 0, version=version))
    assert unknown_outcome(ProducedPartition(code, 77, version=version))


@each("version", VERSIONS)
def test_an_acknowledged_batch_has_no_unknown_outcome(version: int) -> None:
    assert not unknown_outcome(ProducedPartition(0, 0, version=version))


@each("version", VERSIONS)
@each("code", REFUSED_BEFORE_THE_APPEND)
def test_a_refusal_without_an_offset_appended_nothing(code: int, version: int) -> None:
    assert not unknown_outcome(ProducedPartition(code, -1, version=version))


@each("version", VERSIONS)
def test_before_version_4_not_leader_may_hide_a_storage_error(version: int) -> None:
    assert unknown_outcome(ProducedPartition(6, -1, version=version)) is (version < 4)


@each("version", VERSIONS)
@each("code", [*OPEN_IN_ANY_CASE, 999])
def test_what_a_broker_says_of_more_than_the_append_leaves_it_open(code: int, version: int) -> None:
    assert unknown_outcome(ProducedPartition(code, -1, version=version))


def test_a_partition_that_a_response_leaves_out_has_an_unknown_outcome() -> None:
    assert unknown_outcome(UNANSWERED)


def test_every_code_that_no_broker_answers_to_produce_leaves_it_open() -> None:
    known = {*REFUSED_BEFORE_THE_APPEND, 6, *OPEN_IN_ANY_CASE}
    assert {*REFUSED_BEFORE_THE_APPEND, 6} == NOT_APPENDED
    assert all(unknown_outcome(ProducedPartition(code, -1, version=8)) for code in set(ERRORS) - known)
