"""Running console consumer of the JVM, and what it has printed."""

from __future__ import annotations

import threading

from localkafka.child import Child
from localkafka.errors import LocalKafkaError
from localkafka.waiting import wait_until


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
        """Wait until it has printed at least `count` lines; all its lines."""

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
        """End it with SIGTERM; all its lines."""
        self.child.stop(timeout_s)
        return self._ended()

    def kill(self) -> list[bytes]:
        """End it with SIGKILL, so that its znodes stay until its session expires; all its lines."""
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
