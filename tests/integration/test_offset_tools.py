"""Offsets and groups commands on real 0.8.2.2 clusters, beside the JVM's own tools."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kafkawire.cluster.addresses import parse_addresses
from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC
from localkafka import tools
from localkafka.client import ClusterClient
from localkafka.load import Load, Mixture
from zkconsumer.offsetlog import read_offset_log

pytestmark = pytest.mark.real
DROPIN = "import sys; from groupadmin.commands import dropin; sys.exit(dropin.outcome(dropin.{}, sys.argv[1:]))"


def run(*args: str, code: int = 0, tool: str = "") -> subprocess.CompletedProcess[str]:
    start = ["-c", DROPIN.format(tool)] if tool else ["-m", "zkconsumer.commands.main"]
    done = subprocess.run([sys.executable, *start, *args], capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == code, (done.stdout, done.stderr)
    return done


def held(cluster: ClusterClient, group: str) -> list[tuple[int, int | None, str | None]]:
    """Partition, position and store, as `offsets get` says."""
    rows = json.loads(run("offsets", "get", "-z", cluster.zookeeper, "--group", group, "-o", "json").stdout)
    return [(row["partition"], row["committed"], row["store"]) for row in rows]


def filled(cluster: ClusterClient, topic: str, partitions: int = 2, count: int = 100) -> None:
    cluster.create_topic(topic, partitions)
    for partition in range(partitions):
        cluster.wait_leader(topic, partition)
    producer = Load(cluster.brokers, cluster.version)
    producer.produce(topic, partitions, count, Mixture(0, (0,)), batch=5)
    producer.close()


def test_the_jvms_tools_and_ours_say_and_write_the_same(source, unique, tmp_path: Path):
    topic, group, zk = unique.topic(), unique.group(), ("-z", source.zookeeper)
    filled(source, topic)
    undo = ("--undo-dir", str(tmp_path), "--execute")
    run("offsets", "set", *zk, "--group", group, f"{topic}:0=20", f"{topic}:1=50", "--store", "zookeeper", *undo)
    assert held(source, group) == [(0, 20, "zookeeper"), (1, 50, "zookeeper")]

    argv = ["--group", group, "--topic", topic, "--zookeeper", source.zookeeper]
    theirs = tools.run(source, "kafka.tools.ConsumerOffsetChecker", argv).splitlines()
    ours = run(*argv, tool="offset_checker").stdout.splitlines()
    assert ours == theirs

    file = tmp_path / "theirs"
    export = ["--zkconnect", source.zookeeper, "--group", group, "--output-file"]
    tools.run(source, "kafka.tools.ExportZkOffsets", [*export, str(file)])
    run(*export, str(tmp_path / "ours"), tool="offset_export")
    assert sorted((tmp_path / "ours").read_text().splitlines()) == sorted(file.read_text().splitlines())

    run("offsets", "reset", *zk, "--group", group, "--all-topics", "--to-earliest", *undo)
    assert held(source, group) == [(0, 0, "zookeeper"), (1, 0, "zookeeper")]
    tools.run(
        source,
        "kafka.tools.ImportZkOffsets",
        ["--zkconnect", source.zookeeper, "--input-file", str(tmp_path / "ours")],
    )
    assert held(source, group) == [(0, 20, "zookeeper"), (1, 50, "zookeeper")]
    run("offsets", "reset", *zk, "--group", group, "--all-topics", "--to-latest", *undo)
    run("--zkconnect", source.zookeeper, "--input-file", str(file), *undo, tool="offset_import")
    assert held(source, group) == [(0, 20, "zookeeper"), (1, 50, "zookeeper")]


def test_both_stores_from_a_cluster_that_never_had_an_offset_in_kafka(own_cluster, unique, tmp_path: Path):
    cluster = own_cluster(settings={"offsets.topic.num.partitions": 4, "offsets.topic.replication.factor": 1})
    topic, group, zk = unique.topic(), unique.group(), ("-z", cluster.zookeeper)
    filled(cluster, topic)
    both = ("--store", "both", "--undo-dir", str(tmp_path))
    run("offsets", "set", *zk, "--group", group, f"{topic}:0=20", "--store", "both", "--dry-run")
    run("groups", "describe", *zk, "--group", group, code=5)
    run("offsets", "get", *zk, "--group", group, code=5)
    assert not cluster.registry().zk.exists(f"/brokers/topics/{OFFSETS_TOPIC}"), "looking made it"

    done = run("offsets", "set", *zk, "--group", group, f"{topic}:0=20", f"{topic}:1=30", *both, "--execute")
    assert "4 of 4 offsets written and read back" in done.stderr
    pairs = [(0, 20, "zookeeper"), (0, 20, "kafka"), (1, 30, "zookeeper"), (1, 30, "kafka")]
    assert held(cluster, group) == pairs
    (checked, _) = tools.consumer_offset_checker(cluster, group, topic)
    assert checked.offset == 20

    shift = ("--topic", f"{topic}:0", "--shift-by", "5", "--store", "both", "--undo-dir", str(tmp_path / "shift"))
    run("offsets", "reset", *zk, "--group", group, *shift, "--execute")
    assert held(cluster, group)[:2] == [(0, 25, "zookeeper"), (0, 25, "kafka")]
    (undo,) = (tmp_path / "shift").iterdir()
    run("offsets", "import", str(undo), *zk, "--undo-dir", str(tmp_path / "more"), "--execute")
    assert held(cluster, group) == pairs

    listed = json.loads(run("groups", "list", *zk, "-b", cluster.brokers, "-o", "json").stdout)
    assert [(row["group"], row["store"]) for row in listed] == [(group, "both")]
    described = json.loads(run("groups", "describe", *zk, "--group", group, "-o", "json").stdout)
    assert [(row["store"], row["age"] is not None) for row in described] == [("zookeeper", True), ("kafka", True)] * 2

    run("groups", "rename", group, f"{group}.new", *zk, "--undo-dir", str(tmp_path / "more"), "--execute", code=4)
    assert held(cluster, f"{group}.new") == pairs
    assert not cluster.registry().zk.exists(f"/consumers/{group}")
    log = read_offset_log(parse_addresses(cluster.brokers), group=group)
    assert {row.commit_ms for row in log.offsets[group].values()} == {1}, "to be forgotten: committed as if in 1970"
