"""Worker process as its supervisor handles it: started, queried, watched and ended.

The process execs the same command line with --as-worker: nothing of the supervisor is forked into it except one end of
a socket.  It has its own process group, so that a terminal's ctrl-C reaches only the supervisor.
"""

from __future__ import annotations

import base64
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from groundwork.tasks import Event, TaskGroup, adopted_socket, now
from mirrormaker.config import Configuration
from mirrormaker.control.server import Refused
from mirrormaker.report import MirrorReport
from mirrormaker.workers.channel import Channel

ASK_S = 60.0  # a release may take up to half of this
MAX_UNSENT = 100
OPTION = "--as-worker"
NOT_INHERITED = ("NOTIFY_SOCKET", "WATCHDOG_PID")  # only the supervisor notifies systemd
SERVING = "SERVING=1"  # the worker answers requests from now on


class Silent(Refused):
    """Raised when a worker does not answer, or does not run; the text is one sentence."""


def packed(configuration: Configuration) -> str:
    """Return a configuration as text for the channel."""
    return base64.b64encode(pickle.dumps(configuration)).decode()


def unpacked(text: str) -> Configuration:
    """Return the configuration from the text of packed(); our supervisor sent it, so unpickling is safe."""
    found: Configuration = pickle.loads(base64.b64decode(text))
    return found


def command_line(number: int, fd: int) -> list[str]:
    """Return the command line of a worker: this process's own, and the worker's number."""
    given = sys.argv[1:]  # begins with `run`
    program = sys.orig_argv[1 : len(sys.orig_argv) - len(given)]
    return [sys.executable, *program, given[0], OPTION, f"{number}:{fd}", *given[1:]]


class WorkerProcess:
    """A worker.  notified(worker, lines): called with notifications that a single daemon would send to systemd.

    ready: its process runs and has begun to mirror.  pinged_at: time of its last watchdog ping, or of its start.
    report: the newest; configuration: what it was started with or changed to.
    """

    def __init__(self, number: int, tasks: TaskGroup, notified: Callable[[WorkerProcess, list[str]], object]) -> None:
        self.number = number
        self.restarts = 0
        self.restart_at: float | None = None  # while it has no process
        self.why = ""  # why its last process ended
        self.serving = self.ready = False
        self.started_at = self.pinged_at = now()
        self.silent_since: float | None = None
        self.report: MirrorReport | None = None
        self.loop_lag_s = 0.0
        self.configuration: object = None
        self._tasks = tasks
        self._notified = notified
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._asked: dict[int, tuple[Event, list[dict[str, Any]]]] = {}
        self._ids = 0

    # ---- its process ------------------------------------------------------------------------------------------------

    def start(self, begin: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        """Start a process.  begin: the first message to it.  Raises OSError."""
        self._process, connection = self._spawned(environ)
        self.serving = self.ready = False
        self.restart_at = self.silent_since = self.report = None
        self.started_at = self.pinged_at = now()
        self._channel = Channel(connection, self._tasks, f"worker-{self.number}", self._received)
        self._channel.send({"begin": dict(begin)})

    def _spawned(self, environ: Mapping[str, str]) -> tuple[subprocess.Popen[bytes], socket.socket]:
        """Return a new process and our end of the socket that it inherits.  Raises OSError."""
        ours, theirs = socket.socketpair()
        try:
            env = {name: value for name, value in environ.items() if name not in NOT_INHERITED}
            argv = command_line(self.number, theirs.fileno())
            process = subprocess.Popen(
                argv, env=env, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], process_group=0
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return process, adopted_socket(ours)

    @property
    def pid(self) -> int | None:
        """Return the pid of its process, or None."""
        return self._process.pid if self._process is not None else None

    def ended(self) -> int | None:
        """Return once how its process ended (-N: by signal N); afterwards there is no process.  Return None if it runs,
        or if there is none."""
        if self._process is None or (code := self._process.poll()) is None:
            return None
        self._process = None
        self.serving = self.ready = False
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        for done, _ in self._asked.values():
            done.set()
        return code

    def stop(self) -> None:
        """Stop it in order: by request if it answers requests, so that a SIGTERM from elsewhere does not count as the
        second one."""
        if self.serving and self._channel is not None:
            self._channel.send({"id": 0, "command": "stop", "arguments": {}})
        else:
            self.signal(signal.SIGTERM)

    def signal(self, number: int) -> None:
        """Send its process a signal, if it has one."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def usage(self) -> tuple[float | None, int | None]:
        """Return CPU seconds and resident bytes of its process; None if the system does not say."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
            ticks, pages = int(fields[11]) + int(fields[12]), int(fields[21])
            return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError):
            return None, None

    # ---- requests ----------------------------------------------------------------------------------------------------

    def ask(self, command: str, arguments: Mapping[str, Any] | None = None, timeout_s: float = ASK_S) -> Any:
        """Send a request and return the response.  Raises Refused with the worker's reason, and Silent."""
        channel = self._channel
        if channel is None or not self.serving:
            raise Silent(f"worker {self.number} is not running now: try again")
        if channel.unsent > MAX_UNSENT:
            raise Silent(f"worker {self.number} takes no requests")
        self._ids += 1
        asked = self._ids
        done, answers = self._asked[asked] = (Event(), [])
        try:
            channel.send({"id": asked, "command": command, "arguments": dict(arguments or {})})
            in_time = done.wait(timeout_s)
        finally:
            del self._asked[asked]
        if not answers:
            why = "ended" if in_time else f"did not answer within {timeout_s:g} s"
            raise Silent(f"worker {self.number} {why}")
        if "error" in answers[0]:
            raise Refused(str(answers[0]["error"]))
        return answers[0]["answer"]

    def _received(self, line: dict[str, Any]) -> None:
        if "notify" in line:
            self.serving |= SERVING in line["notify"]
            self._notified(self, line["notify"])
        elif (asked := self._asked.get(line["id"])) is not None:
            asked[1].append(line)
            asked[0].set()
