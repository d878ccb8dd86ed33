"""Options that are the same at every command: who we are to ZooKeeper, what is refused, when a plan is carried out."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from groundwork.commands import execute_option
from groundwork.options import Secret
from groundwork.output import EXIT, run_command
from groundwork.tlscontext import plain_tls
from groundwork.zksecurity import OPEN, Tls, ZkSecurity, ZooKeeper
from zkconsumer.commands.cli import cli, outcome
from zkconsumer.commands.options import AUTH_VARIABLE, brokers_option, go_ahead, zookeeper_option
from zkconsumer.options.config import ConsumerConfig, load_consumer

PASSWORD = "s3:cret"
ANN = f"digest:ann:{PASSWORD}"
AUTH = Secret(ANN)


@pytest.fixture(autouse=True)
def no_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(AUTH_VARIABLE, raising=False)


def given(*args: str, required: bool = True) -> ZooKeeper | None:
    """What a command is handed for these arguments.  Raises what a wrong command line raises."""
    found: list[ZooKeeper | None] = []

    @click.command()
    @zookeeper_option(required=required)
    @brokers_option()
    def look(zookeeper: ZooKeeper | None, brokers: list[tuple[str, int]]) -> None:
        found.append(zookeeper)

    look.main(list(args), standalone_mode=False)
    return found[0]


def file(folder: Path, text: str, name: str = "c.properties") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_an_address_alone_is_nobody_in_particular():
    assert given("-z", "h:1/kafka") == ZooKeeper("h:1/kafka", OPEN)
    assert given(required=False) is None


@pytest.mark.parametrize(
    ("args", "access"),
    [
        (["--zk-auth", ANN], ZkSecurity(AUTH)),
        (["--zk-tls"], ZkSecurity(tls=Tls())),
        (["--zk-auth", ANN, "--zk-tls-ca", __file__], ZkSecurity(AUTH, tls=Tls(ca=__file__))),
    ],
)
def test_the_command_line_says_who_we_are(args: list[str], access: ZkSecurity):
    assert given("-z", "h", *args) == ZooKeeper("h", access)


def test_the_environment_says_who_we_are_and_concerns_no_broker(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(AUTH_VARIABLE, ANN)
    assert given("-z", "h") == ZooKeeper("h", ZkSecurity(AUTH))
    assert given("-b", "h:9092", required=False) is None


def test_a_consumers_own_file_serves_whole(tmp_path: Path):
    text = f"group.id=g\nzookeeper.connect=zk:2181/k\nzookeeper.auth={ANN}\nzookeeper.ssl.client.enable=true\n"
    config = file(tmp_path, text + "zookeeper.ssl.verify=false\nfetch.size=100000\n")
    access = ZkSecurity(AUTH, tls=Tls(verify=False))
    assert given("--zk-config", config) == ZooKeeper("zk:2181/k", access)
    assert given("-z", "other:1", "--zk-config", config) == ZooKeeper("other:1", access)


def test_the_command_line_wins_over_the_file(tmp_path: Path):
    config = file(tmp_path, f"zookeeper.auth: {ANN}\nzookeeper.set.acl: true\n", "c.yaml")
    found = given("-z", "h", "--zk-config", config, "--zk-auth", "digest:bob:x", "--zk-tls")
    assert found == ZooKeeper("h", ZkSecurity(Secret("digest:bob:x"), True, Tls()))


def test_a_file_may_leave_the_password_to_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(AUTH_VARIABLE, ANN)
    config = file(tmp_path, "zookeeper.set.acl=true\n")
    assert given("-z", "h", "--zk-config", config) == ZooKeeper("h", ZkSecurity(AUTH, True))


@pytest.mark.parametrize(
    "access",
    [
        OPEN,
        ZkSecurity(AUTH, True),
        ZkSecurity(tls=Tls()),
        ZkSecurity(AUTH, tls=Tls(ca="ca", certificate="pem", key="key", password=Secret("pw"), verify=False)),
    ],
)
def test_an_access_as_options_is_the_same_access(access: ZkSecurity):
    needed = {"group.id": "g", "zookeeper.connect": "h", "auto.offset.reset": "fail"}
    config = load_consumer(ConsumerConfig, {**needed, **access.options()}, "here", jvm=True)
    assert config.security == access


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ([], "-z (ZooKeeper) or -b is missing"),
        (["-z", "h", "--zk-auth", PASSWORD], "--zk-auth is ***, expected digest:USER:PASSWORD"),
        (["-z", "h", "--zk-config", "c.properties"], "c.properties: option 'zookeeper.auth' is ***, expected digest:"),
        (["-z", "h", "--zk-config", "typo.yaml"], "typo.yaml: option 'zookeper.auth' is unknown; did you mean"),
        (["-z", "h", "--zk-config", "bad.yaml"], "bad.yaml: not YAML: mapping values are not allowed"),
        (["-z", "h", "--zk-config", "list.yaml"], "list.yaml: expected options"),
        (["-z", "h", "--zk-config", "none.yaml"], "does not exist"),
        (["--zk-config", "empty.yaml"], "says how ZooKeeper is reached: give -z too"),
        (["-z", "h", "--zk-config", "acl.yaml"], "'zookeeper.set.acl' needs 'zookeeper.auth'"),
    ],
)
def test_what_is_wrong_is_one_sentence_without_the_password(
    args: list[str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    file(tmp_path, f"zookeeper.auth={PASSWORD}\n")
    file(tmp_path, f"zookeper.auth: {ANN}\n", "typo.yaml")
    file(tmp_path, f"zookeeper.auth: {ANN}\n - x: [{PASSWORD}\n", "bad.yaml")
    file(tmp_path, "- a\n", "list.yaml")
    file(tmp_path, "", "empty.yaml")
    file(tmp_path, "zookeeper.set.acl: true\n", "acl.yaml")
    assert outcome(["groups", "list", *args]) == EXIT["usage"]
    told = capsys.readouterr()
    assert why in told.err
    assert PASSWORD not in told.err + told.out


def test_a_wrong_identity_of_the_environment_is_named_by_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv(AUTH_VARIABLE, PASSWORD)
    assert outcome(["lag", "-z", "h"]) == EXIT["usage"]
    err = capsys.readouterr().err
    assert f"{AUTH_VARIABLE} is ***" in err
    assert PASSWORD not in err


def test_access_without_a_zookeeper_is_refused(capsys: pytest.CaptureFixture[str]):
    assert outcome(["topics", "-b", "h:9092", "--zk-tls"]) == EXIT["usage"]
    assert "--zk-tls says how ZooKeeper is reached: give -z too" in capsys.readouterr().err


def commands(ctx: click.Context, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    assert isinstance(ctx.command, click.Group)
    for name in ctx.command.list_commands(ctx):
        command = ctx.command.get_command(ctx, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(click.Context(command, parent=ctx), (*before, name))
        else:
            yield (*before, name), command


def test_every_command_with_z_knows_who_we_are_and_so_does_the_shell():
    with_z = [
        (path, each) for path, each in commands(click.Context(cli)) if any("-z" in param.opts for param in each.params)
    ]
    assert len(with_z) >= 8
    for path, _ in with_z:
        shown = ShellComplete(cli, {}, "zkconsumer", "_ZKCONSUMER_COMPLETE").get_completions(list(path), "--zk")
        assert [item.value for item in shown] == ["--zk-config", "--zk-auth", "--zk-tls", "--zk-tls-ca"], path


@pytest.mark.parametrize("name", ["", " ", ".", "..", "a/b", "a\nb", "a\x7f"])
@pytest.mark.parametrize("args", [["lag", "-z", "h", "--group"], ["verify-rebalance", "-z", "h", "--"]])
def test_a_group_that_could_be_no_folder_is_refused(args: list[str], name: str, capsys: pytest.CaptureFixture[str]):
    assert outcome([*args, name]) == EXIT["usage"]
    assert f"{name!r}: no group can be called that" in capsys.readouterr().err


# plans ----------------------------------------------------------------------------------------------------------------


def carried_out(*args: str) -> bool:
    found: list[bool] = []

    @click.command()
    @execute_option
    def write(execute: bool) -> None:
        found.append(go_ahead(execute, "write 3 offsets of group g"))

    assert run_command(write, args=args) == 0
    return found[0]


def test_a_plan_is_only_shown_without_a_terminal(capsys: pytest.CaptureFixture[str]):
    assert not carried_out()
    assert capsys.readouterr().err == "only a plan, nothing was done; with --execute: write 3 offsets of group g\n"
    assert carried_out("--execute")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("answer", "goes"), [(b"y\n", True), (b"YES\n", True), (b"\n", False), (b"no\n", False), (b"\x04", False)]
)
def test_a_terminal_is_asked_and_anything_but_yes_is_no(answer: bytes, goes: bool, monkeypatch: pytest.MonkeyPatch):
    master, slave = os.openpty()
    with open(slave) as stdin, open(os.dup(slave), "w") as stderr, open(master, "wb", buffering=0) as user:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stderr", stderr)
        user.write(answer)
        assert carried_out() == goes
        stderr.flush()
        last = "[y/N]" if goes else "nothing was done"
        shown = ""
        while last not in shown and select.select([master], [], [], 5)[0]:  # a terminal passes on what it has so far
            shown += os.read(master, 1000).decode()
    assert "write 3 offsets of group g? [y/N]" in shown
    assert ("nothing was done" in shown) == (not goes)


def test_options_load_nothing_heavy():
    heavy = "{'gevent', 'kazoo', 'yaml', 'numba'}"
    code = f"import sys, zkconsumer.commands.options; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "[]\n"


def test_tls_says_which_options_named_its_files():
    tls = replace(Tls(ca="/nowhere/ca.pem"), options="target.zookeeper.ssl")
    with pytest.raises(Exception, match=r"^target\.zookeeper\.ssl: /nowhere/ca\.pem cannot be used"):
        tls.context(plain_tls)
