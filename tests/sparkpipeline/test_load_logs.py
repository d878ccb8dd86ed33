"""Whether a log is still the one that was loaded from, and how large its messages are.  A fake broker, no Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkawire.formats.v01 import messages
from kafkawire.model import TopicPartition
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.cluster.brokers import Brokers
from sparkpipeline.errors import OffsetOutOfRange, OptionRefused
from sparkpipeline.ledger.manifests import Plan
from sparkpipeline.load.facts import JobState
from sparkpipeline.load.loadcluster import sampled_averages
from sparkpipeline.load.loadplan import LoadPlan, LogMark, marks_in, marks_rows
from sparkpipeline.load.logmarks import another_log, check_logs, differs, marks_of, message_crc
from sparkpipeline.load.operations import init_plan
from sparkpipeline.ranges import OffsetRange
from tests.fakes.broker import FakeCluster
from zkconsumer.offsets.former import TopicCreation

A, B = TopicPartition("a", 0), TopicPartition("a", 1)
CAP = 1 << 20


def entries(*values: bytes, codec: int = 0) -> bytes:
    return messages.encode([(n, b"k", value, None) for n, value in enumerate(values)], codec)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster({"a": 2}, brokers=2) as running:
        yield running


@pytest.fixture
def brokers(cluster: FakeCluster) -> Iterator[Brokers]:
    access = ClusterAccess(tuple(cluster.bootstrap), "0.8.2", "test", 5000, 1, 10)
    with Brokers(access) as links:
        yield links


def test_the_same_log_is_known_by_its_message(cluster: FakeCluster, brokers: Brokers) -> None:
    cluster.append("a", 0, entries(b"one", b"two", b"three"))
    marks = marks_of(brokers, None, {A: 2, B: 0}, CAP)
    assert marks == {A: LogMark(1, message_crc(b"k", b"two")), B: LogMark()}
    check_logs(brokers, None, marks, [A, B], CAP)


def test_another_message_at_its_offset_is_another_log(cluster: FakeCluster, brokers: Brokers) -> None:
    cluster.append("a", 0, entries(b"one", b"two", b"three"))
    mark = LogMark(1, message_crc(b"k", b"of before"))
    with pytest.raises(OffsetOutOfRange) as raised:
        check_logs(brokers, None, {A: mark}, [A, B], CAP)
    said = str(raised.value)
    assert "the log holds another message at 1 than the one that was loaded" in said
    assert """sparkpipeline load init JOB --replace --from-json '{"a": {"0": -2}}'""" in said
    check_logs(brokers, None, {A: mark}, [B], CAP)  # the partition is not there: another error's matter


def test_a_message_that_is_gone_says_nothing(cluster: FakeCluster, brokers: Brokers) -> None:
    check_logs(brokers, None, {A: LogMark(7, 1)}, [A, B], CAP)
    assert marks_of(brokers, None, {A: 8}, CAP) == {A: LogMark()}


@pytest.mark.parametrize("codec", [0, 1])
def test_a_message_larger_than_the_first_fetch_is_read(cluster: FakeCluster, brokers: Brokers, codec: int) -> None:
    large = bytes(n * 7919 % 251 for n in range(100_000))
    cluster.append("a", 0, entries(b"small", large, codec=codec))
    assert marks_of(brokers, None, {A: 2}, CAP)[A].crc == message_crc(b"k", large)
    if not codec:
        assert marks_of(brokers, None, {A: 2}, 1 << 15) == {A: LogMark()}  # not within fetch.bytes.cap


def test_a_topic_that_was_created_again_is_another_log_whatever_its_messages() -> None:
    then, now = TopicCreation(5, 1000), TopicCreation(9, 2000)
    mark = LogMark(1, 77, then.czxid, then.ctime_ms)
    assert differs(A, mark, then, 77) == ""
    assert differs(A, mark, None, None) == ""
    assert "created at 1970-01-01T00:00:01.000Z when it was loaded, was created again at" in differs(A, mark, now, 77)
    assert differs(A, LogMark(1, 77), now, 77) == ""
    assert differs(A, LogMark(1, None), now, 77) == ""


def test_all_of_them_are_in_the_command_that_helps() -> None:
    said = str(another_log({A: "why", B: "why too"}))
    assert "why (and 1 more partitions)" in said
    assert """'{"a": {"0": -2, "1": -2}}'""" in said


def test_marks_are_kept_by_plans_and_manifests() -> None:
    marks = {A: LogMark(1, 77, 5, 1000), B: LogMark(czxid=5, ctime_ms=1000)}
    assert marks_in(marks_rows(marks)) == marks
    plan = LoadPlan(ranges=(), tasks=(), positions={A: 2}, heads={A: 2}, marks=marks)
    assert LoadPlan.of(Plan(1, "load", 0, plan.work())).marks == marks
    work = plan.work()
    del work["logs"]
    assert LoadPlan.of(Plan(1, "load", 0, work)).marks == {}


def test_the_same_number_in_another_log_is_taken_over_and_not_without_a_change() -> None:
    standing = JobState(
        positions={A: 2, B: 9}, passed={A: 1, B: 1}, averages={}, set_back={}, marks={A: LogMark(1, 77, 5, 1000)}
    )
    with pytest.raises(OptionRefused, match="exactly these positions"):
        init_plan(4, 0, standing, {A: 2, B: 9}, marks={A: LogMark(1, 77, 5, 1000)})
    facts = init_plan(4, 0, standing, {A: 2, B: 9}, marks={A: LogMark(1, 78, 9, 2000)}).work["facts"]
    assert facts["set_back"] == {"a": {"0": 4}}
    assert facts["passed"] == {"a": {"1": 1}}
    assert facts["logs"] == {"a": {"0": {"offset": 1, "crc": 78, "czxid": 9, "ctime_ms": 2000}}}


# ---- bytes of a message, before any was loaded -----------------------------------------------------------------------


def test_messages_of_a_topic_that_was_never_loaded_are_measured_where_its_largest_range_begins(
    cluster: FakeCluster, brokers: Brokers
) -> None:
    cluster.append("a", 0, entries(b"small"))
    cluster.append("a", 1, entries(b"x" * 10, b"x" * 30, codec=1))
    ranges = [OffsetRange("a", 0, 0, 1), OffsetRange("a", 1, 0, 2)]
    assert sampled_averages(brokers, ranges, CAP) == {"a": 21.0}  # with a key of one byte
    assert sampled_averages(brokers, [], CAP) == {}


def test_a_message_that_is_larger_than_the_sample_is_fetched_whole_and_one_that_is_gone_is_guessed(
    cluster: FakeCluster, brokers: Brokers
) -> None:
    cluster.append("a", 0, entries(b"x" * 100_000))
    assert sampled_averages(brokers, [OffsetRange("a", 0, 0, 1)], CAP) == {"a": 100_001.0}
    assert sampled_averages(brokers, [OffsetRange("a", 0, 0, 1)], 70_000) == {}, "no reader could have it, either"
    assert sampled_averages(brokers, [OffsetRange("a", 1, 5, 9)], CAP) == {}
