"""An offsets file as text."""

from __future__ import annotations

from zkconsumer.offsetfiles.model import OffsetsFile, WrittenKind


def write_offsets(file: OffsetsFile, kind: WrittenKind) -> str:
    """The text of a file of this kind."""
    raise ValueError(f"offsets files are written as json, csv or zk-export, not as {kind!r}")
