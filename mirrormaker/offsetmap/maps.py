"""Offset maps of a mirror, opened when it starts: in files, or in compacted topics of the target.

offset.map.folder    a file for each source (and worker); without either option, systemd's state folder is used
offset.map.topic     a topic; with several sources one for each, TOPIC.SOURCE
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from groundwork.executor import ThreadExecutor
from groundwork.hub import CallersHub
from groundwork.tasks import TaskGroup
from groupadmin.follow.mapreader import MapFiles, MapReader, MapTopic
from kafkawire.cluster.client import KafkaClient
from mirrormaker.exactlyonce.transactions import ExactlyOnce
from mirrormaker.flow import PLAIN_DELIVERY, Delivery
from mirrormaker.offsetmap.file import FileStorage, file_of
from mirrormaker.offsetmap.recorder import MapRecorder, MapRefused, MapStorage
from mirrormaker.offsetmap.resume import Resumer, SourceEnd
from mirrormaker.offsetmap.tail import TailReader
from mirrormaker.offsetmap.tickets import MapTickets, ResumeTickets
from mirrormaker.offsetmap.topic import open_topic
from mirrormaker.options import MAX_WORKERS, MirrorOptions, SourceOptions
from mirrormaker.source import Source
from mirrormaker.target import Target
from zkconsumer.offsetmap.text import Header

log = logging.getLogger(__name__)


class OffsetMaps:
    """Maps of all sources into one target.

    sources: the mirror's sources.  state_folder: from systemd, if set.  worker: number of this process, if several
    share the folder: each writes its own file.
    """

    def __init__(
        self,
        target: Target,
        mirror: MirrorOptions,
        tasks: TaskGroup,
        *,
        sources: Sequence[SourceOptions],
        state_folder: str,
        worker: int = 1,
    ) -> None:
        self._worker = worker
        self._exactly_once = ExactlyOnce(target, mirror, tasks, sources) if mirror.exactly_once else None
        self._target = target
        self._mirror = mirror
        self._tasks = tasks
        self._several = len(sources) > 1
        self._folder = "" if mirror.map_topic else mirror.map_folder or state_folder
        self._recorders: list[MapRecorder] = []
        self._hub = CallersHub()
        self._disks: list[ThreadExecutor] = []
        self._deliveries: dict[str, Delivery] = {}  # by source

    def check(self) -> None:
        """Check the options before any map is opened.  Raises ConsumerError with the reason why no map can be kept."""
        if self._mirror.resume == "target-end" and not self._wanted:
            raise MapRefused("resume: target-end needs an offset map: give offset.map.folder")
        if self._mirror.groups and not (self._wanted and self._target.dialect.answers_produce):
            raise MapRefused("mirror.groups needs an offset map: give offset.map.folder or offset.map.topic")
        if self._exactly_once is not None:
            self._exactly_once.check()
        if self._wanted and not self._target.dialect.answers_produce:
            version = self._target.dialect.release
            log.warning("no offset map: target.version %s never says where it stored anything", version)

    def open(self, source: Source) -> None:
        """Open the map of a source, if it has one.  Raises ConsumerError with the reason, and WireError while the
        target is unreachable."""
        if source.name in self._deliveries:
            return
        if self._wanted and self._target.dialect.answers_produce:
            self._deliveries[source.name] = self._opened(source)
        if self._exactly_once is not None:
            self._deliveries[source.name] = self._exactly_once.delivery(source, self.delivery(source.name))

    def delivery(self, source: str) -> Delivery:
        """Return what the map of a source adds to its flow."""
        return self._deliveries.get(source, PLAIN_DELIVERY)

    def reader(self, source: Source, client: KafkaClient) -> MapReader:
        """Return a reader of a source's map: of all workers in the folder, or of all mirrors that write the topic."""
        if self._folder:
            folder = Path(self._folder)
            every = [file_of(folder, source.name, worker) for worker in range(1, MAX_WORKERS + 1)]
            return MapFiles(lambda: (path for path in every if path.exists()))
        return MapTopic(client, self._mirror.map_topic_of(source.name, self._several))

    def close(self) -> None:
        """Sync and close all maps at the same time, each within its own time limit."""
        closing = TaskGroup()
        for task in [closing.spawn("close", recorder.close) for recorder in self._recorders]:
            task.join()
        for disk in self._disks:
            disk.close()
        self._hub.stop()

    @property
    def _wanted(self) -> bool:
        return bool(self._folder or self._mirror.map_topic)

    def _opened(self, source: Source) -> Delivery:
        mirror, target = self._mirror, self._target
        storage = self._storage(Header(source.name, source.options.group_id))
        shared = self._exactly_once is None  # with transactions, each source partition has its own sender
        needed = mirror.resume == "target-end"
        recorder = MapRecorder(storage, mirror.map_every_messages, shared_sender=shared, needed=needed)
        self._recorders.append(recorder)
        self._tasks.spawn(f"offset-map-{source.name}", recorder.run, mirror.map_every_ms / 1000)
        if not needed:
            tickets = MapTickets(recorder)
            return Delivery(tickets=tickets, before_commit=recorder.before_commit, renamed=recorder.rename)
        tails = TailReader(target.client(target.links()), target.options.request_timeout_ms / 1000)
        resumer = Resumer(
            source.name,
            self._tasks,
            recorder=recorder,
            tails=tails,
            unpark=source.unpark,
            source_end=lambda tp: SourceEnd(source.log_end(tp), source.read_up_to(tp)),
        )
        return Delivery(
            tickets=ResumeTickets(recorder, target.dialect, resumer.unknown),
            admit=resumer.admit,
            waiting=resumer.waiting,
            before_commit=recorder.before_commit,
            renamed=recorder.rename,
            alone=True,
        )

    def _storage(self, header: Header) -> MapStorage:
        if self._folder:
            self._hub.start()
            disk = ThreadExecutor(self._hub)  # one per map: a slow disk of one must not block the others
            path = file_of(Path(self._folder), header.source, self._worker)
            try:
                made = disk.call(FileStorage, path, header, self._mirror.map_max_bytes, disk)
            except BaseException:
                disk.close()
                raise
            self._disks.append(disk)
            return made
        return open_topic(self._mirror.map_topic_of(header.source, self._several), header, self._target)
