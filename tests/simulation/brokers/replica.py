"""Replica: one broker's copy of a partition, as its leader or as a follower.

As leader it appends, counts how far its followers are, moves the high watermark, and shrinks and grows the in-sync
replicas (2.1, 2.2).  As follower it is cut and filled by a fetcher (fetchers.py).  Whoever waits for it (acks -1
produces, fetches of clients, fetches of followers) is asked to look again when something has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from tests.simulation.brokers import entries as formats
from tests.simulation.brokers.entries import Entry, Refused
from tests.simulation.brokers.log import Log

if TYPE_CHECKING:
    from tests.simulation.brokers.broker import SimBroker

Tp = tuple[str, int]
NOT_ENOUGH = 19
LONG_AGO = -1e9


class Waiter(Protocol):
    """Somebody who waits for a replica."""

    def look(self) -> None: ...


class LeaderAndIsr(NamedTuple):
    """What the controller says about a partition."""

    leader: int
    epoch: int
    isr: tuple[int, ...]
    version: int
    replicas: tuple[int, ...]


class Follower:
    """What a leader knows of one follower."""

    __slots__ = ("caught_up_at", "end", "heard_at", "leader_end", "leader_end_at")

    def __init__(self, caught_up_at: float, now: float) -> None:
        self.end = -1
        self.caught_up_at = caught_up_at
        self.heard_at = now
        self.leader_end = -1  # of the leader at its last fetch
        self.leader_end_at = LONG_AGO


class Appended(NamedTuple):
    """base -1: nothing was stored.  required: what the high watermark has to reach for acks -1."""

    base: int
    required: int
    timestamp: int


class Replica:
    __slots__ = (
        "_pending_isr", "assigned", "broker", "epoch", "epoch_start", "fetches", "follower_fetches", "followers", "isr",
        "leader", "leads", "log", "produces", "rules", "tp", "version",
    )  # fmt: skip

    def __init__(self, broker: SimBroker, tp: Tp, log: Log) -> None:
        self.broker = broker
        self.rules = broker.rules
        self.tp = tp
        self.log = log
        self.leads = False
        self.leader: int | None = None
        self.epoch = -1
        self.epoch_start = 0  # where its present leadership began
        self.isr: tuple[int, ...] = ()
        self._pending_isr: tuple[int, ...] | None = None  # under way to the controller
        self.version = 0
        self.assigned: tuple[int, ...] = ()
        self.followers: dict[int, Follower] = {}
        self.produces: dict[Waiter, None] = {}
        self.fetches: dict[Waiter, None] = {}
        self.follower_fetches: dict[Waiter, None] = {}

    def __repr__(self) -> str:
        role = "leads" if self.leads else f"follows {self.leader}"
        return f"<{self.tp[0]}/{self.tp[1]} on {self.broker.id}: {role} in {self.epoch}, {self.log.hw}/{self.log.end}>"

    @property
    def min_isr(self) -> int:
        least = self.log.config.min_isr
        return min(least, len(self.assigned)) if self.rules.min_isr_capped else least

    # ---- roles -------------------------------------------------------------------------------------------------------

    def lead(self, said: LeaderAndIsr) -> None:
        """Become leader, or leader again in another epoch (PA.makeLeader)."""
        now = self.broker.cluster.timeline.now
        fresh = not self.leads
        self._hear(said)
        self.leads = True
        if self.rules.truncates_by_epoch:
            self.log.begin_epoch(said.epoch, self.log.end)
        self.epoch_start = self.log.end
        if fresh:
            self.followers = {}
        for other in said.replicas:
            if other == self.broker.id:
                continue
            if fresh or other not in self.followers:
                self.followers[other] = Follower(now if other in said.isr else LONG_AGO, now)
            elif other in said.isr:
                self.followers[other].caught_up_at = now
        for other in [one for one in self.followers if one not in said.replicas]:
            del self.followers[other]
        self.moved() if self.move_hw() else self.wake_fetches()

    def follow(self, said: LeaderAndIsr) -> bool:
        """Become follower; False if nothing is to be done because the leader is the same (to 0.10)."""
        same = not self.leads and self.leader == said.leader
        led = self.leads
        self._hear(said)
        self.leads = False
        self.followers = {}
        if led:
            if self.rules.wakes_on_leader_change:
                wake(self.produces)
            if self.rules.polls_wake_on_leader_change:
                wake(self.fetches)
            wake(self.follower_fetches)
        return not (same and self.rules.ignores_same_leader)

    def _hear(self, said: LeaderAndIsr) -> None:
        self.leader = said.leader
        self.epoch = said.epoch
        self.isr = said.isr
        self.version = said.version
        self.assigned = said.replicas
        self._pending_isr = None

    def deleted(self) -> None:
        """The replica is gone from this broker."""
        self.leads = False
        self.broker.replicas.pop(self.tp, None)
        if self.rules.wakes_on_deletion:
            wake(self.produces)
        if self.rules.polls_wake_on_leader_change:
            wake(self.fetches)
        wake(self.follower_fetches)

    # ---- appending ---------------------------------------------------------------------------------------------------

    def append(self, data: bytes, acks: int, version: int, *, of_client: bool = True) -> Appended:
        """Append a set as leader.  Raises Refused; nothing is stored then (1.1, rows 8 to 14)."""
        if acks == -1 and len(self.isr) < self.min_isr:
            raise Refused(NOT_ENOUGH)
        log, broker = self.log, self.broker
        now_ms = broker.cluster.now_ms()
        try:
            made = formats.admitted(data, self.rules, log.config.limits, version, log.end, self.epoch, now_ms)
        except formats.NothingInside:
            return Appended(log.end, log.end, -1)
        if not made:
            return Appended(-1, 0, -1)
        first = made[0]
        if first.pid >= 0 and not of_client:
            log.producers.check_epoch(first)
        elif first.pid >= 0:
            known = log.producers.duplicate(first)
            if known is not None:
                return Appended(known.base, known.last + 1, known.timestamp)
            log.producers.check(first)
        return self._append(made, now_ms)

    def append_marker(self, pid: int, pepoch: int, coordinator_epoch: int, commit: bool) -> Appended:
        """Append the end of a transaction as leader.  Raises Refused."""
        log, now_ms = self.log, self.broker.cluster.now_ms()
        log.producers.check_marker(pid, pepoch, coordinator_epoch)
        return self._append(
            [formats.marker(log.end, self.epoch, pid, pepoch, coordinator_epoch, commit, now_ms)], now_ms
        )

    def _append(self, made: list[Entry], now_ms: int) -> Appended:
        log = self.log
        base = log.end
        log.append(made, now_ms)
        cluster = self.broker.cluster
        if cluster.on_append:
            for told in cluster.on_append:
                told(self, made)
        if self.follower_fetches:
            wake(self.follower_fetches)
        self.move_hw()
        self.broker.after(0.0, self.moved)  # requests that wait are completed behind the append
        return Appended(base, made[-1].last + 1, now_ms if log.config.append_time else -1)

    # ---- high watermark ----------------------------------------------------------------------------------------------

    def move_hw(self) -> bool:
        """Raise the high watermark as far as the in-sync replicas are (PA.maybeIncrementLeaderHW)."""
        log, rules, isr = self.log, self.rules, self.isr
        if rules.hw_needs_min_isr and len(isr) < self.min_isr:
            return False
        low = log.end
        if self.followers:
            pending = self._pending_isr
            since = LONG_AGO / 2
            if rules.hw_waits_for_caught_up:
                since = self.broker.cluster.timeline.now - self.broker.settings.lag_time_s
            for other, follower in self.followers.items():
                if follower.end < low and (
                    other in isr
                    or (pending is not None and other in pending)
                    or (rules.hw_waits_for_caught_up and follower.caught_up_at >= since and self._may_count(other))
                ):
                    low = follower.end
        if low <= log.hw:
            return False
        before, log.hw = log.hw, low
        for told in self.broker.cluster.on_visible:
            told(self, before, low)
        return True

    def _may_count(self, other: int) -> bool:
        """Whether a replica that is not in sync holds the high watermark back: from 3.6 on only a live one."""
        return not self.rules.hw_waits_for_live or other in self.broker.cache.brokers

    def moved(self) -> None:
        """The high watermark or the end may have moved: whoever waits looks again."""
        if self.produces:
            wake(self.produces)
        if self.fetches:
            wake(self.fetches)

    def wake_fetches(self) -> None:
        if self.fetches and self.rules.polls_wake_on_leader_change:
            wake(self.fetches)

    # ---- in-sync replicas --------------------------------------------------------------------------------------------

    def heard(self, other: int, offset: int) -> None:
        """A follower has fetched at this offset: it has all below it (RM.updateFollowerLogReadResults)."""
        follower = self.followers.get(other)
        if follower is None:
            return
        now, log = self.broker.cluster.timeline.now, self.log
        if offset >= log.end:
            follower.caught_up_at = now
        elif follower.leader_end >= 0 and offset >= follower.leader_end:
            follower.caught_up_at = max(follower.caught_up_at, follower.leader_end_at)
        follower.leader_end, follower.leader_end_at = log.end, now
        follower.heard_at = now
        advanced = offset != follower.end
        follower.end = offset
        least = max(log.hw, self.epoch_start) if self.rules.joins_at_epoch_start else log.hw
        if other not in self.isr and offset >= least:
            self._alter((*self.isr, other))
        if advanced and self.move_hw():
            self.moved()
        elif advanced and self.produces:
            wake(self.produces)

    def shrink(self) -> None:
        """Take followers that lag out of the in-sync replicas (PA.maybeShrinkIsr)."""
        if len(self.isr) < 2:
            return
        out = [other for other, one in self.followers.items() if other in self.isr and self._lags(one)]
        if out:
            self._alter(tuple(other for other in self.isr if other not in out))

    def _lags(self, follower: Follower) -> bool:
        broker, rules = self.broker, self.rules
        now, lag_s = broker.cluster.timeline.now, broker.settings.lag_time_s
        if rules.lags_by_fetch:
            behind = self.log.end - follower.end
            return now - follower.heard_at > lag_s or (follower.end >= 0 and behind > broker.settings.lag_max_messages)
        if rules.equal_end_is_in_sync and follower.end == self.log.end:
            return False
        return now - follower.caught_up_at > lag_s

    def _alter(self, isr: tuple[int, ...]) -> None:
        """Ask for other in-sync replicas; a leader that is refused keeps its old ones and goes on (2.2)."""
        controller = self.broker.cluster.controller
        if not self.rules.controller_alters_isr:
            version = controller.write_isr(self.broker, self.tp, self.epoch, self.version, isr)
            if version is not None:
                self._altered(isr, version)
        elif self._pending_isr is None:
            self._pending_isr = isr
            controller.alter_isr(self.broker, self.tp, self.epoch, self.version, isr, self._answered)

    def _answered(self, epoch: int, isr: tuple[int, ...], version: int | None) -> None:
        if epoch == self.epoch and self._pending_isr == isr:
            self._pending_isr = None
            if version is not None:
                self._altered(isr, version)

    def _altered(self, isr: tuple[int, ...], version: int) -> None:
        self.isr, self.version = isr, version
        if self.rules.hw_moves_with_altered_isr:
            self.move_hw()
        self.moved()  # a smaller one can also mean 20

    def enough(self, required: int, acks: int) -> int | None:
        """The code that an acks -1 request gets for this partition; None: wait (PA.checkEnoughReplicasReachOffset)."""
        if acks > 1:  # 0.8
            have = 1 + sum(1 for other, one in self.followers.items() if other in self.isr and one.end >= required)
            return 0 if have >= acks else None
        if self.log.hw < required:
            return None
        pending = self._pending_isr
        number = len(self.isr) if pending is None else len(set(self.isr) | set(pending))
        return 0 if number >= self.min_isr else 20


def wake(waiting: dict[Waiter, None]) -> None:
    for one in list(waiting):
        one.look()
