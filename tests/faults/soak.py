"""Soak: two daemons under load, and a random fault every 20 to 60 s, until the time is over or ctrl-C.

    make soak MINUTES=60 SEED=7     what is drawn follows from the seed; each fault is printed with its time

Daemon a is never killed nor restarted: slopes of memory and descriptors are of it.  A minute that passed is
a line: messages, lag, faults, memory.  On the way: commits never go back, no two producers of a partition, everybody
lives, and after each fault every partition flows again in time.  At the end all oracles, over both whole logs.
The report of a soak that failed nothing is added to docs/reliability.md.
"""

from __future__ import annotations

import argparse
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kazoo.exceptions import KazooException

from localkafka.errors import LocalKafkaError
from tests.faults.harness import oracles
from tests.faults.harness.clusters import Side, Sites
from tests.faults.harness.daemons import SESSION_S
from tests.faults.harness.leaders import elect_preferred, wait_in_sync
from tests.faults.harness.network import proxies
from tests.faults.harness.oracles import Sample, Verdict
from tests.faults.harness.row import UNACKED, Accept, Row, Run
from tests.faults.test_zookeeper import expire

GAP_S = (20.0, 60.0)  # from fault to fault
FLOWS_S = 90.0  # until every partition has to flow again behind a fault
SETTLED_S = 15.0  # a busy proxy may note a claim later than what was produced after it
WARM_S = 120.0  # memory of a process is level behind its first two minutes
GROWN = 64 << 20
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- soak -->\n", "<!-- end of soak -->\n"
ROW = Row(
    number="F44",
    title="soak: a random fault each 20 to 60 s",
    accept=Accept(duplicates=lambda run: len(run.faults) * len(run.tps) * UNACKED, grown_bytes=1 << 40),
    daemons=2,
)


class Soak:
    """One soak.  say: takes each line.  ask_end(): no further fault; the verdict over what was."""

    def __init__(self, run: Run, say: Callable[[str], None]) -> None:
        self.run, self._say = run, say
        self.counts: dict[str, int] = {}
        self.broken: list[str] = []
        self._rng = random.Random(f"soak {run.seed}")
        self._ending = threading.Event()
        self._began = self._minute = time.monotonic()
        self._sent = 0

    def ask_end(self) -> None:
        self._ending.set()

    @property
    def faults(self) -> dict[str, Callable[[], None]]:
        """What is drawn from, by the name that is printed."""
        source, target = self.run.sites.sides
        return {
            "kill -9 of daemon b": self._kill,
            "SIGTERM of daemon b": self._stop,
            "SIGSTOP within the session": lambda: self._freeze(SESSION_S / 2),
            "SIGSTOP past the session": lambda: self._freeze(2.5 * SESSION_S),
            "SIGHUP": self._reload,
            "ZooKeeper server of the source restarts": self._zookeeper,
            "session expires": self._expire,
            "kill -9 of a source broker": lambda: self._broker(source, kill=True),
            "kill -9 of a target broker": lambda: self._broker(target, kill=True),
            "SIGTERM of a source broker": lambda: self._broker(source, kill=False),
            "SIGTERM of a target broker": lambda: self._broker(target, kill=False),
            "leads of the source go back": lambda: self._elect(source),
            "leads of the target go back": lambda: self._elect(target),
            "resets at the target": lambda: self._resets(target),
            "resets at the source": lambda: self._resets(source),
            "a target broker stalls": lambda: self._stall(target),
            "ZooKeeper out of one daemon's reach": self._unreachable,
        }

    def go(self, minutes: float) -> None:
        """Faults until the time is over."""
        until = self._began + minutes * 60
        names = sorted(self.faults)
        while not self._wait(self._rng.uniform(*GAP_S), until):
            name = self._rng.choice(names)
            self._say(f"{time.monotonic() - self._began:7.0f} s  {name}")
            self.counts[name] = self.counts.get(name, 0) + 1
            self._inflict(name)

    def _inflict(self, name: str) -> None:
        """A fault, and until everything flows again.  What was not committed at its begin may come twice."""
        run = self.run
        try:
            committed = run.sampler.committed()
            with run.fault() as fault:
                self.faults[name]()
                fault.over()
                run.wait_flowing(FLOWS_S)
            run.wait_caught_up(FLOWS_S)  # what was under way at the fault is stored, and committed
            run.window(committed=committed)
        except (LocalKafkaError, KazooException, AssertionError) as error:
            self.broken.append(f"{name}: {str(error).partition(';')[0]}")
            self._say(f"         {self.broken[-1]}")
        self._look()

    def _wait(self, seconds: float, until: float) -> bool:
        """Pass time, with a line each minute; whether the soak is over."""
        deadline = min(until, time.monotonic() + seconds)
        while time.monotonic() < deadline:
            if self._ending.wait(min(1.0, max(0.01, deadline - time.monotonic()))):
                return True
            if time.monotonic() - self._minute >= 60:
                self._minute += 60
                self._look()
                self._say(self.line())
        return time.monotonic() >= until

    def _look(self) -> None:
        """The oracles that need no log."""
        wire, samples = self.run.sites.wire, self.run.sampler.samples
        found = []
        if back := oracles.decreases(samples):
            found.append(f"commits went back: {back[0]}")
        settled = [each for each in wire.produced if each.at < time.monotonic() - SETTLED_S]
        if (overlap := oracles.overlap_s(settled, wire.claimed)) > 0:
            found.append(f"two producers of a partition for {overlap:.2f} s")
        found += [f"{daemon.name} ended" for daemon in self.run.daemons if not daemon.running]
        for each in found:
            if each not in self.broken:
                self.broken.append(each)
                self._say(f"         {each}")

    def line(self) -> str:
        """One line for the minute that passed."""
        samples, sent = self.run.sampler.samples, self.run.traffic.sent
        rate, self._sent = (sent - self._sent) / 60, sent
        newest = next((one for one in reversed(samples) if one.committed), None)
        lag = sum(end - (newest.committed or {}).get(tp, 0) for tp, end in newest.source_ends.items()) if newest else -1
        held = ", ".join(
            f"{name[-1]} {rss / 1e6:.0f} MB {fds} fds" for name, (rss, fds) in sorted(samples[-1].processes.items())
        )
        return (
            f"{(time.monotonic() - self._began) / 60:5.0f} min  {sent:,} messages, {rate:.0f}/s, lag {lag:,}; "
            f"{sum(self.counts.values())} faults; {held}; {'broken: ' + str(len(self.broken)) if self.broken else 'ok'}"
        )

    # ---- faults -----------------------------------------------------------------------------------------------------

    def _kill(self) -> None:
        self.run.daemons[1].kill()
        self.run.daemons[1].start()

    def _stop(self) -> None:
        daemon = self.run.daemons[1]
        code, _ = daemon.stop()
        if code != 0:
            self.broken.append(f"{daemon.name} stopped with {code}")
        daemon.start()

    def _freeze(self, seconds: float) -> None:
        daemon = self._rng.choice(self.run.daemons)
        daemon.freeze()
        try:
            self.run.pass_time(seconds)
        finally:
            daemon.thaw()

    def _reload(self) -> None:
        daemon = self._rng.choice(self.run.daemons)
        before = daemon.said().count("event=reload-ok")
        daemon.signal(signal.SIGHUP)
        daemon.wait_for(lambda: daemon.said().count("event=reload-ok") > before, "the reload")

    def _zookeeper(self) -> None:
        server = self._rng.choice(self.run.sites.source.ensemble.servers)
        server.kill()
        self.run.pass_time(self._rng.uniform(0.5, 2))
        server.start()

    def _expire(self) -> None:
        """Another client ends the session of a daemon."""
        expire(self.run, self.run.session_of(self._rng.choice(self.run.daemons)))

    def _broker(self, side: Side, kill: bool) -> None:
        wait_in_sync(self.run, side)  # else what is acknowledged could die with its only replicas
        node = self._rng.choice(side.cluster.nodes)
        if kill:
            node.kill()
        else:
            node.stop()
        self.run.pass_time(self._rng.uniform(1, 8))
        node.restart()
        wait_in_sync(self.run, side)

    def _elect(self, side: Side) -> None:
        """To the preferred replicas, as a controller does by itself some minutes after brokers came back."""
        wait_in_sync(self.run, side)
        elect_preferred(side, self.run.tps)

    def _resets(self, side: Side) -> None:
        for proxy in proxies(side):
            proxy.reset()

    def _stall(self, side: Side) -> None:
        proxy = self._rng.choice(proxies(side))
        proxy.blackhole()
        self.run.pass_time(self._rng.uniform(1, 6))
        proxy.clear()
        wait_in_sync(self.run, side)

    def _unreachable(self) -> None:
        daemon = self._rng.choice(self.run.daemons)
        daemon.blackhole()
        self.run.pass_time(self._rng.uniform(1, 2 * SESSION_S))
        daemon.clear()


def slopes(samples: Sequence[Sample], name: str) -> tuple[float, float, float]:
    """Of one daemon behind its first WARM_S: bytes an hour, descriptors an hour, and the bytes by which the last tenth
    lies above the first."""
    rows = [(one.at, *one.processes[name]) for one in samples if name in one.processes]
    rows = [row for row in rows if row[0] >= rows[0][0] + WARM_S]
    if len(rows) < 20:
        return 0.0, 0.0, 0.0
    times = [at for at, _, _ in rows]
    rss, fds = ([float(row[column]) for row in rows] for column in (1, 2))
    tenth = max(1, len(rows) // 10)
    grown = statistics.median(rss[-tenth:]) - statistics.median(rss[:tenth])
    return (
        statistics.linear_regression(times, rss).slope * 3600,
        statistics.linear_regression(times, fds).slope * 3600,
        grown,
    )


def report(soak: Soak, verdict: Verdict, seconds: float) -> str:
    """What stands in the page: figures, and what was done."""
    rss, fds, grown = slopes(soak.run.sampler.samples, soak.run.daemons[0].name)
    done = "; ".join(f"{name} × {count}" for name, count in sorted(soak.counts.items()))
    failed = "; ".join([*soak.broken, *verdict.failures]) or "none"
    recovery = "" if verdict.recovery_s is None else f", longest recovery {verdict.recovery_s:.1f} s"
    return (
        f"- {seconds / 60:.0f} min, seed {soak.run.seed}, {verdict.messages:,} messages, {sum(soak.counts.values())} "
        f"faults ({done}): lost {verdict.lost}, phantoms {verdict.phantoms}, damaged {verdict.damaged}, out of order "
        f"{verdict.inversions}, unsafe commits {verdict.unsafe_commits} of {verdict.samples:,} samples, twice "
        f"{verdict.duplicates:,}, of them outside a fault's window {verdict.outside}{recovery}; memory of the daemon "
        f"that ran all the time {rss / 1e6:+.1f} MB/h ({grown / 1e6:+.1f} MB in all), descriptors {fds:+.1f}/h; "
        f"failures: {failed}\n"
    )


def performed(sites: Sites, folder: Path, minutes: float, seed: int, say: Callable[[str], None] = print) -> str | None:
    """A whole soak; its report, or None where it failed.  ctrl-C and SIGTERM end it early, with its verdict."""
    run = Run(sites, folder, row=ROW, seed=seed)
    try:
        run.begin()
        soak = Soak(run, say)
        began = time.monotonic()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: soak.ask_end())
        soak.go(minutes)
        seconds = time.monotonic() - began
        say("the load ends; everything has to arrive")
        run.finish()
        verdict = run.judge()
        text = report(soak, verdict, seconds)
        say(text)
        _, fds, grown = slopes(run.sampler.samples, run.daemons[0].name)
        if grown > GROWN or fds * seconds / 3600 > 20:
            soak.broken.append(f"memory {grown / 1e6:+.1f} MB, descriptors {fds:+.1f} an hour")
        if not soak.broken and not verdict.failures:
            return text
        run.failures += soak.broken
        say(f"FAILED; all of it is in {run.keep(None)}")
        return None
    except BaseException as error:
        say(f"FAILED: {error}; all of it is in {run.keep(error)}")
        raise
    finally:
        run.close()


def made(page: str, text: str) -> str:
    """The page with one more report; the newest first, two at most."""
    before, rest = page.split(BEGIN, 1)
    old, after = rest.split(END, 1)
    reports = [text, *(line + "\n" for line in old.splitlines() if line.startswith("- "))][:2]
    return f"{before}{BEGIN}\n{''.join(reports)}\n{END}{after}"


def main(arguments: Sequence[str]) -> int:
    wanted = argparse.ArgumentParser(prog="make soak", description="random faults on two mirrors under load")
    wanted.add_argument("--minutes", type=float, default=60)
    wanted.add_argument("--seed", type=int, default=None, help="repeats the faults of a soak; default: by the clock")
    wanted.add_argument("--page", type=Path, default=PAGE, help="where the report of a good soak is added")
    given = wanted.parse_args(arguments)
    seed = given.seed if given.seed is not None else int(time.time()) % 100_000
    print(f"soak of {given.minutes:g} min, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, Sites() as sites:
        text = performed(sites, Path(folder), given.minutes, seed, lambda line: print(line, flush=True))
    if text is None:
        return 1
    given.page.write_text(made(given.page.read_text(encoding="utf-8"), text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
