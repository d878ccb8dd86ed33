"""Detection of too few file descriptors (EMFILE, ENFILE): a sentence with the limit and the remedy.

The first symptom is often another one: a host name that does not resolve, a ZooKeeper or broker that "does not answer".
"""

from __future__ import annotations

import errno
import os
import resource
import socket
import sys

from groundwork.threads import causes, too_few


class TooManyOpenFiles(Exception):
    """This process, or this machine, can open no further file or connection; the text is the sentence."""


def too_many(error: BaseException | None) -> str:
    """Return the sentence when too few descriptors caused an error, directly or further down its chain; else ""."""
    for each in causes(error):
        if isinstance(each, TooManyOpenFiles):
            return str(each)
        if isinstance(each, socket.gaierror) and none_left():  # the resolver has no errno for it
            return none_left()
        if isinstance(each, OSError) and each.errno in (errno.EMFILE, errno.ENFILE):
            return _sentence(each.errno)
    return ""


def shortage(error: BaseException | None) -> str:
    """Return the sentence when too few descriptors or threads caused an error, directly or further down its chain; else
    ""."""
    return too_few(error) or too_many(error)


def fill_standard_files() -> None:
    """Open what this process was started without (`2>&-`), as the null device; sys.stderr, too, where it is None.

    Otherwise the first connection gets that number, and what is written for an operator goes to a broker.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free: this one
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def none_left(wanted: int = 1) -> str:
    """Return the sentence when this process cannot open `wanted` more files now; else ""."""
    opened: list[int] = []
    try:
        while len(opened) < wanted:
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as exc:
        if exc.errno in (errno.EMFILE, errno.ENFILE):
            return _sentence(exc.errno)
    finally:
        for each in opened:
            os.close(each)
    return ""


def _sentence(number: int) -> str:
    if number == errno.ENFILE:
        return "too many open files on this machine; raise fs.file-max (sysctl)"
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return f"too many open files: this process may open {limit}; raise it with ulimit -n, or LimitNOFILE= in its unit"
