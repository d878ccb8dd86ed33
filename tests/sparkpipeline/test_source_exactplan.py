"""A plan that a job hands to the format as a value: pickled whole, read back whole, and nothing else with it."""

from __future__ import annotations

import base64
import pickle
import zlib
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import BinaryType, StructField, StructType

from kafkawire.model import Broker, BrokerPartition
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.datasource import Kafka08DataSource
from sparkpipeline.errors import OptionRefused
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.readoptions import ReadOptions
from sparkpipeline.source.exactplan import ExactPlan
from sparkpipeline.source.readers import PlannedReader
from sparkpipeline.source.sourceoptions import PLAN
from tests.fakes.broker import FakeCluster, entry

SCHEMA = StructType([StructField("value", BinaryType())])
COLUMNS = ("value", "offset", "rowNumber")


def plan_of(*tasks: tuple[OffsetRange, ...], bootstrap: tuple[tuple[str, int], ...] = (("b", 9092),)) -> ExactPlan:
    return ExactPlan(tasks, ClusterAccess(bootstrap, "0.8.2", retry_interval_ms=1), ReadOptions(columns=COLUMNS))


def handed_over(plan: ExactPlan) -> ExactPlan | None:
    return ExactPlan.in_options(CaseInsensitiveDict({PLAN.upper(): plan.text()}))


def test_a_plan_comes_out_as_it_went_in() -> None:
    of_07 = (OffsetRange("t", BrokerPartition(3, 0), 17, 90, Broker(3, "b", 9092)), OffsetRange("t", 4, 0, 1))
    plan = plan_of(of_07, ())
    assert handed_over(plan) == plan
    assert ExactPlan.in_options({"subscribe": "t"}) is None


class Foreign:
    def __reduce__(self) -> Any:
        return print, ("never",)


@pytest.mark.parametrize("value", [Foreign(), {"tasks": ()}, OffsetRange("t", 0, 0, 1)])
def test_nothing_but_a_plan_is_unpickled(value: object, capsys: pytest.CaptureFixture[str]) -> None:
    text = base64.b64encode(zlib.compress(pickle.dumps(value))).decode()
    with pytest.raises(OptionRefused, match=r"option=sparkpipeline.plan: is not a plan"):
        ExactPlan.in_options({PLAN: text})
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("text", ["", "no plan", "eJw=", "AAAA"])
def test_a_text_that_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(OptionRefused, match="is not a plan of this release"):
        ExactPlan.in_options({PLAN: text})


def test_a_plan_goes_with_no_other_option() -> None:
    with pytest.raises(OptionRefused, match="goes with no other option"):
        ExactPlan.in_options({PLAN: plan_of().text(), "subscribe": "t"})


def test_the_format_reads_a_plan_and_its_tasks_are_given_their_own_ranges_only() -> None:
    with FakeCluster({"t": 2}) as cluster:
        for partition in range(2):
            for n in range(20):
                cluster.append("t", partition, entry(b"%d-%d" % (partition, n)))
        ranges = (OffsetRange("t", 1, 5, 7), OffsetRange("t", 0, 0, 2)), (OffsetRange("t", 1, 7, 8),)
        plan = plan_of(*ranges, bootstrap=tuple(cluster.bootstrap))
        source = Kafka08DataSource(CaseInsensitiveDict({PLAN: plan.text()}))
        reader = pickle.loads(cloudpickle.dumps(source)).reader(SCHEMA)
        assert isinstance(reader, PlannedReader)
        tasks = reader.partitions()
        assert [[(rng.tp, rng.start, rng.until) for rng in task.ranges] for task in tasks] == [
            [(rng.tp, rng.start, rng.until) for rng in task] for task in ranges
        ]
        assert all(rng.leader is not None for task in tasks for rng in task.ranges)
        theirs = pickle.loads(cloudpickle.dumps(reader))
        assert theirs.plan.tasks == ()
        rows = [row for task in tasks for batch in theirs.read(task) for row in batch.to_pylist()]
        assert [(row["value"], row["offset"], row["rowNumber"]) for row in rows] == [
            (b"1-5", 5, 0), (b"1-6", 6, 1), (b"0-0", 0, 0), (b"0-1", 1, 1), (b"1-7", 7, 0),
        ]  # fmt: skip


def test_a_source_that_has_its_reader_is_pickled_without_the_plan() -> None:
    source = Kafka08DataSource(CaseInsensitiveDict({PLAN: plan_of().text()}))
    assert PLAN in pickle.loads(pickle.dumps(source)).options
    source.reader(SCHEMA)
    assert dict(pickle.loads(pickle.dumps(source)).options) == {}
