"""From the streams of a source to the sender of the target: what a set becomes, and whom its tickets belong to.

    carry       one greenlet a stream: sets in, steps out
    Forwarder   one a source: which route each topic takes, and a waiting room for topics whose target is not ready yet,
                so that a topic which has to be created does not hold up its neighbours

What cannot be delivered fails its ticket with the reason, which parks its partition; the neighbours flow on.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from groundwork.crew import Crew, sleep
from kafkawire.compression import CODECS
from kafkawire.dialects import Dialect
from kafkawire.errors import LocalError, RemoteError
from kafkawire.model import Message, MessageSet, Part, PartitionId, Ticket, TopicPartition
from mirrormaker.handler import Handler, Sent, handled
from mirrormaker.offsetmap.keeping import Keeper
from mirrormaker.offsetmap.recording import Following
from mirrormaker.offsetmap.resuming import Resumer, ResumeRefused, but_the_first, counted
from mirrormaker.placing import Numbering, by_source
from mirrormaker.routes import (
    Choice,
    HandlerFailed,
    Output,
    Pair,
    RouteFacts,
    Step,
    choose,
    pass_through,
    reencode,
)
from mirrormaker.targets import OUT_OF_REACH, SourceTopic, TopicMissing
from mirrormaker.towards import Topics
from producer.partitioners import byte_array_partitioner
from zkconsumer.errors import Closed

log = logging.getLogger(__name__)

NOT_NUMBERED = Numbering()
RETRY_MIN_S, RETRY_MAX_S = 0.5, 10.0  # between looks at a target topic that is not ready


class Share(Protocol):
    """The consumer's side of a set: who owns its partition, and what is done of it."""

    def ticket(self, resume_at: int, parts: int = 1) -> Ticket: ...
    @property
    def stint(self) -> object: ...
    def holds(self) -> bool: ...


class Sends(Protocol):
    def submit(self, part: Part, ticket: Ticket) -> None: ...


class NoSuchPartition(LocalError):
    """partitioning is identity and the target topic has no partition of that number."""


def carry(sets: Iterable[tuple[MessageSet, Share]], take: Callable[[MessageSet, Share], None]) -> None:
    """All sets of a stream, in order.  Ends when the stream does."""
    for fetched, share in sets:
        take(fetched, share)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the forwarders of all sources share."""

    dialect: Dialect  # the target's
    message_max_bytes: int
    partitioning: str = "auto"
    codec: str = ""  # asked for at the target; "": as the source has it
    compressed_topics: tuple[str, ...] = ()  # that the codec is for; none: all
    handler: Handler | None = None
    handler_name: str = ""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic whose target is ready."""

    choice: Choice
    targets: Sequence[PartitionId]  # of the target, in order
    source: SourceTopic
    codec: int | None = None  # None: as the source has it


class Forwarder:
    """Takes fetched sets of one source and submits their parts.

    speaks: the source's dialect; None: the target's.  numbering: of its partitions, where they have no numbers.
    waiting: topics that are not ready, with the sentence that says why.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        targets: Topics,
        source_topic: Callable[[str], SourceTopic],
        sender: Sends,
        crew: Crew,
        speaks: Dialect | None = None,
        numbering: Numbering = NOT_NUMBERED,
    ) -> None:
        self.name = name
        self.waiting: dict[str, str] = {}
        self.topics: dict[str, Topic] = {}
        self.keeper: Keeper | None = None  # of the offset map, where one is kept
        self.resumer: Resumer | None = None  # resume: target-end; needs a keeper
        self.dropped = 0  # messages a handler gave nothing back for
        self._settings = settings
        self._targets = targets
        self._source_topic = source_topic
        self._sender = sender
        self._crew = crew
        self._speaks = speaks or settings.dialect
        self._numbering = numbering
        self._held: dict[str, deque[tuple[MessageSet, Share]]] = {}
        self._others: dict[str, Topic] = {}  # topics a handler sends to
        self._ended_at: dict[TopicPartition, int] = {}  # where the last set of a partition ended: the next is aligned

    def take(self, fetched: MessageSet, share: Share) -> None:
        """Forward a set now, or once its topic is ready; sets of a partition keep their order."""
        topic = self.topics.get(fetched.topic)
        if topic is not None and self._grew(fetched, topic):
            log.info(
                "source %s: topic %s has partition %s now; looking again", self.name, fetched.topic, fetched.partition
            )
            del self.topics[fetched.topic]
            topic = None
        if topic is not None:
            self._admit(fetched, share, topic)
            return
        held = self._held.get(fetched.topic)
        if held is not None:
            held.append((fetched, share))
            return
        self._held[fetched.topic] = deque([(fetched, share)])
        self._crew.spawn(f"prepare-{self.name}-{fetched.topic}", self._prepare, fetched.topic)

    def forget(self, name: str) -> None:
        """Look again how many partitions the target has of a topic that keeps its partition numbers.

        Not where keys decide: with another count messages of a key would overtake each other.
        """
        topic = self.topics.get(name)
        if topic is not None and topic.choice.partitioning == "identity":
            del self.topics[name]

    def _grew(self, fetched: MessageSet, topic: Topic) -> bool:
        """Whether the source has more partitions than when the topic's route was chosen."""
        return isinstance(fetched.partition, int) and fetched.partition >= topic.source.partitions

    # ---- a topic's target -------------------------------------------------------------------------------------

    def _prepare(self, name: str) -> None:
        """Get a topic's target ready, however long it takes, and let go what was held back for it."""
        topic = self._until_ready(name)
        log.info("source %s: topic %s: %s", self.name, name, topic.choice)
        held = self._held[name]
        while held:
            self._admit(*held.popleft(), topic)  # may let others run, which then add to what is held
        del self._held[name]
        self.topics[name] = topic

    def _until_ready(self, name: str) -> Topic:
        pause_s = RETRY_MIN_S
        while True:
            try:
                topic = self._look(name)
            except Closed:  # we are stopping; what is told of the topic stays why it waited
                sleep(RETRY_MAX_S)
            except (TopicMissing, *OUT_OF_REACH) as exc:
                if self.waiting.get(name) != str(exc):
                    log.warning("source %s: topic %s waits: %s", self.name, name, exc)
                self.waiting[name] = str(exc)
                sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_MAX_S)
            else:
                self.waiting.pop(name, None)
                return topic

    def _look(self, name: str) -> Topic:
        source = self._source_topic(name)
        targets = self._targets.prepare(name, source)
        asked = self._settings.codec if name in (self._settings.compressed_topics or (name,)) else ""
        facts = self._facts(name, source, len(targets), self._settings.handler_name, asked)
        return Topic(choose(facts), targets, source, CODECS[asked] if asked else None)

    def _facts(self, name: str, source: SourceTopic, targets: int, handler: str = "", codec: str = "") -> RouteFacts:
        settings = self._settings
        pair = Pair(self._speaks, settings.dialect, self._numbering)
        return pair.facts(name, source.partitions, targets, settings.partitioning, handler, codec)

    # ---- a set ------------------------------------------------------------------------------------------------

    def _admit(self, fetched: MessageSet, share: Share, topic: Topic) -> None:
        """Forward a set, or, where it has to be known first what of it the target has (resume), once that is known."""
        if self.resumer is None:
            self._forward(topic, fetched, share)
            return
        try:
            if topic.choice.partitioning != "identity":
                raise ResumeRefused(
                    f"topic {fetched.topic}: resume is target-end, which needs partitions that keep their number, and "
                    f"its route is {topic.choice}; set resume: committed, or give the target as many partitions"
                )
            target = self._same_partition(fetched.topic, fetched.partition, topic)
        except LocalError as reason:
            share.ticket(fetched.resume_at).failed(reason, fetched.start)
        else:
            self.resumer.take(fetched, share, target, partial(self._forward, topic))

    def _forward(self, topic: Topic, fetched: MessageSet, share: Share, skipped: int = 0) -> None:
        """skipped: so many of its first messages are in the target."""
        at = fetched.start
        following = self._follow(fetched, share, topic)
        try:
            for step in self._steps(fetched, topic, skipped):
                self._submit(step, share, following)
                at = step.resume_at
        except (RemoteError, LocalError) as reason:
            # Nothing after it may ever count as done: the ticket that fails stands for all the rest of the set.
            share.ticket(fetched.resume_at).failed(reason, at)
        self._ended_at[fetched.tp] = fetched.resume_at

    def _follow(self, fetched: MessageSet, share: Share, topic: Topic) -> Following | None:
        if self.keeper is None:
            return None
        keeps = topic.choice.partitioning in ("identity", "source") and self._settings.handler is None
        others = () if keeps else [TopicPartition(fetched.topic, n) for n in topic.targets]
        return self.keeper.follow(fetched, share.stint, share.holds, keeps, others)

    def _submit(self, step: Step, share: Share, following: Following | None) -> None:
        if not step.parts:
            share.ticket(step.resume_at).done()
            return
        parts = step.parts
        if self.resumer is not None:  # it needs to know just where each message lies
            parts = tuple(counted(part, self._settings.dialect) for part in parts)
        ticket = share.ticket(step.resume_at, len(parts))
        tickets: Sequence[Ticket] = [ticket] * len(parts)
        if following is not None and self.keeper is not None:
            tickets = self.keeper.tickets(parts, ticket, following, step.resume_at)
        for part, each in zip(parts, tickets, strict=True):
            self._sender.submit(part, each)

    def _steps(self, fetched: MessageSet, topic: Topic, skipped: int = 0) -> Iterator[Step]:
        settings = self._settings
        if topic.choice.route == "pass-through" and not skipped:
            aligned = self._ended_at.get(fetched.tp) == fetched.start
            target = self._partition(fetched.topic, fetched.partition, None, topic)
            yield from pass_through(fetched, target, settings.dialect, settings.message_max_bytes, aligned)
            return
        outputs: Callable[[Message], Sequence[Output]] = partial(self._outputs, topic)
        if skipped:
            outputs = but_the_first(skipped, outputs)
        for step in reencode(fetched, outputs, settings.dialect, settings.message_max_bytes, topic.codec):
            yield step
            sleep(0)  # decoding is long work: heartbeats and fetches go on in between

    def _outputs(self, topic: Topic, message: Message) -> Sequence[Output]:
        handler = self._settings.handler
        if handler is None:
            tp = self._partition(message.topic, message.partition, message.key, topic)
            return (Output(tp, message.key, message.value, message.timestamp_ms),)
        source_topic = message.topic  # a handler may change the message it was given
        sent = handled(handler, message)
        if not sent:
            self.dropped += 1
        return [self._output(one, message, self._target(one.topic, source_topic, topic)) for one in sent]

    def _output(self, sent: Sent, message: Message, topic: Topic) -> Output:
        if not self._settings.dialect.has_keys and (sent.key is not None or sent.value is None):
            what = "a key" if sent.key is not None else "no value"
            raise HandlerFailed(
                f"{message.topic}/{message.partition} at {message.offset}: message.handler gave back {what}: "
                f"messages of Kafka {self._settings.dialect.release} have a value and no key"
            )
        return Output(self._partition(sent.topic, message.partition, sent.key, topic), *sent[1:])

    def _target(self, name: str, source_topic: str, topic: Topic) -> Topic:
        """The target of a message that a handler sent to another topic; prepared when it is first met."""
        if name == source_topic:
            return topic
        while name not in self._others:
            try:
                targets = self._targets.prepare(name, topic.source)
            except (TopicMissing, LocalError) as exc:
                raise HandlerFailed(f"message.handler sent a message of {source_topic} to {name}: {exc}") from exc
            except OUT_OF_REACH as exc:
                log.warning("source %s: topic %s, which message.handler sends to, waits: %s", self.name, name, exc)
                sleep(RETRY_MAX_S)
            else:
                self._others[name] = Topic(choose(self._facts(name, topic.source, len(targets))), targets, topic.source)
        return self._others[name]

    def _partition(self, name: str, partition: PartitionId, key: bytes | None, topic: Topic) -> TopicPartition:
        """Where a message of a source partition goes."""
        if topic.choice.partitioning == "identity":
            return self._same_partition(name, partition, topic)
        if topic.choice.partitioning == "source" or key is None:
            # Messages without a key keep their order: all those of a source partition go to one target partition.
            return TopicPartition(name, by_source(partition, topic.targets))
        return TopicPartition(name, topic.targets[byte_array_partitioner(key, len(topic.targets))])

    def _same_partition(self, name: str, partition: PartitionId, topic: Topic) -> TopicPartition:
        number = self._numbering.number(partition)
        if number is None:
            raise NoSuchPartition(
                f"{name}/{partition}: broker.partitions {self._numbering} gives it no number: name its broker, with as "
                "many partitions as it has, behind those that are there"
            )
        if number in topic.targets:
            return TopicPartition(name, number)
        has = f"the target topic has {len(topic.targets)} partitions"
        if self._numbering:
            raise NoSuchPartition(
                f"{name}/{partition}: broker.partitions makes it {number}, {has}: add partitions to it"
            )
        raise NoSuchPartition(
            f"{name}/{partition}: {has} and mirror.partitioning is identity: add partitions to it, or set "
            "mirror.partitioning to auto or key"
        )
