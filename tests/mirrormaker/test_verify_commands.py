"""`mirrormaker verify` as a command: what it refuses, a cluster that is away, and its interruption."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from mirrormaker.commands.cli import outcome
from mirrormaker.commands.verify import _warn
from mirrormaker.config import from_yaml
from mirrormaker.verify.result import ScopeResult, VerifyResult
from mirrormaker.verify.verifier import NothingToCompare, refuse_changed
from tests.fakes.broker import FakeCluster

COMMAND = Path(sys.executable).with_name("mirrormaker")
AWAY = "127.0.0.1:1"  # nothing listens there


def settings(folder: Path, broker: str = AWAY, **mirror: object) -> str:
    file = folder / "orders.yaml"
    content = {
        "sources": [{"zookeeper.connect": "127.0.0.1:1", "group.id": "orders"}],
        "target": {"metadata.broker.list": broker},
        "mirror": {"whitelist": "orders", **mirror},
    }
    file.write_text(yaml.safe_dump(content))
    return str(file)


def test_a_cluster_out_of_reach_is_one_sentence_and_69(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(["verify", settings(tmp_path)]) == 69
    said = capsys.readouterr()
    assert said.out == ""
    [line] = said.err.splitlines()
    sentence = f"no broker of the cluster answers: {AWAY}: connecting: Connection refused"
    assert line == f"error: target: {sentence}; is metadata.broker.list right?"
    assert outcome(["check", "--online", settings(tmp_path)]) == 69
    assert capsys.readouterr() == ("", f"{line}\n")


def test_a_source_out_of_reach_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeCluster({"orders": 1}) as target:
        host, port = target.bootstrap[0]
        file = Path(settings(tmp_path, f"{host}:{port}"))
        kafka = {"name": "new", "coordination": "kafka", "bootstrap.servers": AWAY, "group.id": "orders"}
        file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"sources": [kafka]}))
        said = []
        for command in (["verify"], ["check", "--online"]):
            assert outcome([*command, str(file)]) == 69
            said.append(capsys.readouterr())
    sentence = f"no broker of the cluster answers: {AWAY}: connecting: Connection refused"
    assert said == [("", f"error: source new: {sentence}; is bootstrap.servers right?\n")] * 2


def test_help_says_that_lag_is_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(["verify", "--help"]) == 0
    words = " ".join(capsys.readouterr().out.partition("Exit codes:")[2].split())
    assert words.startswith(
        "0 done: nothing that the mirror committed is missing; what it has not reached counts as not_yet_mirrored and "
        "is no difference 4 the target lacks messages"
    )


@pytest.mark.parametrize(("count", "said"), [(1, "1 message is"), (2, "2 messages are")])
def test_one_message_is_one(count: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    row = ScopeResult(topic="t", partition="0", source=5, target=5, duplicated=count, only_in_target=count)
    _warn(VerifyResult((row,), (), (), 10, 1.0))
    assert capsys.readouterr().err == (
        f"warning: {said} at the target more often than at the source\n"
        f"warning: {said} only at the target: it has another writer\n"
    )


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--since", "yesterday"], "neither a time (2026-01-31T10:00Z) nor a duration"),
        (["--since", "2999-01-01T00:00Z"], "lies in the future"),
        (["--topics", "("], "Invalid value for '--topics'"),
        (["--wait", "-1"], "Invalid value for '--wait'"),
        (["--window", "3"], "No such option"),
    ],
)
def test_a_wrong_command_line_is_64(
    flags: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(["verify", settings(tmp_path), *flags]) == 64
    assert said in capsys.readouterr().err


def test_a_wrong_configuration_is_78(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(["verify", settings(tmp_path, whitelistt="x")]) == 78
    assert "whitelistt" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["message.handler", "message.set.handler"])
def test_what_a_handler_changes_cannot_be_compared(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(["verify", settings(tmp_path, **{option: "tests.integration.hooks:same"})]) == 78
    assert "there is nothing that the target could be compared with" in capsys.readouterr().err
    found = from_yaml(Path(settings(tmp_path, **{option: "tests.integration.hooks:same"})))
    with pytest.raises(NothingToCompare, match=rf"{option} tests.integration.hooks:same may change or drop every"):
        refuse_changed(found)


def test_what_a_serializer_changes_cannot_be_compared(tmp_path: Path) -> None:
    file = Path(settings(tmp_path))
    assert refuse_changed(from_yaml(file)) is None
    named = "serializer.class: tests.integration.hooks:same"
    file.write_text(file.read_text().replace("target:", f"target:\n  {named}"))
    with pytest.raises(NothingToCompare, match=r"^serializer.class .* may change or drop every message"):
        refuse_changed(from_yaml(file))


def test_ctrl_c_ends_it_with_130(tmp_path: Path, silent: Callable[[], socket.socket]) -> None:
    server = silent()
    file = settings(tmp_path, f"127.0.0.1:{server.getsockname()[1]}")
    child = subprocess.Popen([str(COMMAND), "verify", file], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        server.settimeout(60)
        connection, _ = server.accept()  # it waits for an answer now
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
        connection.close()
    finally:
        child.kill()
        child.wait()
    assert (child.returncode, out) == (130, "")
    assert err == "interrupted\n"


@pytest.fixture
def silent() -> Callable[[], socket.socket]:
    """A broker that takes connections and says nothing."""

    def listen() -> socket.socket:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)
        return server

    servers: list[socket.socket] = []
    yield listen
    for server in servers:
        server.close()
