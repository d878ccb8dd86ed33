"""A transaction coordinator and a group coordinator in memory, behind the real producer.coordinators.Coordinators.

What they do is what `broker-model-coordinators.md` has of releases 0.11 to 3.6: an epoch for each transactional id; an
EndTxn that is asked again is answered alike; offsets of a transaction are pending for their producer id until its end
reaches the group, and nobody asks whether a transaction is open when they come; the end reaches the table that
OffsetFetch answers from a while later, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from groundwork.tasks import sleep
from kafkawire.dialects import dialect
from kafkawire.errors import LinkLost
from kafkawire.model import Broker, ProducerId, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol import apis
from kafkawire.protocol.request import Request
from kafkawire.protocol.stableoffsets import StableOffset, StableOffsetFetch, StableOffsets
from kafkawire.protocol.transactionrequests import Initialized
from producer.coordinators import Coordinators
from producer.transaction import AddOffsets, AddPartitions, Ask, CommitOffsets, End, Initialize, Transaction

HERE = Broker(1, "here", 9092)
NONE = StableOffset(-1, "", 0)
UNSTABLE = StableOffset(-1, "", 88)

Ended = Literal["open", "committed", "aborted"]
Rows = dict[TopicPartition, StableOffset]


@dataclass(slots=True)
class Id:
    """A transactional id.  last: how its last transaction ended; open: it has one."""

    number: int
    epoch: int = -1
    state: Ended | Literal["none"] = "none"
    added: set[TopicPartition] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Group:
    """Offsets of a group.  pending: by producer id; epochs: newest that its log has of each; ends: of transactions, in
    its log and not in the table yet."""

    committed: Rows = field(default_factory=dict)
    pending: dict[int, Rows] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    ends: list[tuple[int, bool]] = field(default_factory=list)

    def unstable(self, tp: TopicPartition) -> bool:
        return any(tp in rows for rows in self.pending.values())

    def catch_up(self) -> None:
        """All ends reach the table."""
        for number, committed in self.ends:
            rows = self.pending.pop(number, {})
            if committed:
                self.committed |= rows
        self.ends.clear()


class Server:
    """Both coordinators of a cluster.

    stable: from 2.5 on.  lag: how many reads of a group's offsets come before the ends reach the table.  lose: what the
    next question of a kind meets: it is carried out and its answer is lost ("answer"), or it does not arrive
    ("question"); a copy of it is in `late`.  ended(name, committed): called when a transaction ends.
    """

    def __init__(self, *, stable: bool = True, lag: int = 0) -> None:
        self.stable, self.lag = stable, lag
        self.ids: dict[str, Id] = {}
        self.groups: dict[str, Group] = {}
        self.lose: dict[type, list[Literal["answer", "question"]]] = {}
        self.late: list[Callable[[], object]] = []
        self.asked: list[Ask] = []

    def id(self, name: str) -> Id:
        return self.ids.setdefault(name, Id(len(self.ids) + 1))

    def group(self, name: str) -> Group:
        return self.groups.setdefault(name, Group())

    def ended(self, name: str, committed: bool) -> None: ...

    # ---- what is asked

    def ask(self, name: str, producer: ProducerId | None, ask: Ask) -> Any:
        """The reply to a question.  Raises LinkLost."""
        self.asked.append(ask)
        met = self.lose.get(type(ask), [])
        how = met.pop(0) if met else None
        if how is not None:
            self.late.append(lambda: self._answer(name, producer, ask))
        reply = None if how == "question" else self._answer(name, producer, ask)
        if how is not None:
            raise LinkLost("no answer")
        return reply

    def _answer(self, name: str, producer: ProducerId | None, ask: Ask) -> Any:
        found = self.id(name)
        if isinstance(ask, Initialize):
            if found.state == "open":
                found.epoch += 1  # the fence
                self.finish(name, False)
            found.epoch, found.state = found.epoch + 1, "none"
            return Initialized(0, ProducerId(found.number, found.epoch))
        assert producer is not None
        if isinstance(ask, CommitOffsets):
            group = self.group(ask.group)
            if producer.epoch < group.epochs.get(producer.id, 0):
                return dict.fromkeys(ask.offsets, 47)
            group.epochs[producer.id] = producer.epoch
            pending = group.pending.setdefault(producer.id, {})
            pending |= {tp: StableOffset(*row, 0) for tp, row in ask.offsets.items()}
            return dict.fromkeys(ask.offsets, 0)
        code = 0 if producer.epoch == found.epoch else 90
        if isinstance(ask, AddPartitions):
            if not code:
                found.state = "open"
                found.added |= ask.tps
            return dict.fromkeys(ask.tps, code)
        if isinstance(ask, AddOffsets):
            if not code:
                found.state = "open"
                found.groups.add(ask.group)
            return code
        assert isinstance(ask, End)
        if code or found.state == "open":
            if not code:
                self.finish(name, ask.commit)
            return code
        return 0 if found.state == ("committed" if ask.commit else "aborted") else 48

    def finish(self, name: str, committed: bool) -> None:
        """End the transaction that is open."""
        found = self.id(name)
        found.state = "committed" if committed else "aborted"
        for group in map(self.group, found.groups):
            group.epochs[found.number] = found.epoch
            group.ends.append((found.number, committed))
        found.added, found.groups = set(), set()
        self.ended(name, committed)

    # ---- offsets

    def stable_offsets(self, fetch: StableOffsetFetch) -> StableOffsets:
        group = self._read(fetch.group)
        return StableOffsets(
            0, {fetch.tp: UNSTABLE if group.unstable(fetch.tp) else group.committed.get(fetch.tp, NONE)}
        )

    def cached_offsets(self, name: str) -> dict[str, Any]:
        rows = self._read(name).committed.items()
        return {
            "error": 0,
            "topics": [
                {"topic": tp.topic, "partitions": [{"partition": tp.partition, "error": 0, **row._asdict()}]}
                for tp, row in rows
            ],
        }

    def _read(self, name: str) -> Group:
        group = self.group(name)
        if group.ends and self.lag > 0:
            self.lag -= 1
        else:
            group.catch_up()
        return group


class InMemory(Coordinators):
    """The real one, whose questions go to a Server."""

    def __init__(self, server: Server) -> None:
        super().__init__(lambda: [HERE], Links("test"), dialect("2.8" if server.stable else "1.1"))
        self.server = server

    def _coordinator(self, key: str, of_transaction: bool) -> Broker:
        return HERE

    def _request(self, transaction: Transaction, ask: Ask) -> Request[Any]:
        return (transaction.id, transaction.producer, ask)  # type: ignore[return-value]

    def _call(self, broker: Broker, request: Any, key: str) -> Any:
        sleep(0)
        if isinstance(request, tuple):
            return self.server.ask(*request)
        if isinstance(request, StableOffsetFetch):
            return self.server.stable_offsets(request)
        if request.api is apis.OFFSET_FETCH:
            return self.server.cached_offsets(key)
        return {"api_versions": [(apis.OFFSET_FETCH.key, 0, 7 if self.server.stable else 3)]}
