"""Configuration of a mirror: its sources, its target, and the topics to mirror.  Reads files; connects to nothing.

    from_yaml     sections `sources` (a list), `target`, `mirror`
    from_flags    the original's flags: --consumer.config (repeatable), --producer.config and flags

All problems are collected before OptionError is raised.  Settings that are allowed but unsafe become sentences in
Configuration.notes.  A mirror starts at the smallest offset and waits for all in-sync replicas, unless a file says
otherwise by name; acks 0 is refused.

A file that cannot be read, is not YAML, or sets one key twice also raises OptionError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TypeVar, cast

from groundwork import metrics
from groundwork.optionfiles import properties_file, yaml_file
from groundwork.options import ERROR, WARN, OptionError, Options, given, load, warnings_of
from groundwork.zkconnect import parse_connect
from kafkawire.dialects import Dialect, expected
from kafkawire.protocol.adminapis import CREATE_PARTITIONS, CREATE_TOPICS
from kafkawire.securityoptions import unsafe_security
from mirrormaker import listen
from mirrormaker.exactlyonce.requirements import NoTransactions, require_transactions
from mirrormaker.jvmfiles import Translated, consumer_file, ignored_line, producer_file, taken_line
from mirrormaker.options import FileOptions, MirrorOptions, SourceOptions, TargetOptions
from mirrormaker.plugins import Partitioners, check_plugins, encoders_of
from mirrormaker.routes import RouteRules
from mirrormaker.selection import Override, Selection, merged_sentence
from zkconsumer.options.config import idle_options

# ---- files ----------------------------------------------------------------------------------------------------

FLAGS = "command line"
LONGEST_DRAIN_MS = 7000  # a stop has 9 s for draining, the last commit and leaving the group (daemon.DRAIN_S)
O = TypeVar("O", bound=Options)  # noqa: E741  # as groundwork.options names it


@dataclass(frozen=True, slots=True)
class Configuration:
    """Configuration of a whole mirror.  `warnings` lists keys without effect, `notes` lists allowed but unsafe
    settings, as sentences.

    name: the file's name without its suffix; with the original's flags, the name of the first consumer.config. files:
    the files that it was read from.
    """

    sources: tuple[SourceOptions, ...]
    target: TargetOptions
    mirror: MirrorOptions
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    name: str = "mirror"
    files: tuple[Path, ...] = ()

    @property
    def shown_name(self) -> str:
        """Return the mirror's name for display: mirror.name, or the name of its file."""
        return self.mirror.name or self.name

    @property
    def longest_wait_s(self) -> float:
        """Return the longest time in seconds that a message may wait for its batch or transaction if all clusters
        answer at once."""
        transaction_ms = self.mirror.transaction_interval_ms if self.mirror.exactly_once else 0
        return max(self.target.linger_ms, transaction_ms) / 1000

    def selection(self, source: SourceOptions) -> Selection:
        """Return which topics of one source are mirrored, and under which names."""
        return selection(source, self.mirror, self.sources)


# ---- from files -----------------------------------------------------------------------------------------------


def from_yaml(path: Path, unknown: str = ERROR) -> Configuration:
    """Return the mirror that a YAML file describes.  Raises OptionError.  `unknown` is passed to
    groundwork.options.load."""
    where = path.name
    values = yaml_file(path)
    if not isinstance(values, Mapping):
        raise OptionError([f"{where}: expected the sections sources, target and mirror"])
    if outside := [key for key in map(str, values) if key.startswith(("mirror.", "target."))]:
        raise OptionError([f"{where}: option '{key}' is outside of {_section(key)}" for key in outside])
    found = Findings()
    file = found.options(lambda: load(FileOptions, values, where, unknown=unknown))
    if file is None:
        raise found.error()
    names = Names(where, tuple(where for _ in file.sources), where)
    loaded = Configuration(file.sources, file.target, file.mirror, name=path.stem, files=(path,))
    return _checked(loaded, names, unknown, found)


def _section(key: str) -> str:
    """Return where in a file an option belongs that is written with its full name, as the docs write it."""
    section, _, name = key.partition(".")
    return f"its section: put it into '{section}', as '{name if section == 'mirror' else key}'"


def from_flags(
    consumers: Sequence[Path],
    producer: Path | None,
    flags: Mapping[str, str],
    unknown: str = ERROR,
    *,
    new_consumer: bool = False,
    new_producer: bool = False,
) -> Configuration:
    """Return the mirror that the original's flags describe; flags are options of section `mirror`.  Raises OptionError.

    unknown: passed to groundwork.options.load for the files.  new_consumer, new_producer: the flags of the same name
    were given, which the start line mentions.
    """
    found = Findings()
    if not consumers:
        found.problems.append("--consumer.config is missing: a source's .properties, one for each source")
    if producer is None:
        found.problems.append("--producer.config is missing: the target's .properties")
    sources: list[SourceOptions] = []
    of_sources: list[Translated] = []
    for n, path in enumerate(consumers):
        if path.resolve() in [earlier.resolve() for earlier in consumers[:n]]:
            found.problems.append(f"--consumer.config {path} is given twice: each of its messages would be read twice")
        elif (values := _properties(path, "--consumer.config", found)) is not None:
            of_sources.append(consumer_file(values, new_consumer))
            if (source := _jvm_options(SourceOptions, of_sources[-1], path.name, unknown, found)) is not None:
                sources.append(source)
    target: TargetOptions | None = None
    of_target: Translated | None = None
    if producer is not None and (values := _properties(producer, "--producer.config", found)) is not None:
        of_target = producer_file(values, new_producer)
        target = _jvm_options(TargetOptions, of_target, producer.name, unknown, found)
    mirror = found.options(lambda: load(MirrorOptions, flags, FLAGS, jvm=True))
    if len(sources) < len(consumers) or not sources or target is None or mirror is None or producer is None:
        raise found.error()
    names = Names(FLAGS, tuple(path.name for path in consumers), producer.name, tuple(of_sources), of_target)
    loaded = Configuration(tuple(sources), target, mirror, name=consumers[0].stem, files=(*consumers, producer))
    return _checked(loaded, names, unknown, found)


class Findings:
    """Findings so far: problems, warnings and notes as sentences.  `forbidden` is set if this user has no permission to
    read a file."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self.notes: list[str] = []
        self.forbidden = False

    def options(self, read: Callable[[], O]) -> O | None:
        """Return the options that read() loads, with defaults for those with problems; None if nothing can be
        loaded."""
        try:
            loaded = read()
        except OptionError as exc:
            self.problems += exc.problems
            self.warnings += exc.warnings
            self.forbidden |= exc.forbidden
            return cast("O | None", exc.partial)
        self.warnings += warnings_of(loaded)
        return loaded

    def error(self) -> OptionError:
        return OptionError(self.problems, self.forbidden, self.warnings)


def _properties(path: Path, flag: str, found: Findings) -> dict[str, str] | None:
    """Return the JVM .properties file that a flag names, or None if it cannot be read."""
    try:
        return properties_file(path)
    except OptionError as exc:
        found.problems += [f"{flag} {problem}" for problem in exc.problems]
        found.forbidden |= exc.forbidden
    return None


def _jvm_options(cls: type[O], file: Translated, where: str, unknown: str, found: Findings) -> O | None:
    """Return the options that a JVM file gives, with defaults for those with problems."""
    found.problems += [f"{where}: {problem}" for problem in file.problems]
    return found.options(lambda: load(cls, file.values, where, jvm=True, unknown=unknown, names=file.names))


# ---- what holds between the parts -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the places where the parts of a configuration were given."""

    whole: str
    sources: tuple[str, ...]
    target: str
    of_sources: tuple[Translated, ...] = ()  # settings of the JVM files; empty for YAML
    of_target: Translated | None = None


def _checked(loaded: Configuration, names: Names, unknown: str, found: Findings) -> Configuration:
    """Return the parts as they run, with names and the mirror's own settings filled in.  Raises OptionError.

    found: problems found in each part alone; such a part has defaults in place of its wrong settings.
    """
    before = list(found.problems)
    try:
        checked = _between(loaded, names, unknown, found)
    except ValueError:
        if not before:
            raise
        raise found.error() from None  # a part that is wrong by itself cannot be compared with the others
    if found.problems:
        raise found.error()
    return checked


def _between(loaded: Configuration, names: Names, unknown: str, found: Findings) -> Configuration:
    """Return the parts as they run; add the problems between them, and those of each part as a part of a mirror."""
    sources, target, mirror = loaded.sources, loaded.target, loaded.mirror
    where = names.whole
    by_name = {path.name: path for path in loaded.files}
    problems, warnings, notes = found.problems, found.warnings, found.notes
    named = [_named(s, s.name or _place(n, sources)) for n, s in enumerate(sources, 1)]
    if not sources:
        problems.append(f"{where}: sources is empty: a mirror needs at least one")
    problems += [f"{where}: {sentence}" for sentence in _not_growing(target, mirror)]
    problems += [f"{where}: {sentence}" for sentence in _without_transactions(target, mirror)]
    problems += [f"{where}: {sentence}" for sentence in _not_followed(target, mirror)]
    if (
        mirror.dead_letter_topic
        and mirror.own_topics(s.name for s in named)[mirror.dead_letter_topic] != "dead.letter.topic"
    ):
        problems.append(
            f"{where}: 'dead.letter.topic' is {mirror.dead_letter_topic}, which the mirror itself writes "
            "(offset.map.topic): give them two names"
        )
    if len({source.name for source in named}) < len(named):
        problems.append(f"{where}: two sources have the same name; logs and status could not tell them apart")
    problems += [f"{where}: {sentence}" for sentence in _read_twice(named)]
    of_sources = names.of_sources or (None,) * len(named)
    for source, file, translated in zip(named, names.sources, of_sources, strict=True):
        at = f"{file}: source {source.name}"
        warnings += _idle(translated, {**_overruled(source), **dict(idle_options(source))}, file, at)
        notes += [f"{at}: {sentence}" for sentence in _unsafe(source)]
        chosen = selection(source, mirror, named)
        for topic in chosen.certainly_held_back():
            held_back = f"{at}: {chosen.refusal(topic)}"
            if chosen.renamed(topic):
                problems.append(held_back)
            else:
                notes.append(f"{held_back}: it is held back")
        security = unsafe_security(source, found_in_zookeeper=not source.brokers, file=by_name.get(file))
        notes += [f"{at}: {sentence}" for sentence in security]
        problems += [f"{at}: {sentence}" for sentence in _mismatched(source, target, mirror)]
        problems += [f"{at}: {metrics.missing()}"] if source.metrics_enable and metrics.missing() else []
        if loops(source.zookeeper_connect, target.zookeeper):
            map_topic = mirror.map_topic_of(source.name, len(named) > 1)
            problems += [f"{at}: {sentence}" for sentence in _feeds_itself(chosen, target, map_topic)]
    if mirror.http_listen is not None:
        problems += [f"{where}: {sentence}" for sentence in (listen.missing(),) if sentence]
        notes += [f"{where}: mirror: {sentence}" for sentence in (listen.unsafe(mirror.http_listen),) if sentence]
    at = f"{names.target}: target"
    security = unsafe_security(target, found_in_zookeeper=not target.brokers, file=by_name.get(names.target))
    notes += [f"{at}: {sentence}" for sentence in security]
    plugins = check_plugins(target, mirror, ignore_unknown=unknown == WARN)
    target, mirror = plugins.target, plugins.mirror
    problems += [f"{at}: {sentence}" for sentence in plugins.problems]
    warnings += [f"{at}: {sentence}" for sentence in plugins.warnings]
    notes += [f"{at}: {sentence}" for sentence in plugins.notes]
    warnings += _idle(names.of_target, _without_effect(target, mirror), names.target, at)
    warnings += _counted_acks(target, at)
    if not plugins.problems:
        problems += [f"{where}: {sentence}" for sentence in _not_resumable(named, target, mirror)]
        for source, file in zip(named, names.sources, strict=True):
            warnings += [f"{file}: source {source.name}: {it}" for it in _without_keys(source, target, mirror)]
    notes += [f"{where}: {sentence}" for sentence in _left_out(mirror)]
    target = _target(target, problems, notes, names.target)
    notes.extend(_left_to_auto_creation(target, names.target))
    ready = tuple(_as_run(source, mirror) for source in named)
    return replace(loaded, sources=ready, target=target, mirror=mirror, warnings=tuple(warnings), notes=tuple(notes))


def _not_resumable(sources: Sequence[SourceOptions], target: TargetOptions, mirror: MirrorOptions) -> Iterator[str]:
    """Yield sentences saying why resume: target-end is impossible here."""
    if mirror.resume != "target-end":
        return
    refused = "resume: target-end compares what the target has with the source, partition by partition"
    if mirror.partitioning == "key":
        yield f"{refused}; with mirror.partitioning key it cannot: leave it auto or identity, or set resume: committed"
    for key, handler in (("message.handler", mirror.handler), ("message.set.handler", mirror.set_handler)):
        if handler:
            yield f"{refused}; with {key} it cannot: set resume: committed"
    if encoders_of(target):
        yield f"{refused}; with {encoders_of(target)} it cannot: set resume: committed"
    for chosen in filter(None, (chosen.name for chosen in Partitioners(target, mirror).used)):
        yield f"{refused}; with partitioner.class {chosen} it cannot: leave it out, or set resume: committed"
    if len({source.topic_prefix for source in sources}) < len(sources):
        yield (
            f"{refused}; {len(sources)} sources may write to one topic: give each a topic.prefix of its own, run a "
            "mirror for each, or set committed"
        )
    own_name = "give each a name of its own, or set resume: committed"
    yield from (f"{refused}; {sentence}; {own_name}" for sentence in _renamed_alike(sources, mirror))
    if not expected(target.version).answers_produce:
        yield f"{refused}; target.version {target.version} never says where it stored anything: set resume: committed"


def _renamed_alike(sources: Sequence[SourceOptions], mirror: MirrorOptions) -> Iterator[str]:
    """Yield sentences about different topics that are renamed to the same name."""
    found: dict[str, list[str]] = {}
    for source in sources:
        chosen = selection(source, mirror, sources)
        for topic in dict.fromkeys((*source.topic_rename, *mirror.topic_rename)):
            if chosen.selects(topic):
                found.setdefault(chosen.target(topic), []).append(f"{source.name}/{topic}")
    for target, writers in found.items():
        if len(writers) > 1:
            yield merged_sentence(target, writers)


def merging(sources: Sequence[SourceOptions], mirror: MirrorOptions) -> Iterator[str]:
    """Yield sentences about sources that may write to the same target topic, as far as the files alone show it."""
    alike: dict[str, list[str]] = {}
    for source in sources:
        alike.setdefault(source.topic_prefix, []).append(source.name)
    for names in alike.values():
        if len(names) > 1:
            yield (
                f"sources {', '.join(names[:-1])} and {names[-1]}: topics of one name are merged in the target, "
                "without an order between the sources; check --online names them, a topic.prefix for each keeps them "
                "apart"
            )
    yield from _renamed_alike(sources, mirror)


def workers_mean(configuration: Configuration) -> Iterator[str]:
    """Yield sentences about the effects of running in several processes; nothing for a single process."""
    mirror = configuration.mirror
    count = mirror.workers
    if count == 1:
        return
    streams = f", with {mirror.num_streams} streams each" if mirror.num_streams > 1 else ""
    groups = ", ".join(dict.fromkeys(source.group_id for source in configuration.sources))
    yield (
        f"{count} workers: {count} processes, each a member of group {groups}{streams}; the partitions are shared as "
        "the group does it, and one without any stands by"
    )
    for source in configuration.sources:
        if source.assignment_strategy == "range":
            yield (
                f"source {source.name}: range divides each topic by itself: a topic of one partition keeps one worker "
                "busy, and many of these the same one; partition.assignment.strategy: roundrobin spreads them"
            )
    queued = sum(source.queued_max_bytes for source in configuration.sources)
    yield (
        f"memory: queued.max.bytes applies to each worker: up to {count} x {queued / 1e6:,.0f} MB fetched and not yet "
        "acknowledged"
    )
    if mirror.map_folder:
        yield f"offset map: a file for each worker; `zkconsumer offsets translate` takes all {count}, --map for each"


def _without_transactions(target: TargetOptions, mirror: MirrorOptions) -> Iterator[str]:
    """Yield a sentence if the target release named in the file cannot be written to exactly once."""
    if mirror.exactly_once and target.version:
        try:
            require_transactions(expected(target.version))
        except NoTransactions as none:
            yield f"{none}; or correct target.version"


def _not_growing(target: TargetOptions, mirror: MirrorOptions) -> Iterator[str]:
    """Yield sentences saying why target topics cannot be grown."""
    if not mirror.grow:
        return
    if not expected(target.version).describes_itself:
        yield f"mirror.target.grow.partitions: brokers of target.version {target.version} decide their own number"
    elif not target.zookeeper and target.version and CREATE_PARTITIONS.key not in expected(target.version).versions:
        yield (
            f"mirror.target.grow.partitions: brokers of target.version {target.version} have no request for it (1.0 "
            "and later have), and target.zookeeper.connect, through which it is done before, is not given"
        )
    if mirror.partitioning == "key":
        yield (
            "mirror.target.grow.partitions with mirror.partitioning key: with more partitions keys would move to "
            "others; leave one of the two out"
        )


def _not_followed(target: TargetOptions, mirror: MirrorOptions) -> Iterator[str]:
    """Yield why the offsets of groups cannot be kept in the target as the options say."""
    if not mirror.groups:
        return
    stores = mirror.group_stores(target)
    if "zookeeper" in stores and not target.zookeeper:
        yield f"mirror.groups.store {mirror.groups_store} needs 'target.zookeeper.connect'"
    if "kafka" in stores and not expected(target.version).keeps_offsets:
        yield (
            f"mirror.groups: brokers of target.version {target.version} keep no offsets; give "
            "'target.zookeeper.connect' and groups.store: zookeeper"
        )


def _feeds_itself(chosen: Selection, target: TargetOptions, map_topic: str) -> Iterator[str]:
    """Yield sentences saying why a source in the target's own cluster cannot be mirrored, as far as the files alone
    show it.

    chosen: the topics mirrored from this source.  map_topic: the topic of its offset map, or "" if it has none.
    """
    same = f"zookeeper.connect and target.zookeeper.connect name the same cluster ({target.zookeeper})"
    if not chosen.changes_names:
        yield f"{same}: a mirror into its own source never ends; topic.prefix or topic.rename gives topics another name"
    elif sentence := chosen.certainly_fed_back():
        yield f"{same}: {sentence}"
    elif map_topic and chosen.selects(map_topic):
        yield f"{same}: offset.map.topic {map_topic} would be mirrored, and its messages be mapped again: blacklist it"


def _left_out(mirror: MirrorOptions) -> Iterator[str]:
    """Yield sentences about policies that leave messages out of the target."""
    given = mirror.policies_given
    if "skip" in given:
        places = ", ".join(sorted(given["skip"]))
        yield f"skip ({places}): such messages are not in the target; they are counted and logged"
    if "dead-letter" in given:
        places = ", ".join(sorted(given["dead-letter"]))
        yield f"dead-letter ({places}): such messages are in {mirror.dead_letter_topic}, not in their topic"


def _mismatched(source: SourceOptions, target: TargetOptions, mirror: MirrorOptions) -> Iterator[str]:
    """Yield sentences saying why source and target do not fit together."""
    here, there = expected(source.version), expected(target.version)
    if here.has_keys and not there.has_keys:
        yield (
            f"version {here.release} into target.version {there.release} is refused: keys and null values have no "
            "place in Kafka 0.7; a mirror goes from 0.7 to 0.7 or to any later release"
        )
        return
    if source.broker_partitions and not here.partitions_by_broker:
        yield f"'broker.partitions' numbers partitions of 0.7; those of {here.release} have numbers of their own"
    elif source.broker_partitions and there.partitions_by_broker:
        yield f"'broker.partitions' has no use: partitions of target.version {target.version} have no numbers"
    elif source.broker_partitions and mirror.partitioning == "key":
        yield "'broker.partitions' has no use where mirror.partitioning is key"
    elif source.broker_partitions and target.partitioner and mirror.handler + mirror.set_handler:
        yield "'broker.partitions' has no use where partitioner.class chooses by the keys that a handler makes"
    elif mirror.partitioning == "identity" and here.partitions_by_broker and not source.broker_partitions:
        yield (
            f"mirror.partitioning identity: partitions of version {source.version} have no numbers to be kept; give "
            "'broker.partitions' (such as 0:2,1:3), or leave it auto: all of a source partition goes to one partition"
        )


def _read_twice(sources: Sequence[SourceOptions]) -> list[str]:
    """Return sentences about pairs of sources that are the same cluster."""
    sentences = []
    for one, other in combinations(sources, 2):
        shared = {*one.brokers} & {*other.brokers} if one.coordinated and other.coordinated else ()
        if shared or loops(one.zookeeper_connect, other.zookeeper_connect):
            where = ", ".join(f"{host}:{port}" for host, port in sorted(shared)) or other.zookeeper_connect
            both = f"sources {one.name} and {other.name} read the same cluster ({where})"
            if one.group_id == other.group_id:
                sentences.append(f"{both} in the same group: keep one; num.streams gives it more streams")
            else:
                sentences.append(f"{both} in two groups: each message would be delivered twice; keep one")
    return sentences


def _without_keys(source: SourceOptions, target: TargetOptions, mirror: MirrorOptions) -> Iterator[str]:
    """Yield sentences about partitioners that never see a key because the source has no keys."""
    if (
        expected(source.version).has_keys
        or mirror.handler
        or mirror.set_handler
        or not expected(target.version).has_keys
    ):
        return
    for chosen in Partitioners(target, mirror).used:
        if chosen.name and chosen.of_key is not None:
            yield (
                f"partitioner.class {chosen.name} of the target has no effect for it: messages of {source.version} "
                "have no keys; message.handler may make some"
            )


def _named(source: SourceOptions, name: str) -> SourceOptions:
    named = replace(source, name=name)
    object.__setattr__(named, "_given", given(source))  # needed because options are compared with what the file gave
    return named


def _place(number: int, sources: Sequence[SourceOptions]) -> str:
    return f"source{number}" if len(sources) > 1 else "source"


def _idle(file: Translated | None, idle: Mapping[str, str], where: str, at: str) -> Iterator[str]:
    """Yield sentences about options without effect: one for each YAML option, one for all keys of a JVM file."""
    if file is None:
        for key, why in idle.items():
            yield f"{at}: option '{key}' has no effect {why}"
        return
    if file.taken:
        yield f"{where}: {taken_line(file.taken)}"
    ignored = file.ignored | {key: why.removeprefix("here: ") for key, why in idle.items()}
    if ignored:
        yield f"{where}: {ignored_line(ignored)}"


def _overruled(source: SourceOptions) -> dict[str, str]:
    """Return the options of a source that a mirror overrides, each with the reason."""
    found = {}
    if not source.auto_commit:
        found["auto.commit.enable"] = "here: a mirror always commits what is acknowledged"
    if source.consumer_timeout_ms != -1:
        found["consumer.timeout.ms"] = "here: a mirror waits for messages for ever"
    if "auto.commit.interval.ms" in given(source):
        found["auto.commit.interval.ms"] = "here: see mirror.offset.commit.interval.ms"
    return found


def _as_run(source: SourceOptions, mirror: MirrorOptions) -> SourceOptions:
    return replace(source, auto_commit=True, consumer_timeout_ms=-1, auto_commit_interval_ms=mirror.commit_interval_ms)


def _unsafe(source: SourceOptions) -> list[str]:
    """Return sentences about source settings that are allowed but can lose messages or disturb a stop."""
    sentences = []
    if source.auto_offset_reset == "largest":
        skips = "messages written before the first start, or lost to retention, are skipped"
        sentences.append(f"auto.offset.reset=largest: {skips}")
    if source.rebalance_drain_ms > LONGEST_DRAIN_MS:
        sentences.append(
            f"rebalance.drain.ms={source.rebalance_drain_ms}: a stop still ends within 10 s, and if "
            f"draining takes all of it, nothing more is committed; use at most {LONGEST_DRAIN_MS}"
        )
    return sentences


# Producer options that a mirror does not have, each with the reason.
TARGET_OVERRULED = {
    "message.send.max.retries": "a mirror retries for ever, and commits nothing meanwhile",
    "delivery.timeout.ms": "a mirror retries for ever, and commits nothing meanwhile",
    "queue.buffering.max.messages": "memory is bounded by queued.max.bytes of the source",
    "queue.buffering.max.bytes": "memory is bounded by queued.max.bytes of the source",
    "queue.enqueue.timeout.ms": "what cannot be sent yet is not fetched either",
    "metrics.enable": "the status line shows what the target takes; in `sources` it is an option",
    "callback.handler": "message.handler of the mirror is the place for a program's own code",
    "event.handler": "message.handler of the mirror is the place for a program's own code",
    "producer.type": "sending is always asynchronous, and nothing is committed before it is acknowledged",
    "confirm": "into 0.7 nothing is committed before it is confirmed; later releases acknowledge",
}
UNKEYED = "without keys all messages of a source partition go to one target partition"


def _without_effect(target: TargetOptions, mirror: MirrorOptions) -> dict[str, str]:
    """Return the target options that have no effect in a mirror, each with the reason."""
    found = {key: f"here: {why}" for key, why in TARGET_OVERRULED.items() if key in given(target)}
    decided = [target.partitioner, *(override.partitioner for override in mirror.overrides)]
    if target.unkeyed and mirror.partitioning != "key" and not any(decided):
        found["unkeyed.partitioner"] = f"here: {UNKEYED}, unless partitioner.class or mirror.partitioning key is given"
    return found


def _counted_acks(target: TargetOptions, at: str) -> Iterator[str]:
    if target.acks > 1 and expected(target.version).answers_produce:
        yield (
            f"{at}: request.required.acks={target.acks} is taken as -1, all in-sync replicas (0.9 and later refuse a "
            "number); min.insync.replicas of the target says how few may be in sync"
        )


def _target(target: TargetOptions, problems: list[str], notes: list[str], where: str) -> TargetOptions:
    """Return the target as it runs: retries forever, and is acknowledged by all in-sync replicas unless the file says
    otherwise."""
    at = f"{where}: target"
    if not expected(target.version).answers_produce:
        notes.append(
            f"{at}: target.version {target.version} acknowledges nothing: what is confirmed was handled by its broker, "
            "and is lost if that dies before it flushes (log.flush.interval)"
        )
    elif target.acks == 0:
        problems.append(
            f"{at}: request.required.acks=0 is refused: what is not acknowledged could never be committed; use -1"
        )
    elif target.acks == 1:
        notes.append(
            f"{at}: request.required.acks={target.acks}: a leader that fails loses what only it has; -1 is safe"
        )
    return replace(target, retries=-1, acks=target.acks if target.acks <= 1 else -1)


def _left_to_auto_creation(target: TargetOptions, where: str) -> Iterable[str]:
    """Yield a sentence if the mirror creates no topics.  If no release is named, the brokers are asked once the mirror
    runs."""
    there = expected(target.version)
    if target.version and not target.zookeeper and there.describes_itself and CREATE_TOPICS.key not in there.versions:
        yield (
            f"{where}: target: target.zookeeper.connect is not given: the target's auto-creation decides the partition "
            "count of topics that are missing there"
        )


def route_rules(
    source: SourceOptions,
    target: TargetOptions,
    mirror: MirrorOptions,
    *,
    here: Dialect | None = None,
    there: Dialect | None = None,
) -> RouteRules:
    """Return the rules that the options give for routes from a source into the target.

    here, there: the dialects that the brokers of source and target reported; None to use the options.
    """
    into = there or expected(target.version)
    if mirror.exactly_once or target.idempotence:
        into = into.batches_only()  # sets of older formats, which brokers up to 3.9 accept, have no sequence numbers
    return RouteRules(
        source=here or expected(source.version),
        target=into,
        message_max_bytes=target.message_max_bytes,
        partitioning=mirror.partitioning,
        numbering=source.broker_partitions,
        codec="" if target.codec == "none" else target.codec,
        compressed_topics=target.compressed_topics,
        handler=mirror.handler,
        set_handler=mirror.set_handler,
        partitioner=Partitioners(target, mirror).of,
        encoders=encoders_of(target),
        of_topic=mirror.for_topic,
        grow=mirror.grow,
        drop=frozenset(mirror.drop_fields),
    )


def selection(source: SourceOptions, mirror: MirrorOptions, sources: Iterable[SourceOptions]) -> Selection:
    """Return which topics of a source are mirrored, and under which names.  `sources` holds all sources of the
    mirror."""
    return Selection(
        source=source.name,
        whitelist=mirror.whitelist,
        blacklist=mirror.blacklist,
        reserved=mirror.reserved_topics,
        exclude_internal=source.exclude_internal_topics,
        rename=source.topic_rename,
        shared_rename=mirror.topic_rename,
        prefix=source.topic_prefix,
        overrides=tuple(Override(one.topics, one.options) for one in mirror.overrides),
        own=mirror.own_topics(each.name for each in sources),
    )


def loops(source: str, target: str) -> bool:
    """True if two ZooKeeper connect strings name the same path of one ensemble (they have at least one server in
    common)."""
    source_servers, source_path = servers(source)
    target_servers, target_path = servers(target)
    return source_path == target_path and bool(source_servers & target_servers)


def servers(connect: str) -> tuple[frozenset[str], str]:
    """Return the servers of a connect string, each with its port, and the chroot."""
    if not connect:
        return frozenset(), ""
    found = parse_connect(connect)
    return frozenset(f"{host.lower()}:{port}" for host, port in found.servers), found.chroot
