"""The tail of a target partition in which transactions were: what was committed, and where each message stands."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, cast

import pytest

from kafkawire.cluster.listoffsets import EARLIEST, LogOffset
from kafkawire.dialects import dialect
from kafkawire.formats.v2.read import Record
from kafkawire.model import Broker, TopicPartition
from kafkawire.protocol.apis import FETCH
from kafkawire.protocol.request import FetchedPartition
from mirrormaker.offsetmap.tail import Tail, TailReader, TailRefused, digest
from tests.kafkawire.recordbatches import ABORT, COMMIT, TRANSACTIONAL, batch, marker

TP = TopicPartition("t", 0)
HERE = Broker(0, "here", 9092)


class Log:
    """A partition as its broker shows it by read_committed.  `stable`: its last stable offset, at each fetch."""

    def __init__(
        self, end: int, data: bytes, aborted: tuple[tuple[int, int], ...] = (), stable: Sequence[int] = ()
    ) -> None:
        self.dialect = dialect("2.8")
        self.links = self
        self.end, self._data, self._aborted, self._stable = end, data, aborted, list(stable)

    def view(self, **how: object) -> None: ...
    def leader(self, tp: TopicPartition, **how: object) -> Broker:
        return HERE

    def list_offsets(self, times: dict[TopicPartition, int], **how: object) -> dict[TopicPartition, LogOffset]:
        return {tp: LogOffset(HERE, (0 if time == EARLIEST else self.end,)) for tp, time in times.items()}

    def call(self, broker: Broker, purpose: str, request: Any) -> list[FetchedPartition]:
        stable = self._stable.pop(0) if self._stable else self.end
        shown = self._data if stable == self.end else b""
        return [FetchedPartition(TP, 0, self.end, memoryview(shown), stable, 0, self._aborted)]


def tail(log: Log, begin: int) -> Tail:
    found = TailReader(cast("Any", log), quiet_s=0.01).read(TP, begin, lambda: True)
    assert found is not None
    return found


def sent(*values: bytes) -> tuple[int, ...]:
    return tuple(digest(None, value) for value in values)


def of(producer: int, first: int, *values: bytes) -> bytes:
    rows = [Record(first + n, 1000, None, value, ()) for n, value in enumerate(values)]
    return batch(rows, TRANSACTIONAL, producer=producer)


COMMITTED, LOST, LAST = of(7, 10, b"a", b"b"), of(8, 13, b"x"), of(9, 15, b"c")
WHOLE = COMMITTED + marker(12, 7, COMMIT) + LOST + marker(14, 8, ABORT) + LAST + marker(16, 9, COMMIT)


def test_marks_and_aborted_messages_are_stepped_over() -> None:
    found = tail(Log(17, WHOLE, aborted=((8, 13),)), 10)
    assert found.digests == sent(b"a", b"b", b"c")
    assert [found.offset(index) for index in range(3)] == [10, 11, 15]
    assert (found.begin, found.end, found.empty) == (10, 17, False)


def test_a_tail_of_marks_alone_is_no_message() -> None:
    found = tail(Log(17, marker(16, 9, COMMIT)), 16)
    assert (found.digests, found.end) == ((), 17)


def test_an_open_transaction_is_waited_for() -> None:
    log = Log(17, WHOLE, aborted=((8, 13),), stable=[10] * 5)
    assert tail(log, 10).digests == sent(b"a", b"b", b"c")


def test_an_offset_that_no_transaction_has_used_up_is_missing() -> None:
    with pytest.raises(TailRefused, match="offset 12 is missing in its log: a compacted topic cannot be compared"):
        tail(Log(17, COMMITTED + LAST + marker(16, 9, COMMIT)), 10)


def test_an_offset_that_a_cleaner_took_from_the_end_of_a_batch_is_missing() -> None:
    cleaned = batch([Record(10, 1000, None, b"a", ())], last=12)
    with pytest.raises(TailRefused, match="offset 11 is missing in its log: a compacted topic cannot be compared"):
        tail(Log(13, cleaned), 10)


def test_what_the_target_does_not_answer_for_is_asked_for_again_where_it_was() -> None:
    log = Log(17, WHOLE, aborted=((8, 13),))
    answered = log.call
    starts: list[int] = []

    def call(broker: Broker, purpose: str, request: Any) -> list[FetchedPartition]:
        starts.append(len(starts))
        if len(starts) < 3:  # as a broker of 2.0 or later over whose quota we are: no topics at all
            body = request.reply_body(14)
            body.feed(memoryview(struct.pack(">ihii", 5000, 0, 0, 0)))
            return cast("list[FetchedPartition]", body.result())
        return answered(broker, purpose, request)

    log.call = call  # type: ignore[method-assign]
    assert tail(log, 10).digests == sent(b"a", b"b", b"c")


def test_an_end_that_an_election_cut_is_asked_for_again() -> None:
    """The leader that had 17 died before its followers had fetched the last of it: the next one has 12."""
    log = Log(17, WHOLE, aborted=((8, 13),), stable=[10] * 3)
    answered = log.call
    fetches: list[int] = []

    def call(broker: Broker, purpose: str, request: Any) -> list[FetchedPartition]:
        asked = FETCH.decode_request(request.version, b"".join(request.buffers))
        fetches.append(asked["topics"][0]["partitions"][0]["fetch_offset"])
        assert len(fetches) < 10, f"it waits for what there is no more: {fetches}"
        if len(fetches) == 2:
            log.end, log._data, log._aborted = 12, COMMITTED, ()
        return (
            [FetchedPartition(TP, 0, 12, memoryview(b""), 12)]
            if fetches[-1] == 12
            else answered(broker, purpose, request)
        )

    log.call = call  # type: ignore[method-assign]
    found = tail(log, 10)
    assert (found.digests, found.end) == (sent(b"a", b"b"), 12)
