"""Format probe: what a source log holds that a fetch in an older format does not show, asked in its own (0.11 on).

Only where a broker is spoken to as a release before record batches, because an option says so.

    samples   of each topic now and then the batches where a fetch began: headers and transactions are reported once
              a topic
    blanks    a position where a fetch brings nothing though the log continues: there is an entry without a message
              (the end of a transaction), or is a batch larger than the fetch, for which Kafka 3.x sends nothing at all

A broker is asked first, once, which requests it takes; one before 0.11 is asked nothing more.  Probes have connections
of their own beside the fetches, and only warnings depend on a sample.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from groundwork.tasks import now
from kafkawire.cluster import recordbatches
from kafkawire.cluster.recordbatches import LogBatches, RecordBatch
from kafkawire.cluster.release import asked_ranges, release_of
from kafkawire.dialects import Dialect
from kafkawire.errors import LinkLost, error_info
from kafkawire.interfaces import Fields
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.links import Links
from kafkawire.protocol.request import Request
from zkconsumer.events import ConsumerEvent, OnEvent
from zkconsumer.fetching.cursor import Cursor
from zkconsumer.refusals import OWN_RELEASE

log = logging.getLogger(__name__)

PURPOSE = "record batches"
SAMPLE_S = 60.0  # between two samples of a topic
SAMPLE_BYTES = 16384  # of a partition: a batch of a producer by default; the first one of a request comes whole anyway
SAMPLES = 64  # partitions in a request
RETRY_S = 10.0  # backoff before a broker that did not answer is asked again
HEADERS, TRANSACTIONS = "headers", "transactions"
WHAT = {
    HEADERS: "its messages have headers, which are not read: they come without them",
    TRANSACTIONS: "it holds transactions, and messages of aborted and of open ones come like any other",
}


def unread(release: str) -> str:
    """Why it is so where brokers are spoken to as this release, and what helps."""
    return f"they are in record batches, which Kafka {release} has not, as which it is read: {OWN_RELEASE}"


class FormatWarnings:
    """Warnings about formats, each once; one object for all fetchers of a connector.  speaks: the dialect of its
    brokers."""

    def __init__(self, on_event: OnEvent, speaks: Dialect) -> None:
        self._on_event = on_event
        self._speaks = speaks
        self._reported: dict[str, set[str]] = {}
        self._reported_release = False

    def supports(self, broker: Broker, ranges: Mapping[int, tuple[int, int]]) -> None:
        """The versions that a broker takes: it may have timestamps that we do not ask for, as it is read as an older
        one."""
        if not ranges or self._speaks.magic >= 1 or self._reported_release:
            return
        self._reported_release = True
        found, read_as = release_of(ranges), self._speaks.release
        text = f"{broker} is of Kafka {found} or later and is read as {read_as}, whose messages have no timestamps"
        self._on_event(ConsumerEvent("release", f"{text}: they come without; set kafka.version to {found}"))

    def report(self, topic: str, what: str) -> None:
        """what: HEADERS or TRANSACTIONS."""
        reported = self._reported.setdefault(topic, set())
        if what not in reported:
            reported.add(what)
            text = f"topic {topic}: {WHAT[what]}; {unread(self._speaks.release)}"
            self._on_event(ConsumerEvent("format", text))

    def complete(self, topic: str) -> bool:
        """Everything was reported for it."""
        return len(self._reported.get(topic, ())) == len(WHAT)


class Blank(NamedTuple):
    """A fetch of asked_bytes that brought nothing at a position before the high watermark."""

    cursor: Cursor
    epoch: int
    position: int
    asked_bytes: int


def features_of(batches: tuple[RecordBatch, ...]) -> set[str]:
    """The features (keys of WHAT) that some batches have."""
    found = {HEADERS} if any(batch.headers for batch in batches) else set()
    return found | ({TRANSACTIONS} if any(batch.transactional or batch.control for batch in batches) else set())


class FormatProbe:
    """The probe of one fetcher, in the event loop.  explained(blank, held): what is there where a fetch brought
    nothing."""

    def __init__(
        self,
        *,
        broker: Broker,
        links: Links,
        warnings: FormatWarnings,
        spawn: Callable[..., object],
        explained: Callable[[Blank, LogBatches], None],
    ) -> None:
        self._broker = broker
        self._links = links
        self._warnings = warnings
        self._spawn = spawn
        self._explained = explained
        self._takes: bool | None = None  # whether the broker answers such requests; None: not asked yet
        self._asked_at = float("-inf")
        self._samples: dict[TopicPartition, int] = {}
        self._sampled_at: dict[str, float] = {}  # by topic
        self._blanks: dict[TopicPartition, Blank] = {}
        self._running = False

    def fetched(self, tp: TopicPartition, position: int) -> None:
        """A fetch at this position brought messages."""
        at = now()
        if self._takes is False or at - self._sampled_at.get(tp.topic, float("-inf")) < SAMPLE_S:
            return
        self._sampled_at[tp.topic] = at
        if not self._warnings.complete(tp.topic):
            self._samples[tp] = position
            self._begin()

    def blank(self, blank: Blank) -> None:
        """A fetch brought nothing, and not for the first time there."""
        if self._takes is not False:
            self._blanks[blank.cursor.tp] = blank
            self._begin()

    def transactions(self, topic: str) -> None:
        """A fetch showed that the broker leaves the ends of transactions out."""
        self._warnings.report(topic, TRANSACTIONS)

    def _begin(self) -> None:
        if not self._running and (self._takes or now() - self._asked_at >= RETRY_S):
            self._running = True
            self._spawn(f"format-probe-{self._broker.id}", self._run)

    def _run(self) -> None:
        try:
            if self._takes is None:
                self._asked_at = now()
                ranges = asked_ranges(self._once)
                self._warnings.supports(self._broker, ranges)
                lowest, highest = ranges.get(recordbatches.FETCH.key, (0, -1))
                self._takes = lowest <= recordbatches.VERSION <= highest
            while self._takes and (self._blanks or self._samples):
                self._probe_blanks()
                self._probe_samples()
        except LinkLost as lost:
            log.debug("%s was not asked for the format of its log: %s", self._broker, lost)
            self._blanks.clear()
            self._samples.clear()
            self._asked_at = now()
        finally:
            self._running = False
            self._links.drop(self._broker, PURPOSE)

    def _once(self, request: Request[Fields]) -> Fields:
        """On a connection of its own: an old broker may close it."""
        try:
            return self._links.call(self._broker, PURPOSE, request)
        finally:
            self._links.drop(self._broker, PURPOSE)

    def _probe_blanks(self) -> None:
        """One at a time, so that a first batch comes however large it is."""
        blanks, self._blanks = self._blanks, {}
        for tp, blank in blanks.items():
            held = self._held([(tp, blank.position, SAMPLE_BYTES)]).get(tp)
            if held is not None and not held.error:
                self._report(tp, held)
                self._explained(blank, held)

    def _probe_samples(self) -> None:
        wanted = [(tp, self._samples.pop(tp), SAMPLE_BYTES) for tp in list(self._samples)[:SAMPLES]]
        if wanted:
            for tp, held in self._held(wanted).items():
                if error_info(held.error).passes:
                    self._sampled_at.pop(tp.topic, None)  # the next fetch that brings messages asks again
                self._report(tp, held)

    def _held(self, wanted: list[tuple[TopicPartition, int, int]]) -> dict[TopicPartition, LogBatches]:
        return recordbatches.held(self._links.call(self._broker, PURPOSE, recordbatches.ask(wanted)))

    def _report(self, tp: TopicPartition, held: LogBatches) -> None:
        for what in sorted(features_of(held.batches)):
            self._warnings.report(tp.topic, what)
