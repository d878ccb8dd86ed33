"""Offset modes: where a group keeps its offsets while it moves from ZooKeeper to Kafka or back.  Pure.

    zookeeper  <->  dual  <->  kafka          one step at a time, one member after the other

    zookeeper   reads and writes only ZooKeeper             offsets.storage=zookeeper
    dual        reads the larger, writes Kafka, then ZooKeeper      kafka, dual.commit.enabled=true
    kafka       reads and writes only Kafka                 kafka, dual.commit.enabled=false

Refused: zookeeper -> kafka and kafka -> zookeeper in one bounce, and members of both kinds in one group: neither sees
the other's commits.  Leaving dual has one more condition: the store that will count must hold everything that the other
one holds (`behind`), for idle partitions as well.

Each member of ours shows its mode in its own ephemeral node (the registration stays as the JVM writes it):

    /consumers/GROUP/modes/MEMBER   {"version":"1","mode":"dual","zookeeper":{"committed_at_ms":"..","partitions":".."},
                                     "kafka":{"committed_at_ms":"..","partitions":".."}}

A store without a commit yet is left out.  JVM members have no such node: their mode is unknown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from groundwork.decimals import decimal_int
from groundwork.jsontext import json_value
from kafkawire.znodes.group import CONSUMERS
from zkconsumer.errors import ConsumerError
from zkconsumer.offsets.store import Committed, Unknown

Mode = Literal["zookeeper", "dual", "kafka"]
MODES: tuple[Mode, ...] = get_args(Mode)
VERSION = "1"
STEPS = {("zookeeper", "dual"), ("dual", "zookeeper"), ("dual", "kafka"), ("kafka", "dual")}


class ModeRefused(ConsumerError):
    """Raised when the group may not enter this mode now; the sentence says what would be lost and what to do."""


class ModeUnreadable(ConsumerError):
    """Raised when a mode node holds what no release of ours writes."""


@dataclass(frozen=True, slots=True)
class StoreCommit:
    """A member's last accepted commit to one store."""

    committed_at_ms: int  # since the epoch, by the member's clock
    partitions: int  # number of partitions


@dataclass(frozen=True, slots=True)
class MemberMode:
    """Content of a member's mode node."""

    mode: Mode
    zookeeper: StoreCommit | None = None
    kafka: StoreCommit | None = None


# rules ---------------------------------------------------------------------------------------------------------------


def mode_of(storage: str, dual: bool | None) -> Mode:
    """Return the mode of `offsets.storage` and `dual.commit.enabled`; dual None is its default, true for storage kafka.

    dual is ignored with zookeeper, as in the JVM.  Raises ModeRefused for another storage.
    """
    if storage == "zookeeper":
        return "zookeeper"
    if storage == "kafka":
        return "kafka" if dual is False else "dual"
    raise ModeRefused(f"offsets.storage={storage}: it is zookeeper or kafka")


def check_step(before: Mode, after: Mode) -> None:
    """Raise ModeRefused if a member, or the group, may not go from one mode to another in one bounce."""
    if before != after and (before, after) not in STEPS:
        raise ModeRefused(
            f"{before} -> {after} in one bounce is refused: {after} would begin at what it held when it was last "
            f"written, if ever; go to dual first (offsets.storage=kafka, dual.commit.enabled=true), let every member "
            "commit, then take the next step"
        )


def check_beside(mode: Mode, others: Mapping[str, Mode]) -> None:
    """Raise ModeRefused, naming a member, if a member of this mode may not run together with the others (member id ->
    mode)."""
    for member, other in sorted(others.items()):
        if {mode, other} == {"zookeeper", "kafka"}:
            raise ModeRefused(
                f"a member that keeps offsets in {mode} alone beside {member}, which keeps them in {other} alone, is "
                "refused: neither sees what the other committed; take that one to dual first"
            )


def behind(mode: Mode, kafka: Committed, zookeeper: Committed) -> str | None:
    """Return why a partition may not start in this mode (the store that it reads lacks what the other has), or None."""
    if mode == "dual":
        return None
    alone, other = (kafka, zookeeper) if mode == "kafka" else (zookeeper, kafka)
    there = "ZooKeeper" if mode == "kafka" else "Kafka"
    here = "Kafka" if mode == "kafka" else "ZooKeeper"
    if isinstance(alone, Unknown):
        return f"{here} cannot be read: {alone.reason}"
    if isinstance(other, Unknown):
        return f"{there} cannot be read: {other.reason}"
    if not isinstance(other, int):
        return None  # none, or an offset of an earlier topic: there is nothing to lose
    if not isinstance(alone, int) or alone < other:
        held = alone if isinstance(alone, int) else "nothing"
        return f"{there} has {other} and {here} {held}: what {there} has would be lost"
    return None


# nodes ---------------------------------------------------------------------------------------------------------------


def modes_path(group: str) -> str:
    """Return the folder of the mode nodes."""
    return f"{CONSUMERS}/{group}/modes"


def mode_path(group: str, consumer_id: str) -> str:
    return f"{modes_path(group)}/{consumer_id}"


def mode_text(member: MemberMode) -> str:
    """Return the text of a mode node; numbers are text, as in the JVM's nodes."""
    document: dict[str, object] = {"version": VERSION, "mode": member.mode}
    for name, commit in (("zookeeper", member.zookeeper), ("kafka", member.kafka)):
        if commit is not None:
            document[name] = {
                "committed_at_ms": str(commit.committed_at_ms),
                "partitions": str(commit.partitions),
            }
    return json.dumps(document, separators=(",", ":"))


def read_mode(text: str | bytes, where: str = "mode node") -> MemberMode:
    """Return the mode in the text of a mode node.  Unknown fields are ignored.  Raises ModeUnreadable."""
    try:
        document = json_value(text)
    except ValueError as why:
        raise ModeUnreadable(f"{where}: not JSON ({why})") from None
    if not isinstance(document, dict):
        raise ModeUnreadable(f"{where}: {text!r} is not a JSON object")
    mode = document.get("mode")
    if document.get("version") != VERSION or mode not in MODES:
        raise ModeUnreadable(f"{where}: version {document.get('version')!r} and mode {mode!r} are not known")
    stores = {name: _commit(document.get(name), where) for name in ("zookeeper", "kafka")}
    return MemberMode(mode, stores["zookeeper"], stores["kafka"])


def _commit(row: object, where: str) -> StoreCommit | None:
    if row is None:
        return None
    if not isinstance(row, dict):
        raise ModeUnreadable(f"{where}: {row!r} is not a commit")
    numbers = [row.get(name) for name in ("committed_at_ms", "partitions")]
    found = [decimal_int(text) for text in numbers if isinstance(text, str)]
    known = [number for number in found if number is not None]
    if len(known) < len(numbers):
        raise ModeUnreadable(f"{where}: {row!r} is not a commit: committed_at_ms and partitions are numbers as text")
    return StoreCommit(*known)
