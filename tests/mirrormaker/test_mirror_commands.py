"""The command line: exit codes, and one sentence an error."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from groundwork.output import Failure, print_text
from mirrormaker import exits
from mirrormaker.commands import online
from mirrormaker.commands.cli import outcome
from mirrormaker.commands.configured import check
from mirrormaker.commands.flags import WITHOUT_EFFECT, WithoutEffect, spelled_out
from mirrormaker.commands.reference import page
from mirrormaker.commands.running import reader_may_leave
from tests.fakes.broker import FakeCluster
from tests.terminals import leave, terminal

ROOT = Path(__file__).parents[2]
EXAMPLE = str(ROOT / "conf" / "mirror.yaml")
UNASKED = "; no cluster was asked: --online asks them\n"


def test_a_right_file_is_checked_without_a_connection(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(["check", EXAMPLE]) == 0
    assert capsys.readouterr() == (f"ok: 1 source, topics orders|payments.*{UNASKED}", "")


def test_the_flags_of_the_original_are_checked_the_same_way(capsys: pytest.CaptureFixture[str]) -> None:
    conf = ROOT / "conf"
    files = ["--consumer.config", f"{conf}/consumer.properties", "--producer.config", f"{conf}/producer.properties"]
    assert outcome(["check", *files, "--whitelist", "a,b"]) == 0
    said = capsys.readouterr()
    assert said.out == f"ok: 1 source, topics a|b{UNASKED}"
    assert [line.split(":")[0] for line in said.err.splitlines()] == ["warning"]


def test_several_sources_are_several_consumer_configs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf = ROOT / "conf"
    other = tmp_path / "other.properties"
    other.write_text("zookeeper.connect=zk1.dc3:2181\ngroup.id=g\n")
    consumers = ["--consumer.config", f"{conf}/consumer.properties", "--consumer.config", str(other)]
    assert outcome(["check", *consumers, "--producer.config", f"{conf}/producer.properties", "--whitelist", "a"]) == 0
    assert capsys.readouterr().out == f"ok: 2 sources, topics a{UNASKED}"


FLAGS_WITHOUT_EFFECT = [(one, flag) for one in WITHOUT_EFFECT for flag in one.flags]


@pytest.mark.parametrize(("one", "flag"), FLAGS_WITHOUT_EFFECT, ids=[flag for _, flag in FLAGS_WITHOUT_EFFECT])
@pytest.mark.parametrize("form", ["{flag} {value}", "{flag}={value}"], ids=["apart", "together"])
def test_every_other_flag_of_the_original_is_a_warning_with_the_reason(
    one: WithoutEffect, flag: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = form.format(flag=flag, value=3).split() if one.takes_value else [flag]
    assert outcome(["check", EXAMPLE, *words]) == 0
    assert capsys.readouterr().err == f"warning: command line: {flag} has no effect here: {one.reason}\n"


def test_a_start_script_of_0_10_runs_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    conf = ROOT / "conf"
    script = (
        f"--consumer.config {conf}/consumer.properties --producer.config {conf}/producer.properties --num.streams 2 "
        "--num.producers 4 --queue.size 10000 --new.producer --abort.on.send.failure false "
        "--offset.commit.interval.ms 60000 --consumer.rebalance.listener com.example.Listener "
        "--rebalance.listener.args a=b --message.handler.args 7 --whitelist a"
    )
    assert outcome(["check", *script.split()]) == 0
    said = capsys.readouterr()
    assert said.out == f"ok: 1 source, topics a{UNASKED}"
    flags = [line.split()[3] for line in said.err.splitlines() if line.startswith("warning: command line: ")]
    assert flags == [word for word in script.split() if word in {flag for _, flag in FLAGS_WITHOUT_EFFECT}]


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("-consumer.config c -producer.config=p", "--consumer.config c --producer.config=p"),
        ("--consumer.c c --white=a --num.s 2", "--consumer.config c --whitelist=a --num.streams 2"),
        ("--num 2", "--num 2"),  # two flags begin with it
        ("--message.handler m:f --message.handler.a x", "--message.handler m:f --message.handler.args x"),
        ("-new.consumer m.yaml", "--new.consumer m.yaml"),
        ("--whitelist -num.streams --log-level info", "--whitelist -num.streams --log-level info"),
        ("--online -- -whitelist", "--online -- -whitelist"),
        ("-h", "-h"),
        ("-help", "--help"),
    ],
)
def test_flags_of_the_original_are_read_as_its_parser_reads_them(given: str, read: str) -> None:
    assert spelled_out(given.split(), check.params) == read.split()


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["run"], "give a YAML file, or --consumer.config, --producer.config and --whitelist or --blacklist"),
        (["check", EXAMPLE, "--whitelist", "a"], "is a whole configuration; --whitelist cannot be given beside it"),
        (["check", EXAMPLE, "--num-streams", "2"], "No such option"),
        (["mirror"], "No such command"),
        (
            ["check", "--whitelist", "a", "--whitelist", "b"],
            "--whitelist is given 2 times, 'a' and 'b': give it once",
        ),
        (
            ["run", "--producer.config", "p", "--producer.config", "p"],
            "--producer.config is given 2 times, 'p' and 'p'",
        ),
    ],
)
def test_a_wrong_command_line_is_exit_64(args: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(args) == 64
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_wrong_configuration_is_exit_78_with_a_sentence_a_problem(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "m.yaml"
    file.write_text((ROOT / "conf" / "mirror.yaml").read_text().replace("group.id", "grup.id"))
    assert outcome([command, str(file)]) == 78
    assert capsys.readouterr() == (
        "",
        "error: m.yaml: sources[0]: option 'grup.id' is unknown; did you mean 'group.id'?\n"
        "error: m.yaml: sources[0]: option 'group.id' is missing: consumer group\n",
    )


@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize("broken", ["file", "consumer", "producer"])
def test_a_file_that_is_missing_is_exit_78_and_one_that_is_forbidden_77(
    command: str, broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = {"consumer": ROOT / "conf" / "consumer.properties", "producer": ROOT / "conf" / "producer.properties"}
    file = conf[broken] = tmp_path / "one"
    flags = ["--consumer.config", str(conf["consumer"]), "--producer.config", str(conf["producer"]), "--whitelist", "a"]
    args = [command, str(file)] if broken == "file" else [command, *flags]
    assert outcome(args) == 78
    named = f"error: {file}" if broken == "file" else f"error: --{broken}.config {file}"
    assert capsys.readouterr().err == f"{named}: cannot be read: No such file or directory\n"
    file.mkdir()
    assert outcome(args) == 78
    assert capsys.readouterr().err == f"{named}: cannot be read: Is a directory\n"
    file.rmdir()
    file.touch()
    read = Path.read_bytes

    def forbidden(path: Path) -> bytes:  # root, who may run the tests, may read all
        if path == file:
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", forbidden)
    assert outcome(args) == 77
    assert capsys.readouterr().err == f"{named}: may not be read by this user: Permission denied\n"


@pytest.mark.parametrize("form", ["yaml", "properties"])
def test_a_secret_that_cannot_be_had_is_exit_78_and_one_that_is_forbidden_77(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "credentials"))
    if form == "yaml":
        text = (ROOT / "conf" / "mirror.yaml").read_text()
        file = tmp_path / "m.yaml"
        file.write_text(text.replace("group.id", "zookeeper.auth: credential:zk\n    group.id", 1))
        args, at = ["check", str(file)], "m.yaml: sources[0]"
    else:
        file, target = tmp_path / "c.properties", ROOT / "conf" / "producer.properties"
        file.write_text("zookeeper.connect=zk:2181\ngroup.id=g\nzookeeper.auth=credential:zk\n")
        args, at = (
            ["check", "--consumer.config", str(file), "--producer.config", str(target), "--whitelist", "a"],
            file.name,
        )
    assert outcome(args) == 78
    credential = tmp_path / "credentials" / "zk"
    said = f"error: {at}: option 'zookeeper.auth': credential:zk: {credential} cannot be read: "
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("warning: ")]
    assert lines == [f"{said}No such file or directory"]
    credential.parent.mkdir()
    credential.write_text("digest:ann:sec-ret\n")
    assert outcome(args) == 0
    assert "sec-ret" not in capsys.readouterr().err
    opened = Path.open

    def forbidden(path: Path, *given: Any, **named: Any) -> Any:  # root, who may run the tests, may read all
        if path == credential:
            raise PermissionError(13, "Permission denied")
        return opened(path, *given, **named)

    monkeypatch.setattr(Path, "open", forbidden)
    assert outcome(args) == 77
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("warning: ")]
    assert lines == [f"{said}Permission denied"]


def test_what_is_unsafe_comes_first_and_is_an_error_where_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "m.yaml"
    text = (ROOT / "conf" / "mirror.yaml").read_text()
    file.write_text(text.replace("group.id", "auto.offset.reset: largest\n    consumer.timeout.ms: 5\n    group.id", 1))
    assert outcome(["check", str(file)]) == 0
    kinds = [line.partition(":")[0] for line in capsys.readouterr().err.splitlines()]
    assert kinds == ["unsafe", "warning"]
    assert outcome(["check", "--strict", "--online", str(file)]) == 78  # and connects to nothing
    said = capsys.readouterr()
    assert (said.out, said.err.splitlines()[-1]) == ("", "error: 1 unsafe setting, and --strict allows none")
    assert outcome(["check", "--strict", EXAMPLE]) == 0


def test_a_blacklist_is_not_told_as_the_topics(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(["check", str(ROOT / "conf" / "wan.yaml")]) == 0
    assert capsys.readouterr().out == f"ok: 2 sources, all topics but test.*|tmp.*{UNASKED}"


@pytest.mark.parametrize("code", [exits.CLEAN, exits.UNREACHABLE, exits.CONFIGURATION])
def test_only_clusters_that_answered_are_ok_in_the_last_line(
    code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(online, "check_online", lambda configuration: code)
    assert outcome(["check", EXAMPLE, "--online"]) == code
    ok = "ok: 1 source, topics orders|payments.*; every cluster answered\n"
    assert capsys.readouterr() == ("", ok if code == exits.CLEAN else "")  # stdout has the table alone


@pytest.mark.thorough
@pytest.mark.parametrize("at", ["click", "mirrormaker.config", "gevent"])
def test_ctrl_c_while_it_loads_is_one_sentence_and_130(at: str, tmp_path: Path) -> None:
    program = f"""
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {at!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from mirrormaker.commands.main import main
sys.argv = ["mirrormaker", "run", {EXAMPLE!r}]
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


@pytest.mark.thorough
@pytest.mark.parametrize("command", [["run"], ["check", "--online"]], ids=["run", "check"])
def test_a_dead_zookeeper_is_told_in_our_words_only(command: list[str], tmp_path: Path) -> None:
    with FakeCluster({"a": 1}) as target, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen: refuses every connect, and nobody else gets the port
        port = taken.getsockname()[1]
        host, broker = target.bootstrap[0]
        file = tmp_path / "m.yaml"
        file.write_text(
            f"sources:\n- {{zookeeper.connect: '127.0.0.1:{port}', group.id: g, "
            "zookeeper.connection.timeout.ms: 1000}\n"
            f"target: {{metadata.broker.list: '{host}:{broker}'}}\nmirror: {{whitelist: a, start.timeout.ms: 1500}}\n"
        )
        words = [sys.executable, "-m", "mirrormaker.commands.main", *command, str(file)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 69
    assert f"ZooKeeper at 127.0.0.1:{port} does not answer within" in done.stderr
    assert "kazoo" not in done.stderr
    assert not [line for line in done.stderr.splitlines() if "socket connection error" in line or "CONNECTING" in line]


@pytest.mark.thorough
@pytest.mark.parametrize("command", [["run"], ["check", "--online"]], ids=["run", "check"])
def test_a_target_without_transactions_refuses_exactly_once(command: list[str], tmp_path: Path) -> None:
    with FakeCluster({"a": 1}) as target:
        host, broker = target.bootstrap[0]
        file = tmp_path / "m.yaml"
        file.write_text(
            f"sources:\n- {{zookeeper.connect: '127.0.0.1:1', group.id: g}}\n"
            f"target: {{metadata.broker.list: '{host}:{broker}'}}\n"
            "mirror: {whitelist: a, delivery.guarantee: exactly-once, control.socket: none}\n"
        )
        words = [sys.executable, "-m", "mirrormaker.commands.main", *command, str(file)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    sentence = "target: delivery.guarantee: exactly-once needs a target of 0.11 or later, and it is 0.8.2: set resume: "
    assert (done.returncode, done.stdout) == (78, ""), done.stderr
    assert sentence in done.stderr.splitlines()[-1]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("said_by", "folder", "why"),
    [("offset.map.folder", "gone", "No such file"), ("$STATE_DIRECTORY", "file", "Not a directory"),
     ("offset.map.folder", "/sys", "")],
)  # fmt: skip
def test_a_state_folder_that_cannot_be_written_is_exit_73_before_anything_is_connected_to(
    said_by: str, folder: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    named = tmp_path / folder  # /sys, which the kernel lets nobody write files into, stays what it is
    by_option = said_by == "offset.map.folder"
    text = (ROOT / "conf" / "mirror.yaml").read_text()
    file = tmp_path / "m.yaml"
    file.write_text(f"{text}\n  offset.map.folder: {named}\n" if by_option else text)
    words = [sys.executable, "-m", "mirrormaker.commands.main", "run", str(file)]
    env = {**os.environ, **({} if by_option else {"STATE_DIRECTORY": f"{named}:/elsewhere"})}
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == 73, done.stderr
    assert f'event=refused msg="{said_by}: folder {named} cannot be written: {why}' in done.stderr


@pytest.fixture(scope="module")
def without_metrics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has every package of ours but prometheus-client."""
    folder = tmp_path_factory.mktemp("without-metrics")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    [packages] = folder.glob("lib/python3*/site-packages")
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if not package.name.startswith("prometheus_client"):
            (packages / package.name).symlink_to(package)
    return folder / "bin" / "python"


@pytest.mark.thorough
@pytest.mark.parametrize("command", [["run"], ["check"]])
def test_metrics_without_prometheus_client_are_refused_with_what_to_install(
    without_metrics: Path, tmp_path: Path, command: list[str]
) -> None:
    file = tmp_path / "mirror.yaml"
    text = Path(EXAMPLE).read_text().replace("  http.listen:", "  # http.listen:")
    file.write_text(text.replace("    group.id:", "    metrics.enable: true\n    group.id:"))
    words = [str(without_metrics), "-m", "mirrormaker.commands.main", *command, str(file)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, cwd=ROOT)
    sentence = "option 'metrics.enable' needs prometheus-client: pip install 'kafka-legacy-mirror[metrics]'"
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr == f"error: {file.name}: source dc1: {sentence}\n"


@pytest.mark.thorough
@pytest.mark.parametrize("command", [["run"], ["check", "--online"]], ids=" ".join)
def test_http_listen_without_prometheus_client_is_refused_with_what_to_install(
    without_metrics: Path, tmp_path: Path, command: list[str]
) -> None:
    file = tmp_path / "mirror.yaml"
    file.write_text(Path(EXAMPLE).read_text())
    words = [str(without_metrics), "-m", "mirrormaker.commands.main", *command, str(file)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    sentence = "option 'http.listen' needs prometheus-client: pip install 'kafka-legacy-mirror[metrics]'"
    assert (done.returncode, done.stdout, done.stderr) == (78, "", f"error: mirror.yaml: {sentence}\n")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("9308", ""),
        ("localhost:9308", ""),
        ("0.0.0.0:9308", "unsafe: mirror.yaml: mirror: http.listen=0.0.0.0:9308: its clients read topics"),
        ("nonsense", "error: mirror.yaml: mirror: option 'http.listen' is 'nonsense', expected host:port, or a port"),
    ],
)
def test_check_says_what_is_wrong_or_unsafe_about_http_listen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str, said: str
) -> None:
    file = tmp_path / "mirror.yaml"
    file.write_text(Path(EXAMPLE).read_text().replace("http.listen: 9308", f"http.listen: {value}"))
    assert outcome(["check", str(file)]) == (78 if said.startswith("error") else 0)
    printed = capsys.readouterr().err
    assert said in printed
    assert ("http.listen" in printed) == bool(said)


@pytest.mark.thorough
def test_the_library_says_the_same(without_metrics: Path) -> None:
    program = """
from groundwork.options import OptionError
from producer.producer import Producer
from zkconsumer.connector import ConsumerConnector
metrics = {"metrics.enable": True}
group = {"zookeeper.connect": "127.0.0.1:1", "group.id": "g", "auto.offset.reset": "smallest"}
consumer = ConsumerConnector({**group, **metrics})
for make in (
    lambda: consumer.create_message_streams({"t": 1}),
    lambda: Producer({"metadata.broker.list": "127.0.0.1:1", **metrics}),
):
    try:
        make()
    except OptionError as refused:
        print(refused)
"""
    done = subprocess.run([str(without_metrics), "-c", program], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    sentence = "option 'metrics.enable' needs prometheus-client: pip install 'kafka-legacy-mirror[metrics]'"
    assert done.stdout.splitlines() == [sentence] * 2


def test_dash_h_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    for args in (["-h"], ["run", "-h"], ["check", "-h"]):
        assert outcome(args) == 0
        assert capsys.readouterr().out.startswith("Usage: mirrormaker")


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(["--version"]) == 0
    assert capsys.readouterr().out.startswith("mirrormaker 0.")


def test_the_page_of_options_is_what_the_fields_say() -> None:
    assert (ROOT / "docs" / "configuration.md").read_text() == page(), "make it anew: see its first lines"


def test_the_end_of_a_terminal_ends_a_watch_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal() as (stream, window), monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", stream)
        printed = 0
        with reader_may_leave():
            while printed < 5:
                print_text("a report", clear=True)
                printed += 1
                leave(window)
        assert printed == 1
        stream.write("nothing that the exit would fail at")
        stream.flush()


def test_a_disk_that_is_full_ends_a_watch_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w") as full, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", full)
        with pytest.raises(Failure, match="cannot be written: No space left on device"), reader_may_leave():
            print_text("a report")
