"""Fuzz all targets, each in a process of its own.

    python -m tests.fuzz --inputs 1000000               so many inputs for each
    python -m tests.fuzz --minutes 10                   for so long in all, shared equally
    python -m tests.fuzz --inputs 3000 --cpu-s 20       whichever comes first: inputs of each, or CPU seconds in all
    python -m tests.fuzz --only set-v2 --seed 7 --first 1234 --inputs 1         one input again

A defect is written to a folder (--failed), with the command that makes the same input; the others go on, and the exit
code is 1.  What it found belongs into tests/fuzz/corpus/TARGET/, which test_corpus.py gives to the target ever after.
"""

from __future__ import annotations

import argparse
import logging
import mmap
import multiprocessing
import resource
import struct
import sys
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

from tests.fuzz.engine import Found, Fuzzer
from tests.fuzz.targets import TARGETS

ADDRESS_SPACE = 3 << 30  # more than what is loaded: an allocation beyond it is a MemoryError
SILENT_S = 120.0  # without a new input: a hang that no signal reaches
_AT = struct.Struct("q")


def main() -> int:
    given = _arguments()
    names = given.only or list(TARGETS)
    if unknown := set(names) - TARGETS.keys():
        sys.exit(f"there is no target {', '.join(sorted(unknown))}: {', '.join(TARGETS)}")
    seed = given.seed if given.seed is not None else int(time.time())
    cpu_s = 60 * given.minutes / len(names) if given.minutes else given.cpu_s / len(names) if given.cpu_s else None
    inputs = given.inputs or (1 << 40 if cpu_s else 1000)
    found = [name for name in names if not _fuzzed(name, seed, given.first, inputs, cpu_s=cpu_s, failed=given.failed)]
    print(f"seed {seed}: {len(names) - len(found)} of {len(names)} targets without a defect", flush=True)
    return 1 if found else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz decoders, readers and servers.")
    parser.add_argument("--inputs", type=int, help="inputs of each target")
    parser.add_argument("--minutes", type=float, help="CPU minutes of all targets together")
    parser.add_argument("--cpu-s", type=float, help="the same in seconds")
    parser.add_argument("--seed", type=int, help="default: the time")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--only", nargs="*", metavar="TARGET", help="these targets")
    parser.add_argument("--failed", type=Path, default=Path("build/fuzz"), help="folder for inputs that found a defect")
    return parser.parse_args()


def _fuzzed(name: str, seed: int, first: int, inputs: int, *, cpu_s: float | None, failed: Path) -> bool:
    """Run one target in a child and print a line; whether it had no defect."""
    at = mmap.mmap(-1, _AT.size)
    ours, theirs = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(
        target=_child, args=(name, seed, first, inputs, cpu_s, at, theirs)
    )
    child.start()
    theirs.close()
    number, since, why = -1, time.monotonic(), ""
    while not ours.poll(1.0):
        now = _AT.unpack(at[:])[0]
        if now != number:
            number, since = now, time.monotonic()
        elif time.monotonic() - since > SILENT_S:
            child.kill()
            why = f"no end after {SILENT_S:g} s, and no signal reached it"
            break
    try:
        said = ours.recv() if not why else None
    except EOFError:
        said = None
    child.join()
    if isinstance(said, str):
        print(said, flush=True)
        return True
    number, data, text = said or (_AT.unpack(at[:])[0], None, why or f"the process ended with {child.exitcode}")
    if data is None:
        data = Fuzzer(TARGETS[name], seed).input(number)
    failed.mkdir(parents=True, exist_ok=True)
    place = failed / f"{name}-{seed}-{number}"
    place.write_bytes(data)
    again = f"python -m tests.fuzz --only {name} --seed {seed} --first {number} --inputs 1"
    place.with_name(f"{place.name}.txt").write_text(f"{again}\n\n{text}\n")
    print(
        f"{name:22} DEFECT at input {number}: {text.strip().splitlines()[-1][:300]}\n    {place}: {again}", flush=True
    )
    return False


def _child(name: str, seed: int, first: int, inputs: int, cpu_s: float | None, at: mmap.mmap, out: Connection) -> None:
    logging.disable(logging.CRITICAL)
    target = TARGETS[name]

    def note(number: int) -> None:
        at[:] = _AT.pack(number)

    try:
        target.prepare()
        resource.setrlimit(resource.RLIMIT_AS, (_address_space() + ADDRESS_SPACE,) * 2)
        fuzzer = Fuzzer(target, seed, note)
        began = time.process_time()
        done = fuzzer.run(first, inputs, None if cpu_s is None else began + cpu_s)
        took = time.process_time() - began
        each = f"{1e6 * took / max(1, done):,.0f} us"
        slowest = f"{1e3 * fuzzer.slowest[0]:.1f} ms the slowest ({fuzzer.slowest[1]})"
        counts = f"{done:>9,} inputs, {fuzzer.refused:>9,} refused, {took:6.1f} CPU s"
        out.send(f"{name:22} {counts}, {each:>9} each, {slowest}")
    except Found as found:
        why = "".join(traceback.format_exception(found.__cause__, limit=-8)) if found.__cause__ else ""
        out.send((found.number, found.data, f"{why}\n{found}"))


def _address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    sys.exit(main())
