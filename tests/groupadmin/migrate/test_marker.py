"""The node a migration leaves: read back as it was written, and nothing concluded from what is not ours."""

from __future__ import annotations

import pytest

from zkconsumer.offsets.migrationmarker import Marker, MarkerUnclear, Phase, marker_path, marker_text, read_marker


@pytest.mark.parametrize("phase", Phase)
def test_read_back(phase):
    marker = Marker("0123456789abcdef", phase, 1_700_000_000_000)
    assert read_marker("g", marker_text(marker)) == marker
    assert read_marker("g", marker_text(marker).encode()) == marker


def test_every_number_is_text_because_the_jvm_keeps_32_bits_of_others():
    text = '{"version":"1","plan":"ab","phase":"cutover","at_ms":"1700000000000"}'
    assert marker_text(Marker("ab", Phase.CUTOVER, 1_700_000_000_000)) == text
    assert marker_path("g") == "/consumers/g/migration"


GOOD = '{"version":"1","plan":"a","phase":"done","at_ms":"1"}'
WRONG = [GOOD.replace(*each) for each in (('"1"', '"2"'), ("done", "gone"), ('"1"}', '"x"}'))]


@pytest.mark.parametrize("data", ["", "null", "[]", b"\xff", "{}", "[" * 5000, *WRONG])
def test_what_is_not_ours_is_said_with_its_path(data):
    with pytest.raises(MarkerUnclear, match="/consumers/g/migration holds"):
        read_marker("g", data)


def test_from_the_cutover_on_nobody_should_start_on_zookeeper_alone_until_the_group_is_back():
    left = [phase for phase in Phase if Marker("a", phase, 1).left_zookeeper]
    by_kafka = [phase for phase in Phase if Marker("a", phase, 1).by_kafka]
    assert by_kafka == [Phase.HANDOVER, Phase.COORDINATED]
    assert left == [Phase.CUTOVER, Phase.DONE, *by_kafka, Phase.DUAL_BACK, Phase.COPIED_BACK, Phase.VERIFIED_BACK]
