"""Which errors mean too few file descriptors, in a process that may open no more."""

from __future__ import annotations

import errno
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from groundwork.hub import OwnThread
from groundwork.openfiles import TooManyOpenFiles, none_left, too_many


@contextmanager
def no_more() -> Iterator[int]:
    """Nothing can be opened in the block; the limit meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)  # the lowest number that is free
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield free
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_cannot_be_opened_is_told_with_the_limit_and_what_helps() -> None:
    with no_more() as limit:
        with pytest.raises(OSError) as failed:
            socket.socket()
        wrapped = RuntimeError("ZooKeeper does not answer")
        wrapped.__cause__ = failed.value
        said = too_many(wrapped)
        unresolved = too_many(socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"))
        assert none_left() == said == unresolved
    assert said == (
        f"too many open files: this process may open {limit}; raise it with ulimit -n, or LimitNOFILE= in its unit"
    )
    assert too_many(OSError(errno.ENFILE, "")) == "too many open files on this machine; raise fs.file-max (sysctl)"


def test_other_errors_are_none() -> None:
    assert none_left() == none_left(5) == ""
    assert too_many(None) == too_many(ConnectionRefusedError(errno.ECONNREFUSED, "refused")) == ""
    assert too_many(socket.gaierror(socket.EAI_NONAME, "Name or service not known")) == ""


def test_a_hub_that_cannot_have_its_loop_says_so_and_starts_later() -> None:
    hub = OwnThread()
    with no_more(), pytest.raises(TooManyOpenFiles, match=r"^the event loop cannot start: too many open files: "):
        hub.start()
    hub.start()
    assert hub.call(lambda: 7) == 7
    hub.stop()
