"""`mirrormaker verify` on real clusters: what is missing is found, what is not missing is not."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from tests.conftest import Unique
from tests.integration.mirroring import KEYED, Mirror, close_loads, filled
from tests.integration.verifying import commit, numbered, settings, verify, without, write

pytestmark = pytest.mark.real
ODD = ("missing", "duplicated", "only_in_target")


@pytest.fixture(autouse=True)
def loads_end_with_their_test() -> Iterator[None]:
    yield
    close_loads()


def test_one_message_that_is_missing_of_a_million_is_named_and_a_sound_pair_is_sound(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, group, rows = unique.topic(), unique.group(), numbered(500_000)
    for cluster in (source, target):
        cluster.create_topic(topic, 2)
    one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    others = numbered(500_000, 500_000)
    for tp, every in ((one, rows), (two, others)):
        write(source, tp, every)
    write(target, one, without(rows, 123_456))
    write(target, two, others, codec=2)
    commit(source, group, topic)
    file = settings(tmp_path, source, target, group, topic)
    found = verify(file)
    assert (found.code, found.total("source", "target", "missing")) == (4, [1_000_000, 999_999, 1]), found.said
    assert found.differences == [("missing", topic, "0", 123_456, 123_456, 1)]
    write(target, one, [rows[123_456]])
    found = verify(file)
    assert (found.code, found.document["missing"], found.differences) == (0, 0, []), found.said


def test_nothing_is_missing_while_messages_flow_through_a_mirror(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    """Also where it is killed meanwhile: what is sent twice then is a duplicate, and nothing else."""
    kept, keyed, group = unique.topic("kept"), unique.topic("keyed"), unique.group()
    target.create_topic(keyed, 2)
    load = filled(source, {kept: 2, keyed: 3}, 2000, KEYED)
    pattern = ".*" + unique.tag
    with Mirror(tmp_path, source, target, group, pattern) as mirror:
        mirror.wait_arrived(kept, 2000)
        with load.in_background({kept: KEYED, keyed: KEYED}, 2, 30_000):
            for turn in range(2):
                found = verify(mirror.file)
                assert found.code == 0, (found.document, found.said)
                assert found.total("missing", "duplicated", "only_in_target", "not_yet_mirrored") == [0, 0, 0, 0], (
                    found.document
                )
                assert found.document["source"] >= 4000 + turn
            mirror.kill()
            assert verify(mirror.file, "--wait", "0").total("missing", "only_in_target") == [0, 0]
            mirror.start()
        mirror.wait_all_committed([kept, keyed])
        found = verify(mirror.file, "--deep")
        assert found.code == 0, found.document
        assert found.total("source", "missing", "only_in_target", "not_yet_mirrored") == [64_000, 0, 0, 0]
        assert {scope["partition"] for scope in found.document["scopes"] if scope["topic"] == keyed} == {"all"}


def test_what_only_one_side_has_is_told_apart(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, group = unique.topic(), unique.group()
    for cluster in (source, target):
        cluster.create_topic(topic, 1)
    tp, rows = TopicPartition(topic, 0), [*numbered(100), (None, None), (None, b""), (b"", None)]
    write(source, tp, rows, codec=1)
    write(target, tp, [*rows[:10], *rows[5:60], (b"k", b"of another"), *rows[63:]])
    commit(source, group, topic, {0: 90})
    file = settings(tmp_path, source, target, group, topic)
    found = verify(file, "--wait", "0")
    assert found.code == 4
    assert found.total(*ODD, "not_yet_mirrored") == [3, 5, 1, 13]
    assert found.differences == [
        ("missing", topic, "0", 60, 62, 3),
        ("duplicated", topic, "0", 10, 14, 5),
        ("only in target", topic, "0", 65, 65, 1),
    ]
    first = found.document["differences"][0]
    assert (first["key_bytes"], first["value_bytes"], first["value_crc"]) == (6, 10, f"{zlib.crc32(b'message 60'):08x}")
    write(target, tp, rows[60:63])
    found = verify(file, "--wait", "0")
    assert (found.code, found.document["sound"]) == (0, True)
    assert "5 messages are at the target more often" in found.said
    assert [verify(file, "--wait", "0", flag).code for flag in ("--no-duplicates", "--no-foreign")] == [4, 4]
