"""Where nothing of ours is installed: a zip brings it, to a standalone cluster and to a local session.

Driver and executors run a Python that has pyspark and pyarrow alone.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kafkawire.compression import GZIP, SNAPPY
from kafkawire.model import TopicPartition
from localkafka import ports
from localkafka.child import Child
from localkafka.client import ClusterClient
from localkafka.java import QUICK
from localkafka.proxy import Proxy
from localkafka.waiting import wait_until
from localkafka.zookeeper import ZooKeeperAt
from sparkpipeline.commands.pyfiles import write_zip
from sparkpipeline.errors import CodecMissing, sentence_in
from tests.integration.barepython import bare_python, environment, spark_home
from tests.integration.sparktopics import Field, produce

pytestmark = [pytest.mark.real, pytest.mark.spark]

# Five JVMs start here, each waits for another, and a busy machine takes minutes for that: what is waited for is a line,
# or the end of a process.  This only ends a hang, before the run's own alarm (faulthandler_timeout) does.
HANG_S = 540

SUMS = '"count(*) as n", "sum(crc32(value)) as crcs", "count(distinct partition) as partitions"'
SUBMITTED = f"""
import json, os, sys, time
from pyspark.sql import SparkSession
from sparkpipeline.datasource import Kafka08DataSource

spark = SparkSession.builder.getOrCreate()
spark.dataSource.register(Kafka08DataSource)
options = {{"zookeeper.connect": sys.argv[1], "subscribe": sys.argv[2]}}
frame = spark.read.format("kafka08").options(**options).load().selectExpr({SUMS})
print(json.dumps(frame.collect()[0].asDict()), flush=True)
deadline = time.monotonic() + {HANG_S}
while not os.path.exists(sys.argv[3]):  # meanwhile ZooKeeper goes away
    assert time.monotonic() < deadline
    time.sleep(0.05)
print(json.dumps(frame.collect()[0].asDict()), flush=True)

def where(_):
    time.sleep(0.2)  # so that one executor does not do it all
    import sparkpipeline
    return os.getppid(), sparkpipeline.__file__

found = spark.sparkContext.parallelize(range(8), 8).map(where).collect()
print(json.dumps({{"executors": len({{pid for pid, _ in found}}), "from": sorted({{file for _, file in found}})}}))
"""
ADDED = f"""
import json, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.addPyFile(sys.argv[1])
from sparkpipeline.datasource import Kafka08DataSource
spark.dataSource.register(Kafka08DataSource)
for topic in sys.argv[3:]:
    options = {{"kafka.bootstrap.servers": sys.argv[2], "subscribe": topic}}
    try:
        found = spark.read.format("kafka08").options(**options).load().selectExpr({SUMS}).collect()[0].asDict()
    except Exception as exc:
        found = {{"error": str(exc)}}
    print(json.dumps(found), flush=True)
"""


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The bare interpreter, and the zip."""
    folder = tmp_path_factory.mktemp("shipped")
    write_zip(folder / "pyfiles.zip")
    return bare_python(folder / "bare"), folder / "pyfiles.zip"


@pytest.fixture
def start(tmp_path: Path, shipped: tuple[Path, Path]) -> Iterator[Callable[..., Child]]:
    """start(name, *words) runs a program of Spark's bin folder; all are ended after the test, the last one first."""
    with ExitStack() as stack:

        def begin(name: str, *words: str, **pipes: int) -> Child:
            argv = [str(spark_home() / "bin" / words[0]), *words[1:]]
            # env -i: nothing of the checkout's environment comes through.
            env = [f"{key}={value}" for key, value in environment(shipped[0]).items()]
            log = tmp_path / f"{name}.log"
            child = Child(name, ["/usr/bin/env", "-i", *env, *argv], log, cwd=tmp_path, **pipes)
            stack.callback(child.close)
            stack.callback(child.stop)
            return child

        yield begin


def filled(cluster: ClusterClient, topic: str, codec: int) -> dict[str, int]:
    """Four partitions; what the sums of it are."""
    cluster.create_topic(topic, partitions=4)
    rows: list[tuple[Field, Field]] = [(b"k", b"value %d" % n) for n in range(2000)]
    for partition in range(4):
        produce(cluster, TopicPartition(topic, partition), rows, codec)
    return {"n": 8000, "crcs": 4 * sum(zlib.crc32(value or b"") for _, value in rows), "partitions": 4}


def logged(child: Child, pattern: str) -> re.Match[str]:
    """The first match in what it logged, as soon as there is one."""

    def look() -> re.Match[str] | None:
        found = re.search(pattern, child.log.read_text(errors="replace"))
        assert found is not None or child.running, f"{child.name} ended; {child.log_end()}"
        return found

    return wait_until(look, HANG_S, lambda: f"{pattern!r} of {child.name}; {child.log_end()}")


def answer(child: Child) -> dict[str, Any]:
    """The next line that it prints.  spark-submit sends what Python says on standard error there, too."""
    assert child.stdout is not None
    alarm = threading.Timer(HANG_S, child.kill)
    alarm.start()
    try:
        line = child.stdout.readline()
    finally:
        alarm.cancel()
    assert line.startswith(b"{"), f"{child.name}: {(line + child.stdout.read()).decode()}; {child.log_end()}"
    found: dict[str, Any] = json.loads(line)
    return found


def test_two_workers_read_with_what_the_zip_brings_and_never_see_zookeeper(
    source: ClusterClient, zk_server: ZooKeeperAt, unique: Any, tmp_path: Path, shipped: tuple[Path, Path],
    start: Callable[..., Child],
) -> None:  # fmt: skip
    topic = unique.topic()
    expected = filled(source, topic, GZIP)
    port = ports.reserve()
    at = ["--host", "127.0.0.1", "--webui-port", "0", "--port"]
    master = start("master", "spark-class", "org.apache.spark.deploy.master.Master", *at, str(port.number))
    url = logged(master, r"spark://127\.0\.0\.1:\d+")[0]
    mine = ["--cores", "1", "--memory", "700m", "--work-dir", str(tmp_path / "work"), url]
    workers = [
        start(f"worker {n}", "spark-class", "org.apache.spark.deploy.worker.Worker", *at, "0", *mine) for n in (0, 1)
    ]
    for worker in workers:
        logged(worker, "Successfully registered with master")
    app, gone = tmp_path / "app.py", tmp_path / "zookeeper-is-gone"
    app.write_text(SUBMITTED)
    settings = {
        "spark.scheduler.minRegisteredResourcesRatio": "1",
        # Spark's own 30 s: after them the job begins with the executors there are, and one would do it all.
        "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{HANG_S}s",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": " ".join(QUICK),
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    submit = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    with Proxy(zk_server.address) as zookeeper:
        chroot = source.zookeeper.partition("/")[2]
        words = [
            "--master",
            url,
            *submit,
            "--py-files",
            str(shipped[1]),
            str(app),
            f"{zookeeper.connect}/{chroot}",
            topic,
            str(gone),
        ]
        driver = start("driver", "spark-submit", *words, stdout=subprocess.PIPE)
        assert answer(driver) == expected
        assert zookeeper.counters.connections > 0
        zookeeper.refuse()
        zookeeper.reset()
        gone.touch()
        assert answer(driver) == expected
        found = answer(driver)
        assert driver.wait(HANG_S) == 0, driver.log_end()
    assert found["executors"] == 2
    assert all("pyfiles.zip" in file for file in found["from"]), found
    port.release()


@pytest.mark.faults  # test_codec_missing has the sentence; make faults runs this
def test_a_zip_added_before_the_format_is_registered_reads_all_but_what_needs_machine_code(
    source: ClusterClient, unique: Any, tmp_path: Path, shipped: tuple[Path, Path], start: Callable[..., Child]
) -> None:
    plain, snappy = unique.topic("plain"), unique.topic("snappy")
    expected = filled(source, plain, 0)
    filled(source, snappy, SNAPPY)
    app = tmp_path / "app.py"
    app.write_text(ADDED)
    driver = start(
        "driver", "spark-submit", str(app), str(shipped[1]), source.brokers, plain, snappy, stdout=subprocess.PIPE
    )
    assert answer(driver) == expected
    told = sentence_in(answer(driver)["error"])
    assert told is not None
    assert told.startswith(f"{CodecMissing.code} topic={snappy} partition=")
    assert "needs the package cramjam" in told
    assert driver.wait(HANG_S) == 0, driver.log_end()


def test_the_bare_python_sees_nothing_of_the_checkout(shipped: tuple[Path, Path], tmp_path: Path) -> None:
    done = subprocess.run(
        [str(shipped[0]), "-c", "import sparkpipeline"], capture_output=True, text=True, timeout=60, cwd=tmp_path,
        env={**environment(shipped[0]), "HOME": os.environ.get("HOME", "/")},
    )  # fmt: skip
    assert "ModuleNotFoundError" in done.stderr
