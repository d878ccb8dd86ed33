"""Owned partitions of a member, from their committed offset to their last commit.  In the event loop.

The same in a group in ZooKeeper (executor.py) and in one that Kafka's coordinator keeps (zkconsumer.kafkagroup): when
each step is due, and what makes a partition ours, is theirs to say.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from groundwork.sentences import counted
from kafkawire.model import TopicPartition
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.fetching.cursor import Cursor, Seek
from zkconsumer.fetching.drain import DRAIN_AT_END_S, drain
from zkconsumer.fetching.fetchers import Fetchers
from zkconsumer.fetching.resets import not_delivered
from zkconsumer.listeners import ListenerCalls
from zkconsumer.offsets.commits import Commits
from zkconsumer.offsets.store import NONE, FormerOffset, OffsetStore, Unknown
from zkconsumer.options.config import ConsumerConfig

NAMED = 20  # partitions named in one event

Offset = int | FormerOffset | None  # where a partition is read from; None: nothing is committed


def some_of(partitions: Iterable[TopicPartition]) -> str:
    """How many partitions, with the names of the first NAMED."""
    names = sorted(map(str, partitions))
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{counted(len(names), 'partition')}: {', '.join(names[:NAMED])}{more}"


class OwnedPartitions:
    """cursors: the partitions that the member owns and reads; made, started and dropped here."""

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

    def offsets(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, Offset]:
        """Read the committed offsets; one that cannot be read is reported and left out.  Raises ConsumerError."""
        known: dict[TopicPartition, Offset] = {}
        for tp, at in self._store.read(self._config.group_id, tps).items():
            if isinstance(at, Unknown):
                self._on_event(ConsumerEvent("unread", f"{tp} is not read: {at.reason}", tp))
            else:
                known[tp] = None if at is NONE else at
        return known

    def start(
        self,
        assignment: Mapping[TopicPartition, str],
        located: Mapping[TopicPartition, Offset],
        *,
        ours: Callable[[TopicPartition], bool],
        reset_of: Callable[[TopicPartition], str],
        prepare: Callable[[Cursor], object] = lambda cursor: None,
    ) -> None:
        """Read these by their threads, from where the listener says, else from the located offsets.

        ours(tp): asked before and after the listener is called, for either takes a while; reset_of(tp): what applies
        where there is no offset.
        """
        chosen = self._listener.before_start({tp: thread for tp, thread in assignment.items() if ours(tp)}) or {}
        fresh = []
        for tp, thread in assignment.items():
            if not ours(tp):
                continue  # lost while its offset was read or the listener was called; the next event says so
            cursor = self._make_cursor(tp, thread, reset_of(tp))
            prepare(cursor)
            at = chosen.get(tp, found := located[tp])
            if isinstance(found, int):
                cursor.committed = found
            if isinstance(at, FormerOffset):
                cursor.seek_start(Seek(self._config.auto_offset_reset, at.position, at.reason))
            elif at is not None:
                cursor.reset_to(at)
            self.cursors[tp] = cursor
            fresh.append(cursor)
        self._fetchers.add(fresh)
        if fresh:
            self._on_event(ConsumerEvent("owned", some_of(cursor.tp for cursor in fresh)))

    def stop(self, tps: Collection[TopicPartition]) -> None:
        """Fetch and deliver nothing more of these; what is delivered may still be done.

        What was fetched of a topic that was deleted is still delivered: no owner can read it again.
        """
        self._fetchers.remove(tps)
        for cursor in self.among(tps):
            if not cursor.topic_deleted:
                cursor.close()

    def drain(self, tps: Collection[TopicPartition], closing: bool) -> None:
        """Wait until what is delivered of these is done, for rebalance.drain.ms at most."""
        drain_s = self._config.rebalance_drain_ms / 1000
        drain(self.among(tps), self._listener, min(drain_s, DRAIN_AT_END_S) if closing else drain_s)

    def commit(self, tps: Collection[TopicPartition]) -> str:
        """Commit what is done of these, for their next owner, who reads the rest again; "", or why one is not
        committed."""
        leaving = self.among(tps)
        results = self._commits.commit_last(leaving) if self._config.auto_commit else {}
        for cursor in leaving:
            if cursor.topic_deleted and (lost := cursor.undone):
                self._on_event(not_delivered(cursor.tp, lost))
            cursor.drop()
        failed = [f"{tp}: {e}" for tp, e in results.items() if e is not None]
        return f"not committed: {failed[0]}" if failed else ""

    def drop(self, tps: Collection[TopicPartition]) -> None:
        """Revoke these at once: nothing more of them is delivered, sent or committed."""
        self._fetchers.remove(tps)
        self.forget(tps)

    def forget(self, tps: Iterable[TopicPartition]) -> None:
        """They are not ours any more."""
        gone = [cursor for tp in tps if (cursor := self.cursors.pop(tp, None)) is not None]
        for cursor in gone:
            cursor.drop()
        Cursor.discard_fetched(gone)

    def among(self, tps: Iterable[TopicPartition]) -> list[Cursor]:
        return [self.cursors[tp] for tp in tps if tp in self.cursors]
