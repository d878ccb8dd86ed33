"""Load of a row: checkable messages to every partition at an even rate, in a thread, acknowledged by all replicas.

A batch that is not acknowledged is sent again, as it is, until it is; the other partitions go on meanwhile.  So the
source log may hold a batch twice, and in each partition sequences first appear in order.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kafkawire.errors import WireError
from kafkawire.model import TopicPartition
from kafkawire.protocol.requests08 import Request
from localkafka.client import ClusterClient
from localkafka.load import GZIP, PLAIN, SNAPPY, Load, Message
from localkafka.waiting import wait_until
from tests.faults.harness.payload import MessageId, written

CODECS = (SNAPPY, SNAPPY, GZIP, PLAIN)  # of a batch: half snappy
NULL_KEYS, NULL_VALUES = 0.05, 0.01
RETRY_S = 0.2


@dataclass(slots=True)
class _Partition:
    """A partition's traffic: what is sent and not acknowledged, and when it may be tried again."""

    sequence: int = 0  # of the next message
    batch: Request | None = None
    size: int = 0
    not_before: float = 0.0
    acknowledged: list[int] = field(default_factory=list)  # sequences behind each acknowledged batch


class Traffic:
    """Messages of a run to these topics (name -> partitions): `rate` a second in all, `size` bytes each.

    start() and stop() once; pause() and resume() in between.  .sent counts acknowledged messages.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        topics: Mapping[str, int],
        *,
        run: str,
        seed: int,
        rate: float,
        size: int = 400,
        batch: int = 20,
    ) -> None:
        self.rate, self.size, self.run = rate, size, run
        self._load = Load(cluster.brokers, cluster.version, seed)
        self._random = random.Random(seed)
        self._partitions = {TopicPartition(t, p): _Partition() for t, count in topics.items() for p in range(count)}
        self._batch = batch
        self._flowing = threading.Event()
        self._ending, self._given_up = threading.Event(), threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)

    @property
    def sent(self) -> int:
        """Number of acknowledged messages."""
        return sum(self.acknowledged(tp) for tp in self._partitions)

    def acknowledged(self, tp: TopicPartition) -> int:
        """Number of acknowledged messages of a partition: those with sequences below it."""
        sequences = self._partitions[tp].acknowledged
        return sequences[-1] if sequences else 0

    def start(self) -> None:
        self._flowing.set()
        self._thread.start()

    def pause(self) -> None:
        """Send nothing new until resume()."""
        self._flowing.clear()

    def resume(self) -> None:
        self._flowing.set()

    def stop(self, timeout_s: float = 60) -> None:
        """Send nothing new, and wait until everything is acknowledged.  Raises LocalKafkaError after timeout_s, and
        what ended the thread before."""
        self._ending.set()
        if self._thread.ident is not None:
            wait_until(lambda: not self._thread.is_alive(), timeout_s, self._open)
        if self._failed is not None:
            raise self._failed

    def close(self) -> None:
        """End it at once; what is not acknowledged is given up."""
        self._ending.set()
        self._given_up.set()
        if self._thread.ident is not None:
            self._thread.join(60)
        self._load.close()

    def _open(self) -> str:
        waiting = [str(tp) for tp, each in self._partitions.items() if each.batch is not None]
        return f"the load to be acknowledged; open are {', '.join(waiting) or 'none'}"

    def _run(self) -> None:
        try:
            self._send_all()
        except BaseException as error:  # shown by stop()
            self._failed = error

    def _send_all(self) -> None:
        turns = self._turns()
        due = time.monotonic()
        while not self._ending.is_set():
            if not self._flowing.wait(0.05):
                due = time.monotonic()
                continue
            now = time.monotonic()
            if due > now:
                self._ending.wait(due - now)
            due = max(due, now - 0.5) + self._batch / self.rate  # what could not be sent is made good for half a second
            self._try(*next(turns))
        while not self._given_up.is_set() and any(each.batch is not None for each in self._partitions.values()):
            for tp, each in self._partitions.items():
                if each.batch is not None:
                    self._try(tp, each)
            time.sleep(0.02)

    def _turns(self) -> Iterator[tuple[TopicPartition, _Partition]]:
        """Each partition in turn, without those that wait for another try."""
        while True:
            passed = 0
            for tp, each in self._partitions.items():
                if each.not_before <= time.monotonic():
                    passed += 1
                    yield tp, each
            if not passed:
                time.sleep(0.02)

    def _try(self, tp: TopicPartition, each: _Partition) -> None:
        if each.batch is None:
            each.size = self._batch
            each.batch = self._load.request(tp, self._messages(tp, each), self._random.choice(CODECS))
        try:
            stored = self._load.attempt(tp, each.batch)
        except WireError:  # no broker says who leads
            stored = False
        if stored:
            each.sequence += each.size
            each.acknowledged.append(each.sequence)
            each.batch = None
        else:
            each.not_before = time.monotonic() + RETRY_S

    def _messages(self, tp: TopicPartition, each: _Partition) -> list[Message]:
        messages: list[Message] = []
        sent_ms = int(time.time() * 1000)
        for number in range(each.size):
            of = MessageId(tp.topic, int(str(tp.partition)), each.sequence + number)
            payload = written(self.run, of, sent_ms, self.size)
            drawn = self._random.random()
            if drawn < NULL_VALUES:
                messages.append((number, payload, None, None))
            elif drawn < NULL_VALUES + NULL_KEYS:
                messages.append((number, None, payload, None))
            else:
                messages.append((number, b"key-%d" % self._random.randrange(1000), payload, None))
        return messages
