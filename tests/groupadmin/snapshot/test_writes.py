"""Positions written into both stores, compared, set and read back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupadmin.apply.writes import StoreWrite, WriteResult, apply_writes
from groupadmin.snapshot.cluster import read_cluster
from groupadmin.snapshot.model import GroupSnapshot, KafkaRow, TopicRow, ZkRow, active_members, counts, stores_of
from groupadmin.snapshot.reader import read_snapshots
from groupadmin.snapshot.tree import delete_tree, everything_below
from kafkawire.model import TopicPartition
from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC
from tests.fakes.broker import Close, Fail
from tests.groupadmin.snapshot.worlds import Fakes, fakes
from zkconsumer.offsets.store import NONE, Unknown

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NODE = "/consumers/g/offsets/t/0"


def row_of(f: Fakes) -> ZkRow | None:
    return read_snapshots(f.world, ["g"], read_cluster(f.world), bounds=False)["g"].zookeeper.get(T0)


def one(f: Fakes, write: StoreWrite) -> WriteResult:
    (found,) = apply_writes(f.world, read_cluster(f.world), [write])
    return found


def test_a_node_is_replaced_made_and_taken_away():
    with fakes({"t": 2}, {NODE: b"5"}) as f:
        assert one(f, StoreWrite("g", T0, "zookeeper", 7, node=row_of(f))).state == "written"
        assert f.zk.nodes[NODE].data == b"7"
        assert one(f, StoreWrite("new", T1, "zookeeper", 0)).state == "written"
        assert f.zk.nodes["/consumers/new/offsets/t/1"].data == b"0"
        assert one(f, StoreWrite("g", T0, "zookeeper", None, node=row_of(f))).state == "written"
        assert NODE not in f.zk.nodes


@pytest.mark.parametrize("position", [7, None])
def test_a_node_that_moved_since_it_was_read_is_left_alone(position: int | None):
    with fakes({"t": 2}, {NODE: b"5"}) as f:
        row = row_of(f)
        f.zk.set(NODE, b"6")
        found = one(f, StoreWrite("g", T0, "zookeeper", position, node=row))
        assert (found.state, f.zk.nodes[NODE].data) == ("stale", b"6")
        assert "it holds 6" in found.why


def test_a_node_that_appeared_since_is_left_alone():
    with fakes({"t": 2}, {NODE: b"5"}) as f:
        assert one(f, StoreWrite("g", T0, "zookeeper", 7, node=None)).state == "stale"
        assert f.zk.nodes[NODE].data == b"5"


def test_somebody_who_wrote_the_same_is_no_harm():
    with fakes({"t": 2}, {NODE: b"5"}) as f:
        row = row_of(f)
        f.zk.set(NODE, b"7")
        assert one(f, StoreWrite("g", T0, "zookeeper", 7, node=row)).state == "written"


def test_kafka_is_first_and_zookeeper_only_gets_what_kafka_took():
    with fakes({"t": 2, OFFSETS_TOPIC: 1}) as f:
        f.kafka.script("offset_commit", Fail(12, ("t", 0)))
        wanted = [StoreWrite("g", tp, store, 3) for tp in (T0, T1) for store in ("zookeeper", "kafka")]
        found = apply_writes(f.world, read_cluster(f.world), wanted)
        assert [row.state for row in found] == ["failed", "failed", "written", "written"]
        assert "Kafka does not have it" in found[0].why
        assert NODE not in f.zk.nodes
        assert f.zk.nodes["/consumers/g/offsets/t/1"].data == b"3"
        assert {tp for (version, *_, tp) in f.kafka.committed if version == 1} == {1}


def test_zookeeper_is_left_as_it_was_where_kafka_may_have_it_and_that_is_said():
    with fakes({"t": 2, OFFSETS_TOPIC: 1}) as f:
        f.kafka.script("offset_commit", *[Fail(7)] * 40)
        wanted = [StoreWrite("g", T0, store, 3) for store in ("zookeeper", "kafka")]
        zookeeper, kafka = apply_writes(f.world, read_cluster(f.world), wanted)
        assert (zookeeper.state, kafka.state, kafka.unclear) == ("failed", "failed", True)
        assert "it may be written: commit it once more" in kafka.why
        assert "Kafka may have it" in zookeeper.why
        assert NODE not in f.zk.nodes


def test_what_kafka_accepted_and_does_not_give_back_may_be_written():
    with fakes({"t": 2, OFFSETS_TOPIC: 1}) as f:
        f.kafka.script("offset_fetch", *[Close()] * 200)
        (found,) = apply_writes(f.world, read_cluster(f.world), [StoreWrite("g", T0, "kafka", 3)])
        assert (found.state, found.unclear) == ("failed", True)
        assert "Kafka accepted 3" in found.why


def test_the_text_goes_into_kafka_with_the_position():
    with fakes({"t": 2, OFFSETS_TOPIC: 1}) as f:
        assert one(f, StoreWrite("g", T0, "kafka", 3, text="by hand")).state == "written"
        assert f.kafka.committed[1, "g", "t", 0] == (3, "by hand")


def test_what_kafka_is_to_forget_is_committed_as_if_in_1970_and_said_to_be_still_there():
    with fakes({"t": 2, OFFSETS_TOPIC: 1}) as f:
        f.kafka.committed[1, "g", "t", 0] = (3, "kept")
        found = one(f, StoreWrite("g", T0, "kafka", None, held=KafkaRow(3, "kept")))
        assert found.state == "expiring"
        assert "still read" in found.why
        (seen,) = f.kafka.seen("offset_commit")
        assert seen.body["offsets"] == {("t", 0): (3, "kept")}
        assert seen.body["timestamps"] == [1]


def test_what_kafka_never_had_is_gone_already():
    with fakes({"t": 2, OFFSETS_TOPIC: 1}) as f:
        assert one(f, StoreWrite("g", T0, "kafka", None, held=KafkaRow(NONE))).state == "written"
        assert not f.kafka.seen("offset_commit")


def test_a_read_back_that_differs_is_no_success():
    with fakes({"t": 2, OFFSETS_TOPIC: 1}) as f:
        f.kafka.script("offset_fetch", Fail(3, ("t", 0)))
        found = one(f, StoreWrite("g", T0, "kafka", 3))
        assert found.state == "failed"
        assert "read back" in found.why


def test_a_group_is_deleted_from_its_ids_on_and_not_while_somebody_is_in_it():
    with fakes({"t": 1}, {NODE: b"5", "/consumers/g/ids": b"", "/consumers/g/owners/t": b""}) as f:
        session = f.world.session
        assert session is not None
        nodes = everything_below(session, "g")
        f.zk.set("/consumers/g/ids/late", b"{}")
        assert delete_tree(session, "g", nodes) == ["/consumers/g/ids"]
        assert NODE in f.zk.nodes
        assert delete_tree(session, "g", everything_below(session, "g")) == []
        assert not any(path.startswith("/consumers/g") for path in f.zk.nodes)


def test_a_member_that_came_before_the_nodes_were_read_is_not_thrown_out():
    member = "/consumers/g/ids/late"
    with fakes({"t": 1}, {NODE: b"5", member: b"{}"}) as f:
        f.zk.nodes[member].ephemeralOwner = 77
        session = f.world.session
        assert session is not None
        assert delete_tree(session, "g", everything_below(session, "g")) == [member]
        assert {NODE, member} <= f.zk.nodes.keys()
        left = delete_tree(session, "g", everything_below(session, "g"), force=True)
        assert left == ["/consumers/g/ids", "/consumers/g"]
        assert member in f.zk.nodes
        assert NODE not in f.zk.nodes


# which stores, and who is there ---------------------------------------------------------------------------------------


def snapshot(zookeeper: object = NONE, kafka: object = NONE, **more: object) -> GroupSnapshot:
    nodes = {} if zookeeper is NONE else {T0: ZkRow(zookeeper, 0, 1, 1, 0)}  # type: ignore[arg-type]
    return GroupSnapshot("g", nodes, {T0: KafkaRow(kafka)}, {}, {}, **more)  # type: ignore[arg-type]


def test_a_deleted_topic_of_which_kafka_does_not_tell_makes_no_group_one_of_both_stores():
    there = replace(snapshot(5, Unknown("no such partition")), topics={"other": TopicRow((0,))})
    assert stores_of(there) == ("zookeeper",)
    assert stores_of(replace(there, topics={T0.topic: TopicRow((0,))})) == ("kafka", "zookeeper")


@pytest.mark.parametrize(
    ("each", "stores"),
    [
        (snapshot(5), ("zookeeper",)),
        (snapshot(NONE, 5), ("kafka",)),
        (snapshot(5, 5), ("kafka", "zookeeper")),
        (snapshot(5, Unknown("?")), ("kafka", "zookeeper")),
        (snapshot(), ("zookeeper",)),
        (snapshot(5, modes={"m": "dual"}), ("kafka", "zookeeper")),
        (snapshot(5, 5, modes={"m": "kafka"}), ("kafka",)),
        (snapshot(modes={"m": "zookeeper", "n": "dual"}), ("kafka", "zookeeper")),
    ],
)
def test_stores_are_what_members_say_else_what_holds_a_position(each: GroupSnapshot, stores: tuple[str, ...]):
    assert stores_of(each) == stores


def test_the_larger_counts_where_two_stores_are_kept():
    assert counts(snapshot(5, 9), T0, ("kafka", "zookeeper")) == 9
    assert counts(snapshot(5, 9), T0, ("zookeeper",)) == 5
    assert isinstance(counts(snapshot(5, Unknown("?")), T0, ("kafka", "zookeeper")), Unknown)


def test_ids_owners_and_members_in_kafka_are_somebody():
    assert active_members(snapshot(5)) is None
    assert active_members(snapshot(5, kafka_members=())) is None
    assert "members m" in str(active_members(snapshot(members=("m",))))
    assert "owners of 1 partition" in str(active_members(snapshot(owners={T0: "m-0"})))
    assert "members in Kafka, x" in str(active_members(snapshot(kafka_members=("x",))))
