"""A group moves to the cluster that its topic is mirrored to: it reads what it had not, and little of it twice."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from localkafka.client import ClusterClient
from tests.conftest import Unique
from tests.integration.mapmoves import (
    check,
    map_of,
    mapped,
    moved,
    part_read,
    translate,
    translated,
    unread_by_a_moved_jvm_reader,
    without_map,
)
from tests.integration.mirroring import KEYED, MIXED, Mirror, filled
from tests.integration.readers import committed
from zkconsumer.offsetmap.file import read_map

pytestmark = pytest.mark.real


def trials(
    source: ClusterClient, target: ClusterClient, unique: Unique, folder: Path, count: int, there: int, seed: int
) -> int:
    """Moves of groups that stopped at random, one after the other, while the topic is written and mirrored; `there`
    partitions at the target.  How many repeated something."""
    rng = random.Random(seed)
    topic = unique.topic()
    load = filled(source, {topic: 4}, 4000, KEYED if there < 4 else MIXED)
    target.create_topic(topic, there)
    some = 0
    with Mirror(folder, source, target, unique.group(), topic, mapped(folder)) as mirror:
        for number in range(count):
            group = unique.group(f"moves{number}")
            mixture = KEYED if there < 4 else MIXED
            with load.in_background({topic: mixture}, 4, 1000):
                read = part_read(source, topic, group, rng, 4000)
                found = moved(mirror, topic, group, read, folder)
            check(found)
            some += any(found.repeats.values())
            if number + 1 < count and rng.random() < 0.3:
                mirror.kill()
                mirror.start()
                mirror.wait_all_committed([topic])
        assert mirror.stop()[0] == 0
    return some


def test_groups_stopped_at_random_read_on_at_the_target(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    trials(source, target, unique, tmp_path, 2, there=3, seed=3)


@pytest.mark.faults
@pytest.mark.parametrize("there", [4, 3])
def test_fifty_groups_stopped_at_random_read_on_at_the_target(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path, there: int
) -> None:
    assert trials(source, target, unique, tmp_path, 25, there, seed=100 + there) > 5


def test_the_map_may_be_in_a_compacted_topic_of_the_target(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, group, where = unique.topic(), unique.group("moves"), unique.topic("map")
    filled(source, {topic: 2}, 3000)
    target.create_topic(topic, 2)
    options = {"offset.map.topic": where, "offset.map.every.messages": 200}
    read = part_read(source, topic, group, random.Random(5), 2000)
    with Mirror(tmp_path, source, target, unique.group(), topic, options) as mirror:
        mirror.wait_arrived(topic, 1000)
        mirror.kill()
        mirror.start()
        mirror.wait_all_committed([topic])
        config = target.registry().zk.get(f"/config/topics/{where}")[0]
        assert b'"cleanup.policy":"compact"' in config
        check(moved(mirror, topic, group, read, tmp_path, where))
        mirror.wait_said("mirroring:")
        assert mirror.stop()[0] == 0


def test_what_the_map_does_not_cover_is_refused_and_nothing_is_written(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, group = unique.topic(), unique.group("early")
    load = filled(source, {topic: 1}, 500)
    target.create_topic(topic, 1)
    part_read(source, topic, group, random.Random(1), 400)
    with Mirror(tmp_path, source, target, unique.group(), topic, mapped(tmp_path)) as mirror:
        mirror.wait_all_committed([topic])
        assert mirror.stop()[0] == 0
    assert read_map(map_of(mirror)).header is not None
    late = unique.group("late")
    load.produce(topic, 1, 100, MIXED)
    part_read(source, topic, late, random.Random(1), 2)
    source.registry().zk.set(f"/consumers/{late}/offsets/{topic}/0", b"550")
    done = translate(mirror, late, tmp_path, "--execute")
    assert done.returncode == 3, done.stderr
    assert "the group is at 550" in done.stderr
    assert "let the mirror run" in done.stderr
    assert not target.registry().zk.exists(f"/consumers/{late}")
    done = translate(mirror, group, tmp_path, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "only a plan" in done.stderr
    assert not target.registry().zk.exists(f"/consumers/{group}")


def test_a_moved_jvm_reader_reads_all_of_a_target_topic_with_more_partitions_than_its_source(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, group = unique.topic(), unique.group("moves")
    filled(source, {topic: 2}, 500)
    target.create_topic(topic, 4)
    part_read(source, topic, group, random.Random(7), 900)
    with Mirror(tmp_path, source, target, unique.group(), topic, mapped(tmp_path)) as mirror:
        mirror.wait_all_committed([topic])
        translated(mirror, group, tmp_path)
        assert mirror.stop()[0] == 0
    assert set(committed(target, group, topic)) == {0, 1, 2, 3}
    planned = translate(mirror, group, tmp_path, "--dry-run")
    assert without_map(planned.stdout) == {2: 0, 3: 0}
    assert f"{topic}/3: the offset map has nothing for it, so the group starts at the beginning" in planned.stderr
    assert unread_by_a_moved_jvm_reader(target, topic, group, 400) == set()
