"""Changes of a plan: for each partition with a target offset, the writes, or the reason why there are none.

    write       .after is written to the stores in .stores (None: the offset is deleted there)
    unchanged   every store holds it already
    refused     it may not be written; then nothing of the whole plan is written, unless the operator allows it
    skipped     left unchanged by the policy

For a group with two stores (dual) both are written, since its members start from the larger offset; a store that holds
the value already is left alone.  Offsets outside the log are refused, or moved to its nearer end (clamp), or left out
(skip); `keep` writes them unchanged and is for undoing only.  A node whose data is not an offset is overwritten like
any other: the undo file restores its data.  A store that did not answer is not written: no undo file could restore it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from groupadmin.plan.resets import Bounds, Problem, Target, TargetOffset
from kafkawire.dialects import Store as StoreName
from kafkawire.model import TopicPartition
from zkconsumer.offsets.store import NONE, Committed, Unknown, UnreadableNode
from zkconsumer.options.arguments import NotThere, WrongUsage

OutOfRangePolicy = Literal["refuse", "clamp", "skip", "keep"]
Action = Literal["write", "unchanged", "refused", "skipped"]


@dataclass(frozen=True, slots=True)
class Change:
    """One partition of a plan.

    before   what each store of the group holds now
    after    the target offset; None: none (a deletion, if there was one)
    bounds   of the log; None: not known
    stores   the stores to write, in order: Kafka first; empty unless the action is write
    why      a sentence: the reason of a refusal, or a note on a write; may be empty
    """

    group: str
    tp: TopicPartition
    before: Mapping[StoreName, Committed]
    after: Target
    _: KW_ONLY
    bounds: Bounds | None
    action: Action
    why: str = ""
    stores: tuple[StoreName, ...] = ()


def plan_changes(
    group: str,
    wanted: Mapping[TopicPartition, TargetOffset | Problem],
    before: Mapping[TopicPartition, Mapping[StoreName, Committed]],
    *,
    bounds: Mapping[TopicPartition, Bounds],
    existing: Collection[TopicPartition],
    stores: Sequence[StoreName],
    out_of_range: OutOfRangePolicy = "refuse",
    former: Callable[[TopicPartition], Collection[StoreName]] = lambda tp: (),
) -> list[Change]:
    """Return a change for each partition with a target, in order.

    before: what each of `stores` holds; an absent partition or store was not read, and is refused.
    existing: the partitions of the cluster.  stores: those that the group keeps.
    former: the stores whose offset is of an earlier topic: it is written even if the number is the same.
    Raises WrongUsage for negative offsets, and for partitions that do not exist (an offset there can only be
    deleted); all of them are named.
    """
    _usable(group, wanted, existing)
    ordered = tuple(sorted(stores))  # "kafka" before "zookeeper": a crash in between leaves ZooKeeper behind, as a
    changes = []  # commit does
    for tp, each in wanted.items():
        held = {store: before.get(tp, {}).get(store, Unknown(f"{store} was not read for {tp}")) for store in ordered}
        if isinstance(each, Problem):
            changes.append(Change(group, tp, held, None, bounds=bounds.get(tp), action="refused", why=each.text))
        else:
            old, span = former(tp), bounds.get(tp)
            changes.append(
                _change(
                    group,
                    tp,
                    each,
                    held=held,
                    bounds=span,
                    policy=out_of_range,
                    former=old,
                )
            )
    return changes


def refused(changes: Iterable[Change]) -> list[Change]:
    """Return the refused changes."""
    return [change for change in changes if change.action == "refused"]


def restorable(there: Committed) -> bool:
    """True if an undo file can restore what a store holds."""
    return isinstance(there, UnreadableNode) or not isinstance(there, Unknown)


def _usable(
    group: str, wanted: Mapping[TopicPartition, TargetOffset | Problem], existing: Collection[TopicPartition]
) -> None:
    rows = [
        (tp, each.position)
        for tp, each in wanted.items()
        if isinstance(each, TargetOffset) and each.position is not None
    ]
    wrong = [f"{tp}: position {at} is negative" for tp, at in rows if isinstance(at, int) and at < 0]
    missing = [f"{tp} does not exist" for tp, _ in rows if tp not in existing]
    if wrong or missing:
        raise (WrongUsage if wrong else NotThere)(f"group {group}: {'; '.join([*wrong, *missing])}")


def _change(
    group: str,
    tp: TopicPartition,
    wanted: TargetOffset,
    *,
    held: Mapping[StoreName, Committed],
    bounds: Bounds | None,
    policy: OutOfRangePolicy,
    former: Collection[StoreName],
) -> Change:
    after, action, why = wanted.position, "write", wanted.note
    if isinstance(after, int):
        after, action, outside = in_range(tp, after, bounds, policy)
        why = "; ".join(filter(None, (why, outside)))
        if action != "write":
            return Change(group, tp, held, after, bounds=bounds, action=action, why=why)
    goal = NONE if after is None else after
    differ = tuple(store for store, there in held.items() if there != goal or store in former)
    unread = [
        f"{store}: {there.reason}"
        for store, there in held.items()
        if isinstance(there, Unknown) and not restorable(there)
    ]
    if unread:
        text = f"{tp}: what is there cannot be read, so it could not be brought back ({'; '.join(unread)})"
        return Change(group, tp, held, after, bounds=bounds, action="refused", why=text)
    if any(isinstance(held[store], UnreadableNode) for store in differ):
        why = "; ".join(filter(None, (why, f"{tp}: the node's data is not an offset; the undo file keeps it")))
    return Change(
        group, tp, held, after, bounds=bounds, action="write" if differ else "unchanged", why=why, stores=differ
    )


def in_range(
    tp: TopicPartition, position: int, bounds: Bounds | None, policy: OutOfRangePolicy
) -> tuple[int, Action, str]:
    """Return the offset to write, the action by policy, and a sentence when it is outside the log."""
    if bounds is not None and bounds[0] <= position <= bounds[1]:
        return position, "write", ""
    if bounds is None:
        text = f"{tp}: {position} cannot be checked, no leader reports where the log begins and ends"
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
