"""The commands of zkconsumer on real clusters: what they print, what they leave behind, their exit codes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time

import pytest
from prometheus_client import REGISTRY

from localkafka import tools
from localkafka.client import ClusterClient, started_client
from localkafka.load import Load, Mixture
from localkafka.waiting import wait_until
from tests import children
from tests.integration.readers import Reader, committed

pytestmark = pytest.mark.real
KINDS = ("owners", "offsets")


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "zkconsumer.commands.main", *args]


def run(*args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command(*args), capture_output=True, text=True, timeout=30)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == code, (done.stdout, done.stderr)
    return done


def load(cluster: ClusterClient, topic: str, partitions: int, count: int) -> None:
    producer = Load(cluster.brokers, cluster.version)
    producer.produce(topic, partitions, count, Mixture(0, (0,)), batch=5)
    producer.close()


def groups_of(cluster: ClusterClient, topic: str) -> set[str]:
    """Groups that have any node for the topic."""
    zk = cluster.registry().zk
    folders = [f"/consumers/{group}/{kind}/{topic}" for group in zk.get_children("/consumers") for kind in KINDS]
    return {folder.split("/")[2] for folder in folders if zk.exists(folder)}


def test_without_a_group_everything_is_read_and_no_node_stays(source, unique):
    topic = unique.topic()
    source.create_topic(topic, 2)
    load(source, topic, 2, 60)
    mine = unique.group()
    source.registry().zk.create(f"/consumers/{mine}/offsets/{topic}/0", b"7", makepath=True)
    done = run(
        "consume", "-z", source.zookeeper, "--topic", topic, "--from-beginning", "--max-messages", "60", "-o", "json"
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted((row["partition"], row["offset"]) for row in rows) == [(p, o) for p in (0, 1) for o in range(30)]
    assert groups_of(source, topic) == {mine}
    assert committed(source, mine, topic) == {0: 7}


def test_ctrl_c_removes_the_throwaway_group_too(source, unique):
    topic = unique.topic()
    source.create_topic(topic, 1)
    load(source, topic, 1, 10)
    argv = command("consume", "-z", source.zookeeper, "--topic", topic, "--from-beginning")
    with children.started(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stderr is not None
            assert all(child.stdout.readline() for _ in range(10))
            (group,) = groups_of(source, topic)
            assert group.startswith("console-consumer-")
            child.send_signal(signal.SIGINT)
            assert child.wait(15) == 0
            assert child.stderr.read() == b""
        finally:
            child.kill()
    assert source.registry().zk.exists(f"/consumers/{group}") is None


def test_the_signal_that_ends_consume_never_ends_it_by_itself_however_often_it_comes(source, unique):
    topic, group = unique.topic(), unique.group()
    source.create_topic(topic, 1)
    load(source, topic, 1, 10)
    argv = command("consume", "-z", source.zookeeper, "--topic", topic, "--group", group, "--from-beginning")
    with children.started(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert all(child.stdout.readline() for _ in range(10))
        until = time.monotonic() + 20
        while child.poll() is None and time.monotonic() < until:
            child.send_signal(signal.SIGHUP)
            time.sleep(0.001)
        assert (child.poll(), child.stderr.read()) == (0, b"")
    assert committed(source, group, topic) == {0: 10}


def test_one_partition_is_read_from_an_offset_without_any_group(source, unique):
    topic = unique.topic()
    source.create_topic(topic, 2)
    load(source, topic, 2, 40)
    for way in (("-z", source.zookeeper), ("-b", source.brokers)):
        read = ("consume", *way, "--topic", topic, "--partition", "1", "--print-offset", "--timeout-ms", "500")
        lines = run(*read, "--offset", "15").stdout.splitlines()
        assert [line.split("\t")[0] for line in lines] == [f"{topic}/1 {n}" for n in range(15, 20)]
    assert "holds 0 to 20" in run(*read, "--offset", "99", code=1).stderr
    assert "has 2 partitions" in run("consume", *way, "--topic", topic, "--partition", "7", code=5).stderr
    assert "does not exist" in run("consume", *way, "--topic", topic + "x", "--partition", "0", code=5).stderr
    assert groups_of(source, topic) == set()


def test_a_group_is_listed_described_and_its_lag_told(source, unique):
    topic, group = unique.topic(), unique.group()
    source.create_topic(topic, 2)
    load(source, topic, 2, 100)
    zk = ("-z", source.zookeeper)
    with Reader(source.zookeeper, group, {topic: 3}, auto_commit_interval_ms=100) as reader:
        wait_until(lambda: committed(source, group, topic) == {0: 50, 1: 50}, 10, "all committed")
        members = json.loads(run("groups", "members", *zk, "--group", group, "-o", "json").stdout)
        assert [(row["member"], row["streams"], row["pattern"], row["mode"]) for row in members] == [
            (reader.consumer_id, 3, "static", "zookeeper")
        ]
        described = run("groups", "describe", *zk, "--group", group, "-o", "json")
        rows = json.loads(described.stdout)
        assert [(row["partition"], row["committed"], row["end"], row["lag"]) for row in rows] == [
            (0, 50, 50, 0),
            (1, 50, 50, 0),
            (None, None, None, None),
        ]
        assert rows[2]["owner"] == f"{reader.consumer_id}-2"
        assert "3 partitions, or a multiple" in described.stderr
        run("verify-rebalance", group, *zk)
    load(source, topic, 2, 30)
    listed = {row["group"]: row for row in json.loads(run("groups", "list", *zk, "-o", "json").stdout)}
    assert listed[group] == {"group": group, "members": 0, "topics": 1}
    lag = ("lag", *zk, "--group", group, "-b", source.brokers)
    assert "30 messages behind" in run(*lag, "--threshold", "30").stderr
    assert "more than 29" in run(*lag, "--threshold", "29", code=6).stderr
    totals = {row["group"]: row for row in json.loads(run("lag", *zk, "-o", "json").stdout)}
    assert totals[group] == {"group": group, "members": 0, "partitions": 2, "lag": 30, "unknown": 0}


def test_lag_reads_the_store_that_the_group_uses(source, unique, tmp_path):
    topic, zk = unique.topic(), ("-z", source.zookeeper)
    in_kafka, only_kafka, dual = unique.group("kafka"), unique.group("only"), unique.group("dual")
    source.create_topic(topic, 2)
    load(source, topic, 2, 100)
    with Reader(source.zookeeper, in_kafka, {topic: 1}, offsets_storage="kafka", dual_commit_enabled=False) as reader:
        wait_until(lambda: len(reader.got) == 100, 15, "all messages")
        reader.stop()
    undo = ("--undo-dir", str(tmp_path), "--execute")
    run("offsets", "set", "-b", source.brokers, "--group", only_kafka, f"{topic}:0,1=40", *undo)
    run("offsets", "set", *zk, "--group", dual, f"{topic}:0,1=50", "--store", "kafka", *undo)
    run("offsets", "set", *zk, "--group", dual, f"{topic}:0,1=30", "--store", "zookeeper", *undo)
    load(source, topic, 2, 200)
    assert not source.registry().zk.exists(f"/consumers/{only_kafka}")

    for group, behind, per_partition in ((in_kafka, 200, 100), (only_kafka, 220, 110), (dual, 200, 100)):
        done = run("lag", *zk, "--group", group, "-o", "json")
        rows = json.loads(done.stdout)
        assert [(row["partition"], row["lag"], row["store"]) for row in rows] == [
            (partition, per_partition, "kafka") for partition in (0, 1)
        ]
        assert all(row["age"] is not None for row in rows)
        assert f"group {group}: {behind} messages behind, in 2 partitions, 0 unknown" in done.stderr
        run("lag", *zk, "--group", group, "--threshold", str(behind))
        run("lag", *zk, "--group", group, "--threshold", str(behind - 1), code=6)
    totals = {row["group"]: row for row in json.loads(run("lag", *zk, "-o", "json").stdout)}
    assert [(totals[group]["lag"], totals[group]["unknown"]) for group in (in_kafka, dual)] == [(200, 0), (200, 0)]
    assert only_kafka not in totals
    wider = {row["group"]: row for row in json.loads(run("lag", *zk, "-b", source.brokers, "-o", "json").stdout)}
    assert {"group": only_kafka, "members": 0, "partitions": 2, "lag": 220, "unknown": 0} == wider[only_kafka]


def test_lag_of_groups_of_a_modern_cluster(own_cluster, unique):
    cluster = own_cluster(version="3.9.1", brokers=1)
    topic, ours, theirs = unique.topic(), unique.group("ours"), unique.group("theirs")
    cluster.create_topic(topic, 2)
    load(cluster, topic, 2, 100)
    modern = ("-z", cluster.zookeeper, "--kafka-version", "3.9")
    with Reader(
        cluster.zookeeper, ours, {topic: 1}, offsets_storage="kafka", dual_commit_enabled=False, kafka_version="3.9"
    ) as reader:
        wait_until(lambda: len(reader.got) == 100, 15, "all messages")
        reader.stop()
    with tools.console_consumer(cluster, topic, theirs) as reader:
        reader.wait_for(100)
        reader.stop()
    load(cluster, topic, 2, 200)
    for group in (ours, theirs):
        for version in (modern, modern[:2]):
            done = run("lag", *version, "--group", group, "--threshold", "199", code=6)
            assert f"group {group}: 200 messages behind, in 2 partitions, 0 unknown" in done.stderr
    totals = {r["group"]: r for r in json.loads(run("lag", *modern, "-b", cluster.brokers, "-o", "json").stdout)}
    assert {group: totals[group]["lag"] for group in (ours, theirs)} == {ours: 200, theirs: 200}


def test_planted_faults_of_a_group_are_found(source, unique):
    topic, group = unique.topic(), unique.group()
    source.create_topic(topic, 2)
    zk = source.registry().zk
    with Reader(source.zookeeper, group, {topic: 1}) as reader:
        wait_until(lambda: reader.connector.settled and len(reader.owns()) == 2, 10, "both partitions")
        stranger = f"/consumers/{group}/owners/{topic}/9"
        zk.create(stranger, b"gone_host-1-0", ephemeral=True)
        found = json.loads(run("verify-rebalance", group, "-z", source.zookeeper, "-o", "json", code=4).stdout)
        assert [(row["finding"], row["partition"]) for row in found if row["fault"]] == [("not registered", 9)]
        zk.delete(stranger)
        run("verify-rebalance", group, "-z", source.zookeeper, "--members", "1")
        done = run("verify-rebalance", group, "-z", source.zookeeper, "--members", "2", "--settle-s", "0.1", code=4)
        assert "1 member, 2 owned partitions, 0 faults; --members asks for 2" in done.stderr
    run("verify-rebalance", group + "x", "-z", source.zookeeper, "--settle-s", "0.1", code=5)


def test_lag_is_watched_until_ctrl_c(source, unique):
    topic, group = unique.topic(), unique.group()
    source.create_topic(topic, 1)
    source.registry().zk.create(f"/consumers/{group}/offsets/{topic}/0", b"0", makepath=True)
    argv = command("lag", "-z", source.zookeeper, "--group", group, "--watch", "0.2", "-o", "csv")
    with children.started(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stderr is not None
            header = child.stdout.readline()
            assert header.startswith("time,topic,partition")
            assert re.fullmatch(rf".*{topic},0,,0,0,0,zookeeper,\d+s", child.stdout.readline().strip())
            load(source, topic, 1, 10)
            until = time.monotonic() + 10
            while not re.fullmatch(r".*,0,10,10,zookeeper,\d+s", (line := child.stdout.readline()).strip()):
                assert line != header
                assert time.monotonic() < until
            child.send_signal(signal.SIGINT)
            assert child.wait(10) == 0
            assert "Traceback" not in child.stderr.read()
        finally:
            child.kill()


def test_a_path_without_brokers_a_missing_one_and_dead_brokers_are_one_sentence(source, unique):
    server = source.zookeeper.partition("/")[0]
    topic = unique.topic()
    zk = started_client(server)
    try:
        zk.create(unique.chroot)
        wrong = server + unique.chroot
        hint = f"no brokers are registered under {wrong}"
        assert hint in run("groups", "describe", "-z", wrong, "--group", "g", code=5).stderr
        assert hint in run("lag", "-z", wrong, code=1).stderr
        assert hint in run("groups", "list", "-z", wrong, code=1).stderr
        assert hint in run("topics", "-z", wrong, code=1).stderr
        assert hint in run("brokers", "-z", wrong, code=1).stderr
        assert hint in run("consume", "-z", wrong, "--topic", topic, "--partition", "0", code=1).stderr
        zk.create(f"{unique.chroot}/brokers/ids/1", b'{"host":"127.0.0.1","port":9}', makepath=True)
        zk.create(f"{unique.chroot}/brokers/topics/{topic}", b'{"partitions":{"0":[1]}}', makepath=True)
        zk.create(
            f"{unique.chroot}/brokers/topics/{topic}/partitions/0/state", b'{"leader":1,"isr":[1]}', makepath=True
        )
        zk.create(f"{unique.chroot}/consumers/g/offsets/{topic}/0", b"3", makepath=True)
        dead = run("lag", "-z", wrong, "--group", "g", "--threshold", "5", code=4)
        assert "127.0.0.1:9" in dead.stderr
        assert "Connection refused" in dead.stderr
        assert "group g: its lag is not known, in 1 partition, 1 unknown" in dead.stderr
        assert "group g: the lag of 1 partition is not known" in dead.stderr
        assert "Connection refused" in run("consume", "-z", wrong, "--topic", topic, "--partition", "0", code=1).stderr
    finally:
        zk.delete(unique.chroot, recursive=True)
        zk.stop()
        zk.close()
    assert "does not exist" in run("groups", "list", "-z", server + unique.chroot, code=1).stderr


def test_no_command_writes_where_no_broker_ever_registered(source, unique, tmp_path, monkeypatch):
    """Brokers of -b have the topic; without the chroot -z names a path where no member of the group looks."""
    server, topic, group = source.zookeeper.partition("/")[0], unique.topic(), unique.group()
    source.create_topic(topic, 1)
    load(source, topic, 1, 10)
    source.registry().zk.create(f"/consumers/{group}/offsets/{topic}/0", b"3", makepath=True)
    saved, planned = tmp_path / "offsets.txt", tmp_path / "plan.json"
    saved.write_text(f"/consumers/{group}/offsets/{topic}/0:5\n")
    monkeypatch.chdir(tmp_path)
    run("migrate", "plan", "-z", source.zookeeper, "--group", group, "--plan", str(planned))
    wrong = server + unique.chroot
    zk = started_client(server)
    try:
        zk.create(unique.chroot)
        sentence = f"error: no brokers are registered under {wrong}: is the chroot missing in -z?"
        of_group = ("-z", wrong, "-b", source.brokers, "--group", group)
        for words in (
            ("offsets", "set", *of_group, f"{topic}:0=5", "--execute"),
            ("offsets", "set", *of_group, f"{topic}:0=5", "--store", "both", "--execute"),
            ("offsets", "reset", *of_group, "--topic", topic, "--to-earliest", "--execute"),
            ("offsets", "import", "-z", wrong, "-b", source.brokers, "--execute", str(saved)),
            ("offsets", "copy-group", group, f"{group}-2", "-z", wrong, "-b", source.brokers, "--execute"),
            ("migrate", "plan", *of_group, "--plan", str(tmp_path / "other.json")),
        ):
            assert sentence in run(*words, code=3).stderr, words
        for step in ("check", "copy", "cutover"):
            more = () if step == "check" else ("--execute",)
            refused = run("migrate", step, "-z", wrong, "--plan", str(planned), *more, code=3)
            assert "plan of another cluster" in refused.stderr
        run("offsets", "set", "-z", wrong, "--group", group, f"{topic}:0=5", "--execute", code=5)
        run("offsets", "import", "-z", wrong, "--execute", str(saved), code=5)
        assert zk.get_children(unique.chroot) == []
    finally:
        zk.delete(unique.chroot, recursive=True)
        zk.stop()
        zk.close()
    for words in (("groups", "list"), ("offsets", "set", "--group", group, f"{topic}:0=5", "--execute")):
        missing = run(*words, "-z", server + unique.chroot, code=1)
        assert f"chroot {unique.chroot} does not exist on {server}" in missing.stderr


def test_metrics_are_shown_while_a_connector_lives_and_not_after(source, unique):
    topic, group = unique.topic(), unique.group()
    source.create_topic(topic, 1)
    load(source, topic, 1, 20)
    with Reader(source.zookeeper, group, {topic: 1}, metrics_enable=True) as reader:
        wait_until(lambda: len(reader.got) == 20, 10, "all messages")
        labels = {"group": group, "consumer": reader.consumer_id}
        assert REGISTRY.get_sample_value("zkconsumer_messages_total", labels) == 20
        assert REGISTRY.get_sample_value("zkconsumer_session", {**labels, "state": "connected"}) == 1
        where = {**labels, "topic": topic, "partition": "0"}
        wait_until(lambda: REGISTRY.get_sample_value("zkconsumer_lag", where) in (0, 1), 10, "the lag")
        rounds = REGISTRY.get_sample_value("zkconsumer_rebalances_total", labels)
        assert rounds is not None
        assert rounds >= 1
        reader.stop()
    assert REGISTRY.get_sample_value("zkconsumer_messages_total", labels) is None
