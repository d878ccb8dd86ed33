"""What Spark's streaming engine asks a source with: limits of a read, and the mark of AvailableNow.

Spark 4.2 brought them.  Before it a source is asked for all there is, each time: the same names stand for that here, so
that the source can still be imported, and ADMISSION says which it is.
"""

from __future__ import annotations

from dataclasses import dataclass

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )

    ADMISSION = True
except ImportError:
    ADMISSION = False

    class ReadLimit:  # type: ignore[no-redef]
        """How much a micro-batch may read."""

    @dataclass
    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        """All there is."""

    @dataclass
    class ReadMinRows(ReadLimit):  # type: ignore[no-redef]
        """Nothing before there is so much."""

        min_rows: int

    @dataclass
    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        """At most so much."""

        max_rows: int

    @dataclass
    class ReadMaxBytes(ReadLimit):  # type: ignore[no-redef]
        """At most so much."""

        max_bytes: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Nobody asks for it."""


__all__ = [
    "ADMISSION", "ReadAllAvailable", "ReadLimit", "ReadMaxBytes", "ReadMaxRows", "ReadMinRows",
    "SupportsTriggerAvailableNow",
]  # fmt: skip
