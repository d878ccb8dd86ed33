"""Source cluster of a mirror: the consumer that reads it, and its state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal, NamedTuple, Protocol

from groundwork.tasks import TaskGroup, deadline
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.dialects import Dialect
from kafkawire.model import PartitionId, Ticket, TopicPartition
from mirrormaker.options import SourceOptions
from mirrormaker.routes import SourceTopic
from zkconsumer.daemonconnector import DaemonConnector
from zkconsumer.engine.status import PartitionStatus
from zkconsumer.errors import ConsumerError
from zkconsumer.events import ConsumerEvent, logger_of
from zkconsumer.fetching.committable import Parked
from zkconsumer.fetching.position import Reset
from zkconsumer.filters import TopicFilter
from zkconsumer.offsets.group import StoreStatus
from zkconsumer.offsets.modes import Mode
from zkconsumer.streams.stream import Stream

ANSWER_S = 15.0  # timeout for an operator's request, who waits 60 s: longer than one silent broker takes


class Share(Protocol):
    """Consumer's view of a fetched set: which ownership it belongs to, and what of it is done."""

    def ticket(self, resume_at: int, parts: int = 1) -> Ticket: ...
    @property
    def period(self) -> object: ...
    @property
    def topic(self) -> int | None: ...
    @property
    def reset(self) -> Reset | None: ...
    @property
    def ended(self) -> Callable[[], bool]: ...
    def holding(self) -> Callable[[], bool]: ...


class SourceState(NamedTuple):
    """State of a source.  joining: no assignment yet; refused: its configuration cannot be right, found after the
    start.

    reason: a clause saying why not all of it flows, or "".
    """

    state: Literal["joining", "running", "out of reach", "refused"]
    reason: str = ""


class Source:
    """Source of a running mirror.  on_fence() is called when its lease is over, so that nothing of it is sent any more.

    copied_settings: names of the topic settings that are copied to target topics.
    """

    def __init__(
        self,
        options: SourceOptions,
        tasks: TaskGroup,
        on_fence: Callable[[], object],
        copied_settings: Collection[str] = (),
    ) -> None:
        self.options = options
        self.name = options.name
        self._log_event = logger_of(f"source {options.name}", options.name)
        self._tasks = tasks
        self._on_fence = on_fence
        self._copied_settings = frozenset(copied_settings)
        self.gaps: dict[str, int] = {}  # messages (of 0.7: bytes) that were deleted before they were read, by topic
        self._paused: dict[str | TopicPartition, bool] = {}
        self._connector: DaemonConnector | None = None
        self._joined = False
        self._absent = SourceState("joining")  # until it is joined
        self.versions = ClusterVersions(options.version, f"source {options.name}")
        self._dialect = self.versions.dialect
        self.in_target = False  # True if its cluster is the target; known once both have been probed

    def join(
        self, topics: TopicFilter, streams: int, before_commit: Callable[[Mapping[TopicPartition, int]], object]
    ) -> list[Stream]:
        """Join the group, and return its streams.  Raises Unreachable (try again), ChrootMissing and ConsumerError."""
        self._connector = DaemonConnector(
            self.options,
            hub="caller",
            versions=self.versions,
            on_event=self._log,
            on_fence=self._on_fence,
            on_death=self._tasks.died,
            before_commit=before_commit,
        )
        made = self._connector.create_message_streams_by_filter(topics, streams)
        self._connector.set_paused(self._paused)  # before any set is delivered
        self._joined = True
        return made

    def is_out_of_reach(self, reason: str) -> None:
        """Record why it could not be joined yet; it is retried."""
        self._absent = SourceState("out of reach", reason)

    def refuse(self, reason: str) -> None:
        """Record why it cannot be joined as configured."""
        self._absent = SourceState("refused", reason)

    def shutdown(self) -> None:
        """Stop fetching, wait until what is in flight is acknowledged, commit, release, and leave the group."""
        if self._connector is not None:
            self._connector.shutdown()

    def topic(self, name: str) -> SourceTopic:
        """Return partitions and replication of a topic.  Raises ConsumerError."""
        assert self._connector is not None
        found = self._connector.partitions([name]).get(name)
        if not found:
            raise ConsumerError(f"source topic {name} is not in its cluster any more (deleted?)")
        replication = 0 if self._dialect.partitions_by_broker else max(len(replicas) for replicas in found.values())
        partitions = self.options.broker_partitions.total or len(found)
        return SourceTopic(partitions, replication, self._settings_of(name), self.name)

    def _settings_of(self, topic: str) -> dict[str, str]:
        """Return the topic's own settings that are copied."""
        if not self._copied_settings:
            return {}
        assert self._connector is not None
        found = self._connector.settings([topic]).get(topic, {})
        return {name: value for name, value in found.items() if name in self._copied_settings}

    @property
    def left_uncommitted(self) -> list[TopicPartition]:
        """Return partitions for which the shutdown could not commit all that the target has or may have: it is sent
        again."""
        return self._connector.left_uncommitted if self._connector is not None else []

    def all_topics(self) -> list[str]:
        """Return every topic of the source, mirrored or not.  Raises ConsumerError."""
        if self._connector is None or not self._joined:
            raise ConsumerError(f"source {self.name} is not joined yet")
        with self._answered_soon():
            return list(self._connector.topics())

    def partitions_of(self, topics: Sequence[str]) -> dict[str, list[PartitionId]]:
        """Return the partitions of each of these topics that exists.  Raises ConsumerError."""
        assert self._connector is not None
        with self._answered_soon():
            found = self._connector.partitions(topics)
        return {topic: list(partitions) for topic, partitions in found.items()}

    def owners(self, topics: Sequence[str]) -> dict[TopicPartition, str]:
        """Return the owner in the group of each partition of these topics.  Raises ConsumerError."""
        assert self._connector is not None
        with self._answered_soon():
            return dict(self._connector.owners(topics))

    @contextmanager
    def _answered_soon(self) -> Iterator[None]:
        """Limit the time of an operator's request.  Raises ConsumerError if the cluster does not answer within
        ANSWER_S."""
        try:
            with deadline(ANSWER_S):
                yield
        except TimeoutError:
            raise ConsumerError(f"source {self.name}: no answer of its cluster within {ANSWER_S:g} s") from None

    # state -----------------------------------------------------------------------------------------------------------

    def partitions(self) -> list[PartitionStatus]:
        """Return the partitions that this member owns."""
        return self._connector.status() if self._connector is not None else []

    def read_up_to(self, tp: TopicPartition) -> int | None:
        """Return the next offset to fetch of a partition, or None if it is not read now."""
        return next((row.position for row in self.partitions() if row.tp == tp and row.state == "reading"), None)

    def log_end(self, tp: TopicPartition) -> int:
        """Return the end of the leader's own log, replicated or not.  Raises ConsumerError."""
        assert self._connector is not None
        with self._answered_soon():
            return self._connector.log_end(tp)

    @property
    def joined(self) -> bool:
        """True if it is a member of its group."""
        return self._joined

    @property
    def assigned(self) -> bool:
        """True if the group has made its assignment, as far as this member knows."""
        return self._connector is not None and self._connector.settled

    def state(self, owned: Sequence[PartitionStatus]) -> SourceState:
        """Return the state of the whole source, with the reason.  owned: the result of partitions()."""
        if not self._joined or self._connector is None:
            return self._absent
        outage = self._connector.outage
        if silent_s := self._connector.silent_s:
            silent = f"{self._keeper} silent for {silent_s:.0f} s"
            return SourceState("out of reach", f"{silent}; {outage}" if outage else silent)
        if not owned and not self.assigned:
            return SourceState("joining", "the group has made no assignment yet")
        if outage and not any(row.lag is not None for row in owned):
            return SourceState("out of reach", outage)
        return SourceState("running", outage)

    @property
    def dialect(self) -> Dialect:
        """Return the dialect of its brokers, which follows their upgrades."""
        return self._dialect

    @property
    def counts_bytes(self) -> bool:
        """True if offsets and lag of this source are bytes."""
        return not self._dialect.offsets.count_messages

    @property
    def trouble(self) -> str:
        """Return why the whole source makes no progress, or ""."""
        silent_s = self._connector.silent_s if self._connector is not None else 0.0
        return f"source {self.name}: {self._keeper} silent for {silent_s:.0f} s" if silent_s else ""

    @property
    def _keeper(self) -> str:
        """Return what keeps the group."""
        return "the group's coordinator" if self.options.coordinated else "ZooKeeper"

    @property
    def connections(self) -> dict[int, int]:
        """Return the number of open fetch connections to each broker."""
        return self._connector.fetch_connections if self._connector is not None else {}

    @property
    def deleted(self) -> Mapping[str, str]:
        """Return deleted topics that were read here, with a sentence each; a new topic of the same name removes the
        entry."""
        return self._connector.deleted if self._connector is not None else {}

    @property
    def rebalances(self) -> int:
        """Return the number of rebalances of the group so far, including retries."""
        return self._connector.rounds if self._connector is not None else 0

    @property
    def offset_stores(self) -> tuple[StoreStatus, ...]:
        """Return where offsets are committed, with counts of successes and failures."""
        offsets = self._connector.offsets if self._connector is not None else None
        return offsets.stores if offsets is not None else ()

    # changes ---------------------------------------------------------------------------------------------------------

    def parked(self) -> dict[TopicPartition, Parked]:
        """Return why and at which offset partitions are parked."""
        return {} if self._connector is None else self._connector.parked()

    def drained(self, tp: TopicPartition) -> bool:
        """True if nothing of a partition is in flight: a parked partition then stays at its offset."""
        return self._connector is None or self._connector.drained(tp)

    def parked_partitions(self) -> list[PartitionStatus]:
        """Return the parked partitions that this member owns."""
        return [] if self._connector is None else self._connector.parked_status()

    def unpark(self, tp: TopicPartition, *, go_on_at: int | None = None, measure: bool = False) -> bool:
        """Fetch a parked partition again.  Return False if it is not parked, or if messages before are still in flight.

        For go_on_at and measure, see ConsumerConnector.unpark.
        """
        return self._connector is not None and self._connector.unpark(tp, go_on_at=go_on_at, measure=measure)

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Resume reading at an offset, in another period of the partition.  Raises ConsumerError."""
        if self._connector is None:
            raise ConsumerError("it has not begun yet")
        self._connector.seek(tp, offset)

    def set_paused(self, paused: Mapping[str | TopicPartition, bool]) -> None:
        """Pause exactly these topics and partitions; False marks one that is read while its topic is paused."""
        if self._paused != paused:
            self._paused = dict(paused)
            if self._connector is not None and self._joined and not self._connector.closed:
                self._connector.set_paused(self._paused)

    def throttle(self, limits: Mapping[TopicPartition, int]) -> None:
        """Limit the bytes of each fetch of these partitions; 0 fetches nothing for now."""
        if self._connector is not None and self._joined and not self._connector.closed:
            self._connector.throttle(limits)

    def change_topics(self, topics: TopicFilter, timeout_s: float) -> bool:
        """Subscribe to other topics.  Return False if the group did not agree within that time; it keeps trying.
        Raises ConsumerError."""
        if self._connector is None:
            raise ConsumerError("it has not begun yet")
        return self._connector.change_filter(topics, timeout_s)

    def switch_offsets(self, mode: Mode) -> bool:
        """Keep offsets in another store from now on.  Return False if it is the current one.  Raises ConsumerError;
        then nothing has changed."""
        if self._connector is None:
            raise ConsumerError("it has not begun yet")
        offsets = self._connector.offsets
        if offsets is not None and offsets.mode == mode:
            return False
        self._connector.switch_offsets(mode)
        return True

    def _log(self, event: ConsumerEvent) -> None:
        """Log an event of this source, except those that the start reports for every cluster
        (formats.timestamps_lost)."""
        if event.kind == "gap" and event.tp is not None:
            self.gaps[event.tp.topic] = self.gaps.get(event.tp.topic, 0) + event.count
        if event.kind != "release":
            self._log_event(event)
