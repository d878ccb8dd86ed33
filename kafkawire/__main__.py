"""`python -m kafkawire decode …`: print a frame or message set as one JSON document, a segment file as JSON lines;
`--version -v`: which kernels run here.

Exit codes: 0 done; 1 the bytes cannot be decoded (stderr says where); 2 the command line is wrong.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

import click

from groundwork.commands import Program
from groundwork.output import print_note, print_text
from kafkawire import kernels
from kafkawire.decode import generations
from kafkawire.decode.documents import Document, show_log
from kafkawire.decode.generations import Generation
from kafkawire.decode.texts import KNOWN, from_text
from kafkawire.errors import LocalError, WireError

T = TypeVar("T")

KINDS = ("request", "response", "message-set", "log")
NO_SEGMENTS = {
    ".index": "an offset index: offsets of messages and their byte positions in the segment",
    ".timeindex": "a time index: timestamps, and offsets of messages",
    ".txnindex": "an index of aborted transactions",
    ".snapshot": "the state of producers at an offset",
}
_BASE = re.compile(r"\d{20}")

_protocol = click.option("--protocol", required=True, help="Release that wrote the bytes: 0.7, 0.8, 0.8.2, 0.10 …")
_kind = click.option("--kind", required=True, type=click.Choice(KINDS))
_api = click.option("--api", help="Type of response: metadata, fetch, list_offsets …; a request names its own.")
_version = click.option("--version", type=click.IntRange(min=0), help="Version of the api; a request names its own.")


def _kernels() -> list[str]:
    """Return the kernels that run here, as lines.  Raises UsageError if KAFKAWIRE_KERNELS names others."""
    try:
        return [f"column kernels {kernels.name()}"]
    except WireError as exc:
        raise click.UsageError(str(exc)) from None


main = Program("kafkawire", help="Kafka's bytes, for people.", versions=_kernels, completes=False)


@main.command()
@_protocol
@_kind
@_api
@_version
@click.option("--framed", is_flag=True, help="The bytes begin with the frame's size field.")
@click.option(
    "--start-offset",
    type=int,
    help="Skip messages before this offset; for 0.7: offset of the first byte (default: from a segment name, else 0).",
)
@click.argument("data", metavar="HEX|-|FILE")
def decode(
    protocol: str, kind: str, api: str | None, version: int | None, framed: bool, start_offset: int | None, data: str
) -> None:
    """Decode bytes and print them: a log as JSON lines, anything else as one JSON document.

    Give the bytes as text (hex, also with 0x or colons; hexdump -C; xxd; a list of numbers; a string of Python, Ruby or
    Node; base64), as - for standard input, or as an existing file; standard input and files may hold such text, or raw
    bytes.  Write ./NAME for a file whose name could be taken for text.

    A log is a raw segment file of a broker: .kafka for 0.7, .log for later releases.  Each message is printed as one
    line; the line of a wrapper or batch comes before its messages.  The last line says where the entries end.
    """
    spoken = _usage(lambda: generations.generation(protocol))
    _fits(kind, framed, api, version)
    start = spoken.lowest if start_offset is None else start_offset
    if kind == "log":
        _show_log(spoken, data, start_offset)
        return
    if kind == "message-set":
        octets = _octets(data)
        decoded = _guarded(lambda: spoken.message_set(octets, start))
    elif kind == "request":
        octets = _octets(data)
        decoded = _guarded(lambda: spoken.request(octets, framed, start))
        _usage(lambda: spoken.asked(decoded[0], api, version))
    else:
        answer, octets = _usage(lambda: spoken.answer(api, version)), _octets(data)
        decoded = _guarded(lambda: answer(octets, framed, start))
    document, damage = decoded
    print_text(json.dumps(document, indent=2, ensure_ascii=False))
    if damage is not None:
        _fail(damage)


def _fits(kind: str, framed: bool, api: str | None, version: int | None) -> None:
    """Reject options that do not apply to a message set."""
    if kind in ("message-set", "log"):
        given = {"--framed": framed, "--api": api is not None, "--version": version is not None}
        for name, there in given.items():
            if there:
                raise click.UsageError(f"{name}: a {kind.replace('-', ' ')} has neither frame nor api")


def _usage(look: Callable[[], T]) -> T:
    """Call `look` and turn its LocalError into an error of the command line."""
    try:
        return look()
    except LocalError as exc:
        raise click.UsageError(str(exc)) from None


def _guarded(work: Callable[[], T]) -> T:
    try:
        return work()
    except WireError as exc:
        _fail(exc)


def _fail(damage: WireError) -> NoReturn:
    print_note(f"kafkawire: {damage}")
    sys.exit(1)


# ---- what is read ----------------------------------------------------------------------------------------------


def _show_log(spoken: Generation, name: str, start_offset: int | None) -> None:
    path = Path(name)
    if name == "-":
        octets = sys.stdin.buffer.read()
        base = None
    else:
        octets = _file(path)
        base = int(path.stem) if _BASE.fullmatch(path.stem) else None
        if path.suffix in NO_SEGMENTS:
            raise click.UsageError(f"{name}: {NO_SEGMENTS[path.suffix]}; the messages are in the {spoken.suffix} file")
        others = {".kafka", ".log"} - {spoken.suffix}
        if path.suffix in others:
            raise click.UsageError(f"{name}: segments of this release end in {spoken.suffix}")
    start = _usage(lambda: spoken.log_start(base, start_offset))
    first = start_offset if base is None else base
    damage = _guarded(lambda: show_log(spoken.parts(octets, start), octets, first, _print_line))
    if damage is not None:
        _fail(damage)


def _print_line(document: Document) -> None:
    print_text(json.dumps(document, ensure_ascii=False))


def _octets(data: str) -> bytes:
    if data == "-":
        return _text_or_raw(sys.stdin.buffer.read())
    octets = from_text(data)
    return _text_or_raw(_file(Path(data), data)) if octets is None else octets


def _file(path: Path, data: str | None = None) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as exc:  # ValueError: a path with a null byte
        what = f"{str(path)!r} cannot be read as a file"
        if data is not None:
            what = f"{data[:80]!r} is neither hex, nor a decimal list, nor a readable file"
        raise click.UsageError(f"{what}: {exc}") from exc


def _text_or_raw(octets: bytes) -> bytes:
    """Return the bytes that a text stands for; raw bytes are returned unchanged.  Kafka's own bytes are never all
    printable."""
    if not octets.strip() or not all(32 <= octet < 127 or octet in b"\t\n\r" for octet in octets):
        return octets
    text = octets.decode("ascii")
    found = from_text(text)
    if found is None:
        raise click.UsageError(f"{text.strip()[:60]!r}… is text in an unknown form; known: {KNOWN}")
    return found


if __name__ == "__main__":
    main(prog_name="python -m kafkawire")
