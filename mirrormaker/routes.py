"""Routes: how the messages of a topic travel through the mirror, and why.  Only this module decides it.  Pure.

    RouteRules    what the options say about the topics of one source on their way into one target
    choose()      returns the Route of one topic, with the sentence that `check --online` prints
    TopicRoute    the route of a topic whose target is ready: turns a fetched set into steps

    pass-through   both sides share a message format, and no partitioner, handler, encoder or other codec is configured:
                   a set's bytes travel as they are
    re-encode      otherwise.  If only partitions, codec or format differ, entries are copied or rewritten by
                   columns; for message.set.handler and encoders from lists, for message.handler message by message

A re-encoded message passes the handler, then the encoders of the target, then the partitioner: the partition is chosen
by the key that is stored, as for any other producer that writes there.

producer.conversion changes the bytes of a set; producer.reslice distributes them to several partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import not_
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol

from groundwork.sentences import counted
from kafkawire.columns import Columns
from kafkawire.columns import Part as Stretch
from kafkawire.compression import CODECS
from kafkawire.dialects import Dialect
from kafkawire.grouping import grouped, rows_by_group
from kafkawire.model import Message, MessageSet, PartitionId, TopicPartition
from mirrormaker.encoding import PLAIN, Encoders
from mirrormaker.losses import Losses
from mirrormaker.partitioning import (
    HASHED,
    UNNUMBERED,
    ChosenPartitioner,
    NoSuchPartition,
    Numbering,
    Partitioner,
    RowRefused,
    Scheme,
)
from producer.conversion import (
    Fit,
    Lists,
    MessageHandlerFailed,
    Output,
    Place,
    Placed,
    Rows,
    Step,
    by_columns,
    coded_sets,
    narrowed,
    pass_through,
    to_one,
    transcode,
)
from producer.errors import PartitionerFailed
from producer.reslice import Share, Sharing, resliced

Outputs = Callable[[Message], Sequence[Output]]
SET_BYTES = 2 << 20  # bytes of decoded messages that message.set.handler gets at once, approximately


class TopicSettings(Protocol):
    """Settings that differ for a topic (mirrormaker.options.TopicOverride); None: as the rules say."""

    @property
    def codec(self) -> str | None: ...
    @property
    def partitioning(self) -> str | None: ...


class AsConfigured(NamedTuple):
    """Settings of a topic without overrides."""

    codec: str | None = None
    partitioning: str | None = None


def as_configured(topic: str) -> TopicSettings:
    return AsConfigured()


class SourceTopic(NamedTuple):
    """Facts about a source topic.  replication 0: its partitions have no replicas (0.7).

    settings: its own settings, as far as target.topic.configs copies them. source: the source's name.  ours: the topic
    is the mirror's own, so no source determines its size.
    """

    partitions: int
    replication: int
    settings: Mapping[str, str] = MappingProxyType({})
    source: str = ""
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """Route of a topic.  codec: the codec to use in the target; None to keep the source's."""

    kind: Literal["pass-through", "re-encode"]
    partitioning: Scheme
    reason: str
    codec: int | None = None
    by_message: bool = False  # messages are processed one by one, for message.handler
    handled: bool = False  # by a handler, which may send messages to any topic

    @property
    def single_target(self) -> bool:
        """True if all of a source partition goes to one target partition, in order and under the same topic."""
        return not self.handled and self.partitioning in ("identity", "source")

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRules:
    """Everything that decides the routes from one source into one target, except partition counts."""

    source: Dialect
    target: Dialect
    message_max_bytes: int  # of the target
    partitioning: str = "auto"  # mirror.partitioning: auto | identity | key
    numbering: Numbering = UNNUMBERED  # broker.partitions: numbers for source partitions that have none
    codec: str = ""  # compression.codec for the target; "": keep the source's codec
    compressed_topics: tuple[str, ...] = ()  # target topics that the codec applies to; empty: all
    handler: str = ""  # message.handler as configured; "": no handler
    set_handler: str = ""  # message.set.handler as configured; "": no handler
    partitioner: Callable[[str], ChosenPartitioner] = lambda topic: HASHED  # of a source topic
    encoders: Encoders = PLAIN
    of_topic: Callable[[str], TopicSettings] = as_configured  # by source topic
    grow: bool = False  # mirror.target.grow.partitions
    drop: frozenset[str] = frozenset()  # mirror.drop.fields
    dropped: dict[tuple[str, str], int] = field(default_factory=dict, compare=False)  # messages, by topic and field

    @property
    def losses(self) -> Losses:
        """Return which fields messages lose in the target's format."""
        return Losses(self.source, self.target, self.drop, self.dropped)

    def grows(self, topic: str) -> bool:
        """True if the target topic should get as many partitions as its source topic has.

        False if keys choose the partition: with more partitions they would move to others.  False also if source
        partitions have no number.
        """
        if self.source.partitions_by_broker and not self.numbering:
            return False
        partitioning = self.of_topic(topic).partitioning or self.partitioning
        by_name = self._chosen_scheme(partitioning, self.partitioner(topic))
        return self.grow and partitioning != "key" and by_name != "key"

    def choose(self, topic: str, source_partitions: int, target_partitions: int, target_topic: str = "") -> Route:
        """Return the route of a topic with these partition counts.  target_topic: its target name, if it differs."""
        differs, chosen = self.of_topic(topic), self.partitioner(topic)
        partitioning = differs.partitioning or self.partitioning
        by_name = self._chosen_scheme(partitioning, chosen)
        scheme = by_name or self._scheme(partitioning, source_partitions, target_partitions)
        asked = self._codec(target_topic or topic, differs.codec)
        reason = self._why_not_as_it_is(asked)
        if not reason and scheme in ("identity", "source"):
            kept = ", partition kept" if scheme == "identity" else self._unnumbered(scheme)
            return Route("pass-through", scheme, f"same format{kept}")
        few = (
            self.grow
            and scheme == "key"
            and target_partitions < source_partitions
            and (by_name or partitioning == "key")
        )
        ungrown = ", so the target is not grown" if few else ""
        if by_name:
            chooses = "chooses the partition by key" if scheme == "key" else "chooses the partition, whatever the key"
            reason += f"{'; ' * bool(reason)}partitioner.class {chosen.name} {chooses}{ungrown}"
        elif not reason and partitioning == "key":
            reason = f"partitioning key is configured{ungrown}"
        elif not reason:
            counts = f"the target has {counted(target_partitions, 'partition')}, the source {source_partitions}"
            reason = f"partition chosen by key, as {counts}"
        return Route(
            "re-encode",
            scheme,
            f"{reason}{self._unnumbered(scheme)}",
            codec=CODECS[asked] if asked else None,
            by_message=bool(self.handler),
            handled=bool(self.handler or self.set_handler),
        )

    @property
    def alters(self) -> str:
        """Return the options, with values, that may change messages of a source; "" if none do."""
        handlers = (("message.handler", self.handler), ("message.set.handler", self.set_handler))
        named = [f"{option} {name}" for option, name in handlers if name]
        return " and ".join([*named, str(self.encoders)] if self.encoders else named)

    def _why_not_as_it_is(self, codec: str) -> str:
        reasons = []
        if self.handler:
            reasons.append(f"message.handler {self.handler} sees every message")
        if self.set_handler:
            reasons.append(f"message.set.handler {self.set_handler} sees every set")
        if self.encoders:
            reasons.append(f"{self.encoders} encodes every message")
        if reasons:
            return "; ".join(reasons)
        if self.source.formats.isdisjoint(self.target.formats):
            return "source and target do not share a message format"
        if self.source.magic > max(self.target.formats):
            return f"the target has no message format v{self.source.magic}, which the source writes{self._dropped()}"
        return f"compression.codec {codec} is configured" if codec else ""

    def _dropped(self) -> str:
        """Return what to add to a reason about fields that messages of the target cannot have."""
        lost = self.losses.fields
        let_go = [name for name in lost if name in self.drop]
        kept = [name for name in lost if name not in self.drop]
        said = f"; {' and '.join(let_go)} are dropped" if let_go else ""
        return said + (f"; a message with {' or '.join(kept)} parks its partition (mirror.drop.fields)" if kept else "")

    def _codec(self, target_topic: str, differs: str | None) -> str:
        """Return the codec for a target topic; "" keeps the source's codec."""
        if differs is not None:
            return "" if differs == "none" else differs
        return self.codec if target_topic in (self.compressed_topics or (target_topic,)) else ""

    def _chosen_scheme(self, partitioning: str, chosen: ChosenPartitioner) -> Scheme | None:
        """Return the scheme of the configured partitioner, or None if it does not apply."""
        if not chosen.name or partitioning == "identity":
            return None
        may_have_keys = self.source.has_keys or bool(self.handler or self.set_handler)
        return chosen.scheme if may_have_keys or chosen.scheme == "spread" else None

    def _scheme(self, partitioning: str, source_partitions: int, target_partitions: int) -> Scheme:
        if partitioning == "key":
            return "key"
        if self.source.partitions_by_broker:
            return "identity" if self.numbering else "source"
        # A topic that grows keeps its numbers even while a limit refuses the growth: otherwise keys would move twice.
        enough = partitioning == "identity" or self.grow or target_partitions >= source_partitions
        return "identity" if enough else "key"

    def _unnumbered(self, scheme: Scheme) -> str:
        """Return what to add to a reason if source partitions belong to brokers and have no number."""
        if not self.source.partitions_by_broker:
            return ""
        if scheme == "identity":
            return f"; partitions are numbered by broker.partitions {self.numbering}"
        if scheme == "key":
            handler = "message.set.handler" if self.set_handler else "message.handler"
            return f"; a key decides where {handler} makes one, else all of a source partition goes to one partition"
        if scheme == "spread":
            return ""
        return "; all of a source partition goes to one partition, which follows from its name"


class TopicRoute:
    """Route of a topic into a target topic that is ready.

    partitions: of the target topic, in order.  target: the target topic's name; "" for the source topic's name. beyond:
    why the target has no partitions with higher numbers; "" if the partitioner's sentence says it.
    """

    def __init__(
        self,
        topic: str,
        source: SourceTopic,
        partitions: Sequence[PartitionId],
        rules: RouteRules,
        *,
        target: str = "",
        beyond: str = "",
    ) -> None:
        self.source = source
        self.target = target or topic
        self.partitions = partitions
        self.route = route = rules.choose(topic, source.partitions, len(partitions), self.target)
        chosen = rules.partitioner(topic)
        self.partitioner = Partitioner(self.target, route.partitioning, partitions, rules.numbering, chosen, beyond)
        self._dialect = rules.target
        self._message_max_bytes = rules.message_max_bytes
        self._encoders = rules.encoders
        self._losses = rules.losses

    def steps(
        self, fetched: MessageSet, aligned: bool, skipped: int = 0, *, place: Place | None = None
    ) -> Iterator[Step]:
        """Yield the steps that a set becomes.

        aligned: the set begins where another set of its partition ended.  skipped: this many of its first messages are
        in the target already.  place: what a handler makes of messages, or None without a handler.  Raises what
        producer.conversion and place raise, and NoSuchPartition, after the steps before the failing message.
        """
        dialect, limit, codec = self._dialect, self._message_max_bytes, self.route.codec
        if place is not None:
            place = but_the_first(skipped, place) if skipped else place
            least_bytes = 0 if self.route.by_message else SET_BYTES
            return by_columns(fetched, place, dialect, limit, codec, least_bytes=least_bytes)
        if skipped:
            return by_columns(fetched, but_the_first(skipped, self._place(fetched)), dialect, limit, codec)
        if self._encoders:
            return by_columns(fetched, self._place(fetched), dialect, limit, codec)
        fit = self._losses.fit(fetched.tp)
        if not self.partitioner.single:
            return resliced(coded_sets(fetched, dialect, codec), self._sharing(fetched.tp, fit), dialect, limit)
        target = self.partitioner.of_source(fetched.partition)
        if self.route.kind == "pass-through":
            return pass_through(fetched, target, dialect, limit, aligned, fit=fit)
        return transcode(fetched, target, dialect, limit, codec, fit=fit)

    def _sharing(self, source: TopicPartition, fit: Fit | None) -> Sharing:
        """Return, as columns, which target partition each message of a source partition goes to."""
        partitioner = self.partitioner
        targets = partitioner.targets
        if partitioner.single:
            return to_one(partitioner.of_source(source.partition), fit)

        def share(columns: Columns, end: int) -> Iterator[Share]:
            try:
                indexes = partitioner.indexes(source.partition, columns, end)
            except RowRefused as failed:
                offset = columns.offsets[failed.row]
                raise MessageHandlerFailed(f"{source} at {offset}: {failed}", offset) from failed
            found = grouped(columns if fit is None else fit.of_columns(columns, end), indexes, len(targets))
            shares = zip(targets, map(found.stretch, range(len(targets))), found.sizes, strict=True)
            return (Share(target, rows, size) for target, rows, size in shares if rows.since < rows.until)

        return share

    def shares(self, source: TopicPartition, stretches: Sequence[Stretch], kept: Sequence[bool]) -> list[Share]:
        """Return messages that a handler kept unchanged, for their target partitions.  stretches: all of its messages,
        each stretch beginning with the first row of its columns; kept: whether each message is sent.

        Raises MessageHandlerFailed, NoSuchPartition and FieldLost.
        """
        share, shares, at = self._sharing(source, self._losses.fit(source)), list[Share](), 0
        for columns, _, end in stretches:
            wanted = kept[at : at + end]
            at += end
            if not all(wanted):
                columns, _, end = grouped(columns, list(map(not_, wanted)), 2).stretch(0)
            if end:
                shares += share(columns, end)
        return shares

    def _place(self, fetched: MessageSet) -> Place:
        """Return the function that places messages that no handler sees."""

        def place(rows: Rows) -> Placed:
            by_partition: dict[TopicPartition, Lists] = {}
            self.place(fetched.tp, rows, by_partition)
            return Placed(by_partition, rows.resume_at)

        return narrowed(place)

    def place(
        self,
        source: TopicPartition,
        rows: Rows,
        into: dict[TopicPartition, Lists],
        partitions: Sequence[object] | None = None,
        *,
        handler: str = "message.set.handler",
    ) -> None:
        """Encode messages of a source partition, and add them to the lists of their target partitions.

        partitions: those that a handler chose; handler: its option.  Raises MessageHandlerFailed, NoSuchPartition and
        FieldLost.
        """
        fit = self._losses.fit(source)
        rows = rows if fit is None else fit(rows)
        keys = self._encoders.keys(source, rows.offsets, rows.keys)
        values = self._encoders.values(source, rows.offsets, rows.values)
        found = rows._replace(keys=keys, values=values)
        if partitions is not None:
            self._add_chosen(source, found, into, partitions, handler)
        elif self.partitioner.single:
            _add(into, self.partitioner.of_source(source.partition), found)
        else:
            self._add_by_key(source, found, into)

    def _add_by_key(self, source: TopicPartition, rows: Rows, into: dict[TopicPartition, Lists]) -> None:
        """Add messages to the lists of the partitions that the partitioner chooses."""
        targets = self.partitioner.targets
        try:
            indexes = self.partitioner.of_keys(source.partition, rows.keys)
        except RowRefused as failed:
            offset = rows.offsets[failed.row]
            raise MessageHandlerFailed(f"{source} at {offset}: {failed}", offset) from failed
        for target, chosen in zip(targets, rows_by_group(indexes, len(targets)), strict=True):
            if chosen:
                _add(into, target, rows if len(chosen) == len(rows.keys) else rows.taken(chosen))

    def _add_chosen(
        self,
        source: TopicPartition,
        rows: Rows,
        into: dict[TopicPartition, Lists],
        partitions: Sequence[object],
        handler: str,
    ) -> None:
        """Add messages to the lists of their partitions, if a handler chose the partitions of some messages."""
        chosen: dict[TopicPartition, list[int]] = {}
        partition, named = self.partitioner.partition, self.partitioner.named
        for row, (key, wanted) in enumerate(zip(rows.keys, partitions, strict=True)):
            try:
                target = partition(source.partition, key) if wanted is None else named(wanted)
            except (PartitionerFailed, NoSuchPartition) as failed:
                offset = rows.offsets[row]
                by = f"{handler}: " if isinstance(failed, NoSuchPartition) else ""
                raise MessageHandlerFailed(f"{source} at {offset}: {by}{failed}", offset) from failed
            chosen.setdefault(target, []).append(row)
        for target, its_rows in chosen.items():
            _add(into, target, rows.taken(its_rows))


def _add(into: dict[TopicPartition, Lists], target: TopicPartition, rows: Rows) -> None:
    """Add messages to the lists of a target partition."""
    lists = _lists(into, target, rows.headers is not None)
    lists.keys.extend(rows.keys)
    lists.values.extend(rows.values)
    lists.timestamps_ms.extend(rows.timestamps_ms)
    if lists.headers is not None:
        lists.headers.extend(rows.headers or [None] * len(rows.keys))


def _lists(into: dict[TopicPartition, Lists], target: TopicPartition, headed: bool) -> Lists:
    """Return the lists of a target partition; with `headed`, including a list of headers."""
    found = into.get(target)
    if found is None or (headed and found.headers is None):
        before = Lists([], [], []) if found is None else found
        found = into[target] = before._replace(headers=[None] * len(before.keys) if headed else None)
    return found


def but_the_first(count: int, place: Place) -> Place:
    """Return a function that places nothing for the first `count` messages, and applies place() to the others."""
    left = count

    def rest(rows: Rows) -> Iterator[Placed]:
        nonlocal left
        gone = min(left, len(rows.offsets))
        left -= gone
        rows = rows.behind(gone) if gone else rows
        if rows.offsets:
            yield from place(rows)

    return rest
