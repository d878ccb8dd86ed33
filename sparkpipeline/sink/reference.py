"""`python -m sparkpipeline.sink.reference`: the table of all options of writing with kafka08, as markdown."""

from __future__ import annotations

from groundwork.options import reference
from sparkpipeline.sink.options import SinkOptions


def table() -> str:
    """One row an option."""
    return reference(SinkOptions, older="also")


if __name__ == "__main__":
    print(table(), end="")
