"""A control server and its client, with a mirror made of fakes: what is asked, refused and shown."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from groundwork import executor
from groundwork.hub import OwnThread
from groundwork.tasks import TaskGroup
from groundwork.threads import NoThread
from kafkawire.model import TopicPartition
from mirrormaker.attention import view
from mirrormaker.commands.cli import cli, outcome
from mirrormaker.commands.status import shown
from mirrormaker.control import client as control_client
from mirrormaker.control import place as control_place
from mirrormaker.control.actions import RunningMirror, actions_of
from mirrormaker.control.client import Connection, NoMirror, Refused, _answer, connect
from mirrormaker.control.keptfile import KeptFile
from mirrormaker.control.limiter import Limiter
from mirrormaker.control.place import NoFolder, all_sockets, beside, candidates, make_folder, own_place
from mirrormaker.control.server import ControlServer
from mirrormaker.quarantine import ReleaseRefused
from mirrormaker.report import MirrorReport, PartitionReport, SourceReport, WaitingTopic
from mirrormaker.selection import Selection
from mirrormaker.throttle import FlowThrottle
from tests.fakes.reports import group
from zkconsumer.errors import ConsumerError
from zkconsumer.fetching.committable import Parked

ROOT = Path(__file__).resolve().parents[2]


def partition(topic: str, number: int | str = 0, **changed: Any) -> PartitionReport:
    values = {
        "source": "dc1", "topic": topic, "partition": number, "target_topic": topic, "owner": "g_host-1-0",
        "state": "reading", "reason": "", "route": "pass-through: same format", "committed": 40, "done": 50, "end": 200,
        "lag": 150, "lag_unit": "messages", "lag_s": 12.4, "messages_per_s": 3.0, "bytes_per_s": 300.0, **changed,
    }  # fmt: skip
    return PartitionReport(**values)


def report(*partitions: PartitionReport, **changed: Any) -> MirrorReport:
    source = SourceReport(
        name="dc1", version="0.8.2", state="running", reason="", owned=len(partitions), lag=150, lag_unit="messages"
    )
    values = {
        "at_ms": 3_723_000, "started_ms": 0, "release": "0.1.0", "target": "k:9092", "target_state": "",
        "sources": (source,), "partitions": partitions, "waiting": (), "happenings": (), "messages": 700, "bytes": 7000,
        "messages_per_s": 3.0, "bytes_per_s": 300.0, "in_flight_bytes": 0, "left_out": {}, "not_ready": (),
        "log_level": "info", **changed,
    }  # fmt: skip
    return MirrorReport(**values)


class Source:
    name = "dc1"

    def __init__(self) -> None:
        self.paused: dict[Any, bool] = {}
        self.away = False

    def all_topics(self) -> list[str]:
        if self.away:
            raise ConsumerError("ZooKeeper is away")
        return ["clicks", "orders", "secret"]

    def partitions_of(self, topics: list[str]) -> dict[str, list[int]]:
        return {topic: [0, 1] for topic in topics}

    def owners(self, topics: list[str]) -> dict[TopicPartition, str]:
        return {TopicPartition(topic, 0): "g_host-1-0" for topic in topics}

    def partitions(self) -> list[Any]:
        return [SimpleNamespace(topic="orders", tp=TopicPartition("orders", 0), parked=None)]

    def parked(self) -> dict[TopicPartition, Parked]:
        return {}

    def set_paused(self, paused: dict[Any, bool]) -> None:
        self.paused = paused


class Mirror:
    """Served at `path`, in an event loop of its own."""

    def __init__(self, folder: Path) -> None:
        self.path, self.source = folder / "orders.sock", Source()
        self.flow = SimpleNamespace(name="dc1", throttle=FlowThrottle(lambda limits: None), source=self.source)
        self.folder = folder
        self.hub = OwnThread("mirror")
        self.hub.start()
        self.hub.call(self._start)

    def _start(self) -> None:
        self.tasks = TaskGroup()
        sources, flows = [self.source], [self.flow]
        self.limiter = Limiter(sources, flows, KeptFile(self.folder, {"dc1": "g"}))  # type: ignore[arg-type]
        self.limiter.restore()
        running = RunningMirror(
            sources=sources,  # type: ignore[arg-type]
            flows=flows,  # type: ignore[arg-type]
            selections={"dc1": Selection(source="dc1", whitelist="orders|clicks")},
            reporter=SimpleNamespace(report=lambda: report(partition("orders"))),  # type: ignore[arg-type]
            limiter=self.limiter,
        )
        self.server = ControlServer(self.tasks, actions_of(running))
        self.server.start(self.path, {})

    def close(self) -> None:
        self.hub.call(self.server.close)
        self.hub.call(self.tasks.stop, 1.0)
        self.hub.call(self.limiter.close)
        assert self.tasks.death is None
        self.hub.stop()

    def ask(self, command: str, **arguments: Any) -> Any:
        return next(Connection(self.path).answers(command, arguments))


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Mirror]:
    made = Mirror(tmp_path)
    yield made
    made.close()


def test_a_pause_is_applied_and_kept_and_a_resume_ends_both(mirror: Mirror, tmp_path: Path) -> None:
    assert mirror.ask("pause", what="orders", keep=True) == ["source dc1: orders paused, kept over restarts"]
    assert mirror.source.paused == {"orders": True}
    assert mirror.ask("resume", what="orders:1") == ["source dc1: orders:1 resumed"]
    assert mirror.source.paused == {"orders": True, TopicPartition("orders", 1): False}
    assert len(KeptFile(tmp_path, {"dc1": "g"}).read()) == 2
    assert mirror.ask("resume", what="orders") == ["source dc1: orders resumed"]
    assert mirror.ask("resume", what="orders") == ["source dc1: orders was not paused"]
    assert (mirror.source.paused, KeptFile(tmp_path, {"dc1": "g"}).read()) == ({}, [])


def test_a_pause_that_no_thread_is_there_to_keep_is_refused_and_kept_later(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(executor, "start_plain_thread", Mock(side_effect=NoThread("no further thread can be started")))
        with pytest.raises(Refused, match=r"^nothing has changed: .*limits\.json cannot be written: no further thread"):
            mirror.ask("pause", what="orders", keep=True)
    assert mirror.source.paused == {}
    assert mirror.ask("pause", what="orders", keep=True) == ["source dc1: orders paused, kept over restarts"]


def test_what_cannot_be_kept_changes_nothing(mirror: Mirror, tmp_path: Path) -> None:
    (tmp_path / "limits.json").mkdir()
    with pytest.raises(Refused, match=r"^nothing has changed: .*limits\.json cannot be written"):
        mirror.ask("pause", what="orders", keep=True)
    assert mirror.source.paused == {}
    assert list(mirror.limiter.limits) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"what": "order"}, "no source has a topic order; did you mean 'orders'?"),
        ({"what": "zzz"}, "no source has a topic zzz"),
        ({"what": "orders:9"}, "source dc1: orders has no partition 9: it has 0, 1"),
        ({"what": "orders:x"}, "orders:x is neither TOPIC nor TOPIC:PARTITION (a number, of 0.7 broker-index)"),
        ({"what": "secret"}, "source dc1: secret is not mirrored: whitelist 'orders|clicks' does not match"),
        ({"what": "orders", "source": "dc9"}, "there is no source dc9: this mirror has dc1"),
        ({}, "which topic is meant? TOPIC or TOPIC:PARTITION"),
        ({"what": 7}, "which topic is meant? TOPIC or TOPIC:PARTITION"),
    ],
)
def test_a_wrong_pause_is_refused_with_what_helps(mirror: Mirror, arguments: Any, sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        mirror.ask("pause", **arguments)
    assert str(refused.value) == sentence
    assert mirror.source.paused == {}


def test_while_zookeeper_is_away_what_is_owned_can_be_paused(mirror: Mirror) -> None:
    mirror.source.away = True
    assert mirror.ask("pause", what="orders")[0].startswith("source dc1: orders paused until")
    with pytest.raises(Refused, match="no source has a topic clicks"):
        mirror.ask("pause", what="clicks")


def test_throttles_are_set_shown_and_ended(mirror: Mirror) -> None:
    assert mirror.ask("throttle") == ["nothing is throttled"]
    said = mirror.ask("throttle", what="orders", bytes_per_s=2_500_000)
    assert said == ["source dc1: orders throttled to 2.5 MB/s until ended or restarted"]
    mirror.ask("throttle", messages_per_s=100)
    shown_now = mirror.ask("throttle")
    assert shown_now[0].startswith("source dc1: all topics: throttled to 100 messages/s, the whole source, by operator")
    assert shown_now[1].startswith("source dc1: orders: throttled to 2.5 MB/s by operator since ")
    assert mirror.ask("throttle", off=True) == ["source dc1: all topics throttled no more"]
    assert mirror.ask("throttle", off=True) == ["source dc1: all topics had no throttle of its own"]
    for wrong in ({"bytes_per_s": 5}, {"bytes_per_s": "x"}, {"what": "orders:1", "bytes_per_s": 1e6}):
        with pytest.raises(Refused):
            mirror.ask("throttle", **wrong)


def test_a_release_does_nothing_before_it_is_executed(mirror: Mirror) -> None:
    released: list[tuple[TopicPartition, str]] = []

    def release(tp: TopicPartition, to: str) -> str:
        released.append((tp, to))
        return "the message at 7 is skipped"

    def releasable(tp: TopicPartition, to: str) -> Any:
        if to != "skip":
            raise ReleaseRefused("there is no dead-letter topic")
        return SimpleNamespace(position=7, reason="too large")

    row = SimpleNamespace(topic="orders", partition=0, tp=TopicPartition("orders", 0), parked="too large")
    bad: list[Any] = [SimpleNamespace(named="the message at 9 with no key, a value of 5 bytes"), None]
    mirror.source.partitions = lambda: [row]  # type: ignore[method-assign]
    mirror.flow.quarantine, mirror.flow.release = (
        SimpleNamespace(releasable=releasable, at_fault=lambda *_: bad.pop(), searches=lambda tp, done: done == 7),
        release,
    )
    said = mirror.ask("release", what="orders:0", to="skip")
    assert said == [
        "source dc1: orders:0: the first failing message at or after 7 would be skipped: too large",
        "nothing is changed without --execute",
    ]
    said = mirror.ask("release", what="orders:0", to="skip")
    assert said[0] == (
        "source dc1: orders:0: the message at 9 with no key, a value of 5 bytes would be skipped: too large"
    )
    with pytest.raises(Refused, match="there is no dead-letter topic"):
        mirror.ask("release", what="orders:0", to="dead-letter", execute=True)
    assert released == []
    said = mirror.ask("release", what="orders:0", to="skip", execute=True)
    assert said == ["source dc1: orders:0: the message at 7 is skipped"]
    assert released == [(TopicPartition("orders", 0), "skip")]
    for wrong, sentence in (("orders", "which partition"), ("clicks:0", "is not parked"), ("order:0", "did you mean")):
        with pytest.raises(Refused, match=sentence):
            mirror.ask("release", what=wrong, to="skip", execute=True)
    row.parked, row.done = None, 7  # fetched message by message
    with pytest.raises(Refused, match="to find the one at fault: try again"):
        mirror.ask("release", what="orders:0", to="skip", execute=True)
    row.done = 9
    with pytest.raises(Refused, match="is not parked"):
        mirror.ask("release", what="orders:0", to="skip", execute=True)


def test_a_source_is_asked_once_where_its_parked_partitions_stand(mirror: Mirror) -> None:
    tps, asked = [TopicPartition("orders", n) for n in range(3)], list[str]()

    def places() -> dict[TopicPartition, Parked]:
        asked.append("dc1")
        return {tp: Parked(ValueError("too large"), 7) for tp in tps[:2]}

    rows = [SimpleNamespace(topic=tp.topic, partition=tp.partition, tp=tp, parked="x", done=5, lag=1) for tp in tps]
    mirror.source.partitions = lambda: rows  # type: ignore[method-assign]
    mirror.source.parked = places  # type: ignore[method-assign]
    mirror.flow.quarantine = SimpleNamespace(kinds=lambda *_: frozenset())
    assert [row["at"] for row in mirror.ask("parked")] == [7, 7, 5]
    assert asked == ["dc1"]


def test_topics_are_explained(mirror: Mirror) -> None:
    rows = {row["topic"]: row for row in mirror.ask("topics")["rows"]}
    assert (rows["orders"]["state"], rows["orders"]["owned_here"]) == ("reading", 1)
    assert (rows["clicks"]["state"], rows["clicks"]["owners"]) == ("owned by others", ["g_host-1-0"])
    assert (rows["secret"]["mirrored"], rows["secret"]["state"]) == (False, "")
    assert [row["topic"] for row in mirror.ask("topics", topics=["clicks"])["rows"]] == ["clicks"]
    with pytest.raises(Refused, match="did you mean 'clicks'"):
        mirror.ask("topics", topics=["click"])


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"\n", "a request is one line of JSON: "),
        (b"nonsense\n", "a request is one line of JSON: "),
        (b"[" * 60_000 + b"\n", "a request is one line of JSON: "),
        (b"[]\n", "a request is an object: "),
        (b'{"command": "status", "arguments": 3}\n', "a request is an object: "),
        (b'{"command": "stop"}\n', "there is no command 'stop': status, topics, "),
        (b'{"command": "status", "arguments": {"every_s": 0}}\n', "every_s is 0: it must be a number of at least 0.2"),
    ],
)
def test_nonsense_is_answered_and_ends_nothing(mirror: Mirror, line: bytes, sentence: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(str(mirror.path))
        client.sendall(line)
        assert json.loads(client.makefile("rb").readline())["error"].startswith(sentence)
    assert mirror.ask("status")["messages"] == 700


def test_a_second_mirror_of_the_file_listens_beside_the_first(mirror: Mirror, tmp_path: Path) -> None:
    other = mirror.hub.call(lambda: ControlServer(mirror.tasks, {}))
    at = mirror.hub.call(other.start, mirror.path, {})
    assert at.parent == tmp_path
    assert at == beside(mirror.path, os.getpid())
    assert candidates("orders", str(mirror.path), {}) == [mirror.path, at]
    mirror.hub.call(other.close)
    assert not at.exists()


def test_mirrors_of_two_containers_have_a_socket_each_though_their_process_number_is_the_same(mirror: Mirror) -> None:
    others = [mirror.hub.call(ControlServer, mirror.tasks, {}) for _ in range(2)]
    places = [mirror.hub.call(other.start, mirror.path, {}) for other in others]
    assert places == [beside(mirror.path, os.getpid() + n) for n in range(2)]
    assert candidates("orders", str(mirror.path), {}) == [mirror.path, *places]
    for other in others:
        mirror.hub.call(other.close)


# ---- the place -------------------------------------------------------------------------------------------------------


def test_the_place_follows_from_the_file_and_the_environment(tmp_path: Path) -> None:
    assert own_place("orders", "none", {}) is None
    assert own_place("orders", "/x/y.sock", {"RUNTIME_DIRECTORY": "/run/z"}) == Path("/x/y.sock")
    assert own_place("orders", "", {"RUNTIME_DIRECTORY": "/run/z:/run/a"}) == Path("/run/z/orders.sock")
    assert own_place("orders", "", {"XDG_RUNTIME_DIR": "/run/user/7"}) == Path("/run/user/7/mirrormaker/orders.sock")
    own = own_place("orders", "", {})
    assert own is not None
    assert own.parent.name == f"mirrormaker-{os.getuid()}"
    found = candidates("orders", "", {"XDG_RUNTIME_DIR": str(tmp_path)})
    assert found == [tmp_path / "mirrormaker/orders.sock", Path("/run/mirrormaker/orders/orders.sock")]
    assert beside(Path("/r/orders.sock"), 7) == Path("/r/orders.sock.7")


def test_a_mirror_whose_file_has_a_number_in_its_name_is_not_taken_for_a_second_one_of_another_file(
    tmp_path: Path,
) -> None:
    environ = {"XDG_RUNTIME_DIR": str(tmp_path)}
    first, numbered = own_place("orders", "", environ), own_place("orders.7", "", environ)
    assert first is not None
    assert numbered is not None
    make_folder(first, environ)
    for path in (first, numbered, beside(first, 7)):
        path.touch()
    assert [path for path in candidates("orders", "", environ) if path.exists()] == [first, beside(first, 7)]
    assert all_sockets(environ) == sorted([first, numbered, beside(first, 7)])


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": str(tmp_path)}
    place = own_place("orders", "", environ)
    assert place is not None
    make_folder(place, environ)
    assert place.parent.stat().st_mode & 0o777 == 0o700
    place.parent.chmod(0o777)
    with pytest.raises(NoFolder, match="does not belong to this user alone"):
        make_folder(place, environ)
    with pytest.raises(NoFolder, match="is not a folder"):
        make_folder(tmp_path / "none" / "x.sock", environ)


@pytest.mark.parametrize("wrong", ["all may write", "a group may write", "a link", "another user's"])
def test_a_command_asks_no_socket_in_a_folder_that_a_mirror_would_refuse(
    wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is first may make mirrormaker-0 in the folder for temporary files, and root asks a mirror of his."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)
    places = candidates("orders", "", {})
    folder = places[0].parent
    if wrong == "a link":
        (tmp_path / "elsewhere").mkdir()
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.mkdir(mode=0o700)
        folder.chmod({"all may write": 0o777, "a group may write": 0o770}.get(wrong, 0o700))
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(str(places[0]))
        stranger.listen()
        if wrong == "another user's":
            real = os.getuid()
            monkeypatch.setattr(os, "getuid", lambda: real + 1)
            monkeypatch.setattr(control_place, "_own_folder", lambda environ: folder)
        with pytest.raises(NoMirror, match=f"{folder} does not belong to this user alone: .*--socket") as refused:
            connect(places)
        assert refused.value.forbidden
        stranger.setblocking(False)
        with pytest.raises(BlockingIOError):
            stranger.accept()
        # --socket may name the folder of another user; who listens there is looked at all the same.
        connect([places[0]], named=True)._socket.close()
        monkeypatch.setattr(control_client, "peer_uid", lambda connected: os.getuid() + 4711)
        tmp_path.chmod(0o777)
        with pytest.raises(NoMirror, match="listens there, and all users may write to"):
            connect([places[0]], named=True)


def test_a_command_takes_no_other_user_for_the_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below a folder that all may write the listener has to be root or the user of the command."""
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(str(open_to_all / "s"))
        stranger.listen()
        monkeypatch.setattr(control_client, "peer_uid", lambda connected: os.getuid() + 4711)
        open_to_all.chmod(0o1777)
        with pytest.raises(
            NoMirror, match=f"{open_to_all}/s: user {os.getuid() + 4711} listens there, and all users may"
        ) as no:
            connect([open_to_all / "s"])
        assert no.value.forbidden
        monkeypatch.setattr(control_client, "peer_uid", lambda connected: os.getuid())
        connect([open_to_all / "s"])._socket.close()


@pytest.mark.skipif(os.getuid() != 0, reason="only root has a process of another user")
def test_the_kernel_says_who_listens(tmp_path: Path) -> None:
    path = Path(tempfile.mkdtemp(dir="/tmp")) / "s"
    path.parent.chmod(0o1777)
    program = (
        "import os, socket, sys; os.setuid(4711); s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen();"
        "print(1, flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen([sys.executable, "-S", "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.readline()
        with pytest.raises(NoMirror, match="user 4711 listens there"):
            connect([path])
    finally:
        child.kill()
        child.communicate()
        shutil.rmtree(path.parent)


def test_where_nothing_answers_the_sentence_names_what_was_tried(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead"))
    with pytest.raises(NoMirror, match=f"no mirror answers at {tmp_path}/dead, {tmp_path}/none: is it running"):
        connect([tmp_path / "dead", tmp_path / "none"])
    with pytest.raises(NoMirror, match="has at most 107"):
        connect([tmp_path / ("x" * 200)])


# ---- commands --------------------------------------------------------------------------------------------------------


def test_commands_end_with_the_code_of_what_happened(
    mirror: Mirror, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--socket", str(mirror.path)]
    assert outcome(["pause", "orders", *at]) == 0
    assert outcome(["pause", "order", *at]) == 65
    assert outcome(["pause", *at]) == 64
    assert outcome(["set-log-level", "loud", *at]) == 64
    assert outcome(["throttle", "orders", "--bytes-per-s", "fast", *at]) == 64
    assert outcome(["throttle", "--bytes-per-s", "1.5M", *at]) == 0
    assert outcome(["parked", *at]) == 0
    assert outcome(["status", "--socket", str(tmp_path / "none")]) == 69
    said = capsys.readouterr()
    assert "source dc1: all topics throttled to 1.5 MB/s until ended or restarted" in said.out
    assert "error: no source has a topic order; did you mean 'orders'?" in said.err
    assert f"error: no mirror answers at {tmp_path}/none" in said.err
    assert "nothing is parked" in said.err


def test_the_file_says_where_its_mirror_listens(mirror: Mirror, tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(f"mirror:\n  control.socket: {mirror.path}\n")
    done = CliRunner().invoke(cli, ["status", str(file), "-o", "json"])
    assert json.loads(done.output)["messages"] == 700
    file.write_text("mirror: {control.socket: none}\n")
    assert outcome(["status", str(file)]) == 69


def lines(found: MirrorReport, columns: int | None = None) -> list[str]:
    return list(shown(json.loads(json.dumps(view(found))), columns))


def test_the_status_puts_reasons_before_the_table() -> None:
    paused = {"state": "paused", "reason": "paused by operator since 12:03"}
    found = lines(
        report(
            partition("orders", 0, lag_s_is_least=True),
            partition("clicks", 0, **paused),
            partition("clicks", 1, **paused),
            partition("news", 0, state="parked", reason="news/0 at 7: corrupt"),
            waiting=(WaitingTopic(source="dc1", name="logs", reason="target topic logs does not exist"),),
            left_out={("dc1", "orders", "message.handler"): 5},
            name="m",
        )
    )
    assert found[0] == "mirror m into k:9092: ready, up 1 h 2 min, release 0.1.0"
    assert "parked 1: dc1: news:0: news/0 at 7: corrupt" in found
    assert "paused 2: dc1: clicks:0, clicks:1: paused by operator since 12:03" in found
    assert found.index("parked 1: dc1: news:0: news/0 at 7: corrupt") < found.index("")
    assert "waiting: dc1: logs: target topic logs does not exist" in found
    assert "left out: dc1: orders: 5 messages (message.handler)" in found
    assert found[found.index("") + 1].split() == [
        "topic", "partition", "owner", "committed", "end", "lag", "lag", "s", "rate/s", "route", "state",
    ]  # fmt: skip
    assert ">12" in found[-4]


def test_a_narrow_terminal_loses_columns_and_never_topic_lag_and_state() -> None:
    found = report(*(partition(f"a.rather.long.topic.{p}", p, lag=1_000_000) for p in range(3)))
    for columns in (200, 100, 60, 45):
        table = lines(found, columns)[-4:]
        assert max(map(len, table)) <= columns
        assert table[0].split()[0] == "topic"
        assert "lag" in table[0]
        assert table[0].split()[-1] == "state"
        assert "1,000,000" in table[1]


def test_a_lag_in_bytes_and_a_source_that_is_away_are_shown() -> None:
    source = SourceReport(
        name="old", version="0.7", state="out of reach", reason="ZooKeeper silent for 8 s", owned=1, lag=None,
        lag_unit="bytes",
    )  # fmt: skip
    found = lines(
        report(partition("t", "1-0", lag_unit="bytes", lag=3_100_000), sources=(source,), not_ready=("old: away",))
    )
    assert "source old (Kafka 0.7): out of reach; 1 partition, lag unknown" in found
    assert "not ready: old: away" in found
    assert "source old: out of reach: ZooKeeper silent for 8 s" in found
    assert "3,100,000 B" in found[-1]


def test_groups_that_follow_are_counted_and_others_are_named_with_the_reason() -> None:
    others = group(group="live", state="left alone", reason="it has members at the target")
    found = lines(report(groups=(group(), group(group="b", repeats=4), others)))
    said = "  groups: 2 follow, up to 34 messages read twice; 1 left alone (live: it has members at the target)"
    assert said in found
    away = SourceReport(
        name="dc1", version="0.8.2", state="running", reason="", owned=1, lag=0, lag_unit="messages",
        groups_reason="ZooKeeper does not answer",
    )  # fmt: skip
    assert "  groups: do not follow now: ZooKeeper does not answer" in lines(report(sources=(away,)))


def test_what_holds_memory_is_shown_by_topic() -> None:
    source = SourceReport(
        name="dc1", version="0.8.2", state="running", reason="", owned=1, lag=0, lag_unit="messages",
        held_bytes=52_000_000, max_bytes=67_108_864, waiting_bytes={"logs": 2_000_000, "news": 46_000_000},
    )  # fmt: skip
    found = lines(report(partition("t"), sources=(source,)))
    assert "  memory: 52.0 of 67.1 MB; 48.0 MB wait: news 46.0 MB, logs 2.0 MB" in found


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("text", "code", "says"), [("{", 78, "is damaged"), ("", 73, "cannot be read: Is a directory")]
)
def test_a_kept_file_that_is_no_good_ends_the_start_before_anything_is_connected_to(
    tmp_path: Path, text: str, code: int, says: str
) -> None:
    kept = tmp_path / "limits.json"
    kept.write_text(text) if text else kept.mkdir()
    file = tmp_path / "m.yaml"
    file.write_text((ROOT / "conf" / "mirror.yaml").read_text() + f"\n  state.folder: {tmp_path}\n")
    words = [sys.executable, "-m", "mirrormaker.commands.main", "run", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    assert f"{kept}" in done.stderr
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [10**400, float("inf")])
def test_a_rate_without_end_is_refused_and_no_error_of_ours(mirror: Mirror, number: float) -> None:
    with pytest.raises(Refused, match="it must be a number of at least 1000"):
        mirror.ask("throttle", what="orders", bytes_per_s=number)


@pytest.mark.parametrize("line", [b"5", b"{}", b"[]", b"[" * 5000])
def test_what_no_mirror_answers_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError):
        _answer(line)
