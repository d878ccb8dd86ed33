"""What offsets count, and what follows from it."""

from __future__ import annotations

import pytest

from kafkawire.dialects import DIALECTS, Dialect
from kafkawire.offsets import BYTE_OFFSETS, MESSAGE_OFFSETS


def test_a_distance_is_told_in_what_offsets_count() -> None:
    assert [MESSAGE_OFFSETS.counted(n) for n in (0, 1, 2)] == ["0 messages", "1 message", "2 messages"]
    assert [BYTE_OFFSETS.counted(n) for n in (1, 81920)] == ["1 byte", "81920 bytes"]


def test_an_offset_stands_for_bytes_of_the_log() -> None:
    assert (MESSAGE_OFFSETS.log_bytes(120.5), BYTE_OFFSETS.log_bytes(120.5)) == (120.5, 1.0)


def test_bytes_that_make_no_sense_may_mean_an_offset_inside_an_entry_where_offsets_are_bytes() -> None:
    assert (MESSAGE_OFFSETS.hint("inside?"), BYTE_OFFSETS.hint("inside?")) == ("", "inside?")


@pytest.mark.parametrize("row", DIALECTS.values(), ids=[*DIALECTS])
def test_offsets_are_bytes_in_07_alone(row: Dialect) -> None:
    assert row.offsets is (BYTE_OFFSETS if row.number < (0, 8) else MESSAGE_OFFSETS)
