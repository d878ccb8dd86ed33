"""`mirrormaker diff` on real clusters: settings and groups in ZooKeeper, by brokers, and in both stores of offsets."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from kafkawire.model import TopicPartition
from kafkawire.znodes import v08 as znodes
from localkafka.client import ClusterClient
from localkafka.mirror import COMMAND
from localkafka.seven.cluster import Cluster07
from tests.conftest import Unique
from tests.integration.kraftcluster import kraft_cluster
from tests.integration.mirroring import Mirror
from zkconsumer.simple import SimpleConsumer

pytestmark = pytest.mark.real

Shown = dict[tuple[str | None, str], tuple[object, object, str]]


def diff(mirror: Mirror, code: int, *flags: str) -> tuple[Shown, str]:
    """Rows by source topic (or else by target topic) and what is compared, and what is said beside them."""
    command = [str(COMMAND), "diff", str(mirror.file), "-o", "json", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    rows = json.loads(done.stdout)
    return {
        (row["topic"] or row["target_topic"], row["what"]): (row["at_source"], row["at_target"], row["result"])
        for row in rows
    }, done.stderr


def commit(brokers: str, version: str, group: str, topic: str, partitions: int) -> None:
    """Commit an offset of so many partitions to Kafka."""
    host, _, port = brokers.partition(",")[0].partition(":")
    with SimpleConsumer(host, int(port), version) as consumer:
        consumer.commit_offsets(group, {TopicPartition(topic, p): 0 for p in range(partitions)}, "kafka")


def write_offsets(cluster: ClusterClient, group: str, topic: str, partitions: int) -> None:
    """Commit an offset of so many partitions to ZooKeeper."""
    for p in range(partitions):
        cluster.registry().zk.create(znodes.offset(group, TopicPartition(topic, p)), b"0", makepath=True)


def test_a_diff_of_two_clusters_of_08_reads_settings_and_offsets_from_zookeeper_and_kafka(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    same, other, absent, gone = (unique.topic(name) for name in ("same", "other", "absent", "gone"))
    for cluster in (source, target):
        cluster.create_topic(same, 2, config={"retention.ms": 3_600_000})
    source.create_topic(other, 3, 2, config={"retention.ms": 3_600_000, "cleanup.policy": "compact"})
    target.create_topic(other, 2, 1, config={"retention.ms": 60_000})
    source.create_topic(absent)
    target.create_topic(gone)
    moved, left, own = unique.group("moved"), unique.group("left"), unique.group("mirror")
    for group in (moved, left, own):
        write_offsets(source, group, same, 2)
    commit(target.brokers, "0.8.2", moved, same, 2)
    mirror = Mirror(tmp_path, source, target, own, ".*" + unique.tag)
    found, said = diff(mirror, 4, "--groups", f".*{unique.tag}")
    assert found == {
        (other, "partitions"): (3, 2, "differs"),
        (other, "replication"): (2, 1, "differs"),
        (other, "cleanup.policy"): ("compact", "not set", "differs"),
        (other, "retention.ms"): ("3600000", "60000", "differs"),
        (absent, "topic"): ("there", None, "missing"),
        (gone, "topic"): (None, "there", "only at target"),
        (same, f"offsets of group {left}"): (2, 0, "missing"),
    }
    assert "3 topics compared: 4 differs, 2 missing, 1 only at target, " in said
    found, _ = diff(mirror, 0, "--groups", moved, "--topics", same, "--all")
    assert found == {
        (same, "partitions"): (2, 2, "same"),
        (same, "replication"): (1, 1, "same"),
        (same, "retention.ms"): ("3600000", "3600000", "same"),
        (same, f"offsets of group {moved}"): (2, 2, "same"),
    }
    commit(target.brokers, "0.8.2", f"{left}.there", same, 1)
    again = {"groups.rename": {left: f"{left}.there"}}
    mirror = Mirror(tmp_path, source, target, own, ".*" + unique.tag, again)
    found, _ = diff(mirror, 4, "--groups", left, "--topics", same)
    assert found == {(same, f"offsets of group {left}"): (2, 1, "differs")}


def test_a_diff_with_a_target_of_39_compares_what_holds_and_takes_fixed_settings_as_expected(
    source: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    week, fixed, plain = (unique.topic(name) for name in ("week", "fixed", "plain"))
    source.create_topic(week, 2, config={"retention.ms": 604_800_000})
    source.create_topic(fixed, 1, config={"retention.ms": 3_600_000})
    source.create_topic(plain, 1)
    moved, own = unique.group("moved"), unique.group("mirror")
    write_offsets(source, moved, week, 2)
    with kraft_cluster(tmp_path, settings={"log.retention.ms": "604800000"}) as target:
        target.create(week, 2)
        target.create(fixed, 1, retention_ms="-1")
        target.create(plain, 1, cleanup_policy="compact")
        commit(target.brokers, target.release, moved, week, 2)
        options = {"metadata.broker.list": target.brokers, "target.zookeeper.connect": None,
                   "target.topic.configs": "retention.ms=-1"}  # fmt: skip
        mirror = Mirror(tmp_path, source, source, own, ".*" + unique.tag, target_options=options)
        found, _ = diff(mirror, 4, "--groups", f".*{unique.tag}", "--all")
        settings = {key: row for key, row in found.items() if key[1] not in ("partitions", "replication")}
        assert settings == {
            (week, "retention.ms"): ("604800000", "604800000 (default)", "differs"),  # not what the file fixes
            (fixed, "retention.ms"): ("3600000", "-1", "expected"),
            (plain, "retention.ms"): ("not set", "604800000 (default)", "differs"),
            (plain, "cleanup.policy"): ("not set", "compact", "differs"),
            (week, f"offsets of group {moved}"): (2, 2, "same"),
        }
        mirror.file.write_text(mirror.file.read_text().replace("retention.ms=-1", "segment.bytes"))
        found, _ = diff(mirror, 0, "--topics", week, "--all")
        assert found[week, "retention.ms"] == ("604800000", "604800000 (default)", "same")


def test_a_diff_with_a_source_of_07_compares_counts_and_says_that_its_topics_have_no_settings(
    cluster07: Callable[..., Cluster07], target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, absent, group = unique.topic(), unique.topic("absent"), unique.group()
    with cluster07(partitions=2) as old:
        for name in (topic, absent):
            old.produce(name, 0, 0, [b"1"], "none")
        target.create_topic(topic, 1, config={"retention.ms": 60_000})
        write_offsets(target, group, topic, 1)
        mirror = Mirror(tmp_path, target, target, unique.group("mirror"), ".*" + unique.tag)
        settings = yaml.safe_load(mirror.file.read_text())
        settings["sources"][0] |= {"version": "0.7", "zookeeper.connect": old.zookeeper}
        mirror.file.write_text(yaml.safe_dump(settings))
        found, said = diff(mirror, 4, "--groups", group)
        assert found == {
            (topic, "partitions"): (2, 1, "differs"),
            (absent, "topic"): ("there", None, "missing"),
            (topic, f"offsets of group {group}"): (0, 1, "only at target"),
        }
        assert "source dc1: settings are not compared: topics of Kafka 0.7" in said
