"""Each oracle catches its fault, and lets pass what is right."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from kafkawire.model import TopicPartition
from tests.faults.harness import oracles
from tests.faults.harness.oracles import Sample, Window
from tests.faults.harness.payload import MessageId, of_message, read, written
from tests.faults.harness.reader import Entry
from tests.faults.harness.wirelog import Claimed, Committed, Connection, Produced, WireLog

TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def log(*sequences: int, tp: TopicPartition = TP, of: int = 0) -> dict[TopicPartition, list[Entry]]:
    """A log of one partition with these messages of source partition `of`, from offset 0."""
    return {tp: [Entry(offset, MessageId("t", of, sequence)) for offset, sequence in enumerate(sequences)]}


def sample(
    at: float, committed: int | None, target_end: int = 0, source_end: int = 0, rss: int = 0, fds: int = 0
) -> Sample:
    return Sample(
        at,
        None if committed is None else {TP: committed},
        {TP: source_end},
        {TP: target_end},
        {"a": (rss, fds)} if rss else {},
    )


# ---- payloads -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 100, 400])
def test_a_payload_says_what_was_written_whatever_its_size(size: int) -> None:
    of = MessageId("some.topic-1", 3, 42)
    data = written("run7", of, 1234, size)
    assert len(data) >= size
    found = read(data)
    assert found is not None
    assert (found.run, found.id, found.sent_ms, found.intact) == ("run7", of, 1234, True)
    assert of_message(None, data) == of_message(data, None) == of_message(b"key", data) == found


def test_a_changed_byte_makes_a_payload_damaged_and_other_bytes_are_none() -> None:
    data = written("run7", MessageId("t", 0, 1), 1234, 200)
    changed = read(data[:-20] + b"!" + data[-19:])
    assert changed is not None
    assert not changed.intact
    cut = read(data[:-1])
    assert cut is not None
    assert not cut.intact
    for foreign in (None, b"", b"hello", b"a b c d e f", b"\xff \xff 1 2 3 x"):
        assert read(foreign) is None


# ---- logs -----------------------------------------------------------------------------------------------------------


def test_lost_is_what_the_target_does_not_hold() -> None:
    assert oracles.lost(log(0, 1, 2), log(0, 1, 2)) == []
    assert oracles.lost(log(0, 1, 2), log(0, 2)) == [(TP, 1)]
    assert oracles.lost(log(0, 1, 1, 2), log(0, 1, 2)) == []  # sent twice to the source, once is enough
    assert oracles.lost(log(0, 1), log(0, 1, tp=OTHER)) == []  # wherever it lies
    assert oracles.lost(log(0, 1), {}) == [(TP, 0), (TP, 1)]


def test_phantoms_are_what_the_source_does_not_hold() -> None:
    assert oracles.phantoms(log(0, 1), log(0, 1, 1)) == []
    assert oracles.phantoms(log(0, 1), log(0, 7)) == [(TP, 1)]
    assert oracles.phantoms(log(0), {TP: [Entry(0, None)]}) == [(TP, 0)]


def test_damaged_is_what_does_not_have_its_checksum() -> None:
    assert oracles.damaged(log(0, 1)) == []
    assert oracles.damaged({TP: [Entry(0, MessageId("t", 0, 0)), Entry(1, MessageId("t", 0, 1), intact=False)]}) == [
        (TP, 1)
    ]


def test_duplicates_are_counted_as_ranges_and_must_lie_in_a_window() -> None:
    source, target = log(*range(10)), log(0, 1, 2, 3, 4, 2, 3, 4, 5, 6, 7, 8, 9)
    found = oracles.repeated(source, target, [Window({TP: 2}, {TP: 5})])
    assert (found.count, found.ranges, found.outside) == (3, ((TP, 2, 4),), ())
    # Committed already at the fault:
    assert oracles.repeated(source, target, [Window({TP: 3}, {TP: 5})]).outside == ((TP, 2),)
    # Sent for the first time after it:
    assert oracles.repeated(source, target, [Window({TP: 2}, {TP: 4})]).outside == ((TP, 4),)
    assert len(oracles.repeated(source, target, []).outside) == 3


def test_a_window_allows_each_message_once_more_and_what_the_source_has_twice_is_no_duplicate() -> None:
    window = Window({TP: 0}, {TP: 9})
    assert oracles.repeated(log(0, 1), log(0, 1, 1, 1), [window]).outside == ((TP, 1),)
    assert oracles.repeated(log(0, 1), log(0, 1, 1, 1), [window, window]).outside == ()
    assert oracles.repeated(log(0, 1, 1), log(0, 1, 1), []).count == 0


def test_what_is_sent_again_is_foretold_from_what_was_committed_and_what_was_there() -> None:
    source, target = log(*range(6)), log(0, 1, 2, 3, 1, 2, 3, 4, 5)
    assert oracles.predicted(source, target, Window({TP: 1}, {TP: 4})) == 3
    assert oracles.predicted(source, target, Window({}, {TP: 4})) == 4
    assert oracles.predicted(source, target, Window({TP: 4}, {TP: 4})) == 0


def test_order_is_that_of_first_appearances_of_a_source_partition() -> None:
    source = log(*range(5))
    assert oracles.inversions(source, log(0, 1, 2, 1, 2, 3, 4)) == []  # repeated, in order
    assert oracles.inversions(source, log(0, 2, 1, 3, 4)) == [(TP, 2)]
    two = {**log(0, 1), **log(0, 1, tp=OTHER, of=1)}
    mixed = {TP: [Entry(n, MessageId("t", of, s)) for n, (of, s) in enumerate([(1, 0), (0, 0), (1, 1), (0, 1)])]}
    assert oracles.inversions(two, mixed) == []  # of several partitions in one


# ---- commits --------------------------------------------------------------------------------------------------------


def test_a_commit_is_unsafe_while_something_below_it_is_not_at_the_target() -> None:
    source, target = log(*range(4)), log(0, 1, 2, 3)
    assert oracles.unsafe_commits(source, target, [sample(1, 2, 2), sample(2, 4, 4), sample(3, None, 0)]) == []
    assert oracles.unsafe_commits(source, target, [sample(1, 3, 2)]) == [(1, TP, 3)]
    # A later message was there, an earlier one was not:
    assert oracles.unsafe_commits(source, log(1, 2, 0, 3), [sample(1, 1, 2)]) == [(1, TP, 1)]
    # It never came:
    assert oracles.unsafe_commits(source, log(0, 2, 3), [sample(1, 2, 3)]) == [(1, TP, 2)]
    assert oracles.unsafe_commits(source, log(0, 2, 3), [sample(1, 1, 3)]) == []


def test_the_target_partition_of_each_message_counts() -> None:
    target = {TP: [Entry(0, MessageId("t", 0, 0))], OTHER: [Entry(0, MessageId("t", 0, 1))]}
    ends = {TP: 1, OTHER: 0}
    assert oracles.unsafe_commits(log(0, 1), target, [Sample(1, {TP: 2}, {}, ends)]) == [(1, TP, 2)]
    assert oracles.unsafe_commits(log(0, 1), target, [Sample(1, {TP: 2}, {}, {TP: 1, OTHER: 1})]) == []


def test_a_commit_that_goes_back_is_found() -> None:
    assert oracles.decreases([sample(1, 5), sample(2, None), sample(3, 5), sample(4, 8)]) == []
    assert oracles.decreases([sample(1, 5), sample(2, None), sample(3, 4)]) == [(3, TP, 5, 4)]


# ---- requests -------------------------------------------------------------------------------------------------------


def connection(name: str, number: int = 1) -> Connection:
    return Connection(number, 0.0, "server", name)


def produced(*rows: tuple[float, str]) -> Sequence[Produced]:
    return [Produced(at, connection(name), (TP,)) for at, name in rows]


def claimed(*rows: tuple[float, str]) -> Sequence[Claimed]:
    return [Claimed(at, connection(name), "g", TP) for at, name in rows]


def test_two_producers_of_a_partition_overlap_unless_the_first_claimed_it_again() -> None:
    assert oracles.overlap_s(produced((1, "a"), (2, "a"), (3, "b"), (4, "b")), []) == 0
    assert oracles.overlap_s(produced((1, "a"), (3, "b"), (4.5, "a"), (5, "b")), []) == 1.5
    assert oracles.overlap_s(produced((1, "a"), (3, "b"), (4.5, "a"), (5, "a")), claimed((4, "a"))) == 0
    assert oracles.overlap_s(produced((1, "a"), (3, "b"), (4.5, "a")), claimed((2, "a"), (4, "b"))) == 1.5


def test_recovery_is_the_first_request_after_the_fault_by_a_living_connection() -> None:
    requests = [Produced(at, connection("a", number), (TP,)) for at, number in ((1, 7), (2.5, 7), (4, 8))]
    assert oracles.recovery_s(requests, 2, [TP]) == {TP: 0.5}
    assert oracles.recovery_s(requests, 2, [TP, OTHER], not_by=[7]) == {TP: 2, OTHER: None}


def test_a_pause_is_the_longest_time_without_a_request_of_a_partition() -> None:
    requests = produced((1, "a"), (2, "a"), (5, "a"), (6, "a"))
    assert oracles.longest_pause_s(requests, 1, 6, [TP]) == 3
    assert oracles.longest_pause_s(requests, 1, 9, [TP]) == 3
    assert oracles.longest_pause_s(requests, 1, 12, [TP]) == 6
    assert oracles.longest_pause_s(requests, 1, 6, [OTHER]) == 5


def test_catching_up_and_growth_are_read_from_samples() -> None:
    samples = [sample(1, 10, source_end=10, rss=100, fds=5), sample(2, 10, source_end=90, rss=300, fds=9)]
    samples += [sample(3, None, source_end=95), sample(5, 85, source_end=100, rss=150, fds=4)]
    assert oracles.catch_up_s(samples, 1.5, 20) == 3.5
    assert oracles.catch_up_s(samples, 1.5, 5) is None
    assert oracles.growth(samples, 2) == (200, 4)
    assert oracles.growth(samples, 0) == (0, 0)  # nothing to compare with


def test_commits_of_a_connection_between_two_times_are_counted() -> None:
    rows = [Committed(at, connection("a", number), "g", TP, 5) for at, number in ((1, 1), (2, 1), (2, 2), (3, 1))]
    assert oracles.commits_between(rows, 1.5, 3, {1}) == 2
    assert oracles.commits_between(rows, 1.5, 2.5, {3}) == 0


# ---- the log of the wire --------------------------------------------------------------------------------------------


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def text(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_produce_requests_are_read_from_bytes_in_pieces(piece: int) -> None:
    head = struct.pack(">hhih", 0, 0, 1, 3) + b"f3a" + struct.pack(">hi", -1, 1000)
    partitions = struct.pack(">iii", 2, 0, 5) + b"bytes" + struct.pack(">ii", 1, 0)
    request = head + struct.pack(">ih", 1, 1) + b"t" + partitions
    fetch = struct.pack(">hhih", 1, 0, 2, 3) + b"f3a" + b"whatever"
    wire = WireLog()
    tap = wire.broker("broker 0")()
    sent = memoryview(framed(fetch) + framed(request) + framed(request))
    for at in range(0, len(sent), piece):
        tap(sent[at : at + piece])
    assert [(each.by.name, each.partitions) for each in wire.produced] == [("f3a", (TP, OTHER))] * 2
    assert len({each.by.number for each in wire.produced}) == 1
    assert wire.unread == []
    wire.broker("broker 0")()(memoryview(framed(request[:-4])))
    assert len(wire.unread) == 1


def test_claims_and_commits_are_read_and_the_first_frame_of_a_session_is_not() -> None:
    def asked(kind: int, path: bytes, data: bytes) -> bytes:
        return framed(struct.pack(">ii", 1, kind) + text(path) + text(data) + struct.pack(">i", 3))

    wire = WireLog()
    tap = wire.zookeeper("server", "f3-a")()
    commit = asked(5, b"/source/consumers/g/offsets/t/0", b"17")
    tap(memoryview(framed(struct.pack(">iqiq", 0, 0, 6000, 77) + text(b"secret"))))
    assert wire.sessions == {"f3-a": (77, b"secret")}
    tap(memoryview(asked(1, b"/source/consumers/g/owners/t/0", b"me-0") + commit))
    tap(memoryview(asked(5, b"/source/consumers/g/modes", b"17") + asked(1, b"/source/consumers/g/ids/me", b"{}")))
    assert [(each.group, each.tp, each.by.name) for each in wire.claimed] == [("g", TP, "f3-a")]
    assert [(each.group, each.tp, each.offset) for each in wire.committed] == [("g", TP, 17)]
