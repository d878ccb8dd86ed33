"""The names that a format takes: those of its table, those it refuses with a reason, those that do nothing.  Pure.

NAMES = OptionNames(REFUSED, WITHOUT_EFFECT, ONLY, whose=" of the sink")
values = NAMES.taken(SinkOptions, options)      what groundwork.options.load is given
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from groundwork.options import Options, specs
from groundwork.sentences import did_you_mean
from sparkpipeline.errors import OptionRefused


@dataclass(frozen=True, slots=True)
class OptionNames:
    """What a format says of names beside its table.

    refused  name -> why, and what to write instead
    idle     name -> why it does nothing here
    only     name -> the one value that it may have, and why no other
    whose    for the sentence about an unknown name
    """

    refused: Mapping[str, str]
    idle: Mapping[str, str]
    only: Mapping[str, tuple[str, str]]
    whose: str = ""

    def taken(self, table: type[Options], options: Mapping[str, str]) -> dict[str, str]:
        """The options under the names that the table has, whatever their case, without those that have one value.

        Raises OptionRefused for unknown names, for what means something else here, and for another value."""
        values = self._todays_names(table, options)
        for name in self.refused.keys() & values.keys():
            raise OptionRefused(f"is not supported: {self.refused[name]}", option=name)
        for name, (only, why) in self.only.items():
            said = values.pop(name, only).strip()
            if said.lower() != only.lower():
                raise OptionRefused(f"is {said}, and only {only} is taken: {why}", option=name)
        return values

    def _todays_names(self, table: type[Options], options: Mapping[str, str]) -> dict[str, str]:
        known = {name.lower(): name for spec in specs(table).values() for name in (spec.key, *spec.old)}
        known |= {name.lower(): name for name in (*self.idle, *self.refused, *self.only)}
        found: dict[str, str] = {}
        for given, value in options.items():
            name = known.get(given.lower())
            if name is None:
                helps = did_you_mean(given.lower(), known, known)
                raise OptionRefused(f"there is no such option{self.whose}{helps}", option=given)
            found[name] = value
        return found
