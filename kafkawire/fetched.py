"""Judgement of a response to a fetch, shared by every reader of a partition's log.

judged() tells which of these a response without an error code is, for a reader at a position:

    MESSAGES   complete entries; the reader goes on behind them
    LEFT_OUT   the end of a transaction, or messages of an aborted one; the reader goes on behind them
    NOTHING    no bytes, and the log ends
    HIDDEN     no bytes, though the log goes on: Kafka 3.x sends nothing of a batch that is larger than the fetch to a
               client of a release before 0.10.1.  Brokers of 0.8 read the end of the log after the messages, so a
               single response like this may also be a message that came in between
    CUT        bytes of an entry that is larger than the fetch
    DAMAGED    the first entry is damaged
    UNANSWERED the response leaves the partition out (NOT_ANSWERED): nothing is lost, and it is answered later

An error code is a row of kafkawire.errors, whose `follows` says what comes next.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from kafkawire.errors import NOT_ANSWERED, CorruptMessage, LocalError
from kafkawire.model import Broker, MessageSet, Scan, TopicPartition

if TYPE_CHECKING:
    from kafkawire.dialects import Dialect
    from kafkawire.protocol.request import FetchedPartition


class Came(Enum):
    """Kind of a response (see the module)."""

    MESSAGES = "messages"
    LEFT_OUT = "left out"
    NOTHING = "nothing"
    HIDDEN = "hidden"
    CUT = "cut"
    DAMAGED = "damaged"
    UNANSWERED = "unanswered"


@dataclass(frozen=True, slots=True)
class Fetched:
    """Response to a fetch of one partition, judged.

    messages    the set, empty unless MESSAGES came; its high_watermark is the end of the log for this reader
    damage      of the first entry, if DAMAGED
    """

    came: Came
    messages: MessageSet
    scan: Scan
    damage: CorruptMessage | None = None

    @property
    def moves(self) -> bool:
        """True if the reader goes on at a later position."""
        return self.came in (Came.MESSAGES, Came.LEFT_OUT)


class MessageTooLarge(LocalError):
    """The first wanted message does not fit into the requested size."""

    def __init__(
        self, tp: TopicPartition, position: int, broker: Broker, max_bytes: int, needed: int, helps: str = ""
    ) -> None:
        size = f"needs at least {needed} bytes" if needed else "needs more bytes"
        what = f"{tp} at {position} on {broker}: the message {size}, max_bytes is {max_bytes}; raise it"
        super().__init__(what + (f"; {helps}" if helps else ""))
        self.tp = tp
        self.position = position
        self.needed = needed


class Damaged(CorruptMessage):
    """The first wanted entry is invalid; everything before it was delivered."""

    def __init__(
        self, tp: TopicPartition, position: int, broker: Broker, damage: CorruptMessage, helps: str = ""
    ) -> None:
        super().__init__(damage.why, damage.position, damage.offset)
        self.args = (f"{tp} at {position} on {broker}: {damage}" + (f"; {helps}" if helps else ""),)
        self.tp = tp


def judged(
    dialect: Dialect, tp: TopicPartition, position: int, row: FetchedPartition, asked_bytes: int, committed: bool = True
) -> Fetched:
    """Judge a response that has no error code of a broker.  committed: whether the fetch asked for read_committed."""
    end = row.readable_end(committed)
    messages, scan = dialect.messages.message_set(tp.topic, tp.partition, position, row.buffer, end, row.aborted)
    if scan.runs:
        return Fetched(Came.MESSAGES, messages, scan)
    if scan.left_out:
        return Fetched(Came.LEFT_OUT, messages, scan)
    if row.error == NOT_ANSWERED:
        return Fetched(Came.UNANSWERED, messages, scan)
    if not len(row.buffer):
        return Fetched(Came.HIDDEN if end is not None and end > position else Came.NOTHING, messages, scan)
    damage = scan.damage or dialect.messages.cut_short(row.buffer, scan, position, asked_bytes)
    return Fetched(Came.CUT if damage is None else Came.DAMAGED, messages, scan, damage)
