"""A member of a group as a process: one of ours (groupmember.py), or a program of the JVM."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from localkafka.child import Child
from localkafka.programs import ConsoleConsumer

SCRIPT = Path(__file__).with_name("groupmember.py")


def start_ours(folder: Path, topic: str, streams: int, options: Mapping[str, object], failpoints: str = "") -> Child:
    """One of ours; what it tells is read by `told`."""
    log = folder / f"ours-{time.monotonic_ns()}.log"
    argv = [sys.executable, str(SCRIPT), topic, str(streams), json.dumps(options)]
    environment = {**os.environ, "GROUNDWORK_FAILPOINTS": failpoints}
    with _output(log).open("ab") as out:
        return Child("a member of ours", argv, log, env=environment, stdin=subprocess.PIPE, stdout=out.fileno())


def told(child: Child) -> list[str]:
    """What one of ours has told so far, whole lines only."""
    return _output(child.log).read_text().split("\n")[:-1]


def handed(child: Child) -> list[tuple[float, str, int, str]]:
    """When one of ours was handed what: monotonic seconds, partition, offset, value."""
    rows = [line.split(" ", 3) for line in told(child)]
    return [(float(r[0]), r[1], int(r[2]), r[3]) for r in rows if len(r) == 4 and r[0][0].isdigit()]


def _output(log: Path) -> Path:
    return log.with_suffix(".out")


class GroupProcess:
    """One member.  consumer_id is known once it is registered.  console: what collects its lines, where it has one."""

    def __init__(self, kind: str, child: Child, console: ConsoleConsumer | None = None) -> None:
        self.kind = kind
        self.child = child
        self.console = console
        self.consumer_id = ""
        self.gone: list[tuple[float, float]] = []  # when it was frozen, and since when it is dead: monotonic seconds

    @property
    def ours(self) -> bool:
        return self.kind == "ours"

    @property
    def running(self) -> bool:
        return self.child.running

    @property
    def frozen(self) -> int:
        """How often it was."""
        return sum(until < math.inf for _, until in self.gone)

    def kill(self) -> None:
        self.gone.append((time.monotonic(), math.inf))
        self.child.kill()

    def stop(self) -> int:
        """SIGTERM; its exit code, which of ours must be 0."""
        code = self.child.stop(20)
        assert not self.ours or code == 0, f"{self} ended with {code}; {self.child.log_end()}"
        return code

    def close(self) -> None:
        if self.console is not None:
            self.console.__exit__()
        else:
            self.child.close()

    def __repr__(self) -> str:
        return f"{self.kind} {self.consumer_id}"
