"""A fuzzer of decoders: mutated inputs into a function, within limits of time and memory; each is made again from its
target, seed and number.

    Target          a name, valid inputs, the function, the errors it documents
    Fuzzer(...)     .run(first, count) gives inputs to it; raises Found for the first that breaks a rule

The rules: the function returns or raises one of its documented errors; it takes at most `cpu_s` of CPU time between two
pauses for others of its event loop (another load of the machine does not count; what took longer once is tried again),
the process grows by at most `memory_bytes` meanwhile, and it does not end.
A hang in C and the end of the process are found by who started it (tests.fuzz.__main__): the number of the input at
hand stands in memory that both share.
"""

from __future__ import annotations

import gc
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from types import FrameType

from groundwork import pauses
from tests.fuzz.mutations import mutated

CPU_S = 2.0
QUICK_S = 0.05  # for what an event loop reads of strangers
MEMORY_BYTES = 160 << 20  # more than a decoder may allocate for one input, which is at most 64 KiB
TICK_S = 0.25
ENDED_S = 0.5  # CPU time after which an input is ended, at the earliest: what was measured first may come by itself
_KIB = 1024  # ru_maxrss


@dataclass(frozen=True)
class Target:
    """What is fuzzed.  seeds: makes the valid inputs, when the target is used; allowed: its documented errors."""

    name: str
    seeds: Callable[[], Sequence[bytes]]
    call: Callable[[bytes], object]
    allowed: tuple[type[Exception], ...]
    cpu_s: float = CPU_S
    memory_bytes: int = MEMORY_BYTES
    # What takes place once in the process that runs it, such as loading compiled loops.
    prepare: Callable[[], object] = field(default=lambda: None)


class Slow(BaseException):
    """An input took too much CPU time.  No Exception: what is tested may catch those."""


class Found(Exception):
    """A defect: the input, its number, and what happened."""

    def __init__(self, target: Target, seed: int, number: int, data: bytes, why: str) -> None:
        super().__init__(f"{target.name}: seed {seed}, input {number} ({len(data)} bytes): {why}")
        self.target, self.seed, self.number, self.data, self.why = target, seed, number, data, why


class Fuzzer:
    """Inputs of one target in this process, which must have a main thread to take SIGPROF."""

    def __init__(self, target: Target, seed: int, at: Callable[[int], object] = lambda number: None) -> None:
        """at: is told the number of each input before it is used."""
        self.target, self.seed, self._at = target, seed, at
        self.corpus = list(target.seeds())
        self.refused = 0  # inputs that ended in a documented error
        self.slowest = (0.0, -1)  # CPU seconds, and the number of the input
        self._random = Random()
        self._began = 0.0
        self._longest = 0.0  # CPU seconds without a pause, of the input at hand

    def input(self, number: int) -> bytes:
        """The input of a number."""
        self._random.seed(f"{self.target.name} {self.seed} {number}")
        return mutated(self._random, self.corpus)

    def run(self, first: int, count: int, until_cpu_s: float | None = None) -> int:
        """The inputs first..first+count, or until the process has used so much CPU time; how many.  Raises Found."""
        with self._watched():
            for number in range(first, first + count):
                self._at(number)
                self._one(number, self.input(number))
                if until_cpu_s is not None and time.process_time() > until_cpu_s:
                    return number + 1 - first
        return count

    def check(self, data: bytes, number: int = -1) -> None:
        """One input, say of the corpus.  Raises Found."""
        with self._watched():
            self._one(number, data)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Hear of pauses, and of CPU time that passes."""
        before, pausing = signal.signal(signal.SIGPROF, self._tick), pauses._pause
        signal.setitimer(signal.ITIMER_PROF, TICK_S, TICK_S)
        pauses.pauses_are(self._paused)
        try:
            yield
        finally:
            self._began = 0.0
            pauses.pauses_are(pausing)
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)

    def _paused(self) -> None:
        now = time.process_time()
        self._longest, self._began = max(self._longest, now - self._began), now

    def _one(self, number: int, data: bytes) -> None:
        size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        took = self._took(number, data)
        if took > self.target.cpu_s:
            # The machine, or what was loaded first, may have had its part in it: that does not happen twice.
            took = min(took, self._took(number, data))
        self.slowest = max(self.slowest, (took, number))
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - size) * _KIB
        why = ""
        if took > self.target.cpu_s:
            why = f"took more than {self.target.cpu_s} s of CPU time ({took:.3f} s)"
        if grown > self.target.memory_bytes:
            why = f"took {grown >> 20} MiB of memory"
        if why:
            raise Found(self.target, self.seed, number, data, why)

    def _took(self, number: int, data: bytes) -> float:
        """CPU seconds that the function took without a pause, or had taken when it was ended.  Raises Found for a
        foreign error."""
        gc.disable()  # a collection takes as long as all that is loaded here
        self._longest, self._began = 0.0, time.process_time()
        try:
            self.target.call(data)
        except self.target.allowed:
            self.refused += 1
        except Slow:
            pass
        except Exception as exc:  # MemoryError, RecursionError and SystemError, too
            raise Found(self.target, self.seed, number, data, f"{type(exc).__name__}: {str(exc)[:300]}") from exc
        finally:
            self._paused()
            self._began = 0.0
            gc.enable()
        return self._longest

    def _tick(self, signum: int, frame: FrameType | None) -> None:
        if self._began and time.process_time() - self._began > max(self.target.cpu_s, ENDED_S):
            raise Slow
