"""Routes: how the messages of a topic travel through the mirror, and why.  Decided here and nowhere else.  Pure.

    RouteRules    what the options say about the topics of one source on their way into one target
    choose()      the Route of one topic: the sentence that `check --online` prints
    TopicRoute    the route of a topic whose target is ready: what a fetched set becomes

    pass-through   both sides share a message format, and neither a key, message.handler nor another codec is asked for:
                   a set's bytes travel as they are
    re-encode      otherwise: decoded and encoded again; by columns where all of a source partition goes to one target
                   partition (transcode), else message by message

What is done to the bytes of a set is producer.conversion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from kafkawire.compression import CODECS
from kafkawire.dialects import Dialect
from kafkawire.model import Message, MessageSet, PartitionId
from mirrormaker.partitioning import UNNUMBERED, Numbering, Partitioner, Scheme
from producer.conversion import Output, Step, pass_through, reencode, transcode

Outputs = Callable[[Message], Sequence[Output]]


class TopicSettings(Protocol):
    """What is different for a topic (mirrormaker.options.TopicOverride); None: as the rules say."""

    @property
    def codec(self) -> str | None: ...
    @property
    def partitioning(self) -> str | None: ...


class AsConfigured(NamedTuple):
    """Nothing is different."""

    codec: str | None = None
    partitioning: str | None = None


def as_configured(topic: str) -> TopicSettings:
    return AsConfigured()


class SourceTopic(NamedTuple):
    """What a source says about a topic.  replication 0: its partitions have no replicas (0.7)."""

    partitions: int
    replication: int


@dataclass(frozen=True, slots=True)
class Route:
    """The route of a topic.  codec: asked for at the target; None: as the source has it."""

    kind: Literal["pass-through", "re-encode"]
    partitioning: Scheme
    reason: str
    codec: int | None = None
    by_message: bool = False  # messages are looked at one by one: for message.handler, or for their keys

    @property
    def single_target(self) -> bool:
        """All of a source partition goes to one target partition, in order and of the same topic."""
        return not self.by_message

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRules:
    """Everything that decides about the routes from one source into one target, but for partition counts."""

    source: Dialect
    target: Dialect
    message_max_bytes: int  # of the target
    partitioning: str = "auto"  # mirror.partitioning: auto | identity | key
    numbering: Numbering = UNNUMBERED  # broker.partitions: numbers for source partitions that have none
    codec: str = ""  # compression.codec asked for at the target; "": as the source has it
    compressed_topics: tuple[str, ...] = ()  # target topics that the codec is for; none: all
    handler: str = ""  # message.handler as configured; "": none
    of_topic: Callable[[str], TopicSettings] = as_configured  # by source topic
    grow: bool = False  # mirror.target.grow.partitions

    def grows(self, topic: str) -> bool:
        """Whether the target topic is to get as many partitions as its source topic has."""
        return self.grow and (self.of_topic(topic).partitioning or self.partitioning) != "key"

    def choose(self, topic: str, source_partitions: int, target_partitions: int, target_topic: str = "") -> Route:
        """The route of a topic that has so many partitions on both sides.  target_topic: its name there, if another."""
        differs = self.of_topic(topic)
        partitioning = differs.partitioning or self.partitioning
        scheme = self._scheme(partitioning, source_partitions, target_partitions)
        asked = self._codec(target_topic or topic, differs.codec)
        reason = self._why_not_as_it_is(asked)
        if not reason and scheme != "key":
            kept = ", partition kept" if scheme == "identity" else self._unnumbered(scheme)
            return Route("pass-through", scheme, f"same format{kept}")
        if not reason and partitioning == "key":
            few = self.grow and target_partitions < source_partitions
            reason = f"partitioning key is asked for{', so the target is not grown' if few else ''}"
        if not reason:
            counts = f"the target has {target_partitions} partitions, the source {source_partitions}"
            reason = f"partition chosen by key, as {counts}"
        codec, by_message = CODECS[asked] if asked else None, bool(self.handler) or scheme == "key"
        return Route("re-encode", scheme, f"{reason}{self._unnumbered(scheme)}", codec=codec, by_message=by_message)

    def _why_not_as_it_is(self, codec: str) -> str:
        if self.handler:
            return f"message.handler {self.handler} sees every message"
        if self.source.formats.isdisjoint(self.target.formats):
            return "source and target do not share a message format"
        return f"compression.codec {codec} is asked for" if codec else ""

    def _codec(self, target_topic: str, differs: str | None) -> str:
        """The codec that is asked for; "": as the source has it."""
        if differs is not None:
            return "" if differs == "none" else differs
        return self.codec if target_topic in (self.compressed_topics or (target_topic,)) else ""

    def _scheme(self, partitioning: str, source_partitions: int, target_partitions: int) -> Scheme:
        if partitioning == "key":
            return "key"
        if self.source.partitions_by_broker:
            return "identity" if self.numbering else "source"
        enough = partitioning == "identity" or target_partitions >= source_partitions
        return "identity" if enough else "key"

    def _unnumbered(self, scheme: Scheme) -> str:
        """What a reason adds where source partitions belong to brokers and have no number."""
        if not self.source.partitions_by_broker:
            return ""
        if scheme == "identity":
            return f"; partitions are numbered by broker.partitions {self.numbering}"
        if scheme == "key":
            return (
                "; a key decides where message.handler makes one, else all of a source partition goes to one partition"
            )
        return "; all of a source partition goes to one partition, which follows from its name"


class TopicRoute:
    """A topic's route into a target topic that is ready.

    partitions: of the target topic, in order.  target: the target topic's name; "": that of the source topic.
    """

    def __init__(
        self,
        topic: str,
        source: SourceTopic,
        partitions: Sequence[PartitionId],
        rules: RouteRules,
        *,
        target: str = "",
    ) -> None:
        self.source = source
        self.target = target or topic
        self.partitions = partitions
        self.route = route = rules.choose(topic, source.partitions, len(partitions), self.target)
        self.partitioner = Partitioner(self.target, route.partitioning, partitions, rules.numbering)
        self._dialect = rules.target
        self._message_max_bytes = rules.message_max_bytes

    def steps(self, fetched: MessageSet, outputs: Outputs, aligned: bool, skipped: int = 0) -> Iterator[Step]:
        """The steps that a set becomes.

        outputs: of each message, where the route looks at them one by one.  aligned: the set begins where another set
        of its partition ended.  skipped: so many of its first messages are in the target already.
        Raises what producer.conversion and outputs raise, and NoSuchPartition, behind what precedes the message.
        """
        dialect, limit, codec = self._dialect, self._message_max_bytes, self.route.codec
        if skipped:
            return reencode(fetched, but_the_first(skipped, outputs), dialect, limit, codec)
        if self.route.by_message:
            return reencode(fetched, outputs, dialect, limit, codec)
        target = self.partitioner.of_source(fetched.partition)
        if self.route.kind == "pass-through":
            return pass_through(fetched, target, dialect, limit, aligned)
        return transcode(fetched, target, dialect, limit, codec)

    def output(self, message: Message) -> tuple[Output]:
        """A message as it is, to its target partition."""
        target = self.partitioner.partition(message.partition, message.key)
        return (Output(target, message.key, message.value, message.timestamp_ms),)


def but_the_first(count: int, outputs: Outputs) -> Outputs:
    """Nothing of the first `count` messages, and what outputs() gives of the others."""
    left = count

    def rest(message: Message) -> Sequence[Output]:
        nonlocal left
        if left:
            left -= 1
            return ()
        return outputs(message)

    return rest
