"""Owned partitions of a member, from their committed offset to their last commit.  Runs in the event loop.

The machine decides when each step is due, and the kind of group when a partition is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from groundwork.sentences import counted
from kafkawire.model import TopicPartition
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.fetching.drain import DRAIN_AT_END_S, drain
from zkconsumer.fetching.fetchers import Fetchers
from zkconsumer.fetching.partitioncursor import Cursor
from zkconsumer.fetching.position import Seek
from zkconsumer.fetching.resets import not_delivered
from zkconsumer.listeners import ListenerCalls
from zkconsumer.offsets.commits import Commits
from zkconsumer.offsets.store import NONE, FormerOffset, OffsetStore, Unknown
from zkconsumer.options.config import ConsumerConfig

NAMED = 20  # partitions named in one event

Offset = int | FormerOffset | None  # where a partition is read from; None: no committed offset


def some_of(partitions: Iterable[TopicPartition]) -> str:
    """Return the number of partitions, with the names of the first NAMED."""
    names = sorted(map(str, partitions))
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{counted(len(names), 'partition')}: {', '.join(names[:NAMED])}{more}"


class OwnedPartitions:
    """Partitions that the member owns, with their cursors, which are made, started and dropped here.

    A partition whose committed offset cannot be read has a parked cursor that no fetcher knows, so that the program
    sees it and may seek.  Each round tries to read its offset again.
    """

    def __init__(
        self,
        *,
        cursors: dict[TopicPartition, Cursor],
        fetchers: Fetchers,
        commits: Commits,
        store: OffsetStore,
        make_cursor: Callable[[TopicPartition, str, str], Cursor],
        config: ConsumerConfig,
        listener: ListenerCalls,
        on_event: OnEvent,
    ) -> None:
        self.cursors = cursors
        self._fetchers = fetchers
        self._commits = commits
        self._store = store
        self._make_cursor = make_cursor
        self._config = config
        self._listener = listener
        self._on_event = on_event
        self._unread: dict[TopicPartition, str] = {}  # owned partitions, and why their committed offset cannot be read

    def offsets(self, assignment: Mapping[TopicPartition, str]) -> dict[TopicPartition, Offset]:
        """Read the committed offsets of partitions that are not read yet, given with their threads.

        A partition whose offset cannot be read is reported, parked, and left out until the program seeks.  Raises
        ConsumerError.
        """
        found = self._store.read(self._config.group_id, assignment)
        self.forget([tp for tp in self._unread if tp not in found])
        known: dict[TopicPartition, Offset] = {}
        for tp, at in found.items():
            if not isinstance(at, Unknown):
                known[tp] = None if at is NONE else at
                continue
            if self.sought(tp) is not None:
                known[tp] = None
            elif self._unread.get(tp) != at.reason:
                self._on_event(ConsumerEvent("unread", f"{tp} is not read: {at.reason}", tp))
                self.forget([tp])
                self._unread[tp] = at.reason
                cursor = self._make_cursor(tp, assignment[tp], self._config.auto_offset_reset)
                cursor.apply(cursor.partition.park, at.reason)
                self.cursors[tp] = cursor
        return known

    def sought(self, tp: TopicPartition) -> int | None:
        """Return the offset that the program chose for a partition whose committed offset cannot be read, if it did."""
        return self.cursors[tp].partition.position.offset if tp in self._unread and tp in self.cursors else None

    def readable(self, cursor: Cursor) -> bool:
        """Return True unless the committed offset still cannot be read, and the program did not seek.  Reading of the
        partition begins with the next round."""
        tp = cursor.tp
        position = cursor.partition.position
        if tp not in self._unread or position.offset is not None:
            return True
        found = self._store.read(self._config.group_id, [tp])[tp]
        if cursor.closing or tp not in self._unread:
            return False
        if position.offset is None and isinstance(found, int):  # the program may have sought meanwhile
            cursor.apply(cursor.partition.reset_to, found)
        return position.offset is not None

    def start(
        self,
        assignment: Mapping[TopicPartition, str],
        located: Mapping[TopicPartition, Offset],
        *,
        ours: Callable[[TopicPartition], bool],
        reset_of: Callable[[TopicPartition], str],
        prepare: Callable[[Cursor], object] = lambda cursor: None,
    ) -> None:
        """Start reading partitions by their threads, from the listener's offset, else from the located ones.

        ours(tp): checked before and after the listener is called, because both take a while; reset_of(tp): the policy
        if there is no offset.
        """
        chosen = self._listener.before_start({tp: thread for tp, thread in assignment.items() if ours(tp)}) or {}
        fresh = []
        for tp, thread in assignment.items():
            if not ours(tp):
                continue  # lost while its offset was read or the listener was called; the next event reports it
            sought = self.sought(tp)
            self.forget([tp])  # parked until now
            cursor = self._make_cursor(tp, thread, reset_of(tp))
            prepare(cursor)
            found = located[tp]
            at = chosen.get(tp, found if sought is None else sought)
            if isinstance(found, int):
                cursor.committed = found
            if isinstance(at, FormerOffset):
                seek = Seek(self._config.auto_offset_reset, at.position, at.reason)
                cursor.apply(cursor.partition.seek_start, seek)
            elif at is not None:
                cursor.apply(cursor.partition.reset_to, at)
            self.cursors[tp] = cursor
            fresh.append(cursor)
        self._fetchers.add(fresh)
        if fresh:
            self._on_event(ConsumerEvent("owned", some_of(cursor.tp for cursor in fresh)))

    def stop(self, tps: Collection[TopicPartition]) -> None:
        """Stop fetching and delivering partitions; delivered messages may still be done.

        Sets that were fetched from a deleted topic are still delivered: no owner can read them again.
        """
        self._fetchers.remove(tps)
        for cursor in self.among(tps):
            if not cursor.partition.topic_deleted:
                cursor.apply(cursor.partition.revoke)

    def drain(self, tps: Collection[TopicPartition], closing: bool) -> None:
        """Wait until delivered messages are done, for rebalance.drain.ms at most."""
        drain_s = self._config.rebalance_drain_ms / 1000
        drain(self.among(tps), self._listener, min(drain_s, DRAIN_AT_END_S) if closing else drain_s)

    def commit(self, tps: Collection[TopicPartition]) -> str:
        """Commit the done messages of partitions for the next owner, which reads the others again.  Return "", or why a
        partition is not committed."""
        leaving = self.among(tps)
        results = self._commits.commit_last(leaving) if self._config.auto_commit else {}
        for cursor in leaving:
            with cursor.lock:
                lost = cursor.partition.undone
            if lost and cursor.partition.topic_deleted:
                self._on_event(not_delivered(cursor.tp, lost))
            cursor.drop()
        failed = [f"{tp}: {e}" for tp, e in results.items() if e is not None]
        return f"not committed: {failed[0]}" if failed else ""

    def drop(self, tps: Collection[TopicPartition]) -> None:
        """Revoke partitions at once: nothing more of them is delivered, sent or committed."""
        self._fetchers.remove(tps)
        self.forget(tps)

    def forget(self, tps: Iterable[TopicPartition]) -> None:
        """Forget partitions that are not ours any more."""
        tps = list(tps)
        for tp in tps:
            self._unread.pop(tp, None)
        gone = [cursor for tp in tps if (cursor := self.cursors.pop(tp, None)) is not None]
        for cursor in gone:
            cursor.drop()
        Cursor.discard_fetched(gone)

    def forget_unread(self) -> None:
        """Forget the partitions whose committed offset cannot be read, since a rebalance assigns them again."""
        self.forget(self._unread)

    def among(self, tps: Iterable[TopicPartition]) -> list[Cursor]:
        return [self.cursors[tp] for tp in tps if tp in self.cursors]
