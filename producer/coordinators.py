"""Client of the coordinators of transactional ids and groups in one cluster, which looks them up again when they move.

Many producers share one of these: a few connections to each broker serve all of them, one request at a time each. A
caller that waited for a connection on which the broker did not answer does not send its request: a hanging broker costs
all callers one time-out together.  Everything here runs in one event loop.

    carry_out(transaction)      sends the requests that the state machine returns until it returns none
                                (producer.transaction)
    positions(transaction)      the offsets of the group named like the transactional id, once no earlier request under
                                that id may still change them

    shows(group, offsets)       waits until the coordinator answers with a committed offset

A separate thread applies the end of a transaction to the table from which a group's coordinator answers, a while after
it is in the log, and then ends everything that the producer id has pending there.  And up to 3.6 an offset that arrives
late, outside an open transaction, stays pending forever.  So:

    the next offset is committed once the previous one is returned.  Otherwise the end of the previous transaction would
        make it visible, and if its own transaction is aborted, the messages that it covers are lost

    a new owner runs a small transaction through the same log, thread and table (`positions`), and reads the offsets
        after it.  It is for a partition without committed offsets (a Probe), since the end of an earlier transaction
        may make it visible

        every release    it is aborted, which drops everything that the producer id has pending, and makes the group's
                         log refuse requests of earlier epochs
        from 2.5         until it has ended, OffsetFetch v7 answers 88 for its partition, if the request names it: a
                         request for all partitions leaves out one whose first commit is pending
        0.11 to 2.4      OffsetFetch does not show pending offsets: a second probe is committed, and read until it is
                         there; then once more, because the end of the aborted one may have dropped it

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
BUSY = Backoff(0.01, 0.2)  # for a transaction that is still being completed, which takes a few milliseconds
AWAY = Backoff(0.1, 1.0)
LOUD_AFTER = 12  # tries, about seconds, after which the reason is logged
SHOWN_S = 10.0  # seconds after which a committed offset that is not returned is investigated
PROBED_S = 1.0  # seconds after which a probe that is not returned is committed again
MATERIALIZED_S = 1.0  # brokers before 2.5 without a probe: seconds after which a committed offset is in their table
OFFSETS_0 = TopicPartition(OFFSETS_TOPIC, 0)  # probed partition if the target topic has only one
TOPIC_NOT_ALLOWED = 29

R = TypeVar("R")
Said = Callable[[str], object]
Committed = dict[TopicPartition, StableOffset]


class Probe(NamedTuple):
    """Offset that is committed only to be read back: for a partition without other committed offsets, with unique
    metadata."""

    tp: TopicPartition
    metadata: str


class TransactionRefused(LocalError):
    """The cluster refuses the transaction because of its or the client's configuration; the message says what helps."""


class Coordinators:
    """Client of the coordinators of one cluster. brokers(): known brokers, any of which can look a coordinator up;
    raises Unreachable if there are none.

    links: used by this object alone.
    """

    def __init__(self, brokers: Callable[[], Sequence[Broker]], links: Links, dialect: Dialect) -> None:
        self._brokers = brokers
        self._links = links
        self._dialect = dialect
        self._known: dict[tuple[str, bool], Broker] = {}
        self._looked: dict[tuple[str, bool], int] = {}  # broker at which the next lookup begins
        self._locks: dict[tuple[int, int], Lock] = {}
        self._lost_at: dict[Broker, float] = {}
        self._stable: dict[Broker, bool] = {}  # whether a broker supports OffsetFetch v7
        self._unprobed: set[TopicPartition] = set()  # partitions for which this client may not commit offsets

    # ---- transactions -----------------------------------------------------------------------------------------------

    def carry_out(self, transaction: Transaction, wanted: Callable[[], bool], said: Said = lambda why: None) -> bool:
        """Send requests until the transaction needs none.  Return False if it is over (new) or not wanted any more.

        For a new transaction InitProducerId is sent; nothing more is sent for one that becomes new meanwhile. said:
        called with the reason for a long delay, and with "" once it continues.  Raises TransactionRefused.
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
        """Send one request; return what follows, and the reason."""
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
        """Return all offsets that the group named like the transactional id has committed, including probes.

        transaction: in state ready, of this owner. at: the target partition whose offsets are committed.  None: not
        wanted any more, or the transaction is over (new).  Raises TransactionRefused.
        """
        group, offsets = transaction.id, {probe.tp: (0, probe.metadata)}
        # Even without a probe, this drops the producer id's pending offsets, and writes its epoch into the group's log.
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
        # Still pending offsets belong to an earlier producer id of the transactional id, and will never end.
        return self._asked_of_group(group, wanted, said, lambda broker: self._as_cached(broker, group))

    def _ended(
        self, transaction: Transaction, offsets: Offsets, commit: bool, wanted: Callable[[], bool], said: Said
    ) -> bool:
        """Run a transaction with its group and these offsets alone.  Return False if it is over (new), or was not
        begun."""
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
        if transaction.state is not State.NEW:  # interrupted, and not to be continued
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
        """Wait until the group's coordinator answers with these offsets.  Return False if it does not within within_s,
        or is not wanted any more.  Raises TransactionRefused."""
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
        """Send a request to the coordinator of a group until it answers; None: not wanted any more.

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
        """Return all committed offsets of a group from a broker of 2.5 or later, if nothing is pending for a partition.

        Both come from the same broker: a coordinator of 4.0 that has just taken over returns older offsets until a
        request with require_stable.  Raises BrokerError (88) if an offset is pending.
        """
        reply: StableOffsets = self._call(broker, StableOffsetFetch(group, tp), group)
        for code in (reply.error, *(row.error for row in reply.partitions.values())):
            if code:
                raise BrokerError(code, f"OffsetFetch of {group} on {broker}")
        return self._as_cached(broker, group)

    def _cached_twice(self, broker: Broker, group: str) -> Committed:
        """Return committed offsets from the cache of an older broker, read twice with the same result."""
        before = self._as_cached(broker, group)
        while True:
            sleep(MATERIALIZED_S)
            if before == (before := self._as_cached(broker, group)):
                return before

    def _as_cached(self, broker: Broker, group: str) -> Committed:
        """Return committed offsets from the cache of an older broker."""
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
        """Look up a coordinator.  Raises LinkLost, BrokerError."""
        known = self._known.get((key, of_transaction))
        if known is not None:
            return known
        reasons: list[WireError] = []
        try:
            brokers = self._brokers()
        except Unreachable as away:
            raise LinkLost(str(away)) from away
        first = self._looked.get((key, of_transaction), 0) % max(1, len(brokers))
        self._looked[key, of_transaction] = first + 1  # a broker with outdated metadata always names the same one
        for broker in self._links.answering_first([*brokers[first:], *brokers[:first]]):
            try:
                reply: Coordinator = self._call(broker, find_coordinator(self._dialect, key, of_transaction), key)
            except LinkLost as lost:
                reasons.append(lost)
                continue
            if reply.broker is not None:
                self._known[key, of_transaction] = reply.broker
                return reply.broker
            reasons.append(BrokerError(reply.error, f"coordinator of {key}, according to {broker}"))
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
        """Close the connections: callers waiting for a response raise LinkLost."""
        self._links.close()


HELP = {
    30: "; give this client the ACLs Read and Describe on that group",
    29: "; give this client the ACLs Read and Write on the topic",
    31: "; give this client the ACL IdempotentWrite on the cluster",
    50: "; transaction.timeout.ms is above the brokers' transaction.max.timeout.ms",
    53: "; give this client the ACLs Write and Describe on that transactional id",
}


def transaction_code(why: str) -> int:
    """Return the error code at the end of a reason."""
    digits = why.rpartition("(")[2].rstrip(")")
    return decimal_int(digits, least=-1) or 0
