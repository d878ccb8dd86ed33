"""A command line of ours asked for its help, which looks at every switch and value before it."""

from __future__ import annotations

import signal
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from unittest.mock import patch

import pytest

OF_PYTHON = Path(sys.executable)


def code_of_help(words: list[str]) -> int:
    """The exit code of a console script of ours, or of `python -m ..`, with --help; what it says goes where ours goes.

    A script runs as its file would run it, but in this process: to start one for each costs half a second.  While loops
    are compiled, for an earlier test, a script would end its process at once (kernels.leave).
    """
    if words[0] == "python":
        return subprocess.run([OF_PYTHON, *words[1:], "--help"], timeout=60, check=False).returncode
    assert OF_PYTHON.with_name(words[0]).is_file()
    (script,) = entry_points(group="console_scripts", name=words[0])
    before = signal.getsignal(signal.SIGINT)
    try:
        with (
            patch.object(sys, "argv", [*words, "--help"]),
            patch("kafkawire.kernels.leave", sys.exit),
            pytest.raises(SystemExit) as ended,
        ):
            script.load()()
    finally:
        signal.signal(signal.SIGINT, before)
    return int(ended.value.code or 0)
