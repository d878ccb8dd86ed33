"""What README.md shows works: its doors open and its Python runs, as they stand; its commands and their flags exist."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from groundwork.options import OptionError
from kafkawire.dialects import DIALECTS
from localkafka import detached
from localkafka.load import Load, Mixture
from producer.producer import Producer
from tests.fakes.broker import FakeCluster
from tests.fakes.helppages import code_of_help
from zkconsumer.concurrent.handlers import Outcome
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import ConsumerTimeout

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SUPPORT = (ROOT / "docs" / "support.md").read_text(encoding="utf-8")
PERFORMANCE = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
COMPARISON = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
DOORS = dict(re.findall(r"<!-- door: (\w+) -->\n\n```sh\n(.*?)```\n", README, re.DOTALL))
CLUSTERS = {"east", "west", "new"}  # the names that the doors give theirs
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
    assert {"zkconsumer consume", "mirrormaker verify", "zkproducer"} <= set(commands())


def test_every_block_of_commands_runs_or_is_a_door():
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert [text for language, text in fenced if language == "sh"] == list(DOORS.values())
    assert {language for language, _ in fenced} == {"", "sh", "python"}
    assert all(line.startswith("make ") for language, text in fenced if not language for line in text.splitlines())


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
    assert f"| brokers | {first} – " in SUPPORT
    for page in (SUPPORT, README):
        assert " – 3.9 with ZooKeeper |" in page  # the last release that has it
    assert f"| {last.partition('.')[0]}.x |" in SUPPORT
    tested = re.findall(
        r"\d+\.\d+[.\d]*", SUPPORT.partition("Tested against real brokers")[2].partition("Releases between")[0]
    )
    there = {path.stem for path in (ROOT / "localkafka" / "poms").glob("[0-9]*.xml")}
    assert {"0.7.2", *there} == {release.rstrip(".") for release in tested}


def test_what_the_readme_links_to_is_in_a_source_distribution():
    """So that a reader who has it from elsewhere than the repository finds the pages beside it."""
    lines = [line.split() for line in (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()]
    files = {name for verb, *names in lines if verb == "include" for name in names}
    folders = {name for verb, *names in lines if verb == "graft" for name in names}
    links = re.findall(r"\]\(([^)#\s]+)|src(?:set)?=\"([^\"]+)\"", README)
    linked = {"".join(link) for link in links if not "".join(link).startswith("http")}
    assert len(linked) > 20
    assert [link for link in linked if link not in files and link.partition("/")[0] not in folders] == []


def measured(section: str, work: str, who: str, beside: str) -> float:
    """A ratio of messages per CPU second in docs/performance.md."""
    page = PERFORMANCE.partition(f"### {section}")[2].partition("\n### ")[0]
    row = rf"^\| {re.escape(work)} \| {re.escape(who)} \| ([\d.]+) × {re.escape(beside)} \| messages per CPU second \|"
    found = re.search(row, page, re.MULTILINE)
    assert found is not None, (work, who, beside)
    return float(found[1])


MIRROR, MODERN, PRODUCER = "A mirror against the JVM's MirrorMaker 0.8.2.2", "Into and between clusters", "Producer"
RATIOS = {  # what the comparison calls it -> where it was measured
    "mirror 0.8.2.2 to 0.8.2.2, plain, 100 B": (MIRROR, "plain, 100 B", "ours", "jvm"),
    "the same, 1 KB": (MIRROR, "plain, 1 KB", "ours", "jvm"),
    "the same, keys choose the partition, 100 B": (MIRROR, "keyed, 10,000 keys, 100 B", "ours", "jvm"),
    "the same without the extra `fast`": (MIRROR, "keyed, 10,000 keys, 100 B", "ours, pure", "jvm"),
    "mirror 3.9.1 to 3.9.1, 100 B": (MODERN, "3.9.1 to 3.9.1, 100 B", "ours", "MirrorMaker 2"),
    "the same, exactly once": (MODERN, "3.9.1 to 3.9.1, 100 B", "ours, exactly once", "MirrorMaker 2"),
    "`send`, 100 B": (PRODUCER, "100 B", "send", "kafka-python"),
    "`send_many`, 100 B": (PRODUCER, "100 B", "send_many", "confluent-kafka"),
}


@pytest.mark.parametrize("work", RATIOS)
def test_figures_beside_other_tools_are_those_that_were_measured(work: str):
    shown = re.search(rf"^\| {re.escape(work)} \| ([\d.]+) \|", COMPARISON, re.MULTILINE)
    assert shown is not None
    assert float(shown[1]) == pytest.approx(measured(*RATIOS[work]), rel=0.02)


def test_figures_of_the_readme_are_those_of_the_comparison():
    def row(work: str) -> list[str]:
        return [cell.strip(" *²") for cell in README.partition(f"| {work} |")[2].partition("\n")[0].split("|")]

    plain = [measured(*RATIOS[work]) for work in list(RATIOS)[:2]]
    assert (
        row("mirrored messages per CPU second, with `fast`, 0.8 to 0.8, plain: ratio")[0]
        == f"{min(plain):.0f} to {max(plain):.0f}"
    )
    assert row("the same, 3.9 to 3.9: ratio")[0] == f"{measured(*RATIOS['mirror 3.9.1 to 3.9.1, 100 B']):.0f}"
    send = measured(*RATIOS["`send`, 100 B"])
    assert row("produced messages per CPU second, 100 B, a call each: ratio")[0] == f"{send:.0f}"


def run(script: str, folder: Path, timeout_s: float) -> tuple[str, list[str]]:
    """What a shell prints, started in the checkout; and its commands that ended with another code than 0."""
    failed = folder / "failed"
    trap = f"""trap 'echo "$?: $BASH_COMMAND" >> {shlex.quote(str(failed))}' ERR\n"""
    shell = subprocess.Popen(
        ["bash", "-c", trap + script],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder), "SPARK_LOCAL_IP": "127.0.0.1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = shell.communicate(timeout=timeout_s)
    finally:
        if shell.poll() is None:
            os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
    return printed, failed.read_text().splitlines() if failed.exists() else []


@pytest.mark.real
@pytest.mark.spark
def test_the_three_doors_open(tmp_path: Path):
    """All of them in one shell, as they stand: on the same clusters, whose names and ports they give."""
    assert list(DOORS) == ["clusters", "mirror", "group", "migration", "spark", "end"]
    with (Path(tempfile.gettempdir()) / "readme-doors.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run of the tests on this machine has the same names and ports
        assert not CLUSTERS & set(detached.names()), "a reader's own clusters run here: stop them"
        try:
            printed, failed = run("".join(f"echo '== {name}'\n{block}" for name, block in DOORS.items()), tmp_path, 540)
        finally:
            for name in CLUSTERS & set(detached.names()):  # where the last block was not reached
                detached.stop(name)
    assert [each for each in failed if not re.fullmatch(r"143: wait \$\w+", each)] == [], printed
    said = dict(re.findall(r"^== (\w+)\n(.*?)(?=^== |\Z)", printed, re.DOTALL | re.MULTILINE))
    assert re.search(r"^orders +\d+ +\d+ +\d+ +0 .* sound$", said["mirror"], re.MULTILINE), said["mirror"]
    assert re.search(r"^source east .*lag 0$", said["mirror"], re.MULTILINE)
    assert re.search(r"^source west .*lag 0$", said["mirror"], re.MULTILINE)
    owners = set(re.findall(r"^orders +\d+ +(billing_\S+)", said["group"], re.MULTILINE))
    assert len(owners) == 2, said["group"]
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir() and (path / "mirror.yaml").is_file())
    numbers = [
        int(line) for name in ("jvm.txt", "ours.txt", "moved.txt") for line in (folder / name).read_text().splitlines()
    ]
    (behind,) = re.findall(r"^group billing: (\d+) messages? behind", said["migration"], re.MULTILINE)
    assert len(numbers) == len(set(numbers)) == 3000 - int(behind), said["group"]
    stores = re.findall(r"^orders +\d+ .* (\w+) +\S+$", said["migration"].rpartition("store")[2], re.MULTILINE)
    assert "kafka" in stores, said["migration"]
    assert "zookeeper" not in stores, said["migration"]
    (announced,) = re.findall(r"`check` prints three warnings here: (.*?):", README, re.DOTALL)
    warnings = re.findall(r"^warn +(\S+)", said["migration"], re.MULTILINE)
    assert sorted(warnings) == sorted(re.findall(r"`([a-z-]+)`", announced)), said["migration"]
    assert "'topic': 'orders'" in said["spark"]


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
