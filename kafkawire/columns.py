"""A message set as columns: where the offsets, keys and values of its messages stand, without an object a message.

    columns = message_set.index()
    columns.offsets[n]                                          of message n
    columns.data[columns.value_at[n] :][: columns.value_size[n]]    its value; a size of -1 is null
    columns.values()                                            all of them as bytes

There are two forms of what finds them, with the same results (tests hold them equal).  The pure Python form always
works; the compiled one comes with the extra `fast` (numba), is 10 to 60 times as quick and holds no GIL.

    KAFKAWIRE_KERNELS   auto (default): compiled where numba is installed | python | numba: an error where it is not
    KAFKAWIRE_CACHE     folder for what was compiled; default NUMBA_CACHE_DIR, else kafkawire in the user's cache folder

Compiling takes a second or a few, once a machine.  auto does it in a thread of its own at the first index(), and the
pure form runs until it is done: nobody who holds a session waits for a compiler.  prepare() waits.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import stat
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from kafkawire.errors import CorruptMessage, LocalError
from kafkawire.neighbours import column
from kafkawire.primitives import Bytes

if TYPE_CHECKING:
    from kafkawire.kernels import Kernels

log = logging.getLogger(__name__)

Column = Sequence[int]
CHOICES = ("auto", "python", "numba")


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The messages of one set, from its start on, as columns of equal length.

    A column is a list, a range, or a memoryview of int64 where the compiled form made it: all are indexed, sliced and
    iterated alike, list(column) is a list of ints, and numpy.asarray(column) of the last copies nothing.
    """

    offsets: Column
    key_at: Column  # first byte in data
    key_size: Column  # -1: null
    value_at: Column
    value_size: Column  # -1: null
    timestamps_ms: Column | None  # None where no message has one (format v0); -1 for a message without
    timestamp_types: Column | None  # 0 as created, 1 as appended, -1 for a message without; None as timestamps_ms
    data: Bytes  # what the positions point into: the set's plain entries and what its wrappers hold, opened
    resume_at: int  # what to commit once all of these are done
    damage: CorruptMessage | None  # what messages() would raise behind the last of them

    def __len__(self) -> int:
        return len(self.offsets)

    def keys(self) -> list[bytes | None]:
        return cut(self.data, self.key_at, self.key_size)

    def values(self) -> list[bytes | None]:
        return cut(self.data, self.value_at, self.value_size)


def cut(data: Bytes, starts: Column, sizes: Column) -> list[bytes | None]:
    """The slices of data that begin and are as large as said; None for a size of -1."""
    quick = ready()
    if quick is not None and isinstance(starts, memoryview) and isinstance(sizes, memoryview):
        of_one_size = quick.cut(data, starts, sizes)
        if of_one_size is not None:
            return of_one_size
    # Most topics have no nulls, or nothing but nulls, as keys.
    sizes = as_list(sizes)
    if sizes.count(-1) == len(sizes):
        return [None] * len(sizes)
    if isinstance(starts, range) and sizes[0] >= 0:
        return _evenly_cut(data, starts, sizes[0])  # such starts are those of entries that are all alike
    starts, data = as_list(starts), bytes(data)  # lists are walked faster than memoryviews, bytes sliced faster
    if min(sizes) >= 0:
        return [data[at : at + size] for at, size in zip(starts, sizes, strict=True)]
    return [data[at : at + size] if size >= 0 else None for at, size in zip(starts, sizes, strict=True)]


def _evenly_cut(data: Bytes, starts: range, size: int) -> list[bytes | None]:
    """Equal slices at equal distances."""
    view = memoryview(data)[starts[0] : starts[-1] + size]
    found = column(f"{size}s{starts.step - size}x", view[: (len(starts) - 1) * starts.step])
    found.append(bytes(view[-size:]) if size else b"")
    return found


def as_list(column: Column) -> list[int]:
    """A column as a list: itself where it is one."""
    if isinstance(column, memoryview):
        return column.tolist()
    return column if isinstance(column, list) else list(column)


# ---- which form runs -------------------------------------------------------------------------------------------


def kernels() -> str:
    """Which form runs: "python", or "numba" and its version.  LocalError as compiled() has it.  Compiles nothing."""
    return f"numba {version('numba')}" if _CHOICE.wanted() and _CHOICE.failed is None else "python"


def compiled() -> Kernels | None:
    """The compiled form, or None where the pure one is to run, for now or for good.

    LocalError when KAFKAWIRE_KERNELS is none of its values, or asks for numba and there is none that works.
    """
    return _CHOICE.kernels if _CHOICE.settled else _CHOICE.choose()


def ready() -> Kernels | None:
    """The compiled form if it is loaded already; loads nothing and raises nothing."""
    return _CHOICE.kernels


def prepare() -> None:
    """Load or compile now, where that is wanted; waits for it (0.3 s to a few seconds).  LocalError as compiled()."""
    _CHOICE.choose()
    _CHOICE.wait()


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

    def choose(self) -> Kernels | None:
        insists = os.environ.get("KAFKAWIRE_KERNELS") == "numba"
        with self._lock:
            if self._loader is None and not self.settled:
                if not self.wanted():
                    self.settled = True
                    return None
                # No daemon: the interpreter must not go away under a compiler at work.
                self._loader = threading.Thread(target=self._load, name="kafkawire-kernels", daemon=False)
                self._loader.start()
        if insists:
            self.wait()
            if self.failed is not None:
                raise LocalError(f"KAFKAWIRE_KERNELS=numba: {self.failed}")
        return self.kernels

    def wait(self) -> None:
        if self._loader is not None:
            self._loader.join()

    def _load(self) -> None:
        insists = os.environ.get("KAFKAWIRE_KERNELS") == "numba"
        try:
            from kafkawire.kernels import load  # here: importing numba takes 0.4 s and 100 MB

            self.kernels = load(cache_folder())
        except Exception as exc:
            self.failed = f"numba {version('numba')} does not work here: {type(exc).__name__}: {exc}"
            log.warning("%s; columns are read in pure Python", self.failed)
        self.settled = self.failed is None or not insists


def cache_folder() -> Path | None:
    """The folder for what was compiled, made where it is missing; None when we cannot write there, or everybody can."""
    named = os.environ.get("KAFKAWIRE_CACHE") or os.environ.get("NUMBA_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(named or os.path.join(base, "kafkawire"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.stat().st_mode & stat.S_IWOTH:
            why: object = "anybody may write there, and what is kept there is run"
        elif os.access(folder, os.W_OK | os.X_OK):
            return folder
        else:
            why = "it is not writable"
    except OSError as exc:
        why = exc
    log.warning("compiled kernels are not kept in %s: %s; KAFKAWIRE_CACHE names another folder", folder, why)
    return None


_CHOICE = _Choice()
