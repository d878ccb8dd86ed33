"""Choice between pure Python and compiled (numba) loops over messages in this process, and loading of the compiled
ones.

Pure Python always works; the compiled loops need the extra `fast` (numba), are 10 to 60 times as fast and release the
GIL.

    KAFKAWIRE_KERNELS   auto (default): compiled if numba is installed | python | numba: an error if it is not installed
    KAFKAWIRE_CACHE     folder for compiled kernels; default NUMBA_CACHE_DIR, else kafkawire in the user's cache folder

Compiling takes one to a few seconds per machine; loading takes half a second and 100 MB per process. auto does it in
its own thread once WORTH_BYTES of sets were read message by message, and pure Python runs until then: no ZooKeeper
session waits for a compiler, and programs that copy bytes or read few messages never load one. prepare() waits for it;
so does the interpreter's exit, but not leave().
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
WORTH_BYTES = 32 << 20  # of sets: with small messages, pure Python takes some tenths of a second for them


def name() -> str:
    """Return which loops run: "python", or "numba" and its version, without compiling.  Raises LocalError as compiled()
    does."""
    return f"numba {version_of('numba')}" if _CHOICE.wanted() and _CHOICE.failed is None else "python"


def compiled(nbytes: int = WORTH_BYTES) -> Kernels | None:
    """Return the compiled kernels, or None if pure Python is to run, for now or permanently.

    nbytes: size of the set to be read; the default loads at once.  Raises LocalError if KAFKAWIRE_KERNELS has an
    unknown value, or requires numba and numba does not work.
    """
    return _CHOICE.kernels if _CHOICE.settled else _CHOICE.choose(nbytes)


def ready() -> Kernels | None:
    """Return the compiled kernels if they are loaded already; never loads or raises."""
    return _CHOICE.kernels


def loading() -> bool:
    """True if a thread of this process is loading or compiling the kernels."""
    return _CHOICE.loading


def prepare() -> None:
    """Load or compile the kernels now, if they are to be used, and wait for it (0.3 s to a few seconds).  Raises
    LocalError as compiled() does."""
    _CHOICE.choose()
    _CHOICE.wait()


def leave(code: int) -> NoReturn:
    """End the program with this exit code, also while a thread compiles; the next start compiles again.

    Call it at the end of main(), once everything is closed: atexit functions do not run while a thread compiles.
    """
    if not _CHOICE.loading:
        sys.exit(code)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a pipe without a reader, a closed stream
            if stream is not None:
                stream.flush()
    os._exit(code)


class _Choice:
    """Choice of kernels, made once per process from the environment at the first use.

    Once settled is True, kernels is final.
    """

    def __init__(self) -> None:
        self.kernels: Kernels | None = None
        self.settled = False
        self.failed: str | None = None  # why the compiled kernels do not work here
        self._lock = threading.Lock()
        self._loader: threading.Thread | None = None
        self._seen_bytes = 0

    def wanted(self) -> bool:
        """True if the compiled kernels are to be used."""
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
                self.wanted()  # raises LocalError for an unknown value
            self._seen_bytes += nbytes
            if self._seen_bytes < WORTH_BYTES and not insists:
                return None
            if self._loader is None and not self.settled:
                if not self.wanted():
                    self.settled = True
                    return None
                # Not a daemon thread: the interpreter must not exit while it compiles.
                loader = threading.Thread(target=self._load, name="kafkawire-kernels", daemon=False)
                try:
                    self.failed = None
                    with starting_threads():
                        loader.start()
                    self._loader = loader
                except NoThread as exc:
                    self._seen_bytes = 0  # tried again after as many bytes again
                    self.failed = f"the compiled kernels are not loaded: {exc}"
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
            from kafkawire.formats.compiled import load  # imported here because importing numba takes 0.4 s and 100 MB

            self.kernels = load(cache_folder())
        except Exception as exc:
            self.failed = f"numba {version_of('numba')} does not work here: {type(exc).__name__}: {exc}"
            log.warning("%s; columns are read in pure Python", self.failed)
        self.settled = self.failed is None or not insists


def cache_folder() -> Path | None:
    """Return the folder for compiled kernels, created if missing; None if we cannot write to it, or others can."""
    named = os.environ.get("KAFKAWIRE_CACHE") or os.environ.get("NUMBA_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(named or os.path.join(base, "kafkawire"))
    try:
        make_folder(folder)
        real = folder.resolve()  # a link may lead elsewhere a moment later
        others = other_writer(real)
        if others is not None:
            why: object = f"{others}, and files in it are executed"
        elif os.access(real, os.W_OK | os.X_OK):
            return real
        else:
            why = "it is not writable"
    except OSError as exc:
        why = exc
    log.warning("compiled kernels are not cached in %s: %s; set KAFKAWIRE_CACHE to another folder", folder, why)
    return None


_CHOICE = _Choice()
