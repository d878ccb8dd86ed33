"""TLS towards a real ZooKeeper that speaks it: 3.8 from the jars of Kafka 3.9.1, with a certificate of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from kazoo.security import make_digest_acl

from groundwork.hub import OwnThread, pick_hub
from groundwork.options import Secret
from groundwork.tasks import TaskGroup, now, sleep
from groundwork.zksecurity import Tls, ZkSecurity
from kafkawire.errors import LocalError, WireError
from localkafka import java, ports, releases
from localkafka.child import Child
from localkafka.errors import LocalKafkaError
from localkafka.proxy import Proxy
from localkafka.waiting import wait_until
from localkafka.zookeeper import MAIN, four_letters
from producer.producer import Producer
from sparkpipeline.driver.zkclient import zookeeper
from sparkpipeline.errors import Unreachable as PipelineUnreachable
from tests.fakes.broker import FakeCluster
from zkconsumer.errors import ConsumerError, Unreachable
from zkconsumer.session.lease import Lease
from zkconsumer.session.zksession import ZkSession

pytestmark = pytest.mark.real
PASSWORD = "secret-1"
NAMES = "san=dns:localhost,ip:127.0.0.1"


@dataclass(frozen=True, slots=True)
class Secure:
    """A running server: its TLS port, and what a client that it trusts is configured with."""

    port: int
    tls: Tls
    stranger: Path  # a certificate of somebody else


def keytool(*arguments: str) -> None:
    subprocess.run(["keytool", *arguments, "-storepass", PASSWORD], check=True, capture_output=True, timeout=60)


def identity(folder: Path, name: str) -> tuple[Path, Path, Path]:
    """A self-signed identity: PKCS12 store, certificate and key (under the password) in PEM."""
    store, certificate, key = folder / f"{name}.p12", folder / f"{name}.pem", folder / f"{name}.key"
    made = ["-genkeypair", "-alias", name, "-keyalg", "RSA", "-dname", f"CN={name}", "-ext", NAMES]
    keytool(*made, "-keystore", str(store), "-storetype", "PKCS12")
    keytool("-exportcert", "-rfc", "-alias", name, "-keystore", str(store), "-file", str(certificate))
    argv = ["openssl", "pkcs12", "-in", str(store), "-nocerts", "-out", str(key)]
    argv += ["-passin", f"pass:{PASSWORD}", "-passout", f"pass:{PASSWORD}"]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)
    return store, certificate, key


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    """It asks clients for a certificate."""
    folder = tmp_path_factory.mktemp("secure")
    server, server_pem, _ = identity(folder, "server")
    _, client_pem, client_key = identity(folder, "client")
    _, stranger_pem, _ = identity(folder, "stranger")
    trusted = folder / "trusted.p12"
    keytool("-importcert", "-noprompt", "-alias", "client", "-file", str(client_pem), "-keystore", str(trusted))
    plain, tls = ports.reserve(0), ports.reserve(0)
    settings = {
        "dataDir": str(folder / "data"),
        "clientPort": str(plain.number),
        "clientPortAddress": ports.HOST,
        "secureClientPort": str(tls.number),
        "secureClientPortAddress": ports.HOST,
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(server),
        "ssl.keyStore.password": PASSWORD,
        "ssl.trustStore.location": str(trusted),
        "ssl.trustStore.password": PASSWORD,
        "ssl.clientAuth": "need",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "srvr",
        "tickTime": "500",
    }
    config = folder / "zk.properties"
    config.write_text(releases.properties(settings), encoding="utf-8")
    argv = java.command(releases.release("3.9.1"), MAIN, [str(config)])
    with Child("ZooKeeper with TLS", argv, folder / "log") as child:

        def serving() -> bool:
            if not child.running:
                raise LocalKafkaError(f"{child.name} ended with {child.exit_code}; {child.log_end()}")
            return "Mode:" in four_letters((ports.HOST, plain.number), "srvr")

        wait_until(serving, 30, lambda: f"it to serve; {child.log_end()}")
        client = Tls(ca=str(server_pem), certificate=str(client_pem), key=str(client_key), password=Secret(PASSWORD))
        yield Secure(tls.number, client, stranger_pem)
    plain.release()
    tls.release()


def in_session(port: int, tls: Tls, work: Callable[[ZkSession], object], host: str = "127.0.0.1") -> object:
    """work(session) in a hub of its own."""
    hub = pick_hub("own")
    assert isinstance(hub, OwnThread)

    def run() -> object:
        tasks = TaskGroup()
        session = ZkSession(
            f"{host}:{port}",
            session_timeout_ms=3000,
            connection_timeout_ms=3000,
            tasks=tasks,
            lease=Lease(),
            access=ZkSecurity(tls=tls),
        )
        try:
            session.start()
            return work(session)
        finally:
            tasks.stop(timeout_s=0.5)
            session.close()

    hub.start()
    try:
        return hub.call(run)
    finally:
        hub.stop()


def write_and_read(session: ZkSession) -> int:
    """Many answers in one go: some arrive in one record of the TLS."""
    paths = {f"/node-{n}": b"x" * 200 for n in range(300)}
    session.create(paths)
    found = sum(node is not None and node.data == paths[path] for path, node in session.read(paths).items())
    session.delete(dict.fromkeys(paths, -1))
    return found


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_session_works_over_tls_under_every_name_of_the_certificate(secure, host):
    assert in_session(secure.port, secure.tls, write_and_read, host) == 300


def test_the_client_of_spark_s_driver_speaks_tls_too(secure):
    with zookeeper(f"localhost:{secure.port}", ZkSecurity(tls=secure.tls)) as zk:
        paths = {f"/driver-{n}": b"x" * 200 for n in range(100)}
        for answer in [zk.create_async(path, data) for path, data in paths.items()]:
            answer.get(10)
        assert {path: answer.get(10)[0] for path, answer in [(p, zk.get_async(p)) for p in paths]} == paths
    stranger = replace(secure.tls, ca=str(secure.stranger))
    untrusted = pytest.raises(PipelineUnreachable, match=r"The last try: .*certificate verify failed")
    with untrusted, zookeeper(f"localhost:{secure.port}", ZkSecurity(tls=stranger), timeout_s=1):
        pytest.fail("its certificate is not trusted")


def test_a_server_that_is_not_trusted_is_refused_with_the_reason(secure):
    stranger = replace(secure.tls, ca=str(secure.stranger))
    with pytest.raises(Unreachable, match="certificate verify failed"):
        in_session(secure.port, stranger, write_and_read)
    assert in_session(secure.port, replace(stranger, verify=False), write_and_read) == 300


def test_files_that_cannot_be_used_are_named_and_the_password_is_not(secure):
    with pytest.raises(ConsumerError, match=r"zookeeper\.ssl: /nowhere/ca\.pem.* cannot be used: .*No such file"):
        in_session(secure.port, replace(secure.tls, ca="/nowhere/ca.pem"), write_and_read)
    with pytest.raises(ConsumerError, match="cannot be used") as caught:
        in_session(secure.port, replace(secure.tls, password=Secret("wrong-one")), write_and_read)
    assert "wrong-one" not in str(caught.value) + repr(secure.tls)


def test_a_handshake_that_hangs_does_not_stop_the_hub(secure):
    with Proxy(("127.0.0.1", secure.port)) as proxy:

        def hang(session: ZkSession) -> float:
            proxy.blackhole()
            proxy.reset()
            worst, until = 0.0, now() + 2
            while now() < until:
                began = now()
                sleep(0.01)
                worst = max(worst, now() - began)
            proxy.clear()
            while session.session_id is None and now() < until + 8:
                sleep(0.05)
            assert write_and_read(session) == 300
            return worst

        worst = in_session(proxy.address[1], secure.tls, hang)
    assert isinstance(worst, float)
    assert worst < 0.5


def test_a_command_speaks_tls_by_the_file_of_a_consumer(secure, tmp_path: Path):
    tls = secure.tls
    file = tmp_path / "c.yaml"
    file.write_text(
        f"zookeeper.connect: 127.0.0.1:{secure.port}\nzookeeper.ssl.client.enable: true\n"
        f"zookeeper.ssl.certificate.location: {tls.certificate}\nzookeeper.ssl.key.location: {tls.key}\n"
        f"zookeeper.ssl.key.password: {PASSWORD}\n"
    )
    command = [sys.executable, "-m", "zkconsumer.commands.main", "groups", "list", "--zk-config", str(file)]
    done = subprocess.run([*command, "--zk-tls-ca", str(tls.ca)], capture_output=True, text=True, timeout=30)
    assert done.stderr.startswith("error: no brokers are registered"), done.stderr
    assert done.returncode == 1


def registered(secure: Secure, cluster: FakeCluster, acl: list[object]) -> None:
    """The cluster's one broker and its topic t, in nodes that nobody but ann reads."""
    host, port = cluster.bootstrap[0]
    nodes = {
        "/brokers/ids/1": {"version": 1, "host": host, "port": port, "jmx_port": -1, "timestamp": "0"},
        "/brokers/topics/t": {"version": 1, "partitions": {"0": [1]}},
        "/brokers/topics/t/partitions/0/state": {
            "version": 1, "leader": 1, "leader_epoch": 0, "controller_epoch": 1, "isr": [1]
        },
    }  # fmt: skip
    with zookeeper(f"localhost:{secure.port}", ZkSecurity(Secret("digest:ann:s3cret"), tls=secure.tls)) as zk:
        for path, node in nodes.items():
            zk.create(f"/closed{path}", json.dumps(node).encode(), acl=acl, makepath=True)


def test_a_producer_finds_its_brokers_in_a_zookeeper_that_is_closed_to_others_and_speaks_tls(secure):
    tls = secure.tls
    options = {
        "zookeeper.connect": f"localhost:{secure.port}/closed",
        "zookeeper.connection.timeout.ms": 3000,
        "zookeeper.auth": "digest:ann:s3cret",
        "zookeeper.ssl.client.enable": True,
        "zookeeper.ssl.ca.location": tls.ca,
        "zookeeper.ssl.certificate.location": tls.certificate,
        "zookeeper.ssl.key.location": tls.key,
        "zookeeper.ssl.key.password": PASSWORD,
        "message.send.max.retries": 0,
    }
    with FakeCluster({"t": 1}) as cluster:
        registered(secure, cluster, [make_digest_acl("ann", "s3cret", all=True)])
        with Producer(options, hub="own") as producer:
            assert "s3cret" not in repr(producer.config) + str(producer.config)
            assert producer.send("t", b"v").result(30).offset == 0
            assert producer.pool == {1: True}
        refusals = {
            r"brokers' nodes cannot be read because of their ACL \(zookeeper\.auth\)": {
                "zookeeper.auth": "digest:bob:s3cret"
            },
            r"does not answer within .*; last error: .*certificate verify failed": {
                "zookeeper.ssl.ca.location": str(secure.stranger)
            },
        }
        for says, wrong in refusals.items():
            refused = Producer({**options, **wrong}, hub="own")
            with pytest.raises(WireError, match=says):
                refused.send("t", b"v")
            refused.close(5)
        unreadable = Producer({**options, "zookeeper.ssl.key.password": "wrong-one"}, hub="own")
        with pytest.raises(LocalError, match=r"^zookeeper\.ssl: .* cannot be used") as caught:
            unreadable.start()
        assert "wrong-one" not in str(caught.value)
        unreadable.close(5)
