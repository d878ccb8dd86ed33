"""How sets become messages and columns in either generation: the bounds, and the way from layouts to columns.

OpenBudget    bytes that compressed entries may open to, side by side in memory: one for each piece of a set
Walk          what stays the same on the way through a set that is read message by message
Layout        what columns are read from: wrappers opened, stretches of plain entries in the bytes they were laid into
Indexing      index() and pieces(), out of a generation's own layouts
middle        where a part is cut in two
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

# Bytes that what is opened of a set at once may have: all of it where all of its columns are asked for, one piece where
# it is read in pieces, one top-level entry (with those nested in it) where it is read message by message.
OPEN_LIMIT = 128 << 20
MAX_DEPTH = 4  # wrappers in wrappers: 0.7 and 0.9 store what a producer nested, and nobody nests on purpose
_WHOLE = 1 << 62  # as a piece's size

SegmentT = TypeVar("SegmentT")
LayoutT = TypeVar("LayoutT", bound="Layout[Any]")


@dataclass(slots=True)
class OpenBudget:
    """Bytes that compressed entries may open to, all of them together.  Handed down to each that is opened."""

    limit: int
    left: int = field(init=False)  # of the limit
    exceeded: bool = field(default=False, init=False)  # an entry opens to more than was left

    def __post_init__(self) -> None:
        self.left = self.limit

    @property
    def untouched(self) -> bool:
        """Nothing was opened yet: an entry that exceeds it now exceeds it alone."""
        return self.left == self.limit

    def opened(self, codec: int, data: Bytes) -> Bytes:
        """Data decompressed.  RemoteError where it makes no sense; OpensTooLarge where it is more than is left."""
        try:
            found = compression.opened(codec, data, self.left)
        except OpensTooLarge as why:
            self.exceeded = True
            if self.left == self.limit:
                raise
            name = compression.CODEC_NAMES[codec]
            raise OpensTooLarge(
                f"{name} data opens to more than limit {self.limit} bytes, of which {self.left} are left"
            ) from why
        self.left -= len(found)
        return found


@dataclass(slots=True)
class Walk:
    """What stays the same on the way through a set."""

    topic: str
    partition: PartitionId
    start: int
    check_crcs: bool
    limit: int


@dataclass(slots=True)
class Layout(Generic[SegmentT]):
    """Segments in the order of their messages, up to where the first wrapper cannot be read on."""

    resume_at: int  # what to commit once all of it is done, if nothing is damaged
    budget: OpenBudget  # of what is opened into it
    pieces: list[Bytes] = field(default_factory=list)
    segments: list[SegmentT] = field(default_factory=list)
    damage: CorruptMessage | None = None
    size: int = 0  # bytes of the pieces
    full: bool = False  # it ends before an entry that opens to more than its budget had left

    def lay(self, data: Bytes) -> int:
        """Append bytes; where they begin."""
        begin = self.size
        self.pieces.append(data)
        self.size += len(data)
        return begin

    def back_to(self, pieces: int, segments: int, size: int) -> None:
        """Take off what was laid since it had so many pieces, segments and bytes."""
        del self.pieces[pieces:], self.segments[segments:]
        self.size, self.damage = size, None

    def data(self) -> Bytes:
        """All that was laid: as it came in where that is a single piece."""
        return self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)


@dataclass(frozen=True, slots=True)
class Indexing(Generic[LayoutT]):
    """The columns of sets of one generation.

    layouts(set, check_crcs, budget, most_bytes): layouts of a set in pieces of about most_bytes, at least one, each
        made when asked for; budget: of the first of them, each further one has one with the same limit
    columns_of(kernels, layout, start, check_crcs): the columns of one; start is what was reached by the pieces before
    """

    layouts: Callable[[MessageSet, bool, OpenBudget, int], Iterator[LayoutT]]
    columns_of: Callable[[Kernels | None, LayoutT, int, bool], Columns]

    def index(self, message_set: MessageSet, check_crcs: bool = True, limit: int = OPEN_LIMIT) -> Columns:
        """The columns of a set.  Damage stands beside what comes before it.

        Raises SetTooLarge where its entries open to more than limit bytes, and LibraryMissing.
        """
        return self.index_by(compiled(len(message_set.buffer)), message_set, check_crcs, limit)

    def index_by(
        self, kernels: Kernels | None, message_set: MessageSet, check_crcs: bool = True, limit: int = OPEN_LIMIT
    ) -> Columns:
        """The same as index() by a form of one's choice; None: in pure Python."""
        return self.index_within(OpenBudget(limit), kernels, message_set, check_crcs)

    def index_within(
        self, budget: OpenBudget, kernels: Kernels | None, message_set: MessageSet, check_crcs: bool
    ) -> Columns:
        """The same as index_by() with what is left of a budget."""
        layout = next(self.layouts(message_set, check_crcs, budget, _WHOLE))
        if layout.full:
            raise SetTooLarge(
                f"{message_set.tp} at {message_set.start}: the {len(message_set.buffer):,} bytes of a message set open "
                f"to more than {budget.limit:,}, too much for all of its columns at once; read it in pieces "
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
        """The same in pieces of about most_bytes, each made when it is asked for; at least one, and some may be empty.

        The resume_at of the last one is the set's, unless it has damage.
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
        """The same as pieces() by a form of one's choice; None: in pure Python."""
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
