"""Machine of a daemon whose clocks, name servers and disk a row changes while the daemon runs: machine.c, preloaded.

machine = Machine(run.folder)
daemon = run.daemon(env=machine.env)
with machine.silent_names(): ...
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("machine.c")


class Machine:
    """Skips the test where no C compiler is installed.

    env   environment of the processes that run on this machine
    """

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("needs a C compiler: clocks, look-ups and syncs are changed by a library that is preloaded")
        library, self._folder = folder / "machine.so", folder / "machine"
        self._folder.mkdir()
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
        self.env = {"LD_PRELOAD": str(library), "MACHINE": str(self._folder)}

    def set_wall_clock(self, ahead_s: float) -> None:
        """Set the time of day so far ahead of the real one."""
        self._write("wall", ahead_s)

    def slept(self, seconds: float) -> None:
        """The monotonic clock has stood still for so long since the machine was started."""
        self._write("asleep", seconds)

    @contextmanager
    def silent_names(self) -> Iterator[None]:
        """No name server answers in the block: look-ups wait, and fail after 30 s."""
        with self._while("silent", 1):
            yield

    @contextmanager
    def slow_disk(self, seconds: float) -> Iterator[None]:
        """Each sync of a file that begins in the block takes so long."""
        with self._while("slow", seconds):
            yield

    @property
    def waited(self) -> int:
        """Number of look-ups and syncs that had to wait so far."""
        met = self._folder / "met"
        return met.stat().st_size if met.exists() else 0

    @contextmanager
    def _while(self, name: str, value: float) -> Iterator[None]:
        self._write(name, value)
        try:
            yield
        finally:
            (self._folder / name).unlink()

    def _write(self, name: str, value: float) -> None:
        draft = self._folder / f"{name}.new"
        draft.write_text(f"{value:.6f}", encoding="utf-8")
        draft.rename(self._folder / name)
