"""A YAML text as values, but for a key that stands twice in one mapping: YAML's last would win silently.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import yaml


class YamlRefused(ValueError):
    """What is wrong with a text; .problems has a sentence each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)


def yaml_values(text: str) -> object:
    """What yaml.safe_load gives; None of an empty text.  Raises YamlRefused."""
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            return None
        found = sorted(_twice(root), key=lambda double: double[2])
        twice = [f"line {second}: '{key}' is given twice, first in line {first}" for key, first, second in found]
        values: object = loader.construct_document(root)
    except (yaml.YAMLError, ValueError) as exc:  # ValueError: what looks like a date and is none
        raise YamlRefused([f"not YAML: {' '.join(str(exc).split())}"]) from exc
    if twice:
        raise YamlRefused(twice)
    return values


def _twice(root: yaml.Node) -> Iterator[tuple[str, int, int]]:
    """Keys given twice, each with the lines of both; an anchored node is looked at once."""
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
        new = [one for one in inside if id(one) not in seen]
        seen.update(id(one) for one in new)
        waiting += reversed(new)
