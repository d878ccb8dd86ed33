"""Variable-length integers, as in records of format v2.

A varint is zigzag (0, -1, 1, -2 …: 0, 1, 2, 3 …), then seven bits per byte, the lowest first; the highest bit of a byte
means that another byte follows.  Ten bytes can hold any 64-bit number.

Source: org.apache.kafka.common.utils.ByteUtils.
"""

from __future__ import annotations

from kafkawire.errors import LocalError
from kafkawire.primitives import Bytes

_SMALL = [bytes((zigzag,)) for zigzag in range(128)]  # -64 to 63
_ALL_BITS = (1 << 64) - 1
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


def written(number: int) -> bytes:
    """Encode a number as a varint.  Raises LocalError if it does not fit into 64 bits."""
    if -64 <= number < 64:
        return _SMALL[number << 1 if number >= 0 else (-number << 1) - 1]
    if not _LEAST <= number <= _MOST:
        raise LocalError(f"{number} does not fit into 64 bits")
    left, found = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


def varint(data: Bytes, at: int) -> tuple[int, int]:
    """Decode a zigzag number of at most 64 bits, and return it with the position of the next field.  Only one bit of a
    tenth byte is used, as in Java.

    Raises IndexError at the end of the data, ValueError if the number has more than ten bytes.
    """
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            number &= _ALL_BITS
            return (number >> 1) ^ -(number & 1), at
        if shift > 63:
            raise ValueError("a number of more than ten bytes")
