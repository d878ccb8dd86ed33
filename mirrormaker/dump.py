"""Lines for the log about what a mirror is doing right now (SIGUSR1): partitions, queues, requests in flight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from groundwork.sentences import counted
from mirrormaker.flow import Flow
from producer.sender import Sender
from zkconsumer.engine.status import PartitionStatus

NONE_YET = "none was needed yet"


def dump(flows: Sequence[Flow], senders: Mapping[str, Sender]) -> Iterator[str]:
    """Yield lines about each flow and its partitions, and about each sender.  `senders` are by source.  Changes
    nothing."""
    for flow in flows:
        rows = flow.source.partitions()
        state, why = flow.source.state(rows)
        yield f"source {flow.name} {state}: {counted(len(rows), 'partition')}{f'; {why}' if why else ''}"
        yield f"  brokers: {_brokers(flow.source.connections)}"
        yield from (f"  {_partition(row)}" for row in rows)
        yield from (f"  {name} waits: {reason}" for name, reason in sorted(flow.waiting.items()))
        yield from (f"  route of {name}: {topic.route}" for name, topic in sorted(flow.topics.items()))
    for source, sender in sorted(senders.items()):
        requests = counted(sender.in_flight, "request")
        pending = f"{sender.bytes_pending:,} bytes not acknowledged, {sender.bytes_in_flight:,} of them in flight"
        yield f"target, for source {source}: {requests} in flight; {pending}"
        yield f"  brokers: {_brokers(sender.connections)}"
        if sender.outage:
            yield f"  {sender.outage}"


def _partition(row: PartitionStatus) -> str:
    places = f"fetched to {_n(row.position)}, done {_n(row.done)}, committed {_n(row.committed)}"
    end = f"end {_n(row.high_watermark)}, lag {_n(row.lag)}"
    parked = f"; {row.parked}" if row.parked is not None else ""
    return f"{row.tp} {row.state}: {places}, {end}, {row.buffered_bytes:,} bytes queued, read by {row.owner}{parked}"


def _brokers(connections: Mapping[int, int]) -> str:
    """Return each broker with its number of open connections."""
    return ", ".join(f"{broker} {_open(count)}" for broker, count in sorted(connections.items())) or NONE_YET


def _open(connections: int) -> str:
    return "away" if not connections else "connected" if connections == 1 else f"connected {connections} times"


def _n(number: int | None) -> str:
    return "unknown" if number is None else str(number)
