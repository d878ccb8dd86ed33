"""Fixtures for every test: real clusters, shared by all workers of a run; skips that name what is missing."""

from __future__ import annotations

import gc
import logging
import os
import re
import shutil
import signal
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from groundwork.logs import LimitedHandler
from groundwork.tasks import TaskGroup
from localkafka.client import ClusterClient
from localkafka.cluster import Cluster
from localkafka.java import quick_spark
from localkafka.seven import original
from localkafka.seven.cluster import Cluster07
from localkafka.seven.node import Node07, node_of
from localkafka.shared import Shared
from localkafka.zookeeper import ZooKeeperAt

# Two clusters on one ZooKeeper JVM, for all workers together: five small JVMs, about 450 MB.
PLAN = {
    "source": {"brokers": 2, "settings": {"auto.create.topics.enable": "true"}},
    "target": {"brokers": 2, "settings": {"auto.create.topics.enable": "true"}},
}

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell lets what it starts in the background ignore ctrl-C, and our children would inherit that from us.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # nohup does the same with SIGHUP; with that ignored a test that waits for its effect would wait for ever.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A driver lives for seconds: what the compiler of C2 and three collecting threads take is another test's time.
os.environ.update({**quick_spark(), **os.environ})

# Hypothesis measures by the clock how long examples take to draw, and other tests have the cores meanwhile.
hypothesis.settings.register_profile("loaded", suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("loaded")

ROOT = Path(__file__).resolve().parent.parent
# What tools and Python itself keep beside the code; .gitignore has them.
KEPT = {"__pycache__", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".import_linter_cache"}
FOUND = pytest.StashKey[set[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="stories take over the trace that their events lead to now")
    parser.addoption(
        "--few-examples", action="store_true", help="hypothesis tries a fifth of its examples, 10 at least"
    )


# A file of tests is not imported where the -m of `make` wants none of it: each worker would import all.
REAL_ALONE = re.compile(r"^pytestmark = .*\bmark\.real\b", re.MULTILINE)
SOME_REAL = re.compile(r"\bmark\.real\b|\b(kind|broker|cluster)07\b|\bown_broker07\b|^@row\b", re.MULTILINE)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """All tests live until the end of the run: the collector, which looks at each of them again and again, has no part
    in them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    wanted = config.getoption("markexpr")
    if not wanted.startswith(("real and", "not real and")) or not collection_path.match("test_*.py"):
        return None
    text = collection_path.read_text(encoding="utf-8")
    unwanted = REAL_ALONE.search(text) if wanted.startswith("not") else not SOME_REAL.search(text)
    return True if unwanted else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test on real clusters says so, or `make check` would start them; with --few-examples there are fewer."""
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        if not {"real", "faults"} & marks and "shared_clusters" in getattr(item, "fixturenames", ()):
            raise pytest.UsageError(f"{item.nodeid} takes a real cluster: mark it `real`")
        if "real" in marks and not SOME_REAL.search(item.path.read_text(encoding="utf-8")):
            raise pytest.UsageError(f"{item.nodeid} is real, and a run of real tests would not see it: see SOME_REAL")
    if config.getoption("--few-examples"):
        tests = {getattr(item, "obj", None) for item in items}
        for test in filter(hypothesis.is_hypothesis_test, tests):
            whole = test._hypothesis_internal_use_settings  # type: ignore[union-attr]
            few = min(whole.max_examples, max(10, whole.max_examples // 5))
            test._hypothesis_internal_use_settings = hypothesis.settings(whole, max_examples=few)  # type: ignore[union-attr]


def entries_of_root() -> set[str]:
    return {entry.name for entry in os.scandir(ROOT)} - KEPT


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.stash[FOUND] = entries_of_root()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run that leaves something in the checkout fails; the first process of the run looks, after all others."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    left = sorted(entries_of_root() - session.config.stash[FOUND])
    if left:
        print(f"\nERROR: tests left in {ROOT}: {', '.join(left)}")
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def missing_parts() -> list[str]:
    found_java = shutil.which("java") or Path(os.environ.get("JAVA_HOME", "/nowhere"), "bin", "java").is_file()
    return [name for name, there in (("Java", found_java), ("Maven", shutil.which("mvn"))) if not there]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("kafka07") is not None and original.home() is None:
        pytest.skip(f"needs an original Kafka 0.7: {original.HOME} names no folder with one")
    if item.get_closest_marker("real") is None and item.get_closest_marker("spark") is None:
        return
    missing = missing_parts()
    if missing and os.environ.get("CI"):
        pytest.fail(f"CI must have {' and '.join(missing)}: tests on real clusters may not be skipped there")
    if missing:
        pytest.skip(f"needs {' and '.join(missing)} on the PATH")


@pytest.fixture
def tasks() -> Iterator[TaskGroup]:
    """A group of tasks for what runs in them, ended with its test; none of them may have died."""
    made = TaskGroup()
    yield made
    assert made.stop(2) == []
    assert made.death is None


@pytest.fixture
def passable_path() -> Iterator[Path]:
    """A folder for tests that other users get to: not below tmp_path, which is closed to them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        closed = [each for each in folder.parents if each.stat().st_mode & 0o011 == 0]
        if closed:
            pytest.skip(f"TMPDIR is below {closed[0]}, which lets no other user through")
        yield folder


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """A command that runs in this process sets the log up for all of it: the next test finds it as it was."""
    loggers = (logging.getLogger(), logging.getLogger("kazoo"))
    levels, handlers = [each.level for each in loggers], list(loggers[0].handlers)
    yield
    for each, level in zip(loggers, levels, strict=True):
        each.setLevel(level)
    for handler in [each for each in loggers[0].handlers if isinstance(each, LimitedHandler) and each not in handlers]:
        loggers[0].removeHandler(handler)


@pytest.fixture(scope="session")
def shared_clusters() -> Iterator[Shared]:
    """This worker's hold on the clusters of the run."""
    worker = "PYTEST_XDIST_WORKER" in os.environ
    run = os.environ["PYTEST_XDIST_TESTRUNUID"] if worker else uuid.uuid4().hex
    folder = Path(tempfile.gettempdir()) / f"localkafka-shared-{run}"
    with Shared(folder, PLAN, watch=os.getppid() if worker else os.getpid()) as shared:
        yield shared


@pytest.fixture(scope="session")
def zk_server(shared_clusters: Shared) -> ZooKeeperAt:
    """The ZooKeeper of the run: .connect, .address.  Work below a chroot of your own (unique.chroot)."""
    return shared_clusters.zookeeper


@pytest.fixture(scope="session")
def source(shared_clusters: Shared) -> ClusterClient:
    """A shared 0.8.2.2 cluster of two brokers.  Never stop or reconfigure it: others use it."""
    return shared_clusters.cluster("source")


@pytest.fixture(scope="session")
def target(shared_clusters: Shared) -> ClusterClient:
    """Another shared 0.8.2.2 cluster of two brokers on the same ZooKeeper."""
    return shared_clusters.cluster("target")


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """This worker's Spark session: local[2], a task that fails is tried once more.  Seven seconds the first time."""
    from sparkpipeline.sparksession import spark_session

    quiet = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.host": "127.0.0.1",
             "spark.driver.bindAddress": "127.0.0.1", "spark.driver.memory": "1g"}  # fmt: skip
    session = spark_session("tests", "local[2,2]", quiet)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@dataclass(frozen=True, slots=True)
class Unique:
    """Names no other test uses."""

    tag: str = field(default_factory=lambda: uuid.uuid4().hex[:10])

    def topic(self, name: str = "topic") -> str:
        return f"{name}-{self.tag}"

    def group(self, name: str = "group") -> str:
        return f"{name}-{self.tag}"

    @property
    def chroot(self) -> str:
        return f"/chroot-{self.tag}"


@pytest.fixture
def unique() -> Unique:
    """unique.topic("orders"), unique.group(), unique.chroot: fresh in every test."""
    return Unique()


@pytest.fixture
def own_cluster(zk_server: ZooKeeperAt) -> Iterator[Callable[..., Cluster]]:
    """own_cluster(brokers=1, settings={...}, ...) starts a cluster that this test may kill; ended after it.

    It shares the run's ZooKeeper under a chroot of its own; own_cluster(zookeeper=None) has one of its own.
    """
    clusters: list[Cluster] = []

    def start(**wanted: Any) -> Cluster:
        cluster = Cluster(**{"zookeeper": zk_server, **wanted})
        clusters.append(cluster)
        return cluster.start()

    yield start
    for cluster in reversed(clusters):
        cluster.close()


KINDS07 = ["python", pytest.param("original", marks=[pytest.mark.real, pytest.mark.kafka07])]


@pytest.fixture(scope="module", params=KINDS07)
def kind07(request: pytest.FixtureRequest) -> str:
    """Which 0.7 brokers a test runs on: "python" always, "original" where KAFKA_07_HOME names one."""
    return str(request.param)


@pytest.fixture(scope="module")
def broker07(kind07: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node07]:
    """A 0.7 broker without ZooKeeper, two partitions a topic, shared by a module's tests: take topics of your own."""
    with node_of(kind07)(tmp_path_factory.mktemp("broker07"), settings={"num.partitions": 2}) as broker:
        yield broker


@pytest.fixture
def own_broker07(kind07: str, tmp_path: Path) -> Iterator[Callable[..., Node07]]:
    """own_broker07(settings={...}) starts a 0.7 broker without ZooKeeper that this test may kill; ended after it."""
    brokers: list[Node07] = []

    def start(settings: Mapping[str, object] | None = None) -> Node07:
        brokers.append(node_of(kind07)(tmp_path / f"broker-{len(brokers)}", settings=settings))
        brokers[-1].start()
        brokers[-1].wait_registered()
        return brokers[-1]

    yield start
    for broker in brokers:
        broker.close()


@pytest.fixture
def cluster07(kind07: str, zk_server: ZooKeeperAt) -> Iterator[Callable[..., Cluster07]]:
    """cluster07(brokers=1, partitions=1 or {broker: n}, settings={...}) starts a 0.7 cluster that this test may kill;
    ended after it.  A test runs once on brokers in Python and once on originals; mark it `real` (ZooKeeper is).

    It shares the run's ZooKeeper under a chroot of its own; cluster07(zookeeper=None) has one of its own.
    """
    clusters: list[Cluster07] = []

    def start(**wanted: Any) -> Cluster07:
        cluster = Cluster07(**{"zookeeper": zk_server, "kind": kind07, **wanted})
        clusters.append(cluster)
        return cluster.start()

    yield start
    for cluster in reversed(clusters):
        cluster.close()
