"""Entries of formats v0, v1 and v2 that are to be sent: made, checked, counted and split, each in its own format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafkawire.columns import Part as Stretch
from kafkawire.errors import CorruptMessage
from kafkawire.formats.v01 import messages as v01
from kafkawire.formats.v2 import write as v2
from kafkawire.formats.v2.layout import MAGIC_AT
from kafkawire.model import RECORD_BATCH, Part
from kafkawire.primitives import Bytes


def encode(
    messages: Iterable[v01.Row], codec: int = 0, magic: int = 0, headers: Sequence[Bytes | None] | None = None
) -> bytes:
    """Plain entries in format `magic`, one wrapper, or one record batch: as interfaces.MessageFormats has it."""
    if magic == RECORD_BATCH:
        return v2.encode(messages, codec, headers)
    return v01.encode(messages, codec, magic, headers)


def encode_columns(parts: Sequence[Stretch], codec: int = 0, magic: int = 0) -> bytes:
    """The same of rows of columns, without an object a message where the format is v2."""
    if magic == RECORD_BATCH:
        return v2.encode_columns(parts, codec)
    return v01.encode_columns(parts, codec, magic)


def may_pass(entries: Bytes, begin: int, start: int) -> bool:
    """Whether a broker takes the records of a fetched batch from a producer as they are: see v2.write."""
    return v2.may_pass(entries, begin, start)


def renewed(entries: Bytes) -> bytes:
    """A fetched batch as a producer sends it, its records as they are.  Raises CorruptMessage."""
    return v2.renewed(entries)


def check(entries: Bytes) -> CorruptMessage | None:
    """The first damage in complete entries of one format: a wrong checksum, or bytes that make no entry."""
    return v2.check(entries) if _in_batches(entries) else v01.check(entries)


def count(entries: Bytes) -> int:
    """Messages in complete entries of one format; a wrapper counts as one."""
    return v2.count(entries) if _in_batches(entries) else v01.count(entries)


def split(part: Part) -> list[Part]:
    """A part as two of about the same size; [part] where it is one message.  CorruptMessage for what cannot be read."""
    return v2.split(part) if part.magic == RECORD_BATCH else v01.split(part)


def _in_batches(entries: Bytes) -> bool:
    return len(entries) > MAGIC_AT and entries[MAGIC_AT] == RECORD_BATCH
