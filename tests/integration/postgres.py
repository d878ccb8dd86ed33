"""A real PostgreSQL for one test module: its own folder, port and process, ended after it.

The server is Debian's package `postgresql` (or any initdb and postgres on the PATH), else that of the wheel `pgserver`;
the driver is pg8000, of the extra dev.  missing() names what is not there.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from localkafka import ports
from localkafka.child import Child

START_S = 30.0
NOBODY = 65534
AS_NOBODY = f"import os,sys;os.setgroups([]);os.setgid({NOBODY});os.setuid({NOBODY});os.execv(sys.argv[1],sys.argv[1:])"


def server_folder() -> Path | None:
    """Where initdb and postgres are."""
    found = shutil.which("postgres")
    candidates = [Path(found).resolve().parent] if found else []
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    wheel = importlib.util.find_spec("pgserver")
    if wheel is not None and wheel.origin is not None:
        candidates.append(Path(wheel.origin).parent / "pginstall" / "bin")
    return next((each for each in candidates if (each / "initdb").is_file() and (each / "postgres").is_file()), None)


def missing() -> str | None:
    """What a test would need, or None."""
    if importlib.util.find_spec("pg8000") is None:
        return "the driver pg8000 (pip install '.[dev]')"
    if server_folder() is None:
        return "a PostgreSQL server: Debian's package postgresql, or the wheel pgserver"
    return None


@contextmanager
def running() -> Iterator[Callable[[], Any]]:
    """connect(), which opens a connection to a fresh server.  Durability is switched off: it lives for a few tests."""
    programs = server_folder()
    assert programs is not None
    port = ports.reserve()
    with tempfile.TemporaryDirectory(prefix="postgres-") as name:
        folder, data = Path(name), Path(name) / "data"
        if os.getuid() == 0:  # it refuses to run as root
            os.chown(folder, NOBODY, NOBODY)
        made = subprocess.run(
            _as_user(
                programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--no-locale"
            ),
            capture_output=True,
            text=True,
            timeout=START_S,
            check=False,
            cwd=folder,
        )
        assert made.returncode == 0, made.stderr
        settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "shared_buffers=2MB"]
        options = [text for setting in settings for text in ("-c", setting)]
        argv = _as_user(programs / "postgres", "-D", data, "-p", port.number, *options)
        port.release()
        with Child("postgres", argv, folder / "log", cwd=folder) as server:
            yield lambda: _connect(port.number, server)


def _as_user(*words: object) -> list[str]:
    argv = [str(word) for word in words]
    return [sys.executable, "-c", AS_NOBODY, *argv] if os.getuid() == 0 else argv


def _connect(port: int, server: Child) -> Any:
    import pg8000.dbapi

    until = time.monotonic() + START_S
    while True:
        try:
            return pg8000.dbapi.connect("postgres", host="127.0.0.1", port=port, timeout=10)
        except (pg8000.dbapi.InterfaceError, pg8000.dbapi.DatabaseError):  # not up, or still starting up
            assert time.monotonic() < until, server.log_end()
            assert server.running, server.log_end()
            time.sleep(0.05)
