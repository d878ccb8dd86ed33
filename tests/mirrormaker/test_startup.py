"""The start of several sources: one that is absent or wrong holds up no other, and is named."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from kazoo.exceptions import ConnectionLoss, KazooException, OperationTimeoutError, SessionExpiredError

from groundwork.tasks import TaskGroup, now, sleep
from groundwork.threads import NoThread
from kafkawire.cluster.release import BrokerRelease
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.cluster.view import ClusterView
from kafkawire.model import Broker
from mirrormaker import exits, startup, zookeeper
from mirrormaker.config import Configuration
from mirrormaker.options import MirrorOptions, SourceOptions, TargetOptions
from mirrormaker.probe import SourceView, WrongVersion, probe_target
from mirrormaker.source import SourceState
from mirrormaker.startup import StartRefused, Startup
from zkconsumer.errors import ChrootMissing, Unreachable

HERE = Broker(1, "target", 9092)


class Source:
    """A source that is joined once nothing is wrong with it."""

    def __init__(self, name: str, wrong: Exception | None = None) -> None:
        self.name = name
        self.options = SourceOptions(name=name, zookeeper_connect=f"{name}:2181", group_id="g")
        self.wrong = wrong
        self.versions = ClusterVersions("0.8.2")
        self.brokers = {1: Broker(1, name, 9092)}
        self.state = SourceState("joining")
        self.assigned = False
        self.joined = 0
        self.tries: list[float] = []

    def is_out_of_reach(self, reason: str) -> None:
        self.state = SourceState("out of reach", reason)

    def refuse(self, reason: str) -> None:
        self.state = SourceState("refused", reason)

    def probe(self) -> SourceView:
        self.tries.append(now())
        sleep(0)
        if self.wrong is not None:
            raise self.wrong
        return SourceView(self.brokers, {"t": 1})

    def start(self) -> None:
        self.joined += 1
        self.assigned = True
        self.state = SourceState("running")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "RETRY_S", 0.02)
    monkeypatch.setattr(startup, "LATE_RETRY_S", 0.08)
    monkeypatch.setattr(startup, "REFUSED_RETRY_S", 0.2)
    monkeypatch.setattr(startup, "timestamps_lost", lambda *clusters: [])


def starting(monkeypatch: pytest.MonkeyPatch, tasks: TaskGroup, *sources: Source, timeout_ms: int = 200) -> Startup:
    by_name = {source.name: source for source in sources}
    monkeypatch.setattr(startup, "probe_target", lambda view, options, versions: ClusterView({1: HERE}))
    monkeypatch.setattr(
        startup, "probe_source", lambda options, mirror, timeout_s, versions: by_name[options.name].probe()
    )
    configuration = Configuration(
        tuple(source.options for source in sources),
        TargetOptions(brokers=(("target", 9092),)),
        MirrorOptions(whitelist="t", start_timeout_ms=timeout_ms),
    )
    nothing: Callable[..., None] = lambda *_: None  # noqa: E731
    return Startup(
        configuration,
        tasks,
        target=SimpleNamespace(topics=SimpleNamespace(view=nothing), zookeeper=None, versions=ClusterVersions("0.8.2")),  # type: ignore[arg-type]
        sources=sources,  # type: ignore[arg-type]
        maps=SimpleNamespace(check=nothing, open=nothing),  # type: ignore[arg-type]
        flow=lambda source: SimpleNamespace(start=lambda mirror: by_name[source.name].start()),  # type: ignore[arg-type, return-value]
        begun=nothing,
        joined=nothing,
    )


def until(condition: Callable[[], Any]) -> None:
    end = now() + 10
    while not condition():
        assert now() < end, "not within the time"
        sleep(0.005)


def test_a_source_that_is_out_of_reach_is_left_for_later_and_comes(
    tasks: TaskGroup, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    near, far = Source("near"), Source("far", Unreachable("ZooKeeper at far does not answer"))
    began = now()
    starting(monkeypatch, tasks, near, far).run()
    assert now() - began > 0.1  # READY waits for it, but not for ever
    assert near.joined == 1
    assert far.state == SourceState("out of reach", "ZooKeeper at far does not answer")
    far.wrong = None
    until(lambda: far.joined)
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert said == [
        "source far: ZooKeeper at far does not answer; trying again",
        "source far out of reach for 0.2 s: ZooKeeper at far does not answer; mirroring the other sources, and this "
        "one once it answers",
    ]
    assert any("source far: answers after" in record.getMessage() for record in caplog.records)


def test_a_source_whose_map_finds_no_thread_is_tried_again(
    tasks: TaskGroup, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[Any] = []

    def scarce(source: Any) -> None:
        tries.append(source)
        if len(tries) < 3:
            raise NoThread("no further thread can be started")

    near = Source("near")
    made = starting(monkeypatch, tasks, near, timeout_ms=10_000)
    made._maps = SimpleNamespace(check=lambda: None, open=scarce)  # type: ignore[assignment]
    made.run()
    assert (near.joined, len(tries)) == (1, 3)
    assert "source near: offset map: no further thread can be started; trying again" in caplog.text


def test_a_source_that_comes_in_time_is_waited_for(tasks: TaskGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = Source("near"), Source("far", Unreachable("not yet"))
    made = starting(monkeypatch, tasks, near, far, timeout_ms=10_000)
    tasks.spawn("later", lambda: (sleep(0.1), setattr(far, "wrong", None)))
    made.run()
    assert (near.joined, far.joined) == (1, 1)


def test_the_start_ends_with_69_once_every_source_is_out_of_reach(
    tasks: TaskGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    near, far = Source("near", Unreachable("silence")), Source("far", Unreachable("darkness"))
    with pytest.raises(StartRefused) as refused:
        starting(monkeypatch, tasks, near, far).run()
    assert refused.value.code == exits.UNREACHABLE
    assert str(refused.value) == (
        "source near out of reach for 0.2 s: silence; source far out of reach for 0.2 s: darkness"
    )


def test_what_is_wrong_with_a_configuration_ends_the_start_at_once(
    tasks: TaskGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    near, far = Source("near"), Source("far", ChrootMissing("chroot /far does not exist"))
    with pytest.raises(StartRefused, match="source far: chroot /far does not exist") as refused:
        starting(monkeypatch, tasks, near, far, timeout_ms=60_000).run()
    assert refused.value.code == exits.CONFIGURATION


def test_a_source_that_comes_late_and_is_wrong_is_refused_alone_and_tried_less_and_less_often(
    tasks: TaskGroup, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    near, far = Source("near"), Source("far", Unreachable("silence"))
    starting(monkeypatch, tasks, near, far, timeout_ms=50).run()
    far.wrong, far.brokers = None, {7: Broker(7, "TARGET", 9092)}
    until(lambda: far.state.state == "refused")
    assert far.state.reason.startswith("source far and the target are one cluster (")
    far.tries.clear()
    until(lambda: len(far.tries) > 4)
    assert far.tries[4] - far.tries[3] > 0.15
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    assert errors[0].startswith("source far and the target are one cluster (")
    assert errors[0].endswith("; it is not mirrored, the other sources are")
    far.brokers = {7: Broker(7, "far", 9092)}
    until(lambda: far.joined)
    assert near.joined == 1


def test_no_source_joins_while_the_mirror_stops(tasks: TaskGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = Source("near"), Source("far", Unreachable("silence"))
    made = starting(monkeypatch, tasks, near, far, timeout_ms=50)
    made.run()
    made.stop()
    far.wrong = None
    sleep(0.3)
    assert far.joined == 0


def test_a_target_whose_brokers_cannot_do_what_an_option_says_is_refused_once_they_said_what_they_are():
    versions = ClusterVersions()
    versions.told(BrokerRelease(HERE, "0.10.0", {}))
    target = TargetOptions(brokers=(("127.0.0.1", 1),), idempotence=True)
    with pytest.raises(
        WrongVersion, match=r"enable\.idempotence: Kafka 0\.10\.0 cannot; .*what the target's brokers are"
    ):
        probe_target(lambda: ClusterView({}), target, versions)


@pytest.mark.parametrize("lost", [ConnectionLoss(), SessionExpiredError(), OperationTimeoutError()], ids=repr)
def test_a_connection_to_zookeeper_that_is_lost_while_it_is_asked_counts_as_out_of_reach(
    monkeypatch: pytest.MonkeyPatch, lost: KazooException
) -> None:
    """Exit code 78 is for what a new start cannot mend: systemd starts no mirror again that ends with it."""
    monkeypatch.setattr(zookeeper, "KazooClient", Mock())
    monkeypatch.setattr(zookeeper, "started", lambda client, timeout_s: True)
    monkeypatch.setattr(zookeeper, "missing_chroot", lambda *args: None)
    with (
        pytest.raises(Unreachable, match="zk:1: the connection was lost"),
        zookeeper.zookeeper_session("zookeeper.connect", "zk:1", 1.0),
    ):
        raise lost
