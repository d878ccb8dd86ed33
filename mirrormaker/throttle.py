"""Throttle of a flow: how much may come in per second, for a topic or the whole flow.

A set may put a budget into debt: then its partitions are not fetched until the debt is paid.  Sets that are fetched
already continue, so that no byte is transferred twice.  Afterwards a few partitions at a time may be fetched again, the
longest waiting ones first, each for a part of a second's rate.  Partitions of other topics, and those that an operator
paused, are not affected.

    Budget         tokens of one limit, with debt       pure
    FlowThrottle   the budgets of a flow                passes fetch limits to `apply`, at each tick and at each debt
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kafkawire.model import MessageSet, TopicPartition
from mirrormaker.intake import bytes_in, messages_in

TICK_S = 0.05
SLICE_S = 0.25  # seconds of the rate: fetch size for the partitions that are open at once
BURST_S = 1.0  # seconds of the rate that may be saved up while nothing comes
MIN_FETCH_BYTES = 65536
SHOWN_S = 3.0  # how long after its last debt a partition is shown as throttled


class Budget:
    """Budget of bytes or messages; it grows by per_s and begins empty."""

    __slots__ = ("_at", "_tokens", "debt_at", "per_s")

    def __init__(self, per_s: float, at: float) -> None:
        self.per_s = per_s
        self.debt_at = float("-inf")  # when it was last in debt
        self._tokens = 0.0
        self._at = at

    def spend(self, count: int, at: float) -> None:
        self._earn(at)
        self._tokens -= count

    def in_debt(self, at: float) -> bool:
        self._earn(at)
        if self._tokens < 0:
            self.debt_at = at
        return self._tokens < 0

    def _earn(self, at: float) -> None:
        self._tokens = min(self.per_s * BURST_S, self._tokens + (at - self._at) * self.per_s)
        self._at = at


class _Limit:
    """One limit: its budgets, and which of its partitions may be fetched."""

    def __init__(self, bytes_per_s: float | None, messages_per_s: float | None, at: float) -> None:
        self.bytes = Budget(bytes_per_s, at) if bytes_per_s is not None else None
        self.messages = Budget(messages_per_s, at) if messages_per_s is not None else None
        self.rates = (bytes_per_s, messages_per_s)
        self.open: set[TopicPartition] = set()
        self._turns: dict[TopicPartition, None] = {}  # longest waiting first
        self._message_bytes = 0.0  # average of the last sets

    def spend(self, nbytes: int, messages: int, at: float) -> None:
        if messages:
            size = nbytes / messages
            self._message_bytes += (size - self._message_bytes) * (0.1 if self._message_bytes else 1.0)
        if self.bytes is not None:
            self.bytes.spend(nbytes, at)
        if self.messages is not None:
            self.messages.spend(messages, at)

    def in_debt(self, at: float) -> bool:
        debts = [budget.in_debt(at) for budget in (self.bytes, self.messages) if budget is not None]
        return any(debts)  # a list, because each call records the time

    @property
    def debt_at(self) -> float:
        return max(budget.debt_at for budget in (self.bytes, self.messages) if budget is not None)

    def fetch_bytes(self) -> int:
        """Return how many bytes to fetch from one partition at a time."""
        return max(MIN_FETCH_BYTES, int(SLICE_S * self._bytes_per_s()))

    def _bytes_per_s(self) -> float:
        rates = [self.bytes.per_s] if self.bytes is not None else []
        if self.messages is not None:
            rates.append(self.messages.per_s * (self._message_bytes or 1000.0))
        return min(rates)

    def turn(self, partitions: Collection[TopicPartition], at: float) -> None:
        """Close all partitions during a debt; otherwise open the next few."""
        if self.in_debt(at):
            self.open.clear()
            return
        here = set(partitions)
        self._turns = {tp: None for tp in self._turns if tp in here} | {
            tp: None for tp in partitions if tp not in self._turns
        }
        self.open &= here
        count = max(1, int(SLICE_S * self._bytes_per_s() / self.fetch_bytes()))
        for tp in [tp for tp in self._turns if tp not in self.open][:count]:
            self.open.add(tp)
            self._turns[tp] = self._turns.pop(tp)  # move it to the end


class FlowThrottle:
    """Limits of one flow, by topic ("": the whole flow).

    apply(limits) makes the consumer limit the bytes of each fetch of these partitions (0: fetch nothing for now), and
    fetch all others without limits.
    """

    def __init__(self, apply: Callable[[Mapping[TopicPartition, int]], object]) -> None:
        self._apply = apply
        self._limits: dict[str, _Limit] = {}
        self._applied: dict[TopicPartition, int] = {}
        self._owned: dict[TopicPartition, None] = {}

    def keep(self, rates: Mapping[str, tuple[float | None, float | None]], at: float) -> None:
        """Replace the limits: bytes and messages per second, by topic.  A limit that stays keeps its debt."""
        before, self._limits = self._limits, {}
        for topic, (bytes_per_s, messages_per_s) in rates.items():
            known = before.get(topic)
            same = known is not None and known.rates == (bytes_per_s, messages_per_s)
            self._limits[topic] = known if known is not None and same else _Limit(bytes_per_s, messages_per_s, at)
        self._renew()

    def __bool__(self) -> bool:
        return bool(self._limits or self._applied)

    def own(self, owned: Collection[TopicPartition]) -> None:
        """Set the partitions that the flow owns now."""
        self._owned = dict.fromkeys(owned)

    def count(self, fetched: MessageSet, at: float) -> None:
        """Count a set that came in."""
        if not self._limits:
            return
        self._owned.setdefault(fetched.tp)
        for limit in self._of(fetched.topic):
            limit.spend(bytes_in(fetched), messages_in(fetched), at)
            if limit.open and limit.in_debt(at):
                limit.open.clear()
                self._renew()

    def tick(self, at: float) -> None:
        """Adjust the fetch limits; called every TICK_S while there is a limit."""
        for topic, limit in self._limits.items():
            limit.turn([tp for tp in self._owned if topic in ("", tp.topic)], at)
        self._renew()

    def limiting(self, topic: str, at: float) -> str | None:
        """Return which limit throttles a topic at present: the topic or "", or None."""
        for key in (topic, ""):
            if key in self._limits and at - self._limits[key].debt_at < SHOWN_S:
                return key
        return None

    def _of(self, topic: str) -> list[_Limit]:
        return [self._limits[key] for key in (topic, "") if key in self._limits]

    def _renew(self) -> None:
        limits: dict[TopicPartition, int] = {}
        if self._limits:
            for tp in self._owned:
                of = self._of(tp.topic)
                if of:
                    limits[tp] = min(each.fetch_bytes() for each in of) if all(tp in each.open for each in of) else 0
        if limits != self._applied:
            self._applied = limits
            self._apply(limits)
