"""JSON documents with line numbers of their values, so that an error can name the line.

Line numbers are computed only on request, so that large files stay fast.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from groundwork.jsontext import refuse_halves
from groupadmin.files.model import FileUnclear

Path = tuple[str | int, ...]  # of a value: the document's index, then the keys and indexes that lead to it
_BLANKS = " \t\r\n"
_decode = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True)
class Json:
    """The documents of a JSON text (one, or one per line).

    repeated: paths of keys that an object has twice with the same value, which is not an error
    """

    text: str
    values: Sequence[Any]
    begins: Sequence[int]
    repeated: Sequence[Path]

    def line(self, path: Path) -> int | None:
        """Return the line of the value at a path, or of the deepest existing value on the path."""
        at = self.begins[int(path[0])] if path else 0
        for step in path[1:]:
            found = _step(self.text, at, step)
            if found is None:
                break
            at = found
        return self.text.count("\n", 0, at) + 1


def read_json(text: str) -> Json:
    """Return all documents of a text.  Raises FileUnclear, also for a key given twice in an object with different
    values."""
    twice: list[tuple[dict[str, Any], str, bool]] = []

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(found)
        if len(made) != len(found):
            seen: dict[str, Any] = {}
            for key, value in found:
                if key in seen:
                    twice.append((made, key, seen[key] == value))
                seen[key] = value
        return made

    decoder = json.JSONDecoder(object_pairs_hook=pairs)
    escaped = "\\u" in text
    values, begins, at = [], [], _after_blanks(text, 0)
    while at < len(text):
        begins.append(at)
        try:
            value, end = decoder.raw_decode(text, at)
            if escaped:
                refuse_halves(value, "surrogateescape")  # bytes of a foreign encoding stay what they are
        except json.JSONDecodeError as why:
            raise FileUnclear(why.lineno, f"this is not JSON: {why.msg}", "export it again, or correct it") from None
        except (ValueError, RecursionError) as why:
            line = text.count("\n", 0, at) + 1
            raise FileUnclear(line, f"this JSON cannot be read: {why}", "export it again, or correct it") from None
        values.append(value)
        at = _after_blanks(text, end)
    document = Json(text, values, begins, [])
    return _checked(document, twice) if twice else document


def _checked(document: Json, twice: list[tuple[dict[str, Any], str, bool]]) -> Json:
    paths = {id(made): path for path, made in _objects(document.values)}
    repeated = []
    for made, key, same in twice:
        path = (*paths[id(made)], key) if id(made) in paths else ()  # inside a value that a repeated key replaced
        if not same:
            raise FileUnclear(
                document.line(path) if path else None,
                f"{key!r} is given twice here with different values",
                "leave one of them in the file",
            )
        repeated.append(path)
    return Json(document.text, document.values, document.begins, [path for path in repeated if path])


def _objects(values: Sequence[Any]) -> list[tuple[Path, dict[str, Any]]]:
    found: list[tuple[Path, dict[str, Any]]] = []
    todo: list[tuple[Path, Any]] = [((index,), value) for index, value in enumerate(values)]
    while todo:
        path, value = todo.pop()
        if isinstance(value, dict):
            found.append((path, value))
            todo.extend(((*path, key), inner) for key, inner in value.items())
        elif isinstance(value, list):
            todo.extend(((*path, index), inner) for index, inner in enumerate(value))
    return found


def _step(text: str, at: int, step: str | int) -> int | None:
    """Start of the value of a key (the last one, if repeated) or of an index, given the start of its container."""
    opened = text[at]
    if opened != ("{" if isinstance(step, str) else "["):
        return None
    found, index, at = None, 0, _after_blanks(text, at + 1)
    while text[at] not in "}]":
        key: object = index
        if opened == "{":
            key, end = _decode(text, at)
            at = _after_blanks(text, _after_blanks(text, end) + 1)  # past the colon
        if key == step:
            found = at
        _, end = _decode(text, at)
        at, index = _after_blanks(text, end), index + 1
        if text[at] == ",":
            at = _after_blanks(text, at + 1)
    return found


def _after_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at
