"""How fast message sets of 0.7 are read in memory, against the original's own reader and our reader of 0.8, in one run.

    python benchmarks/decode07.py [--small] [--count 1000000] [--size 100] [--codecs none,gzip,snappy] [--rounds 5]
        [--json FILE]

One core: each reader is a process of its own that may use no other.  All of them read the same messages in the same
sets of about 1 MiB, checksums on, and end with every message's position and its value as bytes: the original's as its
consumer makes them (Decode07.java; KAFKA_07_HOME names a built 0.7, without it the original is left out), ours by
batches (pieces of columns) with the compiled kernels and without, and one by one.  Seconds are processor time of the
thread that reads: a busy machine does not count, nor does the JVM's collector and compiler.  The best round of each
counts; what each has read is checked: how many, how many bytes, where it ended.

1,000,000 messages/s at 100 bytes are wanted by batches with the kernels.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import click
from common import Report, Run, last_line

from kafkawire import kernels
from kafkawire.dialects import dialect
from kafkawire.model import BrokerPartition, MessageSet
from localkafka.seven import original

CODECS = {"none": 0, "gzip": 1, "snappy": 2}
SET_BYTES = 1 << 20
BATCH = 200  # messages in a wrapper, as a producer makes them
LIMIT_S = 300
WANTED = 1_000_000
# who: (release, way, kernels)
OURS = {
    "batches, numba": ("0.7", "batches", "numba"),
    "batches": ("0.7", "batches", "python"),
    "one by one": ("0.7", "messages", "python"),
    "0.8 batches, numba": ("0.8.2", "batches", "numba"),
    "0.8 batches": ("0.8.2", "batches", "python"),
    "0.8 one by one": ("0.8.2", "messages", "python"),
}
ORIGINAL = "original 0.7 (JVM)"
HERE = Path(__file__).resolve()


def write(path: Path, release: str, values: Sequence[bytes], codec: int) -> int:
    """Sets of about SET_BYTES, each with its size in front; bytes of all of them without these."""
    spoken, pieces, size, total = dialect(release), [], 0, 0
    with path.open("wb") as file:
        for at in range(0, len(values), BATCH):
            rows = [(n, None, value, None) for n, value in enumerate(values[at : at + BATCH], at)]
            pieces.append(spoken.messages.encode(rows, codec, spoken.magic))
            size += len(pieces[-1])
            if size >= SET_BYTES or at + BATCH >= len(values):
                file.write(size.to_bytes(4, "big"))
                file.writelines(pieces)
                pieces, size, total = [], 0, total + size
    return total


def read_sets(path: Path) -> list[memoryview]:
    data, at, sets = memoryview(path.read_bytes()), 0, []
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        sets.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return sets


# ---- our readers, each in a process of its own -----------------------------------------------------------------


def by_batches(found: MessageSet) -> Iterator[tuple[int, int]]:
    for piece in found.pieces():
        if piece.damage is not None:
            raise piece.damage
        values = piece.values()
        yield len(piece), sum(map(len, values))  # type: ignore[arg-type]


def one_by_one(found: MessageSet) -> Iterator[tuple[int, int]]:
    for message in found.messages():
        yield 1, len(message.value or b"")


WAYS = {"batches": by_batches, "messages": one_by_one}


def read_ours(release: str, way: str, path: Path, rounds: int) -> dict[str, float]:
    """What the best of the rounds took."""
    kernels.prepare()
    spoken, read, sets = dialect(release), WAYS[way], read_sets(path)
    partition = BrokerPartition(0, 0) if spoken.partitions_by_broker else 0
    best = float("inf")
    for _ in range(rounds):
        messages = octets = reached = 0
        began = time.thread_time()
        for data in sets:
            found, _ = spoken.messages.message_set("bench", partition, reached, data, None)
            for count, size in read(found):
                messages += count
                octets += size
            reached = found.resume_at
        best = min(best, time.thread_time() - began)
    return {"messages": messages, "bytes": octets, "reached": reached, "seconds": best}


# ---- the run ---------------------------------------------------------------------------------------------------


def run(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """What it printed last; it may use one core only.  SystemExit where it failed."""
    core = min(os.sched_getaffinity(0))
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env={**os.environ, **environment},
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:3])}: {last_line(done.stderr, 'ended without a word')}")
    return done.stdout.splitlines()[-1]


def ours(who: str, path: Path, rounds: int) -> dict[str, float]:
    release, way, kernels = OURS[who]
    command = [sys.executable, str(HERE), "--read", release, way, str(path), str(rounds)]
    found: dict[str, float] = json.loads(run(command, {"KAFKAWIRE_KERNELS": kernels}))
    return found


def originals(folder: Path, path: Path, rounds: int) -> dict[str, float]:
    """Its compiled loops need some rounds to become what they will be: three times as many."""
    full = ("-Xmx1g", "-XX:+UseSerialGC")
    source = HERE.with_name("Decode07.java")
    command = original.command(
        "Decode07", [str(path), str(3 * rounds)], folder, flags=full, level="WARN", source=source
    )
    messages, octets, reached, seconds = run(command, {}).split()
    return {"messages": int(messages), "bytes": int(octets), "reached": int(reached), "seconds": float(seconds)}


def absent() -> str:
    """Why the original cannot take part."""
    return "" if original.home() else f"{original.HOME} is not set"


def measure(report: Report, folder: Path, codec: str, count: int, size: int, rounds: int) -> None:
    draw = random.Random(7)
    # Half of a value is the same in all of them: else nothing could be compressed.
    values = [draw.randbytes(size - size // 2) + bytes(size // 2) for _ in range(count)]
    paths = {release: folder / f"{codec}-{release}" for release in ("0.7", "0.8.2")}
    ends = {release: write(path, release, values, CODECS[codec]) for release, path in paths.items()}
    ends["0.8.2"] = count
    readers: dict[str, tuple[str, Callable[[], dict[str, float]]]] = {}
    for who, (release, _, _) in OURS.items():
        readers[who] = release, partial(ours, who, paths[release], rounds)
    if ORIGINAL not in report.absent:
        readers[ORIGINAL] = "0.7", partial(originals, folder, paths["0.7"], rounds)
    for who, (release, read) in readers.items():
        found = read()
        right = (found["messages"], found["bytes"], found["reached"]) == (count, count * size, ends[release])
        report.add(Run(codec, who, int(found["messages"]), size, cpu_s=found["seconds"], checked=right))
    for who, (release, _, _) in OURS.items():
        if release == "0.7":
            report.compare(codec, who, ORIGINAL)
            report.compare(codec, who, f"0.8 {who}")


@click.command()
@click.option("--small", is_flag=True, help="A tenth of the messages, to try the benchmark itself.")
@click.option("--count", default=1_000_000, help="Messages.")
@click.option("--size", default=100, help="Bytes of a value.")
@click.option("--codecs", default="none,gzip,snappy", help="none, gzip, snappy; none is always read.")
@click.option("--rounds", default=5, help="How often each reads all of them; the best counts.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="File for runs and figures as JSON.")
def main(small: bool, count: int, size: int, codecs: str, rounds: int, file: Path | None) -> None:
    """Read the same messages in memory with our decoders and with the original's, and print the ratios."""
    count = count // 10 if small else count
    report = Report("decode07", short=small)
    if absent():
        report.absent[ORIGINAL] = absent()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for codec in dict.fromkeys(["none", *codecs.split(",")]):
            measure(report, Path(folder), codec, count, size, rounds)
    rate = report.median("none", "batches, numba", "per_cpu_s")
    assert rate is not None
    report.figure("none", "million messages a CPU second", rate / 1e6, target=WANTED / 1e6, who="batches, numba")
    report.end(file)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        print(json.dumps(read_ours(sys.argv[2], sys.argv[3], Path(sys.argv[4]), int(sys.argv[5]))))
    else:
        main()
