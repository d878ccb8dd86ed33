"""Supervisor: a mirror in several processes, shown as one by status, metrics, commands, signals and systemd.

start   each worker execs and joins the group; READY once all have begun to mirror
run     a worker that ends is started again (restarts.py); views of the mirror merge their reports (merging.py)
stop    all stop in order at the same time, then this process ends with one exit code

It copies nothing and connects to no cluster.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from groundwork.installed import own_version
from groundwork.logs import current_level, log_in_thread, set_level, set_up_logging
from groundwork.loopdelay import HubLag
from groundwork.options import OptionError
from groundwork.output import print_note
from groundwork.sentences import counted
from groundwork.tasks import Event, Lock, TaskGroup, now, sleep, stacks, wait_any
from groundwork.threads import NoThread
from mirrormaker import exits
from mirrormaker.changes import NOT_RELOADED, decide
from mirrormaker.config import Configuration
from mirrormaker.configfile import read_settled
from mirrormaker.control.place import own_place
from mirrormaker.control.server import ControlServer, Refused
from mirrormaker.happenings import Happenings
from mirrormaker.limits import Throttle, limits_of
from mirrormaker.report import MirrorReport, ReloadReport, SourceReport, WorkerReport, from_json, waiting
from mirrormaker.signals import Signals
from mirrormaker.status import StatusLine, StatusReporter
from mirrormaker.systemd import PINGS_PER_LIMIT, Systemd
from mirrormaker.workers.control import WorkersControl
from mirrormaker.workers.merging import ended, merged, shares
from mirrormaker.workers.process import SERVING, Silent, WorkerProcess, packed
from mirrormaker.workers.restarts import End, Restarts, exit_code

log = logging.getLogger(__name__)

LOOK_S = 0.1
FRESH_S = 0.4  # shortest interval between reports requested from a worker
REPORT_S = 3.0  # longest wait for a report
SILENT_S = 15.0  # a worker that is silent for longer counts as not alive
DIVIDE_S = 2.0  # interval between divisions of throttles, while there are any
STOP_S = 10.0  # time limit for a worker to stop, as for a daemon
KILL_S = 15.0  # a worker that has not stopped by then is killed
RELOAD_S = 60.0
MISSED_S = 1.0  # a supervisor delayed for longer does not count the delay as a worker's silence


def run_supervisor(configuration: Configuration, read: Callable[[], Configuration]) -> int:
    """Mirror in several processes until a signal ends it, and return the exit code.  read: reads the configuration
    again."""
    try:
        log_in_thread()
    except NoThread as refused:
        print_note(f"error: {refused}")
        return exits.TEMPORARY
    terminal = StatusLine(sys.stderr, shutil.get_terminal_size().columns)
    mirror = configuration.mirror
    # The terminal has write, flush and a descriptor; logging uses nothing else.
    set_up_logging(mirror.log_level, mirror.log_format, stream=terminal)  # type: ignore[arg-type]
    systemd = Systemd(os.environ, os.getpid(), configuration.shown_name)
    return Supervisor(configuration, read, terminal, systemd).run()


class Supervisor:
    """Workers of one mirror, and the views that show them as one."""

    def __init__(
        self, configuration: Configuration, read: Callable[[], Configuration], terminal: StatusLine, systemd: Systemd
    ) -> None:
        self._configuration = configuration
        self._read = read
        self._terminal = terminal
        self._systemd = systemd
        self._tasks = TaskGroup()
        self._stop = Event()
        self._started = Event()  # READY was reported
        self._end: End | None = None  # why the mirror ends by itself
        self._signals = Signals(
            self._tasks,
            self._stop.set,
            {signal.SIGHUP: self._on_hup, signal.SIGUSR1: self._on_usr1, signal.SIGUSR2: self._on_usr2},
            at_once=self._kill_all,
        )
        self._workers = [
            WorkerProcess(number, self._tasks, self._notified) for number in range(1, configuration.mirror.workers + 1)
        ]
        self._restarts = Restarts()
        self._limits: Sequence[Mapping[str, Any]] | None = None  # None: use the kept limits
        self._shares: dict[int, dict[tuple[str, str], float]] = {}
        self._level = current_level()
        self._last_reload: ReloadReport | None = None
        self._pending: tuple[str, ...] = ()  # changes that wait for a restart
        self._reloading, self._asking = Lock(), Lock()
        self._asked_at = float("-inf")
        self._lag = HubLag("the supervisor", 5000.0)
        self._happenings = Happenings()
        self._happenings.attach()
        self._looked_at = now()
        self._started_ms = int(time.time() * 1000)
        self._release = own_version()
        self._past = self._blank()
        self._control: ControlServer | None = None
        self._status: StatusReporter | None = None

    # ---- run and stop -----------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Run until a signal, or until the mirror ends by itself; return the exit code."""
        self._signals.take()
        for sentence in (*self._configuration.warnings, *self._configuration.notes):
            log.warning("%s", sentence, extra={"event": "configuration", "key": sentence})
        try:
            self._listen()
        except _Refused as refused:
            return self._ended(End(refused.code, str(refused)), [])
        self._tasks.spawn("lag", self._lag.run)
        for worker in self._workers:
            self._start(worker)
        self._tasks.spawn("divide", self._divide)
        pinged_at = now()
        while not self._stop.is_set() and self._end is None and self._tasks.death is None:
            wait_any([self._stop, self._tasks.dead], LOOK_S)
            self._look()
            if self._systemd.watchdog_s is not None and now() - pinged_at > self._systemd.watchdog_s / PINGS_PER_LIMIT:
                self._systemd.alive()
                pinged_at = now()
        if self._tasks.death is not None:
            self._end = self._end or End(exits.INTERNAL, f"the mirror ends: {self._tasks.death}")
        return self._ended(self._end, self._stop_all())

    def _ended(self, end: End | None, codes: Sequence[int]) -> int:
        code = end.code if end is not None else exit_code(codes)
        if end is not None:
            log.critical("%s", end.sentence, extra={"event": "died"})
        else:
            log.info("stopped", extra={"event": "stopped"})
        self._tasks.stop(1.0)
        if self._control is not None:
            self._control.close()
        self._signals.drained()
        self._signals.end(code)
        return code

    def _look(self) -> None:
        """Check the processes, and do what is due."""
        looked_at, self._looked_at = self._looked_at, now()
        if (missed_s := self._looked_at - looked_at - LOOK_S) > MISSED_S:  # their messages are not read yet
            for worker in self._workers:
                worker.pinged_at = min(self._looked_at, worker.pinged_at + missed_s)
        for worker in self._workers:
            code = worker.ended()
            if code is not None:
                self._died(worker, code)
            elif worker.restart_at is not None and now() >= worker.restart_at:
                worker.restarts += 1
                self._start(worker)
            elif worker.ready and self._hangs(worker):
                worker.signal(signal.SIGABRT)
        if not self._started.is_set() and all(worker.ready for worker in self._workers):
            self._ready()

    def _start(self, worker: WorkerProcess) -> None:
        worker.configuration = self._configuration
        begin = {
            "configuration": packed(self._configuration),
            "limits": self._limits,
            "share": 1 / len(self._workers),
            "log_level": self._level,
        }
        try:
            worker.start(begin, os.environ)
        except OSError as refused:  # no process, descriptor or memory left
            self._again(worker, exits.TEMPORARY, str(refused.strerror or refused))
            return
        log.info("worker %d: process %d", worker.number, worker.pid, extra={"event": "worker-start", "always": True})

    def _died(self, worker: WorkerProcess, code: int) -> None:
        if worker.report is not None:
            self._past = ended(self._past, worker.number, worker.report)
            worker.report = None
        self._again(worker, code)

    def _again(self, worker: WorkerProcess, code: int, why: str = "") -> None:
        decided = self._restarts.died(
            worker.number, code, lived_s=now() - worker.started_at, started=self._started.is_set()
        )
        worker.why = decided.sentence
        if isinstance(decided, End):
            self._end = self._end or decided
            return
        worker.restart_at = now() + decided.delay_s
        sentence = f"{decided.sentence}: {why}" if why else decided.sentence
        log.error("%s", sentence, extra={"event": "worker-died", "always": True})

    def _hangs(self, worker: WorkerProcess) -> bool:
        """True if a worker shows no sign of life for as long as systemd would wait, if it has a
        watchdog.  Then the worker must be ended."""
        limit_s = self._systemd.watchdog_s
        if limit_s is None or now() - worker.pinged_at < limit_s:
            return False
        log.error("worker %d: no sign of life for %.0f s; ending it", worker.number, limit_s)
        worker.pinged_at = now()
        return True

    def _ready(self) -> None:
        self._started.set()
        self._remember_limits()
        self._status = StatusReporter(
            self,
            terminal=self._terminal,
            systemd=self._systemd,
            interval_s=self._configuration.mirror.status_interval_ms / 1000,
        )
        line = self._status.line()
        self._systemd.ready(line)
        text = "mirroring with %s: %s"
        log.info(text, counted(len(self._workers), "worker"), line, extra={"event": "started"})
        self._tasks.spawn("status", self._status.run)

    def _stop_all(self) -> list[int]:
        """Stop all workers that run, and return their exit codes."""
        self._stop.set()
        self._systemd.stopping(STOP_S + 1)
        log.info("stopping: all workers stop", extra={"event": "stopping"})
        loading = [worker for worker in self._workers if not worker.serving]  # they own nothing that must be drained
        for worker in self._workers:
            worker.stop()
        codes, running = [], [worker for worker in self._workers if worker.pid is not None]
        killed_at = now() + KILL_S
        while running:
            for worker in list(running):
                if (code := worker.ended()) is not None:
                    codes.append(exits.CLEAN if worker in loading and code == -signal.SIGTERM else code)
                    running.remove(worker)
            if running and now() > killed_at:
                names = ", ".join(str(worker.number) for worker in running)
                log.error("worker %s did not stop within %g s; killing it", names, KILL_S)
                self._kill_all()
                killed_at = float("inf")
            sleep(LOOK_S / 2)
        return codes

    def _kill_all(self) -> None:
        for worker in self._workers:
            worker.signal(signal.SIGKILL)

    # ---- what workers say -------------------------------------------------------------------------------------------

    def _notified(self, worker: WorkerProcess, lines: list[str]) -> None:
        if "WATCHDOG=1" in lines:  # a status line does not count: a worker with stalled partitions sends it, too
            worker.pinged_at = now()
        if SERVING in lines and self._limits is not None:  # limits may have changed during its start
            self._tasks.spawn(f"limits-{worker.number}", self._tell_limits, worker)
        if "READY=1" in lines and not worker.ready:
            worker.ready, worker.pinged_at = True, now()
            if worker.configuration is not self._configuration:  # it changed during the worker's start
                self._tasks.spawn(f"reload-{worker.number}", self._reload_late, worker)

    @property
    def serving(self) -> Sequence[WorkerProcess]:
        """Return the workers that answer requests."""
        return [worker for worker in self._workers if worker.serving]

    def report(self) -> MirrorReport:
        """Return a report of the mirror that is at most FRESH_S old."""
        with self._asking:
            if now() - self._asked_at > FRESH_S:
                asked = [self._tasks.spawn(f"report-{one.number}", self._ask_report, one) for one in self.serving]
                for task in asked:
                    task.join()
                self._asked_at = now()
        reports = {one.number: one.report for one in self._workers if one.report is not None}
        return merged(self._base(), [self._row(worker) for worker in self._workers], reports, self._past)

    def changed(self) -> None:
        """Expire the report, because an operator changed something."""
        with self._asking:
            self._asked_at = float("-inf")

    def observe(self) -> None:
        """Do nothing: workers count what they do themselves."""

    def _ask_report(self, worker: WorkerProcess) -> None:
        pid, asked_at = worker.pid, now()
        try:
            answer = worker.ask("report", timeout_s=REPORT_S)
        except Refused:
            if worker.silent_since is None:
                worker.silent_since = asked_at
            return
        if worker.pid == pid:
            worker.report, worker.loop_lag_s = from_json(answer["report"]), answer["loop_lag_s"]
            worker.silent_since = None

    def silent(self) -> list[str]:
        """Return a sentence for each worker that runs but does not answer."""
        self.report()
        return [
            f"worker {one.number} does not answer for {now() - one.silent_since:.0f} s"
            for one in self._workers
            if one.silent_since is not None and now() - one.silent_since > SILENT_S
        ]

    def _row(self, worker: WorkerProcess) -> WorkerReport:
        state, reason = "running", ""
        if self._stop.is_set():
            state = "stopping"
        elif worker.pid is None:
            state, reason = "restarting" if worker.why else "starting", worker.why
        elif not worker.ready:
            state = "starting"
        elif worker.silent_since is not None and now() - worker.silent_since > REPORT_S:
            reason = f"does not answer for {now() - worker.silent_since:.0f} s"
        cpu_s, resident = worker.usage()
        return WorkerReport(
            number=worker.number,
            pid=worker.pid,
            state=state,
            reason=reason,
            ready=worker.ready,
            restarts=worker.restarts,
            cpu_s=cpu_s,
            resident_bytes=resident,
        )

    def _base(self) -> MirrorReport:
        found = self._blank()
        stopping = ("the mirror is stopping",) if self._stop.is_set() else ()
        return replace(found, happenings=self._happenings.newest(), reload=self._last_reload, not_ready=stopping)

    def _blank(self) -> MirrorReport:
        """Return the report without any worker."""
        sources = tuple(
            SourceReport(
                name=source.name,
                version=source.version or "not known yet",
                state="joining",
                reason="",
                owned=0,
                lag=None,
                lag_unit="messages",
            )
            for source in self._configuration.sources
        )
        return MirrorReport(
            at_ms=int(time.time() * 1000),
            started_ms=self._started_ms,
            release=self._release,
            name=self._configuration.shown_name,
            utc_offset_s=time.localtime().tm_gmtoff,
            target=self._configuration.target.address,
            target_state="",
            sources=sources,
            partitions=(),
            waiting=(),
            happenings=(),
            messages=0,
            bytes=0,
            messages_per_s=0.0,
            bytes_per_s=0.0,
            in_flight_bytes=0,
            left_out={},
            not_ready=(),
            log_level=self._level,
        )

    # ---- what shows and changes it ----------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Open HTTP and the control socket, before any worker starts.  Raises _Refused."""
        mirror = self._configuration.mirror
        place = own_place(self._configuration.name, mirror.control_socket, os.environ)
        if place is not None:
            self._control = ControlServer(self._tasks, WorkersControl(self).actions())
            try:
                log.info("control: listening at %s", self._control.start(place, os.environ), extra={"event": "control"})
            except OSError as reason:
                sentence = f"control socket {place}: {reason.strerror or reason}"
                if mirror.control_socket:
                    raise _Refused(exits.STATE_FOLDER, f"{sentence} (mirror.control.socket)") from reason
                log.warning("%s: this mirror runs without; set mirror.control.socket, or none", sentence)
        if mirror.http_listen is None:
            return
        from mirrormaker.http.server import StatusServer  # it needs prometheus-client

        server = StatusServer(
            self.report, self._late_s, self._tasks, hosts=mirror.http_hosts, silent=self.silent, more=self._metrics
        )
        try:
            url = server.start(mirror.http_listen)
        except OSError as refused:
            why = (refused.strerror or str(refused)).partition(": (")[0]  # strip the address, which the sentence names
            raise _Refused(
                exits.CONFIGURATION, f"http.listen={mirror.http_listen}: cannot listen there: {why}"
            ) from refused
        log.info("status page: %s", url, extra={"event": "http"})

    def _late_s(self) -> float:
        """Return the largest recent delay of an event loop of this mirror."""
        return max(self._lag.lately_ms / 1000, *(worker.loop_lag_s for worker in self._workers))

    def _metrics(self) -> list[tuple[int, str]]:
        found = []
        for worker in self.serving:
            with suppress(Refused):
                found.append((worker.number, str(worker.ask("metrics", timeout_s=REPORT_S))))
        return found

    def limited(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Apply these limits, also to workers that start later."""
        self._limits = rows
        self._shares = {}

    def _tell_limits(self, worker: WorkerProcess) -> None:
        with suppress(Refused):
            worker.ask("limits", {"rows": self._limits}, REPORT_S)

    def _remember_limits(self) -> None:
        with suppress(Refused):
            if self._limits is None and self.serving:
                self.limited(self.serving[0].ask("limits", timeout_s=REPORT_S))

    def _divide(self) -> None:
        """Send each worker its part of the throttles, if it changed."""
        while True:
            sleep(DIVIDE_S)
            limits = limits_of(self._limits or ())
            if not any(isinstance(limit, Throttle) for limit in limits):
                continue
            self.report()
            reports = {one.number: one.report for one in self._workers if one.serving and one.report is not None}
            for number, parts in shares(limits, reports).items():
                worker = self._workers[number - 1]
                if self._shares.get(number) == parts:
                    continue
                rows = [[*key, share] for key, share in parts.items()]
                with suppress(Refused):
                    worker.ask("shares", {"shares": rows}, REPORT_S)
                    self._shares[number] = parts

    def set_level(self, level: str) -> None:
        """Log from this level everywhere.  Raises Refused."""
        self._level = level
        set_level(level)
        for worker in self.serving:
            worker.ask("set-log-level", {"level": level}, REPORT_S)

    # ---- signals ----------------------------------------------------------------------------------------------------

    def _on_hup(self) -> None:
        """Handle SIGHUP: all workers read the configuration again, or none.  A closed terminal also sends it: then
        stop."""
        if self._terminal.rewrites:
            self._stop.set()
            return
        wait_any([self._started, self._stop])
        with self._reloading:
            if self._stop.is_set():
                log.info(NOT_RELOADED)
                return
            self._systemd.reloading()
            problem = self._reload()
            self._last_reload = ReloadReport(at_ms=int(time.time() * 1000), problem=problem, pending=self._pending)
            line = self._status.line() if self._status is not None else ""
            self._systemd.ready(line if problem else f"reloaded; {line}")

    def _reload(self) -> str:
        """Reload all workers; return why that failed, or ""."""
        try:
            read = read_settled(self._configuration.files, self._read, sleep)
            reload = decide(self._configuration, read)
        except OptionError as wrong:
            return self._not_reloaded([f"the configuration is left as it is: {problem}" for problem in wrong.problems])
        workers = list(self.serving)
        problems: list[str] = []
        for worker in workers:
            try:
                problems += worker.ask("prepare-reload", {"configuration": packed(read)}, RELOAD_S)
            except Refused as reason:
                problems.append(f"the configuration is left as it is: {reason}")
        if problems:
            return self._not_reloaded(list(dict.fromkeys(problems)))
        self._configuration, self._pending = reload.configuration, reload.left
        if self._level != reload.configuration.mirror.log_level and any("log.level" in key for key in reload.changed):
            self._level = reload.configuration.mirror.log_level
            set_level(self._level)
        said = [self._tasks.spawn(f"reload-{one.number}", self._apply, one, problems) for one in workers]
        for task in said:
            task.join()
        if problems:
            return self._not_reloaded(list(dict.fromkeys(problems)))
        what = f"changed: {', '.join(reload.changed)}" if reload.changed else "nothing that may change has changed"
        text = "configuration read again by all workers; %s%s"
        waits = f"; {waiting(reload.left)}" if reload.left else ""
        log.info(text, what, waits, extra={"always": True, "event": "reload-ok"})
        return ""

    def _apply(self, worker: WorkerProcess, problems: list[str]) -> None:
        try:
            problem = worker.ask("apply-reload", timeout_s=RELOAD_S)
            worker.configuration = self._configuration
        except Silent as gone:  # its next process starts with the new configuration
            problem = "" if worker.pid is None else str(gone)
        except Refused as reason:
            problem = str(reason)
        if problem:
            problems.append(f"worker {worker.number}: {problem}")

    def _not_reloaded(self, problems: Sequence[str]) -> str:
        for problem in problems:
            log.error("%s", problem, extra={"always": True, "event": "reload-failed"})
        return "; ".join(problems)

    def _reload_late(self, worker: WorkerProcess) -> None:
        """Reload a worker that was starting while the others changed their configuration."""
        with self._reloading:
            if worker.configuration is self._configuration:
                return
            problems: list[str] = []
            with suppress(Refused):
                problems += worker.ask("prepare-reload", {"configuration": packed(self._configuration)}, RELOAD_S)
                if not problems:
                    self._apply(worker, problems)
            for problem in problems:
                log.error("worker %d: %s", worker.number, problem, extra={"event": "reload-failed"})

    def _on_usr1(self) -> None:
        """Handle SIGUSR1: log the state of this process and of each worker."""
        lines = [
            f"worker {row.number}: {row.state}, process {row.pid}, {row.restarts} restarts, "
            f"CPU {row.cpu_s or 0:.1f} s, {(row.resident_bytes or 0) / 1e6:.0f} MB"
            for row in map(self._row, self._workers)
        ]
        extra = {"event": "dump", "always": True, "below": [*lines, *stacks()]}
        log.warning("SIGUSR1: stacks of this process; each worker logs its own", extra=extra)
        for worker in self.serving:
            worker.signal(signal.SIGUSR1)

    def _on_usr2(self) -> None:
        """Handle SIGUSR2: log at debug everywhere; the next SIGUSR2 restores the configured level (info if that is
        debug)."""
        configured = self._configuration.mirror.log_level
        calm = configured if configured != "debug" else "info"
        with suppress(Refused):
            self.set_level(calm if self._level == "debug" else "debug")
        text = "SIGUSR2: the log is at level %s now"
        log.warning(text, self._level, extra={"event": "log-level", "always": True})


class _Refused(Exception):
    """Raised when the mirror cannot start; the text is one sentence, `.code` the exit code."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
