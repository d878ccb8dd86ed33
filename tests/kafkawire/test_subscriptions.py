"""What members of a group tell each other through their coordinator, in all four versions."""

from __future__ import annotations

import pytest

from kafkawire.errors import RemoteError, WireError
from kafkawire.model import TopicPartition
from kafkawire.protocol.subscriptions import Subscription, assignment_bytes, read_assignment, read_subscription

TOPICS = b"\x00\x00\x00\x02\x00\x01a\x00\x02bb"
NO_DATA = b"\xff\xff\xff\xff"
OWNED = b"\x00\x00\x00\x01\x00\x01a\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x05"
TWO = (TopicPartition("a", 0), TopicPartition("a", 5))


@pytest.mark.parametrize(
    ("version", "more", "owned"),
    [
        (0, b"", ()),
        (1, OWNED, TWO),
        (2, OWNED + b"\x00\x00\x00\x07", TWO),
        (3, OWNED + b"\x00\x00\x00\x07" + b"\x00\x02r1", TWO),
        (4, OWNED + b"\x00\x00\x00\x07" + b"\xff\xff" + b"fields of a later version", TWO),
    ],
)
def test_a_subscription_of_every_version_is_read(version: int, more: bytes, owned: tuple[TopicPartition, ...]) -> None:
    data = version.to_bytes(2, "big") + TOPICS + NO_DATA + more
    assert read_subscription(data) == Subscription(("a", "bb"), None, owned)


def test_ours_is_of_version_0() -> None:
    assert Subscription(("a", "bb")).encode() == b"\x00\x00" + TOPICS + NO_DATA
    data = Subscription(("a",), b"user").encode()
    assert read_subscription(data) == Subscription(("a",), b"user")


def test_an_assignment_there_and_back() -> None:
    data = assignment_bytes(TWO)
    assert data == b"\x00\x00" + OWNED + NO_DATA
    assert read_assignment(data) == list(TWO)
    assert read_assignment(b"\x00\x03" + data[2:] + b"more") == list(TWO)
    assert read_assignment(b"") == []  # of a member that the leader left out


def test_rubbish_is_no_assignment() -> None:
    with pytest.raises(RemoteError):
        read_assignment(b"\xff\xff")
    with pytest.raises(WireError):
        read_subscription(b"\x00\x00\x00\x00\x00\x09")
