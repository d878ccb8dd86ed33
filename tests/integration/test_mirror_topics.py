"""Topics of a mirror on real clusters: names, loops, overrides, growth, deletion, logs that retention cuts."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkawire.model import TopicPartition
from localkafka import tools
from localkafka.client import ClusterClient, log_end_offsets
from localkafka.cluster import Cluster
from localkafka.mirror import COMMAND
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.integration.mirroring import KEYED, PLAIN_ONLY, Mirror, filled, values
from tests.integration.readers import owners

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def other(zk_server) -> Iterator[Cluster]:  # type: ignore[no-untyped-def]
    """A second source, whose topics can be deleted and whose logs are cut soon."""
    settings = {"delete.topic.enable": "true", "file.delete.delay.ms": "0", "auto.create.topics.enable": "false"}
    settings |= {"log.retention.check.interval.ms": "500"}
    with Cluster(zookeeper=zk_server, settings=settings) as cluster:
        yield cluster


def edited(mirror: Mirror, *others: Mapping[str, object], **first: object) -> Mirror:
    """The mirror with more options of its source, and with other sources beside it."""
    settings = yaml.safe_load(mirror.file.read_text())
    settings["sources"][0] |= first
    settings["sources"] += [dict(one) for one in others]
    mirror.file.write_text(yaml.safe_dump(settings))
    return mirror


def check_online(mirror: Mirror, code: int = 0) -> tuple[dict[str, dict[str, str]], str]:
    """Rows of `check --online` by source/topic, and what it says beside them."""
    command = [str(COMMAND), "check", "--online", str(mirror.file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    lines = [line.split("  ") for line in done.stdout.splitlines()]
    table = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    return {f"{row[0]}/{row[1]}": dict(zip(table[0], row, strict=True)) for row in table[1:]}, done.stderr


def payloads(cluster: ClusterClient, topic: str, partitions: int) -> dict[int, list[str | None]]:
    """What the JVM reads in each partition, in order."""
    found = tools.dump_topic(cluster, topic, range(partitions))
    return {partition: [row.payload for row in rows] for partition, rows in found.items()}


def codecs(cluster: ClusterClient, topic: str, partition: int) -> set[str]:
    """Codecs of the entries in a log."""
    segments = cluster.segments(TopicPartition(topic, partition))
    return {row.codec for row in tools.dump_log(cluster, segments, deep_iteration=False)}


def delete(cluster: ClusterClient, topic: str) -> None:
    zk = cluster.zk()
    zk.create(f"/admin/delete_topics/{topic}", b"")
    wait_until(lambda: zk.exists(f"/brokers/topics/{topic}") is None, 60, f"{topic} to be deleted")


def test_two_sources_with_equal_topic_names_come_apart_by_prefix_and_are_merged_by_name(
    source: ClusterClient, other: Cluster, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, merged, group = unique.topic("same"), unique.topic("merged"), unique.group()
    near, far = f"near.{topic}", f"far.{topic}"
    filled(source, {topic: 2, merged: 1}, 1000, PLAIN_ONLY)
    filled(other, {topic: 3, merged: 1}, 1500, PLAIN_ONLY, seed=2)
    mirror = Mirror(
        tmp_path, source, target, group, ".*" + unique.tag + ",unused",
        {"blacklist": "unused.*", "topic.rename": {merged: f"all-{merged}"}, "topic.overrides": [
            {"topics": topic, "compression.codec": "gzip"}, {"topics": "nothing", "partitioning": "key"}]},
    )  # fmt: skip
    beside = {"name": "dc2", "zookeeper.connect": other.zookeeper, "group.id": group, "topic.prefix": "far."}
    edited(mirror, beside, **{"topic.prefix": "near."})
    with mirror:
        mirror.wait_arrived(near, 1000)
        mirror.wait_arrived(far, 1500)
        mirror.wait_arrived(f"all-{merged}", 2500)
        mirror.wait_all_committed([topic, merged])
        assert mirror.stop()[0] == 0
    for cluster, name, partitions in ((source, near, 2), (other, far, 3)):
        assert len(log_end_offsets(target, [name])) == partitions
        assert payloads(target, name, partitions) == payloads(cluster, topic, partitions)
        assert codecs(target, name, 0) == {"GZIPCompressionCodec"}
    rows = list(tools.dump_partition(target, f"all-{merged}", 0))
    assert codecs(target, f"all-{merged}", 0) == {"NoCompressionCodec"}
    both = values(source, merged, 0), values(other, merged, 0)
    assert sorted(row.payload or "" for row in rows) == sorted(str(value) for each in both for value in each)
    assert log_end_offsets(target, [topic, merged]) == {}  # nothing under the names of the sources
    found, said = check_online(mirror)
    assert {key: row["target topic"] for key, row in found.items()} == {
        f"dc1/{topic}": near, f"dc2/{topic}": far, f"dc1/{merged}": f"all-{merged}", f"dc2/{merged}": f"all-{merged}",
    }  # fmt: skip
    assert f"target topic all-{merged} is fed by dc1/{merged} and dc2/{merged}: their messages are merged" in said
    assert "mirror.topic.overrides[1]: no topic matches 'nothing'" in said


def test_one_cluster_on_both_sides_mirrors_only_what_is_not_mirrored_again(
    source: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    fine, loops = unique.topic("a"), unique.topic("b")
    filled(source, {fine: 1}, 300, PLAIN_ONLY)
    which = rf"(a|b|copy\.b)-{unique.tag}"
    mirror = Mirror(tmp_path, source, source, unique.group(), which, {"parked.retry.ms": 1000})
    with edited(mirror, **{"topic.prefix": "copy."}):
        mirror.wait_arrived(f"copy.{fine}", 300)
        load = filled(source, {loops: 1}, 100, PLAIN_ONLY)
        sentence = f"topic {loops} goes to copy.{loops} in the cluster that it comes from, and copy.{loops} is mirrored"
        mirror.wait_said(f"source dc1: topic {loops} waits: {sentence}")
        mirror.wait_said(f"parked 1: {loops}/0: {sentence}")
        mirror.wait_said(f"waiting 1: {loops}: {sentence}")
        load.produce(fine, 1, 200, PLAIN_ONLY)
        mirror.wait_arrived(f"copy.{fine}", 500)
        mirror.wait_all_committed([fine])
        assert mirror.stop()[0] == 0
    assert values(source, f"copy.{fine}", 0) == values(source, fine, 0)
    assert log_end_offsets(source, [f"copy.{loops}"]) == {}
    assert mirror.committed([loops]) == {TopicPartition(loops, 0): 0}
    found, said = check_online(mirror, 78)
    assert f"error: source dc1: {sentence}" in said
    assert found[f"dc1/{fine}"]["route"].startswith("pass-through")
    assert found[f"dc1/{loops}"]["route"].startswith("refused: ")
    settings = yaml.safe_load(mirror.file.read_text())
    settings["mirror"]["whitelist"] = ".*"
    mirror.file.write_text(yaml.safe_dump(settings))
    checked = subprocess.run([str(COMMAND), "check", str(mirror.file)], capture_output=True, text=True, timeout=60)
    assert (checked.returncode, "it would feed itself" in checked.stderr) == (78, True)


def test_the_target_grows_with_its_source_and_keeps_partitions(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, keyed = unique.topic("grows"), unique.topic("keyed")
    load = filled(source, {topic: 2, keyed: 1}, 1000, KEYED)
    settings = {
        "partitioning": "identity",
        "target.grow.partitions": True,
        "topic.overrides": [{"topics": keyed, "partitioning": "key"}],
    }
    with Mirror(tmp_path, source, target, unique.group(), f"{topic}|{keyed}", settings) as mirror:
        mirror.wait_all_committed([topic, keyed])
        with load.in_background({topic: KEYED}, 2, 3000):
            for name, partitions in ((topic, 5), (keyed, 2)):
                tools.topic_command(source, "--alter", "--topic", name, "--partitions", str(partitions))
                source.wait_in_sync(name)
        load.produce(topic, 5, 2000, KEYED)
        load.produce(keyed, 2, 1000, KEYED)
        mirror.wait_arrived(topic, 6000)
        mirror.wait_arrived(keyed, 2000)
        mirror.wait_all_committed([topic, keyed])
        assert mirror.stop()[0] == 0
    assert f"target topic {topic}: grown from 2 to 5 partitions" in mirror.said()
    assert f"topic {keyed}: re-encode: partitioning key is configured, so the target is not grown" in mirror.said()
    assert (len(log_end_offsets(target, [topic])), len(log_end_offsets(target, [keyed]))) == (5, 1)
    assert payloads(target, topic, 5) == payloads(source, topic, 5)
    assert {len(one.replicas) for one in target.registry().view(topic).topics[topic].values()} == {1}


def test_a_deleted_topic_waits_beside_its_neighbours_and_a_new_one_is_told_from_a_cut_log(
    other: Cluster, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    gone, stays, group = unique.topic("gone"), unique.topic("stays"), unique.group()
    load = filled(other, {gone: 3}, 600, PLAIN_ONLY)
    small = {"segment.bytes": 60000, "retention.ms": 3600_000}
    other.create_topic(stays, 1, config=small)
    load.produce(stays, 1, 400, PLAIN_ONLY)
    with Mirror(tmp_path, other, target, group, f"{gone}|{stays}") as mirror:
        mirror.wait_all_committed([gone, stays])
        delete(other, gone)
        mirror.wait_said(f"waiting 1: {gone}: topic {gone}, created at ")
        load.produce(stays, 1, 300, PLAIN_ONLY)
        mirror.wait_all_committed([stays])
        filled(other, {gone: 1}, 450, PLAIN_ONLY, seed=3)  # with fewer partitions, and a shorter log of 0
        mirror.wait_arrived(gone, 1050)
        mirror.wait_all_committed([gone, stays])
        line = mirror.said().splitlines()[-1]
        mirror.wait_for(lambda: " lag 0" in last_status(mirror) and "waiting" not in last_status(mirror), line)
        assert mirror.stop()[0] == 0
    assert values(target, gone, 0)[200:] == values(other, gone, 0)
    said = mirror.said()
    assert "cut" not in said
    assert f"topic {gone}, created at " in said
    assert "was created again at 20" in said
    assert log_end_offsets(target, [stays]) == {TopicPartition(stays, 0): 700}
    # Now retention cuts what was not read.
    load.produce(stays, 1, 2000, PLAIN_ONLY)
    tools.topic_command(other, "--alter", "--topic", stays, "--config", "retention.bytes=1")
    wait_until(lambda: first_offset(other, stays) > 1500, 60, "the log to be cut")
    tools.topic_command(other, "--alter", "--topic", stays, "--config", "retention.bytes=100000000")
    with mirror:
        mirror.wait_said(f"{stays}/0 at 700: out of range, its log holds ")
        mirror.wait_all_committed([stays])
        assert mirror.stop()[0] == 0
    begins = first_offset(other, stays)
    [line] = [line for line in mirror.said().splitlines() if f"{stays}/0 at 700: out of range" in line]
    assert "level=warning" in line
    assert f"going on at {begins}, {begins - 700} messages are missing (smallest): the log was cut before" in line
    assert values(target, stays, 0)[700:] == values(other, stays, 0)


def test_retention_that_overtakes_a_mirror_whose_target_waits_costs_what_it_says_and_nothing_that_was_fetched(
    other: Cluster, own_cluster: Callable[..., Cluster], unique: Unique, tmp_path: Path
) -> None:
    topic, group = unique.topic("overtaken"), unique.group()
    target = own_cluster(brokers=1, settings={"auto.create.topics.enable": "false"})
    target.create_topic(unique.topic("there"), 1)  # brokers of 0.8 name no broker before the first topic
    other.create_topic(topic, 1, config={"segment.bytes": 60000, "retention.ms": 3600_000})
    load = filled(other, {}, 0, PLAIN_ONLY)
    load.produce(topic, 1, 3000, PLAIN_ONLY)
    before = values(other, topic, 0)
    small = {"queued.max.bytes": 100_000, "fetch.message.max.bytes": 20_000, "fetch.growth.max.bytes": 20_000}
    mirror = edited(
        Mirror(tmp_path, other, target, group, topic, target_options={"target.zookeeper.connect": None}), **small
    )
    with mirror:
        mirror.wait_said(f"waiting 1: {topic}: target topic {topic} does not exist")
        tools.topic_command(other, "--alter", "--topic", topic, "--config", "retention.bytes=1")
        wait_until(lambda: first_offset(other, topic) > 2000, 60, "the log to be cut")
        tools.topic_command(other, "--alter", "--topic", topic, "--config", "retention.bytes=100000000")
        target.create_topic(topic, 1)
        mirror.wait_all_committed([topic])
        assert mirror.stop()[0] == 0
    begins, copied = first_offset(other, topic), values(target, topic, 0)
    [line] = [line for line in mirror.said().splitlines() if f"{topic}/0 at " in line and "out of range" in line]
    fetched = len(copied) - (len(before) - begins)
    assert fetched > 0
    assert f"{topic}/0 at {fetched}: out of range" in line
    assert f"going on at {begins}, {begins - fetched} messages are missing (smallest)" in line
    assert copied == before[:fetched] + before[begins:]


def first_offset(cluster: Cluster, topic: str) -> int:
    return min(int(segment.stem) for segment in cluster.segments(TopicPartition(topic, 0)))


def last_status(mirror: Mirror) -> str:
    lines: list[Any] = [line for line in mirror.said().splitlines() if " msg/s, " in line]
    return str(lines[-1]) if lines else ""


def test_a_jvm_member_of_the_group_reads_both_lists_of_ours_alike(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    """It selects the topic that our blacklist leaves out, and shares the other one with us."""
    shared, theirs, group = unique.topic("shared"), unique.topic("theirs"), unique.group()
    both, zk = f"(shared|theirs)-{unique.tag}", source.registry().zk
    load = filled(source, {shared: 2, theirs: 2}, 800, PLAIN_ONLY)
    for topic in (shared, theirs):
        target.create_topic(topic, 2)
    timing = {"zookeeper.session.timeout.ms": 4000, "auto.commit.interval.ms": 300, "rebalance.max.retries": 12}
    with Mirror(tmp_path, source, target, group, both, {"blacklist": theirs}) as mirror:
        mirror.wait_arrived(shared, 800)
        [ours] = zk.get_children(f"/consumers/{group}/ids")
        assert log_end_offsets(target, [theirs]) == {TopicPartition(theirs, p): 0 for p in (0, 1)}
        with tools.mirror_maker([source], target, whitelist=both, group=group, consumer=timing) as jvm:

            def divided() -> bool:
                """One partition of the shared topic is ours; the other topic is all the JVM's."""
                found = [owners(source, group, topic) for topic in (shared, theirs)]
                mine = [[owner.startswith(ours) for owner in one.values()] for one in found]
                return sorted(mine[0]) == [False, True] and mine[1] == [False, False]

            wait_until(divided, 60, lambda: f"the group to divide; {jvm.log_end()}\n{mirror.said()[-3000:]}")
            load.produce(shared, 2, 400, PLAIN_ONLY)
            load.produce(theirs, 2, 400, PLAIN_ONLY)
            mirror.wait_arrived(theirs, 1200)
            mirror.wait_arrived(shared, 1200)
        assert mirror.stop()[0] == 0
