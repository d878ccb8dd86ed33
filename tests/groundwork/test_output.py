from __future__ import annotations

import io
import json

import click
import pytest

from groundwork.output import DAEMON_EXIT, EXIT, Progress, fail, failing, run_command, write

ROWS = [("orders", 0, 12, None), ("clicks", 11, None, "parked, too large")]
COLUMNS = ("topic", "partition", "lag", "reason")


def written(form: str) -> str:
    out = io.StringIO()
    write(ROWS, COLUMNS, form, out)
    return out.getvalue()


def test_table_is_aligned_with_numbers_to_the_right() -> None:
    assert written("table").splitlines() == [
        "topic   partition  lag  reason",
        "orders          0   12  -",
        "clicks         11    -  parked, too large",
    ]


def test_json_is_an_array_of_objects_and_null_stays_null() -> None:
    assert json.loads(written("json")) == [dict(zip(COLUMNS, row, strict=True)) for row in ROWS]


def test_csv_has_a_header_and_quotes_where_needed() -> None:
    assert written("csv") == 'topic,partition,lag,reason\norders,0,12,\nclicks,11,,"parked, too large"\n'


def test_rows_may_be_mappings() -> None:
    out = io.StringIO()
    write([{"b": 2, "a": 1}, {"a": 3}], ("a", "b"), "csv", out)
    assert out.getvalue() == "a,b\n1,2\n3,\n"


def test_nothing_is_a_header_or_an_empty_array(capsys: pytest.CaptureFixture[str]) -> None:
    write([], COLUMNS)
    assert capsys.readouterr().out == "topic  partition  lag  reason\n"
    write([], COLUMNS, "json")
    assert json.loads(capsys.readouterr().out) == []


def test_unknown_form_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="one of table, json, csv, not 'yaml'"):
        written("yaml")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_shows_on_a_terminal_only_and_leaves_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 101.0, 101.1, 102.0]).__next__
    monkeypatch.setattr("groundwork.output.now", clock)
    out = Terminal()
    with Progress("copying", 1000, out) as progress:
        progress.update(100)
        progress.update(200)  # 0.1 s after the last: not drawn
        progress.update(500, "3 files")
    drawn = out.getvalue().split("\r\x1b[K")
    assert drawn == ["", "copying: 100 / 1,000 (10 %), 100/s", "copying: 500 / 1,000 (50 %), 250/s  3 files", ""]


def test_progress_is_silent_where_nobody_looks() -> None:
    out = io.StringIO()
    with Progress("copying", 10, out) as progress:
        progress.update(5)
        progress.line("text")
    assert out.getvalue() == ""


@click.command()
@click.argument("what")
def command(what: str) -> int | None:
    if what == "refused":
        fail("group g1 is alive: stop it first", EXIT["refused"])
    if what == "broken":
        raise ZeroDivisionError
    if what == "abort":
        raise click.Abort
    with failing({LookupError: EXIT["not found"], KeyError: EXIT["partly"], OSError: DAEMON_EXIT["unreachable"]}):
        if what == "ok":
            return 4
        raise {"index": IndexError("no topic t"), "key": KeyError("k"), "os": ConnectionError("z1:2181")}[what]
    return None


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["ok"], 4, ""),
        (["refused"], 3, "error: group g1 is alive: stop it first\n"),
        (["index"], 5, "error: no topic t\n"),
        (["key"], 4, "error: 'k'\n"),
        (["os"], 69, "error: z1:2181\n"),
        (["abort"], 130, "interrupted\n"),
        (["--help"], 0, ""),
    ],
)
def test_command_ends_with_one_sentence_and_its_code(
    args: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(command, args=args) == code
    assert capsys.readouterr().err == said


def test_wrong_command_line_has_the_callers_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(command, args=["a", "b"]) == 2
    assert run_command(command, usage=DAEMON_EXIT["usage"], args=["--nonsense"]) == 64
    assert "No such option" in capsys.readouterr().err


def test_error_that_nobody_expected_goes_on_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        run_command(command, args=["broken"])


def test_exit_codes_are_those_of_the_design() -> None:
    assert list(EXIT.values()) == [0, 1, 2, 3, 4, 5, 6]
    assert list(DAEMON_EXIT.values()) == [0, 64, 65, 69, 70, 73, 75, 77, 78]


def test_on_a_terminal_a_table_is_folded_into_its_width_and_no_word_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out = Terminal()
    write([("orders", 7, "the log ends before the offset, 12"), ("a" * 30, 1, None)], ("topic", "lag", "why"), out=out)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 45  # 30, 3 and 8 for the longest words, and the space between columns
    assert " ".join(" ".join(lines[1:-1]).split()) == "orders 7 the log ends before the offset, 12"
    assert {line.index(line.split()[0]) for line in lines[2:-1]} == {lines[1].index("the")}
    assert lines[-1].split() == ["a" * 30, "1", "-"]
