"""Console consumer: one thread per stream prints; the main thread waits for the end."""

from __future__ import annotations

import logging
import math
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from groundwork.hub import HubStopped
from groundwork.streams import write_stderr
from groundwork.tasks import now
from kafkawire.model import TopicPartition
from zkconsumer.commands import pipes
from zkconsumer.commands.common import INTERRUPTED, print_note
from zkconsumer.commands.messageformat import MessageFormat
from zkconsumer.connector import ConsumerConnector
from zkconsumer.errors import ConsumerError, ConsumerTimeout
from zkconsumer.events import ConsumerEvent, log_event
from zkconsumer.filters import TopicFilter
from zkconsumer.options.config import ConsumerConfig
from zkconsumer.streams.stream import Stream

POLL_S = 0.2  # interval for checking whether the pipe still has a reader
SWITCH_S = 0.0005  # message_format is a tight loop: the hub's thread must get its turns


STOPS = (signal.SIGTERM, signal.SIGHUP)  # a closed terminal sends SIGHUP


class _Enough(Exception):
    """Raised for ctrl-C, SIGTERM or SIGHUP."""


class Console:
    """Printer of the messages of a topic, or of a filter's topics.  Printed messages count as done.

    named: the operator named the group, and gets one note if it starts at the end of a log that holds messages:
    otherwise the command would wait silently although there are messages.
    """

    def __init__(
        self, config: ConsumerConfig, wanted: str | TopicFilter, num_streams: int, release: str, named: bool = False
    ) -> None:
        self._config = config
        self._wanted = wanted
        self._num_streams = num_streams
        self._release = release
        self._ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._turn = threading.Lock()
        self._left: int | None = None
        self.parked: dict[TopicPartition, str] = {}  # at the end: the parked partitions, with the reasons
        self.unread: dict[TopicPartition, str] = {}  # assigned partitions that were not begun, with the reasons
        self._stopping = False
        self._tells_start = named and config.auto_offset_reset == "largest"

    def run(
        self,
        message_format: MessageFormat,
        max_messages: int | None,
        timeout_ms: int | None,
        out: BinaryIO | None = None,
    ) -> None:
        """Print until max_messages, timeout_ms without a message, ctrl-C, or an error of a stream, which is raised.

        Raises KeyboardInterrupt if ctrl-C or SIGTERM came before there were streams.
        """
        sys.setswitchinterval(SWITCH_S)
        to = sys.stdout.buffer if out is None else out
        self._left = max_messages
        threads: list[tuple[threading.Thread, Stream]] = []
        with (
            ConsumerConnector(self._config, "own", release=self._release, on_event=self._on_event) as connector,
            _interrupts(),
        ):
            for number in STOPS:
                if signal.getsignal(number) is not signal.SIG_IGN:  # keep nohup's setting
                    signal.signal(number, _stop)
            try:
                for stream in self._streams(connector):
                    thread = threading.Thread(target=self._read, args=(stream, message_format, to), daemon=True)
                    threads.append((thread, stream))
                    thread.start()
                self._wait(timeout_ms, to)
            except (_Enough, KeyboardInterrupt):
                if not threads:
                    raise KeyboardInterrupt from None
            finally:
                for number in STOPS:
                    signal.signal(number, signal.SIG_IGN)  # the shutdown has begun
                self._note_parked(connector)
                self._stopping = True
                self._give_up(threads)
        for thread, _ in threads:
            thread.join(1.0)
        pipes.close(to)

    def _on_event(self, event: ConsumerEvent) -> None:
        """Handle an event of the consumer, in the event loop."""
        log_event(event)
        if event.tp is not None and event.kind == "unread":
            self.unread[event.tp] = event.text
        if event.kind == "start" and event.offset and self._tells_start:
            self._tells_start = False
            where = self._wanted if isinstance(self._wanted, str) else "its topics"
            print_note(
                f"group {self._config.group_id} starts at the end of {where}, where it has nothing committed; "
                f"--from-beginning reads what is there"
            )

    def _note_parked(self, connector: ConsumerConnector) -> None:
        try:
            owned = connector.status()
            self.parked = {row.tp: row.parked for row in owned if row.parked is not None}
            self.unread = {tp: why for tp, why in self.unread.items() if tp not in {row.tp for row in owned}}
        except (HubStopped, ConsumerError) as gone:  # it ends by an error of its own
            logging.getLogger(__name__).debug("parked partitions are not known: %s", gone)

    def _streams(self, connector: ConsumerConnector) -> list[Stream]:
        if isinstance(self._wanted, str):
            return connector.create_message_streams({self._wanted: self._num_streams})[self._wanted]
        return connector.create_message_streams_by_filter(self._wanted, self._num_streams)

    def _give_up(self, threads: list[tuple[threading.Thread, Stream]]) -> None:
        """Do not wait for messages that threads still have: a thread may hang in a full pipe."""
        idle = self._turn.acquire(timeout=POLL_S)  # otherwise a later run prints the current message again
        for thread, stream in threads:
            stream.give_up(thread.ident or 0)
        if idle:
            self._turn.release()

    def _wait(self, timeout_ms: int | None, to: BinaryIO) -> None:
        """Wait for the end.  Streams put None for each message, and an error, or _Enough, at their end."""
        most_s = math.inf if timeout_ms is None else timeout_ms / 1000
        until = now() + most_s
        while True:
            try:
                said = self._ended.get(timeout=max(0.0, min(POLL_S, until - now())))
            except queue.Empty:
                if now() >= until or pipes.has_no_reader(to):
                    return
                continue
            if said is not None:
                raise said
            until = now() + most_s

    def _read(self, stream: Stream, message_format: MessageFormat, to: BinaryIO) -> None:
        try:
            for message in stream:
                if not self._print(stream, message_format.line(message), to):
                    return
            self._ended.put(_Enough())
        except (ConsumerTimeout, BrokenPipeError):
            self._ended.put(_Enough())
        except BaseException as error:
            self._ended.put(error)
        finally:
            stream.give_up(threading.get_ident())  # the last message was not printed

    def _print(self, stream: Stream, line: bytes, to: BinaryIO) -> bool:
        """Print a message of the stream, which is then done.  Return False if enough was printed before, so this one
        was not."""
        with self._turn:
            if self._stopping or self._left == 0:
                return False
            to.write(line)
            to.flush()
            stream.done()
            if self._left is not None:
                self._left -= 1
            self._ended.put(_Enough() if self._left == 0 else None)
            return True


@contextmanager
def _interrupts() -> Iterator[None]:
    """Let the first ctrl-C shut down in order; a second one ends the process."""

    def first(number: int, frame: object) -> None:
        logging.getLogger("groundwork.hub").setLevel(logging.CRITICAL)  # ignore errors of a start that still runs there
        signal.signal(signal.SIGINT, second)
        raise KeyboardInterrupt

    def second(number: int, frame: object) -> None:
        write_stderr(b"interrupted twice: the session with ZooKeeper ends by its time-out\n")
        os._exit(INTERRUPTED)

    before = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is first:
            signal.signal(signal.SIGINT, before)  # otherwise the process is ending: `second` stays


def _stop(number: int, frame: object) -> None:
    raise _Enough
