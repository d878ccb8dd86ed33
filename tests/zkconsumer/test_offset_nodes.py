"""What an offset node says: a number, nothing, or something nobody can read; never 0 for want of better."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.dialects import dialect
from kafkawire.model import TopicPartition
from tests.fakes.stores import held
from tests.fakes.znodes import FakeZookeeper
from zkconsumer.offsets.store import LARGEST, NONE, Unknown
from zkconsumer.offsets.zookeeper import ZookeeperOffsets, position
from zkconsumer.session.lease import LeaseOver
from zkconsumer.session.zkcalls import WINDOW, Node


@pytest.mark.parametrize(("data", "at"), [(b"0", 0), (b"81920", 81920), (b" 7\n", 7), (b"%d" % LARGEST, LARGEST),
                                            (b"+5", 5), (b"-0", 0)])  # fmt: skip
def test_decimal_text_is_a_position(data: bytes, at: int):
    assert position("/p", Node(data, 0, 0)) == at


def test_no_node_is_none():
    assert position("/p", None) is NONE


@pytest.mark.parametrize("data", [b"-1", b"-2", b"%d" % (-LARGEST - 1)])
def test_a_negative_number_is_none_as_for_the_jvm(data: bytes):
    """Members of ours never read such a partition; PartitionTopicInfo.isOffsetInvalid resets it."""
    tp = TopicPartition("t", 0)
    zookeeper = FakeZookeeper({"/consumers/g/offsets/t/0": data})
    store = ZookeeperOffsets(zookeeper.session(), dialect("0.8.2").znodes)
    assert store.read("g", [tp]) == {tp: NONE}
    assert store.commit("g", {tp: 7}, held()) == {tp: None}
    assert zookeeper.nodes["/consumers/g/offsets/t/0"].data == b"7"


NO_POSITION = [
    b"",
    b"null",
    b"+",
    b"+-5",
    b"++5",
    b"%d" % (-LARGEST - 2),
    b"1.5",
    b"0x10",
    b"\xff\xfe",
    "٣".encode(),
    b"12 13",
    b"%d" % (LARGEST + 1),
    b"9" * 5000,
]


@pytest.mark.parametrize("data", NO_POSITION)
def test_anything_else_is_unknown_with_its_text(data: bytes):
    found = position("/consumers/g/offsets/t/0", Node(data, 0, 0))
    assert isinstance(found, Unknown)
    assert "/consumers/g/offsets/t/0" in found.reason


@pytest.mark.parametrize("there", [True, False], ids=["set", "created"])
def test_no_window_of_offset_nodes_is_written_once_the_lease_is_over(there: bool):
    znodes, lease = dialect("0.8.2").znodes, held()
    tps = [TopicPartition("t", partition) for partition in range(WINDOW + 50)]
    paths = [znodes.offset("g", tp) for tp in tps] if there else ["/consumers/g/offsets/t/x"]
    zookeeper = FakeZookeeper(dict.fromkeys(paths, b"1"))
    writes = 0
    what = "set_async" if there else "create_async"
    write = getattr(zookeeper, what)

    def written(*args: Any, **named: Any) -> Any:
        nonlocal writes
        writes += 1
        if writes == WINDOW:
            lease.revoke()  # while the window is waited for
        return write(*args, **named)

    setattr(zookeeper, what, written)
    results = ZookeeperOffsets(zookeeper.session(), znodes).commit("g", dict.fromkeys(tps, 5), lease)
    assert writes == WINDOW
    assert {type(why) for why in results.values()} == {LeaseOver}
