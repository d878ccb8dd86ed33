"""An offset map that is kept in a compacted topic of the target, beside MapWriter's file: the same calls.

append   on its way, in order; the sender tries until it is stored
sync     all of it is acknowledged, within WAIT_S: else OSError, as a disk that refuses
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from groundwork.tasks import Event
from kafkawire.dialects import Dialect
from kafkawire.model import Part, Ticket, TopicPartition
from zkconsumer.offsetmap.file import MapFile
from zkconsumer.offsetmap.records import OffsetMap, Record
from zkconsumer.offsetmap.text import Header, header_line
from zkconsumer.offsetmap.topic import MAP_KEY, Slots, message_of

WAIT_S = 5.0  # a commit waits that long for the map


class TopicStorage:
    """there: the topic as it was read, and slots behind it.  submit: a sender's."""

    too_large = False  # compaction bounds it

    def __init__(
        self,
        topic: str,
        header: Header,
        there: MapFile,
        slots: Slots,
        dialect: Dialect,
        submit: Callable[[Part, Ticket], object],
    ) -> None:
        self.path = f"in topic {topic}"
        self.map: OffsetMap = there.map
        self.size = there.length
        self._tp = TopicPartition(topic, 0)
        self._slots = slots
        self._dialect = dialect
        self._submit = submit
        self._on_the_way = 0
        self._settled = Event()
        self._settled.set()
        self._failure: Exception | None = None
        if there.header is None:
            self._send([(MAP_KEY, header_line(header).rstrip("\n").encode())])

    def append(self, records: Sequence[Record]) -> None:
        """Have records stored.  Raises OSError when the topic took some no more."""
        self._raise()
        self._send([message_of(record, self._slots) for record in records])

    def sync(self) -> None:
        """All that was appended is acknowledged.  Raises OSError."""
        if not self._settled.wait(WAIT_S):
            raise TimeoutError(f"{self._on_the_way} requests are not acknowledged after {WAIT_S:g} s")
        self._raise()

    def mend(self) -> None:
        """After a refusal: see whether it takes more now."""
        self._failure = None
        self.sync()

    def cut(self, pause: Callable[[], object]) -> None:
        """Nothing to do: too_large is never true."""

    def close(self) -> None:
        """What is on its way at the end of the mirror went with its sender: it had been synced at the last commit."""

    def _send(self, messages: Sequence[tuple[bytes, bytes]]) -> None:
        rows = ((number, key, value, None) for number, (key, value) in enumerate(messages))
        entries = self._dialect.messages.encode(rows, codec=0, magic=self._dialect.magic)
        self._on_the_way += 1
        self._settled.clear()
        self._submit(Part(self._tp, entries, self._dialect.magic, 0, len(messages)), _Told(self))

    def _raise(self) -> None:
        if self._failure is not None:
            raise OSError(str(self._failure))

    def told(self, failure: Exception | None) -> None:
        """A request came to its end."""
        self._failure = failure or self._failure
        self._on_the_way -= 1
        if not self._on_the_way:
            self._settled.set()


class _Told:
    """The ticket of some records (kafkawire.model.Ticket)."""

    __slots__ = ("_writer",)

    def __init__(self, writer: TopicStorage) -> None:
        self._writer = writer

    def may_send(self) -> bool:
        return True

    def reached(self, resume_at: int) -> None:
        """They are one piece."""

    def done(self) -> None:
        self._writer.told(None)

    def failed(self, reason: Exception, resume_at: int | None) -> None:
        self._writer.told(reason)
