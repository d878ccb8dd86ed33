"""The promises of a mirror, watched over at each commit, and at the end.

commit safety    an offset that is committed has everything before it, that the source shows, in the target
nothing lost     in the end each message that the source shows is in the target
in order         the first copies of a partition's messages come in the order of the source
once             a message comes twice only where something happened that may have it copied again, and not more often
                 than such things happened; with exactly-once never
in time          after the last fault all is copied and committed within QUIET_S
nobody dies      no task and no daemon ends unasked; who is asked to, ends in order within STOP_S
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from mirrormaker import exits
from tests.simulation.brokers import SimCluster
from tests.simulation.brokers.replica import Tp
from tests.simulation.daemon import Mirror
from tests.simulation.mirrors.copies import Readings
from tests.simulation.mirrors.schedule import (
    DISRUPTING,
    EXACTLY_ONCE,
    NUMBERED,
    ORDERLY,
    TARGET_END,
    TO_DAEMONS,
    MirrorSchedule,
)
from tests.simulation.mirrorworld import MirrorWorld, Observer

OFFSETS = "/consumers/g/offsets/"


class MirrorPromises(Observer):
    """broken: what was broken first; None: nothing.  twice: copies beyond the first, in the end."""

    def __init__(self, given: MirrorSchedule) -> None:
        self.broken: str | None = None
        self.twice = 0
        self.committed: dict[Tp, int] = {}
        self.stopping: set[str] = set()  # daemons that were asked to end
        self._given = given
        self._disrupted = sum(event.what in DISRUPTING for event in given.events)
        self._exact = given.setup.mode == EXACTLY_ONCE
        calm = len(given.setup.daemons) == 1 and not any(event.what in TO_DAEMONS for event in given.events)
        mode = given.setup.mode
        orderly = all(event.what in ORDERLY or event.what not in DISRUPTING for event in given.events)
        self._once = mode in (EXACTLY_ONCE, TARGET_END) or orderly or (mode == NUMBERED and calm)
        self._world: MirrorWorld
        self._source: Readings
        self._target: Readings

    def watch(self, source: SimCluster, target: SimCluster) -> None:
        self._source, self._target = Readings(source, "t"), Readings(target, "t")

    def violated(self, text: str) -> None:
        if self.broken is None:
            self.broken = f"{self._world.now:.3f} s: {text}"
            self._world.timeline.stopped = True

    # while it goes on ---------------------------------------------------------------------------------------------

    def begun(self, world: MirrorWorld) -> None:
        self._world = world

    def failed(self, mirror: Mirror, error: BaseException) -> None:
        self.violated(f"{mirror.name}: {type(error).__name__}: {error}")

    def ended(self, mirror: Mirror, code: int) -> None:
        if mirror.name not in self.stopping:
            self.violated(f"{mirror.name} ends with {code}, and nobody asked")
        elif code not in (exits.CLEAN, exits.TEMPORARY):
            self.violated(f"{mirror.name} was asked to end, and ends with {code}")
        self.stopping.discard(mirror.name)

    def wrote(self, path: str, data: bytes | None, session: int, gone: bool) -> None:
        if not path.startswith(OFFSETS) or gone or not data:
            return
        topic, _, number = path.removeprefix(OFFSETS).partition("/")
        if not number:
            return
        self.commit((topic, int(number)), int(data))

    def look(self) -> None:
        """Read what both clusters show now."""
        self._source.look()
        self._target.look()

    def commit(self, tp: Tp, offset: int) -> None:
        """An offset is committed: everything in front of it has to be in the target."""
        before, self.committed[tp] = self.committed.get(tp, 0), offset
        self.look()
        source, target = self._source.of.get(tp), self._target.of.get(tp)
        if source is None or source.cut:
            return
        if offset < before:
            self.violated(f"{tp[0]}-{tp[1]}: {offset} is committed after {before}")
        for at, name in source.rows:
            if at < offset and (target is None or not target.has(name)):
                self.violated(
                    f"{tp[0]}-{tp[1]}: {offset} is committed, and {name.decode()} at {at} is not in the target"
                )
                return

    # at the end ---------------------------------------------------------------------------------------------------

    def missing(self) -> str | None:
        """What is not copied or not committed yet."""
        self.look()
        for tp, source in self._source.of.items():
            there = self._copied(tp)
            for at, name in source.rows:
                if not source.cut and name not in there:
                    return f"{name.decode()} at {at} of {tp[0]}-{tp[1]} is not in the target"
            if source.rows and self.committed.get(tp, 0) <= source.rows[-1][0]:
                end = source.rows[-1][0] + 1
                return f"{tp[0]}-{tp[1]} is copied, and {self.committed.get(tp)} is committed, not {end}"
        return None

    def _copied(self, tp: Tp) -> Collection[bytes]:
        """Names that a reader of the target gets."""
        target = self._target.of.get(tp)
        if target is None:
            return ()
        return {name for _, name in target.committed_rows()} if self._exact else target.names

    def judge(self) -> None:
        """All is copied: how often, and in which order."""
        for tp, target in self._target.of.items():
            source = self._source.of.get(tp)
            if source is None or source.cut:
                continue
            rows = target.committed_rows() if self._exact else target.rows
            place = {name: at for at, name in source.rows}
            copies: Counter[bytes] = Counter()
            last = -1
            for _, name in rows:
                copies[name] += 1
                if name not in place:
                    self.violated(f"{name.decode()} is in the target's {tp[0]}-{tp[1]}, and not in the source")
                elif copies[name] == 1:
                    if place[name] < last:
                        self.violated(f"{name.decode()} comes behind a later message of {tp[0]}-{tp[1]}")
                    last = max(last, place[name])
            self.twice += sum(count - 1 for count in copies.values())
            often, count = max(((count, name) for name, count in copies.items()), default=(0, b""))[::-1]
            allowed = 1 if self._once else 1 + self._disrupted
            if isinstance(count, int) and count > allowed:
                self.violated(f"{often!r} comes {count} times, and {self._disrupted} things happened")
