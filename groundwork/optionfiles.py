"""Files of options: YAML, and the .properties of the JVM's clients.  A problem is an OptionError that names the file.

What the values mean: groundwork.options.load().
"""

from __future__ import annotations

from pathlib import Path

from groundwork.java import read_properties
from groundwork.options import OptionError
from groundwork.yamltext import YamlRefused, yaml_values


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
