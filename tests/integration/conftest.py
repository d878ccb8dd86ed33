"""What every test on real clusters leaves behind: nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.mirroring import close_loads


@pytest.fixture(autouse=True)
def loads_end_with_their_test() -> Iterator[None]:
    yield
    close_loads()
