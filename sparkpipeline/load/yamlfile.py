"""A YAML file as values; what cannot be read is OptionRefused."""

from __future__ import annotations

from pathlib import Path

from groundwork.yamltext import YamlRefused, yaml_values
from sparkpipeline.errors import OptionRefused


def read_yaml(path: Path) -> object:
    """What yaml.safe_load gives.  Raises OptionRefused with file, line and what is wrong."""
    try:
        return yaml_values(path.read_bytes().decode("utf-8"))
    except OSError as exc:
        raise OptionRefused(f"{path}: cannot be read: {exc.strerror}") from None
    except UnicodeDecodeError as exc:
        raise OptionRefused(f"{path}: byte {exc.start} is no UTF-8") from None
    except YamlRefused as exc:
        raise OptionRefused(f"{path.name}: {exc}") from None
