"""ListOffsets: requests to leaders about the offsets of their logs, and the responses.

A requested time is EARLIEST, LATEST or ms since 1970.  Up to 0.10.0 (v0, and 0.7) the response lists the first offsets
of segment files last written before that time, newest first; from 0.10.1 (v1) it has the first message with that
timestamp or a later one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groundwork.sentences import counted
from kafkawire.cluster.leaders import NoLeader
from kafkawire.dialects import Dialect
from kafkawire.errors import NOT_ANSWERED, BrokerError, LinkLost, RemoteError, WireError
from kafkawire.interfaces import Fields
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.exchange import exchange
from kafkawire.net.links import Links
from kafkawire.protocol.request import CONSUMER, Request

EARLIEST, LATEST = -2, -1  # times that stand for the begin and the end of a log
DEBUGGING = -2  # a replica id: any replica responds, with its own log end instead of the high watermark
PARTITIONS_PER_REQUEST = 2000

Times = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class LogOffset:
    """Offset of one log for a time, or why it is not known.

    broker asked; None: no leader was found
    offsets   newest first; empty: the log has no offset for that time
    error     BrokerError (NOT_ANSWERED: it is not in the response), LinkLost, NoLeader, Unreachable (no broker names
              leaders)
    tries number of requests
    """

    broker: Broker | None
    offsets: tuple[int, ...] = ()
    error: WireError | None = None
    tries: int = 1

    @property
    def offset(self) -> int | None:
        """Return the newest of the offsets; None if there are none."""
        return self.offsets[0] if self.offsets else None

    @property
    def code(self) -> int | None:
        """Return the broker's error code; None if no broker refused."""
        return self.error.code if isinstance(self.error, BrokerError) else None

    @property
    def moved(self) -> bool:
        """True if the reason is one that an election ends."""
        return self.retriable and not (isinstance(self.error, NoLeader) and self.error.lasting)

    @property
    def retriable(self) -> bool:
        """True if another try may succeed."""
        if isinstance(self.error, BrokerError):
            return self.error.passes
        return self.error is not None

    def known(self) -> int:
        """Return the offset.  Raises the error, or RemoteError if the log has no offset for that time."""
        if self.error is not None:
            raise self.error
        if not self.offsets:
            raise RemoteError(f"{self.broker} sent no offset for the end of a log")
        return self.offsets[0]


def ask_offsets(
    links: Links,
    dialect: Dialect,
    led: Mapping[Broker, Sequence[TopicPartition]],
    times: Times,
    *,
    purpose: str,
    max_offsets: int = 1,
    replica_id: int = CONSUMER,
    committed: bool = False,
) -> dict[TopicPartition, LogOffset]:
    """Request offsets from the leaders of partitions, each over its link for `purpose`, and return the results.

    A broker of 0.7 closes the connection if it does not have a partition.  Then each partition is requested alone, so
    that the others still get their offsets.
    """

    def ask(pieces: Iterable[tuple[Broker, Sequence[TopicPartition]]]) -> dict[TopicPartition, LogOffset]:
        requests: dict[Broker, list[tuple[tuple[Broker, Sequence[TopicPartition]], Request[Fields]]]] = {}
        for broker, tps in pieces:
            some = {tp: times[tp] for tp in tps}
            request = dialect.requests.list_offsets(dialect, some, max_offsets, replica_id, committed)
            requests.setdefault(broker, []).append(((broker, tuple(tps)), request))
        found: dict[TopicPartition, LogOffset] = {}
        for (broker, tps), response in exchange(links, requests, purpose).items():
            if not isinstance(response, LinkLost):
                found |= read_offsets(broker, tps, response)
            elif dialect.refuses_by_closing and len(tps) > 1 and _connects(links, broker, purpose, response):
                for tp in tps:
                    found |= ask([(broker, (tp,))])
            else:
                found |= dict.fromkeys(tps, LogOffset(broker, error=response))
        return found

    per = PARTITIONS_PER_REQUEST
    return ask((broker, tps[at : at + per]) for broker, tps in led.items() for at in range(0, len(tps), per))


def _connects(links: Links, broker: Broker, purpose: str, lost: LinkLost) -> bool:
    """True if a broker that closed a connection accepts another one."""
    if isinstance(lost.__cause__, TimeoutError):
        return False
    try:
        with links.lent(broker, purpose) as link:
            link.open()
    except LinkLost:
        return False
    return True


def read_offsets(
    broker: Broker, tps: Iterable[TopicPartition], response: Mapping[str, Any]
) -> dict[TopicPartition, LogOffset]:
    """Return the offsets of these partitions in a ListOffsets response of any version."""
    rows = {TopicPartition(t["topic"], row["partition"]): row for t in response["topics"] for row in t["partitions"]}
    return {tp: _read(broker, tp, rows.get(tp)) for tp in tps}


def problems(found: Mapping[TopicPartition, LogOffset]) -> list[str]:
    """Return a sentence for each broker that did not respond, and for each other partition whose offset is not
    known."""
    lost = Counter((one.broker, str(one.error)) for one in found.values() if isinstance(one.error, LinkLost))
    sentences = [f"{counted(count, 'partition')} led by {broker}: {why}" for (broker, why), count in lost.items()]
    for tp, one in found.items():
        if isinstance(one.error, NoLeader):
            sentences.append(f"{tp}: {one.error}")
        elif isinstance(one.error, BrokerError):
            sentences.append(f"the broker refuses the offsets of its log: {one.error}")
        elif one.error is not None and not isinstance(one.error, LinkLost):
            sentences.append(str(one.error))
    return list(dict.fromkeys(sentences))


def _read(broker: Broker, tp: TopicPartition, row: Mapping[str, Any] | None) -> LogOffset:
    if row is None:
        return LogOffset(broker, error=BrokerError(NOT_ANSWERED, f"{tp} on {broker}"))
    if row["error"]:
        return LogOffset(broker, error=BrokerError(row["error"], f"{tp} on {broker}"))
    offsets = row["offsets"] if "offsets" in row else (row["offset"],)
    return LogOffset(broker, tuple(offset for offset in offsets if offset >= 0))
