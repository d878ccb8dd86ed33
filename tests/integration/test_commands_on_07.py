"""The commands of zkconsumer on 0.7: what they print, what they write and refuse, beside what the original's print."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from groupadmin.commands import dropin
from localkafka.seven import tools
from localkafka.seven.cluster import Cluster07
from localkafka.waiting import wait_until
from tests.integration.readers import wait_for_messages
from tests.integration.sevens import member, offsets
from tests.integration.test_consumer_commands import run
from zkconsumer.commands.cli import outcome

pytestmark = pytest.mark.real

TOPIC, GROUP = "orders", "billing"
PLAIN = [b"p%d" % n for n in range(6)]
WRAPPED = [b"w%d" % n for n in range(6)]


@pytest.fixture(scope="module")
def kind07() -> str:
    return "python"


@pytest.fixture
def cluster(cluster07: Callable[..., Cluster07]) -> Iterator[Cluster07]:
    """orders: 0-0 plain messages, 0-1 two wrappers of three, 3-0 nothing yet."""
    started = cluster07(partitions={0: 2, 3: 1})
    started.create_topic(TOPIC)
    started.produce(TOPIC, 0, 0, PLAIN)
    started.produce(TOPIC, 0, 1, WRAPPED, codec="gzip", batch=3)
    return started


class Commands:
    """`zkconsumer` in this process: a process of its own costs a second."""

    def __init__(self, cluster: Cluster07, capsys: pytest.CaptureFixture[str]) -> None:
        self._there = ("-z", cluster.zookeeper, "--kafka-version", "0.7")
        self._capsys = capsys

    def __call__(self, *args: str, code: int = 0, there: bool = True) -> Said:
        self._capsys.readouterr()
        ended = outcome([*args, *(self._there if there else ())])
        said = Said(*self._capsys.readouterr())
        assert ended == code, (ended, said)
        return said

    def rows(self, *args: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self(*args, "-o", "json").stdout)
        return found


class Said(NamedTuple):
    stdout: str
    stderr: str


@pytest.fixture
def on(cluster: Cluster07, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(cluster, capsys)


def tool(name: str, cluster: Cluster07, *args: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The output of one of the drop-ins."""
    command = {"checker": dropin.offset_checker, "export": dropin.offset_export}[name]
    assert dropin.outcome(command, ["--zookeeper", cluster.zookeeper, "--kafka-version", "0.7", *args]) == 0
    return capsys.readouterr().out


def test_a_cluster_is_told_by_zookeeper_alone(cluster: Cluster07, on: Commands) -> None:
    topics = on.rows("topics")
    assert [(row["partition"], row["leader"], row["replicas"]) for row in topics] == [
        ("0-0", 0, [0]),
        ("0-1", 0, [0]),
        ("3-0", 3, [3]),
    ]
    brokers = on.rows("brokers")
    assert [(row["broker"], row["port"], row["leads"]) for row in brokers] == [
        (node.id, node.port, leads) for node, leads in zip(cluster.nodes, (2, 1), strict=True)
    ]
    for command in (("topics",), ("brokers",), ("consume", "--topic", TOPIC, "--partition", "0-0")):
        said = on(*command, "-b", cluster.brokers, "--kafka-version", "0.7", code=2, there=False).stderr
        assert (
            "brokers of Kafka 0.7 do not know the topics and leaders of their cluster; ZooKeeper does: give -z alone"
            in said
        )
    assert (
        "is this a cluster of 0.7? Then name that release."
        in on("topics", "-z", cluster.zookeeper, code=1, there=False).stderr
    )


def test_messages_are_printed_by_group_and_by_partition(cluster: Cluster07, on: Commands) -> None:
    of_group = ("consume", "--group", GROUP, "--topic", TOPIC, "--from-beginning", "--max-messages", "12")
    assert sorted(_consume(cluster, *of_group).split()) == sorted(value.decode() for value in PLAIN + WRAPPED)
    ends = {str(p): end for p, end in cluster.ends(TOPIC).items()}
    found = offsets(cluster.zk(), GROUP, TOPIC)
    assert {"3-0": 0} | found == ends  # it may have ended before it heard where the empty partition begins
    one = ("consume", "--topic", TOPIC, "--partition", "0-1", "--offset", "smallest", "--max-messages", "6")
    lines = _consume(cluster, *one, "--print-offset").splitlines()
    wrapper = ends["0-1"] // 2
    assert lines == [f"{TOPIC}/0-1 {0 if n < 3 else wrapper}\tw{n}" for n in range(6)]
    assert (
        "the topic has 3 partitions, 0-0, 0-1, 3-0"
        in on("consume", "--topic", TOPIC, "--partition", "3-4", code=5).stderr
    )
    said = on("consume", "--topic", TOPIC, "--partition", "0", code=1).stderr
    assert "those of 0.7 belong to a broker" in said


def test_groups_are_described_in_bytes_and_verified(cluster: Cluster07, on: Commands) -> None:
    with member(cluster, GROUP, {TOPIC: 2}, consumer_id="a", auto_commit_interval_ms=100) as reader:
        done = on("verify-rebalance", GROUP, "--settle-s", "30")
        assert "1 member, 3 owned partitions, 0 faults" in done.stderr
        (listed,) = on.rows("groups", "members", "--group", GROUP)
        assert (listed["member"], listed["pattern"], listed["subscription"]) == (f"{GROUP}_a", "static", TOPIC)
        assert (listed["streams"], listed["mode"]) == (2, "zookeeper")
        wait_for_messages(len(PLAIN + WRAPPED), reader)
        wait_until(lambda: "3-0" in offsets(cluster.zk(), GROUP, TOPIC), 20, "a position in the empty partition")
    done = on("groups", "describe", "--group", GROUP, "-o", "json")
    ends = {str(p): end for p, end in cluster.ends(TOPIC).items()}
    assert {row["partition"]: (row["committed"], row["end"], row["lag"]) for row in json.loads(done.stdout)} == {
        name: (end, end, 0) for name, end in ends.items()
    }
    assert "bytes of the logs" in done.stderr
    cluster.produce(TOPIC, 3, 0, [b"x" * 90])
    assert f"group {GROUP}: 100 bytes behind, in 3 partitions" in on("lag", "--group", GROUP).stderr
    assert "100 bytes behind, more than 99" in on("lag", "--threshold", "99", code=6).stderr


def test_positions_are_written_only_where_messages_begin(cluster: Cluster07, on: Commands, tmp_path: Path) -> None:
    undo = ("--undo-dir", str(tmp_path), "--execute")
    end = cluster.end(TOPIC, 0, 0)
    step, wrapper = end // 6, cluster.end(TOPIC, 0, 1) // 2
    ok = ("offsets", "set", f"{TOPIC}:0-0={step}", f"{TOPIC}:0-1={wrapper}", "--group", GROUP, *undo)
    first = on(*ok)
    zk = cluster.zk()
    assert offsets(zk, GROUP, TOPIC) == {"0-0": step, "0-1": wrapper}
    for wrong in (f"{TOPIC}:0-0={step + 1}", f"{TOPIC}:0-1={wrapper + 9}"):
        said = on("offsets", "set", wrong, "--group", GROUP, *undo, code=3).stderr
        assert f"no message begins at {wrong.rpartition('=')[2]}" in said
    on("offsets", "set", f"{TOPIC}:0-0={end + 1}", "--group", GROUP, *undo, code=3)
    on("offsets", "reset", "--all-topics", "--to-latest", "--group", GROUP, *undo)
    assert offsets(zk, GROUP, TOPIC)["0-0"] == end
    assert (
        "offsets of 0.7 are bytes"
        in on("offsets", "reset", "--all-topics", "--shift-by", "-1", "--group", GROUP, code=2).stderr
    )
    undone = shlex.split(first.stderr.split("undo: zkconsumer ", 1)[1].splitlines()[0])
    on(*undone, "--undo-dir", str(tmp_path), there=False)
    assert offsets(zk, GROUP, TOPIC) == {"3-0": 0}  # what the first of them did is undone


def test_positions_are_saved_and_put_back_in_each_form(cluster: Cluster07, on: Commands, tmp_path: Path) -> None:
    zk = cluster.zk()
    wrapper = cluster.end(TOPIC, 0, 1) // 2
    for name, at in (("0-0", 0), ("0-1", wrapper), ("3-0", 0)):
        zk.create(f"/consumers/{GROUP}/offsets/{TOPIC}/{name}", b"%d" % at, makepath=True)
    for form in ("json", "zk-export"):
        file = tmp_path / form
        file.write_text(on("offsets", "export", "--group", GROUP, "-o", form).stdout)
        zk.set(f"/consumers/{GROUP}/offsets/{TOPIC}/0-1", b"0")
        on("offsets", "import", str(file), "--undo-dir", str(tmp_path), "--execute")
        assert offsets(zk, GROUP, TOPIC) == {"0-0": 0, "0-1": wrapper, "3-0": 0}
    assert (tmp_path / "zk-export").read_text().splitlines()[1] == (f"/consumers/{GROUP}/offsets/{TOPIC}/0-1:{wrapper}")
    assert "use zk-export or json" in on("offsets", "export", "--group", GROUP, "-o", "csv", code=1).stderr


def test_what_0_7_has_not_names_the_way(cluster: Cluster07, on: Commands) -> None:
    translate = "zkconsumer offsets translate"
    for refused, code in (
        (("offsets", "set", f"{TOPIC}:0-0=0", "--group", GROUP, "--store", "kafka"), 2),
        (("offsets", "get", "--group", GROUP, "--store", "both"), 2),
        (("migrate", "plan", "--group", GROUP, "--plan", "/tmp/none.json"), 3),
    ):
        said = on(*refused, code=code).stderr
        assert translate in said, said
    assert "give one or two files" in on("offsets", "diff", "--group", GROUP, code=2).stderr


@pytest.mark.kafka07
def test_the_drop_ins_print_what_the_originals_print(cluster, tmp_path: Path, capsys) -> None:
    zk = cluster.zk()
    for name, at in (("0-0", 9), ("0-1", 1234567), ("3-0", 0)):
        zk.create(f"/consumers/{GROUP}/offsets/{TOPIC}/{name}", b"%d" % at, makepath=True)
    zk.create(f"/consumers/{GROUP}/owners/{TOPIC}/0-1", b"billing_c-0", makepath=True)
    of_group = ("--group", GROUP)
    theirs = tools.run(cluster, "kafka.tools.ConsumerOffsetChecker", ["--zkconnect", cluster.zookeeper, *of_group])
    ours = tool("checker", cluster, *of_group, capsys=capsys)
    assert _without_brokers(ours) == _without_brokers(theirs)
    file = tmp_path / "theirs"
    export = ["--zkconnect", cluster.zookeeper, *of_group, "--output-file", str(file)]
    tools.run(cluster, "kafka.tools.ExportZkOffsets", export)
    exported = tool("export", cluster, *of_group, capsys=capsys)
    assert sorted(file.read_text().splitlines()) == exported.splitlines()
    mine = tmp_path / "ours"
    mine.write_text(exported)
    zk.set(f"/consumers/{GROUP}/offsets/{TOPIC}/0-0", b"0")
    tools.run(cluster, "kafka.tools.ImportZkOffsets", ["--zkconnect", cluster.zookeeper, "--input-file", str(mine)])
    assert offsets(zk, GROUP, TOPIC) == {"0-0": 9, "0-1": 1234567, "3-0": 0}


def _without_brokers(printed: str) -> tuple[list[str], list[str]]:
    """What is said of partitions; and of the brokers, whose order is a hash map's."""
    before, _, brokers = printed.partition("BROKER INFO\n")
    return before.splitlines(), sorted(brokers.splitlines())


def _consume(cluster: Cluster07, *args: str) -> str:
    """In a process of its own, for the sake of its signals and its standard output."""
    return run(*args, "-z", cluster.zookeeper, "--kafka-version", "0.7").stdout
