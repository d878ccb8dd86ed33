"""Client of one cluster: its view, leaders with refresh, ListOffsets in bulk, retries.

    links = Links("tool", connect, timeout_ms)
    client = KafkaClient.of_brokers([("broker1", 9092)], links, dialect("0.8.2"), retry=LEADERS_AGAIN)
    ends = client.list_offsets(dict.fromkeys(tps, LATEST))

All calls block; greenlets and threads are not used here.  The links have the connect function with TLS and SASL; clock
and sleep are arguments of the client.  A failure of one partition is a value in the result, next to the offsets of the
others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from kafkawire.cluster.leaders import LeaderSource, MetadataLeaders, NoLeader
from kafkawire.cluster.listoffsets import DEBUGGING, LATEST, LogOffset, Times, ask_offsets
from kafkawire.cluster.metadata import MetadataSource, NothingKnown, Unreachable
from kafkawire.cluster.retry import ONCE, RetryPolicy
from kafkawire.cluster.view import ClusterView
from kafkawire.dialects import Dialect
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol.request import CONSUMER

PURPOSE = "offsets"


class KafkaClient:
    """Client of a cluster over links to its brokers.  Several tasks may use it at a time.

    source    where leaders are looked up
    retry     of calls without a policy of their own
    view      leaders used until one is wrong or a refresh is requested; None: none yet
    purpose   of the links
    """

    def __init__(
        self,
        source: LeaderSource,
        links: Links,
        dialect: Dialect,
        *,
        retry: RetryPolicy = ONCE,
        view: ClusterView | None = None,
        purpose: str = PURPOSE,
        sleep: Callable[[float], object] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.dialect = dialect
        self.links = links
        self._source = source
        self._retry = retry
        self._view = view
        self._whole = False  # the view covers all partitions
        self._read_at: float | None = None  # when the view was read; None: this client did not read it
        self._there = False  # a broker has responded, even if it has just started and has no metadata yet
        self._purpose = purpose
        self._sleep = sleep
        self._now = now

    @classmethod
    def of_brokers(
        cls,
        bootstrap: Sequence[tuple[str, int]],
        links: Links,
        dialect: Dialect,
        *,
        retry: RetryPolicy = ONCE,
        purpose: str = PURPOSE,
        sleep: Callable[[float], object] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> KafkaClient:
        """Return a client of brokers that describe themselves (0.8 and later): any one of them knows all."""
        source = MetadataLeaders(MetadataSource(bootstrap, dialect, links))
        return cls(source, links, dialect, retry=retry, purpose=purpose, sleep=sleep, now=now)

    # ---- view and leaders --------------------------------------------------------------------------------------------

    def view(
        self, *, refresh: bool = False, max_age_s: float | None = None, retry: RetryPolicy | None = None
    ) -> ClusterView:
        """Return all brokers and partitions as last read; read them again if `refresh` is set or the view is older than
        `max_age_s`.

        Raises Unreachable, after retries, when no broker responds.  The first call does not wait for an election: if no
        broker ever responded, the address may be wrong.
        """
        if self._view is not None and self._whole and not (refresh or self._older_than(max_age_s)):
            return self._view
        policy = retry or self._retry
        for attempt in policy.attempts(self._sleep, self._now):
            try:
                return self._refreshed(None)
            except Unreachable as nobody:
                unreachable = nobody
            if policy.used_up(attempt.number) and not self._there:
                break
        raise unreachable

    def leader(
        self, tp: TopicPartition, *, refresh: bool = False, retry: RetryPolicy | None = None
    ) -> Broker | NoLeader:
        """Return the leader of one partition, or why there is none.  Raises Unreachable, after retries."""
        return self.leaders([tp], refresh=refresh, retry=retry)[tp]

    def leaders(
        self, tps: Iterable[TopicPartition], *, refresh: bool = False, retry: RetryPolicy | None = None
    ) -> dict[TopicPartition, Broker | NoLeader]:
        """Return the leader of each partition, or why there is none; one refresh serves all of them.

        Known leaders are used, unless a refresh is requested.  Raises Unreachable, after retries.
        """
        wanted = list(tps)
        if not refresh and self._view is not None:
            believed = self._led(self._view, wanted)
            if _all_led(believed):
                return believed
        policy, unreachable = retry or self._retry, None
        found: dict[TopicPartition, Broker | NoLeader] = {}
        for attempt in policy.attempts(self._sleep, self._now) if wanted else ():
            try:
                found, unreachable = self._led(self._refreshed(wanted), wanted), None
            except Unreachable as nobody:
                unreachable = nobody
            missing = [leader for leader in found.values() if isinstance(leader, NoLeader)]
            for leader in missing:
                leader.tries = attempt.number
            if not missing and unreachable is None:
                break
            if policy.used_up(attempt.number) and (not self._there or any(leader.lasting for leader in missing)):
                break
        if unreachable is not None:
            raise unreachable
        return found

    def _led(self, view: ClusterView, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Broker | NoLeader]:
        return {tp: self._source.leader(view, tp) for tp in tps}

    def _refreshed(self, tps: Collection[TopicPartition] | None) -> ClusterView:
        try:
            self._view = view = self._source.read(tps)
        except NothingKnown:
            self._there = True
            raise
        self._there = True
        self._whole = tps is None or self._source.reads_all
        self._read_at = self._now()
        return view

    def _older_than(self, max_age_s: float | None) -> bool:
        return max_age_s is not None and self._now() - (self._read_at or 0.0) > max_age_s

    # ---- offsets -----------------------------------------------------------------------------------------------------

    def list_offsets(
        self,
        times: Times,
        *,
        refresh: bool = False,
        retry: RetryPolicy | None = None,
        replica_id: int = CONSUMER,
        dialect: Dialect | None = None,
        committed: bool = False,
    ) -> dict[TopicPartition, LogOffset]:
        """Return the offset of each log for its time (EARLIEST, LATEST, ms since 1970), or why it is not known.

        Requests go to all leaders before the first response is awaited; retriable errors are retried after a refresh of
        leaders. refresh: refresh before the first try, too. dialect: release whose request versions are used.
        committed: LATEST is the last stable offset, where brokers have transactions.  Raises only the exceptions of the
        source, except Unreachable.
        """
        policy, found, left = retry or self._retry, dict[TopicPartition, LogOffset](), dict(times)
        for attempt in policy.attempts(self._sleep, self._now) if left else ():
            leaders = self._leaders_of(left, refresh or attempt.number > 1, attempt.last)
            asked = self._ask(left, leaders, dialect or self.dialect, replica_id, committed)
            found |= {tp: replace(said, tries=attempt.number) for tp, said in asked.items()}
            left = {tp: at for tp, at in left.items() if found[tp].retriable}
            if not left:
                break
            if policy.used_up(attempt.number) and not (self._there and all(found[tp].moved for tp in left)):
                break
        return found

    def list_ends(
        self,
        reached: Mapping[TopicPartition, int],
        *,
        refresh: bool = False,
        retry: RetryPolicy | None = None,
        replica_id: int = CONSUMER,
        committed: bool = False,
    ) -> dict[TopicPartition, LogOffset]:
        """Return the end of each log (list_offsets of LATEST).  It is below `reached` only if the log is really
        shorter.

        reached: an offset up to which the log was read or committed; 0: not known.  Up to 2.1 a leader that was just
        elected returns its high watermark, which may be lower until its followers have fetched.  So if an end is below
        `reached`, the leader is looked up again and its own log end is requested (DEBUGGING), as often as the policy
        retries.  If the log end is not below `reached`, the result is `reached`: more may not be visible yet.
        """
        policy, latest = retry or self._retry, dict.fromkeys(reached, LATEST)
        found = self.list_offsets(latest, refresh=refresh, retry=retry, replica_id=replica_id, committed=committed)
        for attempt in policy.attempts(self._sleep, self._now):
            low = {tp: LATEST for tp, said in found.items() if said.offset is not None and said.offset < reached[tp]}
            if not low:
                break
            own = self.list_offsets(low, refresh=True, retry=retry, replica_id=DEBUGGING)
            for tp, said in own.items():
                if replica_id != DEBUGGING and said.offset is not None and said.offset > reached[tp]:
                    own[tp] = replace(said, offsets=(reached[tp],))
            found |= own
            if policy.used_up(attempt.number + 1):
                break
        return found

    def _leaders_of(
        self, tps: Collection[TopicPartition], refresh: bool, last: bool
    ) -> dict[TopicPartition, Broker | NoLeader | Unreachable]:
        """Return the leaders to send requests to now.  Unless this is the last try, a partition without a leader is not
        retried here, because the next try refreshes."""
        if not refresh and self._view is not None:
            believed = self._led(self._view, tps)
            if not last or _all_led(believed):
                return dict(believed)
        try:
            return dict(self._led(self._refreshed(tps), tps))
        except Unreachable as nobody:
            return dict.fromkeys(tps, nobody)

    def _ask(
        self,
        times: Times,
        leaders: Mapping[TopicPartition, Broker | NoLeader | Unreachable],
        dialect: Dialect,
        replica_id: int,
        committed: bool,
    ) -> dict[TopicPartition, LogOffset]:
        led: dict[Broker, list[TopicPartition]] = {}
        found: dict[TopicPartition, LogOffset] = {}
        for tp, leader in leaders.items():
            if isinstance(leader, Broker):
                led.setdefault(leader, []).append(tp)
            else:
                found[tp] = LogOffset(None, error=leader)
        found |= ask_offsets(
            self.links,
            dialect,
            led,
            times,
            purpose=self._purpose,
            replica_id=replica_id,
            committed=committed,
        )
        return {tp: found[tp] for tp in times}


def _all_led(leaders: Mapping[TopicPartition, Broker | NoLeader]) -> bool:
    return not any(isinstance(leader, NoLeader) for leader in leaders.values())
