"""Committed offsets requested from brokers, in either store.  Plain blocking calls without greenlets or a ZooKeeper
client.

    zookeeper   OffsetCommit and OffsetFetch v0: any broker writes and reads the node /consumers/GROUP/offsets/TOPIC/N
    kafka       v1 and later: the group's coordinator, which GroupCoordinator names; any broker that responds is asked

    response         reaction
    14               the coordinator still loads: wait, ask the same one again
    15, 16           there is none, or another one: wait, look it up again
    7                for a commit: its replicas did not confirm it in time.  It may be written, and the coordinator
                     shows the previous offset; perhaps it was replaced.  Handled like 15
    28               the commit is too large for the broker's log: send it in halves
    a lost link      to a coordinator: look it up again; to every known broker: an error at once

If the response is "-1, error 0" for a partition, while others of the group have an offset or the caller knows one, the
request is repeated once after looking up the coordinator again: the first one may have been replaced, or have read its
log only in part.

Before offsets are read in Kafka, a request for one of them goes to a coordinator of 2.5 and later with require_stable
(OffsetFetch v7).  In 4.0 it answers once everything written before is replicated.  Otherwise it shows what is below the
high watermark that it knows: right after it took over, that is an older commit, or none.  The v7 result for the
partition is ignored: in 2.5 to 3.9, and during an open transaction, it may stay unstable (88) forever.

After a coordinator that did not answer, or was none, the next look-up begins at the next broker: one with old metadata
would name the same coordinator forever.

Only partitions that need it are requested again, at most `retries` times and not after `timeout_ms`; the error then
says how often, for how long, and why.  (A try that has begun may exceed that by a timeout of its link.) A commit that
is repeated after a lost link writes the same offset twice, which changes nothing.

How long Kafka keeps an offset: the broker's offsets.retention from the commit, unless retention_ms is longer.  v2 (0.9)
has a field for it; v1 (0.8.2) has only the time of the commit, so it is moved into the future: now + retention_ms - the
broker's.  A shorter retention than the broker's cannot be requested there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from kafkawire.cluster.retry import Attempt, Backoff, RetryPolicy
from kafkawire.dialects import Dialect, Store
from kafkawire.errors import LinkLost, LocalError, RemoteError, WireError
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol import apis
from kafkawire.protocol.request import Request
from kafkawire.protocol.stableoffsets import StableOffsetFetch, StableOffsets
from kafkawire.protocol.subscriptions import read_assignment
from zkconsumer.offsets.store import NONE, Committed, Unknown
from zkconsumer.refusals import COMMIT_AGAIN, MAY_BE_WRITTEN, CoordinatorAway, MetadataTooLong, Refused, refusal

log = logging.getLogger(__name__)

PURPOSE = "coordinator"  # separate links: responses to other requests must not arrive here
LOADING = 14
ELSEWHERE = (7, 15, 16)
TOO_LARGE = 28
PARTITIONS_PER_REQUEST = 5000

R = TypeVar("R")  # type of a response

Wanted = Callable[[Sequence[TopicPartition]], Request[Any]]  # makes the request for these; called for each try
Before = Callable[[], object]  # called right before a request is sent; its errors go to the caller


@dataclass(frozen=True, slots=True)
class PartitionResponse:
    """One partition's row of a response, or the error that came instead."""

    broker: Broker | None
    row: Mapping[str, Any] | None
    error: WireError | None = None
    again: bool = False
    tried: str = ""  # if it was given up: how often and for how long it was tried
    sent: bool = False  # there was no response, or an earlier try had one after which a commit may be written

    def why(self, group: str, tp: TopicPartition) -> WireError | None:
        """Return what is wrong with it, or None."""
        if self.row is None:
            return self.error
        return refusal(self.row["error"], self.broker, tp, group=group) if self.row["error"] else None

    def reported(self, sent: bool = False) -> WireError | None:
        """Return the error, with how long it was tried.  sent: it belongs to a commit that may be written."""
        error = self.error
        if error is None or not (self.tried or sent):
            return error
        if isinstance(error, Refused):
            return refusal(error.code, error.broker, error.tp, error.position, error.group, self.tried, sent)
        return LinkLost(f"{error}{self.tried}")

    def after(self, before: PartitionResponse | None) -> PartitionResponse:
        """Return this response, combined with what the previous try's response says about a commit."""
        if before is None or self.sent:
            return self
        code = before.row["error"] if before.row is not None else 0
        return replace(self, sent=before.sent or isinstance(before.error, LinkLost) or code in MAY_BE_WRITTEN)


class GroupRequests:
    """Requests about groups, to the brokers that can answer them.  For the arguments, see Coordinator."""

    def __init__(
        self,
        brokers: Callable[[], Sequence[Broker]],
        links: Links,
        dialect: Dialect,
        retry: RetryPolicy,
        *,
        sleep: Callable[[float], object],
        now: Callable[[], float],
        tell: Callable[[str], object],
        check: Callable[[], object],
        told: Callable[[], Broker | None],
    ) -> None:
        self._brokers = brokers
        self._links = links
        self._dialect = dialect
        self._retry = retry
        self._sleep = sleep
        self._now = now
        self._tell = tell
        self._check = check
        self._answered: Broker | None = None  # asked first the next time
        self._told = told
        self._known: dict[str, Broker] = {}  # group -> its coordinator, until it denies to be one
        self._failed: Broker | None = None  # the last coordinator that was lost, or denied to be one

    def find(self, group: str, suspect: Broker | None = None) -> Broker:
        """Return the group's coordinator, looked up again.  Raises CoordinatorAway, LinkLost, and LocalError before
        0.8.2.

        suspect: asked after all others, because it is silent, or may wrongly believe to be the coordinator; the broker
        that named it is not the first to be asked again, either.  None: the coordinator that failed last, if any.
        """
        self._known.pop(group, None)
        suspect = suspect or self._failed
        began = self._now()
        for tries, last in self._attempts():
            try:
                return self._look_up(group, suspect)
            except CoordinatorAway as away:
                if last:
                    tried = _tried(tries, self._now() - began)
                    raise refusal(away.code, away.broker, group=group, tried=tried) from None
                if tries == 1:
                    self._tell(f"waiting for a coordinator: {away}")
        raise AssertionError("the last try returns or raises")

    def ask(
        self,
        group: str,
        store: Store,
        tps: Sequence[TopicPartition],
        wanted: Wanted,
        before: Before = lambda: None,
    ) -> dict[TopicPartition, PartitionResponse]:
        """Return a response for each partition.  Raises what wanted() and before() raise, and LocalError; never
        LinkLost or Refused."""
        answers: dict[TopicPartition, PartitionResponse] = {}
        left = list(tps)
        began = self._now()
        for tries, last in self._attempts() if left else ():
            for first in range(0, len(left), PARTITIONS_PER_REQUEST):
                found = self._once(group, store, left[first : first + PARTITIONS_PER_REQUEST], wanted, before)
                answers |= {tp: answer.after(answers.get(tp)) for tp, answer in found.items()}
            left = [tp for tp in left if answers[tp].again]
            if not left:
                break
            if last:
                tried = _tried(tries, self._now() - began)
                answers |= {tp: replace(answers[tp], tried=tried) for tp in left}
            elif tries == 1:
                why = answers[left[0]].why(group, left[0])
                self._tell(f"asking again for {len(left)} of {len(tps)} partitions: {why}")
        return answers

    def doubt(self, group: str) -> None:
        """Treat the group's coordinator as replaced, so that it is looked up again elsewhere."""
        self._failed = self._current(group) or self._failed
        self._known.pop(group, None)

    def ask_coordinator(self, group: str, request: Request[R]) -> tuple[Broker, R]:
        """Send one request to the group's coordinator, which is looked up again.  Raises what find() raises."""
        broker = self.find(group)
        try:
            answer = self._call(broker, request)
        except LinkLost:
            self._failed = broker
            raise
        if self._failed == broker:
            self._failed = None
        return broker, answer

    def _attempts(self) -> Iterator[Attempt]:
        return self._retry.attempts(self._sleep, self._now)

    def _once(
        self, group: str, store: Store, tps: Sequence[TopicPartition], wanted: Wanted, before: Before
    ) -> dict[TopicPartition, PartitionResponse]:
        """Send one request for these, or two halves if they are too many for the broker's log."""
        answers = self._question(group, store, tps, wanted, before)
        refused = [tp for tp in tps if (row := answers[tp].row) is not None and row["error"] == TOO_LARGE]
        if not refused or len(tps) == 1:
            return answers
        half = (len(refused) + 1) // 2
        for part in (refused[:half], refused[half:]):
            if part:
                answers |= self._once(group, store, part, wanted, before)
        return answers

    def _question(
        self, group: str, store: Store, tps: Sequence[TopicPartition], wanted: Wanted, before: Before
    ) -> dict[TopicPartition, PartitionResponse]:
        """Send one request, and return what its response says about each partition."""
        known = None
        before()  # do not look up a coordinator for a request that must not be sent
        try:
            if store == "kafka":
                known = self._coordinator(group)
                broker, rows = known, self._rows_of(known, group, tps, wanted(tps), before)
            else:
                broker, reply = self._any(group, lambda: wanted(tps), before=before)
                rows = _rows(reply)
        except (LinkLost, Refused) as error:
            self._known.pop(group, None)
            self._failed = known or self._failed
            again = known is not None or isinstance(error, CoordinatorAway)  # a silent coordinator may be moving
            return dict.fromkeys(tps, PartitionResponse(known, None, error, again))
        if any(row["error"] in ELSEWHERE for row in rows.values()):
            self._known.pop(group, None)
            self._failed = known
        elif self._failed == known:
            self._failed = None
        return {tp: _response(group, tp, broker, rows.get(tp)) for tp in tps}

    def _rows_of(
        self, broker: Broker, group: str, tps: Sequence[TopicPartition], request: Request[Any], before: Before
    ) -> dict[TopicPartition, dict[str, Any]]:
        """Return a coordinator's result for each partition; for a read, once it shows everything written before."""
        if request.api is apis.OFFSET_FETCH and self._dialect.stable_offsets:
            shown: StableOffsets = self._call(broker, StableOffsetFetch(group, tps[0]))
            if shown.error:
                return {tp: {"error": shown.error, "offset": -1, "metadata": ""} for tp in tps}
        return _rows(self._call(broker, request, before))

    def _coordinator(self, group: str) -> Broker:
        """Return where to ask for the group's offsets now.  Raises what _look_up() raises."""
        return self._current(group) or self._look_up(group, self._failed)

    def _current(self, group: str) -> Broker | None:
        """Return the group's coordinator as far as it is known."""
        told = self._told()
        return told if told is not None and told != self._failed else self._known.get(group)

    def _look_up(self, group: str, suspect: Broker | None = None) -> Broker:
        """Look the coordinator up once.  Raises CoordinatorAway, another Refused, LinkLost and LocalError."""
        request = self._dialect.requests.group_coordinator(self._dialect, group)
        broker, reply = self._any(group, lambda: request, lambda reply: reply["error"] == 0, suspect)
        if reply["error"]:
            raise refusal(reply["error"], broker, group=group)
        found = reply["coordinator"]
        self._known[group] = coordinator = Broker(found["node_id"], found["host"], found["port"])
        return coordinator

    def _any(
        self,
        group: str,
        request: Callable[[], Request[Any]],
        good: Callable[[Mapping[str, Any]], bool] = lambda reply: True,
        suspect: Broker | None = None,
        before: Before = lambda: None,
    ) -> tuple[Broker, Mapping[str, Any]]:
        """Return the first good response, else the last one.  Raises LinkLost if no broker answers."""
        lost: list[LinkLost] = []
        answer: tuple[Broker, Mapping[str, Any]] | None = None
        for broker in self._in_turn(suspect):
            try:
                answer = broker, self._call(broker, request(), before)
            except LinkLost as error:
                lost.append(error)
                continue
            if good(answer[1]):
                self._answered = broker
                break
        if answer is None:
            raise lost[0] if len(lost) == 1 else LinkLost(f"group {group}: {_silence(lost)}")
        return answer

    def _in_turn(self, suspect: Broker | None) -> list[Broker]:
        """Return brokers in the order in which to ask them: first the one that answered last, or the next one if its
        answer was wrong; then in turn, with silent brokers and the suspect at the end."""
        brokers = list(self._brokers())
        answered = [n for n, broker in enumerate(brokers) if _same(broker, self._answered)]
        first = answered[0] + (suspect is not None) if answered else 0
        circle = self._links.answering_first(brokers[first:] + brokers[:first])
        return sorted(circle, key=lambda broker: _same(broker, suspect))

    def _call(self, broker: Broker, request: Request[R], before: Before = lambda: None) -> R:
        """Send one request.  The broker may close an idle link at that moment: that does not count as a try."""
        self._check()
        with self._links.lent(broker, PURPOSE) as link:
            idle = link.connected
            try:
                return link.call(request, before)
            except LinkLost as lost:
                if not idle or isinstance(lost.__cause__, TimeoutError):
                    raise
        self._check()
        return self._links.call(broker, PURPOSE, request, before)


def _same(one: Broker, other: Broker | None) -> bool:
    """True if both are at one address: a bootstrap broker has no known id."""
    return other is not None and (one.host, one.port) == (other.host, other.port)


def _rows(reply: Mapping[str, Any]) -> dict[TopicPartition, dict[str, Any]]:
    return {TopicPartition(t["topic"], row["partition"]): row for t in reply["topics"] for row in t["partitions"]}


def _response(group: str, tp: TopicPartition, broker: Broker, row: Mapping[str, Any] | None) -> PartitionResponse:
    if row is None:
        missing = RemoteError(f"group {group}, {tp} on {broker}: the answer leaves this partition out")
        return PartitionResponse(broker, None, missing)
    return PartitionResponse(broker, row, again=row["error"] == LOADING or row["error"] in ELSEWHERE)


def _tried(tries: int, seconds: float) -> str:
    return f" (asked {tries} times in {seconds:.1f} s)" if tries > 1 else ""


def _silence(lost: Sequence[LinkLost]) -> str:
    if not lost:
        return "no broker is known: none is registered, or none was named"
    return f"none of {len(lost)} brokers answers: {'; '.join(map(str, lost[:3]))}{'; ...' if lost[3:] else ''}"


NOTHING_IN_ZOOKEEPER = 3  # OffsetFetch v0 reports "nothing committed" with the code of an unknown partition
METADATA_LIMIT = 4096  # offset.metadata.max.bytes of 0.8.2 and later, which counts Java's characters
PLAUSIBLE_MS = 1_577_836_800_000  # 2020: a clock before that was never set
BROKER_RETENTION_MS = 24 * 3600 * 1000  # offsets.retention.minutes of 0.8.2 to 1.1

Positions = Mapping[TopicPartition, tuple[int, str]]


@dataclass(frozen=True, slots=True)
class CommittedRow:
    """Offset of one partition in a store, with its metadata ("" if there is none)."""

    at: Committed
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group as its coordinator has it, since 0.9: members are those that coordinate through brokers.

    state: Stable, PreparingRebalance, AwaitingSync, Empty (0.10.1), Dead (also for an unknown group) members: member
    id, client id, host protocol: the assignment strategy, while there is one; assignments: bytes by member id, while it
    is stable
    """

    state: str
    protocol_type: str
    members: tuple[tuple[str, str, str], ...]
    protocol: str = ""
    assignments: Mapping[str, bytes] = field(default_factory=dict)

    def owners(self) -> dict[TopicPartition, str]:
        """Return the member id that owns each partition; partitions of members with unreadable assignments are
        missing."""
        found: dict[TopicPartition, str] = {}
        for member_id, data in self.assignments.items():
            try:
                found |= dict.fromkeys(read_assignment(data), member_id)
            except RemoteError as why:
                log.info("the partitions of member %s are not known: %s", member_id, why)
        return found


class Coordinator:
    """Client that commits and reads offsets of any group.  Several tasks may call it at a time.

    brokers      one, or a call that returns the brokers to ask now (the registered ones, or bootstrap addresses); one
                 that responds, and knows, is enough
    sleep, now   for the waits: groundwork.tasks's in the event loop
    tell         called with a sentence when it starts to wait, and why
    check        called before each request: raises if nothing may be sent any more
    told         returns the coordinator of the only group in use, if the caller found it out; None: look it up
    member       generation and member id of a commit, called for each request; -1 and "" for none
    """

    def __init__(
        self,
        brokers: Broker | Callable[[], Sequence[Broker]],
        links: Links,
        dialect: Dialect,
        retries: int = 10,
        backoff_ms: int = 1000,
        timeout_ms: int = 30000,
        *,
        sleep: Callable[[float], object] = time.sleep,
        now: Callable[[], float] = time.monotonic,
        tell: Callable[[str], object] = lambda sentence: None,
        check: Callable[[], object] = lambda: None,
        told: Callable[[], Broker | None] = lambda: None,
        member: Callable[[], tuple[int, str]] = lambda: (-1, ""),
        broker_retention_ms: int = BROKER_RETENTION_MS,
        metadata_limit: int = METADATA_LIMIT,
        clock_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        """broker_retention_ms: the brokers' offsets.retention, which 0.8.2 does not report; if it is in fact shorter,
        an explicit retention becomes shorter, too.  clock_ms: ms since the epoch."""
        whom = (lambda: [brokers]) if isinstance(brokers, Broker) else brokers
        backoff_s = backoff_ms / 1000
        retry = RetryPolicy(retries=retries, backoff=Backoff(backoff_s, backoff_s), timeout_s=timeout_ms / 1000)
        self._requests = GroupRequests(
            whom, links, dialect, retry, sleep=sleep, now=now, tell=tell, check=check, told=told
        )
        self._dialect = dialect
        self._member = member
        self._broker_retention_ms = broker_retention_ms
        self._metadata_limit = metadata_limit
        self._clock_ms = clock_ms

    @property
    def may_miss_commits(self) -> bool:
        """True if a coordinator of these brokers may not know the newest commits (Dialect.may_miss_commits)."""
        return self._dialect.may_miss_commits

    def find(self, group: str, suspect: Broker | None = None) -> Broker:
        """Return the group's coordinator, looked up again.  Raises CoordinatorAway, LinkLost, and LocalError before
        0.8.2.

        suspect: asked after all others.  The first such request a cluster ever gets creates the topic
        __consumer_offsets.
        """
        return self._requests.find(group, suspect)

    def describe(self, group: str) -> GroupState:
        """Return the group with its members of the new consumer protocol.  Raises what find() raises, and LocalError
        before 0.9."""
        request = self._dialect.requests.describe_groups(self._dialect, [group])
        broker, reply = self._requests.ask_coordinator(group, request)
        (row,) = reply["groups"]
        if row["error"]:
            if row["error"] in ELSEWHERE:
                self._requests.doubt(group)
            raise refusal(row["error"], broker, group=group)
        members = tuple((m["member_id"], m["client_id"], m["client_host"]) for m in row["members"])
        assignments = {m["member_id"]: bytes(m["assignment"]) for m in row["members"]}
        return GroupState(row["state"], row["protocol_type"], members, row["protocol"], assignments)

    def commit(
        self,
        group: str,
        positions: Positions,
        store: Store,
        retention_ms: int | None = None,
        before_send: Before = lambda: None,
    ) -> dict[TopicPartition, WireError | None]:
        """Write (position, metadata) each.  Return None per partition, or why it is not known to be written.

        retention_ms: how long Kafka should keep the offset from now; None leaves that to the broker. before_send is
        called before a coordinator is looked up, and again right before the bytes of each request are sent, after
        look-up, connecting and login; an error that it raises ends the commit and goes to the caller.  Raises
        LocalError if the release has no such store, for a position below 0, and for a retention in ZooKeeper.
        """
        self._check(group, positions, store, retention_ms)
        return self._commit(group, positions, store, self._retention(retention_ms), before_send)

    def _commit(
        self, group: str, positions: Positions, store: Store, kept: _Retention, before_send: Before
    ) -> dict[TopicPartition, WireError | None]:
        too_long = self._too_long(group, positions) if store == "kafka" else {}  # brokers drop ZooKeeper's metadata

        def request(left: Sequence[TopicPartition]) -> Request[Any]:
            rows = {tp: positions[tp] for tp in left}
            generation, member_id = self._member()
            return self._dialect.requests.offset_commit(
                self._dialect,
                group,
                rows,
                store,
                generation=generation,
                member_id=member_id,
                retention_ms=kept.retention_ms,
                timestamp_ms=kept.timestamp_ms,
            )

        answers = self._requests.ask(group, store, [tp for tp in positions if tp not in too_long], request, before_send)
        return {tp: too_long.get(tp) or _failure(group, tp, positions[tp][0], answers[tp]) for tp in positions}

    def forget(self, group: str, tps: Sequence[TopicPartition]) -> dict[TopicPartition, WireError | None]:
        """Let Kafka drop committed offsets: they are committed once more with the oldest possible time.

        There is no request for it before 2.4.  The broker drops an offset at its next check; until then the old offset
        is read.  (It checks every offsets.retention.check.interval.ms; 0.8.2 every ten minutes, regardless of that.)
        Return None per partition (also if nothing was committed), or why it may stay.  Raises what fetch() raises.
        """
        held = self.fetch_rows(group, tps, "kafka")
        rows = {tp: (row.at, row.metadata) for tp, row in held.items() if isinstance(row.at, int)}
        has_retention = self._dialect.speaks(apis.OFFSET_COMMIT.key) >= 2
        oldest = _Retention(retention_ms=1) if has_retention else _Retention(timestamp_ms=1)
        results = self._commit(group, rows, "kafka", oldest, lambda: None)
        unread = {tp: RemoteError(row.at.reason) for tp, row in held.items() if isinstance(row.at, Unknown)}
        return {tp: unread.get(tp) or results.get(tp) for tp in tps}

    def fetch(self, group: str, tps: Sequence[TopicPartition], store: Store) -> dict[TopicPartition, Committed]:
        """Read committed offsets.  Raises LinkLost or Refused if no broker could be asked, and LocalError."""
        return {tp: row.at for tp, row in self.fetch_rows(group, tps, store).items()}

    def fetch_rows(
        self, group: str, tps: Sequence[TopicPartition], store: Store, known: Collection[TopicPartition] = ()
    ) -> dict[TopicPartition, CommittedRow]:
        """Read committed offsets with their metadata.  known: partitions that the caller knows to have an offset."""
        rows = self._fetch_rows(group, tps, store)
        none = [tp for tp, row in rows.items() if row.at is NONE]
        beside = any(isinstance(row.at, int) for row in rows.values())
        doubted = none if beside else [tp for tp in none if tp in known]
        if doubted and store == "kafka":
            self._requests.doubt(group)
            rows |= self._fetch_rows(group, doubted, store)
        return rows

    def _fetch_rows(
        self, group: str, tps: Sequence[TopicPartition], store: Store
    ) -> dict[TopicPartition, CommittedRow]:
        self._dialect.speaks(apis.OFFSET_FETCH.key, store)
        requests = self._dialect.requests

        def request(left: Sequence[TopicPartition]) -> Request[Any]:
            return requests.offset_fetch(self._dialect, group, left, store)

        answers = self._requests.ask(group, store, tps, request)
        for answer in answers.values():
            error = answer.reported()
            if isinstance(error, (LinkLost, Refused)):
                raise error
        return {tp: _committed(group, tp, store, answers[tp]) for tp in tps}

    def _check(self, group: str, positions: Positions, store: Store, retention_ms: int | None) -> None:
        self._dialect.speaks(apis.OFFSET_COMMIT.key, store)
        if retention_ms is not None and (store == "zookeeper" or retention_ms <= 0):
            raise LocalError(
                f"group {group}: a retention of {retention_ms} ms in {store} makes no sense: "
                "it is more than 0, and offsets in ZooKeeper never expire"
            )
        for tp, (at, _) in positions.items():
            if at < 0:
                raise LocalError(f"group {group}: {at} is not a valid offset to commit for {tp}")

    def _too_long(self, group: str, positions: Positions) -> dict[TopicPartition, WireError]:
        """Return commits that are not sent at all, because 0.8.2.2 refuses their metadata but then serves their offset
        all the same."""
        most = self._metadata_limit
        sizes = {tp: len(text.encode("utf-16-le", "surrogatepass")) // 2 for tp, (_, text) in positions.items()}
        return {tp: MetadataTooLong(group, tp, positions[tp][0], n, most) for tp, n in sizes.items() if n > most}

    def _retention(self, wanted_ms: int | None) -> _Retention:
        if wanted_ms is None:
            return _Retention()
        if self._dialect.speaks(apis.OFFSET_COMMIT.key) >= 2:
            return _Retention(retention_ms=wanted_ms)
        # The broker compares this time with its own clock.  A time before now by our clock, which may be slow, could be
        # older than its retention: the offset would be dropped at the next check.  Time -1 keeps it longer.
        longer_ms, clock_ms = wanted_ms - self._broker_retention_ms, self._clock_ms()
        if longer_ms <= 0 or clock_ms < PLAUSIBLE_MS:
            return _Retention()
        return _Retention(timestamp_ms=clock_ms + longer_ms)


class _Retention(NamedTuple):
    """Retention of an offset as OffsetCommit expresses it: v2 and later by a retention, v1 by a commit time.

    -1: the broker's own.
    """

    retention_ms: int = -1
    timestamp_ms: int = -1


def _failure(group: str, tp: TopicPartition, position: int, answer: PartitionResponse) -> WireError | None:
    if answer.row is None:
        error = answer.reported(answer.sent)
        sent = answer.sent or answer.broker is not None  # otherwise no coordinator was found to send it to
        return LinkLost(f"{error}; {COMMIT_AGAIN}") if sent and isinstance(error, LinkLost) else error
    code = answer.row["error"]
    return refusal(code, answer.broker, tp, position, group, answer.tried, answer.sent) if code else None


def _committed(group: str, tp: TopicPartition, store: Store, answer: PartitionResponse) -> CommittedRow:
    """Return the row: NONE only if the broker says so; Unknown for every other code, and for an invalid offset."""
    if answer.row is None:
        return CommittedRow(Unknown(str(answer.error)))
    code, offset, metadata = answer.row["error"], answer.row["offset"], answer.row["metadata"] or ""
    if code == 0 and offset >= 0:
        return CommittedRow(int(offset), metadata)
    if offset == -1 and code == (NOTHING_IN_ZOOKEEPER if store == "zookeeper" else 0):
        return CommittedRow(NONE)
    if code:
        return CommittedRow(Unknown(str(refusal(code, answer.broker, tp, group=group, tried=answer.tried))))
    return CommittedRow(Unknown(f"group {group}, {tp} on {answer.broker}: the committed offset {offset} is invalid"))
