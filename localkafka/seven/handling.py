"""Handler of 0.7 requests: bytes in, responses out.  Uses logs, but no socket.

    request    type:int16, then by type (server.py reads the frame's size)
      0 produce        topic partition:int32 size:int32 set            no response
      1 fetch          topic partition:int32 position:int64 max:int32  size:int32 error:int16 set
      2 multi-fetch    count:int16, each as in fetch                   size error=0, then each response as of fetch
      3 multi-produce  count:int16, each as in produce                 no response
      4 offsets        topic partition:int32 time:int64 max:int32      size error=0 count:int32 positions:int64

A fetch has error codes; any other error closes the connection without a response (Refused). Source:
kafka.server.KafkaRequestHandlers and kafka.api of 0.7.2.
"""

from __future__ import annotations

import logging
import os
import struct
from dataclasses import dataclass
from typing import NoReturn

from localkafka.seven import entries
from localkafka.seven.entries import Refused, TooLarge
from localkafka.seven.log import OutOfRange
from localkafka.seven.logs import IllegalTopic, Logs, WrongPartition
from localkafka.seven.settings import Settings

PRODUCE, FETCH, MULTIFETCH, MULTIPRODUCE, OFFSETS = range(5)
UNKNOWN, NO_ERROR, OUT_OF_RANGE, WRONG_PARTITION = -1, 0, 1, 3

INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")
INT64 = struct.Struct(">q")
HEAD = struct.Struct(">ih")  # size of the rest, error


@dataclass(frozen=True, slots=True)
class Answer:
    """A response.  closes: it is broken, and the connection is closed after it."""

    data: bytes
    closes: bool = False


@dataclass(frozen=True, slots=True)
class Produced:
    topic: str
    partition: int
    data: memoryview


@dataclass(frozen=True, slots=True)
class Wanted:
    topic: str
    partition: int
    position: int
    size: int


class Handler:
    """Handles the requests of all connections, one after another.

    .dropped   number of sets that were dropped silently for their size
    """

    def __init__(self, settings: Settings, logs: Logs) -> None:
        self._settings = settings
        self._logs = logs
        self.dropped = 0

    def answer(self, request: memoryview) -> Answer | None:
        """Return the response to a request, None if it has none.  Raises Refused."""
        reader = _Reader(request)
        kind = reader.number(INT16)
        if kind == PRODUCE:
            self._produce([_produced(reader)])
            return None
        if kind == MULTIPRODUCE:
            self._produce([_produced(reader) for _ in range(reader.count())])
            return None
        if kind == FETCH:
            return self._fetch(_wanted(reader))
        if kind == MULTIFETCH:
            return self._multifetch([_wanted(reader) for _ in range(reader.count())])
        if kind == OFFSETS:
            return self._offsets(reader)
        raise Refused(f"no mapping found for handler id {kind}")

    def _produce(self, parts: list[Produced]) -> None:
        """Append each set; stop at the first refused one, and keep those before it."""
        behaviour, largest = self._settings.behaviour, self._settings.max_message_size
        for part in parts:
            partition = self._logs.chosen(part.topic) if part.partition == -1 else part.partition
            try:
                log = self._logs.existing_or_new(part.topic, partition)  # created, even if the set is refused
                size, messages = entries.checked(part.data, largest, behaviour.codecs)
            except TooLarge:
                self.dropped += 1
                continue
            except (IllegalTopic, WrongPartition) as error:
                raise Refused(str(error)) from error
            try:
                log.append(part.data[:size], messages)
            except OSError as error:
                _halt(f"{part.topic}/{partition}: {error}")

    def _fetch(self, wanted: Wanted) -> Answer:
        try:
            log = self._logs.existing(wanted.topic, wanted.partition)
            promised, data = (0, b"") if log is None else log.read(wanted.position, wanted.size)
        except IllegalTopic:
            return Answer(HEAD.pack(2, UNKNOWN))
        except WrongPartition:
            return Answer(HEAD.pack(2, WRONG_PARTITION))
        except OutOfRange:
            return Answer(HEAD.pack(2, OUT_OF_RANGE))
        return Answer(HEAD.pack(promised + 2, NO_ERROR) + data, closes=promised < 0)

    def _multifetch(self, wanted: list[Wanted]) -> Answer:
        answers = [self._fetch(one) for one in wanted]
        size = sum(_promised(answer) for answer in answers)
        broken = next((n for n, answer in enumerate(answers, 1) if answer.closes), None)
        sent = b"".join(answer.data for answer in answers[:broken])
        return Answer(HEAD.pack(2 + size, NO_ERROR) + sent, closes=broken is not None)

    def _offsets(self, reader: _Reader) -> Answer:
        topic, partition = reader.text(), reader.number(INT32)
        time_ms, most = reader.number(INT64), reader.number(INT32)
        try:
            log = self._logs.existing(topic, partition)
        except (IllegalTopic, WrongPartition) as error:
            raise Refused(str(error)) from error
        found = self._logs.empty_offsets(time_ms) if log is None else log.offsets_before(time_ms, most)
        data = INT32.pack(len(found)) + b"".join(map(INT64.pack, found))
        return Answer(HEAD.pack(2 + len(data), NO_ERROR) + data)


def _halt(why: str) -> NoReturn:
    """Exit: after a failed write to a log the broker must not continue to serve, nor write the clean-shutdown file."""
    logging.getLogger(__name__).error("Halting due to unrecoverable I/O error while handling producer request: %s", why)
    os._exit(1)


def _promised(answer: Answer) -> int:
    """Return the bytes of one response in a multi-fetch: its size field, and the size in it."""
    return INT32.size + int(INT32.unpack_from(answer.data)[0])


def _produced(reader: _Reader) -> Produced:
    return Produced(reader.text(), reader.number(INT32), reader.bytes(reader.number(INT32)))


def _wanted(reader: _Reader) -> Wanted:
    return Wanted(reader.text(), reader.number(INT32), reader.number(INT64), reader.number(INT32))


class _Reader:
    """Reader of a request's fields; bytes after the last field are ignored.  Raises Refused if it is truncated."""

    def __init__(self, request: memoryview) -> None:
        self._request = request
        self._at = 0

    def number(self, kind: struct.Struct) -> int:
        return int(kind.unpack(self.bytes(kind.size))[0])

    def count(self) -> int:
        count = self.number(INT16)
        if count < 0:
            raise Refused(f"a request of {count} parts")
        return count

    def text(self) -> str:
        size = self.number(INT16)
        if size < 0:
            raise Refused("a topic that is null")
        return str(self.bytes(size), "utf-8", "replace")

    def bytes(self, size: int) -> memoryview:
        if size < 0 or self._at + size > len(self._request):
            raise Refused(f"a request of {len(self._request)} bytes wants {size} bytes at {self._at}")
        self._at += size
        return self._request[self._at - size : self._at]
