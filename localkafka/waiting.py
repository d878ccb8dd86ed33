"""Waiting for a condition, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from localkafka.errors import LocalKafkaError

T = TypeVar("T")


def wait_until(
    check: Callable[[], T | None],
    timeout_s: float,
    what: str | Callable[[], str],
    every_s: float = 0.05,
) -> T:
    """Wait until check() is true, and return its value.  Raises LocalKafkaError after timeout_s.
    what: the end of its sentence ("broker 1 to register"), or a function that returns it."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = check()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            sentence = what if isinstance(what, str) else what()
            raise LocalKafkaError(f"waited {timeout_s:g} s in vain for {sentence}")
        time.sleep(every_s)
