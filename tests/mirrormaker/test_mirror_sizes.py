"""Which messages are too large for what comes behind them, as the settings of both sides say."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from kazoo.exceptions import NoNodeError

from mirrormaker.commands.online import size_warnings, topic_limits
from mirrormaker.options import SourceOptions, TargetOptions

SOURCE = SourceOptions(name="dc1", zookeeper_connect="zk:1", group_id="g", fetch_growth_max_bytes=5_000_000)
TARGET = TargetOptions(brokers=(("k", 9092),))  # takes 1,000,012


class Answer:
    def __init__(self, data: bytes | None) -> None:
        self._data = data

    def get(self) -> Any:
        if self._data is None:
            raise NoNodeError
        return self._data, None


class ZooKeeper:
    NODES: ClassVar = {
        "own": b'{"version":1,"config":{"max.message.bytes":"2000"}}',
        "others": b'{"version":1,"config":{"cleanup.policy":"compact"}}',
        "odd": b"[]",
        "half": b'{"version":1',
        "square": '{"version":1,"config":{"max.message.bytes":"²"}}'.encode(),
        "long": b'{"version":1,"config":{"max.message.bytes":"%s"}}' % (b"9" * 4301),
        "words": b'{"version":1,"config":{"max.message.bytes":"large"}}',
    }

    def get_async(self, path: str) -> Answer:
        return Answer(self.NODES.get(path.removeprefix("/config/topics/")))


def test_only_limits_that_are_there_and_are_numbers_are_known() -> None:
    assert topic_limits(ZooKeeper(), [*ZooKeeper.NODES, "gone"]) == {"own": 2000}


@pytest.mark.parametrize(
    ("here", "there", "said"),
    [
        ({}, {}, []),
        ({"t": 1_000_012}, {}, []),
        ({"t": 2_000_000}, {"u": 2_000_000}, []),
        ({"t": 2_000_000}, {}, ["max.message.bytes is 2000000 there, and target.message.max.bytes 1000012"]),
        ({"t": 3_000_000}, {"u": 2_000_000}, ["and max.message.bytes of target topic u 2000000: a message between"]),
        ({}, {"u": 500_000}, ["max.message.bytes of target topic u is 500000, less than target.message.max.bytes"]),
        ({"t": 6_000_000}, {"u": 6_000_000}, ["and fetch.growth.max.bytes 5000000: what is larger is not fetched"]),
    ],
)
def test_what_is_too_large_is_named_with_both_limits(
    here: dict[str, int], there: dict[str, int], said: list[str]
) -> None:
    found = list(size_warnings(SOURCE, TARGET, {"t": "u"}, here=here, there=there))
    assert len(found) == len(said)
    for sentence, part in zip(found, said, strict=True):
        assert sentence.startswith("source dc1: topic t: ")
        assert part in sentence
