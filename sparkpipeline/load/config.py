"""Reads a load job's YAML file.  What cannot be read, says one thing twice or is wrong is OptionRefused: all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from groundwork.options import OptionError, given, load
from sparkpipeline.errors import OptionRefused
from sparkpipeline.load.options import LoadConfig
from sparkpipeline.load.yamlfile import read_yaml

__all__ = ["LoadConfig", "config_of", "read_config"]


def read_config(path: Path) -> LoadConfig:
    """The job that a file describes; it is called like the file unless it says a name.  Raises OptionRefused."""
    values = read_yaml(path)
    found = config_of(values if values is not None else {}, path.name)
    return found if "name" in given(found) else replace(found, name=path.stem)


def config_of(values: object, where: str) -> LoadConfig:
    """The job of a mapping, such as a pipeline's `load` section.  where: first in every sentence."""
    if not isinstance(values, Mapping):
        raise OptionRefused(f"{where}: expected the options of a load, one a line")
    try:
        return load(LoadConfig, values, where)
    except OptionError as exc:
        raise OptionRefused("; ".join(exc.problems)) from None
