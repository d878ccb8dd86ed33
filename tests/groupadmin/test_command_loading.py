"""Console scripts as processes: ctrl-C while one still loads what it runs, and a disk that is full."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

SCRIPTS = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"]["scripts"]
OURS = {name: where for name, where in SCRIPTS.items() if where.startswith(("groupadmin.", "zkconsumer."))}
INTERRUPTING = """
import importlib.abc, os, signal, sys

class CtrlC(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, CtrlC())
import {module}
{module}.{function}()
"""


@pytest.mark.parametrize("name", OURS)
def test_ctrl_c_while_a_script_loads_is_one_word(name: str):
    module, _, function = OURS[name].partition(":")
    script = INTERRUPTING.format(module=module, function=function)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


@pytest.mark.thorough
@pytest.mark.parametrize("name", OURS)
def test_a_full_disk_is_one_sentence(name: str):
    module, _, function = OURS[name].partition(":")
    script = f"import {module}; {module}.{function}()"
    with open("/dev/full", "w") as full:
        argv = [sys.executable, "-c", script, "--help"]
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, timeout=30)
    assert done.returncode == 1
    assert done.stderr == "error: the output cannot be written: No space left on device\n"
