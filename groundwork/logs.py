"""Logging for operators: one line per event on stderr; repeated lines are counted instead of written.

    time=2014-03-07T09:15:02.114+0000 level=warning at=zkconsumer.session.lease msg="..."      a terminal or a file
    <4>at=zkconsumer.session.lease msg="..."                                   the journal, which knows the time
    {"time": "2014-03-07T09:15:02.114+0000", "level": "warning", "at": "...", "msg": "..."}    form json, everywhere

A daemon writes them in a thread (LogThread): lines that are not read are left out and counted.

Lines that an alert is for have a name: extra={"event": "parked", "topic": ..., "partition": ..., "offset": ...} adds
event=parked topic=orders partition=3 offset=17 before msg (FIELDS; what is None is left out).  Bytes of messages are
never logged.

A traceback follows its line, each line of it with the same priority; so do the lines of extra={"below": [...]}.
"""

from __future__ import annotations

import atexit
import io
import json
import logging
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, TextIO

from groundwork.forks import not_in_a_fork
from groundwork.sentences import printable
from groundwork.threads import NoThread, starting_threads

LEVELS = ("debug", "info", "warning", "error")
FORMS = ("logfmt", "json")
FIELDS = ("event", "source", "topic", "partition", "offset")  # of a record's extra, in a line that has them
PER_MINUTE = 5
WINDOW_S = 60.0
KAZOO = "kazoo.client"
KAZOO_LEVELS = {"debug": logging.DEBUG}
READER_TIMEOUT_S = 1.0
WAITING_BYTES = 1 << 20  # of text that a LogThread keeps until it is read


def set_up_logging(
    level: str = "info", form: str = "logfmt", stream: TextIO | None = None, worker: int | None = None
) -> logging.Handler:
    """Send the program's log to stderr (or `stream`), in one of FORMS, limited by RateLimit; ValueError for others.

    worker: number of this process among several that write to one log; each line names it (worker=2).

    Replaces what an earlier call set up.  Returns the handler, so that a test can remove it.
    """
    if level not in LEVELS or form not in FORMS:
        raise ValueError(
            f"log level is one of {', '.join(LEVELS)} and form one of {', '.join(FORMS)}, not {level}, {form}"
        )
    root = logging.getLogger()
    for old in [handler for handler in root.handlers if isinstance(handler.formatter, LineFormatter)]:
        root.removeHandler(old)
    out = stream if stream is not None else sys.stderr
    handler = LimitedHandler(out)
    handler.setFormatter(LineFormatter(form, in_journal=goes_to_journal(out), worker=worker))
    root.addHandler(handler)
    set_level(level)
    return handler


def set_level(level: str) -> None:
    """Set the lowest of LEVELS that is logged.  Raises ValueError for others."""
    if level not in LEVELS:
        raise ValueError(f"log level is one of {', '.join(LEVELS)}, not {level}")
    logging.getLogger().setLevel(level.upper())
    logging.getLogger("kazoo").setLevel(KAZOO_LEVELS.get(level, logging.ERROR))


def current_level() -> str:
    """Return the level of the program's log now."""
    return logging.getLevelName(logging.getLogger().level).lower()


class KazooLog(logging.LoggerAdapter[logging.Logger]):
    """Logger for our ZooKeeper clients, which lowers kazoo's levels: kazoo warns at each failed connect.

    The client's owner logs once that ZooKeeper cannot be reached.  So kazoo's information and warnings become debug
    lines, its debug lines go one level lower, and its errors stay errors.
    """

    def __init__(self) -> None:
        super().__init__(logging.getLogger(KAZOO))

    def log(self, level: int, msg: object, *args: object, **named: Any) -> None:
        lowered = level if level >= logging.ERROR else logging.DEBUG if level >= logging.INFO else logging.DEBUG // 2
        super().log(lowered, msg, *args, **named)


def write_now(at: str, level: int, text: str, below: Iterable[str] = (), *, out: int = 2) -> None:
    """Write a line, and more lines below it, to standard error at once, without locks or limits: for signal handlers.

    A signal handler interrupts the main thread anywhere, also while it holds the lock of a log handler.  When the
    reader of standard error has stopped, the rest is dropped after READER_TIMEOUT_S: it must not delay the end of the
    process.
    """
    record = logging.makeLogRecord(
        {"name": at, "levelno": level, "levelname": logging.getLevelName(level), "msg": text}
    )
    record.below = list(below)
    clear = b"\r\x1b[K" if os.isatty(out) else b""  # of a status line
    data = memoryview(clear + _formatted(record))
    with suppress(OSError):  # a terminal that is gone, a pipe without a reader: what the caller does next matters more
        while data and select.select([], [out], [], READER_TIMEOUT_S)[1]:
            data = data[os.write(out, data[: select.PIPE_BUF]) :]


def _formatted(record: logging.LogRecord) -> bytes:
    """Return a line as the program's log has them."""
    used = [handler.formatter for handler in logging.getLogger().handlers]
    formatter = next((each for each in used if isinstance(each, LineFormatter)), None) or LineFormatter()
    return formatter.format(record).encode(errors="backslashreplace") + b"\n"


def goes_to_journal(stream: TextIO) -> bool:
    """True if `stream` is the one that systemd named in JOURNAL_STREAM (device:inode); a child's pipe is not."""
    named = os.environ.get("JOURNAL_STREAM", "")
    try:
        stat = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return named == f"{stat.st_dev}:{stat.st_ino}"


class LineFormatter(logging.Formatter):
    """Formats a record as described in the module."""

    def __init__(self, form: str = "logfmt", in_journal: bool = False, worker: int | None = None) -> None:
        super().__init__()
        self._process = {} if worker is None else {"worker": worker}
        self._form = form
        self._in_journal = in_journal

    def format(self, record: logging.LogRecord) -> str:
        fields = self._fields(record)
        below: list[str] = getattr(record, "below", [])
        if self._form == "json":
            if record.exc_info:
                fields["traceback"] = self.formatException(record.exc_info)
            if below:
                fields["below"] = "\n".join(below)
            return self._prefix(record) + json.dumps(fields)
        lines = [" ".join(f"{name}={_word(value)}" for name, value in fields.items())]
        if record.exc_info:
            lines += ["  " + printable(line) for line in self.formatException(record.exc_info).splitlines()]
        lines += ["  " + printable(line, keep="\t") for line in below]
        return "\n".join(self._prefix(record) + line for line in lines)

    def _fields(self, record: logging.LogRecord) -> dict[str, str | int]:
        named = {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}
        whole = {name: value if isinstance(value, int) else str(value) for name, value in named.items()}
        fields = {"at": record.name, **self._process, **whole, "msg": record.getMessage()}
        if self._in_journal and self._form != "json":
            return fields
        at = time.localtime(record.created)
        when = time.strftime("%Y-%m-%dT%H:%M:%S", at) + f".{int(record.msecs):03d}" + time.strftime("%z", at)
        return {"time": when, "level": record.levelname.lower(), **fields}

    def _prefix(self, record: logging.LogRecord) -> str:
        if not self._in_journal:
            return ""
        syslog = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}
        return f"<{syslog.get(record.levelno, 6)}>"


def _word(value: str | int) -> str:
    value = str(value)
    plain = value and value.isprintable() and not any(c in value for c in ' "=\\')
    return value if plain else printable(json.dumps(value, ensure_ascii=False))


@dataclass(slots=True)
class _Window:
    began: float
    last: logging.LogRecord
    shown: int = 0
    suppressed: int = 0


class RateLimit(logging.Filter):
    """Limits the log to `per_minute` lines per key and minute, followed by one line with the count of the rest.

    The key is the caller's extra={"key": ("start", tp)}, else the unformatted message with all arguments but plain
    numbers: "try 7 of orders/3" repeats "try 6 of orders/3" and not that of orders/4.  Each logger has its own keys.
    The count is written before the first line after that minute, or by `flush`.  Critical lines, and those with
    extra={"always": True}, are never suppressed.

    emit  receives the record with the count
    """

    def __init__(
        self,
        emit: Callable[[logging.LogRecord], object],
        per_minute: int = PER_MINUTE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._emit = emit
        self._per_minute = per_minute
        self._clock = clock
        self._windows: dict[object, _Window] = {}  # in the order they began
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "is_count", False) or getattr(record, "always", False) or record.levelno >= logging.CRITICAL:
            return True
        key = (record.name, getattr(record, "key", None) or _default_key(record))
        at = self._clock()
        with self._lock:
            over = self._close(list(takewhile(lambda k: at - self._windows[k].began >= WINDOW_S, self._windows)))
            window = self._windows.setdefault(key, _Window(at, record))
            window.last = record
            show = window.shown < self._per_minute
            window.shown += show
            window.suppressed += not show
        self._write_counts(over)
        return show

    def flush(self) -> None:
        """Write all counts now."""
        with self._lock:
            over = self._close(list(self._windows))
        self._write_counts(over)

    def _close(self, keys: list[object]) -> list[_Window]:
        return [window for window in (self._windows.pop(key) for key in keys) if window.suppressed]

    def _write_counts(self, over: list[_Window]) -> None:
        for window in over:
            count = logging.makeLogRecord(window.last.__dict__)
            count.msg, count.args, count.exc_info, count.exc_text = "%d more like: %s", (), None, None
            count.args = (window.suppressed, window.last.getMessage())
            count.is_count = True
            self._emit(count)


def _default_key(record: logging.LogRecord) -> tuple[object, ...]:
    """Return the unformatted message with its arguments, numbers left out."""
    if not isinstance(record.args, tuple):
        return (record.getMessage(),)
    return (record.msg, *(str(arg) for arg in record.args if not isinstance(arg, (int, float))))


class LimitedHandler(logging.StreamHandler[TextIO]):
    """Stream handler with a RateLimit; close(), called at the program's exit, writes the counts."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.limit = RateLimit(self.handle)
        self.addFilter(self.limit)

    def close(self) -> None:
        self.limit.flush()
        drain_log()
        super().close()


@dataclass(slots=True)
class _Gap:
    """Place where lines were left out, and their number."""

    lines: int


class LogThread(io.TextIOBase):
    """Standard error of a daemon, written by a thread: a pipe that is not read, a terminal that is stopped and a disk
    that waits do not stop the event loop.

    Text is written in its order.  Once limit_bytes wait, lines are left out until half of that is written; a line in
    their place says how many.  So does one after lines that could not be written (no reader, no room on the disk).

    Raises NoThread.
    """

    def __init__(self, stream: TextIO, limit_bytes: int = WAITING_BYTES) -> None:
        super().__init__()
        self._stream = stream
        self._limit_bytes = limit_bytes
        self._entries: deque[bytes | _Gap] = deque()
        self._waiting_bytes = 0  # what is being written included
        self._full = False
        self._busy = False  # an entry is being written
        self._changed = threading.Condition()
        self._forked = False
        not_in_a_fork(self)
        thread = threading.Thread(target=self._run, name="log", daemon=True)
        with starting_threads():
            thread.start()

    def _after_fork(self) -> None:
        """Write without the thread, which is the parent's."""
        self._forked = True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        return "backslashreplace"

    @property
    def buffer(self) -> Any:
        """Return the stream's own buffer: bytes do not go through the thread."""
        return self._stream.buffer

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def write(self, text: str) -> int:
        if self._forked:  # the thread is the parent's, and may have held the lock
            self._stream.write(text)
            self._stream.flush()
            return len(text)
        data = text.encode(self.encoding, self.errors)
        with self._changed:
            # One record may be larger than the limit: a dump of all stacks.
            self._full |= self._waiting_bytes > 0 and self._waiting_bytes + len(data) > self._limit_bytes
            last = self._entries[-1] if self._entries else None
            if not self._full:
                self._waiting_bytes += len(data)
                self._entries.append(data)
            elif isinstance(last, _Gap):
                last.lines += text.count("\n")
            else:
                self._entries.append(_Gap(text.count("\n")))
            self._changed.notify_all()
        return len(text)

    def flush(self) -> None:
        """Return at once: see drain()."""

    def drain(self, timeout_s: float = READER_TIMEOUT_S) -> bool:
        """Wait until all is written, at most that long; True when it is.  For the end of the program."""
        if self._forked:
            return True
        with self._changed:
            return self._changed.wait_for(lambda: not (self._entries or self._busy), timeout_s)

    def _run(self) -> None:
        lost = 0  # lines since the last one that was written
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._entries)
                entry = self._entries.popleft()
                self._busy = True
            text, lines = (b"", entry.lines) if isinstance(entry, _Gap) else (entry, entry.count(b"\n"))
            before = lost + (lines if not text else 0)
            if self._written((_left_out(before) if before else b"") + text):
                lost = 0
            else:
                lost += lines
            with self._changed:
                self._waiting_bytes -= len(text)
                self._full &= self._waiting_bytes > self._limit_bytes / 2

    def _written(self, data: bytes) -> bool:
        """Write to the stream; return False if that fails."""
        left = memoryview(data)
        try:
            number = self._stream.fileno()
            while left:
                select.select([], [number], [])  # others may have made the pipe one that does not wait
                left = left[os.write(number, left[: select.PIPE_BUF]) :]
        except BlockingIOError:
            return self._written(bytes(left))  # others wrote to it as well
        except OSError:
            return False
        return True


def _left_out(lines: int) -> bytes:
    text, severity = "left out %d lines: the log was not read in time", logging.WARNING
    given = {"name": __name__, "levelno": severity, "levelname": "WARNING", "msg": text, "args": (lines,)}
    return _formatted(logging.makeLogRecord(given))


def log_in_thread() -> LogThread:
    """Make standard error a LogThread.  Raises NoThread."""
    thread = LogThread(sys.stderr)
    sys.stderr = thread  # also what others write there, such as a traceback of the event loop, or a user's handler
    return thread


def log_of_command() -> None:
    """Have a command that runs for long write standard error in a thread, so that a pipe whose reader does not read
    stops no work; the interpreter's exit writes what waits.  Nothing changes where no thread can be started, and where
    standard error is another program's, as in a test."""
    if sys.stderr is not None and sys.stderr is sys.__stderr__:
        with suppress(NoThread):
            log_in_thread()
            atexit.register(drain_log)


def drain_log() -> None:
    """Write what waits in the LogThread, if standard error is one, for READER_TIMEOUT_S at most."""
    if isinstance(sys.stderr, LogThread):
        sys.stderr.drain()
