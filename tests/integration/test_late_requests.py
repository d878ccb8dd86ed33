"""delivery.guarantee: exactly-once on real brokers, where a request of a transaction is carried out late, and where a
position is read right behind its transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from groundwork.tasks import connect
from kafkawire.dialects import dialect
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from localkafka.client import ClusterClient, log_end_offsets
from localkafka.cluster import Cluster
from producer.coordinators import OFFSETS_0, Coordinators, Probe
from producer.transaction import Transaction
from tests.conftest import Unique
from tests.integration.laterequests import END_TXN, LateRequests, code_of
from tests.integration.oncecopies import Copies, OnceMirror, copies
from tests.integration.sparktopics import produce

pytestmark = pytest.mark.real

HALF = 10
FENCED = {47, 90}


@contextmanager
def target_behind_a_proxy() -> Iterator[tuple[Cluster, LateRequests]]:
    cluster = Cluster(version="2.8.2")
    node = cluster.node(0)
    node._proxy = late = LateRequests(("127.0.0.1", node.port))  # type: ignore[assignment]  # as if it were proxied
    with cluster:
        yield cluster, late


def stored(target: ClusterClient, topic: str) -> int:
    """What the log of a topic of the target holds, marks of transactions included."""
    return sum(log_end_offsets(target, [topic]).values())


def test_the_end_of_a_transaction_that_comes_late_ends_no_later_one(
    source: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    """The proxy cuts the connection; the mirror asks again, and is answered.  It is killed in the next transaction,
    once the copy was delivered."""
    topic = unique.topic()
    source.create_topic(topic, 1)

    def half(number: int) -> None:
        produce(
            source, TopicPartition(topic, 0), [(None, b"%d" % n) for n in range(number * HALF, (number + 1) * HALF)]
        )

    with target_behind_a_proxy() as (target, late):
        target.create_topic(topic, 1)
        slowly = {"transaction.interval.ms": 4000, "offset.commit.interval.ms": 600_000}
        with OnceMirror(tmp_path, source, target, unique.group(), topic, mirror=slowly) as mirror:
            half(0)
            mirror.wait_for(lambda: stored(target, topic) == HALF, "the first half, in an open transaction")
            late.keep(END_TXN, b"\1")
            mirror.wait_for(lambda: stored(target, topic) == HALF + 1, "its end, though a request was lost")
            assert late.kept
            half(1)
            mirror.wait_for(lambda: stored(target, topic) == 2 * HALF + 1, "the second half, in an open transaction")
            code = code_of(late.deliver())
            mirror.kill()
            mirror.file.write_text(mirror.file.read_text().replace("4000", "100").replace("600000", "500"))
            mirror.start()
            mirror.wait_all()
            assert mirror.stop()[0] == 0, mirror.said()
        assert copies(source, target, topic, 1) == Copies(2 * HALF, 2 * HALF, lost=0, duplicates=0, disordered=0)
        assert code in FENCED


@pytest.mark.parametrize(("version", "probed"), [("0.11.0.3", "no other partition"), ("2.8.2", "another partition")])
def test_a_new_owner_finds_the_position_that_was_committed_a_moment_ago(
    own_cluster: Callable[..., Cluster], unique: Unique, version: str, probed: str
) -> None:
    topic, cluster = unique.topic(), own_cluster(version=version)
    cluster.create_topic(topic, 2)
    at = TopicPartition(topic, 0)
    beside = TopicPartition(topic, 1) if probed == "another partition" else OFFSETS_0
    broker = Broker(0, *cluster.node(0).advertised)
    asked = Coordinators(lambda: [broker], Links("test", connect, 10_000), dialect(version))
    found = []
    for number in range(40):
        first, second = (Transaction(f"{topic}-{number}", 60_000) for _ in range(2))
        assert asked.carry_out(first, lambda: True)
        first.begin()
        first.commit(first.id, {at: (number + 1, "")})
        assert asked.carry_out(first, lambda: True)
        assert asked.carry_out(second, lambda: True)
        rows = asked.positions(second, at, Probe(beside, f"probe {number}"), lambda: True)
        assert rows is not None
        found.append(rows[at].offset if at in rows else None)
    asked.close()
    assert found == [number + 1 for number in range(40)]
