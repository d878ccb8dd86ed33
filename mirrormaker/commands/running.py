"""The running mirror that a command means: by its configuration FILE, by --socket, or the only one that runs here."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from groundwork.optionfiles import yaml_file
from groundwork.options import OptionError
from groundwork.output import fail, print_note, print_text
from groundwork.streams import DISK_FULL, discard
from mirrormaker import exits
from mirrormaker.control.client import Connection, NoMirror, Refused, connect
from mirrormaker.control.place import OFF, all_sockets, candidates

F = TypeVar("F", bound=Callable[..., Any])
SUFFIXES = (".yaml", ".yml", ".properties")
SECTION, OPTION = "mirror", "control.socket"

socket_option = click.option(
    "--socket", "socket_path", type=click.Path(path_type=Path), help="Path of the mirror's control socket."
)
source_option = click.option("--source", help="Name of the source; default: all of them.")


def split_file(words: Sequence[str]) -> tuple[Path | None, list[str]]:
    """Return the FILE that a command line begins with, or None, and the other words."""
    if words and (os.sep in words[0] or words[0].endswith(SUFFIXES)):
        return Path(words[0]), list(words[1:])
    return None, list(words)


def ask(file: Path | None, socket_path: Path | None, command: str, **arguments: Any) -> Any:
    """Return the answer of the running mirror.  Ends the command if no mirror answers, or if it refuses."""
    with explained():
        return next(opened(file, socket_path).answers(command, _given(arguments)))


def stream(file: Path | None, socket_path: Path | None, command: str, **arguments: Any) -> Iterator[Any]:
    """Its answers, as they come."""
    with explained():
        yield from opened(file, socket_path).answers(command, _given(arguments))


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


@contextmanager
def explained() -> Iterator[None]:
    """End the command with a sentence and an exit code where the mirror does not answer, or refuses."""
    try:
        yield
    except NoMirror as reason:
        fail(str(reason), exits.PERMISSION if reason.forbidden else exits.UNREACHABLE)
    except Refused as reason:
        fail(str(reason), exits.REFUSED)


def opened(file: Path | None, socket_path: Path | None) -> Connection:
    """A connection to the mirror that is meant.  Raises NoMirror."""
    if socket_path is not None:
        return connect([socket_path], named=True)
    if file is None:
        return connect([_only_one()])
    configured = configured_socket(file)
    if configured == OFF:
        raise NoMirror(f"{file} switches the control socket off ({SECTION}.{OPTION}: {OFF})")
    places = candidates(file.stem, configured, os.environ)
    try:
        found = connect(places)
    except NoMirror as reason:
        missing = "" if file.exists() else f"{file}: no such file; of that name "
        raise NoMirror(f"{missing}{reason}", reason.forbidden) from reason
    others = [place for place in places if place.name.startswith(f"{found.path.name}.")]
    if others:
        listed = ", ".join(map(str, others))
        print_note(f"this is {found.path}; of the same file there is also {listed} (--socket)")
    return found


def configured_socket(file: Path) -> str:
    """Return the file's control socket; "" if it names none, or this user may not read it."""
    if file.suffix == ".properties":
        return ""
    try:
        values = yaml_file(file)
    except OptionError:
        return ""
    section = values.get(SECTION) if isinstance(values, dict) else None
    return str(section.get(OPTION) or "") if isinstance(section, dict) else ""


def _only_one() -> Path:
    """Return the socket of the only mirror that runs here.  Raises NoMirror, click.UsageError."""
    found = all_sockets(os.environ)
    alive = []
    for place in found:
        try:
            connect([place])._socket.close()
        except NoMirror as reason:
            if not reason.forbidden:
                continue
        alive.append(place)
    if not alive:
        raise NoMirror(
            "no mirror answers at a default place of this user or of systemd: name its configuration FILE, or --socket "
            "with the path that its log says"
        )
    if len(alive) > 1:
        listed = ", ".join(place.name.removesuffix(".sock") for place in alive)
        raise click.UsageError(f"several mirrors run here: {listed}; name the FILE of one, or --socket PATH")
    return alive[0]


def say(sentences: Sequence[str]) -> None:
    """Print what the mirror did, a line each."""
    for sentence in sentences:
        print_text(sentence)


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """A reader that closes the pipe (head), and a terminal that is gone, end the command without a word; a disk that is
    full ends it with a sentence."""
    try:
        yield
        sys.stdout.flush()
    except OSError as exc:
        if exc.errno not in (errno.EPIPE, errno.EIO, *DISK_FULL):
            raise
        discard(sys.stdout)
        if exc.errno not in (errno.EPIPE, errno.EIO):
            fail(f"what was to be printed cannot be written: {exc.strerror}", exits.TEMPORARY)
