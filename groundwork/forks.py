"""Things that a forked child must not use: connections and tasks of its parent.

    not_in_a_fork(thing)    thing._after_fork() is called in each child that is forked while it exists
    abandon(socket)         give up a socket in a child; its peer and the parent notice nothing

A child has a copy of each connection.  Two processes that read from one take each other's answers, and the goodbye of
one (a shutdown, a closed session, the last record of TLS) ends the connection of both.  So whatever belongs to the
process that made it registers here, and in a child refuses, with belongs_to_parent(), to do anything.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, Protocol
from weakref import WeakSet


class Forked(RuntimeError):
    """This process was forked after the thing was made, which belongs to the parent alone."""


class NotInAFork(Protocol):
    """_after_fork() must not wait, and must take no lock: a thread that does not exist in the child may hold it."""

    def _after_fork(self) -> None: ...


_tasks: WeakSet[Any] = WeakSet()
_others: WeakSet[Any] = WeakSet()


def not_in_a_fork(thing: NotInAFork, tasks: bool = False) -> None:
    """Have thing._after_fork() called in each child that is forked as long as the thing exists.

    tasks: it ends tasks, so it comes before the connections that they wait for break.
    """
    (_tasks if tasks else _others).add(thing)


def belongs_to_parent(what: str) -> str:
    """Return the error for a child that uses a thing of its parent, such as "the stream"."""
    return f"this process was forked after {what} was made, which belongs to the parent process: make another one here"


def abandon(opened: Any) -> None:
    """Give up the descriptor of a socket, without sending anything to the peer; the parent's copy stays open."""
    with suppress(OSError, ValueError):  # closed already
        number = opened.detach()
        if number >= 0:
            os.close(number)


def _in_child() -> None:
    for thing in [*_tasks, *_others]:
        thing._after_fork()


os.register_at_fork(after_in_child=_in_child)
