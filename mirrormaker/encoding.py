"""Encoders of the target: serializer.class for values, key.serializer.class for keys.

    encoder    fn(bytes | None) -> bytes | None

An encoder takes the bytes from a source or a handler, and returns the bytes to send.  As in the JVM's producer, a
missing key is not encoded, and a null value is encoded like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kafkawire.model import TopicPartition
from mirrormaker.masking import raised
from producer.conversion import MessageHandlerFailed

Encode = Callable[[Any], bytes | None]
Data = list[bytes | None]


class MessageEncoderFailed(MessageHandlerFailed):
    """Raised when an encoder raises for a message, or returns something that is not bytes."""


@dataclass(frozen=True, slots=True)
class Encoder:
    """One encoder.  option: the option that names it; name: its configured name."""

    option: str
    name: str
    encode: Encode

    def __str__(self) -> str:
        return f"{self.option} {self.name}"

    def all(self, source: TopicPartition, offsets: Sequence[int], data: Sequence[bytes | None], nulls: bool) -> Data:
        """Encode the data of several messages, with `nulls` also nulls.  Raises MessageEncoderFailed."""
        encode, encoded = self.encode, list[bytes | None]()
        try:
            for one in data:
                encoded.append(encode(one) if nulls or one is not None else None)
        except Exception as exc:  # user code may raise anything
            row = len(encoded)
            why = raised(exc, (data[row],))
            raise MessageEncoderFailed(f"{source} at {offsets[row]}: {self} {why}", offsets[row]) from exc
        if not set(map(type, encoded)) <= {bytes, type(None)}:
            row = next(row for row, one in enumerate(encoded) if not (one is None or type(one) is bytes))
            raise MessageEncoderFailed(
                f"{source} at {offsets[row]}: {self} gave back a {type(encoded[row]).__name__}, not bytes or None",
                offsets[row],
            )
        return encoded


@dataclass(frozen=True, slots=True)
class Encoders:
    """Encoders of a target; None leaves the bytes as they are."""

    of_values: Encoder | None = None
    of_keys: Encoder | None = None

    def __bool__(self) -> bool:
        return self.of_values is not None or self.of_keys is not None

    def __str__(self) -> str:
        return " and ".join(str(encoder) for encoder in (self.of_values, self.of_keys) if encoder is not None)

    def keys(self, source: TopicPartition, offsets: Sequence[int], keys: Data) -> Data:
        """Encode keys.  Raises MessageEncoderFailed."""
        return keys if self.of_keys is None else self.of_keys.all(source, offsets, keys, nulls=False)

    def values(self, source: TopicPartition, offsets: Sequence[int], values: Data) -> Data:
        """Encode values.  Raises MessageEncoderFailed."""
        return values if self.of_values is None else self.of_values.all(source, offsets, values, nulls=True)


PLAIN = Encoders()
