"""Which groups are meant: by name, by a regular expression, or all there are, less those that are left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from groundwork.plural import counted
from zkconsumer.errors import NoSuchGroup
from zkconsumer.options.arguments import WrongUsage


@dataclass(frozen=True, slots=True)
class Wanted:
    """groups by name; pattern: all whose whole name fits; everything: all there are; exclude: patterns, of both."""

    groups: tuple[str, ...] = ()
    pattern: str | None = None
    everything: bool = False
    exclude: tuple[str, ...] = ()

    @property
    def anything(self) -> bool:
        """Whether it says which groups at all."""
        return bool(self.groups or self.pattern is not None or self.everything)


def chosen(wanted: Wanted, there: Iterable[str], where: str) -> list[str]:
    """The groups meant, sorted, of those that are there.

    Raises NoSuchGroup for one that is named and not there, and when none is left; WrongUsage for a wrong pattern.
    """
    known = set(there)
    missing = sorted(set(wanted.groups) - known)
    if missing:
        raise NoSuchGroup(f"no group {', '.join(missing)} in {where}")
    found = set(wanted.groups)
    if wanted.everything:
        found |= known
    if wanted.pattern is not None:
        found |= {name for name in known if _pattern(wanted.pattern, "--groups-regex").fullmatch(name)}
    excluded = [_pattern(each, "--exclude") for each in wanted.exclude]
    left = sorted(name for name in found if not any(each.fullmatch(name) for each in excluded))
    if not known:
        raise NoSuchGroup(f"there is no group in {where}: is the chroot missing, or wrong?")
    if not left:
        raise NoSuchGroup(f"none of {counted(len(known), 'group')} in {where} is meant")
    return left


def _pattern(text: str, option: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as why:
        raise WrongUsage(f"{option} {text!r} is no regular expression: {why}") from None


def answers(texts: Sequence[str], modes: Sequence[str]) -> dict[str, str]:
    """`dual` or `MEMBER=dual`, as --mode takes them: by member, "*" for all that tell none.  Raises WrongUsage."""
    found: dict[str, str] = {}
    for text in texts:
        member, equals, mode = text.rpartition("=")
        if mode not in modes or (equals and not member):
            raise WrongUsage(f"--mode {text!r}: {', '.join(modes)} is expected, alone or after MEMBER=")
        if found.setdefault(member or "*", mode) != mode:
            raise WrongUsage(f"--mode says two things of {member or 'every member'}")
    return found
