"""The streams of one connector: made together, each with its part of the budget, and closed together."""

from __future__ import annotations

from collections.abc import Callable

from groundwork.hub import Hub
from groundwork.queues import BoundedQueue
from kafkawire.model import MessageSet, TopicPartition
from kafkawire.znodes.group import STATIC, Registration
from zkconsumer.fetching.budget import Budget, Lane
from zkconsumer.fetching.cursor import Share
from zkconsumer.listeners import ListenerFailed
from zkconsumer.options.config import ConsumerConfig
from zkconsumer.streams.messagereader import Decoder
from zkconsumer.streams.stream import Stream

Decoders = tuple[Decoder | None, Decoder | None]  # of keys, of values


class Streams:
    """A stream per topic and thread; with a filter, thread n of every topic is stream n.

    observe(message_set): each that is handed out; commit(tp, position): for at-most-once
    """

    def __init__(
        self,
        config: ConsumerConfig,
        hub: Hub,
        budget: Budget,
        registration: Registration,
        decoders: Decoders,
        observe: Callable[[MessageSet], object] | None,
        commit: Callable[[TopicPartition, int], Exception | None],
    ) -> None:
        static = registration.pattern == STATIC
        wanted = [(t if static else None, n) for t, count in registration.subscription.items() for n in range(count)]
        self._made: dict[tuple[str | None, int], tuple[Stream, Lane]] = {}
        for topic, n in wanted:
            # The budget bounds what is on the way; the queue's own limit must never make a fetcher wait.
            channel: BoundedQueue[Share] = hub.bounded_queue(budget.limit)
            stream = Stream(
                f"{topic}-{n}" if topic is not None else str(n),
                channel,
                config.consumer_timeout_ms,
                config.check_crcs,
                config.delivery,
                decoders,
                observe,
                commit,
            )
            self._made[topic, n] = (stream, budget.lane(len(wanted)))

    def of(self, topic: str | None) -> list[Stream]:
        """Those of a topic; None: those of the filter."""
        return [stream for (name, _), (stream, _) in self._made.items() if name == topic]

    def reader_of(self, tp: TopicPartition, thread: str) -> tuple[Stream, Lane]:
        """The stream that a thread id stands for, and its part of the budget."""
        n = int(thread.rpartition("-")[2])
        return self._made.get((tp.topic, n)) or self._made[None, n]

    def close(self, reason: BaseException | None) -> None:
        """Readers end, by the reason if there is one; what they had in their hands is done."""
        for stream, _ in self._made.values():
            stream.channel.close(reason)

    def give_up(self, thread_id: int) -> None:
        """This thread will not come back to its streams: what it has in its hands is not done."""
        for stream, _ in self._made.values():
            stream.give_up(thread_id)

    def raise_next(self, error: ListenerFailed) -> None:
        for stream, _ in self._made.values():
            stream.raise_next(error)
