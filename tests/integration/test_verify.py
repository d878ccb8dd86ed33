"""`mirrormaker verify` on real clusters: what is missing is found, what is not missing is not."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from kafkawire.znodes import v07 as znodes
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.seven.cluster import Cluster07
from localkafka.waiting import wait_until
from mirrormaker.commands.onlinetarget import target_view
from mirrormaker.config import from_yaml
from mirrormaker.deadletter import DeadLetter
from mirrormaker.deadletter import write as write_letter
from mirrormaker.verify import verifier
from mirrormaker.verify.verifier import Request
from tests.conftest import Unique
from tests.integration.mirroring import KEYED, Mirror, filled
from tests.integration.mirroring07 import Mirror07, fill
from tests.integration.verifying import commit, commit_to_kafka, numbered, settings, verify, without, write
from zkconsumer.simple import SimpleConsumer

pytestmark = pytest.mark.real
DELETING = {
    "log.retention.check.interval.ms": 300, "log.cleaner.enable": True, "log.cleaner.backoff.ms": 100,
    "log.cleaner.dedupe.buffer.size": 2 << 20,
}  # fmt: skip
TIMED, MINUTE_MS = "0.10.2.2", 60_000
ODD = ("missing", "duplicated", "only_in_target")


def test_one_message_that_is_missing_of_a_million_is_named_and_a_sound_pair_is_sound(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, group, rows = unique.topic(), unique.group(), numbered(500_000)
    for cluster in (source, target):
        cluster.create_topic(topic, 2)
    one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    others = numbered(500_000, 500_000)
    for tp, every in ((one, rows), (two, others)):
        write(source, tp, every)
    write(target, one, without(rows, 123_456))
    write(target, two, others, codec=2)
    commit(source, group, topic)
    file = settings(tmp_path, source, target, group, topic)
    found = verify(file)
    assert (found.code, found.total("source", "target", "missing")) == (4, [1_000_000, 999_999, 1]), found.said
    assert found.differences == [("missing", topic, "0", 123_456, 123_456, 1)]
    write(target, one, [rows[123_456]])
    found = verify(file)
    assert (found.code, found.document["missing"], found.differences) == (0, 0, []), found.said


def test_nothing_is_missing_while_messages_flow_through_a_mirror(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    """Also where it is killed meanwhile: what is sent twice then is a duplicate, and nothing else."""
    kept, keyed, group = unique.topic("kept"), unique.topic("keyed"), unique.group()
    target.create_topic(keyed, 2)
    load = filled(source, {kept: 2, keyed: 3}, 2000, KEYED)
    pattern = ".*" + unique.tag
    with Mirror(tmp_path, source, target, group, pattern) as mirror:
        mirror.wait_arrived(kept, 2000)
        with load.in_background({kept: KEYED, keyed: KEYED}, 2, 30_000):
            for turn in range(2):
                found = verify(mirror.file)
                assert found.code == 0, (found.document, found.said)
                odd = found.total("missing", "duplicated", "only_in_target", "not_yet_mirrored")
                assert odd == [0, 0, 0, 0], (
                    f"{found.document}; {found.said}; the mirror's log ends\n{mirror.said_last()}"
                )
                assert found.document["source"] >= 4000 + turn
            mirror.kill()
            assert verify(mirror.file, "--wait", "0").total("missing", "only_in_target") == [0, 0]
            mirror.start()
        mirror.wait_all_committed([kept, keyed])
        found = verify(mirror.file, "--deep")
        assert found.code == 0, found.document
        assert found.total("source", "missing", "only_in_target", "not_yet_mirrored") == [64_000, 0, 0, 0]
        assert {scope["partition"] for scope in found.document["scopes"] if scope["topic"] == keyed} == {"all"}


def test_a_topic_that_the_mirror_creates_while_verify_waits_is_compared(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    filled(source, {topic: 2}, 100, KEYED)

    mirror, started, lines = Mirror(tmp_path, source, target, unique.group(), topic), [], []

    class Waiting:
        """Starts the mirror once verify waits for its commits."""

        def line(self, text: str) -> None:
            lines.append(text)
            if not started:
                started.append(mirror.start())

        def update(self, done: int, note: str = "") -> None: ...

    configuration = from_yaml(mirror.file)
    try:
        found = verifier.verify(configuration, lambda: target_view(configuration.target), Request(), Waiting())
    finally:
        mirror.stop()
    counts = [sum(getattr(row, each) for row in found.scopes) for each in ("source", "target", *ODD)]
    assert counts == [100, 100, 0, 0, 0]
    idle = f"; no member of group {unique.group()} runs"
    assert lines[0].endswith(idle)
    assert any(not line.endswith(idle) for line in lines)


def test_what_only_one_side_has_is_told_apart(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, group = unique.topic(), unique.group()
    for cluster in (source, target):
        cluster.create_topic(topic, 1)
    tp, rows = TopicPartition(topic, 0), [*numbered(100), (None, None), (None, b""), (b"", None)]
    write(source, tp, rows, codec=1)
    write(target, tp, [*rows[:10], *rows[5:60], (b"k", b"of another"), *rows[63:]])
    commit(source, group, topic, {0: 90})
    file = settings(tmp_path, source, target, group, topic)
    found = verify(file, "--wait", "0")
    assert found.code == 4
    assert found.total(*ODD, "not_yet_mirrored") == [3, 5, 1, 13]
    assert found.differences == [
        ("missing", topic, "0", 60, 62, 3),
        ("duplicated", topic, "0", 10, 14, 5),
        ("only in target", topic, "0", 65, 65, 1),
    ]
    first = found.document["differences"][0]
    assert (first["key_bytes"], first["value_bytes"], first["value_crc"]) == (6, 10, f"{zlib.crc32(b'message 60'):08x}")
    letters = unique.topic("letters")
    target.create_topic(letters, 1)
    write(target, TopicPartition(letters, 0), [(None, dead_letter(topic, 60)), (None, b"of another")])
    named = file.read_text().replace("mirror:", f"mirror:\n  dead.letter.topic: {letters}")
    file.write_text(named)
    found = verify(file, "--wait", "0")
    assert (found.code, found.total("missing", "dead_letters")) == (4, [2, 1])
    assert found.differences[0] == ("missing", topic, "0", 61, 62, 2)
    write(target, tp, rows[61:63])
    found = verify(file, "--wait", "0", "--deep")
    assert (found.code, found.document["sound"]) == (0, True)
    assert "5 messages are at the target more often" in found.said
    assert verify(file, "--wait", "0", "--no-duplicates").code == 4
    write(target, tp, rows[60:61])
    in_kafka: dict[str, object] = {"offsets.storage": "kafka", "dual.commit.enabled": False}
    file = settings(tmp_path, source, target, group, topic, **in_kafka)
    commit_to_kafka(source, group, {tp: 50})
    assert verify(file, "--wait", "0").total("source", "not_yet_mirrored", "missing") == [50, 53, 0]


def test_what_retention_or_the_cleaner_deleted_is_not_missing(
    own_cluster: Callable[..., Cluster], source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    other = own_cluster(settings=DELETING)
    shorter, longer, compacted = (unique.topic(name) for name in ("shorter", "longer", "compacted"))
    rows, cutting = numbered(4000), {"segment.bytes": 20_000, "retention.bytes": 60_000, "file.delete.delay.ms": 100}
    for here, there, topic in ((source, other, shorter), (other, target, longer)):
        for cluster in (here, there):
            cluster.create_topic(topic, config=cutting if cluster is other else None)
        write(here, TopicPartition(topic, 0), rows, lot=100)
        write(there, TopicPartition(topic, 0), without(rows, 3900), lot=100)
    cleaning = {"cleanup.policy": "compact", "segment.bytes": 20_000, "min.cleanable.dirty.ratio": 0.01}
    keyed = [(b"key-%d" % (n % 13), None if n % 13 == 3 else b"value %d" % n) for n in range(3000)]
    for cluster in (source, other):
        cluster.create_topic(compacted, config=cleaning if cluster is other else None)
        write(cluster, TopicPartition(compacted, 0), keyed, lot=100)
    wait_until(lambda: all(earliest(other, topic) > 0 for topic in (shorter, longer)), 60, "segments to be deleted")
    other.wait_cleaned(TopicPartition(compacted, 0), at_most=13 * 300)
    for cluster, topic in ((source, shorter), (source, compacted), (other, longer)):
        commit(cluster, unique.group(), topic)

    found = verify(settings(tmp_path, source, other, unique.group(), f"{shorter}|{compacted}"))
    rows_found = {scope["topic"]: scope for scope in found.document["scopes"]}
    assert found.differences == [("missing", shorter, "0", 3900, 3900, 1)]
    assert (found.code, rows_found[shorter]["deleted_at_target"] > 1000) == (4, True)
    assert (rows_found[compacted]["missing"], rows_found[compacted]["only_in_target"]) == (0, 0)
    assert "compacted: the last message of each key was compared" in rows_found[compacted]["notes"]
    write(source, TopicPartition(compacted, 0), [(b"key-5", b"newer")])
    commit(source, unique.group(), compacted)
    found = verify(settings(tmp_path, source, other, unique.group(), compacted))
    assert found.differences == [("missing", compacted, "0", 3000, 3000, 1)]

    found = verify(settings(tmp_path, other, target, unique.group(), longer))
    assert found.differences == [("missing", longer, "0", 3900, 3900, 1)]
    assert found.document["only_in_target"] == 0
    assert "older than what the other side still has" in str(found.document["scopes"][0]["notes"])


def dead_letter(topic: str, offset: int) -> bytes:
    """A record of the dead letter topic."""
    letter = DeadLetter(
        source="dc1", topic=topic, partition="0", offset=offset, offsets=1, kind="oversize", reason="too large",
        content="value", data=b"x", size=1, crc32=0, key=None, timestamp_ms=None, at_ms=0,
    )  # fmt: skip
    return write_letter(letter, 10_000)


def earliest(cluster: ClusterClient, topic: str) -> int:
    host, port = cluster.brokers.split(",")[0].split(":")
    with SimpleConsumer(host, int(port)) as asked:
        return asked.earliest(TopicPartition(topic, 0))


def test_out_of_seven_every_message_of_every_broker_is_looked_for(
    cluster07: Callable[..., Cluster07], target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    source, topic = cluster07(partitions={0: 2, 3: 1}), unique.topic()
    total = fill(source, topic, 400)
    section = {"metadata.broker.list": target.brokers, "target.zookeeper.connect": target.zookeeper}
    with Mirror07(tmp_path, source, section, unique.group(), topic) as mirror:
        mirror.wait_all_committed()
        assert mirror.stop()[0] == 0
    found = verify(mirror.file)
    assert (found.code, found.total("source", "target", *ODD)) == (0, [total, total, 0, 0, 0]), found.document
    source.produce(topic, 3, 0, [b"not mirrored"], "none")
    found = verify(mirror.file, "--wait", "0")
    assert (found.code, found.document["source"]) == (0, total)
    assert found.document["not_yet_mirrored"] > 0
    assert found.said.endswith("; what is not yet mirrored is no difference: its group has not committed it\n")
    for partition, end in source.ends(topic).items():
        source.zk().set(znodes.offset(unique.group(), TopicPartition(topic, partition)), str(end).encode())
    found = verify(mirror.file)
    [odd] = found.document["differences"]
    assert (found.code, odd["partition"], odd["messages"], odd["value_bytes"]) == (4, "3-0", 1, len(b"not mirrored"))


def test_timestamps_bound_what_is_compared_and_are_compared_themselves(
    own_cluster: Callable[..., Cluster], unique: Unique, tmp_path: Path
) -> None:
    source, target = own_cluster(version=TIMED), own_cluster(version=TIMED)
    topic, group, rows = unique.topic(), unique.group(), numbered(600)
    tp, begin_ms = TopicPartition(topic, 0), time.time_ns() // 1_000_000 - 600 * MINUTE_MS
    times = [begin_ms + n * MINUTE_MS for n in range(600)]
    kept = without(range(600), 5, 500)
    for cluster in (source, target):
        cluster.create_topic(topic)
    write(source, tp, rows, times_ms=times)
    times[550] += 1
    write(target, tp, [rows[n] for n in kept], times_ms=[times[n] for n in kept])
    commit(source, group, topic)
    file = settings(tmp_path, source, target, group, topic, version=TIMED)
    file.write_text(file.read_text().replace("target:", f"target:\n  target.version: {TIMED}"))
    lost = [("missing", topic, "0", n, n, 1) for n in (5, 500)]
    assert verify(file).differences == lost
    since = ("--since", datetime.fromtimestamp(times[300] / 1000, UTC).isoformat())
    found = verify(file, *since)
    assert (found.differences, found.document["source"]) == (lost[1:], 300)
    found = verify(file, *since, "--deep")
    assert found.differences == [
        *lost[1:],
        ("missing", topic, "0", 550, 550, 1),
        ("only in target", topic, "0", 548, 548, 1),
    ]
    assert "timestamps were compared" in found.document["scopes"][0]["notes"]
