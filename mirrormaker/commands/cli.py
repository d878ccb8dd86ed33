"""`mirrormaker`: run a mirror, or check its configuration.

    mirrormaker run FILE                     from a YAML file
    mirrormaker run --consumer.config C --producer.config P --whitelist W     from what the original was given
    mirrormaker check ... [--online]         the same arguments: says what is wrong, starts nothing
    mirrormaker verify ... [--since TIME]    the same arguments: compares what both clusters hold
    mirrormaker status, topics, pause, resume, throttle, parked, set-log-level, profile      ask a running mirror
    mirrormaker sample-config, systemd-unit, completion      files to begin with

Data on stdout, everything else on stderr; one sentence an error.  Exit codes: mirrormaker.exits.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from groundwork.commands import Group, completion
from groundwork.installed import DISTRIBUTION
from groundwork.openfiles import shortage
from groundwork.options import OptionError
from groundwork.output import Failure, print_note, show
from mirrormaker import exits

PROGRAM = "mirrormaker"
COMMANDS = {
    "run": "mirrormaker.commands.configured:run",
    "check": "mirrormaker.commands.configured:check",
    "verify": "mirrormaker.commands.configured:verify",
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


@click.group(
    cls=Group,
    later=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    exit_codes=exits.MEANING,
    examples=[
        "mirrormaker sample-config > mirror.yaml",
        "mirrormaker check mirror.yaml --online",
        "mirrormaker run mirror.yaml",
    ],
)
@click.version_option(package_name=DISTRIBUTION, prog_name=PROGRAM)
def cli() -> None:
    """Mirror topics from old Kafka clusters to a target cluster.

    It joins ZooKeeper consumer groups as the JVM's MirrorMaker does.
    """


cli.add_command(completion(PROGRAM))


def outcome(args: Sequence[str]) -> int:
    """Run a command line; its exit code."""
    try:
        code = cli.main(args=list(args), prog_name=PROGRAM, standalone_mode=False)
    except click.UsageError as exc:
        show(exc)
        return exits.USAGE
    except Failure as exc:
        show(exc)
        return exc.exit_code
    except click.ClickException as exc:
        show(exc)
        return exits.INTERNAL
    except (click.Abort, KeyboardInterrupt):
        print_note("mirrormaker: interrupted")
        return exits.INTERRUPTED
    except OptionError as exc:
        for warning in exc.warnings:
            print_note(f"warning: {warning}")
        for problem in exc.problems:
            print_note(f"error: {problem}")
        return exits.PERMISSION if exc.forbidden else exits.CONFIGURATION
    except Exception as exc:
        if not (sentence := shortage(exc)):
            raise
        print_note(f"error: {sentence}")
        return exits.TEMPORARY
    return code if isinstance(code, int) else exits.CLEAN
