"""Commits that are refused, as a program gets to know them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from zkconsumer.errors import NotCommitted


def not_committed(commit: Callable[..., object], *args: object) -> NotCommitted:
    """The error that commit(*args) raises."""
    with pytest.raises(NotCommitted) as raised:
        commit(*args)
    return raised.value
