"""A YAML file as values, but for a key that stands twice in one mapping: YAML's last would win silently."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from sparkpipeline.errors import OptionRefused


def read_yaml(path: Path) -> object:
    """What yaml.safe_load gives.  Raises OptionRefused with file, line and what is wrong."""
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as exc:
        raise OptionRefused(f"{path}: cannot be read: {exc.strerror}") from None
    except UnicodeDecodeError as exc:
        raise OptionRefused(f"{path}: byte {exc.start} is no UTF-8") from None
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            return None
        twice = [f"line {second}: '{key}' is given twice, first in line {first}" for key, first, second in _twice(root)]
        values: object = loader.construct_document(root)
    except (yaml.YAMLError, ValueError) as exc:  # ValueError: what looks like a date and is none
        raise OptionRefused(f"{path.name}: not YAML: {' '.join(str(exc).split())}") from None
    if twice:
        raise OptionRefused(f"{path.name}: {'; '.join(twice)}")
    return values


def _twice(root: yaml.Node) -> Iterator[tuple[str, int, int]]:
    """Keys given twice, each with the lines of both."""
    waiting, seen = [root], {id(root)}
    while waiting:
        node = waiting.pop()
        inside: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            lines: dict[str, int] = {}
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode):
                    line = key.start_mark.line + 1
                    if key.value in lines:
                        yield key.value, lines[key.value], line
                    lines.setdefault(key.value, line)
                inside.append(value)
        elif isinstance(node, yaml.SequenceNode):
            inside = list(node.value)
        waiting += [one for one in inside if id(one) not in seen]  # an anchored node is looked at once
        seen.update(id(one) for one in inside)
