"""From wanted positions to what is written, partition by partition, and what is not and why.

    write       the stores named in .stores get .after (None: the position is deleted there)
    unchanged   every store holds it already
    refused     it may not be written; nothing of the whole plan is, unless the operator says otherwise
    skipped     left as it is, because the policy says so

A group that keeps two stores (dual) gets both written, since its members start from the larger; a store that holds the
value already is left alone.  Positions outside the log are refused, or moved to its nearer end (clamp), or left out
(skip); `keep` writes them as they are and is for undoing only.  What cannot be read is not overwritten unless
overwrite_unreadable says so: no undo file could bring it back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from groupadmin.plan.resets import Bounds, Problem, Wanted
from kafkawire.dialects import Store as StoreName
from kafkawire.model import TopicPartition
from zkconsumer.offsets.store import NONE, Committed, Unknown
from zkconsumer.options.arguments import NotThere, WrongUsage

OutOfRangePolicy = Literal["refuse", "clamp", "skip", "keep"]
Action = Literal["write", "unchanged", "refused", "skipped"]


@dataclass(frozen=True, slots=True)
class Change:
    """One partition of a plan.

    before   what each store of the group holds now
    after    what the stores are to hold; None: no position (a deletion, where there was one)
    bounds   of the log; None: not known
    stores   those to be written, in the order to write them: Kafka first; empty unless the action is write
    why      a sentence: the reason of a refusal, or what the operator should know of a write; may be empty
    """

    group: str
    tp: TopicPartition
    before: Mapping[StoreName, Committed]
    after: int | None
    bounds: Bounds | None
    action: Action
    why: str = ""
    stores: tuple[StoreName, ...] = ()


def plan_changes(
    group: str,
    wanted: Mapping[TopicPartition, Wanted | Problem],
    before: Mapping[TopicPartition, Mapping[StoreName, Committed]],
    bounds: Mapping[TopicPartition, Bounds],
    existing: Collection[TopicPartition],
    stores: Sequence[StoreName],
    out_of_range: OutOfRangePolicy = "refuse",
    overwrite_unreadable: bool = False,
    former: Callable[[TopicPartition], Collection[StoreName]] = lambda tp: (),
) -> list[Change]:
    """A row for each wanted partition, in its order.

    before: what each of `stores` holds; a partition or store that is absent was not read, and is refused.
    existing: the partitions the cluster has.  stores: those the group keeps.
    former: the stores whose number is of an earlier topic: written again, though it be the same, it counts.
    Raises WrongUsage for negative positions, and for partitions that the cluster does not have (a position there can
    only be deleted); all of them are named.
    """
    _usable(group, wanted, existing)
    ordered = tuple(sorted(stores))  # "kafka" before "zookeeper": a crash between them leaves ZooKeeper behind, as a
    changes = []  # commit does
    for tp, each in wanted.items():
        held = {store: before.get(tp, {}).get(store, Unknown(f"{store} was not read for {tp}")) for store in ordered}
        if isinstance(each, Problem):
            changes.append(Change(group, tp, held, None, bounds.get(tp), "refused", each.text))
        else:
            old, span = former(tp), bounds.get(tp)
            changes.append(_change(group, tp, each, held, span, out_of_range, overwrite_unreadable, old))
    return changes


def refused(changes: Iterable[Change]) -> list[Change]:
    """Those that stand in the way."""
    return [change for change in changes if change.action == "refused"]


def _usable(
    group: str, wanted: Mapping[TopicPartition, Wanted | Problem], existing: Collection[TopicPartition]
) -> None:
    rows = [
        (tp, each.position) for tp, each in wanted.items() if isinstance(each, Wanted) and each.position is not None
    ]
    wrong = [f"{tp}: position {position} is negative" for tp, position in rows if position < 0]
    missing = [f"{tp} does not exist" for tp, _ in rows if tp not in existing]
    if wrong or missing:
        raise (WrongUsage if wrong else NotThere)(f"group {group}: {'; '.join([*wrong, *missing])}")


def _change(
    group: str,
    tp: TopicPartition,
    wanted: Wanted,
    held: Mapping[StoreName, Committed],
    bounds: Bounds | None,
    policy: OutOfRangePolicy,
    overwrite: bool,
    former: Collection[StoreName],
) -> Change:
    after, action, why = wanted.position, "write", wanted.note
    if after is not None:
        after, action, outside = in_range(tp, after, bounds, policy)
        why = "; ".join(filter(None, (why, outside)))
        if action != "write":
            return Change(group, tp, held, after, bounds, action, why)
    goal = NONE if after is None else after
    differ = tuple(store for store, there in held.items() if there != goal or store in former)
    unread = [f"{store}: {there.reason}" for store, there in held.items() if isinstance(there, Unknown)]
    if unread:
        unread_text = "; ".join(unread)
        if not overwrite:
            text = f"{tp}: what is there cannot be read, so it could not be brought back ({unread_text})"
            return Change(group, tp, held, after, bounds, "refused", text)
        why = "; ".join(filter(None, (why, f"{tp}: overwrites what cannot be read ({unread_text})")))
    return Change(group, tp, held, after, bounds, "write" if differ else "unchanged", why, differ)


def in_range(
    tp: TopicPartition, position: int, bounds: Bounds | None, policy: OutOfRangePolicy
) -> tuple[int, Action, str]:
    """The position that may be written, whether it may, and a sentence where it lies outside the log."""
    if bounds is not None and bounds[0] <= position <= bounds[1]:
        return position, "write", ""
    if bounds is None:
        text = f"{tp}: {position} cannot be checked, no leader says where the log begins and ends"
    else:
        text = f"{tp}: {position} lies outside the log, which holds {bounds[0]} to {bounds[1]}"
    if policy == "keep":
        return position, "write", text
    if policy == "skip":
        return position, "skipped", text
    if policy == "clamp" and bounds is not None:
        nearest = max(bounds[0], min(position, bounds[1]))
        return nearest, "write", f"{text}: {nearest} is taken"
    return position, "refused", text
