"""Plans as files, and reports: what is said is what is so, and the way back is in it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupadmin.migrate.journal import Declined, Standing
from groupadmin.migrate.planfile import PlanUnclear, plan_text, read_plan
from groupadmin.migrate.report import Reported, as_json, as_markdown, undo_commands
from groupadmin.migrate.rules.checks import Check
from groupadmin.migrate.rules.groupplan import Plan, Policies, make_plan, plan_group
from groupadmin.migrate.rules.states import StepName
from groupadmin.snapshot.model import Foreign, GroupSnapshot, KafkaRow, TopicRow, ZkRow
from kafkawire.model import BrokerPartition, TopicPartition
from zkconsumer.offsets.migrationmarker import Phase
from zkconsumer.offsets.store import NONE, Unknown

A, B, C = (TopicPartition("t", n) for n in (0, 1, 2))
FOREIGN = Foreign("offset", "/consumers/g/offsets/u", "0:1|2", "the one-node form", "u")


def group(name="g", **more) -> GroupSnapshot:
    facts = {
        "zookeeper": {A: ZkRow(50, 3, 10, 9, 1000), B: ZkRow(Unknown("holds 'null'"), 0, 11, 11, 1000)},
        "kafka": {A: KafkaRow(NONE), B: KafkaRow(7, "by hand", 99), C: KafkaRow(NONE)},
        "bounds": {A: (10, 100), C: (0, 5)},
        "topics": {"t": TopicRow((0, 1, 2), 1, 1)},
        "foreign": (FOREIGN,),
        "members": ("m",),
        "read_at_ms": 5000,
    }
    return GroupSnapshot(name, **(facts | more))


def planned(*snapshots: GroupSnapshot, policies=Policies("max", "clamp", "trust")) -> Plan:  # noqa: B008
    plans = [plan_group(each, policies) for each in snapshots]
    return make_plan(plans, policies, "to-kafka", cluster="zk1:2181/kafka", at_ms=1_700_000_000_000)


def test_a_plan_is_read_back_as_it_was():
    plan = planned(group(), group("h"))
    assert read_plan(plan_text(plan)) == plan


def test_partitions_of_0_7_are_read_back_too():
    tp = TopicPartition("t", BrokerPartition(1, 0))
    snapshot = group(
        zookeeper={tp: ZkRow(5, 1, 1, 1, 1)}, kafka={tp: KafkaRow(NONE)}, topics={"t": TopicRow((tp.partition,))}
    )
    assert read_plan(plan_text(planned(snapshot))).groups[0].rows[0].tp == tp


@given(
    st.dictionaries(
        st.sampled_from([A, B, C]), st.tuples(st.one_of(st.just(NONE), st.integers(0, 200)), st.text()), min_size=1
    )
)
def test_any_plan_is_read_back(rows):
    snapshot = group(zookeeper={tp: ZkRow(at, 1, 2, 3, 4) for tp, (at, _) in rows.items() if at is not NONE},
                     kafka={tp: KafkaRow(at, text) for tp, (at, text) in rows.items()})  # fmt: skip
    plan = planned(snapshot)
    assert read_plan(plan_text(plan)) == plan


def change(text: str, **partition: object) -> str:
    document = json.loads(text)
    document["groups"][0]["partitions"][0] |= partition
    return json.dumps(document)


@pytest.mark.parametrize("partition", [{"target": 51}, {"open": True}, {"action": "equal"}, {"partition": "5"}])
def test_a_plan_that_was_changed_by_hand_is_refused(partition):
    with pytest.raises(PlanUnclear, match="changed after it was made"):
        read_plan(change(plan_text(planned(group())), **partition))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"format": "zkconsumer.migration/1"}', '{"format": "zkconsumer.migration.plan/1"}']
)
def test_what_is_no_plan_is_refused(text):
    with pytest.raises(PlanUnclear):
        read_plan(text)


@pytest.mark.parametrize("partition", [{"kafka": None}, {"zookeeper": {"offset": -1}}, {"partition": "x"}])
def test_a_plan_that_makes_no_sense_is_refused_and_minus_one_is_no_position(partition):
    with pytest.raises(PlanUnclear):
        read_plan(change(plan_text(planned(group())), **partition))


# reports --------------------------------------------------------------------------------------------------------------

COPIED = Standing(
    Phase.COPIED, 3000, begun=StepName.VERIFY, wrote=1,
    past=((Phase.PLANNED, 1000), (Phase.CHECKED, 2000), (Phase.COPIED, 3500)),
    declined=Declined("g", StepName.VERIFY, "stale plan", "t/0 moved"),
)  # fmt: skip


def reported(phase: Phase | None = Phase.COPIED, **more) -> Reported:
    standings = {} if phase is None else {"g": replace(COPIED, phase=phase)}
    facts = {
        "undo_files": {"g": "undo g.json"},
        "plan_file": "plan 1.json",
        "connect": ("-z", "zk1:2181/kafka"),
        "checks": [Check("brokers", "pass", "fine"), Check("modes", "fail", "a|b", "go", "g")],
    }
    return Reported(planned(group(), group("h")), standings, **(facts | more))


def test_json_has_counts_phases_lag_and_the_way_back():
    said = json.loads(as_json(reported()))
    assert said["format"] == "zkconsumer.migration.report/1"
    assert said["partial"] is False
    assert said["counts"]["phases"] == {"copied": 1, "planned": 1}
    assert said["counts"]["actions"] == {"copy": 2, "unreadable": 2, "skip-no-offset": 2}
    assert said["counts"]["open"] == 2
    assert [each["id"] for each in said["checks"]] == ["brokers", "modes"]
    first, second = said["groups"]
    assert first["lag"] == {"zookeeper": 50, "kafka": None, "planned": 50}
    assert (first["phase"], first["interrupted"], first["declined"]) == ("copied", "verify", "t/0 moved")
    assert first["past"][-1] == {"phase": "copied", "at_ms": 3500}
    assert first["partitions"][1]["zookeeper"]["offset"] == {"unreadable": "holds 'null'"}
    assert first["partitions"][2]["kafka"]["offset"] is None
    assert first["undo"][0] == "zkconsumer migrate rollback -z zk1:2181/kafka --plan 'plan 1.json' --group g --execute"
    assert second["phase"] == "planned"


@pytest.mark.parametrize(
    ("phase", "first", "rolls_back"),
    [
        (None, "# nothing was written", False),
        (Phase.CHECKED, "# nothing was written", False),
        (Phase.COPIED, "zkconsumer migrate rollback", True),
        (Phase.DUAL, "zkconsumer migrate rollback", True),
        (Phase.CUTOVER, "# live: bounce the members", True),
        (Phase.DONE, "# live: bounce the members", True),
        (Phase.DUAL_BACK, "zkconsumer migrate rollback", True),
        (Phase.VERIFIED_BACK, "zkconsumer migrate rollback", True),
        (Phase.ROLLED_BACK, "# nothing is left", False),
    ],
)
def test_the_way_back_from_each_phase(phase, first, rolls_back):
    lines = undo_commands(reported(phase), reported(phase).plan.groups[0])
    assert lines[0].startswith(first)
    assert any(line.startswith("zkconsumer migrate rollback") for line in lines) == rolls_back


def test_the_undo_file_is_named_where_there_is_one():
    lines = undo_commands(reported(), reported().plan.groups[0])
    assert lines[1].endswith("zkconsumer offsets import -z zk1:2181/kafka 'undo g.json' --group g --execute")
    assert len(undo_commands(reported(undo_files={}), reported().plan.groups[0])) == 1


def test_a_name_with_a_line_break_begins_no_command_of_its_own():
    plan = planned(group("g\nrm -rf x"))
    bad = Reported(plan, {"g\nrm -rf x": COPIED}, undo_files={"g\nrm -rf x": "u"})
    assert all(line.startswith("#") for line in undo_commands(bad, plan.groups[0]))
    assert "\nrm -rf" not in as_markdown(bad)


def test_markdown_for_people():
    text = as_markdown(reported(partial=True))
    assert "of zk1:2181/kafka: 2 groups, 6 partitions, 2 open." in text
    assert "**Not everything could be read" in text
    assert "| fail | modes | g | a\\|b | go |" in text
    assert text.index("| fail |") < text.index("| pass |")
    assert "## g: copied" in text
    assert "| t | 0 | 50 | - | 10 | 100 | copy | 50 |  |" in text
    assert "| t | 1 | unreadable | 7 | - | - | unreadable (open) | - | ZooKeeper: holds 'null' |" in text
    assert "- verify was begun and did not end: repeat it" in text
    assert "- refused: t/0 moved" in text
    assert "- took 2.5 s" in text
    assert "- lag when planned: zookeeper 50, planned 50" in text
    assert "| offset | /consumers/g/offsets/u | 0:1\\|2 | the one-node form |" in text
    assert "```sh\nzkconsumer migrate rollback" in text


def test_every_table_row_has_as_many_cells_as_its_head():
    cells = 0
    for line in as_markdown(reported()).splitlines():
        if line.startswith("|"):
            now = line.replace("\\|", "").count("|")
            assert cells in (0, now), line
            cells = now
        else:
            cells = 0
