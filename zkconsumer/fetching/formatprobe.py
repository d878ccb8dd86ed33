"""Format probe: finds data in a source log that a fetch in an older format does not show, by a request of 0.11 and
later.

Used only if brokers are read as a release before record batches, because an option says so.

    samples   for each topic at intervals, the batches where a fetch began: headers and transactions are reported once
              per topic
    blanks    an offset where a fetch is empty though the log continues: the entry there has no message
              (the end of a transaction), or is a batch larger than the fetch, for which Kafka 3.x sends nothing at all

A broker is asked first, once, which requests it accepts; one before 0.11 is not probed.  Probes have separate
connections, and a sample only affects warnings.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

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
from zkconsumer.fetching.inflight import FetchPart
from zkconsumer.refusals import OWN_RELEASE

log = logging.getLogger(__name__)

PURPOSE = "record batches"
SAMPLE_S = 60.0  # interval between two samples of a topic
SAMPLE_BYTES = 16384  # per partition: a producer's default batch; the first one of a request comes whole anyway
SAMPLES = 64  # partitions per request
RETRY_S = 10.0  # backoff before a silent broker is asked again
HEADERS, TRANSACTIONS = "headers", "transactions"
WHAT = {
    HEADERS: "its messages have headers, which are not read: they come without them",
    TRANSACTIONS: "it holds transactions, and messages of aborted and of open ones come like any other",
}


def unread(release: str) -> str:
    """Return why it is not read if brokers are read as this release, and what helps."""
    return f"they are in record batches, and it is read as Kafka {release}, which has none: {OWN_RELEASE}"


class FormatWarnings:
    """Warnings about formats, each logged once; one object for all fetchers of a connector.  speaks: the dialect of its
    brokers."""

    def __init__(self, on_event: OnEvent, speaks: Dialect) -> None:
        self._on_event = on_event
        self._speaks = speaks
        self._reported: dict[str, set[str]] = {}
        self._reported_release = False

    def supports(self, broker: Broker, ranges: Mapping[int, tuple[int, int]]) -> None:
        """Check the API versions of a broker: its messages may have timestamps that are lost when it is read as an
        older release."""
        if not ranges or self._speaks.magic >= 1 or self._reported_release:
            return
        self._reported_release = True
        found, read_as = release_of(ranges), self._speaks.release
        text = f"{broker} is of Kafka {found} or later and is read as {read_as}, whose messages have no timestamps"
        self._on_event(ConsumerEvent("release", f"{text}: they come without; set kafka.version to {found}"))

    def report(self, topic: str, what: str) -> None:
        """Report HEADERS or TRANSACTIONS of a topic."""
        reported = self._reported.setdefault(topic, set())
        if what not in reported:
            reported.add(what)
            text = f"topic {topic}: {WHAT[what]}; {unread(self._speaks.release)}"
            self._on_event(ConsumerEvent("format", text))

    def complete(self, topic: str) -> bool:
        """True if everything was reported for the topic."""
        return len(self._reported.get(topic, ())) == len(WHAT)


def features_of(batches: tuple[RecordBatch, ...]) -> set[str]:
    """Return the features (keys of WHAT) that some batches have."""
    found = {HEADERS} if any(batch.headers for batch in batches) else set()
    return found | ({TRANSACTIONS} if any(batch.transactional or batch.control for batch in batches) else set())


class FormatProbe:
    """Probe of one fetcher, in the event loop.  explained(blank, held): called with what the log holds where a fetch
    was empty."""

    def __init__(
        self,
        *,
        broker: Broker,
        links: Links,
        warnings: FormatWarnings,
        spawn: Callable[..., object],
        explained: Callable[[FetchPart, LogBatches], None],
    ) -> None:
        self._broker = broker
        self._links = links
        self._warnings = warnings
        self._spawn = spawn
        self._explained = explained
        self._takes: bool | None = None  # whether the broker accepts such requests; None: not asked yet
        self._asked_at = float("-inf")
        self._samples: dict[TopicPartition, int] = {}
        self._sampled_at: dict[str, float] = {}  # by topic
        self._blanks: dict[TopicPartition, FetchPart] = {}
        self._running = False

    def fetched(self, tp: TopicPartition, position: int) -> None:
        """Record that a fetch at this position brought messages; a sample may be due."""
        at = now()
        if self._takes is False or at - self._sampled_at.get(tp.topic, float("-inf")) < SAMPLE_S:
            return
        self._sampled_at[tp.topic] = at
        if not self._warnings.complete(tp.topic):
            self._samples[tp] = position
            self._begin()

    def blank(self, blank: FetchPart) -> None:
        """Handle a repeated empty fetch."""
        if self._takes is not False:
            self._blanks[blank.tp] = blank
            self._begin()

    def transactions(self, topic: str) -> None:
        """Report a topic with transactions, whose ends the broker left out of a fetch."""
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
        """Call the broker on a separate connection: an old broker may close it."""
        try:
            return self._links.call(self._broker, PURPOSE, request)
        finally:
            self._links.drop(self._broker, PURPOSE)

    def _probe_blanks(self) -> None:
        """Probe blanks one at a time, so that a first batch comes however large it is."""
        blanks, self._blanks = self._blanks, {}
        for tp, blank in blanks.items():
            held = self._held([(tp, blank.offset, SAMPLE_BYTES)]).get(tp)
            if held is not None and not held.error:
                self._report(tp, held)
                self._explained(blank, held)

    def _probe_samples(self) -> None:
        wanted = [(tp, self._samples.pop(tp), SAMPLE_BYTES) for tp in list(self._samples)[:SAMPLES]]
        if wanted:
            for tp, held in self._held(wanted).items():
                if error_info(held.error).passes:
                    self._sampled_at.pop(tp.topic, None)  # the next fetch that brings messages samples again
                self._report(tp, held)

    def _held(self, wanted: list[tuple[TopicPartition, int, int]]) -> dict[TopicPartition, LogBatches]:
        return recordbatches.held(self._links.call(self._broker, PURPOSE, recordbatches.ask(wanted)))

    def _report(self, tp: TopicPartition, held: LogBatches) -> None:
        for what in sorted(features_of(held.batches)):
            self._warnings.report(tp.topic, what)
