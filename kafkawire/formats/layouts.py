"""Shared parts of reading sets as columns or messages: limits on decompression, and columns from layouts.

OpenBudget    limit on the decompressed bytes in memory at a time; each piece of a set has its own
Layout        source of columns: plain entries and the content of wrappers, side by side
Indexing      index(), pieces() and messages(), out of a generation's own layouts
middle        index at which a part is split in two
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kafkawire import compression
from kafkawire.columns import Columns, as_list
from kafkawire.errors import CorruptMessage, OpensTooLarge, SetTooLarge
from kafkawire.headers import unpacked
from kafkawire.kernels import compiled, ready
from kafkawire.model import PIECE_BYTES, Message, MessageSet
from kafkawire.primitives import Bytes

if TYPE_CHECKING:
    from kafkawire.formats.compiled import Kernels

# Limit on the decompressed bytes of a set at one time: of the whole set if all its columns are requested, of one piece
# if it is read in pieces or message by message.
OPEN_LIMIT = 128 << 20
MAX_DEPTH = 4  # wrappers in wrappers: 0.7 and 0.9 store what a producer nested, and nobody nests on purpose
_WHOLE = 1 << 62  # as a piece's size
_FEW = 16  # messages; for fewer, calling a compiled loop costs more than it saves

SegmentT = TypeVar("SegmentT")
LayoutT = TypeVar("LayoutT", bound="Layout[Any]")


@dataclass(slots=True)
class OpenBudget:
    """Limit on the total decompressed bytes, passed to each decompression.

    shared: it is the only budget of several sets; otherwise a new one follows when an entry exceeds what is left.
    """

    limit: int
    shared: bool = False
    left: int = field(init=False)  # bytes left
    exceeded: bool = field(default=False, init=False)  # an entry exceeded what was left

    def __post_init__(self) -> None:
        self.left = self.limit

    @property
    def final(self) -> bool:
        """True if an entry that exceeds what is left is damage: nothing was decompressed before, or no other budget
        follows."""
        return self.shared or self.left == self.limit

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
    resumes(layout, columns): offset at which reading resumes after each message
    headed: messages may have headers
    """

    layouts: Callable[[MessageSet, bool, OpenBudget, int], Iterator[LayoutT]]
    columns_of: Callable[[Kernels | None, LayoutT, int, bool], Columns]
    resumes: Callable[[LayoutT, Columns], Iterable[int]]
    headed: bool = False

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
        for _, found in self._pieces(OpenBudget(limit), kernels, message_set, check_crcs, most_bytes):
            yield found

    def _pieces(
        self, budget: OpenBudget, kernels: Kernels | None, message_set: MessageSet, check_crcs: bool, most_bytes: int
    ) -> Iterator[tuple[LayoutT, Columns]]:
        reached = message_set.start
        for layout in self.layouts(message_set, check_crcs, budget, most_bytes):
            found = self.columns_of(kernels, layout, reached, check_crcs)
            yield layout, found
            if found.damage is not None:
                return
            reached = found.resume_at

    def messages(
        self,
        message_set: MessageSet,
        check_crcs: bool = True,
        limit: int = OPEN_LIMIT,
        budget: OpenBudget | None = None,
    ) -> Iterator[Message]:
        """Yield the messages of a set from its start, one piece at a time; entries before start are not checked.

        limit: maximum decompressed bytes of one piece; budget: of all pieces, instead of limit.  Raises CorruptMessage,
        whose position is a byte of the set's buffer, when it reaches the damage; everything before it has been yielded.
        """
        topic, partition = message_set.topic, message_set.partition
        new: Callable[[type[Message]], Message] = object.__new__
        kernels = None if _are_few(message_set) else ready()
        for layout, found in self._pieces(budget or OpenBudget(limit), kernels, message_set, check_crcs, PIECE_BYTES):
            stamps, types = _times(found)
            blocks, data = found.headers(), bytes(found.data)  # bytes are sliced faster than memoryviews
            rows = zip(
                as_list(found.offsets),
                self.resumes(layout, found),
                as_list(found.key_at),
                as_list(found.key_size),
                as_list(found.value_at),
                as_list(found.value_size),
                stamps,
                types,
                repeat(() if self.headed else None) if blocks is None else map(unpacked, blocks),
                strict=False,
            )
            # Keys and values are cut one at a time: their memory is then used again while it is in the cache.
            for offset, resume_at, key_at, key_size, value_at, value_size, stamp, kind, headers in rows:
                message = new(Message)  # __init__ would be a third of the cost of reading a message
                message.topic = topic
                message.partition = partition
                message.offset = offset
                message.key = None if key_size < 0 else data[key_at : key_at + key_size]
                message.value = None if value_size < 0 else data[value_at : value_at + value_size]
                message.timestamp_ms = stamp
                message.timestamp_type = kind
                message.headers = headers
                message.resume_at = resume_at
                message.handed = None
                yield message
            if found.damage is not None:
                raise found.damage


def _times(found: Columns) -> tuple[Iterable[int | None], Iterable[int | None]]:
    """Return the timestamps of messages and their types, None for those of a format without."""
    if found.timestamps_ms is None or found.timestamp_types is None:
        return repeat(None), repeat(None)
    stamps, types = as_list(found.timestamps_ms), as_list(found.timestamp_types)
    if -1 not in types:
        return stamps, types
    return (
        [None if kind < 0 else stamp for stamp, kind in zip(stamps, types, strict=True)],
        [None if kind < 0 else kind for kind in types],
    )


def _are_few(message_set: MessageSet) -> bool:
    """True for a set of few messages, as far as its entries tell: a wrapper may hold many."""
    return sum(_FEW if run.codec and not run.record_batch else run.entries for run in message_set.runs[:_FEW]) < _FEW


def middle(ends: Sequence[int], first: int | None) -> int:
    """Return how many of the messages that end at `ends` make the first half of a part: `first`, or by default those in
    half of its bytes.  0 for fewer than two messages."""
    if len(ends) < 2:
        return 0
    return min(max(1, bisect_right(ends, ends[-1] // 2) if first is None else first), len(ends) - 1)
