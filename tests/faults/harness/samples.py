"""Sampler: every 200 ms the committed offsets, the ends of both logs, memory and descriptors of the daemons.

Offsets are read from ZooKeeper and brokers directly, behind no proxy, and committed offsets before ends: what was
committed then must be below these ends.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from kazoo.exceptions import KazooException, NoNodeError

from kafkawire.cluster.listoffsets import DEBUGGING, LATEST, ask_offsets
from kafkawire.dialects import dialect
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.znodes import v08 as znodes
from localkafka import ports
from localkafka.client import started_client
from localkafka.waiting import wait_until
from tests.faults.harness.clusters import Side, Sites
from tests.faults.harness.oracles import Sample

EVERY_S = 0.2
PAGE = 4096


class Sampler:
    """Samples of a group and its topics, in a thread between start() and close(); .samples only grows.

    pids: returns name -> process id of the daemons that run
    """

    def __init__(
        self, sites: Sites, group: str, topics: Mapping[str, int], pids: Callable[[], Mapping[str, int]]
    ) -> None:
        self.samples: list[Sample] = []
        self.quorum = 1  # brokers that must answer, where one alone may be behind what was acknowledged
        self._sites, self._group, self._pids = sites, group, pids
        self._tps = [TopicPartition(topic, p) for topic, count in topics.items() for p in range(count)]
        self._links = {side.name: Links(f"sampler-{side.name}", timeout_ms=2000) for side in sites.sides}
        self._zk = started_client(sites.source.cluster.zookeeper)
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Raises what ended the thread before."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join(30)
        for links in self._links.values():
            links.close()
        self._zk.stop()
        self._zk.close()
        if self._failed is not None:
            raise self._failed

    def committed(self, timeout_s: float = 20) -> dict[TopicPartition, int]:
        """The committed offsets now.  Raises LocalKafkaError when ZooKeeper does not say so in time."""

        def read() -> tuple[dict[TopicPartition, int]] | None:
            found = self._committed(sync=True)
            return None if found is None else (found,)

        return wait_until(read, timeout_s, "the committed offsets")[0]

    def ends(self, side: Side) -> dict[TopicPartition, int]:
        """The ends of the logs now, as the brokers that answer have them."""
        with self._lock:
            return self._ends(side)

    def now(self) -> Sample:
        """A sample of this moment."""
        with self._lock:
            committed = self._committed()
            return Sample(
                at=time.monotonic(),
                committed=committed,
                target_ends=self._ends(self._sites.target),
                source_ends=self._ends(self._sites.source),
                processes={name: found for name, pid in self._pids().items() if (found := _process(pid)) is not None},
            )

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                began = time.monotonic()
                self.samples.append(self.now())
                self._ending.wait(max(0.01, EVERY_S - (time.monotonic() - began)))
        except BaseException as error:  # raised by close()
            self._failed = error

    def _committed(self, sync: bool = False) -> dict[TopicPartition, int] | None:
        """sync: not as a server of the ensemble has them that is behind the others."""
        if sync:
            try:
                self._zk.sync_async("/").get(timeout=2)
            except (KazooException, self._zk.handler.timeout_exception):
                return None
        reads = {tp: self._zk.get_async(znodes.offset(self._group, tp)) for tp in self._tps}
        found, deadline = {}, time.monotonic() + 1
        for tp, read in reads.items():
            try:
                found[tp] = int(read.get(timeout=max(0.01, deadline - time.monotonic()))[0])
            except NoNodeError:
                continue
            except (KazooException, self._zk.handler.timeout_exception):
                return None
        return found

    def _ends(self, side: Side) -> dict[TopicPartition, int]:
        """Of the replica that is furthest, since acknowledged messages are in all that may lead."""
        ends: dict[TopicPartition, int] = {}
        answered: Counter[TopicPartition] = Counter()
        for node in side.cluster.nodes:  # one by one: what one does not answer another may
            if not node.active:
                continue
            broker = Broker(node.id, ports.HOST, node.port)
            answers = ask_offsets(
                self._links[side.name],
                dialect(side.cluster.version),
                {broker: self._tps},
                dict.fromkeys(self._tps, LATEST),
                purpose="sample",
                replica_id=DEBUGGING,
            )
            for tp, answer in answers.items():
                if answer.offset is not None:
                    ends[tp] = max(answer.offset, ends.get(tp, 0))
                    answered[tp] += 1
        return {tp: end for tp, end in ends.items() if answered[tp] >= self.quorum}


def _process(pid: int) -> tuple[int, int] | None:
    """Resident bytes and open descriptors of a process; None when it is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * PAGE, sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    except (OSError, IndexError):
        return None
