"""Commands that are given a whole configuration, a YAML file or the original's flags: run, check, verify, diff."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from groundwork.java import filter_text
from groundwork.logs import FORMS, LEVELS, set_up_logging
from groundwork.options import ERROR, WARN, OptionError
from groundwork.output import print_note, print_text
from groundwork.sentences import counted
from mirrormaker import exits
from mirrormaker.commands.diffflags import DiffFlags, diff_options
from mirrormaker.commands.flags import ConfiguredCommand, original_flags
from mirrormaker.commands.verifyflags import VerifyFlags, verify_options
from mirrormaker.config import Configuration, from_flags, from_yaml, merging, workers_mean
from mirrormaker.control.server import PROFILE_MAX_S
from mirrormaker.options import MAX_WORKERS, MirrorOptions

FLAGS = {
    "whitelist": "whitelist",
    "blacklist": "blacklist",
    "num_streams": "num.streams",
    "offset_commit_interval_ms": "offset.commit.interval.ms",
    "message_handler": "message.handler",
}


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
    new_consumer: bool = False,
    new_producer: bool = False,
    without_effect: Sequence[str] = (),
    log_level: str | None = None,
    log_format: str | None = None,
    workers: int | None = None,
    **flags: str | None,
) -> Configuration:
    """Return the configuration that a command line names.  Raises OptionError, and click.UsageError for what
    contradicts itself.

    without_effect: sentences on flags that change nothing; they become warnings.  log_level, log_format, workers: in
    place of the configuration's.
    """
    try:
        found = _configuration(
            file,
            consumer_config,
            producer_config,
            unknown_options=unknown_options,
            flags=flags,
            clients=(new_consumer, new_producer),
        )
    except OptionError as exc:
        raise OptionError(exc.problems, exc.forbidden, (*without_effect, *exc.warnings)) from exc
    mirror = replace(
        found.mirror,
        log_level=log_level or found.mirror.log_level,
        log_format=log_format or found.mirror.log_format,
        workers=workers or found.mirror.workers,
    )
    if problems := list(mirror.worker_problems()):
        raise OptionError([f"{found.name}: mirror: {problem}" for problem in problems])
    return replace(found, mirror=mirror, warnings=(*without_effect, *found.warnings))


def _configuration(
    file: Path | None,
    consumer_config: Sequence[str],
    producer_config: str | None,
    *,
    unknown_options: str,
    flags: Mapping[str, str | None],
    clients: tuple[bool, bool],
) -> Configuration:
    """clients: whether --new.consumer and --new.producer are given."""
    given = {FLAGS[name]: text for name, text in flags.items() if text is not None}
    by_flags = [
        *(["--consumer.config"] if consumer_config else []),
        *(["--producer.config"] if producer_config else []),
    ]
    by_flags += [f"--{name}" for name in given]
    by_flags += [flag for flag, is_given in zip(("--new.consumer", "--new.producer"), clients, strict=True) if is_given]
    if file is not None and by_flags:
        raise click.UsageError(f"{file} is a whole configuration; {', '.join(by_flags)} cannot be given beside it")
    if file is not None:
        return from_yaml(file, unknown_options)
    if not by_flags:
        raise click.UsageError(
            "give a YAML file, or --consumer.config, --producer.config and --whitelist or --blacklist"
        )
    consumers = [Path(path) for path in consumer_config]
    producer = Path(producer_config) if producer_config else None
    return from_flags(consumers, producer, given, unknown_options, new_consumer=clients[0], new_producer=clients[1])


@click.command(
    cls=ConfiguredCommand,
    examples=[
        "mirrormaker run mirror.yaml",
        "mirrormaker run --consumer.config dc1.properties --producer.config dc2.properties --whitelist 'orders.*'",
        "mirrormaker run mirror.yaml --workers 4 --log-format json",
    ],
)
@click.option("--log-level", type=click.Choice(LEVELS), help="Lowest level of log lines.  [default: mirror.log.level]")
@click.option("--log-format", type=click.Choice(FORMS), help="Form of log lines.  [default: mirror.log.format]")
@workers_option
@click.option("--as-worker", hidden=True, help="NUMBER:DESCRIPTOR of a worker and its channel, from its supervisor.")
@click.option(
    "--profile-seconds",
    type=click.FloatRange(1, PROFILE_MAX_S),
    help="Once it mirrors, take a profile of that many seconds: print the stages and the bottleneck; then go on.",
)
@configured
def run(file: Path | None, *, as_worker: str | None, profile_seconds: float | None, **flags: Any) -> int:
    """Mirror until SIGTERM or ctrl-C.

    The signal makes it drain, commit, leave the group and exit with 0 within 10 s.  A second one stops at once.

    Exit code 75: something was not acknowledged in time, and is sent again after the next start.
    """
    if as_worker is not None:
        from mirrormaker.workers.worker import run_worker

        number, _, descriptor = as_worker.partition(":")
        return run_worker(int(number), int(descriptor), profile_seconds)
    read = partial(configuration, file, **flags)
    found = read()
    if found.mirror.workers > 1:
        from mirrormaker.workers.supervisor import run_supervisor  # it loads nothing of what copies

        return run_supervisor(found, read)
    from mirrormaker.daemon import run_daemon  # after the configuration is known to be right

    return run_daemon(found, read, profile_s=profile_seconds)


@click.command(
    cls=ConfiguredCommand,
    examples=[
        "mirrormaker check mirror.yaml",
        "mirrormaker check mirror.yaml --online  # connect to both clusters too",
        "mirrormaker check mirror.yaml --strict  # before a deployment",
    ],
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
        print_note(f"unsafe: {note}")
    for warning in found.warnings:
        print_note(f"warning: {warning}")
    for sentence in (*workers_mean(found), *merging(found.sources, found.mirror)):
        print_note(f"note: {sentence}")
    if strict and found.notes:
        print_note(f"error: {counted(len(found.notes), 'unsafe setting')}, and --strict allows none")
        return exits.CONFIGURATION
    sound = f"ok: {counted(len(found.sources), 'source')}, {topics(found.mirror)}"
    if online:
        from mirrormaker.commands.online import check_online

        set_up_logging("error")  # the ZooKeeper client would log each failed connect; one sentence is enough
        code = check_online(found)
        if code == exits.CLEAN:
            print_note(f"{sound}; every cluster answered")  # beside the table
        return code
    print_text(f"{sound}; no cluster was asked: --online asks them")
    return exits.CLEAN


@click.command(
    cls=ConfiguredCommand,
    examples=[
        "mirrormaker verify mirror.yaml",
        "mirrormaker verify mirror.yaml --since 7d --deep",
        "mirrormaker verify mirror.yaml --topics 'orders|payments.*' -o json",
    ],
    exit_codes=exits.VERIFY,
)
@verify_options
@configured
def verify(file: Path | None, *, asked: VerifyFlags, **flags: Any) -> int:
    """Compare the messages of sources and target.

    The mirror may run meanwhile.  Exit code 4: the target lacks messages.

    Prints a row for each partition, or for each topic whose partitions differ, and the first differences.
    """
    found = configuration(file, **flags)
    set_up_logging("error")
    from mirrormaker.commands.verify import run_verify

    return run_verify(found, asked)


@click.command(
    cls=ConfiguredCommand,
    examples=[
        "mirrormaker diff mirror.yaml",
        "mirrormaker diff mirror.yaml --topics 'orders|payments.*' --all",
        "mirrormaker diff mirror.yaml --defaults -o json",
    ],
    exit_codes=exits.DIFF,
)
@diff_options
@configured
def diff(file: Path | None, *, asked: DiffFlags, **flags: Any) -> int:
    """Compare topics, settings and groups of sources and target.

    Writes nothing to any of them.  Exit code 4: something differs or is missing that the configuration does not
    explain.

    Prints a row for each difference; with --all also what is the same.
    """
    found = configuration(file, **flags)
    set_up_logging("error")
    from mirrormaker.commands.diff import run_diff

    return run_diff(found, asked)


def topics(mirror: MirrorOptions) -> str:
    """Return which topics are mirrored, in words."""
    if not mirror.whitelist:
        return f"all topics but {filter_text(mirror.blacklist)}"
    but = f" but not {filter_text(mirror.blacklist)}" if mirror.blacklist else ""
    return f"topics {filter_text(mirror.whitelist)}{but}"
