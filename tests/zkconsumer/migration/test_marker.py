"""The node a migration leaves: read back as it was written, and nothing concluded from what is not ours."""

from __future__ import annotations

import pytest

from zkconsumer.migration.marker import Marker, MarkerUnclear, marker_path, marker_text, read_marker
from zkconsumer.migration.states import Phase


@pytest.mark.parametrize("phase", Phase)
def test_read_back(phase):
    marker = Marker("0123456789abcdef", phase, 1_700_000_000_000)
    assert read_marker("g", marker_text(marker)) == marker
    assert read_marker("g", marker_text(marker).encode()) == marker


def test_every_number_is_text_because_the_jvm_keeps_32_bits_of_others():
    text = '{"version":"1","plan":"ab","phase":"cutover","at_ms":"1700000000000"}'
    assert marker_text(Marker("ab", Phase.CUTOVER, 1_700_000_000_000)) == text
    assert marker_path("g") == "/consumers/g/migration"


@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"[]", b"\xff", b"{}", b'{"version":"2","plan":"a","phase":"done","at_ms":"1"}',
     b'{"version":"1","plan":"a","phase":"gone","at_ms":"1"}', b'{"version":"1","plan":"a","phase":"done","at_ms":"x"}'],
)  # fmt: skip
def test_what_is_not_ours_is_said_with_its_path(data):
    with pytest.raises(MarkerUnclear, match="/consumers/g/migration holds"):
        read_marker("g", data)
