"""Coordinators of transactional ids and of groups in one cluster: found, asked, and looked up again where they moved.

Many producers share one of these: a few connections to each broker serve all of them, one request at a time each.
Who waited for a connection on which the broker did not answer does not ask it, too: a broker that hangs costs all of
them one time-out together.  Everything here runs in one event loop.

    carry_out(transaction)      asks what the state machine says until it asks nothing more (producer.transaction)
    committed(group)            the offsets of a group, once no open transaction may still change them
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from groundwork.tasks import Lock, now, sleep
from kafkawire.cluster.metadata import Unreachable
from kafkawire.cluster.retry import Backoff
from kafkawire.dialects import Dialect
from kafkawire.errors import BrokerError, LinkLost, LocalError, WireError
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol import apis
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
    State,
    Transaction,
    follows,
)

log = logging.getLogger(__name__)

CONNECTIONS = 4  # to each broker
BUSY = Backoff(0.01, 0.2)  # a transaction that is still being completed: it takes a few milliseconds
AWAY = Backoff(0.1, 1.0)
LOUD_AFTER = 12  # tries after which it is said why: seconds
MATERIALIZED_S = 1.0  # brokers before 2.5: after so long a committed offset is in their cache

R = TypeVar("R")
Said = Callable[[str], object]


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
            reply = self._call(broker, self._request(transaction, ask), key)
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

    def committed(
        self, group: str, wanted: Callable[[], bool], said: Said = lambda why: None
    ) -> dict[TopicPartition, StableOffset] | None:
        """All that a group has committed, once no open transaction may still change it.

        None: it is not wanted any more.  Raises TransactionRefused.
        """
        tries = 0
        while wanted():
            try:
                found = self._committed(group)
            except LinkLost as lost:
                self._known.pop((group, False), None)
                why = str(lost)
            except BrokerError as refused:
                if follows(refused.code) is Next.REFUSED:
                    raise TransactionRefused(f"{refused}{HELP.get(refused.code, '')}") from refused
                self._known.pop((group, False), None)
                why = str(refused)
            else:
                if tries > LOUD_AFTER:
                    said("")
                return found
            tries += 1
            if tries == LOUD_AFTER + 1:
                said(why)
            sleep(AWAY.wait_s(tries - 1))
        return None

    def _committed(self, group: str) -> dict[TopicPartition, StableOffset]:
        broker = self._coordinator(group, False)
        if not self._takes_stable(broker, group):
            before = None
            while before != (before := self._as_cached(broker, group)):
                sleep(MATERIALIZED_S)
            return before or {}
        reply: StableOffsets = self._call(broker, StableOffsetFetch(group), group)
        codes = [reply.error, *(row.error for row in reply.partitions.values())]
        for code in codes:
            if code:
                raise BrokerError(code, f"OffsetFetch of {group} on {broker}")
        return {tp: row for tp, row in reply.partitions.items() if row.offset >= 0}

    def _as_cached(self, broker: Broker, group: str) -> dict[TopicPartition, StableOffset]:
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
    29: "; give this client the ACL Write on the topic",
    31: "; give this client the ACL IdempotentWrite on the cluster",
    50: "; transaction.timeout.ms is above the brokers' transaction.max.timeout.ms",
    53: "; give this client the ACLs Write and Describe on that transactional id",
}


def transaction_code(why: str) -> int:
    """The code at the end of a reason."""
    digits = why.rpartition("(")[2].rstrip(")")
    return int(digits) if digits.lstrip("-").isdigit() else 0
