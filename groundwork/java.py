"""The JVM's own rules, which a group or a mirror must follow: hashes, .properties files, topic filters."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from groundwork.javachars import PatternRefused
from groundwork.javamatch import TopicPattern
from groundwork.javaregex import to_python

__all__ = [
    "CLASS_NAME",
    "PatternRefused",
    "bytes_hash",
    "filter_text",
    "read_properties",
    "string_hash",
    "topic_filter",
]

WHITE = " \t\f"
CLASS_NAME = re.compile(r"([A-Za-z_]\w*\.)+[A-Za-z_$][\w$]*")  # a.b.C, and no colon


def _int32(n: int) -> int:
    return (n + 0x80000000 & 0xFFFFFFFF) - 0x80000000


def string_hash(text: str) -> int:
    """Return Java's String.hashCode: int32, over UTF-16 code units."""
    h = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        h = h * 31 + (units[i] << 8 | units[i + 1]) & 0xFFFFFFFF
    return _int32(h)


def bytes_hash(data: bytes | memoryview) -> int:
    """Return Java's Arrays.hashCode(byte[]): int32, over signed bytes."""
    h = 1
    for byte in data:
        h = h * 31 + (byte - 256 if byte > 127 else byte) & 0xFFFFFFFF
    return _int32(h)


def read_properties(text: str | bytes) -> dict[str, str]:
    r"""Read a .properties file as java.util.Properties.load does; of a key given twice the last one counts.

    text   bytes are ISO-8859-1, as Java reads them, but for the mark that editors of UTF-8 begin a file with
    Raises ValueError for a broken \uXXXX, and for UTF-16.
    """
    if isinstance(text, bytes):
        if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise ValueError("it is UTF-16: save it as UTF-8 or ISO-8859-1")
        text = text.removeprefix(codecs.BOM_UTF8).decode("latin-1")
    text = text.removeprefix("\ufeff")
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        end = _key_end(line)
        value = line[end:].lstrip(WHITE)
        if value[:1] in ("=", ":"):
            value = value[1:].lstrip(WHITE)
        try:
            found[_unescaped(line[:end])] = _unescaped(value)
        except ValueError as exc:
            raise ValueError(f"line {number}: {exc}") from exc
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield logical lines as (number of the first line, text), without comments and blank lines."""
    if text.endswith(("\\\n", "\\\r")):
        text = text[:-1]  # Java drops such a last line end: a backslash alone makes an entry without a key
    joined, began, goes_on = "", 0, False
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = raw.lstrip(WHITE)
        goes_on = False
        if not joined:
            if line[:1] in ("#", "!"):
                continue
            began = number
        joined += line
        goes_on = _is_continued(line)
        if goes_on:
            joined = joined[:-1]
        elif joined:
            yield began, joined
            joined = ""
    if goes_on:
        yield began, joined


def _is_continued(line: str) -> bool:
    """True if an odd number of backslashes ends the line."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _key_end(line: str) -> int:
    """Return the index of the first unescaped =, : or white space."""
    at = 0
    while at < len(line) and line[at] not in "=:" + WHITE:
        at += 2 if line[at] == "\\" else 1
    return min(at, len(line))


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    text = re.sub(r"\\(u.{0,4}|.|$)", _escape, text, flags=re.DOTALL)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")  # joins \ud83d\ude00


def _escape(match: re.Match[str]) -> str:
    escaped = match[1]
    if not escaped.startswith("u"):
        return {"t": "\t", "r": "\r", "n": "\n", "f": "\f"}.get(escaped, escaped)
    if not re.fullmatch("u[0-9a-fA-F]{4}", escaped):
        raise ValueError(f"\\{escaped} is not a character: four hexadecimal digits belong after \\u")
    return chr(int(escaped[1:], 16))


def filter_text(text: str) -> str:
    """Return a filter's text as registrations hold it, by TopicFilter's rules: trimmed, `,` is `|`, no blanks, no outer
    quotes."""
    text = text.strip("".join(map(chr, range(0x21)))).replace(",", "|").replace(" ", "")
    return text.strip("\"'")


def topic_filter(text: str) -> TopicPattern:
    """Return a whitelist or blacklist as the original's TopicFilter compiles it; use .matches(name).

    Raises PatternRefused where Java has no such pattern, or where Java and Python would choose other topics.
    """
    try:
        return to_python(filter_text(text))
    except PatternRefused:
        if (counted := re.search(r"\{\d+,\d*\}", text)) is None:
            raise
        raise PatternRefused(
            f"topic filter {text!r}: a comma means '|' in a topic filter, in {counted[0]} too: write the choices out, "
            "as a{2}|a{3}"
        ) from None
