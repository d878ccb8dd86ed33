"""Log start and end offsets, and offsets by time: ListOffsets in bulk to the leaders.

Where offsets are bytes (0.7) a broker accepts any byte as an offset and returns garbage, on which a reader fails.  So
before an offset is written, a fetch at that offset has to begin with an entry with a valid checksum (misplaced).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

from groupadmin.plan.changes import Change, OutOfRangePolicy
from groupadmin.plan.resets import TimeAnswer
from groupadmin.snapshot.cluster import AdminClient, Cluster, client_of
from kafkawire.cluster.listoffsets import DEBUGGING, EARLIEST, LATEST, LogOffset, problems
from kafkawire.errors import BrokerError, LinkLost, WireError
from kafkawire.fetched import Came, judged
from kafkawire.model import Broker, TopicPartition
from kafkawire.net.exchange import exchange
from kafkawire.protocol import apis
from kafkawire.protocol.request import CONSUMER, FetchedPartition, Request
from zkconsumer.fetching.search import damage_in


def log_bounds(
    admin: AdminClient,
    cluster: Cluster,
    tps: Iterable[TopicPartition],
    reached: Mapping[TopicPartition, int] | None = None,
    *,
    replicated: bool = True,
) -> dict[TopicPartition, tuple[int, int]]:
    """Return the first offset and end of each log; partitions whose leader does not answer are left out, and reported.

    reached: what was read of logs; an end below that is asked for again (KafkaClient.list_ends).  replicated: logs end
    where consumers see them end; else where the leader's own log ends, before which is all that was ever read.
    """
    wanted, client = list(tps), client_of(admin, cluster)
    starts = _known(admin, client.list_offsets(dict.fromkeys(wanted, EARLIEST)))
    at_least = {tp: (reached or {}).get(tp, 0) for tp in wanted}
    ends = _known(admin, client.list_ends(at_least, replica_id=CONSUMER if replicated else DEBUGGING))
    return {tp: (starts[tp], ends[tp]) for tp in wanted if tp in starts and tp in ends}


def last_stable(admin: AdminClient, cluster: Cluster, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the last stable offset of each log; none where brokers have no transactions (before 0.11), or do not
    answer."""
    wanted = list(tps)
    if not admin.dialect.record_batches or not wanted:
        return {}
    found = client_of(admin, cluster).list_offsets(dict.fromkeys(wanted, LATEST), committed=True)
    return {tp: one.offset for tp, one in found.items() if one.offset is not None}


def at_time(
    admin: AdminClient, cluster: Cluster, tps: Iterable[TopicPartition], time_ms: int
) -> dict[TopicPartition, TimeAnswer]:
    """Return the leaders' responses to a look-up by time (ms since 1970); left out when there is none."""
    kind: Literal["message", "segment"] = "message" if admin.dialect.speaks(apis.LIST_OFFSETS.key) >= 1 else "segment"
    said = client_of(admin, cluster).list_offsets(dict.fromkeys(tps, time_ms))
    _tell(admin, said, LinkLost)
    return {
        tp: TimeAnswer(one.offset, kind, one.code or 0)
        for tp, one in said.items()
        if one.error is None or one.code is not None
    }


def _known(admin: AdminClient, found: Mapping[TopicPartition, LogOffset]) -> dict[TopicPartition, int]:
    """Return the offsets; errors of brokers and lost connections are reported."""
    _tell(admin, found, BrokerError, LinkLost)
    return {tp: one.offset for tp, one in found.items() if one.offset is not None}


def _tell(admin: AdminClient, found: Mapping[TopicPartition, LogOffset], *kinds: type[WireError]) -> None:
    """Report errors of these kinds only: a missing leader, or brokers that do not respond, are visible elsewhere."""
    for sentence in problems({tp: one for tp, one in found.items() if isinstance(one.error, kinds)}):
        admin.tell(sentence)


PURPOSE = "groups"
FIRST_BYTES = 4096  # enough for most entries; larger ones are fetched by their size
MOST_BYTES = 64 << 20  # largest entry that is fetched


def on_borders(admin: AdminClient, cluster: Cluster, changes: list[Change], policy: OutOfRangePolicy) -> list[Change]:
    """Check changes against entries.  Those to an offset where no entry begins are refused, or, if the policy keeps
    given offsets, get a note."""
    if not admin.dialect.offsets.entries_only:
        return changes
    asked = {c.tp: c.after for c in changes if c.action == "write" and isinstance(c.after, int) and not _at_an_end(c)}
    wrong = _wrong(admin, cluster, asked)
    return [_judged(change, wrong.get(change.tp, ""), policy) for change in changes]


def _at_an_end(change: Change) -> bool:
    return change.bounds is not None and change.after in change.bounds


def _judged(change: Change, wrong: str, policy: OutOfRangePolicy) -> Change:
    if not wrong or change.action != "write":
        return change
    why = "; ".join(filter(None, (change.why, wrong)))
    if policy == "keep":
        return replace(change, why=why)
    return replace(change, why=why, action="refused", stores=())


def _wrong(admin: AdminClient, cluster: Cluster, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, str]:
    """Return a sentence for each offset where no entry begins."""
    found: dict[TopicPartition, str] = {}
    sizes = dict.fromkeys(positions, FIRST_BYTES)
    for tp, fetched in _fetched(admin, cluster, positions, sizes).items():
        wrong, needed = _look(admin, tp, positions[tp], asked=sizes[tp], fetched=fetched)
        if needed:
            size = {tp: min(needed, MOST_BYTES)}
            more = _fetched(admin, cluster, {tp: positions[tp]}, size).get(tp, fetched)
            wrong, needed = _look(admin, tp, positions[tp], asked=size[tp], fetched=more)
        if wrong or needed:
            found[tp] = wrong or f"{tp}: what begins at {positions[tp]} is larger than {MOST_BYTES} bytes"
    return found


def _look(
    admin: AdminClient, tp: TopicPartition, at: int, *, asked: int, fetched: FetchedPartition | LinkLost
) -> tuple[str, int]:
    """Return what is wrong at an offset, or how many bytes must be fetched to find out."""
    if isinstance(fetched, LinkLost):
        return f"{tp}: whether an entry begins at {at} is not known: {fetched}", 0
    if fetched.error:
        return f"{tp}: the broker cannot read at {at} (error {fetched.error})", 0
    found = judged(admin.dialect, tp, at, fetched, asked)
    if found.came is Came.CUT:
        return "", found.scan.needed
    damage = damage_in(found.messages) if found.came is Came.MESSAGES else found.damage
    if damage is None:
        return "", 0
    return f"{tp}: no message begins at {at} ({damage.why}); positions of 0.7 are where messages begin", 0


def _fetched(
    admin: AdminClient, cluster: Cluster, positions: Mapping[TopicPartition, int], sizes: Mapping[TopicPartition, int]
) -> dict[TopicPartition, FetchedPartition | LinkLost]:
    """Fetch at each offset; partitions without a leader are left out, since their bounds are unknown, too."""
    asked: dict[Broker, list[tuple[TopicPartition, Request[list[FetchedPartition]]]]] = {}
    for tp, at in positions.items():
        leader = cluster.view.leader(tp)
        if leader is not None:
            request = admin.dialect.requests.fetch(admin.dialect, 0, 1, [(tp, at, sizes[tp])])
            asked.setdefault(leader, []).append((tp, request))
    replies = exchange(admin.links, asked, PURPOSE)
    return {tp: reply if isinstance(reply, LinkLost) else reply[0] for tp, reply in replies.items()}
