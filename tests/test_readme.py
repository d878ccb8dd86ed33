"""What README.md shows works: its Python runs, its commands and their flags exist."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from groundwork.options import OptionError
from kafkawire.dialects import DIALECTS
from localkafka.load import Load, Mixture
from producer.producer import Producer
from tests.fakes.broker import FakeCluster
from tests.fakes.helppages import code_of_help
from zkconsumer.concurrent.handlers import Outcome
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import ConsumerTimeout

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMAND = re.compile(r"(make|mirrormaker|sparkpipeline|zkconsumer|zkproducer|python -m \w+)(\s.*)?", re.DOTALL)


def python_block(word: str, **replaced: str) -> str:
    """The one Python example that has this word, with texts replaced, each of which must be there."""
    (block,) = (block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if word in block)
    for old, new in replaced.values():
        assert old in block
        block = block.replace(old, new)
    return str(block)


def commands() -> list[str]:
    """Every command in a shell block or in the text, comments left out."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    blocks = [text for language, text in fenced if not language]
    text = re.sub(r"```.*?```", "", README, flags=re.DOTALL)
    spans = [line.partition(" #")[0] for block in blocks for line in block.splitlines()]
    spans += re.findall(r"`([^`]+)`", text)
    return sorted({" ".join(span.split()) for span in spans if COMMAND.fullmatch(span.strip())})


def test_the_readme_names_commands():
    assert {"make demo", "make test"} <= set(commands())
    assert {"zkconsumer consume", "mirrormaker run conf/mirror.yaml", "zkproducer"} <= set(commands())
    assert "sparkpipeline load run orders.yaml" in commands()


@pytest.mark.parametrize("command", commands())
def test_every_command_of_the_readme_exists_with_its_flags(
    command: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(ROOT)
    words = shlex.split(command)
    if words[0] == "make":
        make = shutil.which("make")
        assert make is not None
        code = subprocess.run([make, "-n", *words[1:], "--help"], timeout=60, check=False).returncode
    else:
        code = code_of_help(words)
    assert code == 0, capfd.readouterr().err


def test_the_releases_of_the_support_matrix_are_those_of_the_code():
    first, *_, last = DIALECTS
    assert (first, last) == ("0.7.0", "4.3")
    assert f"| brokers | {first} – " in README
    assert " – 3.9 with ZooKeeper |" in README  # the last release that has it
    assert f"| {last.partition('.')[0]}.x |" in README
    tested = re.findall(
        r"\d+\.\d+[.\d]*", README.partition("Tested against real brokers")[2].partition("Releases between")[0]
    )
    there = {path.stem for path in (ROOT / "localkafka" / "poms").glob("[0-9]*.xml")}
    assert {"0.7.2", *there} == {release.rstrip(".") for release in tested}


def test_the_producer_example_runs():
    with FakeCluster({"orders": 2}) as cluster:
        host, port = cluster.bootstrap[0]
        exec(python_block("Producer", brokers=("broker1:9092", f"{host}:{port}")), {})
        messages = [m for p in range(2) for m in cluster.messages("orders", p)]
        assert messages == [(0, b"key", b"value")]


@pytest.mark.real
def test_the_consumer_example_runs(source, unique, capsys: pytest.CaptureFixture[str]):
    topic = unique.topic("orders")
    source.create_topic(topic, 2)
    load = Load(source.brokers, source.version)
    load.produce(topic, 2, 20, Mixture(0.5, (0, 1)), batch=5)
    load.close()
    example = python_block(
        "Whitelist",
        zookeeper=("zk1:2181", source.zookeeper),
        group=("billing", unique.group()),
        topics=("orders.*", f"{topic}.*"),
        end=('"auto.offset.reset": "smallest"', '"auto.offset.reset": "smallest", "consumer.timeout.ms": 2000'),
    )
    with pytest.raises(ConsumerTimeout):
        exec(example, {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 20
    assert {tuple(line.split()[:3]) for line in lines} == {(topic, str(p), str(n)) for p in range(2) for n in range(10)}


def test_a_wrong_option_of_a_mapping_is_named():
    with pytest.raises(OptionError, match=r"ConsumerConnector: option 'grup.id' is unknown; did you mean 'group.id'"):
        ConsumerConnector({"zookeeper.connect": "zk1:2181", "grup.id": "billing", "auto.offset.reset": "smallest"})
    with pytest.raises(OptionError, match=r"Producer: option 'metadata.broker.list' is missing"):
        Producer({"request.required.acks": -1})


@pytest.mark.real
def test_the_example_with_many_workers_runs(source, unique):
    topic, seen = unique.topic("orders"), []
    source.create_topic(topic, 2)
    load = Load(source.brokers, source.version)
    load.produce(topic, 2, 20, Mixture(0.5, (0, 1)), batch=5)
    load.close()

    def handle(message) -> Outcome | None:
        seen.append((message.partition, message.offset))
        return Outcome.STOP if len(seen) >= 20 else None

    example = python_block(
        "process(",
        zookeeper=("zk1:2181", source.zookeeper),
        group=("billing", unique.group()),
        topic=("orders", topic),
        handler=("print(message.value)", "return handle(message)"),
    )
    exec(example, {"handle": handle})
    assert set(seen) == {(p, n) for p in range(2) for n in range(10)}
