"""Commands that change a running mirror: pause, resume, throttle, parked, set-log-level; and profile."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import click

from groundwork.commands import Command, Group, output_option
from groundwork.logs import LEVELS
from groundwork.output import print_note, write
from mirrormaker import exits
from mirrormaker.commands.running import ask, say, socket_option, source_option, split_file, stream
from mirrormaker.control.server import PROFILE_MAX_S, PROFILE_S

PARKED = ("source", "topic", "partition", "at", "lag", "policy", "reason")
SIZES = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}

keep_option = click.option("--keep", is_flag=True, help="Keep it over restarts, in the state folder of the mirror.")


def _size(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """A number of bytes, with k, M, G (1000) or Ki, Mi, Gi (1024) behind it."""
    if value is None:
        return None
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([kmg]i?)?b?", value.strip().lower())
    if found is None:
        raise click.BadParameter(f"{value!r} is no number such as 500k, 1M or 2.5Mi")
    return float(found[1]) * SIZES[found[2] or ""]


def _one_word(words: Sequence[str], what: str, *, needed: bool) -> tuple[Path | None, str | None]:
    """FILE, if it is there, and the word behind it."""
    file, rest = split_file(words)
    if len(rest) > 1 or (needed and not rest):
        raise click.UsageError(f"{what} is wanted" + (f", not {' '.join(rest)}" if rest else ""))
    return file, rest[0] if rest else None


@click.command(
    cls=Command,
    examples=[
        "mirrormaker pause orders",
        "mirrormaker pause orders:3",
        "mirrormaker pause mirror.yaml orders --keep  # over restarts",
    ],
)
@click.argument("words", nargs=-1, required=True, metavar="[FILE] TOPIC[:PARTITION]")
@socket_option
@source_option
@keep_option
def pause(words: Sequence[str], *, socket_path: Path | None, source: str | None, keep: bool) -> int:
    """Stop reading a topic or partition; others flow on.

    What is in flight is acknowledged and committed.  Until `resume` or the next start; with --keep until `resume`.
    """
    file, what = _one_word(words, "TOPIC or TOPIC:PARTITION", needed=True)
    say(ask(file, socket_path, "pause", what=what, source=source, keep=keep))
    return exits.CLEAN


@click.command(
    cls=Command,
    examples=[
        "mirrormaker resume orders",
        "mirrormaker resume orders:3",
        "mirrormaker resume mirror.yaml orders --source dc1",
    ],
)
@click.argument("words", nargs=-1, required=True, metavar="[FILE] TOPIC[:PARTITION]")
@socket_option
@source_option
def resume(words: Sequence[str], *, socket_path: Path | None, source: str | None) -> int:
    """Read a paused topic or partition again.

    It goes on from where it was paused: nothing is lost, nothing is sent twice.
    """
    file, what = _one_word(words, "TOPIC or TOPIC:PARTITION", needed=True)
    say(ask(file, socket_path, "resume", what=what, source=source))
    return exits.CLEAN


@click.command(
    cls=Command,
    examples=[
        "mirrormaker throttle orders --bytes-per-s 500k",
        "mirrormaker throttle --source dc1 --messages-per-s 1000 --keep",
        "mirrormaker throttle orders --off",
    ],
)
@click.argument("words", nargs=-1, metavar="[FILE] [TOPIC]")
@socket_option
@source_option
@click.option(
    "--bytes-per-s", callback=_size, help="Bytes a second, as they come from the source (compressed): 500k, 1M."
)
@click.option("--messages-per-s", type=click.FloatRange(1), help="Messages a second.")
@click.option("--off", is_flag=True, help="End a throttle.")
@keep_option
def throttle(
    words: Sequence[str],
    *,
    socket_path: Path | None,
    source: str | None,
    bytes_per_s: float | None,
    messages_per_s: float | None,
    off: bool,
    keep: bool,
) -> int:
    """Limit the rate of a topic or of a source.

    Without a rate: show what is limited.

    Both a topic's throttle and that of its source hold.  Other topics are not slowed by a topic's.
    """
    file, what = _one_word(words, "one TOPIC, or none for the whole source", needed=False)
    if not off and bytes_per_s is None and messages_per_s is None and (what or keep):
        raise click.UsageError("give --bytes-per-s, --messages-per-s or --off")
    answer = ask(
        file,
        socket_path,
        "throttle",
        what=what,
        source=source,
        bytes_per_s=bytes_per_s,
        messages_per_s=messages_per_s,
        off=off,
        keep=keep,
    )
    say(answer)
    return exits.CLEAN


class _ListsByDefault(Group):
    """A group whose command `list` may be left out."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=_ListsByDefault,
    examples=[
        "mirrormaker parked",
        "mirrormaker parked retry orders",
        "mirrormaker parked release orders:3 --to dead-letter --execute",
    ],
)
def parked() -> None:
    """List parked partitions, retry or release them.

    A partition is parked where one message cannot be delivered.

    `mirrormaker parked [FILE]` lists them.
    """


@parked.command("list", examples=["mirrormaker parked list mirror.yaml", "mirrormaker parked list orders -o json"])
@click.argument("words", nargs=-1, metavar="[FILE] [TOPIC[:PARTITION]]")
@socket_option
@source_option
@output_option(("table", "json"))
def parked_list(words: Sequence[str], *, socket_path: Path | None, source: str | None, output: str) -> int:
    """List parked partitions with offset and reason."""
    file, what = _one_word(words, "TOPIC or TOPIC:PARTITION", needed=False)
    rows = ask(file, socket_path, "parked", what=what, source=source)
    if rows or output == "json":
        write(rows, PARKED, output)
    else:
        print_note("nothing is parked")
    return exits.CLEAN


@parked.command("retry", examples=["mirrormaker parked retry", "mirrormaker parked retry orders:3"])
@click.argument("words", nargs=-1, metavar="[FILE] [TOPIC[:PARTITION]]")
@socket_option
@source_option
def parked_retry(words: Sequence[str], *, socket_path: Path | None, source: str | None) -> int:
    """Fetch parked partitions again, after the cause is mended.

    All of them, or those of a topic.

    The mirror does so itself every mirror.parked.retry.ms.
    """
    file, what = _one_word(words, "TOPIC or TOPIC:PARTITION", needed=False)
    say(ask(file, socket_path, "retry", what=what, source=source))
    return exits.CLEAN


@parked.command(
    "release",
    examples=[
        "mirrormaker parked release orders:3 --to dead-letter",
        "mirrormaker parked release orders:3 --to skip --execute",
    ],
)
@click.argument("words", nargs=-1, required=True, metavar="[FILE] TOPIC:PARTITION")
@socket_option
@source_option
@click.option("--to", type=click.Choice(["dead-letter", "skip"]), required=True, help="What becomes of the message.")
@click.option("--execute", is_flag=True, help="Do it; else only say what would be done.")
def parked_release(
    words: Sequence[str], *, socket_path: Path | None, source: str | None, to: str, execute: bool
) -> int:
    """Leave out the message that a partition is parked at.

    The partition goes on behind it, once.

    The message is counted as left out, and logged with topic, partition and offset.  Without --execute nothing is
    done.
    """
    file, what = _one_word(words, "TOPIC:PARTITION", needed=True)
    say(ask(file, socket_path, "release", what=what, source=source, to=to, execute=execute))
    return exits.CLEAN


@click.command(
    "set-log-level",
    cls=Command,
    examples=[
        "mirrormaker set-log-level debug",
        "mirrormaker set-log-level mirror.yaml info",
        "mirrormaker set-log-level --socket /run/mirrormaker/orders/control.sock warning",
    ],
)
@click.argument("words", nargs=-1, required=True, metavar=f"[FILE] {'|'.join(LEVELS)}")
@socket_option
def set_log_level(words: Sequence[str], *, socket_path: Path | None) -> int:
    """Set the log level until the next start."""
    file, level = _one_word(words, f"one of {', '.join(LEVELS)}", needed=True)
    if str(level).lower() not in LEVELS:
        raise click.UsageError(f"a log level is one of {', '.join(LEVELS)}, not {level}")
    say(ask(file, socket_path, "set-log-level", level=level))
    return exits.CLEAN


@click.command(
    cls=Command,
    examples=[
        "mirrormaker profile",
        "mirrormaker profile --seconds 30",
        "mirrormaker profile mirror.yaml --seconds 60",
    ],
)
@click.argument("words", nargs=-1, metavar="[FILE]")
@socket_option
@click.option(
    "--seconds",
    type=click.FloatRange(1, PROFILE_MAX_S),
    default=PROFILE_S,
    show_default=True,
    help="Length of the profile.",
)
def profile(words: Sequence[str], *, socket_path: Path | None, seconds: float) -> int:
    """Measure where the time of a running mirror goes.

    Prints the time by stage and names the bottleneck.

    The bottleneck is source, target, link, CPU or handler.  The mirror goes on meanwhile.
    """
    file, rest = split_file(words)
    if rest:
        raise click.UsageError(f"only FILE is wanted, not {' '.join(rest)}")
    for sentences in stream(file, socket_path, "profile", seconds=seconds):
        say(sentences)  # none while it watches
    return exits.CLEAN
