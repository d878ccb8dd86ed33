"""Logs of one cluster as `verify` reads them: their ends, and their messages as columns.

kafkawire.cluster.logreader reads them.  What a log does not hold any more, and what is damaged, is a Gap: reading goes
on behind it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from groundwork.tasks import connect, now, sleep
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.leaders import ListedLeaders
from kafkawire.cluster.listoffsets import DEBUGGING, EARLIEST, LATEST
from kafkawire.cluster.logreader import Gap, LogRange, LogReader, NothingRead
from kafkawire.cluster.metadata import Unreachable
from kafkawire.cluster.retry import Backoff, RetryPolicy
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.columns import Columns
from kafkawire.errors import CorruptMessage, WireError
from kafkawire.model import Broker, MessageSet, TopicPartition
from kafkawire.net.links import Links
from kafkawire.net.security import OPEN, Security
from kafkawire.protocol.apis import LIST_OFFSETS
from kafkawire.protocol.request import CONSUMER
from zkconsumer.refusals import refusal

FETCH_BYTES = 4 << 20
MAX_FETCH_BYTES = 1 << 29
WAIT_MS = 500
TIMEOUT_MS = 10_000
AGAIN = RetryPolicy(retries=8, backoff=Backoff(0.2, 3.0))
CLIENT = "mirrormaker-verify"


@dataclass(frozen=True, slots=True)
class Piece:
    """Some messages of a set; codecs and format are the set's."""

    columns: Columns
    codecs: frozenset[int]
    format: int


class Logs:
    """Logs of one cluster.  name: for sentences, "the target" or "source dc1".

    unknown: partitions whose ends no broker tells, each with a sentence; nothing more is asked about them.
    """

    def __init__(self, name: str, client: KafkaClient) -> None:
        self.name = name
        self.unknown: dict[TopicPartition, str] = {}
        self.dialect = client.dialect
        self._client = client
        self._reader = LogReader(
            client,
            purpose="verify",
            fetch_bytes=FETCH_BYTES,
            max_fetch_bytes=MAX_FETCH_BYTES,
            wait_ms=WAIT_MS,
            refusal=refusal,
            sleep=sleep,
            now=now,
        )

    @classmethod
    def of(
        cls,
        name: str,
        versions: ClusterVersions,
        brokers: Collection[Broker],
        tps: Collection[TopicPartition],
        *,
        security: Security = OPEN,
    ) -> Logs:
        """tps: all partitions that will be asked for.  brokers: some that describe the cluster; of 0.7 all."""
        links = Links(CLIENT, versions.connect(security.connect(connect)), TIMEOUT_MS)
        speaks = versions.dialect
        links.meet(brokers)
        if speaks.describes_itself:
            addresses = [(broker.host, broker.port) for broker in brokers]
            return cls(name, KafkaClient.of_brokers(addresses, links, speaks, retry=AGAIN, sleep=sleep, now=now))
        source = ListedLeaders(brokers, "ZooKeeper", tps)
        return cls(name, KafkaClient(source, links, speaks, retry=AGAIN, sleep=sleep, now=now))

    # ---- ends --------------------------------------------------------------------------------------------------------

    def earliest(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where each log begins; logs that become unknown are left out, here and below."""
        return self._known(tps, EARLIEST)

    def ends(self, tps: Collection[TopicPartition], *, replicated: bool = True) -> dict[TopicPartition, int]:
        """Return where each log ends, as far as it is replicated and no transaction is open, or as its leader has
        it."""
        return self._known(tps, LATEST, CONSUMER if replicated or not self.dialect.describes_itself else DEBUGGING)

    def at_time(self, tps: Collection[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        """Return the offset of each log at which everything of that time and later begins.

        From 0.10.1 on by the messages' timestamps; before by files of the log, whose first offset may be much older.
        """
        by_message = self.dialect.describes_itself and self.dialect.speaks(LIST_OFFSETS.key) >= 1
        otherwise = self.ends(tps) if by_message else self.earliest(tps)
        asked = self._client.list_offsets(dict.fromkeys(otherwise, time_ms))
        known: dict[TopicPartition, int] = {}
        for tp, found in asked.items():
            if found.error is not None:
                self._unknown(tp, found.error)
            else:
                known[tp] = otherwise[tp] if found.offset is None else found.offset
        return known

    def _known(
        self, tps: Collection[TopicPartition], time: int, replica_id: int = CONSUMER
    ) -> dict[TopicPartition, int]:
        asked = {tp: time for tp in tps if tp not in self.unknown}
        known: dict[TopicPartition, int] = {}
        committed = replica_id == CONSUMER
        for tp, found in self._client.list_offsets(asked, replica_id=replica_id, committed=committed).items():
            try:
                known[tp] = found.known()
            except WireError as why:
                self._unknown(tp, why)
        return known

    def _unknown(self, tp: TopicPartition, why: WireError) -> None:
        self.unknown[tp] = f"{self.name}: the ends of {tp} are not known: {why}"

    # ---- messages ----------------------------------------------------------------------------------------------------

    def read(self, tp: TopicPartition, start: int, until: int) -> Iterator[Piece | Gap]:
        """Yield the messages with start <= offset < until; those of the last set may go on behind it.

        Raises Unreachable if nothing is read for too long, and WireError if no other try may help.
        """
        reading = self._reader.range(tp, start, until)
        try:
            for found in reading:
                if isinstance(found, Gap):
                    yield found
                else:
                    yield from self._pieces(reading, found.messages, until)
        except NothingRead as nothing:
            raise Unreachable(f"{self.name}: {nothing}") from nothing

    def _pieces(self, reading: LogRange, found: MessageSet, until: int) -> Iterator[Piece | Gap]:
        for columns in found.pieces() if found.runs else ():
            yield Piece(columns, found.codecs, found.format)
            if columns.damage is not None:
                reading.offset = self._behind(columns, columns.damage, until)
                if columns.resume_at < until:
                    behind = min(reading.offset, until)
                    yield Gap(columns.resume_at, behind, str(columns.damage), columns.damage)
                return

    def _behind(self, columns: Columns, damage: CorruptMessage, until: int) -> int:
        """Return where to resume behind damage, which takes offsets that count messages."""
        if not self.dialect.offsets.count_messages:
            return until
        return max(columns.resume_at, damage.offset if damage.offset is not None else 0) + 1

    def message(self, tp: TopicPartition, offset: int) -> Columns | None:
        """Return the set that holds an offset, or None if it could not be read again."""
        found = next(chain(self.read(tp, offset, offset + 1), [None]))
        return found.columns if isinstance(found, Piece) else None

    def close(self) -> None:
        self._client.links.end()


def close_all(every: Sequence[Logs]) -> None:
    for logs in every:
        logs.close()
