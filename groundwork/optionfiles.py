"""Files of options: YAML, and the .properties of the JVM's clients.  A problem is an OptionError that names the file.

YAML is refused where PyYAML accepts what an author cannot mean: a key given twice in one mapping, of which it keeps the
last, and aliases that expand beyond measure.  Errors never quote the text, which may hold a password.

What the values mean: groundwork.options.load().
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from groundwork.java import read_properties
from groundwork.options import OptionError

MOST_NODES = 100_000  # of a text, each alias counted as what it stands for: a kilobyte of them may stand for 10^9


def yaml_file(path: Path) -> object:
    """Return the values of a YAML file in UTF-8; None for an empty one.  Raises OptionError."""
    data = _bytes(path)
    try:
        return yaml_values(data.decode("utf-8"))
    except UnicodeDecodeError as exc:
        raise OptionError([f"{path}: byte {exc.start} is not UTF-8"]) from exc
    except YamlRefused as exc:
        raise OptionError([f"{path.name}: {problem}" for problem in exc.problems]) from exc


def properties_file(path: Path) -> dict[str, str]:
    """Return the values of a .properties file, in ISO-8859-1 as Java reads it.  Raises OptionError."""
    data = _bytes(path)
    try:
        return read_properties(data)
    except ValueError as exc:
        raise OptionError([f"{path.name}: {exc}"]) from exc


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except PermissionError as exc:
        raise OptionError([f"{path}: may not be read by this user: {exc.strerror}"], forbidden=True) from exc
    except OSError as exc:
        raise OptionError([f"{path}: cannot be read: {exc.strerror}"]) from exc


# YAML -----------------------------------------------------------------------------------------------------------------


class YamlRefused(ValueError):
    """The problems of a text; .problems has one sentence for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)


def yaml_values(text: str) -> object:
    """Return the values as yaml.safe_load returns them; None for an empty text.  Raises YamlRefused."""
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            return None
        _must_be_small(root)
        found = sorted(_twice(root), key=lambda double: double[2])
        twice = [f"line {second}: '{key}' is given twice, first in line {first}" for key, first, second in found]
        values: object = loader.construct_document(root)
    except RecursionError as exc:
        raise YamlRefused(["not YAML that can be read: it is nested too deeply"]) from exc
    except yaml.MarkedYAMLError as exc:
        raise YamlRefused([f"not YAML: {_unquoted(exc)}"]) from exc
    except YamlRefused:
        raise
    except (yaml.YAMLError, ValueError) as exc:  # ValueError: an invalid date
        raise YamlRefused([f"not YAML: {' '.join(str(exc).split())}"]) from exc
    if twice:
        raise YamlRefused(twice)
    return values


def _unquoted(exc: yaml.MarkedYAMLError) -> str:
    """Return what is wrong and where, without the words at that place, which str(exc) would quote."""
    said = ", ".join(part for part in (exc.context, exc.problem) if part)
    mark = exc.problem_mark or exc.context_mark
    where = f" in line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
    if r"'\t'" in (exc.problem or ""):
        return f"a tab{where}: YAML is indented by blanks alone"
    return re.sub(r"'[^']{2,}'", "'…'", " ".join(said.split())) + where


def _must_be_small(root: yaml.Node) -> None:
    """Raise YamlRefused for more than MOST_NODES, and for a value that contains itself."""
    sizes: dict[int, int] = {}
    inside_of: set[int] = set()  # nodes on the way from the root to the one at hand
    waiting = [root]
    while waiting:
        node = waiting[-1]
        name, inside = id(node), _inside(node)
        if name in sizes:
            waiting.pop()
        elif name in inside_of:  # all that is inside has its size
            sizes[name] = 1 + sum(sizes[id(one)] for one in inside)
            inside_of.discard(name)
            waiting.pop()
            if sizes[name] > MOST_NODES:
                line = node.start_mark.line + 1
                raise YamlRefused([f"line {line}: more than {MOST_NODES:,} values, aliases counted as what they name"])
        else:
            inside_of.add(name)
            for one in inside:
                if id(one) in inside_of:
                    raise YamlRefused([f"line {one.start_mark.line + 1}: a value that contains itself"])
                if id(one) not in sizes:
                    waiting.append(one)


def _inside(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [one for pair in node.value for one in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _twice(root: yaml.Node) -> Iterator[tuple[str, int, int]]:
    """Yield the keys given twice, each with both line numbers; an anchored node is checked once."""
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
