"""Client-side SASL mechanisms as generators: they yield the bytes to send and are sent the responses.

    PLAIN          RFC 4616
    SCRAM-SHA-…    RFC 5802, 7677; Kafka uses names and passwords as UTF-8 without SASLprep
    OAUTHBEARER    RFC 7628 as in KIP-255

Uses no socket and no clock.  Raises Unexpected for an invalid response, or one that shows that the server does not know
our credentials.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Generator, Mapping

from groundwork.decimals import decimal_int
from groundwork.jsontext import json_value

Conversation = Generator[bytes, bytes, None]

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
SCRAM = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS = (PLAIN, *SCRAM, OAUTHBEARER)
# Kafka sets 4,096 to 16,384 (ScramMechanism); its command of the ZooKeeper days had no upper limit.  A million take
# about half a second of CPU time, which is the most that a broker may cost us per connection.
MIN_ITERATIONS, MAX_ITERATIONS = 4096, 1_000_000
_END = b"\x01"


class Unexpected(Exception):
    """The server's response is invalid; the text continues `the broker …`."""


def plain(user: str, password: str) -> Conversation:
    """Run PLAIN. Raises ValueError for a name or password that cannot be sent."""
    if "\0" in user or "\0" in password:
        raise ValueError("a name or password with a zero character")
    yield f"\0{user}\0{password}".encode()


def scram(
    mechanism: str,
    user: str,
    password: str,
    *,
    nonce: Callable[[], str] = lambda: secrets.token_urlsafe(24),
    derive: Callable[[str, bytes, bytes, int], bytes] = hashlib.pbkdf2_hmac,
) -> Conversation:
    """Run SCRAM. mechanism: a key of SCRAM.  derive: hashlib.pbkdf2_hmac, or a function that calls it in a thread: it
    takes at most half a second."""
    algorithm = SCRAM[mechanism]
    ours = nonce()
    bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={ours}"
    server_first = yield f"n,,{bare}".encode()
    said = _fields(server_first)
    if "e" in said:
        raise Unexpected(f"refuses the login: {said['e']}")
    salt, iterations = _salt(said), _iterations(said)
    theirs = said.get("r", "")
    if not theirs.startswith(ours) or theirs == ours:
        raise Unexpected("answered the login with a nonce that does not continue ours")
    salted = derive(algorithm, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    unproven = f"c=biws,r={theirs}"
    signed = b",".join((bare.encode(), server_first, unproven.encode()))
    signature = hmac.digest(hashlib.new(algorithm, client_key).digest(), signed, algorithm)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    last = _fields((yield f"{unproven},p={base64.b64encode(proof).decode()}".encode()))
    if "e" in last:
        raise Unexpected(f"refuses the login: {last['e']}")
    server_key = hmac.digest(salted, b"Server Key", algorithm)
    expected = base64.b64encode(hmac.digest(server_key, signed, algorithm)).decode()
    if not hmac.compare_digest(last.get("v", "").encode(), expected.encode()):
        raise Unexpected("cannot prove that it knows our password: it may be an impostor")


def oauthbearer(token: str, extensions: Mapping[str, str]) -> Conversation:
    """Run OAUTHBEARER. extensions: SASL extensions (KIP-342).  A refusal is JSON, which the client acknowledges."""
    if any(ord(character) < 0x21 or ord(character) > 0x7E for character in token) or not token:
        raise ValueError("the token has characters other than visible ASCII")
    more = b"".join(f"{name}={value}".encode() + _END for name, value in extensions.items())
    refused = yield b"n,," + _END + b"auth=Bearer " + token.encode() + _END + more + _END
    if refused:
        yield _END
        raise Unexpected(f"refuses the token: {_refusal(refused)}")


def _refusal(answer: bytes) -> str:
    try:
        found = json_value(answer)
        return ", ".join(f"{name} {found[name]}" for name in sorted(found)) or "without a reason"
    except (ValueError, TypeError):
        return answer[:200].decode("utf-8", "replace")


def _fields(message: bytes) -> dict[str, str]:
    """Return the fields of a SCRAM message, `k=v,k=v`."""
    try:
        parts = message.decode().split(",")
    except UnicodeDecodeError:
        raise Unexpected("answered the login with bytes that are not text") from None
    return {part[:1]: part[2:] for part in parts if part[1:2] == "="}


def _salt(said: Mapping[str, str]) -> bytes:
    try:
        return base64.b64decode(said["s"], validate=True)
    except (KeyError, ValueError):
        raise Unexpected("answered the login without a salt") from None


def _iterations(said: Mapping[str, str]) -> int:
    text = said.get("i", "")
    count = decimal_int(text, MIN_ITERATIONS, MAX_ITERATIONS)
    if count is None:
        raise Unexpected(
            f"requires {text[:40] or 'no'} iterations of SCRAM; {MIN_ITERATIONS} to {MAX_ITERATIONS} are accepted"
        )
    return count
