"""The high-level consumer: a member of a ZooKeeper consumer group, sharing it with JVM members.

    options = {"zookeeper.connect": "zk1:2181", "group.id": "billing", "auto.offset.reset": "smallest"}
    with ConsumerConnector(options) as connector:
        (stream,) = connector.create_message_streams({"orders": 1})["orders"]
        for message in stream: ...

Constructing does nothing outside the process.  create_message_streams (or its sister for filters) connects, registers
and takes part in a first round of the group; it can be called once.  Everything lives in one hub (groundwork.hub): the
caller's own when the program is a gevent program, else one in a thread of its own; each method may be called from any
thread.
"""

from __future__ import annotations

import logging
import random
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType

from groundwork.hub import HubStopped, OwnThread, Which, pick_hub
from groundwork.options import OptionError, warnings_of
from kafkawire.dialects import Dialect, dialect
from kafkawire.znodes.group import BLACK_LIST, STATIC, WHITE_LIST, Registration
from zkconsumer.connectorcalls import ConnectorCalls
from zkconsumer.engine.engine import Engine
from zkconsumer.engine.metrics import ConsumerMetrics, Look
from zkconsumer.engine.offsetstores import check_store
from zkconsumer.errors import Closed, ConsumerError
from zkconsumer.events import OnEvent, log_event
from zkconsumer.filters import TopicFilter
from zkconsumer.listeners import ConsumerListener
from zkconsumer.offsets.commits import BeforeCommit
from zkconsumer.offsets.store import OffsetStore
from zkconsumer.options.config import ConsumerConfig, load_consumer
from zkconsumer.options.optionrules import unfit
from zkconsumer.streams.messagereader import Decoder
from zkconsumer.streams.stream import Stream
from zkconsumer.streams.streams import Decoders

log = logging.getLogger(__name__)


class ConsumerConnector(ConnectorCalls):
    """One member of config.group_id.

    config                   a ConsumerConfig, or a mapping of option names to values: {"group.id": "billing", ...};
                             OptionError names what is wrong with it
    release                  of the brokers; option kafka.version where none is given
    on_event(ConsumerEvent)  what an operator should read; logged when none is given.  In the hub; must not wait
    on_fence()               the lease on the session is over: whoever sends what we read must stop now.  In the hub
    on_death(name, error)    something of ours died; every stream raises the same error
    listener                 has a word in when partitions leave and begin (zkconsumer.listeners).  What it raises is
                             raised as ListenerFailed by each stream, or by the next call here that does something
    offset_store             keeps the positions of fixed partitions, instead of the file of offsets.file: an
                             OffsetStore (zkconsumer.offsets.store).  Called in one plain thread of its own, also while
                             it is made ready and at the end; it may wait
    before_commit(positions) called with what is about to be committed, before each write of positions.  In the hub;
                             must not raise, and while it runs nothing is committed

    With option partitions nothing is shared: just these are read, and no ZooKeeper is needed.  What is said of groups
    and of ZooKeeper does not apply then, and who reads what twice is for the programs to settle.
    """

    def __init__(
        self,
        config: ConsumerConfig | Mapping[str, object],
        hub: Which = "auto",
        release: str | None = None,
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
        self.dialect = _dialect(config, release)
        self.consumer_id = _consumer_id(config, self.dialect)
        super().__init__(pick_hub(hub))
        self._on_event = on_event
        self._on_fence = on_fence
        self._on_death = on_death
        self._offset_store = offset_store
        self._before_commit = before_commit
        self._listener = listener if listener is not None else ConsumerListener()
        self._metrics: ConsumerMetrics | None = None
        self._lock = threading.Lock()
        self._ending = False

    def listen(self, listener: ConsumerListener) -> ConsumerListener:
        """Use this listener from now on; returns the one before it, so that calls can be passed on to that.

        Raises ConsumerError once there are streams: it would have missed the first of its calls.
        """
        if self._engine is not None:
            raise ConsumerError("a listener has to be there before the streams are created")
        before, self._listener = self._listener, listener
        return before

    # streams ------------------------------------------------------------------------------------------------------

    def create_message_streams(
        self, topics: Mapping[str, int], key_decoder: Decoder | None = None, value_decoder: Decoder | None = None
    ) -> dict[str, list[Stream]]:
        """Subscribe to topics, so many streams each.  A topic need not exist yet, and is not created by this.

        A decoder is called with (topic, bytes) for each message that is iterated; what it returns takes their place.

        Raises Unreachable, ChrootMissing, NoBrokers, ConsumerError; ValueError for a count below 1.
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
        """Subscribe to what a Whitelist or Blacklist lets through, new topics included; all share the streams."""
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
                self._metrics = ConsumerMetrics(self.config.group_id, self.consumer_id, self._look)
            self._hub.start()
            self._engine = self._hub.call(  # its queues and events belong to the hub they are made in
                Engine,
                self.config,
                self.dialect,
                self._hub,
                self.consumer_id,
                registration,
                self._on_event,
                self._on_fence,
                self._on_death,
                self._listener,
                decoders,
                self._metrics.observe if self._metrics is not None else None,
                self._offset_store,
                self._before_commit,
            )
        try:
            self._hub.call(self._engine.start)
        except HubStopped as e:
            self._shut_down()
            raise Closed("the connector was shut down while it started") from e
        except BaseException:
            self._shut_down()
            raise
        self._hub.before_exit(self._engine.shutdown)
        return self._engine

    # the end ----------------------------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """Stop fetching, let what was handed out be done (rebalance.drain.ms), commit, release, leave the group.

        Takes at most 10 s, with ZooKeeper away too.  A second call changes nothing.  Raises ListenerFailed at its end
        when the listener failed and no call said so yet.
        """
        self._shut_down()
        if self._engine is not None:
            self._engine.hooks.raise_kept()

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

    def _look(self) -> Look | None:
        """For a scrape, from any thread; one that comes during the end sees nothing."""
        if self._engine is None or self._ending:
            return None
        try:
            return self._hub.call(self._engine.look)
        except HubStopped:
            return None

    def __enter__(self) -> ConsumerConnector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.shutdown()
        else:
            self._shut_down()  # the error under way is told, not the listener's

    def __repr__(self) -> str:
        return f"<ConsumerConnector {self.consumer_id}>"


def _dialect(config: ConsumerConfig, release: str | None) -> Dialect:
    """That of the release; one that the options did not know of has to go with them.  Raises OptionError."""
    found = dialect(config.version if release is None else release)
    problems = list(unfit(config, found))
    if problems:
        raise OptionError([f"ConsumerConnector: {problem}" for problem in problems])
    return found


def _consumer_id(config: ConsumerConfig, dialect: Dialect) -> str:
    if config.consumer_id:
        return dialect.znodes.named_consumer_id(config.group_id, config.consumer_id)
    host, stamp = socket.gethostname(), int(time.time() * 1000)
    return dialect.znodes.consumer_id(config.group_id, host, stamp, random.SystemRandom().getrandbits(32))
