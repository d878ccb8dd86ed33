"""Our member beside others that nobody runs here: their nodes are planted in a real ZooKeeper, as they write them."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from kafkawire.model import TopicPartition
from localkafka.waiting import wait_until
from localkafka.zookeeper import ZooKeeperAt
from tests.integration.readers import Reader
from zkconsumer.commands.cli import outcome
from zkconsumer.errors import FilterUnknown
from zkconsumer.filters import Blacklist, Whitelist

_spec = importlib.util.spec_from_file_location(
    "java_oracle", Path(__file__).parents[1] / "groundwork" / "java_oracle.py"
)
assert _spec is not None
assert _spec.loader is not None
oracle = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(oracle)

pytestmark = pytest.mark.real
OURS = {"rebalance_backoff_ms": 700, "rebalance_max_retries": 3, "zookeeper_session_timeout_ms": 2000}
PATIENT = {"rebalance_backoff_ms": 1000, "rebalance_max_retries": 10, "zookeeper_session_timeout_ms": 6000}
STATIC = '{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1394154511599"}'


class Planted:
    """A ZooKeeper below a chroot of its own, without brokers: topics and members are nodes that a test writes."""

    def __init__(self, connect: str) -> None:
        self.connect = connect
        self.zk = KazooClient(hosts=connect, timeout=10)
        self.zk.start(timeout=10)
        self.zk.ensure_path("/brokers/ids")

    def topic(self, name: str, partitions: int) -> None:
        node = {"version": 1, "partitions": {str(p): [0] for p in range(partitions)}}
        self.zk.create(f"/brokers/topics/{name}", json.dumps(node).encode(), makepath=True)

    def member(self, name: str, text: str, copied: bool = False) -> None:
        self.zk.create(f"/consumers/g/ids/{name}", text.encode(), makepath=True, ephemeral=not copied)

    def own(self, partition: int, owner: str, copied: bool = False) -> None:
        """copied: no session holds the node."""
        self.zk.create(f"/consumers/g/owners/t/{partition}", owner.encode(), makepath=True, ephemeral=not copied)

    def free(self, partition: int) -> None:
        self.zk.delete(f"/consumers/g/owners/t/{partition}")

    def owners(self) -> dict[int, str]:
        folder = "/consumers/g/owners/t"
        names = self.zk.get_children(folder) if self.zk.exists(folder) else []
        return {int(name): self.zk.get(f"{folder}/{name}")[0].decode() for name in names}

    def ids(self) -> list[str]:
        return sorted(self.zk.get_children("/consumers/g/ids"))


@pytest.fixture
def planted(zk_server: ZooKeeperAt, unique) -> Iterator[Planted]:
    root = KazooClient(hosts=zk_server.connect, timeout=10)
    root.start(timeout=10)
    root.ensure_path(unique.chroot)
    there = Planted(zk_server.connect + unique.chroot)
    yield there
    there.zk.stop()
    there.zk.close()
    root.delete(unique.chroot, recursive=True)
    root.stop()
    root.close()


def reader(planted: Planted, streams: int = 1, **options: object) -> Reader:
    return Reader(planted.connect, "g", {"t": streams}, **{"consumer_id": "ours", **OURS, **options})


def reads(ours: Reader, *partitions: int) -> None:
    """Wait until it reads these and no others."""
    wanted = {TopicPartition("t", p) for p in partitions}
    wait_until(lambda: ours.owns() == wanted, 10, lambda: f"{partitions}; {ours.owns()}, {ours.events}")


def test_an_id_node_that_is_empty_for_ever_is_left_out_after_the_alarm(planted):
    planted.topic("t", 2)
    planted.member("g_x", "")
    with reader(planted) as ours:
        reads(ours, 0, 1)
        told = [text for text in ours.kinds("outage") if "still trying" in text]
        assert "member g_x: registration: its node is empty" in told[0]
        planted.zk.set("/consumers/g/ids/g_x", STATIC.encode())  # and counts as soon as it is filled
        reads(ours, 0)


@pytest.mark.parametrize(
    ("member", "text", "owner"),
    [
        ("otherhost:1234", STATIC, "otherhost:1234"),  # no prefix of the group, no number of a thread
        (
            "x",
            '{ "version" : 1, "subscription" : { "t" : 1 }, "pattern" : "static", "timestamp" : 1394154511599 }',
            "x-0",
        ),
        ("g_x", '{"version":1,"subscription":{"t":1},"pattern":"white_list","timestamp":"1394154511"}', "g_x-0"),
    ],
    ids=["bare id", "blanks, time as a number", "white list for a topic"],
)
def test_members_that_write_otherwise_are_counted_and_their_owners_respected(planted, member, text, owner):
    planted.topic("t", 4)
    planted.member(member, text)
    first = member < "g_ours"
    theirs, mine = ((0, 1), (2, 3)) if first else ((2, 3), (0, 1))
    for p in theirs:
        planted.own(p, owner)
    with reader(planted) as ours:
        reads(ours, *mine)
        wait_until(lambda: ours.connector.settled, 5, lambda: f"a settled group: {ours.events}")
        assert planted.owners() == {**dict.fromkeys(theirs, owner), **dict.fromkeys(mine, "g_ours-0")}
        _audit_twice(ours)
        assert not ours.kinds("claim")


def test_one_owner_node_that_stays_for_ever_costs_its_partition_only(planted, tmp_path, capsys):
    planted.topic("t", 4)
    planted.own(2, "a-dead-process-0", copied=True)
    unblock = ["groups", "unblock", "-z", planted.connect, "--group", "g", "--undo-dir", str(tmp_path), "--execute"]
    with reader(planted) as ours:
        reads(ours, 0, 1, 3)
        assert planted.owners()[2] == "a-dead-process-0"
        told = ours.kinds("unread")[0]
        assert "t/2 is not read: it is owned by a-dead-process-0 (node /consumers/g/owners/t/2: no session" in told
        assert outcome(unblock) == 0
        assert "undo: zkconsumer groups unblock " in capsys.readouterr().err
        reads(ours, 0, 1, 2, 3)
        wait_until(lambda: ours.connector.settled, 5, "the whole share")
        assert len(planted.ids()) == 1  # of a live session
    (undo,) = tmp_path.iterdir()
    restore = ["groups", "unblock", "-z", planted.connect, "--restore", str(undo)]
    assert outcome([*restore, "--dry-run"]) == 0
    assert planted.owners() == {}
    assert outcome([*restore, "--execute"]) == 0
    assert planted.owners() == {2: "a-dead-process-0"}
    capsys.readouterr()
    assert outcome(["groups", "delete", "-z", planted.connect, "--group", "g", "--kafka-version", "0.8.2"]) == 3
    assert "no session holds /consumers/g/owners/t/2: `zkconsumer groups unblock` deletes" in capsys.readouterr().err


def test_an_id_node_of_a_copied_tree_is_found_and_deleted(planted, tmp_path, capsys):
    """The partitions that it is assigned were read by no member, and nothing said why."""
    planted.topic("t", 2)
    planted.member("g_zz", STATIC, copied=True)
    with reader(planted) as ours:
        reads(ours, 0)
        wait_until(lambda: ours.connector.settled, 5, "a settled group")
        _audit_twice(ours)
        assert [text for text in ours.kinds("claim") if "the id node of member g_zz: no session holds it" in text]
        assert outcome(["verify-rebalance", "g", "-z", planted.connect, "--kafka-version", "0.8.2", "-o", "csv"]) == 4
        assert "\nno session,,,g_zz,True," in capsys.readouterr().out
        unblock = ["groups", "unblock", "-z", planted.connect, "--group", "g"]
        assert outcome([*unblock, "--undo-dir", str(tmp_path), "--execute"]) == 0
        reads(ours, 0, 1)


def test_what_a_stranger_calls_nodes_and_writes_into_them_costs_what_it_stands_for(planted, capsys):
    """Each of these ended the program at its start, or repeated the round for ever."""
    planted.topic("t", 4)
    registered = b'{"version":1,"host":"h","port":9092}'
    for name in ("²", "9" * 4301, "01"):
        planted.zk.create(f"/brokers/ids/{name}", registered)
    planted.zk.create("/brokers/topics/aaa", b"junk")
    planted.own(2, "g_ours-²")
    planted.member("g_x", '{"version":1,"subscription":{"t":2000000000},"pattern":"static","timestamp":"1"}')
    with Reader(planted.connect, "g", {"t": 1, "aaa": 1}, consumer_id="ours", **OURS) as ours:
        reads(ours, 0, 1, 3)
        told = [text for text in ours.kinds("outage") if "still trying" in text]
        assert "2000000000 streams for 't', more than the limit of 10000" in told[0]
        planted.zk.set("/brokers/topics/aaa", b'{"version":1,"partitions":{"\xc2\xb2":[0]}}')
        planted.free(2)
        reads(ours, 0, 1, 2, 3)
        planted.zk.set("/brokers/topics/aaa", b"")
        for command in (["groups", "members"], ["groups", "describe"], ["verify-rebalance"]):
            capsys.readouterr()
            code = outcome([*command, "-z", planted.connect, "--group", "g", "--kafka-version", "0.8.2"])
            said = capsys.readouterr()
            assert code == (4 if command == ["verify-rebalance"] else 0), said  # of g_x, which cannot be read
            assert said.err.count("topic aaa: its node is empty: left out\n") == 1
            assert "cluster of 0.7" not in said.err
        planted.zk.set("/brokers/topics/aaa", b'{"version":1,"partitions":{"\xc2\xb2":[0]}}')
    capsys.readouterr()
    assert outcome(["topics", "-z", planted.connect, "--kafka-version", "0.8.2"]) == 0
    said = capsys.readouterr()
    assert said.out.count("\nt  ") == 4
    assert "topic aaa: '²' is not a partition: left out" in said.err
    assert "/brokers/ids/²: its name is not a broker id: left out" in said.err


def test_a_filter_that_cannot_be_translated_makes_us_leave_with_the_reason(planted):
    planted.topic("t", 2)
    pattern = r"(?x) t | u"
    with reader(planted) as ours:
        reads(ours, 0, 1)
        planted.member("g_x", STATIC.replace("static", "white_list").replace('"t"', json.dumps(pattern)))
        wait_until(lambda: ours.errors, 10, lambda: f"the stream to say why; {ours.events}")
        (error,) = ours.errors
        assert "FilterUnknown: member g_x subscribes by '(?x) t | u'" in str(error)
        assert isinstance(error.__cause__, FilterUnknown)
        assert error.__cause__.member == "g_x"
        wait_until(lambda: planted.ids() == ["g_x"] and not planted.owners(), 5, "our nodes to go")


def test_more_threads_than_partitions_is_said_once_and_no_round_follows(planted):
    planted.topic("t", 2)
    with reader(planted, streams=3) as ours:
        reads(ours, 0, 1)
        wait_until(lambda: ours.connector.settled, 5, "a settled group")
        member = ours.connector._engine.assignment.member
        rounds = member.rounds
        _audit_twice(ours)
        time.sleep(1.0)  # longer than three waits between rounds would be
        assert member.rounds == rounds
        (told,) = ours.kinds("idle")
        assert told.startswith("topic t has 2 partitions for 3 threads of this group: 1 thread reads nothing of it; 3 ")


def test_an_audit_finds_an_owner_that_is_not_registered_and_takes_nothing_from_it(planted):
    planted.topic("t", 2)
    planted.member("g_zz", STATIC)
    planted.own(1, "g_gone-0")
    with reader(planted) as ours:
        reads(ours, 0)
        wait_until(lambda: ours.connector.settled, 5, "a settled group")
        _audit_twice(ours)
        _audit_twice(ours)
        told = ours.kinds("claim")
        assert [
            text for text in told if "t/1 is owned by 'g_gone-0', which is not a thread of a registered member" in text
        ]
        assert len(told) == len(set(told))
        assert planted.owners()[1] == "g_gone-0"


def test_a_thousand_partitions_are_claimed_and_started_at_once(planted):
    planted.topic("t", 1000)
    began = time.monotonic()
    with reader(planted, **PATIENT) as ours:
        wait_until(lambda: len(ours.owns()) == 1000, 15, "all of them")
        took_s = time.monotonic() - began
        assert len(planted.zk.get_children("/consumers/g/owners/t")) == 1000
        assert not [text for text in ours.kinds("rebalance") if "trying" in text]
    print(f"1000 partitions claimed and started in {took_s:.2f} s")
    assert took_s < 5


def _audit_twice(ours: Reader) -> None:
    """As the timer does each 30 s."""
    engine = ours.connector._engine
    for _ in range(2):
        ours.connector._hub.call(engine.assignment.audit.audit)


def test_a_white_list_without_a_black_one_chooses_what_java_chooses():
    lists = ["a.*", "a1|b2", r"\Qa.b", "(?i)A.*", r"[a-c]\d", "(a|b).*", ".*-eu", "orders,clicks.*", r"\w+", "a$|b"]
    names = [
        "a",
        "a1",
        "A1",
        "a12",
        "b2",
        "b",
        "a.b",
        "axb",
        "orders",
        "orders-eu",
        "clicks-eu",
        "c9",
        "__x",
        "a-",
        "zz",
    ]
    both = [(Whitelist(white), Blacklist(black)) for white in lists for black in lists]
    answers = oracle.ask_java([("match", white.without(black).regex, *names) for white, black in both])
    for (white, black), answer in zip(both, answers, strict=True):
        wanted = [white.matches(name) and black.matches(name) for name in names]
        ours = [white.without(black).matches(name) for name in names]
        assert answer is not None, white.without(black).regex
        assert ours == wanted == [bit == "1" for bit in answer], white.without(black).regex
