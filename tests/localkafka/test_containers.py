"""Servers as containers, against a daemon that speaks as a recorded one did; real ones run in test_cluster.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localkafka import backend, containers, java, releases
from localkafka.child import Child
from localkafka.cluster import Cluster
from localkafka.containers import Container
from localkafka.errors import LocalKafkaError
from localkafka.zookeeper import ZooKeeperServer
from tests.fakes.dockerdaemon import DockerDaemon

RELEASE = releases.release("0.8.2.2")


def forget() -> None:
    if containers.client.cache_info().currsize:
        containers.client().close()
    containers.client.cache_clear()
    containers._config.cache_clear()


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DockerDaemon]:
    forget()
    for name in ("LOCALKAFKA_IMAGE", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(name, raising=False)
    with DockerDaemon(tmp_path, os.uname().release) as started:
        monkeypatch.setenv("DOCKER_HOST", started.url)
        monkeypatch.setenv("LOCALKAFKA_BACKEND", "docker")
        yield started
        forget()


def test_a_server_runs_in_our_network_as_our_user_with_its_folder(daemon: DockerDaemon, tmp_path: Path) -> None:
    container = Container("broker 0", ["java", "kafka.Kafka", "server.properties"], tmp_path / "log")
    sent = daemon.only.sent
    assert sent["Image"] == "kafka-legacy-mirror:cluster"
    assert sent["Entrypoint"] == ["sh", "-c", 'exec "$@" >>"$0" 2>&1', str(tmp_path / "log")]
    assert sent["Cmd"] == ["java", "kafka.Kafka", "server.properties"]
    assert sent["User"] == f"{os.getuid()}:{os.getgid()}"
    assert sent["HostConfig"]["NetworkMode"] == "host"
    assert "PortBindings" not in sent["HostConfig"], "it listens on 127.0.0.1 itself: no port is published"
    assert sent["HostConfig"]["Binds"] == [f"{tmp_path}:{tmp_path}:rw"]
    assert sent["Healthcheck"]["Test"] == ["NONE"]
    assert (container.running, container.exit_code, container.pid > 0) == (True, None, True)
    container.close()


def test_a_killed_one_is_removed_and_has_the_exit_code_of_a_child(daemon: DockerDaemon, tmp_path: Path) -> None:
    container = Container("broker 0", ["java"], tmp_path / "log")
    [named] = daemon.containers
    assert container.kill() == -signal.SIGKILL
    assert (container.running, container.exit_code, daemon.removed) == (False, -signal.SIGKILL, [named])
    container.send(signal.SIGTERM)
    assert container.kill() == -signal.SIGKILL
    container.close()


def test_stop_asks_first_and_kills_what_does_not_listen(daemon: DockerDaemon, tmp_path: Path) -> None:
    assert Container("broker 0", ["java"], tmp_path / "log").stop() == 143
    daemon.ignores = {signal.SIGTERM}
    stubborn = Container("broker 1", ["java"], tmp_path / "log")
    kept = daemon.only
    assert stubborn.stop(0.1) == -signal.SIGKILL
    assert kept.signals == [signal.SIGTERM, signal.SIGKILL]


def test_a_paused_one_runs_until_it_is_stopped_or_killed(daemon: DockerDaemon, tmp_path: Path) -> None:
    container = Container("broker 0", ["java"], tmp_path / "log")
    container.pause()
    container.pause()
    assert (daemon.only.state, container.paused, container.running) == ("paused", True, True)
    container.resume()
    container.resume()
    assert (daemon.only.state, container.paused) == ("running", False)
    container.pause()
    assert container.stop() == 143
    killed = Container("broker 0", ["java"], tmp_path / "log")
    killed.pause()
    assert killed.kill() == -signal.SIGKILL


def test_one_that_ends_between_the_question_and_the_signal_is_no_error(
    daemon: DockerDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = Container("broker 0", ["java"], tmp_path / "log")
    kept, looked = daemon.only, container._look

    def ends_then() -> None:
        looked()
        kept.end("terminated")

    monkeypatch.setattr(container, "_look", ends_then)
    container.send(signal.SIGHUP)
    assert container.exit_code == 143


def test_one_that_somebody_removed_counts_as_killed(daemon: DockerDaemon, tmp_path: Path) -> None:
    container = Container("broker 0", ["java"], tmp_path / "log")
    daemon.containers.clear()
    assert (container.running, container.exit_code) == (False, -signal.SIGKILL)


def test_what_the_daemon_refuses_is_quoted(daemon: DockerDaemon, tmp_path: Path) -> None:
    container = Container("broker 0", ["java"], tmp_path / "log")
    daemon.only.state = "paused"  # by somebody else
    with pytest.raises(LocalKafkaError, match=r"cannot pause broker 0: 409 [\s\S]*is already paused"):
        container.pause()
    container.kill()


# -- what is checked before anything starts --------------------------------------------------------------------------


def test_the_command_names_what_the_image_has(daemon: DockerDaemon) -> None:
    argv = backend.command(RELEASE, "kafka.Kafka", ["server.properties"], java.SMALL, "INFO")
    assert (argv[0], argv[-4:]) == (
        "java",
        ["-cp", "/opt/localkafka/jars/0.8.2.2/*", "kafka.Kafka", "server.properties"],
    )
    assert "-Dlog4j.configuration=file:/opt/localkafka/log4j-INFO.properties" in argv


def test_an_image_that_is_missing_or_another_one_is_refused(
    daemon: DockerDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.ready(RELEASE)
    with pytest.raises(
        LocalKafkaError, match=r"has no jars of Kafka 2\.8\.2; build it with .*KAFKA_VERSIONS=\"2\.8\.2\""
    ):
        backend.ready(releases.release("2.8.2"))
    containers._config.cache_clear()
    daemon.config["Labels"] = {containers.VERSIONS: "0.8.2.2 2.8.2"}
    backend.ready(releases.release("2.8.2"))
    containers._config.cache_clear()
    daemon.config["Env"] = ["PATH=/bin"]
    with pytest.raises(LocalKafkaError, match="does not set LOCALKAFKA_CACHE: it is not the Dockerfile's target"):
        backend.ready(RELEASE)
    monkeypatch.setenv("LOCALKAFKA_IMAGE", "nothing:1")
    with pytest.raises(
        LocalKafkaError, match=r"no image nothing:1; build it with docker build --target cluster -t noth"
    ):
        backend.ready(RELEASE)


def test_a_daemon_in_a_vm_is_refused(daemon: DockerDaemon) -> None:
    daemon.kernel = "6.10.14-linuxkit"
    with pytest.raises(LocalKafkaError, match=r"another kernel \(6\.10\.14-linuxkit\): it must be on this machine"):
        Cluster().start()


def test_without_a_daemon_a_cluster_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget()
    monkeypatch.setenv("LOCALKAFKA_BACKEND", "docker")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    with pytest.raises(
        LocalKafkaError, match=r"no Docker daemon listens at .*nothing\.sock \(No such file or directory\)"
    ):
        Cluster().start()


def test_a_backend_that_is_unknown_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALKAFKA_BACKEND", "podman")
    with pytest.raises(LocalKafkaError, match=r"LOCALKAFKA_BACKEND=podman is unknown; use process .* or docker"):
        backend.in_containers()


def test_containers_of_a_process_that_is_gone_are_swept_up(daemon: DockerDaemon, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        mine, theirs, odd = (Container(name, ["java"], tmp_path / "log") for name in ("mine", "theirs", "odd"))
        kept = daemon.containers
        kept[theirs._container.id].sent["Labels"][containers.OWNER] = f"{other.pid}:{containers._started_at(other.pid)}"
        kept[odd._container.id].sent["Labels"][containers.OWNER] = f"{os.getpid()}:1"  # its pid is ours now
        backend.ready(RELEASE)
        assert set(kept) == {mine._container.id, theirs._container.id}
        other.communicate(b"\n")
    backend.ready(RELEASE)
    assert set(kept) == {mine._container.id}
    mine.close()


def test_only_servers_of_the_jvm_go_into_containers(daemon: DockerDaemon, tmp_path: Path) -> None:
    assert isinstance(backend.started("x", ["java"], tmp_path / "log"), Container)
    server = ZooKeeperServer(tmp_path / "zookeeper")
    server._launch()
    assert isinstance(server._started(), Container)
    assert daemon.containers[server._started()._container.id].sent["Cmd"][0] == "java"
    server.close()
    with Child("x", ["true"], tmp_path / "child.log") as child:
        assert child.wait(10) == 0
