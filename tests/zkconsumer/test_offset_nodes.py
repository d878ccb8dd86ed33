"""What an offset node says: a number, nothing, or something nobody can read; never 0 for want of better."""

from __future__ import annotations

import pytest

from zkconsumer.offsets.store import LARGEST, NONE, Unknown
from zkconsumer.offsets.zookeeper import position
from zkconsumer.session.zkcalls import Node


@pytest.mark.parametrize(("data", "at"), [(b"0", 0), (b"81920", 81920), (b" 7\n", 7), (b"%d" % LARGEST, LARGEST)])
def test_decimal_text_is_a_position(data: bytes, at: int):
    assert position("/p", Node(data, 0, 0)) == at


def test_no_node_is_none():
    assert position("/p", None) is NONE


NO_POSITION = [
    b"",
    b"null",
    b"-1",
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
