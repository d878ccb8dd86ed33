"""What a mirror is told: sources, a target, and what goes on between them.  Reads files; connects to nothing.

    from_yaml     sections `sources` (a list), `target`, `mirror`
    from_flags    the original's way: --consumer.config (repeatable), --producer.config and flags

Everything that is wrong is found before ConfigError is raised.  What is allowed and unsafe is in Configuration.notes, a
sentence each.  A mirror starts at the smallest offset and waits for all in-sync replicas, unless a file says otherwise by
name; acks 0 is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from groundwork.java import read_properties
from groundwork.options import OptionError, Options, given, load, specs, warnings_of
from mirrormaker.options import File, Mirror, Source, Target

O = TypeVar("O", bound=Options)  # noqa: E741  # as groundwork.options names it


class ConfigError(Exception):
    """What is wrong with a configuration; .problems has a sentence each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


@dataclass(frozen=True, slots=True)
class Configuration:
    """A whole mirror.  warnings: keys without effect; notes: what is allowed and unsafe.  Sentences."""

    sources: tuple[Source, ...]
    target: Target
    mirror: Mirror
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


# ---- from files -----------------------------------------------------------------------------------------------


def from_yaml(path: Path) -> Configuration:
    """The mirror a YAML file describes.  Raises ConfigError."""
    where = path.name
    try:
        values = yaml.safe_load(_text(path))
    except yaml.YAMLError as exc:
        raise ConfigError([f"{where}: not YAML: {' '.join(str(exc).split())}"]) from exc
    if not isinstance(values, Mapping):
        raise ConfigError([f"{where}: expected the sections sources, target and mirror"])
    file = _load(File, values, where)
    return _checked(file.sources, file.target, file.mirror, tuple(warnings_of(file)), where)


def from_flags(consumers: Sequence[Path], producer: Path | None, flags: Mapping[str, str]) -> Configuration:
    """The mirror that the original's flags describe; flags are options of section `mirror`.  Raises ConfigError."""
    problems: list[str] = []
    if not consumers:
        problems.append("--consumer.config is missing: a source's .properties, one for each source")
    if producer is None:
        problems.append("--producer.config is missing: the target's .properties")
    sources: list[Source] = []
    target: Target | None = None
    mirror: Mirror | None = None
    for path in consumers:
        sources += _attempt(Source, path, problems)
    if producer is not None:
        target = next(iter(_attempt(Target, producer, problems)), None)
    try:
        mirror = load(Mirror, flags, "command line", jvm=True)
    except OptionError as exc:
        problems += exc.problems
    if problems or target is None or mirror is None:
        raise ConfigError(problems)
    loaded: list[Options] = [*sources, target, mirror]
    warnings = [warning for options in loaded for warning in warnings_of(options)]
    return _checked(tuple(sources), target, mirror, tuple(warnings), "command line")


def _attempt(cls: type[O], path: Path, problems: list[str]) -> list[O]:
    try:
        return [load(cls, read_properties(_text(path)), path.name, jvm=True)]
    except (OptionError, ConfigError) as exc:
        problems += exc.problems
    except ValueError as exc:
        problems.append(f"{path.name}: {exc}")
    return []


def _load(cls: type[O], values: Mapping[str, object], where: str) -> O:
    try:
        return load(cls, values, where)
    except OptionError as exc:
        raise ConfigError(exc.problems) from exc


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as exc:
        raise ConfigError([f"{path}: cannot be read: {exc.strerror}"]) from exc
    except UnicodeDecodeError as exc:
        raise ConfigError([f"{path}: byte {exc.start} is no UTF-8"]) from exc


# ---- what holds between the parts -----------------------------------------------------------------------------

# What the mirror sets in every source, whatever the file says, and why.
OURS = (
    ("auto.commit.enable", True, "a mirror always commits what the target acknowledged"),
    ("consumer.timeout.ms", -1, "a mirror waits for messages for ever"),
)


def _checked(
    sources: tuple[Source, ...], target: Target, mirror: Mirror, warnings: tuple[str, ...], where: str
) -> Configuration:
    """The parts as they are run: names and the mirror's own settings filled in.  Raises ConfigError."""
    problems: list[str] = []
    notes: list[str] = []
    ready: list[Source] = []
    if not sources:
        problems.append(f"{where}: sources is empty: a mirror needs at least one")
    for number, source in enumerate(sources, 1):
        name = source.name or (f"source{number}" if len(sources) > 1 else "source")
        at = f"{where}: source {name}"
        warnings += tuple(
            f"{at}: option '{key}' has no effect here: {why}"
            for key, ours, why in OURS
            if key in given(source) and value(source, key) != ours
        )
        notes += [f"{at}: {note}" for note in unsafe_source(source)]
        if loops(value(source, "zookeeper.connect"), target.zookeeper):
            problems.append(
                f"{at}: zookeeper.connect and target.zookeeper.connect name the same cluster "
                f"({target.zookeeper}): a mirror into its own source never ends"
            )
        ready.append(_as_run(source, name, mirror))
    if len({source.name for source in ready}) < len(ready):
        problems.append(f"{where}: two sources have the same name; logs and status could not tell them apart")
    target = _acknowledged(target, problems, notes, where)
    if not target.zookeeper:
        notes.append(
            f"{where}: target.zookeeper.connect is not given: the target's auto-creation decides the partition count "
            "of topics that are missing there"
        )
    if problems:
        raise ConfigError(problems)
    return Configuration(tuple(ready), target, mirror, warnings, tuple(notes))


def _as_run(source: Source, name: str, mirror: Mirror) -> Source:
    """The source with the mirror's own settings; it starts at the smallest offset unless told otherwise by name."""
    changes: dict[str, Any] = {key: ours for key, ours, _ in OURS}
    changes["auto.commit.interval.ms"] = mirror.commit_interval_ms
    if "auto.offset.reset" not in given(source):
        changes["auto.offset.reset"] = "smallest"
    fields = {spec.key: field for field, spec in specs(type(source)).items()}
    return replace(source, name=name, **{fields[key]: new for key, new in changes.items()})


def unsafe_source(source: Source) -> list[str]:
    """Settings of a source that are allowed and can cost messages: a sentence each."""
    if "auto.offset.reset" in given(source) and value(source, "auto.offset.reset") == "largest":
        return ["auto.offset.reset=largest: messages written before the first start, or lost to retention, are skipped"]
    return []


def _acknowledged(target: Target, problems: list[str], notes: list[str], where: str) -> Target:
    """The target with the acknowledgements a mirror needs: all in-sync replicas unless told otherwise."""
    key = "request.required.acks"
    acks = value(target, key) if key in given(target) else -1
    if acks == 0:
        problems.append(
            f"{where}: {key}=0 is refused: without an acknowledgement nothing may ever be committed; use -1"
        )
    elif acks != -1:
        notes.append(f"{where}: {key}={acks}: what a target leader acknowledged alone is lost with it; -1 is safe")
    fields = {spec.key: field for field, spec in specs(type(target)).items()}
    return replace(target, **{fields[key]: acks})


def value(options: Options, key: str) -> Any:
    """The value of an option by its key."""
    [field] = [name for name, spec in specs(type(options)).items() if spec.key == key]
    return getattr(options, field)


def loops(source: str, target: str) -> bool:
    """Whether two ZooKeeper connect strings name the same path of one ensemble (at least one server in common)."""
    source_servers, source_path = servers(source)
    target_servers, target_path = servers(target)
    return source_path == target_path and bool(source_servers & target_servers)


def servers(connect: str) -> tuple[frozenset[str], str]:
    """The servers of a connect string, each with its port, and the chroot."""
    hosts, _, chroot = connect.strip().partition("/")
    named = [host.strip().lower() for host in hosts.split(",") if host.strip()]
    return frozenset(host if re.search(r":\d+$", host) else f"{host}:2181" for host in named), chroot.strip("/")
