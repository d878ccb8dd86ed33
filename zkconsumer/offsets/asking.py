"""Asking brokers about a group: whom, how often, for how long.  Plain blocking calls; knows no greenlet, no ZooKeeper.

    code             what is done
    14               the coordinator still loads: wait, ask the same one again
    15, 16           there is none, or another one: wait, look it up again
    28               the commit is too large for the broker's log: send it in halves
    a lost link      of a coordinator: look it up again; of every broker we know: told at once

Asked again only for the partitions that need it, at most `retries` times and not after `timeout_ms`; what is told then
says how often, for how long, and why.  (A try that has begun may take a time-out of its link longer.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from kafkawire.cluster.retry import Attempt, Backoff, RetryPolicy
from kafkawire.dialects import Dialect, Store
from kafkawire.errors import LinkLost, RemoteError, WireError
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.link import Link
from kafkawire.net.links import Links
from kafkawire.protocol.request import Request
from zkconsumer.refusals import CoordinatorAway, Refused, refusal

PURPOSE = "coordinator"  # links of our own: an answer to somebody else's question must not come to us
LOADING = 14
ELSEWHERE = (15, 16)
TOO_LARGE = 28
PARTITIONS_PER_REQUEST = 5000

R = TypeVar("R")  # the type of a response

Wanted = Callable[[Sequence[TopicPartition]], Request[Any]]  # makes the request for these; called anew for each try


@dataclass(frozen=True, slots=True)
class Answer:
    """One partition's row of a reply, or the error that came instead of one."""

    broker: Broker | None
    row: Mapping[str, Any] | None
    error: WireError | None = None
    again: bool = False
    tried: str = ""  # how often and for how long, where it was given up

    def why(self, group: str, tp: TopicPartition) -> WireError | None:
        """What is wrong with it."""
        if self.row is None:
            return self.error
        return refusal(self.row["error"], self.broker, tp, group=group) if self.row["error"] else None

    def told(self) -> WireError | None:
        """The error, with how long it was tried."""
        error = self.error
        if error is None or not self.tried:
            return error
        if isinstance(error, Refused):
            return refusal(error.code, error.broker, error.tp, error.position, error.group, self.tried)
        return LinkLost(f"{error}{self.tried}")


class Asking:
    """Questions about groups, to whoever can answer them.

    brokers      tells whom to ask now: the first that answers, and knows, will do
    sleep, now   the waiting: groundwork.tasks's in the hub
    lock         held for the time of one question, never while waiting to ask again
    tell         a sentence when it begins to wait, and why
    check        called before each question: raises when nothing may be asked any more
    """

    def __init__(
        self,
        brokers: Callable[[], Sequence[Broker]],
        links: Links,
        dialect: Dialect,
        retries: int,
        backoff_ms: int,
        timeout_ms: int,
        sleep: Callable[[float], object] = time.sleep,
        now: Callable[[], float] = time.monotonic,
        lock: AbstractContextManager[Any] | None = None,
        tell: Callable[[str], object] = lambda sentence: None,
        check: Callable[[], object] = lambda: None,
    ) -> None:
        self._brokers = brokers
        self._links = links
        self._dialect = dialect
        backoff = Backoff(backoff_ms / 1000, backoff_ms / 1000)
        self._retry = RetryPolicy(retries=retries, backoff=backoff, timeout_s=timeout_ms / 1000)
        self._sleep = sleep
        self._now = now
        self._lock = lock if lock is not None else nullcontext()
        self._tell = tell
        self._check = check
        self._answered: Broker | None = None  # asked first the next time: one that is silent costs a time-out
        self._links_used: dict[Broker, Link] = {}  # links that a question was answered on
        self._known: dict[str, Broker] = {}  # group -> its coordinator, until it says that it is not

    def find(self, group: str) -> Broker:
        """Who coordinates a group, asked anew.  Raises CoordinatorAway, LinkLost, LocalError (older than 0.8.2)."""
        self._known.pop(group, None)
        began = self._now()
        for tries, last in self._attempts():
            try:
                return self._look_up(group)
            except CoordinatorAway as away:
                if last:
                    tried = _tried(tries, self._now() - began)
                    raise refusal(away.code, away.broker, group=group, tried=tried) from None
                if tries == 1:
                    self._tell(f"waiting for a coordinator: {away}")
        raise AssertionError("the last try returns or raises")

    def ask(
        self, group: str, store: Store, tps: Sequence[TopicPartition], wanted: Wanted
    ) -> dict[TopicPartition, Answer]:
        """An answer for each partition.  Raises what wanted() raises, LocalError; never LinkLost or Refused."""
        answers: dict[TopicPartition, Answer] = {}
        left = list(tps)
        began = self._now()
        for tries, last in self._attempts() if left else ():
            for first in range(0, len(left), PARTITIONS_PER_REQUEST):
                answers |= self._once(group, store, left[first : first + PARTITIONS_PER_REQUEST], wanted)
            left = [tp for tp in left if answers[tp].again]
            if not left:
                break
            if last:
                told = _tried(tries, self._now() - began)
                answers |= {tp: replace(answers[tp], tried=told) for tp in left}
            elif tries == 1:
                why = answers[left[0]].why(group, left[0])
                self._tell(f"asking again for {len(left)} of {len(tps)} partitions: {why}")
        return answers

    def ask_coordinator(self, group: str, request: Request[R]) -> tuple[Broker, R]:
        """One question to the group's coordinator, which is looked up anew.  Raises as find."""
        broker = self.find(group)
        return broker, self._call(broker, request)

    def _attempts(self) -> Iterator[Attempt]:
        return self._retry.attempts(self._sleep, self._now)

    def _once(
        self, group: str, store: Store, tps: Sequence[TopicPartition], wanted: Wanted
    ) -> dict[TopicPartition, Answer]:
        """Ask for these once; in halves where they are too many for the broker's log."""
        answers = self._question(group, store, tps, wanted)
        refused = [tp for tp in tps if (row := answers[tp].row) is not None and row["error"] == TOO_LARGE]
        if not refused or len(tps) == 1:
            return answers
        half = (len(refused) + 1) // 2
        for part in (refused[:half], refused[half:]):
            if part:
                answers |= self._once(group, store, part, wanted)
        return answers

    def _question(
        self, group: str, store: Store, tps: Sequence[TopicPartition], wanted: Wanted
    ) -> dict[TopicPartition, Answer]:
        """One request and what its reply says of each partition."""
        known = None
        try:
            if store == "kafka":
                known = self._known.get(group) or self._look_up(group)
                broker, reply = known, self._call(known, wanted(tps))
            else:
                broker, reply = self._any(group, lambda: wanted(tps))
        except (LinkLost, Refused) as error:
            self._known.pop(group, None)
            again = known is not None or isinstance(error, CoordinatorAway)  # a coordinator that is silent may move
            return dict.fromkeys(tps, Answer(known, None, error, again))
        rows = {TopicPartition(t["topic"], row["partition"]): row for t in reply["topics"] for row in t["partitions"]}
        if any(row["error"] in ELSEWHERE for row in rows.values()):
            self._known.pop(group, None)
        return {tp: _answer(group, tp, broker, rows.get(tp)) for tp in tps}

    def _look_up(self, group: str) -> Broker:
        """Ask once.  Raises CoordinatorAway, another Refused, LinkLost, LocalError."""
        request = self._dialect.requests.group_coordinator(self._dialect, group)
        broker, reply = self._any(group, lambda: request, lambda reply: reply["error"] == 0)
        if reply["error"]:
            raise refusal(reply["error"], broker, group=group)
        found = reply["coordinator"]
        self._known[group] = Broker(found["node_id"], found["host"], found["port"])
        return self._known[group]

    def _any(
        self,
        group: str,
        request: Callable[[], Request[Any]],
        good: Callable[[Mapping[str, Any]], bool] = lambda reply: True,
    ) -> tuple[Broker, Mapping[str, Any]]:
        """The first good answer, else the last that came.  Raises LinkLost when no broker answers."""
        lost: list[LinkLost] = []
        answer: tuple[Broker, Mapping[str, Any]] | None = None
        for broker in sorted(self._brokers(), key=lambda broker: broker != self._answered):
            try:
                answer = broker, self._call(broker, request())
            except LinkLost as error:
                lost.append(error)
                continue
            if good(answer[1]):
                self._answered = broker
                break
        if answer is None:
            raise lost[0] if len(lost) == 1 else LinkLost(f"group {group}: {_silence(lost)}")
        return answer

    def _call(self, broker: Broker, request: Request[R]) -> R:
        """One question.  A link at rest may have been closed by the broker: that is no news, and costs no try."""
        with self._lock:
            self._check()
            link = self._links.link(broker, PURPOSE)
            try:
                reply = _asked(link, request)
            except LinkLost as lost:
                if self._links_used.get(broker) is not link or isinstance(lost.__cause__, TimeoutError):
                    raise
                self._check()
                link = self._links.link(broker, PURPOSE)
                reply = _asked(link, request)
            self._links_used[broker] = link
            return reply


def _asked(link: Link, request: Request[R]) -> R:
    try:
        return link.call(request)
    finally:
        if link.outstanding:  # we were ended while we waited: the answer is still to come, and would be the next one's
            link.close()


def _answer(group: str, tp: TopicPartition, broker: Broker, row: Mapping[str, Any] | None) -> Answer:
    if row is None:
        missing = RemoteError(f"group {group}, {tp} on {broker}: the answer leaves this partition out")
        return Answer(broker, None, missing)
    return Answer(broker, row, again=row["error"] == LOADING or row["error"] in ELSEWHERE)


def _tried(tries: int, seconds: float) -> str:
    return f" (asked {tries} times in {seconds:.1f} s)" if tries > 1 else ""


def _silence(lost: Sequence[LinkLost]) -> str:
    if not lost:
        return "no broker is known: none is registered, or none was named"
    return f"none of {len(lost)} brokers answers: {'; '.join(map(str, lost[:3]))}{'; ...' if lost[3:] else ''}"
