"""The mirror as a running program: assembles, starts, watches and stops the sources, the target and the flows.

start   target and sources begin (mirrormaker.startup) -> READY
run     one carry task per stream; periodic status lines; the first task that dies ends the program
stop    fetching ends -> what is in flight is acknowledged -> commit -> release -> leave -> exit 0
"""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable, Collection, Iterator
from functools import cache, partial
from typing import Any, Protocol

from groundwork.logs import current_level, log_in_thread, set_level, set_up_logging
from groundwork.loopdelay import HubLag
from groundwork.openfiles import shortage
from groundwork.sampling import TimerTaken
from groundwork.sentences import counted, printable
from groundwork.streams import discard
from groundwork.tasks import Event, Lock, TaskDied, TaskGroup, connect, now, stacks, wait_any
from groundwork.threads import NoThread
from kafkawire.errors import LocalError
from kafkawire.model import TopicPartition
from mirrormaker import exits
from mirrormaker.changes import NOT_RELOADED
from mirrormaker.config import Configuration, route_rules
from mirrormaker.control.live import ControlRefused, Elsewhere, LiveControl
from mirrormaker.control.server import Action, Arguments
from mirrormaker.dump import dump
from mirrormaker.flow import Flow, ParkedRetries
from mirrormaker.following import Following
from mirrormaker.happenings import Happenings
from mirrormaker.offsetmap.maps import OffsetMaps
from mirrormaker.owners import OwnerWatch
from mirrormaker.profile.bottleneck import lines
from mirrormaker.profile.profiler import Profiler
from mirrormaker.quarantine import DeadLetters, Quarantine
from mirrormaker.reload import PreparedReload, ReloadRefused, Reloads
from mirrormaker.report import as_json
from mirrormaker.reporter import STALLED_S, Reporter
from mirrormaker.signals import Signals
from mirrormaker.source import Source
from mirrormaker.startup import StartRefused, Startup
from mirrormaker.statefolder import StateFolderUnwritable, folders, must_be_writable, state_folder
from mirrormaker.status import StatusLine, StatusReporter
from mirrormaker.systemd import Systemd, Watchdog
from mirrormaker.target import Target
from zkconsumer.member.ownership import some_of

log = logging.getLogger(__name__)

DRAIN_S = 9.0  # operators can rely on 10 s
GARBAGE_THRESHOLDS = (20_000, 20, 10)  # new objects since the last collection; collections before an older one


class Supervisor(Elsewhere, Protocol):
    """Supervisor of several workers, as one worker's daemon sees it.

    worker: this worker's number.  systemd: receives on behalf of all workers what a daemon reports to systemd.
    log_level: the current log level, which overrides the configuration.
    """

    worker: int
    systemd: Systemd
    log_level: str


def run_daemon(
    configuration: Configuration,
    read: Callable[[], Configuration],
    supervisor: Supervisor | None = None,
    profile_s: float | None = None,
) -> int:
    """Mirror until a signal ends it, and return the exit code.  read: reads the configuration from its files again.

    supervisor: the supervisor of this worker, or None for a single daemon.  profile_s: the length of the profile that
    is taken once the mirror is ready, or None for no profile.
    """
    short = _start_threads()
    worker = supervisor.worker if supervisor is not None else None
    terminal = StatusLine(sys.stderr, shutil.get_terminal_size().columns, shared=worker is not None)
    mirror = configuration.mirror
    level = supervisor.log_level if supervisor is not None else mirror.log_level
    # The terminal has write, flush and a descriptor; logging uses nothing else.
    set_up_logging(level, mirror.log_format, stream=terminal, worker=worker)  # type: ignore[arg-type]
    sys.setswitchinterval(0.0005)  # with the default of 5 ms, a busy user thread would delay each turn of the hub
    if short:
        log.critical("%s", short, extra={"event": "refused"})
        return exits.TEMPORARY
    try:
        systemd = (
            supervisor.systemd if supervisor is not None else Systemd(os.environ, os.getpid(), configuration.shown_name)
        )
        daemon = Daemon(configuration, read, terminal=terminal, systemd=systemd, supervisor=supervisor)
    except LocalError as unusable:
        log.critical("target: %s", unusable, extra={"event": "refused"})
        return exits.CONFIGURATION
    try:
        daemon.start()
        if profile_s is not None:
            daemon.profile(profile_s)
        collect_garbage_rarely()
        daemon.run()
    except StartRefused as refused:
        log.critical("%s", refused, extra={"event": "refused"})
        daemon.abandon()
        return daemon.ended(refused.code)
    except TaskDied as death:
        why = f"{sentence} ({death})" if (sentence := shortage(death)) else death
        log.critical("the mirror ends: %s", why, extra={"event": "died"})
        daemon.abandon()
        return daemon.ended(exits.INTERNAL)
    if daemon.failed:
        return daemon.ended(exits.DATA)
    return daemon.ended(exits.CLEAN if daemon.drained else exits.TEMPORARY)


def _start_threads() -> str:
    """Start the thread that writes the log; return a sentence if it cannot be started, else ""."""
    try:
        log_in_thread()
    except NoThread as refused:
        return str(refused)
    return ""


def collect_garbage_rarely() -> None:
    """Make the garbage collector look for cycles less often.

    Fetched sets have no cycles, so reference counting frees them.  With the default threshold of 700 objects, the
    collector took a fifth of the processor time of a mirror with many partitions, and found nothing.  gc.freeze() is
    not used: dumps and profiles find greenlets among the objects that the collector knows.
    """
    gc.set_threshold(*GARBAGE_THRESHOLDS)


class Daemon:
    """One mirror: its sources, its target, and a flow from each source into the target."""

    def __init__(
        self,
        configuration: Configuration,
        read: Callable[[], Configuration],
        *,
        terminal: StatusLine,
        systemd: Systemd,
        supervisor: Supervisor | None = None,
    ) -> None:
        self._supervisor = supervisor
        self._prepared: PreparedReload | None = None
        self._systemd = systemd
        self._terminal = terminal
        self._tasks = TaskGroup()
        self._stop = Event()  # set by a signal
        self._started = Event()
        self._refused: StartRefused | None = None
        actions: dict[int, Callable[[], object]] = {
            signal.SIGHUP: self._on_hup if supervisor is None else self._not_here,
            signal.SIGUSR1: self._on_usr1,
            signal.SIGUSR2: self._on_usr2,
        }
        self._signals = Signals(self._tasks, self._on_term, actions)
        self.drained = True  # False once a stop leaves messages that are sent again after the next start
        self.failed = ""  # the sentence about a bad message whose policy is fail
        self._reloading = Lock()
        mirror = configuration.mirror
        self._flows: list[Flow] = []  # a flow is added once its source's offset map is open
        self._target = Target(configuration.target, self._tasks, self._target_topic_is_gone)
        self._sources = [
            Source(
                options,
                self._tasks,
                partial(self._target.fence, options.name),
                configuration.target.topic_settings.copied,
            )
            for options in configuration.sources
        ]
        kept_in = state_folder(os.environ)
        self._maps = OffsetMaps(
            self._target,
            mirror,
            self._tasks,
            sources=configuration.sources,
            state_folder=kept_in,
            worker=supervisor.worker if supervisor is not None else 1,
        )
        self._following = Following(mirror, self._target, self._maps, self._tasks, self._sources)
        self._startup = Startup(
            configuration,
            self._tasks,
            target=self._target,
            sources=self._sources,
            maps=self._maps,
            flow=self._flow,
            begun=self._begun,
            joined=self._joined,
        )
        self._reloads = Reloads(
            configuration,
            read,
            sources=self._sources,
            flows=self._flows,
            tasks=self._tasks,
            changed=self._changed,
        )
        self._lag = HubLag("the mirror", min(source.session_timeout_ms for source in configuration.sources) / 4)
        self._happenings = Happenings()
        self._happenings.attach()
        self._selections = {source.name: configuration.selection(source) for source in configuration.sources}
        self._control = LiveControl(
            configuration,
            sources=self._sources,
            flows=self._flows,
            selections=self._selections,
            tasks=self._tasks,
            environ=os.environ,
            elsewhere=supervisor,
        )
        self._owners = OwnerWatch(self._sources, self._selections)
        self._reporter = Reporter(
            sources=self._sources,
            flows=self._flows,
            target=self._target,
            selections=self._selections,
            limits=lambda: self._control.limiter.limits,
            reload=lambda: self._reloads.last,
            happenings=self._happenings,
            unowned=self._owners.count,
            groups=self._following.rows,
            groups_reason=self._following.trouble,
            name=configuration.shown_name,
            stalled_s=max(STALLED_S, 2 * configuration.longest_wait_s),
            stopping=self._stop.is_set,
        )
        self._status = StatusReporter(
            self._reporter,
            terminal=terminal,
            systemd=systemd,
            interval_s=mirror.status_interval_ms / 1000,
            quiet=supervisor is not None,
        )

    # start --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start everything and notify systemd, unless a signal ends the start.  Raises StartRefused and TaskDied."""
        self._signals.take()
        for sentence in (*self._configuration.warnings, *self._configuration.notes):
            log.warning("%s", sentence, extra={"event": "configuration", "key": sentence})
        try:
            self._control.start(self._reporter, self._of_supervisor())
        except ControlRefused as refused:
            raise StartRefused(refused.code, str(refused)) from refused
        self._tasks.spawn("lag", self._lag.run)
        self._listen()
        if self._supervisor is not None:  # a worker copies, and hands over partitions, before all workers are ready
            self._tasks.spawn("status", self._status.run)
        self._tasks.spawn("start", self._starting)
        wait_any([self._started, self._stop, self._tasks.dead])
        if self._refused is not None:
            raise self._refused
        if self._tasks.death is not None:
            raise self._tasks.death
        if not self._stop.is_set():
            self._ready()

    def _listen(self) -> None:
        """Serve the mirror over HTTP, if configured, from the beginning of the start.  Raises StartRefused."""
        address = self._configuration.mirror.http_listen
        if address is None:
            return
        from mirrormaker.http.server import StatusServer  # it needs prometheus-client

        try:
            hosts = self._configuration.mirror.http_hosts
            url = StatusServer(self._reporter.report, self._lag, self._tasks, hosts=hosts).start(address)
        except OSError as refused:
            why = (refused.strerror or str(refused)).partition(": (")[0]  # strip the address, which the sentence names
            raise StartRefused(exits.CONFIGURATION, f"http.listen={address}: cannot listen there: {why}") from refused
        log.info("status page: %s", url, extra={"event": "http"})

    def _ready(self) -> None:
        line = self._status.line()
        self._systemd.ready(line)
        log.info("mirroring: %s", line, extra={"event": "started"})
        if self._supervisor is None:
            self._tasks.spawn("status", self._status.run)
        if self._supervisor is None or self._supervisor.worker == 1:  # the first worker checks on behalf of all
            self._tasks.spawn("owners", self._owners.run)
        if self._systemd.watchdog_s is not None:
            watchdog = Watchdog(self._systemd, self._flows)
            self._tasks.spawn("watchdog", watchdog.run, self._systemd.watchdog_s)

    def _starting(self) -> None:
        try:
            self._probe_folders()
            self._startup.run()
        except StartRefused as refused:
            self._refused = refused
        self._started.set()

    def _probe_folders(self) -> None:
        """Check that files which must survive a restart can be written.  Raises StartRefused."""
        for name, folder in folders(self._configuration.mirror, os.environ):
            try:
                must_be_writable(name, folder)
            except StateFolderUnwritable as exc:
                raise StartRefused(exits.STATE_FOLDER, str(exc)) from exc

    def _flow(self, source: Source) -> Flow:
        mirror, options, target = self._configuration.mirror, self._configuration.target, self._target
        loaded = self._reloads.handler
        rules = route_rules(source.options, options, mirror, here=source.dialect, there=target.dialect)
        topic = mirror.dead_letter_topic
        quarantine = Quarantine(
            source,
            self._tasks,
            policies=cache(mirror.policies),
            letters=DeadLetters(topic, source.name, target) if topic else None,
            on_fail=self._fail,
            exact=mirror.resume == "target-end",
        )
        return Flow(
            source,
            target,
            rules,
            self._tasks,
            handler=loaded.of_flow(source.name, target.dialect) if loaded is not None else None,
            delivery=self._maps.delivery(source.name),
            selection=self._configuration.selection(source.options),
            quarantine=quarantine,
        )

    def _begun(self, flow: Flow) -> None:
        self._flows.append(flow)
        self._control.limiter.adopt(flow)

    def _joined(self, flow: Flow) -> None:
        if self._configuration.mirror.groups:
            self._following.begin(flow.source)
        retry_s = self._configuration.mirror.parked_retry_ms / 1000
        if retry_s:
            self._tasks.spawn(f"retries-{flow.name}", ParkedRetries(flow, retry_s).run)

    def profile(self, seconds: float) -> None:
        """Take a profile while mirroring, and print it."""
        self._tasks.spawn("profile", self._profiled, seconds)

    def _profiled(self, seconds: float) -> None:
        try:
            found = Profiler(self._flows).run(seconds)
        except TimerTaken as taken:
            log.error("no profile: %s", taken, extra={"event": "profile"})
            return
        connect.in_thread(_print, "\n".join(lines(found)))  # printing blocks if the reader of a pipe does not read

    # run and stop -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until a signal, then stop in order.  Raises TaskDied if a task dies."""
        wait_any([self._stop, self._tasks.dead])
        if self._tasks.death is not None and not self._stop.is_set():
            raise self._tasks.death
        self._systemd.stopping(DRAIN_S + 1)
        log.info("stopping: fetching ends, waiting for what is in flight", extra={"event": "stopping"})
        self._leave()
        log.info("stopped", extra={"event": "stopped"})

    def _fail(self, sentence: str) -> None:
        """Stop as a signal does after a bad message whose policy is fail; the exit code reports it."""
        if not self.failed:
            self.failed = sentence
            log.critical("%s", sentence, extra={"event": "failed"})
            self._stop.set()

    def abandon(self) -> None:
        """Leave the groups after a failure, so that other members take over; only acknowledged messages are
        committed."""
        self._leave()

    def _leave(self) -> None:
        until = now() + DRAIN_S
        self._startup.stop()
        flows = list(self._flows)
        leaving = [self._tasks.spawn(f"stop-{flow.name}", flow.shutdown) for flow in flows]
        while not all(task.ended for task in leaving) and now() < until:
            self._target.flush()  # no batch lingers any longer
            for task in leaving:
                task.join(0.05)
        uncommitted = {flow.name: flow.source.left_uncommitted for flow in flows}
        late = [f.name for f, task in zip(flows, leaving, strict=True) if not task.ended or uncommitted[f.name]]
        left = self._target.close_senders()
        if left:
            parts = counted(left, "part")
            text = "%s not acknowledged in time; sent again after the next start"
            log.warning(text, parts, extra={"event": "not-drained"})
        for name in late:
            log.warning("%s", _late(name, uncommitted[name]), extra={"event": "not-drained", "source": name})
        self.drained = not left and not late
        self._tasks.stop(1.0)
        self._target.close()
        self._maps.close()
        self._control.close()
        self._signals.drained()

    def ended(self, code: int) -> int:
        """Return the exit code that the process ends with, also if more signals arrive."""
        self._signals.end(code)
        return code

    def _on_term(self) -> None:
        """Handle SIGTERM or ctrl-C: stop fetching, wait for what is in flight, commit, release, leave, and exit 0
        within 10 s, or 75 if parts are not acknowledged by then.

        A second signal ends the process at once without a commit: messages not committed yet are sent again after the
        next start, and the group notices the exit by the session timeout.
        """
        self._stop.set()

    def _on_hup(self) -> None:
        """Handle SIGHUP: read the configuration again, and apply what may change while the mirror runs (reload).

        Closing a terminal also sends SIGHUP; then the mirror stops as for ctrl-C.
        """
        if self._terminal.rewrites:
            self._stop.set()
            return
        wait_any([self._started, self._stop])  # the reload must not report READY before the start has ended
        with self._reloading:  # a second reload comes after the first, so its configuration is the one that remains
            if self._stop.is_set():
                log.info(NOT_RELOADED)
                return
            self._systemd.reloading()
            ended = self._reloads.reload()
            line = self._status.line()  # the status line says so if the reload failed
            self._systemd.ready(line if ended.problem else f"reloaded; {line}")

    def _not_here(self) -> None:
        """Handle SIGHUP in a worker: log that only the supervisor reloads, because all workers must reload together."""
        log.warning("SIGHUP changes nothing in one worker: send it to process %d, which reloads all", os.getppid())

    # for a supervisor ---------------------------------------------------------------------------------------------

    def _of_supervisor(self) -> dict[str, Action]:
        """Return the actions that only the supervisor of a worker may request."""

        def answering(action: Callable[[], Any]) -> Action:
            def answer(arguments: Arguments) -> Iterator[Any]:
                yield action()

            return answer

        actions = {
            "report": lambda: {"report": as_json(self._reporter.report()), "loop_lag_s": self._lag.lately_ms / 1000},
            "metrics": _metrics,
            "stop": self._stop.set,
            "prepare-reload": self._prepare_reload,
            "apply-reload": self._apply_reload,
        }
        return {name: answering(action) for name, action in actions.items()}

    def _prepare_reload(self) -> list[str]:
        """Read the configuration again without changing anything.  Return the problems that prevent a reload; empty if
        there are none."""
        self._started.wait()
        try:
            self._prepared = self._reloads.prepare()
        except ReloadRefused as refused:
            self._prepared = None
            return refused.problems
        return []

    def _apply_reload(self) -> str:
        """Apply the prepared configuration.  Return what went wrong, or ""."""
        with self._reloading:
            prepared, self._prepared = self._prepared, None
            return self._reloads.apply(prepared).problem if prepared is not None else "no reload was prepared"

    def _changed(self) -> None:
        """Adopt the new configuration for everything that begins later."""
        mirror = self._configuration.mirror
        self._startup.change(mirror)
        for source in self._configuration.sources:
            self._selections[source.name] = self._configuration.selection(source)

    @property
    def _configuration(self) -> Configuration:
        """Return the running configuration: as read at the start, with the changes of reloads."""
        return self._reloads.configuration

    def _on_usr1(self) -> None:
        """Handle SIGUSR1: log the state of each partition, queue and request, and the stack of each greenlet."""
        lines = [*dump(self._flows, self._target.senders), *stacks()]
        extra = {"event": "dump", "always": True, "below": lines}
        log.warning("SIGUSR1: partitions, queues, requests in flight, and where each greenlet stands", extra=extra)

    def _on_usr2(self) -> None:
        """Handle SIGUSR2: log at debug; the next SIGUSR2 restores the configured level (info if that is debug)."""
        configured = self._configuration.mirror.log_level
        calm = configured if configured != "debug" else "info"
        level = calm if current_level() == "debug" else "debug"
        set_level(level)
        log.warning("SIGUSR2: the log is at level %s now", level, extra={"event": "log-level", "always": True})

    def _target_topic_is_gone(self, topic: str) -> bool:
        """Have a deleted target topic created again by the first flow that sends to it."""
        return any(flow.target_is_gone(topic) for flow in self._flows)


def _late(source: str, uncommitted: Collection[TopicPartition]) -> str:
    """Return the sentence about a source that a stop left uncommitted."""
    what = f"what was copied last of {some_of(uncommitted)}" if uncommitted else "what was in flight"
    return (
        f"source {source}: not stopped and committed within {DRAIN_S:.0f} s; a lower offset.commit.interval.ms leaves a"
        " stop less to commit, a lower queued.max.bytes less in flight, --workers fewer partitions to each process; "
        f"sent again after the next start: {what}"
    )


def _print(text: str) -> None:
    try:
        print(printable(text), flush=True)
    except OSError as gone:  # a closed terminal or pipe, or a full disk, must not end the mirror
        discard(sys.stdout)
        log.error("the profile cannot be printed: %s", gone.strerror, extra={"event": "profile"})


def _metrics() -> str:
    """Return the metrics of the default registry: the process, Python, and consumers with metrics.enable."""
    from mirrormaker.http.metrics import own_metrics  # needs prometheus-client; the check of http.listen has found it

    return own_metrics()
