"""Options of groups that follow: which they are, their names in the target, and the stores that are written."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from groundwork.options import OptionError
from groundwork.tasks import TaskGroup
from mirrormaker.config import Configuration, from_yaml
from mirrormaker.offsetmap.maps import OffsetMaps
from mirrormaker.offsetmap.recorder import MapRefused
from mirrormaker.selection import groups_filter, target_group
from mirrormaker.target import Target


def configured(folder: Path, zookeeper: str = "", version: str = "0.8.2.2", **mirror: Any) -> Configuration:
    target = {"metadata.broker.list": "k:9092", "target.version": version}
    file = folder / "m.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "sources": [{"name": "dc1", "zookeeper.connect": "zk:2181", "group.id": "mirror"}],
                "target": target | ({"target.zookeeper.connect": zookeeper} if zookeeper else {}),
                "mirror": {"whitelist": "orders", "groups": "billing,reports-.*", **mirror},
            }
        )
    )
    return from_yaml(file)


@pytest.mark.parametrize(
    ("zookeeper", "store", "written"),
    [
        ("", "", ("kafka",)),
        ("zk2:2181", "", ("zookeeper",)),
        ("zk2:2181", "kafka", ("kafka",)),
        ("zk2:2181", "both", ("kafka", "zookeeper")),
    ],
)
def test_the_store_is_zookeepers_where_the_target_has_one_unless_it_is_named(
    tmp_path: Path, zookeeper: str, store: str, written: tuple[str, ...]
) -> None:
    found = configured(tmp_path, zookeeper, **({"groups.store": store} if store else {}))
    assert found.mirror.group_stores(found.target) == written


@pytest.mark.parametrize(
    ("version", "mirror", "why"),
    [
        ("0.8.2.2", {"groups.store": "both"}, "groups.store both needs 'target.zookeeper.connect'"),
        ("0.8.0", {}, "brokers of target.version 0.8.0 keep no offsets"),
        ("0.8.2.2", {"groups": "*"}, r"option 'groups' is '\*'"),
        ("0.8.2.2", {"groups.rename": "a:b,c:b"}, "two cannot share their offsets"),
        ("0.8.2.2", {"groups.rename": {"a": "b/c"}}, "without a slash"),
    ],
)
def test_options_that_cannot_work_are_refused(tmp_path: Path, version: str, mirror: dict[str, Any], why: str) -> None:
    with pytest.raises(OptionError, match=why):
        configured(tmp_path, version=version, **mirror)


def test_groups_are_named_by_an_expression_and_get_a_prefix_or_another_name() -> None:
    selects = groups_filter("billing,reports-.*")
    assert [group for group in ("billing", "billing2", "reports-1", "reports") if selects(group)] == [
        "billing",
        "reports-1",
    ]
    assert not groups_filter("")("billing")
    assert [target_group(group, {"a": "b"}, "dc1.") for group in ("a", "c")] == ["b", "dc1.c"]


def test_without_an_offset_map_no_group_can_follow_and_the_start_is_refused(tmp_path: Path) -> None:
    found = configured(tmp_path)
    target = Target(found.target, TaskGroup(), lambda topic: False)
    maps = OffsetMaps(target, found.mirror, TaskGroup(), sources=found.sources, state_folder="")
    with pytest.raises(MapRefused, match=r"mirror\.groups needs an offset map: give offset\.map\.folder"):
        maps.check()
    kept = OffsetMaps(target, found.mirror, TaskGroup(), sources=found.sources, state_folder=str(tmp_path))
    kept.check()
    one = kept.reader(SimpleNamespace(name="dc1"), target.client(target.links()))  # type: ignore[arg-type]
    assert not one.read().periods
