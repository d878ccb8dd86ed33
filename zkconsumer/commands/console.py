"""The console consumer: a thread per stream prints, the main thread waits for the end."""

from __future__ import annotations

import queue
import signal
import sys
import threading
from dataclasses import dataclass
from typing import BinaryIO

from kafkawire.model import Message
from zkconsumer.config import ConsumerConfig
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import ConsumerTimeout
from zkconsumer.filters import TopicFilter
from zkconsumer.stream import Stream

SWITCH_S = 0.0005  # printing is a tight loop: the hub's thread must get its turns (runtime.md, section 1)


@dataclass(frozen=True, slots=True)
class Printing:
    """What is printed of a message, as bytes, null as nothing."""

    key: bool = False
    offset: bool = False

    def line(self, message: Message) -> bytes:
        at = f"{message.topic}/{message.partition} {message.offset}\t".encode() if self.offset else b""
        key = (message.key or b"") + b"\t" if self.key else b""
        return at + key + (message.value or b"") + b"\n"


class _Enough(Exception):
    """Ctrl-C or SIGTERM."""


class Console:
    """Reads a topic, or what a filter lets through, and prints it.  What was printed counts as done."""

    def __init__(self, config: ConsumerConfig, wanted: str | TopicFilter, num_streams: int, release: str) -> None:
        self._config = config
        self._wanted = wanted
        self._num_streams = num_streams
        self._release = release
        self._ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._turn = threading.Lock()
        self._left: int | None = None
        self._stopping = False

    def run(
        self, printing: Printing, max_messages: int | None, timeout_ms: int | None, out: BinaryIO | None = None
    ) -> None:
        """Until so many were printed, none came for so long, ctrl-C, or a stream's error, which is raised."""
        sys.setswitchinterval(SWITCH_S)
        to = sys.stdout.buffer if out is None else out
        self._left = max_messages
        config = self._config
        with ConsumerConnector(config, "own", self._release) as connector:
            signal.signal(signal.SIGTERM, _stop)
            try:
                streams = self._streams(connector)
                threads = [threading.Thread(target=self._read, args=(s, printing, to), daemon=True) for s in streams]
                for thread in threads:
                    thread.start()
                self._wait(timeout_ms)
            except (_Enough, KeyboardInterrupt):
                pass
            finally:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)  # we are leaving already
                self._stopping = True
        for thread in threads:
            thread.join(1.0)
        to.flush()

    def _streams(self, connector: ConsumerConnector) -> list[Stream]:
        if isinstance(self._wanted, str):
            return connector.create_message_streams({self._wanted: self._num_streams})[self._wanted]
        return connector.create_message_streams_by_filter(self._wanted, self._num_streams)

    def _wait(self, timeout_ms: int | None) -> None:
        """The streams say None for each message, and an error, or _Enough, at their end."""
        while True:
            try:
                said = self._ended.get(timeout=None if timeout_ms is None else timeout_ms / 1000)
            except queue.Empty:
                return
            if said is not None:
                raise said

    def _read(self, stream: Stream, printing: Printing, to: BinaryIO) -> None:
        try:
            for message in stream:
                if not self._print(printing.line(message), to):
                    return
                stream.done()
                self._ended.put(None)
            self._ended.put(_Enough())
        except (ConsumerTimeout, BrokenPipeError):
            self._ended.put(_Enough())
        except BaseException as error:
            self._ended.put(error)
        finally:
            stream.give_up(threading.get_ident())  # what is in our hands was not printed

    def _print(self, line: bytes, to: BinaryIO) -> bool:
        """False: enough was printed; this one was not."""
        with self._turn:
            if self._stopping or self._left == 0:
                return False
            to.write(line)
            to.flush()
            if self._left is not None:
                self._left -= 1
                if self._left == 0:
                    self._ended.put(_Enough())
            return True


def _stop(number: int, frame: object) -> None:
    raise _Enough
