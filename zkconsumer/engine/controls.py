"""Controls of owned partitions that a program calls: commit, park, pause, seek, status.  Run in the event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from groundwork import clocks
from groundwork.tasks import now
from kafkawire.model import TopicPartition
from zkconsumer.engine.status import PartitionStatus, StatusRows, status_of
from zkconsumer.errors import BeyondEnd, ConsumerError, TopicGone
from zkconsumer.fetching.committable import Parked
from zkconsumer.fetching.fetchers import Fetchers
from zkconsumer.fetching.partitioncursor import Cursor
from zkconsumer.offsets.commits import Commits, Results
from zkconsumer.session.lease import Lease

What = str | TopicPartition  # a topic, with all its present and future partitions; or one partition


class Pauses:
    """Paused topics and partitions, owned or not, so that a pause survives a rebalance.  Pure.

    The last call counts: a partition may be an exception to its topic, until the topic is named again.
    """

    def __init__(self) -> None:
        self._paused: dict[What, bool] = {}

    def replace(self, paused: Mapping[What, bool]) -> None:
        """Replace all pauses by these; False marks an exception to its topic."""
        self._paused = dict(paused)

    def set(self, what: What, paused: bool) -> None:
        if isinstance(what, TopicPartition):
            self._paused[what] = paused
            return
        exceptions = [one for one in self._paused if isinstance(one, TopicPartition) and one.topic == what]
        for tp in exceptions:
            del self._paused[tp]
        self._paused[what] = paused

    def __contains__(self, tp: TopicPartition) -> bool:
        return self._paused.get(tp, self._paused.get(tp.topic, False))

    def __repr__(self) -> str:
        return f"<Pauses of {', '.join(str(what) for what, paused in self._paused.items() if paused) or 'nothing'}>"


ENDS = ("smallest", "largest")


class Controls:
    """Calls of a program on cursors, which the assignment source owns.

    end_of(tp, "smallest" | "largest") asks its leader; readable(cursor): True if a parked one has an offset to be read
    from.
    """

    def __init__(
        self,
        *,
        cursors: Mapping[TopicPartition, Cursor],
        commits: Commits,
        fetchers: Fetchers,
        lease: Lease,
        end_of: Callable[[TopicPartition, str, int], int],
        readable: Callable[[Cursor], bool] = lambda cursor: True,
    ) -> None:
        self._cursors = cursors
        self._commits = commits
        self._fetchers = fetchers
        self._lease = lease
        self._end_of = end_of
        self._readable = readable
        self._rows = StatusRows()
        self._pauses = Pauses()
        self._fetch_limits: dict[TopicPartition, int] = {}

    def adopt(self, cursor: Cursor) -> None:
        """Apply pauses to a new cursor."""
        if cursor.tp in self._pauses:
            cursor.apply(cursor.partition.pause)
        _throttle(cursor, self._fetch_limits.get(cursor.tp))

    def status(self) -> list[PartitionStatus]:
        return self._rows.of(self._cursors.values(), now())

    def parked_status(self) -> list[PartitionStatus]:
        """Return the rows of parked partitions only, with or without an offset."""
        stopped = [cursor for cursor in self._cursors.values() if not cursor.partition.delivers]
        return [status_of(cursor, now()) for cursor in stopped if cursor.partition.undeliverable is not None]

    def commit(self, positions: Mapping[TopicPartition, int] | None = None) -> Results:
        """Commit what is done of every owned partition, or these positions.

        A position behind the end of the log is refused (BeyondEnd): nothing can have been read there, and a group that
        begins there would skip new messages.  The end itself is allowed.  A position before the log's beginning is
        written: retention may have overtaken a slow member.
        """
        if positions is None:
            return self._commits.commit_asked(self._cursors.values())
        results: Results = {}
        wanted: dict[Cursor, int] = {}
        for tp, at in positions.items():
            cursor = self._cursors.get(tp)
            if isinstance(at, bool) or not isinstance(at, int) or at < 0:
                raise ValueError(f"{at!r} as the position of {tp}: it must be a whole number of at least 0")
            if cursor is None or cursor.dropped:
                results[tp] = ConsumerError(f"{tp} is not owned by this member, so its offset is not ours to commit")
            elif cursor.partition.topic_deleted:
                results[tp] = TopicGone(tp, at)
            elif (why := self._beyond(cursor, at)) is not None:
                results[tp] = why
            else:
                wanted[cursor] = at
        return results | self._commits.commit_at(wanted)

    def _beyond(self, cursor: Cursor, at: int) -> ConsumerError | None:
        """Return why a position must not be committed: it is behind the end of the log, or the end is unknown.

        The leader is only asked if fetches did not show a large enough end.
        """
        known_end = cursor.partition.high_watermark
        if known_end is not None and at <= known_end:
            return None
        try:
            end = self._end_of(cursor.tp, "largest", at)
        except ConsumerError as e:
            return ConsumerError(f"{cursor.tp}: {at} is not committed, because the end of its log is not known: {e}")
        return BeyondEnd(cursor.tp, at, end) if at > end else None

    def park(self, tp: TopicPartition, reason: str) -> None:
        cursor = self._owned(tp, "parked")
        cursor.apply(cursor.partition.park, reason, True)

    def parked(self) -> dict[TopicPartition, Parked]:
        """Return why and at which offset partitions are parked, for those that have an offset."""
        stopped = ((tp, cursor) for tp, cursor in self._cursors.items() if not cursor.partition.delivers)
        found = ((tp, cursor.partition.parked_at) for tp, cursor in stopped if not cursor.closing)
        return {tp: where for tp, where in found if where is not None}

    def drained(self, tp: TopicPartition) -> bool:
        """True if no delivered message of an owned partition may still be done."""
        cursor = self._cursors.get(tp)
        return cursor is None or cursor.drained

    def unpark(self, tp: TopicPartition, go_on_at: int | None = None, measure: bool = False) -> bool:
        cursor = self._cursors.get(tp)
        if cursor is None or not self._lease.holds(clocks.moment()) or cursor.parked is None:
            return False
        if not self._readable(cursor):
            return False
        begun = cursor.apply(cursor.partition.unpark, go_on_at, measure)
        if begun:
            self._fetchers.wake()
        return begun

    def pause(self, what: Iterable[What]) -> None:
        self._set_paused(what, paused=True)

    def resume(self, what: Iterable[What]) -> None:
        self._set_paused(what, paused=False)
        self._fetchers.wake()

    def set_paused(self, paused: Mapping[What, bool]) -> None:
        self._pauses.replace(paused)
        self._apply_pauses()
        self._fetchers.wake()

    def throttle(self, limits: Mapping[TopicPartition, int]) -> None:
        freed = [tp for tp, limit in self._fetch_limits.items() if limit == 0 and limits.get(tp) != 0]
        self._fetch_limits = dict(limits)
        for tp, cursor in self._cursors.items():
            _throttle(cursor, limits.get(tp))
        if freed:
            self._fetchers.wake()

    def _set_paused(self, what: Iterable[What], paused: bool) -> None:
        for one in what:
            self._pauses.set(one, paused)
        self._apply_pauses()

    def _apply_pauses(self) -> None:
        for cursor in list(self._cursors.values()):
            if cursor.closing or (cursor.tp in self._pauses) is cursor.partition.paused:
                continue
            partition = cursor.partition
            cursor.apply(partition.resume if partition.paused else partition.pause)

    def seek(self, tp: TopicPartition, position: int | str) -> None:
        """Resume reading at an offset, or at an end of the log, for which the leader is asked."""
        if isinstance(position, bool) or not (position in ENDS or (isinstance(position, int) and position >= 0)):
            raise ValueError(
                f"{position!r} as the position of {tp}: it must be a number of at least 0, smallest or largest"
            )
        self._owned(tp, "moved")
        at = position if isinstance(position, int) else self._end_of(tp, position, 0)
        cursor = self._owned(tp, "moved")  # looked up again: the leader may have taken a while
        cursor.apply(cursor.partition.reset_to, at)
        cursor.discard_fetched([cursor])
        if cursor.parked is not None:  # because it had no position
            self.unpark(tp)
        self._commits.commit_soon()  # otherwise, with two stores, a crash would restore the larger offset
        self._fetchers.wake()

    def _owned(self, tp: TopicPartition, done: str) -> Cursor:
        cursor = self._cursors.get(tp)
        if cursor is None or cursor.closing:
            raise ConsumerError(f"{tp} is not owned by this member, so it cannot be {done} here")
        return cursor


def _throttle(cursor: Cursor, limit: int | None) -> None:
    if limit != cursor.partition.fetch_limit:
        cursor.apply(cursor.partition.throttle, limit)
