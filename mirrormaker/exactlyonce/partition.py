"""The transactions of one source partition, for one ownership period: a task, a sender and a transactional id.

    begin       InitProducerId of the partition's transactional id: who owned it before is fenced, what it left open is
                aborted, what it had decided to commit is committed.  Then the position is read from the target, behind
                all that was sent under that id before (producer.coordinators): it can change no more but by us
    gate        sets that the source gives meanwhile are held.  Where they begin before the position the source is moved
                to it, and another period begins there; after a reset the position is set back instead (position.py)
    transact    every transaction.interval.ms: the parts of all steps that came are sent, and once all are acknowledged
                the position behind them is committed in the same transaction.  Then the source may commit
    over        a broker has forgotten the producer, or a request was not answered and may come late: initialized again,
                the position says whether it was committed, and if not it is sent again
    too slow    the coordinator has aborted it, because it took longer than transaction.timeout.ms.  That raises the
                epoch, as another owner does; by our clock we know better.  The next one takes half of its bytes
    fenced      another process owns the partition now, or believes so: the period ends, and the next one, if the group
                gives us the partition still, begins with the position
    lapsed      the lease is over, and may be renewed before anything else notices: nothing is sent or committed
                meanwhile.  Then an open transaction is treated as one that is over

Whoever initialized last is the only one who can commit, and commits behind what was committed before: so it holds
whatever a process believes about its lease, even one that wakes up after minutes (SIGSTOP) and goes on sending.
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
from zkconsumer.fetching.partition import Reset

log = logging.getLogger(__name__)

POLL_S = 0.5
UNPARK_S = LAPSE_S = 0.1
REFRESH_S = 3600.0  # brokers forget an offset that was not committed for a day (0.11 to 1.x), later ones for a week

OTHERS = "another process has initialized its transactional id, or a request of ours to do so came late"

PassOn = Callable[[MessageSet, Share], object]


class ExactlyOnceRefused(LocalError):
    """A partition cannot be copied exactly once as things are; names it, and what helps."""


class PeriodOver(UnknownOutcome):
    """The ownership period ended in the middle of a transaction: the next one begins with the target's position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """One ownership period of a source partition.

    key: another one is another period.  owned(): whether the lease holds, and it is not over.  ended(): whether it is
    over for good.  topic: the czxid of the source's topic.  reset: the newest of the partition since it is owned.
    at: a partition of the target that offsets are committed for.  beside: one that none is committed for.
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

    name: transactional id, and group of the position.  former: under which earlier releases kept the position, where
    that is another one; shared: partitions of another source may have had the former name.
    """

    name: str
    former: str = ""
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Transacting:
    """How partitions are copied in transactions.

    interval_s: a transaction is committed so long after its first part, or after half of its time-out if that is less.
    timeout_ms: the coordinator aborts it by itself after that.  max_bytes(): it may be so large.  sender(sequences,
    transactional id): makes the sender of a period; retire(transactions): the period is over.
    """

    interval_s: float
    timeout_ms: int
    max_bytes: Callable[[], int]
    coordinators: Coordinators
    sender: Callable[[Sequences, str], Sender]
    retire: Callable[[PartitionTransactions], object]


class PartitionTransactions:
    """The transactions of one source partition during one ownership period; run() is its task.

    followed: the reset that the position was set back for already, and that of this period once it was.  waiting: where
    it says why the partition waits, by its name.  unpark(tp): fetches a parked partition again; False: not yet.
    seek(tp, offset): reads on there, in another period.
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
        self._position: Position | None = None  # in the target
        self._unseen: Offsets = {}  # committed last, and not seen in the target
        self._began = 0.0  # the open transaction
        self._limit: int | None = None  # bytes of a transaction, because larger ones took too long
        self._open = self._busy = self.over = self._flushed = False
        self._refused: ExactlyOnceRefused | None = None
        self.ended_by = ""  # why the period ended in the middle of a transaction
        self.commits = 0

    # ---- the flow's side --------------------------------------------------------------------------------------------

    def admit(self, fetched: MessageSet, share: Share) -> None:
        """Let a set go on, now or once the position is known; sets keep their order."""
        if self._refused is not None:
            share.ticket(fetched.resume_at).failed(self._refused, fetched.start)
        elif self.ended_by:
            share.ticket(fetched.resume_at).failed(PeriodOver(self.ended_by), fetched.start)
        elif self._open and not self._busy:
            self.period.pass_on(fetched, share)
        else:
            self._held.append((fetched, share))

    def enqueue(self, step: Step) -> None:
        """A step of the flow, behind all others."""
        if self.ended_by:
            step.fail(PeriodOver(self.ended_by), None)
            return
        self._steps.waiting.append(step)
        self._wake.set()

    def flush(self) -> None:
        """Commit what there is now: the mirror stops."""
        self._flushed = True
        self._wake.set()

    def reroute(self, at: TopicPartition, beside: TopicPartition, pass_on: PassOn) -> None:
        """The period goes on with another route, from the next set on; at, beside: see Period."""
        self.period = replace(self.period, at=at, beside=beside, pass_on=pass_on)

    def stop(self) -> None:
        """Another period of the partition begins."""
        self.over = True
        self._wake.set()

    def fence(self) -> None:
        """The lease is over: nothing more is sent, what is in flight is cut off."""
        self.sender.drop(lambda part, ticket: not ticket.may_send())
        self.sender.close_links()
        self._wake.set()

    def pending(self, topic: str) -> bool:
        """Whether something for a target topic is not committed yet."""
        steps = (*self._steps.open, *self._steps.waiting)
        return any(tp.topic == topic for step in steps for tp in step.targets)

    # ---- the task ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until the period is over."""
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
        """The period is not over; the lease may be."""
        return not self.over and not self.period.ended()

    def _current(self) -> bool:
        return self._lasts and self.period.owned()

    def _lease_holds(self) -> bool:
        """Wait until the lease is renewed, if it is over; False: the period is."""
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
        """Fence who came before, and read the position; False: the period is over.  Raises TransactionRefused."""
        transaction = self._transaction
        if transaction.state is not State.NEW:
            transaction.restart("")
        while self._lease_holds():
            found = self._positions(transaction)
            if found is None:
                sleep(LAPSE_S if transaction.fenced else 0)  # who fences each other does not do so at full speed
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
        """Fence who used the transactional id before, and read what its group has committed; None: try again, if the
        period is not over."""
        if transaction.state is State.NEW and not self._coordinators.carry_out(transaction, self._current, self._said):
            return None
        assert transaction.producer is not None
        at, beside = self.period.at, self.period.beside
        probe = Probe(beside, probe_metadata(transaction.producer))

        def wanted() -> bool:
            """With these partitions: the target topic may be created again, with fewer."""
            return self._current() and (at, beside) == (self.period.at, self.period.beside)

        return self._coordinators.positions(transaction, at, probe, wanted, self._said)

    # ---- the gate ---------------------------------------------------------------------------------------------------

    def _begin(self) -> bool:
        """Let the sets go on that were held, from where source and target agree; False: another period does."""
        if not self._lease_holds():
            return False  # the position was read for it, and moves no other
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
        """Read on at the position: what lies before it is in the target."""
        assert self._position is not None
        log.info(
            "source %s: %s goes on at %d, as the target says; the group committed %d",
            self._source,
            self.period.source,
            self._position.offset,
            start,
            extra={"key": self.period.source},
        )
        try:
            self._seek(self.period.source, self._position.offset)
        except ConsumerError:
            pass  # it is stopping, or the partition is not ours any more

    def _set_back(self, start: int) -> bool:
        """Commit a lower position, before anything from there on is sent; False: the period is over."""
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
            "source %s: %s goes on at %d after a reset, and the position in the target was set back from %d: messages "
            "from there on are copied again",
            self._source,
            self.period.source,
            start,
            before.offset,
            extra={"key": self.period.source, "event": "position-set-back", "source": self._source},
        )
        return True

    def _pass_held(self) -> None:
        """Pass on what was held, in its order; what comes meanwhile is held behind it."""
        try:
            while self._held and self._lease_holds() and self._held:
                self.period.pass_on(*self._held.popleft())
                sleep(0)
        finally:
            self._busy = False

    # ---- a transaction ----------------------------------------------------------------------------------------------

    def _transact(self) -> None:
        """One transaction, from its first step on to its end."""
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
                self._end_period("some of it may not be sent any more")
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
        """Wake the task once nothing of the open transaction is in flight: what is stored before changes nothing."""
        if self._steps.stored:
            self._wake.set()

    def _commit(self, position: int) -> bool:
        """Commit what was sent, with the position behind it; whether that was done."""
        failpoint("before transaction commit")
        if not self._ended(position):
            return False
        failpoint("after transaction commit")
        self._steps.committed()
        if self._limit is not None and now() - self._began < self._how.timeout_ms / 4000:
            self._limit = 2 * self._limit if 2 * self._limit < self._how.max_bytes() else None
        return True

    def _max_bytes(self) -> int:
        """Of one transaction."""
        allowed = self._how.max_bytes()
        return allowed if self._limit is None else min(allowed, self._limit)

    def _refresh(self, position: int) -> None:
        """Commit the position once more, so that brokers do not forget it."""
        self._transaction.begin()
        self._ended(position)

    def _ended(self, position: int) -> bool:
        """Commit the open transaction with the position behind it; what becomes of one that is over is done, too."""
        if self._end_transaction(position):
            return True
        if self._current():
            self._lost()
        return False

    def _end_transaction(self, position: int, others: Collection[TopicPartition] = ()) -> bool:
        """Commit the open transaction with the position behind it.  others: further partitions of the target that it is
        committed for."""
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
        """Wait until the target shows the position that was committed last (producer.coordinators says why); False: the
        open transaction is over."""
        if self._unseen and not self._coordinators.shows(self._name, self._unseen, self._current, self._said):
            if self._current():
                self._transaction.restart(f"the target does not show the position that was committed, {self._offset}")
            return False
        self._unseen = {}
        return True

    # ---- what ends one ----------------------------------------------------------------------------------------------

    @property
    def _offset(self) -> int | None:
        return None if self._position is None else self._position.offset

    def _lapsed(self) -> None:
        """The lease was over in the middle of a transaction, and is renewed."""
        if self._transaction.state is not State.NEW:
            self._transaction.restart("the lease was over for a moment")
        self._lost()

    def _lost(self) -> None:
        """The transaction is over, and may be committed or not: the position tells."""
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
        """Let the next transaction take half of the bytes, if the coordinator has aborted this one because of its
        time-out; the sentence that says so, else ""."""
        if self._transaction.settled or not self._steps.open or now() - self._began < self._how.timeout_ms / 1000:
            return ""
        size = self._steps.size
        self._limit = max(1, size // 2)
        took = f"it took longer than transaction.timeout.ms ({self._how.timeout_ms}) with {size} bytes"
        if len(self._steps.open) > 1:
            return f"{took}, and the next one takes at most {self._limit}"
        return f"{took}, the least that it can take: raise transaction.timeout.ms, or lower fetch.message.max.bytes"

    def _restarted(self) -> bool:
        """Abort what is open by another epoch, which no request of the one before can disturb."""
        self.sender.drop(lambda part, ticket: True)
        self.sender.close_links()
        return self._initialize()

    def _failed(self, step: Step) -> None:
        """A step can never be stored: what precedes it is committed first, then it fails alone."""
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
            return  # tried again, or the period is over
        self.over = True
        step.fail(reason, at, reached)

    def _end_period(self, why: str) -> None:
        """Park the partition and fetch it again: another period begins with the target's position."""
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
                return  # it is stopping

    def _refuse(self, why: TransactionRefused) -> None:
        """The cluster takes no transactions of this partition: it is parked, and tried again as parked ones are."""
        self._refused = ExactlyOnceRefused(f"{self.period.source}, delivery.guarantee: exactly-once: {why}")
        extra = {"key": self.period.source, "event": "exactly-once-refused", "source": self._source}
        log.error("source %s: %s", self._source, self._refused, extra=extra)
        self._fail_all(self._refused)

    def _fail_all(self, reason: Exception) -> None:
        """Nothing more goes on in this period; the first ticket parks the partition, and stands for all behind it."""
        for step in (*self._steps.open, *self._steps.waiting):
            step.fail(reason, None)
        while self._held:
            fetched, share = self._held.popleft()
            share.ticket(fetched.resume_at).failed(reason, fetched.start)
