"""Offset map of one source while it is mirrored: writes checkpoints to the map's storage in time.

An error of the disk stops the map, not the mirror: it is logged and retried.  Once the disk works again, every
partition begins a new ownership period, so that the map makes no claim about offsets that were not written.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from groundwork.tasks import now, sleep
from kafkawire.model import MessageSet, TopicPartition
from mirrormaker.offsetmap.checkpoints import Checkpoint, Checkpoints, OwnershipPeriod
from mirrormaker.source import Share
from zkconsumer.errors import ConsumerError
from zkconsumer.fetching.position import Reset
from zkconsumer.offsetmap.records import Begun, Entry, OffsetMap, Record

log = logging.getLogger(__name__)

CUT_RETRY_S = 60.0
AGAIN_S = 0.2  # interval between checks whether the map is written again


class MapRefused(ConsumerError):
    """Raised when a map cannot be kept as the options say; the text is a sentence."""


class MapStorage(Protocol):
    """Storage of a map: FileStorage or TopicStorage.  Its methods raise OSError if the storage refuses."""

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
    """Recorder of one source's map.

    every: offsets between two entries.  target(topic): a source topic's name in the target.  shared_sender: see
    Checkpoints. needed: the mirror resumes at the map's last checkpoint (`resume: target-end`), so that nothing may be
    committed beyond it, and nothing sent in a period that the map does not have.
    """

    def __init__(
        self,
        storage: MapStorage,
        every: int,
        target: Callable[[str], str] = str,
        *,
        shared_sender: bool = True,
        needed: bool = False,
    ) -> None:
        self.path = storage.path
        self._storage = storage
        self._needed = needed
        self._checkpoints = Checkpoints(every, self._write, target, shared_sender=shared_sender)
        self._periods: dict[TopicPartition, tuple[object, OwnershipPeriod]] = {}
        self._routes: dict[TopicPartition, tuple[str, bool, tuple[TopicPartition, ...]]] = {}  # route of its last set
        self._failing = False
        self._cut_from = 0.0  # earliest time of the next cut
        self._topics = {
            source: periods[-1].begun.topic for source, periods in self._storage.map.periods.items() if periods
        }  # czxid of the topic of each source partition's newest period
        self._exact = {(e.source, e.target): Checkpoint(e.position, e.low) for e in self._entries() if e.low == e.high}

    def _entries(self) -> Iterator[Entry]:
        """Yield entries that were stored before, oldest first."""
        for periods in self._storage.map.periods.values():
            for period in periods:
                for entries in period.entries.values():
                    yield from entries

    def period(
        self,
        fetched: MessageSet,
        share: Share,
        single_target: bool,
        targets: Sequence[TopicPartition] = (),
        target: str = "",
    ) -> OwnershipPeriod:
        """Return the ownership period that a set belongs to; a new share.period begins another one.

        single_target: all of the partition goes to one target partition; else it may go to any of targets. target: the
        topic's name in the target; "" to use rename()'s.
        """
        known = self._periods.get(fetched.tp)
        before, route = self._routes.get(fetched.tp), (target, single_target, tuple(targets))
        self._routes[fetched.tp] = route
        if known is not None and known[0] is share.period and before not in (None, route):
            self._checkpoints.reroute(fetched.tp, _ms(), single_target=single_target, targets=targets, target=target)
        if known is None or known[0] is not share.period:
            began = self._checkpoints.begin(
                fetched.tp,
                fetched.start,
                _ms(),
                single_target=single_target,
                owned=share.holding(),
                targets=targets,
                topic=share.topic,
                target=target,
            )
            known = self._periods[fetched.tp] = (share.period, began)
        return known[1]

    def checkpoint(self, source: TopicPartition, target: TopicPartition) -> Checkpoint | None:
        """Return the newest checkpoint that is exact and written."""
        return self._exact.get((source, target))

    def is_of_former_log(
        self, source: TopicPartition, target: TopicPartition, topic: int | None, reset: Reset | None
    ) -> bool:
        """True if the records of a source partition belong to another log than the one that is read now.

        topic: its czxid, or None if unknown.  reset: the reset that chose where reading begins, if any.  A log that was
        cut counts as another log from there.
        """
        last = self._topics.get(source)
        if None not in (topic, last) and topic != last:
            return True
        if reset is None or not (reset.former or (source, target) in self._exact):
            return False
        return reset.sets_back(topic is not None and topic == last)

    def begin(
        self,
        source: TopicPartition,
        target: TopicPartition,
        *,
        period: object,
        owned: Callable[[], bool],
        offset: int,
        end: int | None,
        topic: int | None = None,
    ) -> None:
        """Begin a period at offset: all before it is before `end` in the target.  The period is on the disk on
        return.

        With end None, offset does not say what the target has; the previous checkpoint stays the last until its entry
        is passed.  While the map cannot be written, this waits and begins again: without a checkpoint, messages sent in
        the period could not be attributed after a kill -9.
        """
        written = False
        while not written:
            while self._failing:
                sleep(AGAIN_S)  # run() retries
            began = self._checkpoints.begin(source, offset, _ms(), single_target=True, owned=owned, topic=topic)
            self._periods[source] = (period, began)
            if end is None:
                began.begins_within(target)
            else:
                began.lies_behind(target, end)
            self._sync()
            written = not self._failing

    def rename(self, target: Callable[[str], str]) -> None:
        """Apply new target names of topics from now on."""
        self._checkpoints.rename(target, _ms())

    def before_commit(self, positions: Mapping[TopicPartition, int]) -> ConsumerError | None:
        """Write what a commit depends on; log an error of the disk.

        Return why nothing may be committed, if the map is needed and not written: the messages in the target behind the
        last checkpoint could not be attributed after a restart.
        """
        if not (self._failing and self._needed):
            self._checkpoints.committing(positions.items(), _ms())
            self._sync()
        if self._failing and self._needed:
            return ConsumerError(f"offset map {self.path} is not written, and nothing is committed until it is")
        return None

    def run(self, every_s: float) -> None:
        """Record what is acknowledged every every_s seconds; runs as a task."""
        while True:
            sleep(every_s)
            if self._failing:
                self._resume_writing()
            self._checkpoints.record_acknowledged()
            self._sync()
            if self._storage.too_large and now() >= self._cut_from:
                self._cut()

    def close(self) -> None:
        """Write everything that is acknowledged to the disk, or log the disk's error."""
        self._checkpoints.record_acknowledged()
        try:
            self._storage.close()
        except OSError as why:
            self._refused(why)

    def _write(self, records: Sequence[Record]) -> None:
        if self._failing:
            return
        try:
            self._storage.append(records)
        except OSError as why:
            self._refused(why)
            return
        for entry in records:
            if isinstance(entry, Begun) and entry.topic is not None:
                self._topics[entry.source] = entry.topic
            if isinstance(entry, Entry) and entry.low == entry.high:
                self._exact[entry.source, entry.target] = Checkpoint(entry.position, entry.low)

    def _sync(self) -> None:
        if self._failing:
            return
        try:
            self._storage.sync()
        except OSError as why:
            self._refused(why)

    def _cut(self) -> None:
        before = self._storage.size
        try:
            self._storage.cut(lambda: sleep(0))
        except OSError as why:  # the old file still has all entries
            self._cut_from = now() + CUT_RETRY_S
            sentence = "offset map %s cannot be cut: %s; it grows, and is tried again every %g s"
            extra = {"event": "offset-map", "key": ("cut", self.path)}
            log.error(sentence, self.path, why.strerror or why, CUT_RETRY_S, extra=extra)
        else:
            log.info("offset map %s: cut from %d to %d bytes", self.path, before, self._storage.size)

    def _refused(self, why: OSError) -> None:
        if not self._failing:
            goes_on = "nothing is committed until it can" if self._needed else "mirroring goes on"
            sentence = "offset map %s cannot be written: %s; %s, and the map has a hole from here"
            log.error(sentence, self.path, why.strerror or why, goes_on, extra={"event": "offset-map"})
        self._failing = True

    def _resume_writing(self) -> None:
        """Resume after an error.  An incomplete line must not be followed by others, so it is cut off first."""
        try:
            self._storage.mend()
        except OSError as why:
            log.debug("offset map %s still cannot be written: %s", self.path, why)
            return
        self._failing = False  # only now: other tasks record while begin() waits
        self._checkpoints.restart(_ms())
        if not self._failing:
            log.info("offset map %s is written again", self.path)


def _ms() -> int:
    return int(time.time() * 1000)
