"""What a mirror does with a translated offset, by what the target's stores hold.  Pure.

| the target holds | and | then |
|---|---|---|
| no offset | | it is written |
| an offset that this mirror wrote, and nobody since | the same one | nothing |
| | another one | it is written, also when it is smaller: the group was set back at the source |
| | of another source or group | left alone: two would write it in turns |
| an offset that somebody else wrote | | left alone |
| what cannot be read | | left alone |

Nothing is written while the group has members at the target.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from groupadmin.plan.resets import Bounds
from groupadmin.translation import Facts, Safe
from kafkawire.dialects import Store as StoreName
from kafkawire.model import TopicPartition
from zkconsumer.offsetmap.mirrored import Fed, Mirrored
from zkconsumer.offsetmap.records import OffsetMap
from zkconsumer.offsets.store import NONE, Committed, Unknown

State = Literal["following", "waiting", "left alone"]


@dataclass(frozen=True, slots=True)
class Held:
    """An offset in one store of the target.

    version: of its node, None in Kafka or without a node.  record: what the mirror wrote with it; None without one.
    """

    position: Committed
    version: int | None = None
    record: Mirrored | None = None

    @property
    def ours(self) -> bool:
        """True if a mirror wrote this offset, and nobody since.

        The record is written before the node, so a mirror that died in between leaves a record one version ahead.
        """
        if self.record is None:
            return False
        if self.version is None or self.record.version is None:
            return self.record.version is None and self.position == self.record.offset
        same = self.version == self.record.version and self.position == self.record.offset
        return same or self.version == self.record.version - 1


def refusal(wanted: Mirrored, held: Mapping[StoreName, Held]) -> str:
    """Return why a translated offset may not be written to these stores; "" if it may."""
    for store, there in held.items():
        if isinstance(there.position, Unknown):
            return f"{store}: {there.position.reason}"
        if there.position is NONE:
            continue
        if not there.ours:
            return f"{store} holds {there.position}, which this mirror did not write"
        assert there.record is not None
        if (there.record.source, there.record.group) != (wanted.source, wanted.group):
            return (
                f"{store} holds {there.position}, which the mirror wrote for group {there.record.group} of source "
                f"{there.record.source}"
            )
    return ""


def stale(wanted: Mirrored, held: Mapping[StoreName, Held]) -> list[StoreName]:
    """Return the stores that do not hold the translated offset yet, with what is known of it.

    A record with other numbers is written again: a failover reads it.
    """
    return [
        store
        for store, there in held.items()
        if there.position != wanted.offset or there.record is None or _known(there.record) != _known(wanted)
    ]


def _known(record: Mirrored) -> tuple[object, ...]:
    return record.offset, record.repeats, record.missing, tuple(record.read)


def record_of(
    source: str,
    group: str,
    at_ms: int,
    safe: Safe,
    feeding: Iterable[TopicPartition],
    *,
    offsets: OffsetMap,
    facts: Facts,
) -> Mirrored:
    """Return the record of a translated offset.  feeding: the source partitions that feed its partition."""
    read = [_fed(tp, offsets, facts) for tp in feeding]
    missing: int | None = 0
    for each in read:
        if missing is None or each.end is None or each.copied is None:
            missing = None
        else:
            missing += max(0, each.end - each.copied)
    return Mirrored(source, group, at_ms, safe.position, None, safe.repeats, missing, tuple(read))


def _fed(tp: TopicPartition, offsets: OffsetMap, facts: Facts) -> Fed:
    bounds: Bounds | None = facts.source.get(tp)
    periods = offsets.periods.get(tp)
    return Fed(
        tp,
        facts.read.get(tp),
        None if bounds is None else bounds[1],
        max(period.reached for period in periods) if periods else None,
    )


@dataclass(frozen=True, slots=True)
class Followed:
    """How one group follows, as far as this daemon copies its partitions.

    group: its name at the source; target_group: at the target.  reason: why not all of it follows, or "".
    partitions: of the target that it follows in.  repeats: messages that would be read twice there; missing: messages
    of the source that the target did not have; None: unknown.  at_ms: when the oldest of these offsets was translated,
    None before the first.
    """

    group: str
    target_group: str
    state: State
    reason: str
    partitions: int = 0
    repeats: int | None = None
    missing: int | None = None
    at_ms: int | None = None


def followed(group: str, target_group: str, written: Sequence[Mirrored], waits: str, alone: str) -> Followed:
    """Return how a group follows.  written: what its partitions hold; waits: the first reason why one cannot be
    translated now; alone: the first one why one is left alone."""
    state: State = "left alone" if alone else "waiting" if waits else "following"
    missing = [record.missing for record in written]
    return Followed(
        group,
        target_group,
        state,
        alone or waits,
        len(written),
        sum(record.repeats for record in written) if written else None,
        None if not written or None in missing else sum(each for each in missing if each is not None),
        min((record.at_ms for record in written), default=None),
    )
