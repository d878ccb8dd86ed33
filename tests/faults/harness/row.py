"""Row of the fault matrix: a fault under load, judged against its acceptance figures.

    @row("F3", "kill -9 of the only daemon, restart at once", Accept(duplicates=d1(), recovery_s=13), short=True)
    def test_f03_kill_9_of_the_only_daemon(run: Run) -> None:
        with run.fault(run.daemons[0]) as fault:
            run.daemons[0].kill()
            fault.window()
            run.daemons[0].start()

The decorated function gets a Run whose daemons mirror under load.  When it returns, the load ends, everything has to be
committed, the daemons have to stop with 0, both logs are read, and all oracles judge.  Always demanded: nothing lost,
foreign, damaged or out of order, no unsafe commit, no commit that goes back, duplicates only in windows.

FAULT_SEEDS=5   seeds of each row (1)      FAULT_RATE=600   messages a second
FAULT_SLACK=3   factor of time bounds (1), for a machine that is busy with other things
FAULT_REPORT    file that gets a line of JSON for each run
"""

from __future__ import annotations

import itertools
import os
import random
import re
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import NoNodeError

from kafkawire.model import TopicPartition
from localkafka.errors import LocalKafkaError
from localkafka.waiting import wait_until
from tests.faults import report
from tests.faults.harness import oracles
from tests.faults.harness.clusters import Renewed, Sites
from tests.faults.harness.daemons import COMMIT_S, SESSION_S, Daemon, Options
from tests.faults.harness.load import Traffic
from tests.faults.harness.oracles import Verdict, Window
from tests.faults.harness.reader import Log, read_log, write_log
from tests.faults.harness.samples import Sampler

SEEDS = int(os.environ.get("FAULT_SEEDS", "1"))
RATE = float(os.environ.get("FAULT_RATE", "600"))
SLACK = float(os.environ.get("FAULT_SLACK", "1"))
UNACKED = 1000  # W of the bounds: messages of one partition that are sent and not acknowledged
MEMORY = 64 << 20
MOVED = re.compile(r"event=(?:owned|released) ")  # a round that finds all as it was moves nothing
STEADY_S, CAUGHT_UP_S = 60.0, 90.0

Bound = Callable[["Run"], int]


def d1(share: float = 1.0, times: int = 1, partitions: int = 0) -> Bound:
    """The crash duplicate bound R·(C + 0.5 s)·share + P·W, `times` over, and P·W more for so many partitions."""

    def bound(run: Run) -> int:
        crash = run.rate * (COMMIT_S + 0.5) * share + len(run.tps) * share * UNACKED
        return int(times * crash + partitions * UNACKED)

    return bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Accept:
    """Acceptance figures of a row.

    duplicates    messages that may come twice: a number, or d1(...)
    recovery_s    from the fault (Fault.recovers_from) to the first produce request for each affected partition
    rebalances    how often daemons got or gave up partitions, from the first fault to the story's end; None: not judged
    pause_s       longest pause of partitions that the fault does not affect, from fault to recovery; None: not judged
    overlap_s     how long two members may produce for one partition
    exact         the duplicates are exactly what was not committed: each window is sent again as a whole
    grown_bytes   growth of one daemon's memory since the first fault
    """

    duplicates: int | Bound = 0
    recovery_s: float | None = None
    rebalances: int | None = None
    pause_s: float | None = None
    overlap_s: float = 0.0
    exact: bool = False
    grown_bytes: int = MEMORY


@dataclass(slots=True)
class Fault:
    """A fault of a run.  since, until: when it began and ended; affected: partitions whose recovery counts.

    owned           partitions that its victims produced for
    recovers_from   the time from which recovery counts: the begin of the fault, unless its story says otherwise
    dead            connections whose produce requests are no recovery
    """

    run: Run
    since: float
    affected: tuple[TopicPartition, ...]
    owned: tuple[TopicPartition, ...]
    dead: frozenset[int]
    recovers_from: float
    until: float = 0.0
    marks: dict[str, int] = field(default_factory=dict)

    def window(self) -> None:
        """Allow duplicates from what is committed now to what the target holds once nothing of the owner arrives any
        more: to be called when it does not commit any more and nobody has taken over yet."""
        self.run.window(settled=self.owned)

    def over(self) -> None:
        """Recovery counts from now on: before, no daemon could work."""
        self.recovers_from = time.monotonic()


class Run:
    """A run of a row: its topics, daemons, traffic and samples.

    rng      randomness of this seed            tps         all partitions
    sites    both clusters                      daemons     in order of their names, a first
    """

    def __init__(self, sites: Sites, folder: Path, *, row: Row, seed: int) -> None:
        self.sites, self.folder, self.row, self.seed = sites, folder, row, seed
        self.rng = random.Random(f"{row.number} {seed}")
        self.rate = row.rate or RATE
        tag = uuid.uuid4().hex[:8]
        self.group = f"{row.number.lower()}-{tag}"
        self.topics = {f"{row.number.lower()}-{name}-{tag}": row.partitions for name in "xyzuvw"[: row.topics]}
        self.tps = tuple(TopicPartition(topic, p) for topic, count in self.topics.items() for p in range(count))
        self.faults: list[Fault] = []
        self.windows: list[Window] = []
        self.excused: set[tuple[TopicPartition, int]] = set()  # source offsets that are not to arrive
        self.figures: dict[str, tuple[float, float | None]] = {}
        self.failures: list[str] = []
        self.logs: tuple[Log, Log] | None = None
        self.moved = 0  # rebalances, once the story is at its end
        self._names = iter("abcdefgh")
        self._closing = ExitStack()
        sites.wire.forget()
        self.daemons: list[Daemon] = []
        self.sampler = Sampler(sites, self.group, self.topics, self._pids)
        self._closing.callback(self.sampler.close)
        self.traffic = Traffic(sites.source.cluster, self.topics, run=tag, seed=seed, rate=self.rate)
        self._closing.callback(self.traffic.close)

    # ---- what a story uses ------------------------------------------------------------------------------------------

    def daemon(self, options: Options | None = None, env: Mapping[str, str] | None = None, **more: Any) -> Daemon:
        """One more daemon of the group; not started."""
        merged = {
            section: {**self.row.options.get(section, {}), **(options or {}).get(section, {})}
            for section in ("source", "target", "mirror")
        }
        made = Daemon(
            self.folder,
            f"{self.row.number.lower()}-{next(self._names)}",
            self.sites,
            group=self.group,
            whitelist="|".join(self.topics),
            options=merged,
            env=env,
            **more,
        )
        self.daemons.append(made)
        self._closing.callback(made.close)
        return made

    @contextmanager
    def fault(self, *victims: Daemon, affected: Iterable[TopicPartition] | None = None) -> Iterator[Fault]:
        """A fault happens in the block.  affected: by default the partitions of the victims, or all without victims."""
        names = {victim.name for victim in victims}
        owned = tuple(tp for tp, name in self.producers().items() if name in names)
        if affected is None:
            affected = owned if victims else self.tps
        dead = frozenset(each.by.number for each in self.sites.wire.produced if each.by.name in names)
        now = time.monotonic()
        fault = Fault(self, now, tuple(affected), owned, dead, now)
        fault.marks = {daemon.name: len(daemon.said()) for daemon in self.daemons}
        self.faults.append(fault)
        yield fault
        fault.until = time.monotonic()

    def window(
        self,
        *,
        committed: Mapping[TopicPartition, int] | None = None,
        grace_s: float = 0.3,
        settled: Iterable[TopicPartition] = (),
    ) -> None:
        """Allow duplicates from `committed` (what is committed now) to what the target holds grace_s later, or later
        still: until these partitions have not grown for that time, because a busy broker takes seconds to write what a
        socket still held.  Not longer than a third of a session, or somebody takes over meanwhile."""
        read = dict(self.sampler.committed() if committed is None else committed)
        latest = time.monotonic() + SESSION_S / 3
        before: Mapping[TopicPartition, int] | None = None
        while True:
            time.sleep(grace_s)
            ends = self.sampler.ends(self.sites.target)
            grown = before is None or any(ends.get(tp) != before.get(tp) for tp in settled)
            if not settled or not grown or time.monotonic() > latest:
                break
            before = ends
        self.windows.append(Window(read, ends))

    def producers(self) -> dict[TopicPartition, str]:
        """Who produced last for each partition."""
        return {tp: each.by.name for each in self.sites.wire.produced for tp in each.partitions}

    def produced_since(self, at: float) -> set[TopicPartition]:
        """Partitions that something was produced for since then."""
        return {tp for each in self.sites.wire.produced if each.at > at for tp in each.partitions}

    def producers_since(self, at: float) -> set[str]:
        """Who has produced since then."""
        return {each.by.name for each in self.sites.wire.produced if each.at > at}

    def session_of(self, daemon: Daemon) -> tuple[int, bytes]:
        """Id and password of the ZooKeeper session of a daemon.  A client sends them when it connects again, so its
        connection is reset; the session goes on."""
        sessions = self.sites.wire.sessions
        sessions.pop(daemon.name, None)
        for proxy in daemon.zookeeper_proxies:
            proxy.reset()
        self.wait_for(lambda: daemon.name in sessions, f"{daemon.name} to connect again")
        return sessions[daemon.name]

    def members(self) -> list[str]:
        """The registered members of the group."""
        zk = self.sites.source.cluster.registry().zk
        zk.sync("/")  # it may be connected to another server than they are
        return list(zk.get_children(f"/consumers/{self.group}/ids"))

    def owners(self) -> dict[TopicPartition, str]:
        """The owner nodes in ZooKeeper: partition -> thread id."""
        zk, found = self.sites.source.cluster.registry().zk, {}
        zk.sync("/")
        for tp in self.tps:
            path = f"/consumers/{self.group}/owners/{tp.topic}/{tp.partition}"
            with suppress(NoNodeError):  # nobody's, or between two owners
                found[tp] = zk.get(path)[0].decode()
        return found

    def wait_flowing(
        self,
        timeout_s: float = STEADY_S,
        *,
        since: float | None = None,
        of: Iterable[TopicPartition] | None = None,
    ) -> None:
        """Wait until something was produced for each of these partitions (the affected ones of the newest fault, or
        all) since then (the time from which its recovery counts)."""
        fault = self.faults[-1] if self.faults else None
        begin = since if since is not None else (fault.recovers_from if fault else 0.0)
        wanted = list(of) if of is not None else fault.affected if fault else self.tps
        dead = fault.dead if fault else frozenset()

        def missing() -> list[TopicPartition]:
            found = oracles.recovery_s(list(self.sites.wire.produced), begin, wanted, not_by=dead)
            return [tp for tp, seconds in found.items() if seconds is None]

        self.wait_for(lambda: not missing(), lambda: f"traffic of {', '.join(map(str, missing()))}", timeout_s)

    def wait_steady(self) -> None:
        """Wait until every partition flows and has been committed, and each daemon has a share."""
        self.wait_flowing()
        self.wait_for(lambda: len({*self.producers().values()}) == len(self.daemons), "each daemon to have a share")
        self.wait_for(self._committing, "commits of all partitions")

    def wait_caught_up(self, timeout_s: float = CAUGHT_UP_S) -> None:
        """Wait until less than two seconds of traffic are not committed."""
        begin = time.monotonic()

        def caught() -> bool:
            return oracles.catch_up_s(self.sampler.samples[-5:], begin, 2 * self.rate) is not None

        self.wait_for(caught, "the daemons to catch up", timeout_s)

    def wait_for(self, check: Callable[[], bool], what: str | Callable[[], str], timeout_s: float = 60) -> None:
        """Wait for a condition; the error shows the ends of the daemons' logs."""

        def sentence() -> str:
            logs = "".join(f"\n--- {daemon.name}\n{daemon.said()[-3000:]}" for daemon in self.daemons)
            return f"{what if isinstance(what, str) else what()}; the daemons say{logs}"

        wait_until(check, timeout_s, sentence, every_s=0.1)

    def pass_time(self, seconds: float) -> None:
        """Let traffic flow for a while; the fault itself, or the time before it."""
        time.sleep(seconds)

    def figure(self, name: str, value: float, at_most: float | None = None) -> None:
        """A figure of the row's own, with its bound; the largest of several is kept."""
        if name not in self.figures or value > self.figures[name][0]:
            self.figures[name] = (value, at_most)

    def rebalances(self) -> int:
        """How often a daemon got or gave up partitions since the first fault."""
        if not self.faults:
            return 0
        marks = self.faults[0].marks
        return sum(len(MOVED.findall(daemon.said()[marks.get(daemon.name, 0) :])) for daemon in self.daemons)

    # ---- from begin to end ------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Topics, traffic, daemons; where the row has some, until every partition flows and has been committed."""
        for side in self.sites.sides:
            for topic, count in self.topics.items():
                side.cluster.create_topic(topic, count, self.row.replication, config=self.row.topic_config)
        for _ in range(self.row.daemons):
            self.daemon().start()
        self.traffic.start()
        self.sampler.start()
        if self.daemons:
            self.wait_steady()

    def _committing(self) -> bool:
        samples = [sample.committed for sample in self.sampler.samples[-40:] if sample.committed]
        return len(samples) > 5 and all(samples[-1].get(tp, 0) > 0 for tp in self.tps)

    def finish(self) -> None:
        """The end of the load: everything is committed, the daemons stop."""
        self.moved = self.rebalances()
        self.traffic.stop()
        ends: dict[TopicPartition, int] = {}

        def all_committed() -> bool:
            sample = self.sampler.now()
            ends.update(sample.source_ends)
            committed = sample.committed or {}
            excused = {tp for tp, _ in self.excused}
            return all(committed.get(tp, 0) >= ends.get(tp, 1) for tp in self.tps if tp not in excused)

        self.wait_for(all_committed, "everything to be committed", CAUGHT_UP_S)
        for daemon in self.daemons:
            if daemon.running:
                code, seconds = daemon.stop()
                self.figure("stop s", round(seconds, 1), 10 * SLACK)
                if code != 0:
                    self.failures.append(f"{daemon.name} stopped with {code}")

    def judge(self) -> Verdict:
        """Reads both logs and asks every oracle."""
        source, target = (read_log(side.cluster, list(self.topics)) for side in self.sites.sides)
        self.logs = source, target
        accept, wire, samples = self.row.accept, self.sites.wire, self.sampler.samples
        first = self.faults[0].since if self.faults else time.monotonic()
        lost = [place for place in oracles.lost(source, target) if place not in self.excused]
        repeated = oracles.repeated(source, target, self.windows)
        bound = accept.duplicates if isinstance(accept.duplicates, int) else accept.duplicates(self)
        grown, descriptors = oracles.growth(samples, first)
        recovery, caught = self._recovery(), self._caught_up()
        unsafe, back = oracles.unsafe_commits(source, target, samples), oracles.decreases(samples)
        if self.excused:  # committed past what was left out on purpose
            unsafe = []
        overlap = oracles.overlap_s(wire.produced, wire.claimed)
        phantoms, damaged = oracles.phantoms(source, target), oracles.damaged(target)
        order = oracles.inversions(source, target)
        demands: list[tuple[str, bool, object]] = [
            ("lost", not lost, lost[: oracles.SHOWN]),
            ("phantoms", not phantoms, phantoms[: oracles.SHOWN]),
            ("damaged", not damaged, damaged[: oracles.SHOWN]),
            (
                "duplicates above the bound",
                repeated.count <= bound,
                f"{repeated.count} > {bound}: {repeated.ranges[:9]}",
            ),
            ("duplicates outside the window", not repeated.outside, repeated.outside[: oracles.SHOWN]),
            ("out of order", not order, order[: oracles.SHOWN]),
            ("unsafe commits", not unsafe, unsafe[:5]),
            ("commits that go back", not back, back[:5]),
            ("no samples", len(samples) > 10, len(samples)),
            ("requests that could not be read", not wire.unread, wire.unread[:3]),
            ("two producers of a partition", overlap <= accept.overlap_s, f"{overlap:.2f} s"),
            ("rebalances", accept.rebalances is None or self.moved <= accept.rebalances, self.moved),
            ("memory", grown <= accept.grown_bytes, f"{grown / 1e6:.0f} MB"),
        ]
        if accept.exact:
            foretold = sum(oracles.predicted(source, target, window) for window in self.windows)
            demands.append(("duplicates foretold", repeated.count == foretold, f"{repeated.count}, not {foretold}"))
        if accept.recovery_s is not None and self.faults:
            slow = recovery is None or recovery > accept.recovery_s * SLACK
            demands.append(("late recovery", not slow, f"{recovery} s"))
        if accept.pause_s is not None:
            pause = self._pause()
            self.figure("pause of others s", round(pause, 2), accept.pause_s * SLACK)
        for name, (value, most) in self.figures.items():
            demands.append((name, most is None or value <= most, f"{value:g} > {most}"))
        self.failures += [f"{name}: {shown}" for name, held, shown in demands if not held]
        return Verdict(
            row=self.row.number,
            title=self.row.title,
            seed=self.seed,
            messages=sum(map(len, source.values())),
            lost=len(lost),
            phantoms=len(phantoms),
            damaged=len(damaged),
            duplicates=repeated.count,
            duplicates_bound=bound,
            outside=len(repeated.outside),
            inversions=len(order),
            unsafe_commits=len(unsafe),
            decreases=len(back),
            samples=len(samples),
            overlap_s=overlap,
            recovery_s=recovery,
            recovery_bound_s=accept.recovery_s,
            catch_up_s=caught,
            rebalances=self.moved,
            grown_bytes=grown,
            grown_descriptors=descriptors,
            figures=self.figures,
            failures=tuple(self.failures),
        )

    def _recovery(self) -> float | None:
        """The longest over all faults and their partitions; None where one never came back, or none is hit."""
        longest: list[float] = []
        for fault in self.faults:
            times = oracles.recovery_s(self.sites.wire.produced, fault.recovers_from, fault.affected, not_by=fault.dead)
            if any(seconds is None for seconds in times.values()):
                return None
            longest += [seconds for seconds in times.values() if seconds is not None]
        return max(longest, default=None)

    def _caught_up(self) -> float | None:
        found = [oracles.catch_up_s(self.sampler.samples, f.recovers_from, 2 * self.rate) for f in self.faults]
        return None if not found or None in found else max(f for f in found if f is not None)

    def _pause(self) -> float:
        pauses = [0.0]
        for before, fault in itertools.zip_longest(self.faults[1:], self.faults):
            others = [tp for tp in self.tps if tp not in fault.affected]
            until = before.since if before else fault.until
            pauses.append(oracles.longest_pause_s(self.sites.wire.produced, fault.since, until, others))
        return max(pauses)

    def keep(self, error: BaseException | None) -> Path:
        """What a failed run leaves: seed, wire log, logs of clusters and daemons, both logs read; the folder."""
        folder = Path(tempfile.mkdtemp(prefix=f"fault-{self.row.number}-seed{self.seed}-"))
        text = f"{self.row.number} {self.row.title}\nseed {self.seed}\ngroup {self.group}\n"
        text += "\n".join(self.failures) + f"\n{error!r}\nwindows {self.windows}\n"
        text += "".join(f"fault {each.since} to {each.until}: {each.affected}\n" for each in self.faults)
        (folder / "run.txt").write_text(text, encoding="utf-8")
        self.sites.wire.write(folder / "wire.jsonl")
        with (folder / "samples.txt").open("w", encoding="utf-8") as lines:
            lines.writelines(f"{sample}\n" for sample in self.sampler.samples)
        for daemon in self.daemons:
            (folder / daemon.log.name).write_text(daemon.said(), encoding="utf-8")
        for side in self.sites.sides:
            for log in side.logs():
                (folder / f"{side.name}-{log.parent.name}.log").write_bytes(log.read_bytes()[-2_000_000:])
        try:
            logs = getattr(self, "logs", None) or [
                read_log(side.cluster, list(self.topics)) for side in self.sites.sides
            ]
            for side, log in zip(self.sites.sides, logs, strict=True):
                write_log(folder / f"{side.name}.jsonl", log)
        except Exception as cannot:
            (folder / "logs-unread.txt").write_text(str(cannot), encoding="utf-8")
        return folder

    def close(self) -> None:
        self._closing.close()

    def _pids(self) -> dict[str, int]:
        return {daemon.name: daemon.pid for daemon in self.daemons if daemon.running}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What @row is given."""

    number: str
    title: str
    accept: Accept
    daemons: int = 1
    topics: int = 3
    partitions: int = 4
    replication: int = 3
    rate: float | None = None
    options: Options = field(default_factory=dict)
    # Set at the topics: brokers of 0.8.2.2 take min.insync.replicas as their own setting, and do not heed it.
    topic_config: Mapping[str, object] = field(default_factory=lambda: {"min.insync.replicas": 2})


ROWS: dict[str, Row] = {}
Story = Callable[[Run], None]


def row(number: str, title: str, accept: Accept, *, short: bool = False, **setup: Any) -> Callable[[Story], Any]:
    """A test of a row; short: `make test` runs it, too.  setup: fields of Row."""
    wanted = Row(number=number, title=title, accept=accept, **setup)

    def decorated(story: Story) -> Any:
        ROWS[story.__name__] = wanted

        def test(renewed: Renewed, seed: int, tmp_path: Path) -> None:
            perform(wanted, story, renewed, seed, tmp_path)

        test.__name__, test.__qualname__ = story.__name__, story.__name__
        test.__doc__, test.__module__ = story.__doc__ or title, story.__module__
        for mark in (pytest.mark.real, pytest.mark.faults, *([pytest.mark.short] if short else [])):
            test = mark(test)
        return pytest.mark.parametrize("seed", range(1, SEEDS + 1))(test)

    return decorated


def perform(wanted: Row, story: Story, renewed: Renewed, seed: int, folder: Path) -> Verdict:
    """One run, judged.  Raises AssertionError that names the folder with all that the run left."""
    run = Run(renewed.sites(), folder, row=wanted, seed=seed)
    failed: BaseException | None = None
    kept: Path | None = None
    try:
        run.begin()
        story(run)
        run.finish()
        verdict = run.judge()
        print(verdict.line())
        report.note(verdict)
        if verdict.failures:
            kept = run.keep(None)
    except BaseException as error:
        failed, kept = error, run.keep(error)
        raise AssertionError(f"{wanted.number} (seed {seed}): {error}; all of it is in {kept}") from error
    finally:
        try:
            run.close()
        finally:
            if kept is not None:
                try:
                    run.sites.heal()
                except LocalKafkaError:
                    renewed.replace()
    assert failed is None
    assert not verdict.failures, f"{'; '.join(verdict.failures)}\n{verdict.line()}\nall of it is in {kept}"
    return verdict
