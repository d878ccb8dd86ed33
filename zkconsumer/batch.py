"""Many messages at once: what one fetched set of one partition holds, as columns.

    for batch in stream.batches():
        for offset, value in zip(batch.offsets, batch.values): ...

Row i is one message: offsets[i], keys[i], values[i], timestamps_ms[i].  A column is made into a list when it is first
asked for, and those nobody asks for cost nothing.
"""

from __future__ import annotations

from kafkawire.columns import Columns
from kafkawire.model import PartitionId, TopicPartition
from zkconsumer.progress import ShareTicket


class Batch:
    """One or more messages of one partition, in order.  Done when the next batch is asked for, or at ack().

    resume_at is where the next one begins: the position to commit once all of it is done.
    """

    __slots__ = ("_columns", "_keys", "_offsets", "_ticket", "_timestamps_ms", "_values", "resume_at", "tp")

    def __init__(self, tp: TopicPartition, columns: Columns, resume_at: int, ticket: ShareTicket) -> None:
        self.tp = tp
        self.resume_at = resume_at
        self._columns = columns
        self._ticket = ticket
        self._offsets: list[int] | None = None
        self._keys: list[bytes | None] | None = None
        self._values: list[bytes | None] | None = None
        self._timestamps_ms: list[int | None] | None = None

    @property
    def topic(self) -> str:
        return self.tp.topic

    @property
    def partition(self) -> PartitionId:
        return self.tp.partition

    @property
    def offsets(self) -> list[int]:
        if self._offsets is None:
            self._offsets = list(self._columns.offsets)
        return self._offsets

    @property
    def keys(self) -> list[bytes | None]:
        if self._keys is None:
            self._keys = self._columns.keys()
        return self._keys

    @property
    def values(self) -> list[bytes | None]:
        if self._values is None:
            self._values = self._columns.values()
        return self._values

    @property
    def timestamps_ms(self) -> list[int | None]:
        """Milliseconds since 1970; None where the stored format has no time (0.8 and 0.9)."""
        if self._timestamps_ms is None:
            stamps = self._columns.timestamps_ms
            self._timestamps_ms = [None] * len(self) if stamps is None else [ms if ms >= 0 else None for ms in stamps]
        return self._timestamps_ms

    def __len__(self) -> int:
        return len(self._columns)

    def ack(self) -> None:
        """All of it is done.  From any thread; a second time changes nothing."""
        self._ticket.done()

    def __repr__(self) -> str:
        return f"<Batch {self.tp} ..{self.resume_at}, {len(self)} messages>"
