"""How sets become messages and columns in either generation: the bounds, and the way from layouts to columns.

Walk        what stays the same on the way through a set that is read message by message
Layout        what columns are read from: wrappers opened, stretches of plain entries in the bytes they were laid into
Indexing    index() and pieces(), out of a generation's own layouts
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from kafkawire.columns import Columns
from kafkawire.errors import CorruptMessage
from kafkawire.kernels import compiled
from kafkawire.model import PIECE_BYTES, MessageSet, PartitionId
from kafkawire.primitives import Bytes

if TYPE_CHECKING:
    from kafkawire.formats.compiled import Kernels

OPEN_LIMIT = 128 << 20  # bytes one top-level wrapper may open to, those nested in it included
MAX_DEPTH = 4  # wrappers in wrappers: 0.7 and 0.9 store what a producer nested, and nobody nests on purpose
_WHOLE = 1 << 62  # as a piece's size

SegmentT = TypeVar("SegmentT")
LayoutT = TypeVar("LayoutT")


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
    pieces: list[Bytes] = field(default_factory=list)
    segments: list[SegmentT] = field(default_factory=list)
    damage: CorruptMessage | None = None
    size: int = 0  # bytes of the pieces

    def lay(self, data: Bytes) -> int:
        """Append bytes; where they begin."""
        begin = self.size
        self.pieces.append(data)
        self.size += len(data)
        return begin

    def data(self) -> Bytes:
        """All that was laid: as it came in where that is a single piece."""
        return self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)


@dataclass(frozen=True, slots=True)
class Indexing(Generic[LayoutT]):
    """The columns of sets of one generation.

    layouts(set, check_crcs, limit, most_bytes): layouts of a set in pieces of about most_bytes, at least one, each made
        when asked for; limit bounds the bytes one top-level wrapper opens to
    columns_of(kernels, layout, start, check_crcs): the columns of one; start is what was reached by the pieces before
    """

    layouts: Callable[[MessageSet, bool, int, int], Iterator[LayoutT]]
    columns_of: Callable[[Kernels | None, LayoutT, int, bool], Columns]

    def index(self, message_set: MessageSet, check_crcs: bool = True, limit: int = OPEN_LIMIT) -> Columns:
        """The columns of a set.  Raises nothing for what the bytes hold: damage stands beside what comes before it."""
        return self.index_by(compiled(len(message_set.buffer)), message_set, check_crcs, limit)

    def index_by(
        self, kernels: Kernels | None, message_set: MessageSet, check_crcs: bool = True, limit: int = OPEN_LIMIT
    ) -> Columns:
        """The same as index() by a form of one's choice; None: in pure Python."""
        (layout,) = self.layouts(message_set, check_crcs, limit, _WHOLE)
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
        for layout in self.layouts(message_set, check_crcs, limit, most_bytes):
            found = self.columns_of(kernels, layout, reached, check_crcs)
            yield found
            if found.damage is not None:
                return
            reached = found.resume_at
