"""Decides which changes of a configuration take effect while the mirror runs.  Pure; mirrormaker.reload applies them.

at runtime    topics, renames and prefixes, overrides, partitioning, codec, the handler, policies for bad messages,
              the log level, and where a source keeps its offsets (one step at a time)
at a restart  all other options; the log names them, and they stay unchanged.  Values are not shown: some are secret
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from groundwork.options import Options, specs
from mirrormaker.config import Configuration
from mirrormaker.options import MirrorOptions, SourceOptions, TargetOptions
from zkconsumer.offsets.modes import Mode

NOT_RELOADED = "SIGHUP changes nothing any more: the mirror stops"  # a log line
O = TypeVar("O", bound=Options)  # noqa: E741  # as groundwork.options names it

OF_SOURCE = frozenset({"offsets.storage", "dual.commit.enabled", "topic.rename", "topic.prefix"})
OF_TARGET = frozenset({"compression.codec", "compressed.topics"})
OF_MIRROR = frozenset(
    {
        "whitelist",
        "blacklist",
        "reserved.topics",
        "topic.rename",
        "topic.overrides",
        "partitioning",
        "target.grow.partitions",
        "drop.fields",
        "message.handler",
        "message.set.handler",
        "log.level",
        "oversize.policy",
        "corrupt.policy",
        "undecodable.policy",
        "handler.error.policy",
        "refused.policy",
    }
)
# resume: target-end compares source and target at each start by topic name, so the mapping of names must not change at
# runtime.
NOT_WITH_TARGET_END = frozenset({"topic.rename", "topic.prefix", "topic.overrides", "partitioning"})


@dataclass(frozen=True, slots=True)
class Reload:
    """Result of comparing two configurations.

    configuration: the configuration to run next.  changed: keys that take effect, each with its section.  left: a
    sentence for each change that waits for a restart.  modes: the requested offset mode of each running source, by
    name.
    """

    configuration: Configuration
    changed: tuple[str, ...]
    left: tuple[str, ...]
    modes: dict[str, Mode]


def decide(running: Configuration, read: Configuration) -> Reload:
    """Compare the configuration that was read again with the running one, and return what changes."""
    at_runtime = (OF_SOURCE, OF_TARGET, OF_MIRROR)
    if running.mirror.resume == "target-end":
        at_runtime = (OF_SOURCE - NOT_WITH_TARGET_END, OF_TARGET, OF_MIRROR - NOT_WITH_TARGET_END)
    of_source, of_target, of_mirror = at_runtime
    after = {source.name: source for source in read.sources}
    names = {source.name for source in running.sources}
    left = [f"source {name} is new; it is mirrored" for name in after.keys() - names]
    left += [f"source {name} is not there any more; it ends" for name in names - after.keys()]
    changed: list[str] = []
    sources: list[SourceOptions] = []
    for source in running.sources:
        there = after.get(source.name, source)
        sources.append(_merged(source, there, of_source, f"source {source.name}", changed=changed, left=left))
    target: TargetOptions = _merged(running.target, read.target, of_target, "target", changed=changed, left=left)
    mirror: MirrorOptions = _merged(running.mirror, read.mirror, of_mirror, "mirror", changed=changed, left=left)
    return Reload(
        replace(running, sources=tuple(sources), target=target, mirror=mirror),
        tuple(sorted(changed)),
        tuple(f"{sentence} after a restart only" for sentence in sorted(left)),
        {source.name: source.offset_mode for source in sources},
    )


def _merged(before: O, after: O, at_runtime: frozenset[str], section: str, *, changed: list[str], left: list[str]) -> O:
    """Return the options of one section to run next; append to the lists what changed and what is left for a
    restart."""
    taken: dict[str, Any] = {}
    for field, key in _differing(before, after):
        if key in at_runtime:
            taken[field] = getattr(after, field)
            changed.append(f"{section}: {key}")
        else:
            left.append(f"{section}: option '{key}' has changed; it takes effect")
    merged: O = replace(cast(Any, before), **taken)
    return merged


def _differing(before: Options, after: Options) -> Iterator[tuple[str, str]]:
    """Yield fields and keys of the options that differ."""
    for field, spec in specs(type(before)).items():
        if getattr(before, field) != getattr(after, field):
            yield field, spec.key
