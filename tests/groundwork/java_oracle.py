"""Asks a real JVM what java.util says: JavaOracle.java, run once for all requests."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Sequence
from pathlib import Path


def word(text: str | bytes) -> str:
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


def plain(text: str) -> str:
    return base64.b64decode(text).decode()


def ask_java(requests: Sequence[Sequence[str]]) -> list[str | None]:
    """A reply a request; None where Java refuses.  A request is `match PATTERN NAME..`, `filter`, `string`, ..."""
    lines = "".join(f"{kind} {' '.join(map(word, texts))}\n" for kind, *texts in requests)
    command = ["java", "-XX:+UseSerialGC", "-Xmx64m", str(Path(__file__).with_name("JavaOracle.java"))]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    replies = done.stdout.splitlines()
    assert len(replies) == len(requests)
    return [None if reply == "!" else reply[1:] for reply in replies]
