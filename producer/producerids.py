"""Producer ids for an idempotent sender, requested from the brokers whenever its sequences need another one.

Any broker assigns one (InitProducerId without a transactional id).  While none does, numbered batches wait; that is
logged once, and for a coordinator that is starting (14, 15: at the first id of a new cluster) only if it lasts.  If a
cluster does not let this client write idempotently (31; brokers before 2.8 need the ACL IdempotentWrite on the cluster)
, batches are sent without numbers, unless the option requires them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from groundwork.tasks import Event, sleep
from kafkawire.cluster.retry import Backoff
from kafkawire.cluster.view import ClusterView
from kafkawire.dialects import Dialect
from kafkawire.errors import BrokerError, LinkLost, LocalError
from kafkawire.net.links import Links
from kafkawire.protocol.transactionrequests import Initialized, init_producer_id
from producer.outages import Events
from producer.sequences import Sequences

PURPOSE = "producer id"
NOT_ALLOWED = 31  # ClusterAuthorizationFailed
BEGINS = frozenset({14, 15})  # CoordinatorLoadInProgress, CoordinatorNotAvailable
SOON = 5  # tries, about two seconds
UNUSED_TIMEOUT_MS = 60000  # of a transaction; unused without a transactional id
BACKOFF = Backoff(0.1, 2.0)


class ProducerIds:
    """Task (run()) that gets producer ids for `sequences`.

    view: the newest view of the cluster.  required: without an id nothing may be sent.  renewed(): called after each
    new id.
    """

    def __init__(
        self,
        sequences: Sequences,
        links: Links,
        dialect: Dialect,
        *,
        view: Callable[[], ClusterView],
        required: bool,
        events: Events,
        renewed: Callable[[], object],
    ) -> None:
        self._sequences = sequences
        self._links = links
        self._dialect = dialect
        self._view = view
        self._required = required
        self._events = events
        self._renewed = renewed
        self._wanted = Event()
        self._closed = False
        self._said = ""
        self._begins = False  # all responses said that the coordinator is starting

    def want(self) -> None:
        """Request another id, because a partition needs it."""
        self._wanted.set()

    def close(self) -> None:
        self._closed = True
        self._wanted.set()

    def run(self) -> None:
        """Get ids until it is closed."""
        tries = 0
        while True:
            self._wanted.wait()
            if self._closed:
                return
            self._wanted.clear()
            reason = self._ask(tries)
            tries = tries + 1 if reason else 0
            if reason:
                if reason != self._said and not (self._begins and tries < SOON):
                    self._events(logging.WARNING, f"no producer id for idempotent batches: {reason}; retrying")
                    self._said = reason
                self._wanted.set()
                sleep(BACKOFF.wait_s(tries - 1))

    def _ask(self, tries: int) -> str:
        """Ask one broker after the other.  Return why there is no id, or "" if there is one or none is needed."""
        reasons = []
        self._begins = True
        for broker in self._links.answering_first(self._view().brokers.values()):
            try:
                reply: Initialized = self._links.call(
                    broker, PURPOSE, init_producer_id(self._dialect, None, UNUSED_TIMEOUT_MS)
                )
            except LinkLost as lost:
                reasons.append(str(lost))
                self._begins = False
                continue
            except LocalError as unspoken:
                self._begins = False
                return str(unspoken)
            if not reply.error:
                self._said = ""
                self._sequences.renew(reply.producer)
                self._renewed()
                return ""
            reasons.append(str(BrokerError(reply.error, f"InitProducerId on {broker}")))
            self._begins &= reply.error in BEGINS
            if reply.error == NOT_ALLOWED and not self._required:
                self._sequences.give_up()
                self._events(
                    logging.WARNING,
                    f"{reasons[-1]}: this client may not write idempotently, so batches are sent without numbers and "
                    "may be stored twice; give it the ACL IdempotentWrite, or set enable.idempotence: false",
                )
                self._renewed()
                return ""
        self._begins &= bool(reasons)
        return "; ".join(reasons) or "no broker is known yet"
