"""`python -m sparkpipeline.load.reference`: the table of all options of a load job, from their fields, as markdown."""

from __future__ import annotations

from groundwork.options import reference
from sparkpipeline.load.config import LoadConfig


def table() -> str:
    """One row an option."""
    return reference(LoadConfig, older=None)


if __name__ == "__main__":
    print(table(), end="")
