"""Files of a configuration as they lie there: bytes, text, values of YAML.  What they mean: mirrormaker.config."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from groundwork.yamltext import YamlRefused, yaml_values


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
    """The values of a YAML file; a key that is given twice in one mapping is a ConfigError."""
    text = read_utf8(path)
    try:
        return yaml_values(text)
    except YamlRefused as exc:
        raise ConfigError([f"{path.name}: {problem}" for problem in exc.problems]) from exc
