"""`mirrormaker verify` where retention deleted messages at the target: they are named so, and not as missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from kafkawire.model import Broker, TopicPartition
from mirrormaker.commands.onlinetarget import target_view
from mirrormaker.config import from_yaml
from mirrormaker.verify import verifier
from mirrormaker.verify.bounds import SourceCluster
from mirrormaker.verify.result import VerifyResult
from mirrormaker.verify.verifier import Request, verify
from tests.fakes.broker import FakeCluster, entry

Verify = Callable[[], VerifyResult]
WRITTEN = 400


class Silent:
    def update(self, done: int, note: str = "") -> None: ...
    def line(self, text: str) -> None: ...


@pytest.fixture
def source() -> Iterator[FakeCluster]:
    with FakeCluster({"t": 1}) as cluster:
        fill(cluster, range(WRITTEN))
        yield cluster


@pytest.fixture
def target() -> Iterator[FakeCluster]:
    with FakeCluster({"t": 1}) as cluster:
        yield cluster


def fill(cluster: FakeCluster, numbers: range, partition: int = 0) -> None:
    for n in numbers:
        cluster.append("t", partition, entry(b"message %d" % n))


def delete(cluster: FakeCluster, before: int, partition: int = 0) -> None:
    log = cluster.logs["t", partition]
    log.entries = [(at, data) for at, data in log.entries if at >= before]
    log.empty_at = log.end


@pytest.fixture
def compared(
    source: FakeCluster, target: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], VerifyResult]:
    """The comparison, with a source whose group has committed everything."""
    (host, port), (there, its_port) = source.bootstrap[0], target.bootstrap[0]
    content = {
        "sources": [{"zookeeper.connect": "zk:1", "group.id": "g", "version": "0.8.2"}],
        "target": {"metadata.broker.list": f"{there}:{its_port}", "target.version": "0.8.2"},
        "mirror": {"whitelist": "t"},
    }
    file = tmp_path / "t.yaml"
    file.write_text(yaml.safe_dump(content))
    configuration = from_yaml(file)
    [options] = configuration.sources
    found = SourceCluster(options, {1: Broker(1, host, port)}, {"t": [0]}, frozenset())

    def committed(
        asked: object, ends: Mapping[TopicPartition, int], *more: object, **others: object
    ) -> Mapping[TopicPartition, int]:
        return ends

    monkeypatch.setattr(verifier, "read_source", lambda *asked: found)
    monkeypatch.setattr(verifier, "wait_committed", committed)
    return lambda: verify(configuration, lambda: target_view(configuration.target), Request(), Silent())


def test_messages_that_retention_deleted_at_the_target_are_said_to_be_deleted(
    target: FakeCluster, compared: Verify
) -> None:
    fill(target, range(WRITTEN))
    delete(target, 250)
    [scope] = compared().scopes
    assert (scope.deleted_at_target, scope.missing, scope.not_compared, scope.result) == (250, 0, 0, "sound")
    assert "250 messages of the source deleted by retention at the target: the log of t/0 begins at 250" in scope.notes


def test_a_target_log_that_retention_emptied_is_deleted_and_not_missing(target: FakeCluster, compared: Verify) -> None:
    fill(target, range(WRITTEN))
    delete(target, WRITTEN)
    found = compared()
    [scope] = found.scopes
    assert (scope.deleted_at_target, scope.missing, scope.not_compared) == (WRITTEN, 0, 0)
    assert scope.result == "deleted at target"
    assert found.differences == ()
    assert "400 deleted at target" in found.sentence()


def test_what_is_missing_behind_what_was_deleted_is_missing(target: FakeCluster, compared: Verify) -> None:
    fill(target, range(300))
    fill(target, range(301, WRITTEN))
    delete(target, 200)
    found = compared()
    [scope] = found.scopes
    assert (scope.deleted_at_target, scope.missing) == (200, 1)
    assert [(each.difference, each.first_offset) for each in found.differences] == [("missing", 300)]


def test_a_target_log_that_holds_everything_has_nothing_deleted(target: FakeCluster, compared: Verify) -> None:
    fill(target, range(WRITTEN))
    [scope] = compared().scopes
    assert (scope.deleted_at_target, scope.not_compared, scope.result, scope.notes) == (0, 0, "sound", ())
