"""Backends that run ZooKeeper and the brokers of 0.8 and later: child processes, or containers
(LOCALKAFKA_BACKEND=docker)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from localkafka import containers, java
from localkafka.child import Child
from localkafka.containers import Container
from localkafka.errors import LocalKafkaError
from localkafka.releases import Release

VARIABLE = "LOCALKAFKA_BACKEND"


def in_containers() -> bool:
    """True if LOCALKAFKA_BACKEND is `docker`.  Raises LocalKafkaError if it is neither `process` nor `docker`."""
    chosen = os.environ.get(VARIABLE) or "process"
    if chosen not in ("process", "docker"):
        raise LocalKafkaError(f"{VARIABLE}={chosen} is unknown; use process (child processes) or docker")
    return chosen == "docker"


def ready(release: Release) -> None:
    """Raise LocalKafkaError if servers of this release cannot run: without java and jars, or daemon and image."""
    if in_containers():
        containers.ready(release)
    else:
        java.ready(release)


def command(release: Release, main: str, arguments: Sequence[str], flags: Sequence[str], level: str) -> list[str]:
    """Return the command line of a server: see java.command; inside a container it names what the image has."""
    if in_containers():
        return java.command_line(
            "java", containers.cache(), release, main=main, arguments=arguments, flags=flags, level=level
        )
    return java.command(release, main, arguments, flags=flags, level=level)


def started(name: str, argv: Sequence[str], log: Path) -> Child | Container:
    """Start a server in the folder of its log."""
    return Container(name, argv, log) if in_containers() else Child(name, argv, log)
