"""target.topic.configs: what of a source topic's settings a target topic is made with."""

from __future__ import annotations

import pytest

from mirrormaker.topicsettings import NO_SETTINGS, TopicSettings, topic_settings

SOURCE = {"retention.ms": "5", "cleanup.policy": "compact", "segment.bytes": "9"}


def test_names_are_taken_over_where_the_source_has_them_and_values_are_fixed() -> None:
    found = topic_settings(" retention.ms, min.insync.replicas ,compression.type=producer,segment.bytes = 7")
    assert found == TopicSettings(
        frozenset({"retention.ms", "min.insync.replicas"}), {"compression.type": "producer", "segment.bytes": "7"}
    )
    assert found.of(SOURCE) == {"retention.ms": "5", "compression.type": "producer", "segment.bytes": "7"}
    assert found.of({}) == {"compression.type": "producer", "segment.bytes": "7"}
    assert str(found) == "min.insync.replicas, retention.ms, compression.type=producer, segment.bytes=7"


def test_a_list_may_have_values_with_commas() -> None:
    assert topic_settings(["cleanup.policy=compact,delete"]).of({}) == {"cleanup.policy": "compact,delete"}


def test_none_is_nothing() -> None:
    assert topic_settings("") == NO_SETTINGS
    assert NO_SETTINGS.of(SOURCE) == {}


@pytest.mark.parametrize("raw", ["Retention", "retention.ms=", "=5", "a b", "retention.ms,retention.ms=5", "a..b"])
def test_what_is_no_setting_is_refused_with_an_example(raw: str) -> None:
    with pytest.raises(ValueError, match="names of topic settings, separated by commas"):
        topic_settings(raw)
