"""Commits: writes offsets of the owned partitions to the offset store, under the lease, one commit at a time.

    on the timer, at release, at shutdown, when the user asks, and once when a partition starts (its start position, so
    that it differs from a partition that was never read)

Two kinds of commit are retried: those that cannot be repeated later (partitions are revoked), and those that the user
requested.  A commit on the timer is not, because the timer repeats; so the lock is never held for long while a
coordinator is unreachable.

An offset below the committed one is never written, unless the partition was reset in between.  After another writer's
change the owner is checked: if the partition is still ours, our offset is written (and reported); otherwise nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from groundwork.failpoints import failpoint
from groundwork.sentences import counted
from groundwork.tasks import Event, Lock, deadline, now, sleep
from kafkawire.errors import BrokerError, LinkLost
from kafkawire.model import TopicPartition
from zkconsumer.errors import ConsumerError, ForeignWrite
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.offsets.store import OffsetStore
from zkconsumer.session.lease import Lease

RETRY_S = 1.0  # backoff after a failed commit; the interval may be a minute
ALL_EVERY_S = 20.0  # Kafka drops idle offsets after its retention, so commit unmoved partitions too


def all_every_s(interval_s: float, retention_s: float) -> float:
    """Return how often a timer of this interval commits unmoved offsets: every ALL_EVERY_S, or earlier for a short
    retention.

    retention_s: time after which Kafka drops an offset; below 0: the brokers' own, which is long.
    """
    return ALL_EVERY_S if retention_s < 0 else max(0.0, min(ALL_EVERY_S, retention_s - 2 * interval_s))


Results = dict[TopicPartition, Exception | None]
StillOurs = Callable[[list[TopicPartition]], Collection[TopicPartition]]
BeforeCommit = Callable[[Mapping[TopicPartition, int]], object]


class Committable(Protocol):
    """An owned partition as far as commits need it: zkconsumer.fetching.partitioncursor.Cursor."""

    committed: int | None

    @property
    def tp(self) -> TopicPartition: ...

    @property
    def dropped(self) -> bool: ...

    def committable(self) -> int | None:
        """Return the offset before which everything is done; None if nothing may be committed."""


C = TypeVar("C", bound=Committable)


@dataclass(frozen=True, slots=True)
class CommitRetries:
    """Retries of a commit that found no coordinator, or was refused temporarily.

    Their number, the backoff between them, and the time limit of all.
    """

    count: int
    backoff_s: float
    limit_s: float


class Commits:
    """Commits for the owned partitions of one connector.

    still_ours(tps)   partitions that this member still owns, after another writer's change; ConsumerError: unknown
    on_failed(error)  called when commits begin to fail
    retries()         for the commits that are retried; None: no retries
    before(positions) called before each write, with what will be committed; must not raise.  If it returns an error,
                      nothing is written, and the error is the result of each of these partitions
    lock              held during each commit: a change of the store happens between two commits
    """

    def __init__(
        self,
        store: OffsetStore,
        group: str,
        *,
        lease: Lease,
        still_ours: StillOurs,
        on_event: OnEvent,
        on_failed: Callable[[Exception], None] = lambda error: None,
        retries: Callable[[], CommitRetries | None] = lambda: None,
        before: BeforeCommit = lambda positions: None,
    ) -> None:
        self._store = store
        self._group = group
        self._lease = lease
        self._still_ours = still_ours
        self._on_event = on_event
        self._on_failed = on_failed
        self._retries = retries
        self._before = before
        self.lock = Lock()  # a commit on the timer must not be written after the one at release
        self._due = Event()
        self._failing = False
        self._first = True

    def commit(self, cursors: Iterable[Committable]) -> Results:
        """Commit what is done of each; return None per partition, or why not.  Never raises an error of the store."""
        with self.lock:
            results = self.commit_locked(cursors)
        self._report(results)
        return results

    def commit_locked(self, cursors: Iterable[Committable], again: bool = False) -> Results:
        """Commit what is done, for a caller that holds the lock and reports failures itself.  again: repeat unmoved
        committed offsets."""
        done = {cursor: cursor.committed if again else cursor.committable() for cursor in cursors}
        return self._write({cursor: at for cursor, at in done.items() if at is not None}, self._lease.until_revoked())

    def commit_last(self, cursors: Iterable[Committable]) -> Results:
        """Commit what is done of partitions that are revoked: retried, within the time that the other members wait.

        When that time is over, every commit that began before is over, too: one that waits for its second store, or on
        the lock, would write behind the next owner's.
        """
        leaving = list(cursors)
        retries = self._retries()
        if retries is None:
            return self.commit(leaving)
        try:
            with deadline(retries.limit_s, f"committing {counted(len(leaving), 'offset')}"):
                return self._retried(retries, lambda: self.commit(leaving))
        except TimeoutError as e:
            self._lease.end_what_began("partitions were given up while this waited")
            over = ConsumerError(f"{e}; they may be written")
            results: Results = dict.fromkeys((cursor.tp for cursor in leaving), over)
            self._report(results)
            return results

    def commit_asked(self, cursors: Iterable[Committable]) -> Results:
        """Commit what is done at the user's request: retried."""
        wanted = list(cursors)
        return self._retried(self._retries(), lambda: self.commit(wanted))

    def commit_at(self, positions: Mapping[C, int]) -> Results:
        """Commit exactly these positions, whatever is done; retried, but only in this session."""
        lease = self._lease.until_revoked()

        def once() -> Results:
            with self.lock:
                results = self._write(positions, lease)
            self._report(results)
            return results

        return self._retried(self._retries(), once)

    def _retried(self, retries: CommitRetries | None, once: Callable[[], Results]) -> Results:
        """Retry a commit, without the lock between two tries."""
        results = once()
        for _ in range(retries.count if retries is not None else 0):
            if not any(isinstance(e, LinkLost) or (isinstance(e, BrokerError) and e.passes) for e in results.values()):
                break
            assert retries is not None
            sleep(retries.backoff_s)
            results = once()
        return results

    def commit_soon(self) -> None:
        """Let the timer commit now, in its own greenlet; do nothing without a timer."""
        self._due.set()

    def _write(self, wanted: Mapping[C, int], lease: Lease) -> Results:
        """Write offsets, with the lock held.  lease: of the session in which the partitions are ours, since all calls
        here may wait."""
        positions = {cursor.tp: at for cursor, at in wanted.items()}
        if any(cursor.committed != at for cursor, at in wanted.items()):
            self._failpoints()
        refusal = self._before(positions)
        if isinstance(refusal, Exception):
            return dict.fromkeys(positions, refusal)
        results = self._store.commit(self._group, positions, lease) if positions else {}
        foreign = [e for e in results.values() if isinstance(e, ForeignWrite)]
        if foreign:
            results |= self._overwrite(foreign, positions, lease)
        for cursor, at in wanted.items():
            if results.get(cursor.tp) is None:
                cursor.committed = at
        return results

    def _failpoints(self) -> None:
        if self._first:
            self._first = False
            failpoint("before first commit")
        failpoint("after ack before commit")

    def _overwrite(self, foreign: list[ForeignWrite], positions: dict[TopicPartition, int], lease: Lease) -> Results:
        """Write our offset over another writer's if the partition is still ours."""
        for e in foreign:
            self._on_event(ConsumerEvent("offset", str(e), e.tp))
        try:
            ours = {tp: positions[tp] for tp in self._still_ours([e.tp for e in foreign])}
        except ConsumerError as e:
            return {f.tp: e for f in foreign}
        return self._store.commit(self._group, ours, lease) if ours else {}

    def _report(self, results: Results) -> None:
        """Log a line when commits begin to fail, and one when they work again."""
        failed = {tp: e for tp, e in results.items() if e is not None}
        if failed and not self._failing:
            tp, why = next(iter(failed.items()))
            self._on_event(
                ConsumerEvent("offset", f"{counted(len(failed), 'offset')} not committed, the first {tp}: {why}", tp)
            )
            self._on_failed(why)
        elif self._failing and results and not failed:
            self._on_event(ConsumerEvent("offset", f"committing works again: {counted(len(results), 'offset')}"))
        if results:
            self._failing = bool(failed)

    def run(
        self,
        interval_s: float,
        cursors: Callable[[], Iterable[Committable]],
        connected: Callable[[], bool],
        all_every_s: float = ALL_EVERY_S,
    ) -> None:
        """Commit on the timer what moved, and every all_every_s all partitions; sooner, and all, after a failure and
        after commit_soon()."""
        all_due = now()
        while True:
            failed = self._failing
            asked = self._due.wait(timeout=min(RETRY_S, interval_s) if failed else interval_s)
            self._due.clear()
            if not connected():
                continue
            if asked or failed or now() >= all_due:
                all_due = now() + all_every_s
                self.commit(cursors())
            else:
                self.commit([cursor for cursor in cursors() if cursor.committable() != cursor.committed])
