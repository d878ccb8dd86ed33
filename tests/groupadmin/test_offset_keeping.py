"""What commands about positions must not take away: what goes on elsewhere, and what a file does not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from groundwork.output import EXIT
from groupadmin.commands import dropin
from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC
from tests.fakes.broker import FakeCluster
from tests.groupadmin import test_offset_commands as commands
from tests.groupadmin.test_offset_commands import Start

cluster = commands.cluster  # the fixture
G = "/consumers/g"
BOTH = {"t": 2, OFFSETS_TOPIC: 1}


def test_a_group_that_went_on_in_kafka_is_not_deleted_for_its_old_nodes(cluster: Start):
    c = cluster(BOTH, {f"{G}/offsets/t/0": b"5"})
    c.f.zk.nodes[f"{G}/offsets/t/0"].mtime -= 40 * 86_400_000
    c.f.kafka.committed[1, "g", "t", 0] = (90, "")
    args = ("delete", "-z", "zk", "--group", "g", "--inactive-for", "30d", "--execute")
    assert c.groups(*args) == 0
    assert (c.node(0), c.kafka(0)) == ("5", 90)
    assert "how old they are: left alone" in c.err
    assert not c.f.kafka.seen("offset_commit")
    assert c.groups(*args, "--storage", "zookeeper") == 0
    assert (c.node(0), c.kafka(0)) == (None, 90)


def test_a_rename_that_would_leave_positions_behind_is_refused(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"50", f"{G}/offsets/t/1": b"500"})
    assert c.groups("rename", "g", "new", "-z", "zk", "--skip-out-of-range", "--execute") == EXIT["refused"]
    assert "use `zkconsumer offsets copy-group`" in c.err
    assert (c.node(0), c.node(1), c.node(0, "new")) == ("50", "500", None)
    assert c.groups("rename", "g", "new", "-z", "zk", "--clamp", "--execute") == 0
    assert (c.node(0), c.node(0, "new"), c.node(1, "new")) == (None, "50", "100")


# files ----------------------------------------------------------------------------------------------------------------

ROWS = "g,t,0,-\ng,t,1,7\n"
YELP = '{"groupid": "g", "offsets": {"t": {"0": 0, "1": 7}}}'
UNREAD = """{"format": "zkconsumer.offsets/1", "group": "g", "source": "dual", "partitions": [
  {"topic": "t", "partition": 0, "position": null, "kafka": {"offset": 3}},
  {"topic": "t", "partition": 1, "position": 7}]}"""


@pytest.mark.parametrize(
    ("text", "args"),
    [
        (ROWS, ("import", "in")),
        (ROWS, ("reset", "--group", "g", "--from-file", "in")),
        (YELP, ("import", "in", "--zero-means-missing")),
        (UNREAD, ("reset", "--group", "g", "--from-file", "in")),
    ],
)
def test_a_row_without_a_position_takes_nothing_away(cluster: Start, text: str, args: tuple[str, ...]):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"50", f"{G}/offsets/t/1": b"60"})
    Path("in").write_text(text)
    assert c.run(*args, "-z", "zk", "--execute") == 0
    assert (c.node(0), c.node(1)) == ("50", "7")
    assert "1 row has no position, the first t/0" in c.err


def test_a_row_of_ours_that_says_there_was_none_takes_the_position_away(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"50", f"{G}/offsets/t/1": b"60"})
    row = '{"topic": "t", "partition": 0, "position": null, "zk": {"offset": null}}'
    Path("in").write_text(f'{{"format": "zkconsumer.offsets/1", "group": "g", "partitions": [{row}]}}')
    assert c.run("import", "in", "-z", "zk", "--execute") == 0
    assert (c.node(0), c.node(1)) == (None, "60")


def test_of_a_file_with_several_groups_only_the_named_one_is_reset(cluster: Start):
    c = cluster({"t": 2}, {f"{G}/offsets/t/0": b"50"})
    Path("in").write_text("g,t,0,7\nother,t,0,99\n")
    args = ("--zookeeper", "zk", "--group", "g", "--reset-offsets", "--from-file", "in", "--execute")
    assert c.tool(dropin.consumer_groups, *args) == 0
    assert c.node(0) == "7"


# two clusters ---------------------------------------------------------------------------------------------------------


def test_zookeeper_of_one_cluster_and_brokers_of_another_are_refused(cluster: Start):
    c = cluster(BOTH, {f"{G}/offsets/t/0": b"50"})
    with FakeCluster(dict(BOTH)) as other:
        other.logs["t", 0].end = 100
        brokers = ",".join(f"127.0.0.1:{port}" for port in other.ports.values())
        for args in (("set", "t:0=7", "--store", "both"), ("delete", "--all-topics")):
            assert c.run(*args, "--group", "g", "-z", "zk", "-b", brokers, "--execute") == EXIT["refused"]
            assert "-b and -z are not of one cluster" in c.err
        assert (c.node(0), dict(other.committed)) == ("50", {})
    own = ",".join(f"127.0.0.1:{port}" for port in c.f.kafka.ports.values())
    assert c.run("set", "t:0=7", "--store", "both", "--group", "g", "-z", "zk", "-b", own, "--execute") == 0
