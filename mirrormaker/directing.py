"""Where the messages of a source go: which route each topic takes, and which target partition each message.

prepared    a topic whose target is there, with its route
steps       a fetched set on its way: passed through, or decoded, given to message.handler, encoded again
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from groundwork.failures import kind_of
from groundwork.named import load_named
from groundwork.tasks import sleep
from kafkawire.compression import CODECS
from kafkawire.dialects import Dialect, dialect
from kafkawire.errors import LocalError
from kafkawire.model import Message, MessageSet, PartitionId, TopicPartition
from mirrormaker.handler import Handler, Sent, handled
from mirrormaker.offsetmap.resume import but_the_first
from mirrormaker.options import MirrorOptions, TargetOptions
from mirrormaker.partitioning import Numbering, by_source
from mirrormaker.routes import Choice, HandlerFailed, Output, Pair, RouteFacts, Step, choose, pass_through, reencode
from mirrormaker.target import Topics
from mirrormaker.topics import OUT_OF_REACH, SourceTopic, TopicMissing
from producer.conversion import transcode
from producer.partitioners import byte_array_partitioner

log = logging.getLogger(__name__)
RETRY_S = 10.0  # between looks at a topic that message.handler sends to, while the target is out of reach


class NoSuchPartition(LocalError):
    """partitioning is identity and the target topic has no partition of that number."""


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


def settings_of(target: TargetOptions, mirror: MirrorOptions) -> Settings:
    """What the options say.  Raises NotLoaded for a message.handler that is none."""
    return Settings(
        dialect(target.version),
        target.message_max_bytes,
        mirror.partitioning,
        "" if target.codec == "none" else target.codec,
        target.compressed_topics,
        load_named("message.handler", mirror.handler) if mirror.handler else None,
        mirror.handler,
    )


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic whose target is ready."""

    choice: Choice
    targets: Sequence[PartitionId]  # of the target, in order
    source: SourceTopic
    codec: int | None = None  # None: as the source has it
    places: dict[PartitionId, TopicPartition] = field(default_factory=dict)  # where all of a source partition goes


class Directing:
    """One source's.  speaks: its dialect; numbering: of its partitions, where they have no numbers.

    dropped: messages that message.handler dropped, by source topic.
    """

    def __init__(self, name: str, settings: Settings, topics: Topics, speaks: Dialect, numbering: Numbering) -> None:
        self.dropped: dict[str, int] = {}
        self._raised: set[Hashable] = set()  # kinds of exceptions whose traceback is in the log
        self._name = name
        self._settings = settings
        self._topics = topics
        self._pair = Pair(speaks, settings.dialect, numbering)
        self._numbering = numbering
        self.others: dict[str, Topic] = {}  # topics a handler sends to

    def prepared(self, name: str, source: SourceTopic) -> Topic:
        """A topic and its route.  Raises what Topics.prepare raises."""
        targets = self._topics.prepare(name, source)
        asked = self._settings.codec if name in (self._settings.compressed_topics or (name,)) else ""
        facts = self._facts(name, source, len(targets), self._settings.handler_name, asked)
        return Topic(choose(facts), targets, source, CODECS[asked] if asked else None)

    def _facts(self, name: str, source: SourceTopic, targets: int, handler: str = "", codec: str = "") -> RouteFacts:
        return self._pair.facts(name, source.partitions, targets, self._settings.partitioning, handler, codec)

    def steps(self, fetched: MessageSet, topic: Topic, aligned: bool, skipped: int = 0) -> Iterator[Step]:
        """What a set becomes, on its way to the target.

        aligned: it begins where another set of its partition ended; skipped: so many of its first messages are in the
        target.
        Raises what producer.conversion raises, NoSuchPartition and HandlerFailed, behind what precedes the message.
        """
        settings = self._settings
        if topic.choice.route == "pass-through" and not skipped:
            target = self._partition(fetched.topic, fetched.partition, None, topic)
            yield from pass_through(fetched, target, settings.dialect, settings.message_max_bytes, aligned)
            return
        if settings.handler is None and topic.choice.partitioning != "key" and not skipped:
            target = self._partition(fetched.topic, fetched.partition, None, topic)
            for step in transcode(fetched, target, settings.dialect, settings.message_max_bytes, topic.codec):
                yield step
                sleep(0)  # decoding is long work: heartbeats and fetches go on in between
            return
        outputs: Callable[[Message], Sequence[Output]] = partial(self._outputs, topic)
        if skipped:
            outputs = but_the_first(skipped, outputs)
        for step in reencode(fetched, outputs, settings.dialect, settings.message_max_bytes, topic.codec):
            yield step
            sleep(0)

    def _outputs(self, topic: Topic, message: Message) -> Sequence[Output]:
        handler = self._settings.handler
        if handler is None:
            tp = self._partition(message.topic, message.partition, message.key, topic)
            return (Output(tp, message.key, message.value, message.timestamp_ms),)
        source_topic = message.topic  # a handler may change the message it was given
        sent = self._handled(handler, message)
        if not sent:
            self._count_dropped(source_topic, message)
        return [self._output(one, message, self._target(one.topic, source_topic, topic)) for one in sent]

    def _handled(self, handler: Handler, message: Message) -> list[Sent]:
        """What the handler wants sent.  Raises HandlerFailed; the traceback of its reason is logged the first time."""
        try:
            return handled(handler, message, self._settings.handler_name)
        except HandlerFailed as failed:
            cause = failed.__cause__
            if cause is not None and kind_of(cause) not in self._raised:
                self._raised.add(kind_of(cause))
                log.error("source %s: %s", self._name, failed, exc_info=cause)
            raise

    def _count_dropped(self, topic: str, message: Message) -> None:
        if topic not in self.dropped:
            where = f"{topic}/{message.partition} at {message.offset}"
            log.info(
                "source %s: topic %s: message.handler %s dropped %s; more that it drops of this topic is only counted",
                self._name, topic, self._settings.handler_name, where,
            )  # fmt: skip
        self.dropped[topic] = self.dropped.get(topic, 0) + 1

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
        while name not in self.others:
            try:
                targets = self._topics.prepare(name, topic.source)
            except (TopicMissing, LocalError) as exc:
                raise HandlerFailed(f"message.handler sent a message of {source_topic} to {name}: {exc}") from exc
            except OUT_OF_REACH as exc:
                log.warning("source %s: topic %s, which message.handler sends to, waits: %s", self._name, name, exc)
                sleep(RETRY_S)
            else:
                self.others[name] = Topic(choose(self._facts(name, topic.source, len(targets))), targets, topic.source)
        return self.others[name]

    def _partition(self, name: str, partition: PartitionId, key: bytes | None, topic: Topic) -> TopicPartition:
        """Where a message of a source partition goes."""
        if topic.choice.partitioning == "identity":
            return self.same_partition(name, partition, topic)
        if topic.choice.partitioning == "source" or key is None:
            # Messages without a key keep their order: all those of a source partition go to one target partition.
            place = topic.places.get(partition)
            if place is None:
                place = topic.places[partition] = TopicPartition(name, by_source(partition, topic.targets))
            return place
        return TopicPartition(name, topic.targets[byte_array_partitioner(key, len(topic.targets))])

    def same_partition(self, name: str, partition: PartitionId, topic: Topic) -> TopicPartition:
        """The target partition of the number that a source partition has.  Raises NoSuchPartition."""
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
