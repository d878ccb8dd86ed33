"""The offset map of one source while it is mirrored: what is recorded goes to the file, in time.

A disk that refuses stops the map, not the mirror: that is told, tried again, and once it works every partition begins a
new stint, so that nothing is claimed of what was not written.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from groundwork.tasks import sleep
from kafkawire.model import MessageSet, TopicPartition
from mirrormaker.offsetmap.checkpoints import Checkpoint, Checkpoints, LogEnds, OwnershipPeriod
from zkconsumer.offsetmap.records import Begun, Entry, OffsetMap, Record

log = logging.getLogger(__name__)
SUFFIX = ".offsetmap"


def file_of(folder: Path, source: str) -> Path:
    """The map of a source."""
    return folder / f"{source.replace('/', '_')}{SUFFIX}"


class MapStorage(Protocol):
    """MapWriter or TopicWriter.  What refuses raises OSError."""

    @property
    def path(self) -> object: ...
    @property
    def map(self) -> OffsetMap: ...
    @property
    def size(self) -> int: ...
    @property
    def too_large(self) -> bool: ...
    def append(self, records: Sequence[Record]) -> None: ...
    def sync(self) -> None: ...
    def mend(self) -> None: ...
    def cut(self, pause: Callable[[], object]) -> None: ...
    def close(self) -> None: ...


class MapRecorder:
    """One source's map.  every: offsets between two entries.  ends: shared by the keepers of all sources."""

    def __init__(self, writer: MapStorage, every: int, ends: LogEnds) -> None:
        self.path = writer.path
        self._writer = writer
        self._recording = Checkpoints(every, ends, self._write)
        self._stints: dict[TopicPartition, tuple[object, OwnershipPeriod]] = {}
        self._failing = False
        self._topics = {
            source: stints[-1].begun.topic for source, stints in self._writer.map.stints.items() if stints
        }  # czxid of the topic of each source's newest stint
        self._points = {(e.source, e.target): Checkpoint(e.position, e.low) for e in self._entries() if e.low == e.high}

    def _entries(self) -> Iterator[Entry]:
        """Of the file as it was opened, oldest first."""
        for stints in self._writer.map.stints.values():
            for stint in stints:
                for entries in stint.entries.values():
                    yield from entries

    @property
    def map(self) -> OffsetMap:
        """What was in the file when it was opened."""
        return self._writer.map

    def follow(
        self,
        fetched: MessageSet,
        stint: object,
        still: Callable[[], bool],
        keeps: bool,
        targets: Sequence[TopicPartition] = (),
        topic: int | None = None,
    ) -> OwnershipPeriod:
        """Whom to tell of the parts of a set; another stint object than before begins another stint.

        topic: the czxid of the source's topic, where it is known."""
        known = self._stints.get(fetched.tp)
        if known is None or known[0] is not stint:
            following = self._recording.begin(fetched.tp, fetched.start, _ms(), keeps, still, targets, topic)
            known = self._stints[fetched.tp] = (stint, following)
        return known[1]

    def point(self, source: TopicPartition, target: TopicPartition) -> Checkpoint | None:
        """The newest entry that is exact, and written."""
        return self._points.get((source, target))

    def is_of_former_log(self, source: TopicPartition, topic: int | None, begins: bool) -> bool:
        """Whether all that is written down of a source is of an earlier topic than this one (czxid); begins: its log is
        begun now, which counts where no topic is written down (maps of earlier releases)."""
        last = self._topics.get(source)
        return topic is not None and (begins if last is None else last != topic)

    def go_on(
        self,
        source: TopicPartition,
        stint: object,
        still: Callable[[], bool],
        position: int,
        target: TopicPartition,
        end: int | None,
        topic: int | None = None,
    ) -> None:
        """A stint begins at position, all before it lies before `end` of the target: on the disk when this returns.

        end None: position does not tell what is there; the point before stays the last.
        """
        following = self._recording.begin(source, position, _ms(), True, still, topic=topic)
        self._stints[source] = (stint, following)
        if end is not None:
            following.lies_behind(target, end)
        self._sync()

    def before_commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """What a commit is about to say is on the disk when this returns, or the disk's refusal was told."""
        self._recording.committing(positions.items(), _ms())
        self._sync()

    def run(self, every_s: float) -> None:
        """Write down what is acknowledged, now and then; in a greenlet of its own."""
        while True:
            sleep(every_s)
            if self._failing:
                self._begin_anew()
            self._recording.settled()
            self._sync()
            if self._writer.too_large:
                self._cut()

    def close(self) -> None:
        """All that is acknowledged is on the disk, or the disk's refusal was told."""
        self._recording.settled()
        try:
            self._writer.close()
        except OSError as why:
            self._refused(why)

    def _write(self, records: Sequence[Record]) -> None:
        if self._failing:
            return
        try:
            self._writer.append(records)
        except OSError as why:
            self._refused(why)
            return
        for entry in records:
            if isinstance(entry, Begun) and entry.topic is not None:
                self._topics[entry.source] = entry.topic
            if isinstance(entry, Entry) and entry.low == entry.high:
                self._points[entry.source, entry.target] = Checkpoint(entry.position, entry.low)

    def _sync(self) -> None:
        if self._failing:
            return
        try:
            self._writer.sync()
        except OSError as why:
            self._refused(why)

    def _cut(self) -> None:
        before = self._writer.size
        try:
            self._writer.cut(lambda: sleep(0))
        except OSError as why:
            self._refused(why)
        else:
            log.info("offset map %s: cut from %d to %d bytes", self.path, before, self._writer.size)

    def _refused(self, why: OSError) -> None:
        if not self._failing:
            sentence = "offset map %s cannot be written: %s; mirroring goes on, and the map has a hole from here"
            log.error(sentence, self.path, why.strerror or why)
        self._failing = True

    def _begin_anew(self) -> None:
        """A line that was cut short by the refusal must not be followed by others: it is cut off first."""
        self._failing = False
        try:
            self._writer.mend()
        except OSError as why:
            self._failing = True
            log.debug("offset map %s still cannot be written: %s", self.path, why)
            return
        self._recording.restart(_ms())
        if not self._failing:
            log.info("offset map %s is written again", self.path)


def _ms() -> int:
    return int(time.time() * 1000)
