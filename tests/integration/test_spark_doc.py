"""Every example of the pages about Spark runs, in its order, on real clusters; output looks as shown.

Before a block with the note `test` one of EVENTS happens; one with `not run` says why it cannot run.  A block whose
first line is a comment with a file's name is that file.  Addresses, folders, topics and groups of the pages stand for
those of the test; numbers in shown output stand for any number.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kafkawire.model import TopicPartition
from localkafka.client import ClusterClient
from localkafka.seven.cluster import Cluster07
from localkafka.zookeeper import ZooKeeperAt
from sparkpipeline.commands import cli as sparkpipeline
from sparkpipeline.driver.groupoffsets import read_offset_nodes, write_offset_nodes
from sparkpipeline.ledger.manifests import Plan
from sparkpipeline.load.config import read_config
from sparkpipeline.load.job import open_ledger
from tests.conftest import Unique
from tests.docpages import Block, blocks
from tests.integration.sparktopics import everything, produce
from zkconsumer.commands import cli as zkconsumer

READING = ("spark.md", "spark-options.md", "spark-deploy.md")
JOBS = ("spark-load.md", "spark-ledger.md", "spark-stages.md", "spark-backfill-audit.md")
LANGUAGES = ("python", "sql", "sh", "console", "yaml", "json", "text")  # text: shown, nothing to run
ELSEWHERE = re.compile(r"^(?!.*#.*hdfs).*(spark-submit|hdfs://|s3a://|yarn|pip install)", re.MULTILINE)
TEN = 1769853600000  # 2026-01-31T10:00Z
HOUR_MS = 3_600_000
PROGRAMS = {"sparkpipeline": sparkpipeline.outcome, "zkconsumer": zkconsumer.outcome}


@pytest.mark.parametrize("page", READING + JOBS)
def test_every_block_runs_or_says_why_it_cannot(page: str) -> None:
    found = list(blocks(page))
    assert found
    for block in found:
        where = str(block)
        assert block.language in LANGUAGES, f"{where}: nobody knows how to run {block.language}"
        kind, why = block.note or ("", "")
        assert kind != "not run" or len(why.split()) > 3, f"{where}: why is it not run?"
        if block.language in ("sh", "console") and kind != "not run":
            assert not ELSEWHERE.search(block.text), f"{where} needs what tests have not, and does not say so"
        assert kind != "test" or why in EVENTS, f"{where}: no such event: {why}"


@dataclass
class Story:
    """Pages, in their order, on two clusters, and one of Kafka 0.7."""

    pages: tuple[str, ...]
    spark: Any
    folder: Path
    source: ClusterClient
    target: ClusterClient
    seven: Cluster07
    tag: str
    capsys: Any
    names: dict[str, Any] = field(default_factory=dict)
    sent: dict[TopicPartition, int] = field(default_factory=dict)
    unlike: list[str] = field(default_factory=list)

    def name(self, of_page: str) -> str:
        return f"{of_page}_{self.tag}"

    def here(self, text: str) -> str:
        """With what stands here for what the page says."""
        source, target = self.source.brokers, self.target.brokers
        for said, stands in (
            (r"\b(broker|old)1:9092(,(broker|old)2:9092)?", source),
            (r"\bnew1:9092(,new2:9092)?", target),
            (r"\bold-zk1:2181/kafka", self.source.zookeeper),
            (r"\bzookeeper1:2181/kafka", self.seven.zookeeper),
            (r"(?<![\w.])/(warehouse|data|var)\b", rf"{self.folder}/\1"),
            (r"\b(orders|payments|loud|camus|mirror|load-recent)\b", rf"\1_{self.tag}"),
        ):
            text = re.sub(said, stands, text)
        return text

    def messages(self, cluster: ClusterClient, tp: TopicPartition, first: int, count: int) -> None:
        rows = [
            (b"key %d" % (n % 7), json.dumps({"n": n, "created": TEN + (n % 3 - 1) * HOUR_MS, "price": n}).encode())
            for n in range(first, first + count)
        ]
        produce(cluster, tp, rows)

    def more(self, topic: str, count: int) -> None:
        """So many more in each of two partitions of the source."""
        for partition in (0, 1):
            tp = TopicPartition(self.name(topic), partition)
            self.messages(self.source, tp, self.sent.get(tp, 0), count)
            self.sent[tp] = self.sent.get(tp, 0) + count

    def tell(self) -> None:
        for block in (block for page in self.pages for block in blocks(page)):
            kind, what = block.note or ("", "")
            if kind == "not run" or block.language == "text":
                continue
            text = EVENTS[what](self, block.text) if kind == "test" else block.text
            self.capsys.readouterr()
            try:
                self.play(block, self.here(text))
            except BaseException as exc:
                said = "".join(self.capsys.readouterr())
                exc.add_note("\n".join([f"{block}; it said:", said, *self.unlike]))
                raise
        assert not self.unlike, "\n".join(self.unlike)

    def play(self, block: Block, text: str) -> None:
        if block.file is not None:
            named = text.partition("\n")
            content = named[2] if block.language == "json" else text
            (self.folder / self.here(block.file)).write_text(content)
        elif block.language == "python":
            exec(compile(text, str(block), "exec"), self.names)
        elif block.language == "sql":
            for statement in filter(str.strip, text.split(";")):
                self.names["answer"] = self.spark.sql(statement).collect()
        else:
            self.console(
                text if block.language == "console" else re.sub(r"(?<!\\\n)^", "$ ", text.rstrip(), flags=re.M)
            )

    def console(self, text: str) -> None:
        """Commands, each with what it shows; `echo $?` tells the code of the one before, 0 where nobody asks."""
        parts = re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)[1:]
        for at, part in enumerate(parts):
            command, _, shown = part.partition("\n")
            if command == "echo $?":
                continue
            asked = at + 1 < len(parts) and parts[at + 1].startswith("echo $?\n")
            self.run(command, int(parts[at + 1].split()[-1]) if asked else 0, shown)

    def run(self, command: str, code: int, shown: str) -> None:
        words = shlex.split(command.partition("||")[0], comments=True)
        self.capsys.readouterr()
        ended = PROGRAMS[words[0]](words[1:])
        out, err = self.capsys.readouterr()
        assert ended == code, f"{command}\nended with {ended}, not {code}:\n{out}{err}"
        for line in filter(str.strip, shown.splitlines()):
            like = re.compile(shape(line))
            if not any(like.fullmatch(said.strip()) for said in (out + err).splitlines()):
                self.unlike.append(f"{command}\nshows no line like\n{line}\nbut\n{out}{err}")


def shape(line: str) -> str:
    """A pattern for a line of output: any numbers, any space between."""
    pieces = re.split(r"(\d[\d,.]*|\s+)", line.strip())
    return "".join(
        r"\s+" if piece.isspace() else r"\d[\d,.]*" if piece[:1].isdigit() else re.escape(piece) for piece in pieces
    )


def another_run(story: Story, text: str) -> str:
    story.more("orders", 20)
    story.run(story.here("sparkpipeline load run orders.yaml"), 0, "")
    return text


def poison(story: Story, text: str) -> str:
    """A plan of offsets that never were; the page calls it 42."""
    ledger = open_ledger(read_config(story.folder / story.here("orders.yaml")), None)
    batch = ledger.state().next_batch
    ranges = [{"topic": story.name("orders"), "partition": 0, "start": 500, "until": 600}]
    assert ledger.put_plan(Plan(batch, "load", TEN, {"ranges": ranges, "tasks": [1]}))
    return text.replace("42", str(batch))


def differences(story: Story, text: str) -> str:
    first, last = (TopicPartition(story.name("orders"), partition) for partition in (0, 1))
    story.messages(story.target, first, 60, 2)
    story.messages(story.source, last, story.sent[last], 1)
    story.sent[last] += 1
    return text


EVENTS: dict[str, Callable[[Story, str], str]] = {
    "more messages, and another run": another_run,
    "a plan 42 that cannot be carried out": poison,
    "two messages are sent again to the target, and one is missing there": differences,
}


@pytest.fixture
def story(
    spark: Any, source: ClusterClient, target: ClusterClient, zk_server: ZooKeeperAt, unique: Unique, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> Iterator[Callable[[tuple[str, ...]], Story]]:  # fmt: skip
    """Pages on topics of two partitions: orders and payments on both clusters, and others that the pages write to."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "var" / "log").mkdir(parents=True)

    seven = Cluster07(brokers=2, zookeeper=zk_server)

    def begun(pages: tuple[str, ...]) -> Story:
        told = Story(pages, spark, tmp_path, source, target, seven, unique.tag, capsys)
        for topic in ("orders", "payments"):
            for cluster in (source, target):
                cluster.create_topic(told.name(topic), 2)
        told.more("orders", 60)
        for broker in (0, 1):
            events = [json.dumps({"n": n, "created": TEN}).encode() for n in range(30)]
            seven.produce(told.name("orders"), broker, 0, events, codec="gzip", batch=7)
        return told

    with seven:
        yield begun


def counts(cluster: ClusterClient, topic: str) -> list[int]:
    return [len(rows) for _, rows in sorted(everything(cluster, topic).items())]


@pytest.mark.real
@pytest.mark.spark
def test_reading_and_writing_as_the_page_says(story: Callable[[tuple[str, ...]], Story]) -> None:
    told = story(READING)
    again = f"{told.name('orders')}-again"
    told.source.create_topic(again, 2)
    try:
        told.tell()
        assert {tuple(row) for row in told.names["answer"]} == {(0, 60), (1, 60)}
        read = told.names["spark"].read.parquet(told.here("/data/orders"))
        assert read.select("partition", "offset").distinct().count() == read.count() == 120
        assert sum(counts(told.source, again)) == 120
        assert everything(told.target, told.name("orders")) == everything(told.source, told.name("orders"))
        assert told.names["part"].count() == 27 + 60
        assert told.names["frame"].count() == 120
        assert (told.folder / "kafka08.zip").stat().st_size > 100_000
    finally:
        told.spark.catalog.dropTempView("orders_now")


@pytest.mark.real
@pytest.mark.spark
def test_the_jobs_as_the_page_says(story: Callable[[tuple[str, ...]], Story]) -> None:
    told = story(JOBS)
    told.more("payments", 30)
    orders, payments = told.name("orders"), told.name("payments")
    told.target.create_topic(told.name("loud"), 2)
    zk = told.source.zk()
    stood = {TopicPartition(payments, 0): 3, TopicPartition(payments, 1): 7}
    assert set(write_offset_nodes(zk, told.name("camus"), stood).values()) == {None}
    told.tell()
    assert told.names["outcome"].steps
    loaded = [row.rows for row in told.names["files_of"](told.names["ledger"])]
    assert sum(loaded) == 2 * 80 + 2 * 30
    read = told.spark.read.parquet(told.here("/warehouse/flow/stages/counts/data"))
    assert {(row.date.isoformat(), row.hour): row.messages for row in read.collect()} == {
        ("2026-01-31", hour): 2 * sum(1 for n in range(80) if n % 3 == at) for at, hour in enumerate((9, 10, 11))
    }
    sevens = told.spark.read.parquet(told.here("/warehouse/seven/data"))
    assert sevens.select("broker", "partition", "offset", "innerIndex").distinct().count() == sevens.count() == 60
    assert told.spark.read.parquet(told.here("/warehouse/shop/stages/cheap/data")).count() == 2 * 10
    assert [count > 0 for count in counts(told.target, told.name("loud"))].count(True) > 0
    assert (counts(told.target, orders), counts(told.target, payments)) == ([82, 80], [30, 30])
    group = read_offset_nodes(zk, told.name("mirror"), [TopicPartition(orders, 0), TopicPartition(payments, 1)])
    assert list(group.values()) == [80, 30]
    ledger = open_ledger(read_config(told.folder / f"{payments}.yaml"), None)
    assert ledger.state().newest is not None
    recent = told.spark.read.parquet(told.here("/warehouse/recent/data"))  # one segment, which 0.8.2 gives as a whole
    assert recent.select("partition", "offset").distinct().count() == recent.count() == 120
