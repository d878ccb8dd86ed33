"""Groups looked at in both stores."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from groupadmin.snapshot import kafka
from groupadmin.snapshot.cluster import AdminClient, read_cluster
from groupadmin.snapshot.groups import read_group
from groupadmin.snapshot.kafka import commit_times
from groupadmin.snapshot.model import KafkaRow
from groupadmin.snapshot.reader import read_snapshots
from kafkawire.cluster.metadata import NothingKnown
from kafkawire.dialects import dialect
from kafkawire.errors import LinkLost
from kafkawire.model import Broker, TopicPartition
from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC, group_partition
from tests.fakes.broker import Close, Fail
from tests.groupadmin.snapshot.worlds import fakes
from zkconsumer.offsets.store import NONE, Unknown

NOBODY: Any = None
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
G = "/consumers/g"
STATIC = b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}'


def test_numbers_of_both_stores_and_the_ends_of_logs():
    with fakes({"t": 2, OFFSETS_TOPIC: 4}, {f"{G}/offsets/t/0": b"5"}, ends={("t", 0): 9, ("t", 1): 3}) as f:
        f.kafka.committed[1, "g", "t", 1] = (2, "text")
        found = read_snapshots(f.world, ["g"], read_cluster(f.world))["g"]
        assert found.in_zookeeper(T0) == 5
        assert found.in_zookeeper(T1) is NONE
        assert found.in_kafka(T0).position is NONE
        assert found.in_kafka(T1).position == 2
        assert found.in_kafka(T1).metadata == "text"
        assert found.bounds == {T0: (0, 9), T1: (0, 3)}
        assert (found.kafka_absent, found.kafka_members, found.members) == (False, None, ())


def test_a_log_does_not_end_before_an_offset_of_the_group_since_its_leader_is_new():
    with fakes({"t": 2, OFFSETS_TOPIC: 4}, {f"{G}/offsets/t/0": b"5"}, ends={("t", 0): 9, ("t", 1): 3}) as f:
        f.kafka.logs["t", 0].high_watermark = 4  # up to 2.1 it tells that for its end until its followers have fetched
        assert read_snapshots(f.world, ["g"], read_cluster(f.world))["g"].bounds == {T0: (0, 5), T1: (0, 3)}


def test_a_broker_that_has_just_started_does_not_say_that_there_are_no_topics():
    with fakes({"t": 1, OFFSETS_TOPIC: 1}, brokers=2, ends={("t", 0): 9}) as f:
        f.kafka.uninformed = {1}
        assert read_cluster(f.world).view.partitions("t") == [0]
        f.kafka.uninformed = {1, 2}
        assert set(read_cluster(f.world).topics) == {"t", OFFSETS_TOPIC}
        assert [text.split(":")[0] for text in f.told] == ["no broker of the cluster has metadata"]
        alone = replace(f.world, session=None, bootstrap=f.kafka.bootstrap)
        with pytest.raises(NothingKnown):
            read_cluster(alone)


def test_looking_asks_for_no_coordinator_and_names_no_topic():
    for topics in ({"t": 1}, {"t": 1, OFFSETS_TOPIC: 1}):
        with fakes(topics, {f"{G}/offsets/t/0": b"5"}) as f:
            read_snapshots(f.world, ["g"], read_cluster(f.world))
            assert not f.kafka.seen("group_coordinator")
            assert all(not seen.body["topics"] for seen in f.kafka.seen("metadata"))


def test_without_an_offsets_topic_kafka_is_not_asked_and_holds_nothing():
    with fakes({"t": 1}, {f"{G}/offsets/t/0": b"5"}) as f:
        found = read_snapshots(f.world, ["g"], read_cluster(f.world))["g"]
        assert found.kafka_absent
        assert found.in_kafka(T0).position is NONE
        assert not f.kafka.seen("offset_fetch")


def test_nothing_is_written():
    with fakes({"t": 1, OFFSETS_TOPIC: 1}, {f"{G}/offsets/t/0": b"5"}) as f:
        before = {path: node.version for path, node in f.zk.nodes.items()}
        read_snapshots(f.world, ["g", "nobody"], read_cluster(f.world))
        assert {path: node.version for path, node in f.zk.nodes.items()} == before
        assert {what for what, _ in f.zk.calls} <= {"get", "list"}


def test_positions_of_topics_that_zookeeper_knows_nothing_of_are_found():
    with fakes({"t": 1, "other": 2, OFFSETS_TOPIC: 1}) as f:
        f.kafka.committed[1, "g", "other", 1] = (7, "")
        found = read_snapshots(f.world, ["g"], read_cluster(f.world))["g"]
        assert found.kafka[TopicPartition("other", 1)].position == 7
        narrow = read_snapshots(f.world, ["g"], read_cluster(f.world), wide=False)["g"]
        assert narrow.kafka == {}


def test_topics_that_others_make_or_delete_now_are_nothing_of_the_group():
    with fakes({"t": 1, "passing": 1, OFFSETS_TOPIC: 1}, {f"{G}/offsets/t/0": b"5"}) as f:
        cluster = read_cluster(f.world)
        for its_own, gone in ((False, ("passing", 0)), (True, ("t", 0))):
            f.kafka.script("offset_fetch", Fail(3, gone))
            found = read_snapshots(f.world, ["g"], cluster)["g"]
            assert found.partitions() == [T0]
            assert isinstance(found.in_kafka(T0).position, Unknown) == its_own


def test_partitions_beside_one_that_kafka_alone_has_hold_nothing_and_are_not_unknown():
    with fakes({"t": 3, OFFSETS_TOPIC: 1}) as f:
        f.kafka.committed[1, "g", "t", 1] = (7, "")
        found = read_snapshots(f.world, ["g"], read_cluster(f.world))["g"]
        assert [found.in_kafka(tp).position for tp in found.partitions()] == [NONE, 7, NONE]


def test_a_folder_that_is_no_topics_is_no_row_of_the_group():
    with fakes({"t": 1}, {f"{G}/offsets/t/0": b"5", f"{G}/offsets/b'orders'/0": b"3"}) as f:
        assert f.world.session is not None
        assert read_group(f.world.session, f.world.dialect, "g").committed == [T0]
        (odd,) = read_snapshots(f.world, ["g"], read_cluster(f.world))["g"].foreign
        assert odd.path == f"{G}/offsets/b'orders'/0"


def test_without_a_broker_the_path_is_named():
    with fakes({"t": 1}) as f:
        f.zk.delete("/brokers/ids/1")
        said: list[str] = []
        read_cluster(replace(f.world, tell=said.append))
        assert [each for each in said if "is the chroot missing" in each]


def test_a_coordinator_that_loads_is_asked_again():
    with fakes({"t": 1, OFFSETS_TOPIC: 1}, {f"{G}/offsets/t/0": b"5"}) as f:
        f.kafka.committed[1, "g", "t", 0] = (4, "")
        f.kafka.script("offset_fetch", Fail(14), Fail(14))
        assert read_snapshots(f.world, ["g"], read_cluster(f.world))["g"].in_kafka(T0).position == 4


def test_a_link_that_breaks_is_replaced():
    with fakes({"t": 1, OFFSETS_TOPIC: 1}, {f"{G}/offsets/t/0": b"5"}) as f:
        f.kafka.committed[1, "g", "t", 0] = (4, "")
        f.kafka.script("offset_fetch", Close())
        assert read_snapshots(f.world, ["g"], read_cluster(f.world))["g"].in_kafka(T0).position == 4


def test_what_kafka_does_not_tell_is_unknown_and_not_none():
    with fakes({"t": 1, OFFSETS_TOPIC: 1}, {f"{G}/offsets/t/0": b"5"}) as f:
        f.kafka.script("offset_fetch", *[Fail(14)] * 20)
        held = read_snapshots(f.world, ["g"], read_cluster(f.world))["g"].in_kafka(T0).position
        assert isinstance(held, Unknown)
        assert "14" in held.reason


def test_commit_times_are_not_looked_for_where_no_position_was_told():
    with fakes({"t": 1, OFFSETS_TOPIC: 1}) as f:
        cluster = read_cluster(f.world)
        silent = replace(read_snapshots(f.world, ["g"], cluster)["g"], kafka={T0: KafkaRow(Unknown("silent"))})
        before = len(f.kafka.seen("metadata"))
        assert commit_times(f.world, cluster, silent) == {}
        assert len(f.kafka.seen("metadata")) == before
        commit_times(f.world, cluster, replace(silent, kafka={T0: KafkaRow(5)}))
        assert len(f.kafka.seen("metadata")) > before


def test_the_leader_of_the_groups_partition_is_asked():
    with fakes({"t": 1, OFFSETS_TOPIC: 8}, {f"/consumers/{n}/offsets/t/0": b"1" for n in "abcdef"}, brokers=2) as f:
        f.kafka.coordinator = 0  # nobody: each broker answers 16
        read_snapshots(f.world, ["a"], read_cluster(f.world), bounds=False)
        asked = {seen.broker for seen in f.kafka.seen("offset_fetch")}
        assert asked == {f.kafka.logs[OFFSETS_TOPIC, group_partition("a", 8)].leader}


def test_what_members_read_is_asked_for_though_nobody_committed_it():
    with fakes({"t": 2, OFFSETS_TOPIC: 1}, {f"{G}/ids/g_h-1-1": STATIC, f"{G}/owners/t/0": b"g_h-1-1-0"}) as f:
        found = read_snapshots(f.world, ["g"], read_cluster(f.world), wide=False)["g"]
        assert found.members == ("g_h-1-1",)
        assert found.owners == {T0: "g_h-1-1-0"}
        assert found.partitions() == [T0, T1]
        assert found.in_kafka(T1).position is NONE


@pytest.mark.parametrize(
    ("path", "data", "kind"),
    [
        (f"{G}/ids/pykafka", b"no json", "id"),
        (f"{G}/offsets/b't'/0", b"5", "offset"),
        (f"{G}/owners/t/1-0", b"x", "owner"),
        (f"{G}/offsets/t", b"0:123,1:456", "offset"),
        (f"{G}/offsets/t/0/deeper", b"5", "folder"),
        (f"{G}/modes/m", b"{}", "id"),
    ],
)
def test_foreign_nodes_are_shown_and_never_read_as_positions(path: str, data: bytes, kind: str):
    with fakes({"t": 1}, {path: data}) as f:
        found = read_snapshots(f.world, ["g"], read_cluster(f.world))["g"]
        assert [(each.kind, each.path) for each in found.foreign] == [(kind, path)]
        assert all(row.position == NONE or isinstance(row.position, Unknown) for row in found.zookeeper.values())


def test_the_path_of_1_1_0_is_read_beside_the_other():
    with fakes({"t": 1}, {f"{G}/offsets/t/0": b"5", f"{G}/offset/t/0": b"9"}) as f:
        found = read_snapshots(f.world, ["g"], read_cluster(f.world))["g"]
        assert found.in_zookeeper(T0) == 5
        assert found.offset_path[T0].position == 9


def test_modes_of_members_are_read():
    with fakes({"t": 1}, {f"{G}/modes/m": b'{"version":"1","mode":"dual"}'}) as f:
        assert read_snapshots(f.world, ["g"], read_cluster(f.world))["g"].modes == {"m": "dual"}


def test_brokers_that_do_not_answer_leave_what_zookeeper_says():
    with fakes({"t": 1, OFFSETS_TOPIC: 1}, {f"{G}/offsets/t/0": b"5"}) as f:
        f.kafka.stop(1)
        found = read_snapshots(f.world, ["g"], read_cluster(f.world))["g"]
        assert found.in_zookeeper(T0) == 5
        assert found.bounds == {}
        assert isinstance(found.in_kafka(T0).position, Unknown)
        assert any("no broker of the cluster answers" in text for text in f.told)


def test_many_groups_keep_their_numbers_apart():
    names = [f"g{n}" for n in range(50)]
    nodes = {f"/consumers/{name}/offsets/t/{p}": b"%d" % (n + p) for n, name in enumerate(names) for p in range(2)}
    with fakes({"t": 2, OFFSETS_TOPIC: 4}, nodes) as f:
        for n, name in enumerate(names):
            f.kafka.committed[1, name, "t", 1] = (1000 + n, "")
        found = read_snapshots(f.world, names, read_cluster(f.world))
        assert [found[name].in_zookeeper(T1) for name in names] == [n + 1 for n in range(50)]
        assert [found[name].in_kafka(T1).position for name in names] == [1000 + n for n in range(50)]


def test_members_are_unknown_where_a_coordinator_of_4x_does_not_list_its_groups(monkeypatch: pytest.MonkeyPatch):
    """A group of a newer protocol is Dead for DescribeGroups: it had no members then, and its offsets were written."""
    broker = Broker(1, "h", 9092)
    dead = {"groups": [{"group": "g", "error": 0, "state": "Dead", "members": []}]}
    monkeypatch.setattr(
        kafka, "ask_coordinators", lambda admin, cluster, asked, again: {key: (broker, dead) for key, _, _ in asked}
    )
    listed: dict[str, object] = {"error": 0, "groups": []}
    cluster = SimpleNamespace(view=SimpleNamespace(partitions=lambda topic: [0]))

    def members(release: str, reply: object) -> tuple[str, ...]:
        monkeypatch.setattr(kafka, "exchange", lambda links, asked, purpose: {broker: reply})
        admin = AdminClient(None, NOBODY, dialect(release))
        return kafka.coordinated(admin, cluster, ["g"])["g"].members

    assert members("4.0", listed) == ()
    for unknown in (LinkLost("it is away"), {"error": 15, "groups": []}):
        (said,) = members("4.0", unknown)
        assert said.startswith("(the members of group g are unknown: whether it is of a newer protocol is not known: ")
        assert members("2.8", unknown) == ()


def test_where_a_share_group_begins_is_unknown_where_its_coordinator_does_not_tell(monkeypatch: pytest.MonkeyPatch):
    """It had no offset then."""
    refused: object = {"groups": [{"group": "g", "error": 15, "topics": []}]}

    def begins(release: str, reply: object) -> str:
        monkeypatch.setattr(
            kafka, "ask_coordinators", lambda admin, cluster, asked, again: {key: (None, reply) for key, _, _ in asked}
        )
        found = kafka.share_positions(AdminClient(None, NOBODY, dialect(release)), NOBODY, {"g": [T0]})
        there = found["g"][T0].position
        assert isinstance(there, Unknown)
        return there.reason.removeprefix("where share group g begins is not known: ")

    assert "(15)" in begins("4.1", refused)
    assert begins("4.1", "it is away") == "it is away"
    assert begins("4.0", refused) == "its brokers do not tell before 4.1"


@pytest.mark.parametrize("closed", [True, False])
def test_when_a_topic_was_created_is_known_where_its_node_is_not_understood(closed: bool):
    """An offset of an earlier topic of its name counted for the log of today."""
    with fakes({"t": 1}, {f"{G}/offsets/t/0": b"5"}, ends={("t", 0): 9}) as f:
        path = "/brokers/topics/t"
        f.zk.delete(path)
        f.zk.set(path, b"junk")
        f.zk.closed |= {path} if closed else set()
        cluster = read_cluster(f.world)
        assert cluster.topics["t"].czxid == f.zk.nodes[path].czxid
        assert cluster.partitions["t"] == (0,)  # as the brokers tell
        assert read_snapshots(f.world, ["g"], cluster)["g"].former_stores(T0) == {"zookeeper"}
