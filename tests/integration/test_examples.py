"""Every program of examples/ runs, as a process of its own, against real clusters, and does what it says.

A YAML file of examples/ is run by its command, with the addresses and names of the test in place of those it shows.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from kafkawire.model import TopicPartition
from localkafka import jars, tools
from localkafka.child import Child
from localkafka.client import ClusterClient, log_end_offsets
from localkafka.waiting import wait_until
from tests.conftest import Unique
from tests.docpages import anchor, headings
from tests.integration import postgres
from tests.integration.mirrorprocess import MirrorProcess
from tests.integration.readers import committed, owners, shares
from tests.integration.sparktopics import Field, produce, simple, stored
from zkconsumer.offsets.database import DDL

EXAMPLES = Path(__file__).parents[2] / "examples"
BY_THEIR_COMMAND = {"avro_stage.py", "mirror_handler.py"}
SOON_S = 120  # on a machine with many tests at a time
SPARK_S = 540
HERE = {
    "PYTHONUNBUFFERED": "1",
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.ui.enabled=false pyspark-shell",
}


class Place:
    """A topic, a group, a folder, and the programs that run there."""

    def __init__(self, source: ClusterClient, target: ClusterClient, unique: Unique, folder: Path) -> None:
        self.source, self.target, self.folder = source, target, folder
        self.topic, self.group = unique.topic("orders"), unique.group("billing")
        self.programs: list[Child] = []

    def fill(self, partitions: int, each: int, begin: int = 0) -> list[bytes]:
        """So many messages in each partition; their values, all different."""
        if not begin:
            self.source.create_topic(self.topic, partitions)
        values = []
        for p in range(partitions):
            some = [b"%d-%d" % (p, n) for n in range(begin, begin + each)]
            produce(self.source, TopicPartition(self.topic, p), [(b"key", value) for value in some], a_set=10)
            values += some
        return values

    def start(self, name: str, *arguments: str) -> Child:
        argv = [sys.executable, str(EXAMPLES / name), *arguments]
        log = self.folder / f"{name}-{len(self.programs)}.log"
        self.programs.append(Child(name, argv, log, env=HERE, cwd=self.folder))
        return self.programs[-1]

    def run(
        self, *argv: str, stdin: bytes = b"", code: int = 0, timeout_s: float = SOON_S
    ) -> subprocess.CompletedProcess[str]:
        """A program, to its end."""
        words = [sys.executable, str(EXAMPLES / argv[0]), *argv[1:]] if argv[0].endswith(".py") else argv
        env = {**os.environ, **HERE}
        done = subprocess.run(words, input=stdin, capture_output=True, timeout=timeout_s, cwd=self.folder, env=env)
        ended = subprocess.CompletedProcess(words, done.returncode, done.stdout.decode(), done.stderr.decode())
        assert ended.returncode == code, f"{words} ended with {ended.returncode}:\n{ended.stdout}\n{ended.stderr}"
        return ended

    def yaml(self, name: str, **replaced: str) -> Path:
        """An example's file with what stands here."""
        text = (EXAMPLES / name).read_text(encoding="utf-8")
        for old, new in replaced.items():
            assert re.search(old, text), f"{name} has no {old}"
            text = re.sub(old, new, text)
        file = self.folder / name
        file.write_text(text)
        return file

    def mirror_yaml(self, **replaced: str) -> Path:
        """The example's mirror, between the clusters of the test."""
        here = {
            r"zk1\.dc1:2181/kafka": self.source.zookeeper,
            r"kafka1\.dc2:9092": self.target.brokers,
            r"zk1\.dc2:2181/kafka": self.target.zookeeper,
            r"mirror-to-dc2": self.group,
            r"\borders\b": self.topic,
        }
        return self.yaml("mirror_handler.yaml", **here, **replaced)


@pytest.fixture
def place(source: ClusterClient, target: ClusterClient, unique: Unique, tmp_path: Path) -> Iterator[Place]:
    place = Place(source, target, unique, tmp_path)
    yield place
    for program in place.programs:
        program.close()


def said(program: Child) -> str:
    return program.log.read_text()


def values_in(text: str) -> list[bytes]:
    return [value.encode() for value in re.findall(r"b'([\w-]+)'", text)]


def test_each_program_is_in_the_table_and_run_here() -> None:
    programs = {path.name for path in EXAMPLES.glob("*.py")}
    table = re.findall(r"^\| \[`(\w+\.py)`\]", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(table) == sorted(programs)
    here = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in programs if f'"{name}"' not in here] == []


def test_every_link_of_the_table_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)]+)\)", (EXAMPLES / "README.md").read_text(encoding="utf-8"))
    assert len(links) > 20
    for link in links:
        file, _, fragment = link.partition("#")
        assert (EXAMPLES / file).is_file(), link
        assert not fragment or fragment in {anchor(title) for _, title in headings(Path(file).name)}, link


@pytest.mark.parametrize("name", sorted({path.name for path in EXAMPLES.glob("*.py")} - BY_THEIR_COMMAND))
def test_a_program_without_arguments_says_which_it_takes(name: str) -> None:
    done = subprocess.run([sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, timeout=SOON_S)
    assert done.returncode == 1
    assert f"    python examples/{name} " in done.stderr


@pytest.mark.real
def test_a_member_shares_a_group_with_one_of_the_jvm(place: Place) -> None:
    sent = place.fill(4, 10)
    for p in range(4):  # the JVM's console consumer begins at the end where nothing is committed
        node = f"/consumers/{place.group}/offsets/{place.topic}/{p}"
        place.source.registry().zk.create(node, b"0", makepath=True)
    ours = place.start("group_member.py", place.source.zookeeper, place.topic, place.group)

    def owned(*counts: int) -> bool:
        return sorted(shares(place.source, place.group, place.topic).values()) == sorted(counts)

    wait_until(lambda: len(values_in(said(ours))) == 40, SOON_S, lambda: f"all of 4 partitions: {said(ours)}")
    config = {"zookeeper.session.timeout.ms": 3000, "rebalance.backoff.ms": 1000, "rebalance.max.retries": 10}
    with tools.console_consumer(place.source, place.topic, place.group, from_beginning=False, config=config) as jvm:
        wait_until(lambda: owned(2, 2), SOON_S, lambda: f"2 and 2: {said(ours)}")
        sent += place.fill(4, 10, begin=10)
        wait_until(lambda: len(values_in(said(ours))) + len(jvm.lines) == 80, SOON_S, lambda: f"all: {said(ours)}")
        assert len(jvm.stop()) == 20
    wait_until(lambda: owned(4), SOON_S, lambda: f"ours to take all over: {said(ours)}")
    sent += place.fill(4, 10, begin=20)
    wait_until(lambda: len(values_in(said(ours))) == 100, SOON_S, lambda: f"all: {said(ours)}")
    ours.send(signal.SIGTERM)
    assert ours.wait(SOON_S) == 0, said(ours)
    assert Counter(values_in(said(ours)) + jvm.lines) == Counter(sent)
    assert committed(place.source, place.group, place.topic) == dict.fromkeys(range(4), 30)
    assert owners(place.source, place.group, place.topic) == {}
    assert [line.split()[0] for line in said(ours).splitlines() if "b'" not in line][:2] == ["assigned", "revoked"]


class Service(ThreadingHTTPServer):
    """Takes what is posted.  busy and broken are refused once, wrong always."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ServiceRequest)
        self.taken: Counter[tuple[str, bytes]] = Counter()
        self.refused: Counter[bytes] = Counter()
        self.lock = threading.Lock()

    def answer(self, name: str, value: bytes) -> int:
        with self.lock:
            code = {b"busy": 429, b"broken": 503, b"wrong": 422}.get(value)
            if code is not None and (value == b"wrong" or not self.refused[value]):
                self.refused[value] += 1
                return code
            self.taken[name, value] += 1
            return 200


class ServiceRequest(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        value = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(self.server.answer(self.headers["Idempotency-Key"], value))
        self.send_header("Retry-After", "1")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.mark.real
def test_workers_post_each_message_though_they_are_killed_and_refused(place: Place) -> None:
    sent = place.fill(2, 300)
    odd = [b"busy", b"broken", b"wrong", b"behind it"]
    produce(place.source, TopicPartition(place.topic, 1), [(None, value) for value in odd])
    with Service() as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{service.server_port}/bill"
        first = place.start("workers.py", place.source.zookeeper, place.topic, place.group, url)
        wait_until(lambda: len(service.taken) >= 50, SOON_S, lambda: f"some to be posted: {said(first)}")
        first.kill()
        second = place.start("workers.py", place.source.zookeeper, place.topic, place.group, url)
        wanted = {*sent, b"busy", b"broken"}
        wait_until(lambda: wanted <= {value for _, value in service.taken}, SOON_S, lambda: f"all: {said(second)}")
        wait_until(lambda: f"{place.topic}/1/302: HTTP Error 422" in said(second), SOON_S, lambda: said(second))
        second.send(signal.SIGTERM)
        assert second.wait(SOON_S) == 0, said(second)
        service.shutdown()
    assert {name for name, value in service.taken if value == b"0-7"} == {f"{place.topic}/0/7"}
    assert service.refused == {b"busy": 1, b"broken": 1, b"wrong": 1}
    assert committed(place.source, place.group, place.topic) == {0: 300, 1: 302}


@pytest.fixture(scope="module")
def database() -> Iterator[tuple[str, Any]]:
    """The address of a PostgreSQL with the tables of the example, and a connection to it."""
    if (missing := postgres.missing()) is not None:
        pytest.skip(f"needs {missing}")
    with postgres.running() as connect, closing(connect()) as connection:
        cursor = connection.cursor()
        cursor.execute(DDL)
        cursor.execute(re.findall(r"CREATE TABLE words \(.*\)", (EXAMPLES / "exactly_once_postgres.py").read_text())[0])
        cursor.execute("SHOW port")
        [port] = cursor.fetchone()
        connection.commit()
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres", connection


@pytest.mark.real
def test_results_and_offsets_in_postgresql_agree_after_a_kill(place: Place, database: tuple[str, Any]) -> None:
    address, connection = database

    def rows(query: str) -> list[tuple[Any, ...]]:
        cursor = connection.cursor()
        cursor.execute(query)
        found = [tuple(row) for row in cursor.fetchall()]
        connection.rollback()
        return found

    sent = place.fill(2, 100)
    arguments = [place.source.zookeeper, place.topic, place.group, address]
    first = place.start("exactly_once_postgres.py", *arguments)
    wait_until(lambda: rows("SELECT * FROM words"), SOON_S, lambda: f"a first transaction: {said(first)}")
    sent += place.fill(2, 100, begin=100)
    first.kill()
    zk = place.source.registry().zk
    if zk.exists(offsets := f"/consumers/{place.group}/offsets"):
        zk.delete(offsets, recursive=True)  # only what the database says counts
    second = place.start("exactly_once_postgres.py", *arguments)
    wait_until(lambda: len(rows("SELECT * FROM words")) == 400, SOON_S, lambda: f"all: {said(second)}")
    second.send(signal.SIGTERM)
    assert second.wait(SOON_S) == 0, said(second)
    assert sorted(rows("SELECT word, seen FROM words")) == sorted((value.decode(), 1) for value in sent)
    offsets = rows("SELECT group_id, topic, partition_id, next_position FROM consumer_offsets ORDER BY 3")
    assert offsets == [(place.group, place.topic, "0", 200), (place.group, place.topic, "1", 200)]


@pytest.mark.real
def test_a_replay_begins_with_the_file_of_that_time(place: Place) -> None:
    place.source.create_topic(place.topic, 2, config={"segment.bytes": 2000})
    for p in range(2):
        rows: list[tuple[Field, Field]] = [(None, b"%d-%d" % (p, n)) for n in range(100)]
        produce(place.source, TopicPartition(place.topic, p), rows, a_set=10)
    first, second, *_ = place.source.segments(TopicPartition(place.topic, 0))
    long_ago = datetime(2026, 1, 31, 10, tzinfo=UTC)
    os.utime(first, (long_ago.timestamp(), long_ago.timestamp()))
    leader = place.source.brokers.split(",")[1]  # any broker names the leaders
    done = place.run("replay.py", leader, place.topic, "2026-01-31T11:00+01:00")
    begin = int(second.stem)
    assert 0 < begin < 100
    # The file that was last written at that very time: from its beginning on.
    assert values_in(done.stdout)[:100] == [b"0-%d" % n for n in range(100)]
    os.utime(second, (long_ago.timestamp() + 60, long_ago.timestamp() + 60))
    done = place.run("replay.py", leader, place.topic, "2026-01-31T11:01+01:00")
    assert values_in(done.stdout) == [b"0-%d" % n for n in range(begin, 100)] + [b"1-%d" % n for n in range(100)]
    assert "no topic missing" in place.run("replay.py", leader, "missing", "2026-01-31", code=1).stderr


@pytest.mark.real
def test_a_producer_reports_each_line(place: Place) -> None:
    place.source.create_topic(place.topic, config={"max.message.bytes": 2000})
    lines = [b"customer 7:3 apples", b"5 pears", b"x" * 5000, b"y" * 2_000_000, b"customer 7:"]
    done = place.run("producer_callbacks.py", place.source.brokers, place.topic, stdin=b"\n".join(lines), code=1)
    tp = TopicPartition(place.topic, 0)
    assert sorted(done.stdout.splitlines()) == [f"line {n}: {tp} at {at}" for n, at in ((1, 0), (2, 1), (5, 2))]
    reasons = sorted(line for line in done.stderr.splitlines() if line.startswith("line "))
    assert [reason.split(":")[0] for reason in reasons] == ["line 3", "line 4"]
    assert "TooLarge" in reasons[0] or "too large" in reasons[0].lower()
    assert [(key, value) for _, key, value in stored(place.source, place.topic, 0)] == [
        (b"customer 7", b"3 apples"),
        (None, b"5 pears"),
        (b"customer 7", b""),
    ]
    assert place.run("producer_callbacks.py", place.source.brokers, place.topic, stdin=b"6 plums").stderr == ""


@pytest.mark.real
def test_a_mirror_passes_messages_through_its_handler(place: Place) -> None:
    place.source.create_topic(place.topic)
    rows: list[tuple[Field, Field]] = [
        (b"1", b'{"id": 1, "customer": "Ada", "price": 3}'),
        (b"2", b'{"id": 2, "test": true}'),
        (b"1", None),
        (b"3", b"no json"),
        (b"4", b'{"id": 4}'),
    ]
    produce(place.source, TopicPartition(place.topic, 0), rows)
    mirror = MirrorProcess(place.folder, "mirror_handler", {"PYTHONPATH": str(EXAMPLES)})
    mirror.file = place.mirror_yaml()

    def there(topic: str) -> list[tuple[Field, Field]]:
        there_is = sum(log_end_offsets(place.target, [topic]).values())
        return [(key, value) for _, key, value in stored(place.target, topic, 0)] if there_is else []

    letters = f"{place.topic}-dead-letters"
    with mirror:
        mirror.wait_for(lambda: len(there(place.topic)) == 3 and len(there(letters)) == 1, "all of them", SOON_S)
        assert mirror.stop()[0] == 0
    assert there(place.topic) == [(b"1", b'{"id": 1, "price": 3}'), (b"1", None), (b"4", b'{"id": 4}')]
    assert committed(place.source, place.group, place.topic) == {0: 5}


def avro(number: int, product: str, price: float | None) -> bytes:
    """A record of avro_stage.SCHEMA."""
    text = product.encode()
    assert 0 <= number < 64 > len(text)
    tail = b"\x00" if price is None else b"\x02" + struct.pack("<d", price)
    return bytes((number * 2, len(text) * 2)) + text + tail


@pytest.mark.real
@pytest.mark.spark
def test_a_stage_decodes_avro_behind_a_load(place: Place) -> None:
    place.source.create_topic(place.topic, 2)
    orders = [(1, "apples", 3.5), (2, "pears", None), (3, "plums", 0.25)]
    for p in range(2):
        rows: list[tuple[Field, Field]] = [(None, avro(*order)) for order in orders]
        produce(place.source, TopicPartition(place.topic, p), [*rows, (b"2", None)])
    shutil.copy(EXAMPLES / "avro_stage.py", place.folder)
    file = place.yaml(
        "avro_stage.yaml",
        **{
            r"/warehouse": str(place.folder),
            r"broker1:9092,broker2:9092": place.source.brokers,
            r"\[orders\]": f"[{place.topic}]",
        },
    )
    [jar] = jars.fetched("spark-avro-4.2.0", "Avro for Spark").glob("spark-avro_*.jar")
    place.run("sparkpipeline", "run", str(file), "--conf", f"spark.jars={jar}", timeout_s=SPARK_S)
    table = parquet.read_table(place.folder / "orders-flow" / "stages" / "orders" / "data", partitioning="hive")
    names = ("partition", "offset", "id", "product", "price")
    found = sorted(tuple(row[name] for name in names) for row in table.to_pylist())
    assert found == [(p, n, *order) for p in range(2) for n, order in enumerate(orders)]


@pytest.mark.real
@pytest.mark.spark
def test_a_streaming_query_goes_on_from_its_checkpoint(place: Place) -> None:
    sent = place.fill(2, 20)
    arguments = (place.source.brokers, place.topic, str(place.folder / "out"), "once")
    place.run("streaming_query.py", *arguments, timeout_s=SPARK_S)
    sent += place.fill(2, 10, begin=20)
    place.run("streaming_query.py", *arguments, timeout_s=SPARK_S)
    found = parquet.read_table(place.folder / "out" / "rows").to_pylist()
    assert Counter(row["value"].encode() for row in found) == Counter(sent)
    assert {(row["partition"], row["offset"]) for row in found} == {(p, n) for p in range(2) for n in range(30)}


@pytest.mark.real
def test_a_group_moves_to_kafka_once_nothing_is_in_its_way(place: Place) -> None:
    place.fill(2, 20)
    tps = [TopicPartition(place.topic, p) for p in range(2)]
    with simple(place.source, tps[0]) as consumer:
        assert consumer.commit_offsets(place.group, dict.fromkeys(tps, 15), "zookeeper") == sorted(tps)
        move = ("move_offsets.py", place.source.zookeeper, place.group)
        assert "check: refused" in place.run(*move, "3", code=1).stderr  # the topic of offsets has one replica here
        assert "has its offsets in Kafka" in place.run(*move, "1", timeout_s=2 * SOON_S).stdout
        assert consumer.fetch_offsets(place.group, tps, "kafka") == dict.fromkeys(tps, 15)
    marker = place.source.registry().zk.get(f"/consumers/{place.group}/migration")[0]
    assert b"cutover" in marker
    member = place.start("group_member.py", place.source.zookeeper, place.topic, place.group)
    assert member.wait(SOON_S) == 1
    assert "taken off ZooKeeper by migration" in said(member)


@pytest.mark.real
def test_an_audit_names_what_the_target_lacks(place: Place) -> None:
    values = place.fill(2, 20)
    place.target.create_topic(place.topic, 2)
    for p in range(2):
        some: Sequence[tuple[Field, Field]] = [(b"key", v) for v in values[20 * p : 20 * p + 20] if v != b"1-7"]
        produce(place.target, TopicPartition(place.topic, p), some)
    tps = [TopicPartition(place.topic, p) for p in range(2)]
    with simple(place.source, tps[0]) as consumer:
        assert consumer.commit_offsets(place.group, dict.fromkeys(tps, 20), "zookeeper") == sorted(tps)
    file = place.mirror_yaml(**{r" +(message\.handler|handler\.error|dead\.letter).*\n": ""})
    done = place.run("audit_mirror.py", str(file), "26h", code=4)
    counts, lost = done.stdout.splitlines()
    assert counts == f"{place.topic}: 40 messages compared, 1 missing, 0 not yet mirrored"
    assert lost.startswith(f"missing: {place.topic}/1 at 7 to 7, 1 messages, the first with CRC-32 ")
    produce(place.target, tps[1], [(b"key", b"1-7")])
    assert " 0 missing" in place.run("audit_mirror.py", str(file), "26h").stdout
