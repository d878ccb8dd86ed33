"""Numbers for Prometheus, shown by a registry for as long as somebody has them.  Needs prometheus-client.

A registry may have a name only once, so all who have numbers of one kind share a Collector: it is registered with the
first of them and gone with the last.
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
    """What has numbers."""

    def add_to(self, families: Families) -> None:
        """Add its own, as they are now; in the scraper's thread."""
        ...


class Collector:
    """All that one registry shows of one kind.  families makes empty ones."""

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
        """A second call changes nothing."""
        with self._lock:
            if shown in self._shown:
                self._shown.remove(shown)
                if not self._shown:
                    self._registry.unregister(self)

    def describe(self) -> list[Any]:
        """The names, for the registry's check that nobody else has them."""
        return list(self._families().values())

    def collect(self) -> Iterator[Any]:
        """What a scrape gets."""
        with self._lock:
            shown = list(self._shown)
        families = self._families()
        for each in shown:
            each.add_to(families)
        yield from families.values()


def by_name(families: Iterable[Any]) -> Families:
    return {family.name: family for family in families}


def missing() -> str:
    """Why metrics.enable cannot be, a sentence: prometheus-client is not installed; empty where it is."""
    if find_spec("prometheus_client") is not None:
        return ""
    return "option 'metrics.enable' needs prometheus-client: pip install 'kafka-legacy-mirror[metrics]'"


_collectors: dict[tuple[int, Callable[[], Families]], Collector] = {}  # as long as the process lives
_making = threading.Lock()


def collector(registry: CollectorRegistry | None, families: Callable[[], Families]) -> Collector:
    """The one of a registry (None: the default one) and kind.  OptionError where prometheus-client is not installed."""
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
