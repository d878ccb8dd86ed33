"""Parser for bytes as programs print them.  Pure.

000102, 00 01 02, 00:01:02, 0x000102, 0x00 0x01    hex, also as Wireshark and debuggers copy it
hexdump -C, xxd                                    a dump with offsets, and its text column
[0, 1, -2], [0 1 2], <<0,1,2>>, []byte{0x0, 0x1}   lists of Python, Java, Go and Erlang
b'\\x00\\x01', "\\x00\\u0001", <Buffer 00 01>           Python, Ruby, Node
AAEC…                                              base64
"""

from __future__ import annotations

import ast
import base64
import binascii
import re

KNOWN = "hex (also with 0x or colons), hexdump -C, xxd, a list of numbers, a string of Python, Ruby or Node, and base64"
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}\s*)+")
_COLONS = re.compile(r"[0-9a-fA-F]{2}(?::\s*[0-9a-fA-F]{2})+:?")
_PREFIXED = re.compile(r"0[xX](?:[0-9a-fA-F]{2})+")
_NODE = re.compile(r"<Buffer((?: [0-9a-f]{2})*)>")
_LIST = re.compile(r"(?:\[\]byte|bytearray|bytes)?\s*(<<|[\[{(])(.*?)(>>|[\]})])", re.DOTALL)
_NUMBER = re.compile(r"-?\d{1,3}|0[xX][0-9a-fA-F]{1,2}")
_HEXDUMP = re.compile(r"[0-9a-f]{7,8}(?:  ?((?:[0-9a-f]{2}  ?)*[0-9a-f]{2})\s*(?:\|.*\|)?)?")
_XXD = re.compile(r"[0-9a-f]{8}: ((?:[0-9a-f]{2,4} )*[0-9a-f]{2,4})(?:  .*)?")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}")


def from_text(text: str) -> bytes | None:
    """Return the bytes that a text stands for; None if it is none of these forms."""
    text = text.strip()
    if _HEX.fullmatch(text):
        return bytes.fromhex(text)
    if _COLONS.fullmatch(text):
        return bytes.fromhex(text.replace(":", " "))
    if _PREFIXED.fullmatch(text):
        return bytes.fromhex(text[2:])
    if node := _NODE.fullmatch(text):
        return bytes.fromhex(node[1])
    for read in (_dump, _numbers, _string, _base64):
        if (found := read(text)) is not None:
            return found
    return None


def _dump(text: str) -> bytes | None:
    """Parse a dump with offsets.  A line of * stands for omitted lines, so such a dump is not accepted."""
    for form in (_XXD, _HEXDUMP):
        rows = [form.fullmatch(line.rstrip()) for line in text.splitlines()]
        if all(rows):
            return bytes.fromhex("".join(row[1] or "" for row in rows if row))
    return None


def _numbers(text: str) -> bytes | None:
    """Parse numbers from -128 to 255, separated by commas or blanks, in brackets or not."""
    listed = _LIST.fullmatch(text)
    words = re.split(r"[\s,]+", (listed[2] if listed else text).strip().rstrip(","))
    if not all(_NUMBER.fullmatch(word) for word in words) or (listed is None and len(words) < 2):
        return None
    numbers = [int(word, 16) if word[:2].lower() == "0x" else int(word) for word in words]
    return bytes(number % 256 for number in numbers) if all(-128 <= number < 256 for number in numbers) else None


def _string(text: str) -> bytes | None:
    """Parse a literal of Python, or a quoted string with escapes whose characters are below U+0100, as Ruby prints
    it."""
    quoted = text[:1] in "\"'" and len(text) > 1 and text[-1] == text[0]
    if not (quoted or re.match(r"b[\"']|bytearray\(b[\"']", text)):
        return None
    try:
        found = ast.literal_eval(text.removeprefix("bytearray(").removesuffix(")"))
    except (ValueError, SyntaxError):
        return None
    try:
        return found if isinstance(found, bytes) else str(found).encode("latin-1")
    except UnicodeEncodeError:
        return None


def _base64(text: str) -> bytes | None:
    joined = "".join(text.split())
    if not _BASE64.fullmatch(joined):
        return None
    try:
        return base64.b64decode(joined, validate=True)
    except binascii.Error:
        return None
