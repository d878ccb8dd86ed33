"""Installed distributions: the version of this one, versions of libraries, entry points.

importlib.metadata is loaded at the first question: it brings a parser of e-mail along, a fifth of a short command's
start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

DISTRIBUTION = "kafka-legacy-mirror"
NOT_INSTALLED = "not installed"


def own_version() -> str:
    """Return the version of this distribution; NOT_INSTALLED when it is run from a zip or a folder."""
    from importlib.metadata import PackageNotFoundError

    try:
        return version_of(DISTRIBUTION)
    except PackageNotFoundError:
        return NOT_INSTALLED


def version_of(distribution: str) -> str:
    """Return the version of an installed distribution.  Raises PackageNotFoundError (ImportError)."""
    from importlib.metadata import version

    return version(distribution)


def entry_points(group: str) -> EntryPoints:
    """Return the entry points that installed distributions have in a group."""
    from importlib.metadata import entry_points as found

    return found(group=group)
