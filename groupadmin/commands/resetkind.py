"""The kinds of a reset on the command line, with the names of kafka-consumer-groups (KIP-122): exactly one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from groupadmin.commands.offsetlook import FILE, rows_to_write
from groupadmin.commands.offsetplans import rows_of
from groupadmin.plan.wanted import (
    ByDuration,
    Current,
    Earliest,
    Latest,
    Reset,
    ShiftBy,
    ToDatetime,
    ToOffset,
    from_rows,
)
from zkconsumer.commands.common import tell
from zkconsumer.spelling import parse_duration, parse_position, parse_shift, parse_time

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


@dataclass(frozen=True, slots=True)
class ResetAsked:
    """The options as they were given."""

    to_earliest: bool
    to_latest: bool
    to_current: bool
    to_offset: str | None
    shift_by: str | None
    to_datetime: str | None
    by_duration: str | None
    from_file: Path | None

    def kind_for(self, group: str) -> Reset:
        """The only kind given, of a file what it says of the group; how a time was taken is told.

        Raises UsageError for none or two, WrongUsage, and what a file raises that nobody can read."""
        given = list(self._given(group))
        if len(given) != 1:
            kinds = "--to-earliest, -latest, -current, -offset or -datetime, --shift-by, --by-duration, --from-file"
            raise click.UsageError(f"exactly one of {kinds} is expected, {len(given)} are given")
        return given[0]

    def _given(self, group: str) -> Iterator[Reset]:
        if self.to_earliest:
            yield Earliest()
        if self.to_latest:
            yield Latest()
        if self.to_current:
            yield Current()
        if self.to_offset is not None:
            yield ToOffset(parse_position(self.to_offset))
        if self.shift_by is not None:
            yield ShiftBy(parse_shift(self.shift_by))
        if self.to_datetime is not None:
            moment = parse_time(self.to_datetime)
            if moment.note:
                tell(moment.note)
            yield ToDatetime(moment.ms)
        if self.by_duration is not None:
            yield ByDuration(parse_duration(self.by_duration))
        if self.from_file is not None:
            yield from_rows(rows_of(rows_to_write(self.from_file, None).rows, group), group)


def reset_options(command: F) -> F:
    """The options, handed on as reset."""

    @wraps(command)
    def with_reset(*args: Any, **given: Any) -> Any:
        asked = ResetAsked(**{field.name: given.pop(field.name) for field in fields(ResetAsked)})
        return command(*args, reset=asked, **given)

    wrapped: Any = with_reset
    for option in reversed(_KINDS):
        wrapped = option(wrapped)
    return cast(F, wrapped)
