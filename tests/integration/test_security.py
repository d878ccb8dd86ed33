"""TLS and SASL on real brokers: every protocol and mechanism carries messages, every mistake is one sentence."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kafkawire.cluster.release import why_never
from kafkawire.dialects import dialect
from kafkawire.model import Broker, TopicPartition
from localkafka.certificates import Authority
from localkafka.listeners import MECHANISMS, SCRAM
from localkafka.mirror import COMMAND
from localkafka.zookeeper import ZooKeeperAt
from producer.producer import Producer
from tests.integration.securedbrokers import FAULTY, PROTOCOLS, SecuredBroker, kraft, on_zookeeper
from zkconsumer.options.config import ConsumerConfig, load_consumer
from zkconsumer.simple import SimpleConsumer

pytestmark = pytest.mark.real
COUNT = 300


def security_of(options: Mapping[str, str]) -> Any:
    values = {"group.id": "-", "zookeeper.connect": "-", "auto.offset.reset": "smallest", **options}
    return load_consumer(ConsumerConfig, values, "test").kafka_security


def written(address: str, topic: str, options: Mapping[str, str], version: str, count: int = COUNT) -> list[bytes]:
    """The values of messages that a producer has sent, all of them acknowledged."""
    values = [b"%s %d " % (topic.encode(), n) + bytes(n) for n in range(count)]
    config = {"metadata.broker.list": address, "kafka.version": version, **options}
    with Producer({key: value for key, value in config.items() if value}) as producer:
        for delivery in [producer.send(topic, value) for value in values]:
            delivery.result(30)
    return values


def read(address: str, tp: TopicPartition, options: Mapping[str, str], version: str) -> list[bytes]:
    host, port = address.split(":")
    found: list[bytes] = []
    with SimpleConsumer(host, int(port), version, security=security_of(options)) as consumer:
        at, end = consumer.earliest(tp), consumer.latest(tp)
        while at < end:
            got = consumer.fetch(tp.topic, tp.partition, at, max_wait_ms=200)
            found += [bytes(message.value or b"") for message in got.messages()]
            at = got.resume_at
    return found


def each_carries_messages(secured: SecuredBroker, version: str = "", mechanisms: tuple[str, ...] = MECHANISMS) -> None:
    """Every listener and mechanism: what a producer sent is what a consumer reads, over the same kind."""
    for listener, protocol in secured.listeners.protocols.items():
        if listener in FAULTY:
            continue
        for mechanism in mechanisms if protocol.startswith("SASL") else ("",):
            topic = f"{listener}-{mechanism}".lower()
            options, address = secured.options(listener, mechanism), secured.address(listener)
            values = written(address, topic, options, version)
            found = [v for p in range(4) for v in read(address, TopicPartition(topic, p), options, version)]
            assert sorted(found) == sorted(values), (listener, mechanism)


def test_each_protocol_and_mechanism_of_4_x(tmp_path: Path) -> None:
    with kraft(tmp_path, "4.3.1", PROTOCOLS) as secured:
        each_carries_messages(secured)


def test_each_protocol_and_mechanism_of_2_8(tmp_path: Path, zk_server: ZooKeeperAt) -> None:
    with on_zookeeper(tmp_path, "2.8.2", PROTOCOLS, zk_server) as secured:
        each_carries_messages(secured)


def test_brokers_of_0_10_take_logins_by_bare_tokens(tmp_path: Path, zk_server: ZooKeeperAt) -> None:
    protocols = {"SSL": "SSL", "SASL_PLAINTEXT": "SASL_PLAINTEXT", "SASL_SSL": "SASL_SSL"}
    with on_zookeeper(tmp_path, "0.10.2.2", protocols, zk_server, MECHANISMS[:3]) as secured:
        each_carries_messages(secured, mechanisms=MECHANISMS[:3])
        [said] = refusals(secured, [("SASL_SSL", secured.options("SASL_SSL", "PLAIN", sasl_password="wrong"))])
        assert "closes the connection on the login of 'ann' by PLAIN; are sasl.username and sasl.password right" in said


def test_brokers_of_0_9_speak_tls_to_requests_of_0_8(tmp_path: Path, zk_server: ZooKeeperAt) -> None:
    with on_zookeeper(tmp_path, "0.9.0.1", {"SSL": "SSL"}, zk_server) as secured:
        each_carries_messages(secured, "0.8.2")


# ---- what can be wrong -----------------------------------------------------------------------------------------------


def refusals(secured: SecuredBroker, cases: list[tuple[str, dict[str, str]]]) -> list[str]:
    """What is said of each, always within seconds."""
    found = []
    for listener, options in cases:
        host, port = (secured.address(listener) if listener else secured.broker.brokers).split(":")
        began = time.monotonic()
        why = why_never([Broker(0, host, int(port))], dialect("0.10.0"), "version", security_of(options).connect())
        assert time.monotonic() - began < 12, listener
        assert why is not None, (listener, options)
        found.append(why)
    return found


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with kraft(tmp_path_factory.mktemp("faulty"), "3.9.1", PROTOCOLS | FAULTY) as secured:
        yield secured


def test_each_mistake_is_one_sentence(faulty: SecuredBroker, tmp_path: Path) -> None:
    of, other = faulty.options, Authority(tmp_path / "other", "other")
    ca, stranger = str(other.certificate), other.issue("stranger")
    theirs = {"ssl_certificate_location": str(stranger.certificate), "ssl_key_location": str(stranger.key)}
    ended = faulty.authority.issue("ended", expired=True)
    mine = {"ssl_certificate_location": str(ended.certificate), "ssl_key_location": str(ended.key)}
    plain = {"security.protocol": "PLAINTEXT"}
    wrong = "it refuses the login of 'ann' by"
    refuses = "refuses our client certificate, ssl.certificate.location"
    cases: list[tuple[str, dict[str, str], str]] = [
        ("SSL", of("SSL", ssl_ca_location=ca), f"not signed by any of ssl.ca.location {ca}"),
        ("EXPIRED", of("EXPIRED"), "certificate, or that of an authority above it, has expired"),
        ("ELSEWHERE", of("ELSEWHERE"), "does not name the host 127.0.0.1"),
        ("MUTUAL", of("SSL"), "give ssl.certificate.location and ssl.key.location"),
        ("MUTUAL", of("SSL", **theirs), f"{refuses} {stranger.certificate}"),
        ("MUTUAL", of("SSL", **mine), f"{refuses} {ended.certificate}"),
        ("SASL_SSL", of("SASL_SSL", "PLAIN", sasl_password="no"), f"{wrong} PLAIN: Authentication failed"),
        ("SASL_SSL", of("SASL_SSL", SCRAM[0], sasl_password="no"), f"{wrong} SCRAM-SHA-256: Authentication failed"),
        ("SASL_SSL", of("SASL_SSL", SCRAM[1], sasl_username="bob"), "the login of 'bob' by SCRAM-SHA-512"),
        ("SASL_SSL", of("SASL_SSL", "OAUTHBEARER", sasl_oauthbearer_config="-9"), "sasl.oauthbearer.callback expired "),
        ("ONLYPLAIN", of("ONLYPLAIN", SCRAM[0]), "it offers PLAIN: set sasl.mechanism to PLAIN"),
        ("SSL", plain, "has a TLS listener at this address, and security.protocol is PLAINTEXT: set it to SSL"),
        ("SASL_SSL", of("SASL_PLAINTEXT", "PLAIN"), "security.protocol is SASL_PLAINTEXT: set it to SASL_SSL"),
        ("SASL_PLAINTEXT", plain, "a login (SASL), and security.protocol is PLAINTEXT: set it to SASL_PLAINTEXT"),
        ("SASL_SSL", of("SSL"), "requires a login (SASL), and security.protocol is SSL: set it to SASL_SSL"),
        ("", of("SSL"), "a listener without TLS at this address, and security.protocol is SSL: set it to PLAINTEXT"),
        ("SASL_PLAINTEXT", of("SASL_SSL", "PLAIN"), "security.protocol is SASL_SSL: set it to SASL_PLAINTEXT"),
        ("", of("SASL_PLAINTEXT", "PLAIN"), "this listener does not accept logins: set security.protocol to PLAINTEXT"),
        ("SSL", of("SASL_SSL", "PLAIN"), "this listener does not accept logins: set security.protocol to SSL"),
    ]
    said = refusals(faulty, [(listener, options) for listener, options, _ in cases])
    for why, (listener, options, sentence) in zip(said, cases, strict=True):
        assert sentence in why, (listener, options)
        assert "\n" not in why
    unchecked = of("ELSEWHERE", ssl_endpoint_identification_algorithm="none")
    host, port = faulty.address("ELSEWHERE").split(":")
    connect = security_of(unchecked).connect()
    assert why_never([Broker(0, host, int(port))], dialect("0.10.0"), "version", connect) is None


# ---- a broker that a stranger registered -----------------------------------------------------------------------------


class Stranger:
    """A host that passes all it is sent on to a real broker, and keeps it."""

    def __init__(self, broker: tuple[str, int]) -> None:
        self._broker = broker
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"localhost:{self._socket.getsockname()[1]}"
        self.heard = bytearray()
        self.connections = 0
        self._passing: list[threading.Thread] = []
        self._serving = threading.Thread(target=self._serve, daemon=True)
        self._serving.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                self.connections += 1
                broker = socket.create_connection(self._broker)
                for here, there in ((client, broker), (broker, client)):
                    self._passing.append(threading.Thread(target=self._pass, args=(here, there, here is client)))
                    self._passing[-1].start()
        for each in self._passing:
            each.join(10)

    def _pass(self, here: socket.socket, there: socket.socket, heard: bool) -> None:
        with suppress(OSError):
            while data := here.recv(1 << 16):
                if heard:
                    self.heard += data
                there.sendall(data)
        with suppress(OSError):
            there.shutdown(socket.SHUT_RDWR)  # ends the other way too
        here.close()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._serving.join(10)
        self._socket.close()


@pytest.mark.parametrize("version", ["2.8.2", "3.9.1"])
def test_a_broker_that_a_stranger_registered_is_told_the_password_unless_sasl_hosts_leaves_him_out(
    tmp_path: Path, zk_server: ZooKeeperAt, version: str
) -> None:
    """On the ZooKeeper of 0.8.2.2, which lets everybody write."""
    listener = {"SASL_PLAINTEXT": "SASL_PLAINTEXT"}
    with on_zookeeper(tmp_path, version, listener, zk_server, ("PLAIN",)) as secured:
        options = secured.options("SASL_PLAINTEXT", "PLAIN")
        password = options["sasl.password"].encode()
        host, port = secured.address("SASL_PLAINTEXT").split(":")
        stranger = Stranger((host, int(port)))
        node = {"version": 4, "host": None, "port": -1, "jmx_port": -1, "timestamp": "1"}
        node["endpoints"] = [f"SASL_PLAINTEXT://{stranger.address}"]
        zk = secured.broker.zk()
        zk.create("/brokers/ids/77", json.dumps(node).encode(), ephemeral=True)
        file = tmp_path / "client.properties"

        def brokers(**more: str) -> subprocess.CompletedProcess[str]:
            values = options | {key.replace("_", "."): value for key, value in more.items()}
            file.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
            file.chmod(0o600)
            command = [COMMAND.with_name("zkconsumer"), "brokers", "-z", secured.broker.zookeeper]
            return subprocess.run(
                [*command, "--command-config", str(file)], capture_output=True, text=True, timeout=60, check=False
            )

        try:
            shown = brokers(sasl_hosts=host)
            assert (stranger.connections, bytes(stranger.heard)) == (0, b"")
            rows = {row.split()[0]: row for row in shown.stdout.splitlines()[1:]}
            assert rows.keys() == {"0", "77"}, shown
            assert rows["77"].endswith("not in sasl.hosts: not connected to")
            assert "warning: client.properties: sasl.mechanism=PLAIN over SASL_PLAINTEXT" in shown.stderr
            brokers()
            assert password in bytes(stranger.heard)
        finally:
            stranger.close()
