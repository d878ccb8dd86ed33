"""`mirrormaker diff`: what counts as a difference, by table; the command against two fakes of 0.11."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import NoAuthError, NoNodeError

from mirrormaker.commands.diff import run_diff
from mirrormaker.commands.diffflags import DiffFlags
from mirrormaker.commands.diffgroups import merged, offsets_in_zookeeper
from mirrormaker.differences import Settings, Topic, Wanted, group_rows, summary, topic_rows
from tests.cases import each
from tests.fakes.checked import Cluster, configured
from zkconsumer.filters import Whitelist

WEEK = {"retention.ms": "604800000", "cleanup.policy": "delete"}
ALIKE = Wanted(partitions=4, replicas=2)


def results(here: Topic, there: Topic | None, wanted: Wanted = ALIKE) -> dict[str, str]:
    return {row.what: row.result for row in topic_rows("dc1", "t", "t", here, there, wanted)}


def told(**own: str) -> Settings:
    """Settings as brokers of 0.11 tell them, with the others by default."""
    named = {name.replace("_", "."): value for name, value in own.items()}
    return Settings(named, {name: value for name, value in WEEK.items() if name not in named})


def kept(**own: str) -> Settings:
    """Settings as ZooKeeper has them."""
    return Settings({name.replace("_", "."): value for name, value in own.items()})


@each(("here", "there", "made", "found"), [
    (Topic(4, 2), None, (4, 2), {"topic": "missing"}),
    (Topic(4, 2), Topic(4, 2), (4, 2), {"partitions": "same", "replication": "same"}),
    (Topic(4, 3), Topic(2, 2), (4, 2), {"partitions": "differs", "replication": "expected"}),
    (Topic(4, 2), Topic(6, 1), (4, 2), {"partitions": "differs", "replication": "differs"}),
    (Topic(2), Topic(4, 2), (4, 2), {"partitions": "expected"}),  # broker.partitions of 0.7
    (Topic(2), Topic(1), (None, 1), {"partitions": "expected"}),  # into 0.7
])  # fmt: skip
def test_counts_are_compared_with_what_the_mirror_would_make(
    here: Topic, there: Topic | None, made: tuple[int | None, int], found: dict[str, str]
) -> None:
    assert results(here, there, Wanted(partitions=made[0], replicas=made[1], settings=False)) == found


@each(("here", "there", "found"), [
    (told(retention_ms="5"), told(retention_ms="5"), {"retention.ms": "same"}),
    (told(retention_ms="604800000"), told(), {"retention.ms": "same"}),  # set here, and the default there
    (told(retention_ms="5"), told(), {"retention.ms": "differs"}),
    (told(), told(retention_ms="5"), {"retention.ms": "differs"}),
    (kept(retention_ms="604800000"), told(), {"retention.ms": "same"}),
    (kept(), told(retention_ms="5"), {"retention.ms": "differs"}),
    (kept(retention_ms="604800000"), kept(), {"retention.ms": "differs"}),  # its brokers' default is not known
    (told(cleanup_policy="compact,delete"), told(cleanup_policy="delete, compact"), {"cleanup.policy": "same"}),
    (kept(old_setting="1"), told(), {"old.setting": "unsupported"}),
    (told(leader_replication_throttled_replicas="0:1"), told(), {}),  # it names brokers
    (told(), None, {"settings": "unknown"}),
    (None, told(), {"settings": "unknown"}),
])  # fmt: skip
def test_settings_differ_where_the_values_that_hold_differ_and_what_is_not_told_is_unknown(
    here: Settings | None, there: Settings | None, found: dict[str, str]
) -> None:
    rows = results(Topic(4, 2, here), Topic(4, 2, there))
    assert {what: result for what, result in rows.items() if what not in ("partitions", "replication")} == found


@each(("here", "there", "result"), [
    (told(retention_ms="5"), told(retention_ms="9"), "expected"),
    (told(retention_ms="5"), told(retention_ms="5"), "differs"),
    (told(), told(), "differs"),
    (told(retention_ms="9"), told(retention_ms="9"), "same"),
    (kept(), kept(retention_ms="9"), "expected"),
])  # fmt: skip
def test_a_setting_with_a_value_of_its_own_is_compared_with_that_value(
    here: Settings, there: Settings, result: str
) -> None:
    fixed = Wanted(partitions=4, replicas=2, fixed={"retention.ms": "9"})
    assert results(Topic(4, 2, here), Topic(4, 2, there), fixed)["retention.ms"] == result


def test_defaults_are_compared_on_request_where_both_clusters_tell_them() -> None:
    here, there = Settings({}, {"retention.ms": "1", "a.b": "2"}), Settings({}, {"retention.ms": "3", "a.b": "2"})
    asked = Wanted(partitions=4, replicas=2, defaults=True)
    found = results(Topic(4, 2, here), Topic(4, 2, there), asked)
    assert (found["retention.ms"], found["a.b"]) == ("differs", "same")
    assert "retention.ms" not in results(Topic(4, 2, Settings({})), Topic(4, 2, there), asked)


SOME, ALL, NONE = frozenset("01"), frozenset("0123"), frozenset[str]()


@each(("here", "there", "result"), [
    (ALL, ALL, "same"),
    (ALL, NONE, "missing"),
    (ALL, SOME, "differs"),
    (SOME, ALL, "expected"),  # keys choose the partition
    (NONE, SOME, "only at target"),
    (None, ALL, "unknown"),
    (ALL, None, "unknown"),
])  # fmt: skip
def test_a_group_needs_offsets_at_the_target_of_as_many_partitions_as_it_has_at_the_source(
    here: frozenset[str] | None, there: frozenset[str] | None, result: str
) -> None:
    rows = group_rows("dc1", {"t": "dc1.t", "u": "dc1.u"}, {"dc1.t": 4}, {"g": {"t": here}}, {"g": {"dc1.t": there}})
    assert [(row.topic, row.target_topic, row.what, row.result) for row in rows] == [
        ("t", "dc1.t", "offsets of group g", result)
    ]


class Zk:
    """Children of nodes by path; None: the node is closed to us."""

    def __init__(self, nodes: dict[str, list[str] | None]) -> None:
        self.nodes = nodes
        self.path = ""

    def get_children_async(self, path: str) -> Zk:
        asked = Zk(self.nodes)
        asked.path = path
        return asked

    def get(self) -> list[str]:
        if self.path not in self.nodes:
            raise NoNodeError
        found = self.nodes[self.path]
        if found is None:
            raise NoAuthError
        return found


def test_offsets_in_a_folder_that_is_closed_to_us_are_unknown_and_not_missing() -> None:
    nodes: dict[str, list[str] | None] = {
        "/consumers": ["all", "part", "none", "other"],
        "/consumers/all/offsets": None,
        "/consumers/part/offsets": ["t", "u", "emptied", "elsewhere"],
        "/consumers/part/offsets/t": ["0", "1"],
        "/consumers/part/offsets/u": None,
        "/consumers/part/offsets/emptied": [],
    }
    found = offsets_in_zookeeper(Zk(nodes), lambda group: group != "other", ["t", "u", "emptied"])
    assert found == {
        "all": {"t": None, "u": None, "emptied": None},
        "part": {"t": frozenset("01"), "u": None},
    }
    in_kafka: dict[str, dict[str, frozenset[str] | None]] = {"part": {"t": frozenset("12"), "u": frozenset("0")}}
    assert merged([found, in_kafka])["part"] == {"t": frozenset("012"), "u": None}


def test_the_summary_counts_topics_and_names_differences_first() -> None:
    rows = list(topic_rows("dc1", "t", "t", Topic(4, 2, told()), Topic(3, 2, told(retention_ms="1")), ALIKE))
    assert summary(rows) == "1 topic compared: 2 differs, 1 same"
    assert summary([]) == "0 topics compared: nothing to compare"


# ---- the command -----------------------------------------------------------------------------------------------------


def diff(
    capsys: pytest.CaptureFixture[str], folder: Path, source: Cluster, target: Cluster, *, topics: str = "", **of: Any
) -> tuple[int, list[dict[str, Any]], str]:
    """Exit code, rows, and what the command says beside them."""
    asked = DiffFlags(
        only_topics=Whitelist(topics) if topics else None, groups=None, everything=False, defaults=False, output="json"
    )
    code = run_diff(configured(folder, source, target, **of), asked)
    said = capsys.readouterr()
    return code, json.loads(said.out), said.err


def test_a_diff_shows_missing_topics_partitions_and_settings_and_exits_with_4(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = {"absent": 1, "few": 3, "kept": 1, "same": 2}, {"few": 2, "kept": 1, "same": 2, "gone": 1}
    with Cluster(here) as source, Cluster(there) as target:
        source.own["kept"] = {"retention.ms": "5"}
        code, rows, said = diff(capsys, tmp_path, source, target)
        assert code == 4
        shown = [(row["topic"], row["what"], row["at_source"], row["at_target"], row["result"]) for row in rows]
        assert shown == [
            ("absent", "topic", "there", None, "missing"),
            ("few", "partitions", 3, 2, "differs"),
            ("kept", "retention.ms", "5", "604800000 (default)", "differs"),
            (None, "topic", None, "there", "only at target"),
        ]
        assert rows[-1]["target_topic"] == "gone"
        assert "4 topics compared: 2 differs, 1 missing, 1 only at target" in said
        code, rows, said = diff(capsys, tmp_path, source, target, topics="same")
        assert (code, rows) == (0, [])


def test_a_target_that_refuses_to_tell_its_settings_is_unknown_and_no_clean_exit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster({"t": 1}) as source, Cluster({"t": 1}) as target:
        target.refuses = 29
        code, [row], _ = diff(capsys, tmp_path, source, target)
        assert (code, row["what"], row["result"]) == (69, "settings", "unknown")


def test_a_source_that_does_not_answer_ends_with_69_and_nothing_is_said_to_be_only_at_the_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster({"t": 1}) as target:
        with Cluster({"t": 1}) as source:
            asked = configured(tmp_path, source, target)
        flags = DiffFlags(only_topics=None, groups=None, everything=True, defaults=False, output="json")
        assert run_diff(asked, flags) == 69
        said = capsys.readouterr()
        assert json.loads(said.out) == []
        assert "error: source dc1: " in said.err
