"""Barriers on a link whose broker never answers a produce request: what they cover, and what is left at its end."""

from __future__ import annotations

import socket
from collections import deque
from typing import Any, cast

import pytest

from kafkawire.cluster.view import ClusterView
from kafkawire.dialects import Dialect, dialect
from kafkawire.errors import LinkLost
from kafkawire.model import ANY, Broker, BrokerPartition, TopicPartition
from kafkawire.net.link import Connect, Link
from kafkawire.net.links import Links, Pins
from kafkawire.net.session import Reply
from kafkawire.protocol.request import Request
from producer.barrier import BarrierLink
from producer.batches import Batch
from producer.config import BY_OFFSETS, ProducerConfig
from producer.connection import BrokerConnection, InFlight, Shared
from producer.outages import Outages

BROKER = Broker(3, "127.0.0.1", 9092)
TP = TopicPartition("t", BrokerPartition(3, ANY))
RELEASE: Dialect = dialect("0.7")


class Wire:
    """A Link whose broker answers what is not a produce request, when it is asked to."""

    def __init__(self) -> None:
        self.broker, self.broken = BROKER, None
        self.closed_here = False
        self.sent: list[Request] = []
        self.unanswered: deque[Request] = deque()

    @property
    def outstanding(self) -> int:
        return len(self.unanswered)

    def send(self, request: Request) -> None:
        self.sent.append(request)
        if request.expects_reply:
            self.unanswered.append(request)

    def receive(self) -> Reply:
        return Reply(self.unanswered.popleft(), {})

    def close(self) -> None: ...

    @property
    def names(self) -> list[str]:
        return [request.api.name for request in self.sent]


def wire_and_link(confirm: bool = False) -> tuple[Wire, BarrierLink]:
    wire = Wire()
    return wire, BarrierLink(cast(Link, wire), lambda tp: RELEASE.requests.barrier(RELEASE, tp), confirm)


def produce() -> Request:
    request: Request = RELEASE.requests.produce(RELEASE, 0, 1000, {TP: [b""]})
    return request


def written(link: BarrierLink, count: int) -> None:
    assert not link.produce(produce(), TP)
    link.written(count)


def test_a_barrier_covers_what_was_written_before_it_was_sent():
    _, link = wire_and_link()
    written(link, 0)
    link.receive()
    link.written(5)
    assert link.barrier_due
    link.send_barrier()
    link.written(7)
    assert not link.barrier_due  # one at a time
    link.receive()
    assert (link.unconfirmed, link.barrier_due, link.proven) == (7, True, True)
    link.send_barrier()
    link.receive()
    assert (link.unconfirmed, link.barrier_due) == (0, False)


def test_what_no_barrier_covers_when_the_link_is_over_may_be_lost():
    _, link = wire_and_link()
    written(link, 0)
    link.receive()
    link.written(3)
    link.send_barrier()
    link.written(4)
    assert (link.lose(), link.lose()) == (7, 0)
    assert (link.unconfirmed, link.proven) == (0, False)


def test_a_fresh_link_gets_its_first_barrier_before_the_first_produce_request_and_only_then():
    wire, link = wire_and_link()
    written(link, 1)
    written(link, 1)
    assert wire.names == ["Offsets", "Produce", "Produce"]
    link.receive()
    assert link.proven
    written(link, 1)
    assert wire.names == ["Offsets", "Produce", "Produce", "Produce"]


def test_with_confirm_a_barrier_behind_each_produce_request_answers_for_it():
    wire, link = wire_and_link(confirm=True)
    first, second = produce(), produce()
    assert link.produce(first, TP)
    assert link.produce(second, TP)
    assert wire.names == ["Offsets", "Produce", "Offsets", "Produce", "Offsets"]
    answers = [link.receive() for _ in range(3)]
    assert answers[0].request is wire.sent[0]  # the fresh link's own
    assert [answer.request for answer in answers[1:]] == [first, second]
    assert all(answer.body is None for answer in answers)
    assert (link.unconfirmed, link.barrier_due) == (0, False)


def test_what_counts_as_sent_arrives_though_a_barrier_behind_it_is_not_answered_when_the_link_is_closed():
    size = 400_000
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)  # of what it accepts
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        plain = Link(Broker(3, *listening.getsockname()), "me", with_room_for(4 * size))
        link = BarrierLink(plain, lambda tp: RELEASE.requests.barrier(RELEASE, tp), confirm=False)
        link.produce(RELEASE.requests.produce(RELEASE, 0, 1000, {TP: [b"v" * size]}), TP)
        link.written(1)
        peer, _ = listening.accept()
        link.close()
        peer.settimeout(5)
        arrived = 0
        with peer:
            while piece := peer.recv(1 << 20):
                arrived += len(piece)
        assert arrived > size


def with_room_for(nbytes: int) -> Connect:
    """Connect with so large a buffer that the kernel takes so much at once."""

    def connect(address: tuple[str, int], timeout_s: float) -> socket.socket:
        opened = socket.socket()
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, nbytes)
        opened.connect(address)
        return opened

    return connect


# ---- what a connection makes of it ----------------------------------------------------------------------------------


class Outcomes:
    def __init__(self) -> None:
        self.maybe: list[int] = []
        self.suspects: list[object] = []
        self.others: list[object] = []

    def maybe_lost(self, count: int, reason: LinkLost) -> None:
        self.maybe.append(count)

    def maybe_refused(self, batch: object, reason: LinkLost, now: float) -> None:
        self.suspects.append(batch)

    def lost(self, batch: object, reason: LinkLost, now: float) -> None:
        self.others.append(batch)


class Leaders:
    view = ClusterView()

    def refresh(self) -> None: ...


def connection(confirm: bool) -> tuple[BrokerConnection, Outcomes]:
    outcomes, none = Outcomes(), cast(Any, None)
    config = ProducerConfig(version="0.7", confirm=BY_OFFSETS if confirm else "none")
    shared = Shared(
        dialect=RELEASE,
        config=config,
        batches=none,
        outcomes=cast(Any, outcomes),
        leaders=cast(Any, Leaders()),
        links=Links("test"),
        pins=Pins(1),
        outages=Outages(lambda level, event: None),
        completed=lambda: None,
    )
    return BrokerConnection(3, shared), outcomes


def in_flight(connection: BrokerConnection, link: BarrierLink) -> Batch:
    request, batch = produce(), Batch(TP, [])
    link.produce(request, TP)
    connection._in_flight.append(InFlight(link, request, [batch]))
    return batch


@pytest.mark.parametrize("proven", [True, False])
def test_only_a_link_that_worked_is_closed_for_what_it_was_sent(proven: bool):
    asked, outcomes = connection(confirm=True)
    _, link = wire_and_link(confirm=True)
    oldest, younger = in_flight(asked, link), in_flight(asked, link)
    if proven:
        link.receive()
    asked._lost(link, LinkLost("closed"))
    assert outcomes.suspects == ([oldest] if proven else [])
    assert outcomes.others == ([younger] if proven else [oldest, younger])
    assert outcomes.maybe == []


def test_a_link_that_may_have_lost_messages_is_closed_for_none_of_them():
    asked, outcomes = connection(confirm=False)
    _, link = wire_and_link()
    written(link, 7)
    link.receive()
    batch = in_flight(asked, link)
    asked._lost(link, LinkLost("closed"))
    assert (outcomes.suspects, outcomes.others, outcomes.maybe) == ([], [batch], [7])


def test_what_one_link_has_not_proved_no_other_one_proves():
    asked, outcomes = connection(confirm=False)
    opener = asked._opener
    (_, first), (_, second) = wire_and_link(), wire_and_link()
    opener.link = first
    written(first, 0)
    first.receive()
    first.written(7)
    assert asked.unconfirmed == 7
    asked._replaced(first)
    opener.link = second
    assert (asked.unconfirmed, outcomes.maybe) == (0, [7])
    assert (second.proven, second.barrier_due) == (False, False)
