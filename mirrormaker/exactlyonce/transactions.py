"""Exactly-once delivery (delivery.guarantee) of one source: the transactions of all its partitions, as a flow sees
them.

Each source partition has a transactional id, instead of one for the mirror: the source's group assigns partitions to
processes one by one, and the new owner must fence the previous one without harm to partitions that did not move.  An id
per process would need the group's generation in each commit (KIP-447) to fence a process that wrongly believes that it
owns a partition; a ZooKeeper group has no generation, and its coordinator would not be the target's.

The cost: each partition with something to copy has its own transaction, five small requests every
transaction.interval.ms.  Connections for these are shared; each partition has its own connection for messages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

from groundwork.tasks import TaskGroup
from kafkawire.model import MessageSet, Part, Ticket, TopicPartition
from mirrormaker.exactlyonce.partition import Names, PartitionTransactions, PassOn, Period, Transacting
from mirrormaker.exactlyonce.position import former_name_of, is_shared, name_of
from mirrormaker.exactlyonce.requirements import require_transactions
from mirrormaker.exactlyonce.steps import Step
from mirrormaker.flow import Delivery, Forward, Tickets
from mirrormaker.options import MirrorOptions, SourceOptions
from mirrormaker.routes import TopicRoute
from mirrormaker.source import Share, Source
from mirrormaker.target import Target
from producer.coordinators import OFFSETS_0, Coordinators
from producer.steps import Step as RouteStep


class ExactlyOnce:
    """Exactly-once copies into one target, from all its sources."""

    def __init__(
        self, target: Target, mirror: MirrorOptions, tasks: TaskGroup, sources: Sequence[SourceOptions]
    ) -> None:
        self._target = target
        self._mirror = mirror
        self._tasks = tasks
        self._prefixes = {each.name: mirror.transactional_id_prefix or each.group_id for each in sources}
        self._coordinators: Coordinators | None = None

    def check(self) -> None:
        """Raise NoTransactions if the target, once its brokers were asked, does not support transactions."""
        require_transactions(self._target.dialect)

    def delivery(self, source: Source, plain: Delivery) -> Delivery:
        """Return the delivery of a source with transactions added."""
        if self._coordinators is None:
            self._coordinators = self._target.coordinators()
        made = SourceTransactions(
            source.name,
            prefix=self._prefixes[source.name],
            others=[(prefix, name) for name, prefix in self._prefixes.items() if name != source.name],
            target=self._target,
            mirror=self._mirror,
            queued_max_bytes=source.options.queued_max_bytes,
            coordinators=self._coordinators,
            inner=plain.tickets,
            unpark=source.unpark,
            seek=source.seek,
            tasks=self._tasks,
        )
        self._target.transactions[source.name] = made
        return replace(plain, tickets=made, admit=made.admit, waiting=made.waiting, pending=made.pending)


class SourceTransactions:
    """Gate and tickets of one source's flow (mirrormaker.flow.Delivery).

    others: prefix and source of each other source.  inner: tickets without transactions.  unpark(tp): fetches a parked
    partition again; False if it cannot yet.  seek(tp, offset): resumes reading there.
    """

    def __init__(
        self,
        source: str,
        *,
        prefix: str,
        others: Collection[tuple[str, str]],
        target: Target,
        mirror: MirrorOptions,
        queued_max_bytes: int,
        coordinators: Coordinators,
        inner: Tickets,
        unpark: Callable[[TopicPartition], bool],
        seek: Callable[[TopicPartition, int], object],
        tasks: TaskGroup,
    ) -> None:
        self.waiting: dict[str, str] = {}
        self._source = source
        self._prefix = prefix
        self._others = others
        self._target = target
        self._mirror = mirror
        self._queued_max_bytes = queued_max_bytes
        self._coordinators = coordinators
        self._inner = inner
        self._unpark = unpark
        self._seek = seek
        self._tasks = tasks
        self._partitions: dict[TopicPartition, PartitionTransactions] = {}
        self._routes: dict[TopicPartition, TopicRoute] = {}  # route of the last set of each partition

    # ---- the flow's side ---------------------------------------------------------------------------------------------

    def admit(self, fetched: MessageSet, share: Share, topic: TopicRoute, forward: Forward) -> None:
        """Let a set continue, now or once the target's position is known."""
        current = self._partitions.get(fetched.tp)
        if current is None or current.period.key is not share.period:
            current = self._begin(fetched, share, topic, forward)
        elif self._routes[fetched.tp] is not topic:  # a reload, or the target topic was created again
            current.reroute(*_positions_at(topic), _pass_on(topic, forward))
        self._routes[fetched.tp] = topic
        current.admit(fetched, share)

    def of_set(
        self, fetched: MessageSet, share: Share, topic: TopicRoute
    ) -> Callable[[RouteStep], Sequence[tuple[Part, Ticket]]]:
        current = self._partitions[fetched.tp]  # admit has seen the partition before any of its steps
        return partial(self._of_step, current, self._inner.of_set(fetched, share, topic))

    @staticmethod
    def _of_step(
        current: PartitionTransactions,
        tickets: Callable[[RouteStep], Sequence[tuple[Part, Ticket]]],
        step: RouteStep,
    ) -> Sequence[tuple[Part, Ticket]]:
        """Put the parts into a transaction; the flow has nothing left to send."""
        current.enqueue(Step(step.resume_at, tickets(step)))
        return ()

    def _begin(self, fetched: MessageSet, share: Share, topic: TopicRoute, forward: Forward) -> PartitionTransactions:
        tp = fetched.tp
        before = self._partitions.get(tp)
        if before is not None:
            before.stop()
        at, beside = _positions_at(topic)
        period = Period(
            source=tp,
            key=share.period,
            owned=share.holding(),
            ended=share.ended,
            topic=share.topic,
            reset=share.reset,
            at=at,
            beside=beside,
            pass_on=_pass_on(topic, forward),
        )
        made = PartitionTransactions(
            period,
            source=self._source,
            names=self._names(tp),
            how=Transacting(
                interval_s=self._mirror.transaction_interval_ms / 1000,
                timeout_ms=self._mirror.transaction_timeout_ms,
                max_bytes=self._max_bytes,
                coordinators=self._coordinators,
                sender=self._target.transactional_sender,
                retire=self._retire,
            ),
            waiting=self.waiting,
            unpark=self._unpark,
            seek=self._seek,
            tasks=self._tasks,
            followed=None if before is None else before.followed,
        )
        self._partitions[tp] = made
        self._tasks.spawn(f"transactions-{self._source}-{tp}", made.run)
        return made

    def _names(self, tp: TopicPartition) -> Names:
        name, former = name_of(self._prefix, self._source, tp), former_name_of(self._prefix, self._source, tp)
        return Names(name) if name == former else Names(name, former, is_shared(former, self._others))

    def _max_bytes(self) -> int:
        """Return the size limit of one transaction in bytes; all open ones together stay below the budget for fetched
        bytes."""
        live = sum(1 for each in self._partitions.values() if not each.over)
        return self._queued_max_bytes // 2 // max(1, live)

    def _retire(self, transactions: PartitionTransactions) -> None:
        """End an ownership period: sets that still arrive for it are refused until the next one begins."""
        self._target.retire(transactions.sender)

    # ---- the mirror's side -------------------------------------------------------------------------------------------

    def fence(self) -> None:
        """Fence all partitions, because the source's lease is over."""
        for each in self._all():
            each.fence()

    def flush(self) -> None:
        """Commit what was sent so far, because the mirror stops."""
        for each in self._all():
            each.flush()

    def pending(self, topic: str) -> bool:
        """True if something sent to a target topic is not committed yet."""
        return any(each.pending(topic) for each in self._all())

    def _all(self) -> Iterator[PartitionTransactions]:
        return iter(list(self._partitions.values()))


def _positions_at(topic: TopicRoute) -> tuple[TopicPartition, TopicPartition]:
    """Return the target partition for which the positions of a topic's source partitions are committed, and one for
    which none is committed."""
    first, *others = (TopicPartition(topic.target, partition) for partition in topic.partitions)
    return first, others[0] if others else OFFSETS_0


def _pass_on(topic: TopicRoute, forward: Forward) -> PassOn:
    """Return a function that forwards whole sets: the target has nothing of them, so no message is skipped."""
    return lambda fetched, share: forward(topic, fetched, share, 0)
