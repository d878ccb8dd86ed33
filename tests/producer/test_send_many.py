"""send_many() by columns against send() one by one: partitions, order, deliveries, headers; and what has to be put by
itself all the same."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire import kernels
from kafkawire.dialects import dialect
from kafkawire.kernels import _CHOICE
from kafkawire.model import TopicPartition
from producer.accumulator import Accumulator, Appender, TopicInfo
from producer.config import ProducerConfig
from producer.delivery import Deliveries
from producer.errors import NotSent, PartitionerFailed, QueueFull, Undeliverable
from producer.partitioners import UnkeyedPartitioner, byte_array_partitioner, murmur2_partitioner
from producer.plugins import Plugins
from producer.producer import Producer
from producer.rows import parts_of_lists
from tests.fakes.broker import FakeCluster

NEWEST = dialect("2.8")


def putting(release: str = "2.8", partitions: int = 3, **options: Any) -> tuple[Appender, Accumulator]:
    """What puts messages into buckets, without an event loop.  max_entry: bytes of the largest."""
    made = {name: options.pop(name, None) for name in ("encoder", "key_encoder", "partitioner")}
    most = options.pop("max_entry", 1 << 20)
    config = ProducerConfig(brokers=(("k", 1),), version=release, **options)
    accumulator = Accumulator(
        config, UnkeyedPartitioner(config.unkeyed, 600.0),
        first=lambda: None, full=lambda: None, flag=threading.Event,
    )  # fmt: skip
    ids = range(partitions)
    info = TopicInfo(topic="t", partitions=ids, with_leader=ids, overhead=21, max_entry_bytes=most, buckets={})
    accumulator.set_topic(info)
    appender = Appender(
        config, dialect=dialect(release), plugins=Plugins(config, **made), accumulator=accumulator,
        find_topic=lambda topic: info, wait_room=lambda timeout_s: None,
    )  # fmt: skip
    return appender, accumulator


def buckets(accumulator: Accumulator) -> dict[TopicPartition, list[tuple[Any, ...]]]:
    """What they hold: keys, values, header blocks, sizes."""
    return {
        one.tp: list(zip(one.keys, one.values, map(one.headers.get, range(len(one.sizes))), one.sizes, strict=True))
        for one in accumulator.take()
    }


KEYS = st.lists(st.binary(max_size=20) | st.none(), min_size=1, max_size=150)
HEADERS = st.none() | st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=4)), max_size=2)


@settings(deadline=None, max_examples=60)
@given(KEYS, st.sampled_from([None, murmur2_partitioner, byte_array_partitioner]), st.booleans(), st.data())
def test_keyed_messages_go_where_they_go_one_by_one(
    keys: list[bytes | None], partitioner: Any, compiled: bool, data: Any
) -> None:
    kernels.prepare()
    options: dict[str, Any] = {"partitioner": partitioner, "unkeyed": "sticky"}
    headers = data.draw(st.lists(HEADERS, min_size=len(keys), max_size=len(keys)))
    values: list[Any] = [b"%d" % n for n in range(len(keys))]
    slowly, wanted = putting(**options)
    keyed = [key for key in keys if key is not None]
    one_by_one = [slowly.put("t", v, k, None, None, None, headers=h) for v, k, h in zip(values, keys, headers)]  # noqa: B905
    before = _CHOICE.kernels
    quickly, accumulator = putting(**options)
    deliveries, calls = Deliveries(), counted(quickly, "_put_keyed")
    try:
        _CHOICE.kernels = before if compiled else None
        quickly.put_all("t", values, list(keys), deliveries, None, headers=headers)
    finally:
        _CHOICE.kernels = before
    assert calls == []
    assert [one.value for one in deliveries] == [one.value for one in one_by_one] == values
    assert deliveries[len(values) - 1].key == keys[-1]
    if len(keyed) == len(keys):
        assert [one.tp for one in deliveries] == [one.tp for one in one_by_one]
        assert buckets(accumulator) == buckets(wanted)
    else:  # where those without a key go is chosen at random
        found = {row for rows in buckets(accumulator).values() for row in rows}
        assert found == {row for rows in buckets(wanted).values() for row in rows}
    assert accumulator.counts == wanted.counts


def counted(appender: Appender, name: str) -> list[str]:
    """Calls of a method."""
    calls: list[str] = []
    before = getattr(appender, name)

    def call(*args: Any, **more: Any) -> Any:
        calls.append(name)
        return before(*args, **more)

    setattr(appender, name, call)
    return calls


def turns() -> Callable[[Any, int], int]:
    """A partitioner that is not pure."""
    state = [0]

    def of_key(key: Any, partitions: int) -> int:
        state[0] += 1
        return state[0] % partitions

    return of_key


def pure(key: bytes, partitions: int) -> int:
    return len(key) % partitions


pure.pure = True  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "keys", "by_itself"),
    [
        ({}, [b"a", b"b"], False),
        ({"partitioner": pure}, [b"a", b"bb", None], False),
        ({}, ["text", "keys"], True),
        ({"partitioner": turns()}, [b"a", b"a"], True),
        ({"key_encoder": bytes.upper}, [b"a", b"b"], True),
        ({"queue_messages": 2}, [b"a", b"b", b"c"], True),
        ({"max_entry": 24}, [b"a", b"large"], True),
        ({"partitioner": lambda key, n: 99}, [b"a"], True),
    ],
)
def test_what_has_to_be_put_one_by_one(options: dict[str, Any], keys: list[Any], by_itself: bool) -> None:
    appender, accumulator = putting(**{"enqueue_timeout_ms": 0, **options})
    calls, deliveries = counted(appender, "_put_keyed"), Deliveries()
    refused = "queue_messages" in options or "max_entry" in options or keys == [b"a"]
    if refused:
        with pytest.raises((QueueFull, Undeliverable, PartitionerFailed)):
            appender.put_all("t", [b"%d" % n for n in range(len(keys))], keys, deliveries, None)
    else:
        appender.put_all("t", [b"%d" % n for n in range(len(keys))], keys, deliveries, None)
    assert bool(calls) == by_itself
    assert len(deliveries) == accumulator.counts.sent == (len(keys) - 1 if refused else len(keys))
    assert [one.value for one in deliveries] == [b"%d" % n for n in range(len(deliveries))]


@pytest.mark.parametrize("keyed", [False, True])
def test_headers_travel_with_their_messages(keyed: bool) -> None:
    appender, accumulator = putting(partitions=1)
    headers: list[Any] = [None, {"a": b"1"}, [("b", None), ("b", b"2")], ()] * 30
    values: list[Any] = [b"%d" % n for n in range(len(headers))]
    if keyed:
        appender.put_all("t", values, [b"k"] * len(values), Deliveries(), None, headers=headers)
    else:
        appender.put_all("t", values, None, Deliveries(), None, headers=headers)
    found = []
    for bucket in accumulator.take():
        blocks = list(map(bucket.headers.get, range(len(bucket.sizes))))
        columns = bucket.keys, bucket.values, bucket.timestamps_ms, blocks
        for part in parts_of_lists(bucket.tp, *columns, dialect=NEWEST, codec=0, limit=2000, sizes=bucket.sizes):
            assert len(part.entries) <= 2000 + 61
            message_set, _ = NEWEST.messages.message_set("t", 0, 0, memoryview(bytes(part.entries)), 0)
            found += [(message.value, message.headers) for message in message_set.messages()]
    wanted: list[Any] = [(), (("a", b"1"),), (("b", None), ("b", b"2")), ()] * 30
    assert found == list(zip(values, wanted, strict=True))


def test_too_few_headers_and_headers_that_a_release_has_not_are_refused() -> None:
    with FakeCluster({"t": 1}) as cluster, Producer(ProducerConfig(brokers=tuple(cluster.bootstrap))) as p:
        with pytest.raises(NotSent, match="topic t: there are fewer headers than values"):
            p.send_many("t", [b"a", b"b"], headers=[None])
        p.send_many("t", [b"a", b"b"], headers=[None, ()])
        p.flush()
        assert cluster.values("t", 0) == [b"a", b"b"]
    appender, accumulator = putting("0.8.2")
    with pytest.raises(NotSent, match=r"topic t: messages of Kafka 0\.8\.2 have no headers; nothing was sent"):
        appender.put_all("t", [b"a"], None, Deliveries(), None, headers=[{"a": b"1"}])
    assert accumulator.counts.sent == 0


def test_a_listener_hears_of_each_message_with_a_key() -> None:
    heard: list[bytes | None] = []
    with FakeCluster({"t": 3}) as cluster:
        config = ProducerConfig(brokers=tuple(cluster.bootstrap))
        with Producer(config, on_delivery=lambda one: heard.append(one.value)) as producer:
            sent = producer.send_many("t", [b"%d" % n for n in range(700)], [b"k%d" % (n % 7) for n in range(700)])
            stored = sent.result(10)
        assert sorted(heard, key=lambda value: int(value or b"")) == [b"%d" % n for n in range(700)]
        for number, one in enumerate(stored):
            assert one.offset is not None
            assert cluster.messages("t", one.tp.partition)[one.offset][2] == b"%d" % number  # type: ignore[index]
