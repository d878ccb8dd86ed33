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

LIMIT_S = 240.0


def stories(module: str) -> list[str]:
    return [name for name in vars(importlib.import_module(module)) if name.startswith("test_")]


def told(module: str, name: str) -> str:
    return _all(module)[name]


@cache
def _all(module: str) -> dict[str, str]:
    command = [sys.executable, "-m", "tests.simulation.virtual", "tests.simulation.children:tell", module]
    ended = subprocess.run(
        command, env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if ended.returncode:
        raise AssertionError(ended.stdout + ended.stderr)
    found: dict[str, str] = json.loads(ended.stdout.splitlines()[-1])
    return found


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
