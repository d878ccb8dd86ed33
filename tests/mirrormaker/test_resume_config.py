"""resume: target-end is refused by name where it cannot be, before anything is connected to."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from groundwork.options import OptionError
from mirrormaker.config import from_yaml

SOURCE = {"name": "dc1", "zookeeper.connect": "zk1:1", "group.id": "g"}
TARGET = {"metadata.broker.list": "b:9092", "target.zookeeper.connect": "zk2:1"}
MIRROR = {"whitelist": "t", "resume": "target-end", "offset.map.folder": "/tmp"}
SEVEN = {"version": "0.7.2"}


def problems(
    folder: Path, sources: list[dict[str, object]], target: dict[str, object], mirror: dict[str, object]
) -> str:
    file = folder / "m.yaml"
    file.write_text(yaml.safe_dump({"sources": sources, "target": target, "mirror": mirror}))
    try:
        from_yaml(file)
    except OptionError as refused:
        return "\n".join(refused.problems)
    return ""


def test_it_may_be(tmp_path: Path) -> None:
    assert problems(tmp_path, [SOURCE], TARGET, MIRROR) == ""
    two = [{**SOURCE, "name": f"dc{n}", "zookeeper.connect": f"zk{n}:1", "topic.prefix": f"dc{n}."} for n in (3, 4)]
    assert problems(tmp_path, two, TARGET, MIRROR) == ""


@pytest.mark.parametrize(
    ("sources", "target", "mirror", "sentence"),
    [
        (
            [SOURCE],
            TARGET,
            {"partitioning": "key"},
            "with mirror.partitioning key it cannot: leave it auto or identity",
        ),
        ([SOURCE], TARGET, {"message.handler": "json:loads"}, "with message.handler it cannot: set resume: committed"),
        (
            [SOURCE, {**SOURCE, "name": "dc2", "zookeeper.connect": "zk3:1"}],
            TARGET,
            {},
            "2 sources may write to one topic: give each a topic.prefix of its own, run a mirror for each, or set "
            "committed",
        ),
        (
            [SOURCE],
            TARGET,
            {"whitelist": "a|b|c", "topic.rename": {"a": "one", "b": "one", "x": "one"}},
            "target topic one is fed by dc1/a and dc1/b: their messages are merged; give each a name of its own",
        ),
        ([SOURCE], TARGET, {"resume": "end"}, "expected one of committed, target-end"),
        (
            [{**SOURCE, **SEVEN}],
            {"target.version": "0.7.2", "target.zookeeper.connect": "zk2:1"},
            {},
            "target.version 0.7.2 never says where it stored anything: set resume: committed",
        ),
    ],
)
def test_where_it_cannot_be_it_is_refused(
    tmp_path: Path,
    sources: list[dict[str, object]],
    target: dict[str, object],
    mirror: dict[str, object],
    sentence: str,
) -> None:
    assert sentence in problems(tmp_path, sources, target, {**MIRROR, **mirror})
