"""Does an entry begin where a position points?  Asked of the leaders, where positions are bytes (0.7).

A broker of 0.7 takes any byte for a position and answers with rubbish; whoever reads on from there fails.  So what is
to be written is read first: a fetch at the position has to begin with an entry whose checksum is right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from groupadmin.plan.changes import Change, OutOfRangePolicy
from groupadmin.snapshot.cluster import Cluster, World
from groupadmin.snapshot.exchange import exchange
from kafkawire.errors import LinkLost
from kafkawire.model import Broker, TopicPartition
from kafkawire.requests import FetchedPartition, Request
from zkconsumer.fetching.searching import damage_in

FIRST_BYTES = 4096  # enough for most entries; the rest is asked for by its own size
MOST_BYTES = 64 << 20  # of an entry that is looked at whole


def on_borders(world: World, cluster: Cluster, changes: list[Change], policy: OutOfRangePolicy) -> list[Change]:
    """The changes; those that would write a position where no entry begins are refused, or where the policy is to keep
    what is given, told."""
    if world.dialect.position_unit != "bytes":
        return changes
    asked = {c.tp: c.after for c in changes if c.action == "write" and c.after is not None and not _at_an_end(c)}
    wrong = _wrong(world, cluster, asked)
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


def _wrong(world: World, cluster: Cluster, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, str]:
    """A sentence for each that is none."""
    found: dict[TopicPartition, str] = {}
    sizes = dict.fromkeys(positions, FIRST_BYTES)
    for tp, fetched in _fetched(world, cluster, positions, sizes).items():
        wrong, needed = _look(world, tp, positions[tp], sizes[tp], fetched)
        if needed:
            size = {tp: min(needed, MOST_BYTES)}
            more = _fetched(world, cluster, {tp: positions[tp]}, size).get(tp, fetched)
            wrong, needed = _look(world, tp, positions[tp], size[tp], more)
        if wrong or needed:
            found[tp] = wrong or f"{tp}: what begins at {positions[tp]} is larger than {MOST_BYTES} bytes"
    return found


def _look(
    world: World, tp: TopicPartition, at: int, asked: int, fetched: FetchedPartition | LinkLost
) -> tuple[str, int]:
    """What is wrong there, or how many bytes are needed to tell."""
    if isinstance(fetched, LinkLost):
        return f"{tp}: whether an entry begins at {at} is not known: {fetched}", 0
    if fetched.error:
        return f"{tp}: the broker cannot read at {at} (error {fetched.error})", 0
    messages = world.dialect.messages
    message_set, scan = messages.message_set(tp.topic, tp.partition, at, fetched.buffer, None)
    damage = scan.damage or messages.cut_short(fetched.buffer, scan, at, asked)
    if scan.runs:
        damage = damage_in(message_set)
    elif damage is None and scan.needed:
        return "", scan.needed
    if damage is None:
        return "", 0
    return f"{tp}: no message begins at {at} ({damage.why}); positions of 0.7 are where messages begin", 0


def _fetched(
    world: World, cluster: Cluster, positions: Mapping[TopicPartition, int], sizes: Mapping[TopicPartition, int]
) -> dict[TopicPartition, FetchedPartition | LinkLost]:
    """What is there; without a leader nothing is told, and the bounds of the log are not known either."""
    asked: dict[Broker, list[tuple[TopicPartition, Request[list[FetchedPartition]]]]] = {}
    for tp, at in positions.items():
        leader = cluster.view.leader(tp)
        if leader is not None:
            request = world.dialect.requests.fetch(world.dialect, 0, 1, [(tp, at, sizes[tp])])
            asked.setdefault(leader, []).append((tp, request))
    replies = exchange(world.links, asked)
    return {tp: reply if isinstance(reply, LinkLost) else reply[0] for tp, reply in replies.items()}
