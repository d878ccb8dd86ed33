"""`zkconsumer`: read topics as a member of a ZooKeeper consumer group, look at groups and at the cluster.

    zkconsumer consume -z ZK --topic T --group G            messages to stdout, one a line
    zkconsumer groups list | describe | members             who owns what, what is committed, how far behind
    zkconsumer offsets get | set | reset | export | ...     positions in ZooKeeper and in Kafka
    zkconsumer lag -z ZK --watch 5                          of every group
    zkconsumer verify-rebalance G -z ZK                     is every partition read, by whom it should be
    zkconsumer migrate plan | check | copy | ..             groups off ZooKeeper, and back
    zkconsumer topics | brokers                             the cluster, by ZooKeeper or any one broker
    zkconsumer completion bash                              for the shell

Data on stdout, everything else on stderr.  Exit codes: groundwork.output.EXIT, and 130 after ctrl-C.
"""

from __future__ import annotations

import platform
from importlib.metadata import version

import click

from groundwork.output import run_command, version_line
from groupadmin.commands.completion import PROGRAM, completion
from groupadmin.commands.groups import groups
from groupadmin.commands.lag import lag
from groupadmin.commands.migrate import migrate
from groupadmin.commands.offsets import offsets
from groupadmin.commands.verify import verify_rebalance
from kafkawire import kernels
from kafkawire.errors import LocalError
from zkconsumer.commands import pipes
from zkconsumer.commands.cluster import brokers, topics
from zkconsumer.commands.consume import consume


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    "show_version",
    is_flag=True,
    help="Print the version; with -v, also those of Python and of the libraries.",
)
@click.option("-v", "--verbose", is_flag=True, help="With --version.")
@click.pass_context
def cli(ctx: click.Context, show_version: bool, verbose: bool) -> None:
    """Consumer groups that live in ZooKeeper: read with one, look at one."""
    if show_version:
        try:
            click.echo("\n".join([own_version(), *(foundations() if verbose else ())]))
        except LocalError as e:  # KAFKAWIRE_KERNELS says what is not there
            raise click.UsageError(str(e), ctx) from None
        ctx.exit(0)
    if ctx.invoked_subcommand is None:
        raise click.UsageError("a command is missing; zkconsumer --help lists them", ctx)


for command in (consume, groups, offsets, lag, verify_rebalance, migrate, topics, brokers, completion):
    cli.add_command(command)


def own_version() -> str:
    return version_line(PROGRAM)


def foundations() -> list[str]:
    """What decides how it behaves on this machine.  Raises LocalError for kernels that are asked for and not there."""
    return [
        f"column kernels {kernels.name()}",
        f"Python {platform.python_version()} ({platform.python_implementation()})",
        *(f"{name} {version(name)}" for name in ("gevent", "kazoo")),
    ]


def outcome(args: list[str]) -> int:
    """Run a command line; its exit code.  A disk that takes no more of what we print is one sentence."""
    return pipes.printing(lambda: run_command(cli, args=args, name=PROGRAM))
