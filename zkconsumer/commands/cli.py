"""`zkconsumer`: read topics as a member of a ZooKeeper consumer group, inspect and change groups and their offsets.

    zkconsumer consume -z ZK --topic T --group G            messages to stdout, one per line
    zkconsumer groups list | describe | members             owners, committed offsets, lag
    zkconsumer offsets get | set | reset | export | ...     offsets in ZooKeeper and in Kafka
    zkconsumer lag -z ZK --watch 5                          lag of every group
    zkconsumer verify-rebalance G -z ZK                     is every partition read by the right member
    zkconsumer migrate plan | check | copy | ..             groups from ZooKeeper to Kafka, and back
    zkconsumer topics | brokers                             the cluster, by ZooKeeper or by a broker
    zkconsumer completion bash                              completion for the shell

Data on stdout, everything else on stderr.  Exit codes: groundwork.output.EXIT, and 130 after ctrl-C.
"""

from __future__ import annotations

import platform

import click

from groundwork.commands import EXIT_CODES, Program
from groundwork.installed import version_of
from groundwork.output import run_command
from kafkawire import kernels
from kafkawire.errors import LocalError
from zkconsumer.commands import pipes

PROGRAM = "zkconsumer"
COMMANDS = {  # groupadmin is above this package, so its commands are named here and never imported
    "consume": "zkconsumer.commands.consume:consume",
    "groups": "groupadmin.commands.groups:groups",
    "offsets": "groupadmin.commands.offsets:offsets",
    "lag": "groupadmin.commands.lag:lag",
    "verify-rebalance": "groupadmin.commands.verify:verify_rebalance",
    "migrate": "groupadmin.commands.migrate:migrate",
    "topics": "zkconsumer.commands.cluster:topics",
    "brokers": "zkconsumer.commands.cluster:brokers",
}


def foundations() -> list[str]:
    """Versions and kernels that decide its behaviour on this machine.  Raises UsageError for missing kernels."""
    try:
        kernels_here = kernels.name()
    except LocalError as e:  # KAFKAWIRE_KERNELS names kernels that are not there
        raise click.UsageError(str(e)) from None
    return [
        f"column kernels {kernels_here}",
        f"Python {platform.python_version()} ({platform.python_implementation()})",
        *(f"{name} {version_of(name)}" for name in ("gevent", "kazoo")),
    ]


cli = Program(
    PROGRAM,
    help="""Read topics as a group member; show and change groups.

    Groups in ZooKeeper and in Kafka, with their committed offsets and lag.
    """,
    later=COMMANDS,
    versions=foundations,
    exit_codes=EXIT_CODES,
    examples=[
        "zkconsumer consume -z zk1:2181/kafka --topic orders --group billing",
        "zkconsumer lag -z zk1:2181/kafka --group billing",
        "zkconsumer offsets reset -z zk1:2181/kafka --group billing --topic orders --to-earliest --execute",
    ],
)


def outcome(args: list[str]) -> int:
    """Run a command line; its exit code.  A full disk during output is reported in one sentence."""
    return pipes.printing(lambda: run_command(cli, args, PROGRAM))
