"""Reload: which changes of a configuration take effect while the mirror runs, and which wait for a restart.

Only where offsets are kept may change: offsets.storage and dual.commit.enabled of a source, one step at a time.
Everything else is logged by name and left as it is.  Values are not shown: some are secret.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from groundwork.options import Options, specs
from mirrormaker.config import ConfigError, Configuration
from mirrormaker.options import SourceOptions
from mirrormaker.source import Source
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.modes import Mode

log = logging.getLogger(__name__)

AT_RUNTIME = frozenset({"offsets.storage", "dual.commit.enabled"})


@dataclass(frozen=True, slots=True)
class Reload:
    """modes: the offset mode wanted of each source that runs, by name.  left: a sentence for each change that waits."""

    modes: dict[str, Mode]
    left: tuple[str, ...]


def reload(running: Configuration, read: Configuration) -> Reload:
    """What a configuration that was read again changes; running is what the mirror was started with."""
    before = {source.name: source for source in running.sources}
    after = {source.name: source for source in read.sources}
    left = [f"source {name} is new; it is mirrored" for name in after.keys() - before.keys()]
    left += [f"source {name} is not there any more; it ends" for name in before.keys() - after.keys()]
    for name in before.keys() & after.keys():
        left += [f"source {name}: option '{key}' has changed; it takes effect" for key in _moved(before, after, name)]
    left += [f"target: option '{key}' has changed; it takes effect" for key in _changed(running.target, read.target)]
    left += [f"mirror: option '{key}' has changed; it takes effect" for key in _changed(running.mirror, read.mirror)]
    modes = {name: source.offset_mode for name, source in after.items() if name in before}
    return Reload(modes, tuple(f"{sentence} after a restart only" for sentence in sorted(left)))


def reload_into(sources: Sequence[Source], running: Configuration, read: Callable[[], Configuration]) -> None:
    """Read it and apply what may change; each change that was made, left or refused is a line of the log."""
    try:
        changes = reload(running, read())
    except ConfigError as e:
        for problem in e.problems:
            log.error("the configuration is left as it is: %s", problem, extra={"always": True})
        return
    for sentence in changes.left:
        log.warning("%s", sentence, extra={"always": True})
    switched = 0
    for source in sources:
        mode = changes.modes.get(source.name)
        if mode is None:
            continue
        try:
            switched += source.switch_offsets(mode)
        except ConsumerError as e:
            log.error("source %s: %s", source.name, e, extra={"always": True})
    log.info("configuration read again: %d sources keep their offsets elsewhere now", switched)


def _moved(before: dict[str, SourceOptions], after: dict[str, SourceOptions], name: str) -> Iterator[str]:
    return (key for key in _changed(before[name], after[name]) if key not in AT_RUNTIME)


def _changed(before: Options, after: Options) -> Iterator[str]:
    """Keys of options that differ."""
    for field, spec in specs(type(before)).items():
        if getattr(before, field) != getattr(after, field):
            yield spec.key
