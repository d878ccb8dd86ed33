"""ConsumerConnector: the high-level consumer, a member of a ZooKeeper consumer group together with JVM members.

    options = {"zookeeper.connect": "zk1:2181", "group.id": "billing", "auto.offset.reset": "smallest"}
    with ConsumerConnector(options) as connector:
        (stream,) = connector.create_message_streams({"orders": 1})["orders"]
        for message in stream: ...

The constructor does nothing outside the process.  create_message_streams (or create_message_streams_by_filter)
connects, registers and takes part in a first rebalance; it can be called once.  A connector lives in one event loop
(groundwork.hub): the caller's own if the program is a gevent program, else one in a thread of its own; each method may
be called from any thread.
"""

from __future__ import annotations

import logging
import random
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import TracebackType

from groundwork.forks import not_in_a_fork
from groundwork.hub import HubStopped, OwnThread, Which, pick_hub
from groundwork.options import OptionError, warnings_of
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.dialects import Dialect
from kafkawire.model import TopicPartition
from kafkawire.znodes.group import BLACK_LIST, STATIC, WHITE_LIST, Registration
from zkconsumer.engine.engine import Engine
from zkconsumer.engine.metrics import ConsumerMetrics, MetricsSnapshot
from zkconsumer.engine.offsetstores import check_store
from zkconsumer.engine.status import PartitionStatus
from zkconsumer.errors import Closed, ConsumerError, Unreachable, ZooKeeperAway, all_committed
from zkconsumer.events import OnEvent, log_event
from zkconsumer.filters import TopicFilter
from zkconsumer.listeners import ConsumerListener
from zkconsumer.offsets.commits import BeforeCommit
from zkconsumer.offsets.modes import MODES, Mode
from zkconsumer.offsets.store import OffsetStore
from zkconsumer.options.config import ConsumerConfig, load_consumer, unfit
from zkconsumer.streams.messagereader import Decoder
from zkconsumer.streams.stream import Decoders, Stream

log = logging.getLogger(__name__)


class ConsumerConnector:
    """One member of config.group_id.

    config                   a ConsumerConfig, or a mapping of option names to values: {"group.id": "billing", ...};
                             OptionError says what is wrong with it
    release                  of the brokers; default: option kafka.version
    on_event(ConsumerEvent)  receives events for an operator; by default they are logged.  Runs in the event loop;
                             must not wait.  An error that it raises is raised as a listener's, and the event is logged
    on_fence()               the lease on the session is over: senders must stop now.  Runs in the event loop
    on_death(name, error)    a greenlet of the connector died; every stream raises the same error
    listener                 called when partitions are revoked and assigned (zkconsumer.listeners).  An error that it
                             raises is raised as ListenerFailed by each stream, or by the next call here with an effect
    offset_store             keeps the offsets of fixed partitions, instead of the file of offsets.file: an
                             OffsetStore (zkconsumer.offsets.store).  Called in one plain thread of its own, also at
                             start and at the end; it may wait
    before_commit(positions) called before each write of offsets, with what will be committed.  Runs in the event loop;
                             must not raise, and nothing is committed while it runs.  If it returns an error,
                             these offsets are not committed now but retried later

    With option partitions there is no group: only these partitions are read, without ZooKeeper.  Everything about
    groups and ZooKeeper does not apply then; if two programs read the same partitions, both read everything.
    """

    def __init__(
        self,
        config: ConsumerConfig | Mapping[str, object],
        hub: Which = "auto",
        *,
        release: str | None = None,
        versions: ClusterVersions | None = None,
        on_event: OnEvent = log_event,
        on_fence: Callable[[], object] = lambda: None,
        on_death: Callable[[str, BaseException], object] = lambda name, error: None,
        listener: ConsumerListener | None = None,
        offset_store: OffsetStore | None = None,
        before_commit: BeforeCommit = lambda positions: None,
    ) -> None:
        if not isinstance(config, ConsumerConfig):
            config = load_consumer(ConsumerConfig, config, "ConsumerConnector")
            for warning in warnings_of(config):
                log.warning("%s", warning)
        check_store(config, offset_store, "ConsumerConnector")
        self.config = config
        self._versions = versions or ClusterVersions(config.version if release is None else release)
        dialect = _fitting(config, self._versions.dialect)
        self.consumer_id = _consumer_id(config, dialect)
        self._hub = pick_hub(hub)
        self._engine: Engine | None = None
        self._registration: Registration | None = None
        self._closed = False
        self._on_event = on_event
        self._on_fence = on_fence
        self._on_death = on_death
        self._offset_store = offset_store
        self._before_commit = before_commit
        self._listener = listener if listener is not None else ConsumerListener()
        self._metrics: ConsumerMetrics | None = None
        self._lock = threading.Lock()
        self._ending = False
        self._forked = False
        not_in_a_fork(self)

    def _after_fork(self) -> None:
        """Do nothing in a forked child: sessions, connections and streams belong to the parent."""
        self._forked = True

    def listen(self, listener: ConsumerListener) -> ConsumerListener:
        """Use this listener from now on; return the previous one, so that calls can be passed on to it.

        Raises ConsumerError once there are streams, because the listener would have missed its first calls.
        """
        if self._engine is not None:
            raise ConsumerError("set the listener before the streams are created")
        before, self._listener = self._listener, listener
        return before

    # streams ------------------------------------------------------------------------------------------------------

    def create_message_streams(
        self, topics: Mapping[str, int], key_decoder: Decoder | None = None, value_decoder: Decoder | None = None
    ) -> dict[str, list[Stream]]:
        """Subscribe to topics, with a number of streams each.  A topic need not exist yet, and is not created.

        A decoder is called with (topic, bytes) for each message that is iterated; its result replaces the bytes.

        Raises Unreachable, ChrootMissing, NoBrokers and ConsumerError; ValueError for a count below 1.
        """
        for topic, count in topics.items():
            if count < 1:
                raise ValueError(f"{count} streams for topic {topic}: at least 1")
        self._must_be_listed(topics)
        engine = self._open(Registration(STATIC, dict(topics)), (key_decoder, value_decoder))
        return {topic: engine.streams_of(topic) for topic in topics}

    def create_message_streams_by_filter(
        self,
        topic_filter: TopicFilter,
        streams: int = 1,
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
    ) -> list[Stream]:
        """Subscribe to the topics that a Whitelist or Blacklist selects, including new ones; all use the same
        streams."""
        if streams < 1:
            raise ValueError(f"{streams} streams: at least 1")
        if self.config.partitions:
            raise ConsumerError(
                "a filter needs a group: with fixed 'partitions' use create_message_streams({topic: n})"
            )
        pattern = {WHITE_LIST: WHITE_LIST, BLACK_LIST: BLACK_LIST}[topic_filter.pattern]
        registration = Registration(pattern, {topic_filter.regex: streams})
        return self._open(registration, (key_decoder, value_decoder)).streams_of(None)

    def _must_be_listed(self, topics: Iterable[str]) -> None:
        listed = sorted({tp.topic for tp in self.config.partitions})
        missing = sorted(set(topics) - set(listed))
        if listed and missing:
            raise ConsumerError(f"topic {missing[0]} is not in 'partitions', which has {', '.join(listed)}")

    def _open(self, registration: Registration, decoders: Decoders) -> Engine:
        with self._lock:
            if self._ending:
                raise Closed("the connector was shut down")
            if self._engine is not None:
                raise ConsumerError("streams can be created once per connector; make another connector")
            if self.config.metrics_enable:
                self._metrics = ConsumerMetrics(self.config.group_id, self.consumer_id, self._snapshot)
            self._hub.start()
            self._registration = registration
            self._engine = self._hub.call(  # created in the hub that its queues and events belong to
                partial(
                    Engine,
                    config=self.config,
                    versions=self._versions,
                    hub=self._hub,
                    consumer_id=self.consumer_id,
                    registration=registration,
                    on_event=self._on_event,
                    on_fence=self._on_fence,
                    on_death=self._on_death,
                    listener=self._listener,
                    decoders=decoders,
                    observer=self._metrics,
                    store=self._offset_store,
                    before_commit=self._before_commit,
                )
            )
        try:
            self._hub.call(self._engine.start)
        except ZooKeeperAway as e:  # the session ended during its first use: report it as if none had begun
            self._shut_down()
            raise Unreachable(f"{e} during the start") from e
        except HubStopped as e:
            self._shut_down()
            raise Closed("the connector was shut down while it started") from e
        except BaseException:
            self._shut_down()
            raise
        self._hub.before_exit(self._engine.shutdown)
        return self._engine

    # owned partitions; any thread may call; Closed before there are streams, and after the end ----------------------

    @property
    def closed(self) -> bool:
        """True if it was shut down completely."""
        return self._closed

    def commit_offsets(self, positions: Mapping[TopicPartition, int] | None = None) -> list[TopicPartition]:
        """Commit what is done of every owned partition; return the partitions, sorted.

        positions: commit these offsets instead, each the next one to read; only for owned partitions.  An offset behind
        the end of the log is refused (BeyondEnd), a negative one is a ValueError.  With auto.commit.enable the timer
        still commits what is done: a program that passes positions should switch it off.

        Raises NotCommitted, with the reason for each partition whose offset is not known to be written; the other
        offsets are.
        """
        return all_committed(self._hub.call(self._acting().controls.commit, positions))

    def pause(self, *what: str | TopicPartition) -> None:
        """Fetch and deliver nothing of these partitions, or of all partitions of these topics, until resume().

        They need not be owned: a pause lasts as long as the connector, through every rebalance.  Other partitions of
        the same stream are not paused; delivered messages may still be done.
        """
        self._hub.call(self._acting().controls.pause, what)

    def resume(self, *what: str | TopicPartition) -> None:
        """End a pause; no message is skipped or repeated.  A partition may be resumed while its topic stays paused."""
        self._hub.call(self._acting().controls.resume, what)

    def seek(self, tp: TopicPartition, position: int | str) -> None:
        """Deliver the message at position next, of an owned partition; "smallest" and "largest" are the ends of its
        log.

        Messages delivered before do not count any more.  If a fetch finds the position outside the log,
        auto.offset.reset decides.  Raises ConsumerError if the partition is not owned, or if its leader cannot be asked
        for an end.
        """
        self._hub.call(self._acting().controls.seek, tp, position)

    def status(self) -> list[PartitionStatus]:
        """Return a row for each owned partition, sorted."""
        return [] if self._engine is None or self._closed else self._hub.call(self._engine.controls.status)

    @property
    def settled(self) -> bool:
        """True if the member reads everything that is assigned to it, as far as it knows."""
        return self._engine is not None and self._engine.settled and not self._forked

    def park(self, tp: TopicPartition, reason: str) -> None:
        """Deliver nothing more of an owned partition; it stays owned, and status() shows the reason."""
        self._hub.call(self._acting().controls.park, tp, reason)

    def unpark(self, tp: TopicPartition, *, go_on_at: int | None = None, measure: bool = False) -> bool:
        """Retry a parked partition, beginning behind what is done.  Return False if it is not parked (or not owned any
        more), or if messages delivered before are not done yet: try later.

        If it is parked again for the same reason, that is not reported again; an event says once it got past that
        offset.  For a partition that is parked because its offset could not be read, the store is read again
        (ConsumerError if that fails).

        go_on_at: skip the message it is parked at, and resume at this offset, once everything before is delivered and
        done.  measure: if an entry is found damaged again, find the offset behind the damage; the error has it then
        (DamagedMessage.resume_at).
        """
        return self._hub.call(self._acting().controls.unpark, tp, go_on_at, measure)

    def switch_offsets(self, mode: Mode) -> None:
        """Keep offsets in "zookeeper", in both ("dual") or in "kafka" from now on; the current mode changes nothing.

        One step at a time: zookeeper <-> dual <-> kafka.  Everything is committed in the new mode before this returns.
        Otherwise it raises NotSwitched (zkconsumer.offsets.modeswitch); a step that is not allowed, or does not fit the
        modes of other members, raises ModeRefused.  Both are ConsumerError, and then nothing has changed.  After a
        restart, the options decide again.
        """
        if mode not in MODES:
            raise ValueError(f"{mode!r} is not a place for offsets: choose one of {', '.join(MODES)}")
        self._hub.call(self._acting().assignment.switch_offsets, mode)

    def change_filter(self, topic_filter: TopicFilter, timeout_s: float = 10.0) -> bool:
        """Subscribe to the topics of another filter, with the same streams.  Return False if the group did not
        rebalance within that time; it keeps trying.

        The group rebalances in order: topics that are no longer selected are drained, committed and released;
        partitions that stay assigned here are read on.  Newly selected topics begin as at a start: at their committed
        offset, else by auto.offset.reset.  Raises ConsumerError if the streams were not created by a filter.
        """
        engine = self._acting()
        if self._registration is None or self._registration.pattern == STATIC:
            raise ConsumerError("only streams that were created by a filter can change it")
        (streams,) = self._registration.subscription.values()
        registration = topic_filter.registration(streams)
        changed = self._hub.call(engine.assignment.subscribe, registration, timeout_s)
        self._registration = registration
        return changed

    def _running(self) -> Engine:
        if self._engine is None or self._closed:
            raise Closed("the connector has no streams" if not self._closed else "the connector was shut down")
        return self._engine

    def _acting(self) -> Engine:
        """Return the engine for calls that do something: the first of them raises the failure of a listener."""
        engine = self._running()
        engine.listener.raise_failure()
        return engine

    # the end ----------------------------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """Stop fetching, wait until what is delivered is done (rebalance.drain.ms), commit, release, leave the group.

        Takes at most 10 s, even while ZooKeeper is unreachable.  A second call changes nothing.  At its end it raises
        ListenerFailed if the listener failed and no call has raised that yet.
        """
        self._shut_down()
        if self._engine is not None:
            self._engine.listener.raise_failure()

    @property
    def left_uncommitted(self) -> list[TopicPartition]:
        """Return partitions for which shutdown() could not commit what was done, or has not yet: the next owner gets it
        again."""
        return self._engine.left_uncommitted if self._engine is not None else []

    def _shut_down(self) -> None:
        with self._lock:
            if self._ending:
                return
            self._ending = True
        if self._metrics is not None:
            self._metrics.close()
        if self._engine is not None:
            if isinstance(self._hub, OwnThread):
                self._engine.give_up_own_reading(threading.get_ident())
            self._hub.call(self._engine.shutdown)  # until then a listener may still commit
        self._closed = True
        self._hub.stop()

    def _snapshot(self) -> MetricsSnapshot | None:
        """Return the metrics of a scrape, from any thread; None during shutdown."""
        if self._engine is None or self._ending:
            return None
        try:
            return self._hub.call(self._engine.snapshot)
        except HubStopped:
            return None

    def __enter__(self) -> ConsumerConnector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._forked:
            return  # an exiting child process: only the parent shuts the connector down
        if error is None:
            self.shutdown()
        else:
            self._shut_down()  # the current error is raised, not the listener's

    def __repr__(self) -> str:
        return f"<ConsumerConnector {self.consumer_id}>"


def _fitting(config: ConsumerConfig, found: Dialect) -> Dialect:
    """Return the dialect with the addresses of the configured listeners, once it fits the options.  Raises
    OptionError."""
    found = found.through(config.security_protocol)
    problems = list(unfit(config, found))
    if problems:
        raise OptionError([f"ConsumerConnector: {problem}" for problem in problems])
    return found


def _consumer_id(config: ConsumerConfig, dialect: Dialect) -> str:
    if config.consumer_id:
        return dialect.znodes.named_consumer_id(config.group_id, config.consumer_id)
    host, stamp = socket.gethostname(), int(time.time() * 1000)
    return dialect.znodes.consumer_id(config.group_id, host, stamp, random.SystemRandom().getrandbits(32))
