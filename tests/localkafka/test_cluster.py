"""Real clusters: started, killed, paused, restarted, damaged, shared; as child processes, and where a daemon answers in
containers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from localkafka import containers, ports, releases, tools
from localkafka.client import ClusterClient, log_end_offsets
from localkafka.cluster import Cluster
from localkafka.errors import LocalKafkaError
from localkafka.waiting import wait_until
from localkafka.zookeeper import ZooKeeperAt
from tests import children

pytestmark = pytest.mark.real

Start = Callable[..., Cluster]
LINES = [f"line {number} " + "x" * 40 for number in range(60)]


@pytest.fixture(autouse=True, params=["process", "docker"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    chosen = str(request.param)
    if chosen == "docker":
        try:
            containers.ready(releases.release(releases.DEFAULT))
        except LocalKafkaError as error:
            pytest.skip(f"needs a Docker daemon with the image {containers.image()}: {error}")
    monkeypatch.setenv("LOCALKAFKA_BACKEND", chosen)
    return chosen


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def payloads(cluster: ClusterClient, topic: str) -> list[str | None]:
    return [row.payload for row in tools.dump_partition(cluster, topic, 0)]


def test_leaving_a_cluster_leaves_no_process_and_no_folder(zk_server: ZooKeeperAt) -> None:
    with Cluster(brokers=2) as cluster:
        pids = [cluster.zookeeper_server.pid, *(node.pid for node in cluster.nodes)]
        assert len(cluster.brokers.split(",")) == 2
        assert cluster.zookeeper.endswith("/kafka")
        assert not any(gone(pid) for pid in pids)
    assert all(gone(pid) for pid in pids)
    assert not cluster.folder.exists()


def test_settings_and_topic_configuration_reach_the_broker(own_cluster: Start) -> None:
    cluster = own_cluster(settings={"message.max.bytes": 1000, "auto.create.topics.enable": False})
    cluster.create_topic("t", partitions=3, config={"retention.ms": 86_400_000})
    assert "retention.ms=86400000" in tools.topic_command(cluster, "--describe", "--topic", "t")
    assert cluster.zk().get_children("/brokers/topics/t/partitions") is not None
    with pytest.raises(LocalKafkaError, match=r"ended with 0 and did not send every line[\s\S]*MessageSizeTooLarge"):
        tools.console_producer(cluster, "t", ["x" * 2000], arguments=["--retry-backoff-ms", "1"])
    with pytest.raises(LocalKafkaError, match="topic t already exists"):
        cluster.create_topic("t")


def test_a_cluster_takes_given_ports_and_advertises_a_name() -> None:
    ports_taken = [ports.reserve(), ports.reserve()]
    broker, zookeeper = (port.number for port in ports_taken)
    for port in ports_taken:
        port.release()
    with Cluster(port=broker, zookeeper_port=zookeeper, advertise="localhost") as cluster:
        assert (cluster.brokers, cluster.zookeeper) == (f"localhost:{broker}", f"localhost:{zookeeper}/kafka")
        registered = cluster.registry().broker(0)
        assert registered is not None
        assert (registered.host, registered.port) == ("localhost", broker)
        cluster.create_topic("t")
        tools.console_producer(cluster, "t", LINES)
        cluster.node(0).kill()
        cluster.node(0).restart()
        assert payloads(cluster, "t") == LINES


def test_nodes_of_a_live_broker_are_never_deleted_and_its_chroot_is_refused(
    own_cluster: Start, zk_server: ZooKeeperAt
) -> None:
    cluster = own_cluster()
    node = cluster.registry().broker(0)
    assert node is not None
    with pytest.raises(LocalKafkaError, match=r"broker 0 is registered at .* by another process"):
        cluster.registry().forget_dead(0, last_session=1, last_port=node.port)
    assert cluster.registry().broker(0) == node
    with pytest.raises(LocalKafkaError, match=f"holds a cluster under {cluster.chroot} already"):
        Cluster(zookeeper=zk_server, chroot=cluster.chroot).start()


def test_a_broker_that_cannot_start_is_quoted_and_its_folder_kept(zk_server: ZooKeeperAt) -> None:
    cluster = Cluster(zookeeper=zk_server, settings={"num.io.threads": "many"})
    try:
        with pytest.raises(LocalKafkaError, match=r"broker 0 .* ended at start with \d; the end of [\s\S]*\"many\""):
            cluster.start()
        assert cluster.node(0).log.is_file()
    finally:
        shutil.rmtree(cluster.folder)


def test_flip_byte_damages_one_message_and_recovery_does_not_cut_the_log(own_cluster: Start) -> None:
    cluster = own_cluster(settings={"log.segment.bytes": 1500})
    cluster.create_topic("t")
    tools.console_producer(cluster, "t", LINES, arguments=["--batch-size", "5"])
    assert len(cluster.segments(TopicPartition("t", 0))) > 2
    flipped = cluster.node(0).flip_byte("t", 0, offset=7, at=3)
    assert flipped.offset == 7
    cluster.wait_in_sync("t")
    rows = list(tools.dump_partition(cluster, "t", 0))
    assert [row.offset for row in rows] == list(range(60))
    assert [row.offset for row in rows if not row.valid] == [7]
    assert log_end_offsets(cluster, ["t"]) == {TopicPartition("t", 0): 60}


def test_flip_byte_refuses_the_segment_that_is_being_written_and_a_killed_broker_that_would_recover(
    own_cluster: Start,
) -> None:
    cluster = own_cluster()
    cluster.create_topic("t")
    tools.console_producer(cluster, "t", LINES)
    with pytest.raises(
        LocalKafkaError, match=r"t/0: none of 0 closed segments holds offset 7; set log\.segment\.bytes"
    ):
        cluster.node(0).flip_byte("t", 0, offset=7)
    cluster.node(0).kill()
    with pytest.raises(LocalKafkaError, match=r"broker 0 .* was not stopped cleanly"):
        cluster.node(0).flip_byte("t", 0)


def test_clients_of_a_proxied_cluster_feel_its_faults(own_cluster: Start) -> None:
    cluster = own_cluster(proxied=True)
    node = cluster.node(0)
    cluster.create_topic("t")
    tools.console_producer(cluster, "t", LINES)
    assert node.proxy.counters.bytes_to_target > sum(map(len, LINES))
    node.proxy.blackhole()
    with pytest.raises(LocalKafkaError, match=r"in vain for the log end of t/0"):
        log_end_offsets(cluster, ["t"], timeout_s=0.3)
    node.proxy.clear()
    address = node.address
    node.restart(port=0)
    assert node.address == address, "the proxy keeps its address, the broker has moved behind it"
    assert log_end_offsets(cluster, ["t"]) == {TopicPartition("t", 0): 60}


def test_an_attached_client_sees_the_cluster_that_was_described(own_cluster: Start, tmp_path: Path) -> None:
    cluster = own_cluster()
    cluster.describe(tmp_path / "cluster.json")
    other = Cluster.attach(tmp_path / "cluster.json")
    assert (other.zookeeper, other.brokers, other.version) == (cluster.zookeeper, cluster.brokers, "0.8.2.2")
    other.create_topic("t")
    tools.console_producer(other, "t", LINES)
    other.close()
    assert payloads(cluster, "t") == LINES
    with pytest.raises(LocalKafkaError, match="no description of a cluster at"):
        Cluster.attach(tmp_path / "nothing")


# -- the command ---------------------------------------------------------------------------------------------------


def command(*arguments: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "localkafka", *arguments]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_where_to_connect_and_ends_clean_on_a_signal(number: signal.Signals) -> None:
    with command("--brokers", "2", "--version", "0.8.2.2", "--json") as running:
        assert running.stdout is not None
        told = json.loads(running.stdout.readline())
        client = ClusterClient(told["version"], told["zookeeper"], told["brokers"], Path(told["folder"]))
        assert client.registry().brokers() == [0, 1]
        client.close()
        os.killpg(running.pid, number)  # as a terminal does: the whole group
        rest, errors = running.communicate(timeout=30)
    assert (running.returncode, rest, errors) == (0, "", "")
    assert not Path(told["folder"]).exists()


def test_the_command_tells_of_a_broker_that_ended_and_runs_on() -> None:
    with command("--json") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        told = json.loads(running.stdout.readline())
        pid = next(
            int(path.parent.name)
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if path.read_bytes().split(b"\0")[-2:-1] == [f"{told['folder']}/broker-0/server.properties".encode()]
            and b"keeper.py" not in path.read_bytes()
        )
        os.kill(pid, signal.SIGKILL)
        assert "broker 0" in running.stderr.readline()
        assert running.poll() is None
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=30)
    assert running.returncode == 0


def test_kill_9_of_the_parent_takes_every_jvm_along(backend: str) -> None:
    """Containers stay until the next cluster starts."""
    program = textwrap.dedent("""
        import time
        from localkafka.cluster import Cluster
        cluster = Cluster(brokers=2).start()
        print(cluster.zookeeper_server.pid, *(node.pid for node in cluster.nodes), cluster.folder, flush=True)
        time.sleep(60)
    """)
    with children.started([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        *pids, folder = parent.stdout.readline().split()
        assert not any(gone(int(pid)) for pid in pids)
        parent.kill()
        parent.wait(10)
    if backend == "process":
        wait_until(lambda: all(gone(int(pid)) for pid in pids), 10, "the JVMs to be gone")
    with Cluster():
        wait_until(lambda: all(gone(int(pid)) for pid in pids), 10, "the JVMs to be gone")
        assert not Path(folder).exists(), "the next cluster sweeps up what a killed process left"


@pytest.mark.faults
@pytest.mark.parametrize("version", releases.STARTABLE)
def test_every_version_starts_takes_messages_and_comes_back_after_kill(version: str) -> None:
    with Cluster(version=version) as cluster:
        cluster.create_topic("t", partitions=2)
        tools.console_producer(cluster, "t", LINES)
        cluster.node(0).kill()
        cluster.node(0).restart()
        cluster.wait_in_sync("t")
        assert sum(log_end_offsets(cluster, ["t"]).values()) == len(LINES)
        with tools.console_consumer(cluster, "t") as consumer:
            assert sorted(consumer.wait_for(len(LINES))) == sorted(line.encode() for line in LINES)
