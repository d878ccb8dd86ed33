"""A group's way from ZooKeeper to Kafka and back: which steps are refused, by name, and what a member shows."""

from __future__ import annotations

import json
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkconsumer.offsets.modes import (
    MODES,
    MemberMode,
    Mode,
    ModeRefused,
    ModeUnreadable,
    StoreCommit,
    behind,
    check_beside,
    check_step,
    mode_of,
    mode_path,
    mode_text,
    read_mode,
)
from zkconsumer.offsets.store import NONE, Committed, Unknown

FORBIDDEN = {("zookeeper", "kafka"), ("kafka", "zookeeper")}
GARBAGE = Unknown("it holds 'x'")


@pytest.mark.parametrize(
    ("storage", "dual", "mode"),
    [
        ("zookeeper", None, "zookeeper"),
        ("zookeeper", True, "zookeeper"),  # the JVM ignores dual.commit.enabled there
        ("zookeeper", False, "zookeeper"),
        ("kafka", None, "dual"),
        ("kafka", True, "dual"),
        ("kafka", False, "kafka"),
    ],
)
def test_the_mode_of_the_jvm_s_two_options(storage: str, dual: bool | None, mode: Mode):
    assert mode_of(storage, dual) == mode


def test_another_storage_is_refused():
    with pytest.raises(ModeRefused, match=r"offsets\.storage=disk: it is zookeeper or kafka"):
        mode_of("disk", None)


@pytest.mark.parametrize(("before", "after"), list(product(MODES, MODES)))
def test_one_step_at_a_time(before: Mode, after: Mode):
    if (before, after) not in FORBIDDEN:
        check_step(before, after)
        return
    with pytest.raises(ModeRefused, match=f"{before} -> {after} in one bounce is refused: .*go to dual first"):
        check_step(before, after)


@pytest.mark.parametrize(("mode", "other"), list(product(MODES, MODES)))
def test_zookeeper_alone_and_kafka_alone_do_not_run_beside_each_other(mode: Mode, other: Mode):
    others: dict[str, Mode] = {"g_a": "dual", "g_b": other}
    if {mode, other} != {"zookeeper", "kafka"}:
        check_beside(mode, others)
        return
    with pytest.raises(ModeRefused, match=f"keeps offsets in {mode} alone beside g_b, which keeps them in {other}"):
        check_beside(mode, others)


@pytest.mark.parametrize(
    ("mode", "kafka", "zookeeper", "says"),
    [
        ("kafka", NONE, 100, "ZooKeeper has 100 and Kafka nothing"),
        ("kafka", 99, 100, "ZooKeeper has 100 and Kafka 99"),
        ("kafka", 100, 100, None),
        ("kafka", 101, 100, None),
        ("kafka", 100, NONE, None),
        ("kafka", NONE, NONE, None),
        ("kafka", NONE, 0, "ZooKeeper has 0 and Kafka nothing"),
        ("kafka", GARBAGE, 100, "Kafka cannot be read: it holds 'x'"),
        ("kafka", 100, GARBAGE, "ZooKeeper cannot be read"),
        ("kafka", GARBAGE, NONE, "Kafka cannot be read"),
        ("zookeeper", 100, NONE, "Kafka has 100 and ZooKeeper nothing"),
        ("zookeeper", 101, 100, "Kafka has 101 and ZooKeeper 100"),
        ("zookeeper", 100, 101, None),
        ("zookeeper", NONE, 5, None),
        ("dual", NONE, 100, None),
        ("dual", 5, 100, None),
    ],
)
def test_the_store_that_is_to_count_alone_must_hold_what_the_other_has(
    mode: Mode, kafka: Committed, zookeeper: Committed, says: str | None
):
    found = behind(mode, kafka, zookeeper)
    assert found is None if says is None else says in str(found)


commits = st.none() | st.builds(StoreCommit, st.integers(0, 2**62), st.integers(0, 10**6))


@given(st.builds(MemberMode, st.sampled_from(MODES), commits, commits))
def test_what_a_member_shows_is_read_as_it_was_written(member: MemberMode):
    text = mode_text(member)
    assert read_mode(text) == read_mode(text.encode()) == member


def test_the_node_as_it_is():
    member = MemberMode("dual", StoreCommit(1500000000000, 3), StoreCommit(1500000000001, 4))
    assert mode_text(member) == (
        '{"version":"1","mode":"dual",'
        '"zookeeper":{"committed_at_ms":"1500000000000","partitions":"3"},'
        '"kafka":{"committed_at_ms":"1500000000001","partitions":"4"}}'
    )
    assert mode_text(MemberMode("zookeeper")) == '{"version":"1","mode":"zookeeper"}'
    assert mode_path("g", "g_host-1-2") == "/consumers/g/modes/g_host-1-2"
    later = json.loads(mode_text(member)) | {"since": "then"}
    assert read_mode(json.dumps(later)) == member


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"dual",
        b"\xff",
        b"[]",
        b"[" * 5000,
        b'{"mode":"dual"}',
        b'{"version":"2","mode":"dual"}',
        b'{"version":"1","mode":"both"}',
        b'{"version":"1","mode":["dual"]}',
        b'{"version":"1","mode":"dual","kafka":5}',
        b'{"version":"1","mode":"dual","kafka":{"committed_at_ms":"-5","partitions":"1"}}',
        b'{"version":"1","mode":"dual","kafka":{"committed_at_ms":5,"partitions":1}}',
        b'{"version":"1","mode":"dual","kafka":{"committed_at_ms":"5","partitions":"%s"}}' % (b"9" * 5000),
    ],
)
def test_a_node_nobody_of_ours_wrote_is_an_error_that_says_where(text: bytes):
    with pytest.raises(ModeUnreadable, match="/consumers/g/modes/x"):
        read_mode(text, "/consumers/g/modes/x")
