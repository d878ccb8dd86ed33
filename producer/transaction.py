"""The transaction of a transactional producer as a state machine (KIP-98).  Pure: no clock, no socket.

    new          no producer id yet, or the last one is over         -> initialize
    ready        no transaction is open
    open         partitions are added before they are sent to        -> add-partitions
    committing   what was sent is acknowledged                       -> add-offsets, commit-offsets, end
    aborting     nothing more of it is sent                          -> add-offsets, commit-offsets, end
    refused      the cluster will not take it, as it is configured; .why

`ask` is what a coordinator has to be asked now; answered() takes its codes and says what follows:

    DONE      the machine has moved on
    AGAIN     ask the same again after a backoff (the coordinator loads, or still completes the transaction before)
    FIND      the same, of a coordinator that is looked up again; also for a response that never came: each of these
              questions may be asked twice
    OVER      the transaction cannot be committed any more, and whether it was may be unknown: state is new.  fenced:
              because another producer has initialized the transactional id
    REFUSED   asking again would not help until the cluster or the configuration is changed

Initializing aborts what an earlier owner of the transactional id left open, and completes what it had decided to
commit; only then is there a producer id.  Every request of that owner is refused from then on.

A question that was not answered may still arrive when the next transaction is open, under the same epoch: a late EndTxn
would commit that one half way (the reason for KIP-890).  So a transaction with such a question is followed by another
epoch: once it has ended the state is new, and settled says that it ended as it was told to.

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
    """What follows a code of a coordinator."""
    if code == 0:
        return Next.DONE
    if code in FIND:
        return Next.FIND
    if code in AGAIN:
        return Next.AGAIN
    return Next.OVER if code in OVER else Next.REFUSED


@dataclass(frozen=True, slots=True)
class Initialize:
    """InitProducerId of the transaction's coordinator."""


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """AddPartitionsToTxn of the transaction's coordinator."""

    tps: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class AddOffsets:
    """AddOffsetsToTxn of the transaction's coordinator."""

    group: str


@dataclass(frozen=True)
class CommitOffsets:
    """TxnOffsetCommit of the group's coordinator."""

    group: str
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class End:
    """EndTxn of the transaction's coordinator."""

    commit: bool


Ask = Initialize | AddPartitions | AddOffsets | CommitOffsets | End


@dataclass(slots=True)
class Transaction:
    """One transactional id.  timeout_ms: after which the coordinator aborts an open transaction by itself."""

    id: str
    timeout_ms: int
    producer: ProducerId | None = None
    state: State = State.NEW
    why: str = ""  # it is over, or refused
    fenced: bool = False  # by another producer, since it was initialized last
    settled: bool = False  # it ended as it was told to, and another epoch is due all the same
    added: set[TopicPartition] = field(default_factory=set)
    wanted: set[TopicPartition] = field(default_factory=set)
    _group: str = ""
    _offsets: Offsets = field(default_factory=dict)
    _offsets_added: bool = False
    _touched: bool = False  # the coordinator knows of this transaction
    _late: bool = False  # a question of this epoch was not answered

    # ---- what its owner does ------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Open a transaction."""
        assert self.state is State.READY, self.state
        self.state = State.OPEN

    def need(self, tps: Iterable[TopicPartition]) -> None:
        """These partitions are going to be sent to."""
        assert self.state is State.OPEN, self.state
        self.wanted |= set(tps) - self.added

    def commit(self, group: str = "", offsets: Offsets | None = None) -> None:
        """Commit what was sent and acknowledged, and these offsets of a group with it."""
        assert self.state is State.OPEN, self.state
        self.state = State.COMMITTING
        self._group, self._offsets = group, dict(offsets or {})
        self._close_if_untouched()

    def abort(self, group: str = "", offsets: Offsets | None = None) -> None:
        """Abort what was sent; none of it may be in flight any more: it would land in the next transaction.

        A group, with these offsets or none, becomes part of it first, so that the group's coordinator ends all that
        this producer id has pending there.
        """
        assert self.state is State.OPEN, self.state
        self.state = State.ABORTING
        self._group, self._offsets = group, dict(offsets or {})
        self._close_if_untouched()

    def unanswered(self, ask: Ask) -> None:
        """A question was sent, and its response never came."""
        self._late = self._late or not isinstance(ask, Initialize)

    def restart(self, why: str, fenced: bool = False) -> None:
        """Go on under another epoch; what is open will be aborted by that."""
        self._end()
        self.state, self.why, self.fenced, self.settled = State.NEW, why, fenced, False

    def refuse(self, why: str) -> None:
        """The cluster will not take it."""
        self._end()
        self.state, self.why = State.REFUSED, why

    def initialized(self, producer: ProducerId) -> None:
        """There is a producer id."""
        self.producer, self.state, self.why = producer, State.READY, ""
        self.fenced = self.settled = self._late = False

    # ---- what is asked ------------------------------------------------------------------------------------------

    @property
    def ask(self) -> Ask | None:
        """What a coordinator has to be asked now; None: nothing."""
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
        """Take the codes of the response to ask (one, or one a partition).  where: for sentences."""
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
                self.why = "it ended, and a request of it was not answered and may come late"

    def _close_if_untouched(self) -> None:
        """Nothing to commit or abort."""
        if not (self._touched or self._late or self._group):
            self._end()
            self.state = State.READY

    def _end(self) -> None:
        self.added.clear()
        self.wanted.clear()
        self._group, self._offsets = "", {}
        self._offsets_added = self._touched = False


def _worst(codes: Iterable[int]) -> tuple[Next, int]:
    """What follows several codes: the one that is hardest to heal; 55 says that others of the request failed."""
    found = {code: follows(code) for code in codes}
    for worst in (Next.REFUSED, Next.OVER, Next.FIND, Next.AGAIN):
        for code, follow in found.items():
            if follow is worst:
                return worst, code
    return Next.DONE, 0
