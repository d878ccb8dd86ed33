"""Assignments as AdminUtils makes them, and topics on a real ZooKeeper as it writes them."""

from __future__ import annotations

import json

import pytest
from kazoo.client import KazooClient

from kafkawire.cluster.topics import assign, check_name, create, create_all, grow
from kafkawire.cluster.zookeeper import read_brokers, read_leaders, read_partitions, read_topics, read_view
from kafkawire.errors import LocalError
from kafkawire.model import TopicPartition
from kafkawire.znodes import v08 as znodes


def test_the_assignment_is_the_one_in_the_comment_of_admin_utils():
    # AdminUtils.assignReplicasToBrokers 0.8.2: 5 brokers, 10 partitions, 3 replicas, start 0 and shift 0
    expected = {
        0: [0, 1, 2], 1: [1, 2, 3], 2: [2, 3, 4], 3: [3, 4, 0], 4: [4, 0, 1],
        5: [0, 2, 3], 6: [1, 3, 4], 7: [2, 4, 0], 8: [3, 0, 1], 9: [4, 1, 2],
    }  # fmt: skip
    assert assign([4, 3, 2, 1, 0], 10, 3) == expected


@pytest.mark.parametrize("start", range(7))
@pytest.mark.parametrize(("brokers", "replication"), [(1, 1), (2, 2), (3, 2), (5, 5)])
def test_replicas_are_different_brokers_and_leaders_are_spread(brokers: int, replication: int, start: int):
    ids = [10 * n for n in range(brokers)]
    made = assign(ids, 4 * brokers, replication, start)
    assert all(len(set(replicas)) == replication for replicas in made.values())
    leaders = [replicas[0] for replicas in made.values()]
    assert {leaders.count(broker) for broker in ids} == {4}


@pytest.mark.parametrize(("partitions", "replication", "said"), [(0, 1, "at least 1"), (1, 3, "live brokers, 2")])
def test_an_assignment_that_cannot_be_is_refused(partitions: int, replication: int, said: str):
    with pytest.raises(LocalError, match=said):
        assign([1, 2], partitions, replication)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "é", "a" * 250, "a b"])
def test_a_name_no_broker_takes_is_refused(name: str):
    with pytest.raises(LocalError, match=r"a name has|at most 249"):
        check_name(name)


@pytest.mark.parametrize("assignment", [{}, {1: [1]}, {0: []}, {0: [1], 1: [1, 2]}, {0: [1, 1]}])
def test_an_assignment_brokers_would_choke_on_never_reaches_zookeeper(assignment: dict[int, list[int]]):
    with pytest.raises(LocalError, match="topic t: "):
        create(None, "t", assignment)


@pytest.fixture
def zk(zk_server, unique):
    outside = KazooClient(zk_server.connect, timeout=8)
    outside.start()
    outside.create(unique.chroot)
    client = KazooClient(zk_server.connect + unique.chroot, timeout=8)
    client.start()
    yield client
    for each in (client, outside):
        each.stop()
        each.close()


@pytest.mark.real
def test_a_topic_is_written_as_the_admin_tool_does_and_only_once(zk: KazooClient):
    assert create(zk, "t", {0: [1, 2], 1: [2, 1]}, {"retention.ms": "1000"}) is True
    assert zk.get("/config/topics/t")[0] == b'{"version":1,"config":{"retention.ms":"1000"}}'
    assert zk.get("/brokers/topics/t")[0] == b'{"version":1,"partitions":{"0":[1,2],"1":[2,1]}}'
    assert create(zk, "t", {0: [2]}, {"retention.ms": "1"}) is False
    assert zk.get("/config/topics/t")[0] == b'{"version":1,"config":{"retention.ms":"1000"}}'
    zk.delete("/brokers/topics/t")  # what a deletion leaves behind does not stand in the way
    assert create(zk, "t", {0: [2]}) is True
    assert zk.get("/config/topics/t")[0] == b'{"version":1,"config":{}}'


@pytest.mark.real
def test_a_topic_gets_partitions_as_the_admin_tool_gives_them(zk: KazooClient):
    create(zk, "t", {0: [2, 1], 1: [3, 2]})
    zk.set("/brokers/topics/t", b'{"version":3,"topic_id":"x","partitions":{"1":[3,2],"0":[2,1]}}')
    assert grow(zk, "t", 2, [1, 2, 3]) == (2, 2)  # enough
    assert grow(zk, "t", 1, [1, 2, 3]) == (2, 2)  # none is ever taken away
    assert grow(zk, "t", 4, [1, 2, 3]) == (2, 4)
    written = json.loads(zk.get("/brokers/topics/t")[0])
    assert {key: written["partitions"][key] for key in ("0", "1")} == {"0": [2, 1], "1": [3, 2]}
    assert {key: set(written["partitions"][key]) <= {1, 2, 3} for key in ("2", "3")} == {"2": True, "3": True}
    assert [len(set(written["partitions"][key])) for key in ("2", "3")] == [2, 2]
    assert [written["partitions"][key][0] for key in ("2", "3")] == [1, 2]  # leaders go on round the brokers
    assert (written["version"], written["topic_id"]) == (3, "x")  # what later releases keep there stays


@pytest.mark.real
def test_a_topic_does_not_grow_while_it_is_deleted_or_reassigned(zk: KazooClient):
    create(zk, "t", {0: [1]})
    zk.create("/admin/reassign_partitions", b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2]}]}',
              makepath=True)  # fmt: skip
    with pytest.raises(LocalError, match="are being reassigned"):
        grow(zk, "t", 2, [1])
    zk.set("/admin/reassign_partitions", b'{"version":1,"partitions":[]}')
    zk.create("/admin/delete_topics/t", makepath=True)
    with pytest.raises(LocalError, match="is being deleted"):
        grow(zk, "t", 2, [1])
    zk.delete("/admin/delete_topics/t")
    zk.set("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1,2]}}')
    with pytest.raises(LocalError, match="replication factor 2 is larger than the number of live brokers, 1"):
        grow(zk, "t", 2, [1])
    with pytest.raises(LocalError, match="topic u does not exist"):
        grow(zk, "u", 2, [1])


@pytest.mark.real
def test_reading_creates_nothing_and_leaves_out_what_is_missing(zk: KazooClient):
    assert (read_brokers(zk, znodes), read_topics(zk, znodes), read_partitions(zk, znodes, ["t"])) == ({}, [], {})
    tp = TopicPartition("t", 0)
    assert read_leaders(zk, znodes, [tp]) == {tp: None}
    assert zk.get_children("/") == []


@pytest.mark.real
def test_brokers_replicas_and_leaders_are_read(zk: KazooClient):
    zk.create("/brokers/ids/7", json.dumps({"version": 1, "host": "h", "port": 9}).encode(), makepath=True)
    create(zk, "t", {0: [7, 8], 1: [8, 7]})
    state = {"version": 1, "leader": 7, "leader_epoch": 0, "controller_epoch": 1, "isr": [7]}
    zk.create("/brokers/topics/t/partitions/0/state", json.dumps(state).encode(), makepath=True)
    view = read_view(zk, znodes, ["t", "missing"])
    assert view.leader(TopicPartition("t", 0)) == (7, "h", 9)
    assert view.topics["t"][0].isr == (7,)
    assert view.topics["t"][1].leader is None
    assert (read_topics(zk, znodes), set(view.topics)) == (["t"], {"t"})


class OfNodes:
    """A client that has these nodes below /brokers/ids."""

    def __init__(self, **nodes: object) -> None:
        self.nodes = {name.lstrip("b"): json.dumps(node).encode() for name, node in nodes.items()}

    def get_children(self, path: str) -> list[str]:
        assert path == "/brokers/ids"
        return list(self.nodes)

    def get_async(self, path: str) -> OfNodes:
        self.asked = self.nodes[path.rpartition("/")[2]]
        answer = OfNodes()
        answer.asked = self.asked
        return answer

    def get(self) -> tuple[bytes, None]:
        return self.asked, None


def test_a_broker_without_a_plain_address_is_left_out_with_one_warning(caplog: pytest.LogCaptureFixture):
    tls = {"version": 4, "host": None, "port": -1, "endpoints": ["SSL://h:9093"]}
    zk = OfNodes(b1={"version": 1, "host": "h", "port": 9}, b2=tls)
    for _ in range(3):
        assert read_brokers(zk, znodes) == {1: (1, "h", 9)}
    (warning,) = caplog.messages
    assert "broker 2 has no PLAINTEXT address" in warning
    assert "left out" in warning


class Fading:
    """A client before whose write another one deletes the node, once."""

    def __init__(self, zk: KazooClient) -> None:
        self.zk, self.faded = zk, False

    def create(self, path: str, data: bytes, makepath: bool) -> None:
        self.zk.create(path, data, makepath=makepath)

    def set(self, path: str, data: bytes) -> None:
        if not self.faded:
            self.zk.delete(path)
            self.faded = True
        self.zk.set(path, data)

    def __getattr__(self, name: str) -> object:
        return getattr(self.zk, name)


@pytest.mark.real
def test_a_node_that_the_controller_deletes_meanwhile_is_written_again(zk) -> None:
    zk.create("/config/topics/again", b"of an earlier topic", makepath=True)
    fading = Fading(zk)
    assert create(fading, "again", {0: [1]}, {"retention.ms": "1"})
    assert fading.faded
    assert json.loads(zk.get("/config/topics/again")[0])["config"] == {"retention.ms": "1"}


@pytest.mark.real
def test_many_topics_are_written_side_by_side_as_each_would_be_alone(zk):
    assert create(zk, "there", {0: [1]})
    zk.create("/config/topics/left-over", b"old")
    wanted = {name: assign([1, 2], 3, 2) for name in ("a", "there", "left-over", "a b")} | {"bad": {1: [1]}}
    made = create_all(zk, wanted, {"a": {"cleanup.policy": "compact"}})
    assert {name: made[name] for name in ("a", "there", "left-over")} == {"a": True, "there": False, "left-over": True}
    assert isinstance(made["a b"], LocalError)
    assert isinstance(made["bad"], LocalError)
    assert create(zk, "alone", assign([1, 2], 3, 2), {"cleanup.policy": "compact"})
    for folder in ("/brokers/topics", "/config/topics"):
        assert json.loads(zk.get(f"{folder}/a")[0]) == json.loads(zk.get(f"{folder}/alone")[0])
    assert json.loads(zk.get("/config/topics/left-over")[0]) == {"version": 1, "config": {}}
