"""The gate before anything is written for a group that should be stopped: nobody there, for so many looks in a row.

A member that is being restarted is away for a moment, and its id node outlives a killed one by the session timeout; so
one look proves nothing.  Looks should be at least LOOK_EVERY_MS apart.  Pure: it counts; others look and wait.
"""

from __future__ import annotations

from dataclasses import dataclass

from groundwork.plural import counted
from groupadmin.snapshot.model import GroupSnapshot

LOOKS = 4
LOOK_EVERY_MS = 1500


@dataclass(frozen=True, slots=True)
class Look:
    """Who was there.  kafka_members: of a group of this name that Kafka coordinates; None: before 0.9 there is none."""

    ids: tuple[str, ...]
    owners: int
    kafka_members: int | None = None

    @property
    def nobody(self) -> bool:
        return not self.ids and not self.owners and not self.kafka_members


def look_at(snapshot: GroupSnapshot) -> Look:
    """Who is there by a snapshot; an owner node of another client is somebody too."""
    foreign = sum(each.kind == "owner" for each in snapshot.foreign)
    kafka_members = None if snapshot.kafka_members is None else len(snapshot.kafka_members)
    return Look(snapshot.members, len(snapshot.owners) + foreign, kafka_members)


@dataclass(frozen=True, slots=True)
class Gate:
    """.open after as many quiet looks in a row as are needed; anybody seen makes it count afresh.

    closed: so many looks were not quiet.
    """

    needed: int = LOOKS
    quiet: int = 0
    seen: int = 0
    last: Look | None = None

    def after(self, look: Look) -> Gate:
        """The gate after one more look."""
        return Gate(self.needed, self.quiet + 1 if look.nobody else 0, self.seen + (not look.nobody), look)

    @property
    def open(self) -> bool:
        return self.quiet >= self.needed > 0

    def __str__(self) -> str:
        if self.last is None:
            return "nobody looked yet"
        if self.last.nobody:
            return f"nobody there for {self.quiet} of {self.needed} looks"
        there = [f"members {', '.join(self.last.ids)}"] if self.last.ids else []
        there += [f"{counted(self.last.owners, 'owned partition')}"] if self.last.owners else []
        there += [f"{counted(self.last.kafka_members, 'member')} in Kafka"] if self.last.kafka_members else []
        return f"still there: {'; '.join(there)}"
