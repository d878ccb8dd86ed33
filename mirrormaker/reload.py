"""Reload: applies changes of the configuration while the mirror runs.

    at runtime    topics, renames and prefixes, overrides, partitioning, codec, the handler, policies for bad messages,
                  the log level, and where a source keeps its offsets (one step at a time)
    at a restart  all other options; the log names them, and they stay unchanged.  Values are not shown: some are secret

    decide()      pure, in changes.py: which changes to the running configuration the file contains
    Reloads       reads and applies a configuration, and keeps the result of the last reload

A configuration that is wrong, or names a handler that cannot be loaded, changes nothing at all.  A change never stops a
partition that it does not concern: a topic whose route changes waits until what is in flight for it is acknowledged, a
topic that is no longer mirrored is drained, committed and released.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from groundwork.logs import set_level
from groundwork.named import NotLoaded, file_of, load_again, load_named
from groundwork.options import OptionError
from groundwork.tasks import TaskGroup, sleep
from kafkawire.dialects import Dialect
from mirrormaker.changes import Reload, decide
from mirrormaker.config import Configuration, route_rules
from mirrormaker.configfile import read_settled
from mirrormaker.flow import Flow
from mirrormaker.handler import MessageHandler
from mirrormaker.options import MirrorOptions
from mirrormaker.report import ReloadReport, waiting
from mirrormaker.sethandler import SetHandler
from mirrormaker.source import Source
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.modes import Mode

log = logging.getLogger(__name__)

HANDLER, SET_HANDLER = "message.handler", "message.set.handler"
REBALANCE_S = 10.0  # longest wait for the group; it rebalances in any case


@dataclass(frozen=True, slots=True)
class LoadedHandler:
    """Loaded message.handler or message.set.handler.  option: which of the two; named: its configured name."""

    option: str
    named: str
    function: Callable[..., Any]

    def of_flow(self, source: str, target: Dialect) -> MessageHandler | SetHandler:
        """Return the handler of one flow, with counts of its own."""
        kind = MessageHandler if self.option == HANDLER else SetHandler
        return kind(self.function, self.named, source, target)


def handler_of(
    mirror: MirrorOptions, load: Callable[[str, str], Callable[..., Any]] = load_named
) -> LoadedHandler | None:
    """Return the handler that the options name, or None.  Raises NotLoaded."""
    for option, named in ((HANDLER, mirror.handler), (SET_HANDLER, mirror.set_handler)):
        if named:
            return LoadedHandler(option, named, load(option, named))
    return None


class ReloadRefused(Exception):
    """Raised when nothing is changed; `.problems` has a sentence for each problem."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)


@dataclass(frozen=True, slots=True)
class PreparedReload:
    """Configuration that was read again and can take effect, with its handler loaded."""

    reload: Reload
    handler: LoadedHandler | None


class Reloads:
    """Reloads of one mirror.

    read: reads the configuration from its files again.  flows: the running flows; more may be added.  changed(): called
    once there is a new configuration, before any flow changes.  last: the result of the last reload, or None.
    """

    def __init__(
        self,
        configuration: Configuration,
        read: Callable[[], Configuration],
        *,
        sources: Sequence[Source],
        flows: Sequence[Flow],
        tasks: TaskGroup,
        changed: Callable[[], object],
    ) -> None:
        self.configuration = configuration
        self.handler = handler_of(configuration.mirror)
        self.last: ReloadReport | None = None
        self._pending: tuple[str, ...] = ()
        self._read = read
        self._sources = sources
        self._flows = flows
        self._tasks = tasks
        self._changed = changed

    def reload(self) -> ReloadReport:
        """Read the configuration and apply what may change; log a line for each change that was made, left or
        refused."""
        try:
            prepared = self.prepare()
        except ReloadRefused as refused:
            return self._ended(refused.problems)
        return self.apply(prepared)

    def apply(self, prepared: PreparedReload) -> ReloadReport:
        """Apply what prepare() found."""
        return self._ended(list(self._apply(prepared)))

    def _ended(self, problems: Sequence[str]) -> ReloadReport:
        at_ms = int(time.time() * 1000)
        self.last = ended = ReloadReport(at_ms=at_ms, problem="; ".join(problems), pending=self._pending)
        for problem in problems:
            log.error("%s", problem, extra={"always": True, "event": "reload-failed"})
        return ended

    def prepare(self) -> PreparedReload:
        """Read the configuration without changing anything yet.  Raises ReloadRefused."""
        try:
            reload = decide(self.configuration, read_settled(self.configuration.files, self._read, sleep))
        except OptionError as e:
            raise ReloadRefused([f"the configuration is left as it is: {problem}" for problem in e.problems]) from e
        mirror = reload.configuration.mirror
        if unfit := list(mirror.problems()):  # checked with the options that stay unchanged
            raise ReloadRefused([f"the configuration is left as it is: mirror: {problem}" for problem in unfit])
        try:
            files = [file for named in (mirror.handler, mirror.set_handler) if (file := file_of(named)) is not None]
            return PreparedReload(reload, read_settled(files, lambda: handler_of(mirror, load_again), sleep))
        except (NotLoaded, OptionError) as e:
            raise ReloadRefused([f"the configuration is left as it is: {e}"]) from e

    def _apply(self, prepared: PreparedReload) -> Iterator[str]:
        """Apply the changes; yield sentences about what went wrong."""
        reload, handler = prepared.reload, prepared.handler
        mirror = reload.configuration.mirror
        changed = list(reload.changed)
        if handler != self.handler and not {"mirror: message.handler", "mirror: message.set.handler"} & set(changed):
            changed.append("the code of the handler")
        before, self.configuration, self._pending = self.configuration, reload.configuration, reload.left
        self.handler = handler
        if mirror.log_level != before.mirror.log_level:
            set_level(mirror.log_level)
        for sentence in reload.left:
            log.warning("%s", sentence, extra={"always": True, "event": "configuration"})
        for source in self._sources:
            source.options = next(one for one in self.configuration.sources if one.name == source.name)
        self._changed()
        for flow in self._flows:
            self._change_flow(flow)
        problems = [*self._switch_offsets(reload.modes)]
        if mirror.topics.registration(1) != before.mirror.topics.registration(1):
            problems += self._change_filters()
        yield from problems
        if not problems:
            what = f"changed: {', '.join(changed)}" if changed else "nothing that may change has changed"
            waits = f"; {waiting(reload.left)}" if reload.left else ""
            log.info("configuration read again; %s%s", what, waits, extra={"always": True, "event": "reload-ok"})

    def _change_flow(self, flow: Flow) -> None:
        source, target, mirror = flow.source.options, self.configuration.target, self.configuration.mirror
        handler = self.handler.of_flow(flow.name, flow.target.dialect) if self.handler is not None else None
        rules = route_rules(source, target, mirror, here=flow.source.dialect, there=flow.target.dialect)
        flow.change(rules, self.configuration.selection(source), handler)
        flow.quarantine.policies = cache(mirror.policies)

    def _switch_offsets(self, modes: dict[str, Mode]) -> Iterator[str]:
        for source in self._sources:
            if not source.joined:
                continue
            try:
                if source.switch_offsets(modes[source.name]):
                    log.info(
                        "source %s: offsets are kept elsewhere from now on", source.name, extra={"source": source.name}
                    )
            except ConsumerError as e:
                yield f"source {source.name}: {e}"

    def _change_filters(self) -> list[str]:
        """Subscribe all sources to the configured topics at the same time; return sentences about what went wrong."""
        problems: list[str] = []
        topics = self.configuration.mirror.topics

        def change(source: Source) -> None:
            try:
                if not source.change_topics(topics, REBALANCE_S):
                    late = f"the group did not agree on the changed topics within {REBALANCE_S:g} s"
                    problems.append(f"source {source.name}: {late}; still trying")
            except ConsumerError as e:
                problems.append(f"source {source.name}: {e}")

        changing = [
            self._tasks.spawn(f"topics-{source.name}", change, source) for source in self._sources if source.joined
        ]
        for task in changing:
            task.join()
        return problems
