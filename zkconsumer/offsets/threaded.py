"""Offset store whose calls block, used from an event loop: each call runs in a plain thread, and its result is
checked."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from groundwork.executor import ThreadExecutor
from kafkawire.model import TopicPartition
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.store import NONE, Committed, FormerOffset, OffsetStore, Unknown
from zkconsumer.session.lease import Lease

log = logging.getLogger(__name__)


class ThreadedOffsets:
    """Wrapper of another store, such as FileOffsets or a program's own; all its calls run in one thread, one at a time.

    An error of the store, a missing partition, or a result of the wrong type becomes a ConsumerError for commit, and
    Unknown for read: never an offset, and never counted as written.
    """

    def __init__(self, store: OffsetStore, executor: ThreadExecutor) -> None:
        self._store = store
        self._name = type(store).__name__
        self._executor = executor

    def read(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """Read offsets.  Raises ConsumerError, also for errors of the store."""
        wanted = list(tps)
        try:
            found: Any = self._executor.call(self._store.read, group, wanted)
        except ConsumerError:
            raise
        except Exception as e:
            log.info("offset store %s failed", self._name, exc_info=e)
            raise ConsumerError(f"offset store {self._name} cannot be read: {type(e).__name__}: {e}") from e
        if not isinstance(found, Mapping):
            raise ConsumerError(
                f"offset store {self._name} returned {found!r} from read(): it must return a mapping of partitions"
            )
        return {tp: self._position(tp, found.get(tp)) for tp in wanted}

    def _position(self, tp: TopicPartition, found: object) -> Committed:
        if found is NONE or isinstance(found, FormerOffset | Unknown):
            return found
        if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
            return found
        return Unknown(f"offset store {self._name} returned {found!r} for {tp}: it must be an offset, NONE or Unknown")

    def commit(
        self, group: str, positions: Mapping[TopicPartition, int], lease: Lease
    ) -> dict[TopicPartition, Exception | None]:
        wanted = dict(positions)
        try:
            results: Any = self._executor.call(self._store.commit, group, wanted, lease)
        except ConsumerError as e:
            return dict.fromkeys(wanted, e)
        except Exception as e:
            log.info("offset store %s failed", self._name, exc_info=e)
            failed = ConsumerError(f"offset store {self._name} cannot be written: {type(e).__name__}: {e}")
            return dict.fromkeys(wanted, failed)
        return {tp: self._verdict(tp, results) for tp in wanted}

    def _verdict(self, tp: TopicPartition, results: object) -> Exception | None:
        said = results.get(tp, "nothing") if isinstance(results, Mapping) else results
        if isinstance(results, Mapping) and (said is None or isinstance(said, Exception)):
            return said
        return ConsumerError(f"offset store {self._name} returned {said!r} for {tp}, so the offset may not be written")
