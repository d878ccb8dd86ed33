"""Quarantine: carries out the policies for bad messages of one flow (mirrormaker.badmessages decides).

    Quarantine     handles partitions that are parked because of a message
    DeadLetters    the dead-letter topic: prepares it in time, sends a record and waits for its acknowledgement
    LeftOut        counts and logs messages that are not in the target

A message fails its ticket, which parks its partition.  If a policy asks for more than that, the partition is fetched
again with the suspected messages one by one (mirrormaker.isolation).  Then it is parked exactly at the bad one, with
everything before it acknowledged.  The dead letter is sent and acknowledged while the partition is parked; only then
does the source resume behind the message.  So a crash at any moment may repeat the dead letter, but never loses it.

Failures of message.handler are handled without parking if nothing has to be waited for: the message is left out of its
step, or the dead letter becomes one of the step's parts.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from groundwork.failpoints import failpoint
from groundwork.sentences import counted
from groundwork.tasks import Event, TaskGroup, now, sleep
from kafkawire.dialects import Dialect
from kafkawire.errors import LocalError
from kafkawire.headers import packed
from kafkawire.model import Message, MessageSet, Part, PartitionId, Ticket, TopicPartition
from mirrormaker.badmessages import (
    ISOLATIONS,
    PARK_ALL,
    REFETCHES,
    RELEASES,
    Action,
    BadMessage,
    Kind,
    Policies,
    Policy,
    backoff_s,
    decide,
    failure,
    isolates,
    kind_of,
    of_source,
    suspected,
)
from mirrormaker.deadletter import HEADERS_MAX, DeadLetter, crc32, write
from mirrormaker.isolation import Isolated, bad_message, isolated
from mirrormaker.partitioning import by_source
from mirrormaker.routes import SourceTopic
from mirrormaker.source import Share, Source
from mirrormaker.target import Target
from mirrormaker.topics import OUT_OF_REACH, TopicMissing
from producer.conversion import MessageHandlerFailed, Output
from producer.errors import TooLarge
from zkconsumer.errors import DamagedMessage
from zkconsumer.fetching.committable import Parked
from zkconsumer.fetching.position import Reset

log = logging.getLogger(__name__)

POLL_S = 0.25
BUSY_POLL_S = 0.05  # poll interval while a case is open
FORGET_S = 30.0  # how long a case is kept after its partition resumed
LOGGED = 5  # messages of a topic and reason that are logged one by one
LOG_EVERY_S = 60.0  # afterwards a line with their number
RECORD_OVERHEAD = 128  # bytes of a record in addition to key and value, and of the set around it
PREPARE_RETRY_S = 5.0
LATE_S = 5.0  # a dead letter that takes longer is shown in the status


class ReleaseRefused(LocalError):
    """Raised when a parked message is not released; the sentence says why, and what helps."""


class DeadLetterFailed(LocalError):
    """Raised when a message's dead letter could not be stored; the sentence names message, topic and reason."""


# ---- what is left out ---------------------------------------------------------------------------------------------


class LeftOut:
    """Messages that are not in the target because a policy left them out, by (topic, reason)."""

    def __init__(self, source: str) -> None:
        self.counts: dict[tuple[str, str], int] = {}
        self._source = source
        self._lines: dict[tuple[str, str], int] = {}  # number of logged lines
        self._unlogged: dict[tuple[str, str], int] = {}
        self._logged_at: dict[tuple[str, str], float] = {}

    def add(self, bad: BadMessage, action: Policy) -> None:
        key = bad.tp.topic, reason_of(bad, action)
        count = bad.offsets or 1
        self.counts[key] = self.counts.get(key, 0) + count
        if self._lines.get(key, 0) < LOGGED:
            self._lines[key] = self._lines.get(key, 0) + 1
            self._logged_at[key] = now()
            log.warning(
                "source %s: %s: %s, %s: %s, %d bytes, crc32 %08x: %s", self._source, bad.where, said(action), bad.what,
                bad.kind, bad.nbytes, crc32(_data(bad)[1]), bad.reason, extra=self._event(bad.tp.topic, bad.where),
            )  # fmt: skip
            if self._lines[key] == LOGGED:
                log.warning(
                    "source %s: topic %s: further messages %s (%s) are only counted; a summary is logged every %g s",
                    self._source, bad.tp.topic, said(action), bad.kind, LOG_EVERY_S,
                    extra=self._event(bad.tp.topic, f"{key}"),
                )  # fmt: skip
            return
        self._unlogged[key] = self._unlogged.get(key, 0) + count
        self.log_counted(LOG_EVERY_S)

    def _event(self, topic: str, unlike: str) -> dict[str, str]:
        """Return the fields of a log line; `unlike` keeps the line from being suppressed as a repetition."""
        return {"event": "left-out", "source": self._source, "topic": topic, "key": f"left out {unlike}"}

    def log_counted(self, every_s: float = 0.0) -> None:
        """Log the number of messages that were not logged one by one, for reasons without a line for that long."""
        for key, count in list(self._unlogged.items()):
            if now() - self._logged_at[key] >= every_s:
                del self._unlogged[key]
                self._logged_at[key] = now()
                topic, reason = key
                log.warning(
                    "source %s: topic %s: %s more: %s; %s since the start", self._source, topic,
                    counted(count, "message"), reason, f"{self.counts[key]:,}", extra=self._event(topic, str(now())),
                )  # fmt: skip


def reason_of(bad: BadMessage, action: Policy) -> str:
    """Return the reason under which a left-out message is counted: `oversize skipped`, `corrupt dead-letter`."""
    return f"{bad.kind} {'skipped' if action == 'skip' else action}"


def said(action: Policy) -> str:
    return "skipped" if action == "skip" else "sent to the dead-letter topic"


def _data(bad: BadMessage) -> tuple[str, bytes | None]:
    """Return what a dead letter carries: the value if there is one, else the entry."""
    return ("value", bad.message[1]) if bad.message is not None else ("entry", bad.entry)


# ---- dead letters -------------------------------------------------------------------------------------------------


class _LetterTicket:
    """Ticket of one dead letter (kafkawire.model.Ticket)."""

    def __init__(self) -> None:
        self.over = Event()
        self.reason: Exception | None = None

    def may_send(self) -> bool:
        return True

    def reached(self, resume_at: int) -> None:
        pass

    def done(self) -> None:
        self.over.set()

    def failed(self, reason: Exception, resume_at: int | None) -> None:
        self.reason = reason
        self.over.set()


class DeadLetters:
    """Dead-letter topic of a target, for one source.  With topic "" there is none."""

    def __init__(self, topic: str, source: str, target: Target) -> None:
        self.topic = topic
        self.partitions: list[PartitionId] = []  # empty until the topic is ready
        self._source = source
        self._target = target
        self._sender = target.sender_of(source)

    def prepare(self) -> None:
        """Look the topic up, or create it.  Raises TopicMissing, and the errors of an unreachable target."""
        self.partitions = list(self._target.topics.prepare(self.topic, SourceTopic(1, 0, ours=True)))

    def output(self, bad: BadMessage, carry: bool = True) -> Output:
        """Return the record of a message; with `carry`, including its bytes and headers as far as the target accepts
        them."""
        content, data = _data(bad)
        key, _, stamp, block = bad.message or (None, None, None, None)
        size = len(block or b"")
        headers = block if carry and self._target.dialect.record_batches and size <= HEADERS_MAX else None
        letter = DeadLetter(
            source=self._source,
            topic=bad.tp.topic,
            partition=str(bad.tp.partition),
            offset=bad.offset,
            offsets=bad.offsets,
            kind=bad.kind,
            reason=str(bad.reason),
            content=content,
            data=data,
            size=max(bad.nbytes, len(bad.entry)) if content == "entry" else len(data or b""),
            crc32=crc32(data),
            key=key,
            timestamp_ms=stamp,
            at_ms=int(time.time() * 1000),
            headers_left_out=size if headers is None else 0,
        )
        record_key = letter.record_key if self._target.dialect.has_keys else None
        room = self._target.options.message_max_bytes - RECORD_OVERHEAD - len(record_key or b"") - len(headers or b"")
        partition = by_source(bad.tp.partition, self.partitions)
        value = write(letter, room if carry else 0)
        return Output(TopicPartition(self.topic, partition), record_key, value, letter.at_ms, headers)

    def send(self, bad: BadMessage, waits: Callable[[str], object]) -> None:
        """Store the dead letter of a message; return once the target acknowledged it.  Raises DeadLetterFailed.

        waits(sentence) is called if that takes long.
        """
        try:
            if not self.partitions:
                self.prepare()
            reason = self._sent(self.output(bad), bad, waits)
            if isinstance(reason, TooLarge):  # the topic's limit is lower than target.message.max.bytes
                reason = self._sent(self.output(bad, carry=False), bad, waits)
        except (TopicMissing, *OUT_OF_REACH) as exc:
            reason = exc
        if reason is not None:
            self.partitions = []  # looked up again next time
            raise DeadLetterFailed(f"{bad.where}: its dead letter cannot be stored in {self.topic}: {reason}")

    def _sent(self, output: Output, bad: BadMessage, waits: Callable[[str], object]) -> Exception | None:
        """Send a record.  Return None once it is stored, or the reason why it cannot be."""
        speaks: Dialect = self._target.dialect
        row = (0, output.key, output.value, output.timestamp_ms)
        entries = speaks.messages.encode([row], codec=0, magic=speaks.magic, headers=[output.headers])
        ticket = _LetterTicket()
        self._sender.submit(Part(output.tp, entries, speaks.magic, 0, 1), ticket)
        while not ticket.over.wait(LATE_S):
            waits(f"{bad.where}: its dead letter is not acknowledged yet ({self._target.outage or output.tp})")
        return ticket.reason


# ---- cases --------------------------------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Case:
    """A partition with a bad message, at `begin` or later and before `until`."""

    begin: int
    until: int
    forced: Policy | None = None  # action requested by an operator for the message it is parked at
    found: list[BadMessage] = field(default_factory=list)  # found since the last fetch
    refetched: dict[tuple[int, int], int] = field(default_factory=dict)  # number of refetches by offset and index
    isolations: int = 0
    due_at: float | None = None  # when it is to be fetched again
    busy: bool = False  # an action is being carried out
    settled: Exception | None = None  # the partition stays parked for this reason
    released: Event | None = None  # set once the operator's request is done or refused
    result: str = ""
    refused: str = ""
    seen_at: float = 0.0  # when it was last parked
    over: set[tuple[int, int]] = field(default_factory=set)  # messages sharing an offset that are left out or stored

    def covers(self, where: Parked) -> bool:
        return self.begin <= where.position < self.until

    def at_fault(self, where: Parked) -> BadMessage | None:
        """Return the one message that the partition is parked at, if known."""
        return next((bad for bad in self.found if bad.reason is where.reason), None)

    def answer(self, result: str = "", refused: str = "") -> None:
        """Answer the operator who waits."""
        if self.released is not None:
            self.result, self.refused = result, refused
            self.released.set()
        self.forced = self.released = None


class WatchedTicket:
    """Ticket of one isolated message: when it fails, the bad message is known."""

    __slots__ = ("_case", "_left", "_note", "_one", "_ticket")

    def __init__(self, ticket: Ticket, case: Case, one: Isolated, parts: int, note: Callable[..., object]) -> None:
        self._ticket = ticket
        self._case = case
        self._one = one
        self._left = parts
        self._note = note

    def may_send(self) -> bool:
        return self._ticket.may_send()

    def reached(self, resume_at: int) -> None:
        self._ticket.reached(resume_at)

    def done(self) -> None:
        self._left -= 1
        if self._one.inner and not self._left:
            self._case.over.add((self._one.offset, self._one.index))
        self._ticket.done()

    def failed(self, reason: Exception, resume_at: int | None) -> None:
        self._note(self._case, self._one, reason)
        self._ticket.failed(reason, self._one.offset)


class WatchedShare:
    """Share of a set whose tickets know the isolated message (`one`) that they belong to."""

    def __init__(self, share: Share, case: Case, note: Callable[..., object]) -> None:
        self.one: Isolated | None = None
        self._share = share
        self._case = case
        self._note = note

    def ticket(self, resume_at: int, parts: int = 1) -> Ticket:
        ticket = self._share.ticket(resume_at, parts)
        if self.one is None or not self.one.single:
            return ticket
        return WatchedTicket(ticket, self._case, self.one, parts, self._note)

    @property
    def period(self) -> object:
        return self._share.period

    @property
    def topic(self) -> int | None:
        return self._share.topic

    @property
    def reset(self) -> Reset | None:
        return self._share.reset

    @property
    def ended(self) -> Callable[[], bool]:
        return self._share.ended

    def holding(self) -> Callable[[], bool]:
        return self._share.holding()


# ---- the quarantine -----------------------------------------------------------------------------------------------


class Quarantine:
    """Handling of bad messages of one flow.

    policies: returns the policies of a topic.  letters: None without a dead-letter topic.  on_fail(sentence): ends the
    mirror. exact: resume is target-end, which leaves nothing out.
    """

    def __init__(
        self,
        source: Source,
        tasks: TaskGroup,
        *,
        policies: Callable[[str], Policies] = lambda topic: PARK_ALL,
        letters: DeadLetters | None = None,
        on_fail: Callable[[str], object] = lambda sentence: None,
        exact: bool = False,
    ) -> None:
        self.policies = policies
        self.left_out = LeftOut(source.name)
        self.waiting: dict[str, str] = {}  # partitions whose dead letter cannot be stored now
        self._source = source
        self._tasks = tasks
        self._letters = letters
        self._on_fail = on_fail
        self._exact = exact
        self._cases: dict[TopicPartition, Case] = {}
        self._wake = Event()

    # the flow asks -------------------------------------------------------------------------------------------------

    def case(self, fetched: MessageSet) -> Case | None:
        """Return the case for which a set's messages must be isolated, or None if the set travels as usual."""
        case = self._cases.get(fetched.tp)
        if case is None or fetched.start >= case.until or fetched.resume_at < case.begin:
            return None
        return case

    def isolated(self, case: Case, fetched: MessageSet) -> Iterator[Isolated]:
        """Yield the set with the suspected messages one by one, without those that are left out or stored already."""
        for one in isolated(fetched, case.begin, case.until, self._speaks):
            if (one.offset, one.index) not in case.over or not one.inner:
                yield one

    def watched(self, case: Case, share: Share) -> WatchedShare:
        return WatchedShare(share, case, self.note)

    def note(self, case: Case, one: Isolated, reason: Exception) -> None:
        """Record that an isolated message failed for this reason."""
        kind = kind_of(reason)
        if kind is not None:
            case.found.append(bad_message(one, kind, reason, self._speaks))
            self._wake.set()

    def handler_failed(self, given: Message, failed: MessageHandlerFailed) -> tuple[Output, ...]:
        """Return what is sent instead of a message for which message.handler failed.  given: the message passed to the
        handler.

        Raises the failure if the partition must be parked, which includes a dead-letter topic that is not ready.
        """
        policy = self.policies(given.topic).handler
        letters = self._letters
        if policy not in RELEASES or (policy == "dead-letter" and (letters is None or not letters.partitions)):
            raise failed
        nbytes = len(given.key or b"") + len(given.value or b"")
        bad = BadMessage(
            tp=TopicPartition(given.topic, given.partition),
            offset=given.offset,
            resume_at=given.resume_at,
            kind="handler",
            reason=failed,
            entry=b"",
            nbytes=nbytes,
            message=(given.key, given.value, given.timestamp_ms, packed(given.headers)),
        )
        self.left_out.add(bad, policy)
        return () if policy == "skip" or letters is None else (letters.output(bad),)

    def holds(self, tp: TopicPartition) -> bool:
        """True if the quarantine handles a parked partition, so nothing else may fetch it again."""
        case = self._cases.get(tp)
        return case is not None and (case.busy or case.settled is None)

    def searches(self, tp: TopicPartition, done: int | None) -> bool:
        """True if a partition whose messages before `done` are done is fetched message by message, to find the bad one:
        it is not parked meanwhile."""
        case = self._cases.get(tp)
        return case is not None and case.isolations > 0 and (done is None or done < case.until)

    # the operator asks ---------------------------------------------------------------------------------------------

    def release(self, tp: TopicPartition, action: str, timeout_s: float = 30.0) -> str:
        """Send the message that a partition is parked at to the dead-letter topic, or skip it, once.

        Return a sentence about what was left out.  Raises ReleaseRefused.
        """
        where = self.releasable(tp, action)
        case = self._opened(tp, where)
        if case.busy or case.released is not None:
            raise ReleaseRefused(f"{tp}: its message is being left out just now")
        released = case.released = Event()
        case.forced, case.settled = ("skip" if action == "skip" else "dead-letter"), None
        self._wake.set()
        if not released.wait(timeout_s):
            case.answer()
            raise ReleaseRefused(
                f"{tp}: nothing was left out within {timeout_s:g} s: {self.waiting.get(str(tp), where.reason)}"
            )
        if case.refused:
            raise ReleaseRefused(case.refused)
        return case.result

    def releasable(self, tp: TopicPartition, action: str) -> Parked:
        """Return where a partition is parked, if the message there may be released with this action.  Raises
        ReleaseRefused."""
        if action not in RELEASES:
            raise ReleaseRefused(f"{tp}: {action!r} does not release a message: choose {' or '.join(RELEASES)}")
        if self._exact:
            raise ReleaseRefused(f"{tp}: 'resume: target-end' leaves nothing out; set resume: committed")
        where = self._source.parked().get(tp)
        if where is None:
            raise ReleaseRefused(f"{tp} is not parked here")
        if action == "dead-letter" and self._letters is None:
            raise ReleaseRefused(f"{tp}: there is no dead-letter topic: give mirror.dead.letter.topic")
        if not suspected(where.reason):
            raise ReleaseRefused(f"{tp} is parked for a reason that is about no single message: {where.reason}")
        return where

    def at_fault(self, tp: TopicPartition, where: Parked) -> BadMessage | None:
        """Return the message, or the entry, that a partition is parked at, if known."""
        case = self._cases.get(tp)
        found = None if case is None or not case.covers(where) else case.at_fault(where)
        return found or self._of_source(tp, where)

    def kinds(self, tp: TopicPartition, where: Parked) -> frozenset[Kind]:
        """Return the kinds of bad message that a partition may be parked at; empty if it is parked for another
        reason."""
        bad = self.at_fault(tp, where)
        return suspected(where.reason) if bad is None else frozenset({bad.kind})

    def _of_source(self, tp: TopicPartition, where: Parked) -> BadMessage | None:
        """Return the entry that the consumer itself could not read."""
        return of_source(tp, where.reason, self._speaks.offsets.count_messages)

    # the loop ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Handle parked partitions, forever."""
        if self._letters is not None:
            self._tasks.spawn(f"dead-letters-{self._source.name}", self._prepare_letters)
        while True:
            self._wake.wait(BUSY_POLL_S if self._cases else POLL_S)
            self._wake.clear()
            self.look_after(now())
            self.left_out.log_counted(LOG_EVERY_S)

    def _prepare_letters(self) -> None:
        """Prepare the dead-letter topic before the first letter."""
        assert self._letters is not None
        while not self._letters.partitions:
            try:
                self._letters.prepare()
            except (TopicMissing, *OUT_OF_REACH) as exc:
                log.warning("dead-letter topic %s is not ready: %s", self._letters.topic, exc, extra=self._event())
                sleep(PREPARE_RETRY_S)

    def look_after(self, at: float) -> None:
        """Take the next step for each partition that is parked because of a message."""
        parked = self._source.parked()
        for tp, where in parked.items():
            case = self._cases.get(tp)
            if case is None or not (case.busy or case.covers(where)):
                if case is not None and not self._source.drained(tp):
                    continue  # the case's message is before it, and may still park the partition
                if not isolates(self.policies(tp.topic), where.reason):
                    self._over(tp, where)
                    continue
                case = self._opened(tp, where)
            case.seen_at = at
            if not case.busy and case.settled is not where.reason and at >= (case.due_at or at):
                self._next(tp, case, where, at)
        for tp, case in list(self._cases.items()):
            if tp not in parked and not case.busy:
                self.waiting.pop(str(tp), None)
                if at - case.seen_at > FORGET_S:
                    del self._cases[tp]

    def _over(self, tp: TopicPartition, where: Parked) -> None:
        """Forget the case of a partition that is now parked at another offset and is not handled here; each retry
        (parked.retry.ms) fetches it again."""
        if (case := self._cases.pop(tp, None)) is not None:
            case.answer(refused=f"{tp}: it is parked elsewhere now: {where.reason}")

    def _opened(self, tp: TopicPartition, where: Parked) -> Case:
        """Return the case of a partition, or open one."""
        case = self._cases.get(tp)
        if case is None or not case.covers(where):
            until = where.position + 1 if where.until is None else where.until
            case = self._cases[tp] = Case(where.position, max(until, where.position + 1), seen_at=now())
        return case

    def _next(self, tp: TopicPartition, case: Case, where: Parked, at: float) -> None:
        bad, tries = case.at_fault(where), 0
        if bad is not None:
            tries = case.refetched.get((bad.offset, bad.index), 0)
        else:
            bad, tries = self._of_source(tp, where), REFETCHES
        policies = self.policies(tp.topic) if case.forced is None else Policies.all(case.forced)
        match decide(policies, where.reason, bad, tries, case.isolations):
            case Action.ISOLATE:
                case.isolations += self._fetch_again(tp, case, where)
            case Action.REFETCH if case.due_at is None:
                case.due_at = at + backoff_s(tries)
            case Action.REFETCH if bad is not None and self._fetch_again(tp, case, where):
                log.warning(
                    "source %s: %s: %s; fetched again",
                    self._source.name,
                    bad.where,
                    where.reason,
                    extra=self._event(tp),
                )
                case.refetched[bad.offset, bad.index] = tries + 1
            case Action.REFETCH:
                pass  # messages before it are still in flight
            case Action.FAIL if bad is not None:
                case.settled = where.reason
                self._on_fail(f"source {self._source.name}: {failure(bad)}")
            case Action.DEAD_LETTER | Action.SKIP as action if bad is not None:
                case.busy = True
                how: Policy = "skip" if action is Action.SKIP else "dead-letter"
                self._tasks.spawn(f"left-out-{self._source.name}-{tp}", self._leave_out, tp, case, bad, how)
            case _:
                case.settled, case.isolations = where.reason, min(case.isolations, ISOLATIONS - 1)
                case.found = [] if bad is None else [bad]  # each retry finds it again
                case.answer(refused=f"{tp}: the bad message cannot be identified: {where.reason}")

    def _fetch_again(self, tp: TopicPartition, case: Case, where: Parked) -> bool:
        """Fetch a parked partition again.  Return False if messages before the bad one are still in flight."""
        found, case.found = case.found, []
        if not self._source.unpark(tp, measure=isinstance(where.reason, DamagedMessage)):
            case.found = found
            return False
        case.due_at = None
        return True

    def _leave_out(self, tp: TopicPartition, case: Case, bad: BadMessage, action: Policy) -> None:
        """Send the dead letter if the action says so, and let the source resume behind the bad message."""
        try:
            if action == "dead-letter":
                assert self._letters is not None
                self._letters.send(bad, partial(self.waiting.__setitem__, str(tp)))
                failpoint("dead letter acknowledged, source not moved")
            self.waiting.pop(str(tp), None)
            if self._gone_on(tp, case, bad):
                self.left_out.add(bad, action)
                case.answer(f"{bad.where}: {said(action)}, {bad.what} ({bad.kind}): {bad.reason}")
            else:
                case.answer(refused=f"{bad.where}: not left out: its partition is not parked there any more")
        except DeadLetterFailed as failed:
            if self.waiting.get(str(tp)) != str(failed):
                log.warning("source %s: %s", self._source.name, failed, extra=self._event(tp))
            self.waiting[str(tp)] = str(failed)
            case.settled = bad.reason
            case.answer(refused=str(failed))
        finally:
            case.busy = False
            self._wake.set()

    def _gone_on(self, tp: TopicPartition, case: Case, bad: BadMessage) -> bool:
        """Let the source resume behind the message once everything before it is done.  Return False if the partition is
        no longer parked there."""
        while True:
            where = self._source.parked().get(tp)
            if where is None or where.reason is not bad.reason:
                return False
            found, case.found = case.found, []
            if bad.shares_offset:
                case.over.add((bad.offset, bad.index))
            if self._source.unpark(tp, go_on_at=None if bad.shares_offset else bad.resume_at):
                break
            case.found = found
            sleep(BUSY_POLL_S)
        case.isolations = 0
        if not bad.shares_offset:
            case.begin = bad.resume_at
        return True

    def _event(self, tp: TopicPartition | None = None) -> dict[str, object]:
        """Return the fields of a log line."""
        found: dict[str, object] = {"event": "bad-message", "source": self._source.name}
        return found if tp is None else found | {"topic": tp.topic, "partition": str(tp.partition)}

    @property
    def _speaks(self) -> Dialect:
        return self._source.dialect
