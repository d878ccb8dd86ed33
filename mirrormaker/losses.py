"""Fields that messages lose in a target whose message format has no room for them: refused, or dropped and counted.
Pure.

    headers      of record batches (Kafka 0.11 and later); no older format has headers
    timestamps   of 0.10 and later; formats v0 and 0.7's have no timestamps

A message with such a field parks its partition, and the sentence names the option that drops the field: nothing is lost
unless the operator allows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kafkawire.columns import Columns
from kafkawire.dialects import Dialect
from kafkawire.model import TopicPartition
from producer.conversion import FieldLost, Rows

HEADERS, TIMESTAMPS = "headers", "timestamps"
FIELDS = (HEADERS, TIMESTAMPS)
OPTION = "mirror.drop.fields"
_SINCE = {HEADERS: "Kafka 0.11", TIMESTAMPS: "Kafka 0.10"}


@dataclass(frozen=True, slots=True)
class Losses:
    """Fields that messages of one source lose in one target: which may be dropped, and how many were.

    drop: fields that the options allow to drop.  counts: messages that lost a field, by topic and field, since the
    start. fields: those that messages of the source may have, and messages of the target cannot.
    """

    source: Dialect
    target: Dialect
    drop: frozenset[str] = frozenset()
    counts: dict[tuple[str, str], int] = field(default_factory=dict, compare=False)
    fields: tuple[str, ...] = field(init=False, compare=False)  # cached, because it is read for each handled message

    def __post_init__(self) -> None:
        headers = self.source.record_batches and not self.target.record_batches
        timestamps = self.source.has_timestamps and not self.target.has_timestamps
        object.__setattr__(self, "fields", (HEADERS,) * headers + (TIMESTAMPS,) * timestamps)

    def refusal(self, name: str) -> str | None:
        """Return why a source need not be started, because every one of its messages would park its partition; else
        None.

        Only timestamps are in every message.
        """
        if TIMESTAMPS not in self.fields or TIMESTAMPS in self.drop:
            return None
        return (
            f"source {name}: its messages (Kafka {self.source.release}) have timestamps, and those of the target "
            f"(Kafka {self.target.release}) have none: set {OPTION}: {TIMESTAMPS} to copy them without"
        )

    def fit(self, source: TopicPartition) -> Fitting | None:
        """Return what a conversion does with the messages of a source partition, or None if they cannot lose
        anything."""
        return Fitting(self, source) if self.fields else None

    def fitted_columns(self, source: TopicPartition, columns: Columns, end: int) -> Columns:
        """Return the first rows of columns without the fields that the target cannot store.  Raises FieldLost as
        fitted() does, and then counts nothing."""
        lost, found = self.fields, list[tuple[str, list[bool]]]()
        if HEADERS in lost and columns.header_size is not None:
            found.append((HEADERS, [size > 0 for size in columns.header_size[:end]]))
            columns = replace(columns, header_at=None, header_size=None)
        if TIMESTAMPS in lost and columns.timestamps_ms is not None:
            found.append((TIMESTAMPS, [stamp >= 0 for stamp in columns.timestamps_ms[:end]]))
            columns = replace(columns, timestamps_ms=None, timestamp_types=None, entry_magic=None)
        offsets = columns.offsets
        refused = [there.index(True) for name, there in found if name not in self.drop and True in there]
        if refused:
            found = [(name, there[: min(refused) + 1]) for name, there in found]
        for name, there in found:
            if True in there and (not refused or name not in self.drop):
                self._lose(source, name, offsets, there)
        return columns

    def fitted(self, source: TopicPartition, rows: Rows) -> Rows:
        """Return messages without the fields that the target cannot store.  Raises FieldLost for the first field that
        must be kept."""
        lost = self.fields
        if HEADERS in lost and rows.headers is not None and any(rows.headers):
            self._lose(source, HEADERS, rows.offsets, [bool(block) for block in rows.headers])
        if TIMESTAMPS in lost:
            timed = [stamp is not None and stamp >= 0 for stamp in rows.timestamps_ms]
            if any(timed):
                self._lose(source, TIMESTAMPS, rows.offsets, timed)
                rows = rows._replace(timestamps_ms=[None] * len(timed))
        return rows._replace(headers=None) if HEADERS in lost else rows

    def _lose(self, source: TopicPartition, name: str, offsets: Sequence[int], there: Sequence[bool]) -> None:
        if name not in self.drop:
            offset = offsets[there.index(True)]
            raise FieldLost(
                f"{source} at {offset}: the message has {name}, and those of the target (Kafka "
                f"{self.target.release}) have none, which came with {_SINCE[name]}: set {OPTION}: {name} to copy such "
                f"messages without their {name}",
                offset,
            )
        key = source.topic, name
        self.counts[key] = self.counts.get(key, 0) + sum(there)


@dataclass(frozen=True, slots=True)
class Fitting:
    """Filter of fields for the messages of one source partition in a conversion: a producer.conversion.Fit."""

    losses: Losses
    source: TopicPartition

    def __call__(self, rows: Rows) -> Rows:
        return self.losses.fitted(self.source, rows)

    def of_columns(self, columns: Columns, end: int) -> Columns:
        return self.losses.fitted_columns(self.source, columns, end)
