"""What the simulated network does to PlainTransport, whose time-outs are the product's own."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from gevent.greenlet import Greenlet

from kafkawire.net.transport import PlainTransport
from tests.simulation import virtual
from tests.simulation.network import Network, Path, Wire
from tests.simulation.process import Process, Timeline

ADDRESS = ("broker", 9092)


class Echo:
    """A broker that sends back what it gets."""

    def __init__(self, world: Small, wire: Wire) -> None:
        self.world, self.wire = world, wire
        world.echoes.append(self)
        self.got = b""
        self.gone = False

    def received(self, data: bytes) -> None:
        self.got += data
        if self.world.answers:
            self.wire.send(data)

    def closed(self) -> None:
        self.gone = True


class Small:
    """One process, one broker."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        virtual.running(self.timeline, Random(7))
        self.network = Network(self.timeline, Random(7))
        self.errors: list[BaseException] = []
        self.process = Process("p", self.timeline, self.errors.append)
        self.echoes: list[Echo] = []
        self.answers = True
        self.network.listen(ADDRESS, lambda wire: Echo(self, wire))
        self.said: list[object] = []

    @property
    def path(self) -> Path:
        return self.network.path("p", ADDRESS)

    def run(self, fn: Callable[[], object], seconds: float = 100.0) -> list[object]:
        """What fn() returned or raised, in the process, and when."""

        def kept() -> None:
            began = self.timeline.now
            try:
                found = fn()
            except OSError as e:
                found = type(e).__name__
            self.said += [found, round(self.timeline.now - began, 1)]

        self.process.after(0.0, lambda: Greenlet(kept).start())
        self.timeline.run_until(self.timeline.now + seconds)
        assert not self.errors, self.errors
        said, self.said = self.said, []
        return said

    def open(self, timeout_s: float = 5.0) -> PlainTransport:
        return PlainTransport(self.network.connect(self.process, ADDRESS, timeout_s), timeout_s)

    def ask(self, opened: PlainTransport, data: bytes = b"hello") -> bytes:
        opened.send_all([data])
        place = bytearray(len(data))
        at = 0
        while at < len(data):
            count = opened.receive_into(memoryview(place)[at:], len(data) - at)
            if not count:
                raise EOFError
            at += count
        return bytes(place)

    def opened(self) -> PlainTransport:
        made: list[Any] = []
        self.run(lambda: made.append(self.open()), 1.0)
        return made[0]  # type: ignore[no-any-return]


def test_what_is_sent_arrives() -> None:
    world = Small()
    big = bytes(range(256)) * 4096  # more than the other side takes at once
    assert world.run(lambda: world.ask(world.open(), big)) == [big, 0.0]
    world.path.torn = True
    assert world.run(lambda: world.ask(world.open(), big)) == [big, 0.0]


def test_a_broker_that_does_not_answer_is_given_up_after_the_time_out() -> None:
    world = Small()
    world.answers = False
    assert world.run(lambda: world.ask(world.open(5.0))) == ["TimeoutError", 5.0]


def test_refused_and_silent_connects() -> None:
    world = Small()
    world.path.refusing = True
    assert world.run(world.open) == ["ConnectionRefusedError", 0.0]
    world.path.refusing, world.path.silent = False, True
    assert world.run(world.open) == ["TimeoutError", 5.0]
    world.timeline.after(2.0, world.path.heal)
    assert world.run(lambda: world.ask(world.open())) == [b"hello", 3.0], "the third SYN comes after 3 s"


def test_what_is_sent_into_a_cut_arrives_when_it_is_healed() -> None:
    world = Small()
    opened = world.opened()
    world.path.cut = True
    world.timeline.after(3.0, world.path.heal)
    (found, took) = world.run(lambda: world.ask(opened))
    assert found == b"hello"
    assert isinstance(took, float)
    assert 3.0 <= took < 4.0


def test_what_a_closed_connection_had_sent_still_arrives() -> None:
    """A late copy: the client has given up, connected again and sent its request again meanwhile."""
    world = Small()
    opened = world.opened()
    world.path.cut = True
    assert world.run(lambda: world.ask(opened))[0] == "TimeoutError"
    assert world.run(opened.close, 1.0) == [None, 0.0]
    assert world.echoes[0].got == b""
    world.path.heal()
    world.timeline.run_until(world.timeline.now + 1.0)
    assert world.echoes[0].got == b"hello"
    assert world.echoes[0].gone


def test_a_frame_that_is_cut_off_and_an_answer_that_is_lost() -> None:
    world = Small()
    opened = world.opened()
    world.path.cut_frame(0.5)
    assert world.run(lambda: world.ask(opened))[0] == "ConnectionResetError"
    assert world.echoes[0].got == b"he"
    again = world.opened()
    world.path.lose_answer()
    assert world.run(lambda: world.ask(again))[0] == "ConnectionResetError"
    assert world.echoes[1].got == b"hello", "it was carried out"


def test_of_a_half_open_connection_the_broker_never_learns() -> None:
    world = Small()
    opened = world.opened()
    world.path.half_open()
    assert world.run(lambda: world.ask(opened)) == ["TimeoutError", 5.0]
    world.run(opened.close)
    assert not world.echoes[0].gone


def test_a_slow_reader_takes_what_is_sent_as_slowly_as_it_reads() -> None:
    world = Small()
    opened = world.opened()
    world.path.bytes_per_s = 100_000
    world.answers = False
    (found, took) = world.run(lambda: opened.send_all([bytes(1_000_000)]))
    assert found is None
    assert isinstance(took, float)
    assert 6.0 < took < 8.0, "all but what its buffer holds"


def test_the_broker_ends_a_connection_and_a_killed_process_does() -> None:
    world = Small()
    opened = world.opened()
    world.echoes[0].wire.close()
    world.timeline.run_until(world.timeline.now + 1.0)
    assert opened.ended()
    assert world.run(lambda: opened.receive_into(memoryview(bytearray(5)))) == [0, 0.0]
    world.run(opened.close)
    world.opened()
    world.process.kill()
    world.network.gone(world.process)
    world.timeline.run_until(world.timeline.now + 1.0)
    assert world.echoes[1].gone


def test_a_frozen_process_finds_what_arrived_although_its_time_out_is_over() -> None:
    world = Small()
    opened = world.opened()
    world.timeline.after(0.0001, world.process.freeze)
    world.timeline.after(20.0, world.process.thaw)
    assert world.run(lambda: world.ask(opened))[0] == b"hello"
