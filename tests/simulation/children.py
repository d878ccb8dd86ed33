"""Stories of whole mirrors, run in a process of their own: their time is virtual from the first import on.

NAMES = stories("tests.simulation.networkstories")       the functions test_* of a module
told(MODULE, NAME)                                       "" or the traceback of one; all of a module run at once
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import traceback
from functools import cache

LIMIT_S = 1200.0  # a run takes a tenth of it on an idle machine


def stories(module: str) -> list[str]:
    return [name for name in vars(importlib.import_module(module)) if name.startswith("test_")]


def told(module: str, name: str) -> str:
    return _all(module)[name]


@cache
def _all(module: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(printed("tests.simulation.children:tell", module).splitlines()[-1])
    return found


def printed(function: str, *arguments: str) -> str:
    """What MODULE:FUNCTION prints in a process of its own."""
    command = [sys.executable, "-m", "tests.simulation.virtual", function, *arguments]
    ended = subprocess.run(
        command, env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if ended.returncode:
        raise AssertionError(ended.stdout + ended.stderr)
    return ended.stdout


def tell(module: str) -> None:
    """In the child: run them all, and print what each raised."""
    found = {}
    for name in stories(module):
        try:
            getattr(importlib.import_module(module), name)()
            found[name] = ""
        except Exception:
            found[name] = traceback.format_exc()
    print(json.dumps(found))
