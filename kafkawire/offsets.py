"""Meaning of a release's offsets: numbers of messages (0.8 and later), or bytes of the log (0.7).

    of messages   each message has one, also inside a wrapper; the next one is larger by 1
    of bytes      where an entry begins; the next one is where it ends, and the messages of a wrapper share theirs

A dialect has one of the two rows below as `dialect.offsets`; rules that depend on it are methods here.  The offset to
resume at after a message or an entry is not computed: it is their resume_at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from groundwork.sentences import counted


@dataclass(frozen=True, slots=True)
class Offsets:
    """Meaning of offsets. unit: what the difference of two offsets counts: lag, a gap, the size of a range.

    entries_only: an offset is valid only where an entry begins; a broker accepts other numbers, too, and returns
    garbage.
    """

    unit: Literal["messages", "bytes"]
    entries_only: bool

    @property
    def count_messages(self) -> bool:
        """True if a difference counts messages: it is the maximum, since compaction leaves gaps."""
        return self.unit == "messages"

    def counted(self, distance: int) -> str:
        """Return a difference of offsets in words: `1 message`, `81920 bytes`."""
        return counted(distance, self.unit.removesuffix("s"))

    def log_bytes(self, message_bytes: float) -> float:
        """Return the bytes of the log per offset, for an average message of `message_bytes`."""
        return message_bytes if self.count_messages else 1.0

    def hint(self, inside: str) -> str:
        """Return `inside` if invalid bytes at an offset may mean that it is inside an entry, else ""."""
        return inside if self.entries_only else ""


MESSAGE_OFFSETS = Offsets("messages", entries_only=False)
BYTE_OFFSETS = Offsets("bytes", entries_only=True)
