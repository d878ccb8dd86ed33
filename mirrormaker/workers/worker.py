"""Worker: a daemon under a supervisor.  Requests come over the channel instead of a control socket, it listens nowhere,
and sends systemd notifications to the supervisor.

It ends in order when the supervisor is gone; a thread watches for that, so it ends even while a message.handler keeps
the event loop from turning.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from groundwork.logs import write_now
from groundwork.options import given
from groundwork.tasks import TaskGroup, adopted_socket
from mirrormaker import exits
from mirrormaker.config import Configuration
from mirrormaker.control.place import OFF
from mirrormaker.control.server import Action, Arguments, Refused
from mirrormaker.daemon import DRAIN_S, run_daemon
from mirrormaker.limits import Limits, limits_of
from mirrormaker.options import SourceOptions
from mirrormaker.systemd import Systemd
from mirrormaker.workers.channel import Channel
from mirrormaker.workers.process import SERVING, unpacked

log = logging.getLogger(__name__)

ALONE_S = DRAIN_S + 3.0  # longest time until the process ends without a supervisor


def run_worker(number: int, fd: int, profile_s: float | None = None) -> int:
    """Mirror as worker `number`, with the channel at a file descriptor; return the exit code.  profile_s: see
    run_daemon."""
    connection = socket.socket(fileno=fd)
    connection.set_inheritable(False)
    begin = _first_line(connection)
    if begin is None:
        return exits.TEMPORARY  # the supervisor was killed immediately
    threading.Thread(target=_end_with_supervisor, args=(fd,), name="supervisor", daemon=True).start()
    supervisor = SupervisorLink(number, connection, begin)
    return run_daemon(supervisor.configuration, lambda: supervisor.configuration, supervisor, profile_s)


def of_worker(configuration: Configuration, number: int) -> Configuration:
    """Return the configuration of one worker: the supervisor listens for all and has logged the warnings, and a
    configured `consumer.id` gets the worker's number appended."""
    mirror = replace(configuration.mirror, http_listen=None, control_socket=OFF)
    sources = tuple(_with_own_id(source, number) for source in configuration.sources)
    return replace(configuration, sources=sources, mirror=mirror, warnings=(), notes=(), files=())


def _with_own_id(source: SourceOptions, number: int) -> SourceOptions:
    if not source.consumer_id:
        return source
    own = replace(source, consumer_id=f"{source.consumer_id}-worker{number}")
    object.__setattr__(own, "_given", given(source))  # needed because options are compared with what the file gave
    return own


def _first_line(connection: socket.socket) -> dict[str, Any] | None:
    """Return the first line of the supervisor, or None if it is gone.  Read byte by byte, since the channel reads the
    rest."""
    line = bytearray()
    while not line.endswith(b"\n"):
        waiting = connection.recv(65536, socket.MSG_PEEK)
        if not waiting:
            return None
        line += connection.recv(waiting.index(b"\n") + 1 if b"\n" in waiting else len(waiting))
    found: dict[str, Any] = json.loads(line)["begin"]
    return found


def _end_with_supervisor(fd: int) -> None:
    """Wait until the other end of the channel is closed; then stop this process as SIGTERM does."""
    gone = select.poll()
    gone.register(os.dup(fd), 0)  # poll reports a hang-up whatever is registered
    gone.poll()
    write_now(__name__, logging.ERROR, "the supervisor is gone: stopping, committing and leaving the group")
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(ALONE_S)
    os._exit(exits.TEMPORARY)


class SupervisorLink:
    """Supervisor as a daemon sees it (mirrormaker.daemon.Supervisor).  begin: its first message.

    configuration: what this worker runs, as the supervisor last read it.  Workers read no file: if it was replaced
    meanwhile, they would run different configurations.
    """

    def __init__(self, worker: int, connection: socket.socket, begin: Mapping[str, Any]) -> None:
        self.worker = worker
        self.configuration = of_worker(unpacked(begin["configuration"]), worker)
        self.limits: Limits | None = None if begin["limits"] is None else limits_of(begin["limits"])
        self.share: float = begin["share"]
        self.log_level: str = begin["log_level"]
        self.systemd: Systemd = _Upward(self._notify)
        self._connection = connection
        self._channel: Channel | None = None
        self._actions: Mapping[str, Action] = {}
        self._tasks: TaskGroup | None = None

    def serve(self, actions: Mapping[str, Action], tasks: TaskGroup) -> None:
        """Answer requests from now on."""
        self._actions, self._tasks = actions, tasks
        self._channel = Channel(adopted_socket(self._connection), tasks, "supervisor", self._received)
        self._notify([SERVING])

    def _notify(self, lines: list[str]) -> None:
        if self._channel is not None:
            self._channel.send({"notify": lines})

    def _received(self, line: dict[str, Any]) -> None:
        assert self._tasks is not None
        self._tasks.spawn(f"asked-{line['command']}", self._answer, line["id"], line["command"], line["arguments"])

    def _answer(self, asked: int, command: str, arguments: Arguments) -> None:
        assert self._channel is not None
        try:
            if "configuration" in arguments:
                self.configuration = of_worker(unpacked(arguments["configuration"]), self.worker)
            *_, answer = self._actions[command](arguments)  # only the last counts; earlier ones report progress
            self._channel.send({"id": asked, "answer": answer})
        except Refused as reason:
            self._channel.send({"id": asked, "error": str(reason)})
        except Exception as failed:
            log.exception("%s: %s: %s", command, type(failed).__name__, failed, extra={"key": "control"})
            self._channel.send({"id": asked, "error": f"{type(failed).__name__}: {failed}; the log has more"})


class _Upward(Systemd):
    """Sender of systemd notifications to the supervisor; knows the watchdog's interval."""

    def __init__(self, notify: Callable[[list[str]], object]) -> None:
        super().__init__(os.environ, os.getpid())
        self._to_supervisor = notify

    def _notify(self, text: str) -> bool:
        self._to_supervisor(text.split("\n"))
        return True
