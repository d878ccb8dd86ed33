"""Followers copy their leaders' logs: one fetcher for each leader's broker, one request in progress (RFT, AFT).

A fetch waits up to replica.fetch.wait.max.ms at the leader, so a follower learns of a new high watermark with its next
answer.  A fetch at offset x says "I have all below x": what it brings counts with the next one (2.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.brokers.entries import Entry
from tests.simulation.brokers.replica import Replica, Tp, wake

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.brokers.broker import SimBroker

OUT_OF_RANGE, UNKNOWN, NOT_LEADER, FENCED_EPOCH, UNKNOWN_EPOCH = 1, 3, 6, 74, 75
BACKOFF_S = 1.0  # replica.fetch.backoff.ms
SOCKET_TIMEOUT_S = 30.0  # replica.socket.timeout.ms


class Asked(NamedTuple):
    """One partition of a follower's fetch.  cut: the epoch whose end it asks for; None: it fetches."""

    tp: Tp
    epoch: int
    offset: int
    cut: int | None


class Told(NamedTuple):
    """The leader's answer for one partition.  start and end: of its log; cut: the end of the epoch."""

    asked: Asked
    code: int
    hw: int
    start: int
    end: int
    entries: list[Entry]
    cut: tuple[int, int] | None


class Fetcher:
    """Copies partitions from one leader's broker to one follower's."""

    __slots__ = ("_again", "_life", "_number", "_outstanding", "broker", "leader", "partitions")

    def __init__(self, broker: SimBroker, leader: int) -> None:
        self.broker = broker
        self.leader = leader
        self._life = broker.life
        self.partitions: dict[Tp, tuple[int | None, float]] = {}  # epoch to cut by, not before
        self._number = 0
        self._outstanding = 0  # number of the request in progress
        self._again = False

    def add(self, tp: Tp, cut: int | None) -> None:
        self.partitions[tp] = (cut, 0.0)
        if not self._outstanding and not self._again:
            self._later(0.0)

    def _later(self, seconds: float) -> None:
        if not self._again:
            self._again = True
            self.broker.after(seconds, self._send)

    def _send(self) -> None:
        self._again = False
        if self._outstanding or not self.partitions:
            return
        broker, now = self.broker, self.broker.cluster.timeline.now
        if broker.fetches_held:
            self._later(0.05)
            return
        rows, soonest = [], None
        for tp, (cut, not_before) in self.partitions.items():
            if not_before > now:
                soonest = not_before if soonest is None else min(soonest, not_before)
                continue
            replica = broker.replicas[tp]
            rows.append(Asked(tp, replica.epoch, replica.log.end, cut))
        if not rows:
            self._later((soonest or now) - now)
            return
        self._number += 1
        number = self._outstanding = self._number
        broker.cluster.between(
            broker, self.leader, lambda leader: serve(leader, broker.id, rows, answer), self._refused, number
        )

        def answer(told: list[Told]) -> None:
            broker.cluster.between(
                broker.cluster.brokers[self.leader], broker.id, lambda _: self._answered(number, told)
            )

        broker.after(SOCKET_TIMEOUT_S, self._timed_out, number)

    def _refused(self, number: int) -> None:
        if number == self._outstanding:
            self._outstanding = 0
            self._later(BACKOFF_S)

    _timed_out = _refused

    def hung_up(self) -> None:
        if self._outstanding:
            self._refused(self._outstanding)

    def _answered(self, number: int, told: list[Told]) -> None:
        if number != self._outstanding or self.broker.life != self._life:
            return
        self._outstanding = 0
        for one in told:
            tp = one.asked.tp
            replica = self.broker.replicas.get(tp)
            if tp in self.partitions and replica is not None and replica.epoch == one.asked.epoch:
                self._take(replica, one)
        if self.broker.life == self._life:  # it may have halted
            self._send()

    def _take(self, replica: Replica, told: Told) -> None:
        """Carry out the leader's answer for one partition (RFT.processPartitionData)."""
        broker, log, rules = self.broker, replica.log, replica.rules
        now = broker.cluster.timeline.now
        if told.code == OUT_OF_RANGE:
            self._out_of_range(replica, told)
            return
        if told.code:
            wait_s = 0.02 if rules.v08 else BACKOFF_S
            self.partitions[replica.tp] = (self.partitions[replica.tp][0], now + wait_s)
            return
        if told.cut is not None:
            self._cut(replica, told)
            return
        if told.asked.offset != log.end or told.asked.cut != self.partitions[replica.tp][0]:
            return  # it was cut meanwhile
        if told.entries:
            log.append(told.entries, broker.cluster.now_ms())
        log.hw = min(log.end, told.hw)  # also downwards
        if rules.has_log_start and told.start > log.start:
            log.start_at(min(told.start, log.end))
        if replica.fetches:  # a follower answers Fetch v11, too
            wake(replica.fetches)

    def _cut(self, replica: Replica, told: Told) -> None:
        """Cut the log to where it parts from the leader's (2.4; AFT.getOffsetTruncationState)."""
        log, rules = replica.log, replica.rules
        assert told.cut is not None
        epoch, end = told.cut
        if end < 0:
            log.truncate(log.hw)
        elif not rules.epoch_answers_name_epoch or epoch < 0:
            log.truncate(min(end, log.end))
        else:
            own_epoch, own_end = log.end_of_epoch(epoch, named=True)
            if own_end < 0:
                log.truncate(min(end, log.end))
            elif own_epoch != epoch:
                log.truncate(min(own_end, end))
                self.partitions[replica.tp] = (own_epoch, 0.0)
                return
            else:
                log.truncate(min(own_end, end, log.end))
        self.partitions[replica.tp] = (None, 0.0)

    def _out_of_range(self, replica: Replica, told: Told) -> None:
        """The leader's log does not hold the follower's end (2.4; RFT.handleOffsetOutOfRange)."""
        log, rules, broker = replica.log, replica.rules, self.broker
        if told.end < log.end:
            if rules.halts_on_shorter_leader and not log.config.unclean:
                broker.cluster.halted(
                    broker, f"{replica.tp}: the leader ends at {told.end}, this follower at {log.end}"
                )
                return
            log.truncate(told.end)
        elif rules.restarts_on_longer_leader or told.start > log.end:
            log.restart_at(told.start, broker.cluster.now_ms())


class _Parked:
    """A follower's fetch that waits for the leader's end to move."""

    __slots__ = ("_answer", "_done", "_follower", "_leader", "_rows")

    def __init__(
        self, leader: SimBroker, follower: int, rows: list[Asked], answer: Callable[[list[Told]], None]
    ) -> None:
        self._leader = leader
        self._follower = follower
        self._rows = rows
        self._answer = answer
        self._done = False
        for row in rows:
            leader.replicas[row.tp].follower_fetches[self] = None
        leader.after(leader.settings.fetch_wait_s, self.look)

    def look(self) -> None:
        if self._done:
            return
        self._done = True
        for row in self._rows:
            replica = self._leader.replicas.get(row.tp)
            if replica is not None:
                replica.follower_fetches.pop(self, None)
        told, _ = _read(self._leader, self._follower, self._rows, counts=False)
        self._answer(told)


def serve(leader: SimBroker, follower: int, rows: list[Asked], answer: Callable[[list[Told]], None]) -> None:
    """Answer a follower's fetch, at once or when there is something new."""
    told, at_once = _read(leader, follower, rows, counts=True)
    if at_once:
        answer(told)
    else:
        _Parked(leader, follower, rows, answer)


def _read(leader: SimBroker, follower: int, rows: list[Asked], counts: bool) -> tuple[list[Told], bool]:
    """The answer, and whether it is given at once; counts: the follower's offsets are recorded."""
    told, at_once, heard = [], False, []
    for asked in rows:
        replica = leader.replicas.get(asked.tp)
        code = UNKNOWN if replica is None else 0 if replica.leads else NOT_LEADER
        if replica is not None and not code and replica.rules.epochs_are_checked and asked.epoch != replica.epoch:
            code = FENCED_EPOCH if asked.epoch < replica.epoch else UNKNOWN_EPOCH
        if replica is None or code:
            told.append(Told(asked, code, -1, -1, -1, [], None))
            at_once = True
            continue
        log = replica.log
        if asked.cut is not None:
            end = log.end_of_epoch(asked.cut, replica.rules.epoch_answers_name_epoch)
            told.append(Told(asked, 0, log.hw, log.start, log.end, [], end))
            at_once = True
            continue
        if not log.start <= asked.offset <= log.end:
            told.append(Told(asked, OUT_OF_RANGE, -1, log.start, log.end, [], None))
            at_once = True
            continue
        found: list[Entry] = []
        if asked.offset < log.end:
            room = leader.settings.replica_fetch_bytes
            for entry in log.between(asked.offset, log.end):
                if room < len(entry.data) and (found or not replica.rules.replicates_larger):
                    break
                room -= len(entry.data)
                found.append(entry)
            at_once = at_once or bool(found)
        heard.append((replica, asked.offset))
        told.append(Told(asked, 0, log.hw, log.start, log.end, found, None))
    if counts:
        for replica, offset in heard:
            replica.heard(follower, offset)
    return [one._replace(hw=leader.replicas[one.asked.tp].log.hw) if not one.code else one for one in told], at_once
