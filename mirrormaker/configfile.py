"""Reads configuration files as bytes, text and YAML values.  mirrormaker.config interprets them.

A running mirror may read its files while they are being written: cp and some editors write a file in place, so a reader
may see half of it.  Several files (--consumer.config, --producer.config) may be replaced one after the other, or all
between two reads, as a ConfigMap does it.  read_settled() reads again until nothing has changed meanwhile.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from groundwork.yamltext import YamlRefused, yaml_values

SETTLED_S = 1.0  # a file changed more recently than this may be only half written
WRITING_S = 10.0  # longest wait for the files to settle
STEP_S = 0.1
T = TypeVar("T")


class ConfigError(Exception):
    """Invalid configuration; `.problems` has a sentence for each problem.

    forbidden: this user may not read one of the files.  warnings: sentences about the rest of the configuration.
    """

    def __init__(self, problems: Sequence[str], forbidden: bool = False, warnings: Sequence[str] = ()) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)
        self.forbidden = forbidden
        self.warnings = list(warnings)


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file.  Raises ConfigError."""
    try:
        return path.read_bytes()
    except PermissionError as exc:
        raise ConfigError([f"{path}: may not be read by this user: {exc.strerror}"], forbidden=True) from exc
    except OSError as exc:
        raise ConfigError([f"{path}: cannot be read: {exc.strerror}"]) from exc


def read_utf8(path: Path) -> str:
    """Return the text of a UTF-8 file.  Raises ConfigError."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as exc:
        raise ConfigError([f"{path}: byte {exc.start} is not UTF-8"]) from exc


def read_yaml(path: Path) -> object:
    """Return the values of a YAML file.  Raises ConfigError if a mapping has the same key twice."""
    text = read_utf8(path)
    try:
        return yaml_values(text)
    except YamlRefused as exc:
        raise ConfigError([f"{path.name}: {problem}" for problem in exc.problems]) from exc


def read_settled(files: Sequence[Path], read: Callable[[], T], sleep: Callable[[float], object]) -> T:
    """Return the result of read() once none of the files changed during the read or within SETTLED_S before it.

    Raises ConfigError if the files do not settle within WRITING_S, and anything that read() raises.
    """
    stamps, since = _stamps(files), time.monotonic()
    until = since + WRITING_S
    young = any(stamp is not None and time.time() - stamp[0] / 1e9 < SETTLED_S for stamp in stamps)
    while True:
        if young and time.monotonic() - since < SETTLED_S:
            sleep(STEP_S)
        else:
            try:
                found = read()
            except Exception:
                if _stamps(files) == stamps:
                    raise
            else:
                if _stamps(files) == stamps:
                    return found
        if (now := _stamps(files)) != stamps:
            stamps, since, young = now, time.monotonic(), True
        if time.monotonic() > until:
            names = ", ".join(str(path) for path in files)
            raise ConfigError([f"{names}: changed again and again for {WRITING_S:g} s; reload once it is written"])


def _stamps(files: Sequence[Path]) -> list[tuple[int, ...] | None]:
    """Return for each file its modification time in ns, size and identity, or None if it cannot be read."""
    return [_stamp(path) for path in files]


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_dev, found.st_ino
