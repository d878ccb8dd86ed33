"""What a request and its reply are, whatever the generation: what links carry and callers annotate with.

The builders are in the dialect's own module, `d.requests` (requests07.py, requests08.py), as
kafkawire.interfaces.RequestBuilders says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from kafkawire.model import TopicPartition

if TYPE_CHECKING:
    from kafkawire.protocol.bodies import Body
    from kafkawire.protocol.buffers import Buffers

CONSUMER = -1  # replica_id of every client that is no broker: a real id would move that follower's high watermark
Store = Literal["kafka", "zookeeper"]  # where a group's offsets are kept
RECORDS_NAMED = 3  # refused records that a sentence names
ResponseT_co = TypeVar("ResponseT_co", covariant=True)


class ApiVersions(Protocol):
    """What a builder asks of a dialect: the versions of a release."""

    @property
    def release(self) -> str: ...

    def speaks(self, api_key: int, store: Store = "kafka") -> int:
        """The version to use.  LocalError when the release has none; store matters for offsets only."""


class Asked(Protocol):
    """What a request asks for: its api."""

    @property
    def name(self) -> str: ...


class Request(Protocol[ResponseT_co]):
    """One request, ready for a session, and the type of what Link.call returns for it."""

    @property
    def api(self) -> Asked: ...

    @property
    def size(self) -> int:
        """Bytes of what it says, without what frames it."""

    @property
    def expects_reply(self) -> bool:
        """False: the broker never answers it (Produce with acks 0, and every Produce of 0.7)."""

    @property
    def head_bytes(self) -> int:
        """What a session must have of the reply before reply() can be asked."""

    def frame(self, correlation_id: int, client_id: str) -> list[bytes | memoryview]:
        """All its bytes, in pieces that are not copied.  Raises LocalError when they cannot be framed."""

    def reply(self, head: bytes | bytearray, correlation_id: int, buffers: Buffers | None) -> Body[ResponseT_co]:
        """Where what follows the first head_bytes of its reply goes; fetched sets into `buffers`.

        RemoteError when the head is not that of this request's reply, or larger than any sane one.
        """


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """One partition of a Fetch reply; buffer is its message set alone, so a slow partition pins no bytes of another.

    high_watermark: None where the generation has none (0.7).
    last_stable_offset: before it no transaction is open, so read_committed reads up to it; None: unknown
    log_start_offset: None: unknown
    aborted: (producer id, first offset) of the aborted transactions that touch the set; of read_committed only
    """

    tp: TopicPartition
    error: int
    high_watermark: int | None
    buffer: memoryview
    last_stable_offset: int | None = None
    log_start_offset: int | None = None
    aborted: tuple[tuple[int, int], ...] = ()

    def readable_end(self, committed: bool) -> int | None:
        """The position behind the last message that is given to a reader of committed transactions, or to any."""
        if not committed or self.last_stable_offset is None or self.last_stable_offset < 0:
            return self.high_watermark
        return self.last_stable_offset


@dataclass(frozen=True, slots=True)
class ProducedPartition:
    """What became of one partition's set.

    base_offset: of its first message; beside an error the leader that answers appended the set all the same, but for
    -1.  version: of the Produce response, on which it depends which errors there are; 0 where it is not known.
    why, refused: what a broker of 2.4 and later adds to an error: its own sentence, and one for each record of the
    batch that it refuses, by its place from 0 on.
    """

    error: int
    base_offset: int
    why: str = ""
    refused: tuple[tuple[int, str], ...] = ()
    version: int = 0

    @property
    def stored(self) -> bool:
        """Error 0 with base offset -1 is no success: the set was empty or incomplete and nothing was stored."""
        return self.error == 0 and self.base_offset >= 0

    @property
    def sentence(self) -> str:
        """What the broker says about an error; "": nothing."""
        records = [f"record {n}: {why}" if why else f"record {n}" for n, why in self.refused[:RECORDS_NAMED]]
        more = len(self.refused) - len(records)
        return "; ".join([self.why] * bool(self.why) + records + [f"{more} more records"] * bool(more))
