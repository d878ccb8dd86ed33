"""Transaction of a transactional producer as a state machine (KIP-98).  Pure: no clock, no socket.

    new          no producer id yet, or the last one is over         -> initialize
    ready        no transaction is open
    open         partitions are added before they are sent to        -> add-partitions
    committing   everything sent is acknowledged                  -> add-offsets, commit-offsets, end
    aborting     no more of it is sent                            -> add-offsets, commit-offsets, end
    refused      the cluster refuses it because of its configuration; .why

`ask` is the next request for a coordinator; answered() takes its error codes and returns what follows:

    DONE      the machine has moved on
    AGAIN     repeat the request after a backoff (the coordinator loads, or still completes the transaction before)
    FIND      look the coordinator up again and repeat the request; also if no response came: each of these requests may
              be repeated
    OVER      the transaction cannot be committed any more, and it may be unknown whether it was: state is new.  fenced:
              because another producer has initialized the transactional id
    REFUSED   a retry would not help until the cluster or the configuration is changed

Initializing aborts a transaction that an earlier owner of the transactional id left open, and completes one that it had
decided to commit; only then is there a producer id.  Later requests of that owner are refused.

A request without a response may still arrive when the next transaction is open in the same epoch: a late EndTxn would
commit half of that one (the reason for KIP-890).  So another epoch follows a transaction with such a request: once it
has ended the state is new, and settled is True if it ended as requested.

Source: org.apache.kafka.clients.producer.internals.TransactionManager; the codes are those of its handlers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from kafkawire.errors import error_info
from kafkawire.model import ProducerId, TopicPartition
from producer.sequences import FENCED

Offsets = Mapping[TopicPartition, tuple[int, str]]  # (offset, metadata) each


class State(Enum):
    NEW = "new"
    READY = "ready"
    OPEN = "open"
    COMMITTING = "committing"
    ABORTING = "aborting"
    REFUSED = "refused"


class Next(Enum):
    DONE = "done"
    AGAIN = "again"
    FIND = "find"
    OVER = "over"
    REFUSED = "refused"


AGAIN = frozenset({3, 5, 6, 14, 19, 20, 51, 55, 88})
FIND = frozenset({7, 15, 16, -1})
OVER = frozenset({45, 47, 48, 49, 52, 59, 90, 120})


def follows(code: int) -> Next:
    """Return what follows an error code of a coordinator."""
    if code == 0:
        return Next.DONE
    if code in FIND:
        return Next.FIND
    if code in AGAIN:
        return Next.AGAIN
    return Next.OVER if code in OVER else Next.REFUSED


@dataclass(frozen=True, slots=True)
class Initialize:
    """InitProducerId, for the transaction's coordinator."""


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """AddPartitionsToTxn, for the transaction's coordinator."""

    tps: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class AddOffsets:
    """AddOffsetsToTxn, for the transaction's coordinator."""

    group: str


@dataclass(frozen=True)
class CommitOffsets:
    """TxnOffsetCommit, for the group's coordinator."""

    group: str
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class End:
    """EndTxn, for the transaction's coordinator."""

    commit: bool


Ask = Initialize | AddPartitions | AddOffsets | CommitOffsets | End


@dataclass(slots=True)
class Transaction:
    """State of one transactional id. timeout_ms: after this time the coordinator aborts an open transaction by
    itself."""

    id: str
    timeout_ms: int
    producer: ProducerId | None = None
    state: State = State.NEW
    why: str = ""  # why it is over, or refused
    fenced: bool = False  # by another producer, since the last initialization
    settled: bool = False  # it ended as requested, but another epoch is needed
    added: set[TopicPartition] = field(default_factory=set)
    wanted: set[TopicPartition] = field(default_factory=set)
    _group: str = ""
    _offsets: Offsets = field(default_factory=dict)
    _offsets_added: bool = False
    _touched: bool = False  # the coordinator knows of this transaction
    _late: bool = False  # a request of this epoch was not answered

    # ---- called by its owner -----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Open a transaction."""
        assert self.state is State.READY, self.state
        self.state = State.OPEN

    def need(self, tps: Iterable[TopicPartition]) -> None:
        """Add partitions that will be sent to."""
        assert self.state is State.OPEN, self.state
        self.wanted |= set(tps) - self.added

    def commit(self, group: str = "", offsets: Offsets | None = None) -> None:
        """Commit the acknowledged messages, and these offsets of a group with them."""
        assert self.state is State.OPEN, self.state
        self.state = State.COMMITTING
        self._group, self._offsets = group, dict(offsets or {})
        self._close_if_untouched()

    def abort(self, group: str = "", offsets: Offsets | None = None) -> None:
        """Abort the messages sent; none may be in flight any more, or it would become part of the next transaction.

        A group, with these offsets or none, becomes part of it first, so that the group's coordinator ends everything
        that this producer id has pending there.
        """
        assert self.state is State.OPEN, self.state
        self.state = State.ABORTING
        self._group, self._offsets = group, dict(offsets or {})
        self._close_if_untouched()

    def unanswered(self, ask: Ask) -> None:
        """Record that a request was sent and no response came."""
        self._late = self._late or not isinstance(ask, Initialize)

    def restart(self, why: str, fenced: bool = False) -> None:
        """Continue in another epoch, which aborts an open transaction."""
        self._end()
        self.state, self.why, self.fenced, self.settled = State.NEW, why, fenced, False

    def refuse(self, why: str) -> None:
        """Record that the cluster refuses the transaction."""
        self._end()
        self.state, self.why = State.REFUSED, why

    def initialized(self, producer: ProducerId) -> None:
        """Record the producer id."""
        self.producer, self.state, self.why = producer, State.READY, ""
        self.fenced = self.settled = self._late = False

    # ---- requests
    # ------------------------------------------------------------------------------------------------------

    @property
    def ask(self) -> Ask | None:
        """Return the next request for a coordinator; None: there is none."""
        if self.state is State.NEW:
            return Initialize()
        if self.state is State.OPEN and self.wanted:
            return AddPartitions(frozenset(self.wanted))
        if self.state in (State.COMMITTING, State.ABORTING):
            if self._group and not self._offsets_added:
                return AddOffsets(self._group)
            if self._offsets:
                return CommitOffsets(self._group, self._offsets)
            return End(self.state is State.COMMITTING)
        return None

    def answered(self, ask: Ask, codes: Iterable[int], where: str) -> Next:
        """Process the error codes of the response to ask (one, or one per partition). where: for messages."""
        follow, worst = _worst(codes)
        if follow is Next.DONE:
            self._done(ask)
        elif follow is Next.OVER:
            self.restart(f"{where}: {error_info(worst).name} ({worst})", worst in FENCED)
        elif follow is Next.REFUSED:
            self.refuse(f"{where}: {error_info(worst).name} ({worst})")
        return follow

    def _done(self, ask: Ask) -> None:
        self._touched = True
        if isinstance(ask, AddPartitions):
            self.added |= ask.tps
            self.wanted -= ask.tps
        elif isinstance(ask, AddOffsets):
            self._offsets_added = True
        elif isinstance(ask, CommitOffsets):
            self._offsets = {}
        elif isinstance(ask, End):
            self._end()
            self.state = State.READY
            if self._late:
                self.state, self.settled = State.NEW, True
                self.why = "it ended, but one of its requests was not answered and may still arrive"

    def _close_if_untouched(self) -> None:
        """Close the transaction if there is nothing to commit or abort."""
        if not (self._touched or self._late or self._group):
            self._end()
            self.state = State.READY

    def _end(self) -> None:
        self.added.clear()
        self.wanted.clear()
        self._group, self._offsets = "", {}
        self._offsets_added = self._touched = False


def _worst(codes: Iterable[int]) -> tuple[Next, int]:
    """Return what follows several error codes: the most severe one; 55 only means that others of the request failed."""
    found = {code: follows(code) for code in codes}
    for worst in (Next.REFUSED, Next.OVER, Next.FIND, Next.AGAIN):
        for code, follow in found.items():
            if follow is worst:
                return worst, code
    return Next.DONE, 0
