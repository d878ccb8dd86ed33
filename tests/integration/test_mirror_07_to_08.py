"""Out of 0.7 into a real 0.8.2.2: all arrives, in the order of each source partition, whoever dies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kafkawire.model import BrokerPartition
from localkafka import tools
from localkafka.client import ClusterClient, log_end_offsets
from localkafka.seven.cluster import Cluster07
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.integration.mirroring07 import Mirror07, fill, judged

pytestmark = pytest.mark.real
Starter = Callable[..., Cluster07]


def target_section(target: ClusterClient) -> dict[str, object]:
    return {"metadata.broker.list": target.brokers, "target.zookeeper.connect": target.zookeeper}


def stored(target: ClusterClient, topic: str, partitions: int) -> dict[object, list[bytes]]:
    """Values by partition, as the JVM dumps them."""
    found = tools.dump_topic(target, topic, range(partitions))
    return {partition: [(row.payload or "").encode() for row in rows] for partition, rows in found.items()}


def arrived(target: ClusterClient, topic: str) -> int:
    return sum(log_end_offsets(target, [topic]).values())


def settled(target: ClusterClient, topic: str) -> int:
    """What has arrived once no request is under way any more."""
    seen = [arrived(target, topic)]

    def again() -> bool:
        seen.append(arrived(target, topic))
        return len(seen) > 8 and len(set(seen[-8:])) == 1

    wait_until(again, 20, "the target to be still", every_s=0.2)
    return seen[-1]


def done(source: Cluster07, topic: str, committed: Mapping[BrokerPartition, int]) -> int:
    """Messages before the committed positions."""
    return sum(
        len([row for row in source.read(topic, p.broker, p.index) if row.position < at]) for p, at in committed.items()
    )


def test_kills_of_the_mirror_and_of_a_source_broker_lose_nothing(
    cluster07: Starter, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    source, topic = cluster07(partitions={0: 1, 1: 2, 2: 1}), unique.topic()
    total = fill(source, topic, 3000)
    mirror = Mirror07(
        tmp_path, source, target_section(target), unique.group(), topic, {"offset.commit.interval.ms": 200},
        {"fetch.message.max.bytes": 16384},
    )  # fmt: skip
    with mirror:
        mirror.wait_for(lambda: arrived(target, topic) > total // 5, "a fifth")
        mirror.kill()
        sent_twice = settled(target, topic) - done(source, topic, mirror.committed())  # at most
        mirror.start()
        mirror.wait_for(lambda: arrived(target, topic) > total // 2, "a half")
        source.node(1).kill()
        source.node(1).restart()
        total += fill(source, topic, 500, first=3000)
        mirror.wait_all_committed(timeout_s=60)
        assert mirror.stop()[0] == 0
    found = judged(source.values(topic), stored(target, topic, 4))
    assert (found.source, found.lost, found.phantoms, found.out_of_order, found.split) == (total, 0, 0, 0, 0)
    assert found.duplicates <= sent_twice, mirror.said()


def test_where_source_partitions_go_and_what_check_says(
    cluster07: Starter, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    source, topic, numbered = cluster07(partitions={0: 2, 3: 1}), unique.topic("hashed"), unique.topic("numbered")
    for name in (topic, numbered):
        fill(source, name, 50)
    mirror = Mirror07(tmp_path, source, target_section(target), unique.group(), topic)
    code, told = mirror.checked()
    assert (code, "missing, created with 3" in told, "which follows from its name" in told) == (0, True, True), told
    with mirror:
        mirror.wait_all_committed()
        mirror.wait_said("re-encode: source and target do not share a message format; all of a source partition goes")
        mirror.wait_said("lag 0 B")
        assert mirror.stop()[0] == 0
    found = stored(target, topic, 3)
    assert {place: {message.partition(b":")[0] for message in values} for place, values in found.items()} == {
        (0 + 13 * 0) % 3: {b"0-0", b"3-0"}, (0 + 13 * 1) % 3: {b"0-1"}, 2: set(),
    }  # fmt: skip
    more = {"broker.partitions": "3:1,0:2,7:1"}
    with Mirror07(tmp_path, source, target_section(target), unique.group(), numbered, more=more) as mirror:
        mirror.wait_all_committed(numbered)
        assert mirror.stop()[0] == 0
    found = stored(target, numbered, 4)
    assert [{message.partition(b":")[0] for message in values} for values in found.values()] == [
        {b"3-0"}, {b"0-0"}, {b"0-1"}, set(),
    ]  # fmt: skip
    assert judged(source.values(numbered), found).duplicates == 0


HANDLER = """
def keyed(message):
    return message.value.split(b":")[1][:6], message.value


def keyed_sets(messages):
    messages.keys = [value.split(b":")[1][:6] for value in messages.values]
    return messages
"""


@pytest.mark.parametrize("form", ["message.handler", "message.set.handler"])
def test_a_handler_makes_keys_where_0_7_has_none(
    cluster07: Starter, target: ClusterClient, unique: Unique, tmp_path: Path, form: str
) -> None:
    source, topic = cluster07(partitions={0: 1, 1: 1}), unique.topic()
    (tmp_path / "hook07.py").write_text(HANDLER)
    fill(source, topic, 200)
    env: dict[str, Any] = {"PYTHONPATH": str(tmp_path)}
    handler = {"message.handler": "hook07:keyed", "message.set.handler": "hook07:keyed_sets"}[form]
    options = {form: handler, "partitioning": "key"}
    with Mirror07(tmp_path, source, target_section(target), unique.group(), topic, options, env=env) as mirror:
        mirror.wait_all_committed()
        assert mirror.stop()[0] == 0
    rows = tools.dump_topic(target, topic, range(2))
    places: dict[str | None, set[int]] = {}
    for p, found in rows.items():
        for row in found:
            places.setdefault(row.key, set()).add(p)
    assert len(places) == 200  # both source partitions have each number once
    assert all(len(there) == 1 for there in places.values())
    assert sum(map(len, rows.values())) == 400
