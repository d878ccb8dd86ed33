"""Attempts at a batch: owners of staging folders, and when these may be deleted.

    claimed     N-a.claim names the process; no other writes into N-a/
    sealed      N-a.seal, made exclusively, says for what:
                `commit`   its driver goes to its commit: no other driver deletes the folder while N is open
                `nothing`  it was given up: its driver notices before its commit, and loses
    decided     commits/N is there: every attempt at N may go, once N is published

Without the seal a driver that recovers could delete the files of another that is just about to commit them.
N-a/portions/ outlives an attempt that is given up: what is finished there the next attempt takes over, by moving it
into its own folder, and deletes the rest.  An attempt that is sealed for nothing never commits, so no file can be taken
from under a commit. The number of an attempt is not used again while its batch is open: claim and seal outlive a folder
that was given up.
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundwork.jsontext import json_value
from sparkpipeline.errors import Missing
from sparkpipeline.ledger.files import Files
from sparkpipeline.ledger.manifests import utc
from sparkpipeline.paths import Layout, attempt_of

FOR_COMMIT, FOR_NOTHING = "commit", "nothing"
FOLDER, SEAL = "folder", "seal"
PORTIONS = "portions"  # of a staging folder: what a later attempt at the same plan may take over
STALE_MS = 24 * 3600 * 1000  # a claim of another machine that is older is held for one of a driver that died


@dataclass(frozen=True, slots=True)
class Attempt:
    """State of one attempt, from its files.  owner: host, pid, since_ms, place and start of the process (empty when the
    claim cannot be read); sealed: None, "commit" or "nothing"."""

    batch: int
    attempt: int
    owner: dict[str, Any]
    sealed: str | None

    def __str__(self) -> str:
        by = f" by {self.owner['host']} pid {self.owner['pid']}" if "host" in self.owner else ""
        return f"attempt {self.attempt} at batch {self.batch}{by}"


class Attempts:
    """Staging folder of a ledger."""

    def __init__(self, files: Files, layout: Layout, clock: Callable[[], int]) -> None:
        self._files = files
        self._layout = layout
        self._clock = clock

    def claim(self, batch: int) -> int:
        """Return the number of a new attempt, owned by us.  Check afterwards whether the batch is still open: the
        number of an attempt deleted with its decided batch becomes free."""
        taken = [attempt for found, attempt in self._found() if found == batch]
        number = max(taken, default=0) + 1
        text = _text({**_ourselves(), "batch": batch, "since_ms": (now := self._clock()), "since": utc(now)})
        while not self._made(self._layout.claim(batch, number), text):
            number += 1
        return number

    def seal(self, batch: int, attempt: int) -> bool:
        """Seal the attempt for its commit.  Return False if it was given up, by us or by another driver."""
        return self._sealed(batch, attempt, FOR_COMMIT)

    def give_up(self, batch: int, attempt: int, ours: bool = False) -> bool:
        """Delete what an attempt at an open batch wrote, but for its portions, so that it cannot be committed.  False:
        it is sealed for its commit, and untouched; unless it is ours, and we know that we will not commit it."""
        if not self._sealed(batch, attempt, FOR_NOTHING) and not ours and self.sealed(batch, attempt) == FOR_COMMIT:
            return False
        folder = self._layout.staging(batch, attempt)
        entries = self._files.list(folder)
        if not any(entry.name == PORTIONS for entry in entries):
            self._files.delete(folder, recursive=True)
            return True
        for entry in entries:
            if entry.name != PORTIONS:
                self._files.delete(entry.path, recursive=True)
        return True

    def left(self, batch: int) -> list[str]:
        """Return the staging folders of attempts that were given up and left portions, the newest first.  They are the
        caller's, which has claimed an attempt of its own: to move files out of, and to delete."""
        given_up = [one for one, parts in self._found().items() if one[0] == batch and FOLDER in parts]
        return [
            self._layout.staging(*one) for one in reversed(given_up) if self.sealed(*one) == FOR_NOTHING
        ]  # fmt: skip

    def drop(self, batch: int, attempt: int) -> None:
        """Delete all of an attempt.  Only for a decided batch (published, where this attempt is the one committed), or
        by the driver of the attempt when it will not commit."""
        self._files.delete(self._layout.staging(batch, attempt), recursive=True)
        self._files.delete(self._layout.seal(batch, attempt))
        self._files.delete(self._layout.claim(batch, attempt))  # the last: it keeps others out of the folder

    def of(self, batch: int) -> list[Attempt]:
        """Return the attempts at a batch, also those given up."""
        return [self._attempt(*found) for found in self._found() if found[0] == batch]

    def sweep(self, next_batch: int, alone: bool, tell: Callable[[str], None]) -> None:
        """Drop attempts at batches below next_batch (they are published or abandoned), and give up those at
        next_batch whose driver is gone: its process is not there any more, or the claim is a day old and another
        machine's; all of them where the caller knows that it is alone."""
        for (batch, attempt), parts in self._found().items():
            if batch < next_batch:
                self.drop(batch, attempt)
            elif batch == next_batch and (FOLDER in parts or SEAL not in parts):
                found = self._attempt(batch, attempt)
                lost = found.sealed != FOR_COMMIT and (found.sealed or alone or self._gone(found.owner))
                if lost and self.give_up(batch, attempt):
                    kept = self._files.exists(f"{self._layout.staging(batch, attempt)}/{PORTIONS}")
                    what = "what it finished is looked at" if kept else "what it wrote is deleted"
                    tell(f"{found}: its driver is gone, and {what}")

    def sealed(self, batch: int, attempt: int) -> str | None:
        try:
            return str(_row(self._files.read(self._layout.seal(batch, attempt))).get("for"))
        except Missing:
            return None

    def _sealed(self, batch: int, attempt: int, purpose: str) -> bool:
        path = self._layout.seal(batch, attempt)
        return self._made(path, _text({**_ourselves(), "for": purpose, "at": utc(self._clock())}))

    def _made(self, path: str, data: bytes) -> bool:
        return made(self._files, path, data)

    def _found(self) -> dict[tuple[int, int], set[str]]:
        """Return batch and attempt -> which of folder, claim and seal exist."""
        found: dict[tuple[int, int], set[str]] = {}
        for entry in self._files.list(self._layout.folder("staging")):
            name = attempt_of(entry.name)
            if name is not None:
                found.setdefault(name, set()).add(entry.name.rpartition(".")[2] if not entry.is_folder else FOLDER)
        return dict(sorted(found.items()))

    def _attempt(self, batch: int, attempt: int) -> Attempt:
        try:
            owner = _row(self._files.read(self._layout.claim(batch, attempt)))
        except Missing:
            owner = {}
        return Attempt(batch, attempt, owner, self.sealed(batch, attempt))

    def _gone(self, owner: dict[str, Any]) -> bool:
        since = owner.get("since_ms", 0)
        if not isinstance(since, int) or self._clock() - since > STALE_MS:
            return True
        ours = _ourselves()
        if owner.get("host") != ours["host"] or not ours["place"] or owner.get("place") != ours["place"]:
            return False
        return owner.get("start") != _start(owner.get("pid"))


def made(files: Files, path: str, data: bytes) -> bool:
    """Create a file; return True also if an existing one has our content: a store that repeats a request after a lost
    link refuses its own work the second time."""
    if files.create(path, data):
        return True
    try:
        return files.read(path) == data
    except Missing:
        return False


def _ourselves() -> dict[str, Any]:
    """Describe this process, so that another one on the same machine can check whether it still runs."""
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "place": _place(),
        "start": _start(os.getpid()),
        "token": uuid.uuid4().hex,
    }


def _place() -> str:
    """Return an identifier of this boot and pid namespace; empty without /proc."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _start(pid: object) -> str | None:
    """Return when a process started, in ticks of this boot; None if it does not exist."""
    if not isinstance(pid, int):
        return None  # a foreign claim: it must not name a file for us to open
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def _text(row: dict[str, Any]) -> bytes:
    return (json.dumps(row, sort_keys=True) + "\n").encode()


def _row(data: bytes) -> dict[str, Any]:
    """Return a claim or seal; empty for what is not one: it decides nothing then."""
    try:
        row = json_value(data)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}
