"""Loading of a user's Python function that a configuration names as package.module:function."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


class NotLoaded(Exception):
    """The name does not lead to a callable; the text is one sentence that names the option."""


def load_named(option: str, named: str) -> Callable[..., Any]:
    """The callable at "package.module:function" (function may have dots), the value of `option`.  Raises NotLoaded."""
    module, colon, function = named.partition(":")
    if not colon or not module or not function:
        raise NotLoaded(f"{option} '{named}' is not of the form package.module:function")
    try:
        found: object = importlib.import_module(module)
    except Exception as exc:  # whatever importing a user's module raises
        raise NotLoaded(f"{option} '{named}': importing {module} failed: {type(exc).__name__}: {exc}") from exc
    for name in function.split("."):
        if not hasattr(found, name):
            raise NotLoaded(f"{option} '{named}': {module} has no {function}")
        found = getattr(found, name)
    if not callable(found):
        raise NotLoaded(f"{option} '{named}': {function} cannot be called, it is a {type(found).__name__}")
    return found
