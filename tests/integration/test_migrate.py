"""`zkconsumer migrate` on real clusters: what it leaves alone, what it copies, and what kill -9 does to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from groupadmin.files.read import read_offsets
from groupadmin.migrate.journal import read_journal
from localkafka import tools
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.waiting import wait_until
from tests import children
from tests.integration.migration import QUICK, killed, load, migrate, put, rows
from tests.integration.readers import Reader, committed, wait_for_messages

pytestmark = pytest.mark.real


def everything(zk: KazooClient, path: str = "/") -> dict[str, tuple[bytes, int]]:
    """All nodes with data and version."""
    data, stat = zk.get(path)
    found = {path: (data or b"", stat.version)}
    for child in zk.get_children(path):
        found |= everything(zk, f"{path.rstrip('/')}/{child}")
    return found


def in_kafka(cluster: ClusterClient, plan: Path, kafka_version: str = "0.8.2") -> dict[tuple[str, int], object]:
    """What Kafka holds of the first group of a plan, by a new plan."""
    group = json.loads(plan.read_text())["groups"][0]["group"]
    done = migrate("plan", "-z", cluster.zookeeper, "--group", group, "--kafka-version", kafka_version, "-o", "json")
    return {(str(row["topic"]), int(str(row["partition"]))): row["kafka"] for row in rows(done)}


def test_planning_and_checking_leave_no_trace_on_a_fresh_cluster(own_cluster: Callable[..., Cluster], tmp_path: Path):
    cluster = own_cluster(brokers=1)
    cluster.create_topic("orders", 3)
    zk, plan = cluster.zk(), tmp_path / "plan.json"
    put(zk, "billing", "orders", {0: 0, 1: 0, 2: 7})
    before, folders = everything(zk), os.listdir(cluster.folder / "broker-0" / "data")
    reach = ("-z", cluster.zookeeper, "-b", cluster.brokers)
    planned = migrate("plan", *reach, "--all", "--plan", str(plan), "-o", "json")
    assert [row["action"] for row in rows(planned)] == ["copy", "copy", "out-of-range (open)"]
    checked = migrate("check", *reach, "--plan", str(plan), "--kafka-version", "0.8.2", "-o", "json", code=3)
    failing = [row["check"] for row in rows(checked) if row["outcome"] == "fail"]
    assert failing == ["offsets-topic"]  # one broker, three replicas wanted
    for step in (("copy", "--execute"), ("copy",), ("verify",), ("cutover", "--execute")):
        refused = rows(migrate(*step, *reach, "--plan", str(plan), *QUICK, "-o", "json", code=3))[0]
        named = f"{refused['refused']}; {refused['remedy']}"
        assert f"failing checks: {step[0]} after a check that failed; failing: offsets-topic: " in named
        assert "start 2 more brokers" in named
        assert "check with --offsets-replicas 1; correct that and run `zkconsumer migrate check` again" in named
    assert "/brokers/topics/__consumer_offsets" not in before
    assert everything(zk) == before
    assert os.listdir(cluster.folder / "broker-0" / "data") == folders
    assert migrate("plan", "-z", cluster.zookeeper, "--group", "nobody", code=5).stdout == ""
    migrate("plan", "-z", cluster.zookeeper, code=2)
    migrate("plan", "-z", cluster.zookeeper, "--all", "--groups-regex", "(", code=2)


def test_a_group_of_the_jvm_moves_offline_reads_on_from_kafka_and_comes_back(
    source: ClusterClient, unique, tmp_path: Path
):
    topic, group, plan = unique.topic("orders"), unique.group("billing"), tmp_path / "billing.json"
    source.create_topic(topic, 2)
    load(source, topic, 2, 40)
    jvm = {"auto.commit.interval.ms": 200}
    with tools.console_consumer(source, topic, group, config=jvm) as consumer:
        consumer.wait_for(40)
        zk = source.registry().zk
        wait_until(
            lambda: committed(source, group, topic) == {0: 20, 1: 20}, 20, lambda: str(committed(source, group, topic))
        )
        reach, at = ("-z", source.zookeeper), ("--plan", str(plan))
        migrate("plan", *reach, "--group", group, *at)
        migrate("check", *reach, *at, "--offsets-replicas", "1", "--broker-retention", "24h")
        refused = migrate("copy", *reach, *at, "--execute", *QUICK, "-o", "json", code=3)
        assert str(rows(refused)[0]["refused"]).startswith("active group")
        consumer.stop()
    load(source, topic, 2, 10)
    done = migrate("copy", *reach, *at, "--execute", *QUICK, "-o", "json")
    assert [(row["phase"], row["written"]) for row in rows(done)] == [("copied", 2)]
    refused = migrate("cutover", *reach, *at, "--execute", *QUICK, "-o", "json", code=3)
    assert str(rows(refused)[0]["refused"]).startswith("unverified copy")
    assert rows(migrate("verify", *reach, *at, *QUICK, "-o", "json"))[0]["phase"] == "verified"
    assert rows(migrate("cutover", *reach, *at, "--execute", *QUICK, "-o", "json"))[0]["phase"] == "cutover"
    marker = json.loads(zk.get(f"/consumers/{group}/migration")[0])
    assert (marker["version"], marker["phase"]) == ("1", "cutover")
    on_kafka = {"offsets_storage": "kafka", "dual_commit_enabled": False, "auto_offset_reset": "largest"}
    with Reader(source.zookeeper, group, {topic: 1}, **on_kafka) as reader:
        wait_for_messages(10, reader)  # not one of the 40 that were read before, and not from the end
        wait_until(lambda: in_kafka(source, plan) == {(topic, 0): 25, (topic, 1): 25}, 20, lambda: "commits to Kafka")
        refused = migrate("rollback", *reach, *at, "--execute", *QUICK, "-o", "json", code=3)
        assert str(rows(refused)[0]["refused"]).startswith("members not in dual")
        done = migrate("verify", *reach, *at, "--commit-interval", "400ms", "-o", "json")
        assert rows(done)[0]["phase"] == "done"
        reader.stop()
        assert len(reader.got) == 10
    assert committed(source, group, topic) == {0: 20, 1: 20}
    back = migrate("rollback", *reach, *at, "--execute", *QUICK, "-o", "json")
    assert [(row["phase"], row["written"]) for row in rows(back)] == [("rolled-back", 2)]
    assert committed(source, group, topic) == {0: 25, 1: 25}
    assert json.loads(zk.get(f"/consumers/{group}/migration")[0])["phase"] == "rolled-back"
    report = migrate("status", *at, "--report", "md").stdout
    assert f"## {group}: rolled-back" in report
    assert "# nothing is left to undo" in report
    assert json.loads(migrate("status", *at, "--report", "json").stdout)["counts"]["phases"] == {"rolled-back": 1}
    status = rows(migrate("status", *reach, *at, "-o", "json"))[0]
    assert status["phase"] == "rolled-back"
    assert str(status["node"]).startswith("rolled-back")


# tests/groupadmin/migrate/test_runner_kills.py kills a copy at every point.
def test_kill_9_in_the_middle_of_a_copy_and_the_same_command_again(source: ClusterClient, unique, tmp_path: Path):
    topic, plan = unique.topic("orders"), tmp_path / "plan.json"
    source.create_topic(topic, 3)
    load(source, topic, 3, 30)
    zk, names = source.registry().zk, [unique.group(f"g{n}") for n in range(3)]
    for name in names:
        put(zk, name, topic, {0: 3, 1: 4, 2: 99})
        put(zk, name, unique.topic("deleted"), {0: 5})  # of which brokers say nothing but error 3
    reach, at = ("-z", source.zookeeper), ("--plan", str(plan))
    clamp = ("--on-out-of-range", "clamp")
    migrate("plan", *reach, *(word for name in names for word in ("--group", name)), *at, *clamp)
    migrate("check", *reach, *at, "--offsets-replicas", "1")
    copy = ("copy", *reach, *at, "--execute", *QUICK, "-o", "json")
    killed("migrate after write@1", *copy)
    done = rows(migrate(*copy))
    assert {row["phase"] for row in done} == {"copied"}
    migrate("verify", *reach, *at, *QUICK)
    again = migrate("plan", *reach, "--groups-regex", f"g.-{unique.tag}", "-o", "json")
    assert [row["kafka"] for row in rows(again) if row["topic"] == topic] == [3, 4, 10] * 3
    assert [row["action"] for row in rows(again) if row["topic"] != topic] == ["skip-missing-topic"] * 3
    standings = read_journal(tmp_path / "plan.journal.jsonl").standings
    assert {standing.phase for standing in standings.values()} == {"verified"}
    for name in names:
        undo = read_offsets((tmp_path / "plan.undo" / f"{name}.copy.json").read_text())
        assert [(row.tp.partition, row.position) for row in undo.rows] == [(0, None), (1, None), (2, None)]
        assert json.loads(zk.get(f"/consumers/{name}/migration")[0])["phase"] == "verified"
    everywhere = rows(migrate("rollback", *reach, *at, "--execute", *QUICK, "-o", "json"))
    assert {row["phase"] for row in everywhere} == {"rolled-back"}


def test_copies_are_kept_until_ctrl_c_and_the_journal_is_free_meanwhile(source: ClusterClient, unique, tmp_path: Path):
    topic, group, plan = unique.topic("orders"), unique.group(), tmp_path / "plan.json"
    source.create_topic(topic, 1)
    put(source.registry().zk, group, topic, {0: 0})
    reach, at = ("-z", source.zookeeper), ("--plan", str(plan))
    migrate("plan", *reach, "--group", group, *at)
    migrate("check", *reach, *at, "--offsets-replicas", "1", "--keepalive")
    argv = [sys.executable, "-m", "zkconsumer.commands.main", "migrate", "copy", *reach, *at, "--execute", *QUICK]
    argv += ["--keepalive", "--keepalive-every", "300ms"]
    with children.started(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert child.stderr is not None
            while "kept alive until" not in child.stderr.readline():
                assert child.poll() is None
            migrate("verify", *reach, *at, *QUICK)
            child.send_signal(signal.SIGINT)
            assert child.wait(15) == 0
            assert child.stderr.read().strip() == "no longer kept"
        finally:
            child.kill()
