"""Plug-ins of the target: loads what partitioner.class, serializer.class and key.serializer.class name.

    partitioner.class     murmur2, random, round-robin, sticky, batch (one random partition for each set); the JVM's
                          classes; package.module:function or :Class; an entry point of the group producer.partitioners
    serializer.class,     the JVM's classes that leave bytes as they are; package.module:function or :Class; an entry
    key.serializer.class  point of the group producer.encoders

Our plug-ins do what the JVM's mirrors did with these classes, if that made sense:

    ByteArrayPartitioner      default of MirrorMaker 0.8.1. |hashCode| of the bytes; 0.8.1 and
                              before drop the sign bit instead (KAFKA-1469), so the rule is that of target.version
    DefaultPartitioner        called hashCode of a byte[], which depends on the object, not its bytes: each message
                              went to a random partition, whatever its key.  Its users wanted
                              partitioning by key, so here it hashes the bytes like ByteArrayPartitioner
    StringEncoder             failed in the JVM: a mirror's messages are bytes.  Bytes as they are, and a warning
    NullEncoder               would have sent nulls.  Bytes as they are, and a warning

Mirrors of 0.7 had no keys at all, and a target of 0.7 stores none: there a partitioner of keys has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from groundwork.installed import entry_points
from groundwork.java import CLASS_NAME
from groundwork.options import Options, given
from kafkawire.dialects import Dialect, expected
from kafkawire.errors import LocalError
from mirrormaker.encoding import PLAIN, Encoder, Encoders
from mirrormaker.options import MirrorOptions, TargetOptions
from mirrormaker.partitioning import ChosenPartitioner
from producer.partitioners import UNKEYED, byte_array_partitioner, default_of, murmur2_partitioner
from producer.plugins import ENCODERS, PARTITIONERS, loaded

T = TypeVar("T")
O = TypeVar("O", bound=Options)  # noqa: E741  # as groundwork.options names it
OPTION = "partitioner.class"
VALUES, KEYS = "serializer.class", "key.serializer.class"
RELEASES_OWN = ("kafka.producer.DefaultPartitioner", "kafka.producer.ByteArrayPartitioner", "default")
MURMUR2 = ("org.apache.kafka.clients.producer.internals.DefaultPartitioner", "murmur2")
SPREADING = {
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": "round-robin",
    "org.apache.kafka.clients.producer.UniformStickyPartitioner": "sticky",
    **{name: name for name in UNKEYED},
}
LOSES_ORDER = {
    "random": "each message goes to a random partition",
    "round-robin": "each message goes to the next partition",
    "sticky": "all messages go to one random partition for topic.metadata.refresh.interval.ms, then to another",
    "batch": "each set of messages goes to a random partition",
}
AS_BYTES = "keys and values travel as the bytes they are"
AS_THEY_ARE = (
    "kafka.serializer.DefaultEncoder",
    "org.apache.kafka.common.serialization.ByteArraySerializer",
    "producer.encoders:as_bytes",
)
TAKEN_AS_BYTES = {  # and what they did in the JVM's mirror
    "kafka.serializer.StringEncoder": "failed: its messages are bytes",
    "org.apache.kafka.common.serialization.StringSerializer": "failed: its messages are bytes",
    "kafka.serializer.NullEncoder": "sent nulls",
}


class UnknownClass(LocalError):
    """Raised for a JVM class that is not known here; `.option` and `.named` identify it."""

    def __init__(self, option: str, named: str, instead: str) -> None:
        super().__init__(f"{option} '{named}' is a JVM class that is not known here: {instead}")
        self.option = option
        self.named = named


def _is_jvm_class(named: str, group: str) -> bool:
    """True if a name can only be a JVM class: names of entry points may have dots, too."""
    return CLASS_NAME.fullmatch(named) is not None and named not in entry_points(group).names


# ---- partitioner.class ----------------------------------------------------------------------------------------


def partitioner_named(named: str, spoken: Dialect, unkeyed: str = "", refresh_s: float = 600.0) -> ChosenPartitioner:
    """Return the partitioner with a name, for a target of that release.

    unkeyed: unkeyed.partitioner, or "" if not given.  Raises LocalError and UnknownClass.
    """
    if named in SPREADING:
        way = SPREADING[named]
        return ChosenPartitioner(name=way, of_key=None, unkeyed=way, refresh_s=refresh_s)
    if named in RELEASES_OWN:
        name = named.rpartition(".")[2]
        of_key: Callable[[Any, int], int] = default_of(spoken)
    elif named in MURMUR2:
        name, of_key = "murmur2", murmur2_partitioner
    elif _is_jvm_class(named, PARTITIONERS):
        raise UnknownClass(
            OPTION,
            named,
            "name a Python function of (key, partitions) as package.module:function, or one of murmur2, random, "
            "round-robin and sticky; or leave it out, and mirror.partitioning decides (identity: partitions are kept)",
        )
    else:
        name, of_key = named, loaded(OPTION, named, PARTITIONERS, "partition")
    return ChosenPartitioner(name=name, of_key=of_key, unkeyed=unkeyed, refresh_s=refresh_s)


class Partitioners:
    """Partitioners of a mirror: the target's, and those of single topics.  Raises LocalError."""

    def __init__(self, target: TargetOptions, mirror: MirrorOptions) -> None:
        self._target = target
        self._mirror = mirror
        # Without partitioner.class, messages without a key only leave their source partition if mirror.partitioning is
        # key.
        unkeyed = target.unkeyed if mirror.partitioning == "key" else ""
        hashed = ChosenPartitioner(of_key=byte_array_partitioner, unkeyed=unkeyed, refresh_s=self._refresh_s)
        self._loaded = {"": hashed}
        for named in (target.partitioner, *(override.partitioner for override in mirror.overrides)):
            if named and named not in self._loaded:
                self._loaded[named] = partitioner_named(
                    named, expected(target.version), target.unkeyed, self._refresh_s
                )

    def of(self, topic: str) -> ChosenPartitioner:
        """Return the partitioner of a source topic."""
        return self._loaded[self._mirror.for_topic(topic).partitioner or self._target.partitioner]

    @property
    def used(self) -> list[ChosenPartitioner]:
        """Return the target's partitioner, and those of single topics."""
        named = [self._target.partitioner, *(override.partitioner or "" for override in self._mirror.overrides)]
        return [self._loaded[name] for name in dict.fromkeys(named)]

    @property
    def _refresh_s(self) -> float:
        return self._target.refresh_ms / 1000


# ---- serializer.class and key.serializer.class ------------------------------------------------------------------


def encoders_of(target: TargetOptions) -> Encoders:
    """Return the encoders that the target's options name.  If only serializer.class is given, it also encodes keys, as
    in the producer.  Raises LocalError and UnknownClass."""
    of_values = _encoder(VALUES, target.encoder)
    of_keys = _encoder(KEYS, target.key_encoder) if target.key_encoder else of_values
    return Encoders(of_values, of_keys) if of_values or of_keys else PLAIN


def _encoder(option: str, named: str) -> Encoder | None:
    """Return the encoder, or None for bytes as they are."""
    if not named or named in AS_THEY_ARE or named in TAKEN_AS_BYTES:
        return None
    if _is_jvm_class(named, ENCODERS):
        raise UnknownClass(
            option,
            named,
            f"name a Python function of bytes as package.module:function; or leave it out, and {AS_BYTES}",
        )
    return Encoder(option, named, loaded(option, named, ENCODERS, "to_bytes"))


# ---- as a configuration is checked -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PluginCheck:
    """Checked options without those that are ignored, and sentences that name options: problems, warnings, and notes
    about unsafe settings."""

    target: TargetOptions
    mirror: MirrorOptions
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]


DECIDES = {  # effect of mirror.partitioning if a partitioner.class is ignored
    "auto": "auto: partitions keep their number where the target has enough, else keys are hashed as 0.8.2's "
    "ByteArrayPartitioner does",
    "identity": "identity: partitions keep their number",
    "key": "key: keys are hashed as 0.8.2's ByteArrayPartitioner does",
}


def check_plugins(target: TargetOptions, mirror: MirrorOptions, *, ignore_unknown: bool) -> PluginCheck:
    """Load the plug-ins that the options name.  With ignore_unknown, an unknown JVM class is only a warning."""
    check = _Checking(target, mirror, ignore_unknown)
    check.warnings += _taken_as_bytes(target)
    overrides = tuple(
        _with(override, partitioner=check.partitioner(override.partitioner, override.topics) or None)
        for override in mirror.overrides
    )
    target = _with(
        target,
        partitioner=check.partitioner(target.partitioner),
        encoder=check.encoder(VALUES, target.encoder),
        key_encoder=check.encoder(KEYS, target.key_encoder),
    )
    mirror = _with(mirror, overrides=overrides)
    notes: list[str] = []
    if not check.problems:
        notes += _loses_order(target, mirror)
    return PluginCheck(target, mirror, tuple(check.problems), tuple(check.warnings), tuple(notes))


class _Checking:
    """Check of plug-in names.  problems, warnings: sentences so far."""

    def __init__(self, target: TargetOptions, mirror: MirrorOptions, ignore_unknown: bool) -> None:
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self._ignore_unknown = ignore_unknown
        self._of = ""  # appended to a sentence: where a name is given
        self._spoken = expected(target.version)
        self._partitioning = mirror.partitioning
        # An override may partition a topic differently, and then the partitioner applies to that topic.
        others = {override.partitioning for override in mirror.overrides}
        self._identity = mirror.partitioning == "identity" and others <= {None, "identity"}

    def partitioner(self, named: str | None, topics: str = "") -> str:
        """Return a partitioner.class, or "" if none is given or used.  topics: the topics for which an override gives
        it."""
        self._of = f"; given in mirror.topic.overrides, to topics {topics}" if topics else ""
        if not named:
            return ""
        if self._identity:
            self._warn(
                f"option '{OPTION}' ({named}) has no effect here: mirror.partitioning is identity, and partitions keep "
                "their number; with auto or key this partitioner decides"
            )
            return ""
        decides = f"mirror.partitioning decides, {DECIDES[self._partitioning]}"
        chosen = self._loaded(OPTION, named, decides, partial(partitioner_named, spoken=self._spoken))
        if chosen is not None and chosen.of_key is not None and not self._spoken.has_keys:
            self._warn(f"option '{OPTION}' ({named}) has no effect here: Kafka {self._spoken.release} stores no keys")
            return ""
        return named if chosen is not None else ""

    def encoder(self, option: str, named: str) -> str:
        """Return an encoder, or "" if bytes stay as they are."""
        self._of = ""
        if named in AS_THEY_ARE or named in TAKEN_AS_BYTES:
            return named
        found = self._loaded(option, named, AS_BYTES, partial(_encoder, option)) if named else None
        return named if found is not None else ""

    def _loaded(self, option: str, named: str, decides: str, load: Callable[[str], T]) -> T | None:
        try:
            return load(named)
        except UnknownClass as unknown:
            if self._ignore_unknown:
                self._warn(f"option '{option}' ({named}) is a JVM class that is not known, and ignored: {decides}")
            else:
                self.problems.append(f"{unknown}{self._of}")
        except LocalError as unusable:
            self.problems.append(f"{unusable}{self._of}")
        return None

    def _warn(self, sentence: str) -> None:
        self.warnings.append(f"{sentence}{self._of}")


def _taken_as_bytes(target: TargetOptions) -> Iterator[str]:
    """Yield a sentence for each encoder that would have changed messages in the JVM, but does not here."""
    for option, named in ((VALUES, target.encoder), (KEYS, target.key_encoder)):
        if named in TAKEN_AS_BYTES:
            yield f"option '{option}' ({named}): the JVM's mirror would have {TAKEN_AS_BYTES[named]}; here {AS_BYTES}"


def _loses_order(target: TargetOptions, mirror: MirrorOptions) -> Iterator[str]:
    """Yield sentences about the order that partitioners give up."""
    for chosen in Partitioners(target, mirror).used:
        if chosen.of_key is None:
            yield (
                f"{OPTION} {chosen.name}: {LOSES_ORDER[chosen.unkeyed]}, whatever its key: the order of messages is "
                "lost, per key and per source partition"
            )
        elif chosen.unkeyed:
            yield (
                f"unkeyed.partitioner {chosen.unkeyed}: without a key {LOSES_ORDER[chosen.unkeyed]}: the order of "
                "such messages of a source partition is lost"
            )


def _with(options: O, **changed: object) -> O:
    """Return options with other values, which still know what their file gave."""
    made = replace(options, **changed)  # type: ignore[type-var]  # each class of options is a dataclass
    object.__setattr__(made, "_given", given(options))
    return made
