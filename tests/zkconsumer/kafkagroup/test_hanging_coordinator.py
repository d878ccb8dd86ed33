"""A broker that takes connections and answers nothing, while a member of a group needs its coordinator."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from groundwork.tasks import now
from kafkawire.dialects import dialect
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from localkafka.waiting import wait_until
from tests.fakes.clocks import FakeClocks
from tests.fakes.commits import not_committed
from tests.fakes.coordinating import GroupCluster
from zkconsumer.daemonconnector import DaemonConnector
from zkconsumer.errors import ConsumerError, NotCommitted
from zkconsumer.events import ConsumerEvent
from zkconsumer.filters import Whitelist
from zkconsumer.kafkagroup import requests
from zkconsumer.offsets.coordinator import Coordinator
from zkconsumer.offsets.store import NONE

SESSION_S = 1.0
BEATS = 5  # of a session, at least
T0 = TopicPartition("t", 0)


@pytest.fixture
def cluster() -> Iterator[GroupCluster]:
    with GroupCluster({"t": 2}, brokers=3) as made:
        yield made


class Program:
    """A connector in a group that broker 1 coordinates.  bootstrap: the broker that it is given."""

    def __init__(self, cluster: GroupCluster, bootstrap: int = 3) -> None:
        self.cluster = cluster
        self.events: list[ConsumerEvent] = []
        self.deaths: list[BaseException] = []
        values: dict[str, object] = {
            "group.id": "g",
            "coordination": "kafka",
            "bootstrap.servers": "{}:{}".format(*cluster.addresses[bootstrap]),
            "kafka.version": "0.10.1",
            "session.timeout.ms": int(SESSION_S * 1000),
            "auto.offset.reset": "smallest",
            "rebalance.backoff.ms": 100,
        }
        self.connector = DaemonConnector(
            values, on_event=self.events.append, on_death=lambda name, why: self.deaths.append(why)
        )
        self.connector.create_message_streams_by_filter(Whitelist("t"), 1)

    def __enter__(self) -> Program:
        self.wait_settled()
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.wake(1, 2, 3)
        self.connector.shutdown()
        assert not self.deaths

    def wait_settled(self) -> None:
        wait_until(lambda: self.connector.settled, 20, "the member is in its group")

    def said(self, kind: str) -> list[str]:
        return [event.text for event in self.events if event.kind == kind]


def together(*calls: Callable[[], object]) -> list[str]:
    """Call each in a thread of its own; what was refused."""
    refused: list[str] = []

    def attempt(call: Callable[[], object]) -> None:
        try:
            call()
        except ConsumerError as reason:
            refused.append(str(reason))

    threads = [threading.Thread(target=attempt, args=(call,)) for call in calls]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return refused


def test_commands_and_heartbeats_that_ask_for_a_hanging_coordinator_end_nothing(cluster: GroupCluster) -> None:
    with Program(cluster) as program:
        connector, refused = program.connector, list[str]()
        cluster.hang(1)
        until = now() + 3 * SESSION_S
        while now() < until:
            refused += together(*[lambda: connector.owners(["t"])] * 3)
        assert refused
        assert all("coordinator" in one for one in refused)
        cluster.wake(1)
        program.wait_settled()
        assert len(connector.owners(["t"])) == 2


def test_no_question_that_hangs_delays_a_heartbeat(cluster: GroupCluster) -> None:
    """Neither commits nor commands are answered, and heartbeats have to find the coordinator again."""
    with Program(cluster) as program:
        connector = program.connector
        for api in ("Metadata", "OffsetCommit", "DescribeGroups", "ListOffsets"):
            cluster.hang(1, 2, 3, api=api)
        asking = threading.Thread(
            target=together,
            args=[connector.topics, lambda: connector.owners(["t"]), lambda: connector.seek(T0, "largest")],
        )
        before = cluster.count(3, "Metadata")
        asking.start()
        cluster.wait(lambda: cluster.count(3, "Metadata") > before + 1)
        cluster.coordinator = 2
        for n in range(1, 4):
            cluster.wait(lambda n=n: cluster.asked.count((2, "Heartbeat")) >= n * BEATS, SESSION_S)
        assert not program.said("fence")
        cluster.wake(1, 2, 3)
        asking.join()


def test_a_broker_with_old_metadata_is_not_asked_first_for_ever(cluster: GroupCluster) -> None:
    cluster.coordinator = 2
    cluster.says = {1: 3, 3: 3}  # what was true before
    links = Links("test", timeout_ms=2000)
    addresses = [Broker(broker, *address) for broker, address in cluster.addresses.items()]
    asked = Coordinator(lambda: addresses, links, dialect("0.10.1"), 5, 10, 5000)
    assert asked.fetch("g", [T0], "kafka") == {T0: NONE}
    assert [one for one in cluster.asked if one[1] == "GroupCoordinator"] == [
        (1, "GroupCoordinator"),
        (2, "GroupCoordinator"),
    ]
    links.close()


def test_a_member_leaves_a_coordinator_that_is_none_and_does_not_know_it(cluster: GroupCluster) -> None:
    with Program(cluster) as program:
        cluster.says = {1: 1, 3: 1}
        cluster.zombies, cluster.coordinator = {1}, 2
        program.connector.commit_offsets()
        cluster.wait(lambda: cluster.count(2, "Heartbeat") > 0)
        assert not program.said("fence")


def test_a_member_that_no_coordinator_takes_commits_of_is_fenced_though_its_heartbeats_are_answered(
    cluster: GroupCluster,
) -> None:
    with Program(cluster) as program:
        cluster.says = dict.fromkeys((1, 2, 3), 1)
        cluster.zombies, cluster.coordinator = {1}, 2
        with suppress(NotCommitted):  # the fence may come while the commit is still tried
            program.connector.commit_offsets()
        wait_until(lambda: bool(program.said("fence")), 10 * SESSION_S, "the member to be fenced")
        assert "lease over" in program.said("fence")[0]
        cluster.zombies, cluster.says = set(), {}


def test_a_fence_cuts_off_a_commit_that_is_in_flight(cluster: GroupCluster) -> None:
    """Left to its time-out it would hold up the commits of the next generation, and may be stored at last."""
    with Program(cluster) as program:

        def commit() -> None:
            with suppress(NotCommitted):  # the retry may meet the fence, too
                program.connector.commit_offsets()

        asked = cluster.count(1, "OffsetCommit")
        cluster.hang(1)
        committing = threading.Thread(target=commit)
        committing.start()
        cluster.wait(lambda: cluster.count(1, "OffsetCommit") > asked)
        wait_until(lambda: bool(program.said("fence")), 10 * SESSION_S, "the member to be fenced")
        committing.join(SESSION_S)
        assert not committing.is_alive()


@pytest.mark.parametrize("jump", [FakeClocks.suspend, FakeClocks.set_ahead], ids=["suspended", "a paused VM"])
def test_a_member_that_stood_still_commits_nothing_before_its_coordinator_has_answered(
    cluster: GroupCluster, monkeypatch: pytest.MonkeyPatch, jump: Callable[[FakeClocks, float], None]
) -> None:
    machine = FakeClocks(monkeypatch)
    with Program(cluster) as program:
        cluster.wait(lambda: len(cluster.committed) == 2)  # where it begins to read
        beats, commits = cluster.count(1, "Heartbeat"), cluster.count(1, "OffsetCommit")
        cluster.hang(1, api="Heartbeat")
        cluster.wait(lambda: cluster.count(1, "Heartbeat") > beats)
        jump(machine, 20.0)
        not_committed(program.connector.commit_offsets)
        assert cluster.count(1, "OffsetCommit") == commits
        cluster.wake(1)
        program.wait_settled()

        def commits_again() -> bool:
            with suppress(NotCommitted):
                program.connector.commit_offsets()
            return cluster.count(1, "OffsetCommit") > commits

        wait_until(commits_again, 20, "the member commits again")


@pytest.mark.parametrize("others", [(), (3,)], ids=["the others answer", "another one hangs, too"])
def test_a_coordinator_that_hangs_costs_a_member_that_joins_one_look(
    cluster: GroupCluster, others: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "LOOK_S", 0.4)
    monkeypatch.setattr(requests, "LOOK_UP_S", 0.4)
    with Program(cluster, bootstrap=2) as program:
        joined = cluster.count(1, "JoinGroup")
        cluster.hang(1, *others)
        cluster.wait(lambda: cluster.count(1, "JoinGroup") > joined)  # fenced: it joins at the one that it knows
        began, cluster.coordinator = now(), 2
        program.wait_settled()
        bound_s = requests.LOOK_S + requests.LOOK_UP_S
        assert now() - began < bound_s + 1.0  # the backoff, and another JoinGroup
        assert not program.said("over")[1:]


def test_a_join_that_waits_where_the_group_is_coordinated_is_not_cut_off(
    cluster: GroupCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "LOOK_S", 0.1)
    with Program(cluster) as program:
        joined = cluster.count(1, "JoinGroup")
        cluster.hang(1, api="JoinGroup")  # as while other members drain
        program.connector.change_filter(Whitelist("t|u"), 0.0)
        cluster.wait(lambda: cluster.count(1, "JoinGroup") > joined)
        looks = cluster.count(3, "GroupCoordinator")
        cluster.wait(lambda: cluster.count(3, "GroupCoordinator") >= looks + 3)
        cluster.says[3] = 2  # the metadata of one broker is old
        looks = cluster.count(2, "GroupCoordinator")
        cluster.wait(lambda: cluster.count(2, "GroupCoordinator") >= looks + 3)
        cluster.wake(1)
        program.wait_settled()
        assert cluster.count(1, "JoinGroup") == joined + 1


def test_a_join_whose_answer_never_comes_is_sent_again(cluster: GroupCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its coordinator answers all else: a connection that a machine on the way has forgotten, and nobody was told."""
    monkeypatch.setattr(requests, "LOOK_S", 0.1)
    monkeypatch.setattr(requests, "JOIN_MARGIN_MS", 1000 - 60_000)  # a second above the rebalance timeout is 60 s else
    with Program(cluster) as program:
        joined = cluster.count(1, "JoinGroup")
        cluster.hang(1, api="JoinGroup")
        program.connector.change_filter(Whitelist("t|u"), 0.0)
        cluster.wait(lambda: cluster.count(1, "JoinGroup") > joined + 1)
        cluster.wake(1)
        program.wait_settled()


def test_a_member_that_is_counted_out_is_told_what_that_is_and_nothing_of_commits_from_outside(
    cluster: GroupCluster,
) -> None:
    with Program(cluster) as program:
        cluster.members.clear()
        wait_until(lambda: program.said("fence"), 10, "the next heartbeat")
        (said,) = program.said("fence")
        assert "UnknownMemberId (25): the coordinator counts this member no more: it heard nothing of it" in said
        assert "this member was fenced from generation" in said
        assert "outside" not in said
        program.wait_settled()
