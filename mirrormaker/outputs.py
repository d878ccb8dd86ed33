"""Outputs: what a handler wants sent for neighbouring messages of a source partition, as columns.  Pure.

Both forms of handlers give them, and the routes of the target topics take them: encoders, partitioners and message
formats then see many messages at a time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import NamedTuple

from kafkawire.model import PartitionId, TopicPartition
from producer.conversion import Lists, Output, Rows


class Outputs(NamedTuple):
    """Messages to send, as columns of equal length.  resume_at: of the source, once all of them are stored.

    offsets: of the messages they come from, ascending.  headers: their blocks; topics, partitions: where they are to
    go; None, for all or for a row: no headers, the source topic's own target, chosen as for any other message.
    letters: beside them, records that go as they are; each with the offset of the message it stands for.
    """

    offsets: Sequence[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps_ms: list[int | None]
    resume_at: int
    headers: list[bytes | None] | None = None
    topics: Sequence[str | None] | None = None
    partitions: Sequence[PartitionId | None] | None = None
    letters: tuple[tuple[int, Output], ...] = ()

    def before(self, offset: int) -> Outputs:
        """Those of messages with a smaller offset."""
        letters = tuple(one for one in self.letters if one[0] < offset)
        return self._part(slice(bisect_left(self.offsets, offset)), offset, letters)

    def since(self, offset: int) -> Outputs:
        """Those of messages from an offset on."""
        letters = tuple(one for one in self.letters if one[0] >= offset)
        return self._part(slice(bisect_left(self.offsets, offset), None), self.resume_at, letters)

    def _part(self, rows: slice, resume_at: int, letters: tuple[tuple[int, Output], ...]) -> Outputs:
        return Outputs(
            self.offsets[rows],
            self.keys[rows],
            self.values[rows],
            self.timestamps_ms[rows],
            resume_at,
            None if self.headers is None else self.headers[rows],
            None if self.topics is None else self.topics[rows],
            None if self.partitions is None else self.partitions[rows],
            letters,
        )

    def middle(self) -> int | None:
        """An offset near the middle, at which they can be cut in two; None: they share one."""
        if not self.offsets:
            return None
        first, middle = self.offsets[0], self.offsets[len(self.offsets) // 2]
        if middle > first:
            return middle
        after = bisect_right(self.offsets, first)
        return self.offsets[after] if after < len(self.offsets) else None

    def by_topic(self) -> Iterator[tuple[str | None, Rows, Sequence[PartitionId | None] | None]]:
        """The rows for each target topic, and the partitions chosen for them, if any are.  None: the source topic's
        own."""
        if self.topics is None:
            columns = self.offsets, self.keys, self.values, self.timestamps_ms
            yield None, Rows(*columns, self.resume_at, self.headers), self.partitions
            return
        for topic in dict.fromkeys(self.topics):
            mine = [one == topic for one in self.topics]
            rows = Rows(
                list(compress(self.offsets, mine)),
                list(compress(self.keys, mine)),
                list(compress(self.values, mine)),
                list(compress(self.timestamps_ms, mine)),
                self.resume_at,
                None if self.headers is None else list(compress(self.headers, mine)),
            )
            yield topic, rows, None if self.partitions is None else list(compress(self.partitions, mine))

    def add_letters(self, into: dict[TopicPartition, Lists]) -> None:
        """Add the records that go as they are to the lists of their target partitions."""
        for _, letter in self.letters:
            lists = into.setdefault(letter.tp, Lists([], [], []))
            if letter.headers is not None and lists.headers is None:
                lists = into[letter.tp] = lists._replace(headers=[None] * len(lists.keys))
            lists.keys.append(letter.key)
            lists.values.append(letter.value)
            lists.timestamps_ms.append(letter.timestamp_ms)
            if lists.headers is not None:
                lists.headers.append(letter.headers)
