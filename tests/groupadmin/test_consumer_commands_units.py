"""Commands of zkconsumer without a cluster: what they print of a message, wrong arguments, exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from groundwork.output import EXIT
from groupadmin.commands import verify
from groupadmin.commands.lag import GroupLag, total, verdict
from groupadmin.snapshot.coordinated import CoordinatedGroup, CoordinatedMember
from groupadmin.snapshot.groups import GroupNodes, GroupRow, host_of
from kafkawire.dialects import dialect
from kafkawire.errors import LocalError
from kafkawire.model import Message
from kafkawire.offsets import MESSAGE_OFFSETS
from zkconsumer.commands.cli import outcome
from zkconsumer.commands.common import clear_errors
from zkconsumer.commands.messageformat import MessageFormat
from zkconsumer.errors import NoSuchGroup
from zkconsumer.offsets.store import NONE, Unknown

BINARY = b"\xff\x00"


def message(key: bytes | None, value: bytes | None) -> Message:
    return Message("orders", 3, 7, key, value, None, None, None, 8)


def test_a_line_of_text_is_the_bytes_themselves():
    assert MessageFormat().line(message(b"k", BINARY)) == BINARY + b"\n"
    assert MessageFormat(key=True, offset=True).line(message(None, None)) == b"orders/3 7\t\t\n"


@pytest.mark.parametrize(
    ("value", "shown"), [(None, None), (b"", ""), ("ä\n".encode(), "ä\n"), (BINARY, {"base64": "/wA="})]
)
def test_json_tells_null_text_and_bytes_apart_on_one_line(value: bytes | None, shown: object):
    line = MessageFormat(form="json").line(message(b"k", value))
    assert line.count(b"\n") == 1
    row = json.loads(line)
    assert row == {
        "topic": "orders", "partition": 3, "offset": 7, "timestamp_ms": None, "headers": [], "key": "k", "value": shown
    }  # fmt: skip


def test_headers_are_shown_in_order_as_json_and_as_the_jvms_console_shows_them():
    headers = (("trace", b"7f1c"), ("trace", None), ("raw", BINARY))
    told = Message("orders", 3, 7, b"k", b"v", None, None, headers, 8)
    row = json.loads(MessageFormat(form="json").line(told))
    assert row["headers"] == [["trace", "7f1c"], ["trace", None], ["raw", {"base64": "/wA="}]]
    assert MessageFormat(headers=True, key=True).line(told) == b"trace:7f1c,trace:null,raw:" + BINARY + b"\tk\tv\n"
    assert MessageFormat(headers=True).line(message(b"k", b"v")) == b"NO_HEADERS\tv\n"


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["consume", "--topic", "t"], "give -z ZOOKEEPER/CHROOT, or -b BROKERS if there is no ZooKeeper"),
        (
            ["consume", "-b", "h:9092", "-z", "z", "--topic", "t"],
            "give -z ZOOKEEPER/CHROOT, or -b BROKERS if there is no ZooKeeper",
        ),
        (["consume", "-z", "h"], "give --topic, or --whitelist"),
        (["consume", "-z", "h", "--topic", "t", "--whitelist", "w"], "give --topic, or --whitelist"),
        (["consume", "-z", "h", "--topic", "t", "--offset", "3"], "--offset needs --partition"),
        (["consume", "-z", "h", "--partition", "0"], "--partition needs --topic"),
        (["consume", "-z", "h", "--topic", "t", "--partition", "0", "--group", "g"], "--group does not go with it"),
        (["consume", "-z", "h", "-b", "h:1", "--topic", "t", "--partition", "0"], "either -z or -b"),
        (["consume", "-z", "h", "--topic", "t", "--partition", "0", "--offset", "-1"], "neither a number"),
        (["consume", "-z", "h", "--topic", "t", "--partition", "0", "--offset", "1", "--from-beginning"], "not both"),
        (["consume", "-b", "h", "--topic", "t", "--partition", "0"], "-b: 'h' is not host:port"),
        (["consume", "-z", "h", "--whitelist", "("], "topic filter"),
        (["consume", "-z", "h", "--topic", "a b"], "topic 'a b': a name has letters"),
        (["consume", "-z", "h", "--topic", "t", "--consumer-property", "x"], "is not KEY=VALUE"),
        (["consume", "-z", "h", "--topic", "t", "--consumer-property", "grup.id=x"], "did you mean 'group.id'"),
        (["groups", "list", "-z", "h", "--kafka-version", "9x"], "unknown Kafka release"),
        (["groups", "describe", "-z", "h"], "--group"),
        (["lag", "-z", "h", "--watch", "0"], "--watch"),
        (["verify-rebalance", "-z", "h"], "the group is missing: give it as the argument GROUP, or by --group"),
        (["verify-rebalance", "a", "-z", "h", "--group", "a"], "given twice: as the argument and by --group"),
        (["verify-rebalance", "-z", "h", "--group", "a/b"], "--group 'a/b': no group can be called that"),
        (["completion", "tcsh"], "tcsh"),
        ([], "a command is missing"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(args: list[str], why: str, capsys: pytest.CaptureFixture[str]):
    assert outcome(args) == EXIT["usage"]
    told = capsys.readouterr()
    assert why in told.err
    assert told.out == ""


@pytest.mark.parametrize("args", [["billing"], ["--group", "billing"]])
def test_verify_rebalance_takes_its_group_as_the_other_commands_do(
    args: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    @contextmanager
    def nowhere(*given: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(session=None, links=None, dialect=dialect("0.8.2"))

    monkeypatch.setattr(verify, "connected", nowhere)
    monkeypatch.setattr(
        verify,
        "read_group",
        lambda session, dialect, group: GroupNodes(group, members=(), partitions={}, owners={}, committed=()),
    )
    assert outcome(["verify-rebalance", *args, "-z", "h"]) == 0
    assert "group billing: 0 members" in capsys.readouterr().err


@pytest.mark.parametrize("in_zookeeper", [False, True])
def test_a_group_that_kafka_coordinates_is_not_called_healthy_nor_unknown(
    in_zookeeper: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    @contextmanager
    def at(*given: object) -> Iterator[SimpleNamespace]:
        with clear_errors():
            yield SimpleNamespace(session=None, links=None, dialect=dialect("3.9"))

    def read_group(session: object, spoken: object, group: str) -> GroupNodes:
        if not in_zookeeper:
            raise NoSuchGroup(f"group {group} is not known to ZooKeeper")
        return GroupNodes(group, members=(), partitions={}, owners={}, committed=())

    group = CoordinatedGroup("billing", "Stable", members=(CoordinatedMember("m", "c", "h"),))
    monkeypatch.setattr(verify, "connected", at)
    monkeypatch.setattr(verify, "read_group", read_group)
    monkeypatch.setattr(verify, "read_cluster", lambda admin: None)
    monkeypatch.setattr(verify, "read_coordinated", lambda admin, cluster, groups: {"billing": group})
    assert outcome(["verify-rebalance", "billing", "-z", "h"]) == EXIT["not found"]
    assert "has no member in ZooKeeper, and 1 member that Kafka coordinates" in capsys.readouterr().err
    group = CoordinatedGroup("billing", "", why="kafka1 does not answer")
    assert outcome(["verify-rebalance", "billing", "-z", "h"]) == EXIT["partly"]
    assert "whether Kafka coordinates members of it is not known: kafka1 does not answer" in capsys.readouterr().err


def test_lag_says_what_its_column_store_means(capsys: pytest.CaptureFixture[str]):
    assert outcome(["lag", "--help"]) == 0
    assert "column store says which of them holds a row's offset (both: they agree)" in (
        " ".join(capsys.readouterr().out.split())
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_what_the_shell_reads(shell: str, capsys: pytest.CaptureFixture[str]):
    assert outcome(["completion", shell]) == 0
    assert "_ZKCONSUMER_COMPLETE" in capsys.readouterr().out


def test_kernels_that_are_not_there_are_one_sentence_and_only_the_long_version_asks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("zkconsumer.commands.cli.kernels.name", kernels_refused)
    assert outcome(["--version"]) == 0
    assert outcome(["--version", "-v"]) == EXIT["usage"]
    assert "KAFKAWIRE_KERNELS=fortran: known are" in capsys.readouterr().err


def kernels_refused() -> str:
    raise LocalError("KAFKAWIRE_KERNELS=fortran: known are auto, python, numba")


def test_the_long_version_names_what_it_stands_on(capsys: pytest.CaptureFixture[str]):
    assert outcome(["--version"]) == 0
    (short,) = capsys.readouterr().out.splitlines()
    assert outcome(["--version", "-v"]) == 0
    first, *more = capsys.readouterr().out.splitlines()
    assert first == short
    assert [line.split()[0] for line in more] == ["column", "Python", "gevent", "kazoo"]


def test_a_partition_without_a_commit_is_no_lag_and_one_that_cannot_be_read_is_unknown():
    rows = [
        GroupRow("t", 0, None, 40, end=100),
        GroupRow("t", 1, None, NONE, end=100),
        GroupRow("t", 2, None, Unknown("strange"), end=100),
        GroupRow("t", 3, None, 40, end=None),
        GroupRow("t", 4, None, 40, end=30),
    ]
    assert total(rows) == (60, 3)


@pytest.mark.parametrize(
    ("lag", "unknown", "code"), [(10, 0, "done"), (11, 3, "exceeded"), (10, 1, "partly"), (0, 0, "done")]
)
def test_a_threshold_is_exceeded_above_it_and_unknown_lag_is_no_success(lag: int, unknown: int, code: str):
    quiet = GroupLag("quiet", members=0, partitions=1, behind=0, unknown=0, uncommitted=0)
    groups = [quiet, replace(quiet, group="g", behind=lag, unknown=unknown)]
    assert verdict(groups, 10, MESSAGE_OFFSETS) == EXIT[code]


@pytest.mark.parametrize(
    ("consumer_id", "host"),
    [
        ("g_host-7-1394154511599-60744496", "host-7"),
        ("g_named", None),
        ("other_host-1394154511599-60744496", None),
        ("0f3c-41-aa", None),
    ],
)
def test_a_host_is_told_where_the_id_is_made_as_the_jvm_makes_it(consumer_id: str, host: str | None):
    assert host_of("g", consumer_id) == host
