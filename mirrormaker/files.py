"""Reads the files of a configuration: what cannot be read, is no YAML, or says one thing twice is a ConfigError."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml


class ConfigError(Exception):
    """What is wrong with a configuration; .problems has a sentence each.  forbidden: a file of it may not be read."""

    def __init__(self, problems: Sequence[str], forbidden: bool = False) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)
        self.forbidden = forbidden


def read_bytes(path: Path) -> bytes:
    """A file as it is.  Raises ConfigError."""
    try:
        return path.read_bytes()
    except PermissionError as exc:
        raise ConfigError([f"{path}: may not be read by this user: {exc.strerror}"], forbidden=True) from exc
    except OSError as exc:
        raise ConfigError([f"{path}: cannot be read: {exc.strerror}"]) from exc


def read_utf8(path: Path) -> str:
    """A file as text.  Raises ConfigError."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as exc:
        raise ConfigError([f"{path}: byte {exc.start} is no UTF-8"]) from exc


def read_yaml(path: Path) -> object:
    """What yaml.safe_load gives, but for a key that stands twice in one mapping: YAML's last would win silently."""
    text, where = read_utf8(path), path.name
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            return None
        twice = list(_twice(root, set()))
        values: object = loader.construct_document(root)
    except (yaml.YAMLError, ValueError) as exc:  # ValueError: what looks like a date and is none
        raise ConfigError([f"{where}: not YAML: {' '.join(str(exc).split())}"]) from exc
    if twice:
        raise ConfigError(
            [f"{where}: line {second}: '{key}' is given twice, first in line {first}" for key, first, second in twice]
        )
    return values


def _twice(node: yaml.Node, seen: set[int]) -> Iterator[tuple[str, int, int]]:
    """Keys given twice, each with the lines of both; an anchored node is looked at once."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                line = key.start_mark.line + 1
                if key.value in lines:
                    yield key.value, lines[key.value], line
                lines.setdefault(key.value, line)
            yield from _twice(value, seen)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _twice(item, seen)
