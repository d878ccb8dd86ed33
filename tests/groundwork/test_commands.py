"""The kit of programs: commands that are loaded when they are called for, versions, and what an exception ends as."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

import click
import pytest

from groundwork.commands import Command, Program, as_argument, key_values
from groundwork.output import Failure, run_command


@click.command(cls=Command)
@click.argument("what")
def fails(what: str) -> None:
    """Fail."""
    raise {"known": KeyError, "unknown": ValueError}[what](what)


def failure(exc: Exception) -> Exception | None:
    return Failure("no such thing", 5) if isinstance(exc, KeyError) else None


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    module = ModuleType("commands_of_a_test")
    vars(module)["fails"] = fails
    monkeypatch.setitem(sys.modules, "commands_of_a_test", module)
    return Program(
        "prog", later={"fails": "commands_of_a_test:fails"}, versions=lambda: ["Python of today"], failure=failure
    )


@pytest.fixture
def said(program: Program, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*args: str) -> tuple[int, str, str]:
        code = run_command(program, args, "prog")
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_a_program_tells_its_version(said: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = said("--version")
    assert (code, out.split()[0]) == (0, "prog")
    assert said("--version", "-v")[1].splitlines()[1:] == ["Python of today"]


def test_a_missing_command_is_one_sentence(said: Callable[..., tuple[int, str, str]]) -> None:
    code, _, err = said()
    assert (code, err.splitlines()[-1]) == (2, "Error: a command is missing; prog --help lists them")


def test_an_exception_ends_a_program_as_it_says(said: Callable[..., tuple[int, str, str]]) -> None:
    assert said("fails", "known") == (5, "", "error: no such thing\n")
    with pytest.raises(ValueError, match=r"^unknown$"):
        said("fails", "unknown")


def test_a_shell_completes_what_it_finds_by_name() -> None:
    assert "completion" in Program("prog").commands
    assert Program("python -m prog", completes=False).commands == {}


class Found(NamedTuple):
    topic: str
    first: int = 7


@click.command(cls=Command)
@as_argument("found", Found, [click.option("--topic", default="t")])
@click.option("--deep", is_flag=True)
def looks(found: Found, deep: bool) -> None:
    """Look."""
    click.echo(f"{found} {deep}")


def test_values_of_a_block_are_one_argument(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(looks, ["--topic", "orders", "--deep"], "looks") == 0
    assert capsys.readouterr().out == "Found(topic='orders', first=7) True\n"


def test_pairs_are_split_at_the_first_equals_sign() -> None:
    assert key_values(["a=b=c", " d =", "a=2"]) == {"a": "2", "d": ""}
    for text in ("a", "=b"):
        with pytest.raises(ValueError, match="is not KEY=VALUE"):
            key_values([text])
