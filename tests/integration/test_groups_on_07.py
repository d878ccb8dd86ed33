"""Groups on 0.7, all members ours: nodes, shares, brokers that come, go, move and change, sessions that end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from kazoo.exceptions import NotEmptyError

from kafkawire.znodes import group as groupnodes
from localkafka.seven.cluster import Cluster07
from localkafka.waiting import wait_until
from tests.integration.readers import places, wait_for_messages
from tests.integration.sevens import (
    member,
    offsets,
    owners,
    registrations,
    values,
    wait_for_shares,
)
from zkconsumer.errors import ConsumerError
from zkconsumer.filters import Blacklist, Whitelist

# On brokers in Python with every run of the tests, on originals with the long ones.
ORIGINAL = pytest.param("original", marks=[pytest.mark.kafka07, pytest.mark.faults])
pytestmark = [pytest.mark.real, pytest.mark.parametrize("kind07", ["python", ORIGINAL], indirect=True)]
Start = Callable[..., Cluster07]


def lot(name: str, count: int = 20) -> list[bytes]:
    return [b"%s %d" % (name.encode(), n) for n in range(count)]


def fill(cluster: Cluster07, topic: str, codec: str = "none") -> list[bytes]:
    """Messages into each partition of each broker; all their values."""
    found = []
    for partition in cluster.create_topic(topic):
        found += (some := lot(str(partition)))
        cluster.produce(topic, partition.broker, partition.index, some, codec=codec, batch=5)
    return found


def test_a_group_divides_in_text_order_commits_bytes_and_hands_over(cluster07: Start, unique: Any) -> None:
    cluster = cluster07(partitions={2: 2, 10: 3})
    zk, group, topic = cluster.zk(), unique.group(), unique.topic()
    everything = fill(cluster, topic)
    with member(cluster, group, {topic: 1}, consumer_id="a") as a:
        wait_for_messages(100, a)
        assert registrations(zk, group)[f"{group}_a"] == f'{{ "{topic}": 1 }}'
        with member(cluster, group, {topic: 1}, consumer_id="b") as b:
            wait_for_shares(zk, group, topic, {f"{group}_a": ["10-0", "10-1", "10-2"], f"{group}_b": ["2-0", "2-1"]})
            assert owners(zk, group, topic)["10-2"] == f"{group}_a-0"
            more = [b"more %d" % n for n in range(5)]
            cluster.produce(topic, 2, 1, more, codec="gzip", batch=5)
            wait_until(lambda: set(more) <= set(values(b)), 30, "the new ones")
            a.stop()
            wait_for_shares(zk, group, topic, {f"{group}_b": ["10-0", "10-1", "10-2", "2-0", "2-1"]})
            b.stop()
    assert sorted(values(a, b), key=str) == sorted([*everything, *more], key=str)
    ends = {str(p): end for p, end in cluster.ends(topic).items()}
    assert offsets(zk, group, topic) == ends
    assert owners(zk, group, topic) == registrations(zk, group) == {}


def test_a_broker_killed_hard_takes_its_partitions_once_its_session_is_over(cluster07: Start, unique: Any) -> None:
    cluster = cluster07(partitions={0: 1, 1: 1})
    zk, group, topic = cluster.zk(), unique.group(), unique.topic()
    fill(cluster, topic)
    with member(cluster, group, {topic: 1}) as reader:
        wait_for_messages(40, reader)
        cluster.node(1).kill()
        cluster.produce(topic, 0, 0, [b"meanwhile"])
        wait_until(lambda: b"meanwhile" in values(reader), 30, "the other broker to be read all the time")
        wait_until(lambda: sorted(owners(zk, group, topic)) == ["0-0"], 20, "0-0 alone")
        cluster.node(1).restart()
        cluster.produce(topic, 1, 0, [b"after"])
        wait_until(lambda: b"after" in values(reader), 20, "the broker to be read again")
        assert max(places(reader).values()) == 1


def test_a_broker_at_another_address_with_more_partitions_is_followed(cluster07: Start, unique: Any) -> None:
    cluster = cluster07(partitions={0: 1})
    zk, group, topic = cluster.zk(), unique.group(), unique.topic()
    fill(cluster, topic)
    with member(cluster, group, {topic: 1}) as reader:
        wait_for_messages(20, reader)
        was = cluster.node(0).port
        cluster.node(0).restart(port=0, settings={"num.partitions": 3})
        assert cluster.node(0).port != was
        cluster.produce(topic, 0, 0, [b"again"])
        cluster.produce(topic, 0, 2, [b"in a partition that was not there"])
        wait_until(lambda: len(values(reader)) == 22, 20, lambda: f"22 messages, have {len(values(reader))}")
        assert sorted(owners(zk, group, topic)) == ["0-0", "0-1", "0-2"]
        cluster.node(0).restart(settings={"num.partitions": 1})
        wait_until(lambda: sorted(owners(zk, group, topic)) == ["0-0"], 20, "one partition")
        cluster.produce(topic, 0, 0, [b"last"])
        wait_until(lambda: b"last" in values(reader), 30, "the last one")


def test_a_topic_that_is_deleted_and_made_again_is_read_from_its_start(cluster07: Start, unique: Any) -> None:
    cluster = cluster07(partitions={0: 1})
    zk, group, topic = cluster.zk(), unique.group(), unique.topic()
    fill(cluster, topic)
    with member(cluster, group, {topic: 1}) as reader:
        wait_for_messages(20, reader)
        wait_until(lambda: offsets(zk, group, topic) == {"0-0": cluster.end(topic, 0, 0)}, 30, "the commit")
        cluster.node(0).stop()
        for segment in cluster.node(0).segments(topic, 0):
            segment.unlink()
        (cluster.node(0).data / f"{topic}-0").rmdir()
        cluster.node(0).restart()
        wait_until(lambda: owners(zk, group, topic) == {}, 20, "nothing to own")
        cluster.produce(topic, 0, 0, [b"new"])
        wait_until(lambda: b"new" in values(reader), 20, "the new topic")
        assert any("out of range" in text for text in reader.kinds("reset"))


def test_filters_find_topics_as_they_appear(cluster07: Start, unique: Any) -> None:
    cluster = cluster07(partitions={0: 1})
    zk, group = cluster.zk(), unique.group()
    cluster.produce("one", 0, 0, [b"1"])
    with member(cluster, group, Whitelist("one,t.*"), 2, consumer_id="w") as white:
        assert registrations(zk, group)[f"{group}_w"] == "*2*one|t.*"
        wait_for_messages(1, white)
        cluster.produce("two", 0, 0, [b"2"])
        cluster.produce("other", 0, 0, [b"3"])
        wait_for_messages(2, white)
        with member(cluster, group, Blacklist("t.*"), consumer_id="x") as black:
            assert registrations(zk, group)[f"{group}_x"] == "!1!t.*"
            wait_until(lambda: values(black) == [b"3"], 30, "the topic that the white list leaves")
    assert sorted(values(white), key=str) == [b"1", b"2"]


def test_the_node_of_the_session_before_is_not_taken_for_ours(cluster07: Start, unique: Any) -> None:
    """A registration of 0.7 has no time in it: the text that a dead session left is the same as the new one."""
    cluster = cluster07(partitions={0: 2})
    zk, group, topic = cluster.zk(), unique.group(), unique.topic()
    fill(cluster, topic)
    left = cluster.zk()
    path = groupnodes.member(group, f"{group}_a")
    left.create(path, f'{{ "{topic}": 1 }}'.encode(), ephemeral=True, makepath=True)
    for name in ("0-0", "0-1"):
        left.create(f"{groupnodes.owners(group, topic)}/{name}", f"{group}_a-0".encode(), ephemeral=True, makepath=True)
    gone: list[float] = []
    timer = threading.Timer(1.0, lambda: (gone.append(time.monotonic()), left.stop()))  # the session before ends then
    timer.start()
    with member(cluster, group, {topic: 1}, consumer_id="a") as reader:
        wait_for_messages(40, reader)
        assert min(got.at for got in reader.got) > gone[0]
        assert zk.get(path)[1].ephemeralOwner != left.client_id
        assert sorted(owners(zk, group, topic)) == ["0-0", "0-1"]
        assert max(places(reader).values()) == 1


def test_a_group_whose_nodes_are_deleted_registers_again(cluster07: Start, unique: Any) -> None:
    """0.7's console consumer deletes the whole group when it begins --from-beginning."""
    cluster = cluster07(partitions={0: 2})
    zk, group, topic = cluster.zk(), unique.group(), unique.topic()
    fill(cluster, topic)
    with member(cluster, group, {topic: 1}) as reader:
        wait_for_messages(40, reader)
        with suppress(NotEmptyError):  # it is quick to come back
            zk.delete(f"/consumers/{group}", recursive=True)
        wait_until(lambda: sorted(owners(zk, group, topic)) == ["0-0", "0-1"], 20, "to own them again")
        for index in (
            0,
            1,
        ):  # both: a deletion may take a position that was committed in between, until there is a new one
            cluster.produce(topic, 0, index, [b"after"])
        wait_until(lambda: values(reader).count(b"after") >= 2, 30, "to read again")
        wait_until(lambda: len(offsets(zk, group, topic)) == 2, 30, "to commit again")


def test_a_member_of_the_other_generation_is_refused_before_it_registers(cluster07: Start, unique: Any) -> None:
    """Its node would stop the original's members."""
    cluster = cluster07()
    group = unique.group()
    with pytest.raises(ConsumerError, match=r"are of Kafka 0\.7, and kafka.version is 0\.8\.2: set it right"):
        member(cluster, group, {"t": 1}, kafka_version="0.8.2")
    assert cluster.zk().exists(f"/consumers/{group}") is None
