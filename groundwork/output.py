"""Output of commands.  Data goes to stdout, everything else to stderr.

No other file prints, and what is not printable becomes an escape here: names and reasons are of strangers, and a
terminal obeys some characters (groundwork/sentences.py).

write(rows, columns, form)      table | json | csv; on a terminal a table is folded into its width
write_csv(rows)                 rows of CSV without a header
print_text(text)                text on stdout
print_file(text)                text of a file on stdout, unchanged unless stdout is a terminal
Progress                        a line on stderr that overwrites itself, where stderr is a terminal
print_note(text)                a sentence on stderr, beside the data
fail(message, code)             end a click command with one sentence and an exit code
failing({KeyError: 5})          the same for exceptions raised in the block
version_option("zkproducer")    --version of a command
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from shutil import get_terminal_size
from textwrap import wrap
from time import monotonic as now
from types import TracebackType
from typing import Any, NoReturn, TextIO, TypeVar

import click

from groundwork.installed import own_version
from groundwork.openfiles import shortage as lacking
from groundwork.sentences import printable

FORMS = ("table", "json", "csv")
EXIT = {  # of every command but the daemon's run and check
    "done": 0,
    "runtime": 1,
    "usage": 2,
    "refused": 3,  # by a precondition
    "partly": 4,  # partly done, or a mismatch
    "not found": 5,
    "exceeded": 6,  # a threshold
}
DAEMON_EXIT = {  # mirrormaker run and check: sysexits.h; systemd restarts 69, 70 and 75
    "clean stop": 0,
    "usage": 64,
    "data": 65,  # the data policy is `fail`
    "unreachable": 69,  # a cluster, for longer than the start limit
    "internal": 70,
    "state folder": 73,
    "temporary": 75,
    "permission": 77,
    "configuration": 78,
}
_FORMULA = frozenset("=+-@")
_CLEAR = "\x1b[H\x1b[2J"
Row = Sequence[Any] | Mapping[str, Any]
F = TypeVar("F", bound=Callable[..., Any])


def write(rows: Iterable[Row], columns: Sequence[str], form: str = "table", out: TextIO | None = None) -> None:
    """Print rows (values in the order of `columns`, or mappings with these keys) to stdout or `out`.

    table  aligned, numbers to the right, None as -        csv  with a header, None empty
    json   one array of objects, None as null
    """
    to = out if out is not None else sys.stdout
    values = [[row.get(name) for name in columns] if isinstance(row, Mapping) else list(row) for row in rows]
    if form == "json":
        objects = [dict(zip(columns, row, strict=True)) for row in values]
        to.write(printable(json.dumps(objects, indent=2, default=str)) + "\n")
    elif form == "csv":
        write_csv([columns, *values], to)
        formula = next((cell for row in values for cell in row if isinstance(cell, str) and cell[:1] in _FORMULA), "")
        if formula:
            print_note(f"note: {formula!r} is a formula to a spreadsheet, as any cell that begins with =, +, - or @ is")
    elif form == "table":
        _table(values, columns, to)
    else:
        raise ValueError(f"output form is one of {', '.join(FORMS)}, not {form!r}")


def write_csv(rows: Iterable[Sequence[Any]], out: TextIO | None = None) -> None:
    """Print rows as CSV to stdout or `out`, None empty."""
    writer = csv.writer(out if out is not None else sys.stdout, lineterminator="\n")
    writer.writerows([printable(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)


def _table(rows: list[list[Any]], columns: Sequence[str], out: TextIO) -> None:
    cells = [list(columns), *[[_cell(value) for value in row] for row in rows]]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    if out.isatty():  # anywhere else a row is one line
        widths = _narrowed(cells, widths, get_terminal_size().columns)
    numeric = [
        any(_is_number(row[i]) for row in rows) and all(_fits_number(row[i]) for row in rows)
        for i in range(len(columns))
    ]
    for row in cells:
        folded = [_folded(cell, width) for cell, width in zip(row, widths, strict=True)]
        for line in zip_longest(*folded, fillvalue=""):
            aligned = [
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(line, widths, numeric, strict=True)
            ]
            out.write("  ".join(aligned).rstrip() + "\n")


def _narrowed(cells: list[list[str]], widths: list[int], limit: int) -> list[int]:
    """Return widths of columns that fit into a line: the widest ones are narrowed first, down to their longest word."""
    least = [max(len(word) for row in cells for word in row[i].split() or [""]) for i in range(len(widths))]
    widths = list(widths)
    while sum(widths) + 2 * (len(widths) - 1) > limit:
        wide = [i for i, width in enumerate(widths) if width > least[i]]
        if not wide:
            break
        widths[max(wide, key=lambda i: widths[i])] -= 1
    return widths


def _folded(cell: str, width: int) -> list[str]:
    if len(cell) <= width:
        return [cell]
    return wrap(cell, width, break_long_words=False, break_on_hyphens=False)


def _cell(value: Any) -> str:
    return "-" if value is None else printable(str(value), keep="")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _fits_number(value: Any) -> bool:
    return value is None or _is_number(value)


class Progress:
    """Progress line on a terminal, with count and rate: `with Progress("copying", total) as p: p.update(done)`."""

    EVERY_S = 0.2

    def __init__(self, what: str, total: int | None = None, out: TextIO | None = None) -> None:
        self._what = what
        self._total = total
        self._out = out if out is not None else sys.stderr
        self._shows = self._out.isatty()
        self._began = now()
        self._drawn_at = float("-inf")

    def update(self, done: int, note: str = "") -> None:
        """Show `done` of the total; drawn at most five times a second."""
        at = now()
        if not self._shows or at - self._drawn_at < self.EVERY_S:
            return
        self._drawn_at = at
        of = f" / {self._total:,} ({100 * done // self._total} %)" if self._total else ""
        rate = done / max(at - self._began, 1e-3)
        self._draw(f"{self._what}: {done:,}{of}, {rate:,.0f}/s{'  ' + note if note else ''}")

    def line(self, text: str) -> None:
        """Show any text instead; drawn at most five times a second."""
        if self._shows and now() - self._drawn_at >= self.EVERY_S:
            self._drawn_at = now()
            self._draw(text)

    def _draw(self, text: str) -> None:
        with suppress(OSError):  # a terminal that is gone ends no work
            self._out.write(f"\r\x1b[K{printable(text, keep='')}")
            self._out.flush()

    def close(self) -> None:
        """Remove the line."""
        if self._shows and self._drawn_at > float("-inf"):
            self._draw("")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def print_text(text: str = "", nl: bool = True, clear: bool = False) -> None:
    """Print text to stdout.  nl: end the line; clear: clear the terminal before."""
    click.echo(_CLEAR * clear + printable(text), nl=nl)


def print_file(text: str) -> None:
    """Print the text of a file to stdout: unchanged, but to a terminal with escapes."""
    sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()


def print_note(text: str, nl: bool = True) -> None:
    """Print a sentence to stderr, beside the data.  Nothing happens where it has no reader: the work goes on."""
    with suppress(OSError):
        click.echo(printable(text), err=True, nl=nl)


def show(error: click.ClickException) -> None:
    """Print an error as click does.  Nothing happens where stderr has no reader: the exit code stays."""
    vars(error)["message"] = printable(error.message)  # click's is declared final
    with suppress(OSError):
        error.show()


class Failure(click.ClickException):
    """Ends a command with a sentence on stderr and an exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        vars(self)["exit_code"] = code  # click's is declared for the class

    def show(self, file: Any = None) -> None:
        click.echo(f"error: {printable(self.format_message())}", file=file or sys.stderr)


def fail(message: str, code: int = EXIT["runtime"]) -> NoReturn:
    """End the command with one sentence; codes are EXIT's or DAEMON_EXIT's."""
    raise Failure(message, code)


@contextmanager
def failing(codes: Mapping[type[Exception], int]) -> Iterator[None]:
    """End the command with the exit code of the first matching class; other exceptions propagate."""
    try:
        yield
    except tuple(codes) as exc:
        nearest = next(kind for kind in type(exc).__mro__ if kind in codes)
        raise Failure(str(exc) or nearest.__name__, codes[nearest]) from exc


def version_option(program: str) -> Callable[[F], F]:
    """Option --version: print PROGRAM and the version of the distribution, and exit with 0."""

    def show(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
        if wanted and not ctx.resilient_parsing:
            print_text(version_line(program))
            ctx.exit(0)

    return click.option(
        "--version", is_flag=True, is_eager=True, expose_value=False, callback=show, help="Print the version."
    )


def version_line(program: str) -> str:
    """Return the program and its version: `zkproducer 0.1.0`."""
    return f"{program} {own_version()}"


def run_command(
    command: click.Command,
    args: Sequence[str] | None = None,
    name: str | None = None,
    *,
    usage: int = EXIT["usage"],
    failed: int | None = None,
    shortage: int = EXIT["runtime"],
) -> int:
    """Run a click command and return its exit code.

    args, name: of the process by default; usage lines begin with the name
    usage       exit code of a wrong command line
    failed      exit code of an error of click that has no code of ours (default: click's)
    shortage    exit code when too few threads or file descriptors are left
    """
    try:
        result = command.main(args=list(args) if args is not None else None, prog_name=name, standalone_mode=False)
    except click.UsageError as exc:
        show(exc)
        return usage
    except click.ClickException as exc:
        show(exc)
        return exc.exit_code if failed is None or isinstance(exc, Failure) else failed
    except (click.Abort, KeyboardInterrupt):
        print_note("interrupted")
        return 130
    except Exception as exc:
        if not (sentence := lacking(exc)):
            raise
        print_note(f"error: {sentence}")
        return shortage
    return result if isinstance(result, int) else 0
