"""The kinds of a reset on the command line, with the names of kafka-consumer-groups (KIP-122): exactly one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import click

from zkconsumer.commands.offsetlook import FILE
from zkconsumer.offsetfiles.model import SavedRow
from zkconsumer.offsetplan.spelling import parse_duration, parse_position, parse_shift, parse_time
from zkconsumer.offsetplan.wanted import (
    ByDuration,
    Current,
    Earliest,
    FromRows,
    Latest,
    Reset,
    ShiftBy,
    ToDatetime,
    ToOffset,
)

F = TypeVar("F", bound=Callable[..., Any])
_KINDS = (
    click.option("--to-earliest", is_flag=True, help="To the start of the log."),
    click.option("--to-latest", is_flag=True, help="To its end."),
    click.option("--to-current", is_flag=True, help="To the committed position; the end where there is none."),
    click.option("--to-offset", metavar="N", help="To this position."),
    click.option("--shift-by", metavar="N", help="By so many messages, back when N is negative."),
    click.option(
        "--to-datetime", metavar="TIME", help="To the first message at that time: ISO, or s/ms/ns since 1970."
    ),
    click.option("--by-duration", metavar="90m|PT1H30M", help="To the first message that long ago."),
    click.option("--from-file", type=FILE, help="To what an offsets file of any kind says."),
)


def reset_options(command: F) -> F:
    """The options, each by its own name."""
    wrapped: Any = command
    for option in reversed(_KINDS):
        wrapped = option(wrapped)
    return cast(F, wrapped)


def reset_kind(
    to_earliest: bool,
    to_latest: bool,
    to_current: bool,
    to_offset: str | None,
    shift_by: str | None,
    to_datetime: str | None,
    by_duration: str | None,
    rows: Iterable[SavedRow] | None,
    tell: Callable[[str], object],
) -> Reset:
    """The only kind given.  tell(sentence): how a time was taken.  Raises UsageError for none or two, WrongUsage."""
    given: list[Reset] = []
    if to_earliest:
        given.append(Earliest())
    if to_latest:
        given.append(Latest())
    if to_current:
        given.append(Current())
    if to_offset is not None:
        given.append(ToOffset(parse_position(to_offset)))
    if shift_by is not None:
        given.append(ShiftBy(parse_shift(shift_by)))
    if to_datetime is not None:
        moment = parse_time(to_datetime)
        if moment.note:
            tell(moment.note)
        given.append(ToDatetime(moment.ms))
    if by_duration is not None:
        given.append(ByDuration(parse_duration(by_duration)))
    if rows is not None:
        given.append(FromRows({row.tp: row.position for row in rows}))
    if len(given) != 1:
        kinds = "--to-earliest, -latest, -current, -offset or -datetime, --shift-by, --by-duration, --from-file"
        raise click.UsageError(f"exactly one of {kinds} is expected, {len(given)} are given")
    return given[0]
