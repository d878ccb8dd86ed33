"""--help of every command of the four programs: purpose, examples that parse, exit codes; completion in a real bash."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from groundwork.commands import Command
from mirrormaker.commands.cli import cli as mirrormaker
from producer.console import main as zkproducer
from sparkpipeline.commands.cli import cli as sparkpipeline
from tests.cases import each
from zkconsumer.commands.cli import cli as zkconsumer

PROGRAMS = {
    "mirrormaker": mirrormaker, "zkconsumer": zkconsumer, "zkproducer": zkproducer, "sparkpipeline": sparkpipeline,
}  # fmt: skip
BIN = Path(sys.executable).parent
SOURCED = re.compile(r"source <\((.*)\)")
CUT = re.compile(r" +(?:#|<|>|\||&&) ")  # behind it: a comment, or something for the shell


def context(command: click.Command, name: str, parent: click.Context | None = None) -> click.Context:
    """As a call of the command makes it: a command keeps the help option of the first context that asks for it."""
    return click.Context(command, parent=parent, info_name=name, **command.context_settings)


def walked(ctx: click.Context) -> Iterator[click.Context]:
    """The contexts of a program and of all its commands."""
    yield ctx
    if isinstance(ctx.command, click.Group):
        for name in ctx.command.list_commands(ctx):
            command = ctx.command.get_command(ctx, name)
            assert command is not None
            yield from walked(context(command, name, ctx))


COMMANDS = {ctx.command_path: ctx for name, program in PROGRAMS.items() for ctx in walked(context(program, name))}


def test_the_commands_of_all_programs_are_found() -> None:
    assert len(COMMANDS) > 50
    assert {"zkproducer", "mirrormaker run", "zkconsumer migrate copy", "sparkpipeline load rewind"} <= COMMANDS.keys()


@pytest.mark.parametrize(("program", "wrong", "right"), [
    ("zkconsumer", "consme", "consume"), ("sparkpipeline", "laod", "load"), ("mirrormaker", "statis", "status"),
])  # fmt: skip
def test_a_mistyped_command_is_told_the_nearest_one(program: str, wrong: str, right: str) -> None:
    with pytest.raises(click.UsageError) as raised, context(PROGRAMS[program], program) as ctx:
        PROGRAMS[program].resolve_command(ctx, [wrong])  # type: ignore[attr-defined]
    assert f"'{right}'" in raised.value.format_message()


def checked(line: str) -> str:
    """The path of the command that a line of a shell names.  Raises UsageError for what it does not take."""
    words = shlex.split(CUT.split(SOURCED.sub(r"\1", line))[0])
    path = words.pop(0)
    while words and f"{path} {words[0]}" in COMMANDS:
        path = f"{path} {words.pop(0)}"
    if path == "zkproducer" and words[:1] == ["completion"]:  # beside its options, it is no command of a group
        path, words = "mirrormaker completion", words[1:]
    ctx = COMMANDS[path]
    given, rest, _ = ctx.command.make_parser(ctx).parse_args(words)
    if rest:
        raise click.UsageError(f"{path}: unexpected {rest}")
    for param in ctx.command.params:
        value = given.get(str(param.name))
        missing = value is None or value == () or "UNSET" in repr(value)
        if param.required and missing:
            raise click.UsageError(f"{path}: {param.name} is missing")
        if not missing and isinstance(param.type, (click.Choice, click.IntRange, click.FloatRange)):
            several = isinstance(value, (list, tuple))
            for each in value if several else [value]:
                param.type.convert(each, param, ctx)
    return path


@each("path", COMMANDS)
def test_every_command_has_a_purpose_of_one_line_and_examples_that_parse(path: str) -> None:
    command = COMMANDS[path].command
    assert isinstance(command, Command)
    above = path.rpartition(" ")[0]
    beside = [other.rpartition(" ")[2] for other in COMMANDS if other.rpartition(" ")[0] == above]
    room = 72 - max(map(len, beside)) if above else 80  # as click counts it, on a terminal of 80 columns
    purpose = command.get_short_help_str(room)
    assert re.fullmatch(r"[A-Z].*[^.]\.", purpose), f"the first sentence is cut: {purpose}"
    assert len(set(command.examples)) == len(command.examples) >= (3 if path.count(" ") < 2 else 1)
    for example in command.examples:
        named = checked(example)
        assert named == path or isinstance(command, click.Group) or "completion" in example, example
        assert f"{path} " in f"{example} "


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("mirrormaker run mirror.yaml --wrokers 4", "No such option"),
        ("mirrormaker parked release orders:3", "to is missing"),
        ("mirrormaker run mirror.yaml --log-level loud", "is not one of"),
        ("zkconsumer lag a b", "unexpected"),
        ("sparkpipeline lod run load.yaml", "unexpected"),
    ],
)
def test_an_example_that_does_not_parse_is_found(line: str, why: str) -> None:
    with pytest.raises(click.UsageError, match=why):
        checked(line)


@each("path", COMMANDS)
def test_help_ends_with_examples_and_exit_codes(path: str) -> None:
    shown = COMMANDS[path].get_help()
    options, examples, codes = (shown.find(f"\n{title}:\n") for title in ("Options", "Examples", "Exit codes"))
    assert -1 < options < examples < codes, shown
    assert re.search(r"\n  0 +(done|all lines are stored)", shown[codes:])
    assert re.search(r"\n  (2|64) +wrong command line", shown[codes:])


# completion -----------------------------------------------------------------------------------------------------------

ASKED = {
    "mirrormaker": (["sys"], {"systemd-unit"}),
    "zkconsumer": (["offsets", "cop"], {"copy-group"}),
    "zkproducer": (["--broker"], {"--broker-list"}),
    "sparkpipeline": (["sta"], {"stages"}),
}


@pytest.mark.thorough
@pytest.mark.parametrize("program", PROGRAMS)
def test_bash_completes_what_the_installed_command_has(program: str) -> None:
    """The script is read by a real bash, which then calls the function that it bound to the command."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    words, expected = ASKED[program]
    script = f"""
set -e
source <({program} completion bash)
complete -p {program} | grep -q -- '-F'
bound=$(complete -p {program} | sed 's/.*-F \\([^ ]*\\).*/\\1/')
COMP_WORDS=({program} {" ".join(words)}) COMP_CWORD={len(words)}
"$bound" {program} '{words[-1]}' ''
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    environment = {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": "/nowhere"}
    done = subprocess.run([bash, "--norc", "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert set(done.stdout.split()) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_completion_prints_the_script_of_a_shell(program: str, shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    PROGRAMS[program].main(["completion", shell], prog_name=program, standalone_mode=False)
    assert f"_{program.upper()}_COMPLETE" in capsys.readouterr().out
    with pytest.raises(click.UsageError, match="'tcsh' is not one of 'bash', 'zsh', 'fish'"):
        PROGRAMS[program].main(["completion", "tcsh"], prog_name=program, standalone_mode=False)
