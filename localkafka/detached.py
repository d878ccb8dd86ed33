"""Clusters in the background: `python -m localkafka --detach NAME` starts one, `--stop NAME` ends it.

    CACHE/detached/NAME.lock    locked by the cluster's process until it ends; holds its pid
    CACHE/detached/NAME.log     what that process writes on standard error

The lock says whether the cluster runs: the kernel drops it with the process, also after kill -9.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import sys
from pathlib import Path

from localkafka import jars
from localkafka.errors import LocalKafkaError, last_lines
from localkafka.waiting import wait_until

STOP_S = 60
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def detach(name: str) -> None:
    """Continue in a child process in its own session.  Call it before starting threads and other processes.

    Returns in the child, whose standard output this process prints until attached() closes it; then this process exits
    with 0.  It exits with 1, and the end of the log, when the child ends before. Raises LocalKafkaError when a cluster
    of this name runs."""
    lock, log = _open(name), _file(name, "log")
    if not _lock(lock):
        raise LocalKafkaError(f"cluster {name} runs already: `python -m localkafka --stop {name}` ends it")
    print(f"localkafka: starting cluster {name}; its log is {log}", file=sys.stderr, flush=True)
    printed, out = os.pipe()
    child = os.fork()
    if child:
        os.close(out)
        os.close(lock)  # the child holds the lock
        with os.fdopen(printed, "rb") as pipe:
            try:
                said = pipe.read()
            except KeyboardInterrupt:
                os.kill(child, signal.SIGTERM)
                raise
        if not said:
            os.waitpid(child, 0)
            print(f"localkafka: cluster {name} could not be started:\n{last_lines(log)}", file=sys.stderr, flush=True)
            os._exit(1)
        os.write(1, said)
        ends = f"`python -m localkafka --stop {name}` ends it"
        print(f"localkafka: cluster {name} runs; {ends}", file=sys.stderr, flush=True)
        os._exit(0)  # without the clean-up, which belongs to the child
    os.setsid()
    _close_inherited()
    os.truncate(lock, 0)
    os.pwrite(lock, b"%d\n" % os.getpid(), 0)
    _stand_in(os.open(os.devnull, os.O_RDONLY), 0)
    _stand_in(out, 1)
    _stand_in(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)


def _close_inherited() -> None:
    """Close descriptors that the caller left open, except standard input, output and error: a pipe of its shell, the
    lock of a script.  Otherwise a process waiting for their end would wait for the cluster's.  Files that Python opens
    are not inheritable."""
    for name in os.listdir("/dev/fd"):
        descriptor = int(name)
        try:
            if descriptor > 2 and os.get_inheritable(descriptor):
                os.close(descriptor)
        except OSError:
            continue  # descriptor of the listing itself


def attached() -> None:
    """Report that the cluster serves: close standard output, so that the parent of detach() exits."""
    sys.stdout.flush()
    _stand_in(os.open(os.devnull, os.O_WRONLY), 1)


def stop(name: str) -> None:
    """End a cluster that runs in the background, and wait for its end. Raises LocalKafkaError if none of this name
    runs, or it does not end in time."""
    running = names()
    if name not in running:
        raise LocalKafkaError(f"no cluster {name} runs in the background; running: {', '.join(running) or 'none'}")
    lock = _open(name)
    try:
        os.kill(int(os.pread(lock, 32, 0)), signal.SIGTERM)
        wait_until(lambda: _lock(lock), STOP_S, f"cluster {name} to end; its log is {_file(name, 'log')}")
    finally:
        os.close(lock)


def names() -> list[str]:
    """Return the names of the clusters that run in the background."""
    running = []
    for path in sorted(_folder().glob("*.lock")):
        lock = _open(path.stem)
        if not _lock(lock):
            running.append(path.stem)
        os.close(lock)
    return running


def _folder() -> Path:
    folder = jars.cache() / "detached"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _file(name: str, kind: str) -> Path:
    if NAME.fullmatch(name) is None:
        raise LocalKafkaError(
            f"{name!r} is not a valid cluster name: use letters and digits, and . _ - after the first"
        )
    return _folder() / f"{name}.{kind}"


def _open(name: str) -> int:
    return os.open(_file(name, "lock"), os.O_RDWR | os.O_CREAT, 0o600)


def _lock(descriptor: int) -> bool:
    """True if the lock could be taken, because no process holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _stand_in(descriptor: int, for_: int) -> None:
    os.dup2(descriptor, for_)
    os.close(descriptor)
