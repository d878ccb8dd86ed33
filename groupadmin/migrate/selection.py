"""Selection of groups: by name, by a regular expression, or all, without excluded ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from groundwork.sentences import counted
from zkconsumer.errors import NoSuchGroup
from zkconsumer.options.arguments import WrongUsage


@dataclass(frozen=True, slots=True)
class GroupSelection:
    """groups: names; pattern: regular expression for whole names; everything: all groups; exclude: patterns to leave
    out."""

    groups: tuple[str, ...] = ()
    pattern: str | None = None
    everything: bool = False
    exclude: tuple[str, ...] = ()

    @property
    def anything(self) -> bool:
        """True if any selection is given."""
        return bool(self.groups or self.pattern is not None or self.everything)


def chosen(wanted: GroupSelection, there: Iterable[str], where: str) -> list[str]:
    """Return the selected groups of the existing ones, sorted.

    Raises NoSuchGroup for a named group that does not exist, and when none is selected; WrongUsage for a wrong pattern.
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
        raise NoSuchGroup(f"none of {counted(len(known), 'group')} in {where} is selected")
    return left


def _pattern(text: str, option: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as why:
        raise WrongUsage(f"{option} {text!r} is not a regular expression: {why}") from None


def answers(texts: Sequence[str], modes: Sequence[str]) -> dict[str, str]:
    """Return the values of --mode, `dual` or `MEMBER=dual`, by member; "*": all that publish none.  Raises
    WrongUsage."""
    found: dict[str, str] = {}
    for text in texts:
        member, equals, mode = text.rpartition("=")
        if mode not in modes or (equals and not member):
            raise WrongUsage(f"--mode {text!r}: {', '.join(modes)} is expected, alone or after MEMBER=")
        if found.setdefault(member or "*", mode) != mode:
            raise WrongUsage(f"--mode has two values for {member or 'every member'}")
    return found
