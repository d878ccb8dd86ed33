"""Pieces of fetched sets: decoded rows of one range, about as many as make a record batch.

A set is cut at its range's end: its messages may begin before the range and continue after it.

Spark's workers serve one task after the other; one that has read enough loads the compiled form (kafkawire.kernels).
A task only waits for it if KAFKAWIRE_KERNELS=numba is set.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kafkawire import kernels
from kafkawire.columns import Columns, Part, ascending
from kafkawire.dialects import Dialect
from kafkawire.errors import CorruptMessage, LibraryMissing
from kafkawire.model import MessageSet
from sparkpipeline.errors import CodecMissing, CorruptData
from sparkpipeline.ranges import OffsetRange
from sparkpipeline.reading.damagelog import DamagedEntry, DamageLog, behind_damage
from sparkpipeline.reading.readoptions import ReadOptions


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows since..until of the columns.  before: number of the range's rows before the first row of these columns.

    If offsets are bytes, the columns cover the log from covered_from to covered_to, with entries without a message.
    """

    range: OffsetRange
    columns: Columns
    since: int
    until: int
    before: int
    covered_from: int = 0
    covered_to: int = 0
    kept_back: int = 0  # of the last rows of a range: offsets of it that transactions keep back
    damaged: int = 0  # of the last rows of a range: offsets of it that were skipped because they are damaged

    def __len__(self) -> int:
        return self.until - self.since

    @property
    def part(self) -> Part:
        return Part(self.columns, self.since, self.until)

    @property
    def first_row(self) -> int:
        """Return the number of its first row within the range."""
        return self.before + self.since

    @property
    def bytes(self) -> int:
        """Return about the bytes of keys and values: their distance in the fetched buffer."""
        return max(0, self._end(self.until - 1) - self.columns.value_at[self.since]) if len(self) else 0

    def within(self, until: int) -> Piece:
        """Return its rows before an offset.  Offsets ascend: see kafkawire.columns.ascending."""
        offsets = self.columns.offsets
        if not len(self) or offsets[self.until - 1] < until:
            return self
        return replace(self, until=bisect_left(offsets, until, self.since, self.until))

    def cut(self, most_bytes: int, most_rows: int) -> Iterator[Piece]:
        """Yield its rows in pieces of at most this many bytes and rows, each with at least one row."""
        places, since = self.columns.value_at, self.since
        while since < self.until:
            limit, most = places[since] + most_bytes, min(self.until, since + most_rows)
            end = bisect_right(places, limit, since + 1, most)  # all before it begin within the limit
            if end > since + 1 and self._end(end - 1) > limit:
                end -= 1
            last = end == self.until
            counted = (self.kept_back, self.damaged) if last else (0, 0)
            yield replace(self, since=since, until=end, kept_back=counted[0], damaged=counted[1])
            since = end

    def _end(self, row: int) -> int:
        return self.columns.value_at[row] + max(0, self.columns.value_size[row])


# ---- of fetched sets -------------------------------------------------------------------------------------------------


def pieces_of(
    spoken: Dialect,
    sets: Iterator[tuple[int, MessageSet]],
    ranges: Sequence[OffsetRange],
    options: ReadOptions,
    damages: DamageLog | None = None,
) -> Iterator[Piece]:
    """Yield the rows of each set that are within its range, about a batch at a time.

    damages: filled with skipped entries, if options.skip_damaged is set."""
    current, rows = -1, 0
    damages = DamageLog() if damages is None else damages
    for number, message_set in sets:
        rows = rows if number == current else 0
        current = number
        rest: MessageSet | None = message_set
        while rest is not None:
            for piece in (within := _Within(spoken, ranges[number], rest, options, damages=damages)).pieces(rows):
                rows += len(piece)
                yield piece
            rest = within.rest


class _Within:
    """Rows of a set before its range's end.  rest: the set after damage in it, once all pieces are taken."""

    def __init__(
        self, spoken: Dialect, rng: OffsetRange, message_set: MessageSet, options: ReadOptions, *, damages: DamageLog
    ) -> None:
        self._spoken = spoken
        self._range = rng
        self._set = message_set
        self._options = options
        self._damages = damages
        self.rest: MessageSet | None = None

    def pieces(self, rows: int) -> Iterator[Piece]:
        """Yield about a batch at a time, so that copied bytes are still in a cache.  rows: number of the range's rows
        before.

        Raises CorruptData for damage before the range's end, CodecMissing.
        """
        rng, message_set = self._range, self._set
        reached = message_set.start
        for columns in _columns(self._spoken, rng, message_set, self._options):
            whole = Piece(rng, columns, 0, len(columns), rows, reached, columns.resume_at)
            if len(whole) and (columns.offsets[0] < reached or not ascending(whole.part)):
                raise CorruptData("offsets go back within a fetched set", **_where(rng, message_set.start))
            piece = whole.within(rng.until)
            yield piece
            if len(piece) < len(whole) or columns.resume_at >= rng.until:
                return
            if columns.damage is not None:
                self._skip(columns.damage, max(columns.resume_at, rng.start))
                return
            reached, rows = columns.resume_at, rows + len(piece)

    def _skip(self, damage: CorruptMessage, reached: int) -> None:
        """Continue after damaged content.  Raises CorruptData if damage is not skipped, or its end is unknown."""
        found = behind_damage(self._spoken, self._set, damage) if self._options.skip_damaged else None
        if found is None:
            raise _corrupt(self._range, damage, self._options)
        self.rest, raw = found
        self._damages.add(DamagedEntry(self._range, reached, self.rest.start, str(damage), raw))


def _columns(spoken: Dialect, rng: OffsetRange, message_set: MessageSet, options: ReadOptions) -> Iterator[Columns]:
    try:
        yield from decoded(spoken, message_set, options.check_crcs, options.batch_bytes)
    except LibraryMissing as missing:
        helps = "install it on every executor: --py-files only carries Python files"
        raise CodecMissing(f"{missing}; {helps}", **_where(rng, message_set.start)) from None


def _corrupt(rng: OffsetRange, damage: CorruptMessage, options: ReadOptions) -> CorruptData:
    of_crc = "crc mismatch" in damage.why or "wrong checksum" in damage.why
    helps = [text for text in (options.damage_helps, options.crc_helps if of_crc else "") if text]
    return CorruptData("; ".join([str(damage), *helps]), **_where(rng, damage.offset))


def _where(rng: OffsetRange, offset: int | None) -> dict[str, object]:
    return {"topic": rng.topic, "partition": rng.partition, "offset": offset}


def covering(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Yield the pieces with rows; the log that an empty piece covers (entries without a message) is added to a
    neighbour of the same range.  So the rows of a range cover all of it, except for skipped bytes."""
    last: Piece | None = None  # with rows: not handed out yet; without: no row came before it
    for piece in pieces:
        follows = last is not None and last.range is piece.range and last.covered_to == piece.covered_from
        if last is None or not follows:
            if last is not None and len(last):
                yield last
            last = piece
        elif not len(piece):
            last = replace(last, covered_to=piece.covered_to)
        elif len(last):
            yield last
            last = piece
        else:
            last = replace(piece, covered_from=last.covered_from)
    if last is not None and len(last):
        yield last


def accounting(
    pieces: Iterator[Piece], kept_back: Mapping[OffsetRange, int], damaged: Mapping[OffsetRange, int]
) -> Iterator[Piece]:
    """Yield the pieces with rows; the last one of each range has the number of its offsets that transactions keep back,
    and of damaged ones.

    kept_back, damaged: by range, known once the next range has begun.  They are not known for a range without rows."""

    def told(piece: Piece) -> Piece:
        return replace(piece, kept_back=kept_back[piece.range], damaged=damaged.get(piece.range, 0))

    last: Piece | None = None
    for piece in pieces:
        if last is not None and len(piece):
            yield last if piece.range is last.range else told(last)
        last = piece if len(piece) else last
    if last is not None:
        yield told(last)


def grouped(pieces: Iterator[Piece], most_bytes: int, most_rows: int) -> Iterator[list[Piece]]:
    """Yield neighbouring pieces together, as many as fit into a batch; a larger piece alone."""
    held: list[Piece] = []
    size = rows = 0
    for piece in pieces:
        if held and (size + piece.bytes > most_bytes or rows + len(piece) > most_rows):
            yield held
            held, size, rows = [], 0, 0
        held.append(piece)
        size += piece.bytes
        rows += len(piece)
    if held:
        yield held


# ---- the decoder -----------------------------------------------------------------------------------------------------


def decoded(spoken: Dialect, message_set: MessageSet, check_crcs: bool, most_bytes: int) -> Iterator[Columns]:
    """Yield the columns of a set, of about most_bytes each.  spoken: dialect of its brokers.

    Raises LibraryMissing, and LocalError for KAFKAWIRE_KERNELS."""
    return spoken.messages.pieces_by(kernels.compiled(len(message_set.buffer)), message_set, check_crcs, most_bytes)
