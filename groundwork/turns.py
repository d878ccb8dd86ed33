"""How long one thread keeps the interpreter from the others while ours have work to do.

CPython lets a thread that computes go on for its switch interval, 5 ms by default, each time another one wants a turn.
A hub wants one for every packet: beside a handler that computes, fetching falls to a fifth and each call to ZooKeeper
takes 0.1 s and more.  With 0.1 ms, reading keeps more than half of its rate.

The interval is the whole process's.  It is ours while some hub in a thread of its own runs, unless the program has
chosen one: any other than the default.
"""

from __future__ import annotations

import sys
import threading

DEFAULT_S = 0.005  # CPython's
SHORT_S = 0.0001

_lock = threading.Lock()
_users = 0
_ours: float | None = None  # as the interpreter says it: rounded


def shorten() -> None:
    """Short turns from now on; each call is answered by one of restore()."""
    global _users, _ours
    with _lock:
        _users += 1
        if _users == 1 and sys.getswitchinterval() == DEFAULT_S:
            sys.setswitchinterval(SHORT_S)
            _ours = sys.getswitchinterval()


def restore() -> None:
    """The last one gives the program its interval back, unless it has set another one meanwhile."""
    global _users, _ours
    with _lock:
        _users -= 1
        if _users == 0:
            if sys.getswitchinterval() == _ours:
                sys.setswitchinterval(DEFAULT_S)
            _ours = None
