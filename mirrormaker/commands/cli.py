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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from groundwork.commands import Group, completion
from groundwork.java import filter_text
from groundwork.logs import FORMS, LEVELS, set_up_logging
from groundwork.openfiles import too_many
from groundwork.options import ERROR, WARN
from groundwork.output import Failure
from groundwork.sentences import counted
from mirrormaker import exits
from mirrormaker.commands.control import parked, pause, profile, resume, set_log_level, throttle
from mirrormaker.commands.flags import original_flags
from mirrormaker.commands.samples import sample_config, systemd_unit
from mirrormaker.commands.status import status
from mirrormaker.commands.topics import topics as topics_command
from mirrormaker.commands.verifyflags import VerifyFlags, verify_options
from mirrormaker.config import ConfigError, Configuration, from_flags, from_yaml, merging, workers_mean
from mirrormaker.control.server import PROFILE_MAX_S
from mirrormaker.options import MAX_WORKERS, MirrorOptions

DISTRIBUTION = "kafka-legacy-mirror"
FLAGS = {
    "whitelist": "whitelist",
    "blacklist": "blacklist",
    "num_streams": "num.streams",
    "offset_commit_interval_ms": "offset.commit.interval.ms",
    "message_handler": "message.handler",
}


def outcome(args: Sequence[str]) -> int:
    """Run a command line; its exit code."""
    try:
        code = cli.main(args=list(args), prog_name="mirrormaker", standalone_mode=False)
    except click.UsageError as exc:
        exc.show()
        return exits.USAGE
    except Failure as exc:
        exc.show()
        return exc.exit_code
    except click.ClickException as exc:
        exc.show()
        return exits.INTERNAL
    except (click.Abort, KeyboardInterrupt):
        click.echo("mirrormaker: interrupted", err=True)
        return exits.INTERRUPTED
    except ConfigError as exc:
        for problem in exc.problems:
            click.echo(f"error: {problem}", err=True)
        return exits.PERMISSION if exc.forbidden else exits.CONFIGURATION
    except Exception as exc:
        if not (sentence := too_many(exc)):
            raise
        click.echo(f"error: {sentence}", err=True)
        return exits.TEMPORARY
    return code if isinstance(code, int) else exits.CLEAN


def configured(command: Callable[..., Any]) -> Callable[..., Any]:
    """Arguments of run and check: a YAML file, or the original's flags."""
    command = click.option(
        "--unknown-options",
        type=click.Choice([ERROR, WARN]),
        default=ERROR,
        show_default=True,
        help="Treat an unknown option as an error, or as a warning like the JVM.",
    )(original_flags(command))
    return click.argument("file", required=False, type=click.Path(path_type=Path))(command)


workers_option = click.option(
    "--workers",
    type=click.IntRange(1, MAX_WORKERS),
    help="Daemon processes that share the partitions, seen as one.  [default: mirror.workers]",
)


def configuration(
    file: Path | None,
    *,
    consumer_config: Sequence[str],
    producer_config: str | None,
    unknown_options: str,
    without_effect: Sequence[str] = (),
    log_level: str | None = None,
    log_format: str | None = None,
    workers: int | None = None,
    **flags: str | None,
) -> Configuration:
    """The configuration a command line names.  Raises ConfigError, and click.UsageError for what contradicts itself.

    without_effect: sentences on flags that change nothing; they become warnings.  log_level, log_format, workers: in
    place of the configuration's.
    """
    found = _configuration(file, consumer_config, producer_config, unknown_options=unknown_options, flags=flags)
    mirror = replace(
        found.mirror,
        log_level=log_level or found.mirror.log_level,
        log_format=log_format or found.mirror.log_format,
        workers=workers or found.mirror.workers,
    )
    if problems := list(mirror.worker_problems()):
        raise ConfigError([f"{found.name}: mirror: {problem}" for problem in problems])
    return replace(found, mirror=mirror, warnings=(*without_effect, *found.warnings))


def _configuration(
    file: Path | None,
    consumer_config: Sequence[str],
    producer_config: str | None,
    *,
    unknown_options: str,
    flags: Mapping[str, str | None],
) -> Configuration:
    given = {FLAGS[name]: text for name, text in flags.items() if text is not None}
    by_flags = [
        *(["--consumer.config"] if consumer_config else []),
        *(["--producer.config"] if producer_config else []),
    ]
    by_flags += [f"--{name}" for name in given]
    if file is not None and by_flags:
        raise click.UsageError(f"{file} is a whole configuration; {', '.join(by_flags)} cannot be given beside it")
    if file is not None:
        return from_yaml(file, unknown_options)
    if not by_flags:
        raise click.UsageError(
            "give a YAML file, or --consumer.config, --producer.config and --whitelist or --blacklist"
        )
    consumers = [Path(path) for path in consumer_config]
    return from_flags(consumers, Path(producer_config) if producer_config else None, given, unknown_options)


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    exit_codes=exits.MEANING,
    examples=[
        "mirrormaker sample-config > mirror.yaml",
        "mirrormaker check mirror.yaml --online",
        "mirrormaker run mirror.yaml",
    ],
)
@click.version_option(version(DISTRIBUTION), "--version", prog_name="mirrormaker")
def cli() -> None:
    """Mirror topics from old Kafka clusters to a target cluster.

    It joins ZooKeeper consumer groups as the JVM's MirrorMaker does.
    """


@cli.command(
    examples=[
        "mirrormaker run mirror.yaml",
        "mirrormaker run --consumer.config dc1.properties --producer.config dc2.properties --whitelist 'orders.*'",
        "mirrormaker run mirror.yaml --workers 4 --log-format json",
    ]
)
@click.option("--log-level", type=click.Choice(LEVELS), help="Lowest level of log lines.  [default: mirror.log.level]")
@click.option("--log-format", type=click.Choice(FORMS), help="Form of log lines.  [default: mirror.log.format]")
@workers_option
@click.option("--as-worker", hidden=True, help="NUMBER:DESCRIPTOR of a worker and its channel, from its supervisor.")
@click.option(
    "--profile-seconds",
    type=click.FloatRange(1, PROFILE_MAX_S),
    help="Once it mirrors, print where the time of so many seconds went, and the bottleneck; then mirror on.",
)
@configured
def run(file: Path | None, *, as_worker: str | None, profile_seconds: float | None, **flags: Any) -> int:
    """Mirror until SIGTERM or ctrl-C.

    The signal makes it drain, commit, leave the group and exit with 0 within 10 s.  A second one stops at once.

    Exit code 75: something was not acknowledged in time, and is sent again after the next start.
    """
    read = partial(configuration, file, **flags)
    if as_worker is not None:
        from mirrormaker.workers.worker import run_worker

        number, _, descriptor = as_worker.partition(":")
        return run_worker(int(number), int(descriptor), read, profile_seconds)
    found = read()
    if found.mirror.workers > 1:
        from mirrormaker.workers.supervisor import run_supervisor  # it loads nothing of what copies

        return run_supervisor(found, read)
    from mirrormaker.daemon import run_daemon  # after the configuration is known to be right

    return run_daemon(found, read, profile_s=profile_seconds)


@cli.command(
    examples=[
        "mirrormaker check mirror.yaml",
        "mirrormaker check mirror.yaml --online  # connect to both clusters too",
        "mirrormaker check mirror.yaml --strict  # before a deployment",
    ]
)
@click.option(
    "--online",
    is_flag=True,
    help="Connect to the clusters too: print topics, partition counts on both sides, routes, releases, sizes.",
)
@click.option("--strict", is_flag=True, help="Treat what is unsafe as an error: exit code 78, before any connection.")
@workers_option
@configured
def check(file: Path | None, *, online: bool, strict: bool, **flags: Any) -> int:
    """Check a configuration, and start nothing.

    Prints what is wrong and what is unsafe.
    """
    found = configuration(file, **flags)
    for note in found.notes:
        click.echo(f"unsafe: {note}", err=True)
    for warning in found.warnings:
        click.echo(f"warning: {warning}", err=True)
    for sentence in (*workers_mean(found), *merging(found.sources, found.mirror)):
        click.echo(f"note: {sentence}", err=True)
    if strict and found.notes:
        click.echo(f"error: {counted(len(found.notes), 'unsafe setting')}, and --strict allows none", err=True)
        return exits.CONFIGURATION
    sound = f"ok: {counted(len(found.sources), 'source')}, {topics(found.mirror)}"
    if online:
        from mirrormaker.commands.online import check_online

        set_up_logging("error")  # the ZooKeeper client would log each failed connect; one sentence is enough
        code = check_online(found)
        if code == exits.CLEAN:
            click.echo(f"{sound}; every cluster answered", err=True)  # beside the table
        return code
    click.echo(f"{sound}; no cluster was asked: --online asks them")
    return exits.CLEAN


@cli.command(
    examples=[
        "mirrormaker verify mirror.yaml",
        "mirrormaker verify mirror.yaml --since 7d --deep",
        "mirrormaker verify mirror.yaml --topics 'orders|payments.*' -o json",
    ],
    exit_codes=exits.VERIFY,
)
@verify_options
@configured
def verify(file: Path | None, **flags: Any) -> int:
    """Compare the messages of sources and target.

    The mirror may run meanwhile.  Exit code 4: the target lacks messages.

    Prints a row for each partition, or for each topic whose partitions differ, and the first differences.
    """
    asked = VerifyFlags.taken(flags)
    found = configuration(file, **flags)
    set_up_logging("error")
    from mirrormaker.commands.verify import run_verify

    return run_verify(found, asked)


def topics(mirror: MirrorOptions) -> str:
    """Which topics are mirrored, in words."""
    if not mirror.whitelist:
        return f"all topics but {filter_text(mirror.blacklist)}"
    but = f" but not {filter_text(mirror.blacklist)}" if mirror.blacklist else ""
    return f"topics {filter_text(mirror.whitelist)}{but}"


for command in (status, topics_command, pause, resume, throttle, parked, set_log_level, profile):
    cli.add_command(command)
for command in (sample_config, systemd_unit, completion("mirrormaker")):
    cli.add_command(command)
