"""Types of requests and replies in both generations, for links and for annotations of callers.

The builders are in the dialect's module, `d.requests` (requests07.py, requests08.py);
kafkawire.interfaces.RequestBuilders describes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from kafkawire.model import TopicPartition

if TYPE_CHECKING:
    from kafkawire.protocol.bodies import Body
    from kafkawire.protocol.buffers import Buffers

CONSUMER = -1  # replica_id of clients: a broker's id would move that follower's high watermark
Store = Literal["kafka", "zookeeper"]  # where a group's offsets are kept
RECORDS_NAMED = 3  # refused records named in an error
ResponseT_co = TypeVar("ResponseT_co", covariant=True)


class ApiVersions(Protocol):
    """Part of a dialect that builders use: the versions of a release."""

    @property
    def release(self) -> str: ...

    def speaks(self, api_key: int, store: Store = "kafka") -> int:
        """Return the version to use.  Raises LocalError if the release does not have the api; store matters for offsets
        only."""


class Asked(Protocol):
    """Api of a request."""

    @property
    def name(self) -> str: ...


class Request(Protocol[ResponseT_co]):
    """One request, ready for a session, with the type that Link.call returns for it."""

    @property
    def api(self) -> Asked: ...

    @property
    def size(self) -> int:
        """Return the bytes of its body, without the frame."""

    @property
    def expects_reply(self) -> bool:
        """Return False if the broker never answers it (Produce with acks 0, and every Produce of 0.7)."""

    @property
    def head_bytes(self) -> int:
        """Return the bytes of the reply that a session must have before it calls reply()."""

    def frame(self, correlation_id: int, client_id: str) -> list[bytes | memoryview]:
        """Return all its bytes, in pieces that are not copied.  Raises LocalError if it cannot be framed."""

    def reply(self, head: bytes | bytearray, correlation_id: int, buffers: Buffers | None) -> Body[ResponseT_co]:
        """Return the body that receives the reply after its first head_bytes; fetched sets go into `buffers`.

        Raises RemoteError if the header does not belong to this request's reply, or declares more than the limit.
        """


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """One partition of a Fetch reply; buffer contains its message set alone, so a slow partition does not keep bytes of
    another in memory.

    high_watermark: None if the generation has none (0.7). last_stable_offset: the end of what read_committed may read,
    since no transaction before it is open; None: unknown log_start_offset: None: unknown aborted: (producer id, first
    offset) of the aborted transactions in the set; only with read_committed
    """

    tp: TopicPartition
    error: int
    high_watermark: int | None
    buffer: memoryview
    last_stable_offset: int | None = None
    log_start_offset: int | None = None
    aborted: tuple[tuple[int, int], ...] = ()

    def readable_end(self, committed: bool) -> int | None:
        """Return the offset after the last message that a reader may read: of committed transactions only, or of
        all."""
        if not committed or self.last_stable_offset is None or self.last_stable_offset < 0:
            return self.high_watermark
        return self.last_stable_offset


@dataclass(frozen=True, slots=True)
class ProducedPartition:
    """Outcome of producing one partition's set.

    base_offset: of its first message; with an error, any value but -1 means that the leader appended the set
    nevertheless. version: of the Produce response, which determines the possible errors; 0: not known. why, refused:
    details that brokers of 2.4 and later add to an error: a message, and one for each refused record of the batch, by
    its index.
    """

    error: int
    base_offset: int
    why: str = ""
    refused: tuple[tuple[int, str], ...] = ()
    version: int = 0

    @property
    def stored(self) -> bool:
        """True if the set was stored.  Error 0 with base offset -1 is not a success: the set was empty or
        incomplete."""
        return self.error == 0 and self.base_offset >= 0

    @property
    def sentence(self) -> str:
        """Return the broker's message about an error; "" if there is none."""
        records = [f"record {n}: {why}" if why else f"record {n}" for n, why in self.refused[:RECORDS_NAMED]]
        more = len(self.refused) - len(records)
        return "; ".join([self.why] * bool(self.why) + records + [f"{more} more records"] * bool(more))
