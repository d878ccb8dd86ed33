"""An offsets file from its text, whichever tool wrote it."""

from __future__ import annotations

from zkconsumer.offsetfiles.model import FileUnclear, OffsetsFile


def read_offsets(text: str, topic: str | None = None, zero_means_missing: bool = False) -> OffsetsFile:
    """The rows of a file of any kind (model.Kind), told apart by the text itself.

    topic: for the kinds that name none (kaf's map, the data of a one-node topic).  zero_means_missing: take a position
    of 0 as none.  Raises FileUnclear; nothing else, whatever the text.
    """
    raise FileUnclear(None, "the file is empty", "give the file that a tool exported")
