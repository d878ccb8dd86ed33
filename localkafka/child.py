"""Child process that does not outlive this one: a keeper (keeper.py) runs it and passes signals on."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from localkafka.errors import LocalKafkaError, last_lines
from localkafka.waiting import wait_until

KEEPER = Path(__file__).with_name("keeper.py")
STOPPED_S = 10.0
PYTHON = (sys.executable, "-I", "-S")  # without site-packages it starts in a fraction of the time


class Child:
    """A program under a keeper.

    name     its name in errors ("broker 1")
    log      file to which its standard error, and its standard output unless stdout is given, are appended
    stdin, stdout   as for subprocess.Popen; with PIPE, .stdin and .stdout are the pipes

    running   started, and not known to have ended        paused   running, but stopped by SIGSTOP
    ended     .exit_code is its exit code, or minus the signal that ended it
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        log: Path,
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self.pid = 0
        self.exit_code: int | None = None
        self.paused = False
        self._lock = threading.Lock()
        self._pending = b""
        self._control, theirs = socket.socketpair()
        with theirs, log.open("ab") as output:
            self._keeper = subprocess.Popen(
                [*PYTHON, str(KEEPER), str(theirs.fileno()), *argv],
                stdin=stdin,
                stdout=output if stdout is None else stdout,
                stderr=output,
                env=None if env is None else {**os.environ, **env},
                cwd=cwd,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # ctrl-C in the terminal does not reach it
            )
        self.stdin: IO[bytes] | None = self._keeper.stdin
        self.stdout: IO[bytes] | None = self._keeper.stdout
        self._listen(until_pid=True)

    def __repr__(self) -> str:
        state = f"pid {self.pid}" if self.exit_code is None else f"ended with {self.exit_code}"
        return f"<Child {self.name}, {state}>"

    @property
    def running(self) -> bool:
        """True until its end is known, also while it is paused."""
        self._listen(timeout_s=0)
        return self.exit_code is None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal; no effect when it has ended."""
        with self._lock:
            try:
                self._control.sendall(f"signal {int(number)}\n".encode())
            except OSError:
                pass  # the keeper is gone, and the child with it: _listen finds out how

    def pause(self) -> None:
        """Send SIGSTOP and wait until the process is stopped: the keeper only passes the signal on."""
        self.paused = True
        self.send(signal.SIGSTOP)
        wait_until(self._stopped, STOPPED_S, f"{self.name} to be stopped by SIGSTOP")

    def _stopped(self) -> bool:
        """True if each of its threads is stopped, or it has ended."""
        try:
            stats = [task.joinpath("stat").read_text() for task in Path(f"/proc/{self.pid}/task").iterdir()]
        except OSError:
            return not self.running or not Path("/proc/self").exists()  # no /proc: unknown, do not wait
        return all(stat.rpartition(")")[2].split()[0] in "TtZX" for stat in stats)

    def resume(self) -> None:
        self.send(signal.SIGCONT)
        self.paused = False

    def wait(self, timeout_s: float) -> int | None:
        """Wait for its end, and return its exit code, or None if it still runs after timeout_s."""
        self._listen(timeout_s)
        return self.exit_code

    def stop(self, timeout_s: float = 15) -> int:
        """Send SIGTERM, and SIGKILL if it has not ended after timeout_s, and return its exit code."""
        self.send(signal.SIGTERM)
        self.resume()
        code = self.wait(timeout_s)
        return self.kill() if code is None else code

    def kill(self) -> int:
        """Send SIGKILL, wait until it has ended, and return its exit code."""
        self.send(signal.SIGKILL)
        code = self.wait(15)
        if code is None:
            raise LocalKafkaError(f"{self.name} (pid {self.pid}) does not end after SIGKILL")
        return code

    def close(self) -> None:
        """Kill it if it still runs, and close its pipes."""
        if self.running:
            self.kill()
        for pipe in (self.stdin, self.stdout):
            if pipe is not None:
                pipe.close()

    def log_end(self, count: int = 12) -> str:
        """Return the last lines and the path of its log, for an error message."""
        return f"the end of {self.log}:\n{last_lines(self.log, count)}"

    def _listen(self, timeout_s: float = 15, until_pid: bool = False) -> None:
        """Read the keeper's messages until the child's end (or its pid) is known, or timeout_s is over."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            while self.exit_code is None and not (until_pid and self.pid):
                left = max(0.0, deadline - time.monotonic())
                if not select.select([self._control], [], [], left)[0]:
                    return
                received = self._control.recv(512)
                if not received:
                    self._ended(-signal.SIGKILL)  # the keeper was killed, and the child by PDEATHSIG
                    return
                *lines, self._pending = (self._pending + received).split(b"\n")
                for line in lines:
                    word, number = line.split()
                    if word == b"pid":
                        self.pid = int(number)
                    else:
                        self._ended(int(number))

    def _ended(self, code: int) -> None:
        self.exit_code = code
        self._control.close()
        self._keeper.wait()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
