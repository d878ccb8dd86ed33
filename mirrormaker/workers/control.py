"""Commands that a mirror of several workers answers as one.

status, topics            merged from all workers
pause, resume, throttle   one worker checks and changes the limits, and keeps them if --keep is given; the others get
                          the result.  A throttle covers the whole mirror: each worker gets a share by the number
                          of its partitions that it owns
parked, retry, release    the worker that owns the partition
set-log-level, profile    all workers; each has its own profile
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from groundwork.logs import LEVELS
from groundwork.tasks import Lock, TaskGroup, sleep
from mirrormaker.attention import view
from mirrormaker.control.server import (
    MAX_EVERY_S,
    MIN_EVERY_S,
    PROFILE_MAX_S,
    PROFILE_S,
    Action,
    Arguments,
    Refused,
    number,
)
from mirrormaker.report import MirrorReport, as_json
from mirrormaker.workers.process import ASK_S, WorkerProcess

PROFILE_TURN_S = 0.5
COMMANDS = ("status", "topics", "pause", "resume", "throttle", "parked", "retry", "release", "set-log-level", "profile")


class Workers(Protocol):
    """Supervisor, as far as commands need it."""

    @property
    def serving(self) -> Sequence[WorkerProcess]: ...
    def report(self) -> MirrorReport: ...
    def changed(self) -> None: ...
    def limited(self, rows: Sequence[Mapping[str, Any]]) -> None: ...
    def set_level(self, level: str) -> None: ...


class WorkersControl:
    """Actions of a supervisor."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._changing = Lock()  # changes of the limits run one after the other

    def actions(self) -> dict[str, Action]:
        """Return the actions by command name."""
        own: dict[str, Action] = {
            "status": self._status,
            "topics": self._topics,
            "parked": self._parked,
            "retry": self._retry,
            "release": self._release,
            "set-log-level": self._set_log_level,
            "profile": self._profile,
            **{command: partial(self._limit, command) for command in ("pause", "resume", "throttle")},
        }
        return {command: own[command] for command in COMMANDS}

    def _status(self, arguments: Arguments) -> Iterator[Any]:
        every_s = number(arguments, "every_s", least=MIN_EVERY_S, most=MAX_EVERY_S)
        while True:
            yield view(self._workers.report())
            if every_s is None:
                return
            sleep(every_s)

    def _topics(self, arguments: Arguments) -> Iterator[Any]:
        report = as_json(self._workers.report())
        yield self._first().ask("topics", {**arguments, "report": report})

    def _limit(self, command: str, arguments: Arguments) -> Iterator[Any]:
        with self._changing:
            first = self._first()
            answer = first.ask(command, arguments)
            rows = first.ask("limits")
            self._workers.limited(rows)  # also for a worker that is starting
            for worker in self._workers.serving:
                if worker is not first:
                    worker.ask("limits", {"rows": rows})
        self._workers.changed()
        yield answer

    def _parked(self, arguments: Arguments) -> Iterator[Any]:
        found = [row for _, rows in self._parked_rows(arguments) for row in rows]
        yield sorted(found, key=lambda row: (row["source"], row["topic"], str(row["partition"])))

    def _retry(self, arguments: Arguments) -> Iterator[Any]:
        owners = [worker for worker, rows in self._parked_rows(arguments) if rows] or [self._first()]
        said = [sentence for worker in owners for sentence in worker.ask("retry", arguments)]
        self._workers.changed()
        yield said

    def _release(self, arguments: Arguments) -> Iterator[Any]:
        owners = [(worker, rows) for worker, rows in self._parked_rows(arguments) if rows]
        if len(owners) > 1:
            names = " and ".join(sorted({str(row["source"]) for _, rows in owners for row in rows}))
            raise Refused(f"{arguments.get('what')} is parked in sources {names}: choose one with --source")
        said = (owners[0][0] if owners else self._first()).ask("release", arguments)
        self._workers.changed()
        yield said

    def _set_log_level(self, arguments: Arguments) -> Iterator[Any]:
        level = str(arguments.get("level", "")).lower()
        if level not in LEVELS:
            raise Refused(f"log level is one of {', '.join(LEVELS)}, not {level}")
        self._workers.set_level(level)
        yield [f"log level is {level} until the next start"]

    def _profile(self, arguments: Arguments) -> Iterator[Any]:
        self._first()
        seconds = number(arguments, "seconds", least=1.0, most=PROFILE_MAX_S) or PROFILE_S
        found: dict[int, list[str]] = {}

        def ask(worker: WorkerProcess) -> None:
            try:
                found[worker.number] = worker.ask("profile", {"seconds": seconds}, seconds + ASK_S)
            except Refused as reason:
                found[worker.number] = [f"no profile: {reason}"]

        asking, tasks = list(self._workers.serving), TaskGroup()
        for worker in asking:
            tasks.spawn(f"profile-{worker.number}", ask, worker)
        try:
            while len(found) < len(asking) and tasks.death is None:
                yield []
                sleep(PROFILE_TURN_S)
        finally:
            tasks.stop(1.0)
        yield [line for number in sorted(found) for line in (f"worker {number}:", *found[number])]

    def _parked_rows(self, arguments: Arguments) -> list[tuple[WorkerProcess, list[dict[str, Any]]]]:
        asked = {name: value for name, value in arguments.items() if name in ("what", "source")}
        self._first()
        return [(worker, worker.ask("parked", asked)) for worker in self._workers.serving]

    def _first(self) -> WorkerProcess:
        """Return the worker that answers for all.  Raises Refused."""
        if not self._workers.serving:
            raise Refused("no worker of this mirror is running now: try again; its log says why")
        return self._workers.serving[0]
