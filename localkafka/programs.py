"""JVM programs of any release while they run: their files, their input, their output, and a console consumer."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from localkafka import releases
from localkafka.child import Child
from localkafka.client import text_of
from localkafka.errors import LocalKafkaError
from localkafka.waiting import wait_until

_numbers = itertools.count(1)


def work_files(folder: Path, name: str) -> Path:
    """Return the common path, without suffix, of the files of one run of a program, in tools/ of a cluster's work
    folder."""
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
    """Wait for a program's end, and return its standard output.  Raises LocalKafkaError when it fails; kills it after
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


class ConsoleConsumer:
    """A running console consumer; a thread collects its output.

    .lines: printed so far (bytes, without line ends) · wait_for(count) · stop() (SIGTERM: it leaves its group) · kill()
    """

    def __init__(self, child: Child) -> None:
        self.child = child
        self.lines: list[bytes] = []
        self._reader = threading.Thread(target=self._collect, name=f"reader of {child.name}", daemon=True)
        self._reader.start()

    def wait_for(self, count: int, timeout_s: float = 30) -> list[bytes]:
        """Wait until it has printed at least `count` lines, and return all its lines."""

        def there() -> bool:
            if not self.child.running and not self._reader.is_alive() and len(self.lines) < count:
                raise LocalKafkaError(
                    f"{self.child.name} ended with {self.child.exit_code} after {len(self.lines)} of {count} lines; "
                    f"{self.child.log_end()}"
                )
            return len(self.lines) >= count

        wait_until(there, timeout_s, lambda: f"{count} lines, have {len(self.lines)}; {self.child.log_end()}")
        return list(self.lines)

    def stop(self, timeout_s: float = 20) -> list[bytes]:
        """End it with SIGTERM, and return all its lines."""
        self.child.stop(timeout_s)
        return self._ended()

    def kill(self) -> list[bytes]:
        """End it with SIGKILL, so that its znodes stay until its session expires, and return all its lines."""
        self.child.kill()
        return self._ended()

    def __enter__(self) -> ConsoleConsumer:
        return self

    def __exit__(self, *_: object) -> None:
        if self.child.running:
            self.child.kill()
        self._ended()

    def _ended(self) -> list[bytes]:
        self._reader.join(10)
        self.child.close()
        return list(self.lines)

    def _collect(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self.lines.append(line.rstrip(b"\n"))


def mirror_arguments(
    work: Path,
    whitelist: str,
    *,
    num_streams: int,
    consumers: Iterable[Mapping[str, object]],
    producer: Mapping[str, object],
) -> list[str]:
    """Return a MirrorMaker's arguments.  consumers: properties for each source; producer: properties of its
    producer."""
    argv = ["--whitelist", whitelist, "--num.streams", str(num_streams)]
    for number, consumer in enumerate(consumers):
        path = work.with_suffix(f".consumer{number}")
        write_properties(path, consumer)
        argv += ["--consumer.config", str(path)]
    path = work.with_suffix(".producer")
    write_properties(path, producer)
    return [*argv, "--producer.config", str(path)]
