"""A configuration that is read again: what takes effect, what is named and left, and what changes nothing at all."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from groundwork.options import OptionError
from kafkawire.dialects import dialect
from mirrormaker.changes import decide
from mirrormaker.config import Configuration, from_yaml
from mirrormaker.reload import Reloads
from zkconsumer.errors import ConsumerError
from zkconsumer.filters import TopicFilter
from zkconsumer.offsets.modes import Mode, ModeRefused

FILE = """
sources:
- {name: a, zookeeper.connect: 'zk1:2181/a', group.id: g}
- {name: b, zookeeper.connect: 'zk2:2181/b', group.id: g, zookeeper.auth: 'digest:me:secret'}
target: {metadata.broker.list: 'k:9092', target.zookeeper.connect: 'zk3:2181'}
mirror: {whitelist: 'a.*'}
"""


@pytest.fixture
def configured(tmp_path: Path) -> Callable[..., Configuration]:
    """The file, with some of its text replaced."""

    def read(*replacements: tuple[str, str]) -> Configuration:
        text = FILE
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "m.yaml").write_text(text)
        return from_yaml(tmp_path / "m.yaml")

    return read


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """These files are written whole; tests/mirrormaker/test_config_files.py has those that are not."""
    monkeypatch.setattr("mirrormaker.configfile.SETTLED_S", 0.0)


# what is decided ---------------------------------------------------------------------------------------------------


def test_where_a_source_keeps_its_offsets_may_change(configured):
    todo = decide(configured(), configured(("name: a,", "name: a, offsets.storage: kafka,")))
    assert (todo.modes, todo.left) == ({"a": "dual", "b": "zookeeper"}, ())
    assert todo.changed == ("source a: offsets.storage",)


def test_topics_names_handler_and_level_may_change_and_are_what_runs_then(configured):
    running = configured()
    read = configured(
        ("'a.*'", "'b.*', blacklist: bb, message.handler: 'json:loads', log.level: debug, partitioning: key"),
        ("name: a,", "name: a, topic.prefix: 'dc1.',"),
        ("'zk3:2181'", "'zk3:2181', compression.codec: gzip"),
    )
    todo = decide(running, read)
    assert todo.left == ()
    assert todo.changed == (
        "mirror: blacklist",
        "mirror: log.level",
        "mirror: message.handler",
        "mirror: partitioning",
        "mirror: whitelist",
        "source a: topic.prefix",
        "target: compression.codec",
    )
    assert todo.configuration.mirror == read.mirror
    assert decide(todo.configuration, read).changed == ()


def test_everything_else_is_named_without_its_value_and_left(configured):
    changed = configured(
        ("'a.*'", "'a.*', num.streams: 2"),
        ("k:9092", "l:9092"),
        ("me:secret", "me:other"),
        ("name: a,", "name: c, offsets.storage: kafka,"),
    )
    todo = decide(configured(), changed)
    assert todo.modes == {"a": "zookeeper", "b": "zookeeper"}
    assert todo.left == (
        "mirror: option 'num.streams' has changed; it takes effect after a restart only",
        "source a is not there any more; it ends after a restart only",
        "source b: option 'zookeeper.auth' has changed; it takes effect after a restart only",
        "source c is new; it is mirrored after a restart only",
        "target: option 'metadata.broker.list' has changed; it takes effect after a restart only",
    )
    assert todo.configuration.mirror.num_streams == 1


def test_what_a_target_end_compares_does_not_move_while_it_runs(tmp_path: Path):
    def read(rename: str) -> Configuration:
        (tmp_path / "m.yaml").write_text(
            "sources:\n- {name: a, zookeeper.connect: 'zk1:2181/a', group.id: g}\n"
            "target: {metadata.broker.list: 'k:9092', target.zookeeper.connect: 'zk3:2181'}\n"
            f"mirror: {{whitelist: 'a.*', resume: target-end, offset.map.folder: /tmp{rename}}}\n"
        )
        return from_yaml(tmp_path / "m.yaml")

    todo = decide(read(""), read(", topic.rename: {a: b}"))
    assert todo.left == ("mirror: option 'topic.rename' has changed; it takes effect after a restart only",)
    assert todo.changed == ()


# what is done ------------------------------------------------------------------------------------------------------


class Source:
    joined = True

    def __init__(self, options: Any, refuses: bool = False) -> None:
        self.options, self.name, self.dialect = options, options.name, dialect("0.8.2")
        self.mode: Mode = "zookeeper"
        self.topics: list[str] = []
        self.refuses = refuses

    def switch_offsets(self, mode: Mode) -> bool:
        if mode == "kafka":
            raise ModeRefused("zookeeper -> kafka in one bounce is refused")
        before, self.mode = self.mode, mode
        return before != mode

    def change_topics(self, topics: TopicFilter, timeout_s: float) -> bool:
        if self.refuses:
            raise ConsumerError("ZooKeeper does not answer")
        self.topics.append(topics.text)
        return True


class Flow:
    def __init__(self, source: Source) -> None:
        self.source, self.name = source, source.name
        self.target = SimpleNamespace(dialect=dialect("0.8.2"))
        self.changes: list[tuple[Any, Any, Any]] = []
        self.quarantine: Any = SimpleNamespace()

    def change(self, *change: Any) -> None:
        self.changes.append(change)


class AtOnce:
    """A task group whose tasks are done when they are spawned."""

    def spawn(self, name: str, fn: Callable[..., object], *args: object) -> Any:
        fn(*args)
        return SimpleNamespace(join=lambda: None)


class Running:
    """Reloads of two sources.  then: what is read at the next reload."""

    def __init__(self, configuration: Configuration, refuses: str = "") -> None:
        self.sources = [Source(options, options.name == refuses) for options in configuration.sources]
        self.flows = [Flow(source) for source in self.sources]
        self.then: Configuration | OptionError = configuration
        self.reloads = Reloads(
            configuration,
            self._read,
            sources=self.sources,  # type: ignore[arg-type]
            flows=self.flows,  # type: ignore[arg-type]
            tasks=AtOnce(),  # type: ignore[arg-type]
            changed=lambda: None,
        )

    def _read(self) -> Configuration:
        if isinstance(self.then, OptionError):
            raise self.then
        return self.then


def test_a_step_that_is_refused_keeps_no_other_source_from_its_own(configured, caplog):
    caplog.set_level(logging.INFO)
    running = Running(configured())
    running.then = configured(
        ("name: a,", "name: a, offsets.storage: kafka, dual.commit.enabled: false,"),
        ("name: b,", "name: b, offsets.storage: kafka,"),
    )
    assert running.reloads.reload().problem == "source a: zookeeper -> kafka in one bounce is refused"
    assert [source.mode for source in running.sources] == ["zookeeper", "dual"]
    assert running.reloads.last is not None
    assert running.reloads.last.problem == "source a: zookeeper -> kafka in one bounce is refused"


def test_a_file_that_is_wrong_changes_nothing_and_says_so(configured, caplog):
    running = Running(configured())
    running.then = OptionError(["m.yaml: option 'offset.storage' is unknown"])
    said = "the configuration is left as it is: m.yaml: option 'offset.storage' is unknown"
    assert running.reloads.reload().problem == said
    (line,) = caplog.records
    assert (line.getMessage(), line.event) == (said, "reload-failed")
    assert [flow.changes for flow in running.flows] == [[], []]
    assert [source.topics for source in running.sources] == [[], []]


def test_topics_are_subscribed_to_once_they_differ_and_rules_come_first(configured, caplog):
    caplog.set_level(logging.INFO)
    running = Running(configured(), refuses="b")
    running.then = configured(("a.*", "b.*"))
    assert running.reloads.reload().problem == "source b: ZooKeeper does not answer"
    assert running.sources[0].topics == ["b.*"]
    assert [change[1].whitelist for flow in running.flows for change in flow.changes] == ["b.*", "b.*"]
    assert running.reloads.reload().problem == ""  # nothing differs any more
    assert caplog.records[-1].event == "reload-ok"
    assert caplog.records[-1].getMessage() == "configuration read again; nothing that may change has changed"


def test_policies_change_unless_they_need_what_waits_for_a_restart(configured, caplog):
    running = Running(configured())
    running.then = configured(("'a.*'", "'a.*', oversize.policy: skip"))
    assert running.reloads.reload().problem == ""
    assert {flow.quarantine.policies("abc").oversize for flow in running.flows} == {"skip"}
    running.then = configured(("'a.*'", "'a.*', oversize.policy: dead-letter, dead.letter.topic: dead"))
    assert running.reloads.reload().problem.endswith("oversize.policy: dead-letter needs 'dead.letter.topic'")
    assert running.reloads.configuration.mirror.oversize_policy == "skip"


def test_what_waits_for_a_restart_stays_named_until_it_is_so(configured, caplog):
    caplog.set_level(logging.INFO)
    running = Running(configured())
    waits = ("target: option 'metadata.broker.list' has changed; it takes effect after a restart only",)
    running.then = configured(("k:9092", "l:9092"), ("'a.*'", "'b.*'"))
    assert (running.reloads.reload().problem, running.reloads.last.pending) == ("", waits)
    said = "configuration read again; changed: mirror: whitelist; 1 change of the configuration waits for a restart"
    assert caplog.records[-1].getMessage() == said
    running.then = OptionError(["line 3"])
    assert running.reloads.reload().pending == waits  # the next start still finds another file than runs
    running.then = configured(("'a.*'", "'b.*'"))
    assert running.reloads.reload().pending == ()


def test_the_code_of_a_handler_is_loaded_again_where_its_file_has_changed(configured, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "reloadedhandler.py"
    module.write_text("def same(message):\n    return 1\n")
    try:
        handled = configured(("'a.*'", "'a.*', message.handler: 'reloadedhandler:same'"))
        running = Running(handled)
        assert running.reloads.handler is not None
        assert running.reloads.handler.function(None) == 1
        module.write_text("def same(message):\n    return 2 +\n")
        assert "the configuration is left as it is: message.handler" in running.reloads.reload().problem
        assert running.reloads.handler.function(None) == 1
        module.write_text("def same(message):\n    return 22\n")
        assert running.reloads.reload().problem == ""
        assert running.reloads.handler.function(None) == 22
        assert caplog.records[-1].getMessage() == "configuration read again; changed: the code of the handler"
        assert all(flow.changes[-1][2] is not None for flow in running.flows)
    finally:
        sys.modules.pop("reloadedhandler", None)
