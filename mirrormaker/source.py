"""One source of a mirror: its connector, its forwarder, and what both say about themselves."""

from __future__ import annotations

from collections.abc import Callable

from groundwork.tasks import TaskGroup
from kafkawire.cluster.zookeeper import read_partitions
from kafkawire.dialects import dialect
from kafkawire.model import TopicPartition
from mirrormaker.flow import Forwarder, Settings, carry
from mirrormaker.options import MirrorOptions, SourceOptions
from mirrormaker.status import Blocked
from mirrormaker.target import Topics
from mirrormaker.topics import SourceTopic
from producer.sender import Sender
from zkconsumer.connector import ConsumerConnector
from zkconsumer.engine.status import PartitionStatus
from zkconsumer.errors import ConsumerError
from zkconsumer.events import ConsumerEvent, logger_of
from zkconsumer.offsets.modes import Mode


class Source:
    """A source while it is mirrored.  on_fence() is called when its lease is over: nothing of it may be sent then."""

    def __init__(
        self,
        source: SourceOptions,
        settings: Settings,
        targets: Topics,
        sender: Sender,
        tasks: TaskGroup,
        on_fence: Callable[[], object],
    ) -> None:
        self.source = source
        self.name = source.name
        self._log_event = logger_of(f"source {source.name}")
        self._tasks = tasks
        self._on_fence = on_fence
        self._connector: ConsumerConnector | None = None
        self._speaks = dialect(source.version)
        self.has_handler = settings.handler is not None
        self.forwarder = Forwarder(
            source.name, settings, targets, self._topic, sender, tasks, self._speaks, source.broker_partitions
        )

    def start(self, mirror: MirrorOptions) -> None:
        """Join the group and carry its streams.  Raises Unreachable (try again), ChrootMissing, ConsumerError."""
        release, died = self.source.version, self._tasks.died
        keeper = self.forwarder.keeper
        self._connector = ConsumerConnector(
            self.source,
            "caller",
            release,
            self._log,
            self._on_fence,
            died,
            before_commit=keeper.before_commit if keeper is not None else lambda positions: None,
        )
        if self.forwarder.resumer is not None:
            self.forwarder.resumer.retry = self._connector.unpark
        streams = self._connector.create_message_streams_by_filter(mirror.topics, mirror.num_streams)
        for stream in streams:
            self._tasks.spawn(f"carry-{self.name}-{stream.name}", carry, stream.sets(), self.forwarder.take)

    @property
    def trouble(self) -> str:
        """What the whole source waits for."""
        silent_s = self._connector.silent_s if self._connector is not None else 0.0
        return f"source {self.name}: ZooKeeper silent for {silent_s:.0f} s" if silent_s else ""

    @property
    def outage(self) -> str:
        """The brokers or leaders of this source that are out of reach; "": none."""
        found = self._connector.outage if self._connector is not None else ""
        return f"source {self.name}: {found}" if found else ""

    @property
    def counts_bytes(self) -> bool:
        """Positions and lag of this source are bytes."""
        return not self._speaks.offsets.count_messages

    @property
    def dropped(self) -> int:
        """Messages that message.handler dropped since the start."""
        return self.forwarder.dropped

    @property
    def settled(self) -> bool:
        """The group's first assignment is made, as far as this member knows."""
        return self._connector is not None and self._connector.settled

    def partitions(self) -> list[PartitionStatus]:
        """What this member owns."""
        return self._connector.status() if self._connector is not None else []

    def waiting(self) -> list[Blocked]:
        """Topics whose target is not ready, and why."""
        return [Blocked(topic, reason) for topic, reason in sorted(self.forwarder.waiting.items())]

    def retry(self, row: PartitionStatus) -> bool:
        """Read a parked partition once more.  False: what came before it is still under way."""
        if self._connector is None or not self._connector.unpark(row.tp):
            return False
        if row.topic not in self.forwarder.waiting:
            self.forwarder.forget(row.topic)
        return True

    def switch_offsets(self, mode: Mode) -> bool:
        """Keep offsets there from now on; False: they are.  Raises ConsumerError; then nothing has changed."""
        if self._connector is None:
            raise ConsumerError("it has not begun yet")
        offsets = self._connector.offsets
        if offsets is not None and offsets.mode == mode:
            return False
        self._connector.switch_offsets(mode)
        return True

    def _log(self, event: ConsumerEvent) -> None:
        """Log an event of this source, but for what the start says of every cluster (formats.timestamps_lost)."""
        if event.kind != "release":
            self._log_event(event)

    def shutdown(self) -> None:
        """Stop fetching, let what is in flight be acknowledged, commit, release, leave the group."""
        if self._connector is not None:
            self._connector.shutdown()
        self.forwarder.tell_dropped()

    def _topic(self, name: str) -> SourceTopic:
        assert self._connector is not None
        found = self._connector.ask(f"partitions of {name}", read_partitions, [name]).get(name)
        if not found:
            raise ConsumerError(f"source topic {name} is not in ZooKeeper (deleted?)")
        replication = 0 if self._speaks.partitions_by_broker else max(len(replicas) for replicas in found.values())
        return SourceTopic(self.source.broker_partitions.total or len(found), replication)


def total_done(before: dict[TopicPartition, int], rows: list[PartitionStatus]) -> tuple[int, dict[TopicPartition, int]]:
    """How many messages were done since `before` (of a new partition: since its last commit), and the next `before`."""
    this = {row.tp: row.done for row in rows if row.done is not None}
    first = {row.tp: row.committed for row in rows if row.committed is not None}
    since = {**this, **first, **before}
    return sum(max(0, done - since[tp]) for tp, done in this.items()), this
