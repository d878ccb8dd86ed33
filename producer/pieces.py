"""What travels to a target partition: items, the pieces they are sent as, the batches these go in.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import ModuleType

from kafkawire.errors import CorruptMessage
from kafkawire.model import Part, Run, Ticket, TopicPartition


@dataclass(eq=False, slots=True)
class Item:
    """A part as it was submitted, and its ticket."""

    part: Part
    ticket: Ticket
    added: float
    reached: int | None = None  # source position that its stored pieces come to
    over: bool = False  # its ticket was told the end
    dropped: bool = False  # nothing of it is sent any more; what is in flight may still be stored, and its ticket told

    @property
    def gone(self) -> bool:
        return self.over or self.dropped


@dataclass(eq=False, slots=True)
class Piece:
    """What travels: an item's part, or, once that had to be split, one of its pieces in order."""

    part: Part
    item: Item
    last: bool = True  # of its item
    alone: bool = False  # a batch it was in was too large, or damaged
    tries: int = 0  # failed ones, for whatever reason
    refusals: int = 0  # in a row, of a kind that is most likely repeated
    missing_since: float | None = None  # answered "unknown topic or partition" ever since
    doom: Exception | None = None  # once this is stored its item fails: why what follows it can never be stored

    @property
    def size(self) -> int:
        return len(self.part.entries)

    def exceeds(self, limit: int, messages: ModuleType) -> bool:
        """Whether one of its entries is larger than that; messages: of the dialect."""
        if self.size <= limit:
            return False
        run = Run(0, self.size, self.part.codec, self.part.magic, self.part.count, self.size)
        view = memoryview(self.part.entries)
        return any(cut.end - cut.begin > limit for cut in messages.READER.cut(view, run, limit))


@dataclass(eq=False, slots=True)
class Batch:
    """The pieces of one partition that go into one request."""

    tp: TopicPartition
    pieces: list[Piece]

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)

    @property
    def count(self) -> int:
        return sum(piece.part.count for piece in self.pieces)

    @property
    def tries(self) -> int:
        return max(piece.tries for piece in self.pieces)

    @property
    def refused(self) -> bool:
        """Whether anything in it was refused the last time."""
        return any(piece.refusals for piece in self.pieces)

    def buffers(self) -> list[bytes | memoryview]:
        return [piece.part.entries for piece in self.pieces]


def split_into(piece: Piece, halves: Sequence[Part]) -> list[Piece]:
    """The pieces that take one's place; what ends with it ends with the last of them."""
    chain = [Piece(part, piece.item, last=False, alone=True) for part in halves]
    chain[-1].last, chain[-1].doom = piece.last, piece.doom
    return chain


def before(piece: Piece, damage: CorruptMessage, doom: Exception, messages: ModuleType) -> Piece | None:
    """What precedes the damage, as a piece that ends its item once it is stored; None when nothing does.

    messages: the codec of its format (Dialect.messages).
    """
    part = piece.part
    if damage.position <= 0 or part.codec:
        return None
    good = memoryview(part.entries)[: damage.position]
    part = replace(part, entries=good, count=messages.count(good), resume_at=position(piece, damage))
    return Piece(part, piece.item, last=False, alone=True, doom=doom)


def position(piece: Piece, damage: CorruptMessage) -> int | None:
    """The source position just before the damage, where entries carry source offsets."""
    if piece.item.part.resume_at is None:
        return None
    return piece.item.reached if piece.part.codec or damage.offset is None else damage.offset
