"""Log lines for an operator: one line an event on stderr, and a repeated one is counted instead of shown.

    time=2014-03-07T09:15:02.114+0000 level=warning at=zkconsumer.session.lease msg="..."      a terminal or a file
    <4>at=zkconsumer.session.lease msg="..."                                   the journal, which knows the time

A traceback follows its line, each of its lines with the same priority; so do the lines of extra={"below": [...]}.
"""

from __future__ import annotations

import json
import logging
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, TextIO

LEVELS = ("debug", "info", "warning", "error")
FORMS = ("logfmt", "json")
PER_MINUTE = 5
WINDOW_S = 60.0
KAZOO = "kazoo.client"
KAZOO_LEVELS = {"debug": logging.DEBUG}
NOBODY_READS_S = 1.0


def set_up_logging(level: str = "info", form: str = "logfmt", stream: TextIO | None = None) -> logging.Handler:
    """Send the program's log to stderr (or `stream`), in one of FORMS, limited by RateLimit; ValueError for others.

    Replaces what a former call set up; the handler is what a test takes away again.
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
    handler.setFormatter(LineFormatter(form, in_journal=goes_to_journal(out)))
    root.addHandler(handler)
    root.setLevel(level.upper())
    logging.getLogger("kazoo").setLevel(KAZOO_LEVELS.get(level, logging.ERROR))
    return handler


class KazooLog(logging.LoggerAdapter[logging.Logger]):
    """What a ZooKeeper client of ours gets as its logger: kazoo warns at each failed connect, before its owner knows.

    The owner says once that ZooKeeper is out of reach.  So kazoo's information and warnings are for who debugs, its
    own debug lines a step below that; its errors stay what they are.
    """

    def __init__(self) -> None:
        super().__init__(logging.getLogger(KAZOO))

    def log(self, level: int, msg: object, *args: object, **named: Any) -> None:
        lowered = level if level >= logging.ERROR else logging.DEBUG if level >= logging.INFO else logging.DEBUG // 2
        super().log(lowered, msg, *args, **named)


def write_now(at: str, level: int, text: str, below: Iterable[str] = (), out: int = 2) -> None:
    """A line to standard error at once, past every lock and limit, with more lines below it: for signal handlers.

    A handler interrupts the main thread anywhere, also while it holds the lock of a log handler.  Where nobody takes
    what is written, the rest is left out after NOBODY_READS_S: whoever ends the process may not be kept from it.
    """
    used = [handler.formatter for handler in logging.getLogger().handlers]
    formatter = next((each for each in used if isinstance(each, LineFormatter)), None) or LineFormatter()
    record = logging.makeLogRecord(
        {"name": at, "levelno": level, "levelname": logging.getLevelName(level), "msg": text}
    )
    record.below = list(below)
    clear = b"\r\x1b[K" if os.isatty(out) else b""  # of a status line
    data = memoryview(clear + formatter.format(record).encode(errors="backslashreplace") + b"\n")
    while data and select.select([], [out], [], NOBODY_READS_S)[1]:
        data = data[os.write(out, data[: select.PIPE_BUF]) :]


def goes_to_journal(stream: TextIO) -> bool:
    """Is `stream` the very one that systemd named in JOURNAL_STREAM (device:inode)?  A child's pipe is not."""
    named = os.environ.get("JOURNAL_STREAM", "")
    try:
        stat = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return named == f"{stat.st_dev}:{stat.st_ino}"


class LineFormatter(logging.Formatter):
    """See the module."""

    def __init__(self, form: str = "logfmt", in_journal: bool = False) -> None:
        super().__init__()
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
            lines += ["  " + line for line in self.formatException(record.exc_info).splitlines()]
        lines += ["  " + line for line in below]
        return "\n".join(self._prefix(record) + line for line in lines)

    def _fields(self, record: logging.LogRecord) -> dict[str, str]:
        fields = {"at": record.name, "msg": record.getMessage()}
        if self._in_journal:
            return fields
        at = time.localtime(record.created)
        when = time.strftime("%Y-%m-%dT%H:%M:%S", at) + f".{int(record.msecs):03d}" + time.strftime("%z", at)
        return {"time": when, "level": record.levelname.lower(), **fields}

    def _prefix(self, record: logging.LogRecord) -> str:
        if not self._in_journal:
            return ""
        syslog = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}
        return f"<{syslog.get(record.levelno, 6)}>"


def _word(value: str) -> str:
    plain = value and value.isprintable() and not any(c in value for c in ' "=\\')
    return value if plain else json.dumps(value, ensure_ascii=False)


@dataclass(slots=True)
class _Window:
    began: float
    last: logging.LogRecord
    shown: int = 0
    held_back: int = 0


class RateLimit(logging.Filter):
    """At most `per_minute` lines a key and minute; then one that counts the rest.

    The key is what the caller gave as extra={"key": ("start", tp)}, else the unformatted message with what it names:
    all arguments but plain numbers, so that "try 7 of orders/3" repeats "try 6 of orders/3" and not that of orders/4.
    Keys of two loggers are never one.  The count is told when any line comes after that minute, or by `flush`.
    Critical lines, and those with extra={"always": True}, are never held back.

    emit  gets the record of the count
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
        key = (record.name, getattr(record, "key", None) or _names(record))
        at = self._clock()
        with self._lock:
            over = self._close(list(takewhile(lambda k: at - self._windows[k].began >= WINDOW_S, self._windows)))
            window = self._windows.setdefault(key, _Window(at, record))
            window.last = record
            show = window.shown < self._per_minute
            window.shown += show
            window.held_back += not show
        self._tell(over)
        return show

    def flush(self) -> None:
        """Tell all counts now."""
        with self._lock:
            over = self._close(list(self._windows))
        self._tell(over)

    def _close(self, keys: list[object]) -> list[_Window]:
        return [window for window in (self._windows.pop(key) for key in keys) if window.held_back]

    def _tell(self, over: list[_Window]) -> None:
        for window in over:
            count = logging.makeLogRecord(window.last.__dict__)
            count.msg, count.args, count.exc_info, count.exc_text = "%d more like: %s", (), None, None
            count.args = (window.held_back, window.last.getMessage())
            count.is_count = True
            self._emit(count)


def _names(record: logging.LogRecord) -> tuple[object, ...]:
    """The unformatted message and what it names."""
    if not isinstance(record.args, tuple):
        return (record.getMessage(),)
    return (record.msg, *(str(arg) for arg in record.args if not isinstance(arg, (int, float))))


class LimitedHandler(logging.StreamHandler[TextIO]):
    """A stream handler under a RateLimit; its close, which the end of the program calls, tells the counts."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.limit = RateLimit(self.handle)
        self.addFilter(self.limit)

    def close(self) -> None:
        self.limit.flush()
        super().close()
