"""What jobs do not do with Kafka 0.7, told before anything is asked or read."""

from __future__ import annotations

import pytest

from sparkpipeline.errors import OptionRefused
from sparkpipeline.load.config import config_of

LOAD = {"base": "/w", "zookeeper.connect": "zk:2181", "protocol": "0.7", "topics": ["orders"]}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"zookeeper.connect": None, "bootstrap.servers": "b:1"}, "brokers of Kafka 0.7.2 tell nothing of each other"),
        ({"bootstrap.servers": "b:1"}, "give zookeeper.connect, and no bootstrap.servers"),
        ({"limit.rows": 5}, "limit.rows counts offsets, and those of Kafka 0.7.2 are bytes: use limit.bytes"),
        ({"batch.rows": 5}, "batch.rows counts offsets, and those of Kafka 0.7.2 are bytes: use batch.bytes"),
        ({"group.id": "g", "offsets.storage": "dual"}, "offsets.storage can only be zookeeper"),
    ],
)
def test_a_load_of_0_7_is_told_what_it_cannot(more: dict[str, object], says: str) -> None:
    with pytest.raises(OptionRefused) as refused:
        config_of({name: value for name, value in {**LOAD, **more}.items() if value is not None}, "job.yaml")
    assert says in str(refused.value)


def test_partitions_of_a_load_are_named_by_broker_and_index() -> None:
    values = {**LOAD, "partitions": {"orders": ["0-1", "2-0"]}}
    del values["topics"]
    assert [str(tp) for tp in config_of(values, "job.yaml").partitions] == ["orders/0-1", "orders/2-0"]
