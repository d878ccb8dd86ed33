"""A fuzzer of decoders: mutated inputs into a function, within limits of time and memory; each is made again from its
target, seed and number.

    Target          a name, valid inputs, the function, the errors it documents
    Fuzzer(...)     .run(first, count) gives inputs to it; raises Found for the first that breaks a rule

The rules: the function returns or raises one of its documented errors; it takes at most `cpu_s` of CPU time (another
load of the machine does not count), the process grows by at most `memory_bytes` meanwhile, and it does not end.
A hang in C and the end of the process are found by who started it (tests.fuzz.__main__): the number of the input at
hand stands in memory that both share.
"""

from __future__ import annotations

import resource
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from types import FrameType

from tests.fuzz.mutations import mutated

CPU_S = 2.0
MEMORY_BYTES = 160 << 20  # more than a decoder may allocate for one input, which is at most 64 KiB
TICK_S = 0.25
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
        self._random = Random()
        self._began = 0.0

    def input(self, number: int) -> bytes:
        """The input of a number."""
        self._random.seed(f"{self.target.name} {self.seed} {number}")
        return mutated(self._random, self.corpus)

    def run(self, first: int, count: int, until_cpu_s: float | None = None) -> int:
        """The inputs first..first+count, or until the process has used so much CPU time; how many.  Raises Found."""
        before = signal.signal(signal.SIGPROF, self._tick)
        signal.setitimer(signal.ITIMER_PROF, TICK_S, TICK_S)
        try:
            for number in range(first, first + count):
                self._at(number)
                self._one(number, self.input(number))
                if until_cpu_s is not None and time.process_time() > until_cpu_s:
                    return number + 1 - first
        finally:
            self._began = 0.0
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)
        return count

    def check(self, data: bytes, number: int = -1) -> None:
        """One input, say of the corpus.  Raises Found."""
        before = signal.signal(signal.SIGPROF, self._tick)
        signal.setitimer(signal.ITIMER_PROF, TICK_S, TICK_S)
        try:
            self._one(number, data)
        finally:
            self._began = 0.0
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)

    def _one(self, number: int, data: bytes) -> None:
        size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self._began = time.process_time()
        why = ""
        try:
            self.target.call(data)
        except self.target.allowed:
            self.refused += 1
        except Slow:
            why = f"took more than {self.target.cpu_s} s of CPU time"
        except Exception as exc:  # MemoryError, RecursionError and SystemError, too
            raise Found(self.target, self.seed, number, data, f"{type(exc).__name__}: {str(exc)[:300]}") from exc
        finally:
            self._began = 0.0
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - size) * _KIB
        if grown > self.target.memory_bytes:
            why = f"took {grown >> 20} MiB of memory"
        if why:
            raise Found(self.target, self.seed, number, data, why)

    def _tick(self, signum: int, frame: FrameType | None) -> None:
        if self._began and time.process_time() - self._began > self.target.cpu_s:
            self._began = 0.0
            raise Slow
