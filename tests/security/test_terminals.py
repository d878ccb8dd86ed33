"""What a terminal would obey, in names and reasons of strangers, on each way to a terminal."""

from __future__ import annotations

import ast
import csv
import io
import json

import click
import pytest

from groundwork.output import fail, print_file, print_note, print_text, run_command, write
from kafkawire.model import Message
from mirrormaker.systemd import one_line
from sparkpipeline.sparksession import _printable
from tests.security.test_source import parsed
from zkconsumer.commands.messageformat import MessageFormat

ORDERS = "a\x1b[31mb\x9b2J\u202e\U000e0001"
SHOWN = r"a\u001b[31mb\u009b2J\u202e\udb40\udc01"


def test_notes_and_text_show_orders_to_a_terminal_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    print_note(f"group {ORDERS}")
    print_text(f"group {ORDERS}")
    assert capsys.readouterr() == (f"group {SHOWN}\n", f"group {SHOWN}\n")


@pytest.mark.parametrize("ends", [lambda: fail(ORDERS), lambda: click.UsageError(ORDERS)])
def test_errors_show_orders_to_a_terminal_as_escapes(ends: object, capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    def command() -> None:
        raise ends()  # type: ignore[operator]

    assert run_command(command, args=[]) != 0
    assert SHOWN in capsys.readouterr().err


@pytest.mark.parametrize("form", ["json", "csv", "table"])
def test_rows_show_orders_to_a_terminal_as_escapes(form: str) -> None:
    out = io.StringIO()
    write([(ORDERS, 1)], ["group", "lag"], form, out)
    assert all(c.isprintable() or c == "\n" for c in out.getvalue())
    if form == "json":
        assert json.loads(out.getvalue()) == [{"group": ORDERS, "lag": 1}]
    else:
        assert SHOWN in out.getvalue()


def test_messages_as_json_keep_their_text_without_orders_to_a_terminal() -> None:
    message = Message("orders", 0, 1, None, ORDERS.encode(), None, None, None, 2)
    line = MessageFormat(form="json").line(message).decode()
    assert line.rstrip("\n").isprintable()
    assert json.loads(line)["value"] == ORDERS


def test_what_is_to_be_a_file_is_unchanged_where_stdout_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_file(ORDERS)
    assert capsys.readouterr().out == ORDERS


def test_systemd_and_the_log_of_the_jvm_get_escapes() -> None:
    assert one_line(f"a\n{ORDERS}") == f"a {SHOWN}"
    assert _printable(f"{ORDERS}\r\n".encode() + b"\xff") == f"{SHOWN}\r\n\\xff".encode()


def test_cells_that_a_spreadsheet_computes_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    write([("orders", -1), ("=cmd()", 2)], ["group", "lag"], "csv")
    out, err = capsys.readouterr()
    assert list(csv.reader(io.StringIO(out)))[2] == ["=cmd()", "2"]
    assert "'=cmd()' is a formula to a spreadsheet" in err


PRINTS = {
    "groundwork/output.py",  # with escapes
    "mirrormaker/daemon.py",  # a profile, with escapes
    "mirrormaker/commands/reference.py", "sparkpipeline/commands/reference.py",  # pages of options
}  # fmt: skip


def test_nothing_else_prints() -> None:
    found = set()
    for where, module in parsed("click", "print("):
        if not where.startswith("localkafka/"):
            calls = {ast.unparse(node.func) for node in ast.walk(module) if isinstance(node, ast.Call)}
            found |= {where} if calls & {"print", "click.echo", "click.secho", "secho", "echo"} else set()
    assert found == PRINTS
