"""Live control of one mirror: ties together the kept limits, the limiter and the socket.

The socket exists before any cluster is contacted, so that `mirrormaker status` also shows a mirror that waits for one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from groundwork.tasks import TaskGroup
from mirrormaker import exits
from mirrormaker.config import Configuration
from mirrormaker.control.actions import RunningMirror, actions_of
from mirrormaker.control.keptfile import KeptFile, KeptFileUnreadable, KeptFileWrong
from mirrormaker.control.limiter import Limiter
from mirrormaker.control.place import own_place
from mirrormaker.control.server import Action, ControlServer
from mirrormaker.flow import Flow
from mirrormaker.limits import Limits
from mirrormaker.reporter import Reporter
from mirrormaker.selection import Selection
from mirrormaker.source import Source
from mirrormaker.statefolder import state_folder

log = logging.getLogger(__name__)


class ControlRefused(Exception):
    """Raised when the mirror cannot start as configured; the text is one sentence, `.code` the exit code."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class Elsewhere(Protocol):
    """Requester of actions in place of commands: the supervisor of a worker.

    limits: the limits that are active already; None to use the kept ones.  share: this worker's part of each throttle.
    """

    limits: Limits | None
    share: float

    def serve(self, actions: Mapping[str, Action], tasks: TaskGroup) -> None: ...


class LiveControl:
    """Live control of one mirror.  `sources`: all sources; `flows`: those that have begun (later ones are added and
    adopted).

    elsewhere: requests actions in place of commands; None to open a socket as configured.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        sources: Sequence[Source],
        flows: Sequence[Flow],
        selections: Mapping[str, Selection],
        tasks: TaskGroup,
        environ: Mapping[str, str],
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self._elsewhere = elsewhere
        self._configuration = configuration
        self._environ = environ
        self._tasks = tasks
        self._sources = sources
        self._flows = flows
        self._selections = selections
        self.limiter = Limiter(sources, flows, self._kept_file(), elsewhere.share if elsewhere is not None else 1.0)
        self._server: ControlServer | None = None

    def _kept_file(self) -> KeptFile | None:
        folder = self._configuration.mirror.state_folder or state_folder(self._environ)
        if not folder:
            return None
        return KeptFile(Path(folder), {source.name: source.options.group_id for source in self._sources})

    def start(self, reporter: Reporter, more: Mapping[str, Action]) -> None:
        """Apply the kept limits, and listen.  `more`: actions that only `elsewhere` may request.  Raises
        ControlRefused."""
        try:
            self.limiter.restore(self._elsewhere.limits if self._elsewhere is not None else None)
        except KeptFileUnreadable as reason:
            raise ControlRefused(exits.STATE_FOLDER, str(reason)) from reason
        except KeptFileWrong as reason:
            raise ControlRefused(exits.CONFIGURATION, str(reason)) from reason
        self._tasks.spawn("limits", self.limiter.run)
        mirror = RunningMirror(
            sources=self._sources,
            flows=self._flows,
            selections=self._selections,
            reporter=reporter,
            limiter=self.limiter,
        )
        if self._elsewhere is not None:
            self._elsewhere.serve({**actions_of(mirror, worker=True), **more}, self._tasks)
            return
        configured = self._configuration.mirror.control_socket
        place = own_place(self._configuration.name, configured, self._environ)
        if place is None:
            return
        server = ControlServer(self._tasks, actions_of(mirror))
        try:
            log.info("control: listening at %s", server.start(place, self._environ), extra={"event": "control"})
        except OSError as reason:
            sentence = f"control socket {place}: {reason.strerror or reason}"
            if configured:
                raise ControlRefused(exits.STATE_FOLDER, f"{sentence} (mirror.control.socket)") from reason
            log.warning("%s: this mirror runs without; set mirror.control.socket, or none", sentence)
            return
        self._server = server

    def close(self) -> None:
        """Close the socket."""
        if self._server is not None:
            self._server.close()
        self.limiter.close()
