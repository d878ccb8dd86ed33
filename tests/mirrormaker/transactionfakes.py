"""A target that keeps transactions as Kafka does, for many transactional ids and partitions, and a flow into it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal

from groundwork.tasks import TaskGroup
from kafkawire.model import Part, ProducerId, TopicPartition
from kafkawire.protocol.stableoffsets import StableOffset
from mirrormaker.exactlyonce.transactions import SourceTransactions
from mirrormaker.flow import Delivery, Flow, ShareTickets, Tickets
from mirrormaker.selection import Selection
from producer.outcomes import Counters, OffsetListener
from producer.sequences import Sequences
from producer.transaction import Ask, End
from tests.fakes.transacting import InMemory, Server
from tests.mirrormaker.test_flow import Sends, Targets, flow_of

CONCURRENT_TRANSACTIONS = 51


@dataclass(slots=True)
class Stored:
    """An offset of a log.  source: where its message comes from; None: a marker."""

    name: str
    value: object | None
    state: Literal["open", "aborted", "committed"] = "open"


class Cluster(Server):
    """Coordinators, senders and logs of a target.  held: transactional ids whose transactions may not end yet."""

    def __init__(self) -> None:
        super().__init__()
        self.logs: dict[TopicPartition, list[Stored]] = {}
        self.held: set[str] = set()

    def visible(self, tp: TopicPartition, offset: int = 0) -> list[object]:
        """What a read_committed reader gets from an offset on."""
        rows = self.logs.get(tp, [])[offset:]
        return [row.value for row in rows if row.state == "committed" and row.value is not None]

    def ask(self, name: str, producer: ProducerId | None, ask: Ask) -> Any:
        held = isinstance(ask, End) and ask.commit and name in self.held
        return CONCURRENT_TRANSACTIONS if held else super().ask(name, producer, ask)

    def ended(self, name: str, committed: bool) -> None:
        for log in self.logs.values():
            mine = [row for row in log if row.name == name and row.state == "open"]
            for row in mine:
                row.state = "committed" if committed else "aborted"
            if mine:
                log.append(Stored(name, None, mine[0].state))

    def committed(self, group: str) -> dict[TopicPartition, StableOffset]:
        """Offsets of a group."""
        self.group(group).catch_up()
        return self.group(group).committed


class TransactionalSender:
    """Stores parts in the open transaction, once their partition was added to it."""

    def __init__(self, cluster: Cluster, name: str, sequences: Sequences) -> None:
        self._cluster, self._name, self._sequences = cluster, name, sequences
        self.counters = Counters()
        self._waiting: list[tuple[Part, Any]] = []

    def submit(self, part: Part, ticket: Any) -> None:
        self._waiting.append((part, ticket))
        self.wake()

    def wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for part, ticket in waiting:
            if part.tp not in self._cluster.id(self._name).added:
                self._waiting.append((part, ticket))
            elif ticket.may_send():
                log = self._cluster.logs.setdefault(part.tp, [])
                if isinstance(ticket, OffsetListener):
                    ticket.placed(part.count, len(log), True)
                log += [Stored(self._name, (self._name, part.resume_at)) for _ in range(part.count)]
                ticket.done()

    def drop(self, unwanted: Callable[[Part, Any], bool]) -> int:
        self._waiting = [(part, ticket) for part, ticket in self._waiting if not unwanted(part, ticket)]
        return 0

    def close_links(self) -> None: ...


def flow_into(
    cluster: Cluster,
    tasks: TaskGroup,
    topics: Targets,
    *,
    inner: Tickets | None = None,
    rename: object = None,
    seek: Callable[[TopicPartition, int], object] = lambda tp, offset: None,
    selection: Selection,
    **more: Any,
) -> tuple[Flow, SourceTransactions]:
    """A flow of source dc1 in transactions, and what carries them out."""
    target = SimpleNamespace(
        transactional_sender=lambda sequences, name: TransactionalSender(cluster, name, sequences),
        retire=lambda sender: None,
    )
    made = SourceTransactions(
        "dc1",
        prefix="mirror",
        others=(),
        target=target,  # type: ignore[arg-type]
        mirror=SimpleNamespace(transaction_interval_ms=10, transaction_timeout_ms=60000),  # type: ignore[arg-type]
        queued_max_bytes=1 << 20,
        coordinators=InMemory(cluster),
        inner=inner or ShareTickets(),
        unpark=lambda tp: True,
        seek=seek,
        tasks=tasks,
    )
    delivery = Delivery(tickets=made, admit=made.admit, waiting=made.waiting, pending=made.pending)
    return flow_of(tasks, topics, Sends(), delivery=delivery, selection=selection, **more), made
