"""What the offsets of a release are: numbers of messages (0.8 and later), or bytes of the log (0.7).

    of messages   each message has one, also inside a wrapper; the next one is larger by 1
    of bytes      where an entry begins; the next one is where it ends, and the messages of a wrapper share theirs

A dialect has one of the two rows below as `dialect.offsets`; what follows from it is asked of that.  Where to go on
behind a message or an entry came with them (resume_at).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from groundwork.sentences import counted


@dataclass(frozen=True, slots=True)
class Offsets:
    """unit: what the distance of two offsets counts: lag, a gap, the size of a range.

    entries_only: only where an entry begins is an offset; a broker takes any other number, too, and sends rubbish.
    """

    unit: Literal["messages", "bytes"]
    entries_only: bool

    @property
    def count_messages(self) -> bool:
        """Whether a distance is a number of messages: at most so many, since compaction leaves gaps."""
        return self.unit == "messages"

    def counted(self, distance: int) -> str:
        """A distance in words: `1 message`, `81920 bytes`."""
        return counted(distance, self.unit.removesuffix("s"))

    def log_bytes(self, message_bytes: float) -> float:
        """Bytes of the log that an offset stands for, where a message takes so many on average."""
        return message_bytes if self.count_messages else 1.0

    def hint(self, inside: str) -> str:
        """What else may be wrong where bytes at an offset make no sense: it may be none, but inside an entry."""
        return inside if self.entries_only else ""


MESSAGE_OFFSETS = Offsets("messages", entries_only=False)
BYTE_OFFSETS = Offsets("bytes", entries_only=True)
