"""Parsing of YAML that refuses a key given twice in one mapping, where PyYAML would keep the last.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import yaml


class YamlRefused(ValueError):
    """The problems of a text; .problems has one sentence for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)


def yaml_values(text: str) -> object:
    """The values as yaml.safe_load returns them; None for an empty text.  Raises YamlRefused."""
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            return None
        found = sorted(_twice(root), key=lambda double: double[2])
        twice = [f"line {second}: '{key}' is given twice, first in line {first}" for key, first, second in found]
        values: object = loader.construct_document(root)
    except RecursionError as exc:
        raise YamlRefused(["not YAML that can be read: it is nested too deeply"]) from exc
    except (yaml.YAMLError, ValueError) as exc:  # ValueError: an invalid date
        raise YamlRefused([f"not YAML: {' '.join(str(exc).split())}"]) from exc
    if twice:
        raise YamlRefused(twice)
    return values


def _twice(root: yaml.Node) -> Iterator[tuple[str, int, int]]:
    """Keys given twice, each with both line numbers; an anchored node is checked once."""
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
