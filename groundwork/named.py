"""Loading of a user's Python function that a configuration names as package.module:function."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

_LOADED: dict[str, tuple[int, int] | None] = {}  # by module: the time and size of its file when it was loaded


class NotLoaded(Exception):
    """The name does not lead to a callable; the text is one sentence that names the option."""


def load_named(option: str, named: str) -> Callable[..., Any]:
    """Return the callable at "package.module:function" (function may have dots), the value of `option`.  Raises
    NotLoaded."""
    module, colon, function = named.partition(":")
    if not colon or not module or not function:
        raise NotLoaded(f"{option} '{named}' is not of the form package.module:function")
    try:
        found: object = importlib.import_module(module)
    except Exception as exc:  # whatever importing a user's module raises
        raise NotLoaded(f"{option} '{named}': importing {module} failed: {type(exc).__name__}: {exc}") from exc
    _LOADED.setdefault(module, _stamp(sys.modules[module]))
    return _callable(found, option, named)


def load_again(option: str, named: str) -> Callable[..., Any]:
    """Return the callable as load_named() does, but load the module again if its file has changed.

    Raises NotLoaded; then the module is what it was.  Other modules keep what they have imported from it.
    """
    module = named.partition(":")[0]
    there = sys.modules.get(module)
    if module not in _LOADED or there is None or not isinstance(getattr(there, "__loader__", None), SourceFileLoader):
        return load_named(option, named)
    stamp = _stamp(there)
    if stamp == _LOADED[module]:
        return load_named(option, named)
    spec = there.__spec__
    assert spec is not None
    assert spec.origin is not None
    fresh = importlib.util.module_from_spec(spec)
    try:
        # Not by the loader: its cache of compiled files takes a change within one second for none.
        exec(compile(Path(spec.origin).read_bytes(), spec.origin, "exec"), fresh.__dict__)
    except Exception as exc:  # whatever a user's module raises
        raise NotLoaded(f"{option} '{named}': loading {module} again failed: {type(exc).__name__}: {exc}") from exc
    found = _callable(fresh, option, named)
    sys.modules[module], _LOADED[module] = fresh, stamp
    package, _, name = module.rpartition(".")
    if package in sys.modules:
        setattr(sys.modules[package], name, fresh)
    return found


def file_of(named: str) -> Path | None:
    """Return the file of the module that "package.module:function" names; None if it has none or is not found."""
    module = named.partition(":")[0]
    try:
        there = sys.modules.get(module)
        spec = there.__spec__ if there is not None else importlib.util.find_spec(module)
    except Exception:  # whatever importing a user's package raises
        return None
    return Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None


def _stamp(module: ModuleType) -> tuple[int, int] | None:
    """Return the time and size of a module's file; None: it has none."""
    try:
        stat = os.stat(getattr(module, "__file__", None) or "")
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


def _callable(found: object, option: str, named: str) -> Callable[..., Any]:
    """Return the callable with that name in a module.  Raises NotLoaded."""
    module, _, function = named.partition(":")
    for name in function.split("."):
        if not hasattr(found, name):
            raise NotLoaded(f"{option} '{named}': {module} has no {function}")
        found = getattr(found, name)
    if not callable(found):
        raise NotLoaded(f"{option} '{named}': {function} cannot be called, it is a {type(found).__name__}")
    return found
