"""Where a member keeps its offsets: what it may begin with, what it shows, and a change that comes whole or not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from groundwork.tasks import Event
from kafkawire.dialects import dialect
from kafkawire.errors import LinkLost
from kafkawire.model import TopicPartition
from kafkawire.znodes.v08 import STATIC, Registration
from tests.fakes.stores import MemoryOffsets, held
from tests.fakes.znodes import FakeNode, FakeSession, FakeZookeeper
from zkconsumer.errors import ConsumerError
from zkconsumer.events import ConsumerEvent
from zkconsumer.offsets import modeswitch
from zkconsumer.offsets.commits import Commits
from zkconsumer.offsets.group import GroupOffsets
from zkconsumer.offsets.migrationmarker import Marker, Phase, marker_path, marker_text
from zkconsumer.offsets.modenode import ModeNode, read_modes
from zkconsumer.offsets.modes import MemberMode, Mode, ModeRefused, StoreCommit, mode_path, mode_text
from zkconsumer.offsets.modeswitch import LeftZooKeeper, NotMigrated, NotSwitched, OffsetMode
from zkconsumer.offsets.store import NONE

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
OURS = "g_host-1-aa"
OTHER = "g_host-2-bb"


class Session(FakeSession):
    session_id = 7


class Cursor(SimpleNamespace):
    __hash__ = object.__hash__

    def committable(self) -> int | None:
        return self.done


class World:
    """A member of group g that owns orders/0 and orders/1, of which 5 and 6 are done."""

    def __init__(self, mode: Mode, copy: bool = False, release: str = "0.8.2", auto_commit: bool = True) -> None:
        self.zk = FakeZookeeper({"/brokers/topics/orders": b'{"partitions": {"0": [1], "1": [1], "2": [1]}}'})
        self.session: Any = Session(self.zk)
        self.zookeeper, self.kafka = MemoryOffsets("zookeeper"), MemoryOffsets("kafka")
        self.store = GroupOffsets(mode, self.zookeeper, self.kafka, copy=copy)
        self.events: list[ConsumerEvent] = []
        self.cursors: Any = {
            A: Cursor(tp=A, done=5, committed=None, dropped=False),
            B: Cursor(tp=B, done=6, committed=None, dropped=False),
        }
        self.commits = Commits(self.store, "g", lease=held(), still_ours=lambda tps: tps, on_event=self.events.append)
        self.mode = OffsetMode(
            session=self.session,
            dialect=dialect(release),
            group="g",
            consumer_id=OURS,
            registration=Registration(STATIC, {"orders": 1}),
            exclude_internal=True,
            store=self.store,
            commits=self.commits,
            cursors=self.cursors,
            on_event=self.events.append,
            changed=Event(),
            auto_commit=auto_commit,
        )

    def offsets(self, zookeeper: dict[TopicPartition, int], kafka: dict[TopicPartition, int]) -> None:
        for tp, at in zookeeper.items():
            self.zk.set(f"/consumers/g/offsets/{tp.topic}/{tp.partition}", b"%d" % at)
            self.zookeeper.held["g", tp] = at
        for tp, at in kafka.items():
            self.kafka.held["g", tp] = at

    def other(self, mode: Mode) -> None:
        self.zk.set(mode_path("g", OTHER), mode_text(MemberMode(mode)).encode())

    def marked(self, phase: Phase) -> None:
        self.zk.set(marker_path("g"), marker_text(Marker("0123456789abcdef", phase, 1)).encode())

    def shown(self) -> MemberMode | None:
        found = read_modes(self.session, "g").get(OURS)
        assert found is None or isinstance(found, MemberMode)
        return found

    def kept(self) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        return tuple({tp: at for (_, tp), at in store.held.items()} for store in (self.zookeeper, self.kafka))  # type: ignore[return-value]


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(modeswitch, "COMPARE_S", 0.001)


# start ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["zookeeper", "dual", "kafka"])
def test_a_member_that_begins_shows_its_mode(mode):
    world = World(mode)
    world.mode.begin()
    assert world.shown() == MemberMode(mode)


def test_a_group_whose_node_is_closed_to_us_is_joined_all_the_same(monkeypatch):
    world = World("dual")

    def closed(*_: object, **__: object) -> None:
        raise ConsumerError("create /consumers/g/modes: the node is closed to us")

    monkeypatch.setattr(world.session, "create", closed)
    world.mode.begin()
    assert [event.text for event in world.events] == [
        "this member cannot publish its offset mode: create /consumers/g/modes: the node is closed to us"
    ]
    assert world.shown() is None


@pytest.mark.parametrize(
    ("ours", "theirs", "refused"),
    [
        ("zookeeper", "kafka", True),
        ("kafka", "zookeeper", True),
        ("dual", "kafka", False),
        ("dual", "zookeeper", False),
        ("kafka", "dual", False),
        ("zookeeper", "zookeeper", False),
    ],
)
def test_no_member_begins_beside_one_that_cannot_see_what_it_commits(ours, theirs, refused):
    world = World(ours)
    world.other(theirs)
    if refused:
        with pytest.raises(ModeRefused, match=OTHER):
            world.mode.begin()
    else:
        world.mode.begin()


def test_a_node_that_nobody_can_read_is_told_and_stops_nobody():
    world = World("kafka")
    world.zk.set(mode_path("g", OTHER), b"{")
    world.mode.begin()
    assert [OTHER in event.text for event in world.events] == [True]


@pytest.mark.parametrize(
    ("phase", "left"),
    [
        (Phase.DUAL, False),
        (Phase.CUTOVER, True),
        (Phase.DONE, True),
        (Phase.DUAL_BACK, True),
        (Phase.ROLLED_BACK, False),
    ],
)
def test_a_group_that_was_taken_off_zookeeper_is_not_read_from_there(phase, left):
    for mode in ("dual", "kafka"):
        world = World(mode)
        world.marked(phase)
        world.mode.begin()
    world = World("zookeeper")
    world.marked(phase)
    if left:
        with pytest.raises(LeftZooKeeper, match=r"migration 0123456789abcdef \(phase .*offsets\.storage=kafka"):
            world.mode.begin()
    else:
        world.mode.begin()


def test_a_mark_that_nobody_can_read_keeps_a_member_off_zookeeper():
    world = World("zookeeper")
    world.zk.set(marker_path("g"), b"mine")
    with pytest.raises(LeftZooKeeper, match="which is not a migration marker"):
        world.mode.begin()


def test_offsets_that_kafka_lacks_refuse_a_start_on_kafka_alone():
    world = World("kafka")
    world.offsets({A: 5, B: 6}, {B: 2})
    with pytest.raises(NotMigrated, match=r"of 1 partitions and Kafka has none of them, the first orders/0: .*=copy"):
        world.mode.begin()


def test_offsets_of_topics_that_we_do_not_read_or_that_are_gone_refuse_nothing():
    world = World("kafka")
    world.zk.set("/brokers/topics/other", b"{}")
    world.offsets({TopicPartition("other", 0): 5, TopicPartition("deleted", 0): 5}, {})
    world.zk.set("/consumers/g/offsets/orders/1-0", b"5")
    world.mode.begin()


def test_offsets_that_kafka_lacks_do_not_refuse_a_start_that_copies_or_keeps_both():
    for world in (World("kafka", copy=True), World("dual")):
        world.offsets({A: 5}, {})
        world.mode.begin()


def test_a_kafka_that_does_not_answer_at_start_is_told_and_waited_for_later():
    world = World("kafka")
    world.offsets({A: 5}, {})
    world.kafka.away = ConsumerError("no coordinator")
    world.mode.begin()
    assert [event.text for event in world.events] == [
        "it is not known yet whether all offsets are in Kafka: no coordinator"
    ]


def test_a_release_without_offsets_in_kafka_says_so():
    with pytest.raises(ConsumerError, match=r"offsets\.storage=zookeeper"):
        World("dual", release="0.8.1").mode.begin()


# switch --------------------------------------------------------------------------------------------------------------


def test_each_step_commits_everything_in_the_new_mode_and_shows_it():
    world = World("zookeeper")
    world.mode.begin()
    world.mode.switch("dual")
    assert world.kept() == ({A: 5, B: 6}, {A: 5, B: 6})
    world.cursors[A].done = 9
    world.mode.switch("kafka")
    assert world.kept() == ({A: 9, B: 6}, {A: 9, B: 6})  # left with both alike
    world.cursors[A].done = 11
    world.mode.switch("dual")
    world.mode.switch("zookeeper")
    assert world.kept() == ({A: 11, B: 6}, {A: 11, B: 6})
    shown = world.shown()
    assert shown is not None
    assert shown.mode == world.store.mode == "zookeeper"
    assert [event.text for event in world.events] == [
        "offsets of group g: zookeeper -> dual",
        "offsets of group g: dual -> kafka",
        "offsets of group g: kafka -> dual",
        "offsets of group g: dual -> zookeeper",
    ]


@pytest.mark.parametrize(("before", "after"), [("zookeeper", "kafka"), ("kafka", "zookeeper")])
def test_no_step_leaves_dual_out(before, after):
    world = World(before)
    world.mode.begin()
    with pytest.raises(ModeRefused, match="go to dual first"):
        world.mode.switch(after)
    assert world.store.mode == before


def test_a_program_that_commits_by_itself_has_only_that_committed_by_a_change():
    world = World("zookeeper", auto_commit=False)
    world.cursors[A].committed = 3
    world.mode.switch("dual")
    assert world.kept() == ({A: 3}, {A: 3})


def test_the_same_mode_again_changes_nothing():
    world = World("dual")
    world.mode.switch("dual")
    assert world.kept() == ({}, {})


@pytest.mark.parametrize(("before", "after"), [("zookeeper", "dual"), ("dual", "kafka"), ("dual", "zookeeper")])
def test_a_commit_that_fails_leaves_everything_as_it_was(before, after):
    world = World(before)
    world.mode.begin()
    world.kafka.refuse[A] = LinkLost("broker 1 is silent")
    with pytest.raises(NotSwitched, match=r"1 of 2 offsets .* the first orders/0: broker 1 is silent"):
        world.mode.switch(after)
    assert world.store.mode == before
    world.mode._publish()
    shown = world.shown()
    assert shown is not None
    assert shown.mode == before
    world.kafka.refuse.clear()
    world.mode.switch(after)  # the lock was given back
    assert world.store.mode == after


def test_a_store_that_cannot_be_asked_leaves_everything_as_it_was():
    world = World("dual")
    world.mode.begin()
    world.kafka.away = ConsumerError("no coordinator")
    with pytest.raises(NotSwitched, match="dual -> kafka: no coordinator; offsets are kept as before, in dual"):
        world.mode.switch("kafka")
    assert world.store.mode == "dual"


def test_nobody_leaves_dual_while_a_partition_of_another_member_is_in_one_store_only():
    world = World("dual")
    world.offsets({TopicPartition("orders", 2): 40}, {})
    with pytest.raises(NotSwitched, match=r"1 partitions are not in both stores, the first orders/2: ZooKeeper has 40"):
        world.mode.switch("kafka")
    world.mode.switch("zookeeper")
    assert world.store.mode == "zookeeper"


def test_an_idle_partition_that_kafka_alone_has_keeps_everybody_off_zookeeper_alone():
    world = World("dual")
    world.offsets({}, {TopicPartition("orders", 2): 40})  # of a JVM member: it writes ZooKeeper what moves
    with pytest.raises(NotSwitched, match=r"the first orders/2: Kafka has 40 and ZooKeeper nothing"):
        world.mode.switch("zookeeper")
    assert world.store.mode == "dual"
    world.mode.switch("kafka")
    assert world.store.mode == "kafka"


def test_topics_that_cannot_be_read_change_nothing():
    world = World("dual")
    world.zk.set("/brokers/topics/orders", b"{}")
    with pytest.raises(NotSwitched, match="the partitions of the topics cannot be read"):
        world.mode.switch("zookeeper")
    assert world.store.mode == "dual"


def test_a_topic_that_is_read_by_name_and_does_not_exist_keeps_nobody_in_dual():
    world = World("dual")
    world.mode.subscribe(Registration(STATIC, {"orders": 1, "absent": 1}))
    world.mode.switch("zookeeper")
    assert world.store.mode == "zookeeper"


def test_nobody_leaves_dual_for_where_another_member_cannot_see():
    world = World("dual")
    world.mode.begin()
    world.other("zookeeper")
    with pytest.raises(ModeRefused, match=OTHER):
        world.mode.switch("kafka")
    world.mode._publish()
    shown = world.shown()
    assert shown is not None
    assert (world.store.mode, shown.mode) == ("dual", "dual")


def test_nobody_goes_back_to_zookeeper_while_the_migration_says_it_is_left():
    world = World("dual")
    world.marked(Phase.DUAL_BACK)
    with pytest.raises(LeftZooKeeper):
        world.mode.switch("zookeeper")
    world.marked(Phase.ROLLED_BACK)
    world.mode.switch("zookeeper")


def test_members_without_a_mode_are_named_when_dual_is_left():
    world = World("dual")
    world.zk.set(f"/consumers/g/ids/{OTHER}", b"{}")
    world.mode.switch("kafka")
    assert world.events[-1].text.endswith(
        f"; 1 members show no mode and have to be in dual or kafka, the first {OTHER}"
    )


# the node ------------------------------------------------------------------------------------------------------------


def test_the_node_follows_the_commits_and_is_written_only_when_it_changes():
    world = World("dual")
    node = ModeNode(world.session, "g", OURS)
    assert node.put(MemberMode("dual"))
    writes = len([call for call in world.zk.calls if call[0] == "set"])
    assert node.put(MemberMode("dual"))
    assert len([call for call in world.zk.calls if call[0] == "set"]) == writes
    said = MemberMode("dual", StoreCommit(1, 2), StoreCommit(3, 4))
    assert node.put(said)
    assert world.shown() == said


def test_the_node_is_made_anew_in_a_new_session_or_when_somebody_deleted_it():
    world = World("dual")
    node = ModeNode(world.session, "g", OURS)
    node.put(MemberMode("dual"))
    world.zk.delete(mode_path("g", OURS))
    assert node.put(MemberMode("kafka"))
    assert world.shown() == MemberMode("kafka")
    world.zk.delete(mode_path("g", OURS))
    world.session.session_id = 8
    assert node.put(MemberMode("kafka"))
    assert world.shown() == MemberMode("kafka")


def test_a_node_of_our_last_session_is_waited_for():
    world = World("dual")
    world.zk.set(mode_path("g", OURS), mode_text(MemberMode("zookeeper")).encode())
    node: FakeNode = world.zk.nodes[mode_path("g", OURS)]
    node.ephemeralOwner = 6
    ours = ModeNode(world.session, "g", OURS)
    assert not ours.put(MemberMode("dual"))
    assert world.shown() == MemberMode("zookeeper")
    world.zk.delete(mode_path("g", OURS))
    assert ours.put(MemberMode("dual"))


def test_nobody_changes_while_the_others_see_what_was_shown_before():
    world = World("dual")
    world.zk.set(mode_path("g", OURS), mode_text(MemberMode("dual")).encode())
    world.zk.nodes[mode_path("g", OURS)].ephemeralOwner = 6
    with pytest.raises(NotSwitched, match="session of before"):
        world.mode.switch("kafka")
    assert world.store.mode == "dual"
    world.zk.delete(mode_path("g", OURS))
    world.mode.switch("kafka")
    shown = world.shown()
    assert shown is not None
    assert shown.mode == "kafka"


def test_members_that_must_not_run_beside_us_are_told_of_once_until_they_are_gone():
    world = World("kafka")
    world.other("zookeeper")
    for _ in range(2):
        world.mode._check_others()
    assert len(world.events) == 1
    world.other("dual")
    world.mode._check_others()
    world.other("zookeeper")
    world.mode._check_others()
    assert [OTHER in event.text for event in world.events] == [True, True]
    assert world.kafka.read("g", [A]) == {A: NONE}
