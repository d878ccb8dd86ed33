"""Offsets in a file: one JSON file per group, for consumers of fixed partitions, which have no ZooKeeper.

    {"version": 1, "group": "billing", "offsets": {"orders": {"0": 1200, "3": 87}}}      offset: the next to read

The file is never half written: a new one is written beside it, synced, and renamed over it.  A lock file (.lock)
prevents two processes from overwriting each other's partitions.  A row that changed since this store last read or wrote
it is a ForeignWrite, and not overwritten.  A file that cannot be parsed is left unchanged, for an operator to correct.
A missing file means that nothing was ever committed; its folder must exist, because a disk that is not mounted would
look the same.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from groundwork import clocks
from groundwork.durable import PRIVATE, replace
from groundwork.jsontext import json_value
from kafkawire.model import TopicPartition
from zkconsumer.errors import ConsumerError, ForeignWrite
from zkconsumer.offsets.store import NONE, Committed, Unknown
from zkconsumer.session.lease import Lease, LeaseOver

VERSION = 1
LOCK_TRIES = 20
LOCK_PAUSE_S = 0.005


class FileOffsets:
    """OffsetStore in one file; the path's folder must exist.  Calls block for the time of a disk sync."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._seen: dict[TopicPartition, Committed] = {}  # as this store last read or wrote it

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """Return the committed offsets; Unknown with the reason for invalid ones.

        Raises ConsumerError if the file cannot be opened.
        """
        wanted = list(tps)
        try:
            offsets = self._load(group)
        except _Unreadable as why:
            return dict.fromkeys(wanted, Unknown(str(why)))
        found = {tp: self._position(offsets, tp) for tp in wanted}
        self._seen |= found
        return found

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        """Write offsets while the lease holds.  After a ForeignWrite, a second call by a caller that still owns the
        partition overwrites it."""
        try:
            with self._locked():
                return self._commit(group, positions, lease)
        except (ConsumerError, LeaseOver, _Unreadable) as why:
            return dict.fromkeys(positions, why)
        except OSError as why:
            return dict.fromkeys(positions, ConsumerError(f"offsets file {self.path} cannot be written: {why}"))

    def _commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        offsets = self._load(group)
        result: dict[TopicPartition, Exception | None] = dict.fromkeys(positions)
        moved: dict[TopicPartition, int] = {}
        for tp, ours in positions.items():
            theirs = self._position(offsets, tp)
            if theirs != self._seen.setdefault(tp, theirs) and theirs != ours:
                self._seen[tp] = theirs
                result[tp] = ForeignWrite(group, tp, theirs, ours)
            elif theirs != ours:
                moved[tp] = ours
        if moved:
            for tp, ours in moved.items():
                offsets.setdefault(tp.topic, {})[str(tp.partition)] = ours
            self._replace({"version": VERSION, "group": group, "offsets": offsets}, lease)
        self._seen |= {tp: ours for tp, ours in positions.items() if result[tp] is None}
        return result

    def _load(self, group: str) -> dict[str, Any]:
        """Return offsets by topic and partition, as the file has them.  Raises _Unreadable and ConsumerError."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            if not self.path.parent.is_dir():
                raise ConsumerError(
                    f"offsets file {self.path}: the folder {self.path.parent} does not exist; create or mount it"
                ) from None
            return {}
        except OSError as why:
            raise ConsumerError(f"offsets file {self.path} cannot be read: {why}") from why
        return self._understood(group, text)

    def _understood(self, group: str, text: bytes) -> dict[str, Any]:
        try:
            document = json_value(text)
        except ValueError as why:
            raise _Unreadable(f"offsets file {self.path} is not JSON ({why}); correct or delete it") from None
        if not isinstance(document, dict) or document.get("version") != VERSION:
            raise _Unreadable(f"offsets file {self.path} does not have version {VERSION}; correct or delete it")
        if document.get("group") != group:
            raise _Unreadable(f"offsets file {self.path} belongs to group {document.get('group')!r}, not to {group!r}")
        offsets = document.get("offsets")
        if not isinstance(offsets, dict) or not all(isinstance(rows, dict) for rows in offsets.values()):
            raise _Unreadable(f"offsets file {self.path} has no offsets by topic and partition; correct or delete it")
        return offsets

    def _position(self, offsets: Mapping[str, Mapping[str, Any]], tp: TopicPartition) -> Committed:
        rows = offsets.get(tp.topic, {})
        if str(tp.partition) not in rows:
            return NONE
        found = rows[str(tp.partition)]
        if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
            return found
        return Unknown(
            f"offsets file {self.path} holds {found!r} for {tp}, which is not a valid offset; correct or delete it"
        )

    def _replace(self, document: Mapping[str, Any], lease: Lease) -> None:
        """Replace the file: all of it or nothing, even in a power cut.  Called under the lock."""
        text = json.dumps(document, indent=1, sort_keys=True) + "\n"
        # The lease is checked after the last wait: a slow sync of the disk uses up the lease, too.
        replace(self.path, text, before=lambda: lease.check(clocks.moment()))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the file, or raise ConsumerError after a tenth of a second: the next commit tries again."""
        lock = os.open(self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        try:
            for _ in range(LOCK_TRIES):
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError as busy:
                    if busy.errno not in (errno.EAGAIN, errno.EACCES):
                        raise
                    time.sleep(LOCK_PAUSE_S)
            else:
                raise ConsumerError(f"offsets file {self.path} is being written by another process")
            yield
        finally:
            os.close(lock)


class _Unreadable(ConsumerError):
    """Raised when the file exists and cannot be parsed; it is left unchanged."""
