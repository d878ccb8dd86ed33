"""Registration of a 0.7 broker in ZooKeeper, in its own thread, and again in each new session.

    /brokers/ids/B        creatorId:host:port, ephemeral     creatorId = HOST-MILLISECONDS
    /brokers/topics/T/B   number of partitions of T on this broker, ephemeral; since the first produce

Source: kafka.server.KafkaZooKeeper and kafka.utils.ZkUtils.createEphemeralPathExpectConflict of 0.7.2.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry

from localkafka.errors import LocalKafkaError

log = logging.getLogger(__name__)

IDS, TOPICS = "/brokers/ids", "/brokers/topics"


class Conflict(LocalKafkaError):
    """A node exists with other data: another process owns it."""


class Registration:
    """Registers the broker in start() and each topic in new_topic(); close() deletes all nodes.

    partitions   returns the number of partitions of a topic on this broker
    """

    def __init__(
        self,
        connect: str,
        *,
        session_ms: int,
        connection_ms: int,
        broker: int,
        address: str,
        partitions: Callable[[str], int],
    ) -> None:
        self._connect = connect
        self._connection_ms = connection_ms
        self._broker = broker
        self._address = address
        self._partitions = partitions
        self._topics: list[str] = []
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._closing = False
        self._lost = False
        self._retry = KazooRetry(max_tries=-1, delay=0.05, max_delay=0.5, interrupt=lambda: self._closing)
        self._client = KazooClient(
            connect, timeout=session_ms / 1000, connection_retry={"max_tries": -1, "delay": 0.05, "max_delay": 0.5}
        )
        self._thread = threading.Thread(target=self._run, name="registration", daemon=True)

    def start(self, topics: Iterable[str]) -> None:
        """Register the broker and its topics.  Raises LocalKafkaError when ZooKeeper does not respond in time, or when
        the id is taken: by another broker, or by this broker's last process, whose session has not expired yet."""
        try:
            self._client.start(timeout=self._connection_ms / 1000)
        except self._client.handler.timeout_exception as error:
            raise LocalKafkaError(
                f"ZooKeeper at {self._connect} cannot be reached in {self._connection_ms} ms"
            ) from error
        self._register_broker()
        for topic in topics:
            self._register_topic(topic)
        self._client.add_listener(self._changed)
        self._thread.start()

    def new_topic(self, topic: str) -> None:
        """Queue the registration of a topic, without waiting."""
        self._jobs.put(lambda: self._register_topic(topic))

    def close(self) -> None:
        """End the session, which deletes the nodes."""
        self._closing = True
        self._jobs.put(None)
        if self._thread.is_alive():
            self._thread.join(5)
        self._client.stop()
        self._client.close()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Conflict as conflict:
                log.error("%s", conflict)  # as the original: it continues to serve without being registered
            except KazooException as error:
                if not self._closing:
                    log.error("not registered in ZooKeeper: %r", error)

    def _changed(self, state: KazooState) -> None:
        """Store the state and queue an event; runs in kazoo's thread."""
        if state == KazooState.LOST:
            self._lost = True
        elif state == KazooState.CONNECTED and self._lost:
            self._lost = False
            self._jobs.put(self._register_again)

    def _register_again(self) -> None:
        log.warning("a new ZooKeeper session: broker %d registers again", self._broker)
        self._register_broker()
        for topic in list(self._topics):
            self._create(f"{TOPICS}/{topic}/{self._broker}", str(self._partitions(topic)))

    def _register_broker(self) -> None:
        path = f"{IDS}/{self._broker}"
        host = self._address.rpartition(":")[0]
        try:
            self._create(path, f"{host}-{int(time.time() * 1000)}:{self._address}")
        except Conflict as conflict:
            raise Conflict(
                f"A broker is already registered on the path {path}. Either the id is in use, or this broker was shut "
                "down and started again before ZooKeeper's timeout; wait for the node to disappear, or set another "
                "brokerid"
            ) from conflict

    def _register_topic(self, topic: str) -> None:
        self._create(f"{TOPICS}/{topic}/{self._broker}", str(self._partitions(topic)))
        self._topics.append(topic)

    def _create(self, path: str, text: str) -> None:
        """Create a node.  Raises Conflict when it exists with other text; the same text may be from a lost response."""

        def create() -> None:
            try:
                self._make_parents(path)
                self._client.create(path, text.encode(), ephemeral=True)
            except NodeExistsError:
                try:
                    stored = self._client.get(path)[0].decode()
                except NoNodeError:
                    stored = ""
                if stored != text:
                    raise Conflict(f"{path} holds {stored!r} and not {text!r}") from None

        self._retry(create)

    def _make_parents(self, path: str) -> None:
        """Create the parents with null data, as zkclient's createPersistent(path, true) does in the original."""
        *parents, _ = path.strip("/").split("/")
        for depth in range(len(parents)):
            try:
                self._client.create("/" + "/".join(parents[: depth + 1]), None)
            except NodeExistsError:
                continue
