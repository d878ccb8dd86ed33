"""Servers as containers of a Docker daemon on this machine, with the interface of a child process (child.py).

The image has Java and the jars: it is the Dockerfile's target `cluster`, or what LOCALKAFKA_IMAGE names.  A container
shares our network and the server's folder, at the same path and as our user: it listens on 127.0.0.1 like a child
process, and its data and log are files of ours.  So the daemon must run on this machine, not in a VM.

Unlike child processes, containers outlive a kill -9 of the process that started them, until the next cluster starts.
"""

from __future__ import annotations

import functools
import os
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from groundwork.decimals import decimal_int
from localkafka import releases
from localkafka.errors import LocalKafkaError, last_lines
from localkafka.releases import Release

SOCKET = "unix:///var/run/docker.sock"
IMAGE_VARIABLE = "LOCALKAFKA_IMAGE"
IMAGE = "kafka-legacy-mirror:cluster"
EXTRA_MISSING = "LOCALKAFKA_BACKEND=docker needs the package docker: pip install 'kafka-legacy-mirror[docker]'"
CACHE_VARIABLE = "LOCALKAFKA_CACHE"  # of the image: the folder of its jars
OWNER = "localkafka.owner"  # label: the process that started a container
VERSIONS = "localkafka.versions"  # label: the releases whose jars an image has
RUNNING = ("running", "paused", "restarting")
KILLED = 128 + signal.SIGKILL
POLL_S = 0.05


class Container:
    """One server in a container; name, argv and log as for a Child.

    running   started, and not ended (a paused one runs)          paused   its processes are frozen
    ended     .exit_code is a number: its own, or minus SIGKILL; the container is removed
    """

    def __init__(self, name: str, argv: Sequence[str], log: Path) -> None:
        self.name = name
        self.log = log
        self.exit_code: int | None = None
        self.paused = False
        folder = str(log.parent)
        with _asked(f"start {name}"):
            self._container = client().containers.create(
                image(),
                entrypoint=["sh", "-c", 'exec "$@" >>"$0" 2>&1', str(log)],
                command=list(argv),
                network_mode="host",
                user=f"{os.getuid()}:{os.getgid()}",
                volumes={folder: {"bind": folder, "mode": "rw"}},
                working_dir=folder,
                labels={OWNER: _this_process()},
                healthcheck={"test": ["NONE"]},
            )
            try:
                self._container.start()
                self._container.reload()
            except BaseException:
                self._container.remove(force=True)
                raise
        self.pid: int = self._container.attrs["State"]["Pid"]

    def __repr__(self) -> str:
        state = self._container.short_id if self.exit_code is None else f"ended with {self.exit_code}"
        return f"<Container {self.name}, {state}>"

    @property
    def running(self) -> bool:
        """True until its end is known; a paused one runs."""
        if self.exit_code is None:
            self._look()
        return self.exit_code is None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal; no effect if it has ended."""
        if self.running:
            with _asked(f"send {number.name} to {self.name}", unless=self._ended_meanwhile):
                self._container.kill(signal=int(number))

    def pause(self) -> None:
        """Freeze its processes: its connections stay open without responses."""
        if not self.paused:
            with _asked(f"pause {self.name}"):
                self._container.pause()
        self.paused = True

    def resume(self) -> None:
        if self.paused and self.running:
            with _asked(f"resume {self.name}", unless=self._ended_meanwhile):
                self._container.unpause()
        self.paused = False

    def wait(self, timeout_s: float) -> int | None:
        """Wait for its end, and return its exit code, or None if it still runs after timeout_s."""
        deadline = time.monotonic() + timeout_s
        while self.running and time.monotonic() < deadline:
            time.sleep(POLL_S)
        return self.exit_code

    def stop(self, timeout_s: float = 15) -> int:
        """Send SIGTERM, and SIGKILL if it has not ended after timeout_s, and return its exit code."""
        self.resume()  # a frozen process only reacts to SIGKILL
        self.send(signal.SIGTERM)
        code = self.wait(timeout_s)
        return self.kill() if code is None else code

    def kill(self) -> int:
        """Send SIGKILL, wait until it is gone, and return its exit code."""
        self.send(signal.SIGKILL)
        code = self.wait(15)
        if code is None:
            raise LocalKafkaError(f"{self.name} (container {self._container.short_id}) does not end after SIGKILL")
        return code

    def close(self) -> None:
        """Kill it if it still runs."""
        if self.running:
            self.kill()

    def log_end(self, count: int = 12) -> str:
        """Return its last lines with the path of the log, for an error message."""
        return f"the end of {self.log}:\n{last_lines(self.log, count)}"

    def _look(self) -> None:
        """Ask the daemon for its state; remove the container if it has ended."""
        from docker.errors import NotFound

        with _asked(f"inspect {self.name}"):
            try:
                self._container.reload()
                state = self._container.attrs["State"]
                if state["Status"] in RUNNING:
                    return
                self._container.remove()
            except NotFound:  # another process removed it
                state = {"ExitCode": KILLED}
        self.exit_code = -signal.SIGKILL if state["ExitCode"] == KILLED else int(state["ExitCode"])

    def _ended_meanwhile(self) -> bool:
        return not self.running


def ready(release: Release) -> None:
    """Remove the containers of processes that are gone.  Raises LocalKafkaError when no daemon of this machine answers,
    or its image lacks the jars of this release."""
    with _asked("use Docker"):
        theirs = client().info()["KernelVersion"]
    if theirs != os.uname().release:
        raise LocalKafkaError(
            f"the Docker daemon runs on another kernel ({theirs}): it must be on this machine, to share 127.0.0.1 and "
            "the work folder"
        )
    cache()
    versions = str((_config(image())["Labels"] or {}).get(VERSIONS, "")).split()
    if release.version not in (releases.ZOOKEEPER_FROM, *versions):
        raise LocalKafkaError(
            f"image {image()} has no jars of Kafka {release.version}; build it with "
            f'docker build --target cluster --build-arg KAFKA_VERSIONS="{release.version}" -t {image()} .'
        )
    _sweep()


def image() -> str:
    """Return the image of servers."""
    return os.environ.get(IMAGE_VARIABLE) or IMAGE


@functools.cache
def client() -> Any:
    """Return the daemon's client, of DOCKER_HOST or the usual socket.  Raises LocalKafkaError without the package
    `docker`."""
    try:
        import docker
    except ImportError as error:
        raise LocalKafkaError(EXTRA_MISSING) from error
    _reach(os.environ.get("DOCKER_HOST") or SOCKET)
    with _asked("reach Docker"):
        return docker.from_env(timeout=60)


def _reach(url: str) -> None:
    """Raise LocalKafkaError if nothing listens at a Unix socket: the client would leave its own socket open."""
    scheme, _, path = url.partition("://")
    if scheme != "unix":
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError as error:
            raise LocalKafkaError(f"no Docker daemon listens at {path} ({error.strerror}); see DOCKER_HOST") from error


def cache() -> str:
    """Return the cache folder inside the image, as its environment names it."""
    variables = dict(each.partition("=")[::2] for each in _config(image())["Env"] or [])
    found = variables.get(CACHE_VARIABLE)
    if not found:
        raise LocalKafkaError(
            f"image {image()} does not set {CACHE_VARIABLE}: it is not the Dockerfile's target cluster"
        )
    return str(found)


@functools.cache
def _config(named: str) -> dict[str, Any]:
    """Return the configuration of an image: Env, Labels.  Raises LocalKafkaError if no image has this name."""
    from docker.errors import ImageNotFound

    with _asked(f"inspect image {named}"):
        try:
            config: dict[str, Any] = client().images.get(named).attrs["Config"]
        except ImageNotFound as error:
            raise LocalKafkaError(
                f"there is no image {named}; build it with docker build --target cluster -t {named} ."
            ) from error
    return config


def _sweep() -> None:
    """Remove the containers that killed processes left behind."""
    from docker.errors import APIError

    with _asked("list containers"):
        found = client().containers.list(all=True, filters={"label": OWNER}, ignore_removed=True)
    for each in found:
        if not _lives(each.labels.get(OWNER, "")):
            try:
                each.remove(force=True)
            except APIError:
                continue  # another process sweeps it


def _this_process() -> str:
    return f"{os.getpid()}:{_started_at(os.getpid())}"


def _lives(owner: str) -> bool:
    """True if the process of a label is alive; its pid may belong to another one by now."""
    pid, _, started = owner.partition(":")
    number = decimal_int(pid)
    return number is not None and bool(started) and _started_at(number) == started


def _started_at(pid: int) -> str:
    """Return when a process started, in ticks since boot; empty if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]


@contextmanager
def _asked(what: str, unless: Any = None) -> Iterator[None]:
    """Raise errors of the daemon as LocalKafkaError, unless `unless` returns True."""
    try:
        from docker.errors import DockerException
        from requests.exceptions import RequestException
    except ImportError as error:
        raise LocalKafkaError(EXTRA_MISSING) from error

    try:
        yield
    except (DockerException, RequestException) as error:
        if unless is not None and unless():
            return
        raise LocalKafkaError(f"cannot {what}: {error}") from error
