"""Commands that look at, write, delete and rename, and Kafka's own spellings of them, on fakes of both stores."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from groundwork.output import EXIT
from groupadmin.commands import dropin, editoptions, groupedit, groups, offsetedit, unblock
from groupadmin.files.read import read_offsets
from groupadmin.snapshot import reader
from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC
from tests.fakes.broker import Fail
from tests.groupadmin.snapshot.worlds import Fakes, fakes
from zkconsumer.commands.cli import outcome
from zkconsumer.commands.common import Connection, clear_errors

G = "/consumers/g"
DAY = 86_400_000  # ms
BOTH = {"t": 2, OFFSETS_TOPIC: 1}
ENDS = {("t", 0): 100, ("t", 1): 100}
WRITE = ("set", "-z", "zk", "--group", "g")


@dataclass
class Cluster:
    """run(*args) -> exit code; .out, .err of the last one."""

    f: Fakes
    folder: Path
    capsys: pytest.CaptureFixture[str]
    out: str = ""
    err: str = ""

    def run(self, *args: str) -> int:
        return self._said(outcome(["offsets", *args]))

    def groups(self, *args: str) -> int:
        return self._said(outcome(["groups", *args]))

    def lag(self, *args: str) -> int:
        return self._said(outcome(["lag", "-z", "zk", *args]))

    def tool(self, command: Any, *args: str) -> int:
        return self._said(dropin.outcome(command, args))

    def _said(self, code: int) -> int:
        self.out, self.err = self.capsys.readouterr()
        return code

    def node(self, partition: int, group: str = "g") -> str | None:
        found = self.f.zk.nodes.get(f"/consumers/{group}/offsets/t/{partition}")
        return None if found is None else found.data.decode()

    def kafka(self, partition: int, group: str = "g") -> int | None:
        found = self.f.kafka.committed.get((1, group, "t", partition))
        return None if found is None else found[0]

    @property
    def undo(self) -> Path:
        (found,) = self.folder.glob("undo-*.json")
        return found


Start = Callable[..., Cluster]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[Start]:
    """cluster(topics, nodes): commands run in tmp_path on fakes of both stores."""
    monkeypatch.chdir(tmp_path)
    open_ones: list[Any] = []

    def start(topics: Mapping[str, int], nodes: Mapping[str, bytes]) -> Cluster:
        context = fakes(topics, nodes, ends={tp: end for tp, end in ENDS.items() if tp[0] in topics})
        f = context.__enter__()
        open_ones.append(context)

        @contextmanager
        def connected(zookeeper: object, kafka_version: str = "0.8.2") -> Iterator[Connection]:
            with clear_errors():
                assert f.world.session is not None
                yield Connection(f.world.session, f.world.links, f.world.dialect)

        monkeypatch.setattr(editoptions, "connected", connected)
        return Cluster(f, tmp_path, capsys)

    yield start
    for context in open_ones:
        context.__exit__(None, None, None)


# set ------------------------------------------------------------------------------------------------------------------


def test_a_plan_writes_nothing(cluster: Start):
    c = cluster(BOTH, {f"{G}/offsets/t/0": b"5"})
    for more in ((), ("--execute", "--dry-run")):
        assert c.run(*WRITE, "t:0=7", *more) == 0
        assert "only a plan" in c.err
        assert c.node(0) == "5"
        assert os.listdir() == []
    assert "5      7  write" in c.out


def test_execute_writes_reads_back_and_leaves_the_way_back(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5"})
    assert c.run(*WRITE, "t:0=7", "t:1=8", "--execute") == 0
    assert (c.node(0), c.node(1)) == ("7", "8")
    assert "2 of 2 offsets written and read back" in c.err
    undo = c.undo
    assert f"undo: zkconsumer offsets import {undo.name} -z fake:2181 --kafka-version 0.8.2 --execute" in c.err
    assert c.run("import", undo.name, "-z", "zk", "--execute", "--undo-dir", "more") == 0
    assert (c.node(0), c.node(1)) == ("5", None)


def test_a_group_with_positions_in_both_stores_gets_both(cluster: Start):
    c = cluster(BOTH, {f"{G}/offsets/t/0": b"5"})
    c.f.kafka.committed[1, "g", "t", 0] = (50, "")
    assert c.run(*WRITE, "t:0=7", "--execute") == 0
    assert (c.node(0), c.kafka(0)) == ("7", 7)
    (row,) = read_offsets(c.undo.read_text()).rows
    assert row.zookeeper is not None
    assert row.kafka is not None
    assert (row.zookeeper.offset, row.kafka.offset) == (5, 50)


def test_one_store_alone_is_written_where_that_is_said_and_the_other_is_mentioned(cluster: Start):
    c = cluster(BOTH, {f"{G}/offsets/t/0": b"5"})
    c.f.kafka.committed[1, "g", "t", 0] = (50, "")
    assert c.run(*WRITE, "t:0=7", "--store", "zookeeper", "--execute") == 0
    assert (c.node(0), c.kafka(0)) == ("7", 50)
    assert "has positions in kafka too" in c.err


def test_a_dual_member_decides_for_both_before_anything_is_committed(cluster: Start):
    c = cluster(BOTH, {f"{G}/modes/m": b'{"version":"1","mode":"dual"}', f"{G}/offsets/t/0": b"5"})
    assert c.run(*WRITE, "t:0=7", "--execute") == 0
    assert (c.node(0), c.kafka(0)) == ("7", 7)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (f"{G}/ids/m", "members m"),
        (f"{G}/owners/t/0", "owners of 1 partition"),
        (f"{G}/owners/t/1-0", "owner nodes of another client"),
    ],
)
def test_an_active_group_is_refused_unless_it_is_forced(cluster: Start, path: str, said: str):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5", path: b"m-0"})
    assert c.run(*WRITE, "t:0=7", "--execute") == EXIT["refused"]
    assert said in c.err
    assert c.node(0) == "5"
    assert os.listdir() == []
    assert c.run(*WRITE, "t:0=7", "--execute", "--force-active") == 0
    assert c.node(0) == "7"


def test_outside_the_log_is_refused_clamped_or_skipped(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5"})
    assert c.run(*WRITE, "t:0=7", "t:1=101", "--execute") == EXIT["refused"]
    assert "101 lies outside the log, which holds 0 to 100" in c.err
    assert c.node(0) == "5"
    assert c.run(*WRITE, "t:0=7", "t:1=101", "--execute", "--skip-out-of-range") == 0
    assert (c.node(0), c.node(1)) == ("7", None)
    assert c.run(*WRITE, "t:1=101", "--execute", "--clamp") == 0
    assert c.node(1) == "100"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("t:0=-1",), "is negative"),
        (("t=1",), "which partitions"),
        (("t:0=1", "--clamp", "--skip-out-of-range"), "give one"),
        (("t:0=1", "--retention", "30"), "no unit"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(cluster: Start, args: tuple[str, ...], said: str):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5"})
    assert c.run(*WRITE, *args, "--execute") == EXIT["usage"]
    assert said in c.err
    assert c.node(0) == "5"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("set", "t:9=1"), "t/9 does not exist"),
        (("set", "no:0=1"), "no/0 does not exist"),
        (("reset", "--topic", "t:9", "--to-latest"), "t/9 does not exist (2 partitions)"),
        (("reset", "--topic", "no", "--to-latest"), "topic no does not exist"),
    ],
)
def test_a_topic_or_partition_that_is_not_there_ends_as_an_unknown_group_does(
    cluster: Start, args: tuple[str, ...], said: str
):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5"})
    assert c.run(*args, "-z", "zk", "--group", "g", "--execute") == EXIT["not found"]
    assert said in c.err
    assert c.node(0) == "5"


def test_neither_zookeeper_nor_brokers_is_a_usage_error(cluster: Start):
    c = cluster({"t": 2}, {})
    assert c.run("get", "--group", "g") == EXIT["usage"]
    assert "-z (ZooKeeper) or -b is missing" in c.err


def importing(c: Cluster) -> tuple[str, ...]:
    Path("seven").write_text("t,0,7\n")
    return ("offsets", "import", "seven", "-z", "zk", "--group", "g")


@pytest.mark.parametrize(
    ("args", "after"),
    [
        (("offsets", *WRITE, "t:0=7"), "7"),
        (("offsets", "reset", "-z", "zk", "--group", "g", "--topic", "t:0", "--to-earliest"), "0"),
        (("offsets", "delete", "-z", "zk", "--group", "g", "--topic", "t:0"), None),
        (("offsets", "copy-group", "other", "g", "-z", "zk", "--merge"), "6"),
        (importing, "7"),
        (("groups", "delete", "-z", "zk", "--group", "g"), None),
    ],
)
@pytest.mark.parametrize("data", [b"what", b"\xff\xfe 7", b""])
def test_each_command_repairs_a_node_that_holds_no_offset_and_its_undo_file_restores_the_bytes(
    cluster: Start, args: Any, after: str | None, data: bytes
):
    path = f"{G}/offsets/t/0"
    c = cluster({"t": 2}, {path: data, "/consumers/other/offsets/t/0": b"6"})
    assert outcome([*(args(c) if callable(args) else args), "--execute"]) == 0
    assert c.node(0) == after
    assert c.run("import", c.undo.name, "-z", "zk", "--execute", "--undo-dir", "more") == 0
    assert c.f.zk.nodes[path].data == data


def test_what_is_copied_must_be_an_offset_and_the_refusal_names_what_repairs_it(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"what"})
    for command in (("offsets", "copy-group", "g", "h"), ("groups", "rename", "g", "h")):
        assert c._said(outcome([*command, "-z", "zk", "--execute"])) == EXIT["refused"]
        assert "`zkconsumer offsets set` corrects it" in c.err
    assert c.node(0) == "what"


def test_a_store_that_does_not_answer_is_not_overwritten(cluster: Start):
    c = cluster(BOTH, {f"{G}/offsets/t/0": b"5"})
    c.f.kafka.script("offset_fetch", *[Fail(12)] * 4)
    assert c.run(*WRITE, "t:0=7", "--execute") == EXIT["refused"]
    assert "cannot be read, so it could not be brought back" in c.err
    assert "--clamp" not in c.err
    assert c.node(0) == "5"


def test_what_kafka_refuses_is_not_written_to_zookeeper_and_ends_with_4(cluster: Start):
    c = cluster(BOTH, {f"{G}/offsets/t/0": b"5"})
    c.f.kafka.committed[1, "g", "t", 0] = (50, "")
    c.f.kafka.script("offset_commit", Fail(12, ("t", 0)))
    assert c.run(*WRITE, "t:0=7", "--execute") == EXIT["partly"]
    assert c.node(0) == "5"
    assert "failed" in c.err


def test_an_undo_folder_that_cannot_be_written_stops_before_the_first_write(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5"})
    Path("file").write_text("")
    assert c.run(*WRITE, "t:0=7", "--execute", "--undo-dir", "file/below") == EXIT["runtime"]
    assert c.node(0) == "5"


# reset ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "after"),
    [
        (("--to-earliest",), ("0", "0")),
        (("--to-latest",), ("100", "100")),
        (("--to-current",), ("5", "100")),
        (("--to-offset", "42"), ("42", "42")),
    ],
)
def test_reset_kinds(cluster: Start, kind: tuple[str, ...], after: tuple[str, str]):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5"})
    assert c.run("reset", "-z", "zk", "--group", "g", "--topic", "t", *kind, "--execute") == 0
    assert (c.node(0), c.node(1)) == after


def test_a_file_with_two_positions_for_a_partition_resets_nothing(cluster: Start):
    """One row that names the group, one that names none: both are the group's."""
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5"})
    row = '{"topic": "t", "partition": 0, "position": %d%s}'
    rows = ", ".join((row % (7, ', "group": "g"'), row % (8, "")))
    Path("f.json").write_text(f'{{"format": "zkconsumer.offsets/1", "partitions": [{rows}]}}')
    assert c.run("reset", "-z", "zk", "--group", "g", "--from-file", "f.json", "--execute") == EXIT["usage"]
    assert "the file has two positions for t/0 of group g: name the group of each row" in c.err
    assert c.node(0) == "5"


def test_a_shift_moves_what_is_committed_and_refuses_what_is_not(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"50"})
    reset = ("reset", "-z", "zk", "--group", "g", "--shift-by", "-20", "--execute")
    assert c.run(*reset, "--topic", "t") == EXIT["refused"]
    assert "no committed position to shift" in c.err
    assert c.run(*reset, "--topic", "t:0") == 0
    assert c.node(0) == "30"


def test_a_reset_from_a_file_of_another_tool(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"50"})
    Path("f.csv").write_text("t,0,11\nt,1,12\n")
    assert c.run("reset", "-z", "zk", "--group", "g", "--from-file", "f.csv", "--execute") == 0
    assert (c.node(0), c.node(1)) == ("11", "12")


@pytest.mark.parametrize(
    "args",
    [
        ("--topic", "t"),
        ("--topic", "t", "--to-latest", "--to-earliest"),
        ("--to-latest",),
        ("--to-latest", "--all-topics", "--topic", "t"),
        ("--topic", "t", "--to-datetime", "yesterday"),
    ],
)
def test_a_reset_that_leaves_a_choice_is_a_usage_error(cluster: Start, args: tuple[str, ...]):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"50"})
    assert c.run("reset", "-z", "zk", "--group", "g", *args, "--execute") == EXIT["usage"]
    assert c.node(0) == "50"


# lag ------------------------------------------------------------------------------------------------------------------


def test_lag_of_a_group_is_what_its_members_would_begin_at(cluster: Start):
    c = cluster(BOTH, {f"{G}/offsets/t/0": b"5", f"{G}/offsets/t/1": b"100"})
    c.f.kafka.committed[1, "g", "t", 0] = (60, "")
    assert c.lag("--group", "g", "--threshold", "40", "-o", "json") == 0
    rows = [(r["partition"], r["committed"], r["lag"], r["store"]) for r in json.loads(c.out)]
    assert rows == [(0, 60, 40, "kafka"), (1, 100, 0, "zookeeper")]
    assert "group g: 40 messages behind, in 2 partitions, 0 unknown\n" in c.err
    assert c.lag("--group", "g", "--threshold", "39") == EXIT["exceeded"]
    c.f.kafka.committed[1, "g", "t", 1] = (100, "")
    assert c.lag("--group", "g", "-o", "json") == 0
    assert [(r["store"], r["age"]) for r in json.loads(c.out)][1] == ("both", "90m")


def test_what_zookeeper_had_before_a_migration_took_the_group_off_it_does_not_count(cluster: Start):
    marker = b'{"version":"1","plan":"0123456789abcdef","phase":"cutover","at_ms":"1700000000000"}'
    c = cluster(BOTH, {f"{G}/offsets/t/0": b"100", f"{G}/migration": marker})
    c.f.kafka.committed[1, "g", "t", 0] = (10, "")
    assert c.lag("--group", "g", "--threshold", "89") == EXIT["exceeded"]
    assert "group g is 90 messages behind, more than 89" in c.err


def test_a_committed_offset_that_cannot_be_read_is_unknown_and_no_success(cluster: Start):
    c = cluster(BOTH, {f"{G}/offsets/t/0": b"100", f"{G}/offsets/t/1": b"99"})
    c.f.kafka.script("offset_fetch", *[Fail(12)] * 4)
    assert c.lag("--group", "g", "--threshold", "1000") == EXIT["partly"]
    assert "group g: its lag is not known, in 2 partitions, 2 unknown" in c.err
    assert "group g: the lag of 2 partitions is not known" in c.err
    assert c.lag("--threshold", "1000", "-o", "json") == EXIT["partly"]
    assert json.loads(c.out) == [{"group": "g", "members": 0, "partitions": 2, "lag": None, "unknown": 2}]
    assert "OffsetFetch" in c.err or "group g, t/0" in c.err


def test_of_some_unknown_partitions_the_sum_is_at_least_that(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"99", f"{G}/offsets/t/1": b"strange"})
    assert c.lag("--group", "g", "--threshold", "5") == EXIT["partly"]
    assert "group g: at least 1 message behind, in 2 partitions, 1 unknown" in c.err
    assert "group g: the lag of 1 partition is not known" in c.err


def test_a_group_without_any_committed_offset_is_not_0_behind(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t": b"", f"{G}/owners/t/0": b"g_host-1-0"})
    assert c.lag("--group", "g", "--threshold", "5") == EXIT["partly"]
    assert "group g: its lag is not known, in 2 partitions, 0 unknown, 2 without a committed offset" in c.err
    assert "group g: its lag is not known, no partition has a committed offset" in c.err


def test_an_empty_log_without_a_committed_offset_is_no_lag(cluster: Start):
    c = cluster({"quiet": 1}, {f"{G}/owners/quiet/0": b"g_host-1-0"})
    assert c.lag("--group", "g", "--threshold", "0") == 0
    assert "group g: 0 messages behind, in 1 partition, 0 unknown\n" in c.err


def test_an_offset_of_a_deleted_topic_is_no_lag_and_is_named_with_what_removes_it(cluster: Start):
    c = cluster(
        {"t": 2}, {f"{G}/offsets/gone/0": b"5", f"{G}/offsets/t/0": b"90", "/consumers/old/offsets/gone/0": b"5"}
    )
    assert c.lag("--threshold", "20", "-o", "json") == 0
    assert json.loads(c.out) == [
        {"group": "g", "members": 0, "partitions": 2, "lag": 10, "unknown": 0},
        {"group": "old", "members": 0, "partitions": 0, "lag": None, "unknown": 0},
    ]
    assert "`zkconsumer offsets delete --group g --topic gone` removes them" in c.err
    assert c.lag("--group", "g", "--threshold", "20") == 0
    assert "gone/0 does not exist (any more)" in c.err
    assert "group g: 10 messages behind, in 2 partitions, 0 unknown" in c.err


def test_what_removes_offsets_of_deleted_partitions_leaves_the_others_of_their_topic(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"90", f"{G}/offsets/t/5": b"7", f"{G}/offsets/t/6": b"7"})
    assert c.lag() == 0
    assert "`zkconsumer offsets delete --group g --topic t:5,6` removes them" in c.err  # t:0 stays
    assert c.run("delete", "-z", "zk", "--group", "g", "--topic", "t:5,6", "--execute") == 0
    assert (c.node(0), c.node(5), c.node(6)) == ("90", None, None)


def test_a_topic_whose_node_cannot_be_read_is_not_taken_for_a_deleted_one(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/odd/0": b"5", f"{G}/offsets/t/0": b"90", "/brokers/topics/odd": b""})
    assert c.lag("--threshold", "20") == EXIT["partly"]
    assert "group g: the lag of 1 partition is not known" in c.err


def test_an_offset_beyond_the_end_is_unknown_lag_and_retention_takes_off_it(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"120", f"{G}/offsets/t/1": b"90", "/consumers/h/offsets/t/0": b"3"})
    c.f.kafka.logs["t", 0].empty_at = 60
    assert c.lag("--threshold", "50", "-o", "json") == EXIT["partly"]
    assert [(row["group"], row["lag"], row["unknown"]) for row in json.loads(c.out)] == [("g", 10, 1), ("h", 40, 0)]
    assert "group g: the committed offset of t/0 is beyond the end of the log" in c.err
    assert "group h: 57 messages behind its committed offsets were deleted by retention" in c.err


STORM = b'{"topology":{"id":"x"},"offset":4285,"partition":0,"topic":"t"}'


@pytest.mark.parametrize(
    ("nodes", "code"),
    [
        ({f"{G}/ids/m": b"{}"}, "partly"),
        ({f"{G}/partition_0": STORM}, "partly"),
        ({f"{G}/offsets/partition_0": STORM}, "partly"),
        ({f"{G}/ids": b""}, "done"),  # left over: nothing reads in its name
    ],
)
def test_a_group_of_which_nothing_is_known_is_not_0_behind(cluster: Start, nodes: dict[str, bytes], code: str):
    c = cluster({"t": 2}, nodes)
    assert c.lag("--threshold", "5", "-o", "json") == EXIT[code]
    (row,) = json.loads(c.out)
    assert row["lag"] is None


def test_lag_of_a_group_that_nobody_knows_is_not_found(cluster: Start):
    c = cluster(BOTH, {f"{G}/offsets/t/0": b"100"})
    assert c.lag("--group", "nobody") == EXIT["not found"]
    assert "group nobody is not known to ZooKeeper at fake:2181 or Kafka" in c.err


# get, export, import, diff --------------------------------------------------------------------------------------------


def test_get_has_a_row_for_each_store_and_none_is_null(cluster: Start):
    c = cluster(BOTH, {f"{G}/offsets/t/0": b"5"})
    c.f.kafka.committed[1, "g", "t", 0] = (120, "")
    assert c.run("get", "-z", "zk", "--group", "g", "-o", "json") == 0
    rows = [(r["partition"], r["committed"], r["lag"], r["store"]) for r in json.loads(c.out)]
    assert rows == [(0, 5, 95, "zookeeper"), (0, 120, -20, "kafka"), (1, None, None, None)]
    assert json.loads(c.out)[0]["age"] == "90m"
    assert "t/0: 120 in kafka lies outside the log, which holds 0 to 100" in c.err


def test_what_kafka_did_not_tell_names_its_group_once(cluster: Start):
    c = cluster(BOTH, {f"{G}/offsets/t/0": b"5"})
    c.f.kafka.script("offset_fetch", Fail(12))
    assert c.run("get", "-z", "zk", "--group", "g") == 0
    assert "unreadable" in c.out
    assert c.err.count("group g") == c.err.count("t/0") + c.err.count("t/1") > 0
    c.f.kafka.script("offset_fetch", Fail(12))
    assert c.run("export", "-z", "zk", "--group", "g", "--store", "kafka") == 0
    assert c.err.count("group g, t/0") == 1
    assert "t/0: group g" not in c.err


def test_a_topic_that_was_made_again_is_told(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5"})
    c.f.zk.delete("/brokers/topics/t")
    c.f.zk.set("/brokers/topics/t", b'{"partitions":{"0":[1],"1":[1]}}')
    assert c.run("get", "-z", "zk", "--group", "g") == 0
    assert "a position of another log" in c.err


def test_a_deleted_topic_is_shown_and_can_be_cleaned_away(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/gone/0": b"5", f"{G}/offsets/t/0": b"5"})
    assert c.run("get", "-z", "zk", "--group", "g") == 0
    assert "gone/0 does not exist" in c.err
    assert c.run("delete", "-z", "zk", "--group", "g", "--topic", "gone", "--execute") == 0
    assert f"{G}/offsets/gone/0" not in c.f.zk.nodes
    assert c.node(0) == "5"


def test_a_group_nobody_knows_is_not_found(cluster: Start):
    c = cluster(BOTH, {})
    for command in ("get", "export"):
        assert c.run(command, "-z", "zk", "--group", "g") == EXIT["not found"]
    assert c.run("delete", "-z", "zk", "--group", "g", "--all-topics") == EXIT["not found"]
    assert c.run("reset", "-z", "zk", "--group", "g", "--all-topics", "--to-latest") == EXIT["not found"]
    assert c.run("reset", "-z", "zk", "--group", "g", "--topic", "t", "--to-latest") == 0
    assert "group g is not known yet" in c.err


@pytest.mark.parametrize("form", ["json", "csv", "zk-export"])
def test_what_is_exported_is_imported(cluster: Start, form: str):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5", "/consumers/h/offsets/t/1": b"6"})
    assert c.run("export", "-z", "zk", "-o", form) == 0
    Path("saved").write_text(c.out)
    c.f.zk.set(f"{G}/offsets/t/0", b"70")
    c.f.zk.delete("/consumers/h")
    assert c.run("import", "saved", "-z", "zk", "--execute") == 0
    assert (c.node(0), c.node(1), c.node(1, "h")) == ("5", None, "6")


def test_an_export_puts_back_each_store_its_own(cluster: Start):
    c = cluster(BOTH, {f"{G}/offsets/t/0": b"5"})
    c.f.kafka.committed[1, "g", "t", 0] = (50, "by hand")
    assert c.run("export", "-z", "zk", "--group", "g") == 0
    Path("saved").write_text(c.out)
    assert c.run(*WRITE, "t:0=7", "--execute", "--undo-dir", "more") == 0
    assert c.run("import", "saved", "-z", "zk", "--execute") == 0
    assert (c.node(0), c.f.kafka.committed[1, "g", "t", 0]) == ("5", (50, "by hand"))


def test_a_file_without_a_group_needs_one(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5"})
    Path("f.csv").write_text("t,0,11\n")
    assert c.run("import", "f.csv", "-z", "zk", "--execute") == EXIT["usage"]
    assert c.run("import", "f.csv", "-z", "zk", "--group", "g", "--execute") == 0
    assert c.node(0) == "11"


def test_a_file_nobody_can_read_is_a_usage_error_with_its_line(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5"})
    Path("f.csv").write_text("t,0,11\nt,one,2\n")
    assert c.run("import", "f.csv", "-z", "zk", "--group", "g", "--execute") == EXIT["usage"]
    assert "line 2" in c.err
    assert c.node(0) == "5"


def test_diff_of_stores_and_of_files(cluster: Start):
    c = cluster(BOTH, {f"{G}/offsets/t/0": b"5", f"{G}/offsets/t/1": b"6"})
    c.f.kafka.committed[1, "g", "t", 0] = (8, "")
    c.f.kafka.committed[1, "g", "t", 1] = (6, "")
    assert c.run("diff", "-z", "zk", "--group", "g", "-o", "json") == EXIT["partly"]
    (row,) = json.loads(c.out)
    assert (row["partition"], row["left"], row["right"], row["differ"]) == (0, 5, 8, 3)
    Path("a").write_text("t,0,8\nt,1,6\n")
    assert c.run("diff", "a", "-z", "zk", "--group", "g") == 0
    Path("b").write_text("t,0,8\n")
    assert c.run("diff", "a", "b", "--group", "g") == EXIT["partly"]
    assert "1 of 2 partitions differ" in c.err


def test_a_file_of_another_cluster_is_told(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5"})
    assert c.run("export", "-z", "zk", "--group", "g") == 0
    Path("saved").write_text(c.out.replace("fake:2181", "other:2181"))
    assert c.run("import", "saved", "-z", "zk") == 0
    assert "is from other:2181, and will be written to fake:2181" in c.err


def test_the_way_back_is_told_before_the_first_write(cluster: Start, monkeypatch: pytest.MonkeyPatch):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5"})
    monkeypatch.setattr(offsetedit, "apply_writes", lambda *args, **named: [])  # nothing is written, as if interrupted
    monkeypatch.setattr(offsetedit, "report", lambda done: offsetedit.fail("interrupted"))
    assert c.run(*WRITE, "t:0=7", "--execute") == EXIT["runtime"]
    assert c.err.index("undo: zkconsumer offsets import") < c.err.index("interrupted")


# delete, copy, rename, groups -----------------------------------------------------------------------------------------


def test_delete_says_that_kafka_takes_its_time(cluster: Start):
    c = cluster(BOTH, {f"{G}/offsets/t/0": b"5"})
    c.f.kafka.committed[1, "g", "t", 0] = (50, "")
    assert c.run("delete", "-z", "zk", "--group", "g", "--all-topics", "--execute") == EXIT["partly"]
    assert c.node(0) is None
    assert "until then it is still read" in c.err


def test_copy_takes_each_store_along_and_refuses_a_group_that_has_something(cluster: Start):
    c = cluster(BOTH, {f"{G}/offsets/t/0": b"5", "/consumers/full/offsets/t/0": b"1"})
    c.f.kafka.committed[1, "g", "t", 0] = (50, "text")
    assert c.run("copy-group", "g", "new", "-z", "zk", "--execute") == 0
    assert (c.node(0, "new"), c.f.kafka.committed[1, "new", "t", 0]) == ("5", (50, "text"))
    assert (c.node(0), c.kafka(0)) == ("5", 50)
    assert c.run("copy-group", "g", "full", "-z", "zk", "--execute") == EXIT["refused"]
    assert c.node(0, "full") == "1"
    assert c.run("copy-group", "g", "full", "-z", "zk", "--execute", "--merge", "--store", "zookeeper") == 0
    assert c.node(0, "full") == "50"  # what counts


def test_a_group_is_not_copied_or_renamed_to_itself(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5"})
    assert c.run("copy-group", "g", "g", "-z", "zk", "--merge", "--execute") == EXIT["usage"]
    assert c.groups("rename", "g", "g", "-z", "zk", "--execute") == EXIT["usage"]
    assert "g is named twice" in c.err
    assert c.node(0) == "5"


def test_a_group_is_renamed(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5", f"{G}/ids": b"", f"{G}/owners/t": b""})
    assert c.groups("rename", "g", "new", "-z", "zk", "--execute") == 0
    assert c.node(0, "new") == "5"
    assert G not in c.f.zk.nodes


def test_an_active_group_is_neither_renamed_nor_deleted(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5", f"{G}/ids/m": b"{}"})
    assert c.groups("rename", "g", "new", "-z", "zk", "--execute") == EXIT["refused"]
    assert c.groups("delete", "--group", "g", "-z", "zk", "--execute") == EXIT["refused"]
    assert c.node(0) == "5"
    assert c.node(0, "new") is None


def test_the_undo_file_of_a_deleted_group_has_what_was_deleted(cluster: Start, monkeypatch: pytest.MonkeyPatch):
    """It had the offsets of before the question, and of many groups at once not those of topics that only Kafka knows,
    which DeleteGroups deletes too."""
    c = cluster({**BOTH, "u": 1}, {f"{G}/offsets/t/0": b"5"})
    c.f.kafka.committed[1, "g", "u", 0] = (3, "")
    monkeypatch.setattr(reader, "WIDE", 0)
    monkeypatch.setattr(groupedit, "deletes_groups", lambda admin: True)

    def commits_meanwhile(execute: bool, what: str, dry_run: bool) -> bool:
        c.f.zk.set(f"{G}/offsets/t/0", b"9")
        return True

    monkeypatch.setattr(groupedit, "go_ahead", commits_meanwhile)
    c.groups("delete", "-z", "zk", "--group", "g", "--execute")
    assert f"{G}/offsets/t/0" not in c.f.zk.nodes
    assert {(row.tp.topic, row.position) for row in read_offsets(c.undo.read_text()).rows} == {("t", 9), ("u", 3)}


def test_unblock_leaves_a_partition_alone_that_a_member_claimed_while_the_operator_was_asked(
    cluster: Start, monkeypatch: pytest.MonkeyPatch
):
    """A node that is made again has version 0 like the one that was read: a live member's owner node was deleted."""
    left, other = f"{G}/owners/t/0", f"{G}/owners/t/1"
    c = cluster({"t": 2}, {left: b"dead-0", other: b"dead-1"})
    monkeypatch.setattr(unblock, "connected", editoptions.connected)

    def claims_meanwhile(execute: bool, what: str, dry_run: bool) -> bool:
        c.f.zk.delete(left)
        c.f.zk.set(left, b"live-0")
        c.f.zk.nodes[left].ephemeralOwner = 7
        return True

    monkeypatch.setattr(unblock, "go_ahead", claims_meanwhile)
    assert c.groups("unblock", "-z", "zk", "--group", "g", "--execute") == EXIT["partly"]
    assert f"1 node changed meanwhile and not deleted, the first {left}" in c.err
    assert (c.f.zk.nodes[left].data, other in c.f.zk.nodes) == (b"live-0", False)
    assert [row["path"] for row in json.loads(c.undo.read_text())["nodes"]] == [other]


def test_groups_are_deleted_by_expression_and_age_and_come_back(cluster: Start):
    c = cluster({"t": 2}, {f"/consumers/{name}/offsets/t/0": b"5" for name in ("old1", "old2", "young", "other")})
    for name in ("old1", "old2", "other"):
        c.f.zk.nodes[f"/consumers/{name}/offsets/t/0"].mtime -= 40 * DAY
    args = ("delete", "-z", "zk", "--group", "old.*", "--group", "young", "--regex", "--inactive-for", "30d")
    assert c.groups(*args) == 0
    assert [c.node(0, name) for name in ("old1", "old2", "young")] == ["5"] * 3
    assert not [call for call in c.f.zk.calls if call[0] not in ("get", "list")]
    assert c.groups(*args, "--execute") == 0
    assert [c.node(0, name) for name in ("old1", "old2", "young", "other")] == [None, None, "5", "5"]
    assert c.run("import", c.undo.name, "-z", "zk", "--execute", "--undo-dir", "more") == 0
    assert [c.node(0, name) for name in ("old1", "old2")] == ["5", "5"]


def test_a_group_that_never_committed_goes_by_the_age_of_its_node_but_not_one_with_nodes_of_others(cluster: Start):
    c = cluster(
        {"t": 2}, {"/consumers/none/ids": b"", "/consumers/new/ids": b"", "/consumers/storm/partition_0": STORM}
    )
    for name in ("none", "storm"):
        c.f.zk.nodes[f"/consumers/{name}"].ctime -= 40 * DAY
    args = ("delete", "-z", "zk", "--group", ".*", "--regex", "--inactive-for", "30d", "-o", "json", "--execute")
    assert c.groups(*args) == 0
    rows = {row["group"]: (row["youngest"], row["action"]) for row in json.loads(c.out)}
    assert rows == {"none": ("40d", "delete"), "new": ("90m", "left alone"), "storm": (None, "left alone")}
    assert sorted(c.f.zk.below("/consumers")) == ["new", "storm"]


def test_no_group_is_deleted_for_its_age_by_a_clock_that_is_ahead_of_zookeepers(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5"})
    for node in c.f.zk.nodes.values():
        node.mtime -= 40 * DAY
    c.f.zk.now_ms -= 39 * DAY
    args = ("delete", "-z", "zk", "--group", "g", "--inactive-for", "30d", "--execute")
    assert c.groups(*args) == EXIT["refused"]
    assert "ahead of ZooKeeper's, by which group g was written 24h ago: nothing was deleted" in c.err
    assert (c.node(0), f"{G}/deleting" in c.f.zk.nodes) == ("5", False)


def test_describe_shows_both_stores_and_a_stale_number_hides_none(cluster: Start):
    c = cluster(BOTH, {f"{G}/offsets/t/0": b"50"})
    c.f.kafka.committed[1, "g", "t", 0] = (3, "")
    c.f.kafka.committed[1, "g", "t", 1] = (9, "")
    assert c.groups("describe", "-z", "zk", "--group", "g", "-o", "json") == 0
    rows = [(r["partition"], r["committed"], r["store"], r["age"]) for r in json.loads(c.out)]
    assert rows == [(0, 50, "zookeeper", "90m"), (0, 3, "kafka", None), (1, 9, "kafka", None)]


def test_list_finds_groups_that_only_kafka_has(cluster: Start, monkeypatch: pytest.MonkeyPatch):
    c = cluster(BOTH, {f"{G}/offsets/t/0": b"50"})
    assert c.groups("list", "-z", "zk", "-o", "json") == 0
    assert json.loads(c.out) == [{"group": "g", "members": 0, "topics": 1}]
    monkeypatch.setattr(groups, "kafka_groups", lambda world: {"g": (1, None), "k": (2, None)})
    assert c.groups("list", "-z", "zk", "-b", "127.0.0.1:1", "-o", "json") == 0
    assert [(r["group"], r["topics"], r["store"]) for r in json.loads(c.out)] == [("g", 1, "both"), ("k", 2, "kafka")]


# Kafka's own spellings ------------------------------------------------------------------------------------------------


def test_export_and_import_as_kafkas_tools_take_them(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5"})
    assert c.tool(dropin.offset_export, "--zkconnect", "zk", "--group", "g", "--output-file", "out") == 0
    assert Path("out").read_text() == "/consumers/g/offsets/t/0:5\n"
    Path("in").write_text("/consumers/g/offsets/t/0:7\n")
    assert c.tool(dropin.offset_import, "--zkconnect=zk", "--input-file", "in") == EXIT["refused"]
    assert "requires --execute" in c.err
    assert c.node(0) == "5"
    assert c.tool(dropin.offset_import, "--zkconnect=zk", "--input-file", "in", "--execute") == 0
    assert c.node(0) == "7"


def test_kafkas_spelling_offers_what_it_has_for_positions_outside_the_log(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5"})
    Path("f").write_text(f"{G}/offsets/t/0:101\n")
    put = ("--zkconnect", "zk", "--input-file", "f", "--execute")
    assert c.tool(dropin.offset_import, *put) == EXIT["refused"]
    assert "--keep-out-of-range" in c.err
    assert "--clamp" not in c.err
    assert c.tool(dropin.offset_import, *put, "--keep-out-of-range") == 0
    assert c.node(0) == "101"


def test_an_export_that_cannot_be_written_is_one_sentence(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5"})
    assert c.tool(dropin.offset_export, "--zkconnect", "zk", "--output-file", "nowhere/f") == EXIT["runtime"]
    assert c.err.strip().endswith("cannot be written to nowhere/f: No such file or directory")


def test_the_checker_prints_its_columns(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5", f"{G}/owners/t/0": b"g_h-1-0"})
    assert c.tool(dropin.offset_checker, "--zookeeper", "zk", "--group", "g", "--topic", "t") == 0
    lines = [line.split() for line in c.out.splitlines()]
    assert lines[0] == ["Group", "Topic", "Pid", "Offset", "logSize", "Lag", "Owner"]
    assert lines[1:] == [
        ["g", "t", "0", "5", "100", "95", "g_h-1-0"],
        ["g", "t", "1", "unknown", "100", "unknown", "none"],
    ]


def test_consumer_groups_lists_describes_resets_and_deletes(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5"})
    tool = dropin.consumer_groups
    assert c.tool(tool, "--zookeeper", "zk", "--list") == 0
    assert c.out == "g\n"
    assert c.tool(tool, "--zookeeper", "zk", "--describe", "--group", "g") == 0
    rows = [line.split()[:4] for line in c.out.splitlines()[1:] if line]
    assert rows == [["g", "t", "0", "5"], ["g", "t", "1", "-"]]
    assert [row.position for row in read_offsets("".join(",".join(row) + "\n" for row in rows)).rows] == [5, None]
    reset = ("--zookeeper", "zk", "--group", "g", "--topic", "t:0", "--reset-offsets", "--to-offset", "500", "--export")
    assert c.tool(tool, *reset) == 0
    assert c.out == "t,0,100\n"  # moved into the log, as Kafka does
    assert c.node(0) == "5"
    assert c.tool(tool, *reset, "--execute") == 0
    assert c.node(0) == "100"
    delete = ("--zookeeper", "zk", "--delete", "--group", "g")
    assert c.tool(tool, *delete) == EXIT["refused"]
    assert c.tool(tool, *delete, "--execute", "--undo-dir", "more") == 0
    assert G not in c.f.zk.nodes


@pytest.mark.parametrize("args", [(), ("--list", "--describe"), ("--describe",), ("--reset-offsets", "--group", "g")])
def test_consumer_groups_wants_one_thing(cluster: Start, args: tuple[str, ...]):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"5"})
    assert c.tool(dropin.consumer_groups, "--zookeeper", "zk", *args) == EXIT["usage"]
