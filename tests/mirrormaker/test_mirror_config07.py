"""Mirrors out of 0.7 and into it: what is refused before anything is started, and why."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from groundwork.options import OptionError
from localkafka.mirror import COMMAND
from mirrormaker.config import Configuration, from_yaml


def written(folder: Path, source: str = "", target: str = "", mirror: str = "") -> Configuration:
    path = folder / "m.yaml"
    found = "" if "target.version: 0.7" in target else "metadata.broker.list: 'k:9092', "
    path.write_text(
        f"sources:\n- {{zookeeper.connect: 'zk1:2181/src', group.id: g{source}}}\n"
        f"target: {{{found}target.zookeeper.connect: 'zk1:2181/dst'{target}}}\n"
        f"mirror: {{whitelist: 'a.*'{mirror}}}\n"
    )
    return from_yaml(path)


def problems(folder: Path, source: str = "", target: str = "", mirror: str = "") -> list[str]:
    with pytest.raises(OptionError) as wrong:
        written(folder, source, target, mirror)
    return wrong.value.problems


def test_a_source_of_0_7_is_named_by_its_version_alone(tmp_path: Path) -> None:
    [source] = written(tmp_path, ", version: 0.7").sources  # in YAML a number
    assert (source.version, source.broker_partitions.total) == ("0.7", 0)
    [source] = written(tmp_path, ", version: 0.7.2, broker.partitions: '0:2,1:3'").sources
    assert str(source.broker_partitions) == "0:2,1:3"


def test_nothing_is_mirrored_back_into_0_7(tmp_path: Path) -> None:
    assert problems(tmp_path, target=", target.version: 0.7.2") == [
        "m.yaml: source source: version 0.8.2 into target.version 0.7.2 is refused: keys and null values have no place "
        "in Kafka 0.7; a mirror goes from 0.7 to 0.7 or to any later release"
    ]


@pytest.mark.parametrize(
    ("source", "target", "mirror", "sentence"),
    [
        (", broker.partitions: '0:2'", "", "", "'broker.partitions' numbers partitions of 0.7; those of 0.8.2 have"),
        (
            ", version: 0.7.2, broker.partitions: '0:2'",
            ", target.version: 0.7.2",
            "",
            "'broker.partitions' has no use: partitions of target.version 0.7.2 have no numbers",
        ),
        (
            ", version: 0.7.2, broker.partitions: '0:2'",
            "",
            ", partitioning: key",
            "'broker.partitions' has no use where mirror.partitioning is key",
        ),
        (
            ", version: 0.7.2",
            "",
            ", partitioning: identity",
            "mirror.partitioning identity: partitions of version 0.7.2 have no numbers to be kept; give",
        ),
    ],
)
def test_numbers_that_do_not_fit_are_told(tmp_path: Path, source: str, target: str, mirror: str, sentence: str) -> None:
    [problem] = problems(tmp_path, source, target, mirror)
    assert problem.startswith(f"m.yaml: source source: {sentence}")


def test_a_numbering_that_makes_no_sense_names_what_is_expected(tmp_path: Path) -> None:
    [problem] = problems(tmp_path, ", version: 0.7.2, broker.partitions: 'x'")
    assert "broker.partitions" in problem
    assert "0:2,1:3" in problem


def test_a_target_of_0_7_is_found_through_its_zookeeper_alone(tmp_path: Path) -> None:
    configuration = written(tmp_path, ", version: 0.7.2", ", target.version: 0.7.2")
    [note] = configuration.notes
    assert note.startswith(
        "m.yaml: target: target.version 0.7.2 acknowledges nothing: what is confirmed was handled by"
    )
    for target, sentence in {
        "target.version: 0.7.2, target.zookeeper.connect: 'zk1:2181/dst', broker.list: '0:k:9092'": "target: "
        "'metadata.broker.list': brokers of Kafka 0.7.2 do not describe the cluster; give 'target.zookeeper.connect'",
        "target.version: 0.7.2, metadata.broker.list: 'k:9092'": "target: 'target.zookeeper.connect' is missing: "
        "only ZooKeeper knows the partitions of Kafka 0.7.2",
        "target.version: 0.7.2, target.zookeeper.connect: 'zk1:2181/dst', zk.connect: 'zk2:2181'": "target: "
        "'zookeeper.connect' (zk.connect) is zk2:2181, and 'target.zookeeper.connect' zk1:2181/dst: the target has one",
        "target.zookeeper.connect: 'zk1:2181/dst'": "target: option 'metadata.broker.list' is missing: "
        "bootstrap brokers, host:port,…",
    }.items():
        path = tmp_path / "t.yaml"
        path.write_text(
            "sources:\n- {zookeeper.connect: 'zk1:2181/src', group.id: g, version: 0.7.2}\n"
            f"target: {{{target}}}\nmirror: {{whitelist: a}}\n"
        )
        with pytest.raises(OptionError) as wrong:
            from_yaml(path)
        assert wrong.value.problems[0].startswith(f"t.yaml: {sentence}")


def test_a_target_zookeeper_that_cannot_be_meant_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(
        "sources:\n- {zookeeper.connect: '127.0.0.1:1/x', group.id: g, version: 0.7.2}\n"
        "target: {target.version: 0.7.2, target.zookeeper.connect: 'a:b:c'}\nmirror: {whitelist: a}\n"
    )
    done = subprocess.run([str(COMMAND), "run", str(path)], capture_output=True, timeout=60)
    assert (done.returncode, b"Traceback" in done.stderr) == (78, False)
    assert b"target: option 'target.zookeeper.connect' is 'a:b:c', expected host:port,host:port/chroot" in done.stderr
