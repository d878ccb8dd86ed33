"""The promises of a mirror, watched over at each commit, again and again while it runs, and at the end.

commit safety    an offset that is committed has everything before it, that the source shows, in the target
who commits owns an offset is written to ZooKeeper by the session that has the owner node
nothing lost     in the end each message that the source shows is in the target; what retention took before it was
                 fetched is counted as a gap
in order         the first copies of a partition's messages come in the order of the source; where keys choose the
                 partition, those of each key
in place         a message is in the partition of its number, or its key
once             a message comes twice only where something happened that may have it copied again, and not more often
                 than such things happened; with exactly-once never
translated       a group that is moved by the offset map reads every message that it had not read
memory           what is fetched and not done stays within queued.max.bytes and a fetch
reasons          a partition that makes no progress for REASON_S has a state or a reason that says so
neighbours       where things happen to one topic alone, the others are copied within NEIGHBOUR_S
in time          after the last fault all is copied and committed within QUIET_S
time goes on     no task is called again and again without waiting for anything
nobody dies      no task and no daemon ends unasked; who is asked to, ends in order within STOP_S
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from mirrormaker import exits
from mirrormaker.report import MirrorReport
from tests.simulation.brokers import SimCluster
from tests.simulation.brokers.replica import Tp
from tests.simulation.daemon import Mirror
from tests.simulation.mirrors.copies import Reading, Readings, Row
from tests.simulation.mirrors.handlers import kind_of
from tests.simulation.mirrors.schedule import DISRUPTING, ORDERLY, REBALANCING, TO_DAEMONS, MirrorSchedule
from tests.simulation.mirrors.setup import (
    COORDINATOR,
    DUAL,
    EXACTLY_ONCE,
    NUMBERED,
    PLAIN,
    TARGET_END,
    TIGHT_BYTES,
    ZOOKEEPER,
)
from tests.simulation.mirrorworld import MirrorWorld, Observer

REASON_S = 25.0  # what a request may take, and a second one
NEIGHBOUR_S = 10.0
COMMIT_S = 5.0  # a commit that takes longer is given up, and what it writes may come behind that of the next owner
SETTLED_S = 15.0  # from the start to the first messages
FETCH_BYTES = 100_000  # a fetch that had to grow, and what it is opened to

Stored = tuple[str, str, Tp]  # source, store, partition


class MirrorPromises(Observer):
    """broken: what was broken first; None: nothing.  twice: copies beyond the first, in the end.  lost: names of
    messages that need not come, each with why."""

    def __init__(self, given: MirrorSchedule) -> None:
        self.broken: str | None = None
        self.twice = 0
        self.committed: dict[Stored, int] = {}
        self.lost: dict[bytes, str] = {}
        self.stopping: set[str] = set()  # daemons that were asked to end
        self._former: dict[tuple[str, Tp], list[Row]] = {}  # of deleted topics
        self._given = given
        self._disrupted = sum(event.what in DISRUPTING for event in given.events)
        if given.setup.by_key:  # what is stored of a set that is refused elsewhere is sent again for each half of it
            self._disrupted += sum(event.what == "large" for event in given.events)
        self._exact = given.setup.mode == EXACTLY_ONCE
        moves = TO_DAEMONS | REBALANCING
        calm = len(given.setup.daemons) == 1 and not any(event.what in moves for event in given.events)
        calm = calm and all(source.storage != COORDINATOR for source in given.setup.sources)  # it ends sessions, too
        slow = any(event.what == "disk" and event.b > COMMIT_S for event in given.events)
        # Of two stores the second is written late where the first one does not answer.
        self._commits_late = {each.name for each in given.setup.sources if slow or each.storage == DUAL}
        mode = given.setup.mode
        orderly = all(event.what in ORDERLY or event.what not in DISRUPTING for event in given.events)
        refused = any(event.what == "large" for event in given.events)  # of a set, and all of it is sent again
        self._once = mode in (EXACTLY_ONCE, TARGET_END) or (not refused and (orderly or (mode == NUMBERED and calm)))
        self._moving: dict[tuple[str, str, str, object], tuple[object, float]] = {}
        self._world: MirrorWorld
        self._sources: dict[str, Readings]
        self._target: Readings

    def watch(self, sources: dict[str, SimCluster], target: SimCluster) -> None:
        """Watch over these; sources: by name."""
        self._sources = {name: Readings(cluster, "t") for name, cluster in sources.items()}
        self._target = Readings(target, "t")

    def violated(self, promise: str, text: str) -> None:
        """promise: as it is called above."""
        if self.broken is None:
            self.broken = f"{promise}: {self._world.now:.3f} s: {text}"
            self._world.timeline.stopped = True

    def source(self, name: str) -> Readings:
        return self._sources[name]

    @property
    def target(self) -> Readings:
        return self._target

    # while it goes on ---------------------------------------------------------------------------------------------

    def begun(self, world: MirrorWorld) -> None:
        self._world = world

    def failed(self, mirror: Mirror, error: BaseException) -> None:
        self.violated("nobody dies", f"{mirror.name}: {type(error).__name__}: {error}")

    def ended(self, mirror: Mirror, code: int) -> None:
        if mirror.name not in self.stopping:
            self.violated("nobody dies", f"{mirror.name} ends with {code}, and nobody asked")
        elif code not in (exits.CLEAN, exits.TEMPORARY):
            self.violated("nobody dies", f"{mirror.name} was asked to end, and ends with {code}")
        elif code == exits.TEMPORARY and self._given.setup.mode in (PLAIN, NUMBERED):
            self._once = False  # it said that something was not acknowledged in time, and is sent again
            self._disrupted += 1
        self.stopping.discard(mirror.name)

    def wrote(self, path: str, data: bytes | None, session: int, gone: bool) -> None:
        """An offset in ZooKeeper: /consumers/GROUP/offsets/TOPIC/PARTITION."""
        parts = path.split("/")
        if gone or not data or len(parts) != 6 or parts[1] != "consumers" or parts[3] != "offsets":
            return
        source = next(each for each in self._given.setup.sources if each.group == parts[2])
        nodes = self._world.zookeepers[source.zookeeper].nodes
        owner = nodes.get(f"/consumers/{parts[2]}/owners/{parts[4]}/{parts[5]}")
        if owner is None or owner.ephemeralOwner != session:
            whose = "nobody's" if owner is None else f"session {owner.ephemeralOwner}'s"
            who = f"{parts[4]}-{parts[5]}: session {session}"
            self.violated("who commits owns", f"{who} commits {int(data)}, and it is {whose}")
        self.commit(source.name, ZOOKEEPER, (parts[4], int(parts[5])), int(data))

    def look(self) -> None:
        """Read what all clusters show now."""
        for readings in self._sources.values():
            readings.look()
        self._target.look()

    def commit(self, source: str, store: str, tp: Tp, offset: int) -> None:
        """An offset is committed: everything in front of it has to be in the target."""
        where = source, store, tp
        before, self.committed[where] = self.committed.get(where, 0), offset
        if before == offset:
            return
        self.look()
        reading = self._sources[source].of.get(tp)
        if reading is None or reading.cut:
            return
        # A commit that stood on the line to ZooKeeper comes behind the next topic, and is taken back.
        backwards = source in self._commits_late or (source, tp) in self._former
        if offset < before and store == ZOOKEEPER and not backwards:
            self.violated("commit safety", f"{source}/{tp[0]}-{tp[1]}: {offset} is committed after {before}")
        for at, name in reading.rows:
            if at < offset and name not in self.lost and not self._target.has(tp[0], name):
                where = f"{source}/{tp[0]}-{tp[1]}"
                self.violated(
                    "commit safety", f"{where}: {offset} is committed, and {name.decode()} at {at} is not in the target"
                )
                return

    def retained(self, source: str, tp: Tp, begin: int) -> None:
        """Retention has taken what lies before an offset; what is not copied yet need not come any more."""
        self.look()
        reading = self._sources[source].of[tp]
        began = any(where[0] == source and where[2] == tp for where in self.committed)
        copied = self._copied(tp[0])
        for at, name in reading.rows:
            if at < begin and name not in copied:
                counted = began and name not in self.lost  # what a policy leaves out is no gap
                self.lost[name] = "retention, counted" if counted else "retention"

    def deleted(self, source: str, topic: str) -> None:
        """A topic is gone, and what no daemon has fetched of it need not come."""
        copied = self._copied(topic)
        readings = self._sources[source].of
        for tp in [tp for tp in readings if tp[0] == topic]:
            rows = readings.pop(tp).rows
            self._former.setdefault((source, tp), []).extend(rows)
            for _, name in rows:
                if name not in copied:
                    self.lost.setdefault(name, "deleted")

    def created(self, source: str, topic: str) -> None:
        """A topic is created again: what was committed of the former one says nothing about it."""
        for where in [where for where in self.committed if where[0] == source and where[2][0] == topic]:
            del self.committed[where]

    # what the mirror says of itself -------------------------------------------------------------------------------

    def inspect(self, mirror: Mirror, report: MirrorReport) -> None:
        """A report as `mirrormaker status` shows it."""
        now = self._world.now
        for source in report.sources:
            most = (TIGHT_BYTES if self._given.setup.tight else source.max_bytes) + FETCH_BYTES
            if source.held_bytes > most:
                held = f"{source.held_bytes:,} bytes of {source.name}"
                self.violated("memory", f"{mirror.name} holds {held}, and may {most:,}")
        seen = set()
        for row in report.partitions:
            key = mirror.name, row.source, row.topic, row.partition
            seen.add(key)
            explained = row.reason or row.state != "reading" or not row.lag
            progress, since = self._moving.get(key, (None, now))
            if explained or progress != row.done:
                self._moving[key] = row.done, now
            elif now - since > REASON_S:
                what = f"{row.source}/{row.topic}-{row.partition}"
                at = f"is at {row.done} of {row.end} for {now - since:.1f} s"
                self.violated("reasons", f"{mirror.name} says that it reads {what}, and {at}")
        for key in [key for key in self._moving if key[0] == mirror.name and key not in seen]:
            del self._moving[key]

    def unwatched(self, mirror: Mirror) -> None:
        """It is frozen, or gone: what it said before says nothing about now."""
        for key in [key for key in self._moving if key[0] == mirror.name]:
            del self._moving[key]

    def neighbours(self) -> None:
        """Where one topic alone is in trouble, the others flow."""
        troubled = self._given.troubled
        now = self._world.timeline.now
        settled = all(each.alive and now - each.started_at > SETTLED_S for each in self._world.mirrors.values())
        if not troubled or not settled:
            return
        self.look()
        until = now - NEIGHBOUR_S
        for source, tp, reading in self._all():
            if f"{source}/{tp[0]}" in troubled or reading.cut:
                continue
            for (at, name), since in zip(reading.rows, reading.since, strict=True):
                if since < until and not self._target.has(tp[0], name):
                    who = ", ".join(sorted(troubled))
                    late = f"is not copied after {NEIGHBOUR_S:g} s"
                    self.violated("neighbours", f"{name.decode()} at {at} {late}; things happen to {who} alone")
                    return

    # at the end ---------------------------------------------------------------------------------------------------

    def _all(self) -> Iterator[tuple[str, Tp, Reading]]:
        for source, readings in self._sources.items():
            for tp, reading in readings.of.items():
                yield source, tp, reading

    def missing(self) -> str | None:
        """What is not copied or not committed yet."""
        self.look()
        copied: dict[str, Collection[bytes]] = {}
        for source, tp, reading in self._all():
            there = copied.get(tp[0])
            if there is None:
                there = copied[tp[0]] = self._copied(tp[0])
            for at, name in reading.rows:
                if not reading.cut and name not in there and name not in self.lost:
                    return f"{name.decode()} at {at} is not in the target"
            if reading.rows:
                committed, end = self._committed(source, tp), reading.rows[-1][0] + 1
                if committed < end:
                    return f"{source}/{tp[0]}-{tp[1]} is copied, and {committed} is committed, not {end}"
        return None

    def _committed(self, source: str, tp: Tp) -> int:
        """In all stores of the group."""
        storage = next(each.storage for each in self._given.setup.sources if each.name == source)
        stores = (storage,) if storage in (ZOOKEEPER, COORDINATOR) else (ZOOKEEPER, COORDINATOR)
        return min(self.committed.get((source, store, tp), 0) for store in stores)

    def _copied(self, topic: str) -> Collection[bytes]:
        """Names that a reader of a target topic gets."""
        found: set[bytes] = set()
        for tp, target in self._target.of.items():
            if tp[0] == topic:
                found.update({name for _, name in target.committed_rows()} if self._exact else target.names)
        return found

    def gaps(self, reported: int) -> None:
        """What retention took and no daemon got, against what they counted.  reported: by all that lived from the
        begin on."""
        copied = {tp[0]: self._copied(tp[0]) for _, tp, _ in self._all()}
        lost = [name for name, why in self.lost.items() if why == "retention, counted"]
        missing = [name for name in lost if name not in copied[name.decode().split("/")[1]]]
        if len(missing) > reported:
            what = f"{len(missing)} messages are missing behind retention"
            self.violated("nothing lost", f"{what}, and {reported} are counted as gaps")

    def judge(self) -> None:
        """All is copied: how often, where, and in which order."""
        place = {
            name: (source, tp, at)
            for (source, tp), rows in self._former.items()
            for at, (_, name) in enumerate(rows, -len(rows))
        } | {name: (source, tp, at) for source, tp, reading in self._all() for at, name in reading.rows}
        cut = {(source, tp) for source, tp, reading in self._all() if reading.cut}
        setup = self._given.setup
        copies: Counter[bytes] = Counter()
        last: dict[tuple[str, Tp, Tp, int], int] = {}
        for target, reading in self._target.of.items():
            where = f"{target[0]}-{target[1]}"
            for _, name in reading.committed_rows() if self._exact else reading.rows:
                copies[name] += 1
                source, topic, number = name.decode().partition("#")[0].split("/")
                tp = topic, int(number)
                if (source, tp) in cut:
                    continue
                if name not in place and (source, tp) in self._former:
                    continue  # shown to readers right before it was deleted
                if name not in place:
                    self.violated("in place", f"{name.decode()} is in the target's {where}, and not in the source")
                    return
                if topic != target[0] or (not setup.by_key and tp != target):
                    self.violated("in place", f"{name.decode()} is in the target's {where}")
                if copies[name] == 1:
                    at, line = place[name][2], (source, tp, target, kind_of(name) if setup.by_key else 0)
                    if at < last.get(line, at):
                        later = f"a later message of {source}/{tp[0]}-{tp[1]}"
                        self.violated("in order", f"{name.decode()} comes behind {later}")
                    last[line] = max(last.get(line, at), at)
        self.twice += sum(count - 1 for count in copies.values())
        count, often = max(((count, name) for name, count in copies.items()), default=(0, b""))
        if count > (1 if self._once else 1 + self._disrupted):
            self.violated("once", f"{often.decode()} comes {count} times, and {self._disrupted} things happened")
