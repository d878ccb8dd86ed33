"""Detection of too few threads (ulimit -u, TasksMax=, pids.max): a sentence with the limits and the remedy.

Where the system makes no further thread CPython raises RuntimeError, as for a defect.  NoThread is an OSError, so
code that retries a failed connection also retries a look-up that had no thread.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from groundwork.decimals import decimal_int

REFUSED = "can't start new thread"  # of _thread.start_new_thread


class NoThread(OSError):
    """This process can start no further thread; the text is the sentence."""


@contextmanager
def starting_threads() -> Iterator[None]:
    """Raise NoThread where the block cannot start a thread."""
    try:
        yield
    except RuntimeError as exc:
        if str(exc) != REFUSED:
            raise
        raise NoThread(_sentence()) from exc


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those further down its chain, each once."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def too_few(error: BaseException | None) -> str:
    """Return the sentence when too few threads caused an error, directly or further down its chain; else ""."""
    for each in causes(error):
        if isinstance(each, NoThread):
            return str(each)
        if isinstance(each, RuntimeError) and str(each) == REFUSED:
            return _sentence()
    return ""


def _sentence() -> str:
    limits = []
    of_user = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if of_user != resource.RLIM_INFINITY:
        limits.append(f"its user may have {of_user} processes and threads (ulimit -u)")
    if of_group := _pids_max():
        limits.append(f"its control group {of_group} (pids.max)")
    told = f": {', '.join(limits)}" if limits else ""
    return (
        f"no further thread can be started{told}; raise it with ulimit -u, LimitNPROC= and TasksMax= in its unit, or "
        "--pids-limit of its container"
    )


def _pids_max() -> str:
    """Return the limit of this process's control group; "": none, or it cannot be read."""
    try:
        rows = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return ""
    below = [
        (f"pids{path}" if names == "pids" else path.lstrip("/")) for _, names, path in rows if names in ("", "pids")
    ]
    for place in (*below, "", "pids"):  # a container sees its own group at the top
        try:
            found = (Path("/sys/fs/cgroup") / place / "pids.max").read_text().strip()
        except OSError:
            continue
        if decimal_int(found) is not None:
            return found
    return ""
