"""Metrics for Prometheus, shown by a registry as long as an object provides them.  Needs prometheus-client.

A registry takes each metric name only once, so all objects with the same metrics share a Collector.  It is registered
with the first object and unregistered with the last.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from groundwork.options import OptionError

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

Families = dict[str, Any]  # prometheus_client's metric families, by name


class Shown(Protocol):
    """An object that provides metrics."""

    def add_to(self, families: Families) -> None:
        """Add the current values to the families; called in the scraper's thread."""
        ...


class Collector:
    """Collector of all objects of one kind in one registry.  families: makes empty metric families."""

    def __init__(self, registry: CollectorRegistry, families: Callable[[], Families]) -> None:
        self._registry = registry
        self._families = families
        self._shown: list[Shown] = []
        self._lock = threading.Lock()

    def add(self, shown: Shown) -> None:
        with self._lock:
            self._shown.append(shown)
            if len(self._shown) == 1:
                self._registry.register(self)

    def remove(self, shown: Shown) -> None:
        """Remove an object; a second call changes nothing."""
        with self._lock:
            if shown in self._shown:
                self._shown.remove(shown)
                if not self._shown:
                    self._registry.unregister(self)

    def describe(self) -> list[Any]:
        """Return the families, so that the registry can check for duplicate names."""
        return list(self._families().values())

    def collect(self) -> Iterator[Any]:
        """Yield the families with the current values of all objects."""
        with self._lock:
            shown = list(self._shown)
        families = self._families()
        for each in shown:
            each.add_to(families)
        yield from families.values()


def by_name(families: Iterable[Any]) -> Families:
    return {family.name: family for family in families}


def missing() -> str:
    """Return a sentence when metrics.enable cannot be used because prometheus-client is not installed; else empty."""
    if find_spec("prometheus_client") is not None:
        return ""
    return "option 'metrics.enable' needs prometheus-client: pip install 'kafka-legacy-mirror[metrics]'"


_collectors: dict[tuple[int, Callable[[], Families]], Collector] = {}  # as long as the process lives
_making = threading.Lock()


def collector(registry: CollectorRegistry | None, families: Callable[[], Families]) -> Collector:
    """Return the collector of a registry (None: the default) and kind.  OptionError when prometheus-client is
    missing."""
    lacking = missing()
    if lacking:
        raise OptionError([lacking])
    from prometheus_client import REGISTRY

    shown_by = registry if registry is not None else REGISTRY
    with _making:
        key = (id(shown_by), families)
        if key not in _collectors:
            _collectors[key] = Collector(shown_by, families)
        return _collectors[key]
