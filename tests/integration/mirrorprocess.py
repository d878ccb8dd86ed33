"""`mirrormaker run` as a child of a test: started, told to end, killed, and what it says."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from localkafka.child import Child
from localkafka.mirror import COMMAND
from localkafka.waiting import wait_until


class MirrorProcess:
    """file: its settings, which whoever makes it writes; log: what it says."""

    def __init__(self, folder: Path, name: str, env: Mapping[str, str] | None) -> None:
        self.file, self.log = folder / f"{name}.yaml", folder / f"{name}.log"
        self._env = env
        self.prefix: tuple[str, ...] = ()  # words before the command
        self._child: Child | None = None

    def start(self) -> Self:
        self._child = Child("the mirror", [*self.prefix, str(COMMAND), "run", str(self.file)], self.log, env=self._env)
        return self

    def stop(self) -> tuple[int, float]:
        """SIGTERM, once it takes signals: its exit code, and the seconds it took.  While the program loads, the default
        action would end it."""
        assert self._child is not None
        wait_until(self._takes_signals, 30, lambda: f"the mirror to take signals; its log ends\n{self.said_last()}")
        began = time.monotonic()
        code = self._child.stop(20)
        return code, time.monotonic() - began

    def _takes_signals(self) -> bool:
        """Whether it has a handler for SIGTERM; true as well where waiting is of no use: it has ended, or is frozen."""
        assert self._child is not None
        if not self._child.running or self._child.paused:
            return True
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:  # it ends
            return False
        caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
        return caught is not None and bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)

    def signal(self, number: signal.Signals) -> None:
        assert self._child is not None
        self._child.send(number)

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    @property
    def worker_pids(self) -> list[int]:
        """Of a mirror of several workers: the process of each, as the log names it last."""
        found = dict(re.findall(r"worker (\d+): process (\d+)", self.said()))
        return [int(found[number]) for number in sorted(found)]

    def kill(self) -> None:
        assert self._child is not None
        self._child.kill()

    def env(self, env: Mapping[str, str] | None) -> None:
        """The environment of the next start, on top of ours."""
        self._env = env

    def close(self) -> None:
        """Ended, however it is."""
        if self._child is not None:
            self._child.close()

    def exit_code(self, timeout_s: float) -> int | None:
        """How it ended by itself; None: it still runs."""
        assert self._child is not None
        return self._child.wait(timeout_s)

    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def said_last(self) -> str:
        """The end of its log, for an error message: a report of a test run shows no more of it."""
        return self.said()[-6000:]

    def wait_said(self, sentence: str, timeout_s: float = 30) -> None:
        self.wait_for(lambda: sentence in self.said(), f"the log to say {sentence!r}", timeout_s)

    def wait_for(self, check: Callable[[], bool], what: str, timeout_s: float = 40) -> None:
        """Until check is true; what: the end of the sentence when it does not become so, with what the mirror says."""
        wait_until(check, timeout_s, lambda: f"{what}; its log ends\n{self.said_last()}", every_s=0.02)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
