"""The options of `mirrormaker verify`, and the times they name."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

import click

from groundwork.commands import as_argument, output_option
from groundwork.sentences import iso_ms
from zkconsumer.filters import TopicFilter, Whitelist

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"([0-9]{1,9})([smhd])")


def moment_ms(text: str, now_ms: int) -> int:
    """Unix time of an ISO time (UTC where it names no zone), or of a duration before now: 90s, 15m, 24h, 7d.

    Raises ValueError.
    """
    duration = _DURATION.fullmatch(text.strip())
    if duration is not None:
        return now_ms - int(duration[1]) * UNITS_S[duration[2]] * 1000
    if (moment := iso_ms(text)) is None:
        raise ValueError(f"{text!r} is neither a time (2026-01-31T10:00Z) nor a duration (90s, 15m, 24h, 7d)")
    return moment


def _since(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    now_ms = time.time_ns() // 1_000_000
    try:
        found = moment_ms(text, now_ms)
    except ValueError as exc:
        raise click.BadParameter(str(exc)) from None
    if found > now_ms:
        raise click.BadParameter(f"{text} lies in the future")
    return found


def topic_pattern(context: click.Context, parameter: click.Parameter, text: str | None) -> TopicFilter | None:
    """Return the topics that an option names; None if it is not given.  Raises click.BadParameter."""
    try:
        return None if text is None else Whitelist(text)
    except ValueError as exc:
        raise click.BadParameter(str(exc)) from None


topics_option = click.option(
    "--topics",
    "only_topics",
    callback=topic_pattern,
    help="Compare these source topics only: a Java regex, commas mean 'or'.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyFlags:
    """Options of a verify run, beside the configuration."""

    only_topics: TopicFilter | None
    since: int | None  # Unix time in ms
    deep: bool
    wait: float  # seconds
    first: int
    no_duplicates: bool
    no_foreign: bool
    output: str
    metrics_file: Path | None


verify_options = as_argument(  # passes VerifyFlags as asked
    "asked",
    VerifyFlags,
    [
        topics_option,
        click.option(
            "--since",
            callback=_since,
            help="Compare messages of this time (2026-01-31T10:00Z) or duration (24h) and later. Default: all.",
        ),
        click.option("--deep", is_flag=True, help="Hash all bytes, compare timestamps, and name codecs and formats."),
        click.option(
            "--wait",
            type=click.FloatRange(min=0),
            default=60.0,
            show_default=True,
            help="Seconds to wait until the mirror has committed what the source holds now.",
        ),
        click.option(
            "--first",
            type=click.IntRange(min=0),
            default=10,
            show_default=True,
            help="Number of differences to describe.",
        ),
        click.option(
            "--no-duplicates", is_flag=True, help="Exit 4, too, where the target has messages more than once."
        ),
        click.option(
            "--no-foreign", is_flag=True, help="Exit 4, too, where the target has messages of another writer."
        ),
        output_option(("table", "json"), help="Form of stdout."),
        click.option(
            "--metrics-file",
            type=click.Path(path_type=Path, dir_okay=False),
            help="File NAME.prom to replace with the result, for the textfile collector of node_exporter.",
        ),
    ],
)
