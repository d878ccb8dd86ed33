"""Logs of one cluster as `verify` reads them: their ends, and their messages as columns.

Leaders that move are looked up again, and a broker that is out of reach is waited for, for PATIENCE_S without progress.
What a log does not hold any more, and what is damaged, is a Gap: reading goes on behind it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from groundwork.tasks import connect, now, sleep
from kafkawire.cluster.client import KafkaClient
from kafkawire.cluster.leaders import ListedLeaders, NoLeader
from kafkawire.cluster.listoffsets import DEBUGGING, EARLIEST, LATEST
from kafkawire.cluster.metadata import Unreachable
from kafkawire.cluster.retry import Backoff, RetryPolicy
from kafkawire.cluster.versions import ClusterVersions
from kafkawire.columns import Columns
from kafkawire.errors import BrokerError, Follows, LinkLost, WireError
from kafkawire.model import Broker, MessageSet, TopicPartition
from kafkawire.net.links import Links
from kafkawire.net.security import OPEN, Security, security_of
from kafkawire.protocol.apis import LIST_OFFSETS
from kafkawire.protocol.request import CONSUMER
from zkconsumer.refusals import Damaged, MessageTooLarge, OffsetOutOfRange
from zkconsumer.simple import SimpleConsumer

FETCH_BYTES = 4 << 20
MAX_FETCH_BYTES = 1 << 29
WAIT_MS = 500
TIMEOUT_MS = 10_000
PATIENCE_S = 30.0
SHORT_S = 2.0  # once it was in vain
AGAIN = RetryPolicy(retries=8, backoff=Backoff(0.2, 3.0))
CLIENT = "mirrormaker-verify"
RETENTION = "deleted by retention while it was read"


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets from `first` on, before `until`, that could not be read, and why."""

    first: int
    until: int
    why: str


@dataclass(frozen=True, slots=True)
class Piece:
    """Some messages of a set; codecs and format are the set's."""

    columns: Columns
    codecs: frozenset[int]
    format: int


@dataclass(slots=True)
class _Position:
    """Where one partition is read: the next offset, bytes to ask for, since when nothing came."""

    tp: TopicPartition
    offset: int
    size: int = FETCH_BYTES
    silent_since: float = field(default_factory=now)


class Logs:
    """The logs of one cluster.  name: for sentences, "the target" or "source dc1".

    unknown: partitions whose ends no broker tells, each with a sentence; nothing more is asked about them.
    """

    def __init__(self, name: str, client: KafkaClient) -> None:
        self.name = name
        self.unknown: dict[TopicPartition, str] = {}
        self._patience_s = PATIENCE_S
        self.dialect = client.dialect
        self._client = client
        self._security = security_of(client.links.connect)
        self._consumers: dict[Broker, SimpleConsumer] = {}

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
            return cls(name, KafkaClient.of_brokers(addresses, links, speaks, retry=AGAIN))
        return cls(name, KafkaClient(ListedLeaders(brokers, "ZooKeeper", tps), links, speaks, retry=AGAIN))

    # ---- ends --------------------------------------------------------------------------------------------------------

    def earliest(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Where each log begins; those that become unknown are left out, here and below."""
        return self._known(tps, EARLIEST)

    def ends(self, tps: Collection[TopicPartition], *, replicated: bool = True) -> dict[TopicPartition, int]:
        """Where each log ends, as far as it is replicated and no transaction is open, or as its leader has it."""
        return self._known(tps, LATEST, CONSUMER if replicated or not self.dialect.describes_itself else DEBUGGING)

    def at_time(self, tps: Collection[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        """The offset of each log from which on everything of that time and later is found.

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
        """The messages with start <= offset < until: those of the last set may go on behind it.  Raises Unreachable,
        and WireError that no other try may heal."""
        at = _Position(tp, start)
        while at.offset < until:
            found = self._next(at, until)
            if isinstance(found, Gap):
                yield found
                at.offset = found.until
            elif found is not None:
                yield from self._pieces(at, found, until)
                at.size, at.silent_since = FETCH_BYTES, now()

    def _pieces(self, at: _Position, found: MessageSet, until: int) -> Iterator[Piece | Gap]:
        at.offset = found.resume_at
        for columns in found.pieces():
            yield Piece(columns, found.codecs, found.format)
            if columns.damage is not None:
                at.offset = self._behind(columns, until)
                if columns.resume_at < until:
                    yield Gap(columns.resume_at, min(at.offset, until), str(columns.damage))
                return

    def _behind(self, columns: Columns, until: int) -> int:
        """Where to go on behind damage: only offsets of messages can be counted on."""
        damage = columns.damage
        if damage is None or not self.dialect.offsets.count_messages:
            return until
        return max(columns.resume_at, damage.offset if damage.offset is not None else 0) + 1

    def _next(self, at: _Position, until: int) -> MessageSet | Gap | None:
        """The next set; None: another try is due."""
        tp, offset = at.tp, at.offset
        try:
            found = self._leader(tp).fetch(tp.topic, tp.partition, offset, at.size, WAIT_MS)
        except OffsetOutOfRange as outside:
            begins = self.earliest([tp]).get(tp)
            if begins is None:
                raise Unreachable(self.unknown[tp]) from outside
            if offset < begins:
                return Gap(offset, min(begins, until), RETENTION)
            self._again(at, outside)
            return None
        except MessageTooLarge as large:
            at.size = max(large.needed, 2 * at.size)
            if at.size > MAX_FETCH_BYTES:
                raise
            return None
        except Damaged as damage:
            messages = self.dialect.offsets.count_messages
            return Gap(offset, min(until, max(offset, damage.offset or 0) + 1) if messages else until, str(damage))
        except (LinkLost, NoLeader, Unreachable) as lost:
            self._again(at, lost)
            return None
        except BrokerError as refused:
            if not refused.passes:
                raise
            self._again(at, refused)
            return None
        if found.resume_at > offset:
            return found
        if found.high_watermark is not None and found.high_watermark > offset and at.size < MAX_FETCH_BYTES:
            at.size *= 2  # 3.x sends nothing of a batch that is larger than was asked for
        else:
            self._again(at, None)
        return None

    def _again(self, at: _Position, why: WireError | None) -> None:
        """Wait before another try.  Raises Unreachable once nothing was read for too long."""
        if now() - at.silent_since > self._patience_s:
            waited_s, self._patience_s = self._patience_s, SHORT_S
            reason = f": {why}" if why is not None else "; its end is not replicated, or not flushed"
            raise Unreachable(f"{self.name}: nothing was read of {at.tp} for {waited_s:g} s{reason}")
        if why is not None and not (isinstance(why, BrokerError) and why.info.follows is Follows.WAIT):
            self._forget()
        sleep(0.2)

    def _leader(self, tp: TopicPartition) -> SimpleConsumer:
        led = self._client.leader(tp)
        if isinstance(led, NoLeader):
            raise led
        if led not in self._consumers:
            self._consumers[led] = SimpleConsumer(
                led.host, led.port, self.dialect.release, CLIENT, TIMEOUT_MS, broker_id=led.id, security=self._security
            )
        return self._consumers[led]

    def _forget(self) -> None:
        """Leaders are looked up again; connections are opened again."""
        for consumer in self._consumers.values():
            consumer.close()
        self._consumers.clear()
        try:
            self._client.view(refresh=True)
        except Unreachable:
            pass  # the next try says so

    def message(self, tp: TopicPartition, offset: int) -> Columns | None:
        """The set that holds an offset; None: it could not be read again."""
        found = next(chain(self.read(tp, offset, offset + 1), [None]))
        return found.columns if isinstance(found, Piece) else None

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()
        self._client.links.end()


def close_all(every: Sequence[Logs]) -> None:
    for logs in every:
        logs.close()
