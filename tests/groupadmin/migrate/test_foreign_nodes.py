"""Nodes of a group: ours are read, those of other clients are shown as found, and nothing is guessed."""

from __future__ import annotations

import pytest

from groupadmin.snapshot.foreign import Sorted, sort_nodes
from groupadmin.snapshot.model import ZkRow
from kafkawire.dialects import dialect
from kafkawire.model import TopicPartition
from zkconsumer.offsets.store import Unknown
from zkconsumer.session.nodes import Read

ID = b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}'
A = TopicPartition("t", 0)


def node_of(data: bytes, version: int, mzxid: int, czxid: int, mtime_ms: int) -> Read:
    return Read(data, version, mzxid, czxid, mtime_ms, ctime_ms=0, owner=1, children=0)


def found(nodes: dict[str, bytes]) -> Sorted:
    whole = {f"/consumers/g/{path}": node_of(data, 3, 20, 10, 1000) for path, data in nodes.items()}
    return sort_nodes("g", whole, dialect("0.8.2"))


def test_what_kafka_wrote_is_read():
    sorted_nodes = found(
        {
            "ids": b"", "ids/g_host-1-a": ID, "owners": b"", "owners/t": b"", "owners/t/0": b"g_host-1-a-0",
            "offsets": b"", "offsets/t": b"", "offsets/t/0": b"50", "offsets/t/10": b" 0\n",
        }
    )  # fmt: skip
    assert sorted_nodes == Sorted(
        zookeeper={A: ZkRow(50, 3, 20, 10, 1000), TopicPartition("t", 10): ZkRow(0, 3, 20, 10, 1000)},
        offset_path={},
        owners={A: "g_host-1-a-0"},
        members=("g_host-1-a",),
        foreign=(),
    )


@pytest.mark.parametrize("data", [b"", b"null", b"1.5", b"\xff", b"99999999999999999999", b"9" * 5000, "٣".encode()])
def test_a_number_that_is_none_is_unknown_and_never_zero(data):
    sorted_nodes = found({"offsets/t/0": data})
    assert isinstance(sorted_nodes.zookeeper[A].position, Unknown)
    assert not sorted_nodes.foreign


def test_the_path_of_1_1_0_is_kept_apart():
    sorted_nodes = found({"offset/t/0": b"70", "offsets/t/0": b"50"})
    assert sorted_nodes.offset_path[A].position == 70
    assert sorted_nodes.zookeeper[A].position == 50


@pytest.mark.parametrize(
    ("path", "data", "kind", "topic", "says"),
    [
        ("offsets/b't'/0", b"5", "offset", "t", "names as Python shows them"),
        ('offsets/b"t"/0', b"5", "offset", "t", "names as Python shows them"),
        ("offsets/t", b"0:123,1:456", "offset", "t", "the one-node form"),
        ("offsets/t", b"10.0.0.1", "offset", "t", "data where a folder is expected"),
        ("offsets/t/1-0", b"5", "offset", "t", "no partition"),
        ("offsets/t/x", b"5", "offset", "t", "no partition"),
        ("offsets/t/0/deeper", b"5", "folder", None, "deeper than any node"),
        ("owners/b't'/1-0", b"pykafka", "owner", "t", "the group is active"),
        ("owners/t/1-0", b"pykafka", "owner", "t", "the group is active"),
        ("ids/x", b"pykafka", "id", None, "JVM members cannot read"),
        ("ids/x", b"", "id", None, "JVM members cannot read"),
        ("ids/x", b"\xff", "id", None, "JVM members cannot read"),
    ],
)
def test_other_clients_nodes_are_shown_as_found(path, data, kind, topic, says):
    sorted_nodes = found({path: data})
    assert not sorted_nodes.zookeeper
    assert not sorted_nodes.owners
    (foreign,) = sorted_nodes.foreign
    assert (foreign.kind, foreign.topic, foreign.path) == (kind, topic, f"/consumers/g/{path}")
    assert says in foreign.text
    assert foreign.found == data.decode("utf-8", "backslashreplace")


def test_a_member_that_cannot_be_read_is_a_member():
    assert found({"ids/x": b"pykafka", "ids/y": ID}).members == ("x", "y")


def test_data_on_a_folder_with_partitions_in_it_is_nothing_to_tell():
    sorted_nodes = found({"offsets/t": b"null", "offsets/t/0": b"5"})
    assert sorted_nodes.zookeeper[A].position == 5
    assert not sorted_nodes.foreign


def test_nodes_of_a_group_with_a_longer_name_are_not_ours():
    nodes = {
        "/consumers/g2/offsets/t/0": node_of(b"5", 0, 1, 1, 1),
        "/consumers/g/offsets/t/0": node_of(b"6", 0, 1, 1, 1),
    }
    assert sort_nodes("g", nodes, dialect("0.8.2")).zookeeper[A].position == 6


def test_long_data_is_cut_in_what_is_shown():
    (foreign,) = found({"ids/x": b"y" * 5000}).foreign
    assert len(foreign.found) == 200


def test_our_own_nodes_under_a_group_are_left_alone():
    sorted_nodes = found({"modes": b"", "modes/g_host-1-a": b'{"version":"1"}', "migration": b"{}"})
    assert sorted_nodes == Sorted(zookeeper={}, offset_path={}, owners={}, members=(), foreign=())
