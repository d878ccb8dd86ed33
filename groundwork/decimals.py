"""Decimal text that others wrote, as a number.  Pure.

`str.isdigit` is true of "²" and of "٣": `int` raises for the first and takes the second, and it raises for more than
4,300 digits.  So a name of a node ended the program that listed it.  Nothing else in the tree asks `isdigit` and its
like (tests/groundwork/test_decimals.py).
"""

from __future__ import annotations

MAX_INT32 = (1 << 31) - 1
MAX_INT64 = (1 << 63) - 1
MAX_DIGITS = 40  # leading zeros included: no number that Kafka or ZooKeeper writes has as many


def decimal_int(text: str, least: int = 0, most: int = MAX_INT64) -> int | None:
    """Return the number in ASCII digits, with a minus sign if `least` is negative.  Return None for any other text,
    and for a number below `least` or above `most`."""
    digits = text[1:] if least < 0 and text[:1] == "-" else text
    if len(digits) > MAX_DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    number = int(digits) if digits is text else -int(digits)
    return number if least <= number <= most else None
