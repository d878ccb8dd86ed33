"""Offset map of a running mirror, read on from where it was read before: from its files, or from its topic."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

from groundwork.tasks import now, sleep
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.logreader import LogReader
from kafkawire.model import Message, TopicPartition
from zkconsumer.errors import ConsumerError
from zkconsumer.offsetmap.file import understood
from zkconsumer.offsetmap.records import Gathering, OffsetMap, merged
from zkconsumer.offsetmap.text import Header
from zkconsumer.offsetmap.topic import PURPOSE, Slots, messages_from
from zkconsumer.offsetmap.topic import understood as understood_messages

PATIENCE_S = 10.0  # for the leader of the map's topic


class MapReader(Protocol):
    """A map that grows.  read() returns all of it; it raises ConsumerError, and WireError of a topic."""

    def read(self) -> OffsetMap: ...


def _pause() -> None:
    sleep(0)


class MapFile:
    """One file.  A file that was cut is another one, and is read from its beginning."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._inode = -1
        self._length = 0
        self._header: Header | None = None
        self._gathering = Gathering()

    def read(self) -> OffsetMap:
        """Return the map in the file; empty while there is no file.  Raises ConsumerError."""
        try:
            with self.path.open("rb") as file:
                stat = os.fstat(file.fileno())
                if stat.st_ino != self._inode or stat.st_size < self._length:
                    self._inode, self._length, self._header = stat.st_ino, 0, None
                    self._gathering = Gathering()
                file.seek(self._length)
                data = file.read()
        except FileNotFoundError:
            return OffsetMap()
        except OSError as why:
            raise ConsumerError(f"offset map {self.path} cannot be read: {why.strerror}") from why
        found = understood(data, str(self.path), _pause, self._header)
        self._header = found.header
        self._length += found.length
        self._gathering.add(found.records)
        return self._gathering.map


class MapFiles:
    """The files of all workers of a mirror.  paths(): which there are now."""

    def __init__(self, paths: Callable[[], Iterable[Path]]) -> None:
        self._paths = paths
        self._files: dict[Path, MapFile] = {}

    def read(self) -> OffsetMap:
        """Return the map of all workers.  Raises ConsumerError."""
        paths = list(self._paths())
        self._files = {path: self._files.get(path) or MapFile(path) for path in paths}
        return merged([self._files[path].read() for path in paths])


class MapTopic:
    """A topic of the target, to which all mirrors of a group write."""

    def __init__(self, client: KafkaClient, topic: str) -> None:
        self._reader = LogReader(client, purpose=PURPOSE, patience_s=PATIENCE_S, sleep=sleep, now=now)
        self._tp = TopicPartition(topic, 0)
        self._next: int | None = None  # everything before it is in the map
        self._seen = 0
        self._gathering = Gathering()

    def read(self) -> OffsetMap:
        """Return the map in the topic.  Raises ConsumerError and WireError."""
        begin, end = self._reader.begin(self._tp), self._reader.end(self._tp)
        if (
            self._next is None or not begin <= self._next <= end
        ):  # another topic of the same name, or a log that was cut
            self._next, self._gathering = begin, Gathering()
        self._seen = self._next
        found = understood_messages(self._messages(self._next), self._tp.topic, Slots())
        self._gathering.add(found.records)
        self._next = self._seen  # not before: what was read ahead of an error is read again
        return self._gathering.map

    def _messages(self, start: int) -> Iterator[Message]:
        for message in messages_from(self._reader, self._tp, start, _pause):
            yield message
            self._seen = message.offset + 1
