"""The offset maps of a mirror, opened when it starts: in files, or in compacted topics of the target.

offset.map.folder    a file for each source; without either option systemd's state folder is taken
offset.map.topic     a topic; with several sources one for each, TOPIC.SOURCE
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from groundwork.tasks import TaskGroup, connect, now, sleep
from kafkawire.cluster import topics
from kafkawire.cluster.metadata import MetadataSource
from kafkawire.cluster.zookeeper import read_brokers, read_partitions
from kafkawire.dialects import dialect
from kafkawire.errors import LocalError
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from mirrormaker.offsetmap.checkpoints import LogEnds
from mirrormaker.offsetmap.file import FileStorage
from mirrormaker.offsetmap.recorder import MapRecorder, file_of
from mirrormaker.offsetmap.resume import Resumer
from mirrormaker.offsetmap.tail import TailReader
from mirrormaker.offsetmap.topic import TopicStorage
from mirrormaker.options import MirrorOptions, TargetOptions
from mirrormaker.source import Source
from producer.sender import Sender
from zkconsumer.errors import ConsumerError
from zkconsumer.offsetmap.text import Header
from zkconsumer.offsetmap.topic import Slots, read_topic

log = logging.getLogger(__name__)
LEADER_S = 15.0
COMPACTED = {"cleanup.policy": "compact"}
ZooKeeper = Callable[[], AbstractContextManager[Any]]


class MapRefused(ConsumerError):
    """A map cannot be kept as it is asked for; a sentence."""


class OffsetMaps:
    """All maps of a mirror.  state_folder: what systemd gave, or nothing."""

    def __init__(
        self,
        target: TargetOptions,
        mirror: MirrorOptions,
        tasks: TaskGroup,
        sender: Sender,
        zookeeper: ZooKeeper | None,
        state_folder: str,
    ) -> None:
        self._target = target
        self._mirror = mirror
        self._tasks = tasks
        self._sender = sender
        self._zookeeper = zookeeper
        self._speaks = dialect(target.version)
        self._folder = "" if mirror.map_topic else mirror.map_folder or state_folder
        self._links = Links(target.client_id or "mirrormaker", connect, target.request_timeout_ms)
        self._metadata = MetadataSource(target.brokers, self._speaks, self._links)
        self._keepers: list[MapRecorder] = []

    def open(self, origins: Sequence[Source]) -> None:
        """Open the map of each source.  Raises ConsumerError with the reason; WireError while the target is away."""
        if not self._folder and not self._mirror.map_topic:
            if self._mirror.resume == "target-end":
                raise MapRefused("resume: target-end needs an offset map: give offset.map.folder")
            return
        if not self._speaks.answers_produce:
            log.warning("no offset map: target.version %s never says where it stored anything", self._target.version)
            return
        ends: LogEnds = {}
        for origin in origins:
            if origin.forwarder.keeper is not None:
                continue  # opened by a try before, which failed at another one
            header = Header(origin.name, origin.source.group_id)
            keeper = MapRecorder(self._writer(header, len(origins) > 1), self._mirror.map_every_messages, ends)
            self._keepers.append(keeper)
            origin.forwarder.keeper = keeper
            self._tasks.spawn(f"offset-map-{origin.name}", keeper.run, self._mirror.map_every_ms / 1000)
            if self._mirror.resume == "target-end":
                still_s = self._target.request_timeout_ms / 1000
                tails = TailReader(self._metadata, self._speaks, self._links, still_s)
                waiting = origin.forwarder.waiting
                origin.forwarder.resumer = Resumer(origin.name, keeper, tails, self._tasks, waiting)

    def close(self) -> None:
        for keeper in self._keepers:
            keeper.close()

    def _writer(self, header: Header, several: bool) -> FileStorage | TopicStorage:
        if self._folder:
            return FileStorage(file_of(Path(self._folder), header.source), header, self._mirror.map_max_bytes)
        name = f"{self._mirror.map_topic}.{header.source}" if several else self._mirror.map_topic
        leader, slots = self._leader(name), Slots()
        there = read_topic(self._links, self._speaks, leader, name, slots, lambda: sleep(0))
        if there.header is not None and there.header != header:
            raise MapRefused(
                f"topic {name} holds the offset map of source {there.header.source}, group {there.header.group}, not "
                f"of {header.source}, {header.group}: set another offset.map.topic"
            )
        return TopicStorage(name, header, there, slots, self._speaks, self._sender.submit)

    def _leader(self, name: str) -> Broker:
        """Of the topic's only partition; it is created where it is missing."""
        self._create(name)
        deadline = now() + LEADER_S
        while True:
            view = self._metadata.read(None)
            partitions = view.partitions(name)
            leader = view.leader(TopicPartition(name, 0)) if partitions else None
            if leader is not None and len(partitions) == 1:
                return leader
            if len(partitions) > 1:
                raise MapRefused(
                    f"topic {name} has {len(partitions)} partitions, and an offset map needs one: its order"
                )
            if now() > deadline:
                what = "has no leader" if partitions else "does not exist, and target.zookeeper.connect is not given"
                raise MapRefused(f"topic {name} for the offset map {what}: create it with one partition, compacted")
            sleep(0.2)

    def _create(self, name: str) -> None:
        if self._zookeeper is None:
            return
        with self._zookeeper() as zk:
            if read_partitions(zk, self._speaks.znodes, [name]).get(name):
                return
            brokers = sorted(read_brokers(zk, self._speaks.znodes))
            replication = self._target.replication or min(3, len(brokers)) or 1
            try:
                topics.create(zk, name, topics.assign(brokers, 1, replication), COMPACTED)
            except LocalError as why:
                raise MapRefused(f"topic {name} for the offset map cannot be created: {why}") from why
            log.info("topic %s created for the offset map: compacted, replication %d", name, replication)
