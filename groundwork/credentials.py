"""Secrets outside of a configuration: in a file of their own, or a credential of systemd.

    file:/etc/mirrormaker/zk.auth    the text of the file
    credential:zk                    the text of $CREDENTIALS_DIRECTORY/zk, which LoadCredential=zk:PATH of a unit fills
    anything else                    the secret itself

One line end at the end of the text is not part of the secret.  The text is read once, when the option is.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from groundwork.options import Secret
from groundwork.optionvalues import SecretUnreadable, filled

FILE = "file:"
CREDENTIAL = "credential:"
FOLDER = "CREDENTIALS_DIRECTORY"  # what systemd sets
MAX_BYTES = 1 << 20  # systemd takes no more either


def secret(raw: object) -> Secret:
    """Option type: a secret, or the place of one.  Raises SecretUnreadable, and ValueError for an empty text."""
    text = secret_text(raw)
    if not isinstance(text, str) or not text:
        raise ValueError("text that is not empty")
    return Secret(text, path_of(raw))


def location(raw: object) -> str:
    """Option type: the path of a file; credential:NAME is the path of that credential."""
    return str(secret_file(raw) or filled(raw))


def secret_text(raw: object) -> object:
    """Return the secret that an option's value names; a value that names no file is returned as it is.

    Raises SecretUnreadable, which names the file and never quotes what is in it.
    """
    place = secret_file(raw)
    if place is None:
        return raw
    try:
        with place.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as exc:
        why = f"{raw}: {place} cannot be read: {exc.strerror}"
        raise SecretUnreadable(why, forbidden=isinstance(exc, PermissionError)) from None
    if len(data) > MAX_BYTES:
        raise SecretUnreadable(f"{raw}: {place} is larger than {MAX_BYTES} bytes: no secret is")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise SecretUnreadable(f"{raw}: {place} is not UTF-8") from None
    text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        raise SecretUnreadable(f"{raw}: {place} is empty")
    return text


def path_of(raw: object) -> str:
    """Return the path that a value names, for Secret.file; "" if the value is the secret itself."""
    return str(secret_file(raw) or "")


def others_may_read(path: str | Path) -> bool:
    """True if users beside the owner and the group of a file may read it."""
    try:
        return bool(os.stat(path).st_mode & stat.S_IROTH)
    except OSError:
        return False


def secret_file(raw: object) -> Path | None:
    """Return the file that a value names; None if it does not name one.  Raises SecretUnreadable."""
    text = raw.strip() if isinstance(raw, str) else ""
    if text.startswith(FILE):
        path = Path(text.removeprefix(FILE))
        if not path.is_absolute():
            raise SecretUnreadable(f"{text}: a path from / on is expected behind {FILE}")
        return path
    if text.startswith(CREDENTIAL):
        name = text.removeprefix(CREDENTIAL)
        if not name or "/" in name or name in (".", ".."):
            raise SecretUnreadable(f"{text}: the name of a credential is expected behind {CREDENTIAL}, without /")
        folder = os.environ.get(FOLDER)
        if not folder:
            raise SecretUnreadable(
                f"{text}: there are no credentials: systemd hands them to a service by LoadCredential={name}:PATH "
                f"(and names their folder in ${FOLDER})"
            )
        return Path(folder, name)
    return None
