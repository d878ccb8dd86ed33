"""The mirror on real clusters, when nothing goes wrong."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from localkafka import tools
from localkafka.child import Child
from localkafka.client import ClusterClient, log_end_offsets
from localkafka.mirror import COMMAND
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.integration.mirroring import KEYED, PLAIN_ONLY, Mirror, compared, filled, totals

pytestmark = pytest.mark.real


def test_everything_arrives_once_also_across_a_clean_stop_and_start(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    mixed, keyed, plain = topics = [unique.topic(name) for name in ("mixed", "keyed", "plain")]
    load = filled(source, {mixed: 4}, 8000)
    load = filled(source, {keyed: 3}, 3000, KEYED)
    source.create_topic(plain, 1)
    load.produce(plain, 1, 2000, PLAIN_ONLY)
    with Mirror(tmp_path, source, target, unique.group(), ".*" + unique.tag) as mirror:
        mirror.wait_arrived(mixed, 2000)
        code, seconds = mirror.stop()
        assert (code, seconds < 10) == (0, True), mirror.said()
        load.produce(plain, 1, 1000, PLAIN_ONLY)
        load.produce(keyed, 3, 3000, KEYED)
        mirror.start()
        mirror.wait_all_committed(topics)
        assert mirror.stop()[0] == 0
        for topic, partitions, count in ((mixed, 4, 8000), (keyed, 3, 6000), (plain, 1, 3000)):
            found = totals(compared(mirror, topic, partitions))
            assert found == {"source": count, "target": count, "lost": 0, "duplicates": 0, "outside": 0, "phantoms": 0}
            assert len(log_end_offsets(target, [topic])) == partitions


def test_a_new_topic_is_mirrored_within_five_seconds_of_its_creation(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    first, late, other = unique.topic("a"), unique.topic("b"), unique.topic("other")
    filled(source, {first: 1}, 10)
    with Mirror(tmp_path, source, target, unique.group(), f"[ab]-{unique.tag}") as mirror:
        mirror.wait_arrived(first, 10)
        filled(source, {other: 1}, 10)
        created = time.monotonic()
        filled(source, {late: 3}, 300)
        mirror.wait_arrived(late, 300, 5 - (time.monotonic() - created))
        assert log_end_offsets(target, [other]) == {}


HANDLER = """
from mirrormaker.handler import DROP

def handler(message):
    if message.value is None or b"#1 " in message.value:
        return DROP
    if b"#2 " in message.value:
        return [message, (b"again", message.value)]
    if b"#3 " in message.value:
        return f"{message.topic}-moved", message.key, message.value
    return message
"""


def test_a_handler_drops_doubles_and_moves_messages(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, group = unique.topic(), unique.group()
    (tmp_path / "mirror_hooks.py").write_text(HANDLER)
    filled(source, {topic: 1}, 10)
    options = {"message.handler": "mirror_hooks:handler"}
    with Mirror(tmp_path, source, target, group, topic, options, env={"PYTHONPATH": str(tmp_path)}) as mirror:
        mirror.wait_all_committed([topic])
        assert mirror.stop()[0] == 0
    numbers = [(row.payload or "").split()[1] for row in tools.dump_partition(target, topic, 0)]
    assert numbers == ["#0", "#2", "#2", "#4", "#5", "#6", "#7", "#8", "#9"]
    moved = [(row.payload or "").split()[1] for row in tools.dump_partition(target, f"{topic}-moved", 0)]
    assert moved == ["#3"]


def test_a_smaller_target_gets_each_key_in_one_partition_and_in_order(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic = unique.topic()
    target.create_topic(topic, 2)
    filled(source, {topic: 3}, 3000, KEYED)
    with Mirror(tmp_path, source, target, unique.group(), topic) as mirror:
        mirror.wait_all_committed([topic])
        assert "partition chosen by key, as the target has 2 partitions, the source 3" in mirror.said()
    found = tools.dump_topic(target, topic, range(2))
    homes: dict[str | None, set[int]] = {}
    last: dict[tuple[str | None, str], int] = {}
    for p, rows in found.items():
        for row in rows:
            homes.setdefault(row.key, set()).add(p)
            came_from, number = (row.payload or "").split()[:2]
            assert int(number[1:]) > last.get((row.key, came_from), -1)  # in order, per key and source partition
            last[row.key, came_from] = int(number[1:])
    assert sum(len(rows) for rows in found.values()) == 3000
    assert {len(partitions) for partitions in homes.values()} == {1}
    assert all(len(rows) > 500 for rows in found.values())


def test_the_flags_of_the_original_run_the_same_mirror(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, group = unique.topic(), unique.group()
    filled(source, {topic: 2}, 400)
    consumer, producer = tmp_path / "consumer.properties", tmp_path / "producer.properties"
    consumer.write_text(f"zookeeper.connect={source.zookeeper}\ngroup.id={group}\nnum.consumer.fetchers=2\n")
    producer.write_text(
        f"metadata.broker.list={target.brokers}\ntarget.zookeeper.connect={target.zookeeper}\n"
        f"bootstrap.servers={target.brokers}\npartitioner.class=com.acme.X\nserializer.class=com.acme.Y\nacme.team=blue\n"
        "request.required.acks=2\n"
    )
    command = [str(COMMAND), "run", "--consumer.config", str(consumer), "--producer.config", str(producer)]
    command += ["--whitelist", topic, "--num.streams", "2", "--offset.commit.interval.ms", "500"]
    command += ["--num.producers", "2", "--queue.size=10000", "--new.producer", "--abort.on.send.failure", "true"]
    command += ["--consumer.rebalance.listener", "com.acme.Listener", "--rebalance.listener.args", "a=b"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 78
    assert "error: producer.properties: option 'acme.team' is unknown\n" in refused.stderr
    command += ["--unknown-options", "warn"]
    with Child("the mirror", command, tmp_path / "log") as child:
        wait_until(lambda: sum(log_end_offsets(target, [topic]).values()) == 400, 20, "all to arrive")
        said = (tmp_path / "log").read_text()
        assert "num.consumer.fetchers" not in said
        assert "request.required.acks=2 is taken as -1, all in-sync replicas" in said
        for flag in [
            word.partition("=")[0] for word in command if word.startswith(("--num.p", "--que", "--n", "--ab"))
        ]:
            assert flag in ("--num.streams", "--new.producer") or f"command line: {flag} has no effect here: " in said
        ignored = "is a JVM class that is not known, and ignored:"
        assert f"option 'partitioner.class' (com.acme.X) {ignored} mirror.partitioning decides, auto: " in said
        assert f"option 'serializer.class' (com.acme.Y) {ignored} keys and values travel as the bytes they are" in said
        assert "producer.properties: ignored: metadata.broker.list ('bootstrap.servers' counts)" in said
        assert "option 'acme.team' is unknown and ignored" in said
        assert child.stop(15) == 0
