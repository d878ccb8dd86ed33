"""Which task reads what: Spark's own examples of cutting, and the packing of small ranges."""

import random

import pytest

from kafkawire.model import TopicPartition
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.source.taskplan import LEAST_BYTES, PACK_BYTES, divided, plan

MB = 1 << 20
# KafkaOffsetRangeCalculatorSuite of Spark 4: (topic, from, until) in, minPartitions, maxRecordsPerPartition, out.
SPARKS_EXAMPLES = [
    ("one to one", [(1, 1, 2)], None, None, [(1, 1, 2)]),
    ("empty ranges are ignored", [(1, 1, 2), (2, 1, 1)], None, None, [(1, 1, 2)]),
    ("enough as they are", [(1, 1, 2), (2, 1, 2), (3, 1, 2)], 3, None, [(1, 1, 2), (2, 1, 2), (3, 1, 2)]),
    ("one to N", [(1, 1, 5)], 4, None, [(1, 1, 2), (1, 2, 3), (1, 3, 4), (1, 4, 5)]),
    ("N skewed to M", [(1, 1, 5), (2, 1, 21)], 4, None, [(1, 1, 5), (2, 1, 7), (2, 7, 14), (2, 14, 21)]),
    ("SPARK-30656 empty", [(1, 1, 1), (2, 1, 21)], 4, None, [(2, 1, 6), (2, 6, 11), (2, 11, 16), (2, 16, 21)]),
    ("SPARK-30656 very", [(1, 1, 2), (2, 1, 1001)], 4, None, [(1, 1, 2), (2, 1, 334), (2, 334, 667), (2, 667, 1001)]),
    ("fewer than there are", [(1, 1, 5), (2, 1, 21)], 1, None, [(1, 1, 5), (2, 1, 21)]),
    ("inexact multiple", [(1, 1, 11)], 3, None, [(1, 1, 4), (1, 4, 7), (1, 7, 11)]),
    (
        "SPARK-28489: never drop offsets",
        [(1, 0, 10), (2, 0, 10), (3, 0, 1)],
        6,
        None,
        [(1, 0, 3), (1, 3, 6), (1, 6, 10), (2, 0, 3), (2, 3, 6), (2, 6, 10), (3, 0, 1)],
    ),
    (
        "SPARK-36576: no small, three large",
        [(1, 0, 10000), (2, 0, 15000), (3, 0, 20000)],
        9,
        None,
        [
            *[(1, 0, 5000), (1, 5000, 10000)],
            *[(2, 0, 5000), (2, 5000, 10000), (2, 10000, 15000)],
            *[(3, 0, 5000), (3, 5000, 10000), (3, 10000, 15000), (3, 15000, 20000)],
        ],
    ),
    (
        "SPARK-36576: one small, two large",
        [(1, 0, 500), (2, 0, 12000), (3, 0, 15001)],
        6,
        None,
        [(1, 0, 500), (2, 0, 6000), (2, 6000, 12000), (3, 0, 5000), (3, 5000, 10000), (3, 10000, 15001)],
    ),
    (
        "SPARK-36576: two small, one large",
        [(1, 0, 1), (2, 0, 1), (3, 0, 10000)],
        6,
        None,
        [(1, 0, 1), (2, 0, 1), (3, 0, 2500), (3, 2500, 5000), (3, 5000, 7500), (3, 7500, 10000)],
    ),
    ("SPARK-49259: fits", [(1, 1, 5)], None, 4, [(1, 1, 5)]),
    ("SPARK-49259: one more", [(1, 1, 6)], None, 4, [(1, 1, 3), (1, 3, 6)]),
    (
        "SPARK-49259: several",
        [(1, 1, 40), (2, 1, 50), (3, 1, 60)],
        None,
        20,
        [(1, 1, 20), (1, 20, 40), (2, 1, 17), (2, 17, 33), (2, 33, 50), (3, 1, 20), (3, 20, 40), (3, 40, 60)],
    ),
    ("SPARK-49259: low minimum", [(1, 1, 40)], 1, 20, [(1, 1, 20), (1, 20, 40)]),
    ("SPARK-49259: high minimum", [(1, 1, 40)], 4, 20, [(1, 1, 10), (1, 10, 20), (1, 20, 30), (1, 30, 40)]),
]


def ranges(rows):
    return [OffsetRange(f"t{topic}", 1, start, until) for topic, start, until in rows]


@pytest.mark.parametrize(("given", "minimum", "records", "expected"), [row[1:] for row in SPARKS_EXAMPLES],
                         ids=[row[0] for row in SPARKS_EXAMPLES])  # fmt: skip
def test_ranges_are_cut_as_spark_cuts_them(given, minimum, records, expected):
    assert divided(ranges(given), minimum, records) == ranges(expected)
    tasks = plan(ranges(given), min_partitions=minimum, max_records=records, pack_bytes=0)
    assert tasks == [(rng,) for rng in ranges(expected)]


def many(count, offsets):
    return [OffsetRange("t", number, 0, offsets) for number in range(count)]


def sized(rngs, size):
    return {rng.tp: size for rng in rngs}


def test_a_thousand_small_partitions_cost_few_tasks():
    rngs = many(1000, 20_000)  # 20,000,000 rows of 134 bytes
    tasks = plan(rngs, sizes=sized(rngs, 134), cores=2)
    assert len(tasks) == -(-20_000_000 * 134 // PACK_BYTES)  # 40: as large as they may be
    loads = [sum(rng.count for rng in task) * 134 for task in tasks]
    assert max(loads) <= PACK_BYTES
    assert min(loads) > PACK_BYTES * 0.9
    assert sorted(rng for task in tasks for rng in task) == rngs


def test_a_large_partition_is_a_task_of_its_own_and_comes_first():
    rngs = [*many(10, 1000), OffsetRange("u", 0, 0, 10_000_000)]
    tasks = plan(rngs, sizes=sized(rngs, 100))
    assert tasks[0] == (rngs[-1],)
    assert sorted(rng for task in tasks[1:] for rng in task) == rngs[:-1]
    assert len(tasks) == 2


def test_little_data_is_one_task_and_more_is_shared_by_the_cores():
    tiny, more = many(8, 10), many(8, 100_000)
    assert len(plan(tiny, sizes=sized(tiny, 100), cores=4)) == 1
    tasks = plan(more, sizes=sized(more, 100), cores=4)  # 80 MB, which would fit into two
    assert [len(task) for task in tasks] == [2, 2, 2, 2]
    assert LEAST_BYTES * 4 < 80 * MB


def test_packing_keeps_to_the_minimum_and_to_the_limits():
    rngs = many(100, 50)
    assert len(plan(rngs, min_partitions=30, sizes=sized(rngs, 10))) == 30
    for task in plan(rngs, max_records=120, sizes=sized(rngs, 10)):
        assert sum(rng.count for rng in task) <= 120
    for task in plan(rngs, max_bytes=2000, sizes=sized(rngs, 10)):
        assert sum(rng.count for rng in task) * 10 <= 2000


def test_a_range_larger_than_max_bytes_is_cut_and_nothing_else_is():
    rngs = [OffsetRange("t", 0, 5, 1005), OffsetRange("t", 1, 0, 10)]
    tasks = plan(rngs, max_bytes=25_000, sizes=sized(rngs, 100))
    assert sorted(rng for task in tasks for rng in task) == [
        *[OffsetRange("t", 0, at, at + 250) for at in (5, 255, 505, 755)],
        rngs[1],
    ]
    one = plan([OffsetRange("t", 0, 0, 3)], max_bytes=10, sizes={TopicPartition("t", 0): 5000.0})
    assert len(one) == 3  # a message is never cut


def test_no_ranges_no_tasks():
    assert plan([]) == []
    assert plan(many(3, 0)) == []


@pytest.mark.parametrize("seed", range(20))
def test_every_offset_is_read_exactly_once_whatever_the_limits(seed):
    rnd = random.Random(seed)
    rngs = [
        OffsetRange(f"t{n % 3}", n, (at := rnd.randrange(1000)), at + int(rnd.paretovariate(0.5))) for n in range(60)
    ]
    limits = {
        "min_partitions": rnd.choice([None, 1, 50, 200]),
        "max_records": rnd.choice([None, 7, 1000]),
        "max_bytes": rnd.choice([None, 10_000]),
        "pack_bytes": rnd.choice([0, 1000, PACK_BYTES]),
        "cores": rnd.choice([1, 8]),
    }
    rngs = [OffsetRange(r.topic, r.partition, r.start, min(r.until, r.start + 5000)) for r in rngs]
    tasks = plan(rngs, sizes={rng.tp: rnd.uniform(1, 3000) for rng in rngs}, **limits)
    pieces = sorted(rng for task in tasks for rng in task)
    assert all(piece.count > 0 for piece in pieces)
    joined = []
    for piece in pieces:
        if joined and joined[-1].tp == piece.tp and joined[-1].until == piece.start:
            piece = OffsetRange(piece.topic, piece.partition, joined.pop().start, piece.until)
        joined.append(piece)
    assert joined == sorted(rngs)
