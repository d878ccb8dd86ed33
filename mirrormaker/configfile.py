"""Files of a configuration as they lie there: bytes, text, values of YAML.  What they mean: mirrormaker.config.

A running mirror may read them while they are written: cp and some editors write a file in place, so half of it is there
meanwhile; several files (--consumer.config, --producer.config) are replaced one after the other, or all at once between
two reads, as those of a ConfigMap are.  read_settled() reads again until nothing has changed on the way.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from groundwork.yamltext import YamlRefused, yaml_values

SETTLED_S = 1.0  # a file that was changed within that time may be only half written
WRITING_S = 10.0  # longest time to wait for that
STEP_S = 0.1
T = TypeVar("T")


class ConfigError(Exception):
    """What is wrong with a configuration; .problems has a sentence each.

    forbidden: a file of it may not be read.  warnings: sentences about the rest of it.
    """

    def __init__(self, problems: Sequence[str], forbidden: bool = False, warnings: Sequence[str] = ()) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)
        self.forbidden = forbidden
        self.warnings = list(warnings)


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


def read_settled(files: Sequence[Path], read: Callable[[], T], sleep: Callable[[float], object]) -> T:
    """Return what read() makes of files that nobody writes: none changed within SETTLED_S before it, or meanwhile.

    Raises ConfigError where that does not come within WRITING_S, and what read() raises.
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
    """Return for each file the time of its last change in ns, size and identity; None if it cannot be read."""
    return [_stamp(path) for path in files]


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_dev, found.st_ino
