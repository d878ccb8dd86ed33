"""Documents of frames and sets per generation, for `decode`.

request, message_set, and the result of answer()   bytes -> (document, damage)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar, Protocol

from kafkawire.decode import v07 as document07
from kafkawire.decode import v08 as document08
from kafkawire.decode.documents import Document, Parts
from kafkawire.dialects import DIALECTS
from kafkawire.errors import LocalError, WireError
from kafkawire.formats.v01 import messages as messages08
from kafkawire.formats.v07 import layout
from kafkawire.protocol.apis import APIS, Api

Decoded = tuple[Document, WireError | None]
Answer = Callable[[bytes, bool, int], Decoded]  # (data, framed, start) of a response, which does not name its request
LINES = ("0.7", "0.8", "0.10")  # release lines named without their third number


class Generation(Protocol):
    """Decoders of one generation. suffix: of its segment files; lowest: the start that skips nothing."""

    suffix: ClassVar[str]
    lowest: ClassVar[int]

    def request(self, data: bytes, framed: bool, start: int) -> Decoded: ...

    def message_set(self, data: bytes, start: int) -> Decoded: ...

    def parts(self, data: bytes, start: int) -> Parts:
        """Yield the entries of a set, of any size, one by one."""

    def log_start(self, base: int | None, start: int | None) -> int:
        """Return the offset where a segment begins, from the number in its name and from --start-offset.  Raises
        LocalError if unknown."""

    def answer(self, api: str | None, version: int | None) -> Answer:
        """Return the decoder of a response for --api and --version.  Raises LocalError naming the options."""

    def asked(self, document: Document, api: str | None, version: int | None) -> None:
        """Raise LocalError if --api or --version differ from those that a request contains."""


def generation(release: str) -> Generation:
    """Return the generation of a release.  Raises LocalError with the known ones."""
    for name, row in DIALECTS.items():
        if f"{release}.".startswith(f"{name}.") or (release in LINES and name.startswith(f"{release}.")):
            return _V08() if row.offsets.count_messages else _V07()
    raise LocalError(f"--protocol {release}: known are {', '.join((*LINES, *DIALECTS))}")


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def plain(name: str) -> str:
    """Return a name in a canonical form: list_offsets, list-offsets and ListOffsets are the same."""
    return re.sub(r"[-_]", "", name).lower()


class _V07:
    suffix: ClassVar[str] = ".kafka"
    lowest: ClassVar[int] = layout.LOWEST

    def request(self, data: bytes, framed: bool, start: int) -> Decoded:
        return document07.request_document(data, framed, start)

    def message_set(self, data: bytes, start: int) -> Decoded:
        return document07.set_document(data, start)

    def parts(self, data: bytes, start: int) -> Parts:
        return document07.parts(data, start)

    def log_start(self, base: int | None, start: int | None) -> int:
        found = base if start is None else start
        if found is None:
            raise LocalError("the name of a 0.7 segment is its first byte offset (20 digits); give --start-offset")
        return found

    def answer(self, api: str | None, version: int | None) -> Answer:
        if version is not None:
            raise LocalError("--version: requests and responses of Kafka 0.7 have none")
        if api is None:
            raise LocalError("a response does not name its request; give --api")
        if plain(api) not in document07.RESPONSES:
            raise LocalError(f"--api {api}: responses of Kafka 0.7 are {', '.join(document07.RESPONSES)}")
        name = plain(api)
        return lambda data, framed, start: document07.response_document(data, framed, name, start)

    def asked(self, document: Document, api: str | None, version: int | None) -> None:
        if version is not None:
            raise LocalError("--version: requests and responses of Kafka 0.7 have none")
        name = document07.REQUESTS[document["request_id"]]
        if api is not None and plain(api) != name:
            raise LocalError(f"--api {api}: the request says it is {name}")


class _V08:
    suffix: ClassVar[str] = ".log"
    lowest: ClassVar[int] = messages08.LOWEST

    def request(self, data: bytes, framed: bool, start: int) -> Decoded:
        return document08.request_document(data, framed, start)

    def message_set(self, data: bytes, start: int) -> Decoded:
        return document08.set_document(data, start)

    def parts(self, data: bytes, start: int) -> Parts:
        return document08.parts(data, start)

    def log_start(self, base: int | None, start: int | None) -> int:
        return self.lowest if start is None else start

    def answer(self, api: str | None, version: int | None) -> Answer:
        found = _api(api)
        if found is None or version is None:
            raise LocalError("a response does not name its request; give --api and --version")
        if version > found.newest:
            raise LocalError(f"--version {version}: {found.name} is known in versions 0 to {found.newest}")
        return lambda data, framed, start: document08.response_document(data, framed, found, version, start)

    def asked(self, document: Document, api: str | None, version: int | None) -> None:
        found = _api(api)
        if found is not None and found.key != document["api_key"]:
            raise LocalError(f"--api {found.name}: the request says it is {APIS[document['api_key']].name}")
        if version is not None and version != document["api_version"]:
            raise LocalError(f"--version {version}: the request says it is {document['api_version']}")


def _api(name: str | None) -> Api | None:
    if name is None:
        return None
    for api in APIS.values():
        if api.name.lower() == plain(name):
            return api
    raise LocalError(f"--api {name}: known are {', '.join(snake(api.name) for api in APIS.values())}")
