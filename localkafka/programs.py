"""Running a JVM program of any release: its files, its input, its output."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from localkafka import releases
from localkafka.child import Child
from localkafka.client import text_of
from localkafka.errors import LocalKafkaError

_numbers = itertools.count(1)


def work_files(folder: Path, name: str) -> Path:
    """The common path, without suffix, of the files of one run of a program, in tools/ of a cluster's work folder."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    return tools / f"{name}-{threading.get_native_id()}-{next(_numbers)}"


def write_properties(path: Path, values: Mapping[str, object]) -> None:
    path.write_text(releases.properties({key: text_of(value) for key, value in values.items()}), encoding="utf-8")


def feed(child: Child, lines: Iterable[str], timeout_s: float) -> None:
    """Write each line to a producer's standard input, and wait for its end.  Raises LocalKafkaError when it fails or
    logs an error: its exit code does not show that it dropped messages."""
    with child:
        assert child.stdin is not None
        try:
            child.stdin.write("".join(f"{line}\n" for line in lines).encode())
            child.stdin.close()
        except BrokenPipeError:
            pass  # it ended early; its exit code and log show why
        code = child.wait(timeout_s)
        if code != 0 or "ERROR" in child.log.read_text(errors="replace"):
            ended = "still runs" if code is None else f"ended with {code}"
            raise LocalKafkaError(f"{child.name} {ended} and did not send every line; {child.log_end()}")


def printed(child: Child, timeout_s: float) -> str:
    """Wait for a program's end; its standard output.  Raises LocalKafkaError when it fails; kills it after
    timeout_s."""
    with child:
        assert child.stdout is not None
        alarm = threading.Timer(timeout_s, child.kill)
        alarm.start()
        try:
            said = child.stdout.read().decode(errors="replace")
        finally:
            alarm.cancel()
        if child.wait(15) != 0:
            raise LocalKafkaError(f"{child.name} ended with {child.exit_code}: {said[-500:]}\n{child.log_end()}")
    return said


def mirror_arguments(
    work: Path,
    whitelist: str,
    *,
    num_streams: int,
    consumers: Iterable[Mapping[str, object]],
    producer: Mapping[str, object],
) -> list[str]:
    """A MirrorMaker's arguments.  consumers: properties for each source; producer: properties of its producer."""
    argv = ["--whitelist", whitelist, "--num.streams", str(num_streams)]
    for number, consumer in enumerate(consumers):
        path = work.with_suffix(f".consumer{number}")
        write_properties(path, consumer)
        argv += ["--consumer.config", str(path)]
    path = work.with_suffix(".producer")
    write_properties(path, producer)
    return [*argv, "--producer.config", str(path)]
