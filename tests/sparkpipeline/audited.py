"""Logs in memory that an audit reads: message sets of real bytes, without a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from kafkawire.fingerprints import hashed
from kafkawire.formats.v01.messages import message_set
from kafkawire.formats.v01.write import Row, encode
from kafkawire.model import MessageSet
from kafkawire.unmatched import SOURCE, TARGET
from sparkpipeline.audit.audittasks import AuditPiece, Reading
from sparkpipeline.audit.figures import Figures, add
from sparkpipeline.audit.windows import Windows
from sparkpipeline.cluster.access import ClusterAccess
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.readoptions import ReadOptions

SIDES = (SOURCE, TARGET)


def sums(
    rows: Sequence[Row], windows: Windows, sets: int = 1, vector: bool = True, magic: int = 1
) -> dict[int, Figures]:
    """The figures of a log whose rows come in so many sets."""
    found: dict[int, Figures] = {}
    for one in in_sets(rows, sets, magic):
        for columns in one.pieces():
            add(found, hashed(columns, 0, 1 << 60, vector), windows, vector)
    return found


def in_sets(rows: Sequence[Row], sets: int = 1, magic: int = 1, codec: int = 0, start: int = 0) -> Iterator[MessageSet]:
    """Rows as that many message sets of one partition."""
    size = -(-len(rows) // sets)
    for at in range(0, len(rows), size):
        part = rows[at : at + size]
        entries = encode(part, codec, magic)
        yield message_set("t", 0, max(start, part[0][0]), memoryview(entries), part[-1][0] + 1)[0]


@dataclass(slots=True)
class Log:
    """One partition: rows as (offset, key, value, time)."""

    rows: list[Row] = field(default_factory=list)
    magic: int = 1

    @property
    def end(self) -> int:
        return self.rows[-1][0] + 1 if self.rows else 0

    def append(self, *values: str, at_ms: int | None = None) -> Log:
        for value in values:
            self.rows.append((self.end, None, value.encode(), at_ms))
        return self


def reader(logs: dict[str, dict[tuple[str, int], Log]]) -> Callable[..., Iterator[MessageSet]]:
    """What read_sets does, out of logs by side and partition.  Which side is told by the bootstrap's port."""

    def read(rng: OffsetRange, access: ClusterAccess, options: ReadOptions) -> Iterator[MessageSet]:
        side = access.bootstrap[0][0]
        log = logs[side][rng.topic, int(str(rng.partition))]
        rows = [row for row in log.rows if rng.start <= row[0] < rng.until + 3]  # sets go on past the end
        return in_sets(rows, 3, log.magic) if rows else iter(())

    return read


def sides() -> Reading:
    return Reading({side: ClusterAccess(((side, 1),)) for side in SIDES}, dict.fromkeys(SIDES, ReadOptions()))


def pieces(side: str, logs: dict[tuple[str, int], Log], windows: Windows, cut: int = 1000) -> list[AuditPiece]:
    """The whole of each log, in pieces of so many offsets."""
    return [
        AuditPiece(side, OffsetRange(topic, partition, at, min(at + cut, log.end)), windows)
        for (topic, partition), log in logs.items()
        for at in range(0, log.end, cut)
    ]
