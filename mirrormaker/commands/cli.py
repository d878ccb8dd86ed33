"""`mirrormaker`: run a mirror, or check its configuration.

    mirrormaker run FILE                     from a YAML file
    mirrormaker run --consumer.config C --producer.config P --whitelist W     from what the original was given
    mirrormaker check ... [--online]         the same arguments: says what is wrong, starts nothing
    mirrormaker verify ... [--since TIME]    the same arguments: compares what both clusters hold
    mirrormaker diff ... [--all]             the same arguments: compares topics, partitions and settings
    mirrormaker status, topics, pause, resume, throttle, parked, set-log-level, profile      ask a running mirror
    mirrormaker sample-config, systemd-unit, completion      files to begin with

Data on stdout, everything else on stderr; one sentence an error.  Exit codes: mirrormaker.exits.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from groundwork.commands import Program
from groundwork.options import OptionError
from groundwork.output import print_note, run_command
from mirrormaker import exits

PROGRAM = "mirrormaker"
COMMANDS = {
    "run": "mirrormaker.commands.configured:run",
    "check": "mirrormaker.commands.configured:check",
    "verify": "mirrormaker.commands.configured:verify",
    "diff": "mirrormaker.commands.configured:diff",
    "status": "mirrormaker.commands.status:status",
    "topics": "mirrormaker.commands.topics:topics",
    "pause": "mirrormaker.commands.control:pause",
    "resume": "mirrormaker.commands.control:resume",
    "throttle": "mirrormaker.commands.control:throttle",
    "parked": "mirrormaker.commands.control:parked",
    "set-log-level": "mirrormaker.commands.control:set_log_level",
    "profile": "mirrormaker.commands.control:profile",
    "sample-config": "mirrormaker.commands.samples:sample_config",
    "systemd-unit": "mirrormaker.commands.samples:systemd_unit",
}


def failure(exc: Exception) -> Exception | None:
    """Report what is wrong with a configuration; how it ends the program."""
    if not isinstance(exc, OptionError):
        return None
    for warning in exc.warnings:
        print_note(f"warning: {warning}")
    for problem in exc.problems:
        print_note(f"error: {problem}")
    return click.exceptions.Exit(exits.PERMISSION if exc.forbidden else exits.CONFIGURATION)


cli = Program(
    PROGRAM,
    help="""Mirror topics from old Kafka clusters to a target cluster.

    It joins ZooKeeper consumer groups as the JVM's MirrorMaker does.
    """,
    later=COMMANDS,
    failure=failure,
    exit_codes=exits.MEANING,
    examples=[
        "mirrormaker sample-config > mirror.yaml",
        "mirrormaker check mirror.yaml --online",
        "mirrormaker run mirror.yaml",
    ],
)


def outcome(args: Sequence[str]) -> int:
    """Run a command line; its exit code."""
    return run_command(cli, args, PROGRAM, usage=exits.USAGE, failed=exits.INTERNAL, shortage=exits.TEMPORARY)
