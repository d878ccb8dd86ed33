from __future__ import annotations

import errno
import io
import json
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from groundwork.logs import (
    KazooLog,
    LimitedHandler,
    LineFormatter,
    LogThread,
    RateLimit,
    current_level,
    goes_to_journal,
    set_level,
    set_up_logging,
    write_now,
)
from groundwork.tasks import TaskGroup, sleep
from tests.terminals import leave, terminal

log = logging.getLogger("part")
ENV = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


@pytest.fixture
def set_up() -> Callable[..., io.StringIO]:
    def start(*args: str) -> io.StringIO:
        out = io.StringIO()
        set_up_logging(*args, stream=out)
        return out

    return start


def test_line_is_logfmt_with_time_level_and_place(set_up: Callable[..., io.StringIO]) -> None:
    out = set_up()
    log.warning("lease of %s is over", "g1")
    log.info('quotes " and\nline ends stay on the line')
    log.debug("not at info")
    first, second = out.getvalue().splitlines()
    stamp = r"time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d{4}"
    assert re.fullmatch(stamp + r' level=warning at=part msg="lease of g1 is over"', first)
    assert second.endswith(r'level=info at=part msg="quotes \" and\nline ends stay on the line"')


def test_traceback_follows_its_line(set_up: Callable[..., io.StringIO]) -> None:
    out = set_up()
    try:
        raise ValueError("x")
    except ValueError:
        log.exception("failed")
    lines = out.getvalue().splitlines()
    assert lines[0].endswith("msg=failed")
    assert lines[1] == "  Traceback (most recent call last):"
    assert lines[-1] == "  ValueError: x"


def test_json_form_is_one_object_a_line(set_up: Callable[..., io.StringIO]) -> None:
    out = set_up("debug", "json")
    log.debug("a %d", 1)
    assert {k: v for k, v in json.loads(out.getvalue()).items() if k != "time"} == {
        "level": "debug",
        "at": "part",
        "msg": "a 1",
    }


def test_what_an_alert_is_for_has_a_name_and_a_place(set_up: Callable[..., io.StringIO]) -> None:
    place = {"event": "parked", "source": "dc 1", "topic": "orders", "partition": 3, "offset": 17}
    out = set_up()
    log.warning("stays", extra=place)
    log.warning("starts", extra={**place, "offset": None, "partition": None})
    first, second = out.getvalue().splitlines()
    assert first.endswith('at=part event=parked source="dc 1" topic=orders partition=3 offset=17 msg=stays')
    assert second.endswith('at=part event=parked source="dc 1" topic=orders msg=starts')
    out = set_up("info", "json")
    log.warning("stays", extra=place)
    assert json.loads(out.getvalue()).items() >= place.items()


def test_json_in_the_journal_keeps_its_level_behind_the_priority() -> None:
    record = log.makeRecord("part", logging.WARNING, "f", 1, "late", (), None)
    line = LineFormatter("json", in_journal=True).format(record)
    assert line.startswith("<4>{")
    assert json.loads(line[3:])["level"] == "warning"


def test_the_level_can_be_changed_while_the_program_runs(set_up: Callable[..., io.StringIO]) -> None:
    out = set_up()
    log.debug("hidden")
    set_level("debug")
    log.debug("shown")
    assert current_level() == "debug"
    assert [line.rpartition("=")[2] for line in out.getvalue().splitlines()] == ["shown"]
    with pytest.raises(ValueError, match="log level is one of debug, info, warning, error, not loud"):
        set_level("loud")


def test_second_set_up_replaces_the_first(set_up: Callable[..., io.StringIO]) -> None:
    first, second = set_up(), set_up()
    log.error("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1


def test_unknown_words_are_refused() -> None:
    with pytest.raises(ValueError, match="level is one of debug, info, warning, error and form one of logfmt, json"):
        set_up_logging("loud")


def test_every_line_for_the_journal_has_its_priority_and_no_time() -> None:
    formatter = LineFormatter(in_journal=True)
    try:
        raise ValueError("x")
    except ValueError:
        record = log.makeRecord("part", logging.ERROR, "f", 1, "failed", (), sys.exc_info())
    lines = formatter.format(record).splitlines()
    assert lines[0] == "<3>at=part msg=failed"
    assert len(lines) > 2
    assert all(line.startswith("<3>  ") for line in lines[1:])


def test_journal_is_known_by_its_stream_and_not_by_the_variable_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "a").open("w") as ours, (tmp_path / "b").open("w") as other:
        stat = os.fstat(ours.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{stat.st_dev}:{stat.st_ino}")
        assert goes_to_journal(ours)
        assert not goes_to_journal(other)
        assert not goes_to_journal(io.StringIO())
        monkeypatch.delenv("JOURNAL_STREAM")
        assert not goes_to_journal(ours)


class Limited:
    """A rate limit with a clock in hand, and what came through."""

    def __init__(self) -> None:
        self.now = 0.0
        self.seen: list[str] = []
        self.limit = RateLimit(lambda record: self.seen.append(record.getMessage()), clock=lambda: self.now)

    def say(self, message: str, *args: object, key: str | None = None, level: int = logging.WARNING) -> None:
        record = log.makeRecord("part", level, "f", 1, message, args, None, extra={"key": key} if key else None)
        if self.limit.filter(record):
            self.seen.append(record.getMessage())


def test_repeated_line_is_shown_five_times_a_minute_then_counted() -> None:
    limited = Limited()
    for n in range(40):
        limited.say("retry %d", n)
    assert limited.seen == [f"retry {n}" for n in range(5)]
    limited.now = 61
    limited.say("another")
    assert limited.seen[5:] == ["35 more like: retry 39", "another"]
    limited.say("retry %d", 41)
    assert limited.seen[-1] == "retry 41", "a new minute begins"


def test_lines_about_different_things_do_not_share_a_limit() -> None:
    limited = Limited()
    for n in range(20):
        limited.say("%s", f"session {n}")
        limited.say("%s waits", f"orders/{n}")
    assert len(limited.seen) == 40
    for n in range(20):
        limited.say("%s waits, try %d", "orders/3", n)
    assert len(limited.seen) == 45


def test_line_marked_always_is_never_held_back(set_up: Callable[..., io.StringIO]) -> None:
    out = set_up()
    for _ in range(9):
        log.warning("parked", extra={"always": True})
    assert len(out.getvalue().splitlines()) == 9


def test_windows_end_each_at_its_own_time() -> None:
    limited = Limited()
    for _ in range(6):
        limited.say("first")
    limited.now = 30
    for _ in range(6):
        limited.say("second")
    limited.now = 61
    limited.say("third")
    assert limited.seen[10:] == ["1 more like: first", "third"]
    limited.now = 91
    limited.say("third")
    assert limited.seen[12:] == ["1 more like: second", "third"]


def test_kazoo_is_heard_only_of_errors_unless_debugging(set_up: Callable[..., io.StringIO]) -> None:
    out = set_up()
    logging.getLogger("kazoo.client").warning("Connection dropped: socket connection error")
    assert out.getvalue() == ""
    logging.getLogger("kazoo.client").error("Unhandled exception in connection loop")
    assert "Unhandled" in out.getvalue()
    debugging = set_up("debug")
    logging.getLogger("kazoo.client").warning("Connection dropped: socket connection error")
    assert "dropped" in debugging.getvalue()


def test_key_of_the_caller_counts_and_not_the_text() -> None:
    limited = Limited()
    for n in range(6):
        limited.say(f"text {n}", key="orders/3")
        limited.say(f"text {n}", key="orders/4")
    assert len(limited.seen) == 10


def test_flush_tells_the_counts_now_and_once() -> None:
    limited = Limited()
    for _ in range(7):
        limited.say("again")
    limited.limit.flush()
    limited.limit.flush()
    assert limited.seen[5:] == ["2 more like: again"]


def test_critical_line_is_never_held_back() -> None:
    limited = Limited()
    for _ in range(9):
        limited.say("ends", level=logging.CRITICAL)
    assert len(limited.seen) == 9


def test_count_reaches_the_stream_with_the_level_of_what_it_counts(set_up: Callable[..., io.StringIO]) -> None:
    out = set_up()
    for _ in range(7):
        log.error("broken")
    next(handler for handler in logging.getLogger().handlers if isinstance(handler, LimitedHandler)).close()
    lines = out.getvalue().splitlines()
    assert len(lines) == 6
    assert lines[-1].endswith('level=error at=part msg="2 more like: broken"')


def test_end_of_the_program_tells_what_was_held_back() -> None:
    text = (
        "import logging; from groundwork.logs import set_up_logging; set_up_logging()\n"
        "for _ in range(8): logging.warning('again')"
    )
    end = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=30)
    assert end.stderr.splitlines()[-1].endswith('msg="3 more like: again"')


def test_what_kazoo_says_of_lost_connections_is_below_what_its_owner_says(caplog: pytest.LogCaptureFixture) -> None:
    """A program that uses the library sets its own levels: kazoo is quiet there, too, and never before us."""
    kazoo = KazooLog()
    caplog.set_level(logging.INFO)
    kazoo.warning("Connection dropped: %s", "socket connection error")
    kazoo.info("Connecting to 127.0.0.1")
    assert caplog.records == []
    kazoo.error("Unhandled exception in connection loop")
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    caplog.clear()
    caplog.set_level(logging.DEBUG)
    kazoo.warning("Connection dropped: %s", "again")
    kazoo.debug("Sending request")
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.DEBUG, "Connection dropped: again")
    ]


def test_write_now_waits_for_no_lock_and_for_nobody_who_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groundwork.logs.READER_TIMEOUT_S", 0.05)
    handler = set_up_logging()
    reads, writes = os.pipe()
    with os.fdopen(reads, "rb") as pipe, handler.limit._lock:
        handler.acquire()
        write_now("part", logging.CRITICAL, "ended at once", ["thread a:", "  stands"], out=writes)
        handler.release()
        first, *below = pipe.readline(), pipe.readline(), pipe.readline()
        assert first.endswith(b'level=critical at=part msg="ended at once"\n')
        assert below == [b"  thread a:\n", b"    stands\n"]
        write_now("part", logging.CRITICAL, "x" * (1 << 20), out=writes)  # a pipe takes 64 KiB: the rest is left out
        os.close(writes)
        assert 0 < len(pipe.read()) <= 1 << 16


def test_write_now_raises_nothing_where_the_terminal_is_gone() -> None:
    with terminal() as (stream, window):
        leave(window)
        write_now("part", logging.CRITICAL, "ended at once", out=stream.fileno())


def test_lines_below_are_part_of_a_json_line(set_up: Callable[..., io.StringIO]) -> None:
    out = set_up("info", "json")
    log.info("state", extra={"below": ["one", "two"]})
    assert json.loads(out.getvalue())["below"] == "one\ntwo"


def test_lines_of_several_processes_in_one_log_name_theirs() -> None:
    record = logging.makeLogRecord({"name": "mirrormaker.flow", "levelname": "INFO", "msg": "x"})
    assert "at=mirrormaker.flow worker=2 msg=x" in LineFormatter(worker=2).format(record)
    assert json.loads(LineFormatter("json", worker=2).format(record))["worker"] == 2
    assert "worker" not in LineFormatter().format(record)


class Pipe:
    """A LogThread, and a reader of its pipe that reads from start() on, up to a line that says so."""

    def __init__(self) -> None:
        self.reading, writing = os.pipe()
        self.out = LogThread(open(writing, "w"), 1 << 16)  # noqa: SIM115  # for as long as the thread
        self._lines: list[str] = []
        self._thread = threading.Thread(target=self._read)
        self.start = self._thread.start

    def _read(self) -> None:
        data = b""
        while not data.endswith(b"the end\n"):
            data += os.read(self.reading, 1 << 16)
        self._lines = data.decode().splitlines()

    def lines(self) -> list[str]:
        """All that came before the end."""
        assert self.out.drain(10)
        self.out.write("the end\n")
        self._thread.join(10)
        return self._lines[:-1]


def test_one_record_may_be_larger_than_what_may_wait() -> None:
    pipe = Pipe()
    pipe.start()
    dump = "".join(f"a line of all stacks {number}\n" for number in range(13_000))
    pipe.out.write(dump)
    assert "\n".join(pipe.lines()) + "\n" == dump


def test_a_pipe_that_nobody_reads_does_not_stop_the_loop_and_what_is_left_out_is_counted() -> None:
    pipe, ticks, tasks = Pipe(), [0], TaskGroup()

    def tick() -> None:
        while True:
            ticks[0] += 1
            sleep()

    tasks.spawn("tick", tick)
    for number in range(20_000):
        pipe.out.write(f"{number} {'x' * 50}\n")
        if not number % 100:
            sleep()
    tasks.stop(5)
    assert ticks[0] >= 200
    assert not pipe.out.drain(0.01)
    pipe.start()
    lines, following, left_out = pipe.lines(), 0, 0
    for line in lines:
        if "left out" in line:
            left_out += int(line.partition("left out ")[2].split()[0])
        else:
            assert int(line.split()[0]) == following + left_out
            following += 1
    assert following + left_out == 20_000
    assert left_out > 15_000


def test_lines_that_could_not_be_written_are_counted_where_they_would_have_been(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipe, write = Pipe(), os.write

    def full(number: int, data: memoryview) -> int:
        if b"lost" in bytes(data):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(number, data)

    monkeypatch.setattr(os, "write", full)
    pipe.start()
    for text in ("first\n", "lost\n", "lost\n  below it\n", "next\n"):
        pipe.out.write(text)
    first, told, following = pipe.lines()
    assert (first, following) == ("first", "next")
    assert '"left out 3 lines: ' in told


FLOOD = """
import logging, sys
from groundwork.logs import log_in_thread, set_up_logging
log_in_thread()
set_up_logging()
for n in range(10_000):
    logging.getLogger("part").warning("%s %s", n, "x" * 100, extra={"always": True})
sys.exit(3)
"""


@pytest.mark.parametrize("read", [True, False])
def test_a_program_ends_with_what_its_log_takes_in_a_second(read: bool) -> None:
    with subprocess.Popen([sys.executable, "-c", FLOOD], stderr=subprocess.PIPE) as ran:
        assert ran.stderr is not None
        if read:
            lines = ran.stderr.read().decode().splitlines()
            told = [int(line.rpartition("left out ")[2].split()[0]) for line in lines if "left out" in line]
            assert len(lines) - len(told) + sum(told) == 10_000
        assert ran.wait(30) == 3


def test_what_click_prints_goes_through_the_thread_too(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = Pipe()
    monkeypatch.setattr(sys, "stderr", pipe.out)
    monkeypatch.setattr(LogThread, "buffer", None)  # the way around it
    pipe.start()
    click.echo("error: wrong", err=True)
    assert pipe.lines() == ["error: wrong"]


FORKS = """
import os, sys
from groundwork.logs import log_in_thread
log_in_thread()
print("parent", file=sys.stderr)
sys.stderr.drain()
if not os.fork():
    print("child", file=sys.stderr)
    os._exit(0 if sys.stderr.drain() else 1)
assert os.wait()[1] == 0
"""


def test_a_forked_process_writes_its_lines_itself() -> None:
    ran = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=30, check=True)
    assert ran.stderr.splitlines() == ["parent", "child"]


def test_a_program_that_was_started_without_standard_error_keeps_its_number(tmp_path: Path) -> None:
    """Otherwise the next connection had it."""
    program = (
        "import sys; from groundwork.openfiles import fill_standard_files; fill_standard_files();"
        "file = open('found', 'w'); print(file.fileno() > 2, file=file); print('said', file=sys.stderr)"
    )
    command = 'exec "$0" -c "$1" 0<&- 2>&-'
    ran = subprocess.run(["sh", "-c", command, sys.executable, program], cwd=tmp_path, env=ENV, check=False)
    assert ran.returncode == 0
    assert (tmp_path / "found").read_text() == "True\n"
