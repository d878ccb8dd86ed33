"""`python -m kafkawire decode …`: any frame or message set as one JSON document; `--version -v`: what runs here.

Exit codes: 0 decoded; 1 the bytes make no sense (stderr says where); 2 the command line does not.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

import click

from kafkawire import columns
from kafkawire.dialects import DIALECTS
from kafkawire.errors import WireError
from kafkawire.v08.apis import APIS, Api
from kafkawire.v08.document import Document, request_document, response_document, set_document
from kafkawire.v08.messages import LOWEST

LINES = ("0.8", "0.10")  # release lines named without their third number
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}\s*)+")
_DECIMALS = re.compile(r"(?:<<|\[)?\s*\d{1,3}\s*(?:,\s*\d{1,3}\s*)*(?:>>|\])?")


@click.group(
    help="Kafka's bytes, for people.",
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.option("--version", "show_version", is_flag=True, help="Print the version; with -v, which kernels run too.")
@click.option("-v", "--verbose", is_flag=True, help="With --version.")
@click.pass_context
def main(ctx: click.Context, show_version: bool, verbose: bool) -> None:
    """Kafka's bytes, for people."""
    if show_version:
        _print_version(verbose)
        ctx.exit(0)
    if ctx.invoked_subcommand is None:
        raise click.UsageError("a command is missing; python -m kafkawire --help lists them", ctx)


@main.command()
@click.option("--protocol", required=True, help="Release the bytes come from: 0.8, 0.8.2, 0.9, 0.10 …")
@click.option("--kind", required=True, type=click.Choice(["request", "response", "message-set"]))
@click.option("--api", "api_name", help="Which response: metadata, fetch, list_offsets …; a request says so itself.")
@click.option("--version", type=click.IntRange(min=0), help="Version of the api; a request says so itself.")
@click.option("--framed", is_flag=True, help="The bytes begin with the size of the frame.")
@click.option("--start-offset", type=int, default=LOWEST, help="Leave out messages before this offset.")
@click.argument("data", metavar="HEX|-|FILE")
def decode(
    protocol: str, kind: str, api_name: str | None, version: int | None, framed: bool, start_offset: int, data: str
) -> None:
    """Print the bytes decoded, as one JSON document.

    They are hex, a decimal list such as <<0,0,0,3>>, - for standard input, or an existing file; the latter two hold
    either of those texts, or raw bytes.  A file whose name reads as hex is given as ./NAME.
    """
    _known_protocol(protocol)
    octets = _octets(data)
    api = _api(api_name)
    if kind == "message-set":
        if framed:
            raise click.UsageError("--framed: a message set has no frame")
        decoded = _guarded(lambda: set_document(octets, start_offset))
    elif kind == "request":
        decoded = _guarded(lambda: request_document(octets, framed, start_offset))
        _as_announced(decoded[0], api, version)
    else:
        if api is None or version is None:
            raise click.UsageError("a response does not say what it answers: give --api and --version")
        if version > api.newest:
            raise click.UsageError(f"--version {version}: {api.name} is known in versions 0 to {api.newest}")
        decoded = _guarded(lambda: response_document(octets, framed, api, version, start_offset))
    document, damage = decoded
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    if damage is not None:
        _fail(damage)


def _print_version(verbose: bool) -> None:
    click.echo(f"kafkawire {version('kafka-legacy-mirror')}")
    if verbose:
        try:
            click.echo(f"column kernels {columns.kernels()}")
        except WireError as exc:  # KAFKAWIRE_KERNELS says what is not there
            raise click.UsageError(str(exc)) from None


def _guarded(decode: Callable[[], tuple[Document, WireError | None]]) -> tuple[Document, WireError | None]:
    try:
        return decode()
    except WireError as exc:
        _fail(exc)


def _fail(damage: WireError) -> NoReturn:
    click.echo(f"kafkawire: {damage}", err=True)
    sys.exit(1)


def _known_protocol(text: str) -> None:
    known = [*LINES, *DIALECTS]
    if text not in known and not any(text.startswith(f"{name}.") for name in DIALECTS):
        raise click.UsageError(f"--protocol {text}: known are {', '.join(known)}")


def _api(name: str | None) -> Api | None:
    """The api of a name in any spelling: list_offsets, list-offsets, ListOffsets."""
    if name is None:
        return None
    plain = re.sub(r"[-_]", "", name).lower()
    for api in APIS.values():
        if api.name.lower() == plain:
            return api
    raise click.UsageError(f"--api {name}: known are {', '.join(snake(api.name) for api in APIS.values())}")


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _as_announced(document: Document, api: Api | None, version: int | None) -> None:
    """A request names its api and version; what the command line says must agree."""
    if api is not None and api.key != document["api_key"]:
        raise click.UsageError(f"--api {api.name}: the request says it is {APIS[document['api_key']].name}")
    if version is not None and version != document["api_version"]:
        raise click.UsageError(f"--version {version}: the request says it is {document['api_version']}")


def _octets(data: str) -> bytes:
    if data == "-":
        return _text_or_raw(sys.stdin.buffer.read())
    octets = _from_text(data)
    if octets is not None:
        return octets
    try:
        return _text_or_raw(Path(data).read_bytes())
    except (OSError, ValueError) as exc:  # ValueError: a path with a null byte
        raise click.UsageError(f"{data[:80]!r} is no hex, no decimal list and no file that can be read: {exc}") from exc


def _text_or_raw(octets: bytes) -> bytes:
    from_text = _from_text(octets.decode("ascii")) if octets.isascii() else None
    return octets if from_text is None else from_text


def _from_text(text: str) -> bytes | None:
    """Hex or a decimal list; None for neither."""
    text = text.strip()
    if _HEX.fullmatch(text):
        return bytes.fromhex(text)
    if "," in text or text.startswith("<<"):
        numbers = [int(number) for number in re.findall(r"\d+", text)]
        if _DECIMALS.fullmatch(text) and max(numbers) < 256:
            return bytes(numbers)
    return None


if __name__ == "__main__":
    main(prog_name="python -m kafkawire")
