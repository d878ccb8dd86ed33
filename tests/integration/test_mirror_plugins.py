"""Plug-ins of a mirror on real clusters: partitioners and encoders of a program, murmur2, handlers of sets."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from localkafka.jars import class_path
from localkafka.mirror import COMMAND
from tests.conftest import Unique
from tests.integration.mirroring import Mirror
from tests.integration.sparktopics import everything, produce
from tests.integration.test_partitioners_jvm import ask

pytestmark = pytest.mark.real

MODULE = """
from mirrormaker.handler import Send


class ByRegion:
    regions = {b"eu": 0, b"us": 1}

    def partition(self, key, partitions):
        return self.regions.get(key[:2], partitions - 1)


def framed(value):
    if value == b"poison":
        raise ValueError("no frame for it")
    return None if value is None else b"<" + value + b">"


class Upper:
    def to_bytes(self, key):
        return key.upper()


def chosen(message):
    return Send(message.value, key=message.key, partition=int(message.value) % 5)


def by_columns(messages):
    messages.keep(value is not None and not value.endswith(b"7") for value in messages.values)
    messages.keys = [value[-1:] for value in messages.values]
    messages.topics = [messages.topic + "-threes" if key == b"3" else None for key in messages.keys]
    messages.partitions = [2 if key == b"2" else None for key in messages.keys]
    return messages


def numbered(messages):
    messages.keep(value is None or b"#1 " not in value for value in messages.values)
    return messages
"""


@pytest.fixture
def plugins(tmp_path: Path) -> dict[str, str]:
    """The environment of a mirror that can import MODULE as `plugins`."""
    (tmp_path / "plugins.py").write_text(MODULE)
    return {"PYTHONPATH": str(tmp_path)}


def test_a_partitioner_and_encoders_of_a_program_decide_and_park_what_they_cannot_take(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path, plugins: dict[str, str]
) -> None:
    topic = unique.topic()
    source.create_topic(topic, 2)
    target.create_topic(topic, 5)
    keys = [b"eu-1", b"us-1", b"eu-2", b"xx-9"]
    rows = [(keys[n % 4], b"%d" % n) for n in range(400)]
    produce(source, TopicPartition(topic, 0), rows, a_set=100, codec=1)
    produce(source, TopicPartition(topic, 1), [(b"eu-3", b"before"), (None, b"plain"), (b"us-2", b"poison")])
    options = {
        "partitioner.class": "plugins:ByRegion",
        "serializer.class": "plugins:framed",
        "key.serializer.class": "plugins:Upper",
    }
    # The partitioner sees keys as they are stored: upper case.
    (tmp_path / "plugins.py").write_text(MODULE.replace('b"eu": 0, b"us": 1', 'b"EU": 0, b"US": 1'))
    with Mirror(tmp_path, source, target, unique.group(), topic, target_options=options, env=plugins) as mirror:
        parked = f"{topic}/1 at 2: serializer.class plugins:framed raised ValueError: no frame for it"
        mirror.wait_said(f"parked 1: {parked}")
        mirror.wait_arrived(topic, 402)
        mirror.wait_for(
            lambda: mirror.committed([topic]) == {TopicPartition(topic, 0): 400, TopicPartition(topic, 1): 2},
            "all but the parked message to be committed",
        )
        encodes = "serializer.class plugins:framed and key.serializer.class plugins:Upper encodes every message"
        chooses = "partitioner.class plugins:ByRegion chooses the partition by key"
        assert f"topic {topic}: re-encode: {encodes}; {chooses}" in mirror.said()
        assert mirror.stop()[0] == 0
        command = [str(COMMAND), "check", "--online", str(mirror.file)]
        checked = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **plugins})
        assert checked.returncode == 0, checked.stderr
        assert f"re-encode: {encodes}; {chooses}" in checked.stdout
    sent = [(key.upper(), b"<%b>" % value) for key, value in rows]
    found: dict[int, list[tuple[bytes | None, bytes | None]]] = {}
    others = set()
    for partition, stored in everything(target, topic).items():
        found[partition] = [(key, value) for _, key, value in stored if value not in (b"<before>", b"<plain>")]
        others |= {(partition, key, value) for _, key, value in stored if value in (b"<before>", b"<plain>")}
    places = {0: b"EU", 1: b"US", 4: b"XX"}
    assert found == {p: [row for row in sent if row[0][:2] == places.get(p)] for p in range(5)}
    assert others == {(0, b"EU-3", b"<before>"), (1, None, b"<plain>")}


def test_keys_are_mirrored_where_the_java_client_puts_them(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    topic, partitions = unique.topic(), 7
    source.create_topic(topic, 1)
    target.create_topic(topic, partitions)
    rng = random.Random(16)
    keys = list({rng.randbytes(rng.randrange(40)) for _ in range(10_400)})[:10_000]
    assert len(keys) == 10_000
    produce(source, TopicPartition(topic, 0), [(key, b"%d" % n) for n, key in enumerate(keys)])
    options = {"partitioner.class": "org.apache.kafka.clients.producer.internals.DefaultPartitioner"}
    with Mirror(tmp_path, source, target, unique.group(), topic, target_options=options) as mirror:
        mirror.wait_arrived(topic, len(keys))
        assert "re-encode: partitioner.class murmur2 chooses the partition by key" in mirror.said()
        assert mirror.stop()[0] == 0
    theirs = ask(class_path("0.8.2.2"), [("client", "bytes", key, partitions) for key in keys])
    stored = {key: partition for partition, rows in everything(target, topic).items() for _, key, _ in rows}
    assert stored == dict(zip(keys, theirs, strict=True))


def test_messages_without_a_key_are_spread_where_the_target_says_so(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path
) -> None:
    turns, kept = unique.topic("turns"), unique.topic("kept")
    for topic in (turns, kept):
        source.create_topic(topic, 1)
        target.create_topic(topic, 3)
        produce(source, TopicPartition(topic, 0), [(None, b"%d" % n) for n in range(90)])
    mirror_options = {"topic.overrides": [{"topics": turns, "partitioner.class": "round-robin"}]}
    both = f"(turns|kept)-{unique.tag}"
    with Mirror(tmp_path, source, target, unique.group(), both, mirror_options) as mirror:
        mirror.wait_all_committed([turns, kept])
        assert f"topic {turns}: re-encode: partitioner.class round-robin chooses the partition" in mirror.said()
        assert f"topic {kept}: pass-through: same format, partition kept" in mirror.said()
        assert "partitioner.class round-robin: each message goes to the next partition" in mirror.said()
        assert mirror.stop()[0] == 0
    found = everything(target, turns)
    assert [len(found[p]) for p in range(3)] == [30, 30, 30]
    for rows in found.values():
        numbers = [int(value or b"") for _, _, value in rows]
        assert numbers == list(range(numbers[0], 90, 3))
    assert [len(rows) for _, rows in sorted(everything(target, kept).items())] == [90, 0, 0]


def test_a_handler_chooses_partitions(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path, plugins: dict[str, str]
) -> None:
    topic = unique.topic()
    source.create_topic(topic, 1)
    target.create_topic(topic, 4)
    produce(source, TopicPartition(topic, 0), [(b"k", b"%d" % n) for n in (0, 1, 2, 3, 6, 8, 4, 5)])
    options = {"message.handler": "plugins:chosen"}
    with Mirror(tmp_path, source, target, unique.group(), topic, options, env=plugins) as mirror:
        mirror.wait_said(
            f"parked 1: {topic}/0 at 6: message.handler: topic {topic} has no partition 4; it has 0, 1, 2, 3"
        )
        mirror.wait_arrived(topic, 6)
        assert mirror.stop()[0] == 0
    found = {p: [value for _, _, value in rows] for p, rows in everything(target, topic).items()}
    assert found == {0: [b"0"], 1: [b"1", b"6"], 2: [b"2"], 3: [b"3", b"8"]}


@pytest.mark.parametrize("codec", [0, 1])
def test_a_handler_of_sets_drops_changes_and_routes_rows(
    source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path, plugins: dict[str, str], codec: int
) -> None:
    topic = unique.topic()
    source.create_topic(topic, 1)
    target.create_topic(topic, 4)
    produce(source, TopicPartition(topic, 0), [(None, b"%d" % n) for n in range(1000)], codec)
    options = {"message.set.handler": "plugins:by_columns"}
    with Mirror(tmp_path, source, target, unique.group(), topic, options, env=plugins) as mirror:
        mirror.wait_all_committed([topic])
        mirror.wait_said("; dropped 100 (message.set.handler)")
        assert f"topic {topic}: re-encode: message.set.handler plugins:by_columns sees every set" in mirror.said()
        assert mirror.stop()[0] == 0
    assert f"topic {topic}: message.set.handler dropped 100 messages since the start" in mirror.said()
    found = {p: [(key, value) for _, key, value in rows] for p, rows in everything(target, topic).items()}
    numbers = [(b"%d" % (n % 10), b"%d" % n) for n in range(1000)]
    assert found == {
        0: [row for row in numbers if row[0] not in (b"2", b"3", b"7")],
        1: [],
        2: [row for row in numbers if row[0] == b"2"],
        3: [],
    }
    ((_, moved),) = everything(target, f"{topic}-threes").items()
    assert [(key, value) for _, key, value in moved] == [row for row in numbers if row[0] == b"3"]
