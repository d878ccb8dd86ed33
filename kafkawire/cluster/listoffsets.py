"""ListOffsets: what is asked of leaders about their logs, and what their responses say.

A time asked for is EARLIEST, LATEST or ms since 1970.  Up to 0.10.0 (v0, and 0.7) the response lists the first offsets
of segment files last written before that time, newest first; from 0.10.1 on (v1) it has the one message with that
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

EARLIEST, LATEST = -2, -1  # as a time: where a log begins, where it ends
DEBUGGING = -2  # a replica id: any replica responds, with the end of its own log and not of what is replicated
PARTITIONS_PER_REQUEST = 2000

Times = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class LogOffset:
    """The offset of one log for a time, or why it is not known.

    broker    that was asked; None: no leader was found
    offsets   newest first; empty: the log has none for that time
    error     BrokerError (NOT_ANSWERED: it is not in the response), LinkLost, NoLeader, Unreachable (no broker names
              leaders)
    tries     how often it was asked
    """

    broker: Broker | None
    offsets: tuple[int, ...] = ()
    error: WireError | None = None
    tries: int = 1

    @property
    def offset(self) -> int | None:
        """The newest of the offsets; None: there is none."""
        return self.offsets[0] if self.offsets else None

    @property
    def code(self) -> int | None:
        """The broker's error code; None: no broker refused."""
        return self.error.code if isinstance(self.error, BrokerError) else None

    @property
    def moved(self) -> bool:
        """True if what an election ends is the reason."""
        return self.retriable and not (isinstance(self.error, NoLeader) and self.error.lasting)

    @property
    def retriable(self) -> bool:
        """Whether another try may help."""
        if isinstance(self.error, BrokerError):
            return self.error.passes
        return self.error is not None

    def known(self) -> int:
        """The offset.  Raises the error; RemoteError where there is no offset for that time."""
        if self.error is not None:
            raise self.error
        if not self.offsets:
            raise RemoteError(f"{self.broker} does not say where a log ends")
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
    """What the brokers say of the partitions that they lead; each broker is asked over its link for the purpose.

    A broker of 0.7 does not refuse a partition that it has not, it closes the connection: then each partition is asked
    for alone, so that the others do not suffer for it.
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
    """Whether a broker that closed a connection takes another one."""
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
    """What a ListOffsets response, of any version, says of these partitions."""
    rows = {TopicPartition(t["topic"], row["partition"]): row for t in response["topics"] for row in t["partitions"]}
    return {tp: _read(broker, tp, rows.get(tp)) for tp in tps}


def problems(found: Mapping[TopicPartition, LogOffset]) -> list[str]:
    """A sentence for each broker that did not respond, and for each other partition whose offset is not known."""
    lost = Counter((one.broker, str(one.error)) for one in found.values() if isinstance(one.error, LinkLost))
    sentences = [f"{counted(count, 'partition')} led by {broker}: {why}" for (broker, why), count in lost.items()]
    for tp, one in found.items():
        if isinstance(one.error, NoLeader):
            sentences.append(f"{tp}: {one.error}")
        elif isinstance(one.error, BrokerError):
            sentences.append(f"where its log begins and ends is refused: {one.error}")
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
