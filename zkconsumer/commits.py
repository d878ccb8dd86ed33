"""Committing: what is done of each owned partition goes to the offset store, under the lease, one commit at a time.

    on the timer, at release, at shutdown, when the user says so, and once when a partition begins (its start position,
    so that it can be told from one that was never read)

A position below the one we committed is never written, unless the partition was reset in between.  A foreign write is
looked into: if the partition is still ours, ours is taken (and said); if not, nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from groundwork.crew import Lock, sleep
from groundwork.failpoints import failpoint
from kafkawire.model import TopicPartition
from zkconsumer.cursor import Cursor
from zkconsumer.errors import ConsumerError, ForeignWrite
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.lease import Lease
from zkconsumer.offsets.store import OffsetStore

RETRY_S = 1.0  # after a commit that failed; the interval may be a minute

Results = dict[TopicPartition, Exception | None]
StillOurs = Callable[[list[TopicPartition]], Collection[TopicPartition]]


class Commits:
    """Commits for the cursors of one connector.

    still_ours(tps)   those of them that are, after somebody else wrote their offset; ConsumerError: that cannot be told
    on_failed(error)  committing begins to fail
    """

    def __init__(
        self,
        store: OffsetStore,
        group: str,
        lease: Lease,
        still_ours: StillOurs,
        on_event: OnEvent,
        on_failed: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        self._store = store
        self._group = group
        self._lease = lease
        self._still_ours = still_ours
        self._on_event = on_event
        self._on_failed = on_failed
        self._lock = Lock()  # a commit on the timer must not land after the one at release
        self._failing = False
        self._first = True

    def commit(self, cursors: Iterable[Cursor]) -> Results:
        """Commit what is done of each; per partition None, or why not.  Raises nothing of the store's."""
        with self._lock:
            done = {cursor: cursor.committable() for cursor in cursors}
            results = self._write({cursor: at for cursor, at in done.items() if at is not None})
        self._report(results)
        return results

    def commit_at(self, positions: Mapping[Cursor, int]) -> Results:
        """Commit just these, whatever is done."""
        with self._lock:
            results = self._write(positions)
        self._report(results)
        return results

    def _write(self, wanted: Mapping[Cursor, int]) -> Results:
        """With the lock held."""
        positions = {cursor.tp: at for cursor, at in wanted.items()}
        if any(cursor.committed != at for cursor, at in wanted.items()):
            self._failpoints()
        results = self._store.commit(self._group, positions, self._lease) if positions else {}
        foreign = [e for e in results.values() if isinstance(e, ForeignWrite)]
        if foreign:
            results |= self._insist(foreign, positions)
        for cursor, at in wanted.items():
            if results.get(cursor.tp) is None:
                cursor.committed = at
        return results

    def _failpoints(self) -> None:
        if self._first:
            self._first = False
            failpoint("before first commit")
        failpoint("after ack before commit")

    def _insist(self, foreign: list[ForeignWrite], positions: dict[TopicPartition, int]) -> Results:
        """Somebody else wrote.  Ours counts as long as the partition is ours."""
        for e in foreign:
            self._on_event(ConsumerEvent("offset", str(e), e.tp))
        try:
            ours = {tp: positions[tp] for tp in self._still_ours([e.tp for e in foreign])}
        except ConsumerError as e:
            return {f.tp: e for f in foreign}
        return self._store.commit(self._group, ours, self._lease) if ours else {}

    def _report(self, results: Results) -> None:
        """One line when committing begins to fail, one when it works again."""
        failed = {tp: e for tp, e in results.items() if e is not None}
        if failed and not self._failing:
            tp, why = next(iter(failed.items()))
            self._on_event(ConsumerEvent("offset", f"{len(failed)} offsets not committed, the first {tp}: {why}", tp))
            self._on_failed(why)
        elif self._failing and results and not failed:
            self._on_event(ConsumerEvent("offset", f"committing works again: {len(results)} offsets"))
        if results:
            self._failing = bool(failed)

    def run(self, interval_s: float, cursors: Callable[[], list[Cursor]], connected: Callable[[], bool]) -> None:
        """Commit on the timer, also when nothing moves; sooner after a failure."""
        while True:
            sleep(min(RETRY_S, interval_s) if self._failing else interval_s)
            if connected():
                self.commit(cursors())
