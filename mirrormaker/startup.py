"""Start of a mirror: probes its clusters, joins its sources.  Each source starts in a task of its own.

    target     answers metadata within start.timeout.ms, else StartRefused
    a source   probed -> not the target's cluster -> its offset map is open -> joined -> first assignment
    run()      returns once every source has its first assignment, or was unreachable for start.timeout.ms while
               another one runs

An unreachable source is retried until it answers.  An error in the configuration refuses the start.  If it is found in
a source that answers late, it refuses only that source: others flow, and it is retried less and less often.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from groundwork.tasks import TaskGroup, now, sleep
from groundwork.threads import NoThread
from kafkawire.cluster.metadata import Unreachable
from kafkawire.cluster.view import ClusterView
from kafkawire.errors import WireError
from kafkawire.model import Broker
from mirrormaker import exits
from mirrormaker.config import Configuration, selection
from mirrormaker.exactlyonce.requirements import NoTransactions
from mirrormaker.flow import Flow
from mirrormaker.formatlosses import timestamps_lost
from mirrormaker.losses import Losses
from mirrormaker.offsetmap.file import MapUnwritable
from mirrormaker.offsetmap.maps import OffsetMaps
from mirrormaker.options import MirrorOptions
from mirrormaker.probe import (
    NoBrokers,
    OtherCluster,
    SourceView,
    no_topic_matches,
    probe_source,
    probe_target,
    probe_target_zookeeper,
    same_cluster,
    target_brokers,
)
from mirrormaker.selection import never_ends
from mirrormaker.source import Source
from mirrormaker.target import Target
from mirrormaker.zookeeper import CONNECT_S
from zkconsumer.errors import ConsumerError
from zkconsumer.errors import Unreachable as ZooKeeperUnreachable

log = logging.getLogger(__name__)
T = TypeVar("T")

RETRY_S = 0.5
LATE_RETRY_S = 10.0  # longest pause between tries of a source that is out of reach for longer than start.timeout.ms
REFUSED_RETRY_S = 60.0  # longest pause between tries of a source with an invalid configuration
FIRST_ASSIGNMENT_S = 60.0  # READY waits no longer: a foreign claim may block one partition forever
OUT_OF_REACH = (Unreachable, ZooKeeperUnreachable, NoBrokers)


class StartRefused(Exception):
    """Raised when the mirror cannot start; the text is one sentence, `.code` the exit code."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


@dataclass(slots=True)
class _Start:
    """A source that starts.  away: why it did not answer within start.timeout.ms; assigned_by: until then, READY waits
    for it."""

    source: Source
    flow: Flow | None = None
    joined: bool = False
    away: StartRefused | None = None
    assigned_by: float = 0.0

    @property
    def pending(self) -> bool:
        """True if READY waits for it."""
        if self.joined:
            return not self.source.assigned and now() < self.assigned_by
        return self.away is None


class Startup:
    """Start of the sources of a mirror.

    flow(source): makes its flow, once its offset map is open.  begun(flow): called before a flow joins; joined(flow):
    called afterwards.
    """

    def __init__(
        self,
        configuration: Configuration,
        tasks: TaskGroup,
        *,
        target: Target,
        sources: Sequence[Source],
        maps: OffsetMaps,
        flow: Callable[[Source], Flow],
        begun: Callable[[Flow], object],
        joined: Callable[[Flow], object],
    ) -> None:
        self._options = configuration.target
        self._mirror = configuration.mirror
        self._tasks = tasks
        self._target = target
        self._maps = maps
        self._make_flow = flow
        self._begun = begun
        self._joined = joined
        self._starts = [_Start(source) for source in sources]
        self._deadline = 0.0
        self._brokers: Mapping[int, Broker] = {}  # the target's
        self._refused: StartRefused | None = None
        self._warned: set[str] = set()
        self._ready = False
        self._stopping = False

    def run(self) -> None:
        """Return when the mirror is ready.  Raises StartRefused."""
        self._deadline = now() + self._mirror.start_timeout_ms / 1000
        self._brokers = self._probed_target()
        for start in self._starts:
            self._tasks.spawn(f"start-{start.source.name}", self._start, start)
        while self._refused is None and any(start.pending for start in self._starts):
            sleep(0.05)
        if self._refused is not None:
            raise self._refused
        absent = [start.away for start in self._starts if start.away is not None and not start.joined]
        if len(absent) == len(self._starts):
            raise StartRefused(exits.UNREACHABLE, "; ".join(map(str, absent)))
        self._ready = True
        for sentence in absent:
            extra = {"event": "source-absent"}
            log.warning("%s; mirroring the other sources, and this one once it answers", sentence, extra=extra)

    def change(self, mirror: MirrorOptions) -> None:
        """Apply these options to sources that have not joined yet."""
        self._mirror = mirror

    def stop(self) -> None:
        """Prevent sources that have not begun to join from joining."""
        self._stopping = True

    # the target ------------------------------------------------------------------------------------------------------

    def _probed_target(self) -> Mapping[int, Broker]:
        """Return the target's brokers.  Raises StartRefused."""
        found = self._within("target", self._probe_target).brokers
        if self._target.zookeeper is not None:
            self._within("target", self._probe_target_zookeeper)
        try:
            self._maps.check()
        except NoTransactions as exc:
            raise StartRefused(exits.CONFIGURATION, f"target: {exc}") from exc
        except ConsumerError as exc:
            raise StartRefused(exits.CONFIGURATION, f"offset map: {exc}") from exc
        return target_brokers(self._options, found)

    def _probe_target(self) -> ClusterView:
        return probe_target(self._target.topics.view, self._options, self._target.versions)

    def _probe_target_zookeeper(self) -> None:
        """Probe with new metadata each time: right after a restart, the brokers' metadata may have old addresses."""
        probe_target_zookeeper(self._options, self._target.topics.view().brokers, CONNECT_S)

    def _within(self, who: str, attempt: Callable[[], T]) -> T:
        """Return what attempt() returns, retried until the deadline while a cluster is unreachable.  Raises
        StartRefused."""
        warned_at: float | None = None
        while True:
            try:
                found = attempt()
                if warned_at is not None:
                    log.info("%s: answers after %.1f s", who, now() - warned_at, extra={"event": "within-reach"})
                return found
            except (*OUT_OF_REACH, OtherCluster) as exc:
                if now() + RETRY_S > self._deadline:
                    raise self._gave_up(who, exc) from exc
                if warned_at is None:
                    log.warning("%s: %s; trying again", who, exc, extra={"event": "out-of-reach"})
                    warned_at = now()
            except ConsumerError as exc:
                raise StartRefused(exits.CONFIGURATION, f"{who}: {exc}") from exc
            sleep(RETRY_S)

    def _gave_up(self, who: str, reason: Exception) -> StartRefused:
        """Return the error after all retries; brokers that restart are unregistered, or have an old address, only for a
        moment."""
        if isinstance(reason, OtherCluster):
            return StartRefused(exits.CONFIGURATION, f"{who}: {reason}")
        if isinstance(reason, NoBrokers):
            return StartRefused(exits.UNREACHABLE, f"{who}: {reason}")
        limit_s = self._mirror.start_timeout_ms / 1000
        return StartRefused(exits.UNREACHABLE, f"{who} out of reach for {limit_s:g} s: {reason}")

    # a source --------------------------------------------------------------------------------------------------------

    def _start(self, start: _Start) -> None:
        """Start a source, retrying until it is joined or the mirror stops."""
        source, began, pause_s, said = start.source, now(), RETRY_S, ""  # said: last logged reason
        while not self._stopping:
            try:
                self._attempt(start)
            except OUT_OF_REACH as away:
                source.is_out_of_reach(str(away))
                if start.away is None and now() + RETRY_S > self._deadline:
                    start.away = self._gave_up(f"source {source.name}", away)
                longest_s = RETRY_S if start.away is None else LATE_RETRY_S
                level, text = logging.WARNING, f"source {source.name}: {away}; trying again"
                about = "out-of-reach"  # logged once, however the reason changes: the status shows the latest
            except ConsumerError as wrong:
                if self._stopping:
                    return  # its connector was shut down
                if not self._ready:
                    code = exits.STATE_FOLDER if isinstance(wrong.__cause__, MapUnwritable) else exits.CONFIGURATION
                    self._refused = self._refused or StartRefused(code, _of(source, wrong))
                    return
                source.refuse(str(wrong))
                longest_s = REFUSED_RETRY_S
                level = logging.ERROR
                about = text = f"{_of(source, wrong)}; it is not mirrored, the other sources are"
            else:
                if said:
                    extra = {"event": "within-reach", "source": source.name}
                    log.info(
                        "source %s: answers after %.1f s, and is mirrored", source.name, now() - began, extra=extra
                    )
                start.joined = not self._stopping
                return
            if about != said:
                event = "out-of-reach" if level == logging.WARNING else "source-refused"
                log.log(level, "%s", text, extra={"key": text, "event": event, "source": source.name})
                said = about
            sleep(pause_s)
            pause_s = min(2 * pause_s, longest_s)

    def _attempt(self, start: _Start) -> None:
        """Try to start a source once.  Raises the error if a cluster is unreachable, and ConsumerError if the
        configuration is wrong."""
        source = start.source
        view = self._probed(source.options.connect_timeout_ms / 1000, source)
        self._open_map(source)
        if self._stopping:
            return
        if start.flow is None:
            start.flow = self._make_flow(source)
            self._begun(start.flow)
        joined_with = self._mirror
        start.flow.start(joined_with)
        if self._mirror.topics.registration(1) != joined_with.topics.registration(1):
            source.change_topics(self._mirror.topics, 0.0)  # a reload changed them meanwhile
        start.assigned_by = now() + FIRST_ASSIGNMENT_S
        self._joined(start.flow)
        self._tasks.spawn(f"timestamps-{source.name}", self._warn_of_timestamps, source, list(view.brokers.values()))

    def _probed(self, timeout_s: float, source: Source) -> SourceView:
        left_s = self._deadline - now()
        if left_s > 0:
            timeout_s = round(min(timeout_s, max(1.0, left_s)), 1)
        view = probe_source(source.options, self._mirror, timeout_s, source.versions)
        same = same_cluster(view.brokers, self._brokers)
        source.in_target = same is not None
        chosen = selection(source.options, self._mirror, [start.source.options for start in self._starts])
        if same is not None and (sentence := never_ends(chosen, view.topics)):
            raise ConsumerError(f"source {source.name} and the target are one cluster ({same} is in both): {sentence}")
        lost = Losses(source.versions.dialect, self._target.versions.dialect, frozenset(self._mirror.drop_fields))
        if (refusal := lost.refusal(source.name)) is not None:
            raise ConsumerError(refusal)
        if not view.topics:
            self._warn(no_topic_matches(source.options, self._mirror))
        return view

    def _open_map(self, source: Source) -> None:
        try:
            self._maps.open(source)
        except OUT_OF_REACH:
            raise
        except ConsumerError as exc:
            raise ConsumerError(f"offset map: {exc}") from exc
        except (WireError, NoThread) as exc:
            raise Unreachable(f"offset map: {exc}") from exc

    def _warn_of_timestamps(self, source: Source, brokers: Sequence[Broker]) -> None:
        """Warn about lost timestamps in a separate task: the start does not wait for brokers that do not answer."""
        for sentence in timestamps_lost([(source.options, brokers)], self._options, list(self._brokers.values())):
            self._warn(sentence)

    def _warn(self, sentence: str) -> None:
        if sentence not in self._warned:
            self._warned.add(sentence)
            log.warning("%s", sentence, extra={"key": sentence, "event": "configuration"})


def _of(source: Source, wrong: Exception) -> str:
    said = str(wrong)
    return said if said.startswith(f"source {source.name} ") else f"source {source.name}: {said}"
