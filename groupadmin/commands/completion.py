"""`zkconsumer completion SHELL`: the completion script of a shell for commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from groundwork.output import fail

PROGRAM = "zkconsumer"


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell, for its start file: source <(zkconsumer completion bash)"""
    script = get_completion_class(shell)
    if script is None:
        fail(f"click {click.__version__} has no completion for {shell}")
    root = ctx.find_root().command
    click.echo(script(root, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE").source())
