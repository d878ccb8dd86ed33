"""partitioner.class and serializers of the target: which names are taken, what they mean, what is refused and how."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from groundwork.options import OptionError
from kafkawire.dialects import dialect
from kafkawire.model import BrokerPartition, TopicPartition
from mirrormaker.config import Configuration, from_flags, from_yaml, route_rules
from mirrormaker.encoding import PLAIN, Encoder
from mirrormaker.partitioning import ChosenPartitioner, NoSuchPartition, Partitioner
from mirrormaker.plugins import Partitioners, encoders_of, partitioner_named
from producer.conversion import MessageHandlerFailed
from producer.errors import PartitionerFailed
from producer.partitioners import byte_array_partitioner, masking_partitioner, murmur2_partitioner

KEYS = [b"", b"k", b"key", b"polygenelubricants", bytes(range(256)), *(b"%d" % n for n in range(500))]


def by_first_byte(key: bytes, partitions: int) -> int:
    return key[0] % partitions


def far_off(key: bytes, partitions: int) -> int:
    return partitions


class ByLength:
    def partition(self, key: bytes, partitions: int) -> int:
        return len(key) % partitions


def shouted(data: bytes | None) -> bytes | None:
    return None if data is None else data.upper()


def configured(
    folder: Path, target: dict[str, object], mirror: dict[str, object] | None = None, **source: object
) -> Configuration:
    file = folder / "m.yaml"
    settings = {
        "sources": [{"zookeeper.connect": "zk:1/a", "group.id": "g", **source}],
        "target": {"metadata.broker.list": "k:9092", "target.zookeeper.connect": "zk:1/b", **target},
        "mirror": {"whitelist": "t", **(mirror or {})},
    }
    if target.get("target.version") == "0.7":
        del settings["target"]["metadata.broker.list"]  # type: ignore[attr-defined]
    file.write_text(yaml.safe_dump(settings))
    return from_yaml(file)


def partitions(named: str, version: str = "0.8.2") -> list[int]:
    chosen = partitioner_named(named, dialect(version))
    return [chosen.index(key, 1000) for key in KEYS]


# ---- names ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", ["kafka.producer.DefaultPartitioner", "kafka.producer.ByteArrayPartitioner"])
def test_the_scala_partitioners_hash_the_bytes_of_a_key_as_their_release_does(named: str) -> None:
    assert partitions(named) == [byte_array_partitioner(key, 1000) for key in KEYS]
    assert partitions(named, "0.8.1") == [masking_partitioner(key, 1000) for key in KEYS]
    assert partitions(named) != partitions(named, "0.8.1")


@pytest.mark.parametrize("named", ["murmur2", "org.apache.kafka.clients.producer.internals.DefaultPartitioner"])
def test_the_java_clients_partitioner_is_murmur2(named: str) -> None:
    assert partitions(named) == [murmur2_partitioner(key, 1000) for key in KEYS]


def test_functions_and_classes_of_a_program_are_loaded() -> None:
    mine = partitioner_named(f"{__name__}:by_first_byte", dialect("0.8.2"))
    assert (mine.name, mine.index(b"abc", 10), mine.scheme) == (f"{__name__}:by_first_byte", 7, "key")
    assert partitioner_named(f"{__name__}:ByLength", dialect("0.8.2")).index(b"abc", 10) == 3


@pytest.mark.parametrize(
    ("named", "way"),
    [
        ("random", "random"),
        ("round-robin", "round-robin"),
        ("sticky", "sticky"),
        ("org.apache.kafka.clients.producer.RoundRobinPartitioner", "round-robin"),
        ("org.apache.kafka.clients.producer.UniformStickyPartitioner", "sticky"),
    ],
)
def test_partitioners_that_look_at_no_key_lose_the_order_and_check_says_so(
    tmp_path: Path, named: str, way: str
) -> None:
    chosen = partitioner_named(named, dialect("0.8.2"))
    assert (chosen.name, chosen.unkeyed, chosen.scheme) == (way, way, "spread")
    [note] = configured(tmp_path, {"partitioner.class": named}).notes
    assert note.startswith(f"m.yaml: target: partitioner.class {way}: ")
    assert note.endswith("the order of messages is lost, per key and per source partition")


def test_what_a_partitioner_of_a_program_does_wrong_is_said() -> None:
    wrong = partitioner_named(f"{__name__}:far_off", dialect("0.8.2"))
    with pytest.raises(PartitionerFailed, match=r"far_off gave back 4 for 4 partitions: 0 to 3 are there"):
        wrong.index(b"k", 4)
    with pytest.raises(PartitionerFailed, match=r"by_first_byte raised IndexError: index out of range"):
        partitioner_named(f"{__name__}:by_first_byte", dialect("0.8.2")).index(b"", 4)


# ---- what is refused, warned of, without effect -----------------------------------------------------------------


def test_a_jvm_class_that_is_not_known_is_refused_with_what_to_do(tmp_path: Path) -> None:
    target = {
        "partitioner.class": "com.acme.Mine",
        "serializer.class": "com.acme.Avro",
        "key.serializer.class": "com.acme.Keys$Encoder",
    }
    mirror = {"topic.overrides": [{"topics": "t", "partitioner.class": "com.acme.Other"}]}
    with pytest.raises(OptionError) as refused:
        configured(tmp_path, target, mirror)
    other, partitioner, value, key = refused.value.problems
    assert partitioner.startswith(
        "m.yaml: target: partitioner.class 'com.acme.Mine' is a JVM class that is not known here: name a Python "
        "function of (key, partitions) as package.module:function, or one of murmur2, random, round-robin and sticky; "
        "or leave it out, and mirror.partitioning decides"
    )
    assert "'com.acme.Other'" in other
    assert other.endswith("; given in mirror.topic.overrides, to topics t")
    assert value.endswith(
        "serializer.class 'com.acme.Avro' is a JVM class that is not known here: name a Python function of bytes as "
        "package.module:function; or leave it out, and keys and values travel as the bytes they are"
    )
    assert "key.serializer.class 'com.acme.Keys$Encoder' is a JVM class" in key


def test_unknown_options_as_warnings_say_what_decides_instead(tmp_path: Path) -> None:
    (tmp_path / "c.properties").write_text("zookeeper.connect=zk:1/a\ngroup.id=g\n")
    (tmp_path / "p.properties").write_text(
        "metadata.broker.list=k:9092\npartitioner.class=com.acme.X\nserializer.class=com.acme.Y\n"
    )
    files = [tmp_path / "c.properties"], tmp_path / "p.properties"
    with pytest.raises(OptionError, match=r"com\.acme\.X"):
        from_flags(*files, {"whitelist": "t"})
    found = from_flags(*files, {"whitelist": "t"}, "warn")
    ignored = "is a JVM class that is not known, and ignored"
    [partitioner, encoder] = [warning for warning in found.warnings if ignored in warning]
    assert partitioner.startswith(
        f"p.properties: target: option 'partitioner.class' (com.acme.X) {ignored}: mirror.partitioning decides, auto: "
    )
    assert encoder.endswith(f"'serializer.class' (com.acme.Y) {ignored}: keys and values travel as the bytes they are")
    assert (found.target.partitioner, found.target.encoder) == ("", "")


@pytest.mark.parametrize(
    ("target", "mirror", "sentence"),
    [
        (
            {"partitioner.class": "com.acme.Mine"},
            {"partitioning": "identity"},
            "option 'partitioner.class' (com.acme.Mine) has no effect here: mirror.partitioning is identity, and "
            "partitions keep their number; with auto or key this partitioner decides",
        ),
        (
            {"partitioner.class": "murmur2", "target.version": "0.7"},
            {},
            "option 'partitioner.class' (murmur2) has no effect here: Kafka 0.7.2 stores no keys",
        ),
        (
            {"unkeyed.partitioner": "sticky"},
            {},
            "option 'unkeyed.partitioner' has no effect here: without keys all messages of a source partition go to "
            "one target partition, unless partitioner.class or mirror.partitioning key is given",
        ),
        (
            {"serializer.class": "kafka.serializer.StringEncoder"},
            {},
            "option 'serializer.class' (kafka.serializer.StringEncoder): the JVM's mirror would have failed: its "
            "messages are bytes; here keys and values travel as the bytes they are",
        ),
        (
            {"key.serializer.class": "kafka.serializer.NullEncoder"},
            {},
            "option 'key.serializer.class' (kafka.serializer.NullEncoder): the JVM's mirror would have sent nulls; "
            "here keys and values travel as the bytes they are",
        ),
    ],
)
def test_what_has_no_effect_is_a_warning(
    tmp_path: Path, target: dict[str, object], mirror: dict[str, object], sentence: str
) -> None:
    source = {"version": "0.7"} if target.get("target.version") == "0.7" else {}
    found = configured(tmp_path, target, mirror, **source)
    assert [warning for warning in found.warnings if "target.version" not in warning] == [f"m.yaml: target: {sentence}"]


def test_a_source_without_keys_is_named_where_a_partitioner_would_see_them(tmp_path: Path) -> None:
    found = configured(tmp_path, {"partitioner.class": "murmur2"}, version="0.7")
    assert found.warnings == (
        "m.yaml: source source: partitioner.class murmur2 of the target has no effect for it: messages of 0.7 have no "
        "keys; message.handler may make some",
    )
    for target, mirror in (
        ({"partitioner.class": "murmur2"}, {"message.set.handler": "json:loads"}),
        ({"partitioner.class": "round-robin"}, {}),
    ):
        assert configured(tmp_path, target, mirror, version="0.7").warnings == ()


def test_encoders_of_the_jvm_that_keep_bytes_are_taken_silently(tmp_path: Path) -> None:
    names = ("kafka.serializer.DefaultEncoder", "org.apache.kafka.common.serialization.ByteArraySerializer")
    for named in names:
        found = configured(tmp_path, {"serializer.class": named, "key.serializer.class": named})
        assert (found.warnings, encoders_of(found.target)) == ((), PLAIN)


@pytest.mark.parametrize(
    ("target", "with_it"),
    [
        ({"partitioner.class": "murmur2"}, "partitioner.class murmur2"),
        ({"serializer.class": f"{__name__}:shouted"}, f"serializer.class {__name__}:shouted"),
    ],
)
def test_resume_at_the_targets_end_is_refused_with_plug_ins(
    tmp_path: Path, target: dict[str, object], with_it: str
) -> None:
    with pytest.raises(OptionError) as refused:
        configured(tmp_path, target, {"resume": "target-end"})
    [problem] = refused.value.problems
    assert f"; with {with_it}" in problem


def test_two_forms_of_handlers_at_once_are_refused(tmp_path: Path) -> None:
    both = {"message.handler": "json:loads", "message.set.handler": "json:dumps"}
    with pytest.raises(OptionError, match=r"'message\.handler' and 'message\.set\.handler' are both given: keep one"):
        configured(tmp_path, {}, both)
    with pytest.raises(OptionError, match=r"message\.set\.handler 'json:nothing': json has no nothing"):
        configured(tmp_path, {}, {"message.set.handler": "json:nothing"})


# ---- of single topics -------------------------------------------------------------------------------------------


def test_an_override_gives_a_topic_a_partitioner_of_its_own(tmp_path: Path) -> None:
    overrides = [{"topics": "logs.*", "partitioner.class": "random"}, {"topics": "logs-audit", "partitioning": "key"}]
    found = configured(tmp_path, {"partitioner.class": "murmur2"}, {"whitelist": ".*", "topic.overrides": overrides})
    of = Partitioners(found.target, found.mirror).of
    assert [of(topic).name for topic in ("orders", "logs-web", "logs-audit")] == ["murmur2", "random", "random"]
    assert any("partitioner.class random: each message goes to a random partition" in note for note in found.notes)
    rules = route_rules(found.sources[0], found.target, found.mirror)
    assert str(rules.choose("orders", 4, 4)) == "re-encode: partitioner.class murmur2 chooses the partition by key"
    assert str(rules.choose("logs-web", 4, 4)) == (
        "re-encode: partitioner.class random chooses the partition, whatever the key"
    )


# ---- messages without a key -------------------------------------------------------------------------------------


def test_messages_without_a_key_stay_together_unless_the_target_says_otherwise(tmp_path: Path) -> None:
    def chosen(target: dict[str, object], mirror: dict[str, object]) -> list[Any]:
        found = configured(tmp_path, target, mirror)
        one = Partitioners(found.target, found.mirror).of("t")
        routed = Partitioner("t", one.scheme, range(4), chosen=one)
        return list(routed.of_keys(6, [None] * 8))

    for target in ({"partitioner.class": "murmur2"}, {}):
        mirror: dict[str, object] = {} if target else {"partitioning": "key"}
        assert chosen(target, mirror) == [2] * 8
        turns = chosen({**target, "unkeyed.partitioner": "round-robin"}, mirror)
        assert [(turns[0] + n) % 4 for n in range(8)] == turns


def test_one_choice_of_sticky_is_for_a_whole_piece_and_keys_keep_their_place() -> None:
    sticky = ChosenPartitioner(name="murmur2", of_key=murmur2_partitioner, unkeyed="sticky")
    routed = Partitioner("t", "key", range(50), chosen=sticky)
    found = list(routed.of_keys(0, [b"a", None, b"b", None, None, b"a"]))
    assert found[1] == found[3] == found[4]
    assert [found[n] for n in (0, 2, 5)] == [murmur2_partitioner(key, 50) for key in (b"a", b"b", b"a")]


def test_a_partition_that_a_handler_names_must_be_there() -> None:
    routed = Partitioner("t", "key", range(3))
    assert routed.named(2) == TopicPartition("t", 2)
    of_07 = Partitioner("t", "source", [BrokerPartition(0, 0), BrokerPartition(1, 0)])
    assert of_07.named(BrokerPartition(1, 0)) == TopicPartition("t", BrokerPartition(1, 0))
    for wrong in (3, -1, "1", True, 1.0):
        with pytest.raises(NoSuchPartition, match=r"topic t has no partition .*; it has 0, 1, 2"):
            routed.named(wrong)


# ---- encoders ---------------------------------------------------------------------------------------------------


def test_null_keys_are_not_encoded_and_null_values_are() -> None:
    source = TopicPartition("t", 1)
    encoder = Encoder("serializer.class", "a:b", lambda data: b"nothing" if data is None else data.upper())
    assert encoder.all(source, [1, 2], [None, b"x"], True) == [b"nothing", b"X"]
    assert encoder.all(source, [1, 2], [None, b"x"], False) == [None, b"X"]


@pytest.mark.parametrize(
    ("encode", "why"),
    [
        (lambda data: data.upper(), "raised AttributeError: 'NoneType' object has no attribute 'upper'"),
        (lambda data: data and data.decode() if data == b"y" else b"" if data is None else data, None),
    ],
)
def test_what_fails_names_option_encoder_and_offset(encode: Any, why: str | None) -> None:
    encoder = Encoder("serializer.class", "a:b", encode)
    data = [b"x", None, b"z"] if why else [b"x", b"y", b"z"]
    with pytest.raises(MessageHandlerFailed) as failed:
        encoder.all(TopicPartition("t", 1), [7, 8, 9], data, True)
    assert str(failed.value).startswith("t/1 at 8: serializer.class a:b ")
    assert failed.value.offset == 8
    assert (why or "gave back a str, not bytes or None") in str(failed.value)
