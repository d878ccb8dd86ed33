"""Transactions of one source partition during one ownership period: a task, a sender and a transactional id.

    begin       InitProducerId of the partition's transactional id fences the previous owner: transactions that it
                left open are aborted, those that it had decided to commit are committed.  The position is read from the
                target after all requests under that id (producer.coordinators), so only this owner can change it now
    gate        holds the sets that the source delivers meanwhile.  If they begin before the position, the source seeks
                to it and another period begins; after a reset the position is set back instead (position.py)
    transact    every transaction.interval.ms: the parts of all waiting steps are sent.  Once all are acknowledged,
                the position behind them is committed in the same transaction.  Then the source may commit
    over        a broker has forgotten the producer, or a request was not answered and may arrive late: the id is
                initialized again, and its parts are sent again unless the position says that it was committed
    too slow    the coordinator aborted it because it took longer than transaction.timeout.ms.  That raises the
                epoch, as another owner would; our clock tells the two apart.  The next one takes half of its bytes
    fenced      another process owns the partition now, or believes that it does: the period ends.  If the group still
                assigns the partition to us, the next period begins with the position
    lapsed      the lease is over, and may be renewed before another member notices: nothing is sent or committed
                meanwhile.  Then an open transaction is treated as one that is over

Only the latest process to initialize can commit, and it commits behind everything committed before.  This holds
whatever a process believes about its lease, even if it wakes up after minutes (SIGSTOP) and continues to send.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from groundwork.failpoints import failpoint
from groundwork.tasks import Event, TaskGroup, now, sleep
from kafkawire.errors import LocalError
from kafkawire.model import MessageSet, TopicPartition
from mirrormaker.exactlyonce.position import (
    Beginning,
    Position,
    beginning,
    former_position_of,
    metadata_of,
    position_of,
    probe_metadata,
)
from mirrormaker.exactlyonce.steps import Step, StepQueue
from mirrormaker.source import Share
from producer.coordinators import Committed, Coordinators, Probe, TransactionRefused
from producer.errors import UnknownOutcome
from producer.sender import Sender
from producer.sequences import Sequences
from producer.transaction import Offsets, State, Transaction
from zkconsumer.errors import ConsumerError
from zkconsumer.fetching.position import Reset

log = logging.getLogger(__name__)

POLL_S = 0.5
UNPARK_S = LAPSE_S = 0.1
REFRESH_S = 3600.0  # brokers forget an idle offset after a day (0.11 to 1.x) or a week (later releases)

OTHERS = "another process has initialized its transactional id, or a request of ours to do so came late"

PassOn = Callable[[MessageSet, Share], object]


class ExactlyOnceRefused(LocalError):
    """Raised when a partition cannot be copied exactly once; names the partition, and what helps."""


class PeriodOver(UnknownOutcome):
    """Raised when the ownership period ended during a transaction; the next period begins with the target's
    position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """One ownership period of a source partition.

    key: identifies the period.  owned(): True if the lease holds and the period is not over.  ended(): True if the
    period is over for good.  topic: the czxid of the source's topic.  reset: the partition's newest reset since it is
    owned. at: the target partition that offsets are committed for.  beside: one for which no offset is committed.
    """

    source: TopicPartition
    key: object
    owned: Callable[[], bool]
    ended: Callable[[], bool]
    topic: int | None
    reset: Reset | None
    at: TopicPartition
    beside: TopicPartition
    pass_on: PassOn


@dataclass(frozen=True, slots=True)
class Names:
    """Names of one source partition in the target.

    name: the transactional id, which is also the group of the position.  former: the name under which earlier releases
    kept the position, if it differs.  shared: partitions of another source may have had the former name.
    """

    name: str
    former: str = ""
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Transacting:
    """Settings and callbacks for copying partitions in transactions.

    interval_s: a transaction is committed this long after its first part, or after half of its timeout if that is less.
    timeout_ms: the coordinator aborts a transaction after this time.  max_bytes(): size limit of a transaction.
    sender(sequences, transactional id): makes the sender of a period; retire(transactions): ends the period.
    """

    interval_s: float
    timeout_ms: int
    max_bytes: Callable[[], int]
    coordinators: Coordinators
    sender: Callable[[Sequences, str], Sender]
    retire: Callable[[PartitionTransactions], object]


class PartitionTransactions:
    """Transactions of one source partition during one ownership period; run() is its task.

    followed: the reset that the position was already set back for; updated when this period sets it back.  waiting: by
    partition name, the reason why it waits.  unpark(tp): fetches a parked partition again; False if it cannot yet.
    seek(tp, offset): resumes reading there, in another period.
    """

    def __init__(
        self,
        period: Period,
        *,
        source: str,
        names: Names,
        how: Transacting,
        waiting: dict[str, str],
        unpark: Callable[[TopicPartition], bool],
        seek: Callable[[TopicPartition, int], object],
        tasks: TaskGroup,
        followed: Reset | None = None,
    ) -> None:
        self.period = period
        self.followed = followed
        self._source = source
        self._names = names
        self._name = name = names.name
        self._how = how
        self._coordinators = how.coordinators
        self._waiting = waiting
        self._unpark = unpark
        self._seek = seek
        self._tasks = tasks
        self._transaction = Transaction(name, how.timeout_ms)
        self._wake = Event()
        self._sequences = Sequences(self._wake.set, transactional=True)
        self.sender = how.sender(self._sequences, name)
        self._steps = StepQueue()
        self._held: deque[tuple[MessageSet, Share]] = deque()
        self._position: Position | None = None  # read from the target
        self._unseen: Offsets = {}  # last committed, and not yet visible in the target
        self._began = 0.0  # when the open transaction began
        self._limit: int | None = None  # size limit of a transaction in bytes, because larger ones took too long
        self._open = self._busy = self.over = self._flushed = False
        self._refused: ExactlyOnceRefused | None = None
        self.ended_by = ""  # why the period ended during a transaction
        self.commits = 0

    # ---- the flow's side --------------------------------------------------------------------------------------------

    def admit(self, fetched: MessageSet, share: Share) -> None:
        """Let a set continue, now or once the position is known; sets keep their order."""
        if self._refused is not None:
            share.ticket(fetched.resume_at).failed(self._refused, fetched.start)
        elif self.ended_by:
            share.ticket(fetched.resume_at).failed(PeriodOver(self.ended_by), fetched.start)
        elif self._open and not self._busy:
            self.period.pass_on(fetched, share)
        else:
            self._held.append((fetched, share))

    def enqueue(self, step: Step) -> None:
        """Append a step of the flow to the queue."""
        if self.ended_by:
            step.fail(PeriodOver(self.ended_by), None)
            return
        self._steps.waiting.append(step)
        self._wake.set()

    def flush(self) -> None:
        """Commit what was sent so far, because the mirror stops."""
        self._flushed = True
        self._wake.set()

    def reroute(self, at: TopicPartition, beside: TopicPartition, pass_on: PassOn) -> None:
        """Continue the period with another route from the next set onwards; for `at` and `beside` see Period."""
        self.period = replace(self.period, at=at, beside=beside, pass_on=pass_on)

    def stop(self) -> None:
        """Stop, because another period of the partition begins."""
        self.over = True
        self._wake.set()

    def fence(self) -> None:
        """Send nothing more and cut off what is in flight, because the lease is over."""
        self.sender.drop(lambda part, ticket: not ticket.may_send())
        self.sender.close_links()
        self._wake.set()

    def pending(self, topic: str) -> bool:
        """True if something sent to a target topic is not committed yet."""
        steps = (*self._steps.open, *self._steps.waiting)
        return any(tp.topic == topic for step in steps for tp in step.targets)

    # ---- the task ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until the period is over."""
        try:
            self._run()
        except TransactionRefused as refused:
            self._refuse(refused)
        finally:
            self.over = True
            self._waiting.pop(str(self.period.source), None)
            self._how.retire(self)

    def _run(self) -> None:
        if not self._initialize() or not self._begin():
            return
        committed_at = now()
        while self._lease_holds():
            self._steps.dismiss(self._current)
            if self._transaction.state is not State.READY:
                self._lapsed()
            elif self._steps.waiting:
                self._transact()
                committed_at = now()
            elif self._position is not None and now() - committed_at > REFRESH_S:
                self._refresh(self._position.offset)
                committed_at = now()
            else:
                self._wake.wait(POLL_S)
                self._wake.clear()

    @property
    def _lasts(self) -> bool:
        """True if the period is not over; the lease may be."""
        return not self.over and not self.period.ended()

    def _current(self) -> bool:
        return self._lasts and self.period.owned()

    def _lease_holds(self) -> bool:
        """Wait until the lease is renewed if it is over.  Return False if the period is over."""
        while self._lasts and not self.period.owned():
            sleep(LAPSE_S)
        return self._lasts

    def _said(self, why: str) -> None:
        name = str(self.period.source)
        if why:
            self._waiting[name] = f"exactly once: {why}"
        else:
            self._waiting.pop(name, None)

    def _initialize(self) -> bool:
        """Fence the previous owner, and read the position.  Return False if the period is over.  Raises
        TransactionRefused."""
        transaction = self._transaction
        if transaction.state is not State.NEW:
            transaction.restart("")
        while self._lease_holds():
            found = self._positions(transaction)
            if found is None:
                sleep(LAPSE_S if transaction.fenced else 0)  # two processes that fence each other must not spin
                continue
            position = position_of(found, self.period.topic)
            if position is None and self._names.former:
                found = self._positions(Transaction(self._names.former, self._how.timeout_ms))
                if found is None:
                    continue
                topic, target = self.period.topic, self.period.at.topic
                position = former_position_of(found, topic, target, self._names.shared)
            assert transaction.producer is not None
            self._sequences.renew(transaction.producer)
            self._position, self._unseen = position, {}
            self._said("")
            return True
        return False

    def _positions(self, transaction: Transaction) -> Committed | None:
        """Fence the previous user of the transactional id, and read the offsets that its group committed.  Return None
        to try again if the period is not over."""
        if transaction.state is State.NEW and not self._coordinators.carry_out(transaction, self._current, self._said):
            return None
        assert transaction.producer is not None
        at, beside = self.period.at, self.period.beside
        probe = Probe(beside, probe_metadata(transaction.producer))

        def wanted() -> bool:
            """True if these partitions may still be used: the target topic may be created again with fewer
            partitions."""
            return self._current() and (at, beside) == (self.period.at, self.period.beside)

        return self._coordinators.positions(transaction, at, probe, wanted, self._said)

    # ---- the gate ---------------------------------------------------------------------------------------------------

    def _begin(self) -> bool:
        """Release the held sets at the offset where source and target agree.  Return False if another period must do
        it."""
        if not self._lease_holds():
            return False  # the position was read for `at`, and must not be committed for another partition
        start = self._held[0][0].start
        reset = self.period.reset if self.period.reset is not self.followed else None
        match beginning(self._position, start, reset):
            case Beginning.AT_POSITION:
                self._move_source(start)
                return False
            case Beginning.SET_BACK:
                if not self._set_back(start):
                    return False
        self.followed = self.period.reset
        self._open = self._busy = True
        self._tasks.spawn(f"held-{self._name}", self._pass_held)
        return True

    def _move_source(self, start: int) -> None:
        """Move the source to the position: everything before it is in the target."""
        assert self._position is not None
        log.info(
            "source %s: %s resumes at %d, as the target says; the group committed %d",
            self._source,
            self.period.source,
            self._position.offset,
            start,
            extra={"key": self.period.source},
        )
        try:
            self._seek(self.period.source, self._position.offset)
        except ConsumerError:
            pass  # the mirror stops, or the partition was revoked

    def _set_back(self, start: int) -> bool:
        """Commit a lower position before anything behind it is sent.  Return False if the period is over."""
        before = self._position
        assert before is not None
        while self._position is not None and self._position.offset > start:
            if not self._lease_holds():
                return False
            if self._transaction.state is State.READY:
                self._transaction.begin()
                self._end_transaction(start, before.at)
            elif self._transaction.fenced:
                self._end_period(self._transaction.why)
                return False
            elif not self._restarted():
                return False
        log.warning(
            "source %s: %s resumes at %d after a reset, and the position in the target was set back from %d: messages "
            "from there onwards are copied again",
            self._source,
            self.period.source,
            start,
            before.offset,
            extra={"key": self.period.source, "event": "position-set-back", "source": self._source},
        )
        return True

    def _pass_held(self) -> None:
        """Pass on the held sets in order; sets that arrive meanwhile are held behind them."""
        try:
            while self._held and self._lease_holds() and self._held:
                self.period.pass_on(*self._held.popleft())
                sleep(0)
        finally:
            self._busy = False

    # ---- a transaction ----------------------------------------------------------------------------------------------

    def _transact(self) -> None:
        """Run one transaction from its first step to its end."""
        steps, transaction = self._steps, self._transaction
        transaction.begin()
        self._began = now()
        until, closing = self._began + min(self._how.interval_s, self._how.timeout_ms / 2000), False
        while True:
            self._wake.clear()
            if not closing:
                self._send(steps.take(self._max_bytes()))
            if transaction.ask is not None:
                if not self._coordinators.carry_out(transaction, self._current, self._said):
                    break
                self._sequences.added(transaction.added)
                self.sender.wake()
            if self._sequences.broken:
                transaction.restart(self._sequences.broken, self._sequences.fenced)
                break
            if steps.failed is not None:
                self._failed(steps.failed)
                return
            if not self._current():
                return
            if steps.unwanted:
                self._end_period("some of its parts may not be sent any more")
                return
            closing = closing or now() >= until or self._flushed or steps.enough(self._max_bytes())
            if closing and steps.stored:
                self._commit(steps.end)
                return
            self._wake.wait(POLL_S if closing else max(0.001, min(POLL_S, until - now())))
        if self._current():
            self._lost()

    def _send(self, taken: list[Step]) -> None:
        for step in taken:
            self._transaction.need(step.targets)
            for part, ticket in step.parts(self._step_stored, self._wake.set):
                self.sender.submit(part, ticket)

    def _step_stored(self) -> None:
        """Wake the task once nothing of the open transaction is in flight; earlier it has nothing to do."""
        if self._steps.stored:
            self._wake.set()

    def _commit(self, position: int) -> bool:
        """Commit what was sent, with the position behind it.  Return True if that succeeded."""
        failpoint("before transaction commit")
        if not self._ended(position):
            return False
        failpoint("after transaction commit")
        self._steps.committed()
        if self._limit is not None and now() - self._began < self._how.timeout_ms / 4000:
            self._limit = 2 * self._limit if 2 * self._limit < self._how.max_bytes() else None
        return True

    def _max_bytes(self) -> int:
        """Return the size limit of one transaction in bytes."""
        allowed = self._how.max_bytes()
        return allowed if self._limit is None else min(allowed, self._limit)

    def _refresh(self, position: int) -> None:
        """Commit the position once more, so that brokers do not forget it."""
        self._transaction.begin()
        self._ended(position)

    def _ended(self, position: int) -> bool:
        """Commit the open transaction with the position behind it, and handle a transaction that is over."""
        if self._end_transaction(position):
            return True
        if self._current():
            self._lost()
        return False

    def _end_transaction(self, position: int, others: Collection[TopicPartition] = ()) -> bool:
        """Commit the open transaction with the position behind it.  `others`: further target partitions for which the
        position is committed."""
        if not self._shown():
            return False
        offsets = dict.fromkeys({self.period.at, *others}, (position, metadata_of(self.period.topic)))
        self._transaction.commit(self._name, offsets)
        if not self._coordinators.carry_out(self._transaction, self._current, self._said):
            return False
        self._unseen = offsets
        self._sequences.ended()
        self._position = Position(position, self.period.topic is not None)
        self.commits += 1
        return True

    def _shown(self) -> bool:
        """Wait until the target shows the last committed position (producer.coordinators says why).  Return False if
        the open transaction is over."""
        if self._unseen and not self._coordinators.shows(self._name, self._unseen, self._current, self._said):
            if self._current():
                self._transaction.restart(f"the target does not show the committed position, {self._offset}")
            return False
        self._unseen = {}
        return True

    # ---- what ends one ----------------------------------------------------------------------------------------------

    @property
    def _offset(self) -> int | None:
        return None if self._position is None else self._position.offset

    def _lapsed(self) -> None:
        """Handle a lease that ended during the transaction and was renewed."""
        if self._transaction.state is not State.NEW:
            self._transaction.restart("the lease was over for a moment")
        self._lost()

    def _lost(self) -> None:
        """Handle a transaction that is over with an unknown outcome: the position shows whether it was committed."""
        transaction, before = self._transaction, self._offset
        why, settled, slow = transaction.why, transaction.settled, self._halved_if_too_slow()
        fenced = transaction.fenced and not slow
        log.log(
            logging.INFO if settled else logging.WARNING,
            "source %s: %s: the transaction is over: %s; %s",
            self._source,
            self.period.source,
            why,
            slow or (OTHERS if fenced else "the target says whether it was committed"),
            extra={"key": self.period.source, "event": "transaction-over", "source": self._source},
        )
        if fenced:
            self._end_period(why)
            return
        if not self._restarted():
            return
        if self._steps.open and self._offset == self._steps.end:
            self._steps.committed()
        elif self._offset == before:
            self._steps.aborted()
        else:
            self._end_period(f"{why}; its position is {self._offset} now, and was {before}")

    def _halved_if_too_slow(self) -> str:
        """Halve the bytes of the next transaction if the coordinator aborted this one by its timeout.  Return a
        sentence about it, else ""."""
        if self._transaction.settled or not self._steps.open or now() - self._began < self._how.timeout_ms / 1000:
            return ""
        size = self._steps.size
        self._limit = max(1, size // 2)
        took = f"it took longer than transaction.timeout.ms ({self._how.timeout_ms}) with {size} bytes"
        if len(self._steps.open) > 1:
            return f"{took}, and the next one takes at most {self._limit}"
        return f"{took}, the least that it can take: raise transaction.timeout.ms, or lower fetch.message.max.bytes"

    def _restarted(self) -> bool:
        """Abort the open transaction with a new epoch, which late requests of the previous epoch cannot disturb."""
        self.sender.drop(lambda part, ticket: True)
        self.sender.close_links()
        return self._initialize()

    def _failed(self, step: Step) -> None:
        """Handle a step that can never be stored: commit the steps before it first, then let it fail alone."""
        assert step.failure is not None
        reason, at = step.failure.reason, step.failure.at
        if len(self._steps.open) > 1:
            before = self._offset
            if self._restarted() and self._offset == before:
                self._steps.aborted(step)
            elif self._current():
                self._end_period(f"its position is {self._offset} now, and was {before}")
            return
        reached = step.reached if len(step.items) == 1 else None
        if reached is None:
            if not self._restarted():
                return
        elif not self._ended(reached):
            return  # retried, or the period is over
        self.over = True
        step.fail(reason, at, reached)

    def _end_period(self, why: str) -> None:
        """Park the partition and fetch it again, so that another period begins with the target's position."""
        self.over = True
        self.ended_by = f"{self.period.source}: the transaction was not committed: {why}"
        self._tasks.spawn(f"again-{self._name}", self._fetch_again)
        self._fail_all(PeriodOver(self.ended_by))

    def _fetch_again(self) -> None:
        while not self.period.ended():
            sleep(UNPARK_S)
            try:
                if self._unpark(self.period.source):
                    return
            except ConsumerError:
                return  # the mirror stops

    def _refuse(self, why: TransactionRefused) -> None:
        """Park the partition because the cluster refuses its transactions; it is retried like other parked
        partitions."""
        self._refused = ExactlyOnceRefused(f"{self.period.source}, delivery.guarantee: exactly-once: {why}")
        extra = {"key": self.period.source, "event": "exactly-once-refused", "source": self._source}
        log.error("source %s: %s", self._source, self._refused, extra=extra)
        self._fail_all(self._refused)

    def _fail_all(self, reason: Exception) -> None:
        """End all work of this period; the first ticket fails and parks the partition, which covers all tickets behind
        it."""
        for step in (*self._steps.open, *self._steps.waiting):
            step.fail(reason, None)
        while self._held:
            fetched, share = self._held.popleft()
            share.ticket(fetched.resume_at).failed(reason, fetched.start)
