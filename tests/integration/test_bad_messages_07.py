"""A damaged message of a 0.7 source, and one that the target does not take, in their policies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kafkawire.model import BrokerPartition
from localkafka.client import ClusterClient
from localkafka.seven.cluster import Cluster07
from tests.conftest import Unique
from tests.integration.badlogs import LARGE, letters, values_of
from tests.integration.mirroring07 import Mirror07, damaged
from zkconsumer.refusals import NotLeader, UnknownPartition

pytestmark = pytest.mark.real
ENTRY = 10 + 10  # bytes of a message of ten


def once(target: ClusterClient, topic: str, wanted: list[bytes]) -> bool:
    """Whether these values are there, in this order; what travelled with a large one may be there twice."""
    try:
        return list(dict.fromkeys(values_of(target, topic, 0))) == wanted
    except (NotLeader, UnknownPartition):  # the mirror makes the topic, and its leader does not know yet
        return False


def test_exactly_the_bad_messages_of_0_7_go_to_the_dead_letter_topic(
    cluster07: Callable[..., Cluster07], target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    source, topic, dead = cluster07(partitions={0: 2}), unique.topic(), unique.topic("dead")
    target.create_topic(topic, 2, config={"max.message.bytes": "20000"})
    values = [b"0-0:%06d" % n for n in range(6)]
    source.produce(topic, 0, 0, values[:3])
    source.produce(topic, 0, 0, [values[3], LARGE, values[4]], "gzip", batch=3)
    source.produce(topic, 0, 0, values[5:])
    source.produce(topic, 0, 1, [b"0-1:000000"])
    damaged(source, topic, BrokerPartition(0, 0), 2 * ENTRY - 1)  # in the second message
    section = {"metadata.broker.list": target.brokers, "target.zookeeper.connect": target.zookeeper}
    settings = {"corrupt.policy": "dead-letter", "oversize.policy": "dead-letter", "dead.letter.topic": dead}
    with Mirror07(tmp_path, source, section, unique.group(), topic, settings) as mirror:
        wanted = [values[0], *values[2:]]
        mirror.wait_for(partial(once, target, topic, wanted), "all but the bad ones", 60)
        mirror.wait_all_committed()
        assert values_of(target, topic, 1) == [b"0-1:000000"]
        assert mirror.stop()[0] == 0
    corrupt, oversize = letters(target, dead, [topic])
    assert (corrupt.offset, corrupt.kind, corrupt.content, corrupt.offsets) == (ENTRY, "corrupt", "entry", None)
    assert corrupt.data is not None
    assert corrupt.data[10:-1] == values[1][:-1]
    assert (oversize.offset, oversize.kind, oversize.data) == (3 * ENTRY, "oversize", LARGE)
    assert {letter.partition for letter in (corrupt, oversize)} == {"0-0"}


def test_a_message_that_no_fetch_can_hold_is_left_out_and_its_letter_says_where_it_is(
    cluster07: Callable[..., Cluster07], target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    source, topic, dead = cluster07(partitions={0: 1}), unique.topic(), unique.topic("dead")
    source.produce(topic, 0, 0, [b"0-0:000000"])
    source.produce(topic, 0, 0, [LARGE * 5])
    source.produce(topic, 0, 0, [b"0-0:000001"])
    section = {"metadata.broker.list": target.brokers, "target.zookeeper.connect": target.zookeeper}
    settings = {"oversize.policy": "dead-letter", "dead.letter.topic": dead}
    more = {"fetch.message.max.bytes": 16384, "fetch.growth.max.bytes": 65536}
    with Mirror07(tmp_path, source, section, unique.group(), topic, settings, more) as mirror:
        mirror.wait_for(partial(once, target, topic, [b"0-0:000000", b"0-0:000001"]), "what lies around it", 60)
        mirror.wait_all_committed()
        assert mirror.stop()[0] == 0
    [letter] = letters(target, dead, [topic])
    assert (letter.offset, letter.kind, letter.content, letter.size) == (
        ENTRY,
        "oversize",
        "entry",
        5 * len(LARGE) + 10,
    )
    assert not letter.complete
    assert letter.data is not None
    assert letter.data[10:] == (LARGE * 5)[: len(letter.data) - 10]
    assert "raise fetch.growth.max.bytes" in letter.reason
