"""A configuration that is read again: what takes effect, and what is named and left."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from mirrormaker.config import ConfigError, Configuration, from_yaml
from mirrormaker.reload import reload, reload_into
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


def test_where_a_source_keeps_its_offsets_may_change(configured):
    todo = reload(configured(), configured(("name: a,", "name: a, offsets.storage: kafka,")))
    assert (todo.modes, todo.left) == ({"a": "dual", "b": "zookeeper"}, ())


def test_everything_else_is_named_without_its_value_and_left(configured):
    changed = configured(
        ("a.*", "b.*"),
        ("k:9092", "l:9092"),
        ("me:secret", "me:other"),
        ("name: a,", "name: c, offsets.storage: kafka,"),
    )
    todo = reload(configured(), changed)
    assert todo.modes == {"b": "zookeeper"}
    assert todo.left == (
        "mirror: option 'whitelist' has changed; it takes effect after a restart only",
        "source a is not there any more; it ends after a restart only",
        "source b: option 'zookeeper.auth' has changed; it takes effect after a restart only",
        "source c is new; it is mirrored after a restart only",
        "target: option 'metadata.broker.list' has changed; it takes effect after a restart only",
    )


class Source(SimpleNamespace):
    def switch_offsets(self, mode: Mode) -> bool:
        if mode == "kafka":
            raise ModeRefused("zookeeper -> kafka in one bounce is refused")
        before, self.mode = self.mode, mode
        return before != mode


def test_a_step_that_is_refused_keeps_no_other_source_from_its_own(configured, caplog):
    caplog.set_level(logging.INFO)
    sources = [Source(name="a", mode="zookeeper"), Source(name="b", mode="zookeeper")]
    read = configured(
        ("name: a,", "name: a, offsets.storage: kafka, dual.commit.enabled: false,"),
        ("name: b,", "name: b, offsets.storage: kafka,"),
    )
    reload_into(sources, configured(), lambda: read)
    assert [source.mode for source in sources] == ["zookeeper", "dual"]
    assert [r.getMessage() for r in caplog.records] == [
        "source a: zookeeper -> kafka in one bounce is refused",
        "configuration read again: 1 sources keep their offsets elsewhere now",
    ]


def test_a_file_that_is_wrong_changes_nothing(configured, caplog):
    def wrong() -> Configuration:
        raise ConfigError(["m.yaml: option 'offset.storage' is unknown"])

    sources = [Source(name="a", mode="dual")]
    reload_into(sources, configured(), wrong)
    assert sources[0].mode == "dual"
    (line,) = caplog.records
    assert line.getMessage() == "the configuration is left as it is: m.yaml: option 'offset.storage' is unknown"
