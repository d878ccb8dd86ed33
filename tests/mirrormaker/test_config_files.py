"""Files of a configuration that are read while somebody writes them: a reload takes all of a change, or none of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from mirrormaker import configfile, reload
from mirrormaker.config import Configuration, from_flags, from_yaml
from mirrormaker.configfile import read_settled
from mirrormaker.reload import ReloadRefused, Reloads

HALF = """
sources:
- {name: a, zookeeper.connect: 'zk1:2181/a', group.id: g}
target: {metadata.broker.list: 'k:9092', target.zookeeper.connect: 'zk3:2181'}
mirror:
  whitelist: 'a.*'
"""
REST = "  blacklist: 'a.secret'\n"  # without it the file is sound, and copies what it should not


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What happens during the waits of a reload, one each; time stands still, and passes with each wait."""
    at = [1000.0]
    acts: list[Callable[[], object]] = []

    def sleep(seconds: float) -> None:
        at[0] += seconds
        if acts:
            acts.pop(0)()

    monkeypatch.setattr(configfile, "time", SimpleNamespace(time=lambda: at[0], monotonic=lambda: at[0]))
    monkeypatch.setattr("mirrormaker.reload.sleep", sleep)
    return acts


def write(path: Path, text: str, age_s: float = 0.0) -> None:
    """Write in place; the time of the change is of the clock that stands still."""
    path.write_text(text)
    at = configfile.time.time() - age_s
    os.utime(path, (at, at))


def reloads(configuration: Configuration, read: Callable[[], Configuration]) -> Reloads:
    return Reloads(
        configuration,
        read,
        sources=[],
        flows=[],
        tasks=None,  # type: ignore[arg-type]
        changed=lambda: None,
    )


def test_a_file_that_is_being_written_in_place_is_read_whole(
    tmp_path: Path, sleeps: list[Callable[[], object]]
) -> None:
    file = tmp_path / "m.yaml"
    write(file, HALF + REST, age_s=60)
    running = reloads(from_yaml(file), lambda: from_yaml(file))
    write(file, HALF)
    sleeps += [lambda: None] * 3 + [lambda: write(file, HALF + REST.replace("secret", "private"))]
    assert running.prepare().reload.configuration.mirror.blacklist == "a.private"
    assert running.prepare().reload.changed == ("mirror: blacklist",)


def test_a_file_that_stands_still_is_read_at_once(tmp_path: Path, sleeps: list[Callable[[], object]]) -> None:
    file = tmp_path / "m.yaml"
    write(file, HALF, age_s=60)
    waits: list[float] = []
    assert read_settled([file], lambda: from_yaml(file), waits.append).mirror.whitelist == "a.*"
    assert waits == []


def test_a_file_that_is_cut_off_while_it_is_read_is_no_mistake_of_the_operator(
    tmp_path: Path, sleeps: list[Callable[[], object]]
) -> None:
    file = tmp_path / "m.yaml"
    write(file, HALF, age_s=60)
    running = reloads(from_yaml(file), lambda: (tries.pop(0)(), from_yaml(file))[1])
    tries: list[Callable[[], object]] = [lambda: write(file, HALF[:60]), lambda: None]
    sleeps += [lambda: write(file, HALF + REST)]
    assert running.prepare().reload.configuration.mirror.blacklist == "a.secret"


def test_a_file_that_is_written_without_end_is_refused_with_a_sentence(
    tmp_path: Path, sleeps: list[Callable[[], object]]
) -> None:
    file = tmp_path / "m.yaml"
    write(file, HALF, age_s=60)
    running = reloads(from_yaml(file), lambda: from_yaml(file))
    write(file, HALF)
    sleeps += [lambda n=n: write(file, HALF + f"# {n}\n") for n in range(1000)]  # type: ignore[misc]
    with pytest.raises(ReloadRefused, match=r"m\.yaml: changed again and again for 10 s; reload once it is written"):
        running.prepare()


def test_a_config_map_that_is_swapped_between_two_files_is_read_as_one(
    tmp_path: Path, sleeps: list[Callable[[], object]]
) -> None:
    """As kubelet does: files are links into ..data, which is a link that another one replaces."""
    swap(tmp_path, "old")
    consumer, producer = tmp_path / "consumer.properties", tmp_path / "producer.properties"
    for file in (consumer, producer):
        file.symlink_to(f"..data/{file.name}")
    swaps = [lambda: None, lambda: swap(tmp_path, "new")]

    def read() -> Configuration:
        """The files, the swap between them."""
        first = consumer.read_bytes()
        if swaps:
            swaps.pop(0)()
        between = tmp_path / "between.properties"
        between.write_bytes(first)
        return from_flags([between], producer, {"whitelist": "a"})

    read_from = (consumer, producer)
    found = read_settled(read_from, read, lambda seconds: None)
    assert pair(found) == ("old", "old")
    found = read_settled(read_from, read, reload.sleep)
    assert pair(found) == ("new", "new")


def swap(folder: Path, name: str) -> None:
    made = folder / f"..{name}"
    made.mkdir()
    write(made / "consumer.properties", f"zookeeper.connect=zk1:2181\ngroup.id={name}\n", age_s=60)
    write(made / "producer.properties", f"metadata.broker.list=k:9092\nclient.id={name}\n", age_s=60)
    (folder / "..data_tmp").symlink_to(made.name)
    (folder / "..data_tmp").replace(folder / "..data")


def pair(found: Configuration) -> tuple[str, str]:
    return found.sources[0].group_id, found.target.client_id


def test_a_handler_whose_file_is_being_written_is_loaded_whole(
    tmp_path: Path, sleeps: list[Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module, file = tmp_path / "halfhandler.py", tmp_path / "m.yaml"
    write(module, "def same(message):\n    return 1\n", age_s=60)
    write(file, HALF + "  message.handler: 'halfhandler:same'\n", age_s=60)
    running = reloads(from_yaml(file), lambda: from_yaml(file))
    write(module, "def same(message):\n    return 2\n")
    sleeps += [lambda: write(module, "def same(message):\n    return 2\n\n\ndef same(message):\n    return 3\n")]
    found = running.prepare().handler
    assert found is not None
    assert found.function(None) == 3
