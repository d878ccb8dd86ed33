"""The kit that all programs are made of: commands, groups of them, and options that several commands have.

    COMMANDS = {"run": "mirrormaker.commands.configured:run"}     # imported when they are called for
    cli = Program("mirrormaker", help="Mirror topics.", later=COMMANDS, exit_codes={0: "done"}, examples=[...])

    @click.command(cls=Command, examples=["mirrormaker run mirror.yaml  # until SIGTERM"])
    @output_option()
    def run(output): ...

--help of a command ends with examples and exit codes; one without exit codes of its own has those of the group above
it.  Running a command line, and printing: groundwork.output.  The start of a console script: groundwork.signals.
"""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from inspect import signature
from typing import Any, TypeVar, cast

import click
from click.shell_completion import get_completion_class

from groundwork.output import EXIT, FORMS, print_note, print_text, version_line
from groundwork.sentences import did_you_mean

F = TypeVar("F", bound=Callable[..., Any])
SHELLS = ("bash", "zsh", "fish")
POLL_S = 0.05  # how soon an answer at the terminal is noticed
EXIT_CODES = {
    EXIT["done"]: "done",
    EXIT["runtime"]: "failed while running: a connection, a broker, a file",
    EXIT["usage"]: "wrong command line, or a file it names cannot be read",
    EXIT["refused"]: "refused by a precondition; nothing was changed",
    EXIT["partly"]: "partly done, or a mismatch was found",
    EXIT["not found"]: "not found: a topic, a group, a partition",
    EXIT["exceeded"]: "a threshold was exceeded",
    130: "interrupted by ctrl-C",
}


class Command(click.Command):
    """A command whose --help ends with examples and exit codes.

    examples: command lines as a shell takes them, each with a comment behind `  #` where it needs one.
    exit_codes: meaning by code; None: those of the group above.
    """

    def __init__(
        self,
        *args: Any,
        examples: Sequence[str] = (),
        exit_codes: Mapping[int, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)
        self.exit_codes = exit_codes

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{example}\n")
        if codes := exit_codes_of(ctx):
            with formatter.section("Exit codes"):
                formatter.write_dl([(str(code), meaning) for code, meaning in sorted(codes.items())])


class Group(Command, click.Group):
    """A group whose --help ends with examples and exit codes; its commands are Commands.

    later: further commands, each by name as "module:attribute", imported when it is called for: what a program needs
        for one of them may take half a second.
    """

    command_class = Command
    group_class = type

    def __init__(self, *args: Any, later: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.later = dict(later or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.later, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return self.imported(cmd_name) or super().get_command(ctx, cmd_name)

    def imported(self, name: str) -> click.Command | None:
        """Import and return the command of `later` that has this name; None if `later` does not have it."""
        where = self.later.get(name)
        if where is None:
            return None
        module, _, attribute = where.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command), where
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            if helps := did_you_mean(args[0], self.list_commands(ctx)):  # click compares with those that it has, only
                raise click.UsageError(f"no such command '{args[0]}'{helps}", ctx) from None
            raise


class Program(Group):
    """A whole program: a group with --version, -h and `completion`, that says so when a command is missing.

    versions: further lines of `--version -v`; None: there is no -v
    failure: what an exception of a command ends the program as, such as a groundwork.output.Failure; None: a mistake
        of ours, which ends it with a traceback
    completes: the program is found by its name, so that a shell can complete its command lines
    """

    def __init__(
        self,
        name: str,
        *,
        versions: Callable[[], Iterable[str]] | None = None,
        failure: Callable[[Exception], Exception | None] = lambda exc: None,
        completes: bool = True,
        **kwargs: Any,
    ) -> None:
        also = "" if versions is None else "; with -v, also what it runs on"
        params: list[click.Parameter] = [
            click.Option(["--version", "show_version"], is_flag=True, help=f"Print the version{also}.")
        ]
        if versions is not None:
            params.append(click.Option(["-v", "--verbose"], is_flag=True, help="With --version."))
        super().__init__(
            name,
            params=params,
            callback=self._alone,
            invoke_without_command=True,
            context_settings={"help_option_names": ["-h", "--help"]},
            **kwargs,
        )
        self.versions = versions
        self.failure = failure
        if completes:
            self.add_command(completion(name))

    def _alone(self, show_version: bool, verbose: bool = False) -> None:
        """Called before a command, and when the command line has none."""
        ctx = click.get_current_context()
        if show_version:
            more = self.versions() if self.versions is not None and verbose else ()
            print_text("\n".join([version_line(str(self.name)), *more]))
            ctx.exit(0)
        if ctx.invoked_subcommand is None:
            raise click.UsageError(f"a command is missing; {ctx.command_path} --help lists them", ctx)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as exc:
            if (ends := self.failure(exc)) is None:
                raise
            raise ends from exc


class SingleCommand(Command):
    """A program that is one command without sub-commands, and still takes `completion SHELL`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] == ["completion"] and not ctx.resilient_parsing:
            command = completion(str(ctx.info_name))
            with command.make_context("completion", args[1:], parent=ctx) as inner:
                command.invoke(inner)
            ctx.exit()
        return super().parse_args(ctx, args)


# options that several commands have ----------------------------------------------------------------------------------


def option_block(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Decorator: these options, in this order in --help."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def as_argument(name: str, make: Callable[..., Any], options: Sequence[Callable[[Any], Any]]) -> Callable[[F], F]:
    """Decorator: the options, whose values the command is passed as one argument.

    make: makes that argument.  Its parameters are the values' names; those that the command does not have keep their
        defaults.
    """
    names = list(signature(make).parameters)

    def decorate(command: F) -> F:
        @wraps(command)
        def with_one(*args: Any, **values: Any) -> Any:
            one = make(**{each: values.pop(each) for each in names if each in values})
            return command(*args, **{name: one}, **values)

        return cast(F, option_block(*options)(with_one))

    return decorate


def output_option(
    forms: Sequence[str] = FORMS, default: str = "table", help: str = "Output format."
) -> Callable[[F], F]:
    """Decorator: -o, passed as output: one of the forms, for groundwork.output.write."""
    return click.option("-o", "--output", type=click.Choice(forms), default=default, show_default=True, help=help)


def execute_option(command: F) -> F:
    """Decorator: --execute, passed as execute: bool, for commands that show a plan first and then call go_ahead()."""
    option: Callable[[F], F] = click.option(
        "--execute", is_flag=True, help="Apply the plan; without it the plan is shown, and on a terminal you are asked."
    )
    return option(command)


dry_run_option = click.option("--dry-run", is_flag=True, help="Show the plan and write nothing; wins over --execute.")


def go_ahead(execute: bool, what: str, dry_run: bool = False, sleep: Callable[[float], object] = time.sleep) -> bool:
    """True if the plan that was shown is to be applied; if not, a line on stderr says so.

    With --dry-run: no; with --execute: yes.  On a terminal: as the user answers.  Else no.

    what: `write 12 offsets of group billing`.  sleep: lets other tasks run while the user thinks.
    """
    if dry_run:
        print_note(f"only a plan, nothing was done; without --dry-run: {what}")
        return False
    if execute:
        return True
    if sys.stdin.isatty() and sys.stderr.isatty():
        sys.stdout.flush()
        print_note(f"{what}? [y/N] ", nl=False)
        if _answer(sleep).strip().lower() in ("y", "yes"):
            return True
        print_note("nothing was done")
    else:
        print_note(f"only a plan, nothing was done; with --execute: {what}")
    return False


def _answer(sleep: Callable[[float], object]) -> str:
    while not select.select([sys.stdin], [], [], 0)[0]:
        sleep(POLL_S)
    return sys.stdin.readline()


def key_values(texts: Iterable[str]) -> dict[str, str]:
    """Return the pairs of texts KEY=VALUE; of a key given twice the last counts.  Raises ValueError."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"{text!r} is not KEY=VALUE")
        found[key.strip()] = value
    return found


# help and completion --------------------------------------------------------------------------------------------------


def exit_codes_of(ctx: click.Context) -> Mapping[int, str]:
    """Return the exit codes of a command: its own, or those of the nearest group above that has some."""
    at: click.Context | None = ctx
    while at is not None:
        if isinstance(at.command, Command) and at.command.exit_codes is not None:
            return at.command.exit_codes
        at = at.parent
    return {}


def completion(program: str) -> Command:
    """Return the command `completion SHELL` of a program, which prints the script that a shell reads."""

    @click.command(
        "completion",
        cls=Command,
        examples=[
            f"source <({program} completion bash)  # in ~/.bashrc",
            f"source <({program} completion zsh)  # in ~/.zshrc, behind compinit",
            f"{program} completion fish > ~/.config/fish/completions/{program}.fish",
        ],
    )
    @click.argument("shell", type=click.Choice(SHELLS))
    @click.pass_context
    def print_script(ctx: click.Context, shell: str) -> None:
        """Print the completion script of a shell."""
        script = get_completion_class(shell)
        assert script is not None, shell  # click has had all SHELLS since 8.0
        variable = f"_{program.replace('-', '_')}_COMPLETE".upper()
        print_text(script(ctx.find_root().command, {}, program, variable).source())

    return print_script
