"""Groups on Kafka's own coordinator: members of ours beside the Java consumer's, on real brokers of each line."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from operator import gt
from pathlib import Path
from typing import Any

import pytest

from kafkawire.model import Message
from localkafka.cluster import Cluster
from localkafka.kraft import KraftBroker
from localkafka.mirror import COMMAND
from localkafka.waiting import wait_until
from localkafka.zookeeper import ZooKeeperAt
from tests.conftest import Unique
from tests.integration.coordinated import (
    SESSION_MS,
    Committed,
    GroupProcess,
    Writer,
    check_all_delivered,
    check_owned_once,
    java,
    ours,
    release_of,
    wait_reading,
    wait_shared,
)
from zkconsumer.concurrent.handlers import Outcome, Retry, process
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import ConsumerError
from zkconsumer.filters import Whitelist

pytestmark = pytest.mark.real

PARTITIONS = 6
SETTINGS = {"group.min.session.timeout.ms": "1000"}


@pytest.fixture(scope="module")
def brokers_of(zk_server: ZooKeeperAt, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """brokers_of("3.9.1", topic) : the bootstrap list of a cluster of one broker with that topic; started when first
    asked for."""
    with ExitStack() as stack:
        started: dict[str, Any] = {}

        def at(version: str, topic: str, partitions: int = PARTITIONS) -> str:
            if version not in started:
                if not version.startswith(("3.", "4.")):
                    started[version] = Cluster(version=version, zookeeper=zk_server, settings=SETTINGS)
                else:
                    folder = tmp_path_factory.mktemp(f"kraft-{version}")
                    started[version] = KraftBroker(folder, version, settings=SETTINGS)
                stack.enter_context(started[version])
            cluster = started[version]
            if isinstance(cluster, Cluster):
                cluster.create_topic(topic, partitions)
            else:
                cluster.topics("--create", "--topic", topic, "--partitions", str(partitions))
            return str(cluster.brokers)

        yield at


@pytest.fixture
def members() -> Iterator[list[GroupProcess]]:
    """Those that the test appends are ended with it."""
    started: list[GroupProcess] = []
    yield started
    for member in started:
        member.child.close()


def options(version: str, brokers: str, group: str, **more: object) -> dict[str, object]:
    return {
        "coordination": "kafka",
        "bootstrap.servers": brokers,
        "group.id": group,
        "kafka.version": release_of(version),
        "auto.offset.reset": "smallest",
        "session.timeout.ms": SESSION_MS,
        "auto.commit.interval.ms": 300,
        "metadata.max.age.ms": 1000,
        **more,
    }


GROUPS = [
    # These four as the last one, 20 to 40 s each.  0.9: JoinGroup v0, without rebalance timeout, and OffsetCommit v2.
    pytest.param("0.9.0.1", "range", marks=pytest.mark.faults),
    pytest.param("0.10.2.2", "roundrobin", marks=pytest.mark.faults),
    pytest.param("2.8.2", "roundrobin", marks=pytest.mark.faults),
    pytest.param("3.9.1", "range", marks=pytest.mark.faults),
    ("4.3.1", "sticky"),
]


@pytest.mark.parametrize(("version", "strategy"), GROUPS)
def test_a_group_of_ours_and_of_the_jvm_loses_nothing_while_members_come_freeze_die_and_go(
    brokers_of: Callable[..., str],
    members: list[GroupProcess],
    unique: Unique,
    tmp_path: Path,
    version: str,
    strategy: str,
) -> None:
    topic, group = unique.topic(), unique.group()
    brokers = brokers_of(version, topic)
    own = options(version, brokers, group, **{"partition.assignment.strategy": strategy})
    name = {"range": "Range", "roundrobin": "RoundRobin", "sticky": "Sticky"}[strategy]
    theirs = {"partition.assignment.strategy": f"org.apache.kafka.clients.consumer.{name}Assignor"}

    with (
        Writer(version, brokers, topic, PARTITIONS, tmp_path) as writer,
        Committed(version, brokers, group, topic, PARTITIONS) as committed,
    ):
        members.append(ours(tmp_path, topic, own, streams=2))
        wait_shared(members, PARTITIONS)
        members.append(java(tmp_path, version, brokers, group, topic, theirs))
        wait_shared(members, PARTITIONS)
        members.append(ours(tmp_path, topic, own))
        wait_shared(members, PARTITIONS)
        wait_reading(members)
        first, of_java, second = members

        second.freeze()  # its partitions move; it delivers and commits nothing of them afterwards
        wait_shared([first, of_java], PARTITIONS)
        second.child.resume()
        wait_shared(members, PARTITIONS)
        wait_reading(members)

        first.kill()
        wait_shared([of_java, second], PARTITIONS)
        members.append(ours(tmp_path, topic, own))
        wait_shared([of_java, second, members[3]], PARTITIONS)
        of_java.child.stop()
        wait_shared([second, members[3]], PARTITIONS)

        sent = writer.end()
        wait_until(lambda: committed.now() == sent, 30, lambda: f"{committed.now()} to be {sent}; {members}")
        assert second.child.stop() == 0
        assert members[3].child.stop() == 0
        committed.end()
        assert committed.fell == []
    check_all_delivered(members, sent)
    check_owned_once(members)
    fences = [line for line in second.child.log.read_text().splitlines() if " fence: " in line]
    assert len(fences) == 1, second
    assert "others may own our partitions" in fences[0]
    late = [h for h in second.handed() if second.frozen[0] < h.at < float(fences[0].split()[0])]
    assert late == []


def test_the_coordinator_is_killed_and_its_group_goes_on_at_another_broker(
    own_cluster: Callable[..., Cluster], members: list[GroupProcess], unique: Unique, tmp_path: Path
) -> None:
    """With all defaults nobody is fenced by it, and nothing is read twice."""
    version, topic, group = "2.8.2", unique.topic(), unique.group()
    replicated = {"offsets.topic.replication.factor": "2", "offsets.topic.num.partitions": "1", **SETTINGS}
    replicated["zookeeper.session.timeout.ms"] = "10000"  # after which the crash is noticed: 18000 by Kafka's default
    cluster = own_cluster(version=version, brokers=2, settings=replicated)
    cluster.create_topic(topic, PARTITIONS, 2)

    with (
        Writer(version, cluster.brokers, topic, PARTITIONS, tmp_path) as writer,
        Committed(version, cluster.brokers, group, topic, PARTITIONS) as committed,
    ):
        own = options(version, cluster.brokers, group)
        del own["session.timeout.ms"]
        members.append(ours(tmp_path, topic, own))
        members.append(java(tmp_path, version, cluster.brokers, group, topic, {"session.timeout.ms": 45000}))
        wait_shared(members, PARTITIONS)
        wait_reading(members)
        wait_until(lambda: min(committed.now()) > 0, 20, lambda: f"commits of all; {members}")
        cluster.wait_in_sync("__consumer_offsets")
        cluster.node(cluster.wait_leader("__consumer_offsets", 0)).kill()
        before = list(writer.sent)
        wait_until(lambda: all(map(gt, committed.now(), before)), 60, lambda: f"commits beyond {before}; {members}")
        sent = writer.end()
        wait_until(lambda: committed.now() == sent, 30, lambda: f"{committed.now()} to be {sent}; {members}")
        for member in members:
            member.child.stop()
        committed.end()
        assert committed.fell == []
    check_all_delivered(members, sent)
    check_owned_once(members)
    assert not [line for line in members[0].child.log.read_text().splitlines() if " fence: " in line]
    handed = Counter((one.partition, one.offset) for member in members for one in member.handed())
    assert [at for at, times in handed.items() if times > 1] == []


def test_a_group_takes_no_member_whose_strategy_none_shares_nor_a_session_beyond_its_bounds(
    brokers_of: Callable[..., str], members: list[GroupProcess], unique: Unique, tmp_path: Path
) -> None:
    version, topic, group = "3.9.1", unique.topic(), unique.group()
    brokers = brokers_of(version, topic)
    members.append(java(tmp_path, version, brokers, group, topic))  # range, or cooperative-sticky
    wait_shared(members, PARTITIONS)
    console = [str(COMMAND.with_name("zkconsumer")), "consume", "-b", brokers, "--topic", topic]
    console += ["--from-beginning", "--timeout-ms", "1000"]
    done = subprocess.run(console, capture_output=True, text=True, timeout=60, check=False)  # of a group of its own
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    shared = subprocess.run([*console, "--group", group], capture_output=True, text=True, timeout=60, check=False)
    assert (shared.returncode, shared.stderr) == (0, "")  # came and went, as a member beside the JVM's
    wait_until(lambda: [len(period.partitions) for period in members[0].periods()][-3:] == [6, 3, 6], 20, repr(members))
    wrong = options(version, brokers, group, **{"partition.assignment.strategy": "roundrobin"})
    with ConsumerConnector(wrong) as connector, pytest.raises(ConsumerError) as refused:
        connector.create_message_streams({topic: 1})
    assert "InconsistentGroupProtocol (23)" in str(refused.value)
    assert "(they use range)" in str(refused.value)
    assert "set partition.assignment.strategy to one of theirs" in str(refused.value)
    with (
        ConsumerConnector(
            options(version, brokers, unique.group("short"), **{"session.timeout.ms": 1_000_000_000})
        ) as c,
        pytest.raises(ConsumerError, match=r"session\.timeout\.ms is 1000000000, outside the brokers' group\.min"),
    ):
        c.create_message_streams({topic: 1})


def test_the_example_of_the_page_runs(brokers_of: Callable[..., str], unique: Unique, tmp_path: Path) -> None:
    version, topic = "3.9.1", unique.topic("orders")
    brokers = brokers_of(version, topic, 1)
    page = (Path(__file__).parents[2] / "docs" / "consumer.md").read_text(encoding="utf-8")
    (example,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if '"coordination"' in block)
    for old, new in (
        ("broker1:9092,broker2:9092", brokers),
        ('"orders"', repr(topic)),
        ('"group.id"', '"consumer.timeout.ms": 5000, "group.id"'),
        ('"billing"', repr(unique.group())),
    ):
        assert old in example
        example = example.replace(old, new)
    with Writer(version, brokers, topic, 1, tmp_path) as writer:
        wait_until(lambda: writer.sent[0] >= 20, 20, "messages")
        (count,) = writer.end()
    program = [sys.executable, "-c", example]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert "ConsumerTimeout" in done.stderr
    assert done.stdout.splitlines() == [f"0 {n} b'{topic}/0 #{n}'" for n in range(count)]


def test_new_topics_and_partitions_are_found_and_workers_in_any_order_commit_what_is_done(
    brokers_of: Callable[..., str], unique: Unique, tmp_path: Path
) -> None:
    """process() by a filter, with eight workers that fail now and then: each message is handled, and committed once
    it is."""
    version, topic, group = "3.9.1", unique.topic(), unique.group()
    brokers = brokers_of(version, topic, 2)
    handled: set[tuple[str, int, int]] = set()
    tries: dict[tuple[str, int, int], int] = {}

    def handle(message: Message) -> Outcome | Retry | None:
        one = message.topic, int(str(message.partition)), message.offset
        tries[one] = tries.get(one, 0) + 1
        if message.offset % 7 == 3 and tries[one] == 1:
            return Retry(50)
        handled.add(one)
        return None

    own = options(version, brokers, group, delivery="on-ack")
    connector = ConsumerConnector(own, hub="own")
    runner = threading.Thread(target=process, args=(connector, handle, Whitelist(f"{topic}.*"), 8))
    runner.start()
    try:
        with Writer(version, brokers, topic, 2, tmp_path) as writer:
            wait_until(lambda: len(handled) > 30, 30, "messages of the first topic")
            first = writer.end()
        brokers_of(version, f"{topic}-new", 1)
        (tmp_path / "new").mkdir()
        with Writer(version, brokers, f"{topic}-new", 1, tmp_path / "new") as writer:
            wait_until(lambda: any(name.endswith("-new") for name, _, _ in handled), 30, "messages of the new topic")
            second = writer.end()
        wanted = {(topic, p, n) for p, count in enumerate(first) for n in range(count)}
        wanted |= {(f"{topic}-new", 0, n) for n in range(second[0])}
        wait_until(lambda: handled >= wanted, 30, lambda: f"{len(wanted - handled)} messages more")
    finally:
        connector.shutdown()
        runner.join(20)
    assert not runner.is_alive()
    for name, sent in ((topic, first), (f"{topic}-new", second)):
        with Committed(version, brokers, group, name, len(sent)) as committed:
            wait_until(lambda sent=sent, seen=committed: seen.now() == sent, 10, f"{sent} to be committed of {name}")
