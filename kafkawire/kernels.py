"""Which form of the loops over messages runs in this process: pure Python, or compiled (numba), and loading the latter.

The pure Python form always works; the compiled one comes with the extra `fast` (numba), is 10 to 60 times as quick and
holds no GIL.

    KAFKAWIRE_KERNELS   auto (default): compiled where numba is installed | python | numba: an error where it is not
    KAFKAWIRE_CACHE     folder for what was compiled; default NUMBA_CACHE_DIR, else kafkawire in the user's cache folder

Compiling takes a second or a few, once a machine; loading half a second and 100 MB, once a process.  auto does it in a
thread of its own once sets of WORTH_BYTES were looked at message by message, and the pure form runs until it is done:
no ZooKeeper session waits for a compiler, and what copies bytes, or reads a few messages, never loads one.  prepare()
waits; so does the interpreter's exit, but not leave().
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from groundwork.durable import make_folder
from groundwork.folders import other_writer
from groundwork.installed import version_of
from groundwork.threads import NoThread, starting_threads
from kafkawire.errors import LocalError

if TYPE_CHECKING:
    from kafkawire.formats.compiled import Kernels

log = logging.getLogger(__name__)

CHOICES = ("auto", "python", "numba")
WORTH_BYTES = 32 << 20  # of sets: of small messages they take the pure form some tenths of a second


def name() -> str:
    """Which form runs: "python", or "numba" and its version.  LocalError as compiled() has it.  Compiles nothing."""
    return f"numba {version_of('numba')}" if _CHOICE.wanted() and _CHOICE.failed is None else "python"


def compiled(nbytes: int = WORTH_BYTES) -> Kernels | None:
    """The compiled form, or None where the pure one is to run, for now or for good.

    nbytes: of the set that is going to be looked at; the default loads at once.
    LocalError when KAFKAWIRE_KERNELS is none of its values, or asks for numba and there is none that works.
    """
    return _CHOICE.kernels if _CHOICE.settled else _CHOICE.choose(nbytes)


def ready() -> Kernels | None:
    """The compiled form if it is loaded already; loads nothing and raises nothing."""
    return _CHOICE.kernels


def loading() -> bool:
    """Whether a thread of this process loads or compiles the compiled form now."""
    return _CHOICE.loading


def prepare() -> None:
    """Load or compile now, where that is wanted; waits for it (0.3 s to a few seconds).  LocalError as compiled()."""
    _CHOICE.choose()
    _CHOICE.wait()


def leave(code: int) -> NoReturn:
    """End the program with this exit code; a compiler at work ends with it, whose work is done at the next start.

    For the end of main(), once all is done and closed: functions of atexit do not run beside a compiler.
    """
    if not _CHOICE.loading:
        sys.exit(code)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a pipe without a reader, a closed stream
            if stream is not None:
                stream.flush()
    os._exit(code)


class _Choice:
    """Made once a process, by the environment as it is at the first use.

    settled moves to True once and for all: kernels is then what runs.
    """

    def __init__(self) -> None:
        self.kernels: Kernels | None = None
        self.settled = False
        self.failed: str | None = None  # why the compiled form does not work here
        self._lock = threading.Lock()
        self._loader: threading.Thread | None = None
        self._seen_bytes = 0

    def wanted(self) -> bool:
        """Whether the compiled form is to run."""
        name = os.environ.get("KAFKAWIRE_KERNELS", "") or "auto"
        if name not in CHOICES:
            raise LocalError(f"KAFKAWIRE_KERNELS={name}: known are {', '.join(CHOICES)}")
        there = name != "python" and importlib.util.find_spec("numba") is not None
        if name == "numba" and not there:
            raise LocalError(
                "KAFKAWIRE_KERNELS=numba: numba is not installed; the extra kafka-legacy-mirror[fast] has it"
            )
        return there

    def choose(self, nbytes: int = WORTH_BYTES) -> Kernels | None:
        insists = os.environ.get("KAFKAWIRE_KERNELS") == "numba"
        with self._lock:
            if not self._seen_bytes:
                self.wanted()  # LocalError for a value that is none
            self._seen_bytes += nbytes
            if self._seen_bytes < WORTH_BYTES and not insists:
                return None
            if self._loader is None and not self.settled:
                if not self.wanted():
                    self.settled = True
                    return None
                # No daemon: the interpreter must not go away under a compiler at work.
                loader = threading.Thread(target=self._load, name="kafkawire-kernels", daemon=False)
                try:
                    self.failed = None
                    with starting_threads():
                        loader.start()
                    self._loader = loader
                except NoThread as exc:
                    self._seen_bytes = 0  # tried again after as many more
                    self.failed = f"the compiled form is not loaded: {exc}"
                    log.warning("%s; columns are read in pure Python", self.failed)
        if insists:
            self.wait()
            if self.failed is not None:
                raise LocalError(f"KAFKAWIRE_KERNELS=numba: {self.failed}")
        return self.kernels

    @property
    def loading(self) -> bool:
        return self._loader is not None and self._loader.is_alive()

    def wait(self) -> None:
        if self._loader is not None:
            self._loader.join()

    def _load(self) -> None:
        insists = os.environ.get("KAFKAWIRE_KERNELS") == "numba"
        try:
            from kafkawire.formats.compiled import load  # here: importing numba takes 0.4 s and 100 MB

            self.kernels = load(cache_folder())
        except Exception as exc:
            self.failed = f"numba {version_of('numba')} does not work here: {type(exc).__name__}: {exc}"
            log.warning("%s; columns are read in pure Python", self.failed)
        self.settled = self.failed is None or not insists


def cache_folder() -> Path | None:
    """The folder for what was compiled, made where it is missing; None if we cannot write there, or others can."""
    named = os.environ.get("KAFKAWIRE_CACHE") or os.environ.get("NUMBA_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(named or os.path.join(base, "kafkawire"))
    try:
        make_folder(folder)
        real = folder.resolve()  # a link may lead elsewhere a moment later
        others = other_writer(real)
        if others is not None:
            why: object = f"{others}, and what is kept there is run"
        elif os.access(real, os.W_OK | os.X_OK):
            return real
        else:
            why = "it is not writable"
    except OSError as exc:
        why = exc
    log.warning("compiled kernels are not kept in %s: %s; KAFKAWIRE_CACHE names another folder", folder, why)
    return None


_CHOICE = _Choice()
