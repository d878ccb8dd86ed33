"""Messages that a target refuses for what they are: only they fail, named, and all before them is stored.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from kafkawire.dialects import dialect
from kafkawire.errors import BrokerError, CorruptMessage, LibraryMissing
from kafkawire.model import Broker, MessageSet, Part, ProducerId, TopicPartition
from kafkawire.protocol.request import ProducedPartition
from producer.batches import Batch, Batches, Limits
from producer.errors import RecordRefused
from producer.outcomes import Outcomes, Patience
from producer.sequences import Sequences
from tests.fakes.tickets import Ticket

TP = TopicPartition("t", 0)
BROKER = Broker(1, "h", 9092)
FIRST = 100  # offset of the first message in the source
LATE_MS = 4_102_444_800_000  # 2100-01-01
KEYLESS = "Compacted topic cannot accept message without key in topic partition t-0."
V01, V2 = dialect("0.8.2"), dialect("3.9")


class Target:
    """A broker that refuses whole sets for messages without a key, or of a time that is to come, and takes the rest.

    names: it says which records of a batch it refuses, as from 2.5 on.
    """

    def __init__(self, code: int, *, names: bool = True, transactional: bool = False) -> None:
        self.code, self.names = code, names
        self.spoken = V2 if names or code == 87 else V01
        self.stored: list[bytes] = []
        self.requests = 0
        self.batches = Batches(Limits())
        self.sequences = Sequences(lambda: None, transactional=transactional)
        self.sequences.renew(ProducerId(7, 0))
        self.sequences.added({TP})
        self.outcomes = Outcomes(
            self.batches, Patience(), self.spoken.messages, lambda level, said: None, sequences=self.sequences
        )
        self._numbers: list[int] = []

    def send(
        self, *rows: tuple[bytes | None, bytes, int | None], codec: int = 0, origins: tuple[Sequence[int], ...] = ()
    ) -> Ticket:
        """Send one part, until it is done or has failed.  rows: key, value, time.  origins: it is made of messages with
        other offsets, and only all of it has a position."""
        ticket, numbered = Ticket(), [(FIRST + n, *row) for n, row in enumerate(rows)]
        entries = self.spoken.messages.encode(numbered, codec=codec, magic=self.spoken.magic)
        end = None if origins else FIRST + len(rows)
        part = Part(TP, entries, self.spoken.magic, codec, len(rows), end, origins=origins)
        self.batches.add(part, ticket, 0.0)
        now = 0.0
        while self.batches:
            now += 100
            (batch,) = self.batches.due(now, lambda tp: True)
            assert self.sequences.seal(batch)
            self.outcomes.answered(batch, self.answer(batch), BROKER, now)
            self.requests += 1
        return ticket

    def answer(self, batch: Batch) -> ProducedPartition:
        data = b"".join(bytes(each) for each in batch.buffers())
        found: MessageSet = self.spoken.messages.message_set("t", 0, 0, memoryview(data), None)[0]
        messages = list(found.messages())
        bad = [n for n, one in enumerate(messages) if one.key is None or one.timestamp_ms == LATE_MS]
        if not bad:
            self._follows(batch)
            self.stored += [one.value or b"" for one in messages]
            return ProducedPartition(0, len(self.stored) - len(messages), version=8)
        said = KEYLESS if self.code == 87 else "Timestamp is out of range"
        why = ("One or more records have been rejected", tuple((n, said) for n in bad)) if self.names else ("", ())
        return ProducedPartition(self.code, -1, *why, version=8)

    def _follows(self, batch: Batch) -> None:
        """The numbers of what is stored leave no gap, though batches between were refused."""
        seal = batch.pieces[0].seal
        if seal is not None:
            assert seal.producer == ProducerId(7, 0)
            assert seal.sequence == len(self.stored)


def rows(count: int, bad: int, code: int) -> list[tuple[bytes | None, bytes, int | None]]:
    found: list[tuple[bytes | None, bytes, int | None]] = [(b"k", b"%d" % n, 1_000 + n) for n in range(count)]
    found[bad] = (b"k", b"late", LATE_MS) if code == 32 else (None, b"keyless", 1_000)
    return found


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("bad", [0, 1, 500, 999])
@pytest.mark.parametrize("code", [32, 87])
def test_a_record_that_a_response_names_is_found_in_three_requests(code: int, bad: int, transactional: bool) -> None:
    target = Target(code, transactional=transactional)
    ticket = target.send(*rows(1000, bad, code))
    assert target.stored == [b"%d" % n for n in range(bad)]
    assert target.requests == (3 if bad else 2)
    *reached, (what, reason, at) = ticket.told
    assert (what, type(reason)) == ("failed", RecordRefused)
    assert reached == ([("reached", FIRST + bad)] if bad else [])
    assert at == (FIRST + bad if bad else None)
    assert not target.sequences.broken
    assert not target.sequences.renewals


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize(("code", "names"), [(2, False), (87, False), (32, False)])
def test_without_that_halves_find_it(code: int, names: bool, codec: int) -> None:
    target = Target(code, names=names)
    if code == 32 and not target.spoken.record_batches:
        target.spoken = dialect("0.10.0")
    ticket = target.send(*rows(64, 40, code), codec=codec)
    assert target.stored == [b"%d" % n for n in range(40)]
    assert target.requests <= 5 + 2 * 6
    assert ticket.told[-2:] == [("reached", FIRST + 40), ("failed", ticket.told[-1][1], FIRST + 40)]


@pytest.mark.parametrize(
    ("code", "names", "sentence"),
    [
        (
            87,
            True,
            "t/0 on broker 1 (h:9092): InvalidRecord (87): One or more records have been rejected; record 0: "
            f"{KEYLESS}; the message has no key, which a compacted topic (cleanup.policy) requires; it is whole "
            "(source offset 102)",
        ),
        (
            2,
            False,
            "t/0 on broker 1 (h:9092): CorruptMessage (2): the message has no key, which a compacted topic "
            "(cleanup.policy) requires; it is whole (source offset 102)",
        ),
        (
            32,
            True,
            "t/0 on broker 1 (h:9092): InvalidTimestamp (32): the timestamp of the message is "
            "2100-01-01T00:00:00.000Z, which the topic does not accept (message.timestamp.after.max.ms and "
            ".before.max.ms, before 3.6 message.timestamp.difference.max.ms); it is whole "
            "(source offset 102)",
        ),
    ],
)
def test_the_sentence_names_the_message_and_what_is_refused_of_it(code: int, names: bool, sentence: str) -> None:
    reason = Target(code, names=names).send(*rows(5, 2, code)).told[-1][1]
    assert str(reason) == sentence


def test_what_nobody_explains_stays_what_the_broker_said() -> None:
    target = Target(-1, names=False)
    ticket = target.send((b"k", b"0", None), (None, b"1", None))
    assert target.stored == [b"0"]
    reason = ticket.told[-1][1]
    assert type(reason) is BrokerError
    assert ticket.told[-1][2] == FIRST + 1


@pytest.mark.parametrize("names", [True, False])
def test_messages_in_other_entries_keep_the_offsets_that_they_have_in_the_source(names: bool) -> None:
    """Of a compacted source, and of two sets."""
    ticket = Target(87, names=names).send(*rows(6, 4, 87), origins=(range(1000, 1030, 10), [2000, 2007, 2009]))
    what, reason, at = ticket.told[-1]
    assert (what, at) == ("failed", 2007)
    assert "(source offset 2007)" in str(reason)
    assert ticket.told[-2] == ("reached", 2007)


def test_messages_that_share_an_offset_reach_nothing_before_the_end_of_all() -> None:
    target = Target(87)
    ticket = target.send(*rows(4, 2, 87), origins=([500, 500, 500, 700],))
    assert target.stored == [b"0", b"1"]
    assert [what[0] for what in ticket.told] == ["failed"]
    assert ticket.told[-1][2] is None


@pytest.mark.parametrize("error", [LibraryMissing("zstd: not installed"), CorruptMessage("does not open", 0)])
def test_a_set_that_cannot_be_opened_here_fails_as_a_whole_and_says_why(error: Exception) -> None:
    target = Target(87)

    def split(part: Part, first: int | None = None) -> list[Part]:
        raise error

    target.outcomes._messages = SimpleNamespace(split=split)  # type: ignore[assignment]
    ticket = target.send(*rows(4, 2, 87))
    assert target.stored == []
    assert ticket.told[-1][0] == "failed"
    assert f"one of 4 messages is refused (InvalidRecord): {error}, found when splitting it" in str(ticket.told[-1][1])


@pytest.mark.parametrize("place", [5, 7, 999])
def test_a_place_that_no_record_has_does_not_stop_the_search(place: int) -> None:
    target = Target(87)
    answered = target.answer

    def wrong(batch: Batch) -> ProducedPartition:
        found = answered(batch)
        return found if found.stored else ProducedPartition(87, -1, "", ((place, ""),), version=8)

    target.answer = wrong  # type: ignore[method-assign]
    target.send(*rows(8, 3, 87))
    assert target.stored == [b"0", b"1", b"2"]
