"""YAML texts with the lines of their values.  Scalars are text, whatever they look like; aliases are refused.

Built from the parser's events, since composing by recursion ends the process on text that is nested deep enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml

from zkconsumer.offsetfiles.documents import Path
from zkconsumer.offsetfiles.model import FileUnclear

_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # libyaml's where PyYAML was built with it
DEEPEST = 50  # of containers in each other; kafkactl needs six
_AGAIN = "export it again, or correct it"


@dataclass(slots=True)
class Yaml:
    """The documents of a text."""

    values: list[Any] = field(default_factory=list)
    lines: dict[tuple[int, str | int], int] = field(default_factory=dict)  # (id of the container, key) -> line

    def line(self, path: Path) -> int | None:
        """The line of the value at a path; of the deepest one on the way that is there."""
        container: Any = self.values
        line: int | None = None
        for step in path:
            line = self.lines.get((id(container), step), line)
            try:
                container = container[step]
            except (LookupError, TypeError):
                break
        return line


class _Builder:
    """Containers that are open, the innermost last, and for each map the key whose value comes next."""

    def __init__(self) -> None:
        self.made = Yaml()
        self._open: list[Any] = [self.made.values]
        self._keys: list[str | None] = [None]

    def take(self, event: Any) -> None:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise FileUnclear(line, "a YAML alias stands here", "write the value itself")
        if isinstance(event, yaml.ScalarEvent):
            self._value(event.value, line)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            if len(self._open) > DEEPEST:
                raise FileUnclear(line, f"this YAML is nested deeper than {DEEPEST}", _AGAIN)
            inner: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
            self._value(inner, line)
            self._open.append(inner)
            self._keys.append(None)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            self._open.pop()
            self._keys.pop()

    def _value(self, value: Any, line: int) -> None:
        container = self._open[-1]
        if isinstance(container, list):
            self.made.lines[id(container), len(container)] = line
            container.append(value)
        elif self._keys[-1] is None:
            self._keys[-1] = self._key(container, value, line)
        else:
            self.made.lines[id(container), self._keys[-1]] = line
            container[self._keys[-1]] = value
            self._keys[-1] = None

    def _key(self, container: dict[str, Any], key: Any, line: int) -> str:
        if not isinstance(key, str):
            raise FileUnclear(line, "a YAML key is no text", _AGAIN)
        if key in container:
            raise FileUnclear(line, f"{key!r} stands here twice", "leave one of them in the file")
        return key


def read_yaml(text: str) -> Yaml:
    """All documents of a text.  Raises FileUnclear, also for a key that a map has twice."""
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=_Loader):
            builder.take(event)
    except yaml.MarkedYAMLError as why:
        line = why.problem_mark.line + 1 if why.problem_mark is not None else None
        raise FileUnclear(line, f"this is no YAML: {why.problem}", _AGAIN) from None
    except (yaml.YAMLError, ValueError, RecursionError) as why:
        said = str(why).partition("\n")[0] or type(why).__name__
        raise FileUnclear(None, f"this is no YAML: {said}", _AGAIN) from None
    return builder.made
