"""Clusters that can never be mirrored as the file names them, on real brokers: found at the start, by `run` and by
`check --online`, and named in one sentence with what helps.  systemd does not restart 78."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from localkafka import java
from localkafka.client import ClusterClient, started_client
from localkafka.cluster import Cluster
from localkafka.kraft import KraftBroker
from localkafka.mirror import COMMAND
from localkafka.seven.cluster import Cluster07
from localkafka.waiting import wait_until
from localkafka.zookeeper import ZooKeeperAt
from tests.conftest import Unique
from tests.integration.mirrorprocess import MirrorProcess
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import ConsumerError

pytestmark = pytest.mark.real
ZKCONSUMER = COMMAND.with_name("zkconsumer")


def refused(folder: Path, sentence: str, source: Mapping[str, object], target: Mapping[str, object], who: str) -> None:
    """run ends with 78 long before its time is over, and check --online says the same."""
    mirror = MirrorProcess(folder, f"refused-{len(list(folder.glob('*.yaml')))}", None)
    settings = {
        "sources": [{"name": "dc1", "group.id": "refused", **source}],
        "target": dict(target),
        "mirror": {"whitelist": "a", "start.timeout.ms": 60_000},
    }
    mirror.file.write_text(yaml.safe_dump(settings))
    with mirror:
        assert mirror.exit_code(40) == 78, mirror.said()
    [line] = [line for line in mirror.said().splitlines() if "level=critical" in line]
    assert f'msg="{who}: ' in line
    assert sentence in line
    checked = subprocess.run([COMMAND, "check", "--online", mirror.file], capture_output=True, text=True, timeout=60)
    assert (checked.returncode, checked.stdout) == (78, ""), checked.stderr
    last = checked.stderr.splitlines()[-1]
    assert last.startswith(f"error: {who}: ")
    assert sentence in last


def at(cluster: ClusterClient) -> dict[str, object]:
    return {"zookeeper.connect": cluster.zookeeper}


def brokers(cluster: Any) -> dict[str, object]:
    return {"metadata.broker.list": cluster.brokers}


def zkconsumer(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ZKCONSUMER, *arguments], capture_output=True, text=True, timeout=60)


# ---- releases ------------------------------------------------------------------------------------------------


def test_a_source_of_0_8_2_that_is_named_3_9(source: ClusterClient, target: ClusterClient, tmp_path: Path) -> None:
    sentence = "is Kafka 0.8, and version is 3.9: set it to 0.8.2"
    refused(tmp_path, sentence, at(source) | {"version": "3.9"}, brokers(target), "source dc1")


def test_a_target_of_4_x_that_is_named_3_9(source: ClusterClient, tmp_path: Path) -> None:
    with KraftBroker(tmp_path / "kraft", "4.3.1") as four:
        sentence = "is Kafka 4.2, and target.version is 3.9: set it to 4.2"
        refused(tmp_path, sentence, at(source), brokers(four) | {"target.version": "3.9"}, "target")


@pytest.fixture
def seven(zk_server: ZooKeeperAt) -> Iterator[Cluster07]:
    with Cluster07(zookeeper=zk_server) as cluster:
        yield cluster


def test_a_target_of_0_7_that_is_named_0_8(source: ClusterClient, seven: Cluster07, tmp_path: Path) -> None:
    sentence = "is Kafka 0.7, and target.version is 0.8.2: set it to 0.7.2"
    refused(tmp_path, sentence, at(source), brokers(seven), "target")


def test_a_reader_of_fixed_partitions_is_told_the_release_as_well(
    source: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    options = {
        "group.id": unique.group(), "kafka.version": "3.9", "partitions": "a:0", "metadata.broker.list": source.brokers,
        "auto.offset.reset": "smallest", "offsets.file": str(tmp_path / "offsets.json"),
    }  # fmt: skip
    with pytest.raises(ConsumerError, match=r"is Kafka 0\.8, and kafka\.version is 3\.9: set it to 0\.8\.2"):
        ConsumerConnector(options).create_message_streams({"a": 1})


def test_a_member_of_a_group_is_told_the_release_before_it_registers(source: ClusterClient, unique: Unique) -> None:
    group = unique.group()
    options = {
        "group.id": group, "kafka.version": "3.9", "zookeeper.connect": source.zookeeper,
        "auto.offset.reset": "smallest",
    }  # fmt: skip
    with pytest.raises(ConsumerError, match=r"is Kafka 0\.8, and kafka\.version is 3\.9: set it to 0\.8\.2"):
        ConsumerConnector(options).create_message_streams({"a": 1})
    assert source.registry().zk.exists(f"/consumers/{group}") is None


# ---- TLS and SASL --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def keystore(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "keys.p12"
    keytool = Path(java.executable()).with_name("keytool")
    made = [
        "-genkeypair",
        "-alias",
        "broker",
        "-keyalg",
        "RSA",
        "-storetype",
        "PKCS12",
        "-storepass",
        "secret1",
        "-dname",
        "CN=127.0.0.1",
    ]
    subprocess.run([keytool, *made, "-keystore", path], check=True, capture_output=True, timeout=60)
    return path


def tls(keystore: Path) -> dict[str, str]:
    store = {"location": str(keystore), "type": "PKCS12", "password": "secret1"}
    settings = {f"ssl.{kind}.{key}": value for kind in ("keystore", "truststore") for key, value in store.items()}
    return settings | {"ssl.key.password": "secret1", "ssl.endpoint.identification.algorithm": ""}


def sasl() -> dict[str, str]:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b" user_a="b";'
    mechanism = {"sasl.enabled.mechanisms": "PLAIN", "sasl.mechanism.inter.broker.protocol": "PLAIN"}
    return mechanism | {"listener.name.sasl_plaintext.plain.sasl.jaas.config": login}


@pytest.fixture(params=["SSL", "SASL_PLAINTEXT"])
def secured(request: pytest.FixtureRequest, zk_server: ZooKeeperAt, keystore: Path) -> Iterator[tuple[str, Cluster]]:
    """A 3.9.1 cluster with one broker that has no plain listener, and what kind it is of."""
    cluster = Cluster(version="3.9.1", zookeeper=zk_server)
    [node] = cluster.nodes
    listener = f"{request.param}://{node.address}"
    node.settings |= {"listeners": listener, "advertised.listeners": listener}
    node.settings |= {"security.inter.broker.protocol": request.param}
    node.settings |= tls(keystore) if request.param == "SSL" else sasl()
    try:
        cluster._check()
        cluster._make_chroot()
        node.start()
        zk = cluster.zk()
        wait_until(lambda: zk.exists("/brokers/ids/0"), 60, lambda: f"it to register\n{node.log.read_text()[-4000:]}")
        yield request.param, cluster
    finally:
        cluster.close()


def test_one_broker_of_several_without_a_plain_listener_is_named_beside_the_table(
    zk_server: ZooKeeperAt, unique: Unique
) -> None:
    zk = started_client(zk_server.connect)
    nodes = {0: ("h", 9092, "PLAINTEXT://h:9092"), 1: (None, -1, "SSL://h:9093")}
    for broker, (host, port, endpoint) in nodes.items():
        node = {"version": 4, "host": host, "port": port, "jmx_port": -1, "timestamp": "1", "endpoints": [endpoint]}
        zk.create(f"{unique.chroot}/brokers/ids/{broker}", json.dumps(node).encode(), makepath=True)
    zk.stop()
    zk.close()
    shown = zkconsumer("brokers", "-z", zk_server.connect + unique.chroot)
    assert shown.returncode == 0
    assert [line.split()[:3] for line in shown.stdout.splitlines()[1:]] == [["0", "h", "9092"]]
    assert shown.stderr == (
        "broker 1 has no PLAINTEXT listener (SSL://h:9093): it is registered, but left out here; set "
        "security.protocol with --command-config\n"
    )


def test_brokers_that_have_no_plain_listener_are_named_as_that_everywhere(
    source: ClusterClient, target: ClusterClient, secured: tuple[str, Cluster], unique: Unique, tmp_path: Path
) -> None:
    protocol, cluster = secured
    every = f"no broker has a listener of the security protocol that security.protocol names (broker 0: {protocol}://"
    how = "has a TLS listener" if protocol == "SSL" else "has a listener at this address that requires a login (SASL)"
    refused(tmp_path, how, at(source), brokers(cluster) | {"target.version": "3.9"}, "target")
    refused(tmp_path, every, at(cluster) | {"version": "3.9"}, brokers(target), "source dc1")
    for command in ("brokers", "topics"):
        shown = zkconsumer(command, "-z", cluster.zookeeper, "--kafka-version", "3.9")
        assert (shown.returncode, shown.stdout) == (1, ""), shown
        assert every in shown.stderr
        asked = zkconsumer(command, "-b", cluster.brokers, "--kafka-version", "3.9")
        assert (asked.returncode, asked.stdout) == (1, ""), asked
        assert how in asked.stderr
    group = unique.group()
    options = {"zookeeper.connect": cluster.zookeeper, "group.id": group, "kafka.version": "3.9"}
    options["auto.offset.reset"] = "smallest"
    with pytest.raises(ConsumerError, match="no broker has a listener of the security protocol"):
        ConsumerConnector(options).create_message_streams({"a": 1})
    assert cluster.zk().exists(f"/consumers/{group}") is None
