"""The batch reader without a JVM: plans, what is pickled, what is imported."""

import pickle
import subprocess
import sys
from dataclasses import replace

import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from kafkawire.model import Broker, TopicPartition
from sparkpipeline.datasource import Kafka08DataSource
from sparkpipeline.errors import OptionRefused
from sparkpipeline.source.readers import Kafka08Reader
from sparkpipeline.source.readtasks import RangesPartition, sample_sizes
from sparkpipeline.source.taskplan import AVERAGE_BYTES
from tests.fakes.broker import FakeCluster, entry


def fields(*names):
    kinds = {"value": BinaryType(), "partition": IntegerType()}
    return StructType([StructField(name, kinds.get(name, LongType())) for name in names])


@pytest.fixture
def cluster():
    with FakeCluster({"t": 4, "empty": 2}, brokers=2) as fake:
        for partition in range(4):
            for n in range(50):
                fake.append("t", partition, entry(b"x" * 174 + b"%06d" % n))
        yield fake


def reader(cluster, columns=("value", "partition", "offset"), **options):
    where = ",".join(f"{host}:{port}" for host, port in cluster.bootstrap)
    given = {"kafka.bootstrap.servers": where, "protocol": "0.8", "fetchOffset.retryIntervalMs": "1", **options}
    if "offsetRanges" not in given:
        given.setdefault("subscribe", "t")
    return Kafka08Reader.of(CaseInsensitiveDict(given), fields(*columns))


def rows(planned, partitions):
    return [row for partition in partitions for batch in planned.read(partition) for row in batch.to_pylist()]


def test_a_batch_is_planned_and_read(cluster):
    made = reader(cluster)
    planned = made.partitions()
    assert isinstance(planned, list)  # Spark takes no tuple
    assert [[str(rng) for rng in one.ranges] for one in planned] == [[f"t/{n} [0, 50)" for n in range(4)]]
    found = rows(made, planned)
    assert [(row["partition"], row["offset"]) for row in found] == [(p, n) for p in range(4) for n in range(50)]
    assert found[50]["value"] == b"x" * 174 + b"000000"


def test_without_packing_each_range_is_a_task_as_in_spark(cluster):
    assert len(reader(cluster, packBytes="0").partitions()) == 4
    assert len(reader(cluster, packBytes="0", minPartitions="8").partitions()) == 8
    assert len(reader(cluster, packBytes="0", maxRecordsPerPartition="20").partitions()) == 12


def test_tasks_are_told_where_each_partition_is_led(cluster):
    (task,) = reader(cluster).partitions()
    ports = cluster.ports
    assert [rng.leader for rng in task.ranges] == [Broker(1 + n % 2, "127.0.0.1", ports[1 + n % 2]) for n in range(4)]
    assert task.access.release == "0.8.2"


def test_sizes_come_from_a_small_fetch(cluster):
    (task,) = reader(cluster).partitions()
    measured = sample_sizes(task.ranges, task.access)
    assert measured == dict.fromkeys((TopicPartition("t", n) for n in range(4)), 180 + 26)
    made = reader(cluster, maxBytesPerPartition=str(206 * 25))  # half a partition
    assert sorted(len(one.ranges) for one in made.partitions()) == [1] * 8


def test_sizes_of_what_cannot_be_read_are_a_guess(cluster):
    (task,) = reader(cluster).partitions()
    cluster.stop(1)
    cluster.stop(2)
    access = replace(task.access, retries=0)
    assert set(sample_sizes(task.ranges, access).values()) == {AVERAGE_BYTES}


def test_an_exact_plan_is_a_task_for_each_range_in_its_order(cluster):
    text = ('[{"topic":"t","partition":3,"start":40,"until":50},{"topic":"t","partition":0,"start":7,"until":9},'
            '{"topic":"t","partition":1,"start":3,"until":3}]')  # fmt: skip
    made = reader(cluster, ("rowNumber", "offset", "valueCrc"), offsetRanges=text)
    planned = made.partitions()
    assert [str(one.ranges[0]) for one in planned] == ["t/3 [40, 50)", "t/0 [7, 9)"]  # an empty one has no task
    assert [row["rowNumber"] for row in rows(made, planned)] == [*range(10), 0, 1]
    packed = reader(cluster, ("offset",), offsetRanges=text, packBytes="100000")
    assert [len(one.ranges) for one in packed.partitions()] == [2]


def test_an_empty_plan_reads_nothing(cluster):
    made = reader(cluster, subscribe="empty")
    assert made.partitions() == []
    assert list(made.read(InputPartition(None))) == []  # what Spark makes of an empty plan


def test_reader_and_partitions_are_small_when_pickled(cluster):
    made = reader(cluster)
    (task,) = made.partitions()
    assert len(cloudpickle.dumps(made)) < 10_000
    assert len(cloudpickle.dumps(task)) < 10_000
    again = pickle.loads(cloudpickle.dumps(task))
    assert isinstance(again, RangesPartition)
    assert (again.ranges, again.access, again.plan_time_ms) == (task.ranges, task.access, task.plan_time_ms)
    back = pickle.loads(cloudpickle.dumps(made))
    assert rows(back, [again])[:3] == rows(made, [task])[:3]


@pytest.mark.thorough
def test_a_task_knows_neither_greenlets_nor_zookeeper_nor_pandas():
    code = (
        "import sys, pyspark_kafka08, sparkpipeline.source.readers, sparkpipeline.reading.arrow;"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'gevent', 'kazoo', 'pandas', 'click', 'yaml'}))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "[]"


@pytest.mark.thorough
def test_the_lookup_of_a_format_imports_neither_arrow_nor_numba():
    code = "import sys, pyspark_kafka08; print(sorted({'pyarrow', 'numba', 'numpy'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "[]"


def test_the_data_source_tells_a_wrong_option_when_it_is_loaded():
    assert Kafka08DataSource.name() == "kafka08"
    assert "pushFilters" not in vars(Kafka08Reader)  # its mere presence fails every query, and it is wrong when on
    with pytest.raises(OptionRefused, match="did you mean 'subscribe'"):
        Kafka08DataSource(CaseInsensitiveDict({"subscrib": "t"})).schema()
    headers = {"kafka.bootstrap.servers": "b:1", "subscribe": "t", "includeHeaders": "true"}
    assert (
        Kafka08DataSource(CaseInsensitiveDict(headers))
        .schema()
        .simpleString()
        .endswith("headers:array<struct<key:string,value:binary>>>")
    )
