"""Cache of the jars of a version, fetched by Maven once, also when two processes start at the same time.

    CACHE/jars/0.8.2.2/*.jar    renamed into place when complete
    CACHE/m2                    Maven's repository, if the home folder has none

CACHE is LOCALKAFKA_CACHE, else XDG_CACHE_HOME/localkafka, else ~/.cache/localkafka.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localkafka import releases
from localkafka.errors import LocalKafkaError

MAVEN_TIMEOUT_S = 900
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # some Mavens print colours even without a terminal
MAVEN_OPTS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # it lives for seconds: these flags halve the processor time


def class_path(version: str) -> str:
    """Return the class path of a version for `java -cp`; fetches the jars if necessary.
    Raises LocalKafkaError when Maven is missing or fails."""
    return f"{folder(version)}/*"


def folder(version: str) -> Path:
    """Return the folder with all jars of a version.  Raises LocalKafkaError when Maven is missing or fails."""
    releases.release(version)
    return fetched(version, f"Kafka {version}")


def fetched(name: str, what: str) -> Path:
    """Return the folder with all jars of poms/NAME.xml; what: their name in messages.
    Raises LocalKafkaError when Maven is missing or fails."""
    ready = cache() / "jars" / name
    if ready.is_dir():
        return ready
    ready.parent.mkdir(parents=True, exist_ok=True)
    with _locked(ready.with_suffix(".lock")):
        if not ready.is_dir():  # otherwise another process has fetched them
            _fetch(name, what, ready)
    return ready


def cache() -> Path:
    """Return the cache folder, created if missing."""
    named = os.environ.get("LOCALKAFKA_CACHE")
    where = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "localkafka"
    try:
        where.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalKafkaError(
            f"cannot make the cache folder {where} ({error.strerror}); set LOCALKAFKA_CACHE to a folder you may write"
        ) from error
    return where.resolve()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(name: str, what: str, ready: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise LocalKafkaError(
            f"mvn is not on the PATH, and the jars of {what} are not in {ready} yet; "
            "install Maven (Debian: apt install maven) or set LOCALKAFKA_CACHE to a folder that has them"
        )
    print(f"localkafka: fetching the jars of {what} with Maven, once, into {ready}", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=ready.parent, prefix=f".{name}-") as work:
        pom, libraries = Path(work, "pom.xml"), Path(work, "jars")
        pom.write_text(releases.pom(name), encoding="utf-8")
        argv = [maven, "-q", "-B", *_repository(), "-f", str(pom)]
        argv += ["dependency:copy-dependencies", f"-DoutputDirectory={libraries}"]
        _run(argv, what)
        libraries.rename(ready)


def _run(argv: list[str], what: str) -> None:
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=MAVEN_TIMEOUT_S,
            env={"MAVEN_OPTS": MAVEN_OPTS, **os.environ},
        )
    except subprocess.TimeoutExpired as error:
        raise LocalKafkaError(
            f"Maven did not fetch the jars of {what} within {MAVEN_TIMEOUT_S} s: {' '.join(argv)}"
        ) from error
    if done.returncode:
        said = _COLOUR.sub("", done.stdout.decode(errors="replace"))
        lines = [line for line in said.splitlines() if line.strip()]
        quoted = "\n".join(f"    {line}" for line in lines[-12:])
        raise LocalKafkaError(
            f"Maven could not fetch the jars of {what} (exit {done.returncode}); its last lines:\n{quoted}"
        )


def _repository() -> list[str]:
    """Return options that name Maven's local repository.  Java takes the home from the password database and ignores
    $HOME: by default Maven would write outside an empty $HOME, and miss the ~/.m2 of a $HOME that was set."""
    home = Path(os.environ.get("HOME") or "~").expanduser()
    existing = home / ".m2"
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        return [f"-Dmaven.repo.local={cache() / 'm2'}"]
    if home.resolve() == Path(pwd.getpwuid(os.getuid()).pw_dir).resolve():
        return []  # Maven finds it, with its settings.xml
    settings = existing / "settings.xml"
    told = [f"-Dmaven.repo.local={existing / 'repository'}"]
    return [*told, "-s", str(settings)] if settings.is_file() else told
