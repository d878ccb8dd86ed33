"""Many small cases in one test.  Pytest takes milliseconds for a test of its own, in each worker that collects it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def each(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As pytest.mark.parametrize, with one test for all cases, which share its fixtures.  The first that fails ends it,
    and is named below its traceback.  Several of them above a test combine."""
    several, kept = not isinstance(names, str), list(cases)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            for case in kept:
                given = dict(zip(names, case, strict=True)) if several else {str(names): case}
                try:
                    test(**given, **fixtures)
                except Exception as failed:
                    failed.add_note(f"the case: {given}")
                    raise

        signature = inspect.signature(test)
        left = [p for name, p in signature.parameters.items() if name not in ([*names] if several else [names])]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate
