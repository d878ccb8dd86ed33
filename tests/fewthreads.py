"""A program that can start no more threads, in a process of its own: root may always, so it becomes another user."""

from __future__ import annotations

import subprocess
import sys
import textwrap

PRELUDE = """
import encodings.idna, gevent, json, os, resource, threading
from groundwork.executor import ThreadExecutor
from groundwork.hub import CallersHub, OwnThread
from groundwork.lookups import addresses
from groundwork.tasks import TaskGroup, deadline, sleep
from groundwork.threads import NoThread

USER = 54321  # one that runs nothing else, and may not read modules: what a hub needs is imported before
gevent.get_hub()

def no_more_threads():
    if os.getuid() == 0:
        os.setuid(USER)  # the limit is none for root
    resource.setrlimit(resource.RLIMIT_NPROC, (1, resource.getrlimit(resource.RLIMIT_NPROC)[1]))

def as_before():
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))
"""


def said(program: str, before: str = "") -> list[str]:
    """Lines that a program prints.  It begins with PRELUDE; before: what comes first, such as imports."""
    code = before + PRELUDE + textwrap.dedent(program)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.splitlines()
