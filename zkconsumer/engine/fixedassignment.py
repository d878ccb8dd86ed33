"""The side of a connector whose partitions are a list: no group, no ZooKeeper, and nobody who could take them away.

    connect    a broker answers (0.7: the list says where each is), and the store says where to begin
    take part  the listener has its word, the cursors begin
    leave      what is in the program's hands is done, then committed

Committed positions are the program's file or store to guard: nothing but that keeps two programs with the same list
apart.  A position that the store cannot tell parks its partition; it is asked again when it is unparked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from groundwork.executor import ThreadExecutor
from groundwork.options import specs
from groundwork.tasks import connect, deadline
from kafkawire.cluster.metadata import MetadataSource
from kafkawire.cluster.metadata import Unreachable as NoBroker
from kafkawire.cluster.release import why_never
from kafkawire.model import Broker, PartitionId, TopicPartition
from kafkawire.net.links import Links
from zkconsumer.engine.assignment import Parts
from zkconsumer.engine.offsetstores import store_of_fixed
from zkconsumer.errors import Closed, ConsumerError, Unreachable
from zkconsumer.events import ConsumerEvent
from zkconsumer.fetching.cursor import Cursor, Seek
from zkconsumer.fetching.drain import DRAIN_AT_END_S, drain
from zkconsumer.fetching.leaders import LeaderSource, ListedLeaders, MetadataLeaders
from zkconsumer.group.assignor import assign_range, java_order
from zkconsumer.offsets.modes import Mode
from zkconsumer.offsets.store import NONE, Committed, FormerOffset, OffsetStore, Unknown

METADATA_MS = 10_000  # a broker that is silent for longer keeps the question from the others
SLOW_S = 10.0  # an answer of the store that takes longer is told of, each time as long


class FixedSide:
    """own: the program's offset store, instead of offsets.file."""

    rounds = 0  # of a group
    session_state = ""
    silent_s = 0.0
    offsets = None

    def __init__(self, parts: Parts, own: OffsetStore | None) -> None:
        config = parts.config
        self._parts = parts
        self._group = config.group_id
        self._on_event = parts.on_event
        self._cursors = parts.cursors
        self._unknown: set[TopicPartition] = set()  # parked, because the store does not tell their positions
        self._leaving = False
        self._told_others = False
        self.settled = False
        parts.lease.valid_until = math.inf
        self._beside = ThreadExecutor(parts.hub, SLOW_S, self._slow)
        self._store = store_of_fixed(config, own, self._beside)
        self._links = Links(config.client_name, connect, min(config.socket_timeout_ms, METADATA_MS))
        self.leaders = self._leaders(parts)
        self.fetchers = parts.fetchers(self.leaders)
        self.commits = parts.commits(self._store, self._still_ours)
        self._threads = _deal(parts)

    def _leaders(self, parts: Parts) -> LeaderSource:
        if not parts.dialect.describes_itself:
            return ListedLeaders(parts.config.broker_list)
        return MetadataLeaders(MetadataSource(parts.config.brokers, parts.dialect, self._links))

    # start and end ------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        try:
            self.leaders.look(())
        except NoBroker as e:
            why = self._why_never()
            if why is not None:
                raise ConsumerError(why) from e
            raise Unreachable(f"{e}: are they running, and is metadata.broker.list right?") from e

    def _why_never(self) -> str | None:
        config = self._parts.config
        brokers = [Broker(-1 - n, host, port) for n, (host, port) in enumerate(config.brokers)]
        return why_never(brokers, self._parts.dialect, specs(type(config))["version"].key, connect)

    def take_part(self) -> None:
        self._tell_unread()
        found = self._store.read(self._group, self._threads)
        chosen = self._parts.hooks.before_start(dict(self._threads)) or {}
        if self._leaving:
            raise Closed("the connector was shut down while it started")
        for tp, thread in self._threads.items():
            cursor = self._cursors[tp] = self._parts.make_cursor(tp, thread, self._parts.config.auto_offset_reset)
            self._begin(cursor, found[tp], chosen.get(tp))
        self.fetchers.add([cursor for tp, cursor in self._cursors.items() if tp not in self._unknown])
        self.settled = True

    def _begin(self, cursor: Cursor, found: Committed, chosen: int | None = None) -> None:
        """Where the listener says, else at the committed position; none of either: by auto.offset.reset."""
        self._unknown.discard(cursor.tp)
        if isinstance(found, int):
            cursor.committed = found
        if chosen is not None:
            cursor.begin(chosen)
        elif isinstance(found, Unknown):
            self._unknown.add(cursor.tp)
            cursor.park(found.reason)
        elif isinstance(found, FormerOffset):
            cursor.lose(Seek(cursor.seek.reset, found.position, found.reason))
        elif found is not NONE:
            cursor.begin(found)

    def leave(self, timeout_s: float) -> None:
        self._leaving = True
        self.settled = False
        try:
            with deadline(timeout_s, "to commit what is done"):
                self._leave()
        except TimeoutError as e:
            self._on_event(ConsumerEvent("offset", f"{e}; what is not committed is read again"))

    def _leave(self) -> None:
        config = self._parts.config
        leaving = list(self._cursors.values())
        if not leaving:
            return
        self.fetchers.remove([cursor.tp for cursor in leaving])
        for cursor in leaving:
            cursor.close()
        drain(leaving, self._parts.hooks, min(config.rebalance_drain_ms / 1000, DRAIN_AT_END_S))
        if config.auto_commit:
            self.commits.commit(leaving)

    def close(self) -> None:
        self._leaving = True
        self._parts.lease.revoke()  # a commit that is still under way in its thread must not land after this
        self._beside.close()
        self._links.end()

    # what the engine asks -----------------------------------------------------------------------------------------

    def may_commit(self) -> bool:
        return True

    def readable(self, cursor: Cursor) -> bool:
        """Ask the store again for a position that it did not tell; a seek has settled it as well."""
        tp = cursor.tp
        if tp not in self._unknown:
            return True
        if cursor.position is None:
            found = self._store.read(self._group, [tp])[tp]
            if cursor.closing or tp not in self._unknown:
                return False
            if cursor.position is None:
                self._begin(cursor, found)
        else:
            self._unknown.discard(tp)
        if tp in self._unknown:
            return False
        self.fetchers.add([cursor])
        return True

    def ask(self, what: str, question: Callable[..., Any], *args: object) -> Any:
        raise ConsumerError(f"cannot {what}: fixed partitions are read without ZooKeeper")

    def switch_offsets(self, mode: Mode) -> None:
        raise ConsumerError(
            f"offsets cannot go to {mode}: positions of fixed partitions are in offsets.file, or in the program's store"
        )

    def _still_ours(self, tps: list[TopicPartition]) -> Sequence[TopicPartition]:
        """All of them: the list says so.  Whoever else writes their positions is told of, and not obeyed."""
        if not self._told_others:
            self._told_others = True
            text = (
                f"somebody else writes positions of {len(tps)} of our fixed partitions, the first {tps[0]}: is a second"
                " program at work with the same list and store?  Ours are written over theirs"
            )
            self._on_event(ConsumerEvent("offset", text))
        return tps

    def _slow(self, seconds: float) -> None:
        text = f"the offset store has not answered for {seconds:.0f} s; nothing is committed meanwhile"
        self._on_event(ConsumerEvent("offset", text))

    def _tell_unread(self) -> None:
        """What of the list nobody reads, and which streams have nothing to read."""
        config, wanted = self._parts.config, self._parts.registration.subscription
        unread = sorted({tp.topic for tp in config.partitions} - wanted.keys())
        if unread:
            text = f"'partitions' names topics that no stream reads: {', '.join(unread)}"
            self._on_event(ConsumerEvent("idle", text))
        for topic, ids in _ids(self._parts).items():
            if wanted.get(topic, 0) > len(ids):
                text = (
                    f"topic {topic} has {wanted[topic]} streams for {len(ids)} partitions in 'partitions': some of them"
                    " read nothing"
                )
                self._on_event(ConsumerEvent("idle", text))


def _deal(parts: Parts) -> dict[TopicPartition, str]:
    """The thread of each partition that is read: dealt as one member of a group would get them by range."""
    given = assign_range(_ids(parts), _thread_names(parts))
    return {tp: thread for thread, tps in given.items() for tp in tps}


def _thread_names(parts: Parts) -> dict[str, list[str]]:
    names = parts.dialect.znodes.thread_ids
    wanted = parts.registration.subscription
    return {topic: java_order(names(parts.consumer_id, count)) for topic, count in wanted.items()}


def _ids(parts: Parts) -> dict[str, list[PartitionId]]:
    ids: dict[str, list[PartitionId]] = {}
    for tp in parts.config.partitions:
        ids.setdefault(tp.topic, []).append(tp.partition)
    return {topic: list(parts.dialect.in_order(each)) for topic, each in ids.items()}
