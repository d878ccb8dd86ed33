"""The promises of a group, watched over at each event of a simulation, and at its end.

one producer     nobody sends while another may send of the same partition (a session that ZooKeeper was told to end
                 is allowed for until its lease is over)
who commits owns an offset is written by the session that has the owner node
commit safety    an offset is never beyond what was acknowledged without a gap, and never falls
a fresh start    a partition is read from the offset that is committed when its reading begins
in the end       one owner, one reader of each partition; every message delivered, acknowledged and committed;
                 nodes of the dead are gone
nobody gives up  no task dies, nobody leaves unasked
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from kafkawire.model import TopicPartition
from tests.simulation.partition import Log, Reader
from tests.simulation.process import Timeline
from tests.simulation.zookeeper import SimZookeeper

OFFSETS, OWNERS, IDS = "/consumers/g/offsets/", "/consumers/g/owners/", "/consumers/g/ids"


class Watched(Protocol):
    """A living member.  allowed_until: its session was ended, and it may believe in it for so long."""

    name: str
    reader: Reader
    allowed_until: float

    @property
    def session_id(self) -> int | None: ...

    def subscribes(self, topic: str) -> bool: ...


class Promises:
    """broken: what was broken first, with its moment; None: nothing."""

    def __init__(self, timeline: Timeline, logs: Mapping[TopicPartition, Log]) -> None:
        self.broken: str | None = None
        self.sent_messages = 0
        self.members: dict[str, Watched] = {}
        self.server: SimZookeeper
        self.stored_to: dict[TopicPartition, int] = {}  # without a gap
        self._timeline = timeline
        self._logs = logs
        self._beyond: dict[TopicPartition, set[int]] = {}  # stored behind a gap
        self._committed: dict[TopicPartition, int] = {}

    def violated(self, text: str) -> None:
        if self.broken is None:
            self.broken = text
            self._timeline.stopped = True

    # what partitions do -------------------------------------------------------------------------------------------

    def begun(self, reader: Reader, tp: TopicPartition, position: int) -> None:
        committed = self._committed.get(tp, 0)
        holds = reader.lease.holds(reader.process.moment())
        if holds and position != committed and not self._allowed(reader):
            self.violated(f"{reader.process.name} reads {tp} from {position}, and {committed} is committed")

    def sent(self, reader: Reader, tp: TopicPartition) -> None:
        self.sent_messages += 1
        if self._allowed(reader):
            return
        for other in self.members.values():
            if other.reader is not reader and other.reader.may_send(tp) and not self._allowed(other.reader):
                self.violated(f"{reader.process.name} sends of {tp}, and {other.name} may send of it, too")

    def _allowed(self, reader: Reader) -> bool:
        member = self.members.get(reader.process.name)
        return member is not None and self._timeline.now < member.allowed_until

    def stored(self, tp: TopicPartition, begin: int, end: int) -> None:
        beyond = self._beyond.setdefault(tp, set())
        beyond.update(range(begin, end))
        to = self.stored_to.get(tp, 0)
        while to in beyond:
            beyond.discard(to)
            to += 1
        self.stored_to[tp] = to

    # what ZooKeeper is told ---------------------------------------------------------------------------------------

    def touched(self, path: str, data: bytes | None, session: int, gone: bool) -> None:
        if not path.startswith(OFFSETS) or path.count("/") != 5:
            return
        topic, partition = path.removeprefix(OFFSETS).split("/")
        tp, at = TopicPartition(topic, int(partition)), int(data or b"0")
        owner = self.server.nodes.get(f"{OWNERS}{topic}/{partition}")
        if owner is None or owner.ephemeralOwner != session:
            self.violated(f"session {session} commits {at} of {tp}, whose owner is {owner and owner.ephemeralOwner}")
        if at < self._committed.get(tp, 0):
            self.violated(f"the committed offset of {tp} falls from {self._committed[tp]} to {at}")
        if at > self.stored_to.get(tp, 0):
            self.violated(f"{at} of {tp} is committed, and acknowledged is {self.stored_to.get(tp, 0)}")
        self._committed[tp] = at

    # in the end ---------------------------------------------------------------------------------------------------

    def missing(self) -> str | None:
        """What is not yet as it has to be in the end; None: nothing."""
        there = set(self.server.below(IDS))
        if there != self.members.keys():
            return f"id nodes are {sorted(there)}, and alive are {sorted(self.members)}"
        wanted = {tp for tp in self._logs if any(m.subscribes(tp.topic) for m in self.members.values())}
        owned = self._owned()
        if owned.keys() != wanted:
            return f"owner nodes: {_names(owned)}; wanted: {_names(wanted)}"
        for tp in sorted(wanted):
            readers = [m for m in self.members.values() if m.reader.may_send(tp)]
            if len(readers) != 1 or readers[0].session_id != owned[tp]:
                return f"{tp} is read by {[m.name for m in readers]}, and session {owned[tp]} has its owner node"
            done, committed, end = self.stored_to.get(tp, 0), self._committed.get(tp, 0), self._logs[tp].end
            if not done == committed == end:
                return f"{tp} ends at {end}, is acknowledged to {done} and committed to {committed}"
        return None

    def _owned(self) -> dict[TopicPartition, int]:
        nodes = {path.removeprefix(OWNERS): node for path, node in self.server.nodes.items() if path.startswith(OWNERS)}
        return {
            TopicPartition(path.partition("/")[0], int(path.partition("/")[2])): node.ephemeralOwner
            for path, node in nodes.items()
            if "/" in path
        }


def _names(tps: Iterable[TopicPartition]) -> str:
    return " ".join(map(str, sorted(tps))) or "none"
