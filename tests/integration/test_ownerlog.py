"""The checker of owners finds what it is there for, in samples made by hand."""

from __future__ import annotations

import pytest

from tests.integration.ownerlog import OwnerLog, Sample


def log_of(*rows: tuple[float, str, int]) -> OwnerLog:
    """Samples of one partition: when, owner (empty: none), committed offset."""
    log = OwnerLog("127.0.0.1:1", "g", "t", 1)
    log.samples = [Sample(at, at + 0.01, {0: owner} if owner else {}, {0: offset}) for at, owner, offset in rows]
    return log


def test_the_time_without_owner_is_measured_and_a_dead_owner_is_none():
    log = log_of((1, "a-0", 0), (2, "", 0), (5, "b-0", 0), (6, "a-0", 0), (9, "b-0", 0))
    assert log.longest_without_owner(lambda owner, when: True) == (pytest.approx(2.99), 0, 2.01)
    assert log.longest_without_owner(lambda owner, when: owner == "b-0" or when < 2)[0] == pytest.approx(2.99)
    assert log.longest_without_owner(lambda owner, when: owner != "b-0")[0] == pytest.approx(3.99)
    log.away = [(2.01, 4.01)]
    assert log.longest_without_owner(lambda owner, when: True)[0] == pytest.approx(2.99 - 2)


def test_a_message_handed_out_while_another_owned_the_partition_is_found():
    log = log_of((1, "a-0", 0), (2, "b-0", 0), (3, "b-0", 0), (4, "", 0), (5, "", 0))
    handed = [(1.5, 0, 7), (2.5, 0, 8), (4.5, 0, 9)]
    assert [text.split(" ")[0] for text in log.handed_out_by_others("a", handed)] == ["0@8", "0@9"]
    assert [text.split(" ")[0] for text in log.handed_out_by_others("b", handed)] == ["0@9"]


def test_an_owner_whose_node_an_original_deleted_again_is_the_owner():
    """The original gave the partition up behind the first sample, a claimed it and was handed a message, and the
    original deleted the node a second time, before the next one."""
    log = log_of((1, "jvm-0", 0), (1.05, "", 0), (1.1, "a-0", 0), (1.6, "a-0", 0), (2.0, "", 0))
    assert log.handed_out_by_others("a", [(1.03, 0, 7)]) == []
    assert len(log.handed_out_by_others("b", [(1.03, 0, 7)])) == 1


def test_positions_that_went_back_or_were_committed_by_somebody_are_found():
    log = log_of((1, "a-0", 0), (2, "a-0", 3), (3, "", 3), (4, "b-0", 5), (5, "b-0", 4))
    assert len(log.offsets_that_went_back(lambda owner: True)) == 1
    assert log.offsets_that_went_back(lambda owner: owner != "b-0") == []
    assert log.committed_by(lambda owner: owner == "b-0") == {0: {3, 4}}
    assert log.passed(0, 1).endswith("0 to 3, owner a-0 then a-0")


def test_what_was_committed_just_before_a_change_of_owners_may_be_the_former_owners():
    """The sample at 2 read the offset before a committed 4 and released, and the owner after b's claim."""
    log = log_of((1, "a-0", 2), (2, "b-0", 2), (3, "b-0", 4), (4, "b-0", 6))
    assert log.committed_by(lambda owner: owner == "a-0") == {0: {2, 3}}
    assert log.committed_by(lambda owner: owner == "b-0") == {0: {2, 3, 4, 5}}
