"""The compiled checksums are zlib's, whichever of them a machine runs."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

from kafkawire.formats import checksums as c
from tests.kafkawire.wire_vectors import named

DATA = random.Random(8).randbytes(3000)
Checksum = Callable[..., int]
FORMS = [c._crc32_tables] if c.best() is c._crc32_tables else [c._crc32_tables, c._crc32_folded]


@pytest.fixture(scope="module", params=FORMS)
def crc32(request: pytest.FixtureRequest) -> Any:
    """One form, compiled for writable buffers: once for all tests of a worker."""
    return numba.njit(request.param)


@pytest.mark.thorough
def test_the_check_string_has_the_checksum_of_the_vectors(crc32: Checksum) -> None:
    vector = named("crc32c_check")
    tables = c.tables()
    found = crc32(np.frombuffer(vector.data, np.uint8), 0, len(vector.data), tables)
    assert f"{found:08x}" == vector.decoded["crc32"]


@pytest.mark.thorough
def test_every_length_and_place_has_the_checksum_of_zlib(crc32: Checksum) -> None:
    tables = c.tables()
    octets = np.frombuffer(DATA, np.uint8)
    for size in [*range(300), 511, 512, 1014, 1015, 2900]:
        for at in (0, 1, 7):
            assert crc32(octets, at, at + size, tables) == zlib.crc32(DATA[at : at + size]), (size, at)
