"""Pauses and throttles of an operator, in memory and in the file that keeps them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from kafkawire.model import BrokerPartition, TopicPartition
from mirrormaker.control.keptfile import KeptFile, KeptFileUnreadable, KeptFileWrong
from mirrormaker.limits import Limits, Pause, Throttle, bytes_text

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def pause(topic: str = "t", partition: str = "", kept: bool = False) -> Pause:
    return Pause(source="dc1", topic=topic, partition=partition, since_ms=int(time.time() * 1000), kept=kept)


def paused(limits: Limits, *tps: TopicPartition) -> list[bool]:
    return [limits.pause_of("dc1", tp) is not None for tp in tps]


def test_the_last_order_counts_and_a_partition_may_be_an_exception() -> None:
    limits = Limits()
    limits.set_pause(pause())
    assert paused(limits, T0, T1) == [True, True]
    assert limits.end_pause("dc1", "t", "1")
    assert paused(limits, T0, T1) == [True, False]
    assert not limits.end_pause("dc1", "t", "1") or paused(limits, T1) == [False]
    limits.set_pause(pause())
    assert paused(limits, T0, T1) == [True, True]
    assert limits.end_pause("dc1", "t")
    assert paused(limits, T0, T1) == [False, False]
    assert list(limits) == []


def test_a_partition_alone_is_paused_and_resumed() -> None:
    limits = Limits()
    limits.set_pause(pause(partition="1"))
    assert paused(limits, T0, T1) == [False, True]
    assert limits.end_pause("dc1", "t", "1")
    assert not limits.end_pause("dc1", "t", "1")
    assert list(limits) == []


def test_sources_are_apart() -> None:
    limits = Limits()
    limits.set_pause(pause())
    assert limits.pause_of("dc2", T0) is None
    assert not limits.end_pause("dc2", "t")


def test_reasons_say_since_when_and_whether_they_are_kept() -> None:
    clock = time.strftime("%H:%M")
    assert pause().reason in (f"paused by operator since {clock}", f"paused by operator since {time.strftime('%H:%M')}")
    old = Pause(source="dc1", topic="t", since_ms=86_400_000 * 365, kept=True)
    assert old.reason.startswith("paused by operator since 1971-01-01 ")
    assert old.reason.endswith(", kept over restarts")
    throttle = Throttle(source="dc1", bytes_per_s=1e6, messages_per_s=500, since_ms=0)
    assert throttle.reason.startswith("throttled to 1 MB/s and 500 messages/s, the whole source, by operator since ")
    assert [bytes_text(size) for size in (999, 1500, 2.5e6, 3e9)] == ["999 B", "1.5 kB", "2.5 MB", "3 GB"]


def test_partitions_of_07_are_partitions() -> None:
    assert pause(partition="1-0").what == TopicPartition("t", BrokerPartition(1, 0))


# ---- the file --------------------------------------------------------------------------------------------------------


GROUPS = {"dc1": "mirror", "dc2": "mirror-2"}


def test_only_what_is_kept_is_written_and_it_comes_back(tmp_path: Path) -> None:
    kept = [pause(kept=True), Throttle(source="dc2", topic="u", bytes_per_s=5e5, since_ms=7, kept=True)]
    KeptFile(tmp_path, GROUPS).write([pause("other"), *kept])
    assert KeptFile(tmp_path, GROUPS).read() == kept
    assert [path.name for path in tmp_path.iterdir()] == ["limits.json"]


def test_without_a_file_nothing_is_kept_and_none_is_made_for_nothing(tmp_path: Path) -> None:
    KeptFile(tmp_path, GROUPS).write([pause()])
    assert list(tmp_path.iterdir()) == []
    assert KeptFile(tmp_path, GROUPS).read() == []


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"version": 1, "groups": {}, "pauses": [{"source": 3}], "throttles": []}',
     '{"version": 1, "groups": {}, "pauses": [], "throttles": [{"source": "dc1", "bytes_per_s": -1}]}'],
)  # fmt: skip
def test_a_damaged_file_is_refused_with_what_helps(tmp_path: Path, text: str) -> None:
    (tmp_path / "limits.json").write_text(text)
    with pytest.raises(KeptFileWrong, match=r"is damaged .* move it away"):
        KeptFile(tmp_path, GROUPS).read()


def test_the_file_of_another_mirror_or_version_is_refused(tmp_path: Path) -> None:
    KeptFile(tmp_path, GROUPS).write([pause(kept=True)])
    with pytest.raises(KeptFileWrong, match=r"is of another mirror \(groups mirror of dc1, mirror-2 of dc2"):
        KeptFile(tmp_path, {"dc1": "else"}).read()
    assert KeptFile(tmp_path, {"dc1": "mirror"}).read()  # one source less
    found = json.loads((tmp_path / "limits.json").read_text())
    (tmp_path / "limits.json").write_text(json.dumps(found | {"version": 2}))
    with pytest.raises(KeptFileWrong, match="has version 2"):
        KeptFile(tmp_path, GROUPS).read()


def test_what_cannot_be_read_or_written_says_why(tmp_path: Path) -> None:
    (tmp_path / "limits.json").mkdir()
    with pytest.raises(KeptFileUnreadable, match="cannot be read: Is a directory"):
        KeptFile(tmp_path, GROUPS).read()
    with pytest.raises(KeptFileUnreadable, match="cannot be written: No such file"):
        KeptFile(tmp_path / "none", GROUPS).write([pause(kept=True)])
