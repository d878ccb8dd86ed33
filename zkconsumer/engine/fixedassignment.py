"""Fixed partitions: an assignment source without group and ZooKeeper.  No other member can take them away.

    connect    a broker answers (0.7: the list says where each partition is), and the store is read
    take part  the listener is called, the cursors start
    leave      wait until delivered messages are done, then commit

Only the program's file or store of offsets can show that two programs read the same list.  An offset that the store
cannot read parks its partition; unpark reads it again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn

from groundwork.executor import ThreadExecutor
from groundwork.tasks import connect, deadline
from kafkawire.cluster.metadata import MetadataSource
from kafkawire.model import Broker, PartitionId, TopicPartition
from kafkawire.net.links import Links
from kafkawire.znodes.group import Registration
from zkconsumer.engine.assignment import CLOSED_AT_START, METADATA_MS, EngineContext
from zkconsumer.engine.offsetstores import store_of_fixed
from zkconsumer.errors import Closed, ConsumerError
from zkconsumer.events import ConsumerEvent
from zkconsumer.fetching.currentleaders import ConstantLeaders, CurrentLeaders, RefreshedLeaders
from zkconsumer.fetching.drain import DRAIN_AT_END_S, drain
from zkconsumer.fetching.partitioncursor import Cursor
from zkconsumer.fetching.position import Seek
from zkconsumer.group.assignor import assign_range, java_order
from zkconsumer.offsets.modes import Mode
from zkconsumer.offsets.store import NONE, Committed, FormerOffset, OffsetStore, Unknown

SLOW_S = 10.0  # a call of the store that takes longer is reported, again after each further interval


class FixedAssignment:
    """Assignment source of a list.  own: the program's offset store, instead of offsets.file."""

    rounds = 0  # a list has no rebalances
    session_state = ""
    silent_s = 0.0
    offsets = None
    deleted: Mapping[str, str] = {}

    def __init__(self, context: EngineContext, own: OffsetStore | None) -> None:
        config = context.config
        self._context = context
        self._group = config.group_id
        self._on_event = context.on_event
        self._cursors = context.cursors
        self._unknown: set[TopicPartition] = set()  # parked, because the store cannot read their offsets
        self._leaving = False
        self._reported_others = False
        self.settled = False
        context.lease.valid_until = math.inf
        self._executor = ThreadExecutor(context.hub, SLOW_S, self._slow)
        self._store = store_of_fixed(config, own, self._executor)
        asking = context.versions.connect(config.kafka_security.connect(connect))
        self._links = Links(config.client_name, asking, min(config.socket_timeout_ms, METADATA_MS))
        self.leaders = self._leaders(context)
        self.fetchers = context.fetchers(self.leaders)
        self.commits = context.commits(self._store, self._still_ours)
        self._threads = _threads_of(context)

    def _leaders(self, context: EngineContext) -> CurrentLeaders:
        if not context.dialect.describes_itself:
            return ConstantLeaders(context.config.broker_list)
        return RefreshedLeaders(MetadataSource(context.config.brokers, context.dialect, self._links))

    # start and end ------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        bootstrap = [Broker(-1 - n, host, port) for n, (host, port) in enumerate(self._context.config.brokers)]
        self._context.first_metadata(lambda: self.leaders.read(()), bootstrap, lambda: self._leaving)

    def take_part(self) -> None:
        self._report_unread()
        found = self._store.read(self._group, self._threads)
        chosen = self._context.listener.before_start(dict(self._threads)) or {}
        if self._leaving:
            raise Closed(CLOSED_AT_START)
        for tp, thread in self._threads.items():
            cursor = self._cursors[tp] = self._context.make_cursor(tp, thread, self._context.config.auto_offset_reset)
            self._begin(cursor, found[tp], chosen.get(tp))
        self.fetchers.add([cursor for tp, cursor in self._cursors.items() if tp not in self._unknown])
        self.settled = True

    def _begin(self, cursor: Cursor, found: Committed, chosen: int | None = None) -> None:
        """Start at the listener's offset, else at the committed one, else by auto.offset.reset."""
        partition = cursor.partition
        self._unknown.discard(cursor.tp)
        if isinstance(found, int):
            cursor.committed = found
        if chosen is not None:
            cursor.apply(partition.reset_to, chosen)
        elif isinstance(found, Unknown):
            self._unknown.add(cursor.tp)
            cursor.apply(partition.park, found.reason)
        elif isinstance(found, FormerOffset):
            seek = Seek(partition.position.seek.reset, found.position, found.reason)
            cursor.apply(partition.seek_start, seek)
        elif found is not NONE:
            cursor.apply(partition.reset_to, found)

    def leave(self, timeout_s: float) -> None:
        self._leaving = True
        self.settled = False
        try:
            with deadline(timeout_s, "to commit what is done"):
                self._leave()
        except TimeoutError as e:
            self._on_event(ConsumerEvent("offset", f"{e}; what is not committed is read again"))

    def _leave(self) -> None:
        config = self._context.config
        leaving = list(self._cursors.values())
        if not leaving:
            return
        self.fetchers.remove([cursor.tp for cursor in leaving])
        for cursor in leaving:
            cursor.apply(cursor.partition.revoke)
        drain(leaving, self._context.listener, min(config.rebalance_drain_ms / 1000, DRAIN_AT_END_S))
        if config.auto_commit:
            self.commits.commit(leaving)

    def close(self) -> None:
        self._leaving = True
        self._context.lease.revoke()  # a commit that still runs in its thread must not be written after this
        self._executor.close()
        self._links.end()

    # what the engine asks -----------------------------------------------------------------------------------------

    def may_commit(self) -> bool:
        return True

    def readable(self, cursor: Cursor) -> bool:
        """Read an offset again that the store could not read; a seek also replaces it."""
        tp = cursor.tp
        if tp not in self._unknown:
            return True
        if cursor.partition.position.offset is None:
            found = self._store.read(self._group, [tp])[tp]
            if cursor.closing or tp not in self._unknown:
                return False
            if cursor.partition.position.offset is None:
                self._begin(cursor, found)
        else:
            self._unknown.discard(tp)
        if tp in self._unknown:
            return False
        self.fetchers.add([cursor])
        return True

    def ask(self, what: str, question: Callable[..., Any], *args: object) -> NoReturn:
        raise ConsumerError(f"cannot {what}: fixed partitions are read without ZooKeeper")

    def topics(self) -> Sequence[str]:
        return self.ask("read topics", lambda: None)

    def partitions(self, topics: Collection[str]) -> Mapping[str, Mapping[PartitionId, Sequence[int]]]:
        return self.ask("read partitions of topics", lambda: None)

    def settings(self, topics: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        return self.ask("read settings of topics", lambda: None)

    def owners(self, topics: Collection[str]) -> Mapping[TopicPartition, str]:
        return self.ask("read owners of partitions", lambda: None)

    def subscribe(self, registration: Registration, timeout_s: float) -> bool:
        raise ConsumerError("fixed partitions are read as they were given; a filter needs a group")

    def switch_offsets(self, mode: Mode) -> None:
        raise ConsumerError(
            f"offsets cannot go to {mode}: positions of fixed partitions are in offsets.file, or in the program's store"
        )

    def _still_ours(self, tps: list[TopicPartition]) -> Sequence[TopicPartition]:
        """Return all partitions, because the list gives them to us.  Another writer of their offsets is reported, and
        overwritten."""
        if not self._reported_others:
            self._reported_others = True
            text = (
                f"another writer changes positions of {len(tps)} of our fixed partitions, the first {tps[0]}: is a"
                " second program running with the same list and store?  Ours are written over theirs"
            )
            self._on_event(ConsumerEvent("offset", text))
        return tps

    def _slow(self, seconds: float) -> None:
        text = f"the offset store has not answered for {seconds:.0f} s; nothing is committed meanwhile"
        self._on_event(ConsumerEvent("offset", text))

    def _report_unread(self) -> None:
        """Report topics of the list that no stream reads, and streams that have nothing to read."""
        config, wanted = self._context.config, self._context.registration.subscription
        unread = sorted({tp.topic for tp in config.partitions} - wanted.keys())
        if unread:
            text = f"'partitions' names topics that no stream reads: {', '.join(unread)}"
            self._on_event(ConsumerEvent("idle", text))
        for topic, ids in _ids(self._context).items():
            if wanted.get(topic, 0) > len(ids):
                text = (
                    f"topic {topic} has {wanted[topic]} streams for {len(ids)} partitions in 'partitions': some of them"
                    " read nothing"
                )
                self._on_event(ConsumerEvent("idle", text))


def _threads_of(context: EngineContext) -> dict[TopicPartition, str]:
    """Return the thread of each partition that is read, assigned as range does for the only member of a group."""
    given = assign_range(_ids(context), _thread_names(context))
    return {tp: thread for thread, tps in given.items() for tp in tps}


def _thread_names(context: EngineContext) -> dict[str, list[str]]:
    names = context.dialect.znodes.thread_ids
    wanted = context.registration.subscription
    return {topic: java_order(names(context.consumer_id, count)) for topic, count in wanted.items()}


def _ids(context: EngineContext) -> dict[str, list[PartitionId]]:
    ids: dict[str, list[PartitionId]] = {}
    for tp in context.config.partitions:
        ids.setdefault(tp.topic, []).append(tp.partition)
    return {topic: list(context.dialect.in_order(each)) for topic, each in ids.items()}
