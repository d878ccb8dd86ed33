"""Disks without room, or that may only be read: a small tmpfs in a mount namespace of a child process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

SIZE = "64k"
FILLER = "filler"
ROOT = Path(__file__).parents[1]
MOUNT = f'mount -t tmpfs -o size={SIZE},mode=700 tmpfs "$1" && shift && exec "$@"'


def on_a_small_disk(act: Callable[[Path], object], folder: Path) -> None:
    """Run act(folder), a function of a module, in a child process where the folder is a small disk of its own."""
    inside = ["unshare", "-m", "sh", "-c", MOUNT, "sh", str(folder)]
    if subprocess.run([*inside, "true"], capture_output=True, timeout=30).returncode:
        pytest.skip("needs a mount namespace (root)")
    code = f"from pathlib import Path; from {act.__module__} import {act.__name__} as act; act(Path({str(folder)!r}))"
    done = subprocess.run([*inside, sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0, done.stderr


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """In the child: no byte is left on the disk."""
    filler = folder / FILLER
    with filler.open("ab", buffering=0) as out:
        for size in (4096, 1):
            with suppress(OSError):
                while True:
                    out.write(bytes(size))
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """In the child: the disk takes no write, as after an error of the device.  No file may be open for writing."""
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if each.name != FILLER)
