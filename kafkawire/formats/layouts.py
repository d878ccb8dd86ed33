"""Shared parts of reading sets as messages or columns: limits on decompression, and columns from layouts.

OpenBudget    limit on the decompressed bytes in memory at a time; each piece of a set has its own
Walk          state of reading a set message by message
Layout        source of columns: plain entries and the content of wrappers, side by side
Indexing      index() and pieces(), out of a generation's own layouts
middle        index at which a part is split in two
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kafkawire import compression
from kafkawire.columns import Columns
from kafkawire.errors import CorruptMessage, OpensTooLarge, SetTooLarge
from kafkawire.kernels import compiled
from kafkawire.model import PIECE_BYTES, MessageSet, PartitionId
from kafkawire.primitives import Bytes

if TYPE_CHECKING:
    from kafkawire.formats.compiled import Kernels

# Limit on the decompressed bytes of a set at one time: of the whole set if all its columns are requested, of one piece
# if it is read in pieces, of one top-level entry (with those nested in it) if it is read message by message.
OPEN_LIMIT = 128 << 20
MAX_DEPTH = 4  # wrappers in wrappers: 0.7 and 0.9 store what a producer nested, and nobody nests on purpose
_WHOLE = 1 << 62  # as a piece's size

SegmentT = TypeVar("SegmentT")
LayoutT = TypeVar("LayoutT", bound="Layout[Any]")


@dataclass(slots=True)
class OpenBudget:
    """Limit on the total decompressed bytes, passed to each decompression."""

    limit: int
    left: int = field(init=False)  # bytes left
    exceeded: bool = field(default=False, init=False)  # an entry exceeded what was left

    def __post_init__(self) -> None:
        self.left = self.limit

    @property
    def untouched(self) -> bool:
        """True if nothing was decompressed yet: an entry that exceeds the budget now exceeds it alone."""
        return self.left == self.limit

    def opened(self, codec: int, data: Bytes) -> Bytes:
        """Decompress data.  Raises RemoteError if it is damaged, OpensTooLarge if it exceeds what is left."""
        try:
            found = compression.opened(codec, data, self.left)
        except OpensTooLarge as why:
            self.exceeded = True
            if self.left == self.limit:
                raise
            name = compression.CODEC_NAMES[codec]
            raise OpensTooLarge(
                f"{name} data decompresses to more than the limit of {self.limit} bytes, of which {self.left} are left"
            ) from why
        self.left -= len(found)
        return found


@dataclass(slots=True)
class Walk:
    """State of reading one set."""

    topic: str
    partition: PartitionId
    start: int
    check_crcs: bool
    limit: int


@dataclass(slots=True)
class Layout(Generic[SegmentT]):
    """Segments in the order of their messages, up to the first wrapper that cannot be read."""

    resume_at: int  # offset to commit once all of it is done, if nothing is damaged
    budget: OpenBudget  # limit on the bytes decompressed into it
    pieces: list[Bytes] = field(default_factory=list)
    segments: list[SegmentT] = field(default_factory=list)
    damage: CorruptMessage | None = None
    size: int = 0  # bytes of the pieces
    full: bool = False  # it ends before an entry that exceeds what its budget had left

    def lay(self, data: Bytes) -> int:
        """Append bytes, and return where they begin."""
        begin = self.size
        self.pieces.append(data)
        self.size += len(data)
        return begin

    def back_to(self, pieces: int, segments: int, size: int) -> None:
        """Undo everything laid since there were this many pieces, segments and bytes."""
        del self.pieces[pieces:], self.segments[segments:]
        self.size, self.damage = size, None

    def data(self) -> Bytes:
        """Return all laid bytes; a single piece is not copied."""
        return self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)


@dataclass(frozen=True, slots=True)
class Indexing(Generic[LayoutT]):
    """Reader of columns for one generation.

    layouts(set, check_crcs, budget, most_bytes): yields layouts of a set in pieces of about most_bytes, at least one,
    each made when requested; budget: of the first piece, further pieces have their own with the same limit
    columns_of(kernels, layout, start, check_crcs): columns of one layout; start: offset that the previous pieces
    reached
    """

    layouts: Callable[[MessageSet, bool, OpenBudget, int], Iterator[LayoutT]]
    columns_of: Callable[[Kernels | None, LayoutT, int, bool], Columns]

    def index(self, message_set: MessageSet, check_crcs: bool = True, limit: int = OPEN_LIMIT) -> Columns:
        """Return the columns of a set; damage is returned beside the columns before it.

        Raises SetTooLarge if its entries exceed limit decompressed bytes, and LibraryMissing.
        """
        return self.index_by(compiled(len(message_set.buffer)), message_set, check_crcs, limit)

    def index_by(
        self, kernels: Kernels | None, message_set: MessageSet, check_crcs: bool = True, limit: int = OPEN_LIMIT
    ) -> Columns:
        """Return the columns of a set, read by these kernels; None: in pure Python."""
        return self.index_within(OpenBudget(limit), kernels, message_set, check_crcs)

    def index_within(
        self, budget: OpenBudget, kernels: Kernels | None, message_set: MessageSet, check_crcs: bool
    ) -> Columns:
        """Return the columns of a set, read by these kernels (None: in pure Python) within the rest of a budget."""
        layout = next(self.layouts(message_set, check_crcs, budget, _WHOLE))
        if layout.full:
            raise SetTooLarge(
                f"{message_set.tp} at {message_set.start}: the {len(message_set.buffer):,} bytes of a message set "
                f"decompress to more than {budget.limit:,}, too much for all of its columns at once; read it in pieces "
                "(MessageSet.pieces), or fetch fewer bytes (fetch.message.max.bytes)"
            )
        return self.columns_of(kernels, layout, message_set.start, check_crcs)

    def pieces(
        self,
        message_set: MessageSet,
        check_crcs: bool = True,
        most_bytes: int = PIECE_BYTES,
        limit: int = OPEN_LIMIT,
    ) -> Iterator[Columns]:
        """Yield the columns of a set in pieces of about most_bytes, each made when requested; at least one, and some
        may be empty.

        The resume_at of the last piece is the set's, unless it has damage.
        """
        yield from self.pieces_by(compiled(len(message_set.buffer)), message_set, check_crcs, most_bytes, limit)

    def pieces_by(
        self,
        kernels: Kernels | None,
        message_set: MessageSet,
        check_crcs: bool = True,
        most_bytes: int = PIECE_BYTES,
        limit: int = OPEN_LIMIT,
    ) -> Iterator[Columns]:
        """Yield the columns of a set in pieces, read by these kernels; None: in pure Python."""
        reached = message_set.start
        for layout in self.layouts(message_set, check_crcs, OpenBudget(limit), most_bytes):
            found = self.columns_of(kernels, layout, reached, check_crcs)
            yield found
            if found.damage is not None:
                return
            reached = found.resume_at


def middle(ends: Sequence[int], first: int | None) -> int:
    """Return how many of the messages that end at `ends` make the first half of a part: `first`, or by default those in
    half of its bytes.  0 for fewer than two messages."""
    if len(ends) < 2:
        return 0
    return min(max(1, bisect_right(ends, ends[-1] // 2) if first is None else first), len(ends) - 1)
