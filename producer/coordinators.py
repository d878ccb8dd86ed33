"""Coordinators of transactional ids and of groups in one cluster: found, asked, and looked up again where they moved.

Many producers share one of these: a few connections to each broker serve all of them, one request at a time each.
Who waited for a connection on which the broker did not answer does not ask it, too: a broker that hangs costs all of
them one time-out together.  Everything here runs in one event loop.

    carry_out(transaction)      asks what the state machine says until it asks nothing more (producer.transaction)
    positions(transaction)      the offsets of the group that is named like the transactional id, once nothing that was
                                sent under that id before may still change them

    shows(group, offsets)       waits until an offset that was committed is what the coordinator answers

The end of a transaction reaches the table that a group's coordinator answers from by a thread of its own, a while after
it is in the log, and ends whatever the producer id has pending there at that moment.  And up to 3.6 an offset that
comes late, into no open transaction, is pending for ever.  So:

    the next offset is committed once the one before it is shown.  Else the end of the one before would make it visible,
    and if its own transaction is aborted, what it covers is lost

    a new owner carries a small transaction through the same log, thread and table (`positions`), and reads once that
    one is through.  It is of a partition that no position is committed for (a Probe): the end of an earlier transaction
    may make it visible

        every release    it is aborted, which drops all that the producer id has pending, and makes the group's log
                         refuse requests of former epochs
        from 2.5         until it is through, OffsetFetch v7 answers 88 for its partition, if that is asked for by name:
                         a request for all partitions leaves out one whose first commit is pending
        0.11 to 2.4      OffsetFetch shows nothing of what is pending: another one is committed, and read until it is
                         there; and once more, because the end of the aborted one may have dropped it

Source: kafka.coordinator.group.GroupMetadata.completePendingTxnOffsetCommit,
GroupMetadataManager.scheduleHandleTxnCompletion.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from groundwork.decimals import decimal_int
from groundwork.tasks import Lock, now, sleep
from kafkawire.cluster.metadata import Unreachable
from kafkawire.cluster.retry import Backoff
from kafkawire.dialects import Dialect
from kafkawire.errors import BrokerError, LinkLost, LocalError, WireError
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol import apis
from kafkawire.protocol.offsetrecords import OFFSETS_TOPIC
from kafkawire.protocol.request import Request
from kafkawire.protocol.stableoffsets import VERSION, StableOffset, StableOffsetFetch, StableOffsets
from kafkawire.protocol.transactionrequests import (
    Coordinator,
    Initialized,
    add_offsets,
    add_partitions,
    end_txn,
    find_coordinator,
    init_producer_id,
    txn_offset_commit,
)
from producer.transaction import (
    AddOffsets,
    AddPartitions,
    Ask,
    CommitOffsets,
    Initialize,
    Next,
    Offsets,
    State,
    Transaction,
    follows,
)

log = logging.getLogger(__name__)

CONNECTIONS = 4  # to each broker
BUSY = Backoff(0.01, 0.2)  # a transaction that is still being completed: it takes a few milliseconds
AWAY = Backoff(0.1, 1.0)
LOUD_AFTER = 12  # tries after which it is said why: seconds
SHOWN_S = 10.0  # a committed offset that is not shown so long is looked into
PROBED_S = 1.0  # the same for a probe, which is committed again
MATERIALIZED_S = 1.0  # brokers before 2.5 that cannot be probed: after so long a committed offset is in their table
OFFSETS_0 = TopicPartition(OFFSETS_TOPIC, 0)  # to be probed where the target topic has one partition
TOPIC_NOT_ALLOWED = 29

R = TypeVar("R")
Said = Callable[[str], object]
Committed = dict[TopicPartition, StableOffset]


class Probe(NamedTuple):
    """An offset that is committed in order to be read: for a partition that no position is committed for, with metadata
    that no other commit has."""

    tp: TopicPartition
    metadata: str


class TransactionRefused(LocalError):
    """The cluster does not take the transaction, as it or the client is configured; the sentence says what helps."""


class Coordinators:
    """Asks coordinators of one cluster.  brokers(): those that are known now; any one can look a coordinator up;
    Unreachable where none is.

    links: of these alone.
    """

    def __init__(self, brokers: Callable[[], Sequence[Broker]], links: Links, dialect: Dialect) -> None:
        self._brokers = brokers
        self._links = links
        self._dialect = dialect
        self._known: dict[tuple[str, bool], Broker] = {}
        self._looked: dict[tuple[str, bool], int] = {}  # at which broker the next look-up begins
        self._locks: dict[tuple[int, int], Lock] = {}
        self._lost_at: dict[Broker, float] = {}
        self._stable: dict[Broker, bool] = {}  # whether a broker takes OffsetFetch v7
        self._unprobed: set[TopicPartition] = set()  # this client may not commit offsets for

    # ---- transactions -----------------------------------------------------------------------------------------------

    def carry_out(self, transaction: Transaction, wanted: Callable[[], bool], said: Said = lambda why: None) -> bool:
        """Ask until the transaction asks nothing more, is over (new) or is not wanted any more; then False.

        Of a new one InitProducerId is asked; of what becomes new meanwhile nothing more is.  said: called with why it
        takes long, and with "" once it goes on.  Raises TransactionRefused.
        """
        tries, loud = 0, False
        begins = transaction.state is State.NEW
        while (ask := transaction.ask) is not None and (begins or not isinstance(ask, Initialize)):
            if not wanted():
                return False
            follow, why = self._asked(transaction, ask)
            if follow is Next.DONE:
                tries, begins = 0, False
                continue
            if follow is Next.REFUSED:
                raise TransactionRefused(f"{transaction.why}{HELP.get(transaction_code(transaction.why), '')}")
            if follow is Next.OVER and not begins:
                break
            tries += 1
            if tries > LOUD_AFTER and not loud:
                loud = True
                said(why)
            sleep((BUSY if follow is Next.AGAIN else AWAY).wait_s(tries - 1))
        if loud:
            said("")
        return transaction.state is not State.NEW

    def _asked(self, transaction: Transaction, ask: Ask) -> tuple[Next, str]:
        """Ask once; what follows, and the reason."""
        of_group = isinstance(ask, CommitOffsets)
        key = ask.group if isinstance(ask, CommitOffsets) else transaction.id
        try:
            broker = self._coordinator(key, not of_group)
            try:
                reply = self._call(broker, self._request(transaction, ask), key)
            except LinkLost:
                transaction.unanswered(ask)
                raise
        except LinkLost as lost:
            self._known.pop((key, not of_group), None)
            return Next.FIND, str(lost)
        except BrokerError as away:
            follow = follows(away.code)
            if follow is Next.REFUSED:
                transaction.refuse(str(away))
            return follow, str(away)
        where = f"{type(ask).__name__} of {key} on {broker}"
        if isinstance(reply, Initialized):
            follow = follows(reply.error)
            if follow is Next.DONE:
                transaction.initialized(reply.producer)
            elif follow is Next.REFUSED:
                transaction.refuse(str(BrokerError(reply.error, where)))
            codes: Iterable[int] = [reply.error]
        else:
            codes = reply.values() if isinstance(reply, Mapping) else [reply]
            follow = transaction.answered(ask, codes, where)
        if follow is Next.FIND:
            self._known.pop((key, not of_group), None)
        return follow, f"{where}: {', '.join(str(code) for code in sorted(set(codes) - {0}))}"

    def _request(self, transaction: Transaction, ask: Ask) -> Request[Any]:
        d, name, producer = self._dialect, transaction.id, transaction.producer
        if isinstance(ask, Initialize):
            return init_producer_id(d, name, transaction.timeout_ms)
        assert producer is not None
        if isinstance(ask, AddPartitions):
            return add_partitions(d, name, producer, ask.tps)
        if isinstance(ask, AddOffsets):
            return add_offsets(d, name, producer, ask.group)
        if isinstance(ask, CommitOffsets):
            return txn_offset_commit(d, name, producer, ask.group, ask.offsets)
        return end_txn(d, name, producer, ask.commit)

    # ---- offsets ----------------------------------------------------------------------------------------------------

    def positions(
        self,
        transaction: Transaction,
        at: TopicPartition,
        probe: Probe,
        wanted: Callable[[], bool],
        said: Said = lambda why: None,
    ) -> Committed | None:
        """All that the group named like the transactional id has committed, probes among it.

        transaction: ready, of this owner.  at: the partition of the target that positions are committed for.  None: it
        is not wanted any more, or the transaction is over (new).  Raises TransactionRefused.
        """
        group, offsets = transaction.id, {probe.tp: (0, probe.metadata)}
        # Without a probe, too, it drops what the producer id has pending, and its epoch gets into the group's log.
        if not self._ended(transaction, {} if probe.tp in self._unprobed else offsets, False, wanted, said):
            return None
        stable = self._asked_of_group(group, wanted, said, lambda broker: self._takes_stable(broker, group))
        if stable is None:
            return None
        unprobed = probe.tp in self._unprobed
        if not stable and unprobed:
            return self._asked_of_group(group, wanted, said, lambda broker: self._cached_twice(broker, group))
        if stable:
            named = at if unprobed else probe.tp
            return self._asked_of_group(group, wanted, said, lambda broker: self._when_settled(broker, group, named))
        shown = False
        while not shown:
            if not self._ended(transaction, offsets, True, wanted, said):
                return None
            shown = self.shows(group, offsets, wanted, said, PROBED_S)
        # What is still pending is of a producer id that the transactional id had once: it ends no more.
        return self._asked_of_group(group, wanted, said, lambda broker: self._as_cached(broker, group))

    def _ended(
        self, transaction: Transaction, offsets: Offsets, commit: bool, wanted: Callable[[], bool], said: Said
    ) -> bool:
        """Carry out a transaction of its group and these offsets alone; False: it is over (new), or was not begun."""
        if not wanted():
            return False
        transaction.begin()
        (transaction.commit if commit else transaction.abort)(transaction.id, offsets)
        try:
            if self.carry_out(transaction, wanted, said):
                return True
        except TransactionRefused:
            if OFFSETS_0 not in offsets or transaction_code(transaction.why) != TOPIC_NOT_ALLOWED:
                raise
            self._unprobed.add(OFFSETS_0)
        if transaction.state is not State.NEW:  # cut short, and not to be gone on with
            transaction.restart("")
        return False

    def shows(
        self,
        group: str,
        offsets: Offsets,
        wanted: Callable[[], bool],
        said: Said = lambda why: None,
        within_s: float = SHOWN_S,
    ) -> bool:
        """Wait until the group's coordinator answers with these offsets; False: it did not so long, or it is not wanted
        any more.  Raises TransactionRefused."""
        until, tries = now() + within_s, 0
        while True:
            found = self._asked_of_group(group, wanted, said, lambda broker: self._as_cached(broker, group))
            if found is None:
                return False
            rows = {tp: (row.offset, row.metadata) for tp, row in found.items()}
            if all(rows.get(tp) == row for tp, row in offsets.items()):
                return True
            if now() >= until:
                return False
            sleep(BUSY.wait_s(tries))
            tries += 1

    def _asked_of_group(
        self, group: str, wanted: Callable[[], bool], said: Said, ask: Callable[[Broker], R]
    ) -> R | None:
        """Ask the coordinator of a group until it answers; None: it is not wanted any more.

        Raises TransactionRefused.
        """
        tries = 0
        while wanted():
            backoff = AWAY
            try:
                found = ask(self._coordinator(group, False))
            except LinkLost as lost:
                self._known.pop((group, False), None)
                why = str(lost)
            except BrokerError as refused:
                follow = follows(refused.code)
                if follow is Next.REFUSED:
                    raise TransactionRefused(f"{refused}{HELP.get(refused.code, '')}") from refused
                if follow is Next.AGAIN:
                    backoff = BUSY
                else:
                    self._known.pop((group, False), None)
                why = str(refused)
            else:
                if tries > LOUD_AFTER:
                    said("")
                return found
            tries += 1
            if tries == LOUD_AFTER + 1:
                said(why)
            sleep(backoff.wait_s(tries - 1))
        return None

    def _when_settled(self, broker: Broker, group: str, tp: TopicPartition) -> Committed:
        """All that a group has committed, of a broker from 2.5 on at which nothing is pending for a partition.

        The same broker says both: a coordinator of 4.0 that has just taken over shows older offsets until it was asked
        with require_stable.  Raises BrokerError (88) where something is pending.
        """
        reply: StableOffsets = self._call(broker, StableOffsetFetch(group, tp), group)
        for code in (reply.error, *(row.error for row in reply.partitions.values())):
            if code:
                raise BrokerError(code, f"OffsetFetch of {group} on {broker}")
        return self._as_cached(broker, group)

    def _cached_twice(self, broker: Broker, group: str) -> Committed:
        """As an older broker's cache has it, twice in a row."""
        before = self._as_cached(broker, group)
        while True:
            sleep(MATERIALIZED_S)
            if before == (before := self._as_cached(broker, group)):
                return before

    def _as_cached(self, broker: Broker, group: str) -> Committed:
        """As an older broker's cache has it."""
        reply = self._call(broker, self._dialect.requests.offset_fetch(self._dialect, group, None), group)
        if reply["error"]:
            raise BrokerError(reply["error"], f"OffsetFetch of {group} on {broker}")
        found = {}
        for topic in reply["topics"]:
            for row in topic["partitions"]:
                if row["error"]:
                    raise BrokerError(row["error"], f"OffsetFetch of {group} on {broker}")
                if row["offset"] >= 0:
                    tp = TopicPartition(topic["topic"], row["partition"])
                    found[tp] = StableOffset(row["offset"], row["metadata"] or "", 0)
        return found

    def _takes_stable(self, broker: Broker, key: str) -> bool:
        if broker not in self._stable:
            reply = self._call(broker, self._dialect.requests.api_versions(self._dialect), key)
            highest = {key: newest for key, _, newest in reply["api_versions"]}
            self._stable[broker] = highest.get(apis.OFFSET_FETCH.key, 0) >= VERSION
        return self._stable[broker]

    # ---- brokers ----------------------------------------------------------------------------------------------------

    def _coordinator(self, key: str, of_transaction: bool) -> Broker:
        """Raises LinkLost, BrokerError."""
        known = self._known.get((key, of_transaction))
        if known is not None:
            return known
        reasons: list[WireError] = []
        try:
            brokers = self._brokers()
        except Unreachable as away:
            raise LinkLost(str(away)) from away
        first = self._looked.get((key, of_transaction), 0) % max(1, len(brokers))
        self._looked[key, of_transaction] = first + 1  # a broker with old metadata names the same one for ever
        for broker in self._links.answering_first([*brokers[first:], *brokers[:first]]):
            try:
                reply: Coordinator = self._call(broker, find_coordinator(self._dialect, key, of_transaction), key)
            except LinkLost as lost:
                reasons.append(lost)
                continue
            if reply.broker is not None:
                self._known[key, of_transaction] = reply.broker
                return reply.broker
            reasons.append(BrokerError(reply.error, f"coordinator of {key}, asked of {broker}"))
        refused = [reason for reason in reasons if isinstance(reason, BrokerError)]
        if refused:
            raise refused[0]
        raise LinkLost("; ".join(map(str, reasons)) or "no broker is known")

    def _call(self, broker: Broker, request: Request[R], key: str) -> R:
        """Send one request over one of the connections to a broker.  Raises LinkLost."""
        lane = hash(key) % CONNECTIONS
        lock = self._locks.setdefault((broker.id, lane), Lock())
        began = now()
        with lock:
            if self._lost_at.get(broker, 0.0) > began:
                raise LinkLost(f"{broker}: no answer to the request before")
            try:
                return self._links.call(broker, f"transactions {lane}", request)
            except LinkLost:
                self._lost_at[broker] = now()
                raise

    def close(self) -> None:
        """Close the connections: who waits for a response has lost it."""
        self._links.close()


HELP = {
    30: "; give this client the ACLs Read and Describe on that group",
    29: "; give this client the ACLs Read and Write on the topic",
    31: "; give this client the ACL IdempotentWrite on the cluster",
    50: "; transaction.timeout.ms is above the brokers' transaction.max.timeout.ms",
    53: "; give this client the ACLs Write and Describe on that transactional id",
}


def transaction_code(why: str) -> int:
    """The code at the end of a reason."""
    digits = why.rpartition("(")[2].rstrip(")")
    return decimal_int(digits, least=-1) or 0
